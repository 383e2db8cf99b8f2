"""The table of moves: from which states to which, when one holds, and what changes.

Two phases with presumed abort: a job is submitted so that it cannot start, and what is not
committed in time never starts. What is to be done in a state is in
:mod:`matchmaker.delegation.duties`; :mod:`matchmaker.delegation.states` follows the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from matchmaker.delegation.observation import Phase, ReasonCode, Refused, Silence
from matchmaker.delegation.record import State
from matchmaker.delegation.situation import BY_SIGNAL, Situation

_Changes = Mapping[str, Any]
_S = State


@attrs.frozen(slots=True)
class Move:
    """A row of the table: from some states to one, when something holds, with what changes."""

    sources: tuple[State, ...]
    target: State
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
    sight = s.parked
    known = sight is not None and sight.remote_id == _found_id(s)
    return {
        "remote_id": _found_id(s),
        "remote_submitted": sight.submitted if known and sight is not None else None,
        "absent_since": None,
        "reason": "",
    }


def _has_leave(s: Situation) -> bool:
    """Whether there is a record of its commit."""
    return s.marks.committed and not s.marks.forbidden


def _with_leave(s: Situation) -> _Changes:
    """The id of the job that may start; of several the record's."""
    return {"remote_id": s.record.remote_id or (s.chosen.remote_id if s.chosen else "")}


def _no_reply(s: Situation) -> bool:
    late = s.record.deadline is not None and s.now >= s.record.deadline
    return s.seen.reply is not None or late


def _what_was_said(s: Situation) -> _Changes:
    said = s.seen.reply.reason if isinstance(s.seen.reply, Silence) else "no reply in time"
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
        "attempt": s.record.attempt + 1,
        "tries": s.record.tries + 1,
        "retry_at": s.now + s.deadlines.pause(s.record.tries + 1),
        "remote_id": "",
        "remote_submitted": None,
        "absent_since": None,
        "seen": None,
        "started": None,
        "hold_until": s.now + s.deadlines.hold,
        **_why_again(s),
    }


def _no_more(s: Situation) -> _Changes:
    why = _why_again(s)
    times = f"{s.record.tries} times" if s.record.tries > 1 else "once"
    return {**why, "reason": f"submitted {times}, and it never started: {why['reason']}"}


def _settled(s: Situation) -> bool:
    """Whether it was seen parked, alone, long enough after the reply, with its hold still ahead."""
    sight = s.parked
    return (
        sight is not None
        and len(s.alive) == 1
        and sight.remote_id == s.record.remote_id
        and s.now - s.record.since >= s.deadlines.settle
        and s.marks_known
    )


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
    started = s.marks.started and s.gone
    return sight.exit if started else None


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
    sight = s.ended
    by_system = sight is not None and sight.phase is Phase.CANCELLED
    why = (sight.code or ReasonCode.CANCELLED) if sight is not None and by_system else None
    said = sight.why if sight is not None and sight.why else "no exit status is known"
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
    (_S.PAUSED, _S.UNKNOWN),
    (_S.DONE, _S.ACKNOWLEDGED),
    (_S.FAILED, _S.ACKNOWLEDGED),
    (_S.CANCELLED, _S.ACKNOWLEDGED),
    (_S.LOST, _S.ACKNOWLEDGED),
)
"""The moves that the owner makes: by resuming the job, and by taking the result."""
