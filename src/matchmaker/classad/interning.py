"""Interning: nodes with the same fields are one object, as long as somebody holds it."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final
from weakref import ref

from matchmaker.classad.locks import Lock
from matchmaker.classad.values import ErrorType

# A WeakValueDictionary does the same at five times the cost of an entry.
_table: Final[dict[tuple[Any, ...], ref[Any]]] = {}
_lock: Final = Lock()

LEAST: Final = 1 << 12
"""So many entries, or half of those that were left, are made before those that ended are dropped: a
call at the end of each node would take as long as making it."""

_bound: Final = [LEAST]


class Interned(type):
    """Makes a class give the node that it already has for the same fields."""

    def __call__(cls, *fields: Any) -> Any:
        """The node of these fields."""
        # Constants stand alone in a node. Other fields are nodes and texts, only like themselves,
        # and no two kinds of nodes have fields of the same types.
        key: tuple[Any, ...]
        if len(fields) > 1:
            key = fields
        elif (kind := type(fields[0])) in _PLAIN:
            key = (cls, kind, fields[0])
        else:
            key = (cls, _key(fields[0]))
        known = _table.get(key)
        if known is not None:
            node = known()
            if node is not None:
                return node
        node = type.__call__(cls, *fields)
        made = ref(node)
        if _table.setdefault(key, made) is not made:
            return _settled(key, node, made)
        if len(_table) > _bound[0]:
            tidy()
        return node


def _settled(key: tuple[Any, ...], node: Any, made: ref[Any]) -> Any:
    """The node that another thread entered meanwhile, or this one in place of one that ended."""
    with _lock:
        known = _table.get(key)
        other = known() if known is not None else None
        if other is None:
            _table[key] = made
        return other or node


def tidy() -> None:
    """Drops the entries of nodes that nobody holds."""
    with _lock:
        keys = list(_table)
        # From the last to the first, as an entry holds the parts of its node.
        while keys:
            key = keys.pop()
            if _table[key]() is None:
                del _table[key]
        _bound[0] = len(_table) + max(LEAST, len(_table) // 2)


def _key(field: Any) -> Any:
    """A hashable stand-in for a constant, telling 1 from 1.0 from true."""
    kind = next((each for each in INEXACT if isinstance(field, each)), type(field))
    return kind, identity(field)


_PLAIN: Final = frozenset({str, int, bool, tuple})


INEXACT: Final[tuple[type, ...]] = (float, datetime, ErrorType)
"""The types of constants that may be equal to Python and still differ to an ad."""


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
