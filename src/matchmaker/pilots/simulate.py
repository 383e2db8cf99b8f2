"""A discrete-event simulation of jobs, pilots and sites under one policy.

What the simulated world does is here; the jobs and sites are in :mod:`matchmaker.pilots.workload`,
the luck of pilots in :mod:`matchmaker.pilots.delays`, what is measured in
:mod:`matchmaker.pilots.metrics`, and the policies are functions of a snapshot. The same workload,
policy and seed give the same report. Memory holds the jobs that wait and the pilots that live.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

import attrs

from matchmaker.classad import ClassAd
from matchmaker.matching import match
from matchmaker.pilots.delays import Delays, Starts
from matchmaker.pilots.estimates import RECENT, PilotRecord, estimate
from matchmaker.pilots.metrics import Moment, Report, Tally
from matchmaker.pilots.rules import Rule
from matchmaker.pilots.snapshot import Decision, Demand, Pilot, PilotState, Queue, Snapshot
from matchmaker.pilots.workload import Job, Site, World, kind_ad, wall_class

# Events, in the order in which those of one time happen.
DONE, READY, OPEN, CONNECT, EXPIRE, ARRIVE, CYCLE = range(7)


@attrs.frozen(slots=True, kw_only=True)
class Settings:
    """The clockwork of a simulation; times in seconds.

    Attributes:
        cycle: between two decisions.
        startup: from a pilot's start to its first request for work.
        refresh: the longest time between two estimates of a queue's response.
        patience: how long after the last arrival jobs may still start.
        at_home: whether a job runs only at the site where the trace has it.
    """

    cycle: float = 120.0
    startup: float = 60.0
    refresh: float = 3600.0
    patience: float = 14 * 24 * 3600.0
    at_home: bool = False


class RuleError(ValueError):
    """A decision that cannot be carried out: the policy is wrong."""


@attrs.define(slots=True, eq=False)
class _Kind:
    """The jobs of one kind, oldest first: when each arrived and how long it runs."""

    key: str
    group: str
    wall: float
    ad: ClassAd
    sites: dict[_Place, None]
    jobs: deque[tuple[float, float]] = attrs.field(factory=deque)
    running: int = 0
    arrived: int = 0


@attrs.define(slots=True, eq=False)
class _Place:
    """A site at one time, with its idle pilots by number, the longest idle first."""

    site: Site
    starts: Starts
    pilot: ClassAd
    queue: Queue
    running: int = 0
    idle: dict[int, _Pilot] = attrs.field(factory=dict)
    ready: deque[_Pilot] = attrs.field(factory=deque)
    opening: bool = False
    latest: deque[_Pilot] = attrs.field(factory=lambda: deque(maxlen=RECENT))
    estimated: float = -math.inf
    settled: int = 0


@attrs.define(slots=True, eq=False)
class _Pilot:
    number: int
    place: _Place
    since: float
    state: PilotState = PilotState.QUEUED
    submitted: float = 0.0
    started: float = 0.0
    ends: float = math.inf
    used: bool = False
    lost: bool = False
    record: PilotRecord | None = None
    kind: _Kind | None = None


@attrs.define(slots=True, eq=False)
class _State:
    """The whole simulated world at one time."""

    settings: Settings
    rule: Rule
    places: dict[str, _Place]
    tally: Tally
    now: float = 0.0
    events: list[tuple[float, int, int, Any]] = attrs.field(factory=list)
    sequence: int = 0
    kinds: dict[tuple[str, float, str | None], _Kind] = attrs.field(factory=dict)
    waiting: dict[str, _Kind] = attrs.field(factory=dict)
    lively: dict[str, _Kind] = attrs.field(factory=dict)
    pilots: dict[int, _Pilot] = attrs.field(factory=dict)
    views: dict[int, Pilot] = attrs.field(factory=dict)
    changed: dict[int, _Pilot] = attrs.field(factory=dict)
    counts: dict[PilotState, int] = attrs.field(factory=lambda: dict.fromkeys(PilotState, 0))
    memory: Mapping[str, object] = MappingProxyType({})

    def at(self, time: float, what: int, about: Any) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (time, what, self.sequence, about))


def run(
    jobs: Iterable[Job],
    world: World,
    rule: Rule,
    delays: Delays,
    seed: int,
    *,
    settings: Settings | None = None,
    assumption: str = "",
) -> Report:
    """Simulates one policy on one workload.

    Args:
        jobs: in the order of their arrival.
        world: what :func:`~matchmaker.pilots.workload.survey` found of the same jobs.
        rule: the policy.
        delays: the assumption on start delays.
        seed: of the luck of pilots, and of the policy's own choices.
        settings: the clockwork.
        assumption: what the report calls the delays.

    Raises:
        RuleError: a decision names a pilot or queue that there is not, or ends a busy pilot.
    """
    settings = settings or Settings()
    places = {}
    for site in world.sites:
        pilot = site.pilot()
        places[site.key] = _Place(
            site=site,
            starts=delays(site.key, seed, world.first),
            pilot=pilot,
            queue=Queue(key=site.key, pilot=pilot, wall=site.wall),
        )
    state = _State(settings, rule, places, Tally(begin=world.first), now=world.first)
    arrivals = iter(jobs)
    arriving = _next_arrival(state, arrivals)
    state.at(world.first, CYCLE, None)
    seeds = Random(f"decide {seed}")  # noqa: S311 - a simulation
    limit = world.last + settings.patience
    while state.events and (arriving or state.waiting or state.counts[PilotState.BUSY]):
        time, what, _, about = heapq.heappop(state.events)
        if time > limit:
            state.now = limit
            break
        state.now = time
        if what == ARRIVE:
            _arrive(state, about)
            arriving = _next_arrival(state, arrivals)
        elif what == CYCLE:
            decision = rule.decide(_snapshot(state), seeds.getrandbits(63))
            _obey(state, decision)
            state.at(time + settings.cycle, CYCLE, None)
        else:
            _HAPPEN[what](state, about)
    _close(state)
    return state.tally.report(rule.name, assumption, seed)


def _next_arrival(state: _State, arrivals: Iterator[Job]) -> bool:
    job = next(arrivals, None)
    if job is not None:
        state.at(job.submit, ARRIVE, job)
    return job is not None


# --- jobs -----------------------------------------------------------------------------------------


def _kind(state: _State, job: Job) -> _Kind:
    wall = wall_class(max(job.wall, job.run))
    home = job.site if state.settings.at_home else None
    key = job.group, wall, home
    found = state.kinds.get(key)
    if found is None:
        ad = kind_ad(job.group, wall, home)
        found = state.kinds[key] = _Kind(
            key="/".join((job.group, f"{wall:g}", *(() if home is None else (home,)))),
            group=job.group,
            wall=wall,
            ad=ad,
            sites={
                place: None
                for place in state.places.values()
                if place.site.wall >= wall and match(ad, place.pilot).matched
            },
        )
    return found


def _arrive(state: _State, job: Job) -> None:
    """Gives a job to the pilot that has been idle longest of those that fit; or it waits."""
    state.tally.jobs += 1
    kind = _kind(state, job)
    kind.arrived += 1
    state.lively[kind.key] = kind
    best: _Pilot | None = None
    if not kind.jobs:
        until = state.now + kind.wall
        for place in kind.sites:
            for pilot in place.idle.values():
                if best is not None and pilot.since >= best.since:
                    break
                if pilot.ends >= until:
                    best = pilot
                    break
    if best is None:
        kind.jobs.append((job.submit, job.run))
        state.waiting[kind.key] = kind
    else:
        del best.place.idle[best.number]
        _work(state, best, kind, job.submit, job.run)


def _work(state: _State, pilot: _Pilot, kind: _Kind, submit: float, run: float) -> None:
    pilot.used = True
    pilot.kind = kind
    kind.running += 1
    state.lively[kind.key] = kind
    _become(state, pilot, PilotState.BUSY)
    state.tally.started(kind.group, state.now, state.now - submit, run)
    state.at(state.now + run, DONE, pilot)


# --- pilots ---------------------------------------------------------------------------------------


def _become(state: _State, pilot: _Pilot, what: PilotState) -> None:
    state.counts[pilot.state] -= 1
    state.counts[what] += 1
    pilot.state = what
    pilot.since = state.now
    state.changed[pilot.number] = pilot


def _submit(state: _State, place: _Place) -> None:
    tally = state.tally
    tally.pilots += 1
    pilot = _Pilot(tally.pilots, place, state.now, submitted=state.now)
    state.pilots[pilot.number] = pilot
    state.changed[pilot.number] = pilot
    state.counts[PilotState.QUEUED] += 1
    place.latest.append(pilot)
    delay, pilot.lost = place.starts.draw()
    state.at(state.now + delay, READY, pilot)


def _ready(state: _State, pilot: _Pilot) -> None:
    if pilot.number in state.pilots:
        pilot.place.ready.append(pilot)
        _fill(state, pilot.place)


def _fill(state: _State, place: _Place) -> None:
    """Starts pilots of a site while it is open, has free slots and pilots that are ready."""
    while place.ready and place.running < place.site.slots:
        if place.ready[0].number not in state.pilots:
            place.ready.popleft()
            continue
        opens = place.starts.open_from(state.now)
        if opens > state.now:
            if not place.opening:
                place.opening = True
                state.at(opens, OPEN, place)
            return
        _start(state, place.ready.popleft())


def _open(state: _State, place: _Place) -> None:
    place.opening = False
    _fill(state, place)


def _start(state: _State, pilot: _Pilot) -> None:
    pilot.place.running += 1
    pilot.place.settled += 1
    pilot.started = state.now
    pilot.ends = state.now + pilot.place.site.wall
    pilot.record = PilotRecord(submitted=pilot.submitted, started=state.now)
    _become(state, pilot, PilotState.STARTING)
    state.at(state.now + state.settings.startup, CONNECT, pilot)


def _connect(state: _State, pilot: _Pilot) -> None:
    if pilot.number not in state.pilots:
        return
    if pilot.lost:
        state.tally.lost += 1
        pilot.record = PilotRecord(
            submitted=pilot.submitted, started=pilot.started, ended=state.now, failed=True
        )
        _end(state, pilot)
    else:
        _free(state, pilot)


def _done(state: _State, pilot: _Pilot) -> None:
    if pilot.kind is not None:
        pilot.kind.running -= 1
        pilot.kind = None
    _free(state, pilot)


def _free(state: _State, pilot: _Pilot) -> None:
    """Gives a pilot the job that has waited longest of those that fit; or it is idle."""
    best: _Kind | None = None
    left = pilot.ends - state.now
    for kind in state.waiting.values():
        if (
            kind.wall <= left
            and (best is None or kind.jobs[0][0] < best.jobs[0][0])
            and pilot.place in kind.sites
        ):
            best = kind
    if best is not None:
        submit, run = best.jobs.popleft()
        if not best.jobs:
            del state.waiting[best.key]
        _work(state, pilot, best, submit, run)
        return
    _become(state, pilot, PilotState.IDLE)
    pilot.place.idle[pilot.number] = pilot
    state.at(min(state.now + state.rule.idle, pilot.ends), EXPIRE, (pilot, state.now))


def _expire(state: _State, about: tuple[_Pilot, float]) -> None:
    pilot, since = about
    if pilot.state is PilotState.IDLE and pilot.since == since and pilot.number in state.pilots:
        _end(state, pilot)


def _end(state: _State, pilot: _Pilot) -> None:
    tally, place = state.tally, pilot.place
    state.counts[pilot.state] -= 1
    del state.pilots[pilot.number]
    state.changed.pop(pilot.number, None)
    state.views.pop(pilot.number, None)
    place.idle.pop(pilot.number, None)
    tally.unused += not pilot.used
    if pilot.state is PilotState.QUEUED:
        tally.cancelled += 1
        pilot.record = PilotRecord(submitted=pilot.submitted, ended=state.now)
        return
    tally.held += state.now - pilot.started
    place.running -= 1
    _fill(state, place)


def _close(state: _State) -> None:
    """Counts the pilots that live at the end, with the time that they held a slot."""
    for pilot in state.pilots.values():
        state.tally.unused += not pilot.used
        if pilot.state is not PilotState.QUEUED:
            state.tally.held += state.now - pilot.started


_HAPPEN: dict[int, Callable[[_State, Any], None]] = {
    DONE: _done,
    READY: _ready,
    OPEN: _open,
    CONNECT: _connect,
    EXPIRE: _expire,
}


# --- decisions ------------------------------------------------------------------------------------


def _snapshot(state: _State) -> Snapshot:
    """The truth about the simulated world at this time."""
    now = state.now
    state.tally.sample(Moment(
        now,
        sum(len(kind.jobs) for kind in state.waiting.values()),
        *(state.counts[s] for s in (
            PilotState.QUEUED, PilotState.STARTING, PilotState.IDLE, PilotState.BUSY)),
    ))  # fmt: skip
    demand = []
    for kind in state.lively.values():
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
    state.lively = {k: kind for k, kind in state.lively.items() if kind.jobs or kind.running}
    views = state.views
    for number, pilot in state.changed.items():
        views[number] = Pilot(
            key=str(number),
            queue=pilot.place.site.key,
            state=pilot.state,
            since=pilot.since,
            ends=None if pilot.state is PilotState.QUEUED else pilot.ends,
            kind=pilot.kind.key if pilot.kind else "",
        )
    state.changed.clear()
    return Snapshot(
        now=now,
        demand=tuple(demand),
        queues=tuple(_queue(state, place) for place in state.places.values()),
        pilots=tuple(views.values()),
        memory=state.memory,
    )


def _queue(state: _State, place: _Place) -> Queue:
    """The queue of a site. Its estimate is renewed hourly, or with a quarter more starts."""
    old = state.now - place.estimated >= state.settings.refresh
    if place.latest and (old or 4 * place.settled > place.queue.estimate.started):
        place.estimated, place.settled = state.now, 0
        found = estimate(
            (p.record or PilotRecord(submitted=p.submitted) for p in place.latest), state.now
        )
        if found != place.queue.estimate:
            place.queue = attrs.evolve(place.queue, estimate=found)
    return place.queue


def _obey(state: _State, decision: Decision) -> None:
    state.memory = decision.memory
    for end in decision.ends:
        pilot = state.pilots.get(int(end.pilot)) if end.pilot.isdecimal() else None
        if pilot is None:
            raise RuleError(f"{state.rule.name} ends the pilot {end.pilot!r}, which there is not")
        if pilot.state is PilotState.BUSY:
            raise RuleError(f"{state.rule.name} ends the pilot {end.pilot}, which runs a job")
        _end(state, pilot)
    for wanted in decision.submissions:
        place = state.places.get(wanted.queue)
        if place is None or wanted.count < 1:
            raise RuleError(
                f"{state.rule.name} submits {wanted.count} pilots to the queue {wanted.queue!r}"
            )
        for _ in range(wanted.count):
            _submit(state, place)
