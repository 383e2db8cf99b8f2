"""Jobs and sessions of a binder, and a pure function of each event that returns a change of them.

A job is given to another pilot only after its pilot said that it does not run it, or was silent for
so long that it has ended its jobs by itself. A pilot ends them ``lease`` seconds after it sent the
last heartbeat that was answered, and the binder got that heartbeat no earlier. So no two pilots run
one job at once. All times are seconds of the binder's monotonic clock.

A pilot keeps these promises. Before it resumes a session, it closes all other connections of that
session, so that no pairing under way reaches it. It then names each job that runs, and each whose
end was not acknowledged. If a session is over, it ends all its jobs before it begins a new one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final

import attrs

from matchmaker.pilots.wire.protocol import FrameKind

# About the size of a job's object, its indexes and its row, beside its texts.
_BYTES: Final = 500
# A job that was assigned so often to pilots that fell silent is likely the cause of it.
MOST_GIVINGS: Final = 50


class JobStage(StrEnum):
    """The stage of a job."""

    QUEUED = "queued"
    GIVEN = "given"
    RUNNING = "running"
    ENDED = "ended"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def open(self) -> bool:
        """Whether the job may still change."""
        return self in {JobStage.QUEUED, JobStage.GIVEN, JobStage.RUNNING}

    @property
    def held(self) -> bool:
        """Whether a pilot may be running the job."""
        return self in {JobStage.GIVEN, JobStage.RUNNING}


@attrs.frozen(slots=True, kw_only=True)
class BinderJob:
    """A job that a client submitted; ``owner`` is the subject of the client's token.

    Attributes:
        key: the client's name of the job, which makes a repeated submission harmless.
        detached: whether it runs without its client. Another job is lost with its client's or its
            pilot's connection, and not given again once a pilot may have begun it.
        epoch: how often it was given to a pilot.
        session: the pilot's session that has it, or had it last; empty before that.
        cancel: whether its end was requested.
        result: the text of the ad that the pilot reported at its end.
    """

    id: str
    owner: str
    key: str
    ad: str
    detached: bool = True
    stage: JobStage = JobStage.QUEUED
    epoch: int = 0
    session: str = ""
    cancel: bool = False
    result: str = ""
    reason: str = ""

    @property
    def bytes(self) -> int:
        """Its size in memory, about, without the parsed form of its ad."""
        return _BYTES + len(self.ad) + len(self.result) + len(self.reason)


@attrs.frozen(slots=True, kw_only=True)
class PilotSession:
    """A pilot that has proven itself. A pilot that was silent for too long needs a new session.

    Attributes:
        token: the id of the pilot's token, which its session's token has too.
        owners: the only owners whose jobs it gets, with spaces between; empty if none is named.
        mixed: whether it gets jobs of several owners though none is named. If not, it gets only
            jobs of the owner of its first one, who is then named.
        heard: the time of its last message. It is not stored: after a restart each session counts
            as heard at that moment.
    """

    name: str
    subject: str
    ad: str
    heard: float
    token: str = ""
    owners: str = ""
    mixed: bool = False

    def serves(self, owner: str) -> bool:
        """Whether it may get jobs of an owner."""
        return not self.owners or owner in self.owners.split(" ")


@attrs.define(slots=True)
class Book:
    """The jobs by id, and the sessions by name until they are over, with two indexes.

    ``held`` has the ids of the jobs that each session may be running, ``keys`` the id of each
    owner's key.
    """

    jobs: dict[str, BinderJob] = attrs.field(factory=dict)
    sessions: dict[str, PilotSession] = attrs.field(factory=dict)
    held: dict[str, set[str]] = attrs.field(factory=dict)
    keys: dict[tuple[str, str], str] = attrs.field(factory=dict)

    def put(self, job: BinderJob) -> None:
        """Enter a job, or replace the one with its id."""
        before = self.jobs.get(job.id)
        if before is not None and before.stage.held:
            self.held.get(before.session, set()).discard(job.id)
        if job.stage.held:
            self.held.setdefault(job.session, set()).add(job.id)
        self.jobs[job.id] = job
        self.keys[job.owner, job.key] = job.id

    def forget(self, ids: Iterable[str]) -> None:
        """Remove jobs that cannot change any more. Raises ValueError for another one."""
        for id_ in ids:
            job = self.jobs[id_]
            if job.stage.open:
                raise ValueError(f"{id_} is {job.stage}: only a job that has ended is forgotten")
            del self.jobs[id_], self.keys[job.owner, job.key]


@attrs.frozen(slots=True)
class BinderMessage:
    """A message to a pilot; ``epoch`` is the number of the assignment.

    The kinds are ``PAIRED``, ``KILL``, ``ACKNOWLEDGE`` and ``OVER``. ``OVER`` ends the session: the
    pilot ends all its jobs and greets anew.
    """

    kind: FrameKind
    session: str
    job: str = ""
    epoch: int = 0


@attrs.frozen(slots=True)
class BinderChange:
    """The result of an event: rows to be stored first, then messages to be sent.

    ``begun`` has sessions that are new or have another owner, ``over`` the names of sessions that
    are over. ``heard`` is not stored.
    """

    jobs: tuple[BinderJob, ...] = ()
    begun: tuple[PilotSession, ...] = ()
    over: tuple[str, ...] = ()
    heard: tuple[PilotSession, ...] = ()
    messages: tuple[BinderMessage, ...] = ()

    def __bool__(self) -> bool:
        return any(attrs.astuple(self, recurse=False))

    @property
    def stored(self) -> bool:
        """Whether any of it is to be stored."""
        return bool(self.jobs or self.begun or self.over)


def apply_change(book: Book, change: BinderChange) -> None:
    """Enter a change in the book."""
    for job in change.jobs:
        book.put(job)
    for session in (*change.begun, *change.heard):
        book.sessions[session.name] = session
    for name in change.over:
        book.sessions.pop(name, None)
        book.held.pop(name, None)


def submit(book: Book, job: BinderJob) -> tuple[BinderJob, BinderChange]:
    """Return the job under the owner's key, old or new, and the change.

    >>> book = Book()
    >>> job, change = submit(book, BinderJob(id="1", owner="ana", key="k", ad="[]"))
    >>> job.id, len(change.jobs)
    ('1', 1)
    """
    known = book.keys.get((job.owner, job.key))
    if known is not None:
        return book.jobs[known], BinderChange()
    return job, BinderChange(jobs=(job,))


def begin(session: PilotSession) -> BinderChange:
    """Register a pilot for the first time, or after its last session was over."""
    return BinderChange(begun=(session,))


def hear(book: Book, name: str, now: float) -> BinderChange:
    """Renew the lease of a pilot that sent a heartbeat; send OVER if its session is over."""
    session = book.sessions.get(name)
    if session is None:
        return BinderChange(messages=(BinderMessage(FrameKind.OVER, name),))
    return BinderChange(heard=(attrs.evolve(session, heard=max(now, session.heard)),))


def resume(book: Book, name: str, running: Mapping[str, int], now: float) -> BinderChange:
    """Let a pilot come back, with the epochs of the jobs that it runs or still reports.

    A job that it was given and does not name never reached it, and is queued again. It must end the
    jobs that it names but no longer has.
    """
    greeting = hear(book, name, now)
    if not greeting.heard:
        return greeting
    jobs, messages = [], []
    for id_ in sorted(book.held.get(name, ())):
        job = book.jobs[id_]
        if running.get(id_) != job.epoch:
            jobs.append(_give_back(job, "its pilot came back without it"))
        else:
            jobs.append(attrs.evolve(job, stage=JobStage.RUNNING))
    for id_, epoch in running.items():
        held = held_by(book, name, id_, epoch)
        if held is None or held.cancel:
            messages.append(BinderMessage(FrameKind.KILL, name, id_, epoch))
    return attrs.evolve(greeting, jobs=tuple(jobs), messages=tuple(messages))


def give(book: Book, id_: str, name: str) -> BinderChange:
    """Give a queued job to a pilot; do nothing if the job or the session is gone meanwhile.

    A pilot that shares an account among its jobs then serves their owner alone.
    """
    job, session = book.jobs.get(id_), book.sessions.get(name)
    if job is None or job.stage is not JobStage.QUEUED or session is None:
        return BinderChange()
    if not session.serves(job.owner):
        return BinderChange()
    free = not (session.owners or session.mixed)
    bound = (attrs.evolve(session, owners=job.owner),) if free else ()
    given = attrs.evolve(job, stage=JobStage.GIVEN, epoch=job.epoch + 1, session=name)
    message = BinderMessage(FrameKind.PAIRED, name, id_, given.epoch)
    return BinderChange(jobs=(given,), begun=bound, messages=(message,))


def accepted(book: Book, name: str, id_: str, epoch: int) -> BinderChange:
    """Record that a pilot has accepted a job; it must end one that is not its own or cancelled.

    The pairing and the message that cancels it use two connections, and may arrive in either order.
    """
    job = held_by(book, name, id_, epoch)
    end = BinderChange(messages=(BinderMessage(FrameKind.KILL, name, id_, epoch),))
    if job is None:
        return end
    now = BinderChange(jobs=(attrs.evolve(job, stage=JobStage.RUNNING),))
    return attrs.evolve(now, messages=end.messages) if job.cancel else now


def declined(
    book: Book, name: str, id_: str, epoch: int, reason: str, *, begun: bool = True
) -> BinderChange:  # fmt: skip
    """Take a job back from a pilot that does not run it, and has no process of it.

    ``begun`` says that the job may have run. If not, another pilot may have it, even if its client
    waits for it.
    """
    job = held_by(book, name, id_, epoch)
    if job is None:
        return BinderChange()
    if begun or job.cancel:
        return BinderChange(jobs=(_give_back(job, reason),))
    return BinderChange(jobs=(attrs.evolve(job, stage=JobStage.QUEUED, reason=reason),))


def ended(book: Book, name: str, id_: str, epoch: int, result: str) -> BinderChange:
    """Record the end of a job. A late report of another epoch is only acknowledged."""
    job = held_by(book, name, id_, epoch)
    said = (BinderMessage(FrameKind.ACKNOWLEDGE, name, id_, epoch),)
    if job is None:
        return BinderChange(messages=said)
    return BinderChange(
        jobs=(attrs.evolve(job, stage=JobStage.ENDED, result=result),), messages=said
    )


def cancel(book: Book, id_: str, reason: str) -> BinderChange:
    """Cancel a job: at once if no pilot has it, else when its pilot reports its end."""
    job = book.jobs.get(id_)
    if job is None or not job.stage.open:
        return BinderChange()
    if job.stage is JobStage.QUEUED:
        return BinderChange(jobs=(attrs.evolve(job, stage=JobStage.CANCELLED, reason=reason),))
    wanted = attrs.evolve(job, cancel=True, reason=reason)
    return BinderChange(
        jobs=(wanted,), messages=(BinderMessage(FrameKind.KILL, job.session, id_, job.epoch),)
    )


def leave(book: Book, name: str, reason: str) -> BinderChange:
    """End the session of a pilot that leaves, and runs no job any more."""
    if name not in book.sessions:
        return BinderChange()
    ids = sorted(book.held.get(name, ()))
    return BinderChange(jobs=tuple(_give_back(book.jobs[id_], reason) for id_ in ids), over=(name,))


def expire(book: Book, now: float, lease: float) -> BinderChange:
    """End the sessions of pilots that were silent for longer than a lease, with its margin.

    A job that was given ``MOST_GIVINGS`` times is then lost: it may be the cause.
    """
    late = [name for name, each in book.sessions.items() if now > each.heard + lease]
    messages = tuple(BinderMessage(FrameKind.OVER, name) for name in late)
    jobs = tuple(
        _without_pilot(book.jobs[id_], f"its pilot was silent for {lease:g} s")
        for name in late
        for id_ in sorted(book.held.get(name, ()))
    )
    return BinderChange(jobs=jobs, over=tuple(late), messages=messages)


def restore(
    jobs: Iterable[BinderJob], sessions: Iterable[PilotSession], now: float
) -> tuple[Book, BinderChange]:
    """Return the book after a restart, from the stored rows, and the changes of the restart.

    Every pilot has a whole lease to come back. Jobs whose client was connected are lost.
    """
    book, lost = Book(), []
    for session in sessions:
        book.sessions[session.name] = attrs.evolve(session, heard=now)
    for job in jobs:
        book.put(job)
        if job.stage.open and not job.detached:
            lost.append(attrs.evolve(job, stage=JobStage.LOST, reason="the binder was restarted"))
        elif job.stage.held and job.session not in book.sessions:
            lost.append(_give_back(job, "its pilot's session was over"))
    change = BinderChange(jobs=tuple(lost))
    return book, change


def held_by(book: Book, name: str, id_: str, epoch: int) -> BinderJob | None:
    """Return the job if this session has it by this assignment."""
    job = book.jobs.get(id_)
    if job is None or not job.stage.held or job.session != name or job.epoch != epoch:
        return None
    return job


def _without_pilot(job: BinderJob, reason: str) -> BinderJob:
    """Return the job whose pilot is gone."""
    if job.epoch < MOST_GIVINGS or not job.detached or job.cancel:
        return _give_back(job, reason)
    said = f"{reason}, and it was given {job.epoch} times: it may be what ends its pilots"
    return attrs.evolve(job, stage=JobStage.LOST, reason=said)


def _give_back(job: BinderJob, reason: str) -> BinderJob:
    """Return the job that no pilot runs any more, and that did not end."""
    if job.cancel:
        return attrs.evolve(job, stage=JobStage.CANCELLED)
    if not job.detached:
        return attrs.evolve(job, stage=JobStage.LOST, reason=reason)
    return attrs.evolve(job, stage=JobStage.QUEUED, reason=reason)


class OpenJobs:
    """The open jobs of each client, with their bytes.

    A running job that submits others counts as a client too, besides the owner of those jobs.

    >>> held = OpenJobs()
    >>> held.enter("ana", "1", 700)
    >>> held.enter("ana", "2", 900, asker="job 1")
    >>> held.of("ana"), held.of("job 1")
    ((2, 1600), (1, 900))
    >>> held.leave("ana", "2")
    >>> held.of("ana"), held.of("job 1")
    ((1, 700), (0, 0))
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[str, int]] = {}
        self._bytes: dict[str, int] = {}
        self._askers: dict[str, str] = {}

    def enter(self, owner: str, id_: str, size: int, asker: str = "") -> None:
        """Enter a job, or its new size; ``asker`` names the running job that submitted it."""
        self._put(owner, id_, size)
        if asker:
            self._askers[id_] = asker
            self._put(asker, id_, size)

    def _put(self, name: str, id_: str, size: int) -> None:
        mine = self._of.setdefault(name, {})
        self._bytes[name] = self._bytes.get(name, 0) + size - mine.get(id_, 0)
        mine[id_] = size

    def leave(self, owner: str, id_: str) -> None:
        """Remove a job, if it is there."""
        for name in (owner, self._askers.pop(id_, "")):
            mine = self._of.get(name, {})
            self._bytes[name] = self._bytes.get(name, 0) - mine.pop(id_, 0)
            if not mine:
                self._of.pop(name, None)
                del self._bytes[name]

    def of(self, name: str) -> tuple[int, int]:
        """Return the number of somebody's open jobs, and their bytes."""
        return len(self._of.get(name, ())), self._bytes.get(name, 0)

    def ids(self, name: str) -> Collection[str]:
        """Return the ids of somebody's open jobs."""
        return tuple(self._of.get(name, ()))

    def __len__(self) -> int:
        """Return the number of clients with open jobs."""
        return len(self._of)
