"""Choose the form of a column: the one in which its contents take the least room.

Strings that hardly repeat share one heap of bytes (``Texts``); a column that hardly any row has
something in costs what it holds, not a byte a row (``Sparse``). Contents that enter together are
put into the form that the column has, or turn it into another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.classad.nodes import Expr
from matchmaker.matching.columns.column import (
    ABSENT,
    MISSING,
    OTHER,
    Coded,
    Codes,
    Column,
    ContentTable,
    Numeric,
    ObjectColumn,
    Rows,
    Tabled,
    encoded,
    in_memory,
    narrowest,
    numbers,
    same,
    stamp,
    with_capacity,
    zeros,
)

Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Places: TypeAlias = "npt.NDArray[np.int64]"

_AT_ONCE: Final = 1 << 16
"""How many rows are copied together, so that the memory for it stays small."""


def utf8(text: str) -> bytes:
    """A string as bytes; half a surrogate pair, which an ad may hold, has three."""
    return text.encode("utf-8", "surrogatepass")


class Heap:
    """Bytes that are only added to, so that columns copied from each other share them."""

    __slots__ = ("data", "used")

    def __init__(self, data: npt.NDArray[np.uint8] | None = None) -> None:
        self.data = data if data is not None else np.empty(0, np.uint8)
        self.used = len(self.data)

    def add(self, data: bytes) -> int:
        """Add bytes; return their start."""
        start = self.used
        if not data:
            return start
        end = start + len(data)
        if end > len(self.data):
            # Whoever reads goes on with the old array: what is in it stays as it is.
            larger = zeros(max(1 << 12, end + (end >> 3)) if start else end, np.uint8)
            larger[:start] = self.data[:start]
            self.data = larger
        self.data[start:end] = np.frombuffer(data, np.uint8)
        self.used = end
        return start


class Texts(Tabled):
    """A column of strings in one heap of bytes: the start and length of each row's string.

    A row with another content has the greatest length there is, and its start is the code of the
    content in a table, whose first entry is MISSING.
    """

    __slots__ = ("heap", "lengths", "starts", "waste")

    def __init__(
        self, starts: Codes, lengths: Codes, heap: Heap, table: ContentTable, waste: int = 0
    ) -> None:
        """`waste` is the number of unused bytes of the heap."""
        super().__init__()
        self.starts = starts
        self.lengths = lengths
        self.heap = heap
        self.table = table
        self.waste = waste

    def __len__(self) -> int:
        return len(self.starts)

    def get(self, row: int) -> Any:
        start, length = self.starts.item(row), self.lengths.item(row)
        if length == greatest(self.lengths):
            return self.table[start]
        return str(self.heap.data[start : start + length].data, "utf-8", "surrogatepass")

    def put(self, row: int, content: Any) -> None:
        if content.__class__ is not str:
            start, length = self.table.code(content), greatest(self.lengths)
            if self.starts[row] == start and self.lengths[row] == length:
                return
        else:
            data = utf8(content)
            length = len(data)
            if length == self.lengths.item(row) and length < greatest(self.lengths):
                start = self.starts.item(row)
                if self.heap.data[start : start + length].tobytes() == data:
                    return
            start = self.heap.add(data)
            self.reach(start, length)
        before = int(self.lengths[row])
        self.waste += before if before < greatest(self.lengths) else 0
        self.starts[row], self.lengths[row] = start, length
        self.version = stamp()

    def fill(self, rows: Rows | slice, contents: Sequence[Any]) -> None:
        if set(map(type, contents)) != {str}:
            super().fill(rows, contents)
            return
        together = "".join(contents)
        encoded = contents if together.isascii() else list(map(utf8, contents))
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        starts = self.heap.add(utf8(together)) + np.cumsum(lengths) - lengths
        self.reach(int(starts[-1]), int(lengths.max()))
        before = self.lengths[rows]
        self.waste += int(before[before < greatest(self.lengths)].sum())
        self.starts[rows], self.lengths[rows] = starts, lengths
        self.version = stamp()

    def take(self, rows: Rows) -> Texts:
        return Texts(self.starts[rows], self.lengths[rows], self.heap, self.table, self.waste)

    def copy(self, size: int, room: int) -> Texts:
        starts, lengths = (
            with_capacity(self.starts, size, room),
            with_capacity(self.lengths, size, room),
        )
        lengths[size:] = greatest(lengths)
        return Texts(starts, lengths, self.heap, self.table, self.waste)

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        return self.other(size) & np.equal(self.starts[:size], 0)

    def other(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows hold no string."""
        return np.equal(self.lengths[:size], greatest(self.lengths))

    def contents(self, rows: Iterable[int]) -> list[Any]:
        places = _sliced(rows) if isinstance(rows, range) else numbers(rows)
        starts, lengths = self.starts[places].astype(np.int64), self.lengths[places]
        ends = starts + lengths
        other = lengths == greatest(lengths)
        if len(starts) and not other.any():
            first, last = int(starts.min()), int(ends.max())
            data = self.heap.data[first:last]
            if last - first <= 4 * int(lengths.sum()) and data.max(initial=0) < 128:
                # Characters are bytes here, so that the string of all is cut where the bytes are.
                text = str(data.data, "ascii")
                cuts = zip((starts - first).tolist(), (ends - first).tolist(), strict=True)
                return [text[start:end] for start, end in cuts]
        held, others = self.heap.data.data, self.table
        cuts = zip(starts.tolist(), ends.tolist(), strict=True)
        return [
            others[start] if elsewhere else str(held[start:end], "utf-8", "surrogatepass")
            for elsewhere, (start, end) in zip(other.tolist(), cuts, strict=True)
        ]

    def packed(self, size: int) -> tuple[Places, Bytes]:
        """The lengths of the first `size` rows' strings, 0 for other rows, and their bytes."""
        lengths = np.where(self.other(size), 0, self.lengths[:size]).astype(np.int64)
        return lengths, self._gathered(self.starts[:size], lengths)

    def repacked(self) -> Texts:
        """A copy with a new heap that holds only what rows hold."""
        other = self.other(len(self.starts))
        starts, inverse = np.unique(self.starts[~other], return_inverse=True)
        lengths = np.zeros(len(starts), np.int64)
        lengths[inverse] = self.lengths[~other]
        moved = self.starts.copy()
        moved[~other] = (np.cumsum(lengths) - lengths)[inverse]
        heap = Heap(self._gathered(starts, lengths))
        return Texts(moved, self.lengths.copy(), heap, self.table)

    def _gathered(self, starts: Codes, lengths: Places) -> Bytes:
        pieces = []
        for first in range(0, len(starts), _AT_ONCE):
            some = lengths[first : first + _AT_ONCE]
            begin = np.cumsum(some) - some
            places = starts[first : first + _AT_ONCE].astype(np.int64) - begin
            pieces.append(self.heap.data[np.repeat(places, some) + np.arange(some.sum())])
        return np.concatenate(pieces) if pieces else np.empty(0, np.uint8)

    def reach(self, start: int, length: int) -> None:
        """Make both numbers wide enough."""
        if start >> (self.starts.itemsize << 3):
            self.starts = self.starts.astype(np.uint64)
        if length >= greatest(self.lengths):
            other = self.other(len(self.lengths))
            self.lengths = self.lengths.astype(narrowest(length + 2))
            self.lengths[other] = greatest(self.lengths)


