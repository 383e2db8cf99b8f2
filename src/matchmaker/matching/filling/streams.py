"""Stores filled from streams: by blocks of columns where that pays, ad by ad elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Final

from matchmaker.classad import formats
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats import json, new, old
from matchmaker.classad.formats.stream import Part, Syntax, cut, strict
from matchmaker.matching.columns.store import Store
from matchmaker.matching.columns.views import Block

CHUNK: Final = 1 << 24
"""How many bytes of a file are looked at together."""
_LEAST: Final = 1 << 20
"""A text of fewer characters than this is read faster than pyarrow is imported."""


def fill(store: Store, key: str, key_of: Callable[[ClassAd], str], found: formats.Stream) -> None:
    """Enters the ads of a stream, as ``extend`` of the store does with each under its key.

    `key` is the folded name of the key attribute. Raises ParseError as the stream reports it,
    ValueError as `key_of` does, and DuplicateKeyError.
    """
    makers = {"old": _blocks, "new": _bracketed, "json": _bracketed}
    blocks = makers.get(found.format)
    if blocks is not None and find_spec("pyarrow") is not None:
        try:
            store.absorb(blocks(found, key, key_of))
        finally:
            _give_back()
    else:
        store.extend((key_of(ad), ad) for ad in formats.ads_in(found))


def _give_back() -> None:
    """Gives back the memory that Arrow keeps for the next block."""
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.default_memory_pool().release_unused()


def _blocks(found: formats.Stream, key: str, key_of: Callable[[ClassAd], str]) -> Iterator[Block]:
    for text, number in old.whole_ads(found.pieces, found.report):
        if len(text) >= _LEAST and old.is_text(text):
            from matchmaker.matching.filling.blocks import block_of

            yield block_of(text, number, key, key_of, found.report)
        else:
            ads = old.ads_within(text, number, found.report)
            yield from Block.of_ads((key_of(ad), ad) for ad in ads)


def _bracketed(
    found: formats.Stream, key: str, key_of: Callable[[ClassAd], str]
) -> Iterator[Block]:
    format_ = {"new": new, "json": json}[found.format]
    for parts, error in _together(found, format_.SYNTAX):
        if sum(len(part.text) for part in parts) >= _LEAST:
            from matchmaker.matching.filling.blocks import block_of_objects, block_of_parts

            block = block_of_parts if format_ is new else block_of_objects
            yield block(parts, key, key_of, found.report)
        else:
            ads = format_.read_parts(iter(parts), found.report)
            yield from Block.of_ads((key_of(ad), ad) for ad in ads)
        if error is not None:
            found.report(error)


def _together(
    found: formats.Stream, syntax: Syntax
) -> Iterator[tuple[list[Part], ParseError | None]]:
    """The texts of many ads, with the error of the cutter that comes behind them."""
    parts: list[Part] = []
    size = 0
    for part in _parts(found, syntax):
        if isinstance(part, ParseError):
            yield parts, part
        else:
            parts.append(part)
            size += len(part.text)
            if size < CHUNK:
                continue
            yield parts, None
        parts, size = [], 0
    yield parts, None


def _parts(found: formats.Stream, syntax: Syntax) -> Iterator[Part | ParseError]:
    """The texts of ads, and the errors of the cutter between them."""
    if found.report is strict:
        try:
            yield from cut(found.pieces, syntax, strict)
        except ParseError as error:
            yield error
        return
    errors: list[ParseError] = []
    for part in cut(found.pieces, syntax, errors.append):
        yield from errors
        errors.clear()
        yield part
    yield from errors
