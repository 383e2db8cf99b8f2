"""The rules of other systems, as policies with the interface of our own.

Each function follows the source that its docstring and ``docs/sources.md`` name, as far as a
``PilotSnapshot`` shows what the source looks at: one pilot runs one job at a time. No rule has the
limits that administrators set by experience, several groups in one account, or submissions that
fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from matchmaker.pilots.policy.decision import Pairs
from matchmaker.pilots.policy.snapshot import (
    Decision,
    End,
    PilotQueue,
    PilotSnapshot,
    PilotState,
    PilotSubmission,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]

Decide = Callable[[PilotSnapshot, int], Decision]


@attrs.frozen(slots=True)
class PilotRule:
    """A policy with its name.

    Attributes:
        name: its name in tables.
        decide: makes a decision of a snapshot and a seed.
        idle: seconds after which a pilot without work ends by itself. Five minutes is the default
            of HyperQueue and TaskVine; the other systems have similar ones.
    """

    name: str
    decide: Decide
    idle: float = 300.0


@attrs.frozen(slots=True, eq=False)
class PoolCounts:
    """The counts of a snapshot; kinds of jobs are rows, queues are columns.

    Attributes:
        queues: the queues.
        fits: the kinds that a new pilot of a queue could run; none if the queue is closed.
        waiting: jobs of each kind that wait.
        running: jobs of each kind that run.
        queued: pilots of each queue that wait there.
        starting: those that start.
        idle: those that are idle.
        busy: those that are busy or draining.
        snapshot: the snapshot that was counted.
    """

    queues: tuple[PilotQueue, ...]
    fits: npt.NDArray[np.bool_]
    waiting: Counts
    running: Counts
    queued: Counts
    starting: Counts
    idle: Counts
    busy: Counts
    snapshot: PilotSnapshot

    @property
    def pilots(self) -> Counts:
        """Count the pilots of each queue that have not ended."""
        return self.queued + self.starting + self.idle + self.busy

    def submitting(self, counts: Iterable[float], reason: str) -> tuple[PilotSubmission, ...]:
        """Submit a number of pilots to each queue, within its limits; none if it is closed."""
        found = []
        for queue, count, queued, pilots in zip(
            self.queues, counts, self.queued.tolist(), self.pilots.tolist(), strict=True
        ):
            room = 0 if queue.closed else int(count)
            if room > 0 and queue.max_queued is not None:
                room = min(room, queue.max_queued - queued)
            if room > 0 and queue.max_pilots is not None:
                room = min(room, queue.max_pilots - pilots)
            if room > 0:
                found.append(PilotSubmission(queue.key, room, reason))
        return tuple(found)

    def drawn(self, count: int, most: float, random: Random) -> list[int]:
        """Give waiting jobs, drawn at random, to queues that fit, drawn too.

        Return the jobs of each queue: at most `count` in all, and at most `most` a queue.
        """
        counts = [0] * len(self.queues)
        kinds = np.flatnonzero((self.waiting > 0) & self.fits.any(axis=1)).tolist()
        where = {kind: np.flatnonzero(self.fits[kind]).tolist() for kind in kinds}
        weights = [int(self.waiting[kind]) for kind in kinds]
        for kind in random.choices(kinds, weights, k=count) if kinds else ():
            open_ = [queue for queue in where[kind] if counts[queue] < most]
            if open_:
                counts[random.choice(open_)] += 1
        return counts


def pool_counts(snapshot: PilotSnapshot, pairs: Pairs) -> PoolCounts:
    """Count a snapshot. Demand that is unknown counts as none, as in the systems themselves."""
    queues = snapshot.queues
    numbers = {queue.key: number for number, queue in enumerate(queues)}
    kinds = snapshot.demand or ()
    fits = pairs.table([kind.ad for kind in kinds], [queue.pilot for queue in queues])
    walls = np.array([-1.0 if queue.closed else queue.wall for queue in queues])
    needs = np.array([kind.wall for kind in kinds])
    counts = {state.value: [0] * len(queues) for state in PilotState}
    for pilot in snapshot.pilots:
        counts[pilot.state._value_][numbers[pilot.queue]] += 1
    in_state = {state: np.array(counts[state.value], np.int64) for state in PilotState}
    return PoolCounts(
        queues=queues,
        fits=fits & (walls[None, :] >= needs[:, None]),
        waiting=np.array([kind.waiting for kind in kinds], np.int64),
        running=np.array([kind.running for kind in kinds], np.int64),
        queued=in_state[PilotState.QUEUED],
        starting=in_state[PilotState.STARTING],
        idle=in_state[PilotState.IDLE],
        busy=in_state[PilotState.BUSY] + in_state[PilotState.DRAINING],
        snapshot=snapshot,
    )


# --- DIRAC's SiteDirector -------------------------------------------------------------------------

MAX_PILOTS_TO_SUBMIT: Final = 100
"""Pilots that SiteDirector submits to a queue in a cycle at most, its default."""


def site_director(counts: PoolCounts, seed: int) -> Decision:
    """Submit to each queue the jobs that match it less the pilots that wait there.

    So does ``_submitPilotsPerQueue`` of ``WorkloadManagementSystem/Agent/SiteDirector.py``: each
    queue asks by itself, and the pilots that other queues got for the same jobs do not count.
    (Older versions counted waiting pilots by task queue, wherever they waited.) It stays within
    the slots that the computing element reports, which are the queue's limits here. DIRAC's own
    limit if nothing is reported (``MaxWaitingJobs``, 10) is left out, as sites set it far higher.
    """
    missing = counts.waiting @ counts.fits - counts.queued
    most = np.minimum(missing, MAX_PILOTS_TO_SUBMIT)
    return Decision(submissions=counts.submitting(most, "jobs match and no pilot waits"))


# --- the glideinWMS frontend ----------------------------------------------------------------------

RAMP_UP_ATTENUATION: Final = 3
"""Of the pilots that it lacks the frontend asks for a third, its default: "it takes a few cycles to
stabilize"."""
FRACTION_RUNNING: Final = 1.15
"""Pilots for each job that would run at an entry at most (``relative_to_queue``)."""


