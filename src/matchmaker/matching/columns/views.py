"""Rows as they go into a store and come out: blocks, a view that never changes, and all parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.ad import ClassAd, unusual_names
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.walks import SPECIAL
from matchmaker.matching.columns.column import Column, Rows, narrowest
from matchmaker.matching.columns.keys import Keys
from matchmaker.matching.columns.sparse import Shown
from matchmaker.matching.columns.stored import in_memory

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
        """What is the same for two layouts of the same shared names if they are the same."""
        spellings = tuple(self.spellings.items()) if self.spellings else ()
        return self.order.itemsize, self.order.tobytes(), spellings

    def ad(self, columns: Mapping[str, Column], row: int) -> ClassAd:
        """An ad with this layout and what a row holds."""
        spellings = self.spellings.copy() if self.spellings is not None else None
        return ClassAd._of({name: columns[name].get(row) for name in self.folded}, spellings)


@attrs.frozen(slots=True, eq=False, weakref_slot=True)
class View:
    """Rows that do not change: columns by folded name, the key of each row, and which rows live.

    ``alive`` is None where all rows do. A view with ``changing`` is of a cycle, whose slots give
    parts away: of it no ad may be kept.
    """

    size: int
    columns: Mapping[str, Column]
    keys: Keys
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
        return attrs.evolve(self, columns=Shown(held))

    @property
    def held(self) -> Mapping[str, Column]:
        """The columns as they are kept, sparse ones too."""
        return self.columns.held if isinstance(self.columns, Shown) else self.columns

    def of(self, rows: Iterable[int], /) -> list[str]:
        """The keys of many rows. Whoever asks later holds the view, so that the rows stay."""
        return self.keys.of(rows)

    def parts(self, rows: Rows | None = None) -> Parts:
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
        said = self.keys.computed
        places = dict(zip(rows.tolist(), range(len(rows)), strict=True)) if said else {}
        computed = {places[row]: key for row, key in said.items() if row in places}
        codes = layout.astype(narrowest(len(layouts)))
        return Parts(len(rows), columns, layouts, codes, computed, self)

    def rows(self) -> Rows:
        """The numbers of the rows that live."""
        return np.arange(self.size) if self.alive is None else np.flatnonzero(self.alive)

    def __len__(self) -> int:
        return self.size if self.alive is None else int(np.count_nonzero(self.alive))


@attrs.frozen(slots=True, eq=False)
class Parts:
    """All that a store is made of, row by row: what is saved of it, and what it is restored from.

    ``computed`` has the keys of rows whose key attribute is not a plain string or integer. ``view``
    is the view that the columns belong to: while it is held, the store leaves them as they are.
    """

    size: int
    columns: dict[str, Column]
    layouts: list[Layout]
    layout: npt.NDArray[Any]
    computed: dict[int, str]
    view: View | None = None

    def block(self, keys: list[str]) -> Block:
        """The rows, with their keys, to be entered into another store."""
        columns = []
        for name, column in self.columns.items():
            rows = np.flatnonzero(~column.missing(self.size))
            columns.append((name, rows, column if len(rows) == self.size else column.take(rows)))
        none = np.zeros(0, np.intp)
        return Block(
            none, [], np.arange(self.size), keys, self.layouts, self.layout, columns, self.computed
        )


@attrs.frozen(slots=True, eq=False)
class Block:
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
    def of_ads(cls, ads: Iterable[tuple[str, ClassAd]]) -> Iterator[Block]:
        """The rows of ads with their keys, some at a time."""
        none = np.zeros(0, np.intp)
        pending = iter(ads)
        while some := list(islice(pending, _BATCH)):
            yield cls(np.arange(len(some)), some, none, [], [], none, [])
