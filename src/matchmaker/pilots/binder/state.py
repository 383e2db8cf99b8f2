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

_BYTES: Final = 500


class JobStage(StrEnum):
    """How far a job has come."""

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
    """Work that a client asked for.

    Attributes:
        id: names it among all jobs of the binder.
        owner: the subject of the client's token.
        key: the client's name of the job, which makes a repeated submission harmless.
        ad: the text of the client's ad.
        detached: whether it goes on without its client. Other jobs are lost with their client's or
            their pilot's connection, and are not given again once a pilot may have begun them.
        stage: how far it has come.
        epoch: how often it was given to a pilot.
        session: the pilot's session that has it, or had it last; empty before that.
        cancel: whether its end was asked for.
        result: the text of the ad that the pilot reported at its end.
        reason: why it was cancelled or lost, in words.
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
        """About how many bytes it takes, less what its ad takes beyond its text."""
        return _BYTES + len(self.ad) + len(self.result) + len(self.reason)


@attrs.frozen(slots=True, kw_only=True)
class PilotSession:
    """A pilot that has proven itself. A pilot that was silent for too long needs a new one.

    Attributes:
        name: names it among all sessions, also of earlier runs of the binder.
        subject: the subject of the pilot's token.
        ad: the text of the pilot's ad.
        token: the id of the pilot's token, which its session's token has too.
        owners: whose jobs alone it gets, with spaces between; empty if nobody is named.
        mixed: whether it gets jobs of several owners though none is named. If not, it gets only
            jobs of the owner of its first one, who is then named.
        heard: when the binder last heard from it. It is not stored: after a restart each session
            counts as heard at that moment.
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
    """The jobs and the sessions, with the indexes that ``moves`` needs.

    Attributes:
        jobs: by their ids.
        sessions: by their names; a session that is over is not there.
        held: by a session's name, the ids of the jobs that it may be running.
        keys: by owner and key, the ids of jobs.
    """

    jobs: dict[str, BinderJob] = attrs.field(factory=dict)
    sessions: dict[str, PilotSession] = attrs.field(factory=dict)
    held: dict[str, set[str]] = attrs.field(factory=dict)
    keys: dict[tuple[str, str], str] = attrs.field(factory=dict)

    def put(self, job: BinderJob) -> None:
        """Enters a job, or replaces the one with its id."""
        before = self.jobs.get(job.id)
        if before is not None and before.stage.held:
            self.held.get(before.session, set()).discard(job.id)
        if job.stage.held:
            self.held.setdefault(job.session, set()).add(job.id)
        self.jobs[job.id] = job
        self.keys[job.owner, job.key] = job.id

    def forget(self, ids: Iterable[str]) -> None:
        """Removes jobs that cannot change any more. Raises ValueError for another one."""
        for id_ in ids:
            job = self.jobs[id_]
            if job.stage.open:
                raise ValueError(f"{id_} is {job.stage}: only a job that has ended is forgotten")
            del self.jobs[id_], self.keys[job.owner, job.key]


@attrs.frozen(slots=True)
class BinderMessage:
    """Something to say to the pilot of a session; a job's epoch says which giving is meant.

    The kinds are ``PAIRED``, ``KILL``, ``ACKNOWLEDGE`` and ``OVER``. ``OVER`` means that the
    session is: the pilot ends all its jobs and greets anew.
    """

    kind: FrameKind
    session: str
    job: str = ""
    epoch: int = 0


@attrs.frozen(slots=True)
class BinderChange:
    """What an event comes to: first the rows are stored, then the words are said.

    Attributes:
        jobs: as they are now.
        begun: sessions that are new, or have another owner.
        over: names of sessions that are over.
        heard: sessions that were heard from now, which is not stored.
        words: what pilots are to hear.
    """

    jobs: tuple[BinderJob, ...] = ()
    begun: tuple[PilotSession, ...] = ()
    over: tuple[str, ...] = ()
    heard: tuple[PilotSession, ...] = ()
    words: tuple[BinderMessage, ...] = ()

    def __bool__(self) -> bool:
        return any(attrs.astuple(self, recurse=False))

    @property
    def stored(self) -> bool:
        """Whether any of it is to be stored."""
        return bool(self.jobs or self.begun or self.over)


