"""The contract of a transfer as a table of moves, and :func:`step`, which follows it.

Two phases with presumed abort: a job is submitted so that it cannot start, and what is not
committed in time never starts. A move says when it holds and what changes; a state says what is to
be done while it lasts. There is no clock here and nothing is carried out: `step` maps a record, an
observation and a time to a new record and the effects that are due once it is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from matchmaker.delegation.observation import Phase, Sight, Silence
from matchmaker.delegation.record import LIVE, Deadlines, Record, State
from matchmaker.delegation.situation import Observation, Situation, noticed

DEFAULT: Final = Deadlines()


class Act(StrEnum):
    """What can be done for a record; each may be done again without harm, ``park`` excepted."""

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


@attrs.frozen(slots=True)
class Step:
    """A record after a look, and what is due for it, in order; a failure ends the order."""

    record: Record
    effects: tuple[Effect, ...] = ()


_Changes = Mapping[str, Any]


def _nothing(_: Situation) -> _Changes:
    return {}


@attrs.frozen(slots=True)
class Move:
    """A row of the table: from some states to one, when something holds, with what changes."""

    sources: tuple[State, ...]
    target: State
    when: str
    holds: Callable[[Situation], bool]
    changes: Callable[[Situation], _Changes] = _nothing


# --- what holds -----------------------------------------------------------------------------------


def _end_wanted(s: Situation) -> bool:
    return s.record.cancel_wanted or s.lease_over


def _why_end(s: Situation) -> _Changes:
    return {"reason": "its owner wants it ended" if s.record.cancel_wanted else "its lease ran out"}


def _found_id(s: Situation) -> str:
    """The id of a parked job: by the reply, else by its name."""
    if isinstance(s.seen.reply, str):
        return s.seen.reply
    return s.parked.remote_id if s.parked is not None else ""


def _adopted(s: Situation) -> _Changes:
    sight = s.parked
    known = sight is not None and sight.remote_id == _found_id(s)
    return {
        "remote_id": _found_id(s),
        "remote_submitted": sight.submitted if known and sight is not None else None,
        "absent_since": None,
        "reason": "",
    }


def _has_leave(s: Situation) -> bool:
    """Whether there is a record of its commit, or without such records it may start."""
    free = s.unfenced and s.chosen is not None and s.chosen.phase is not Phase.PARKED
    return free or (s.marks.committed and not s.marks.forbidden)


def _no_reply(s: Situation) -> bool:
    late = s.record.deadline is not None and s.now >= s.record.deadline
    return isinstance(s.seen.reply, Silence) or late


def _what_was_said(s: Situation) -> _Changes:
    said = s.seen.reply.reason if isinstance(s.seen.reply, Silence) else "no reply in time"
    return {"reason": said}


def _never_started(s: Situation) -> bool:
    """Whether the attempt is gone, and there is no record of its start or of leave to start."""
    known = s.fenced or s.unfenced
    return s.gone and known and not s.marks.started and not s.marks.committed


def _may_try_again(s: Situation) -> bool:
    return s.record.attempt < s.deadlines.attempts and bool(s.record.digest)


def _why_again(s: Situation) -> str:
    if s.ended is None or s.ended.phase is Phase.CANCELLED:
        return s.record.reason
    return (
        f"its job ended with status {s.ended.exit} and without a record of its start: "
        f"is the spool shared with the nodes?"
    )


def _again(s: Situation) -> _Changes:
    return {
        "attempt": s.record.attempt + 1,
        "remote_id": "",
        "remote_submitted": None,
        "absent_since": None,
        "seen": None,
        "hold_until": s.now + s.deadlines.hold,
        "reason": _why_again(s),
    }


def _no_more(s: Situation) -> _Changes:
    if not s.record.digest:
        return {"reason": "it never started, and the ledger was rebuilt without its description"}
    why = _why_again(s)
    last = f": {why}" if why else ""
    return {"reason": f"submitted {s.record.attempt} times, and it never started{last}"}


def _settled(s: Situation) -> bool:
    """Whether it was seen parked, alone, long enough after the reply, with its hold still ahead."""
    sight = s.parked
    return (
        sight is not None
        and len(s.alive) == 1
        and sight.remote_id == s.record.remote_id
        and s.now - s.record.since >= s.deadlines.settle
        and (s.fenced or s.unfenced)
    )


def _hold_ends(s: Situation) -> bool:
    return s.now >= s.record.hold_until - s.deadlines.margin


def _unparked(s: Situation) -> bool:
    """Whether it left the hold with no leave to start, or another one stands in its place."""
    sight = s.chosen
    return s.gone or (
        sight is not None
        and (sight.phase is not Phase.PARKED or sight.remote_id != s.record.remote_id)
    )


def _exit_of(s: Situation) -> int | None:
    """The exit status: by the record of the end, else by the batch system, if that may say."""
    if s.marks.exit is not None:
        return s.marks.exit
    sight = s.ended
    if sight is None or sight.phase is not Phase.ENDED:
        return None
    started = s.unfenced or (s.marks.started and s.gone)
    return sight.exit if started else None


def _succeeded(s: Situation) -> bool:
    return _exit_of(s) == 0


def _broken(s: Situation) -> bool:
    """Whether it ended otherwise: a status, or the batch system's word that it is over."""
    code = _exit_of(s)
    if code is not None:
        return code != 0
    over = s.ended is not None and s.gone
    if s.ended is not None and s.ended.phase is Phase.CANCELLED and s.marks.forbidden:
        return True
    return over and (s.unfenced or s.marks.started)


