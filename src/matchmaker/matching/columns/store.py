"""The rows of many ads: which there are, under which keys, and a frozen view of them.

A ``Store`` changes in place; a ``View`` never does. A column that a living view shows is copied
before it is changed, so that whoever matches against a view is not disturbed and nobody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from weakref import WeakSet

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.ad import ClassAd, canonical_names
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns.column import MISSING, Coded, Column, Rows, narrowest, settled

_SETTLE_EVERY: Final = 1024
_BATCH: Final = 4096


class DuplicateKeyError(ValueError):
    """Two ads have one key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@attrs.frozen(slots=True)
class Layout:
    """The names of an ad in its order: as spelled, folded, and the spellings where unusual."""

    names: tuple[str, ...]
    folded: tuple[str, ...]
    spellings: dict[str, str] | None

    @classmethod
    def of(cls, names: tuple[str, ...]) -> Layout:
        """The layout of an ad with these names."""
        return cls(names, tuple(map(ascii_fold, names)), canonical_names(names))

    def ad(self, columns: Mapping[str, Column], row: int) -> ClassAd:
        """An ad with this layout and what a row holds."""
        return ClassAd.of({name: columns[name].get(row) for name in self.folded}, self.spellings)


@attrs.frozen(slots=True, eq=False, weakref_slot=True)
class View:
    """Rows that do not change: columns by folded name, the key of each row, and which rows live.

    ``alive`` is None where all rows do.
    """

    size: int
    columns: Mapping[str, Column]
    keys: list[str]
    alive: npt.NDArray[np.bool_] | None
    layouts: list[Layout]
    layout: npt.NDArray[Any]

    def ad(self, row: int) -> ClassAd:
        """The ad of a row, made anew."""
        layout: Layout = self.layouts[self.layout[row]]
        return layout.ad(self.columns, row)

    def rows(self) -> Rows:
        """The numbers of the rows that live."""
        return np.arange(self.size) if self.alive is None else np.flatnonzero(self.alive)

    def __len__(self) -> int:
        return self.size if self.alive is None else int(np.count_nonzero(self.alive))


