"""Where among many strings one is, regardless of case, without looking at them all each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns.column import Column, Rows, Table, zeros
from matchmaker.matching.columns.keys import LOWER, Entries, entries_of, rows_of

_AT_ONCE: Final = 1 << 16


class Lookup:
    """The places of strings among contents, by a hash of what they are in small letters.

    Entries are those of ``keys.Index``, of the text in small letters and a place.
    ``others`` are the places of what is no string.
    """

    __slots__ = ("_entries", "others")

    def __init__(self, size: int, contents: Callable[[range], Sequence[Any]]) -> None:
        """`contents` gives those of a range of places."""
        entries, others = [], []
        for first in range(0, size, _AT_ONCE):
            held = contents(range(first, min(size, first + _AT_ONCE)))
            odd = [n for n, content in enumerate(held) if content.__class__ is not str]
            texts = [c if c.__class__ is str else "" for c in held]
            entries.append(np.delete(_entries(texts, range(first, first + len(held))), odd))
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
        least = _entries(texts, 0)
        first = np.searchsorted(self._entries, least)
        last = np.searchsorted(self._entries, least | np.uint64(LOWER), side="right")
        some = [self._entries[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        places = rows_of(np.unique(np.concatenate(some))) if some else self.others
        wanted = set(texts) if exact else set(map(ascii_fold, texts))
        held = contents(places.tolist())
        return places[[(c if exact else ascii_fold(c)) in wanted for c in held]]


def _entries(texts: Sequence[str], places: Sequence[int] | int) -> Entries:
    return entries_of(map(ascii_fold, texts), places)


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