def _how_it_broke(s: Situation) -> _Changes:
    code = _exit_of(s)
    if code is not None:
        return {"exit": code, "reason": f"exit status {code}"}
    sight = s.ended
    said = sight.why if sight is not None and sight.why else "no exit status is known"
    how = "the batch system ended it" if sight and sight.phase is Phase.CANCELLED else "it ended"
    return {"reason": f"{how}: {said}"}


def _vanished(s: Situation) -> bool:
    """Whether it is proven absent, and its lease is over, which stops a payload we cannot see."""
    may_run = not s.fenced or s.marks.started
    return s.gone and s.lease_over and may_run and not s.marks.forbidden and s.ended is None


def _payload_runs(s: Situation) -> bool:
    sight = s.chosen
    return s.marks.started or (s.unfenced and sight is not None and sight.phase is Phase.RUNNING)


def _stopped(s: Situation) -> bool:
    """Whether a job that is being ended can neither run nor start any more."""
    if s.marks.forbidden or s.marks.exit is not None:
        return True
    if s.unfenced:
        return s.gone
    over = s.lease_over or (s.marks.started and s.ended is not None)
    return s.gone and over


def _how_it_stopped(s: Situation) -> _Changes:
    why = s.record.reason
    if s.marks.forbidden:
        why = f"{why}; it never started"
    return {"exit": s.marks.exit, "reason": why}


# --- the table ------------------------------------------------------------------------------------

_S = State

MOVES: Final = (
    Move((_S.COMMITTED, _S.RUNNING, _S.CANCELLING), _S.DONE,
         "the record of its end, or the queue, says exit status 0", _succeeded,
         lambda s: {"exit": 0, "reason": ""}),
    Move((_S.COMMITTED, _S.RUNNING), _S.FAILED,
         "it ended with another exit status, or was ended by the batch system", _broken,
         _how_it_broke),
    Move((_S.COMMITTED, _S.RUNNING), _S.LOST,
         "it is proven absent, nothing says how it ended, and its lease ran out", _vanished,
         lambda s: {"reason": "gone from the batch system, with no record of its end"}),
    Move((_S.CANCELLING,), _S.CANCELLED,
         "it can neither run nor start any more", _stopped, _how_it_stopped),
    Move((_S.INTENT, _S.UNKNOWN, _S.PREPARED, _S.COMMITTED, _S.RUNNING), _S.CANCELLING,
         "its owner wants it ended, or its lease ran out", _end_wanted, _why_end),
    Move((_S.INTENT, _S.UNKNOWN, _S.PREPARED), _S.COMMITTED,
         "it has leave to start already, though the ledger does not know", _has_leave,
         lambda s: {"remote_id": s.record.remote_id or (s.chosen.remote_id if s.chosen else "")}),
    Move((_S.INTENT, _S.UNKNOWN), _S.PREPARED,
         "the batch system gave an id, or has a parked job of its name",
         lambda s: bool(_found_id(s)), _adopted),
    Move((_S.INTENT,), _S.UNKNOWN,
         "any other reply, or none in time", _no_reply, _what_was_said),
    Move((_S.UNKNOWN,), _S.INTENT,
         "it is proven absent with no record of a start: submitted again as the next attempt",
         lambda s: _never_started(s) and _may_try_again(s), _again),
    Move((_S.UNKNOWN,), _S.FAILED,
         "it is proven absent, and was submitted as often as it may be",
         lambda s: _never_started(s) and not _may_try_again(s), _no_more),
    Move((_S.PREPARED,), _S.UNKNOWN,
         "it is gone or no longer parked, or its hold is about to end",
         lambda s: _unparked(s) or _hold_ends(s),
         lambda s: {"reason": "it was gone, or its hold ended, before the commit"}),
    Move((_S.PREPARED,), _S.COMMITTED,
         "it was seen parked for long enough after the reply", _settled),
    Move((_S.COMMITTED,), _S.INTENT,
         "its start was forbidden since it was gone: submitted again as the next attempt",
         lambda s: s.marks.forbidden and _may_try_again(s), _again),
    Move((_S.COMMITTED,), _S.FAILED,
         "its start was forbidden, and it was submitted as often as it may be",
         lambda s: s.marks.forbidden and not _may_try_again(s), _no_more),
    Move((_S.COMMITTED,), _S.RUNNING, "there is a record of its start", _payload_runs),
)  # fmt: skip
"""Every move that an observation can cause; of several the first counts."""

