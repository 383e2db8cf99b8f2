"""Turn columns into Arrow tables and back, array by array, and read Parquet files by columns.

What Arrow has no type for, expressions above all, travels as text in a column whose field says so.
Which type becomes which is listed in docs/pools.md. pyarrow is loaded when the first function needs
it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker._locks import Lock
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.errors import ParseError, shorten
from matchmaker.classad.evaluate import charged
from matchmaker.classad.nodes import AdExpr, Expr, ListExpr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr, parse_value
from matchmaker.classad.printer import unparse
from matchmaker.classad.values import MAX_INT, MIN_INT, UNDEFINED
from matchmaker.matching.columns.column import (
    ABSENT,
    INTEGER,
    MISSING,
    REAL,
    Coded,
    Column,
    ContentTable,
    Numeric,
    StoredColumn,
    narrowest,
)
from matchmaker.matching.columns.forms import MANY, Heap, Sparse, Texts, begins, greatest, settled
from matchmaker.matching.columns.store import Layout, StoreParts, key_from, without_plain_key
from matchmaker.matching.pair import FOLDED_RANK, FOLDED_REQUIREMENTS, value_text

# Types of pyarrow, which carries none that a checker could read.
Type: TypeAlias = Any
Array: TypeAlias = Any
ArrowTable: TypeAlias = Any

MARK: Final = {b"classad": b"expression"}
"""The metadata of a field whose strings are the texts of expressions."""

CELLS: Final = {b"classad": b"json"}
"""The metadata of a field whose strings are contents as JSON (``cells``)."""

KEY: Final = b"classad.key"
"""The metadata of a table that names the key attribute."""


def pyarrow() -> ModuleType:
    """Import pyarrow. Raise ImportError, saying what to install, if it is missing."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError(
            "Arrow and Parquet need pyarrow: pip install 'classad-matchmaker[arrow]'"
        ) from None
    module: ModuleType = pa
    return module


def array_of(held: npt.NDArray[Any]) -> Array:
    """Return the Arrow array of a NumPy array: of numbers, without a copy, or of booleans.

    ``pyarrow.array`` would import pandas if it is installed, which takes 0.2 s.

    >>> array_of(np.array([1, 2])).to_pylist(), array_of(np.array([True, False])).to_pylist()
    ([1, 2], [True, False])
    """
    pa = pyarrow()
    truths = held.dtype == np.bool_
    kind = pa.bool_() if truths else pa.from_numpy_dtype(held.dtype)
    data = np.packbits(held, bitorder="little") if truths else np.ascontiguousarray(held)
    return pa.Array.from_buffers(kind, len(held), [None, pa.py_buffer(data)])


def numpy_of(array: Array) -> npt.NDArray[Any]:
    """Return the NumPy array of an Arrow array of numbers or booleans without nulls.

    Numbers are not copied, and read-only. ``to_numpy`` would import pandas if it is installed.

    >>> some = array_of(np.array([1, 2, 3])).slice(1)
    >>> numpy_of(some), numpy_of(array_of(np.array([False, True, False])).slice(1))
    (array([2, 3]), array([ True, False]))
    """
    kind, (_, data), start = array.type, array.buffers(), array.offset
    end = start + len(array)
    if pyarrow().types.is_boolean(kind):
        bits = np.frombuffer(data or b"", np.uint8)
        return np.unpackbits(bits, count=end, bitorder="little")[start:].astype(np.bool_)
    return np.frombuffer(data or b"", kind.to_pandas_dtype())[start:end]


