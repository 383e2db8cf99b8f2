"""Why a job matches as few slots of a pool as it does, and what would help.

``explain`` counts for a pool, ``explain_pair`` shows one slot in full. What they return is in
``report`` and ``pairs``; ``page`` makes HTML of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import attrs

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.matching.columns.step_budget import OverworkError, stopped
from matchmaker.matching.explanation.counts import Counts
from matchmaker.matching.explanation.elements import Elements
from matchmaker.matching.explanation.notes import notes
from matchmaker.matching.explanation.pairs import PairClause, PairExplanation, explain_pair
from matchmaker.matching.explanation.report import (
    AdClause,
    Change,
    ClauseCount,
    Conflict,
    ElementClause,
    ElementCount,
    Explanation,
    Joint,
    Later,
    Suggestion,
)
from matchmaker.matching.explanation.suggestions import suggestions
from matchmaker.matching.explanation.together import joint
from matchmaker.matching.explanation.whole import lasting, later
from matchmaker.matching.snapshot import Snapshot
from matchmaker.matching.states import States

__all__ = [
    "AdClause",
    "Change",
    "ClauseCount",
    "Conflict",
    "ElementClause",
    "ElementCount",
    "Explanation",
    "Joint",
    "Later",
    "PairClause",
    "PairExplanation",
    "Suggestion",
    "explain",
    "explain_pair",
]


def explain(
    pool: Snapshot,
    job: ClassAd,
    names: Mapping[str, str] | None = None,
    known: Mapping[str, str] | None = None,
) -> Explanation:
    """What each clause of a job leaves of a pool, what excludes everything, and what would help.

    Nothing raises on ads: a clause that is undefined or an error for a slot is one that the slot
    does not satisfy. Where the clauses of the job take too much on all slots together, only the
    slots that match are counted, and ``error`` says so. `names` are the pool's own names for the
    attributes that say whether a slot is free: see ``states``. `known`
    are the names that the slots have, by their folded forms, where the pool has not all of them.
    """
    pool = Snapshot(pool._view.in_use(), pool._cache)
    try:
        counts = Counts(pool, job, names)
    except OverworkError:
        matched = pool.match(job)
        states = States.of(pool._view, names).counts(job, matched._row_array)
        error = f"the clauses of the job's requirements: {stopped(len(pool), pool._cache.limits)}"
        return Explanation(len(pool), (), 0, len(matched), states, error=error)
    standing = later(counts)
    elements = Elements(counts)
    found = suggestions(counts, elements)
    several = joint(counts) if not found else None
    when = None
    if standing is not None:
        when, then = standing
        when = attrs.evolve(when, suggestions=lasting(then, found) if when.never else ())
    return Explanation(
        total=counts.total,
        clauses=counts.of_clauses(),
        refused_by_ads=int(counts.suitable.sum()) - counts.matched,
        matched=counts.matched,
        states=counts.of_states,
        suggestions=found,
        conflicts=counts.conflicts(),
        ad_clauses=counts.ad_clauses(),
        notes=notes(counts, known, islice(elements.notes(), LIMITS.notes + 1)),
        joint=several,
        error=counts.error,
        elements=elements.counts(),
        later=when,
    )
