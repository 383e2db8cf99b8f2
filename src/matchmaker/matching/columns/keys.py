"""Which row is under which key, in a few bytes a row: keys are not kept a second time.

The key of a row is what the row holds under one attribute; only a key that was computed from an
expression is kept by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from matchmaker.matching.columns.column import Coded, Column, Rows

_AT_ONCE: Final = 1 << 16
_RECENT: Final = 4096

Hashes: TypeAlias = "npt.NDArray[np.uint32]"
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


def said(key: str, content: Any) -> bool:
    """Whether a row that holds this content needs not say its key again."""
    return content.__class__ in (str, int, bool) and str(content) == key


class Index:
    """Rows by key: sorted hashes with their rows, and a table of what has changed since.

    Hashes are Python's own, which nobody can foretell, cut to 32 bits: keys with one hash are told
    apart by themselves.
    """

    __slots__ = ("_hashes", "_recent", "_rows")

    def __init__(self) -> None:
        self._hashes: Hashes = np.zeros(0, np.uint32)
        self._rows: Hashes = np.zeros(0, np.uint32)
        self._recent: dict[str, int] = {}

    @classmethod
    def of(cls, keys: Keys, rows: Rows) -> Index:
        """The index of all these rows. Raises DuplicateKeyError."""
        index = cls()
        parts = [_hashed(keys.of(rows[i : i + _AT_ONCE].tolist()))
                 for i in range(0, len(rows), _AT_ONCE)]  # fmt: skip
        hashes = np.concatenate(parts) if parts else np.zeros(0, np.uint32)
        index._set(hashes, rows.astype(np.uint32))
        index._check(keys)
        return index

    def _set(self, hashes: Hashes, rows: Hashes) -> None:
        # This sort merges runs that are in order already.
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._rows = hashes[order], rows[order]

    def _check(self, keys: Keys) -> None:
        """Raises DuplicateKeyError where rows have one key."""
        equal = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        if not len(equal):
            return
        suspects = np.union1d(equal, equal + 1)
        seen: set[str] = set()
        again = []
        for key in keys.of(np.sort(self._rows[suspects]).tolist()):
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
        hashes = self._hashes
        code = np.uint32(hash(key) & 0xFFFFFFFF)
        place = int(hashes.searchsorted(code))
        while place < len(hashes) and hashes[place] == code:
            row = int(self._rows[place])
            if key_of(row) == key:
                return row
            place += 1
        return None

    def suspects(self, keys: list[str]) -> list[bool]:
        """Which of the keys may be there; the others are not."""
        recent = self._recent
        known = [key in recent for key in keys]
        if len(self._hashes):
            codes = _hashed(keys)
            places = np.minimum(self._hashes.searchsorted(codes), len(self._hashes) - 1)
            for place in np.flatnonzero(self._hashes[places] == codes).tolist():
                known[place] = True
        return known

    def put(self, key: str, row: int) -> None:
        """Notes the row of a new key."""
        self._recent[key] = row

    def remove(self, key: str) -> None:
        """Notes that a key is gone."""
        self._recent[key] = -1

    @property
    def crowded(self) -> bool:
        """Whether so much is recent that it should be merged."""
        return len(self._recent) > max(_RECENT, len(self._hashes) // 8)

    def merge(self, alive: npt.NDArray[np.bool_], moved: Rows | None = None) -> None:
        """Takes what is recent in among the rest.

        `alive` tells which rows are left; `moved` gives their new numbers where they change.
        """
        left = alive[self._rows]
        recent = {key: row for key, row in self._recent.items() if row >= 0}
        added = _hashed(list(recent))
        order = np.argsort(added)
        rows = np.fromiter(recent.values(), np.uint32, len(recent))[order]
        rows = np.concatenate([self._rows[left], rows])
        hashes = np.concatenate([self._hashes[left], added[order]])
        self._set(hashes, rows if moved is None else moved[rows].astype(np.uint32))
        self._recent = {}


def _hashed(keys: list[str]) -> Hashes:
    return np.fromiter(map(hash, keys), np.int64, len(keys)).astype(np.uint32)
