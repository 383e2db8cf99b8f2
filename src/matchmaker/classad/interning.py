"""Interning: nodes with the same fields are one object, as long as somebody holds it."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final
from weakref import ref

from matchmaker.classad.locks import Lock
from matchmaker.classad.values import ErrorType


class _Reference(ref[Any]):
    """A weak reference to a node, with the node's key in the table."""

    __slots__ = ("key",)

    key: tuple[Any, ...]


# A WeakValueDictionary does the same at five times the cost of an entry.
_table: Final[dict[tuple[Any, ...], _Reference]] = {}
_lock: Final = Lock()


class Interned(type):
    """Makes a class give the node that it already has for the same fields."""

    def __call__(cls, *fields: Any) -> Any:
        """The node of these fields."""
        # Constants stand alone in a node. Other fields are nodes and texts, only like themselves.
        key: tuple[Any, ...]
        if len(fields) > 1:
            key = (cls, *fields)
        elif (kind := type(fields[0])) in _PLAIN:
            key = (cls, kind, fields[0])
        else:
            key = (cls, _key(fields[0]))
        reference = _table.get(key)
        if reference is not None:
            node = reference()
            if node is not None:
                return node
        node = type.__call__(cls, *fields)
        reference = _Reference(node, _remove)
        reference.key = key
        known = _table.setdefault(key, reference)
        return node if known is reference else _settled(node, reference)


def _settled(node: Any, reference: _Reference) -> Any:
    """The node that another thread entered meanwhile, or this one in place of one that ended."""
    with _lock:
        known = _table.get(reference.key)
        other = known() if known is not None else None
        if other is None:
            _table[reference.key] = reference
            return node
        return other


def _remove(reference: _Reference) -> None:
    # Without the calls of `with _lock`: this runs at the end of every node.
    with _lock.held:
        # Another node may have taken the place.
        if _table.get(reference.key) is reference:
            del _table[reference.key]


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
