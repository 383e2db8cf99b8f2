"""Columns as Arrow tables, array by array; the way from them is in ``arrow``.

What Arrow has no type for, expressions above all, travels as text in a column whose field says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.classad.nodes import AdExpr, Expr, ListExpr, Literal
from matchmaker.classad.values import MAX_INT, UNDEFINED
from matchmaker.matching.columns.arrow_types import (
    CELLS,
    KEY,
    MARK,
    Array,
    ArrowTable,
    Type,
    pyarrow,
)
from matchmaker.matching.columns.cells import cell_of, node_of, text_of
from matchmaker.matching.columns.column import Coded, Column, Numeric
from matchmaker.matching.columns.contents import ABSENT, INTEGER, REAL
from matchmaker.matching.columns.sparse import Sparse
from matchmaker.matching.columns.texts import Texts
from matchmaker.matching.columns.views import Parts

Mask: TypeAlias = "npt.NDArray[np.bool_]"


def table_of(parts: Parts, key: str, *, exact: bool = False) -> ArrowTable:
    """Makes a table of a store, which shares no memory with it. Raises ValueError, with the column.

    With ``exact`` all columns are of the four plain types, or of JSON cells (``cells``) in strings.
    """
    pa = pyarrow()
    spelled: dict[str, str] = {}
    for layout in parts.layouts:
        for folded, name in zip(layout.folded, layout.names, strict=True):
            spelled.setdefault(folded, name)
    fields, arrays = [], []
    for folded, name in spelled.items():
        if folded not in parts.columns:
            continue
        try:
            array, metadata = _array(parts.columns[folded], parts.size, exact)
        except UnicodeError:
            raise ValueError(f"{name}: Arrow cannot hold half of a surrogate pair") from None
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        fields.append(pa.field(name, array.type, metadata=metadata))
        arrays.append(array)
    return pa.table(arrays, schema=pa.schema(fields, {KEY: key.encode()}))


def _array(column: Column, size: int, exact: bool) -> tuple[Array, dict[bytes, bytes] | None]:
    """The array of a column, and the mark of the field if its text is not plain strings."""
    pa = pyarrow()
    if isinstance(column, Numeric):
        kinds, bits = column.kinds[:size], column.bits[:size]
        missing = kinds == ABSENT
        for only, numbers in ((INTEGER, bits), (REAL, bits.view(np.float64))):
            if ((kinds == only) | missing).all():
                # A copy, since Arrow would show the column itself, which may change.
                return pa.array(numbers.copy(), mask=missing), None
    if isinstance(column, Texts) and np.array_equal(column.other(size), column.missing(size)):
        with suppress(UnicodeError) if exact else nullcontext():
            return _strings(column, size), None
    if not isinstance(column, Coded):
        column = (
            column.coded() if isinstance(column, Sparse) else Coded.of(column.contents(range(size)))
        )
    codes = column.codes[:size]
    used = np.union1d([0], codes).astype(np.intp)
    contents = [column.table[code] for code in used[1:].tolist()]
    indices = pa.array(np.searchsorted(used, codes) - 1, mask=codes == 0)
    if exact:
        values, mark = _exact(contents)
        return pa.DictionaryArray.from_arrays(_narrow(indices, len(used)), values), mark
    nodes = list(map(node_of, contents))
    kind = _united(map(_type_of, nodes))
    if kind is None:
        texts = pa.array(list(map(text_of, nodes)), pa.string())
        return pa.DictionaryArray.from_arrays(_narrow(indices, len(used)), texts), MARK
    values = pa.array([_plain(node) for node in nodes], kind)
    if pa.types.is_string(kind):
        return pa.DictionaryArray.from_arrays(_narrow(indices, len(used)), values), None
    return values.take(indices), None


def _exact(contents: list[Any]) -> tuple[Array, dict[bytes, bytes] | None]:
    """Contents as an array of one of the plain types, else as JSON."""
    pa = pyarrow()
    kinds = set(map(type, contents))
    if len(kinds) == 1 and (kind := kinds.pop()) in _PLAIN:
        with suppress(UnicodeError):
            return pa.array(contents, _TYPES[kind](pa, None)), None
    return pa.array(list(map(cell_of, contents)), pa.string()), CELLS


_PLAIN: Final = (bool, int, float, str)


def _narrow(indices: Array, size: int) -> Array:
    pa = pyarrow()
    return indices.cast(pa.int8() if size <= 128 else pa.int32())


def _strings(column: Texts, size: int) -> Array:
    pa = pyarrow()
    lengths, data = column.packed(size)
    str(data.data, "utf-8")
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    valid = np.packbits(~column.missing(size), bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_string(), size, buffers)
    return array if len(data) >> 31 else array.cast(pa.string())


def _type_of(node: Expr) -> Type | None:
    """The Arrow type whose values a node's are, or None for a node that is to travel as text."""
    pa = pyarrow()
    if isinstance(node, Literal):
        find = _TYPES.get(type(node.value))
        return find(pa, node.value) if find is not None else None
    if isinstance(node, ListExpr):
        items = [i for i in node.items if not (isinstance(i, Literal) and i.value is UNDEFINED)]
        kind = _united(map(_type_of, items)) if items else pa.null()
        return None if kind is None else pa.list_(kind)
    if isinstance(node, AdExpr) and node.names:
        kinds = list(map(_type_of, node.expressions))
        if None not in kinds:
            return pa.struct(list(zip(node.names, kinds, strict=True)))
    return None


