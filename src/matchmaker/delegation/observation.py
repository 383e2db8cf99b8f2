"""A batch system's answers about its jobs, as data.

The states of a transfer (:mod:`matchmaker.delegation.states`) read these answers; the tables of
batch systems (:mod:`matchmaker.delegation.systems`) make them from a command's output. Neither a
command nor a clock is here.
"""

from __future__ import annotations

from enum import StrEnum

import attrs


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
    """

    name: str
    remote_id: str
    submitted: float | None
    phase: Phase
    exit: int | None = None
    why: str = ""
    mark: str = ""


@attrs.frozen(slots=True)
class Listing:
    """A healthy answer: every job of ours that the batch system knows. Others are absent."""

    sights: tuple[Sight, ...]


@attrs.frozen(slots=True)
class Silence:
    """No answer that can be relied on: an error, a time-out or a cut output. Nothing is absent."""

    reason: str


Answer = Listing | Silence