BY_OWNER: Final = (
    (_S.DONE, _S.ACKNOWLEDGED),
    (_S.FAILED, _S.ACKNOWLEDGED),
    (_S.CANCELLED, _S.ACKNOWLEDGED),
    (_S.LOST, _S.ACKNOWLEDGED),
)
"""The moves that the owner makes, by taking the result."""


# --- what is due in a state -----------------------------------------------------------------------


def _cancels(sights: list[Sight]) -> tuple[Effect, ...]:
    return tuple(Effect(Act.CANCEL, sight.remote_id, sight.name) for sight in sights)


def _only_parked(s: Situation) -> tuple[Effect, ...]:
    """Of a job without leave to start one parked instance stays."""
    stays = None if s.record.state is _S.UNKNOWN and _hold_ends(s) else s.parked
    surely = [x for x in s.alive if x.phase is Phase.PARKED or (s.fenced and not s.marks.committed)]
    return _cancels([sight for sight in surely if sight is not stays])


def _let_start(s: Situation) -> tuple[Effect, ...]:
    if s.fenced and not s.marks.started:
        over = s.ended is not None and s.ended.phase is Phase.CANCELLED
        if s.gone or (over and not s.alive):
            return (Effect(Act.FORBID),)
    held = [x for x in s.alive if x.phase is Phase.PARKED and x is not s.chosen]
    due: tuple[Effect, ...] = ()
    if s.fenced and not s.marks.committed:
        due = (Effect(Act.COMMIT, seconds=max(0.0, s.record.lease_until - s.now)),)
    if s.chosen is not None and s.chosen.phase is Phase.PARKED:
        due = (*due, Effect(Act.RELEASE, s.chosen.remote_id, s.chosen.name))
    return (*due, *_cancels(held))


def _end_it(s: Situation) -> tuple[Effect, ...]:
    due: tuple[Effect, ...] = ()
    if not s.unfenced and not s.marks.forbidden and not s.marks.started:
        due = (Effect(Act.FORBID),)
    if s.marks.started and s.marks.exit is None:
        due = (*due, Effect(Act.STOP))
    return (*due, *_cancels(s.alive))


def _leftovers(s: Situation) -> tuple[Effect, ...]:
    """Instances that wait; one that runs is ending by itself."""
    return _cancels([sight for sight in s.alive if sight.phase is not Phase.RUNNING])


_DUE: Final[Mapping[State, Callable[[Situation], tuple[Effect, ...]]]] = {
    _S.INTENT: lambda s: (),
    _S.UNKNOWN: _only_parked,
    _S.PREPARED: _only_parked,
    _S.COMMITTED: _let_start,
    _S.RUNNING: lambda s: _cancels([x for x in s.alive if x.phase is Phase.PARKED]),
    _S.CANCELLING: _end_it,
    _S.DONE: _leftovers,
    _S.FAILED: _leftovers,
    _S.CANCELLED: lambda s: _cancels(s.alive),
    _S.LOST: lambda s: _cancels(s.alive),
    _S.ACKNOWLEDGED: _leftovers,
}

