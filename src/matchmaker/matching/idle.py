"""Why no slot of a negotiation cycle is given to a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import attrs
import numpy as np

from matchmaker._limits import UNCACHED_POOL
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import printable
from matchmaker.classad.values import is_error
from matchmaker.classad.walks import conjuncts
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


@attrs.frozen(slots=True)
class Fallen:
    """Where the last slots of a part of a pool fall away, none of which matches.

    ``stage`` is the number of the clause of the job that they fail, or how many clauses there are
    where they refuse the job themselves; ``row`` is the first of the slots that are ``left`` there,
    ``said`` what the clause finds in it, and ``wrong`` whether that is an error; ``theirs`` says
    that it is the slots that refuse.
    """

    stage: int
    left: int
    row: int
    said: str
    wrong: bool = False
    theirs: bool = False


@attrs.frozen(slots=True)
class Standing:
    """How the slots of a part of a pool stand to a job to which none of them can be given.

    Of those that match, ``kept`` has how many each thing keeps, and ``states`` how many are in
    which state and not free; ``amiss`` is the first request that is no amount: the number of the
    resource, the row, and what is wrong. Without any that match there is ``fallen``.
    """

    total: int
    matched: int
    free: int
    kept: tuple[tuple[str, int], ...] = ()
    states: Mapping[str, int] = attrs.field(factory=dict)
    amiss: tuple[int, int, str] | None = None
    fallen: Fallen | None = None


def why_idle(slots: Slots, job: ClassAd) -> Idle:
    """Why no slot could be given to a job, as the slots are by now."""
    nonsense = Requests(slots, job).nonsense
    return summed(nonsense, () if nonsense else (standing(slots, job),))


def standing(slots: Slots, job: ClassAd) -> Standing:
    """How slots stand to a job, as they are by now."""
    found = slots.decide(job)
    total = len(slots.view)
    if len(found.rows):
        return _kept(slots, job, found.rows, total)
    return Standing(total, 0, 0, fallen=_fallen(slots, job, found.error) if total else None)


def summed(nonsense: str, parts: Sequence[Standing]) -> Idle:
    """Why a job is left idle, from how it stands with each part of a pool, in order.

    With `nonsense`, a request that is no amount whatever the slot, the parts do not matter.
    """
    if nonsense:
        return Idle(Outcome.ERROR, printable(nonsense))
    total = sum(part.total for part in parts)
    if not total:
        return Idle(Outcome.NO_MATCH, "there are no slots")
    idle = _no_room(parts) if any(part.matched for part in parts) else _no_match(parts, total)
    return attrs.evolve(idle, reason=printable(idle.reason))


def _fallen(slots: Slots, job: ClassAd, error: str | None) -> Fallen:
    """The clause at which the last slots fall away, and what it finds in the first of them.

    `error` says what took too much, where no clause does so by itself.
    """
    view = slots.view
    masks = Masks(view, job, slots.cache)
    left = view.rows()
    stage = 0
    for clause in conjuncts(job.expr(REQUIREMENTS)) if REQUIREMENTS in job else []:
        try:
            kept = left[masks.clause(clause)[left]]
        except OverworkError:
            kept = left[:0]
        if not len(kept):
            found = refusal(job, view.ad(int(left[0])))
            wrong = error is not None if found is None else is_error(found.value)
            return Fallen(stage, len(left), int(left[0]), _on(slots, left, found, error), wrong)
        left = kept
        stage += 1
    found = refusal(view.ad(int(left[0])), job)
    return Fallen(stage, len(left), int(left[0]), _on(slots, left, found, error), theirs=True)


def _no_match(parts: Sequence[Standing], total: int) -> Idle:
    """By the parts in which the last slots of all fall away."""
    fallen = [part.fallen for part in parts if part.fallen is not None]
    stage = max(one.stage for one in fallen)
    last = [one for one in fallen if one.stage == stage]
    left = _all(sum(one.left for one in last), total)
    first = min(last, key=lambda one: one.row)
    refuses = f"the job refuses {left}"
    if all(one.theirs for one in last):
        refuses = f"the job is refused by {left}"
    return Idle(Outcome.ERROR if first.wrong else Outcome.NO_MATCH, f"{refuses}{first.said}")


def _all(left: int, total: int) -> str:
    if left == total:
        return f"all {total} slots" if total > 1 else "the only slot"
    return f"the last {left} of {total} slots" if left > 1 else f"the last of {total} slots"


def _on(slots: Slots, left: Rows, found: Clause | None, error: str | None) -> str:
    if found is not None:
        return f": on {slots.now.keys[int(left[0])]} {found}"
    return f": {error}" if error is not None else ""


def _kept(slots: Slots, job: ClassAd, matched: Rows, total: int) -> Standing:
    """How many of the slots that match are not to be had for which reason."""
    free = slots.free[matched]
    rows = matched[free]
    divisible = slots.divisible[rows]
    counts = Counter({TAKEN: 0, NO_AMOUNT: 0})
    unsaid = np.ones(len(rows), np.bool_)
    first: tuple[int, int, str] | None = None
    for number, (name, short, wrong) in enumerate(Requests(slots, job).shortages(rows)):
        amiss = wrong & unsaid
        if first is None and amiss.any():
            row = int(rows[amiss][0])
            answer = slots.ask(job, row)
            if isinstance(answer, Short):
                first = number, row, answer.reason
        counts[NO_AMOUNT] += int(amiss.sum())
        counts[f"with too little {name}"] += int((short & divisible & unsaid & ~amiss).sum())
        unsaid &= ~(short & divisible | amiss)
    counts[TAKEN] = int((unsaid & ~divisible).sum())
    rest = rows[unsaid & divisible]
    matches = Masks(slots.now, job, Cache(UNCACHED_POOL)).at(rest)
    counts["no longer a match with what is left"] = int((~matches).sum())
    for row in rest[matches].tolist():
        answer = slots.ask(job, row)
        counts[f"with too little {answer.resource if isinstance(answer, Short) else 'room'}"] += 1
    states = slots.states.counts(job, matched[~free])
    return Standing(total, len(matched), len(rows), tuple(counts.items()), states, first)


def _no_room(parts: Sequence[Standing]) -> Idle:
    """What keeps the slots that match, added up."""
    counts: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for part in parts:
        for what, count in part.kept:
            counts[what] += count
        states.update(part.states)
    for state in State:
        # The policy may keep what the slot itself calls free.
        known = state not in (State.FREE, State.UNSAID)
        counts[state.words if known else "not free by the policy"] += states[state.value]
    held = {what: count for what, count in counts.items() if count}
    words = ", ".join(f"{count} {what}" for what, count in held.items())
    matched = sum(part.matched for part in parts)
    text = f"{matched} {'slot matches' if matched == 1 else 'slots match'}: {words}"
    amiss = [part.amiss for part in parts if part.amiss is not None]
    if not amiss:
        return Idle(Outcome.NO_ROOM, text, held)
    alone = counts[NO_AMOUNT] == sum(part.free for part in parts)
    return Idle(Outcome.ERROR if alone else Outcome.NO_ROOM, f"{text}; {min(amiss)[2]}", held)


TAKEN: Final = "taken"
NO_AMOUNT: Final = "where the request is no amount"
