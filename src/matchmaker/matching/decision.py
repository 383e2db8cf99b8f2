"""Who of many ads may take a job, how the job ranks them, and who refuses: the one procedure.

It is that of ``pair.match``, by columns, with three things more: conditions of a broker, ads that
have expired, and what becomes of a rank that is not a number. ``Snapshot.match`` and
``Snapshot.decide`` ask for it, and so do the choosers of queues and nodes, through ``selection``.
Why one ad is refused, clause by clause, is in ``selection``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.masks import Masks, ranks
from matchmaker.matching.columns.vectors import Mask
from matchmaker.matching.columns.views import View

if TYPE_CHECKING:
    import numpy.typing as npt


class By(IntEnum):
    """Who refuses: the first of the job, the ad, the broker, and the rank that is no number.

    Ads that have expired are not asked.
    """

    NOBODY = 0
    JOB = 1
    RESOURCE = 2
    BROKER = 3
    RANK = 4
    EXPIRY = 5


@attrs.frozen(eq=False)
class Decision:
    """The rows that may take a job, with their ranks, and who refuses.

    ``unranked`` says of which of these rows the rank is not a number, so that the default stands.
    ``error`` says why something is ERROR for some ads that took too much to evaluate.
    """

    rows: Rows
    ranks: npt.NDArray[np.float64]
    unranked: Mask
    error: str | None
    _refusals: tuple[tuple[By, Mask], ...]
    """Which rows have come so far, in the order of asking: who would refuse them there."""

    @cached_property
    def by(self) -> npt.NDArray[np.uint8]:
        """A ``By`` for each row; entries for deleted rows are unspecified."""
        found = np.full(len(self._refusals[0][1]), By.EXPIRY, np.uint8)
        for by, asked in self._refusals:
            found[asked] = by
        found[self.rows] = By.NOBODY
        return found

    def __len__(self) -> int:
        return len(self._refusals[0][1])

    def __sizeof__(self) -> int:
        """The bytes of the arrays, for caches."""
        masks = sum(mask.nbytes for _, mask in self._refusals)
        return 500 + self.rows.nbytes + self.ranks.nbytes + self.unranked.nbytes + 2 * masks


def decide(
    view: View,
    job: ClassAd,
    cache: Cache,
    conditions: Sequence[Expr] = (),
    expired: Mask | None = None,
    *,
    both_ways: bool = True,
    default_rank: float | None = None,
) -> Decision:
    """Decides on the rows of a view for a job.

    Args:
        view: the ads.
        job: the job, which is MY in the conditions too.
        cache: masks and ranks of jobs before.
        conditions: what a broker asks beside the requirements.
        expired: rows that are not asked.
        both_ways: whether the requirements of the ads count.
        default_rank: stands for a rank that is not a number; without it such a row is refused.
    """
    masks = Masks(view, job, cache)
    asked: Mask = np.ones(view.size, np.bool_) if view.alive is None else view.alive
    if expired is not None:
        asked = asked & ~expired
    wanted = asked & masks.mine()
    accepting = wanted & masks.theirs(wanted) if both_ways else wanted
    admitted = accepting
    for condition in conditions:
        admitted = admitted & masks.condition(condition)
    rows = np.flatnonzero(admitted)
    found, problem = ranks(view, job, rows, cache)
    unranked = np.isnan(found)
    if default_rank is None:
        rows, found, unranked = rows[~unranked], found[~unranked], unranked[~unranked]
    else:
        found[unranked] = default_rank
    problems = [reason for reason in (masks.problem, problem) if reason is not None]
    stages = (By.JOB, asked), (By.RESOURCE, wanted), (By.BROKER, accepting), (By.RANK, admitted)
    return Decision(rows, found, unranked, "; ".join(problems) or None, stages)
