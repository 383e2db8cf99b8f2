"""The actions that are due while a record is in a state, by what is seen of it.

Each action except the submission may be repeated without harm, so whoever looks next continues
where another was killed. :mod:`matchmaker.delegation.moves` says to which state a record moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import attrs

from matchmaker.delegation.observation import Phase, Sight
from matchmaker.delegation.record import State
from matchmaker.delegation.situation import Situation


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
    return cancels([sight for sight in s.alive if sight.phase is not Phase.RUNNING])


def _instances(s: Situation) -> tuple[Effect, ...]:
    return cancels([sight for sight in s.alive if not s.foreign(sight)])


_S = State

_DUE: Final[Mapping[State, Callable[[Situation], tuple[Effect, ...]]]] = {
    _S.INTENT: lambda s: (),
    _S.UNKNOWN: _only_parked,
    _S.PAUSED: _only_parked,
    _S.PREPARED: _only_parked,
    _S.COMMITTED: _let_start,
    _S.RUNNING: lambda s: cancels([x for x in s.alive if x.phase is Phase.PARKED]),
    _S.CANCELLING: _end_it,
    _S.DONE: _leftovers,
    _S.FAILED: lambda s: (*_stop(s), *_leftovers(s)),
    _S.CANCELLED: _instances,
    _S.LOST: _instances,
    _S.ACKNOWLEDGED: _leftovers,
}

WAITS: Final[Mapping[State, str]] = {
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
    """What is to be done in the record's state, and about what is left of earlier attempts."""
    return (*_DUE[s.record.state](s), *cancels(s.outdated))


def cancels(sights: list[Sight]) -> tuple[Effect, ...]:
    """The requests to end some jobs."""
    return tuple(Effect(Act.CANCEL, sight.remote_id, sight.name) for sight in sights)
