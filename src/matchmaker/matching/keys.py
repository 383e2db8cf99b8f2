"""The key that tells ads apart: which one an ad has, and the errors for none and for one twice.

How keys are held is in ``columns.keys``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import shorten
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns.keys import DuplicateKeyError, key_from
from matchmaker.matching.pair import value_text


def key_of(ad: ClassAd, attribute: str) -> str:
    """The key of an ad, by the attribute that has it. Raises ValueError for an ad without one."""
    folded = ascii_fold(attribute)
    value: Any = ad._held.get(folded)
    if isinstance(value, Expr):
        value = ad.eval(value)
    key = key_from(value)
    if key is not None:
        return key
    # The ad is at fault, not the type of what the caller gave.
    shown = shorten(str(ad), 60)
    if folded not in ad._held:
        raise ValueError(f"an ad has no {attribute}: {shown}")
    raise ValueError(
        f"an ad has {attribute} = {shorten(value_text(value), 60)}; "
        f"a key is a string or an integer: {shown}"
    )


@contextmanager
def distinct(key: str) -> Iterator[None]:
    """Turns a DuplicateKeyError into a ValueError for people."""
    try:
        yield
    except DuplicateKeyError as duplicate:
        raise ValueError(_duplicates(key, duplicate.keys)) from None


def _duplicates(key: str, again: Sequence[str]) -> str:
    """The error message for duplicate keys: the first few, and how many ads have them."""
    names = list(dict.fromkeys(again))
    shown = ", ".join(shorten(repr(name), 60) for name in names[:5])
    if len(names) == 1:
        ads = "two" if len(again) == 1 else str(len(again) + 1)
        return f"{ads} ads have {key} = {shown}; the key must tell ads apart"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"several ads have the same {key}: {shown}{more}; the key must tell ads apart"