def is_text(kind: Type) -> bool:
    """Whether it holds strings, of any width."""
    types = pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def check_names(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Map folded names to names. Raise ValueError for two that a ClassAd takes for one."""
    found: dict[str, str] = {}
    for name in names:
        folded = ascii_fold(name)
        if folded in found:
            raise ValueError(f"two {kind} are {found[folded]} and {name} to a ClassAd")
        found[folded] = name
    return found


def check(root: Type) -> None:
    """Raise ValueError for a type whose values cannot be read, however deep it is nested."""
    types = pyarrow().types
    pending: list[tuple[Type, int]] = [(root, 1)]
    while pending:
        kind, depth = pending.pop()
        if depth > LIMITS.nesting:
            raise ValueError(f"is nested more than {LIMITS.nesting} levels deep")
        if types.is_timestamp(kind) and kind.tz is not None:
            _check_zone(kind)
        if types.is_struct(kind):
            check_names("fields", (field.name for field in kind))
        pending += ((part, depth + 1) for part in parts_of_type(kind))


def parts_of_type(kind: Type) -> Iterator[Type]:
    """The types that a nested one is made of."""
    if pyarrow().types.is_dictionary(kind):
        yield kind.value_type
    else:
        yield from (kind.field(place).type for place in range(kind.num_fields))


def _check_zone(kind: Type) -> None:
    try:
        pyarrow().scalar(0, kind).as_py()
    except (ValueError, LookupError, OSError):
        raise ValueError(f"{kind.tz} is no time zone that is known here") from None


def readable(kind: Type) -> Type:
    """The type to cast to before values are taken. Raise ValueError if ads cannot hold it."""
    return _mapped(kind, _readable)


def whole(kind: Type) -> Type:
    """The type with microseconds instead of nanoseconds, and a type for arrays of nulls."""
    return _mapped(kind, _whole)


def _mapped(kind: Type, plain: Callable[[ModuleType, Type], Type]) -> Type:
    """A type with each plain one that it is made of replaced; dictionaries become their values."""
    pa = pyarrow()
    types = pa.types
    if types.is_dictionary(kind):
        return _mapped(kind.value_type, plain)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_mapped(field.type, plain)) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.large_list(_mapped(kind.value_type, plain))
    return plain(pa, kind)


def _readable(pa: ModuleType, kind: Type) -> Type:
    types = pa.types
    if types.is_boolean(kind) or types.is_uint64(kind) or types.is_null(kind):
        return kind
    if types.is_integer(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if is_text(kind):
        return pa.large_string()
    if types.is_timestamp(kind) or types.is_date(kind):
        return pa.timestamp("us", getattr(kind, "tz", None))
    if types.is_duration(kind):
        return pa.duration("us")
    raise ValueError(f"Arrow's {kind} is no type of ClassAds; cast the column, or leave it out")


def _whole(pa: ModuleType, kind: Type) -> Type:
    if pa.types.is_null(kind):
        # What pyarrow casts within a list loses its length.
        return pa.bool_()
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) and kind.unit == "ns" else kind


def node_of(content: Any) -> Expr:
    """The expression that a content is, or that has it as its value."""
    return content if isinstance(content, Expr) else literal(content)


def text_of(content: Any) -> str:
    """Return the text from which a content is read back. Raise ValueError if none is.

    Only contents made by hand have none: an empty name, a string with NUL in a list, half of a
    surrogate pair, nesting beyond the limit.

    >>> text_of("x"), text_of(float("inf"))
    ('"x"', 'real("INF")')
    """
    node = node_of(content)
    text = unparse(node)
    # Most texts cannot fail to be read back; of the others it is made sure.
    plain = text.isascii() and text.isprintable() and not ("\\" in text or "''" in text)
    if node.depth > LIMITS.nesting or not (plain or _reads_back(node, text)):
        shown = text[:60].encode("ascii", "backslashreplace").decode()
        nul = ", since a string in it has NUL" if "\\000" in text else ""
        raise ValueError(f"no file can hold {shown}{nul}")
    return text


def _reads_back(node: Expr, text: str) -> bool:
    try:
        return parse_expr(text) is node
    except ParseError:
        return False


def cell_of(content: Any) -> str:
    """A content as JSON: a string, number or truth, else an object with the expression's text.

    Any string can be written so, with NUL and half a surrogate pair too. Raise ValueError for a
    content that no text stands for.

    >>> cell_of("x"), cell_of(1.0), cell_of(parse_expr("a + 1"))
    ('"x"', '1.0', '{"expr": "a + 1"}')
    """
    kind = content.__class__
    if kind in (str, int, bool) or (kind is float and abs(content) < float("inf")):
        return json.dumps(content)
    return json.dumps({"expr": text_of(content)})


def content_of_cell(text: str) -> Any:
    """The content of a cell. Raise ValueError, and ParseError for the text of an expression.

    >>> content_of_cell('"x"'), content_of_cell('{"expr": "a + 1"}')
    ('x', Expr('a + 1'))
    """
    try:
        cell = json.loads(text)
    except (ValueError, RecursionError):
        cell = None
    if type(cell) is dict and len(cell) == 1 and type(cell.get("expr")) is str:
        return parse_value(cell["expr"])
    if type(cell) in (str, bool, float) or (type(cell) is int and MIN_INT <= cell <= MAX_INT):
        return cell
    raise ValueError(f"{text[:60]!r} is no content")


Mask: TypeAlias = "npt.NDArray[np.bool_]"


def table_of(parts: StoreParts, key: str, *, exact: bool = False) -> ArrowTable:
    """Make a table of a store, in memory of its own. Raise ValueError, naming the column.

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
    """Return contents as an array of one of the plain types, else as JSON."""
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
    """Unite types; None if they differ or one is None."""
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


Reader: TypeAlias = "Callable[[str], Any]"


def table_from(given: object) -> ArrowTable:
    """A table, or one around a record batch. Raise TypeError for anything else."""
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
    """Find columns of text that are mostly expressions in ads, but are not marked as such.

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
    """The table of a Parquet file. Raise ValueError for any other file, and for a damaged one."""
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
    """Turn what pyarrow raises for a file that it cannot read into a ValueError for people."""
    try:
        yield
    except (ValueError, NotImplementedError, OSError) as error:
        # What the system says of a file has a number; what pyarrow finds in it has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        text = f"not a Parquet file, or only a part of one ({' '.join(str(error).split())})"
        raise ValueError(f"{name}: {text}" if name else text) from None


def key_noted(schema: Any, key: str | None) -> str:
    """Return the key attribute: the caller's, else the table's, else Name."""
    if key is not None:
        return key
    noted: bytes = dict(schema.metadata or {}).get(KEY, b"Name")
    return noted.decode("utf-8", "replace")


def parts_of(
    table: ArrowTable,
    key: str,
    expressions: Collection[str] = (),
    computed: Mapping[int, str] | None = None,
) -> StoreParts:
    """Make the parts of a store of a table. Raise ValueError, naming the column.

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
    """Return the fields of a table. Raise ValueError for an unknown name in `expressions`."""
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
    """Make the column of a field, or None if all is null. Raise ValueError, naming it."""
    try:
        column = _column(chunked, field.read)
    except (ValueError, NotImplementedError, OverflowError) as error:
        raise ValueError(f"{field.name}: {error}") from None
    return None if column is None else settled(column, len(chunked))


def parts_with(
    columns: dict[str, Column], present: Mapping[str, Mask], fields: Sequence[Field], size: int
) -> StoreParts:
    """Make the parts of columns, given the rows present in each; keys are not checked."""
    names = {field.folded: field.name for field in fields}
    layout, firsts = _alike([mask for mask in present.values() if not mask.all()], size)
    layouts = [
        Layout.of(tuple(names[name] for name, mask in present.items() if mask[row]))
        for row in firsts
    ]
    return StoreParts(size, columns, layouts, layout.astype(narrowest(len(layouts))), {})


def _alike(masks: Sequence[Mask], size: int) -> tuple[npt.NDArray[np.intp], list[int]]:
    """Number the rows, equal if all masks agree; return also the first row of each number."""
    code = np.zeros(size, np.uint64)
    for first in range(0, len(masks), 32):
        for mask in masks[first : first + 32]:
            code = code << np.uint64(1) | mask
        code = np.unique(code, return_inverse=True)[1].astype(np.uint64)
    _, firsts, numbers = np.unique(code, return_index=True, return_inverse=True)
    return numbers, firsts.tolist()


@charged
def computed_keys(parts: StoreParts, key: str, known: Mapping[int, str]) -> dict[int, str]:
    """Compute the keys that are not plain values. Raise ValueError for a row without one."""
    column = parts.columns.get(ascii_fold(key))
    computed = dict(known)
    for row in range(parts.size) if column is None else without_plain_key(column, parts.size):
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
    """Make the column of an array, or None if all is null; `read` reads its strings."""
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
        if len(distinct.dictionary) > max(MANY, len(array) // 4) and not read:
            if is_text(kind):
                return strings(array)
            if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
                return _numeric(array)
        array = distinct
    indices = numpy_of(array.indices.cast(pa.int64()).fill_null(len(array.dictionary)))
    contents = _read(array.dictionary, indices, read) if read else _contents(array.dictionary)
    return coded(indices, contents)


def _contents(array: Array) -> list[Any]:
    """Convert an array's values to contents of ads, one by one."""
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
    """Convert texts to contents of ads, by code. Raise ValueError, naming a row at fault."""
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
    """Make a column of contents by code; some may be equal, and a code beyond them is MISSING."""
    table = ContentTable((MISSING,))
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
    return Numeric(kinds, np.where(missing, 0, bits), ContentTable())


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
    return Texts(starts, short, Heap(held), ContentTable((MISSING,)))


def opened(path: str | os.PathLike[str]) -> Any:
    """A Parquet file that stays open. Raise ValueError for any other file."""
    pyarrow()
    from pyarrow import parquet

    with parquet_problem(path):
        # Not mapped: a file that someone cuts short would end the process.
        return parquet.ParquetFile(path, page_checksum_verification=True)


def stored_parts(file: Any, path: object, key: str, expressions: Collection[str]) -> StoreParts:
    """The parts of an open Parquet file, most of whose columns stay there.

    Raise ValueError as ``parts_of`` does.
    """
    lock, size = Lock(), file.metadata.num_rows

    def read(field: Field) -> Any:
        with parquet_problem(path), lock:
            found = file.read(columns=[field.name]).column(field.name)
        if len(found) != size:
            raise ValueError(f"{path}: {field.name} has {len(found)} rows, and not {size}")
        return found

    def load(field: Field) -> Column:
        column = column_in(field, read(field))
        if column is None:
            raise ValueError(f"{path}: {field.name} is null in all rows, and was not before")
        return column

    columns: dict[str, Column] = {}
    present: dict[str, Mask] = {}
    fields = fields_of(file.schema_arrow, expressions)
    full = _full(file.metadata)
    for field, kind in zip(fields, file.schema_arrow.types, strict=True):
        if field.folded == ascii_fold(key) or field.read is not None or not _may_wait(kind):
            column = column_in(field, read(field))
            if column is not None:
                columns[field.folded] = column
                present[field.folded] = ~column.missing(size)
            continue
        every = field.name in full
        mask = (
            np.ones(size, np.bool_) if every else numpy_of(read(field).is_valid().combine_chunks())
        )
        if mask.any():
            columns[field.folded] = StoredColumn(partial(load, field), size)
            present[field.folded] = mask
    parts = parts_with(columns, present, fields, size)
    return attrs.evolve(parts, computed=computed_keys(parts, key, {}))


def _may_wait(root: Any) -> bool:
    """Whether values of a type need not be read to know that ads can hold them."""
    types = pyarrow().types
    check(root)
    pending = [root]
    while pending:
        kind = pending.pop()
        plain = types.is_signed_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        if types.is_nested(kind) or types.is_dictionary(kind):
            pending += parts_of_type(kind)
        elif not (plain or is_text(kind)):
            return False
    return True


def _full(metadata: Any) -> set[str]:
    """The columns without nulls, by the statistics of all their parts."""
    doubtful, found = set(), set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            name, facts = column.path_in_schema, column.statistics
            found.add(name)
            if facts is None or not facts.has_null_count or facts.null_count:
                doubtful.add(name)
    return found - doubtful
