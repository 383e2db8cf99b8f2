"""Read an observation of a job, and look up the move that it causes in the table of moves.

An error is not absence, and absence is not completion: a :class:`Situation` keeps them apart. The
moves are two phases with presumed abort: a job is submitted so that it cannot start, and a job that
is not committed in time never starts. :mod:`matchmaker.delegation.states` follows the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

import attrs

from matchmaker.delegation.contact import SpoolMarks
from matchmaker.delegation.record import (
    Deadlines,
    JobState,
    JobStatus,
    NoAnswer,
    Phase,
    ReasonCode,
    Record,
    Refused,
    job_name,
)

_ALIVE = frozenset({Phase.PARKED, Phase.WAITING, Phase.RUNNING})
_UNCOMMITTED = frozenset({JobState.INTENT, JobState.UNKNOWN, JobState.PAUSED, JobState.PREPARED})

BY_SIGNAL = 128
"""Exit statuses above this are of a payload that a signal ended."""

# A batch system rounds the time of submission to seconds.
_SAME_SECONDS = 1.5


NOT_ASKED: Final = NoAnswer("not asked")
"""The answer of whoever was not asked: it shows nothing."""


@attrs.frozen(slots=True, kw_only=True)
class Observation:
    """A key as one look shows it.

    Attributes:
        queue: the jobs of the key in the queue, of every attempt; or no answer.
        accounting: those in the accounting; None if it was not asked.
        marks: the records of the attempt in the spool; or no answer.
        reply: the reply to a submission; None without one.
    """

    queue: tuple[JobStatus, ...] | NoAnswer
    accounting: tuple[JobStatus, ...] | NoAnswer | None = None
    marks: SpoolMarks | NoAnswer = NOT_ASKED
    reply: str | Refused | NoAnswer | None = None


def _order(status: JobStatus) -> tuple[int, int, str]:
    """Ids in order: numbers by size, other ids by their text."""
    number = (
        int(status.remote_id) if status.remote_id.isascii() and status.remote_id.isdigit() else 0
    )
    return (len(status.remote_id) if not number else 0, number, status.remote_id)


@attrs.frozen(slots=False)
class Situation:
    """A record, an observation of it, and the time."""

    record: Record
    seen: Observation
    now: float
    deadlines: Deadlines

    @cached_property
    def alive(self) -> list[JobStatus]:
        """The jobs of this attempt in the queue that have not ended, the lowest id first."""
        if isinstance(self.seen.queue, NoAnswer):
            return []
        name = self.record.name
        return sorted((s for s in self.seen.queue if s.name == name and s.phase in _ALIVE),
                      key=_order)  # fmt: skip

    @property
    def chosen(self) -> JobStatus | None:
        """The living job that the record means: of the id it names, else the lowest."""
        mine = [status for status in self.alive if status.remote_id == self.record.remote_id]
        return next(iter(mine or self.alive), None)

    @property
    def parked(self) -> JobStatus | None:
        """The job that cannot start yet: of the id that the record names, else the lowest."""
        held = [status for status in self.alive if status.phase is Phase.PARKED]
        mine = [status for status in held if status.remote_id == self.record.remote_id]
        return next(iter(mine or held), None)

    def foreign(self, status: JobStatus) -> bool:
        """Whether it runs, and the records say that it was not submitted or started here.

        Another ledger may use the key. One of ours that runs without a start ends by itself.
        """
        mine = status.remote_id == self.record.remote_id
        unexplained = self.marks_known and not self.marks.started
        return status.phase is Phase.RUNNING and unexplained and not mine

    @property
    def outdated(self) -> list[JobStatus]:
        """Living jobs of earlier attempts, none of which may start any more."""
        if isinstance(self.seen.queue, NoAnswer):
            return []
        key, attempt = self.record.key, self.record.attempt
        earlier = {job_name(key, number) for number in range(1, attempt)}
        return [s for s in self.seen.queue if s.phase in _ALIVE and s.name in earlier]

    @property
    def absent(self) -> bool:
        """Whether queue and accounting both answered, and the queue has no living job of it."""
        answered = isinstance(self.seen.queue, tuple) and isinstance(self.seen.accounting, tuple)
        return answered and not self.alive

    @property
    def unlisted(self) -> bool:
        """Whether a healthy answer of the queue has no living job of it, of any attempt."""
        mine = [status for status in self.alive if not self.foreign(status)]
        return isinstance(self.seen.queue, tuple) and not mine and not self.outdated

    @property
    def gone(self) -> bool:
        """Whether it has been absent long enough, and still is."""
        since = self.record.absent_since
        return self.absent and since is not None and self.now - since >= self.deadlines.absent

    @property
    def ended(self) -> JobStatus | None:
        """The job that the record means, if queue or accounting show it as ended."""
        for place in (self.seen.queue, self.seen.accounting):
            for status in place if isinstance(place, tuple) else ():
                if (
                    status.phase not in _ALIVE
                    and status.name == self.record.name
                    and status.remote_id == self.record.remote_id
                    and _same_time(status.submitted, self.record.remote_submitted)
                ):
                    return status
        return None

    @property
    def marks(self) -> SpoolMarks:
        """The records of the attempt; empty ones if they were not read."""
        return self.seen.marks if isinstance(self.seen.marks, SpoolMarks) else SpoolMarks()

    @property
    def marks_known(self) -> bool:
        """Whether the records of the attempt were read."""
        return isinstance(self.seen.marks, SpoolMarks)

    @property
    def unexplained(self) -> bool:
        """Whether a signal ended the payload, and the batch system has not said why yet."""
        silent = isinstance(self.seen.queue, NoAnswer) or isinstance(self.seen.accounting, NoAnswer)
        by_signal = self.marks.exit is not None and self.marks.exit > BY_SIGNAL
        return by_signal and (silent or self.chosen is not None)

    @property
    def hold_ends(self) -> bool:
        """Whether the hold of the submitted job is over, or too near its end for a commit."""
        return self.now >= self.record.hold_until - self.deadlines.margin

    @property
    def spent(self) -> bool:
        """Whether no payload of it can be running any more, by its lease.

        A job that has left the queue cannot start, so a lease that begins with the start is over
        after its length from then.
        """
        since = self.record.absent_since
        if self.lease_over or since is None or not self.record.from_start:
            return self.lease_over
        return self.gone and self.now >= since + self.record.lease

    @property
    def lease_over(self) -> bool:
        """Whether the owner has been silent for longer than the lease."""
        return self.now >= self.record.lease_until or self.marks.over


def _same_time(one: float | None, other: float | None) -> bool:
    return one is None or other is None or abs(one - other) <= _SAME_SECONDS


def noticed(record: Record, seen: Observation, now: float, deadlines: Deadlines) -> Record:
    """Return the record with the facts of a look, in the same state.

    Moments that lie ahead, after a clock went back, are now. ``seen`` is written only now and then,
    so that a look at ten thousand jobs that goes well writes nothing.
    """
    record = _at(record, now, deadlines)
    situation = Situation(record, seen, now, deadlines)
    changes: dict[str, object] = {}
    chosen = situation.chosen
    if chosen is not None:
        if record.absent_since is not None:
            changes["absent_since"] = None
        if record.seen is None or now - record.seen > deadlines.silence / 3:
            changes["seen"] = now
        other = chosen.remote_id != record.remote_id
        if record.state not in _UNCOMMITTED and other and not situation.foreign(chosen):
            changes.update(remote_id=chosen.remote_id, remote_submitted=chosen.submitted)
        elif chosen.remote_id == record.remote_id and record.remote_submitted is None:
            changes["remote_submitted"] = chosen.submitted
        changes = {n: v for n, v in changes.items() if getattr(record, n) != v}
    elif situation.absent and record.absent_since is None:
        changes["absent_since"] = now
    if record.state.live and record.from_start and record.started is None:
        changes.update(_begun(record, situation, now))
    soon = now + deadlines.cancel
    if situation.unexplained and record.deadline is not None and record.deadline > soon:
        # By then the batch system should say why it ended the payload.
        changes["deadline"] = soon
    return attrs.evolve(record, **changes) if changes else record  # type: ignore[arg-type]


def _begun(record: Record, situation: Situation, now: float) -> dict[str, object]:
    """The lease that begins with the start, which is seen now."""
    if not situation.marks.started:
        return {}
    until = min(now + record.lease, record.lease_until)
    ends_with_it = record.state in {JobState.COMMITTED, JobState.RUNNING}
    return {
        "started": now, "lease_until": until,
        "deadline": until if ends_with_it else record.deadline,
    }  # fmt: skip


def _at(record: Record, now: float, deadlines: Deadlines) -> Record:
    """The record by a clock that may have gone back since it was written."""
    if record.since <= now and (record.absent_since or now) <= now and (record.seen or now) <= now:
        return record
    back = max(record.since, record.absent_since or now, record.seen or now) - now
    return attrs.evolve(
        record, since=min(record.since, now),
        seen=None if record.seen is None else min(record.seen, now),
        absent_since=None if record.absent_since is None else min(record.absent_since, now),
        hold_until=record.hold_until - back, retry_at=record.retry_at - back,
        deadline=None if record.deadline is None else record.deadline - back,
        started=None if record.started is None else min(record.started, now),
        lease_until=min(record.lease_until, record.until(now, deadlines, record.lease)),
    )  # fmt: skip


_Changes = Mapping[str, Any]
_S = JobState


@attrs.frozen(slots=True)
class Move:
    """A row of the table: from some states to one, when something holds, with what changes."""

    sources: tuple[JobState, ...]
    target: JobState
    when: str
    holds: Callable[[Situation], bool]
    changes: Callable[[Situation], _Changes] = lambda _: {}


# --- what holds -----------------------------------------------------------------------------------


def _end_wanted(s: Situation) -> bool:
    return s.record.cancel_wanted or s.lease_over


def _why_end(s: Situation) -> _Changes:
    if s.record.cancel_wanted:
        return {"reason": "its owner wants it ended", "code": ReasonCode.OWNER}
    return {"reason": "its lease ran out", "code": ReasonCode.LEASE}


def _found_id(s: Situation) -> str:
    """The id of a parked job while it may still start: by the reply, else by its name; or empty."""
    if s.hold_ends or s.marks.forbidden:
        return ""
    if isinstance(s.seen.reply, str):
        return s.seen.reply
    return s.parked.remote_id if s.parked is not None else ""


def _adopted(s: Situation) -> _Changes:
    status = s.parked
    known = status is not None and status.remote_id == _found_id(s)
    return {
        "remote_id": _found_id(s),
        "remote_submitted": status.submitted if known and status is not None else None,
        "absent_since": None,
        "reason": "",
    }


def _has_leave(s: Situation) -> bool:
    return s.marks.committed and not s.marks.forbidden


def _with_leave(s: Situation) -> _Changes:
    return {"remote_id": s.record.remote_id or (s.chosen.remote_id if s.chosen else "")}


def _no_reply(s: Situation) -> bool:
    late = s.record.deadline is not None and s.now >= s.record.deadline
    return s.seen.reply is not None or late


def _what_was_said(s: Situation) -> _Changes:
    said = s.seen.reply.reason if isinstance(s.seen.reply, NoAnswer) else "no reply in time"
    return {"reason": said, "code": ReasonCode.NO_ANSWER}


def _refusal(s: Situation) -> _Changes:
    said = s.seen.reply.reason if isinstance(s.seen.reply, Refused) else ""
    return {"reason": said, "code": ReasonCode.REFUSED}


def _never_starts(s: Situation) -> bool:
    """Whether the attempt can start no more: it is forbidden, or gone without leave to start."""
    if s.marks.forbidden:
        return True
    known = s.record.state is _S.UNKNOWN and s.marks_known
    return s.gone and known and not s.marks.started and not s.marks.committed


def _try_again(s: Situation) -> bool:
    due = s.record.tries < s.deadlines.attempts and s.now >= s.record.retry_at
    return due and _never_starts(s)


def _why_again(s: Situation) -> _Changes:
    if s.ended is not None and s.ended.phase is not Phase.CANCELLED:
        why = (
            f"its job ended with status {s.ended.exit} and without a record of its start: "
            f"is the spool shared with the nodes?"
        )
        return {"reason": why, "code": ReasonCode.NOT_STARTED}
    reason = s.record.reason or "it was gone before its start"
    return {"reason": reason, "code": s.record.code or ReasonCode.NOT_STARTED}


def _again(s: Situation) -> _Changes:
    return {
        "attempt": s.record.attempt + 1, "tries": s.record.tries + 1,
        "retry_at": s.now + s.deadlines.pause(s.record.tries + 1), "remote_id": "",
        "remote_submitted": None, "absent_since": None, "seen": None, "started": None,
        "hold_until": s.now + s.deadlines.hold, **_why_again(s),
    }  # fmt: skip


def _no_more(s: Situation) -> _Changes:
    why = _why_again(s)
    times = f"{s.record.tries} times" if s.record.tries > 1 else "once"
    return {**why, "reason": f"submitted {times}, and it never started: {why['reason']}"}


def _settled(s: Situation) -> bool:
    """Whether it was seen parked, alone, long enough after the reply, with its hold still ahead."""
    status = s.parked
    return (
        status is not None
        and len(s.alive) == 1
        and status.remote_id == s.record.remote_id
        and s.now - s.record.since >= s.deadlines.settle
        and s.marks_known
    )


def _unparked(s: Situation) -> bool:
    """Whether it left the hold with no leave to start, or another one stands in its place."""
    status = s.chosen
    return s.gone or (
        status is not None
        and (status.phase is not Phase.PARKED or status.remote_id != s.record.remote_id)
    )


def _exit_of(s: Situation) -> int | None:
    """The exit status: by the record of the end, else by the batch system, if that may say."""
    if s.marks.exit is not None:
        return s.marks.exit
    status = s.ended
    if status is None or status.phase is not Phase.ENDED:
        return None
    started = s.marks.started and s.gone
    return status.exit if started else None


def _broken(s: Situation) -> bool:
    """Whether it ended otherwise: a status, or the batch system's word that it is over."""
    code = _exit_of(s)
    if code is not None:
        undecided = s.unexplained and s.now < (s.record.deadline or s.now)
        return code != 0 and not undecided and not _end_wanted(s)
    over = s.ended is not None and s.gone
    if s.ended is not None and s.ended.phase is Phase.CANCELLED and s.marks.forbidden:
        return True
    return over and s.marks.started


