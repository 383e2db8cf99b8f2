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
    """A hashable stand-in for a constant, telling 1 from 1.0 from true and 0.0 from -0.0."""
    if isinstance(field, float):
        return float, field.hex() if math.isfinite(field) else repr(field)
    if isinstance(field, ErrorType):
        return ErrorType, field.reason
    if isinstance(field, datetime):
        # Equal instants with other offsets are other values.
        return datetime, field, field.utcoffset()
    return (type(field), field)
