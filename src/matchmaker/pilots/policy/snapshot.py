"""The input and the output of a decision about pilots: data alone.

A :class:`PilotSnapshot` holds the demand (kinds of jobs), the supply (pilots) and the queues that
can run pilots, all at one time; a :class:`Decision` holds the submissions and the ends, each with
its reason. ``decision`` makes one of the other; ``estimates`` tells how long queues take to start a
pilot.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import attrs

from matchmaker.classad import ClassAd
from matchmaker.pilots.policy.estimates import Estimate


class PilotState(StrEnum):
    """The state of a pilot.

    ``queued``: the batch system has it. ``starting``: it runs and has not connected yet. ``idle``:
    it asks for work. ``busy``: it runs a job. ``draining``: it finishes its job and takes no other.
    """

    QUEUED = "queued"
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"


@attrs.frozen(slots=True, kw_only=True)
class Demand:
    """The jobs of one kind: those whose significant attributes are equal (an autocluster).

    Attributes:
        key: names the kind; unique in a snapshot.
        ad: the ad that all its jobs share.
        waiting: how many jobs wait and can start now; those that wait for other jobs, or are held,
            do not count.
        running: how many of its jobs run.
        oldest: how long its first job has waited, in seconds.
        arrived: how many of its jobs came since the snapshot before.
        group: the owner of the jobs (a VO); fairness is measured between groups.
        wall: how much wall clock a pilot must have left for one of its jobs, in seconds. A queue
            or pilot fits a kind if the two ads match, and this many seconds are left.
        silent: how many of the waiting jobs are those of a source that gives no answer now: pilots
            that are there are kept for them, and none is submitted.
    """

    key: str
    ad: ClassAd
    waiting: int
    running: int = 0
    oldest: float = 0.0
    arrived: int = 0
    group: str = ""
    wall: float = 0.0
    silent: int = 0


@attrs.frozen(slots=True, kw_only=True)
class PilotQueue:
    """A queue that pilots can be submitted to.

    Attributes:
        key: names the queue; unique in a snapshot.
        pilot: the ad of the pilot that would run there, which a job's requirements see.
        wall: how long a pilot may run there, in seconds; infinite without a limit.
        max_queued: how many pilots may wait there; None without a limit.
        max_pilots: how many pilots may be there in all; None without a limit.
        estimate: response time and failures by the queue's history.
        rate: how many submissions a second its batch system takes.
        closed: why nothing is submitted there now; empty for a queue that is open.
    """

    key: str
    pilot: ClassAd
    wall: float = float("inf")
    max_queued: int | None = None
    max_pilots: int | None = None
    estimate: Estimate = attrs.field(factory=Estimate)
    rate: float = 1.0
    closed: str = ""


@attrs.frozen(slots=True, kw_only=True)
class Pilot:
    """A pilot that was submitted and has not ended.

    Attributes:
        key: names the pilot; unique in a snapshot.
        queue: the key of its queue.
        state: its state.
        since: when it came to this state, in the snapshot's seconds.
        ends: when its wall clock is over, in the snapshot's seconds; None while it is queued.
        ad: its own ad; None for a pilot without one, which counts as its queue's.
        kind: the key of the kind of job that it runs; empty for none.
    """

    key: str
    queue: str
    state: PilotState
    since: float
    ends: float | None = None
    ad: ClassAd | None = None
    kind: str = ""


@attrs.frozen(slots=True, kw_only=True)
class PilotSnapshot:
    """Demand, supply and queues at one time.

    Attributes:
        now: the time, in seconds from any origin.
        demand: the kinds of jobs; None if the source of demand did not answer: unknown, not zero.
        queues: the queues.
        pilots: the pilots that have not ended.
        memory: the memory of the decision before; empty for the first.
    """

    now: float
    demand: tuple[Demand, ...] | None
    queues: tuple[PilotQueue, ...]
    pilots: tuple[Pilot, ...] = ()
    memory: Mapping[str, object] = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class PilotSubmission:
    """How many pilots to submit to a queue, and why."""

    queue: str
    count: int
    reason: str


@attrs.frozen(slots=True)
class End:
    """End a pilot that runs no job, and why."""

    pilot: str
    reason: str


@attrs.frozen(slots=True)
class Lend:
    """Let a pilot that is idle beyond need take other work, and why.

    ``takes`` is the requirement on that work: the text of an expression, with the job as TARGET.
    """

    pilot: str
    takes: str
    reason: str


@attrs.frozen(slots=True)
class Wait:
    """The reason why the waiting jobs of a kind wait."""

    kind: str
    jobs: int
    reason: str


@attrs.frozen(slots=True)
class Held:
    """A queue that nothing is submitted to, and why."""

    queue: str
    reason: str


@attrs.frozen(slots=True, kw_only=True)
class Decision:
    """The submissions and the ends of a cycle, with reasons.

    Attributes:
        submissions: at most one a queue.
        ends: pilots to end; never a busy one.
        lends: idle pilots beyond need that may take other work instead of being ended.
        waits: for each kind with waiting jobs, the reason why they wait.
        held: the queues that are left out.
        notes: mistakes of the policy, the clock or the source of demand, as sentences.
        memory: for the next snapshot; plain values that JSON can hold.
        mode: ``idle`` (no job waits) or ``active``, for people.
        target: how many pilots the policy aims at, for people.
    """

    submissions: tuple[PilotSubmission, ...] = ()
    ends: tuple[End, ...] = ()
    lends: tuple[Lend, ...] = ()
    waits: tuple[Wait, ...] = ()
    held: tuple[Held, ...] = ()
    notes: tuple[str, ...] = ()
    memory: Mapping[str, object] = attrs.field(factory=dict)
    mode: str = "active"
    target: int = 0
