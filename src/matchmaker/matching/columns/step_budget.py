"""What evaluating an expression on many rows may take: for each row, and for all together.

Ads come from strangers, and what is within the bounds of one evaluation may be too much a thousand
times. Work is counted in the steps of ``classad.budget``, not in seconds, so that the answer does
not depend on the machine.

Each row has the same allowance, whatever the others take. What is evaluated once for several rows
may take the allowances of all of them. Where columns take too much all the same, each row is
evaluated by itself within its allowance. So a row whose evaluation takes no more than that always
has its value, and one that takes more is ERROR at worst.
"""

from __future__ import annotations

from typing import Final

from matchmaker._limits import POOL_LIMITS as LIMITS
from matchmaker._limits import PoolLimits
from matchmaker.classad.state import Budget

CALL: Final = 16
"""The steps that it takes to apply the scalar form, beside those that it counts itself."""

SHIFT: Final = 5
"""The shift that makes the steps of an operation on whole columns of its rows."""


class OverworkError(Exception):
    """Columns take too much: each row must be evaluated by itself."""


def allowance(size: int, limits: PoolLimits = LIMITS) -> int:
    """How many steps may be taken for each row, by the number of rows.

    The rows are rounded up to a power of two, so that one more rarely changes it.

    >>> allowance(4), allowance(1000), allowance(100_000)
    (1000000, 6882, 2038)
    """
    return min(Budget.limit, limits.each + limits.flat // (1 << max(size - 1, 0).bit_length()))


class Work:
    """What one question about `size` rows may take. ``each`` is the allowance of a row."""

    __slots__ = ("_limits", "_row", "each", "left", "most", "seconds", "size")

    def __init__(self, size: int, limits: PoolLimits = LIMITS) -> None:
        self.size = size
        self._limits = limits
        self.each = allowance(size, limits)
        self.most = limits.flat + limits.each * size
        self.renew()

    def renew(self) -> None:
        """Begins anew, for another question about the same job."""
        self.left = self.most
        self.seconds = self._limits.seconds
        self._row: Budget | None = None

    def within(self, rows: int) -> Budget:
        """What an evaluation may take whose value a number of rows share."""
        if rows == 1:
            # The same for nearly all evaluations, until patterns take time.
            self._row = self._row or self._of(1)
            return self._row
        return self._of(rows)

    def _of(self, rows: int) -> Budget:
        budget = Budget()
        budget.limit = min(Budget.limit, self.each * rows)
        budget.seconds = max(self._limits.least, min(Budget.seconds, self.seconds / 4))
        return budget

    def note(self, budget: Budget) -> int:
        """The steps of an evaluation, and what its patterns took where that matters."""
        if budget.searched <= self._limits.least:
            return CALL + budget.steps
        self.seconds -= budget.searched
        self._row = None
        return CALL + budget.steps + int(budget.searched * self._limits.second)

    def count(self, steps: int) -> None:
        """Counts work. Raises OverworkError where it is too much."""
        self.left -= steps
        if self.left < 0:
            raise OverworkError


def stopped(size: int, limits: PoolLimits) -> str:
    """The message for work that was stopped."""
    return f"stopped after {limits.flat + limits.each * size:,} steps on all {size:,} ads together"
