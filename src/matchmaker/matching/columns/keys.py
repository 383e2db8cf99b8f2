"""Which row is under which key, in a few bytes a row: keys are not kept a second time.

The key of a row is what the row holds under one attribute; only a key that was computed from an
expression is kept by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from matchmaker.matching.columns.column import Coded, Column, Numeric, Rows, zeros
from matchmaker.matching.columns.contents import INTEGER
from matchmaker.matching.columns.texts import Texts

_AT_ONCE: Final = 1 << 16
_RECENT: Final = 4096

Entries: TypeAlias = "npt.NDArray[np.uint64]"
KeyOf: TypeAlias = "Callable[[int], str | None]"


class DuplicateKeyError(ValueError):
    """Ads have keys that others have. ``keys`` names them, one entry an ad that is too many."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(*keys[:1])
        self.keys = tuple(keys)


class Keys(Sequence[str]):
    """The key of each row that lives, by the row's number."""

    __slots__ = ("_column", "_computed", "_size")

    def __init__(
        self, size: int = 0, column: Column | None = None, computed: Mapping[int, str] | None = None
    ) -> None:
        """`column` is of the key attribute, `computed` the keys of rows where it does not say."""
        self._size = size
        self._column = column if column is not None else Coded(np.zeros(size, np.uint8))
        self._computed = computed if computed is not None else {}

    def __len__(self) -> int:
        return self._size

    @property
    def computed(self) -> Mapping[int, str]:
        """The keys that are not what a row holds under the key attribute, by row."""
        return self._computed

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return self.of(range(self._size)[row])
        key = self._computed.get(row)
        return key if key is not None else str(self._column.get(row))

    def of(self, rows: Iterable[int]) -> list[str]:
        """The keys of many rows."""
        computed = self._computed
        if not computed:
            return list(map(str, self._column.contents(rows)))
        rows = list(rows)
        keys = map(str, self._column.contents(rows))
        return [computed.get(row, key) for row, key in zip(rows, keys, strict=True)]


def key_from(value: Any) -> str | None:
    """The key that a value is: a string, or the digits of an integer. None for any other."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return str(value)


def said(key: str, content: Any) -> bool:
    """Whether a row that holds this content needs not say its key again."""
    return content.__class__ in (str, int) and str(content) == key


def unsaid(column: Column, size: int) -> list[int]:
    """Which of the first `size` rows hold neither a string nor an integer."""
    rows = np.arange(size)
    if isinstance(column, Coded):
        plain = np.array([content.__class__ in (str, int) for content in column.table])
        rows = rows[~plain[column.codes[:size]]]
    elif isinstance(column, Numeric):
        rows = rows[column.kinds[:size] != INTEGER]
    elif isinstance(column, Texts):
        rows = rows[column.other(size)]
    places = rows.tolist()
    contents = zip(places, column.contents(places), strict=True)
    return [row for row, content in contents if content.__class__ not in (str, int)]


class Index:
    """Rows by key: sorted entries, and a table of what has changed since.

    An entry is a hash in the upper 32 bits and a row in the lower. Hashes are Python's own, which
    nobody can foretell; keys with the same hash are compared.
    """

    __slots__ = ("_entries", "_recent")

    def __init__(self) -> None:
        self._entries: Entries = np.zeros(0, np.uint64)
        self._recent: dict[str, int] = {}

    @classmethod
    def of(cls, keys: Keys, rows: Rows) -> Index:
        """The index of all these rows. Raises DuplicateKeyError."""
        index = cls()
        index._entries = zeros(len(rows), np.uint64)
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE].tolist()
            index._entries[first : first + _AT_ONCE] = entries_of(keys.of(some), some)
        index._entries.sort()
        index._check(keys)
        return index

    def _check(self, keys: Keys) -> None:
        """Raises DuplicateKeyError where rows have one key."""
        hashes = self._entries >> _HALF
        suspect = np.zeros(len(hashes), np.bool_)
        suspect[1:] = hashes[1:] == hashes[:-1]
        suspect[:-1] |= suspect[1:]
        suspects = rows_of(self._entries[suspect])
        seen: set[str] = set()
        again = []
        for key in keys.of(np.sort(suspects).tolist()):
            if key in seen:
                again.append(key)
            seen.add(key)
        if again:
            raise DuplicateKeyError(again)

    def get(self, key: str, key_of: KeyOf) -> int | None:
        """The row under a key, if there is one."""
        row = self._recent.get(key)
        if row is not None:
            return row if row >= 0 else None
        code = hash(key) & LOWER
        place = int(self._entries.searchsorted(np.uint64(code << 32)))
        while place < len(self._entries):
            found, row = divmod(int(self._entries[place]), 1 << 32)
            if found != code:
                break
            if key_of(row) == key:
                return row
            place += 1
        return None

    def suspects(self, keys: list[str]) -> list[bool]:
        """Which of the keys may be there; the others are not."""
        recent = self._recent
        known = [key in recent for key in keys]
        if len(self._entries):
            wanted = entries_of(keys, 0)
            places = np.minimum(self._entries.searchsorted(wanted), len(self._entries) - 1)
            same = self._entries[places] >> _HALF == wanted >> _HALF
            for place in np.flatnonzero(same).tolist():
                known[place] = True
        return known

    def put(self, key: str, row: int) -> None:
        """Notes the row of a new key."""
        self._recent[key] = row

    def extend(self, keys: Sequence[str], first: int) -> None:
        """Notes new keys of rows that follow each other."""
        self._recent.update(zip(keys, range(first, first + len(keys)), strict=True))

    def remove(self, key: str) -> None:
        """Notes that a key is gone."""
        self._recent[key] = -1

    @property
    def crowded(self) -> bool:
        """Whether so much is recent that it should be merged."""
        return len(self._recent) > max(_RECENT, len(self._entries) // 8)

    def merge(self, alive: npt.NDArray[np.bool_] | None, moved: Rows | None = None) -> None:
        """Takes what is recent in among the rest.

        `alive` has the rows that are left, if not all; `moved` gives their new numbers where they
        change.
        """
        entries = self._entries
        if alive is not None:
            entries = entries[alive[rows_of(entries)]]
        recent = {key: row for key, row in self._recent.items() if row >= 0}
        merged = zeros(len(entries) + len(recent), np.uint64)
        merged[: len(entries)] = entries
        merged[len(entries) :] = entries_of(list(recent), list(recent.values()))
        if moved is not None:
            merged = merged >> _HALF << _HALF | moved[rows_of(merged)].astype(np.uint64)
        merged.sort()
        self._entries, self._recent = merged, {}


_HALF: Final = np.uint64(32)
LOWER: Final = 0xFFFFFFFF


def entries_of(keys: Iterable[str], rows: Sequence[int] | int) -> Entries:
    """The entries of keys and their rows, or the least that keys may have."""
    hashes = np.fromiter(map(hash, keys), np.int64).view(np.uint64)
    return hashes << _HALF | np.array(rows, np.uint64)


def rows_of(entries: Entries) -> Rows:
    """The rows of entries."""
    return (entries & np.uint64(LOWER)).astype(np.intp)
