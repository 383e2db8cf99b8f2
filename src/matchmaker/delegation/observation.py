"""A batch system's answers about its jobs, as data.

The states of a transfer (:mod:`matchmaker.delegation.states`) read these answers; the tables of
batch systems (:mod:`matchmaker.delegation.systems`) make them from a command's output. Neither a
command nor a clock is here.
"""

from __future__ import annotations

from enum import StrEnum

import attrs


def printable(text: str) -> str:
    r"""Return the words of a program without characters that a database or terminal cannot take.

    >>> printable("sbatch:\terror\x00\x1b[2J")
    'sbatch: error??[2J'
    """
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


class Phase(StrEnum):
    """Where a batch system says that a job is.

    ``parked``: held, or with a begin time ahead: it cannot start yet. ``waiting``: it may start.
    ``running``: it has started; suspended jobs too. ``ended``: it runs no more, with an exit status
    where the batch system keeps one. ``cancelled``: ended by a person, a limit or the batch system.
    """

    PARKED = "parked"
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    CANCELLED = "cancelled"


class ReasonCode(StrEnum):
    """Why a job is where it is, for programs; a record's ``reason`` has it in words.

    ``TIMEOUT``, ``OUT_OF_MEMORY``, ``PREEMPTED``, ``NODE_FAIL``, ``CANCELLED``: the batch system
    ended it, for that cause or at somebody's request. ``EXIT_STATUS``, ``SIGNAL``: its payload
    ended with a status other than 0, or by a signal. ``REFUSED``: the batch system will not take
    it. ``NO_ANSWER``: its submission had no answer that says what came of it. ``NOT_STARTED``: an
    attempt can start no more. ``OWNER``: its owner wants it ended. ``LEASE``: its lease ran out.
    ``LOST``: it is gone with no record of its end. ``REBUILT``: its row was made anew.
    """

    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    NODE_FAIL = "NODE_FAIL"
    CANCELLED = "CANCELLED"
    EXIT_STATUS = "EXIT_STATUS"
    SIGNAL = "SIGNAL"
    REFUSED = "REFUSED"
    NO_ANSWER = "NO_ANSWER"
    NOT_STARTED = "NOT_STARTED"
    OWNER = "OWNER"
    LEASE = "LEASE"
    LOST = "LOST"
    REBUILT = "REBUILT"


@attrs.frozen(slots=True)
class Sight:
    """A job as a batch system shows it at one look.

    Attributes:
        name: the name that it was submitted under, ``mm-KEY-N`` for attempt N of a key.
        remote_id: the batch system's id, which a batch system that lost its state may use again.
        submitted: when it was submitted, in seconds since 1970 by the batch system's clock, or
            None if it does not say.
        phase: where it is.
        exit: the exit status of a job that ended, or None if it is not known; 128 and the signal's
            number where a signal ended it.
        why: the batch system's own words for a job that does not go on, or empty.
        mark: the mark of the record that it was submitted for; empty if it does not show one.
        code: why the batch system ended it; None for a job that goes on or ended by itself.
    """

    name: str
    remote_id: str
    submitted: float | None
    phase: Phase
    exit: int | None = None
    why: str = ""
    mark: str = ""
    code: ReasonCode | None = None


@attrs.frozen(slots=True)
class Listing:
    """A healthy answer: every job of ours that the batch system knows. Others are absent."""

    sights: tuple[Sight, ...]


@attrs.frozen(slots=True)
class Silence:
    """No answer that can be relied on: an error, a time-out or a cut output. Nothing is absent."""

    reason: str = attrs.field(converter=printable)


@attrs.frozen(slots=True)
class Refused:
    """A definite answer to a submission: there is no job, and the same again would be refused."""

    reason: str


Answer = Listing | Silence
