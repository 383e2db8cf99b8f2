"""How jobs and sessions change: a pure function for each event, which returns a Change.

A job is given to another pilot only after its pilot said that it does not run it, or was silent
for so long that it has ended its jobs by itself. A pilot ends them ``lease`` seconds after it sent
the last heartbeat that was answered, and the binder got that heartbeat no earlier. So no two
pilots run one job at once. ``states`` defines books and changes.

A pilot keeps these promises. Before it resumes a session, it closes all other connections of that
session, so that no pairing under way reaches it. It then names each job that runs, and each whose
end was not acknowledged. If a session is over, it ends all its jobs before it begins a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from matchmaker.pilots.binder.states import Book, Change, Job, Session, Stage, Word
from matchmaker.pilots.wire.frames import FrameKind

MOST_GIVINGS: Final = 50
"""How often a job is given to a pilot at most, if its last pilot was silent."""


def submit(book: Book, job: Job) -> tuple[Job, Change]:
    """The job under the owner's key: the one that is there, or the new one.

    >>> book = Book()
    >>> job, change = submit(book, Job(id="1", owner="ana", key="k", ad="[]"))
    >>> job.id, len(change.jobs)
    ('1', 1)
    """
    known = book.keys.get((job.owner, job.key))
    if known is not None:
        return book.jobs[known], Change()
    return job, Change(jobs=(job,))


def begin(session: Session) -> Change:
    """A pilot registers for the first time, or after its last session was over."""
    return Change(begun=(session,))


def hear(book: Book, name: str, now: float) -> Change:
    """A pilot's heartbeat. Renews the lease, which is not stored; OVER if the session is over."""
    session = book.sessions.get(name)
    if session is None:
        return Change(words=(Word(FrameKind.OVER, name),))
    return Change(heard=(attrs.evolve(session, heard=max(now, session.heard)),))


def resume(book: Book, name: str, running: Mapping[str, int], now: float) -> Change:
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
            jobs.append(_returned(job, "its pilot came back without it"))
        else:
            jobs.append(attrs.evolve(job, stage=Stage.RUNNING))
    for id_, epoch in running.items():
        held = held_by(book, name, id_, epoch)
        if held is None or held.cancel:
            words.append(Word(FrameKind.KILL, name, id_, epoch))
    return attrs.evolve(greeting, jobs=tuple(jobs), words=tuple(words))


def give(book: Book, id_: str, name: str) -> Change:
    """Gives a queued job to a pilot; does nothing if the job or the session is gone meanwhile.

    A pilot that shares an account among its jobs is then its owner's, and gets no other's jobs.
    """
    job, session = book.jobs.get(id_), book.sessions.get(name)
    if job is None or job.stage is not Stage.QUEUED or session is None:
        return Change()
    if not session.serves(job.owner):
        return Change()
    free = not (session.owners or session.mixed)
    bound = (attrs.evolve(session, owners=job.owner),) if free else ()
    given = attrs.evolve(job, stage=Stage.GIVEN, epoch=job.epoch + 1, session=name)
    word = Word(FrameKind.PAIRED, name, id_, given.epoch)
    return Change(jobs=(given,), begun=bound, words=(word,))


def accepted(book: Book, name: str, id_: str, epoch: int) -> Change:
    """A pilot has accepted a job. It must end one that is not its own, or that was cancelled.

    The pairing and the message that cancels it use two connections, and may arrive in either order.
    """
    job = held_by(book, name, id_, epoch)
    end = Change(words=(Word(FrameKind.KILL, name, id_, epoch),))
    if job is None:
        return end
    now = Change(jobs=(attrs.evolve(job, stage=Stage.RUNNING),))
    return attrs.evolve(now, words=end.words) if job.cancel else now


def declined(
    book: Book, name: str, id_: str, epoch: int, reason: str, *, begun: bool = True
) -> Change:  # fmt: skip
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
        return Change()
    if begun or job.cancel:
        return Change(jobs=(_returned(job, reason),))
    return Change(jobs=(attrs.evolve(job, stage=Stage.QUEUED, reason=reason),))


