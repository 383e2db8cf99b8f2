"""Every interleaving of two delegators over one job, by plain search.

A state holds the row, the queue, the spool, what runs, and where each delegator stands within its
look: having read the row, having looked, with effects to carry out. From each, every next thing
may happen: one delegator goes on, or is killed (once each), time passes by one, the batch system
forgets everything (once), a submission makes no job or is refused (once each), the owner wants the
job ended (once), or resumes it where it is paused (once). Times are counted from now, so
that there are finitely many states. The moves are the real ones.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache
from typing import ClassVar, Final, NamedTuple

import attrs

from matchmaker.delegation import states
from matchmaker.delegation.contact import SpoolMarks
from matchmaker.delegation.moves import Observation
from matchmaker.delegation.record import (
    Deadlines,
    JobStatus,
    NoAnswer,
    Phase,
    Record,
    Refused,
    job_name,
)
from matchmaker.delegation.record import (
    JobState as State,
)
from matchmaker.delegation.states import Act, Effect

LEASE: Final = int(os.environ.get("MODEL_LEASE", "3"))
"""How long a lease is; `make nightly` takes a longer one."""

DEADLINES: Final = Deadlines(
    reply=1,
    settle=1,
    absent=1,
    hold=3,
    margin=1,
    lease=LEASE,
    cancel=1,
    silence=99,
    attempts=2,
    backoff=1,
)
OLDEST: Final = -2.0
ALIVE: Final = {"parked", "waiting", "running"}


class Job(NamedTuple):
    """A job of the batch system: which attempt, its id, where it is, when its hold ends."""

    attempt: int
    number: int
    phase: str
    begin: float = 0.0
    exit: int | None = None


class Files(NamedTuple):
    """The records of an attempt."""

    committed: bool = False
    start: str = ""
    lease: float = 0.0
    exit: int | None = None


class Row:
    """A record that is made once, so that it is compared and hashed as itself."""

    __slots__ = ("record",)
    known: ClassVar[dict[Record, Row]] = {}

    def __init__(self, record: Record) -> None:
        self.record = record

    @classmethod
    def of(cls, record: Record) -> Row:
        """The row of a record, without what no rule reads in its state."""
        plain = _plain(record)
        return cls.known.setdefault(plain, cls(plain))


class Todo:
    """Effects, made once: the first of them, and the rest."""

    __slots__ = ("effects", "rest")
    known: ClassVar[dict[tuple[Effect, ...], Todo]] = {}

    def __init__(self, effects: tuple[Effect, ...]) -> None:
        self.effects = effects
        self.rest: Todo | None = Todo.of(effects[1:]) if effects else None

    @classmethod
    def of(cls, effects: tuple[Effect, ...]) -> Todo:
        """The one object of these effects."""
        return cls.known.setdefault(effects, cls(effects))


NOTHING: Final = Todo.of(())


class Place(NamedTuple):
    """Where a delegator stands: the row that it read or will write, and what it still has to do.

    A look and what it leads to are one: `step` is a function. Whoever would lose the race for the
    row is idle at once.
    """

    at: str = "idle"
    row: Row | None = None
    attempt: int = 0
    todo: Todo = NOTHING
    reply: str = ""


class World(NamedTuple):
    """All there is."""

    row: Row | None = None
    jobs: tuple[Job, ...] = ()
    files: tuple[Files, ...] = (Files(), Files())
    runs: int = 0
    starts: int = 0
    places: tuple[Place, Place] = (Place(), Place())
    kills: tuple[int, int] = (1, 1)
    wipes: int = 0
    wishes: int = 0
    misses: int = 0
    refusals: int = 0
    resumes: int = 0
    wrong: str = ""


IDLE: Final = Place()


@cache
def _step(row: Row, jobs: tuple[Job, ...], files: Files) -> tuple[Row, Todo]:
    seen = Observation(
        queue=_sights(jobs, alive=True), accounting=_sights(jobs, alive=False), marks=_marks(files)
    )
    made = states.step(row.record, seen, 0.0, DEADLINES)
    return Row.of(made.record), Todo.of(made.effects)


MISSED: Final = "missed"
REFUSED: Final = "refused"
"""The replies where no job was made: nothing that counts, and a definite refusal."""


@cache
def _after_reply(row: Row, reply: str) -> Row:
    said: str | Refused | NoAnswer = reply
    if reply in {MISSED, REFUSED}:
        said = NoAnswer("") if reply == MISSED else Refused("")
    seen = Observation(queue=NoAnswer(""), reply=said)
    return Row.of(states.step(row.record, seen, 0.0, DEADLINES).record)


@cache
def _stale(row: Row) -> Row:
    return Row.of(attrs.evolve(row.record, revision=-1))


def _sights(jobs: tuple[Job, ...], *, alive: bool) -> tuple[JobStatus, ...]:
    return tuple(
        JobStatus(job_name("k", job.attempt), str(job.number), None, Phase(job.phase), job.exit)
        for job in jobs
        if (job.phase in ALIVE) is alive
    )


def _marks(files: Files) -> SpoolMarks:
    return SpoolMarks(
        files.committed, files.start == "started", files.start == "forbidden", files.exit,
        stopped=files.start == "started" and files.exit is None and files.lease <= 0,
    )  # fmt: skip


def _written(world: World, after: Row) -> World:
    """The row is written: revisions count 0, and -1 for what was read before."""
    places = [
        Place("read", _stale(place.row))
        if place.at == "read" and place.row is not None
        else IDLE
        if place.at == "looked"
        else place
        for place in world.places
    ]
    return world._replace(row=after, places=(places[0], places[1]))


@cache
def _plain(record: Record) -> Record:
    """The row without what no rule reads in its state."""
    state = record.state
    early = state in {State.INTENT, State.UNKNOWN, State.PAUSED, State.PREPARED}
    again = state in {State.UNKNOWN, State.PREPARED, State.COMMITTED}
    late = state in {State.PREPARED, State.COMMITTED, State.RUNNING}
    return attrs.evolve(
        record,
        created=0.0,
        seen=None,
        reason="",
        code=None,
        retry_at=record.retry_at if again and record.tries < DEADLINES.attempts else OLDEST,
        since=record.since if state is State.PREPARED else OLDEST,
        hold_until=record.hold_until if early else OLDEST,
        deadline=99.0 if late else record.deadline,
        lease_until=record.lease_until if state.live else OLDEST,
    )


def _at(world: World, who: int, place: Place) -> World:
    places = list(world.places)
    places[who] = place
    return world._replace(places=(places[0], places[1]))


def _go_on(world: World, who: int) -> World | None:
    """The next thing that a delegator does; None if there is nothing."""
    place = world.places[who]
    row = world.row
    if place.at == "idle":
        if row is None:
            begun = states.begin("k", 0.0, DEADLINES, digest="x", cluster="c")
            world = world._replace(row=Row.of(begun.record))
            return _acting(world, who, 1, Todo.of(begun.effects))
        return None if not row.record.state.live else _at(world, who, Place("read", row))
    if place.at == "read":
        return _looked(world, who, place.row)
    if place.at == "looked":
        assert place.row is not None
        written = _written(world, place.row)
        return _acting(written, who, place.row.record.attempt, place.todo)
    if place.at == "reply":
        return _replied(world, who, place)
    effect, rest = place.todo.effects[0], place.todo.rest
    assert rest is not None
    if effect.act is Act.PARK:
        number = len(world.jobs) + 1
        job = Job(place.attempt, number, "parked", DEADLINES.hold)
        world = world._replace(jobs=(*world.jobs, job))
        return _at(world, who, Place("reply", None, place.attempt, rest, str(number)))
    return _acting(_done(world, place.attempt, effect), who, place.attempt, rest)


def _acting(world: World, who: int, attempt: int, todo: Todo) -> World:
    return _at(world, who, Place("act", None, attempt, todo) if todo.effects else IDLE)


def _looked(world: World, who: int, row: Row | None) -> World:
    assert row is not None
    attempt = row.record.attempt
    made, todo = _step(row, world.jobs, world.files[attempt - 1])
    if made is row:
        return _acting(world, who, attempt, todo)
    if row.record.revision != 0:
        return _at(world, who, IDLE)
    return _at(world, who, Place("looked", made, 0, todo))


def _replied(world: World, who: int, place: Place) -> World:
    row = world.row
    assert row is not None
    record = row.record
    if record.attempt == place.attempt and record.state in {State.INTENT, State.UNKNOWN}:
        moved = _after_reply(row, place.reply)
        if moved is not row:
            world = _written(world, moved)
    return _acting(world, who, place.attempt, place.todo)


def _done(world: World, attempt: int, effect: Effect) -> World:
    """The world after an effect."""
    number = attempt - 1
    files = world.files[number]
    if effect.act is Act.COMMIT and not files.committed:
        files = files._replace(committed=True, lease=min(effect.seconds, DEADLINES.lease))
    elif effect.act is Act.FORBID:
        files = files._replace(start=files.start or "forbidden")
    elif effect.act is Act.STOP:
        files = files._replace(lease=0.0)
    elif effect.act in {Act.RELEASE, Act.CANCEL}:
        jobs = [_told(job, effect) for job in world.jobs]
        ended = {job.attempt for job, old in zip(jobs, world.jobs, strict=True)
                if job.phase == "cancelled" and old.phase == "running"}  # fmt: skip
        world = world._replace(jobs=tuple(jobs))
        return _finished(world, world.runs, 143) if world.runs in ended else world
    both = list(world.files)
    both[number] = files
    return world._replace(files=tuple(both))


def _told(job: Job, effect: Effect) -> Job:
    if str(job.number) != effect.remote_id or job_name("k", job.attempt) != effect.name:
        return job
    if effect.act is Act.RELEASE and job.phase == "parked":
        return job._replace(phase="waiting")
    if effect.act is Act.CANCEL and job.phase in ALIVE:
        return job._replace(phase="cancelled")
    return job


def _finished(world: World, attempt: int, code: int) -> World:
    both = list(world.files)
    both[attempt - 1] = both[attempt - 1]._replace(exit=code)
    jobs = [
        job._replace(phase="ended", exit=code)
        if job.attempt == attempt and job.phase == "running"
        else job
        for job in world.jobs
    ]
    return world._replace(files=tuple(both), jobs=tuple(jobs), runs=0)


def _tick(world: World) -> World:
    """One unit of time: payloads end, waiting jobs start, holds end, leases grow shorter."""
    if world.runs:
        lease = world.files[world.runs - 1].lease
        world = _finished(world, world.runs, 0 if lease > 0 else 143)
    for place, job in enumerate(world.jobs):
        if job.phase == "waiting":
            world = _started(world, place, job)
        elif job.phase == "parked":
            begin = job.begin - 1
            later = job._replace(begin=begin, phase="parked" if begin > 0 else "waiting")
            world = _with_job(world, place, later)
    files = tuple(f._replace(lease=max(f.lease - 1, -1.0)) for f in world.files)
    places = [
        place._replace(row=_older(place.row)) if place.row is not None else place
        for place in world.places
    ]
    row = None if world.row is None else _older(world.row)
    return world._replace(files=files, row=row, places=(places[0], places[1]))


def _with_job(world: World, place: int, job: Job) -> World:
    jobs = list(world.jobs)
    jobs[place] = job
    return world._replace(jobs=tuple(jobs))


def _started(world: World, place: int, job: Job) -> World:
    """The start script on a node."""
    files = world.files[job.attempt - 1]
    if files.start or not files.committed or files.lease <= 0:
        both = list(world.files)
        both[job.attempt - 1] = files._replace(start=files.start or "forbidden")
        world = world._replace(files=tuple(both))
        return _with_job(world, place, job._replace(phase="ended", exit=75))
    both = list(world.files)
    both[job.attempt - 1] = files._replace(start="started")
    row = world.row
    wrong = world.wrong
    if world.starts:
        wrong = "started 2 times"
    elif row is None or not row.record.state.live:
        wrong = "started after its end"
    world = world._replace(files=tuple(both), runs=job.attempt, starts=1, wrong=wrong)
    return _with_job(world, place, job._replace(phase="running"))


@cache
def _older(row: Row) -> Row:
    def less(value: float) -> float:
        return max(value - 1, OLDEST)

    record = row.record
    deadline = None if record.deadline is None else less(record.deadline)
    absent = None if record.absent_since is None else less(record.absent_since)
    return Row.of(
        attrs.evolve(
            record,
            since=less(record.since),
            deadline=deadline,
            hold_until=less(record.hold_until),
            lease_until=less(record.lease_until),
            absent_since=absent,
            retry_at=less(record.retry_at),
        )
    )


def following(world: World) -> Iterator[tuple[str, World]]:
    """Everything that may happen next."""
    for who in (0, 1):
        later = _go_on(world, who)
        if later is not None:
            yield f"{who} {world.places[who].at}", _canonical(later)
            yield from _unmade(world, who)
        if world.kills[who] and world.places[who].at != "idle":
            kills = (0, world.kills[1]) if who == 0 else (world.kills[0], 0)
            yield f"{who} killed", _canonical(_at(world._replace(kills=kills), who, IDLE))
    if IDLE in world.places:
        yield "time", _canonical(_tick(world))
    if world.wipes:
        jobs = tuple(j._replace(phase="cancelled", attempt=0) for j in world.jobs)
        yield "wiped", _canonical(world._replace(jobs=jobs, wipes=0))
    row = world.row
    if world.wishes and row is not None and row.record.state.live:
        wished = _written(world, Row.of(states.wish_end(row.record)))
        yield "wish", _canonical(wished._replace(wishes=0))
    if world.resumes and row is not None and row.record.state is State.PAUSED:
        resumed = _written(world, Row.of(states.resumed(row.record, 0.0, DEADLINES)))
        yield "resumed", _canonical(resumed._replace(resumes=0))


def _unmade(world: World, who: int) -> Iterator[tuple[str, World]]:
    """A submission that makes no job: nothing says so, or the batch system refuses it."""
    place = world.places[who]
    if place.at != "act" or place.todo.effects[0].act is not Act.PARK:
        return
    rest = place.todo.rest
    assert rest is not None
    for reply, after in (
        (MISSED, world._replace(misses=world.misses - 1)),
        (REFUSED, world._replace(refusals=world.refusals - 1)),
    ):
        if after.misses >= 0 and after.refusals >= 0:
            told = Place("reply", None, place.attempt, rest, reply)
            yield f"{who} {reply}", _canonical(_at(after, who, told))


def _canonical(world: World) -> World:
    """The two delegators are alike."""
    if hash((world.places[0], world.kills[0])) <= hash((world.places[1], world.kills[1])):
        return world
    return world._replace(places=world.places[::-1], kills=world.kills[::-1])


def wrong(world: World) -> str:
    """What must not be."""
    if world.wrong or world.row is None:
        return world.wrong
    state = world.row.record.state
    codes = [files.exit for files in world.files]
    if state is State.DONE and 0 not in codes:
        return "done without an end"
    if state is State.CANCELLED and world.runs:
        return "cancelled, and it runs"
    if state in {State.LOST, State.FAILED} and (0 in codes or world.runs):
        return f"{state}, and it runs or ended well"
    return ""


class Search(NamedTuple):
    """What a search came to: states and transitions, and the way to something wrong."""

    states: int
    transitions: int
    wrong: str
    way: tuple[str, ...]
    ends: frozenset[str]
    endless: int
    seen: frozenset[str] = frozenset()


def search(start: World, most: int = 5_000_000) -> Search:
    """Visits every state; ends at the first that is wrong."""
    # Nothing here is garbage, and looking for some takes half of the time.
    gc.disable()
    try:
        return _search(start, most)
    finally:
        gc.enable()


def _search(start: World, most: int) -> Search:
    came: dict[World, tuple[World, str] | None] = {start: None}
    waiting = [start]
    back: dict[World, list[World]] = {}
    ends: set[World] = set()
    transitions = 0
    for world in waiting:
        found = wrong(world)
        if found:
            return Search(len(came), transitions, found, _way(came, world), frozenset(), 0)
        if world.row is not None and not world.row.record.state.live:
            ends.add(world)
        for label, later in following(world):
            transitions += 1
            back.setdefault(later, []).append(world)
            if later not in came:
                if len(came) >= most:
                    raise AssertionError(f"more than {most} states")
                came[later] = (world, label)
                waiting.append(later)
    # From each state the job can come to an end.
    reached, stack = set(ends), list(ends)
    while stack:
        for before in back.get(stack.pop(), ()):
            if before not in reached:
                reached.add(before)
                stack.append(before)
    names = frozenset(str(w.row.record.state) for w in ends if w.row is not None)
    seen = frozenset(str(w.row.record.state) for w in came if w.row is not None)
    return Search(len(came), transitions, "", (), names, len(came) - len(reached), seen)


def _way(came: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels: list[str] = []
    step = came[world]
    while step is not None:
        labels.append(step[1])
        step = came[step[0]]
    return tuple(reversed(labels))
