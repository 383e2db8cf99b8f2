"""What an ad holds under a name, and what stands for it: in tables, and in rows of numbers.

A *content* is a plain value or an expression (``ClassAd.content``), or MISSING where the ad lacks
the attribute. How the contents of many ads are kept is in ``column``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from struct import Struct
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.classad import nodes
from matchmaker.classad.ad import literal
from matchmaker.classad.nodes import AdExpr, Attr, Binary, Call, ListExpr, Subscript, Ternary, Unary
from matchmaker.classad.values import ErrorType, UndefinedType

Bits: TypeAlias = "npt.NDArray[np.int64]"
Kinds: TypeAlias = "npt.NDArray[np.uint8]"


class Missing:
    """The class of what a row holds under a name that its ad lacks."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

# The kinds of plain values, as rows of numbers know them. A truth is one of the first four.
FALSE, TRUE, UNDEFINED_KIND, ERROR_KIND, INTEGER, REAL, OTHER, ABSENT = range(8)

THEMSELVES: Final[frozenset[type]] = frozenset({str, int, bool, UndefinedType, timedelta}) | {
    Attr, Unary, Binary, Ternary, Call, Subscript, ListExpr, AdExpr,
}  # fmt: skip
"""The classes of contents that are their own stand-ins."""


def identity(content: Any) -> Any:
    """A hashable stand-in: equal for contents of one class that are one to an ad, lists too.

    >>> identity([0.0]) is identity([-0.0]), identity([2]) is identity([2])
    (False, True)
    """
    kind = content.__class__
    if kind in THEMSELVES:
        return content
    return literal(content) if kind is list else nodes.identity(content)


def same(one: Any, other: Any) -> bool:
    """Whether two contents are one to an ad."""
    if one is other:
        return True
    kind = one.__class__
    if kind is not other.__class__:
        return False
    return bool(one == other if kind in THEMSELVES else identity(one) == identity(other))


def unlike(ones: list[Any], others: list[Any]) -> list[int]:
    """The places where two lists of contents differ."""
    # Python compares whole lists twenty times as fast as a loop does; most columns are equal.
    kinds = list(map(type, others))
    if ones == others and THEMSELVES.issuperset(kinds) and list(map(type, ones)) == kinds:
        return []
    pairs = enumerate(zip(ones, others, strict=True))
    return [at for at, (one, other) in pairs if one is not other and not same(one, other)]


def bits_of(real: float) -> int:
    """The 64 bits of a real, as an integer."""
    bits: int = _INTEGER.unpack(_REAL.pack(real))[0]
    return bits


_INTEGER: Final = Struct("q")
_REAL: Final = Struct("d")


def encoded(contents: Sequence[Any]) -> tuple[Kinds, Bits]:
    """Contents as kinds and bits; OTHER, with no bits, for what is neither number nor truth."""
    classes = set(map(type, contents))
    if classes == {int}:
        return np.full(len(contents), INTEGER, np.uint8), np.array(contents, np.int64)
    if classes == {float}:
        bits = np.array(contents, np.float64).view(np.int64)
        return np.full(len(contents), REAL, np.uint8), bits
    if classes == {bool}:
        # A truth is its own kind.
        return np.array(contents, np.uint8), np.array(contents, np.int64)
    kinds = np.full(len(contents), OTHER, np.uint8)
    bits = np.zeros(len(contents), np.int64)
    reals = bits.view(np.float64)
    for i, content in enumerate(contents):
        kind = content.__class__
        if kind is int:
            kinds[i], bits[i] = INTEGER, content
        elif kind is float:
            kinds[i], reals[i] = REAL, content
        elif kind in _KINDS:
            kinds[i] = bits[i] = _KINDS[kind] if kind is not bool else content
    return kinds, bits


_KINDS: Final[dict[Any, int]] = {
    bool: TRUE,
    UndefinedType: UNDEFINED_KIND,
    ErrorType: ERROR_KIND,
}
