"""The contract of a transfer as a pure function, :func:`step`, and what an owner may ask for.

It has no clock and carries nothing out: `step` maps a record, an observation and a time to a new
record and the effects that are due once that record is saved. It follows the table in
:mod:`matchmaker.delegation.moves`.
"""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker._limits import DELEGATION_LIMITS as LIMITS
from matchmaker.delegation.contact import Marks
from matchmaker.delegation.duties import WAITS, Act, Effect, cancels, due
from matchmaker.delegation.moves import MOVES
from matchmaker.delegation.observation import ReasonCode, Silence
from matchmaker.delegation.record import LIVE, Deadlines, Record, State
from matchmaker.delegation.situation import Observation, Situation, noticed

DEFAULT: Final = Deadlines()
_S = State


@attrs.frozen(slots=True)
class Step:
    """A record after a look, and what is due for it, in order; a failure ends the order."""

    record: Record
    effects: tuple[Effect, ...] = ()


def _deadline(record: Record, now: float, deadlines: Deadlines) -> float | None:
    """By when something must happen in the record's state; None where it is terminal."""
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
) -> Step:  # fmt: skip
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
    return Step(record, (_park(record, deadlines),))


def _park(record: Record, deadlines: Deadlines) -> Effect:
    return Effect(Act.PARK, name=record.name, seconds=deadlines.hold)


def step(record: Record, seen: Observation, now: float, deadlines: Deadlines = DEFAULT) -> Step:
    """One move at most: the record after an observation, and what is due for it.

    The effects may be carried out only by who wrote the record down, if it differs. A terminal
    record stays as it is.

    Args:
        record: the record as the ledger has it.
        seen: what one look shows of its key.
        now: the time, in seconds since 1970.
        deadlines: how long each step may take.

    >>> from matchmaker.delegation.observation import Silence
    >>> made = begin("k7", now=1000.0, digest="f00")
    >>> made.effects[0].act, made.effects[0].name
    (<Act.PARK: 'park'>, 'mm-k7-1')
    >>> there = step(made.record, Observation(queue=Silence("asked later"), reply="17"), 1001.0)
    >>> str(there.record.state), there.record.remote_id
    ('prepared', '17')
    """
    record = noticed(record, seen, now, deadlines)
    before = Situation(record, seen, now, deadlines)
    for move in MOVES:
        if record.state in move.sources and move.holds(before):
            moved = attrs.evolve(
                record,
                state=move.target,
                since=now,
                **{"reason": "", "code": None, **move.changes(before)},
            )
            moved = attrs.evolve(
                moved,
                deadline=_deadline(moved, now, deadlines),
                reason=moved.reason[: LIMITS.reason],
            )
            if move.target is _S.INTENT:
                return Step(moved, (_park(moved, deadlines), *cancels(before.alive)))
            return Step(moved, due(Situation(moved, seen, now, deadlines)))
    if record.state in LIVE and (record.deadline is None or record.deadline <= now):
        record = attrs.evolve(record, deadline=_deadline(record, now, deadlines))
    return Step(record, due(Situation(record, seen, now, deadlines)))


def rebuilt(
    record: Record, marks: Marks | Silence, before: State | None, now: float,
    deadlines: Deadlines = DEFAULT,
) -> Record:  # fmt: skip
    """A new record of an attempt whose row was lost, by what is on record of it.

    What ended stays ended. What may never start is paused: whether it was to be submitted again or
    to end, nobody knows any more.

    Args:
        record: the row of the attempt as it began.
        marks: what is on record of the attempt.
        before: the last state in the log; None if it has none.
        now: the time, in seconds since 1970.
        deadlines: how long each step may take.
    """
    found = marks if isinstance(marks, Marks) else Marks()
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
    """What a live record that does not get on waits for; None for one that does."""
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