class Store:
    """Ads by key, as columns. All changes go through here, one at a time."""

    __slots__ = (
        "_alive", "_changes", "_columns", "_dead", "_keys", "_known", "_layout", "_layouts",
        "_lock", "_rows", "_size", "_views",
    )  # fmt: skip

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}
        self._rows: dict[str, int] = {}
        self._keys: list[str] = []
        self._alive = np.zeros(0, np.bool_)
        self._layouts: list[Layout] = []
        self._known: dict[tuple[str, ...], int] = {}
        self._layout: npt.NDArray[Any] = np.zeros(0, np.uint8)
        self._size = self._dead = self._changes = 0
        self._views: WeakSet[View] = WeakSet()
        self._lock = threading.Lock()

    @classmethod
    def restored(
        cls, keys: list[str], columns: dict[str, Column], layouts: list[Layout], layout: Any
    ) -> Store:
        """A store around columns that are already made, all of them as long as the keys."""
        store = cls()
        store._columns, store._keys, store._size = columns, keys, len(keys)
        store._rows = {key: row for row, key in enumerate(keys)}
        store._alive = np.ones(len(keys), np.bool_)
        store._layouts, store._layout = layouts, layout
        store._known = {layout.names: code for code, layout in enumerate(layouts)}
        return store

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[str]:
        """The keys, in the order in which they were first entered."""
        with self._lock:
            return iter([self._keys[row] for row in self._rows.values()])

    def ad(self, key: str) -> ClassAd:
        """The ad under a key. Raises KeyError where there is none."""
        with self._lock:
            row = self._rows[key]
            layout: Layout = self._layouts[self._layout[row]]
            return layout.ad(self._columns, row)

    def put(self, key: str, ad: ClassAd) -> None:
        """Enters an ad, in the place of the one with its key if there is one."""
        with self._lock:
            self._put(key, ad)

    def extend(self, ads: Iterable[tuple[str, ClassAd]]) -> None:
        """Enters many ads. Raises DuplicateKeyError for one that is already there."""
        pending: list[tuple[str, ClassAd]] = []
        code = -1
        for key, ad in ads:
            layout = self._layout_of(ad)
            if layout != code or len(pending) == _BATCH:
                self._append(pending, code)
                pending, code = [], layout
            pending.append((key, ad))
        self._append(pending, code)

    def remove(self, key: str) -> None:
        """Takes an ad out. Raises KeyError where there is none."""
        with self._lock:
            row = self._rows.pop(key)
            self._alive[row] = False
            self._dead += 1
            for folded in self._layouts[self._layout[row]].folded:
                self._writable(folded).put(row, MISSING)
            if self._dead > 1024 and 2 * self._dead > self._size:
                self._compact()

    def view(self) -> View:
        """The rows as they are now."""
        with self._lock:
            alive = self._alive[: self._size].copy() if self._dead else None
            view = View(
                self._size, self._columns.copy(), self._keys, alive, self._layouts,
                self._layout[: self._size].copy(),
            )  # fmt: skip
            self._views.add(view)
            for column in self._columns.values():
                column.shown = True
            return view

    # --- under the lock ---------------------------------------------------------------------------

    def _put(self, key: str, ad: ClassAd) -> None:
        row = self._rows.get(key)
        layout = self._layout_of(ad)
        if row is None:
            row = self._size
            if row == len(self._alive):
                self._grow(max(16, row + (row >> 1)))
            self._rows[key] = row
            self._keys.append(key)
            self._alive[row] = True
            self._size += 1
        else:
            before = self._layouts[self._layout[row]].folded
            for folded in before:
                if folded not in ad.content:
                    self._writable(folded).put(row, MISSING)
        self._set_layout(row, layout)
        columns = self._columns
        for folded, content in ad.content.items():
            column = columns.get(folded)
            if column is None or column.shown:
                column = self._writable(folded)
            column.put(row, content)
        self._changes += 1
        if self._changes % _SETTLE_EVERY == 0:
            self._settle()

    def _append(self, ads: list[tuple[str, ClassAd]], layout: int) -> None:
        """Enters new ads that have the same names in the same order."""
        if not ads:
            return
        with self._lock:
            for place, (key, _) in enumerate(ads):
                if key in self._rows:
                    for entered, _ in ads[:place]:
                        del self._rows[entered]
                    raise DuplicateKeyError(key)
                self._rows[key] = self._size + place
            rows = slice(self._size, self._size + len(ads))
            if rows.stop > len(self._alive):
                self._grow(max(rows.stop, self._size + (self._size >> 1)))
            self._keys.extend(key for key, _ in ads)
            self._alive[rows] = True
            self._set_layout(rows, layout)
            self._size = rows.stop
            contents = zip(*(ad.content.values() for _, ad in ads), strict=True)
            for folded, held in zip(self._layouts[layout].folded, contents, strict=True):
                self._writable(folded).fill(rows, held)
            self._settle()

    def _set_layout(self, rows: int | slice, layout: int) -> None:
        if layout >> (self._layout.itemsize << 3):
            self._layout = self._layout.astype(narrowest(layout + 1))
        self._layout[rows] = layout

    def _layout_of(self, ad: ClassAd) -> int:
        names = tuple(ad)
        code = self._known.get(names)
        if code is None:
            code = self._known[names] = len(self._layouts)
            self._layouts.append(Layout.of(names))
        return code

    def _writable(self, folded: str) -> Column:
        """The column of a name, for change: a new one if there is none or a view shows it."""
        column = self._columns.get(folded)
        if column is None:
            column = self._columns[folded] = Coded(len(self._alive))
        elif column.shown:
            if any(view.columns.get(folded) is column for view in self._views):
                column = self._columns[folded] = column.take(slice(None))
            else:
                column.shown = False
        return column

    def _grow(self, size: int) -> None:
        larger = np.zeros(size, np.bool_)
        larger[: len(self._alive)] = self._alive
        self._alive = larger
        layouts = np.zeros(size, self._layout.dtype)
        layouts[: len(self._layout)] = self._layout
        self._layout = layouts
        for folded in list(self._columns):
            self._writable(folded).grow(size)

    def _settle(self) -> None:
        for folded, column in list(self._columns.items()):
            self._columns[folded] = settled(column, self._size)

    def _compact(self) -> None:
        """Gives up the rows that are dead. Views keep what they show."""
        rows = np.flatnonzero(self._alive[: self._size])
        self._columns = {name: column.take(rows) for name, column in self._columns.items()}
        self._keys = [self._keys[row] for row in rows.tolist()]
        self._rows = {key: row for row, key in enumerate(self._keys)}
        self._layout = self._layout[rows]
        self._size, self._dead = len(rows), 0
        self._alive = np.ones(len(rows), np.bool_)
