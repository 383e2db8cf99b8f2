"""Why a job matches as few ads of a pool as it does: what each of its clauses leaves."""

from __future__ import annotations

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import conjuncts
from matchmaker.classad.unparse import unparse
from matchmaker.matching.pair import REQUIREMENTS, shorten
from matchmaker.matching.snapshot import Snapshot


@attrs.frozen(slots=True)
class ClauseCount:
    """A clause, how many ads satisfy it alone, and how many satisfy it and all before it."""

    text: str
    matched: int
    cumulative: int


@attrs.frozen(slots=True)
class Explanation:
    """Why a job matches as few ads of a pool as it does."""

    total: int
    clauses: tuple[ClauseCount, ...]
    refused_by_ads: int
    matched: int
    suggestions: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{'alone':>8} {'so far':>8}  clause"]
        lines += [f"{c.matched:>8} {c.cumulative:>8}  {shorten(c.text)}" for c in self.clauses]
        lines.append(f"{self.matched} of {self.total} match")
        if self.refused_by_ads:
            lines[-1] += f"; {self.refused_by_ads} satisfy it, but refuse the job"
        return "\n".join([*lines, *self.suggestions])


def explain(pool: Snapshot, job: ClassAd) -> Explanation:
    """How many ads each clause of the job's requirements leaves, alone and cumulatively."""
    masks = pool.masks(job)
    alive = pool.view.alive
    left = np.ones(pool.view.size, np.bool_) if alive is None else alive
    counted = []
    for clause in conjuncts(job[REQUIREMENTS]) if REQUIREMENTS in job else []:
        alone = masks.clause(clause)
        if alive is not None:
            alone = alone & alive
        left = left & alone
        counted.append(ClauseCount(unparse(clause), int(alone.sum()), int(left.sum())))
    matched = int((left & masks.theirs(left)).sum())
    return Explanation(len(pool), tuple(counted), int(left.sum()) - matched, matched)
