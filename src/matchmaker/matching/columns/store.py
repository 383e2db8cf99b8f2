"""Hold the rows of many ads: which there are, under which keys, and a frozen view of them.

A ``Store`` changes in place; a ``View`` never does. A column that a living view shows is copied
before it is changed, so that whoever matches against a view is not disturbed and nobody waits. The
key of a row is its content under one attribute: keys are not kept a second time, only those that
were computed from an expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import methodcaller
from typing import Any, Final, TypeAlias, overload
from weakref import WeakSet

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker._locks import Lock
from matchmaker.classad.ad import ClassAd, unusual_names
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.walks import SPECIAL
from matchmaker.matching.columns.column import (
    INTEGER,
    MISSING,
    Coded,
    Column,
    Numeric,
    Rows,
    StoredColumn,
    differing_places,
    in_memory,
    narrowest,
    same,
    with_capacity,
    zeros,
)
from matchmaker.matching.columns.forms import (
    DENSE,
    Sparse,
    Texts,
    ViewColumns,
    column_of,
    compact,
    empty,
    entered,
    settled,
    thinned,
    uncoded,
)

# A part of the rows at a time: Python's strings for all of a large pool would fill the memory.
_AT_ONCE: Final = 1 << 16
# Merging sorts all entries, so it waits until an eighth of them, or this many, are new.
_RECENT: Final = 4096

Entries: TypeAlias = "npt.NDArray[np.uint64]"
KeyOf: TypeAlias = "Callable[[int], str | None]"


class DuplicateKeyError(ValueError):
    """Report ads with the keys of others: ``keys`` has one entry for each ad too many."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(*keys[:1])
        self.keys = tuple(keys)


class RowKeys(Sequence[str]):
    """The key of each row that lives, by the row's number."""

    __slots__ = ("_column", "_computed", "_size")

    def __init__(
        self, size: int = 0, column: Column | None = None, computed: Mapping[int, str] | None = None
    ) -> None:
        """Read keys from `column`, that of the key attribute.

        `computed` has the keys of rows whose key attribute is neither a string nor an integer.
        """
        self._size = size
        self._column = column if column is not None else Coded(np.zeros(size, np.uint8))
        self._computed = computed if computed is not None else {}

    def __len__(self) -> int:
        return self._size

    @property
    def computed(self) -> Mapping[int, str]:
        """The keys that differ from the content of the key attribute, by row."""
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
    """Return the key for a value: a string, or the digits of an integer. None for any other."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return str(value)


def says_key(key: str, content: Any) -> bool:
    """Whether the key can be read from the content of the key attribute."""
    return content.__class__ in (str, int) and str(content) == key


def without_plain_key(column: Column, size: int) -> list[int]:
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


class KeyIndex:
    """Rows by key: sorted entries, and a table of later changes.

    An entry is a hash in the upper 32 bits and a row in the lower. Hashes are Python's own, which
    nobody can foretell; keys with the same hash are compared.
    """

    __slots__ = ("_entries", "_recent")

    def __init__(self) -> None:
        self._entries: Entries = np.zeros(0, np.uint64)
        self._recent: dict[str, int] = {}

    @classmethod
    def of(cls, keys: RowKeys, rows: Rows) -> KeyIndex:
        """The index of all these rows. Raise DuplicateKeyError."""
        index = cls()
        index._entries = zeros(len(rows), np.uint64)
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE].tolist()
            index._entries[first : first + _AT_ONCE] = entries_of(keys.of(some), some)
        index._entries.sort()
        index._check(keys)
        return index

    def _check(self, keys: RowKeys) -> None:
        """Raise DuplicateKeyError for equal keys."""
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
        """Note the row of a new key."""
        self._recent[key] = row

    def extend(self, keys: Sequence[str], first: int) -> None:
        """Note new keys of rows that follow each other."""
        self._recent.update(zip(keys, range(first, first + len(keys)), strict=True))

    def remove(self, key: str) -> None:
        """Note that a key is gone."""
        self._recent[key] = -1

    @property
    def crowded(self) -> bool:
        """Whether so much is recent that it should be merged."""
        return len(self._recent) > max(_RECENT, len(self._entries) // 8)

    def merge(self, alive: npt.NDArray[np.bool_] | None, moved: Rows | None = None) -> None:
        """Merge the recent entries into the sorted ones.

        `alive` has the rows that are left, if not all; `moved` gives their new numbers if they
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


