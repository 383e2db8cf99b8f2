"""Why a job matches as few slots of a pool as it does, and what would help.

``explain`` counts for a pool, ``explain_pair`` tells all about one slot. What they give is in
``report`` and ``pairs``; ``page`` makes HTML of it.
"""

from __future__ import annotations

from matchmaker.classad.ad import ClassAd
from matchmaker.matching.explanation.notes import notes
from matchmaker.matching.explanation.pairs import PairClause, PairExplanation, explain_pair
from matchmaker.matching.explanation.report import (
    AdClause,
    ClauseCount,
    Conflict,
    Explanation,
    Suggestion,
)
from matchmaker.matching.explanation.suggestions import suggestions
from matchmaker.matching.explanation.tally import Tally
from matchmaker.matching.snapshot import Snapshot

__all__ = [
    "AdClause",
    "ClauseCount",
    "Conflict",
    "Explanation",
    "PairClause",
    "PairExplanation",
    "Suggestion",
    "explain",
    "explain_pair",
]


def explain(pool: Snapshot, job: ClassAd) -> Explanation:
    """What each clause of a job leaves of a pool, what excludes everything, and what would help.

    Nothing raises on ads: a clause that is undefined or an error for a slot is one that the slot
    does not satisfy.
    """
    tally = Tally(pool, job)
    found = suggestions(tally)
    return Explanation(
        total=tally.total,
        clauses=tally.counts(),
        refused_by_ads=int(tally.suitable.sum()) - tally.matched,
        matched=tally.matched,
        suggestions=found,
        conflicts=tally.conflicts(),
        ad_clauses=tally.ad_clauses(),
        notes=notes(tally),
        error=tally.error,
    )
