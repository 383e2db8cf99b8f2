"""Interning: nodes with the same fields are one object, as long as somebody holds it."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final
from weakref import WeakValueDictionary

from matchmaker.classad.locks import Lock
from matchmaker.classad.values import ErrorType

_table: Final[WeakValueDictionary[tuple[Any, ...], Any]] = WeakValueDictionary()
_lock: Final = Lock()


class Interned(type):
    """Makes a class give the node that it already has for the same fields."""

    def __call__(cls, *fields: Any) -> Any:
        """The node of these fields."""
        # Constants stand alone in a node. Other fields are nodes and texts, only like themselves.
        key = (cls, *fields) if len(fields) > 1 else (cls, *map(_key, fields))
        node = _table.get(key)
        if node is None:
            node = super().__call__(*fields)
            with _lock:
                node = _table.setdefault(key, node)
        return node


def _key(field: Any) -> Any:
    """A hashable stand-in for a constant, telling 1 from 1.0 from true."""
    kind = next((each for each in INEXACT if isinstance(field, each)), type(field))
    return kind, identity(field)


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
