"""Save and load pools: a table in Arrow's IPC format (``.arrow``) with the order of names.

Every column is of a plain type, or of JSON cells. Two columns more are there if they are needed:
the names of each ad in its own order and spelling, and the keys that no plain value says. The
format is described in docs/pools.md.

A file may come from a stranger. Nothing in it is executed, only the plain types are read, and no
more memory is taken than in proportion to the file: nothing in it is compressed or stands twice.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import IO, Any, Final

import attrs
import numpy as np

from matchmaker.classad.errors import shorten
from matchmaker.classad.evaluate import charged
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.walks import names_of
from matchmaker.matching.columns import arrow
from matchmaker.matching.columns.arrow import (
    KEY,
    Array,
    ArrowTable,
    Type,
    array_of,
    cell_of,
    content_of_cell,
    pyarrow,
    table_of,
)
from matchmaker.matching.columns.column import narrowest
from matchmaker.matching.columns.forms import Sparse
from matchmaker.matching.columns.store import DuplicateKeyError, Layout, Store, StoreParts, key_from

MAGIC: Final = b"ARROW1\0\0"
OLD: Final = b"PK\x03\x04"
SUM: Final = b"classad.crc32"
_ROLE: Final = b"classad.role"
_NAMES: Final = {_ROLE: b"names"}
_KEYS: Final = {_ROLE: b"keys"}
_FEW: Final = {_ROLE: b"few"}


class PoolFileError(ValueError):
    """A file that is not a saved pool, or no longer a whole one."""


# --- writing --------------------------------------------------------------------------------------


def save(parts: StoreParts, key: str, file: IO[bytes]) -> None:
    """Write the parts of a store. Raise ValueError for a content that would not be read back."""
    pa = pyarrow()
    _check_keys(parts, key, parts.computed)
    rest, few = _apart(parts, ascii_fold(key))
    table = table_of(rest, key, exact=True)
    if not _in_order(parts, table):
        texts = pa.array([json.dumps(layout.names) for layout in parts.layouts], pa.string())
        names = pa.DictionaryArray.from_arrays(array_of(parts.layout.astype(np.int32)), texts)
        table = _with(table, names, _NAMES)
    if few:
        texts = [json.dumps(few[row]) if row in few else None for row in range(parts.size)]
        table = _with(table, pa.array(texts, pa.string()), _FEW)
    if parts.computed:
        table = _with(table, pa.array(map(parts.computed.get, range(parts.size))), _KEYS)
    noted = {KEY: key.encode(), SUM: checksum(table, key).encode()}
    with pa.ipc.new_file(file, table.schema.with_metadata(noted)) as writer:
        writer.write_table(table.replace_schema_metadata(noted))


def _apart(parts: StoreParts, key: str) -> tuple[StoreParts, dict[int, dict[str, str]]]:
    """The parts without sparse columns, and what these hold as cells by name, by row.

    A column of the table takes room for every row: ads that each have an attribute that no other
    has would take room with the square of their number.
    """
    few: dict[int, dict[str, str]] = {}
    sparse = {n: c for n, c in parts.columns.items() if isinstance(c, Sparse) and n != key}
    for name, column in sparse.items():
        for row, content in column.held.items():
            few.setdefault(row, {})[name] = cell_of(content)
    columns = {name: column for name, column in parts.columns.items() if name not in sparse}
    return attrs.evolve(parts, columns=columns), few


def checksum(table: ArrowTable, key: str) -> str:
    """The CRC-32 of the fields, the values, and the key attribute."""
    pa = pyarrow()
    found = zlib.crc32(table.schema.remove_metadata().serialize(), zlib.crc32(key.encode()))
    for array in (array for column in table.columns for array in column.chunks):
        pieces = [array]
        if pa.types.is_dictionary(array.type):
            pieces = [array.indices, array.dictionary]
        for piece in pieces:
            found = zlib.crc32(pa.record_batch([piece], [""]).serialize(), found)
    return f"{found:08x}"


def _in_order(parts: StoreParts, table: ArrowTable) -> bool:
    """Whether each ad has its names as the table has them, in its order and spelling."""
    places = {name: place for place, name in enumerate(table.schema.names)}
    for layout in parts.layouts:
        found = [places.get(name, -1) for name in layout.names]
        if -1 in found or found != sorted(found):
            return False
    return True


def _with(table: ArrowTable, array: Array, role: dict[bytes, bytes]) -> ArrowTable:
    """The table with one more column, under a name that no attribute has."""
    name = role[_ROLE].decode()
    taken = set(map(ascii_fold, table.schema.names))
    while name in taken:
        name += "_"
    return table.append_column(pyarrow().field(name, array.type, metadata=role), array)


# --- reading --------------------------------------------------------------------------------------


@charged
def load(file: IO[bytes], source: str) -> tuple[str, Store]:
    """Read the key attribute and the store of a file that may be anything.

    Raise PoolFileError.
    """
    data = file.read()
    if data.startswith(OLD):
        raise PoolFileError(
            f"{source}: a saved pool in the form of an earlier version, which is read no longer; "
            "make it again of its ads: classad convert ADS --to pool --output FILE"
        )
    try:
        table = _table(data)
    except _BROKEN as error:
        said = " ".join(str(error).split())[:120]
        raise PoolFileError(f"{source}: not a saved pool, or only a part of one ({said})") from None
    try:
        return _store(table, len(data))
    except DuplicateKeyError as error:
        said = f"two ads have the key {error.keys[0][:60]!r}"
    except (*_BROKEN, MemoryError) as error:
        said = " ".join(str(error).split())[:200]
    raise PoolFileError(f"{source}: {said}; the file is damaged: save the pool again")


# What pyarrow raises for what it cannot read; its own errors are of these classes too.
_BROKEN: Final = (
    ValueError, OSError, TypeError, LookupError, NotImplementedError, OverflowError, struct.error,
)  # fmt: skip


def _table(data: bytes) -> ArrowTable:
    """The table in a file, whose arrays lie in the bytes given."""
    if not (data.startswith(MAGIC) and data.endswith(MAGIC.rstrip(b"\0"))):
        raise ValueError("it does not begin and end with ARROW1")
    pa = pyarrow()
    # The file is a stream with an index behind it. The index, which could lead elsewhere, is not
    # needed.
    stream = pa.py_buffer(data)[len(MAGIC) :]
    messages = pa.ipc.MessageReader.open_stream(stream)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            break
        if _compressed(message.metadata.to_pybytes()):
            raise ValueError("it is compressed, as a saved pool never is")
    with pa.ipc.open_stream(stream) as reader:
        table: ArrowTable = reader.read_all()
    return table


def _compressed(metadata: bytes) -> bool:
    """Whether the buffers of a message are compressed, by its description, a Flatbuffer.

    A Message has its header as field 2 and the type of the header as field 1; a RecordBatch has
    its compression as field 3, a DictionaryBatch a RecordBatch as field 1. (Arrow, Message.fbs.)
    """

    def field(table: int, number: int) -> int:
        """Return the place of a field of a table, 0 for an absent one."""
        names = table - number_at("<i", table)
        place = 4 + 2 * number
        offset = number_at("<H", names + place) if place < number_at("<H", names) else 0
        return table + offset if offset else 0

    def number_at(kind: str, place: int) -> int:
        if place < 0:
            raise ValueError("broken")
        found: int = struct.unpack_from(kind, metadata, place)[0]
        return found

    def target(place: int) -> int:
        return place + number_at("<I", place)

    message = target(0)
    kind, header = field(message, 1), field(message, 2)
    if not kind or not header or metadata[kind] not in (_DICTIONARY, _BATCH):
        return False
    batch = target(header)
    if metadata[kind] == _DICTIONARY:
        inner = field(batch, 1)
        if not inner:
            return False
        batch = target(inner)
    return field(batch, 3) != 0


_DICTIONARY: Final = 2
_BATCH: Final = 3


def _store(table: ArrowTable, most: int) -> tuple[str, Store]:
    """The key attribute and the store of a table, whose arrays take `most` bytes at most."""
    roles = {}
    for place, field in enumerate(table.schema):
        role = dict(field.metadata or {}).get(_ROLE)
        # What is read once for each row must be in the file once for each row.
        by_row = role in (_KEYS[_ROLE], _FEW[_ROLE])
        if not _is_plain(field.type) or (by_row and pyarrow().types.is_dictionary(field.type)):
            raise ValueError(f"{field.name}: a column of type {field.type}")
        if role is not None:
            roles[role] = place
    # First of all: of what is not valid, nothing may be asked.
    table.validate(full=True)
    if table.nbytes > most or any(column.num_chunks > 1 for column in table.columns):
        raise ValueError("its columns overlap, or come in pieces")
    noted = dict(table.schema.metadata or {})
    if not noted.keys() >= {KEY, SUM}:
        raise ValueError("no key attribute and no checksum are noted")
    key = noted[KEY].decode("utf-8")
    if noted[SUM].decode("ascii") != checksum(table, key):
        raise ValueError("its checksum is another")
    special = {role: _texts(table.column(place)) for role, place in roles.items()}
    rest = table.select(
        [place for place in range(table.num_columns) if place not in roles.values()]
    )
    keys = special.get(_KEYS[_ROLE], ())
    computed = {row: text for row, text in enumerate(keys) if text is not None}
    parts = arrow.parts_of(rest, key, computed=computed)
    few = {
        row: _cells(text)
        for row, text in enumerate(special.get(_FEW[_ROLE], ()))
        if text is not None
    }
    if _NAMES[_ROLE] in special:
        parts = _laid_out(parts, special[_NAMES[_ROLE]], few)
    elif few:
        raise ValueError("the names of ads are missing")
    parts = _with_few(parts, few)
    _check_keys(parts, key, computed)
    return key, Store.restored(ascii_fold(key), parts)


def _check_keys(parts: StoreParts, key: str, computed: Mapping[int, str]) -> None:
    """Raise ValueError for a noted key that differs from the key attribute."""
    column = parts.columns.get(ascii_fold(key))
    if column is None:
        return
    for row, noted in computed.items():
        content = column.get(row)
        if isinstance(content, Expr) and not names_of(content).volatile:
            content = parts.layouts[parts.layout[row]].ad(parts.columns, row).eval(key)
        said = key_from(content)
        if said and said != noted:
            raise ValueError(
                f"row {row + 1} has {key} = {shorten(said, 60)!r}, and is kept under the key"
                f" {shorten(noted, 60)!r}"
            )


def _is_plain(kind: Type) -> bool:
    types = pyarrow().types
    if types.is_dictionary(kind):
        return (
            kind.index_type.bit_width <= 32
            and _is_plain(kind.value_type)
            and not (types.is_dictionary(kind.value_type))
        )
    return bool(
        types.is_boolean(kind) or types.is_int64(kind) or types.is_float64(kind)
        or types.is_string(kind) or types.is_large_string(kind)
    )  # fmt: skip


def _texts(column: Any) -> list[str | None]:
    """The strings of a column, those of a dictionary made once."""
    column.validate(full=True)
    array = column.combine_chunks()
    if not pyarrow().types.is_dictionary(array.type):
        array = array.dictionary_encode()
    texts = [*array.dictionary.to_pylist(), None]
    if not all(isinstance(text, str) for text in texts[:-1]):
        raise ValueError("names and keys are strings")
    return [texts[code] for code in array.indices.fill_null(len(texts) - 1).to_pylist()]


def _cells(text: str) -> dict[str, Any]:
    """The contents of an ad that are apart, by folded name, from JSON."""
    cells = _json(text)
    if not isinstance(cells, dict) or not all(isinstance(cell, str) for cell in cells.values()):
        raise ValueError("attributes that few ads have are a JSON object of cells")
    return {ascii_fold(name): content_of_cell(cell) for name, cell in cells.items()}


def _json(text: str) -> Any:
    """Parse JSON; None if it nests too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        return None


