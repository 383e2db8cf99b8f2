"""What a binder keeps: jobs, the sessions of pilots, and the book that holds both.

How they change is in ``moves``, how they are stored in ``tables``. All times are seconds of the
binder's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import attrs

from matchmaker.pilots.wire.frames import FrameKind

_BYTES: Final = 500


class Stage(StrEnum):
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
        return self in {Stage.QUEUED, Stage.GIVEN, Stage.RUNNING}

    @property
    def held(self) -> bool:
        """Whether a pilot may be running the job."""
        return self in {Stage.GIVEN, Stage.RUNNING}


@attrs.frozen(slots=True, kw_only=True)
class Job:
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
    stage: Stage = Stage.QUEUED
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
class Session:
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

    jobs: dict[str, Job] = attrs.field(factory=dict)
    sessions: dict[str, Session] = attrs.field(factory=dict)
    held: dict[str, set[str]] = attrs.field(factory=dict)
    keys: dict[tuple[str, str], str] = attrs.field(factory=dict)

    def put(self, job: Job) -> None:
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
class Word:
    """Something to say to the pilot of a session; a job's epoch says which giving is meant.

    The kinds are ``PAIRED``, ``KILL``, ``ACKNOWLEDGE`` and ``OVER``. ``OVER`` means that the
    session is: the pilot ends all its jobs and greets anew.
    """

    kind: FrameKind
    session: str
    job: str = ""
    epoch: int = 0


@attrs.frozen(slots=True)
class Change:
    """What an event comes to: first the rows are stored, then the words are said.

    Attributes:
        jobs: as they are now.
        begun: sessions that are new, or have another owner.
        over: names of sessions that are over.
        heard: sessions that were heard from now, which is not stored.
        words: what pilots are to hear.
    """

    jobs: tuple[Job, ...] = ()
    begun: tuple[Session, ...] = ()
    over: tuple[str, ...] = ()
    heard: tuple[Session, ...] = ()
    words: tuple[Word, ...] = ()

    def __bool__(self) -> bool:
        return any(attrs.astuple(self, recurse=False))

    @property
    def stored(self) -> bool:
        """Whether any of it is to be stored."""
        return bool(self.jobs or self.begun or self.over)


def apply(book: Book, change: Change) -> None:
    """Enters a change in the book."""
    for job in change.jobs:
        book.put(job)
    for session in (*change.begun, *change.heard):
        book.sessions[session.name] = session
    for name in change.over:
        book.sessions.pop(name, None)
        book.held.pop(name, None)
