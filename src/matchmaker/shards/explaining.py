"""Explanations of shards added up to one, by pure functions.

What is counted slot by slot is summed. A change that one shard suggests is kept with what it gains
in all shards, which is counted again. What is said of all slots, such as a name that none of them
has, is kept where every shard with slots says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from matchmaker.matching.explanation import (
    AdClause,
    ClauseCount,
    Conflict,
    Explanation,
    Joint,
    Suggestion,
)
from matchmaker.matching.explanation.limits import LIMITS
from matchmaker.matching.states import State
from matchmaker.shards.merge import states

APART = "the clauses of the job are not the same ones in all shards, and are not counted"


def changes(parts: Iterable[Explanation]) -> list[Suggestion | Joint]:
    """The changes of the job that some shards suggest, each once."""
    parts = list(parts)
    found: dict[object, Suggestion | Joint] = {}
    for part in parts:
        for one in part.suggestions:
            found.setdefault((one.what, one.before, one.after), one)
    for part in parts:
        if part.joint is not None:
            found.setdefault(part.joint.changes, part.joint)
    return list(found.values())


def summed(
    parts: Sequence[Explanation],
    tried: Sequence[tuple[Suggestion | Joint, Mapping[str, int]]],
) -> Explanation:
    """One explanation of those of all shards, in order.

    `tried` are changes of the job, with how many slots of all shards are in which state of those
    that match the changed job.
    """
    held = [part for part in parts if part.total] or list(parts[:1])
    alike = len({tuple((c.text, c.via) for c in part.clauses) for part in held}) == 1
    by_state = states(part.states for part in parts)
    matched = sum(part.matched for part in parts)
    counted = [_counted(change, matched, by_state, found) for change, found in tried]
    gaining = [one for one in counted if one.gain > 0]
    single = [one for one in gaining if isinstance(one, Suggestion)]
    single.sort(key=lambda one: -one.gain)
    several = [one for one in gaining if isinstance(one, Joint)]
    several.sort(key=lambda one: (len(one.changes), -one.gain))
    errors = dict.fromkeys(part.error for part in parts if part.error is not None)
    notes = [note for note in held[0].notes if all(note in part.notes for part in held)]
    return Explanation(
        total=sum(part.total for part in parts),
        clauses=_clauses(held) if alike else (),
        refused_by_ads=sum(part.refused_by_ads for part in parts),
        matched=matched,
        states=by_state,
        suggestions=tuple(single[: LIMITS.suggestions]),
        conflicts=_conflicts(held) if not matched else (),
        ad_clauses=_ad_clauses(parts),
        notes=(*notes, *(() if alike else (APART,))),
        joint=several[0] if several and not single else None,
        error="; ".join(errors) or None,
    )


def _counted(
    change: Suggestion | Joint, before: int, by_state: Mapping[str, int], found: Mapping[str, int]
) -> Suggestion | Joint:
    matched = sum(found.values())
    said = not set(found) | set(by_state) <= {State.UNSAID}
    free = found.get(State.FREE, 0) - by_state.get(State.FREE, 0) if said else None
    return attrs.evolve(change, matched=matched, gain=matched - before, free=free)


def _clauses(parts: Sequence[Explanation]) -> tuple[ClauseCount, ...]:
    names = ("matched", "cumulative", "near", "false", "undefined", "error")
    return tuple(
        attrs.evolve(each[0], **{name: sum(getattr(c, name) for c in each) for name in names})
        for each in zip(*(part.clauses for part in parts), strict=True)
    )


def _ad_clauses(parts: Sequence[Explanation]) -> tuple[AdClause, ...]:
    found: dict[object, AdClause] = {}
    for one in (clause for part in parts for clause in part.ad_clauses):
        key = one.text, one.via, one.lumped
        before = found.get(key)
        found[key] = one if before is None else attrs.evolve(
            one, held=one.held + before.held, refused=one.refused + before.refused,
            suitable=one.suitable + before.suitable,
        )  # fmt: skip
    order = sorted(found.values(), key=lambda c: (-c.suitable, -c.refused, -c.held, c.via, c.text))
    return tuple(order)


def _conflicts(parts: Sequence[Explanation]) -> tuple[Conflict, ...]:
    """The sets of clauses that exclude everything in each of the shards."""
    found = [one for one in parts[0].conflicts if all(one in part.conflicts for part in parts)]
    return tuple(found)
