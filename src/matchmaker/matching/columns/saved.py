"""Pools as files: the arrays of the columns in a NumPy archive, and everything else as JSON.

The archive is a ZIP file whose parts are stored as they are, so that what is read can be no larger
than the file. Nothing in it is ever executed. It may come from a stranger: all of it is checked,
and what is wrong is told as a PoolFileError. The format is described in docs/pools.md.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import IO, Any, Final, NoReturn, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.errors import ParseError
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import MAX_INT, MIN_INT
from matchmaker.matching.columns.cells import content_of, text_of
from matchmaker.matching.columns.column import (
    Coded,
    Column,
    Loose,
    Numeric,
    Table,
    narrowest,
    roomy,
)
from matchmaker.matching.columns.contents import ABSENT, INTEGER, MISSING, OTHER, REAL
from matchmaker.matching.columns.keys import DuplicateKeyError, unsaid
from matchmaker.matching.columns.sparse import Sparse
from matchmaker.matching.columns.store import Layout, Parts, Store
from matchmaker.matching.columns.texts import Heap, Texts, begins, greatest

FORMAT: Final = "matchmaker pool"
VERSION: Final = 1
_INDEX: Final = "pool.json"

Array: TypeAlias = "npt.NDArray[Any]"
Arrays: TypeAlias = "dict[str, Array]"

# How NumPy begins an array of one dimension, version 1.0 of its format.
_HEADER: Final = re.compile(
    rb"\x93NUMPY\x01\0(?P<length>..)\{'descr': '(?P<kind>[<|][iu][1248])', "
    rb"'fortran_order': False, 'shape': \((?P<size>[0-9]{1,18}),\), \} *\n",
    re.DOTALL,
)
_UNSIGNED: Final = ("<u1", "<u2", "<u4", "<u8")


class PoolFileError(ValueError):
    """A file that is not a saved pool, or no longer a whole one."""


# --- writing --------------------------------------------------------------------------------------


def save(store: Store, key: str, file: IO[bytes]) -> None:
    """Writes a store. Raises ValueError for a content that would not be read back."""
    parts = store.parts()
    names: dict[str, int] = {}
    layouts = [[names.setdefault(n, len(names)) for n in layout.names] for layout in parts.layouts]
    columns = []
    arrays: Arrays = {"layout": parts.layout}
    for number, (name, column) in enumerate(parts.columns.items()):
        form, own, contents = _taken_apart(column, parts.size)
        try:
            cells = [_cell(content) for content in contents]
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        columns.append({"name": name, "form": form, "contents": cells})
        arrays |= {f"{number}.{kind}": array for kind, array in own.items()}
    index = {
        "format": FORMAT, "version": VERSION, "key": key, "rows": parts.size, "names": list(names),
        "layouts": layouts, "columns": columns,
        "computed": [[row, key] for row, key in sorted(parts.computed.items())],
    }  # fmt: skip
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_INDEX), json.dumps(index, separators=(",", ":")))
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as part:
                little = array.astype(array.dtype.newbyteorder("<"), copy=False)
                np.lib.format.write_array(part, little, (1, 0), allow_pickle=False)


def _taken_apart(column: Column, size: int) -> tuple[str, Arrays, Sequence[Any]]:
    """The form of a column, its arrays, and what cannot be in arrays."""
    if isinstance(column, Coded):
        codes, contents = _used(column.table, column.codes[:size], 1)
        return "coded", {"codes": codes}, contents
    if isinstance(column, Numeric):
        kinds, bits = column.kinds[:size], column.bits[:size].copy()
        other = kinds == OTHER
        bits[other], contents = _used(column.others, bits[other], 0)
        return "numeric", {"kinds": kinds, "bits": bits}, contents
    if isinstance(column, Texts):
        codes, contents = _used(column.others, column.starts[:size][column.other(size)], 1)
        _, data = column.packed(size)
        return "texts", {"lengths": column.lengths[:size], "codes": codes, "bytes": data}, contents
    if isinstance(column, Sparse):
        rows = sorted(column.held)
        return "sparse", {"rows": np.array(rows, np.uint64)}, column.contents(rows)
    return "loose", {}, column.contents(range(size))


def _used(table: Table, codes: Array, first: int) -> tuple[Array, list[Any]]:
    """The codes of only those entries that are used, behind the `first`, and these entries."""
    used = np.union1d(np.arange(first), codes).astype(np.intp)
    moved = np.searchsorted(used, codes).astype(narrowest(len(used)))
    return moved, [table[code] for code in used[first:].tolist()]


def _cell(content: Any) -> Any:
    """A content as JSON has it: null for none, and the text of what JSON has no word for."""
    if content is MISSING:
        return None
    kind = content.__class__
    if kind in (str, int, bool) or (kind is float and abs(content) < float("inf")):
        return content
    return {"expr": text_of(content)}


# --- reading --------------------------------------------------------------------------------------


def load(file: IO[bytes], source: str) -> tuple[str, Store]:
    """Reads the key attribute and the store of a file that may be anything.

    Raises PoolFileError.
    """
    data = BytesIO(file.read())
    try:
        with zipfile.ZipFile(data) as archive:
            # Parts that overlap could be far larger together than the file.
            if sum(part.file_size for part in archive.infolist()) > len(data.getbuffer()):
                raise zipfile.BadZipFile("parts overlap")
            return _Reader(archive, source).pool()
    except PoolFileError:
        raise
    except DuplicateKeyError as error:
        raise PoolFileError(f"{source}: two ads have the key {error.keys[0][:60]!r}") from None
    except _BROKEN as error:
        raise PoolFileError(
            f"{source}: not a saved pool, or only a part of one ({error})"
        ) from None


# What the reader of archives raises for those that are broken, encrypted or of unheard-of kinds.
_BROKEN: Final = (
    zipfile.BadZipFile, EOFError, NotImplementedError, OverflowError, RuntimeError, ValueError,
    struct.error,
)  # fmt: skip


@attrs.frozen(slots=True)
class _Reader:
    """Reads one archive, and trusts nothing in it."""

    archive: zipfile.ZipFile
    source: str

    def fail(self, what: str) -> NoReturn:
        raise PoolFileError(f"{self.source}: {what}; the file is damaged: save the pool again")

    def check(self, right: bool, what: str) -> None:
        if not right:
            self.fail(what)

    def pool(self) -> tuple[str, Store]:
        index = self.index()
        size, key = index["rows"], index["key"]
        layouts, holders = self.layouts(index["names"], index["layouts"])
        layout = self.array("layout", _UNSIGNED, size)
        self.check(not size or int(layout.max()) < len(layouts), "layout: a code without an entry")
        counts = np.bincount(layout, minlength=len(layouts))
        columns: dict[str, Column] = {}
        for number, described in enumerate(index["columns"]):
            name, column = self.column(number, described, size)
            self.check(name not in columns, f"the column {name} comes twice")
            self.check_rows(name, column, layout, counts, holders.pop(name, []))
            columns[name] = column
        for name in holders:
            self.fail(f"the column {name} is missing")
        computed = self.computed(index["computed"], size)
        folded = ascii_fold(key)
        held = columns.get(folded)
        for row in unsaid(held, size) if held is not None else ():
            if row not in computed:
                self.fail(f"ad {row + 1} has no {key}")
        self.check(held is not None or len(computed) == size, f"ads without {key}")
        parts = Parts(size, columns, layouts, layout.astype(narrowest(len(layouts))), computed)
        return key, Store.restored(folded, parts)

    def check_rows(
        self, name: str, column: Column, layout: Array, counts: Array, holders: list[int]
    ) -> None:
        """Checks that a column has something in exactly the rows whose layouts have its name."""
        if isinstance(column, Sparse):
            rows = np.array(list(column.held), np.intp)
        else:
            rows = np.flatnonzero(~column.missing(len(layout)))
        right = np.isin(layout[rows], holders).all() and len(rows) == counts[holders].sum()
        self.check(bool(right), f"{name}: not in the rows that it should be in")

    def index(self) -> dict[str, Any]:
        """What the JSON says, as far as its own types go."""
        try:
            index = json.loads(self.part(_INDEX), parse_constant=self.fail)
        except PoolFileError:
            raise
        except (ValueError, RecursionError) as error:
            self.fail(f"{_INDEX}: {error}")
        types = {"format": str, "version": int, "key": str, "rows": int, "names": list,
                 "layouts": list, "columns": list, "computed": list}  # fmt: skip
        self.check(isinstance(index, dict) and index.get("format") == FORMAT, f"no {FORMAT}")
        if index.get("version") != VERSION:
            raise PoolFileError(
                f"{self.source}: a saved pool of version {index.get('version')!r}; this program "
                f"reads version {VERSION}"
            )
        for name, kind in types.items():
            self.check(type(index.get(name)) is kind, f"{_INDEX}: {name} is not of type {kind}")
        self.check(index["rows"] >= 0, "a number of rows below 0")
        found: dict[str, Any] = index
        return found

    def part(self, name: str) -> bytes:
        """The bytes of one part of the archive."""
        try:
            info = self.archive.getinfo(name)
        except KeyError:
            self.fail(f"{name} is missing")
        stored = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
        self.check(stored, f"{name} is compressed, as parts of a saved pool never are")
        return self.archive.read(info)

    def array(self, name: str, kinds: Iterable[str], size: int | None) -> Array:
        """An array of one dimension, of one of some types, and of this length if there is one."""
        data = self.part(f"{name}.npy")
        header = _HEADER.match(data)
        if header is None or header.end() != 10 + int.from_bytes(header["length"], "little"):
            self.fail(f"{name}: not an array")
        kind = np.dtype(header["kind"].decode())
        self.check(kind in map(np.dtype, kinds), f"{name}: an array of type {kind}")
        length = int(header["size"])
        right = size in (None, length) and len(data) - header.end() == length * kind.itemsize
        self.check(right, f"{name}: not as long as it should be")
        array = np.frombuffer(data, kind, length, header.end())
        return roomy(array.astype(kind.newbyteorder("="), copy=False), length, length)

    def layouts(
        self, names: list[Any], layouts: list[Any]
    ) -> tuple[list[Layout], dict[str, list[int]]]:
        """The layouts, and for each folded name those that it is in."""
        self.check(all(type(name) is str for name in names), "names: not a string")
        found = []
        holders: dict[str, list[int]] = {}
        for code, places in enumerate(layouts):
            right = type(places) is list and all(
                type(place) is int and 0 <= place < len(names) for place in places
            )
            self.check(right, "layouts: not places of names")
            layout = Layout.of(tuple(names[place] for place in places))
            self.check(len(set(layout.folded)) == len(places), "layouts: a name comes twice")
            found.append(layout)
            for folded in layout.folded:
                holders.setdefault(folded, []).append(code)
        return found, holders

    def computed(self, pairs: list[Any], size: int) -> dict[int, str]:
        """Keys by row."""
        for pair in pairs:
            right = type(pair) is list and list(map(type, pair)) == [int, str]
            self.check(right and 0 <= pair[0] < size, "computed: not a row and a key")
        return dict(pairs)

    def column(self, number: int, described: Any, size: int) -> tuple[str, Column]:
        """A column by its folded name."""
        right = isinstance(described, Mapping) and type(described.get("contents")) is list
        self.check(right and type(described.get("name")) is str, "columns: not as they should be")
        name, form = described["name"], described.get("form")
        reader = {"coded": self.coded, "numeric": self.numeric, "texts": self.texts,
                  "sparse": self.sparse, "loose": self.loose}.get(str(form))  # fmt: skip
        if reader is None:
            self.fail(f"{name}: a column of unknown form {form!r}")
        return name, reader(name, str(number), described["contents"], size)

    def coded(self, name: str, number: str, cells: list[Any], size: int) -> Column:
        table = self.table(name, cells, (MISSING,))
        codes = self.array(f"{number}.codes", _UNSIGNED[:3], size)
        self.check(_below(codes, len(table)), f"{name}: a code without a content")
        return Coded(codes, table)

    def numeric(self, name: str, number: str, cells: list[Any], size: int) -> Column:
        others = self.table(name, cells, ())
        kinds = self.array(f"{number}.kinds", ("<u1",), size)
        bits = self.array(f"{number}.bits", ("<i8",), size)
        known = np.isin(kinds, (INTEGER, REAL, OTHER, ABSENT)).all()
        codes = bits[kinds == OTHER]
        right = known and not (codes < 0).any() and _below(codes, len(others))
        self.check(bool(right), f"{name}: a code without a content")
        bits[kinds == ABSENT] = 0
        return Numeric(kinds, bits, others)

    def texts(self, name: str, number: str, cells: list[Any], size: int) -> Column:
        others = self.table(name, cells, (MISSING,))
        lengths = self.array(f"{number}.lengths", _UNSIGNED, size)
        codes = self.array(f"{number}.codes", _UNSIGNED[:3], None)
        data = self.array(f"{number}.bytes", ("<u1",), None)
        other = lengths == greatest(lengths)
        self.check(np.count_nonzero(other) == len(codes), f"{name}: not a code for each row")
        self.check(_below(codes, len(others)), f"{name}: a code without a content")
        held = np.where(other, 0, lengths).astype(np.uint64)
        # The sum of lengths that are each within the file cannot wrap.
        within = not size or int(held.max()) <= len(data)
        self.check(within and int(held.sum()) == len(data), f"{name}: bytes are missing")
        starts = begins(held)
        begin = starts[~other & (held > 0)]
        try:
            str(data.data, "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            self.fail(f"{name}: {error}")
        self.check(not (data[begin] & 0xC0 == 0x80).any(), f"{name}: a string cut in a character")
        starts[other] = codes
        return Texts(starts, lengths, Heap(data), others)

    def sparse(self, name: str, number: str, cells: list[Any], size: int) -> Column:
        rows = self.array(f"{number}.rows", ("<u8",), len(cells)).tolist()
        right = len(set(rows)) == len(rows) and all(row < size for row in rows)
        self.check(right, f"{name}: not rows")
        return Sparse(size, dict(zip(rows, self.contents(name, cells), strict=True)))

    def loose(self, name: str, number: str, cells: list[Any], size: int) -> Column:
        self.check(len(cells) == size, f"{name}: not as long as it should be")
        return Loose([MISSING if c is None else self.contents(name, (c,))[0] for c in cells])

    def table(self, name: str, cells: list[Any], first: tuple[Any, ...]) -> Table:
        """A table of contents, each of which is there once."""
        contents = self.contents(name, cells)
        table = Table((*first, *contents))
        self.check(len(table) == len(first) + len(cells), f"{name}: a content comes twice")
        return table

    def contents(self, name: str, cells: Iterable[Any]) -> list[Any]:
        """The contents that cells of JSON stand for."""
        contents = []
        for cell in cells:
            if type(cell) is dict and len(cell) == 1 and type(cell.get("expr")) is str:
                try:
                    contents.append(content_of(cell["expr"]))
                except ParseError as error:
                    self.fail(f"{name}: {error.summary()}")
                continue
            right = type(cell) in (str, bool, float) or (
                type(cell) is int and MIN_INT <= cell <= MAX_INT
            )
            self.check(right, f"{name}: {str(cell)[:60]} is not a content")
            contents.append(cell)
        return contents


def _below(codes: Array, size: int) -> bool:
    return not len(codes) or int(codes.max()) < size