def texts(strings: Sequence[str]) -> Texts:
    """A column of strings."""
    column = without(len(strings))
    column.fill(slice(len(strings)), strings)
    return column


def without(size: int) -> Texts:
    """A column of rows that hold nothing yet."""
    lengths = np.full(size, np.iinfo(np.uint8).max, np.uint8)
    return Texts(np.zeros(size, np.uint32), lengths, Heap(), ContentTable((MISSING,)))


def begins(lengths: npt.NDArray[Any]) -> Codes:
    """Return the starts of strings that follow each other, from their lengths in bytes."""
    starts: npt.NDArray[Any] = np.cumsum(lengths) - lengths
    return starts.astype(np.uint64 if int(lengths.sum()) >> 32 else np.uint32)


def greatest(lengths: Codes) -> int:
    """The length of a row that holds no string."""
    return (1 << (lengths.itemsize << 3)) - 1


def _sliced(rows: range) -> Any:
    return slice(rows.start, rows.stop, rows.step) if rows.step > 0 else list(rows)


SPARSE: Final = 64
"""A column is sparse if fewer than one row in 64 holds something."""

DENSE: Final = 4096
"""Among no more rows than this there are no sparse columns."""


class Sparse(Column):
    """The contents of the few rows that have any, by row."""

    __slots__ = ("_room", "held")

    def __init__(self, room: int, held: dict[int, Any]) -> None:
        super().__init__()
        self._room = room
        self.held = held

    def __len__(self) -> int:
        return self._room

    def get(self, row: int) -> Any:
        return self.held.get(row, MISSING)

    def put(self, row: int, content: Any) -> None:
        if same(self.held.get(row, MISSING), content):
            return
        if content is MISSING:
            del self.held[row]
        else:
            self.held[row] = content
        self.version = stamp()

    def take(self, rows: Rows) -> Sparse:
        held = np.array(sorted(self.held), np.intp)
        held = held[np.isin(held, rows)]
        places = np.searchsorted(rows, held).tolist()
        kept = zip(places, self.contents(held.tolist()), strict=True)
        return Sparse(len(rows), dict(kept))

    def copy(self, size: int, room: int) -> Sparse:
        return Sparse(room, self.held.copy())

    def expressions(self) -> list[Expr]:
        return list(dict.fromkeys(c for c in self.held.values() if isinstance(c, Expr)))

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        missing = np.ones(size, np.bool_)
        missing[list(self.held)] = False
        return missing

    def coded(self) -> Coded:
        """The same with a code a row, and of the same version."""
        table = ContentTable((MISSING,))
        codes = table.codes(list(self.held.values()))
        column = Coded(np.zeros(self._room, narrowest(len(table))), table)
        column.codes[list(self.held)] = codes
        column.version = self.version
        return column


