"""The contract of a transfer as a pure function, :func:`step`, and the requests of its owner.

``step`` maps a record, an observation and a time to a new record and the actions that are due once
it is saved; it has no clock and does no I/O. :mod:`matchmaker.delegation.moves` has the table of
moves. Each action except the submission may be repeated without harm, so whoever looks next
continues the work of a killed process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import attrs

from matchmaker._limits import DELEGATION_LIMITS as LIMITS
from matchmaker.delegation.contact import SpoolMarks
from matchmaker.delegation.moves import MOVES, Observation, Situation, noticed
from matchmaker.delegation.record import (
    LIVE,
    Deadlines,
    JobState,
    JobStatus,
    NoAnswer,
    Phase,
    ReasonCode,
    Record,
)


class Act(StrEnum):
    """An action for a record; each may be repeated without harm, except ``park``."""

    PARK = "park"
    COMMIT = "commit"
    RELEASE = "release"
    CANCEL = "cancel"
    FORBID = "forbid"
    STOP = "stop"


@attrs.frozen(slots=True)
class Effect:
    """One thing to do: submit, commit, release or cancel a job, forbid its start, end its lease.

    ``remote_id`` and ``name`` say which job of the batch system. ``park`` is carried out by nobody
    but the writer of the row, since a submission is not repeated.
    """

    act: Act
    remote_id: str = ""
    name: str = ""
    seconds: float = 0.0


def _only_parked(s: Situation) -> tuple[Effect, ...]:
    """Of a job without leave to start one parked instance stays."""
    over = s.hold_ends and s.record.state in {_S.UNKNOWN, _S.PAUSED}
    stays = None if over or s.marks.forbidden else s.parked
    forbidden = s.marks_known and not s.marks.committed
    surely = [x for x in s.alive if x.phase is Phase.PARKED or forbidden]
    return cancels([x for x in surely if x is not stays and not s.foreign(x)])


def _let_start(s: Situation) -> tuple[Effect, ...]:
    if not s.marks_known:
        # A job that starts without the record of its commit ends at once, and costs an attempt.
        return ()
    if not s.marks.started:
        over = s.ended is not None and s.ended.phase is Phase.CANCELLED
        if s.gone or (over and not s.alive):
            return (Effect(Act.FORBID),)
    due: tuple[Effect, ...] = ()
    if not s.marks.committed:
        due = (Effect(Act.COMMIT, seconds=max(0.0, s.record.lease_until - s.now)),)
    if s.chosen is not None and s.chosen.phase is Phase.PARKED:
        due = (*due, Effect(Act.RELEASE, s.chosen.remote_id, s.chosen.name))
    return (*due, *cancels([x for x in s.alive if x is not s.chosen and x.phase is Phase.PARKED]))


def _end_it(s: Situation) -> tuple[Effect, ...]:
    due: tuple[Effect, ...] = ()
    if s.marks_known and not s.marks.forbidden and not s.marks.started:
        due = (Effect(Act.FORBID),)
    return (*due, *_stop(s), *_instances(s))


def _stop(s: Situation) -> tuple[Effect, ...]:
    """A payload that may go on somewhere loses its lease."""
    may_go_on = s.marks.started and s.marks.exit is None and not s.marks.stopped
    return (Effect(Act.STOP),) if may_go_on else ()


def _leftovers(s: Situation) -> tuple[Effect, ...]:
    """Instances that wait; one that runs is ending by itself."""
    return cancels([status for status in s.alive if status.phase is not Phase.RUNNING])


def _instances(s: Situation) -> tuple[Effect, ...]:
    return cancels([status for status in s.alive if not s.foreign(status)])


_S = JobState

_DUE: Final[Mapping[JobState, Callable[[Situation], tuple[Effect, ...]]]] = {
    _S.INTENT: lambda s: (), _S.UNKNOWN: _only_parked, _S.PAUSED: _only_parked,
    _S.PREPARED: _only_parked, _S.COMMITTED: _let_start,
    _S.RUNNING: lambda s: cancels([x for x in s.alive if x.phase is Phase.PARKED]),
    _S.CANCELLING: _end_it, _S.DONE: _leftovers, _S.FAILED: lambda s: (*_stop(s), *_leftovers(s)),
    _S.CANCELLED: _instances, _S.LOST: _instances, _S.ACKNOWLEDGED: _leftovers,
}  # fmt: skip

WAITS: Final[Mapping[JobState, str]] = {
    _S.INTENT: "the reply to its submission; without one, it is looked for by its name",
    _S.UNKNOWN: "a healthy answer of the batch system that shows it or proves it absent",
    _S.PAUSED: "its owner, who resumes or cancels it",
    _S.PREPARED: "being seen for long enough; then it is committed",
    _S.COMMITTED: "its start; if it is gone, its start is forbidden, and it is submitted again",
    _S.RUNNING: "the record of its end; if it is gone, its lease must run out",
    _S.CANCELLING: "proof that it can neither run nor start; the request is repeated",
}
"""What a live state waits for, and what comes next."""


def due(s: Situation) -> tuple[Effect, ...]:
    """Return the actions of the record's state, and those against leftovers of earlier attempts."""
    return (*_DUE[s.record.state](s), *cancels(s.outdated))


