"""How names of attributes are spelled: ads note only those that they spell otherwise than first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import getsizeof, intern
from typing import Final, TypeAlias

from matchmaker.classad.cache import Cache
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.operators import ascii_fold

FIRST: Final[dict[str, str]] = {}
"""How each name was spelled first. Nothing is ever dropped from it, since ads rest on it."""


def is_unusual(folded: str, name: str) -> bool:
    """Whether a name is spelled otherwise than it was first."""
    known = FIRST.get(folded)
    if known is None and len(FIRST) < LIMITS.spellings and len(name) <= LIMITS.spelling:
        known = FIRST.setdefault(folded, name)
    return known != name


def unusual_names(names: Mapping[str, str]) -> dict[str, str] | None:
    """Those of the names, by their folded forms, that were first spelled otherwise; None for none.

    >>> unusual_names({"onlyhere": "OnlyHere"}), unusual_names({"onlyhere": "ONLYHERE"})
    (None, {'onlyhere': 'ONLYHERE'})
    """
    return {folded: name for folded, name in names.items() if is_unusual(folded, name)} or None


Shape: TypeAlias = "tuple[tuple[str, ...], dict[str, str] | None]"
"""The folded forms of an ad's names, and what `unusual_names` gives of them."""

_shapes: Final[Cache[tuple[str, ...], Shape]] = Cache("names of ads", 1 << 23)


def shape_of(names: tuple[str, ...]) -> Shape:
    """What an ad has of its names; of one that comes twice, the first spelling counts."""
    shape = _shapes[names]
    if shape is None:
        folded = tuple(map(intern, _folded(names)))
        unusual = None
        if tuple(map(FIRST.get, folded)) != names:
            unusual = unusual_names(dict(zip(reversed(folded), reversed(names), strict=True)))
        # As size_of() would say, which takes longer than all the rest: many ads have new shapes.
        size = 100 * len(names) + 3 * sum(map(getsizeof, names))
        shape = _shapes.put(names, (folded, unusual), size)
    return shape


def _folded(names: tuple[str, ...]) -> Iterable[str]:
    """The folded forms, at once where that is possible. Raises TypeError for what is no string."""
    try:
        text = "\n".join(names)
    except TypeError:
        for name in names:
            check_name(name)
        raise
    folded = text.lower().split("\n") if text.isascii() else []
    return folded if len(folded) == len(names) else map(ascii_fold, names)


def check_name(name: object) -> None:
    """Raises TypeError for a name that is no string."""
    if not isinstance(name, str):
        raise TypeError(f"an attribute name is a string, not {type(name).__name__}")