def empty(column: Column, size: int) -> bool:
    """Whether no row has anything in a column. Of a large one that is not sparse: no."""
    if isinstance(column, Sparse):
        return not column.held
    return isinstance(column, Coded) and size <= DENSE and not column.codes[:size].any()


def thinned(column: Column, size: int) -> Column:
    """Return the column, or a sparse one of the same version if that is smaller by far."""
    if not isinstance(column, Coded):
        return column
    rows = np.flatnonzero(column.codes[:size])
    if len(rows) * SPARSE >= size:
        return column
    places = rows.tolist()
    thin = Sparse(len(column), dict(zip(places, column.contents(places), strict=True)))
    thin.version = column.version
    return thin


class ViewColumns(Mapping[str, Column]):
    """Columns by folded name that do not change; a sparse one is coded when it is asked for."""

    __slots__ = ("_coded", "held")

    def __init__(self, held: dict[str, Column]) -> None:
        """`held` has the columns as they are kept."""
        self.held = held
        self._coded: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        column = in_memory(self.held[name])
        if isinstance(column, Sparse):
            known = self._coded.get(name)
            column = known if known is not None else self._coded.setdefault(name, column.coded())
        return column

    def __contains__(self, name: object) -> bool:
        return name in self.held

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


MANY: Final = 4096
"""With more distinct contents than this, and few rows to each, a column is not coded."""

FEW: Final = 64
"""Of fewer contents nobody can tell whether they hardly repeat."""

_NUMBERS: Final = 4
_STRINGS: Final = 2
"""A column is not coded, either, if there are less than so many rows to a number or a string."""