def ended(book: Book, name: str, id_: str, epoch: int, result: str) -> Change:
    """A pilot reports the end of a job. A late report of another epoch is only acknowledged."""
    job = held_by(book, name, id_, epoch)
    said = (Word(FrameKind.ACKNOWLEDGE, name, id_, epoch),)
    if job is None:
        return Change(words=said)
    return Change(jobs=(attrs.evolve(job, stage=Stage.ENDED, result=result),), words=said)


def cancel(book: Book, id_: str, reason: str) -> Change:
    """Ends a job: at once where no pilot has it, else when its pilot has said so."""
    job = book.jobs.get(id_)
    if job is None or not job.stage.open:
        return Change()
    if job.stage is Stage.QUEUED:
        return Change(jobs=(attrs.evolve(job, stage=Stage.CANCELLED, reason=reason),))
    wanted = attrs.evolve(job, cancel=True, reason=reason)
    return Change(jobs=(wanted,), words=(Word(FrameKind.KILL, job.session, id_, job.epoch),))


def leave(book: Book, name: str, reason: str) -> Change:
    """A pilot says that it ends, and that nothing of its session runs any more."""
    if name not in book.sessions:
        return Change()
    ids = sorted(book.held.get(name, ()))
    return Change(jobs=tuple(_returned(book.jobs[id_], reason) for id_ in ids), over=(name,))


def expire(book: Book, now: float, lease: float) -> Change:
    """Ends the sessions of pilots that were silent for longer than a lease, with its margin.

    A job that was given ``MOST_GIVINGS`` times is then lost: it may be the cause.
    """
    late = [name for name, each in book.sessions.items() if now > each.heard + lease]
    words = tuple(Word(FrameKind.OVER, name) for name in late)
    jobs = tuple(
        _orphaned(book.jobs[id_], f"its pilot was silent for {lease:g} s")
        for name in late
        for id_ in sorted(book.held.get(name, ()))
    )
    return Change(jobs=jobs, over=tuple(late), words=words)


def restored(jobs: Iterable[Job], sessions: Iterable[Session], now: float) -> tuple[Book, Change]:
    """The book after a restart, from the stored rows, and the changes that the restart makes.

    Every pilot has a whole lease to come back. Jobs whose client was connected are lost.
    """
    book, lost = Book(), []
    for session in sessions:
        book.sessions[session.name] = attrs.evolve(session, heard=now)
    for job in jobs:
        book.put(job)
        if job.stage.open and not job.detached:
            lost.append(attrs.evolve(job, stage=Stage.LOST, reason="the binder was restarted"))
        elif job.stage.held and job.session not in book.sessions:
            lost.append(_returned(job, "its pilot's session was over"))
    change = Change(jobs=tuple(lost))
    return book, change


def held_by(book: Book, name: str, id_: str, epoch: int) -> Job | None:
    """The job, where this session has it by this giving."""
    job = book.jobs.get(id_)
    if job is None or not job.stage.held or job.session != name or job.epoch != epoch:
        return None
    return job


def _orphaned(job: Job, reason: str) -> Job:
    """The job whose pilot is gone."""
    if job.epoch < MOST_GIVINGS or not job.detached or job.cancel:
        return _returned(job, reason)
    said = f"{reason}, and it was given {job.epoch} times: it may be what ends its pilots"
    return attrs.evolve(job, stage=Stage.LOST, reason=said)


def _returned(job: Job, reason: str) -> Job:
    """The job that no pilot runs any more, and that did not end."""
    if job.cancel:
        return attrs.evolve(job, stage=Stage.CANCELLED)
    if not job.detached:
        return attrs.evolve(job, stage=Stage.LOST, reason=reason)
    return attrs.evolve(job, stage=Stage.QUEUED, reason=reason)
