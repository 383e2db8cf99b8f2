"""Columns from Arrow tables and back, array by array.

What Arrow has no type for, expressions above all, travels as text in a column whose field says so.
Which type becomes which is listed in docs/pools.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import AdExpr, Expr, ListExpr, Literal, literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import MAX_INT, UNDEFINED
from matchmaker.matching.columns import forms
from matchmaker.matching.columns.arrow_types import (
    Type,
    check,
    check_names,
    is_text,
    pyarrow,
    readable,
    whole,
)
from matchmaker.matching.columns.cells import content_of, node_of, text_of
from matchmaker.matching.columns.column import Coded, Column, Numeric, Table, narrowest
from matchmaker.matching.columns.contents import ABSENT, INTEGER, MISSING, REAL
from matchmaker.matching.columns.keys import key_from, unsaid
from matchmaker.matching.columns.sparse import Sparse
from matchmaker.matching.columns.store import Layout, Parts
from matchmaker.matching.columns.texts import Heap, Texts, begins, greatest
from matchmaker.matching.pair import describe, shorten

# Types of pyarrow, which carries none that a checker could read.
Array: TypeAlias = Any
ArrowTable: TypeAlias = Any
Mask: TypeAlias = "npt.NDArray[np.bool_]"

MARK: Final = {b"classad": b"expression"}
"""The metadata of a field whose strings are the texts of expressions."""

KEY: Final = b"classad.key"
"""The metadata of a table that names the key attribute."""


# --- from Arrow -----------------------------------------------------------------------------------


def table_from(given: object) -> ArrowTable:
    """A table, or one around a record batch. Raises TypeError for anything else."""
    pa = pyarrow()
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return given
    raise TypeError(f"a pyarrow.Table or RecordBatch was expected, not {type(given).__name__}")


def parquet_table(path: str | os.PathLike[str] | IO[bytes]) -> ArrowTable:
    """The table of a Parquet file. Raises ValueError where it is none, or only a part of one."""
    pyarrow()
    from pyarrow import parquet

    if isinstance(path, (str, os.PathLike)) and not Path(path).is_dir():
        with Path(path).open("rb") as file:
            return parquet_table(file)
    try:
        return parquet.read_table(path)
    except (ValueError, NotImplementedError, OSError) as error:
        # What the system says of a file has a number; what pyarrow finds in it has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        name = path if isinstance(path, (str, os.PathLike)) else getattr(path, "name", "")
        text = f"not a Parquet file, or only a part of one ({' '.join(str(error).split())})"
        raise ValueError(f"{name}: {text}" if name else text) from None


def parts_of(table: ArrowTable, key: str, expressions: Collection[str] = ()) -> Parts:
    """A table as what a store is made of. Raises ValueError, naming the column.

    `expressions` names columns of text that hold expressions, beside those whose fields say so.
    """
    size = table.num_rows
    columns: dict[str, Column] = {}
    names = check_names("columns", table.schema.names)
    for name in expressions:
        if ascii_fold(name) not in names:
            raise ValueError(f"no column is named {name}, which is to hold expressions")
    parsed = set(map(ascii_fold, expressions))
    for field, chunked in zip(table.schema, table.columns, strict=True):
        folded = ascii_fold(field.name)
        marked = dict(field.metadata or {}).get(b"classad") == MARK[b"classad"]
        try:
            column = _column(chunked, marked or folded in parsed)
        except (ValueError, NotImplementedError, OverflowError) as error:
            raise ValueError(f"{field.name}: {error}") from None
        if column is not None:
            columns[folded] = forms.settled(column, size)
    present = {name: ~column.missing(size) for name, column in columns.items()}
    layout, firsts = _alike([mask for mask in present.values() if not mask.all()], size)
    layouts = [
        Layout.of(tuple(names[name] for name, mask in present.items() if mask[row]))
        for row in firsts
    ]
    parts = Parts(size, columns, layouts, layout.astype(narrowest(len(layouts))), {})
    return attrs.evolve(parts, computed=_computed(parts, key))


def _alike(masks: Sequence[Mask], size: int) -> tuple[npt.NDArray[np.intp], list[int]]:
    """A number for each row, the same where the masks agree, and the first row of each number."""
    code = np.zeros(size, np.uint64)
    for first in range(0, len(masks), 32):
        for mask in masks[first : first + 32]:
            code = code << np.uint64(1) | mask
        code = np.unique(code, return_inverse=True)[1].astype(np.uint64)
    _, firsts, numbers = np.unique(code, return_index=True, return_inverse=True)
    return numbers, firsts.tolist()


def _computed(parts: Parts, key: str) -> dict[int, str]:
    """The keys of the rows where they are expressions. Raises ValueError for a row without one."""
    column = parts.columns.get(ascii_fold(key))
    computed = {}
    for row in range(parts.size) if column is None else unsaid(column, parts.size):
        ad = parts.layouts[parts.layout[row]].ad(parts.columns, row)
        value = ad.eval(key)
        found = key_from(value)
        if found is None:
            what = f"{key} = {shorten(describe(value), 60)}" if key in ad else f"no {key}"
            raise ValueError(
                f"row {row + 1} of the table has {what}; a key is a string or an integer"
            )
        computed[row] = found
    return computed


def _column(chunked: Any, expressions: bool) -> Column | None:
    """The column of an array, or None where all of it is null."""
    pa = pyarrow()
    check(chunked.type)
    chunked.validate(full=True)
    array = chunked.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.null_count == len(array):
        return None
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if expressions and not is_text(kind):
        raise ValueError(f"is said to hold expressions, but is of type {kind}")
    if pa.types.is_nested(kind) and not pa.types.is_dictionary(array.type):
        return _coded(np.arange(len(array)), _contents(array))
    if not pa.types.is_dictionary(array.type):
        array = _cast(array)
        distinct = array.dictionary_encode()
        if len(distinct.dictionary) > max(forms.MANY, len(array) // 4) and not expressions:
            if is_text(kind):
                return _texts(array)
            if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
                return _numeric(array)
        array = distinct
    indices = array.indices.cast(pa.int64()).fill_null(len(array.dictionary)).to_numpy()
    contents = (
        _expressions(array.dictionary, indices) if expressions else _contents(array.dictionary)
    )
    return _coded(indices, [*contents, MISSING])


def _contents(array: Array) -> list[Any]:
    """What an array's values are in ads, one by one."""
    values = _cast(array).to_pylist()
    if not pyarrow().types.is_nested(array.type):
        return [MISSING if value is None else _content(value) for value in values]
    # Lists and nested ads often repeat, but cannot be compared by Arrow.
    known: dict[str, Any] = {"None": MISSING}
    texts = list(map(repr, values))
    for text, value in zip(texts, values, strict=True):
        if text not in known:
            known[text] = _content(value)
    return list(map(known.__getitem__, texts))


