"""Where among many strings one is, regardless of case, without looking at them all each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns.column import Column, Rows, Table, zeros

_HALF: Final = np.uint64(32)
_LOWER: Final = np.uint64(0xFFFFFFFF)
_AT_ONCE: Final = 1 << 16


class Lookup:
    """The places of strings among contents, by a hash of what they are in small letters.

    An entry has a hash in the upper 32 bits and a place in the lower, as those of ``keys.Index``.
    ``others`` are the places of what is no string.
    """

    __slots__ = ("_entries", "others")

    def __init__(self, size: int, contents: Callable[[range], Sequence[Any]]) -> None:
        """`contents` gives those of a range of places."""
        entries, others = [], []
        for first in range(0, size, _AT_ONCE):
            held = contents(range(first, min(size, first + _AT_ONCE)))
            odd = [n for n, content in enumerate(held) if content.__class__ is not str]
            hashes = _hashes([c if c.__class__ is str else "" for c in held])
            places = np.arange(first, first + len(held), dtype=np.uint64)
            entries.append(np.delete(hashes << _HALF | places, odd))
            others.append(np.array(odd, np.intp) + first)
        self.others: Rows = np.concatenate(others) if others else np.zeros(0, np.intp)
        self._entries = zeros(size - len(self.others), np.uint64)
        if entries:
            np.concatenate(entries, out=self._entries)
        self._entries.sort()

    def find(
        self, texts: Sequence[str], exact: bool, contents: Callable[[list[int]], Sequence[Any]]
    ) -> Rows:
        """The places of the strings that are one of some texts."""
        hashes = _hashes(texts) << _HALF
        first = np.searchsorted(self._entries, hashes)
        last = np.searchsorted(self._entries, hashes | _LOWER, side="right")
        some = [self._entries[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        places = (np.unique(np.concatenate(some)) & _LOWER).astype(np.intp) if some else self.others
        wanted = set(texts) if exact else set(map(ascii_fold, texts))
        held = contents(places.tolist())
        return places[[(c if exact else ascii_fold(c)) in wanted for c in held]]


def _hashes(texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    return np.fromiter(map(hash, map(ascii_fold, texts)), np.int64, len(texts)).view(np.uint64)


def of_table(table: Table) -> Lookup:
    """The lookup of a table of contents, which it keeps until it grows."""
    size = len(table)
    if table.lookup is None or table.lookup[0] != size:
        table.lookup = size, Lookup(size, lambda some: table[some.start : some.stop])
    return table.lookup[1]


def of_rows(column: Column, size: int) -> Lookup:
    """The lookup of the first rows of a column, which it keeps until it changes."""
    now = column.version, size
    if column.lookup is None or column.lookup[0] != now:
        column.lookup = now, Lookup(size, column.contents)
    return column.lookup[1]
