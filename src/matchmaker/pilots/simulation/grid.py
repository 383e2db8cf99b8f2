"""The simulated grid: jobs arrive and wait, pilots are queued, start, take jobs and end.

A :class:`Grid` is its state at one time; each function carries out an event and notes the next.
Decisions are made in ``simulation``.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from matchmaker.classad import ClassAd
from matchmaker.matching.pair import match
from matchmaker.pilots.policy.estimates import MOST, RECENT, PilotRecord
from matchmaker.pilots.policy.snapshot import Pilot, PilotQueue, PilotState
from matchmaker.pilots.simulation.delays import Starts
from matchmaker.pilots.simulation.report import RunTally
from matchmaker.pilots.simulation.rules import PilotRule
from matchmaker.pilots.simulation.workload import SimulatedSite, TraceJob, kind_ad, wall_class

# Events, in the order in which those of one time happen.
DONE, READY, OPEN, CONNECT, EXPIRE, ARRIVE, CYCLE = range(7)


@attrs.frozen(slots=True, kw_only=True)
class SimulationSettings:
    """The clockwork of a simulation; times in seconds.

    Attributes:
        cycle: between two decisions.
        startup: from a pilot's start to its first request for work.
        fetch: from a request for work to the start of the job.
        jobs_per_pilot: after how many jobs a pilot ends; None for as many as it finds.
        refresh: the longest time between two estimates of a queue's response.
        patience: how long after the last arrival jobs may still start.
        at_home: whether a job runs only at its site in the trace.
        request: how long a queue's batch system takes to carry out a submission or a cancellation.
        max_queued: how many pilots of one owner a queue lets wait.
    """

    cycle: float = 120.0
    startup: float = 60.0
    fetch: float = 0.0
    jobs_per_pilot: int | None = None
    refresh: float = 3600.0
    patience: float = 14 * 24 * 3600.0
    at_home: bool = False
    request: float = 1.0
    max_queued: int = 1000


@attrs.define(slots=True, eq=False)
class SimulatedKind:
    """The jobs of one kind, oldest first: when each arrived and how long it runs."""

    key: str
    group: str
    wall: float
    ad: ClassAd
    sites: dict[SimulatedQueue, None]
    jobs: deque[tuple[float, float]] = attrs.field(factory=deque)
    running: int = 0
    arrived: int = 0


@attrs.define(slots=True, eq=False)
class SimulatedQueue:
    """A site at one time, with its idle pilots by number, the longest idle first.

    Pilots start in the order of their submission: each brings the time at which a slot for a pilot
    comes free, and the oldest pilot takes it. `chances` are those times, in order; `due` counts
    those that have passed while there was no slot or the queue did not start pilots.
    """

    site: SimulatedSite
    starts: Starts
    pilot: ClassAd
    queue: PilotQueue
    running: int = 0
    idle: dict[int, SimulatedPilot] = attrs.field(factory=dict)
    waiting: dict[int, SimulatedPilot] = attrs.field(factory=dict)
    chances: list[float] = attrs.field(factory=list)
    due: int = 0
    free_from: float = -math.inf
    opening: bool = False
    latest: deque[SimulatedPilot] = attrs.field(factory=lambda: deque(maxlen=MOST * RECENT))
    estimated: float = -math.inf
    settled: int = 0


@attrs.define(slots=True, eq=False)
class SimulatedPilot:
    """A pilot of the simulation: number, place, state and fate so far."""

    number: int
    place: SimulatedQueue
    since: float
    record: PilotRecord
    state: PilotState = PilotState.QUEUED
    started: float = 0.0
    ends: float = math.inf
    jobs: int = 0
    until: float = -math.inf
    lost: bool = False
    kind: SimulatedKind | None = None


@attrs.define(slots=True, eq=False)
class Grid:
    """The whole simulated world at one time."""

    settings: SimulationSettings
    rule: PilotRule
    places: dict[str, SimulatedQueue]
    tally: RunTally
    now: float = 0.0
    events: list[tuple[float, int, int, Any]] = attrs.field(factory=list)
    sequence: int = 0
    kinds: dict[tuple[str, float, str | None], SimulatedKind] = attrs.field(factory=dict)
    waiting: dict[str, SimulatedKind] = attrs.field(factory=dict)
    lively: dict[str, SimulatedKind] = attrs.field(factory=dict)
    pilots: dict[int, SimulatedPilot] = attrs.field(factory=dict)
    views: dict[int, Pilot] = attrs.field(factory=dict)
    changed: dict[int, SimulatedPilot] = attrs.field(factory=dict)
    counts: dict[PilotState, int] = attrs.field(factory=lambda: dict.fromkeys(PilotState, 0))
    memory: Mapping[str, object] = attrs.field(factory=dict)

    def at(self, time: float, event: int, about: Any) -> None:
        """Note an event at a time, of a pilot, a queue or a job."""
        self.sequence += 1
        heapq.heappush(self.events, (time, event, self.sequence, about))


# --- jobs -----------------------------------------------------------------------------------------


def _kind(grid: Grid, job: TraceJob) -> SimulatedKind:
    wall = wall_class(max(job.wall, job.run))
    home = job.site if grid.settings.at_home else None
    key = job.group, wall, home
    found = grid.kinds.get(key)
    if found is None:
        ad = kind_ad(job.group, wall, home)
        found = grid.kinds[key] = SimulatedKind(
            key="/".join((job.group, f"{wall:g}", *(() if home is None else (home,)))),
            group=job.group,
            wall=wall,
            ad=ad,
            sites={
                place: None
                for place in grid.places.values()
                if place.site.wall >= wall and match(ad, place.pilot).matched
            },
        )
    return found


def arrive(grid: Grid, job: TraceJob) -> None:
    """Give a job to the pilot that has been idle longest of those that fit; or it waits."""
    grid.tally.jobs += 1
    kind = _kind(grid, job)
    kind.arrived += 1
    grid.lively[kind.key] = kind
    best: SimulatedPilot | None = None
    if not kind.jobs:
        until = grid.now + grid.settings.fetch + kind.wall
        for place in kind.sites:
            for pilot in place.idle.values():
                if best is not None and pilot.since >= best.since:
                    break
                if pilot.ends >= until:
                    best = pilot
                    break
    if best is None:
        kind.jobs.append((job.submit, job.run))
        grid.waiting[kind.key] = kind
    else:
        del best.place.idle[best.number]
        _work(grid, best, kind, job.submit, job.run)


def _work(
    grid: Grid, pilot: SimulatedPilot, kind: SimulatedKind, submit: float, run: float
) -> None:
    pilot.jobs += 1
    pilot.kind = kind
    kind.running += 1
    grid.lively[kind.key] = kind
    _become(grid, pilot, PilotState.BUSY)
    start = grid.now + grid.settings.fetch
    pilot.until = start + run
    grid.tally.started(kind.group, start, start - submit, run)
    grid.at(pilot.until, DONE, pilot)


# --- pilots ---------------------------------------------------------------------------------------


def _become(grid: Grid, pilot: SimulatedPilot, state: PilotState) -> None:
    grid.counts[pilot.state] -= 1
    grid.counts[state] += 1
    pilot.state = state
    pilot.since = grid.now
    grid.changed[pilot.number] = pilot


def submit(grid: Grid, place: SimulatedQueue) -> None:
    """Queue a pilot at a place, behind the requests that its batch system has to do first."""
    tally = grid.tally
    tally.pilots += 1
    pilot = SimulatedPilot(tally.pilots, place, grid.now, PilotRecord(submitted=grid.now))
    grid.pilots[pilot.number] = pilot
    grid.changed[pilot.number] = pilot
    grid.counts[PilotState.QUEUED] += 1
    place.latest.append(pilot)
    place.waiting[pilot.number] = pilot
    submitted = _request(grid, place)
    delay, pilot.lost = place.starts.draw(submitted, len(place.waiting) - 1)
    insort(place.chances, submitted + delay)
    grid.at(submitted + delay, READY, place)


def _request(grid: Grid, place: SimulatedQueue) -> float:
    """Return the time at which a request is done: a batch system does one after another."""
    place.free_from = max(place.free_from, grid.now) + grid.settings.request
    return place.free_from


def _ready(grid: Grid, place: SimulatedQueue) -> None:
    # The last chance goes with a pilot that is cancelled: its event finds none.
    if place.chances and place.chances[0] <= grid.now:
        place.chances.pop(0)
        place.due += 1
        _fill(grid, place)


def _fill(grid: Grid, place: SimulatedQueue) -> None:
    """Start pilots of a site while it is open and has free slots, the oldest first."""
    while place.due and place.running < place.site.slots:
        opens = place.starts.open_from(grid.now)
        if opens > grid.now:
            if not place.opening:
                place.opening = True
                grid.at(opens, OPEN, place)
            return
        place.due -= 1
        _start(grid, place.waiting.pop(next(iter(place.waiting))))


def _open(grid: Grid, place: SimulatedQueue) -> None:
    place.opening = False
    _fill(grid, place)


def _start(grid: Grid, pilot: SimulatedPilot) -> None:
    pilot.place.running += 1
    pilot.place.settled += 1
    pilot.started = grid.now
    pilot.ends = grid.now + pilot.place.site.wall
    pilot.record = attrs.evolve(pilot.record, started=grid.now)
    _become(grid, pilot, PilotState.STARTING)
    grid.at(grid.now + grid.settings.startup, CONNECT, pilot)


def _connect(grid: Grid, pilot: SimulatedPilot) -> None:
    if pilot.number not in grid.pilots:
        return
    if pilot.lost:
        grid.tally.lost += 1
        pilot.place.settled += 1
        pilot.record = attrs.evolve(pilot.record, ended=grid.now, failed=True)
        end(grid, pilot)
    else:
        _free(grid, pilot)


def _done(grid: Grid, pilot: SimulatedPilot) -> None:
    if pilot.kind is not None:
        pilot.kind.running -= 1
        pilot.kind = None
    if pilot.jobs == grid.settings.jobs_per_pilot:
        end(grid, pilot)
    else:
        _free(grid, pilot)


def _free(grid: Grid, pilot: SimulatedPilot) -> None:
    """Give a pilot the job that has waited longest of those that fit; or it is idle."""
    best: SimulatedKind | None = None
    left = pilot.ends - grid.now - grid.settings.fetch
    for kind in grid.waiting.values():
        if (
            kind.wall <= left
            and (best is None or kind.jobs[0][0] < best.jobs[0][0])
            and pilot.place in kind.sites
        ):
            best = kind
    if best is not None:
        submit, run = best.jobs.popleft()
        if not best.jobs:
            del grid.waiting[best.key]
        _work(grid, pilot, best, submit, run)
        return
    _become(grid, pilot, PilotState.IDLE)
    pilot.place.idle[pilot.number] = pilot
    grid.at(min(grid.now + grid.rule.idle, pilot.ends), EXPIRE, (pilot, grid.now))


def _expire(grid: Grid, about: tuple[SimulatedPilot, float]) -> None:
    pilot, since = about
    if pilot.state is PilotState.IDLE and pilot.since == since and pilot.number in grid.pilots:
        end(grid, pilot)


def end(grid: Grid, pilot: SimulatedPilot) -> None:
    """End a pilot that runs no job; its slot goes to the next that is ready."""
    tally, place = grid.tally, pilot.place
    grid.counts[pilot.state] -= 1
    del grid.pilots[pilot.number]
    grid.changed.pop(pilot.number, None)
    grid.views.pop(pilot.number, None)
    place.idle.pop(pilot.number, None)
    tally.unused += not pilot.jobs
    if pilot.state is PilotState.QUEUED:
        tally.cancelled += 1
        del place.waiting[pilot.number]
        if place.chances:
            place.chances.pop()
        else:
            place.due -= 1
        _request(grid, place)
        pilot.record = attrs.evolve(pilot.record, ended=grid.now)
        return
    tally.held += grid.now - pilot.started
    place.running -= 1
    _fill(grid, place)


def close(grid: Grid) -> None:
    """Count the pilots that live at the end; a job that runs is counted whole."""
    for pilot in grid.pilots.values():
        grid.tally.unused += not pilot.jobs
        if pilot.state is not PilotState.QUEUED:
            grid.tally.held += max(grid.now, pilot.until) - pilot.started


HAPPEN: dict[int, Callable[[Grid, Any], None]] = {
    DONE: _done,
    READY: _ready,
    OPEN: _open,
    CONNECT: _connect,
    EXPIRE: _expire,
}