def _cast(array: Array) -> Array:
    """The array with values that can be taken. Parts of microseconds are cut off.

    That is done first and by itself: all else is checked, so that nothing overflows in silence.
    """
    if whole(array.type) != array.type:
        array = array.cast(whole(array.type), safe=False)
    return array.cast(readable(array.type))


def _content(value: Any) -> Any:
    if isinstance(value, dict):
        given = {name: _content(v) for name, v in value.items() if v is not None}
        return literal(ClassAd(given))
    if isinstance(value, list):
        return literal([UNDEFINED if v is None else _content(v) for v in value])
    if isinstance(value, datetime):
        offset = value.utcoffset()
        return value.replace(tzinfo=UTC if offset is None else timezone(offset))
    if isinstance(value, int) and value > MAX_INT:
        raise ValueError(f"{value} does not fit 64 bits; cast the column to float64")
    return value


def _expressions(texts: Array, codes: npt.NDArray[np.int64]) -> list[Any]:
    """What texts are in ads. Raises ValueError, naming the row, for what is no expression."""
    contents: list[Any] = [MISSING] * len(texts)
    used = set(np.unique(codes).tolist())
    for code, text in enumerate(texts.to_pylist()):
        if text is None or code not in used:
            continue
        try:
            contents[code] = content_of(text)
        except ParseError as error:
            row = int(np.argmax(codes == code)) + 1
            raise ValueError(f"row {row}: {error.summary()}") from None
    return contents