WAITS: Final[Mapping[State, str]] = {
    _S.INTENT: "the reply to its submission; without one, it is looked for by its name",
    _S.UNKNOWN: "a healthy answer of the batch system that shows it or proves it absent",
    _S.PREPARED: "being seen for long enough; then it is committed",
    _S.COMMITTED: "its start; if it is gone, its start is forbidden, and it is submitted again",
    _S.RUNNING: "the record of its end; if it is gone, its lease must run out",
    _S.CANCELLING: "proof that it can neither run nor start; the request is repeated",
}
"""What a live state waits for, and what comes next."""


def _deadline(record: Record, now: float, deadlines: Deadlines) -> float | None:
    """By when something must happen in the record's state; None where it is terminal."""
    match record.state:
        case _S.INTENT:
            return min(now + deadlines.reply, record.lease_until)
        case _S.UNKNOWN:
            return min(now + deadlines.absent, record.lease_until)
        case _S.PREPARED:
            return min(record.hold_until - deadlines.margin, record.lease_until)
        case _S.COMMITTED | _S.RUNNING:
            return record.lease_until
        case _S.CANCELLING:
            return now + deadlines.cancel
        case _:
            return None


# --- the machine ----------------------------------------------------------------------------------


def begin(
    key: str, now: float, deadlines: Deadlines = DEFAULT, *, lease: float | None = None,
    owner: str = "", cluster: str = "", digest: str = "",
) -> Step:  # fmt: skip
    """A new record, and the submission that is due once it is written down."""
    length = deadlines.lease if lease is None else lease
    record = Record(
        key=key, owner=owner, cluster=cluster, digest=digest, created=now, since=now,
        hold_until=now + deadlines.hold, lease=length, lease_until=now + length,
    )  # fmt: skip
    record = attrs.evolve(record, deadline=_deadline(record, now, deadlines))
    return Step(record, (_park(record, deadlines),))


def _park(record: Record, deadlines: Deadlines) -> Effect:
    return Effect(Act.PARK, name=record.name, seconds=deadlines.hold)


def step(record: Record, seen: Observation, now: float, deadlines: Deadlines = DEFAULT) -> Step:
    """One move at most: the record after an observation, and what is due for it.

    The effects may be carried out only by who wrote the record down, if it differs. The same
    observation again changes nothing more.

    Args:
        record: the record as the ledger has it.
        seen: what one look shows of its key.
        now: the time, in seconds since 1970.
        deadlines: how long each step may take.

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
                record, state=move.target, since=now, **{"reason": "", **move.changes(before)}
            )
            moved = attrs.evolve(moved, deadline=_deadline(moved, now, deadlines))
            if move.target is _S.INTENT:
                return Step(moved, (_park(moved, deadlines), *_cancels(before.alive)))
            return Step(moved, _due(Situation(moved, seen, now, deadlines)))
    if record.state in LIVE and (record.deadline is None or record.deadline <= now):
        record = attrs.evolve(record, deadline=_deadline(record, now, deadlines))
    return Step(record, _due(Situation(record, seen, now, deadlines)))


def _due(s: Situation) -> tuple[Effect, ...]:
    return (*_DUE[s.record.state](s), *_cancels(s.outdated))


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


def renewed(record: Record, now: float, seconds: float | None = None) -> Record:
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
    made = attrs.evolve(record, lease=length, lease_until=now + length)
    ends_with_it = made.state in {_S.COMMITTED, _S.RUNNING}
    return attrs.evolve(made, deadline=made.lease_until) if ends_with_it else made


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
    if record.absent_since is not None:
        gone = f"missing from {record.cluster} for {now - record.absent_since:.0f} s"
        return f"{gone}; waits for {WAITS[record.state]}"
    last = record.since if record.seen is None else max(record.seen, record.since)
    late = record.deadline is not None and record.deadline <= now
    if late or now - last > deadlines.silence:
        why = f"; {record.reason}" if record.reason else ""
        return f"not seen for {now - last:.0f} s; waits for {WAITS[record.state]}{why}"
    return None