def _how_it_broke(s: Situation) -> _Changes:
    code = _exit_of(s)
    status = s.ended
    by_system = status is not None and status.phase is Phase.CANCELLED
    why = (status.code or ReasonCode.CANCELLED) if status is not None and by_system else None
    said = status.why if status is not None and status.why else "no exit status is known"
    if code is None:
        how = "the batch system ended it" if by_system else "it ended"
        return {"reason": f"{how}: {said}", "code": why or ReasonCode.EXIT_STATUS}
    plain = ReasonCode.SIGNAL if code > BY_SIGNAL else ReasonCode.EXIT_STATUS
    ended = f"; the batch system ended it: {said}" if by_system else ""
    return {"exit": code, "reason": f"exit status {code}{ended}", "code": why or plain}


def _vanished(s: Situation) -> bool:
    """Whether it is proven absent, and its lease is over, which stops a payload we cannot see."""
    # Where the records give no answer, they may have its end.
    may_run = s.marks.started
    told = s.marks.forbidden or s.marks.exit is not None or s.ended is not None
    return s.gone and s.lease_over and may_run and not told


def _stopped(s: Situation) -> bool:
    """Whether a job that is being ended can neither run nor start, and is in the queue no more."""
    if s.marks.exit is not None:
        return True
    if s.marks.forbidden:
        return s.unlisted
    never = s.marks_known and not s.marks.committed and not s.marks.started
    # On a node that is lost it goes on until its lease is over, whatever the batch system says.
    ended = s.marks.started and s.ended is not None and s.marks.stopped
    return s.gone and (never or s.spent or ended)


