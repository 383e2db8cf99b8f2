"""Columns from Arrow tables, array by array; the way back is in ``to_arrow``.

What Arrow has no type for, expressions above all, travels as text in a column whose field says so.
Which type becomes which is listed in docs/pools.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timezone
from pathlib import Path
from typing import IO, Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.errors import ParseError, shorten
from matchmaker.classad.evaluate import charged
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_value
from matchmaker.classad.values import MAX_INT, UNDEFINED
from matchmaker.matching.columns import forms
from matchmaker.matching.columns.arrow_types import (
    CELLS,
    KEY,
    MARK,
    Array,
    ArrowTable,
    check,
    check_names,
    is_text,
    numpy_of,
    pyarrow,
    readable,
    whole,
)
from matchmaker.matching.columns.cells import content_of_cell
from matchmaker.matching.columns.column import Coded, Column, Numeric, Table, narrowest
from matchmaker.matching.columns.contents import ABSENT, INTEGER, MISSING, REAL
from matchmaker.matching.columns.keys import key_from, unsaid
from matchmaker.matching.columns.texts import Heap, Texts, begins, greatest
from matchmaker.matching.columns.views import Layout, Parts
from matchmaker.matching.names import FOLDED_RANK, FOLDED_REQUIREMENTS
from matchmaker.matching.pair import value_text

Reader: TypeAlias = "Callable[[str], Any]"
Mask: TypeAlias = "npt.NDArray[np.bool_]"


def table_from(given: object) -> ArrowTable:
    """A table, or one around a record batch. Raises TypeError for anything else."""
    pa = pyarrow()
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return given
    raise TypeError(f"a pyarrow.Table or RecordBatch was expected, not {type(given).__name__}")


def frame_table(frame: Any, key: str | None) -> ArrowTable:
    """The table of a pandas ``DataFrame``, without its index, with the key that it notes."""
    table = pyarrow().Table.from_pandas(frame, preserve_index=False)
    noted = {KEY: key.encode()} if key is not None else None
    return table.replace_schema_metadata(noted)


def marked(schema: Any) -> list[str]:
    """The columns of a table whose fields say that they hold expressions."""
    return [f.name for f in schema if _mark(f) == MARK[b"classad"]]


def unmarked(schema: Any, expressions: Collection[str]) -> list[str]:
    """The columns of text that are mostly expressions in ads, and of which nothing says so.

    In a table of ``to_arrow`` a column without a mark has strings.
    """
    if KEY in (schema.metadata or {}):
        return []
    known = {*map(ascii_fold, expressions), *map(ascii_fold, marked(schema))}
    return [
        field.name
        for field in schema
        if ascii_fold(field.name) in (FOLDED_REQUIREMENTS, FOLDED_RANK)
        and ascii_fold(field.name) not in known
        and _mark(field) is None
        and is_text(getattr(field.type, "value_type", field.type))
    ]


def _mark(field: Any) -> bytes | None:
    found: bytes | None = dict(field.metadata or {}).get(b"classad")
    return found


def parquet_table(path: str | os.PathLike[str] | IO[bytes]) -> ArrowTable:
    """The table of a Parquet file. Raises ValueError for any other file, and for a damaged one."""
    pyarrow()
    from pyarrow import parquet

    if isinstance(path, (str, os.PathLike)) and not Path(path).is_dir():
        with Path(path).open("rb") as file:
            return parquet_table(file)
    name = path if isinstance(path, (str, os.PathLike)) else getattr(path, "name", "")
    with parquet_problem(name):
        if isinstance(path, (str, os.PathLike)):
            return parquet.read_table(path, page_checksum_verification=True)
        # A file is read by this thread: with those that read_table starts for a file object of
        # Python's, one process in a hundred was aborted at its end.
        checked = {"pre_buffer": False, "page_checksum_verification": True}
        with parquet.ParquetFile(path, **checked) as opened:
            return opened.read()


@contextmanager
def parquet_problem(name: object) -> Iterator[None]:
    """Turns what pyarrow raises for a file that it cannot read into a ValueError for people."""
    try:
        yield
    except (ValueError, NotImplementedError, OSError) as error:
        # What the system says of a file has a number; what pyarrow finds in it has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        text = f"not a Parquet file, or only a part of one ({' '.join(str(error).split())})"
        raise ValueError(f"{name}: {text}" if name else text) from None


def key_noted(schema: Any, key: str | None) -> str:
    """The key attribute that a caller names, or else a table: Name where it notes none."""
    if key is not None:
        return key
    noted: bytes = dict(schema.metadata or {}).get(KEY, b"Name")
    return noted.decode("utf-8", "replace")


def parts_of(
    table: ArrowTable,
    key: str,
    expressions: Collection[str] = (),
    computed: Mapping[int, str] | None = None,
) -> Parts:
    """Makes the parts of a store of a table. Raises ValueError, naming the column.

    `expressions` names columns of text that hold expressions, beside those whose fields say so;
    `computed` has the keys of rows by number, those of others are found in the ads.
    """
    size = table.num_rows
    fields = fields_of(table.schema, expressions)
    columns: dict[str, Column] = {}
    for field, chunked in zip(fields, table.columns, strict=True):
        column = column_in(field, chunked)
        if column is not None:
            columns[field.folded] = column
    present = {name: ~column.missing(size) for name, column in columns.items()}
    parts = parts_with(columns, present, fields, size)
    return attrs.evolve(parts, computed=computed_keys(parts, key, computed or {}))


@attrs.frozen(slots=True)
class Field:
    """A column of a table: its name, as it is spelled and folded, and what reads its strings."""

    name: str
    folded: str
    read: Reader | None


def fields_of(schema: Any, expressions: Collection[str]) -> list[Field]:
    """The fields of a table, of which `expressions` names some. Raises ValueError, naming one."""
    names = check_names("columns", schema.names)
    for name in expressions:
        if ascii_fold(name) not in names:
            raise ValueError(f"no column is named {name}, which is to hold expressions")
    parsed = set(map(ascii_fold, expressions))
    found = []
    for field in schema:
        folded, mark = ascii_fold(field.name), _mark(field)
        read: Reader | None = content_of_cell if mark == CELLS[b"classad"] else None
        if mark == MARK[b"classad"] or folded in parsed:
            read = parse_value
        found.append(Field(field.name, folded, read))
    return found


def column_in(field: Field, chunked: Any) -> Column | None:
    """The column of a field, None where all of it is null. Raises ValueError, naming it."""
    try:
        column = _column(chunked, field.read)
    except (ValueError, NotImplementedError, OverflowError) as error:
        raise ValueError(f"{field.name}: {error}") from None
    return None if column is None else forms.settled(column, len(chunked))


def parts_with(
    columns: dict[str, Column], present: Mapping[str, Mask], fields: Sequence[Field], size: int
) -> Parts:
    """The parts of columns, by which rows have something in each; keys are not looked at."""
    names = {field.folded: field.name for field in fields}
    layout, firsts = _alike([mask for mask in present.values() if not mask.all()], size)
    layouts = [
        Layout.of(tuple(names[name] for name, mask in present.items() if mask[row]))
        for row in firsts
    ]
    return Parts(size, columns, layouts, layout.astype(narrowest(len(layouts))), {})


def _alike(masks: Sequence[Mask], size: int) -> tuple[npt.NDArray[np.intp], list[int]]:
    """A number for each row, the same where the masks agree, and the first row of each number."""
    code = np.zeros(size, np.uint64)
    for first in range(0, len(masks), 32):
        for mask in masks[first : first + 32]:
            code = code << np.uint64(1) | mask
        code = np.unique(code, return_inverse=True)[1].astype(np.uint64)
    _, firsts, numbers = np.unique(code, return_index=True, return_inverse=True)
    return numbers, firsts.tolist()


@charged
def computed_keys(parts: Parts, key: str, known: Mapping[int, str]) -> dict[int, str]:
    """The keys of rows where no plain value says them. Raises ValueError for a row without one."""
    column = parts.columns.get(ascii_fold(key))
    computed = dict(known)
    for row in range(parts.size) if column is None else unsaid(column, parts.size):
        if row in computed:
            continue
        ad = parts.layouts[parts.layout[row]].ad(parts.columns, row)
        value = ad.eval(key)
        found = key_from(value)
        if found is None:
            what = f"{key} = {shorten(value_text(value), 60)}" if key in ad else f"no {key}"
            raise ValueError(
                f"row {row + 1} of the table has {what}; a key is a string or an integer"
            )
        computed[row] = found
    return computed


def _column(chunked: Any, read: Reader | None) -> Column | None:
    """The column of an array, or None where all of it is null; `read` reads its strings."""
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
    if read and not is_text(kind):
        raise ValueError(f"is said to hold expressions, but is of type {kind}")
    if pa.types.is_nested(kind) and not pa.types.is_dictionary(array.type):
        return coded(np.arange(len(array)), _contents(array))
    if not pa.types.is_dictionary(array.type):
        array = _cast(array)
        distinct = array.dictionary_encode()
        if len(distinct.dictionary) > max(forms.MANY, len(array) // 4) and not read:
            if is_text(kind):
                return strings(array)
            if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
                return _numeric(array)
        array = distinct
    indices = numpy_of(array.indices.cast(pa.int64()).fill_null(len(array.dictionary)))
    contents = _read(array.dictionary, indices, read) if read else _contents(array.dictionary)
    return coded(indices, contents)


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


def _read(texts: Array, codes: npt.NDArray[np.int64], read: Reader) -> list[Any]:
    """What texts are in ads. Raises ValueError, naming the row, for what cannot be read."""
    contents: list[Any] = [MISSING] * len(texts)
    used = set(np.unique(codes).tolist())
    for code, text in enumerate(texts.to_pylist()):
        if text is None or code not in used:
            continue
        try:
            contents[code] = read(text)
        except ValueError as error:
            row = int(np.argmax(codes == code)) + 1
            said = error.summary() if isinstance(error, ParseError) else str(error)
            raise ValueError(f"row {row}: {said}") from None
    return contents


def coded(codes: npt.NDArray[Any], contents: list[Any]) -> Coded:
    """A column of contents by code, of which some may be equal; without one where it is beyond."""
    table = Table((MISSING,))
    moved = np.array([*table.codes(contents), 0])
    return Coded(moved[codes].astype(narrowest(len(table))), table)


def _numeric(array: Array) -> Numeric:
    pa = pyarrow()
    real = pa.types.is_floating(array.type)
    missing = numpy_of(array.is_null())
    filled = numpy_of(array.fill_null(0))
    if filled.dtype == np.uint64 and len(filled) and int(filled.max()) > MAX_INT:
        _content(int(filled.max()))
    bits = filled.view(np.int64) if real else filled.astype(np.int64)
    kinds = np.where(missing, ABSENT, REAL if real else INTEGER).astype(np.uint8)
    return Numeric(kinds, np.where(missing, 0, bits), Table())


def strings(array: Array) -> Texts:
    """A column of large strings."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    held = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].copy()
    lengths = np.diff(ends)
    missing = numpy_of(array.is_null())
    starts = (ends[:-1] - ends[0]).astype(begins(lengths).dtype)
    short = lengths.astype(narrowest(int(lengths.max()) + 2))
    starts[missing], short[missing] = 0, greatest(short)
    return Texts(starts, short, Heap(held), Table((MISSING,)))