def _timestamp(pa: ModuleType, value: datetime) -> Type | None:
    minutes, rest = divmod(value.utcoffset() or timedelta(0), timedelta(minutes=1))
    if rest or abs(minutes) >= 24 * 60:
        return None
    sign = "-" if minutes < 0 else "+"
    hours, minutes = divmod(abs(minutes), 60)
    zone = f"{sign}{hours:02}:{minutes:02}" if hours or minutes else "UTC"
    return pa.timestamp("us", zone)


def _duration(pa: ModuleType, value: timedelta) -> Type | None:
    return pa.duration("us") if abs(value // timedelta(microseconds=1)) <= MAX_INT else None


_TYPES: Final[Mapping[type, Callable[[ModuleType, Any], Type]]] = {
    bool: lambda pa, _: pa.bool_(),
    int: lambda pa, _: pa.int64(),
    float: lambda pa, _: pa.float64(),
    str: lambda pa, _: pa.string(),
    datetime: _timestamp,
    timedelta: _duration,
}


def _united(kinds: Any) -> Type | None:
    """The one type of several, or None where they differ or one is None."""
    united: Type | None = None
    for number, kind in enumerate(kinds):
        united = kind if not number else _both(united, kind)
        if united is None:
            return None
    return united


def _both(one: Type, other: Type) -> Type | None:
    pa = pyarrow()
    if other is None or one == other or pa.types.is_null(other):
        return one if other is not None else None
    if pa.types.is_null(one):
        return other
    if pa.types.is_list(one) and pa.types.is_list(other):
        kind = _both(one.value_type, other.value_type)
        return None if kind is None else pa.list_(kind)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        names = [field.name for field in one]
        if names != [field.name for field in other]:
            return None
        kinds = [_both(a.type, b.type) for a, b in zip(one, other, strict=True)]
        return None if None in kinds else pa.struct(list(zip(names, kinds, strict=True)))
    return None


def _plain(node: Expr) -> Any:
    """The value of a node that has an Arrow type, as pyarrow takes it."""
    if isinstance(node, ListExpr):
        return list(map(_plain, node.items))
    if isinstance(node, AdExpr):
        return dict(zip(node.names, map(_plain, node.expressions), strict=True))
    value = node.value if isinstance(node, Literal) else UNDEFINED
    return None if value is UNDEFINED else value
