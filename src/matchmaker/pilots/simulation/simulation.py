"""A discrete-event simulation of one policy on a workload.

The loop, the snapshots of a policy, and how its decisions are carried out. The events of the world
are in ``grid``, its jobs and sites in ``workload``, the luck of pilots in ``delays``, and the
measures in ``report``. The same workload, policy and seed give the same report. Memory holds the
jobs that wait and the pilots that live.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from random import Random

import attrs

from matchmaker.pilots.policy.decision import rule as own_rule
from matchmaker.pilots.policy.estimates import estimate, latest
from matchmaker.pilots.policy.policy_ad import PolicyAd
from matchmaker.pilots.policy.snapshot import (
    Decision,
    Demand,
    End,
    Lend,
    Pilot,
    PilotQueue,
    PilotSnapshot,
    PilotState,
)
from matchmaker.pilots.simulation.delays import ASSUMPTIONS, Delays
from matchmaker.pilots.simulation.grid import (
    ARRIVE,
    CYCLE,
    DONE,
    HAPPEN,
    Grid,
    SimulatedQueue,
    SimulationSettings,
    arrive,
    close,
    end,
    submit,
)
from matchmaker.pilots.simulation.report import Moment, RunTally, SimulationReport
from matchmaker.pilots.simulation.rules import NAMES, Decide, PilotRule, peer_rule
from matchmaker.pilots.simulation.workload import TraceFile, TraceJob, World, survey

OURS = "matchmaker"
"""The name of our own policy with its defaults."""
SAFETY = 4 * 3600.0
"""How long an idle pilot of our policy stays if no decision ends it, in seconds."""
QUIET = 24 * 3600.0
"""After so many seconds without an event or a decision, cycles until the next are left out.

Years may pass between two jobs of a trace, and a cycle takes as long then as any other.
"""
EMPTY = 7 * QUIET
"""After so many seconds in which no job arrives, waits or ends, cycles are left out as well.