def frontend(counts: PoolCounts, seed: int) -> Decision:
    """Keep a third of the unmet share of the demand queued at each site, and at least one pilot.

    So do ``compute_glidein_min_idle`` and ``compute_glidein_max_run`` of
    ``frontend/glideinFrontendElement.py``, and ``countMatch`` of ``glideinFrontendLib.py``: the
    idle jobs of a kind are divided by the entries that match; an entry's parts are added and
    rounded up, and its idle glideins are subtracted. The limits and curbs on totals, thousands by
    default, and the reserve for old jobs are left out.
    """
    sites = np.maximum(counts.fits.sum(axis=1), 1)
    share = np.ceil((counts.waiting / sites) @ counts.fits - 1e-9)
    unmet = np.maximum(share - counts.idle, 0)
    wanted = np.where(unmet > 0, np.maximum(unmet // RAMP_UP_ATTENUATION, 1), 0)
    most = np.floor((unmet + counts.busy) * FRACTION_RUNNING + 1)
    missing = np.minimum(wanted - counts.queued, most - counts.pilots)
    return Decision(submissions=counts.submitting(missing, "a third of the site's share is unmet"))


# --- HyperQueue's automatic allocation ------------------------------------------------------------

BACKLOG: Final = 10
"""Pilots that may wait at a queue. The default is 1, which starts one pilot a delay at each site;
no site would run so."""


def backlog(counts: PoolCounts, seed: int) -> Decision:
    """Share the waiting jobs among the queues, each with a backlog of pilots that may wait.

    So do ``perform_submits`` and ``compute_submission_permit`` of
    ``crates/hyperqueue/src/server/autoalloc/process.rs``: the scheduler is asked which it would use
    of as many imagined workers as ``backlog`` at every queue
    (``crates/tako/src/internal/scheduler/query.rs``), so a task counts at one queue. The
    allocations that wait there are subtracted. Among equal workers its solver may choose any; here
    the choice is by lot, the same in each cycle. The pause of a queue after three allocations that
    fail, and the rate limits, are left out.
    """
    wanted = counts.drawn(int(counts.waiting.sum()), BACKLOG, Random(0))  # noqa: S311
    missing = np.array(wanted) - counts.queued
    return Decision(submissions=counts.submitting(missing, "the backlog is not full"))


# --- TaskVine's factory ---------------------------------------------------------------------------

WORKERS_PER_CYCLE: Final = 5
"""Workers of a factory that wait to connect at most, its default."""


def factory(counts: PoolCounts, seed: int) -> Decision:
    """Submit tasks less workers, while at most five workers of a site wait to connect.

    So does ``mainloop`` of ``batch_job/src/vine_factory.c``, with a factory at each site: it needs
    as many workers as there are tasks, waiting and running; it subtracts the workers that it
    submitted, and those of other factories if more are connected than it submitted itself. It ends
    none. Its least and most workers, 5 and 100 by default, are for one cluster and left out.
    """
    submitted = counts.pilots
    connected = int(counts.idle.sum() + counts.busy.sum())
    missing = (counts.waiting + counts.running) @ counts.fits - submitted
    coming = submitted - connected
    missing = np.where(coming < 0, missing + coming, missing)
    coming = np.maximum(coming, 0)
    missing = np.minimum(missing, np.maximum(WORKERS_PER_CYCLE - coming, 0))
    return Decision(submissions=counts.submitting(missing, "more tasks than workers"))


# --- Parsl's scaling strategy ---------------------------------------------------------------------

MAX_IDLE: Final = 120.0
"""Seconds without work before Parsl scales in (``max_idletime``), its default."""


def simple(counts: PoolCounts, seed: int) -> Decision:
    """Scale out by tasks less slots, and in by slots less tasks.

    So does ``_general_strategy`` of ``parsl/jobs/strategy.py`` with ``htex_auto_scale``: if slots,
    pending and running, over active tasks are below ``parallelism``, 1 by default, it scales out by
    the difference. With more slots than tasks it ends blocks that were idle for ``max_idletime``;
    without a task for as long it ends all blocks, pending ones too. An executor has one provider;
    here it has all sites, and a missing slot goes to a random one that fits a random waiting job,
    which is how Parsl gives tasks to executors. ``max_blocks`` is left out.
    """
    snapshot = counts.snapshot
    now = snapshot.now
    tasks = int(counts.waiting.sum() + counts.running.sum())
    excess = tasks - int(counts.pilots.sum())
    past = snapshot.memory.get("idle since")
    since = float(past) if isinstance(past, (int, float)) else now
    memory = {} if tasks else {"idle since": since}
    if excess >= 0:
        wanted = counts.drawn(excess, float("inf"), Random(seed))  # noqa: S311 - a simulation
        submissions = counts.submitting(wanted, "more tasks than slots")
        return Decision(submissions=submissions, memory=memory)
    found = [
        pilot
        for pilot in snapshot.pilots
        if (
            pilot.state is PilotState.IDLE and now - pilot.since >= MAX_IDLE
            if tasks
            else now - since > MAX_IDLE
        )
    ]
    found.sort(key=lambda pilot: pilot.since)
    ends = tuple(End(pilot.key, "more slots than tasks") for pilot in found[:-excess])
    return Decision(ends=ends, memory=memory)


# --- COBalD's linear controller -------------------------------------------------------------------

LOW_UTILISATION: Final = 0.9
HIGH_ALLOCATION: Final = 0.9
"""The thresholds, as in the examples of TARDIS, which carries the demand out; 0.5 by default."""
RATE: Final = 1 / 120
"""Pilots a second by which the demand steps: one a cycle, a choice of ours."""
DEMAND_BACKLOG: Final = 10
"""Pilots of demand above those that run at most, as COBalD's ``Standardiser`` has a ``backlog``;
the number is ours."""


def linear(counts: PoolCounts, seed: int) -> Decision:
    """Step the demand of each site up or down by its use, and follow it.

    So does ``regulate`` of ``src/cobald/controller/linear.py``: if the utilisation of a pool is
    below one threshold, its demand decreases by rate times interval; otherwise, if its allocation
    is above another, it increases by as much. It looks at no jobs. A pool without resources has an
    utilisation and an allocation of 1. Each site is a pool; utilisation and allocation are busy
    pilots over those that run. Pilots beyond the demand are ended, queued ones first.
    """
    snapshot = counts.snapshot
    past = snapshot.memory.get("demand")
    demand: Mapping[str, float] = past if isinstance(past, Mapping) else {}
    then = snapshot.memory.get("now")
    step = RATE * (snapshot.now - then) if isinstance(then, (int, float)) else 1.0
    now: dict[str, float] = {}
    missing: list[int] = []
    beyond: dict[str, int] = {}
    running = (counts.starting + counts.idle + counts.busy).tolist()
    for queue, busy, supply, pilots in zip(
        counts.queues, counts.busy.tolist(), running, counts.pilots.tolist(), strict=True
    ):
        use = busy / supply if supply else 1.0
        wanted = demand.get(queue.key, 0.0)
        if use < LOW_UTILISATION:
            wanted = max(wanted - step, 0.0)
        elif use > HIGH_ALLOCATION:
            wanted = min(wanted + step, supply + DEMAND_BACKLOG)
        now[queue.key] = wanted
        missing.append(int(wanted) - pilots)
        if missing[-1] < 0:
            beyond[queue.key] = -missing[-1]
    ends = []
    for state in (PilotState.QUEUED, PilotState.IDLE):
        for pilot in snapshot.pilots if beyond else ():
            if pilot.state is state and beyond.get(pilot.queue, 0) > 0:
                beyond[pilot.queue] -= 1
                ends.append(End(pilot.key, "beyond the demand"))
    return Decision(
        submissions=counts.submitting(missing, "the demand rose"),
        ends=tuple(ends),
        memory={"now": snapshot.now, "demand": now},
    )


_RULES: Final[Mapping[str, Callable[[PoolCounts, int], Decision]]] = {
    "dirac": site_director, "glideinwms": frontend, "hyperqueue": backlog,
    "taskvine": factory, "parsl": simple, "cobald": linear,
}  # fmt: skip

NAMES: Final = tuple(_RULES)
"""The names of the rules."""


def peer_rule(name: str) -> PilotRule:
    """Return one of the rules, with a memory of matched pairs that is its own.

    Raises:
        KeyError: there is no rule of this name.

    >>> peer_rule("dirac").idle
    300.0
    """
    decide, pairs = _RULES[name], Pairs()
    return PilotRule(name, lambda snapshot, seed: decide(pool_counts(snapshot, pairs), seed))
