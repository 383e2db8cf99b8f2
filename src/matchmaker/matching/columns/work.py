"""What evaluating an expression on many rows may take: of all rows together, and of each.

Ads come from strangers, and what is within the bounds of one evaluation may be too much a thousand
times. Work is counted in the steps of ``classad.bounds``, not in seconds, so that the answer does
not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.classad import bounds
from matchmaker.classad.bounds import Budget
from matchmaker.classad.cache import Cache
from matchmaker.classad.values import Value
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.vectors import Mask

FLAT: Final = 50_000_000
EACH: Final = 2_000
"""How many steps matching a job with a pool may take, and more for each row."""

CALL: Final = 16
"""The steps that it takes to apply the scalar form, beside those that it counts itself."""

SHIFT: Final = 5
"""The shift that makes the steps of an operation on whole columns of its rows."""

TICK: Final = 0.01
TICKED: Final = 100_000
"""Each of these parts of a second that patterns took in one evaluation counts so many steps."""

COSTLY_BYTES: Final = 1 << 26
"""Bytes of the values that are kept of expressions of the ads that took much."""

Costly: TypeAlias = "Cache[Hashable, tuple[Value, int]]"
"""Values and their steps, by expression and the contents that it rests on."""


class OverworkError(Exception):
    """Ends the work for a job that took too much on all rows together; its text says what did."""


class Work:
    """What is left of the steps that one job may take on so many rows.

    ``costly`` is what expressions of the ads come to that take much, with any job: others that work
    on the same ads may have it too, and pay for it as if it were found anew.
    """

    __slots__ = ("costly", "left", "most", "size")

    def __init__(self, size: int, costly: Costly | None = None) -> None:
        self.size = size
        self.costly: Costly = costly if costly is not None else Cache("costly values", COSTLY_BYTES)
        self.most = self.left = FLAT + EACH * size

    def renew(self) -> None:
        """Begins anew, for another question about the same job."""
        self.left = self.most


def taken(budget: Budget) -> int:
    """The steps of one evaluation, and what its patterns took where that is not to be neglected."""
    return CALL + budget.steps + int(budget.searched / TICK) * TICKED


class Spent:
    """No less than the steps that the scalar form takes for each row.

    ``all`` for any row, and ``each`` more by row where that is worth telling.
    """

    __slots__ = ("all", "each", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.all = 0
        self.each: npt.NDArray[np.int64] | None = None

    def at(self, places: Any, steps: Any, most: int) -> None:
        """Adds the steps of some rows, or of those where a mask is true, and the `most` of them."""
        if most <= bounds.MAX_STEPS >> 6:
            self.all += most
            return
        if self.each is None:
            self.each = np.zeros(self.size, np.int64)
        self.each[places] += steps

    def join(self, other: Spent, where: Mask | None = None) -> None:
        """Adds what has been spent on something else, on all rows or where a mask is true."""
        if other.each is not None:
            if where is None:
                self.all += other.all
                self.each = other.each + (self.each if self.each is not None else 0)
            else:
                self.at(where, other.all + other.each[where], bounds.MAX_STEPS)
        elif where is None:
            self.all += other.all
        else:
            self.at(where, other.all, other.all)

    @property
    def much(self) -> bool:
        """Whether some row may have taken more than one evaluation may."""
        most = int(self.each.max(initial=0)) if self.each is not None else 0
        return self.all + most > bounds.MAX_STEPS

    def beyond(self, rows: Rows) -> Mask:
        """Which of some rows may have taken more than one evaluation may."""
        each = self.each[rows] if self.each is not None else np.zeros(len(rows), np.int64)
        return self.all + each > bounds.MAX_STEPS