def cancels(statuses: list[JobStatus]) -> tuple[Effect, ...]:
    """The requests to end some jobs."""
    return tuple(Effect(Act.CANCEL, status.remote_id, status.name) for status in statuses)


DEFAULT: Final = Deadlines()


@attrs.frozen(slots=True)
class StepResult:
    """A record after a look, and its effects in order; a failure ends the order."""

    record: Record
    effects: tuple[Effect, ...] = ()


def _deadline(record: Record, now: float, deadlines: Deadlines) -> float | None:
    """Return the deadline of the record's state; None for a terminal one."""
    match record.state:
        case _S.INTENT:
            return min(now + deadlines.reply, record.lease_until)
        case _S.UNKNOWN:
            return min(now + deadlines.absent, record.lease_until)
        case _S.PAUSED:
            return record.lease_until
        case _S.PREPARED:
            return min(record.hold_until - deadlines.margin, record.lease_until)
        case _S.COMMITTED | _S.RUNNING:
            return record.lease_until
        case _S.CANCELLING:
            return now + deadlines.cancel
        case _:
            return None


def begin(
    key: str, now: float, deadlines: Deadlines = DEFAULT, *, lease: float | None = None,
    owner: str = "", cluster: str = "", digest: str = "", ledger: str = "", spool: str = "",
    from_start: bool = False,
) -> StepResult:  # fmt: skip
    """A new record, and the submission that is due once it is written down."""
    length = deadlines.lease if lease is None else lease
    record = Record(
        key=key, owner=owner, cluster=cluster, digest=digest, ledger=ledger, spool=spool,
        created=now, since=now,
        hold_until=now + deadlines.hold, lease=length, lease_until=now, from_start=from_start,
        retry_at=now + deadlines.pause(1),
    )  # fmt: skip
    record = attrs.evolve(record, lease_until=record.until(now, deadlines, length))
    record = attrs.evolve(record, deadline=_deadline(record, now, deadlines))
    return StepResult(record, (_park(record, deadlines),))


def _park(record: Record, deadlines: Deadlines) -> Effect:
    return Effect(Act.PARK, name=record.name, seconds=deadlines.hold)


def step(
    record: Record, seen: Observation, now: float, deadlines: Deadlines = DEFAULT
) -> StepResult:
    """Make one move at most: the record after an observation, and its effects.

    The effects may be carried out only by who wrote the record down, if it differs. A terminal
    record stays as it is.

    Args:
        record: the record as the ledger has it.
        seen: what one look shows of its key.
        now: the time, in seconds since 1970.
        deadlines: how long each step may take.

    >>> from matchmaker.delegation.record import NoAnswer
    >>> made = begin("k7", now=1000.0, digest="f00")
    >>> made.effects[0].act, made.effects[0].name
    (<Act.PARK: 'park'>, 'mm-k7-1')
    >>> there = step(made.record, Observation(queue=NoAnswer("asked later"), reply="17"), 1001.0)
    >>> str(there.record.state), there.record.remote_id
    ('prepared', '17')
    """
    record = noticed(record, seen, now, deadlines)
    before = Situation(record, seen, now, deadlines)
    for move in MOVES:
        if record.state in move.sources and move.holds(before):
            moved = attrs.evolve(
                record, state=move.target, since=now,
                **{"reason": "", "code": None, **move.changes(before)},
            )  # fmt: skip
            moved = attrs.evolve(
                moved,
                deadline=_deadline(moved, now, deadlines),
                reason=moved.reason[: LIMITS.reason],
            )
            if move.target is _S.INTENT:
                return StepResult(moved, (_park(moved, deadlines), *cancels(before.alive)))
            return StepResult(moved, due(Situation(moved, seen, now, deadlines)))
    if record.state in LIVE and (record.deadline is None or record.deadline <= now):
        record = attrs.evolve(record, deadline=_deadline(record, now, deadlines))
    return StepResult(record, due(Situation(record, seen, now, deadlines)))