Some rules submit and end pilots for ever, whether or not there are jobs. Cycles go on a day before
the next job arrives or ends, so that it meets the pilots that it would meet.
"""
LONGEST = 30 * 365.25 * 24 * 3600.0
"""The longest time between the first and the last arrival of a trace, in seconds."""


class RuleError(ValueError):
    """A decision that cannot be carried out: the policy is wrong."""


def simulate(
    trace: str | PathLike[str] | Iterable[TraceJob],
    policy: str | PolicyAd | PilotRule | Decide = OURS,
    seed: int = 7,
    *,
    delays: str = "usual",
    settings: SimulationSettings | None = None,
) -> SimulationReport:
    """Simulate a policy on a workload, on the sites that the workload shows.

    Args:
        trace: a file in the Standard Workload Format, or jobs in the order of their arrival that
            can be iterated over more than once.
        policy: a policy; or ``matchmaker``, our own with its defaults; or the name of a peer's
            rule; or a function of a snapshot and a seed. Idle pilots of a peer's rule end after
            300 seconds; of the others after four hours, if no decision ends them sooner.
        seed: of the luck of pilots, and of the policy's own choices.
        delays: the assumption on start delays: ``usual``, ``apart`` or ``bursts``.
        settings: the clockwork.

    Raises:
        ValueError: the trace has no job or cannot be read, or a name is unknown.
        RuleError: a decision cannot be carried out.
        OSError: the file cannot be opened.

    >>> jobs = [TraceJob(submit=0, run=600), TraceJob(submit=60, run=600)]
    >>> report = simulate(jobs, "dirac")
    >>> report.not_run, report.busy_hours * 3600
    (0, 1200.0)
    """
    jobs: Iterable[TraceJob] = (
        TraceFile(Path(trace)) if isinstance(trace, (str, PathLike)) else trace
    )
    if delays not in ASSUMPTIONS:
        raise ValueError(f"no assumption on delays {delays!r}; there are {', '.join(ASSUMPTIONS)}")
    return run(
        jobs,
        survey(jobs),
        _rule(policy),
        ASSUMPTIONS[delays],
        seed,
        settings=settings,
        assumption=delays,
    )


def _rule(policy: str | PolicyAd | PilotRule | Decide) -> PilotRule:
    if isinstance(policy, PilotRule):
        return policy
    if isinstance(policy, PolicyAd):
        return ours(policy, "policy")
    return named(policy) if isinstance(policy, str) else PilotRule("policy", policy, SAFETY)


def named(name: str) -> PilotRule:
    """Return our policy with its defaults, or a peer's rule.

    Raises:
        ValueError: there is none of this name.
    """
    if name == OURS:
        return ours()
    if name not in NAMES:
        raise ValueError(f"no policy {name!r}; there are {', '.join((OURS, *NAMES))}")
    return peer_rule(name)


def ours(policy: PolicyAd | None = None, name: str = OURS) -> PilotRule:
    """Return our own policy as a rule, with the defaults or a policy ad.

    >>> ours().name
    'matchmaker'
    """
    return PilotRule(name, own_rule(policy), SAFETY)


def run(
    jobs: Iterable[TraceJob],
    world: World,
    rule: PilotRule,
    delays: Delays,
    seed: int,
    *,
    settings: SimulationSettings | None = None,
    assumption: str = "",
    tally: RunTally | None = None,
) -> SimulationReport:
    """Simulate one policy on one workload.

    After a day without an event and without a decision, the cycles until the next event are left
    out. After a week without a job, so are those until a day before the next.

    Args:
        jobs: in the order of their arrival.
        world: the :func:`~matchmaker.pilots.simulation.workload.survey` of the same jobs.
        rule: the policy.
        delays: the assumption on start delays.
        seed: of the luck of pilots, and of the policy's own choices.
        settings: the clockwork.
        assumption: the name of the delays in the report.
        tally: counts the run, for callers who want each wait and not the report alone.

    Raises:
        RuleError: a decision names an unknown pilot or queue, or ends a busy pilot.
        ValueError: there are more than 30 years between two jobs.
    """
    if world.last - world.first > LONGEST:
        years = (world.last - world.first) / LONGEST * 30
        raise ValueError(
            f"the jobs arrive in {years:,.0f} years, and at most 30 are simulated; look for submit"
            " times that are no seconds since the first"
        )
    settings = settings or SimulationSettings()
    places = {}
    for site in world.sites:
        pilot = site.pilot()
        places[site.key] = SimulatedQueue(
            site=site,
            starts=delays(site.key, seed, world.first),
            pilot=pilot,
            queue=PilotQueue(
                key=site.key, pilot=pilot, wall=site.wall, max_queued=settings.max_queued
            ),
        )
    grid = Grid(settings, rule, places, tally or RunTally(), now=world.first)
    grid.tally.begin = world.first
    arrivals = iter(jobs)
    arriving = _next_arrival(grid, arrivals)
    grid.at(world.first, CYCLE, None)
    seeds = Random(f"decide {seed}")  # noqa: S311 - a simulation
    limit = world.last + settings.patience
    stirred = worked = world.first
    while grid.events and (arriving or grid.waiting or grid.counts[PilotState.BUSY]):
        time, event, _, about = heapq.heappop(grid.events)
        if time > limit:
            grid.now = limit
            break
        grid.now = time
        if event != CYCLE:
            stirred = time
        if event in _OF_JOBS or grid.waiting:
            worked = time
        if event == ARRIVE:
            arrive(grid, about)
            arriving = _next_arrival(grid, arrivals)
        elif event == CYCLE:
            decision = rule.decide(_snapshot(grid), seeds.getrandbits(63))
            _obey(grid, decision)
            if decision.submissions or decision.ends or decision.lends:
                stirred = time
            ahead = 0.0
            if time - stirred >= QUIET:
                ahead = min(limit, grid.events[0][0] if grid.events else limit) - time
            elif time - worked >= EMPTY:
                ahead = min((e[0] for e in grid.events if e[1] in _OF_JOBS), default=limit)
                ahead = min(limit, ahead) - QUIET - time
            # The last cycle before what is next, so that cycles keep their rhythm.
            passed = max(1, int(ahead / settings.cycle))
            grid.at(time + passed * settings.cycle, CYCLE, None)
        else:
            HAPPEN[event](grid, about)
    close(grid)
    grid.tally.lasted = grid.now - world.first
    return grid.tally.report(rule.name, assumption, seed)


_OF_JOBS = (ARRIVE, DONE)


def _next_arrival(grid: Grid, arrivals: Iterator[TraceJob]) -> bool:
    job = next(arrivals, None)
    if job is not None:
        grid.at(job.submit, ARRIVE, job)
    return job is not None


# --- decisions ------------------------------------------------------------------------------------


def _snapshot(grid: Grid) -> PilotSnapshot:
    """Take a true snapshot of the simulated world."""
    now = grid.now
    grid.tally.sample(Moment(
        now,
        sum(len(kind.jobs) for kind in grid.waiting.values()),
        *(grid.counts[s] for s in (
            PilotState.QUEUED, PilotState.STARTING, PilotState.IDLE, PilotState.BUSY)),
    ))  # fmt: skip
    demand = []
    for kind in grid.lively.values():
        demand.append(
            Demand(
                key=kind.key,
                ad=kind.ad,
                waiting=len(kind.jobs),
                running=kind.running,
                oldest=now - kind.jobs[0][0] if kind.jobs else 0.0,
                arrived=kind.arrived,
                group=kind.group,
                wall=kind.wall,
            )
        )
        kind.arrived = 0
    grid.lively = {k: kind for k, kind in grid.lively.items() if kind.jobs or kind.running}
    views = grid.views
    for number, pilot in grid.changed.items():
        views[number] = Pilot(
            key=str(number),
            queue=pilot.place.site.key,
            state=pilot.state,
            since=pilot.since,
            ends=None if pilot.state is PilotState.QUEUED else pilot.ends,
            kind=pilot.kind.key if pilot.kind else "",
        )
    grid.changed.clear()
    return PilotSnapshot(
        now=now,
        demand=tuple(demand),
        queues=tuple(_queue(grid, place) for place in grid.places.values()),
        pilots=tuple(views.values()),
        memory=grid.memory,
    )


def _queue(grid: Grid, place: SimulatedQueue) -> PilotQueue:
    """Return the queue of a site. Its estimate is renewed hourly, or with a quarter more starts.

    It changes only with starts and with the time that queued pilots wait.
    """
    old = grid.now - place.estimated >= grid.settings.refresh and (place.waiting or place.settled)
    if old or 4 * place.settled > place.queue.estimate.started:
        place.estimated, place.settled = grid.now, 0
        records = [pilot.record for pilot in place.latest]
        kept = latest(records)
        for _ in range(len(records) - len(kept)):
            place.latest.popleft()
        found = estimate(kept, grid.now)
        if found != place.queue.estimate:
            place.queue = attrs.evolve(place.queue, estimate=found)
    return place.queue


def _obey(grid: Grid, decision: Decision) -> None:
    grid.memory = decision.memory
    # A pilot that is lent to other work leaves: the simulation has no other work.
    leaving: tuple[End | Lend, ...] = (*decision.ends, *decision.lends)
    for left in leaving:
        pilot = grid.pilots.get(int(left.pilot)) if left.pilot.isdecimal() else None
        if pilot is None:
            raise RuleError(f"{grid.rule.name} ends the pilot {left.pilot!r}, which there is not")
        if pilot.state is PilotState.BUSY:
            raise RuleError(f"{grid.rule.name} ends the pilot {left.pilot}, which runs a job")
        end(grid, pilot)
    for wanted in decision.submissions:
        place = grid.places.get(wanted.queue)
        if place is None or wanted.count < 1:
            raise RuleError(
                f"{grid.rule.name} submits {wanted.count} pilots to the queue {wanted.queue!r}"
            )
        for _ in range(wanted.count):
            submit(grid, place)
