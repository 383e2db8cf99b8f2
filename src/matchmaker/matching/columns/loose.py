"""A column of what hardly repeats and is neither number nor string: mostly expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from matchmaker.classad.nodes import Expr
from matchmaker.matching.columns.column import Column, Rows, stamp
from matchmaker.matching.columns.contents import MISSING, same


class Loose(Column):
    """The contents of the rows, one by one."""

    __slots__ = ("rows",)

    def __init__(self, rows: list[Any]) -> None:
        super().__init__()
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def get(self, row: int) -> Any:
        """The content of a row."""
        return self.rows[row]

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row."""
        if not same(self.get(row), content):
            self.rows[row] = content
            self.version = stamp()

    def fill(self, rows: Rows | slice, contents: Sequence[Any]) -> None:
        """Sets the contents of many rows."""
        places = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        for row, content in zip(places, contents, strict=True):
            self.rows[row] = content
        self.version = stamp()

    def take(self, rows: Rows) -> Loose:
        """A column of some of the rows."""
        return Loose([self.rows[row] for row in rows.tolist()])

    def copy(self, size: int, room: int) -> Loose:
        """A column of the first `size` rows with room for more."""
        return Loose(self.rows[:size] + [MISSING] * (room - size))

    def expressions(self) -> list[Expr]:
        """The distinct expressions among the contents."""
        held = self.contents(range(len(self.rows)))
        return list(dict.fromkeys(content for content in held if isinstance(content, Expr)))

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        return np.fromiter((c is MISSING for c in self.rows[:size]), np.bool_, size)
