"""Columns that hardly any row has something in: they cost what they hold, not a byte a row.

Without them, ads that each have an attribute that no other has would take room with the square of
their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from matchmaker.classad.nodes import Expr
from matchmaker.matching.columns.column import Coded, Column, Rows, Table, narrowest, stamp
from matchmaker.matching.columns.contents import MISSING, same
from matchmaker.matching.columns.stored import in_memory

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
        """The content of a row."""
        return self.held.get(row, MISSING)

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row."""
        if same(self.held.get(row, MISSING), content):
            return
        if content is MISSING:
            del self.held[row]
        else:
            self.held[row] = content
        self.version = stamp()

    def take(self, rows: Rows) -> Sparse:
        """A column of some of the rows, which are in their order."""
        held = np.array(sorted(self.held), np.intp)
        held = held[np.isin(held, rows)]
        places = np.searchsorted(rows, held).tolist()
        kept = zip(places, self.contents(held.tolist()), strict=True)
        return Sparse(len(rows), dict(kept))

    def copy(self, size: int, room: int) -> Sparse:
        """A column of the first `size` rows with room for more."""
        return Sparse(room, self.held.copy())

    def expressions(self) -> list[Expr]:
        """The distinct expressions among the contents."""
        return list(dict.fromkeys(c for c in self.held.values() if isinstance(c, Expr)))

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        missing = np.ones(size, np.bool_)
        missing[list(self.held)] = False
        return missing

    def coded(self) -> Coded:
        """The same with a code a row, and of the same version."""
        table = Table((MISSING,))
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
    """The column, or a sparse one of the same version where that is smaller by far."""
    if not isinstance(column, Coded):
        return column
    rows = np.flatnonzero(column.codes[:size])
    if len(rows) * SPARSE >= size:
        return column
    places = rows.tolist()
    thin = Sparse(len(column), dict(zip(places, column.contents(places), strict=True)))
    thin.version = column.version
    return thin


class Shown(Mapping[str, Column]):
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
