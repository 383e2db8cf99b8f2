"""Why no slot of a negotiation cycle is given to a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.clauses import conjuncts
from matchmaker.classad.quoting import printable
from matchmaker.classad.values import is_error
from matchmaker.matching.candidates import Requests
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.masks import Masks
from matchmaker.matching.columns.step_budget import OverworkError
from matchmaker.matching.names import REQUIREMENTS
from matchmaker.matching.pair import Clause, refusal
from matchmaker.matching.slots import Short, Slots
from matchmaker.matching.states import State


class Outcome(StrEnum):
    """What a negotiation cycle came to for one job.

    ``NO_MATCH``: no slot matches, free or not. ``NO_ROOM``: slots match, but none of them is free
    and has room. ``ERROR``: what the job itself says cannot be made sense of.
    """

    PLACED = "placed"
    NO_MATCH = "no match"
    NO_ROOM = "no room"
    ERROR = "error"


@attrs.frozen(slots=True)
class Idle:
    """Why a job is left idle, in words; and of the slots that match, how many each thing keeps."""

    outcome: Outcome
    reason: str
    counts: Mapping[str, int] = attrs.field(factory=dict)


def why_idle(slots: Slots, job: ClassAd) -> Idle:
    """Why no slot could be given to a job, as the slots are by now."""
    idle = _why(slots, job)
    return attrs.evolve(idle, reason=printable(idle.reason))


def _why(slots: Slots, job: ClassAd) -> Idle:
    nonsense = Requests(slots, job).nonsense
    if nonsense:
        return Idle(Outcome.ERROR, nonsense)
    found = slots.decide(job)
    if len(found.rows):
        return _no_room(slots, job, found.rows)
    return _no_match(slots, job, found.error)


def _no_match(slots: Slots, job: ClassAd, error: str | None) -> Idle:
    """The clause at which the last slots fall away, and what it finds in the first of them.

    `error` says what took too much, where no clause does so by itself.
    """
    view = slots.view
    masks = Masks(view, job, slots.cache)
    left = view.rows()
    total = len(left)
    if not total:
        return Idle(Outcome.NO_MATCH, "there are no slots")
    for clause in conjuncts(job[REQUIREMENTS]) if REQUIREMENTS in job else []:
        try:
            kept = left[masks.clause(clause)[left]]
        except OverworkError:
            kept = left[:0]
        if not len(kept):
            found = refusal(job, view.ad(int(left[0])))
            wrong = error is not None if found is None else is_error(found.value)
            return Idle(
                Outcome.ERROR if wrong else Outcome.NO_MATCH,
                f"the job refuses {_all(len(left), total)}{_on(slots, left, found, error)}",
            )
        left = kept
    found = refusal(view.ad(int(left[0])), job)
    return Idle(
        Outcome.NO_MATCH,
        f"the job is refused by {_all(len(left), total)}{_on(slots, left, found, error)}",
    )


def _all(left: int, total: int) -> str:
    if left == total:
        return f"all {total} slots" if total > 1 else "the only slot"
    return f"the last {left} of {total} slots" if left > 1 else f"the last of {total} slots"


def _on(slots: Slots, left: Rows, found: Clause | None, error: str | None) -> str:
    if found is not None:
        return f": on {slots.now.keys[int(left[0])]} {found}"
    return f": {error}" if error is not None else ""


def _no_room(slots: Slots, job: ClassAd, matched: Rows) -> Idle:
    """How many of the slots that match are not to be had for which reason."""
    free = slots.free[matched]
    rows = matched[free]
    divisible = slots.divisible[rows]
    counts = Counter({"taken": 0})
    unsaid = np.ones(len(rows), np.bool_)
    said = ""
    for name, short, wrong in Requests(slots, job).shortages(rows):
        amiss = wrong & unsaid
        if amiss.any() and not said:
            said = _answer(slots, job, rows[amiss])
        counts["where the request is no amount"] += int(amiss.sum())
        counts[f"with too little {name}"] += int((short & divisible & unsaid & ~amiss).sum())
        unsaid &= ~(short & divisible | amiss)
    counts["taken"] = int((unsaid & ~divisible).sum())
    rest = rows[unsaid & divisible]
    matches = Masks(slots.now, job, Cache(0)).at(rest)
    counts["no longer a match with what is left"] = int((~matches).sum())
    for row in rest[matches].tolist():
        answer = slots.ask(job, row)
        counts[f"with too little {answer.resource if isinstance(answer, Short) else 'room'}"] += 1
    for name, count in slots.states.counts(job, matched[~free]).items():
        state = State(name)
        # The policy may keep what the slot itself calls free.
        known = state not in (State.FREE, State.UNSAID)
        counts[state.words if known else "not free by the policy"] += count
    held = {what: count for what, count in counts.items() if count}
    parts = ", ".join(f"{count} {what}" for what, count in held.items())
    text = f"{len(matched)} {'slot matches' if len(matched) == 1 else 'slots match'}: {parts}"
    if not said:
        return Idle(Outcome.NO_ROOM, text, held)
    alone = counts["where the request is no amount"] == int(free.sum())
    return Idle(Outcome.ERROR if alone else Outcome.NO_ROOM, f"{text}; {said}", held)


def _answer(slots: Slots, job: ClassAd, rows: Rows) -> str:
    answer = slots.ask(job, int(rows[0]))
    return answer.reason if isinstance(answer, Short) else ""