def settled(column: Column, size: int) -> Column:
    """The column in the form that suits its first `size` rows.

    A coded one whose contents hardly repeat gets another form; one whose table or heap is full of
    unused contents gets a new one. The contents of rows and the version stay.
    """
    fresh = column
    many = max(MANY, size // 4)
    if isinstance(column, Coded):
        if len(column.table) > many:
            fresh = _recoded(column, size, many)
    elif isinstance(column, Numeric):
        if len(column.table) > many:
            fresh = _with_fewer_others(column, column.kinds == OTHER, column.bits, size, many)
    elif isinstance(column, Texts):
        if len(column.table) > many:
            other = column.other(len(column.starts))
            fresh = _with_fewer_others(column, other, column.starts, size, many)
        # Below 64 KiB a copy saves nothing; above half, copying costs no more than was written.
        elif column.waste > 1 << 16 and 2 * column.waste > column.heap.used:
            fresh = column.repacked()
    fresh.version = column.version
    return fresh


def compact(column: Column, size: int) -> Column:
    """Return the column in the form in which its first `size` rows take about the least room.

    A column filled block by block chose its form by the first blocks; now all rows are known.
    """
    fresh = uncoded(column, size) if isinstance(column, Coded) else _repeating(column, size)
    fresh.version = column.version
    return fresh


def uncoded(column: Column, size: int) -> Column:
    """Return a coded column as one of numbers or strings if that takes less room, else as it is."""
    if not isinstance(column, Coded):
        return column
    # The codes by content are rebuilt when asked for; a filled column is mostly read.
    column.table.forget()
    distinct = len(column.table) - 1
    if distinct < FEW or distinct * _NUMBERS <= size:
        return column
    kinds = list(map(type, column.table))
    fresh: Column = column
    # An object of Python takes 30 to 60 bytes, in a table or as one of the others: a form for one
    # kind pays if three quarters of the contents are of it.
    if 4 * (kinds.count(int) + kinds.count(float)) >= 3 * distinct:
        fresh = _numeric(column)
    elif 4 * kinds.count(str) >= 3 * distinct and distinct * _STRINGS > size:
        fresh = _texts(column)
    fresh.version = column.version
    return fresh


def _repeating(column: Column, size: int) -> Column:
    """Return the column, or a coded one if its first `size` rows have few distinct numbers."""
    if not isinstance(column, Numeric):
        return column
    most = MANY // 2 if size > MANY else size // _NUMBERS
    # A sample of about MANY rows tells columns that do not repeat, without sorting them whole.
    if len(np.unique(column.bits[: size : 1 + size // (MANY + 1)])) > most:
        return column
    table = ContentTable((MISSING,))
    codes = np.zeros(len(column), np.uint16)
    for kind in np.unique(column.kinds[:size]).tolist():
        rows = np.flatnonzero(column.kinds[:size] == kind)
        _, firsts, places = np.unique(column.bits[rows], return_index=True, return_inverse=True)
        if len(table) + len(firsts) > MANY:
            return column
        held = np.array(table.codes(column.contents(rows[firsts].tolist())), np.uint16)
        codes[rows] = held[places]
    return Coded(codes.astype(narrowest(len(table))), table)


def unshared(column: Column) -> Column:
    """A copy in which numbers may be put at any time, without regard to who reads the original."""
    return _numeric(column) if isinstance(column, Coded) else column.take(np.arange(len(column)))


def of_form(pattern: Column, column: Coded) -> Column:
    """A coded column in the form that another has, which is not coded."""
    if isinstance(pattern, Numeric):
        return _numeric(column)
    return _texts(column) if isinstance(pattern, Texts) else _as_objects(column, len(column))


def _recoded(column: Coded, size: int, many: int) -> Column:
    table = column.table
    used = np.flatnonzero(np.bincount(column.codes[:size], minlength=len(table)))
    if len(used) <= many // 2:
        return _coded(column, used)
    held = [table[code].__class__ for code in used.tolist()]
    if 4 * sum(kind in (int, float) for kind in held) >= 3 * len(held):
        return _numeric(column)
    if 4 * held.count(str) >= 3 * len(held):
        return _texts(column)
    return _as_objects(column, size)


def _coded(column: Coded, used: Rows) -> Coded:
    table = ContentTable((MISSING,))
    moved = np.zeros(len(column.table), np.uint32)
    moved[used] = table.codes([column.table[code] for code in used.tolist()])
    return Coded(moved[column.codes].astype(narrowest(len(table))), table)


def _numeric(column: Coded) -> Numeric:
    kinds, bits = encoded(column.table)
    others = ContentTable()
    for code, content in enumerate(column.table):
        if content.__class__ not in (int, float):
            kinds[code], bits[code] = OTHER, others.code(content)
    # Code 0 of every table is MISSING, which `Numeric` marks by its kind.
    kinds[0] = ABSENT
    return Numeric(kinds[column.codes], bits[column.codes], others)


def _texts(column: Coded) -> Texts:
    table = column.table
    entries = texts([content if content.__class__ is str else "" for content in table])
    for code, content in enumerate(table):
        if content.__class__ is not str:
            entries.put(code, content)
    return entries.take(column.codes.astype(np.intp))


def _as_objects(column: Column, size: int) -> ObjectColumn:
    return ObjectColumn(column.contents(range(size)) + [MISSING] * (len(column) - size))


def _with_fewer_others(
    column: Numeric | Texts, other: Any, codes: Any, size: int, many: int
) -> Column:
    """Drop the unused ones of the other contents from the table.

    If too many are left, the column is no longer one of numbers or strings.
    """
    used = np.unique(codes[other])
    if len(used) > many // 2:
        return _as_objects(column, size)
    others = ContentTable((MISSING,)) if isinstance(column, Texts) else ContentTable()
    moved = codes.copy()
    places = others.codes([column.table[code] for code in used.tolist()])
    moved[other] = np.array(places)[np.searchsorted(used, codes[other])]
    if isinstance(column, Texts):
        return Texts(moved, column.lengths.copy(), column.heap, others, column.waste)
    return Numeric(column.kinds.copy(), moved, others)


_SURE: Final = 256
"""The number of rows from which contents that hardly repeat are expected to go on so."""


def column_of(contents: list[Any]) -> Column:
    """Make a column of contents, in the form that takes the least room."""
    # That 1, 1.0 and true count as one here makes no difference to speak of.
    if len(contents) >= FEW and 2 * len(set(contents)) > len(contents):
        return hardly_repeating(contents) or Coded.of(contents)
    return Coded.of(contents)


def hardly_repeating(contents: list[Any]) -> Column | None:
    """Make a column of mostly numbers or mostly strings; None for other contents."""
    size = len(contents)
    kinds = list(map(type, contents))
    integers, reals, strings = map(kinds.count, (int, float, str))
    column: Column
    if integers + reals == size:
        return Numeric(*encoded(contents), ContentTable())
    if 4 * (integers + reals) >= 3 * size:
        column = Numeric(np.full(size, ABSENT, np.uint8), np.zeros(size, np.int64), ContentTable())
    elif 4 * strings >= 3 * size:
        column = without(size)
    else:
        return None
    for kind in dict.fromkeys(kinds):
        # A column takes contents of one kind together.
        places = [at for at, each in enumerate(kinds) if each is kind]
        column.fill(np.array(places), [contents[at] for at in places])
    return column


def entered(column: Column, rows: Rows | slice, other: Column, size: int) -> Column:
    """Copy the contents of another column into some rows, in order; return the changed column.

    The column must not be shown by a view: it is changed in place, or replaced by one of another
    form that suits a pool of `size` rows.
    """
    if isinstance(column, Sparse) and (len(column.held) + len(other)) * SPARSE >= size:
        column = column.coded()
    if isinstance(column, Coded):
        if isinstance(other, Coded):
            _codes(column, rows, other)
            return column
        # The block comes in a form without codes if its contents hardly repeat. The column takes
        # that form while it is empty, or when its table would grow too large.
        fresh = len(column.table) == 1 and len(other) >= _SURE
        if fresh or len(column.table) + len(other) > max(MANY, size // 4):
            column = of_form(other, column)
    if isinstance(other, Coded) and isinstance(column, (Numeric, Texts)):
        other = of_form(column, other)
    if isinstance(column, ObjectColumn) and isinstance(other, ObjectColumn):
        column.fill(rows, other.rows)
    elif isinstance(column, Numeric) and isinstance(other, Numeric):
        _numbers(column, rows, other)
    elif isinstance(column, Texts) and isinstance(other, Texts):
        _strings(column, rows, other)
    else:
        column.fill(rows, other.contents(range(len(other))))
    return column


def _codes(column: Coded, rows: Rows | slice, other: Coded) -> None:
    if len(column.table) == 1:
        column.table = other.table.duplicate()
        moved = np.arange(len(column.table))
    else:
        moved = np.array([0, *column.table.codes(other.table[1:])], np.intp)
    if len(column.table) - 1 >> (column.codes.itemsize << 3):
        column.codes = column.codes.astype(narrowest(len(column.table)))
    column.codes[rows] = moved[other.codes]
    column.version = stamp()


def _numbers(column: Numeric, rows: Rows | slice, other: Numeric) -> None:
    column.kinds[rows] = other.kinds
    column.bits[rows] = _with_codes(column, other, other.kinds == OTHER, other.bits)
    column.version = stamp()


def _strings(column: Texts, rows: Rows | slice, other: Texts) -> None:
    begin = column.heap.add(other.heap.data[: other.heap.used].tobytes())
    elsewhere = other.other(len(other))
    starts = _with_codes(column, other, elsewhere, other.starts.astype(np.int64) + begin)
    lengths = other.lengths.astype(np.int64)
    column.reach(int(starts.max(initial=0)), int(lengths[~elsewhere].max(initial=0)))
    lengths[elsewhere] = greatest(column.lengths)
    before = column.lengths[rows]
    column.waste += int(before[before < greatest(column.lengths)].sum()) + other.waste
    column.starts[rows], column.lengths[rows] = starts, lengths
    column.version = stamp()


def _with_codes(column: Numeric | Texts, other: Numeric | Texts, elsewhere: Any, held: Any) -> Any:
    """Return another column's bits or starts, with codes of this one's table."""
    if not elsewhere.any():
        return held
    moved = np.array(column.table.codes(other.table), np.int64)
    codes = other.bits if isinstance(other, Numeric) else other.starts
    held = held.copy()
    held[elsewhere] = moved[codes[elsewhere].astype(np.intp)]
    return held