# Enough ads that NumPy's calls are spread, few enough that their contents stay in the cache.
_BATCH: Final = 2048


class NumberedNames(dict[str, int]):
    """Number the folded names of attributes, in the order in which ads of a pool bring them."""

    __slots__ = ("by_number",)

    def __init__(self) -> None:
        super().__init__()
        self.by_number: list[str] = []

    def __missing__(self, folded: str) -> int:
        number = self[folded] = len(self)
        self.by_number.append(folded)
        return number

    def order(self, folded: Iterable[str], count: int) -> npt.NDArray[Any]:
        """The numbers of names, in the narrowest type that serves all names that there are."""
        numbers = np.fromiter(map(self.__getitem__, folded), np.intp, count)
        # Of 16 bits at least: pools with fewer than 256 names are small anyway.
        return numbers.astype(np.uint16 if len(self) <= 1 << 16 else np.uint32)


@attrs.frozen(slots=True, eq=False)
class Layout:
    """The names of an ad in its order: numbers of ``shared`` names, and unusual spellings.

    Hardly two ads of a pool have the same names, so that a layout is as small as can be.
    """

    shared: NumberedNames
    order: npt.NDArray[Any]
    spellings: dict[str, str] | None

    @classmethod
    def of(cls, names: Sequence[str], shared: NumberedNames | None = None) -> Layout:
        """The layout of an ad with these names as it spells them, no two of them the same."""
        shared = NumberedNames() if shared is None else shared
        order = shared.order(map(ascii_fold, names), len(names))
        return cls(shared, order, unusual_names(names))

    @property
    def folded(self) -> tuple[str, ...]:
        """The names in small letters."""
        return tuple(map(self.shared.by_number.__getitem__, self.order.tolist()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names as they are spelled."""
        return tuple(ClassAd._of(dict.fromkeys(self.folded), self.spellings))

    @property
    def key(self) -> tuple[object, ...]:
        """A key, equal for equal layouts of the same shared names."""
        spellings = tuple(self.spellings.items()) if self.spellings else ()
        return self.order.itemsize, self.order.tobytes(), spellings

    def ad(self, columns: Mapping[str, Column], row: int) -> ClassAd:
        """Make the ad of a row with this layout."""
        spellings = self.spellings.copy() if self.spellings is not None else None
        return ClassAd._of({name: columns[name].get(row) for name in self.folded}, spellings)


@attrs.frozen(slots=True, eq=False, weakref_slot=True)
class View:
    """Rows that do not change: columns by folded name, the key of each row, and which rows live.

    ``alive`` is None if all rows do. A view with ``changing`` is of a cycle, whose slots give parts
    away: of it no ad may be kept.
    """

    size: int
    columns: Mapping[str, Column]
    keys: RowKeys
    alive: npt.NDArray[np.bool_] | None
    layouts: list[Layout]
    layout: npt.NDArray[Any]
    changing: bool = False

    def ad(self, row: int) -> ClassAd:
        """The ad of a row, made anew."""
        layout: Layout = self.layouts[self.layout[row]]
        return layout.ad(self.held, row)

    def has(self, folded: str) -> bool:
        """Whether any row has an attribute; a column may outlive the last one that had it."""
        column = self.columns.get(folded)
        return column is not None and not column.missing(self.size)[self.rows()].all()

    def in_use(self) -> View:
        """The same without attributes named like a scope or the clock that no row has any more.

        While one is there, it is not followed what expressions reach.
        """
        left = {name for name in self.held.keys() & SPECIAL.keys() if not self.has(name)}
        if not left:
            return self
        held = {name: each for name, each in self.held.items() if name not in left}
        return attrs.evolve(self, columns=ViewColumns(held))

    @property
    def held(self) -> Mapping[str, Column]:
        """The columns as they are kept, sparse ones too."""
        return self.columns.held if isinstance(self.columns, ViewColumns) else self.columns

    def of(self, rows: Iterable[int], /) -> list[str]:
        """The keys of many rows. Whoever asks later holds the view, so that the rows stay."""
        return self.keys.of(rows)

    def parts(self, rows: Rows | None = None) -> StoreParts:
        """All that the store is made of, without rows that are gone; not to be changed.

        With `rows`, in their order, only these.
        """
        some = rows is not None or self.alive is not None
        rows = self.rows() if rows is None else rows
        columns = {
            name: column.take(rows) if some else in_memory(column)
            for name, column in self.held.items()
        }
        used, layout = np.unique(self.layout[rows], return_inverse=True)
        layouts = [self.layouts[code] for code in used.tolist()]
        says_key = self.keys.computed
        places = dict(zip(rows.tolist(), range(len(rows)), strict=True)) if says_key else {}
        computed = {places[row]: key for row, key in says_key.items() if row in places}
        codes = layout.astype(narrowest(len(layouts)))
        return StoreParts(len(rows), columns, layouts, codes, computed, self)

    def rows(self) -> Rows:
        """The numbers of the rows that live."""
        return np.arange(self.size) if self.alive is None else np.flatnonzero(self.alive)

    def __len__(self) -> int:
        return self.size if self.alive is None else int(np.count_nonzero(self.alive))


@attrs.frozen(slots=True, eq=False)
class StoreParts:
    """The parts of a store, row by row, for saving and restoring it.

    ``computed`` has the keys of rows whose key attribute is not a plain string or integer. ``view``
    is the view that the columns belong to: while it is held, the store leaves them as they are.
    """

    size: int
    columns: dict[str, Column]
    layouts: list[Layout]
    layout: npt.NDArray[Any]
    computed: dict[int, str]
    view: View | None = None

    def block(self, keys: list[str]) -> RowBlock:
        """The rows, with their keys, to be entered into another store."""
        columns = []
        for name, column in self.columns.items():
            rows = np.flatnonzero(~column.missing(self.size))
            columns.append((name, rows, column if len(rows) == self.size else column.take(rows)))
        none = np.zeros(0, np.intp)
        return RowBlock(
            none, [], np.arange(self.size), keys, self.layouts, self.layout, columns, self.computed
        )


@attrs.frozen(slots=True, eq=False)
class RowBlock:
    """New rows, numbered from 0: some of columns, and between them some of ads, with their keys.

    ``columns`` has, by folded name, which rows hold something and what; ``layout`` is the number of
    the layout of each of the ``rows`` that are not of ``ads``. ``computed`` has the keys of rows
    that do not say them.
    """

    where: Rows
    ads: list[tuple[str, ClassAd]]
    rows: Rows
    keys: list[str]
    layouts: list[Layout]
    layout: npt.NDArray[Any]
    columns: list[tuple[str, Rows, Column]]
    computed: Mapping[int, str] = attrs.field(factory=dict)

    @classmethod
    def of_ads(cls, ads: Iterable[tuple[str, ClassAd]]) -> Iterator[RowBlock]:
        """The rows of ads with their keys, some at a time."""
        none = np.zeros(0, np.intp)
        pending = iter(ads)
        while some := list(islice(pending, _BATCH)):
            yield cls(np.arange(len(some)), some, none, [], [], none, [])


def by_attribute(
    ads: Sequence[ClassAd], names: NumberedNames
) -> tuple[list[Layout], Iterator[tuple[str, Rows, list[Any]]]]:
    """Sort the contents of ads by attribute.

    Return the layout of each ad, and for each folded name the numbers of the ads that have the
    attribute, with their contents. Ads of one pool have hundreds of attributes, and hardly two ads
    the same ones: so the contents of all ads are sorted at once.
    """
    held = [ad._held for ad in ads]
    counts = np.fromiter(map(len, held), np.intp, len(held))
    total = int(counts.sum())
    numbers = names.order(chain.from_iterable(held), total)
    parts = np.split(numbers, np.cumsum(counts)[:-1])
    layouts = [Layout(names, part, ad._names) for part, ad in zip(parts, ads, strict=True)]
    contents = np.empty(total, object)
    contents[:] = list(chain.from_iterable(map(_values, held)))
    # A stable sort of 16 bits goes by their digits: it takes no comparisons.
    order = np.argsort(numbers, kind="stable")
    rows = np.repeat(np.arange(len(held)), counts)[order]
    return layouts, _cut(names, np.bincount(numbers), rows, contents[order])


def _cut(
    names: NumberedNames, sizes: Rows, rows: Rows, contents: Any
) -> Iterator[tuple[str, Rows, list[Any]]]:
    begin = 0
    for number, size in enumerate(sizes.tolist()):
        if size:
            some = slice(begin, begin + size)
            yield names.by_number[number], rows[some], contents[some].tolist()
            begin += size


_values: Final = methodcaller("values")


SETTLE_EVERY: Final = 1024
"""Columns are put into their best form after this many changes, or more with many columns."""


class Store:
    """Ads by key, as columns. All changes go through here, one at a time."""

    __slots__ = (
        "_alive", "_attribute", "_changes", "_columns", "_computed", "_computed_shown", "_dead",
        "_due", "_index", "_known", "_layout", "_layouts", "_lock", "_names", "_size", "_views",
    )  # fmt: skip

    def __init__(self, attribute: str = "") -> None:
        """`attribute` is the folded name of the one in which ads have their keys."""
        self._attribute = attribute
        self._columns: dict[str, Column] = {}
        self._index = KeyIndex()
        self._computed: dict[int, str] = {}
        self._computed_shown = False
        self._alive = np.zeros(0, np.bool_)
        self._layouts: list[Layout] = []
        self._known: dict[int, int] = {}
        self._names = NumberedNames()
        self._layout: npt.NDArray[Any] = np.zeros(0, np.uint8)
        self._size = self._dead = self._changes = 0
        self._due = SETTLE_EVERY
        self._views: WeakSet[View] = WeakSet()
        self._lock = Lock()

    @classmethod
    def restored(cls, attribute: str, parts: StoreParts) -> Store:
        """Make a store of parts. Raise DuplicateKeyError."""
        store = cls(attribute)
        store._columns, store._size = parts.columns, parts.size
        store._computed = parts.computed
        store._index = KeyIndex.of(store._keys(), np.arange(parts.size))
        store._alive = np.ones(parts.size, np.bool_)
        # Two that are told apart by names elsewhere may be the same here.
        codes = np.array(list(map(store._number, parts.layouts)), np.intp)
        store._layout = codes[parts.layout].astype(narrowest(len(store._layouts)))
        return store

    def parts(self) -> StoreParts:
        """All that the store is made of now, without rows that are gone; not to be changed."""
        return self.view().parts()

    def __len__(self) -> int:
        return self._size - self._dead

    @property
    def names(self) -> NumberedNames:
        """The numbers of names, for blocks that nobody else fills at this time."""
        return self._names

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return isinstance(key, str) and self._index.get(key, self._key_of) is not None

    def __iter__(self) -> Iterator[str]:
        """The keys, in the order in which they were first entered."""
        with self._lock:
            return iter(self._rows_by_key())

    def ad(self, key: str) -> ClassAd:
        """The ad under a key. Raise KeyError if no ad has it."""
        with self._lock:
            return self._ad(self._row(key))

    def put(self, key: str, ad: ClassAd) -> None:
        """Enter an ad, replacing the one with its key."""
        with self._lock:
            self._put(key, ad)

    def change(self, key: str, attributes: Mapping[str, Any]) -> None:
        """Set attributes of the ad under a key. Raise KeyError if no ad has it."""
        with self._lock:
            ad = self._ad(self._row(key))
            for name, value in attributes.items():
                ad[name] = value
            self._put(key, ad)

    def extend(self, ads: Iterable[tuple[str, ClassAd]]) -> None:
        """Enter many ads. Raise DuplicateKeyError, at the end, for keys that come again."""
        self.absorb(RowBlock.of_ads(ads))

    def absorb(self, blocks: Iterable[RowBlock]) -> None:
        """Enter the rows of many blocks. Raise DuplicateKeyError as ``extend`` does."""
        again: list[str] = []
        compacted = 0
        for block in blocks:
            with self._lock:
                again += self._absorb(block)
                if self._size >= 2 * compacted:
                    # Objects of numbers that hardly repeat would leave holes behind.
                    compacted = self._size
                    for folded, column in self._columns.items():
                        self._columns[folded] = uncoded(column, self._size)
        with self._lock:
            self._trim()
        if again:
            raise DuplicateKeyError(again)

    def replace(self, ads: Sequence[tuple[str, ClassAd]]) -> tuple[list[str], list[str], list[str]]:
        """Enter ads in place of all that are here; return the keys added, changed and vanished.

        Raise DuplicateKeyError for keys that come again, before anything has changed.
        """
        seen = Counter(key for key, _ in ads)
        if len(seen) < len(ads):
            raise DuplicateKeyError([key for key, n in seen.items() for _ in range(n - 1)])
        with self._lock:
            vanished = [key for key in self._rows_by_key() if key not in seen]
            for key in vanished:
                self._remove(key, self._row(key))
            # Removing may have given the rows other numbers.
            rows = self._rows_by_key()
            changed = self._rewrite([(rows[key], key, ad) for key, ad in ads if key in rows])
            fresh = [(key, ad) for key, ad in ads if key not in rows]
            for block in RowBlock.of_ads(fresh):
                self._absorb(block)
            if len(fresh) > SETTLE_EVERY:
                self._trim()
        return [key for key, _ in fresh], changed, vanished

    def remove(self, key: str) -> None:
        """Remove an ad. Raise KeyError if no ad has the key."""
        with self._lock:
            self._remove(key, self._row(key))

    def drop(self, key: str, when: Callable[[ClassAd], bool]) -> bool:
        """Remove the ad under a key if a test is true of it; return whether it was removed."""
        with self._lock:
            row = self._index.get(key, self._key_of)
            if row is None or not when(self._ad(row)):
                return False
            self._remove(key, row)
            return True

    def view(self) -> View:
        """The rows as they are now."""
        with self._lock:
            alive = self._alive[: self._size].copy() if self._dead else None
            view = View(
                self._size, ViewColumns(self._columns.copy()), self._keys(), alive, self._layouts,
                self._layout[: self._size].copy(),
            )  # fmt: skip
            self._views.add(view)
            self._computed_shown = True
            for column in self._columns.values():
                column.shown = True
            return view

    def release(self) -> None:
        """Give up the columns in memory that can be read again."""
        with self._lock:
            for column in self._columns.values():
                if isinstance(column, StoredColumn):
                    column.release()

    # --- under the lock ---------------------------------------------------------------------------

    def _keys(self) -> RowKeys:
        return RowKeys(self._size, self._columns.get(self._attribute), self._computed)

    def _rows_by_key(self) -> dict[str, int]:
        rows = np.flatnonzero(self._alive[: self._size]).tolist()
        return dict(zip(self._keys().of(rows), rows, strict=True))

    def _key_of(self, row: int) -> str | None:
        return self._keys()[row] if self._alive[row] else None

    def _row(self, key: str) -> int:
        row = self._index.get(key, self._key_of)
        if row is None:
            raise KeyError(key)
        return row

    def _ad(self, row: int) -> ClassAd:
        layout: Layout = self._layouts[self._layout[row]]
        return layout.ad(self._columns, row)

    def _remove(self, key: str, row: int) -> None:
        for folded in self._layouts[self._layout[row]].folded:
            self._writable(folded).put(row, MISSING)
        self._alive[row] = False
        self._dead += 1
        self._index.remove(key)
        self._note_key(row, None)
        self._changed(1)
        # Half of the rows have to be dead, so that the copies cost a constant time a removal;
        # a small pool would be copied often and gain little.
        if self._dead > 1024 and 2 * self._dead > self._size:
            self._compact()

    def _put(self, key: str, ad: ClassAd) -> None:
        row = self._index.get(key, self._key_of)
        content = ad._held
        layout = self._layout_of(ad)
        if row is None:
            row = self._add_rows(1)
            self._index.put(key, row)
        elif (before := self._layout[row]) != layout:
            for folded in self._layouts[before].folded:
                if folded not in content:
                    self._writable(folded).put(row, MISSING)
        self._set_layout(row, layout)
        self._note_key(row, None if says_key(key, content.get(self._attribute)) else key)
        columns, views = self._columns, len(self._views)
        for folded, held in content.items():
            column = columns.get(folded)
            if column is None or column.shown:
                # What stays as it is need not be copied.
                if views and column is not None and same(column.get(row), held):
                    continue
                column = self._writable(folded)
            column.put(row, held)
        self._changed(1)

    def _rewrite(self, ads: Sequence[tuple[int, str, ClassAd]]) -> list[str]:
        """Write ads into the rows that have their keys; return the keys of those that differ.

        Column by column: most cells are as they were, and a column is compared at once.
        """
        alike: dict[int, list[int]] = {}
        other: list[int] = []
        for at, (row, key, ad) in enumerate(ads):
            layout = self._layout_of(ad)
            if self._layout[row] == layout:
                alike.setdefault(layout, []).append(at)
                self._note_key(row, None if says_key(key, ad._held.get(self._attribute)) else key)
            else:
                other.append(at)
        cells: dict[str, tuple[list[int], list[Any]]] = {}
        for layout, some in alike.items():
            contents = zip(*(ads[at][2]._held.values() for at in some), strict=True)
            for folded, held in zip(self._layouts[layout].folded, contents, strict=True):
                layouts, wanted = cells.setdefault(folded, ([], []))
                layouts.append(layout)
                wanted += held
        # Most columns are in the same layouts, and so of the same ads.
        places: dict[tuple[int, ...], Rows] = {}
        row_of = np.fromiter((row for row, _, _ in ads), np.intp, len(ads))
        differing: set[int] = set()
        for folded, (layouts, wanted) in cells.items():
            ats = places.get(tuple(layouts))
            if ats is None:
                ats = np.array([at for layout in layouts for at in alike[layout]], np.intp)
                places[tuple(layouts)] = ats
            rows = row_of[ats]
            if new := differing_places(self._columns[folded].contents(rows), wanted):
                self._writable(folded).fill(rows[new], [wanted[at] for at in new])
                differing.update(ats[new].tolist())
        self._changed(len(differing))
        for at in other:
            row, key, ad = ads[at]
            if self._ad(row) != ad:
                differing.add(at)
            self._put(key, ad)
        return [ads[at][1] for at in sorted(differing)]

    def _add_rows(self, count: int) -> int:
        """Make new rows; return the first."""
        first, last = self._size, self._size + count
        if last > len(self._alive):
            self._make_room(max(16, last, first + (first >> 3)))
        self._alive[first:last] = True
        self._size = last
        return first

    def _absorb(self, block: RowBlock) -> list[str]:
        """Enter the rows of a block; return the keys that come again."""
        index = self._index
        first = self._add_rows(len(block.rows) + len(block.where))
        rows = block.rows + first
        held = np.empty(self._size - first, object)
        held[block.rows], held[block.where] = block.keys, [key for key, _ in block.ads]
        names: list[str] = held.tolist()
        again = []
        seen: set[str] = set()
        for key, suspect in zip(names, index.suspects(names), strict=True):
            if key in seen or (suspect and index.get(key, self._key_of) is not None):
                again.append(key)
            seen.add(key)
        codes = list(map(self._number, block.layouts))
        self._set_layout(rows, np.array(codes, np.intp)[block.layout])
        for folded, places, column in block.columns:
            fresh = entered(self._writable(folded), places + first, column, self._size)
            self._columns[folded] = fresh
        self._write(block.where + first, block.ads)
        for row, key in block.computed.items():
            self._note_key(first + row, key)
        index.extend(names, first)
        self._changed(len(names))
        return again

    def _write(self, places: Rows, ads: Sequence[tuple[str, ClassAd]]) -> None:
        """Write the attributes of ads into new rows."""
        if not ads:
            return
        for row, (key, ad) in zip(places.tolist(), ads, strict=True):
            if not says_key(key, ad._held.get(self._attribute)):
                self._note_key(row, key)
        layouts, cells = by_attribute([ad for _, ad in ads], self._names)
        self._set_layout(places, np.array(list(map(self._number, layouts)), np.intp))
        for folded, some, contents in cells:
            column = column_of(contents)
            self._columns[folded] = entered(
                self._writable(folded), places[some], column, self._size
            )

    def _note_key(self, row: int, key: str | None) -> None:
        """Note the key of a row whose key attribute does not hold it; None if it does."""
        if self._computed.get(row) == key:
            return
        if self._computed_shown:
            self._computed, self._computed_shown = self._computed.copy(), False
        if key is not None:
            self._computed[row] = key
        else:
            del self._computed[row]

    def _set_layout(self, rows: int | Rows, layout: int | Rows) -> None:
        if len(self._layouts) - 1 >> (self._layout.itemsize << 3):
            self._layout = self._layout.astype(narrowest(len(self._layouts)))
        self._layout[rows] = layout

    def _layout_of(self, ad: ClassAd) -> int:
        """The number of an ad's layout."""
        held = ad._held
        return self._number(Layout(self._names, self._names.order(held, len(held)), ad._names))

    def _number(self, layout: Layout) -> int:
        """The number of a layout, by this store's names."""
        if layout.shared is not self._names:
            order = self._names.order(layout.folded, len(layout.order))
            layout = Layout(self._names, order, layout.spellings)
        key = layout.key
        # By a hash, as a layout takes a thousand bytes. One that shares it with another is not
        # found again: that costs room, no more.
        code = self._known.setdefault(hash(key), len(self._layouts))
        if code < len(self._layouts) and self._layouts[code].key != key:
            code = len(self._layouts)
        if code == len(self._layouts):
            self._layouts.append(
                # What an ad holds may change, and a part of an array holds the whole.
                Layout(
                    self._names, layout.order.copy(), layout.spellings and layout.spellings.copy()
                )
            )
        return code

    def _writable(self, folded: str) -> Column:
        """The column of a name, to be changed: a copy if a view shows it."""
        column = self._columns.get(folded)
        if column is None:
            room = len(self._alive)
            fresh = Sparse(room, {}) if room > DENSE else Coded(np.zeros(room, np.uint8))
            column = self._columns[folded] = fresh
        elif column.shown or isinstance(column, StoredColumn):
            if isinstance(column, StoredColumn) or any(
                view.held.get(folded) is column for view in self._views
            ):
                column = self._columns[folded] = column.copy(self._size, len(self._alive))
            else:
                column.shown = False
        return column

    def _trim(self) -> None:
        """Give filled columns their best form, and free the room that is left over."""
        self._index.merge(self._alive if self._dead else None)
        for folded, column in self._columns.items():
            self._columns[folded] = compact(column, self._size)
        self._make_room(self._size)

    def _make_room(self, room: int) -> None:
        """Give everything room for that many rows, no less than there are."""
        self._alive = with_capacity(self._alive, self._size, room)
        self._layout = with_capacity(self._layout, self._size, room)
        for folded, column in self._columns.items():
            fresh = thinned(column, self._size) if room > DENSE else column
            fresh = self._columns[folded] = fresh.copy(self._size, room)
            fresh.version = column.version

    def _changed(self, count: int) -> None:
        """Count changes, and settle from time to time, so that its cost is spread over many."""
        self._changes += count
        if self._index.crowded:
            self._index.merge(self._alive if self._dead else None)
        if self._changes >= self._due:
            self._settle()
            self._changes = 0
            self._due = SETTLE_EVERY * max(1, len(self._columns) >> 10)

    def _settle(self) -> None:
        for folded, column in list(self._columns.items()):
            if empty(column, self._size):
                del self._columns[folded]
            else:
                self._columns[folded] = settled(column, self._size)
        if len(self._layouts) > max(SETTLE_EVERY, 2 * self._size):
            self._lay_out(self._layout[: self._size], len(self._layout))

    def _lay_out(self, layout: npt.NDArray[Any], room: int) -> None:
        """Number the layouts that rows have anew, and give up the others."""
        used, codes = np.unique(layout, return_inverse=True)
        before, self._layouts, self._known = self._layouts, [], {}
        # Numbered anew too: names that no ad has any more would be kept for good.
        self._names = NumberedNames()
        moved = np.array([self._number(before[code]) for code in used.tolist()], np.intp)
        self._layout = with_capacity(moved[codes].astype(narrowest(len(used))), len(codes), room)

    def _compact(self) -> None:
        """Drop the dead rows. Views keep theirs."""
        rows = np.flatnonzero(self._alive[: self._size])
        moved = np.cumsum(self._alive) - 1
        self._index.merge(self._alive, moved)
        columns = {name: column.take(rows) for name, column in self._columns.items()}
        self._columns = {
            name: column for name, column in columns.items() if not column.missing(len(rows)).all()
        }
        self._computed = {int(moved[row]): key for row, key in self._computed.items()}
        self._computed_shown = False
        self._lay_out(self._layout[rows], len(rows))
        self._size, self._dead = len(rows), 0
        self._alive = np.ones(len(rows), np.bool_)