def rebuilt(
    record: Record, marks: SpoolMarks | NoAnswer, before: JobState | None, now: float,
    deadlines: Deadlines = DEFAULT,
) -> Record:  # fmt: skip
    """Make a new record of an attempt whose row was lost, from its records in the spool.

    An ended attempt stays ended. One that may never start is paused: it is unknown whether it was
    to be submitted again or to end.

    Args:
        record: the row of the attempt as it began.
        marks: the records of the attempt in the spool.
        before: the last state in the log; None if it has none.
        now: the time, in seconds since 1970.
        deadlines: how long each step may take.
    """
    found = marks if isinstance(marks, SpoolMarks) else SpoolMarks()
    state, why = _S.UNKNOWN, "rebuilt"
    if before is not None and not before.live:
        state = before
    elif found.exit is not None:
        state, why = (_S.FAILED if found.exit else _S.DONE), f"rebuilt; exit status {found.exit}"
    elif found.forbidden:
        state, why = _S.PAUSED, "rebuilt; it never started"
    made = attrs.evolve(
        record, state=state, since=now, exit=found.exit, reason=why, code=ReasonCode.REBUILT
    )
    return attrs.evolve(made, deadline=_deadline(made, now, deadlines))


# --- what the owner does --------------------------------------------------------------------------


class NotPossibleError(ValueError):
    """The state of a job does not allow what its owner asks for; the message says why."""


def wish_end(record: Record) -> Record:
    """The record of a job that its owner wants ended.

    Raises NotPossibleError for one that has ended otherwise.
    """
    if not record.state.live and record.state is not _S.CANCELLED:
        raise NotPossibleError(f"{record.key} is {record.state} already")
    return attrs.evolve(record, cancel_wanted=True) if record.state.live else record


def renewed(
    record: Record, now: float, seconds: float | None = None, deadlines: Deadlines = DEFAULT
) -> Record:
    """The record with a lease from now on, of `seconds` or as long as before.

    Raises NotPossibleError for a job that has ended or is being ended, and for one that is absent
    from the batch system: its lease must run out before it can be called lost.
    """
    if record.state not in LIVE or record.state is _S.CANCELLING or record.cancel_wanted:
        raise NotPossibleError(f"{record.key} is {record.state}: there is no lease to renew")
    if record.absent_since is not None and record.state in {_S.COMMITTED, _S.RUNNING}:
        raise NotPossibleError(
            f"{record.key} is missing from {record.cluster}; its lease is not renewed before it is "
            f"seen again"
        )
    length = record.lease if seconds is None else seconds
    made = attrs.evolve(record, lease=length, lease_until=record.until(now, deadlines, length))
    ends_with_it = made.state in {_S.COMMITTED, _S.RUNNING}
    return attrs.evolve(made, deadline=made.lease_until) if ends_with_it else made


def resumed(record: Record, now: float, deadlines: Deadlines = DEFAULT) -> Record:
    """The record of a paused job that its owner wants submitted again, as often as at first.

    Raises NotPossibleError for a job that is not paused.
    """
    if record.state is not _S.PAUSED:
        raise NotPossibleError(f"{record.key} is {record.state}: only a paused job is resumed")
    made = attrs.evolve(
        record, state=_S.UNKNOWN, since=now, tries=0, retry_at=now, reason="resumed by its owner"
    )
    return attrs.evolve(made, deadline=_deadline(made, now, deadlines))


def acknowledged(record: Record, now: float) -> Record:
    """The record of a job whose result its owner took; once more changes nothing.

    Raises NotPossibleError for a job that has not ended.
    """
    if record.state is _S.ACKNOWLEDGED:
        return record
    if record.state in LIVE:
        raise NotPossibleError(f"{record.key} is {record.state}: there is no result to take yet")
    return attrs.evolve(record, state=_S.ACKNOWLEDGED, since=now, deadline=None)


def stuck(record: Record, now: float, deadlines: Deadlines = DEFAULT) -> str | None:
    """Say why a live record does not get on; None if it does."""
    if record.state not in LIVE:
        return None
    if record.state is _S.PAUSED:
        return f"{record.reason}; classad resume {record.key} submits it again"
    last = record.since if record.seen is None else max(record.seen, record.since)
    late = record.deadline is not None and record.deadline <= now
    if record.absent_since is not None:
        seen = f"missing from {record.cluster} for {now - record.absent_since:.0f} s"
    elif late or now - last > deadlines.silence:
        seen = f"not seen for {now - last:.0f} s"
    else:
        return None
    waits = WAITS[record.state]
    if record.state is _S.UNKNOWN and record.retry_at > now:
        waits = f"its next submission, in {record.retry_at - now:.0f} s, if it is proven absent"
    why = f"; {record.reason}" if record.reason else ""
    return f"{seen}; waits for {waits}{why}"
