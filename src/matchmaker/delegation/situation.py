"""The meaning of an observation for one record: present, absent, gone, started, ended.

An error is not absence and absence is not completion: the readings here keep the three apart. The
rules that act on them are in :mod:`matchmaker.delegation.states`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import attrs

from matchmaker.delegation.contact import Marks
from matchmaker.delegation.observation import Phase, Refused, Sight, Silence
from matchmaker.delegation.record import Deadlines, Record, State, job_name

_ALIVE = frozenset({Phase.PARKED, Phase.WAITING, Phase.RUNNING})
_UNCOMMITTED = frozenset({State.INTENT, State.UNKNOWN, State.PAUSED, State.PREPARED})

BY_SIGNAL = 128
"""Exit statuses above this are of a payload that a signal ended."""

# A batch system rounds the time of submission to seconds.
_SAME_SECONDS = 1.5


NOT_ASKED: Final = Silence("not asked")
"""The answer of whoever was not asked: it shows nothing."""


@attrs.frozen(slots=True, kw_only=True)
class Observation:
    """What one look shows of a key.

    Attributes:
        queue: the jobs of the key in the queue, of every attempt; or no answer.
        accounting: those in the accounting; None if it was not asked.
        marks: what is on record of the attempt; or no answer.
        reply: what came of a submission; None if there was none.
    """

    queue: tuple[Sight, ...] | Silence
    accounting: tuple[Sight, ...] | Silence | None = None
    marks: Marks | Silence = NOT_ASKED
    reply: str | Refused | Silence | None = None


def _order(sight: Sight) -> tuple[int, int, str]:
    """Ids in order: numbers by size, other ids by their text."""
    number = int(sight.remote_id) if sight.remote_id.isascii() and sight.remote_id.isdigit() else 0
    return (len(sight.remote_id) if not number else 0, number, sight.remote_id)


@attrs.frozen(slots=False)
class Situation:
    """A record beside what is observed of it, at a time."""

    record: Record
    seen: Observation
    now: float
    deadlines: Deadlines

    @cached_property
    def alive(self) -> list[Sight]:
        """The jobs of this attempt in the queue that have not ended, the lowest id first."""
        if isinstance(self.seen.queue, Silence):
            return []
        name = self.record.name
        return sorted((s for s in self.seen.queue if s.name == name and s.phase in _ALIVE),
                      key=_order)  # fmt: skip

    @property
    def chosen(self) -> Sight | None:
        """The living job that the record means: of the id it names, else the lowest."""
        mine = [sight for sight in self.alive if sight.remote_id == self.record.remote_id]
        return next(iter(mine or self.alive), None)

    @property
    def parked(self) -> Sight | None:
        """The job that cannot start yet: of the id that the record names, else the lowest."""
        held = [sight for sight in self.alive if sight.phase is Phase.PARKED]
        mine = [sight for sight in held if sight.remote_id == self.record.remote_id]
        return next(iter(mine or held), None)

    def foreign(self, sight: Sight) -> bool:
        """Whether it runs, and the records say that it was not submitted or started here.

        Another ledger may use the key. One of ours that runs without a start ends by itself.
        """
        mine = sight.remote_id == self.record.remote_id
        unexplained = self.marks_known and not self.marks.started
        return sight.phase is Phase.RUNNING and unexplained and not mine

    @property
    def outdated(self) -> list[Sight]:
        """Living jobs of earlier attempts, none of which may start any more."""
        if isinstance(self.seen.queue, Silence):
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
        mine = [sight for sight in self.alive if not self.foreign(sight)]
        return isinstance(self.seen.queue, tuple) and not mine and not self.outdated

    @property
    def gone(self) -> bool:
        """Whether it has been absent long enough, and still is."""
        since = self.record.absent_since
        return self.absent and since is not None and self.now - since >= self.deadlines.absent

    @property
    def ended(self) -> Sight | None:
        """The job that the record means, where queue or accounting have it as ended."""
        for place in (self.seen.queue, self.seen.accounting):
            for sight in place if isinstance(place, tuple) else ():
                if (
                    sight.phase not in _ALIVE
                    and sight.name == self.record.name
                    and sight.remote_id == self.record.remote_id
                    and _same_time(sight.submitted, self.record.remote_submitted)
                ):
                    return sight
        return None

    @property
    def marks(self) -> Marks:
        """What is on record of the attempt; nothing if it was not read."""
        return self.seen.marks if isinstance(self.seen.marks, Marks) else Marks()

    @property
    def marks_known(self) -> bool:
        """Whether the records of the attempt were read."""
        return isinstance(self.seen.marks, Marks)

    @property
    def unexplained(self) -> bool:
        """Whether a signal ended the payload, and the batch system has not said why yet."""
        silent = isinstance(self.seen.queue, Silence) or isinstance(self.seen.accounting, Silence)
        by_signal = self.marks.exit is not None and self.marks.exit > BY_SIGNAL
        return by_signal and (silent or self.chosen is not None)

    @property
    def hold_ends(self) -> bool:
        """Whether the hold of the submitted job is over, or too near its end for a commit."""
        return self.now >= self.record.hold_until - self.deadlines.margin

    @property
    def spent(self) -> bool:
        """Whether no payload of it can be running any more, by its lease.

        What is not in the queue starts no more, so that a lease that begins with the start has been
        over for sure since its length after that.
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
    """The record with what a look shows, in the same state.

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
    ends_with_it = record.state in {State.COMMITTED, State.RUNNING}
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
        record,
        since=min(record.since, now),
        seen=None if record.seen is None else min(record.seen, now),
        absent_since=None if record.absent_since is None else min(record.absent_since, now),
        hold_until=record.hold_until - back,
        retry_at=record.retry_at - back,
        deadline=None if record.deadline is None else record.deadline - back,
        started=None if record.started is None else min(record.started, now),
        lease_until=min(record.lease_until, record.until(now, deadlines, record.lease)),
    )
