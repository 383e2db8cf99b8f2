"""What a broker decides on many ads at once, by columns: who may take a job, and who refuses.

As a pair of ads matches, with two things more: conditions of the broker's own, and a rank that must
be a number. Why one ad is refused, clause by clause, is told in ``selection``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.masks import Cache, Masks, ranks
from matchmaker.matching.columns.store import View
from matchmaker.matching.columns.vectors import Mask

if TYPE_CHECKING:
    import numpy.typing as npt


class By(IntEnum):
    """Who refuses: the first of the job, the ad, the broker, and the rank that is no number.

    Of ads that have expired nothing is asked.
    """

    NOBODY = 0
    JOB = 1
    RESOURCE = 2
    BROKER = 3
    RANK = 4
    EXPIRY = 5


@attrs.frozen(slots=True, eq=False)
class Decision:
    """What is decided for a job: the rows that may take it, with their ranks, and who refuses.

    ``by`` has a ``By`` for each row; entries for deleted rows are unspecified. ``error`` says why
    requirements, conditions or ranks are ERROR for some ads that took too much to evaluate.
    """

    rows: Rows
    ranks: npt.NDArray[np.float64]
    by: npt.NDArray[np.uint8]
    error: str | None = None

    def __len__(self) -> int:
        return len(self.by)

    def __sizeof__(self) -> int:
        """The bytes of the arrays, for caches."""
        return 500 + self.rows.nbytes + self.ranks.nbytes + self.by.nbytes


def decide(
    view: View,
    job: ClassAd,
    cache: Cache,
    conditions: Sequence[Expr] = (),
    expired: Mask | None = None,
    *,
    both_ways: bool = True,
) -> Decision:
    """Who may take a job, who refuses, and how the job ranks those that may; see ``Snapshot``."""
    masks = Masks(view, job, cache)
    by = np.full(view.size, By.JOB, np.uint8)
    asked: Mask = np.ones(view.size, np.bool_) if view.alive is None else view.alive
    if expired is not None:
        asked = asked & ~expired
        by[expired] = By.EXPIRY
    left = asked & masks.mine()
    by[left] = By.RESOURCE
    if both_ways:
        left = left & masks.theirs(left)
    by[left] = By.BROKER
    for condition in conditions:
        left = left & masks.condition(condition)
    rows = np.flatnonzero(left)
    found, problem = ranks(view, job, rows, cache)
    by[rows] = By.RANK
    numbers = ~np.isnan(found)
    rows, found = rows[numbers], found[numbers]
    by[rows] = By.NOBODY
    problems = [said for said in (masks.problem, problem) if said is not None]
    return Decision(rows, found, by, "; ".join(problems) or None)
