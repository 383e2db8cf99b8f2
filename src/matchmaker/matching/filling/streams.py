"""Stores filled from streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from matchmaker.classad import formats
from matchmaker.classad.ad import ClassAd
from matchmaker.matching.columns.store import Store
from matchmaker.matching.columns.views import Block

CHUNK: Final = 1 << 20
"""How many bytes of a file are looked at together."""


def fill(store: Store, key: str, key_of: Callable[[ClassAd], str], found: formats.Stream) -> None:
    """Enters the ads of a stream, as ``extend`` of the store does with each under its key.

    `key` is the folded name of the key attribute. Raises ParseError as the stream reports it,
    ValueError as `key_of` does, and DuplicateKeyError.
    """
    store.absorb(Block.of_ads((key_of(ad), ad) for ad in formats.ads_in(found)))
