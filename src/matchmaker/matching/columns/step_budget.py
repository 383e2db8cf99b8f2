"""What evaluating an expression on many rows may take: for each row, and for all together.

Ads come from strangers, and what is within the bounds of one evaluation may be too much a thousand
times. Work is counted in the steps of ``classad.limits``, not in seconds, so that the answer does
not depend on the machine.

Each row has the same allowance, whatever the others take. What is evaluated once for several rows
may take the allowances of all of them. Where columns take too much all the same, each row is
evaluated by itself within its allowance. So a row whose evaluation takes no more than that always
has its value, and one that takes more is ERROR at worst.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from matchmaker.classad.limits import Budget
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.vectors import Mask
from matchmaker.matching.limits import LIMITS

CALL: Final = 16
"""The steps that it takes to apply the scalar form, beside those that it counts itself."""

SHIFT: Final = 5
"""The shift that makes the steps of an operation on whole columns of its rows."""


class OverworkError(Exception):
    """Columns take too much: each row must be evaluated by itself."""


def allowance(size: int) -> int:
    """How many steps may be taken for each of so many rows.

    The rows are rounded up to a power of two, so that one more rarely changes it.

    >>> allowance(4), allowance(1000), allowance(100_000)
    (1000000, 6882, 2038)
    """
    return min(Budget.limit, LIMITS.each + LIMITS.flat // (1 << max(size - 1, 0).bit_length()))


class Work:
    """What one question about so many rows may take. ``each`` is the allowance of a row."""

    __slots__ = ("_row", "each", "left", "most", "seconds", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.each = allowance(size)
        self.most = LIMITS.flat + LIMITS.each * size
        self.renew()

    def renew(self) -> None:
        """Begins anew, for another question about the same job."""
        self.left = self.most
        self.seconds = LIMITS.seconds
        self._row: Budget | None = None

    def within(self, rows: int) -> Budget:
        """What an evaluation may take whose value so many rows share."""
        if rows == 1:
            # The same for nearly all evaluations, until patterns take time.
            self._row = self._row or self._of(1)
            return self._row
        return self._of(rows)

    def _of(self, rows: int) -> Budget:
        budget = Budget()
        budget.limit = min(Budget.limit, self.each * rows)
        budget.seconds = max(LIMITS.least, min(Budget.seconds, self.seconds / 4))
        return budget

    def note(self, budget: Budget) -> int:
        """The steps of an evaluation, and what its patterns took where that matters."""
        if budget.searched <= LIMITS.least:
            return CALL + budget.steps
        self.seconds -= budget.searched
        self._row = None
        return CALL + budget.steps + int(budget.searched * LIMITS.second)

    def count(self, steps: int) -> None:
        """Counts work. Raises OverworkError where it is too much."""
        self.left -= steps
        if self.left < 0:
            raise OverworkError


def stopped(size: int) -> str:
    """What is said where work on so many rows has been stopped."""
    return f"stopped after {LIMITS.flat + LIMITS.each * size:,} steps on all {size:,} ads together"


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
        if most <= Budget.limit >> 6:
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
                self.at(where, other.all + other.each[where], Budget.limit)
        elif where is None:
            self.all += other.all
        else:
            self.at(where, other.all, other.all)

    @property
    def much(self) -> bool:
        """Whether some row may have taken more than one evaluation may."""
        most = int(self.each.max(initial=0)) if self.each is not None else 0
        return self.all + most > Budget.limit

    def beyond(self, rows: Rows) -> Mask:
        """Which of some rows may have taken more than one evaluation may."""
        each = self.each[rows] if self.each is not None else np.zeros(len(rows), np.int64)
        return self.all + each > Budget.limit