def _coded(codes: npt.NDArray[Any], contents: list[Any]) -> Coded:
    """A column of contents by code, of which some may be equal."""
    table = Table((MISSING,))
    moved = np.array(table.codes(contents) if contents else [0])
    return Coded(moved[codes].astype(narrowest(len(table))), table)


def _numeric(array: Array) -> Numeric:
    pa = pyarrow()
    real = pa.types.is_floating(array.type)
    missing = array.is_null().to_numpy(zero_copy_only=False)
    filled = array.fill_null(0).to_numpy()
    if filled.dtype == np.uint64 and len(filled) and int(filled.max()) > MAX_INT:
        _content(int(filled.max()))
    bits = filled.view(np.int64) if real else filled.astype(np.int64)
    kinds = np.where(missing, ABSENT, REAL if real else INTEGER).astype(np.uint8)
    return Numeric(kinds, np.where(missing, 0, bits), Table())


def _texts(array: Array) -> Texts:
    """A column of large strings."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    held = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].copy()
    lengths = np.diff(ends)
    missing = array.is_null().to_numpy(zero_copy_only=False)
    starts = (ends[:-1] - ends[0]).astype(begins(lengths).dtype)
    short = lengths.astype(narrowest(int(lengths.max()) + 2))
    starts[missing], short[missing] = 0, greatest(short)
    return Texts(starts, short, Heap(held), Table((MISSING,)))


# --- to Arrow -------------------------------------------------------------------------------------


def table_of(parts: Parts, key: str) -> ArrowTable:
    """A table of what a store is made of. Raises ValueError, naming the column."""
    pa = pyarrow()
    spelled: dict[str, str] = {}
    for layout in parts.layouts:
        for folded, name in zip(layout.folded, layout.names, strict=True):
            spelled.setdefault(folded, name)
    fields, arrays = [], []
    for folded, name in spelled.items():
        try:
            array, metadata = _array(parts.columns[folded], parts.size)
        except UnicodeError:
            raise ValueError(f"{name}: Arrow cannot hold half of a surrogate pair") from None
        fields.append(pa.field(name, array.type, metadata=metadata))
        arrays.append(array)
    return pa.table(arrays, schema=pa.schema(fields, {KEY: key.encode()}))


def _array(column: Column, size: int) -> tuple[Array, dict[bytes, bytes] | None]:
    """The array of a column, and the mark of the field if it holds expressions."""
    pa = pyarrow()
    if isinstance(column, Numeric):
        kinds, bits = column.kinds[:size], column.bits[:size]
        missing = kinds == ABSENT
        for only, numbers in ((INTEGER, bits), (REAL, bits.view(np.float64))):
            if ((kinds == only) | missing).all():
                return pa.array(numbers, mask=missing), None
    if isinstance(column, Texts) and np.array_equal(column.other(size), column.missing(size)):
        return _strings(column, size), None
    if not isinstance(column, Coded):
        column = column.coded() if isinstance(column, Sparse) else _tabled(column, size)
    codes = column.codes[:size]
    used = np.union1d([0], codes).astype(np.intp)
    contents = [column.table[code] for code in used[1:].tolist()]
    indices = pa.array(np.searchsorted(used, codes) - 1, mask=codes == 0)
    nodes = list(map(node_of, contents))
    kind = _united(map(_type_of, nodes))
    if kind is None:
        texts = pa.array(list(map(text_of, nodes)), pa.string())
        return pa.DictionaryArray.from_arrays(_narrow(indices, len(used)), texts), MARK
    values = pa.array([_plain(node) for node in nodes], kind)
    if pa.types.is_string(kind):
        return pa.DictionaryArray.from_arrays(_narrow(indices, len(used)), values), None
    return values.take(indices), None


def _narrow(indices: Array, size: int) -> Array:
    pa = pyarrow()
    return indices.cast(pa.int8() if size <= 128 else pa.int32())


def _tabled(column: Column, size: int) -> Coded:
    return _coded(np.arange(size), column.contents(range(size)))


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
