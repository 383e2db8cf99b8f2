"""The decision: how many pilots to submit where, and which to end.

``decide`` is a pure function of a snapshot, a policy and a seed; what it has to know of the past
goes out as the decision's memory and comes back with the next snapshot. The columns of a snapshot
are in :mod:`~matchmaker.pilots.scene`, what the policy says of them in
:mod:`~matchmaker.pilots.cycle`, who takes whom in :mod:`~matchmaker.pilots.supply`, the
choice of queues in :mod:`~matchmaker.pilots.placing`, the words for people in
:mod:`~matchmaker.pilots.reasons`.

The rules, in order:

1. A kind's jobs take the pilots that match both ways and have the time: idle ones, those that
   start, those that are queued and not overdue; the scarcest kind first. Jobs that are left take
   busy pilots that are about to be free.
2. For each job that is still left pilots are wanted, and in active mode some that are ready and
   some that are queued ahead, as the policy says. Queued pilots that nobody took serve these.
3. What is then wanted is submitted, within the limits.
4. Pilots that nobody took are ended if they have not been needed for long enough: queued ones
   first. A pilot that starts or is busy is never ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from matchmaker.classad import ClassAd
from matchmaker.pilots import reasons
from matchmaker.pilots.arrays import Bools, Ints, Reals
from matchmaker.pilots.cycle import Cycle
from matchmaker.pilots.pairs import Pairs
from matchmaker.pilots.placing import Places
from matchmaker.pilots.policy_ad import PolicyAd
from matchmaker.pilots.rates import Clock, clock, kept, number, remembered, updated
from matchmaker.pilots.scene import BUSY, IDLE, QUEUED, STARTING, scene
from matchmaker.pilots.snapshot import Decision, End, Held, Lend, PilotSnapshot
from matchmaker.pilots.supply import Supply, grouped
from matchmaker.pilots.terms import Values, kind_facts


def rule(policy: PolicyAd | None = None) -> Callable[[PilotSnapshot, int], Decision]:
    """The policy as a function of a snapshot and a seed, that matches each pair of ads once.

    Ads that were in a snapshot must not be changed afterwards.
    """
    pairs = Pairs()
    return lambda snapshot, seed: decide(snapshot, policy, seed, pairs=pairs)


def decide(
    snapshot: PilotSnapshot,
    policy: PolicyAd | ClassAd | str | Mapping[str, Any] | None = None,
    seed: int = 0,
    *,
    pairs: Pairs | None = None,
) -> Decision:
    """What to submit and what to end, each with its reason, and what each kind's jobs wait for.

    Args:
        snapshot: demand, supply and queues at one time. Demand that is None is unknown: nothing is
            submitted, and free pilots are ended only after a while (``SilentHold``).
        policy: the terms, or an ad or text of them; the defaults without it.
        seed: of the choice between queues; the same seed gives the same decision.
        pairs: which ads match, remembered from cycle to cycle; see :func:`rule`.

    Never raises on what ads say. A queue on which a term is undefined, an error, NaN or negative
    is left out, and said to be. Raises ParseError for a policy's text that is no ad, and TypeError
    for what is no snapshot.

    >>> from matchmaker.pilots import Demand, PilotQueue
    >>> job = ClassAd(Requirements=True)
    >>> decision = decide(PilotSnapshot(
    ...     now=0, demand=(Demand(key="sim", ad=job, waiting=3),),
    ...     queues=(PilotQueue(key="ce1", pilot=ClassAd()),),
    ... ))
    >>> for one in decision.submissions:
    ...     print(one.queue, one.count, "|", one.reason)
    ce1 3 | 3 waiting jobs have no pilot
    """
    if not isinstance(snapshot, PilotSnapshot):
        raise TypeError(f"a pilots.PilotSnapshot was expected, not {type(snapshot).__name__}")
    if not isinstance(policy, PolicyAd):
        policy = PolicyAd(policy if policy is not None else ClassAd())
    values = Values(policy)
    if snapshot.demand is None:
        return _silent(snapshot, values)
    memory = snapshot.memory
    ticks = clock(snapshot.now, memory.get("now"), values.pool("Gap", ClassAd()))
    half = values.pool("Memory", ClassAd())
    rates = updated(remembered(memory.get("rates")), snapshot.demand, ticks.elapsed, half)
    unknown = values.pool("UnknownResponse", ClassAd())
    cycle = Cycle.of(scene(snapshot, pairs or Pairs(), unknown), values, rates, memory)
    taken = _take(cycle)
    places, unplaced = _place(cycle, taken, snapshot.now, seed)
    ends, lends = _ends(cycle, taken, ticks)
    if ticks.jumped:
        values.notes[f"{ticks.jumped}: nothing is ended and no rate is learned"] = None
    probes = {**cycle.probes}
    for row in np.flatnonzero(places.placed * cycle.failing).tolist():
        probes[cycle.scene.queues.given[row].key] = snapshot.now
    free = int(cycle.facts["Free"])
    return Decision(
        submissions=reasons.submissions(cycle, places, taken.unmet),
        ends=ends,
        lends=lends,
        waits=reasons.waits(cycle, places, taken.unmet, unplaced),
        held=reasons.held(cycle, places),
        notes=tuple(values.notes),
        memory={"now": snapshot.now, "rates": kept(rates), "probes": probes},
        mode="active" if cycle.active else "idle",
        target=int(cycle.facts["Busy"]) + free + int(places.placed.sum()) - len(ends) - len(lends),
    )


@attrs.frozen(eq=False, kw_only=True)
class _Taken:
    """Who took whom.

    Attributes:
        unmet: for each class the jobs that found no free pilot.
        urgent: for each class how many pilots its jobs want beyond that.
        ahead: for each class how many are wanted for jobs to come.
        order: the classes, scarcest first.
        rows: for each row of pilots the number of its row of supply.
        left: for each row of supply how many of its pilots nobody took.
        share: for each class the pilots that it wants of each queue that serves it.
    """

    unmet: Reals
    urgent: Reals
    ahead: Reals
    order: list[int]
    rows: Ints
    left: Reals
    share: Reals


def _take(cycle: Cycle) -> _Taken:
    """Gives the pilots to the classes, and says what they still want."""
    scene, values = cycle.scene, cycle.values
    classes, demand = scene.classes, scene.demand
    size = len(classes)
    facts = kind_facts(
        values.policy, scene, cycle.rates,
        response=cycle.response.tolist(), known=cycle.known.tolist(), pool=ClassAd(cycle.facts),
    )  # fmt: skip
    arrivals = np.array([cycle.rates[kind.key].arrivals for kind in demand])
    waiting = np.array([max(kind.waiting, 0) for kind in demand], np.float64)

    def by_class(amounts: Reals) -> Reals:
        return np.bincount(classes.of, weights=amounts, minlength=size).astype(np.float64)

    def each(name: str, which: Bools) -> Reals:
        rows = np.flatnonzero(which).tolist()
        return values.each(name, facts, len(demand), rows, values.note)

    coming = arrivals > 0 if cycle.active else np.zeros(len(demand), np.bool_)
    jobs = by_class(waiting)
    ready, standby = by_class(each("Ready", coming)), by_class(each("Standby", coming))
    # More pilots than the jobs want beside each other: those that are queued for the same job.
    hedged = by_class(waiting * np.maximum(each("Hedge", waiting > 0) - 1, 0))
    oldest = np.array([kind.oldest for kind in demand], np.float64)
    patient = np.ones(size, np.bool_)
    patient[classes.of[oldest > each("Patience", waiting > 0)]] = False

    expected = jobs + by_class(arrivals) * cycle.response
    places = cycle.usable.sum(axis=1)
    order = np.lexsort((np.arange(size), places)).tolist()
    supply, rows, ends = _supply(cycle, expected, each("Horizon", np.ones(len(demand), np.bool_)))
    running, queued, busy = (slice(*pair) for pair in zip((0, *ends), ends, strict=False))
    unmet = supply.serve(classes, order, jobs, slice(0, queued.stop), cycle.youngest)
    urgent = unmet.copy()
    urgent[patient] = supply.serve(classes, order, np.where(patient, unmet, 0), busy)[patient]
    unready = supply.serve(classes, order, ready, running)
    back = supply.serve(classes, order, urgent + hedged, queued, cycle.youngest)
    ahead = supply.serve(classes, order, unready + standby, queued, cycle.youngest)
    # Overdue pilots are no supply, and may yet start while something is wanted.
    supply.serve(classes, order, back + ahead, queued)
    return _Taken(
        unmet=unmet, urgent=back, ahead=ahead, order=order, rows=rows, left=supply.left,
        share=expected / np.maximum(places, 1),
    )  # fmt: skip


def _supply(
    cycle: Cycle, expected: Reals, horizon: Reals
) -> tuple[Supply, Ints, tuple[int, int, int]]:
    """The supply, for each pilot its row, and where idle, queued and busy rows end.

    Of equal state those come first that are of use to the fewest jobs.
    """
    classes, pilots = cycle.scene.classes, cycle.scene.pilots
    use = expected @ classes.fits
    rank = np.argsort(np.argsort(use, kind="stable"), kind="stable")
    waited = np.where(pilots.state == QUEUED, np.ceil(4 * np.log2(1 + pilots.age / 60)), 0)
    room = np.searchsorted(classes.steps, pilots.remaining, side="right")
    first, rows = grouped([pilots.state, waited.astype(np.intp), rank[pilots.ad], room])
    ends = np.array([*(cycle.rates[kind.key].ends for kind in cycle.scene.demand), 0.0])
    freed = 1 - np.exp(-ends * np.append(horizon, 0.0))
    weight = np.where(pilots.state == BUSY, freed[pilots.kind], pilots.state < BUSY)
    # Groups are numbered by the rounded age, which a pilot must not exceed. Only what is queued
    # can be overdue.
    supply = Supply(
        pilots.ad[first], room[first], np.where(waited[first] > 0, pilots.age[first], 0.0),
        np.bincount(rows, weights=weight, minlength=len(first)).astype(np.float64),
    )  # fmt: skip
    state = pilots.state[first]
    bounds = np.searchsorted(state, (QUEUED, BUSY, BUSY + 1)).tolist()
    return supply, rows, tuple(bounds)


def _place(cycle: Cycle, taken: _Taken, now: float, seed: int) -> tuple[Places, Ints]:
    """Places the pilots that are wanted, and says how many of each class found no place."""
    scene, values, facts = cycle.scene, cycle.values, cycle.facts
    size, queues = len(scene.classes), scene.queues
    facts["Unmet"] = int(np.ceil(taken.unmet.sum()))
    pool = ClassAd(facts)
    throttle = values.pool("ActiveThrottle" if cycle.active else "IdleThrottle", pool) > 0
    room = cycle.room.copy()
    for row in np.flatnonzero(cycle.failing).tolist():
        since = now - cycle.probes.get(queues.given[row].key, -np.inf)
        under_way = queues.counts[[STARTING, QUEUED], row].any()
        due = not under_way and (since >= cycle.probe_after[row] or since < 0)
        room[row] = min(room[row], 1) if due else 0
        if not due:
            cycle.left_out.setdefault(
                row, "it loses pilots: no more until its probe comes back or the next is due"
            )
    there = 1 + queues.counts[:QUEUED].sum(axis=0) + queues.counts[BUSY]
    places = Places(
        slow=queues.slow, room=room, response=np.maximum(queues.response, 1.0),
        price=(taken.share @ cycle.usable) / there, weight=cycle.weight,
        spread=max(values.pool("Spread", pool), 1.0),
        random=random.Random(seed),  # noqa: S311 - spreads pilots only
        placed=np.zeros(len(queues.given), np.intp),
    )  # fmt: skip
    left = min(values.pool("Step", pool), max(values.pool("MaxTotal", pool) - facts["Pilots"], 0.0))
    unplaced = np.zeros(size, np.intp)
    left = int(left)
    for wanted, quick in ((taken.urgent, True), (taken.ahead, False)):
        # Parts of pilots add up from class to class; a half is one.
        carry = 0.5
        for one in taken.order:
            carry += float(wanted[one])
            count = int(carry)
            carry -= count
            if count <= 0:
                continue
            tried = min(count, left)
            missing = places.place(
                cycle.usable[one], tried, taken.share[one] / there, throttle=throttle
            )
            unplaced[one] += (missing + count - tried) * quick
            left -= tried - missing
    floor = int(cycle.minimum - facts["Free"] - places.placed.sum())
    if floor > 0:
        anywhere = np.array(
            [row not in cycle.left_out for row in range(len(queues.given))], np.bool_
        )
        places.place(anywhere, min(floor, left), 0.0, throttle=throttle)
    return places, unplaced


def _ends(cycle: Cycle, taken: _Taken, ticks: Clock) -> tuple[tuple[End, ...], tuple[Lend, ...]]:
    """The pilots to end or to lend: queued ones first, then idle ones, the oldest first."""
    pilots, values = cycle.scene.pilots, cycle.values
    # Kinds take parts of pilots: one of which less than ``Keep`` is wanted is not kept.
    facts = cycle.facts
    pool = ClassAd(facts)
    part = np.clip(values.pool("Keep", pool), 1e-6, 1 - 1e-6)
    extra = np.floor(taken.left + part).astype(np.intp)
    grace = np.full(5, np.inf)
    grace[IDLE] = values.pool("IdleGrace", pool)
    grace[QUEUED] = values.pool("QueuedGrace", pool)
    old = np.flatnonzero(pilots.age >= grace[pilots.state])
    old = old[np.lexsort((-pilots.age[old], -pilots.state[old]))]
    # Of each row as many as nobody took.
    found = []
    for row in old.tolist():
        if extra[taken.rows[row]] > 0:
            extra[taken.rows[row]] -= 1
            found.append(row)
    facts["Surplus"] = len(found)
    if ticks.jumped or not found or not values.pool("Large", ClassAd(facts)):
        return (), ()
    found = found[: max(int(facts["Free"] - cycle.minimum), 0)]
    lends = values.policy.lends
    ends, lent = [], []
    for row in found:
        pilot, reason = pilots.given[row], reasons.ended(pilots, row)
        if lends and pilots.state[row] == IDLE:
            lent.append(Lend(pilot.key, lends, reason))
        else:
            ends.append(End(pilot.key, reason))
    return tuple(ends), tuple(lent)


def _silent(snapshot: PilotSnapshot, values: Values) -> Decision:
    """Holds while the demand is not known; after a while, ends free pilots little by little."""
    memory = dict(snapshot.memory)
    since = number(memory.get("silent"))
    if since is None or since > snapshot.now:
        since = snapshot.now
    memory["silent"] = since
    none = ClassAd()
    hold, share = values.pool("SilentHold", none), values.pool("SilentShare", none)
    minimum = values.pool("Minimum", ClassAd(Free=0, Pilots=len(snapshot.pilots)))
    order = {"queued": 0, "idle": 1}
    free = [pilot for pilot in snapshot.pilots if pilot.state in order]
    free.sort(key=lambda pilot: (order[pilot.state], pilot.since, pilot.key))
    silent = snapshot.now - since
    count = 0
    if silent >= hold:
        count = min(int(np.ceil(len(free) * min(share, 1.0))), max(int(len(free) - minimum), 0))
    values.notes[f"the demand is unknown for {silent:g} s: nothing is submitted"] = None
    reason = f"the demand is unknown for {silent:g} s, more than {hold:g}"
    return Decision(
        ends=tuple(End(pilot.key, reason) for pilot in free[:count]),
        held=tuple(Held(queue.key, "the demand is unknown") for queue in snapshot.queues),
        notes=tuple(values.notes),
        memory=memory,
        mode="idle",
        target=len(snapshot.pilots) - count,
    )