def apply_change(book: Book, change: BinderChange) -> None:
    """Enters a change in the book."""
    for job in change.jobs:
        book.put(job)
    for session in (*change.begun, *change.heard):
        book.sessions[session.name] = session
    for name in change.over:
        book.sessions.pop(name, None)
        book.held.pop(name, None)


MOST_GIVINGS: Final = 50
"""How often a job is given to a pilot at most, if its last pilot was silent."""


def submit(book: Book, job: BinderJob) -> tuple[BinderJob, BinderChange]:
    """The job under the owner's key: the one that is there, or the new one.

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
    """A pilot registers for the first time, or after its last session was over."""
    return BinderChange(begun=(session,))


def hear(book: Book, name: str, now: float) -> BinderChange:
    """A pilot's heartbeat. Renews the lease, which is not stored; OVER if the session is over."""
    session = book.sessions.get(name)
    if session is None:
        return BinderChange(words=(BinderMessage(FrameKind.OVER, name),))
    return BinderChange(heard=(attrs.evolve(session, heard=max(now, session.heard)),))


def resume(book: Book, name: str, running: Mapping[str, int], now: float) -> BinderChange:
    """A pilot comes back, with the epochs of the jobs that it runs or whose end it still reports.

    A job that it was given and does not name never reached it, and is queued again. It must end
    the jobs that it names but no longer has.
    """
    greeting = hear(book, name, now)
    if not greeting.heard:
        return greeting
    jobs, words = [], []
    for id_ in sorted(book.held.get(name, ())):
        job = book.jobs[id_]
        if running.get(id_) != job.epoch:
            jobs.append(_give_back(job, "its pilot came back without it"))
        else:
            jobs.append(attrs.evolve(job, stage=JobStage.RUNNING))
    for id_, epoch in running.items():
        held = held_by(book, name, id_, epoch)
        if held is None or held.cancel:
            words.append(BinderMessage(FrameKind.KILL, name, id_, epoch))
    return attrs.evolve(greeting, jobs=tuple(jobs), words=tuple(words))


def give(book: Book, id_: str, name: str) -> BinderChange:
    """Gives a queued job to a pilot; does nothing if the job or the session is gone meanwhile.

    A pilot that shares an account among its jobs is then its owner's, and gets no other's jobs.
    """
    job, session = book.jobs.get(id_), book.sessions.get(name)
    if job is None or job.stage is not JobStage.QUEUED or session is None:
        return BinderChange()
    if not session.serves(job.owner):
        return BinderChange()
    free = not (session.owners or session.mixed)
    bound = (attrs.evolve(session, owners=job.owner),) if free else ()
    given = attrs.evolve(job, stage=JobStage.GIVEN, epoch=job.epoch + 1, session=name)
    word = BinderMessage(FrameKind.PAIRED, name, id_, given.epoch)
    return BinderChange(jobs=(given,), begun=bound, words=(word,))


def accepted(book: Book, name: str, id_: str, epoch: int) -> BinderChange:
    """A pilot has accepted a job. It must end one that is not its own, or that was cancelled.

    The pairing and the message that cancels it use two connections, and may arrive in either order.
    """
    job = held_by(book, name, id_, epoch)
    end = BinderChange(words=(BinderMessage(FrameKind.KILL, name, id_, epoch),))
    if job is None:
        return end
    now = BinderChange(jobs=(attrs.evolve(job, stage=JobStage.RUNNING),))
    return attrs.evolve(now, words=end.words) if job.cancel else now


def declined(
    book: Book, name: str, id_: str, epoch: int, reason: str, *, begun: bool = True
) -> BinderChange:  # fmt: skip
    """A pilot gives a job back: it does not run it, and has no process of it.

    Args:
        book: the jobs.
        name: the pilot's session.
        id_: the job.
        epoch: by which giving it had the job.
        reason: in words.
        begun: whether the job may have run. If not, another pilot may have it, also where its
            client waits for it.
    """
    job = held_by(book, name, id_, epoch)
    if job is None:
        return BinderChange()
    if begun or job.cancel:
        return BinderChange(jobs=(_give_back(job, reason),))
    return BinderChange(jobs=(attrs.evolve(job, stage=JobStage.QUEUED, reason=reason),))


def ended(book: Book, name: str, id_: str, epoch: int, result: str) -> BinderChange:
    """A pilot reports the end of a job. A late report of another epoch is only acknowledged."""
    job = held_by(book, name, id_, epoch)
    said = (BinderMessage(FrameKind.ACKNOWLEDGE, name, id_, epoch),)
    if job is None:
        return BinderChange(words=said)
    return BinderChange(jobs=(attrs.evolve(job, stage=JobStage.ENDED, result=result),), words=said)


