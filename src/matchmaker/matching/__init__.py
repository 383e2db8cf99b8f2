"""The matchmaker for both scales: a pair of ads, a pool of them, their ranking and its reasons.

Pools need NumPy, which takes longer to load than all the rest: they are loaded when first used.
"""

from typing import TYPE_CHECKING, Any, Final

from matchmaker.matching.pair import Clause, Match, clauses, match, refusal

if TYPE_CHECKING:
    from matchmaker.matching.assignment import Assignment, Placement
    from matchmaker.matching.explanation import Explanation, PairExplanation
    from matchmaker.matching.idle import Outcome
    from matchmaker.matching.pool import Pool
    from matchmaker.matching.snapshot import Matches, Plan, Snapshot
    from matchmaker.matching.terms import Policy

__all__ = [
    "Assignment",
    "Clause",
    "Explanation",
    "Match",
    "Matches",
    "Outcome",
    "PairExplanation",
    "Placement",
    "Plan",
    "Policy",
    "Pool",
    "Snapshot",
    "clauses",
    "match",
    "refusal",
]

_LATER: Final = {
    "Assignment": "assignment",
    "Explanation": "explanation",
    "Matches": "snapshot",
    "Outcome": "idle",
    "Placement": "assignment",
    "PairExplanation": "explanation",
    "Plan": "snapshot",
    "Policy": "terms",
    "Pool": "pool",
    "Snapshot": "snapshot",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"matchmaker.matching.{_LATER[name]}"), name)
    raise AttributeError(f"module 'matchmaker.matching' has no attribute {name!r}")