def _with_few(parts: StoreParts, few: Mapping[int, Mapping[str, Any]]) -> StoreParts:
    """The parts with sparse columns of the attributes that few ads have."""
    held: dict[str, dict[int, Any]] = {}
    for row, contents in few.items():
        for name, content in contents.items():
            held.setdefault(name, {})[row] = content
    if held.keys() & parts.columns.keys():
        raise ValueError("an attribute that few ads have is a column too")
    columns = {name: Sparse(parts.size, some) for name, some in held.items()}
    return attrs.evolve(parts, columns={**parts.columns, **columns})


def _laid_out(
    parts: StoreParts, texts: list[str | None], few: Mapping[int, Mapping[str, Any]]
) -> StoreParts:
    """The parts with the names of each row in their own order and spelling, from JSON."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    layouts = list(map(_layout, numbers))
    layout = np.array([numbers[text] for text in texts], np.int64)
    # Each combination of names that are there, and names that are said to be, once.
    both = parts.layout.astype(np.int64) * len(layouts) + layout
    plain = np.ones(parts.size, np.bool_)
    plain[list(few)] = False
    held = [frozenset(each.folded) for each in parts.layouts]
    names = [frozenset(each.folded) for each in layouts]
    # Sets of names are compared once for each combination: many rows may have the same long ones.
    lacking = {
        number: names[said] - held[present] if held[present] <= names[said] else None
        for number in np.unique(both).tolist()
        for present, said in [divmod(number, len(layouts))]
    }
    sound = not any(lacking[number] != frozenset() for number in np.unique(both[plain]).tolist())
    for row, contents in few.items():
        sound = sound and lacking[int(both[row])] == contents.keys()
    if not sound:
        raise ValueError("the names of an ad are not those of its columns")
    codes = layout.astype(narrowest(len(layouts)))
    return attrs.evolve(parts, layouts=layouts, layout=codes)


def _layout(text: str | None) -> Layout:
    names = _json(text or "null")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names of an ad are a list of strings")
    layout = Layout.of(tuple(names))
    if len(set(layout.folded)) != len(names):
        raise ValueError("a name of an ad comes twice")
    return layout