def cancel(book: Book, id_: str, reason: str) -> BinderChange:
    """Ends a job: at once where no pilot has it, else when its pilot has said so."""
    job = book.jobs.get(id_)
    if job is None or not job.stage.open:
        return BinderChange()
    if job.stage is JobStage.QUEUED:
        return BinderChange(jobs=(attrs.evolve(job, stage=JobStage.CANCELLED, reason=reason),))
    wanted = attrs.evolve(job, cancel=True, reason=reason)
    return BinderChange(
        jobs=(wanted,), words=(BinderMessage(FrameKind.KILL, job.session, id_, job.epoch),)
    )


def leave(book: Book, name: str, reason: str) -> BinderChange:
    """A pilot says that it ends, and that nothing of its session runs any more."""
    if name not in book.sessions:
        return BinderChange()
    ids = sorted(book.held.get(name, ()))
    return BinderChange(jobs=tuple(_give_back(book.jobs[id_], reason) for id_ in ids), over=(name,))


def expire(book: Book, now: float, lease: float) -> BinderChange:
    """Ends the sessions of pilots that were silent for longer than a lease, with its margin.

    A job that was given ``MOST_GIVINGS`` times is then lost: it may be the cause.
    """
    late = [name for name, each in book.sessions.items() if now > each.heard + lease]
    words = tuple(BinderMessage(FrameKind.OVER, name) for name in late)
    jobs = tuple(
        _without_pilot(book.jobs[id_], f"its pilot was silent for {lease:g} s")
        for name in late
        for id_ in sorted(book.held.get(name, ()))
    )
    return BinderChange(jobs=jobs, over=tuple(late), words=words)


def restore(
    jobs: Iterable[BinderJob], sessions: Iterable[PilotSession], now: float
) -> tuple[Book, BinderChange]:
    """The book after a restart, from the stored rows, and the changes that the restart makes.

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
    """The job, where this session has it by this giving."""
    job = book.jobs.get(id_)
    if job is None or not job.stage.held or job.session != name or job.epoch != epoch:
        return None
    return job


def _without_pilot(job: BinderJob, reason: str) -> BinderJob:
    """The job whose pilot is gone."""
    if job.epoch < MOST_GIVINGS or not job.detached or job.cancel:
        return _give_back(job, reason)
    said = f"{reason}, and it was given {job.epoch} times: it may be what ends its pilots"
    return attrs.evolve(job, stage=JobStage.LOST, reason=said)


def _give_back(job: BinderJob, reason: str) -> BinderJob:
    """The job that no pilot runs any more, and that did not end."""
    if job.cancel:
        return attrs.evolve(job, stage=JobStage.CANCELLED)
    if not job.detached:
        return attrs.evolve(job, stage=JobStage.LOST, reason=reason)
    return attrs.evolve(job, stage=JobStage.QUEUED, reason=reason)


class OpenJobs:
    """Open jobs with their bytes, by the name of the client.

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
        """Enters a job, or its new size. ``asker`` names the running job that asked for it."""
        self._put(owner, id_, size)
        if asker:
            self._askers[id_] = asker
            self._put(asker, id_, size)

    def _put(self, name: str, id_: str, size: int) -> None:
        mine = self._of.setdefault(name, {})
        self._bytes[name] = self._bytes.get(name, 0) + size - mine.get(id_, 0)
        mine[id_] = size

    def leave(self, owner: str, id_: str) -> None:
        """Removes a job, if it is there."""
        for name in (owner, self._askers.pop(id_, "")):
            mine = self._of.get(name, {})
            self._bytes[name] = self._bytes.get(name, 0) - mine.pop(id_, 0)
            if not mine:
                self._of.pop(name, None)
                del self._bytes[name]

    def of(self, name: str) -> tuple[int, int]:
        """How many jobs somebody has open, and their bytes."""
        return len(self._of.get(name, ())), self._bytes.get(name, 0)

    def ids(self, name: str) -> Collection[str]:
        """The ids of the jobs that somebody has open."""
        return tuple(self._of.get(name, ()))

    def __len__(self) -> int:
        """How many have something open."""
        return len(self._of)
