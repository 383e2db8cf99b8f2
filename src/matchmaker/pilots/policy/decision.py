"""The decision: how many pilots to submit where, and which to end.

``decide`` is a pure function of a snapshot, a policy and a seed. The rates that it has to remember
go out as the decision's memory and come back with the next snapshot. The numbers of the policy are
in ``policy_ad``.

The rules, in order:

1. Idle and starting pilots that match both ways and have the time left serve the waiting jobs; the
   jobs that the fewest queues can run come first.
2. Jobs that are left ask for pilots: the first few (``Everywhere``) at every queue that fits, each
   further one at some queues (``Copies``). A queue gets the pilots that it is asked for, less those
   that wait there already, at the rate that its batch system takes, within its limits.
3. Idle pilots that neither a job nor ``Ready`` needs end after ``Grace``. Pilots that wait are
   cancelled only when the jobs of a day would not use them: a pilot that waits costs nothing
   before it starts. A pilot that starts or is busy is never ended.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from matchmaker.classad import ClassAd
from matchmaker.classad.values import is_number
from matchmaker.matching.pool import Pool
from matchmaker.pilots.policy.policy_ad import FactColumns, PolicyAd, Values
from matchmaker.pilots.policy.snapshot import (
    Decision,
    Demand,
    End,
    Held,
    Lend,
    Pilot,
    PilotQueue,
    PilotSnapshot,
    PilotState,
    PilotSubmission,
    Wait,
)

if TYPE_CHECKING:
    import numpy.typing as npt

Bools: TypeAlias = "npt.NDArray[np.bool_]"
Ints: TypeAlias = "npt.NDArray[np.intp]"
Reals: TypeAlias = "npt.NDArray[np.float64]"

HALF_LIFE: Final = 1800.0
"""Seconds after which an arrival weighs half in a rate: short against a working day, long against
a cycle."""
GAP: Final = 3600.0
"""A cycle of more seconds is a jump of the clock: no rate is learned, and nothing is ended."""
FIRST: Final = 60.0
"""Seconds for which the first decision, or one after a jump, submits."""
FORGOTTEN: Final = 1e-7
"""Jobs a second, one in four months: a lower rate is none."""
SURPLUS_GRACES, SURPLUS_USE = 10, 86_400.0
"""Pilots that have waited for ten times ``Grace`` are cancelled if the jobs that arrive in so many
seconds would not use them."""
SILENT_HALF: Final = 840.0
"""Seconds of a long silence in which half of the free pilots end, whatever a cycle is: a source
that comes back within the hour still finds some."""
PROBE_FIRST, PROBE_STREAK, PROBE_DOUBLINGS = 600.0, 3, 6
"""A queue that loses pilots is probed after so many seconds, and after twice as many with each
further loss: at most half a day."""
UNKNOWN_RESPONSE: Final = 600.0
"""Seconds to a pilot's start if no queue has a history: the order of a busy batch system's."""
LATE: Final = 3.0
"""Nine of ten pilots start within this many medians if more is not known: see ``SIGMA``."""
STEPS: Final = 64
"""Lengths of time that are distinguished; more are rounded up, so that no pilot counts that has
too little left."""

IDLE, STARTING, QUEUED, BUSY, DRAINING = range(5)
STATES: Final = ("Idle", "Starting", "Queued", "Busy", "Draining")
"""The names of the states in the facts of a policy, by number."""
_STATES: Final = {PilotState(name.lower()): number for number, name in enumerate(STATES)}


def rule(policy: PolicyAd | None = None) -> Callable[[PilotSnapshot, int], Decision]:
    """Return the policy as a function of a snapshot and a seed that matches each pair of ads once.

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
    """Decide which pilots to submit and to end, with reasons; explain why jobs wait.

    Args:
        snapshot: demand, supply and queues at one time. Demand that is None is unknown: nothing is
            submitted, and free pilots are ended only after a while (``SilentHold``).
        policy: the terms, or an ad or text of them; the defaults without it.
        seed: of the choice between queues; the same seed gives the same decision.
        pairs: the ads that match, remembered from cycle to cycle; see :func:`rule`.

    Never raises because of an ad's content. A queue on which a term is undefined, an error, NaN or
    negative is left out, with the reason. Raises ParseError for a policy's text that is no ad, and
    TypeError for other types.

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
    elapsed, jump = clock(snapshot.now, memory.get("now"))
    learned = arrival_rates(memory.get("rates"), snapshot.demand, elapsed)
    seconds = _learned(memory, elapsed)
    # The mean began with nothing: it is put in relation to what it has seen.
    seen = 1 - 0.5 ** (seconds / HALF_LIFE) if seconds else 1.0
    rates = {kind: rate / seen for kind, rate in learned.items()}
    columns = _columns(snapshot, snapshot.demand, pairs or Pairs())
    facts = _pool_facts(columns, rates)
    minimum = values.pool("Minimum", ClassAd(facts))
    queues = _queues(columns, values, facts, snapshot, elapsed)
    wanted = _serve(columns, queues, values, facts, rates)
    placed = _place(columns, queues, wanted, minimum - facts["Free"], seed)
    ends, lends = ((), ()) if jump else _ends(columns, wanted, values, facts, minimum)
    if jump:
        values.notes[f"{jump}: nothing is ended and no rate is learned"] = None
    for row in np.flatnonzero(placed * queues.failing).tolist():
        queues.probes[columns.queues[row].key] = snapshot.now
    return Decision(
        submissions=_submissions(columns, queues, wanted, placed),
        ends=ends,
        lends=lends,
        waits=_waits(columns, queues, wanted, placed),
        held=_held(columns, queues, placed),
        notes=tuple(values.notes),
        memory={"now": snapshot.now, "rates": learned, "learned": seconds, "probes": queues.probes},
        mode="active" if facts["Waiting"] + facts["Running"] + facts["Arrived"] > 0 else "idle",
        target=facts["Busy"] + facts["Free"] + int(placed.sum()) - len(ends) - len(lends),
    )


# --- memory ---------------------------------------------------------------------------------------


def clock(now: float, before: object) -> tuple[float | None, str]:
    """Return the seconds since the decision before, and why the clock is not trusted.

    The seconds are None for a first decision and after a jump.

    >>> clock(100, 40), clock(100, None), clock(40, 100)
    ((60.0, ''), (None, ''), (None, 'the clock went back by 60 s'))
    """
    last = _number(before)
    if last is None:
        return None, ""
    elapsed = now - last
    if not math.isfinite(now):
        return None, f"the time is {now}"
    if elapsed < 0:
        return None, f"the clock went back by {-elapsed:.0f} s"
    if elapsed > GAP:
        return None, f"{elapsed:.0f} s went by since the last cycle, more than {GAP:g}"
    return elapsed, ""


def arrival_rates(
    before: object, demand: Sequence[Demand], elapsed: float | None
) -> dict[str, float]:
    """Return the jobs of each kind that arrive, a second; the past fades with ``HALF_LIFE``.

    Kinds that are no longer in the demand are forgotten as they fade. The memory comes from a file:
    values that no decision wrote are left out.
    """
    past = before if isinstance(before, Mapping) else {}
    kept = 0.5 ** (elapsed / HALF_LIFE) if elapsed else 1.0
    rates = {
        str(kind): kept * rate
        for kind, value in past.items()
        if (rate := _number(value)) is not None and kept * rate > FORGOTTEN
    }
    for one in demand:
        came = (1 - kept) * max(one.arrived, 0) / elapsed if elapsed else 0.0
        if came or one.key in rates:
            rates[one.key] = rates.get(one.key, 0.0) + came
    return rates


def _learned(memory: Mapping[str, object], elapsed: float | None) -> float:
    """Return for how many seconds rates have been learned; ten half-lives stand for ever."""
    ever = 10 * HALF_LIFE
    before = _number(memory.get("learned"))
    if before is None or before < 0:
        before = ever if arrival_rates(memory.get("rates"), (), None) else 0.0
    return min(before + (elapsed or 0.0), ever)


def _number(held: object) -> float | None:
    """Return a finite number from the memory; None for anything else."""
    # An integer may be larger than any float.
    return float(held) if is_number(held) and abs(held) <= sys.float_info.max else None


# --- ads that match -------------------------------------------------------------------------------

MOST_PAIRS: Final = 20_000_000
"""Pairs that are kept, a byte each; beyond that the table begins anew."""


class Pairs:
    """Remember which ads match, by their identity: ads must not be changed afterwards.

    >>> job = ClassAd(Requirements=True)
    >>> Pairs().table([job], [ClassAd(), ClassAd(Requirements=False)]).tolist()
    [[True, False]]
    """

    def __init__(self) -> None:
        self._kinds = _Numbered()
        self._pilots = _Numbered()
        self._table: Bools = np.zeros((0, 0), np.bool_)

    def table(self, kinds: Sequence[ClassAd], pilots: Sequence[ClassAd]) -> Bools:
        """Return whether each kind's ad (a row) and each pilot's (a column) accept each other."""
        if self._kinds.more(kinds) * self._pilots.more(pilots) > MOST_PAIRS:
            self.__init__()  # type: ignore[misc]
        old_kinds, old_pilots = len(self._kinds.ads), len(self._pilots.ads)
        rows, columns = self._kinds.numbers(kinds), self._pilots.numbers(pilots)
        if len(self._kinds.ads) > old_kinds or len(self._pilots.ads) > old_pilots:
            grown = np.zeros((len(self._kinds.ads), len(self._pilots.ads)), np.bool_)
            grown[:old_kinds, :old_pilots] = self._table
            new_kinds, new_pilots = self._kinds.ads[old_kinds:], self._pilots.ads[old_pilots:]
            grown[old_kinds:, :old_pilots] = matched(new_kinds, self._pilots.ads[:old_pilots])
            grown[:, old_pilots:] = matched(self._kinds.ads, new_pilots)
            self._table = grown
        if rows == list(range(len(self._table))) and columns == list(range(self._table.shape[1])):
            return self._table
        return self._table[np.ix_(rows, columns)]


class _Numbered:
    """Number ads by identity; keep them, so that no identity comes again."""

    def __init__(self) -> None:
        self.ads: list[ClassAd] = []
        self._numbers: dict[int, int] = {}

    def more(self, ads: Sequence[ClassAd]) -> int:
        """Count the ads that there will be with these."""
        known = self._numbers
        return len(known) + len({id(ad) for ad in ads if id(ad) not in known})

    def numbers(self, ads: Sequence[ClassAd]) -> list[int]:
        known = self._numbers
        for ad in ads:
            if id(ad) not in known:
                known[id(ad)] = len(self.ads)
                self.ads.append(ad)
        return [known[id(ad)] for ad in ads]


def matched(kinds: Sequence[ClassAd], pilots: Sequence[ClassAd]) -> Bools:
    """Match each kind with each pilot. Kinds are many and alike, so they make the pool."""
    found = np.zeros((len(kinds), len(pilots)), np.bool_)
    if kinds and pilots:
        pool = Pool.of_named((str(number), ad) for number, ad in enumerate(kinds))
        for column, matches in enumerate(pool.match_many(pilots)):
            found[matches._row_array, column] = True
    return found


# --- the snapshot as columns ----------------------------------------------------------------------


@attrs.frozen(eq=False, kw_only=True)
class _Columns:
    """A snapshot by number: pilots, queues, and classes of kinds that are served alike.

    Attributes:
        demand: the kinds.
        classes: for each kind the number of its class: kinds that match the same ads and need the
            same time.
        jobs: for each class its waiting jobs.
        fits: whether each class (a row) matches each ad (a column); those of queues come first.
        step: for each class the number of its wall clock among ``steps``.
        steps: the lengths of time that are distinguished, in seconds, rising.
        queues: the queues.
        counts: pilots by state (a row) and queue (a column).
        able: whether each queue (a column) can run the jobs of each class (a row).
        pilots: the pilots, with a row of each of the next columns.
        queue: the number of a pilot's queue; one more than the last for an unknown queue.
        state: its state, by number.
        ad: the number of its ad.
        age: the seconds since it came to its state.
        room: how many of the ``steps`` its time left suffices for.
    """

    demand: Sequence[Demand]
    classes: Ints
    jobs: Reals
    fits: Bools
    step: Ints
    steps: Reals
    queues: Sequence[PilotQueue]
    counts: Ints
    able: Bools
    pilots: Sequence[Pilot]
    queue: Ints
    state: Ints
    ad: Ints
    age: Reals
    room: Ints


def _columns(snapshot: PilotSnapshot, demand: Sequence[Demand], pairs: Pairs) -> _Columns:
    queues, pilots = snapshot.queues, snapshot.pilots
    size, rows = len(queues), len(pilots)
    ads = [queue.pilot for queue in queues]
    # Pilots of a queue that is not in the snapshot match nothing, unless they have an ad.
    ads.append(_NOBODY)
    wall = np.array([queue.wall if queue.wall > 0 else 0.0 for queue in queues] + [0.0])
    numbers = {queue.key: number for number, queue in enumerate(queues)}
    queue = np.fromiter((numbers.get(pilot.queue, size) for pilot in pilots), np.intp, rows)
    state = np.fromiter((_STATES[pilot.state] for pilot in pilots), np.intp, rows)
    since = np.fromiter((pilot.since for pilot in pilots), np.float64, rows)
    nan = math.nan
    ends = np.fromiter((nan if p.ends is None else p.ends for p in pilots), np.float64, rows)
    ad = queue.copy()
    own: dict[int, int] = {}
    for row, pilot in enumerate(pilots):
        if pilot.ad is not None:
            number = own.setdefault(id(pilot.ad), len(ads))
            if number == len(ads):
                ads.append(pilot.ad)
            ad[row] = number
    # Numbers that make no sense are put right: a time in the future is now, no length is infinite.
    age = np.nan_to_num(np.maximum(snapshot.now - since, 0.0))
    left = np.where(np.isnan(ends), wall[queue], np.maximum(ends - snapshot.now, 0.0))
    needs = np.array([math.inf if kind.wall != kind.wall else kind.wall for kind in demand])
    steps = np.unique(needs)
    if len(steps) > STEPS:
        steps = np.unique(np.quantile(steps, np.linspace(0, 1, STEPS), method="higher"))
    step = np.searchsorted(steps, needs)
    table = pairs.table([kind.ad for kind in demand], ads)
    classes, first = _classes(table, step)
    fits, step = table[first], step[first]
    waiting = np.array([max(kind.waiting, 0) for kind in demand], np.float64)
    counts = np.bincount(state * (size + 1) + queue, minlength=5 * (size + 1))
    return _Columns(
        demand=demand, classes=classes, fits=fits, step=step, steps=steps,
        jobs=np.bincount(classes, waiting, len(first)).astype(np.float64),
        queues=queues, counts=counts.reshape(5, size + 1)[:, :size],
        able=fits[:, :size] & (steps[step][:, None] <= wall[None, :-1]),
        pilots=pilots, queue=queue, state=state, ad=ad, age=age,
        room=np.searchsorted(steps, left, side="right"),
    )  # fmt: skip


_NOBODY: Final = ClassAd(Requirements=False)


def _classes(fits: Bools, step: Ints) -> tuple[Ints, Ints]:
    """Number kinds that match and need the same; give the first kind of each number."""
    numbers: dict[tuple[bytes, int], int] = {}
    keys = zip(np.packbits(fits, axis=1), step.tolist(), strict=True)
    of = [numbers.setdefault((row.tobytes(), at), len(numbers)) for row, at in keys]
    classes = np.array(of, np.intp)
    return classes, np.unique(classes, return_index=True)[1]


# --- the policy on each queue ---------------------------------------------------------------------


@attrs.frozen(eq=False, kw_only=True)
class _Queues:
    """The policy's values on the queues, a row each.

    Attributes:
        left_out: the reason for each queue that nothing may be submitted to, by number.
        failing: whether it loses pilots.
        weight: its share of jobs that ask at some queues only.
        room: how many more pilots it takes by its limits.
        step: how many of them in this cycle.
        usable: whether each class (a row) may ask at each queue (a column).
        probes: by key, when a queue that loses pilots was last probed.
    """

    left_out: dict[int, str]
    failing: Bools
    weight: Reals
    room: Reals
    step: Reals
    usable: Bools
    probes: dict[str, float]


def _queues(
    columns: _Columns, values: Values, facts: Mapping[str, Any], snapshot: PilotSnapshot,
    elapsed: float | None,
) -> _Queues:  # fmt: skip
    queues, counts = columns.queues, columns.counts
    left_out = {row: queue.closed for row, queue in enumerate(queues) if queue.closed}
    total, queued = counts.sum(axis=0), counts[QUEUED]
    room = np.array([math.inf if q.max_pilots is None else q.max_pilots for q in queues]) - total
    own = np.array([math.inf if q.max_queued is None else q.max_queued for q in queues]) - queued
    room = np.maximum(np.minimum(room, own), 0.0)
    slots = np.minimum(room, 1e9)
    on = FactColumns(lambda: _queue_facts(columns, values.policy, slots, facts))

    def each(name: str) -> Reals:
        rows = np.array([row not in left_out for row in range(len(queues))], np.bool_)
        return values.each(name, on, rows, left_out.setdefault)

    for row in np.flatnonzero(each("Use") == 0).tolist():
        left_out.setdefault(row, "the policy's Use is false there")
    weight, limit = each("Weight"), each("Limit")
    room = np.floor(np.minimum(room, np.maximum(limit - queued, 0.0)))
    # Whole submissions up to now less those up to the last decision: no cycle is too short.
    # A rate that is no number gives no pilot.
    rate = np.clip(np.nan_to_num([float(queue.rate) for queue in queues]), 0.0, 1e9)
    before = snapshot.now - elapsed if elapsed else 0.0
    until = snapshot.now if elapsed else FIRST
    step = np.floor(rate * until) - np.floor(rate * before)
    held = snapshot.memory.get("probes")
    past = held if isinstance(held, Mapping) else {}
    # Queues that are gone are forgotten.
    probes = {q.key: at for q in queues if (at := _number(past.get(q.key))) is not None}
    failing = np.array([queue.estimate.probing for queue in queues], np.bool_)
    for row in np.flatnonzero(failing).tolist():
        losses = min(max(queues[row].estimate.streak - PROBE_STREAK, 0), PROBE_DOUBLINGS)
        since = snapshot.now - probes.get(queues[row].key, -math.inf)
        due = since < 0 or since >= PROBE_FIRST * 2**losses
        room[row] = min(room[row], 1) if due and not counts[[STARTING, QUEUED], row].any() else 0
        if not room[row]:
            left_out.setdefault(
                row, "it loses pilots: no more until its probe comes back or the next is due"
            )
    usable = columns.able & np.array([row not in left_out for row in range(len(queues))], np.bool_)
    return _Queues(
        left_out=left_out, failing=failing, weight=weight, room=room, step=step, usable=usable,
        probes=probes,
    )  # fmt: skip


# --- serving and asking ---------------------------------------------------------------------------


@attrs.frozen(eq=False, kw_only=True)
class _Wanted:
    """The supply that was taken, and the pilots that are asked for.

    Attributes:
        unmet: for each class the jobs that no idle or starting pilot serves.
        asked: for each queue the pilots that shall wait there.
        use: for each queue the jobs that will arrive for it in ``SURPLUS_USE`` seconds.
        rows: for each pilot the number of its row of supply; -1 for none.
        left: for each row of supply the pilots that nobody needs.
    """

    unmet: Reals
    asked: Reals
    use: Reals
    rows: Ints
    left: Reals


def _serve(
    columns: _Columns, queues: _Queues, values: Values, facts: Mapping[str, Any],
    rates: Mapping[str, float],
) -> _Wanted:  # fmt: skip
    """Give the pilots that run to the classes, and say how many each queue is asked for."""
    demand, size = columns.demand, len(columns.jobs)
    choice = queues.usable.sum(axis=1)
    on = FactColumns(lambda: _kind_facts(columns, values.policy, choice, facts, rates))
    arrivals = np.array([rates.get(kind.key, 0.0) for kind in demand])
    waiting = np.array([max(kind.waiting, 0) for kind in demand], np.float64)

    def by_class(amounts: Reals) -> Reals:
        return np.bincount(columns.classes, amounts, size).astype(np.float64)

    def mean(name: str) -> Reals:
        each = values.each(name, on, waiting > 0)
        return by_class(waiting * each) / np.maximum(columns.jobs, 1.0)

    arriving = by_class(arrivals)
    rows, ad, room, left = _supply(columns, columns.jobs + SURPLUS_USE * arriving)
    order = np.lexsort((np.arange(size), choice)).tolist()

    def serve(wanted: Reals) -> Reals:
        short = wanted.copy()
        for one in order:
            if short[one] > 0:
                able = columns.fits[one][ad] & (room > columns.step[one]) & (left > 0)
                found = np.flatnonzero(able)
                upto = left[found].cumsum()
                left[found] -= np.clip(short[one] - (upto - left[found]), 0.0, left[found])
                short[one] = max(short[one] - (upto[-1] if len(upto) else 0.0), 0.0)
        return short

    # Jobs of a silent source keep the pilots that are there, and ask for none.
    silent = np.array([min(max(kind.silent, 0), kind.waiting) for kind in demand], np.float64)
    short = serve(columns.jobs)
    unmet = np.minimum(short, columns.jobs - by_class(silent))
    ready = values.each("Ready", on, arrivals > 0)
    serve(by_class(ready))
    # Kinds that have no job now may come again; nobody knows what fits them. As many pilots are
    # kept for them as for the others, by their arrivals; those first that fit most jobs.
    gone = sum(rates.values()) - float(arrivals.sum())
    more = gone * ready.sum() / max(arrivals.sum(), FORGOTTEN)
    upto = left[::-1].cumsum()[::-1]
    left -= np.clip(more - (upto - left), 0.0, left)
    everywhere, copies = mean("Everywhere"), mean("Copies")
    asked = _asked(columns, queues, unmet, everywhere, copies)
    if silent.any():
        # Pilots that wait for them stay theirs: those of other jobs come beside these.
        theirs = _asked(columns, queues, short, everywhere, copies) - asked
        asked = asked + np.clip(columns.counts[QUEUED], 0, np.maximum(theirs, 0.0))
    return _Wanted(
        unmet=unmet, asked=asked,
        use=SURPLUS_USE * (arriving @ columns.able + gone), rows=rows, left=left,
    )  # fmt: skip


def _supply(columns: _Columns, use: Reals) -> tuple[Ints, Ints, Ints, Reals]:
    """Count idle and starting pilots by ad and time left: rows, and the number for each pilot.

    The ads come first that are of use to the fewest jobs: the others may serve others still.
    """
    rank = np.argsort(np.argsort(use @ columns.fits, kind="stable"), kind="stable")
    running = np.flatnonzero(columns.state <= STARTING)
    code = rank[columns.ad[running]] * (len(columns.steps) + 1) + columns.room[running]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    rows = np.full(len(columns.pilots), -1, np.intp)
    rows[running] = inverse
    found = running[first]
    left = np.bincount(inverse, minlength=len(found)).astype(np.float64)
    return rows, columns.ad[found], columns.room[found], left


def _asked(
    columns: _Columns, queues: _Queues, unmet: Reals, everywhere: Reals, copies: Reals
) -> Reals:
    """Return how many pilots shall wait at each queue."""
    first = np.minimum(unmet, everywhere)
    base = np.asarray(first @ queues.usable)
    further = np.flatnonzero(unmet > first)
    if not len(further):
        return base
    more, usable = (unmet - first)[further], queues.usable[further]
    copies, weight = copies[further, None], queues.weight.copy()
    capacity = columns.counts[QUEUED] + queues.room
    asked = base
    for _ in range(4):
        share = usable * weight
        total = np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
        asked = base + more @ np.minimum(copies * share / total, 1.0)
        over = asked > capacity + 0.5
        if not over.any():
            break
        # What one queue has no room for is asked of the others.
        fits = np.maximum(capacity - base, 0.0) / np.maximum(asked - base, 1e-9)
        weight[over] *= fits[over]
    return asked


def _place(columns: _Columns, queues: _Queues, wanted: _Wanted, floor: float, seed: int) -> Ints:
    """Return how many pilots to submit to each queue; at least `floor` in all, if there is room."""
    chance = random.Random(seed)  # noqa: S311 - spreads pilots only
    queued = columns.counts[QUEUED]
    whole = np.floor(wanted.asked + 1e-9)
    part = wanted.asked - whole
    rest = round(part.sum())
    if rest:
        # Parts of pilots are drawn by lot; but first come queues where one more waits already,
        # or each cycle would draw others.
        found = np.flatnonzero(part > 1e-9)
        drawn = np.array([-math.log(1 - chance.random()) for _ in found]) / part[found]
        drawn[queued[found] > whole[found]] -= math.inf
        whole[found[np.argsort(drawn, kind="stable")[:rest]]] += 1
    most = np.minimum(queues.room, queues.step)
    open_ = np.array([row not in queues.left_out for row in range(len(most))], np.bool_)
    placed = np.where(open_, np.clip(whole - queued, 0, most), 0).astype(np.intp)
    missing = int(floor - placed.sum())
    spare = np.where(open_, most - placed, 0)
    while missing > 0 and (spare > 0).any():
        found = np.flatnonzero(spare > 0)
        chosen = np.array(chance.sample(found.tolist(), min(missing, len(found))))
        count = np.minimum(spare[chosen], max(missing // len(found), 1)).astype(np.intp)
        placed[chosen] += count
        spare[chosen] -= count
        missing -= int(count.sum())
    return placed


# --- ending ---------------------------------------------------------------------------------------


def _ends(
    columns: _Columns, wanted: _Wanted, values: Values, facts: Mapping[str, Any], minimum: float
) -> tuple[tuple[End, ...], tuple[Lend, ...]]:
    """Choose the pilots to end or to lend: waiting ones first, then idle ones, the oldest first."""
    state, age = columns.state, columns.age
    keep = np.ceil(np.maximum(wanted.asked, wanted.use) - 0.5)
    # Pilots of a queue that is gone serve nobody.
    over = np.append(columns.counts[QUEUED] - keep, np.inf)
    spare = np.append(np.floor(wanted.left + 0.5), 0.0)
    grace = values.pool("Grace", ClassAd(facts))
    idle = (state == IDLE) & (age >= grace) & (spare[wanted.rows] >= 1)
    waits = (state == QUEUED) & (age >= SURPLUS_GRACES * grace) & (over[columns.queue] >= 1)
    rows = np.flatnonzero(idle | waits)
    found = []
    for row in rows[np.lexsort((-age[rows], -state[rows]))].tolist():
        beyond, of = (spare, wanted.rows) if state[row] == IDLE else (over, columns.queue)
        if beyond[of[row]] >= 1:
            beyond[of[row]] -= 1
            found.append(row)
    free = int(np.count_nonzero(state <= QUEUED))
    found = found[: max(int(free - minimum), 0)]
    lends = values.policy.lends
    ends, lent = [], []
    for row in found:
        pilot = columns.pilots[row]
        stands = "idle" if state[row] == IDLE else "queued"
        reason = f"{stands} for {age[row]:.0f} s, and no job needs it"
        if lends and state[row] == IDLE:
            lent.append(Lend(pilot.key, lends, reason))
        else:
            ends.append(End(pilot.key, reason))
    return tuple(ends), tuple(lent)


def _silent(snapshot: PilotSnapshot, values: Values) -> Decision:
    """Hold while the demand is not known; after a while, end free pilots little by little."""
    memory = dict(snapshot.memory)
    since = _number(memory.get("silent"))
    if since is None or since > snapshot.now:
        since = snapshot.now
    memory["silent"] = since
    hold = values.pool("SilentHold", ClassAd())
    minimum = values.pool("Minimum", ClassAd(Free=0, Pilots=len(snapshot.pilots)))
    order = {"queued": 0, "idle": 1}
    free = [pilot for pilot in snapshot.pilots if pilot.state in order]
    free.sort(key=lambda pilot: (order[pilot.state], pilot.since, pilot.key))
    silent = snapshot.now - since
    count = 0
    if silent >= hold:
        # Parts of pilots are carried on: short cycles end as many in an hour as long ones.
        last, due = _number(memory.get("ended")), _number(memory.get("due"))
        passed = min(max(snapshot.now - last, 0.0), GAP) if last is not None else FIRST
        due = (1.0 if due is None else due) + len(free) * (1 - 0.5 ** (passed / SILENT_HALF))
        count = max(min(int(due), int(len(free) - minimum)), 0)
        memory |= {"ended": snapshot.now, "due": min(due - count, 1.0)}
    values.notes[f"the demand is unknown for {silent:.0f} s: nothing is submitted"] = None
    reason = f"the demand is unknown for {silent:.0f} s, more than {hold:g}"
    return Decision(
        ends=tuple(End(pilot.key, reason) for pilot in free[:count]),
        held=tuple(Held(queue.key, "the demand is unknown") for queue in snapshot.queues),
        notes=tuple(values.notes),
        memory=memory,
        mode="idle",
        target=len(snapshot.pilots) - count,
    )


# --- facts for expressions ------------------------------------------------------------------------


def _pool_facts(columns: _Columns, rates: Mapping[str, float]) -> dict[str, Any]:
    counts = np.bincount(columns.state, minlength=len(STATES)).tolist()
    demand = columns.demand
    return {
        "Waiting": sum(kind.waiting for kind in demand),
        "Running": sum(kind.running for kind in demand),
        "Arrived": sum(kind.arrived for kind in demand),
        "Arrivals": float(sum(rates.values())),
        "Pilots": len(columns.pilots),
        "Free": sum(counts[: QUEUED + 1]),
        **dict(zip(STATES, counts, strict=True)),
    }


def _kind_facts(
    columns: _Columns, policy: PolicyAd, choice: Ints, pool: Mapping[str, Any],
    rates: Mapping[str, float],
) -> Mapping[str, Sequence[Any]]:  # fmt: skip
    """Return the facts of each kind; ads within them only if the policy refers to them."""
    demand = columns.demand
    found: dict[str, Sequence[Any]] = {
        "Kind": [kind.key for kind in demand],
        "Group": [kind.group for kind in demand],
        "Waiting": [kind.waiting for kind in demand],
        "Running": [kind.running for kind in demand],
        "Arrived": [kind.arrived for kind in demand],
        "Arrivals": [rates.get(kind.key, 0.0) for kind in demand],
        "Oldest": [float(kind.oldest) for kind in demand],
        "Wall": [float(kind.wall) for kind in demand],
        "Queues": choice[columns.classes].tolist(),
    }
    if "job" in policy.uses:
        found["Job"] = [kind.ad for kind in demand]
    if "pool" in policy.uses:
        found["Pool"] = [ClassAd(pool)] * len(demand)
    return found


def _queue_facts(
    columns: _Columns, policy: PolicyAd, slots: Reals, pool: Mapping[str, Any]
) -> Mapping[str, Sequence[Any]]:
    """Return the facts of each queue; ads within them only if the policy refers to them."""
    queues, known = columns.queues, [queue.estimate for queue in columns.queues]
    medians = sorted(one.median for one in known if one.median is not None)
    # A queue without a history counts as an average one.
    guess = medians[len(medians) // 2] if medians else UNKNOWN_RESPONSE
    response = [max(guess, one.at_least) if one.median is None else one.median for one in known]
    found: dict[str, Sequence[Any]] = {
        "Queue": [queue.key for queue in queues],
        "Slots": slots.tolist(),
        "Response": response,
        "Late": [
            LATE * middle if one.late is None else max(one.late, middle)
            for one, middle in zip(known, response, strict=True)
        ],
        "Wall": [float(queue.wall) for queue in queues],
        "Known": [one.median is not None for one in known],
        "Failures": [0.0 if one.failures is None else one.failures for one in known],
        "Streak": [one.streak for one in known],
        "Probing": [one.probing for one in known],
        "Started": [one.started for one in known],
        "Pilots": columns.counts.sum(axis=0).tolist(),
        **dict(zip(STATES, columns.counts.tolist(), strict=True)),
    }
    if "pilot" in policy.uses:
        found["Pilot"] = [queue.pilot for queue in queues]
    if "pool" in policy.uses:
        found["Pool"] = [ClassAd(pool)] * len(queues)
    return found


# --- reasons --------------------------------------------------------------------------------------


def _submissions(
    columns: _Columns, queues: _Queues, wanted: _Wanted, placed: Ints
) -> tuple[PilotSubmission, ...]:
    found = []
    served = np.ceil(wanted.unmet @ queues.usable - 1e-6).astype(np.intp).tolist()
    for row in np.flatnonzero(placed).tolist():
        jobs = f"{served[row]} waiting job{' has' if served[row] == 1 else 's have'} no pilot"
        reason = jobs if served[row] else "kept ready for jobs to come"
        if queues.failing[row]:
            reason = f"a probe, after failures; {reason}"
        found.append(PilotSubmission(columns.queues[row].key, int(placed[row]), reason))
    return tuple(found)


def _held(columns: _Columns, queues: _Queues, placed: Ints) -> tuple[Held, ...]:
    """List the queues that take no pilot, each with its reason."""
    total = columns.counts.sum(axis=0)
    found = []
    for row, queue in enumerate(columns.queues):
        reason = queues.left_out.get(row, "")
        if not reason and not placed[row] and not queues.room[row]:
            reason = f"a limit is reached: {total[row]} pilots are there"
        if reason:
            found.append(Held(queue.key, reason))
    return tuple(found)


def _waits(columns: _Columns, queues: _Queues, wanted: _Wanted, placed: Ints) -> tuple[Wait, ...]:
    """Explain the waits of each kind with waiting jobs."""
    found = []
    texts: dict[int, str] = {}
    for kind, number in zip(columns.demand, columns.classes.tolist(), strict=True):
        if kind.waiting > 0:
            if number not in texts:
                texts[number] = _why(columns, queues, wanted, placed, number)
            silent = kind.silent >= kind.waiting
            why = "their source is silent: nothing is submitted for them"
            found.append(Wait(kind.key, kind.waiting, why if silent else texts[number]))
    return tuple(found)


def _why(columns: _Columns, queues: _Queues, wanted: _Wanted, placed: Ints, number: int) -> str:
    size = len(columns.queues)
    if wanted.unmet[number] < 1e-6:
        return "pilots that are idle or starting"
    if not size:
        return "there is no queue"
    if not columns.fits[number, :size].any():
        return f"none of the {size} queues matches"
    able = np.flatnonzero(columns.able[number])
    if not len(able):
        needs = columns.steps[columns.step[number]]
        return f"no queue that matches lets a pilot run for {needs:.0f} s"
    open_ = np.flatnonzero(queues.usable[number])
    if not len(open_):
        first = int(able[0])
        return (
            f"all queues that match are left out, {len(able)} in number;"
            f" {columns.queues[first].key}: {queues.left_out[first]}"
        )
    new, old = int(placed[open_].sum()), int(columns.counts[QUEUED, open_].sum())
    if new + old < wanted.unmet[number] and not (queues.room[open_] > placed[open_]).any():
        return f"the queues that match are at their limits, {len(open_)} in number"
    waiting = f"pilots that wait in queues, {old} in number"
    return waiting if not new else f"pilots that are submitted now, {new} in number"
