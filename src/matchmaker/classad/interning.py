"""Interning: nodes with the same fields are one object, as long as somebody holds it."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final, TypeVar
from weakref import ref

from matchmaker._locks import Lock
from matchmaker.classad.values import ErrorType

_T = TypeVar("_T")

# A WeakValueDictionary does the same at five times the cost of an entry.
TABLE: Final[dict[tuple[Any, ...], ref[Any]]] = {}
"""The nodes that there are, by their fields. Whoever makes a node looks here first."""

_lock: Final = Lock()

LEAST: Final = 1 << 13
"""At least as many entries are made before those that ended are dropped, and at least as many as
were left: a call at the end of each node would take as long as making it."""

_bound: Final = [LEAST]

EXACT: Final = frozenset({str, int, bool})
"""The types of constants that are equal to Python exactly when they are to an ad."""

INEXACT: Final[tuple[type, ...]] = (float, datetime, ErrorType)
"""The types of constants that may be equal to Python and still differ to an ad."""


def entered(key: tuple[Any, ...], node: _T) -> _T:
    """Enters a node; gives the one that another thread entered meanwhile, or this one."""
    made = ref(node)
    if TABLE.setdefault(key, made) is not made:
        # It is also in place of one that ended.
        with _lock:
            other: _T | None = TABLE[key]() if key in TABLE else None
            if other is None:
                TABLE[key] = made
            return node if other is None else other
    if len(TABLE) > _bound[0]:
        tidy()
    return node


def tidy() -> None:
    """Drops the entries of nodes that nobody holds."""
    with _lock:
        # Other threads go on making nodes.
        entries = TABLE.copy()
        # From the last to the first, as an entry holds the parts of its node.
        while entries:
            key, made = entries.popitem()
            if made() is None:
                del TABLE[key]
        _bound[0] = len(TABLE) + max(LEAST, len(TABLE))


def exactly(value: Any) -> tuple[Any, Any]:
    """A key for a constant, which tells 1 from 1.0 from true."""
    kind = next((each for each in INEXACT if isinstance(value, each)), type(value))
    return kind, identity(value)


def identity(value: Any) -> Any:
    """A hashable stand-in that tells constants of one type apart as ads do.

    0.0 differs from -0.0, and equal instants with different offsets differ. NaN is itself.

    >>> identity(0.0) == identity(-0.0), identity(2) == identity(2)
    (False, True)
    """
    if isinstance(value, float):
        return repr(value) if not value or math.isnan(value) else value
    if isinstance(value, datetime):
        return value, value.utcoffset()
    return value.reason if isinstance(value, ErrorType) else value