def _how_it_stopped(s: Situation) -> _Changes:
    why = s.record.reason
    if s.marks.forbidden:
        why = f"{why}; it never started"
    return {"exit": s.marks.exit, "reason": why, "code": s.record.code}


# --- the table ------------------------------------------------------------------------------------

MOVES: Final = (
    Move((_S.COMMITTED, _S.RUNNING, _S.CANCELLING), _S.DONE,
         "the record of its end, or the queue, says exit status 0", lambda s: _exit_of(s) == 0,
         lambda s: {"exit": 0, "reason": ""}),
    Move((_S.COMMITTED, _S.RUNNING), _S.FAILED,
         "it ended with another exit status, or was ended by the batch system", _broken,
         _how_it_broke),
    Move((_S.COMMITTED, _S.RUNNING), _S.LOST,
         "it is proven absent, nothing says how it ended, and its lease ran out", _vanished,
         lambda s: {"reason": "gone from the batch system, with no record of its end",
                    "code": ReasonCode.LOST}),
    Move((_S.CANCELLING,), _S.CANCELLED,
         "it can neither run nor start any more, and the queue has no job of it", _stopped,
         _how_it_stopped),
    Move((_S.INTENT, _S.UNKNOWN, _S.PAUSED, _S.PREPARED, _S.COMMITTED, _S.RUNNING), _S.CANCELLING,
         "its owner wants it ended, or its lease ran out", _end_wanted, _why_end),
    Move((_S.INTENT, _S.UNKNOWN, _S.PAUSED, _S.PREPARED), _S.COMMITTED,
         "the record of its commit exists, but the ledger does not say so", _has_leave,
         _with_leave),
    Move((_S.INTENT, _S.UNKNOWN), _S.FAILED,
         "the batch system refused it, and would refuse the same again",
         lambda s: isinstance(s.seen.reply, Refused), _refusal),
    Move((_S.UNKNOWN, _S.PREPARED, _S.COMMITTED), _S.INTENT,
         "it never started and cannot start: submitted again as the next attempt, when that is due",
         _try_again, _again),
    Move((_S.UNKNOWN, _S.PREPARED, _S.COMMITTED), _S.PAUSED,
         "it never started and cannot start, and was submitted as often as it may be",
         lambda s: s.record.tries >= s.deadlines.attempts and _never_starts(s), _no_more),
    Move((_S.INTENT, _S.UNKNOWN, _S.PAUSED), _S.PREPARED,
         "the batch system gave an id, or has a parked job of its name",
         lambda s: bool(_found_id(s)), _adopted),
    Move((_S.INTENT,), _S.UNKNOWN,
         "any other reply, or none in time", _no_reply, _what_was_said),
    Move((_S.PREPARED,), _S.UNKNOWN,
         "it is gone or no longer parked, or its hold is about to end",
         lambda s: _unparked(s) or s.hold_ends,
         lambda s: {"reason": "it was gone, or its hold ended, before the commit",
                    "code": ReasonCode.NOT_STARTED}),
    Move((_S.PREPARED,), _S.COMMITTED,
         "it was seen parked for long enough after the reply", _settled),
    Move((_S.COMMITTED,), _S.RUNNING, "there is a record of its start", lambda s: s.marks.started),
)  # fmt: skip
"""Every move that an observation can cause; of several the first counts."""

BY_OWNER: Final = (
    (_S.PAUSED, _S.UNKNOWN), (_S.DONE, _S.ACKNOWLEDGED), (_S.FAILED, _S.ACKNOWLEDGED),
    (_S.CANCELLED, _S.ACKNOWLEDGED), (_S.LOST, _S.ACKNOWLEDGED),
)  # fmt: skip
"""The moves that the owner makes: by resuming the job, and by taking the result."""
