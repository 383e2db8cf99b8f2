"""A column of strings that hardly repeat: one heap of bytes for all, and two numbers a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.matching.columns.column import (
    Codes,
    Rows,
    Table,
    Tabled,
    narrowest,
    numbers,
    roomy,
    stamp,
    zeros,
)
from matchmaker.matching.columns.contents import MISSING

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
        """Adds bytes; gives where they begin."""
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
    """Where in a heap the string of each row begins, and how many bytes it has.

    A row that holds no string has the greatest length there is, and begins at the code of what it
    holds in a table of other contents, of which the first is MISSING.
    """

    __slots__ = ("heap", "lengths", "starts", "waste")

    def __init__(
        self, starts: Codes, lengths: Codes, heap: Heap, table: Table, waste: int = 0
    ) -> None:
        """`waste` is how many bytes of the heap are no longer of use."""
        super().__init__()
        self.starts = starts
        self.lengths = lengths
        self.heap = heap
        self.table = table
        self.waste = waste

    def __len__(self) -> int:
        return len(self.starts)

    def get(self, row: int) -> Any:
        """The content of a row."""
        start, length = self.starts.item(row), self.lengths.item(row)
        if length == greatest(self.lengths):
            return self.table[start]
        return str(self.heap.data[start : start + length].data, "utf-8", "surrogatepass")

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row."""
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
        """Sets the contents of many rows."""
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
        """A column of some of the rows."""
        return Texts(self.starts[rows], self.lengths[rows], self.heap, self.table, self.waste)

    def copy(self, size: int, room: int) -> Texts:
        """A column of the first `size` rows with room for more."""
        starts, lengths = roomy(self.starts, size, room), roomy(self.lengths, size, room)
        lengths[size:] = greatest(lengths)
        return Texts(starts, lengths, self.heap, self.table, self.waste)

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        return self.other(size) & np.equal(self.starts[:size], 0)

    def other(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows hold no string."""
        return np.equal(self.lengths[:size], greatest(self.lengths))

    def contents(self, rows: Iterable[int]) -> list[Any]:
        """The contents of rows."""
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
        """Makes both numbers wide enough."""
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
    return Texts(np.zeros(size, np.uint32), lengths, Heap(), Table((MISSING,)))


def begins(lengths: npt.NDArray[Any]) -> Codes:
    """Where strings begin that follow each other, from their lengths in bytes."""
    starts: npt.NDArray[Any] = np.cumsum(lengths) - lengths
    return starts.astype(np.uint64 if int(lengths.sum()) >> 32 else np.uint32)


def greatest(lengths: Codes) -> int:
    """The length of a row that holds no string."""
    return (1 << (lengths.itemsize << 3)) - 1


def _sliced(rows: range) -> Any:
    return slice(rows.start, rows.stop, rows.step) if rows.step > 0 else list(rows)
