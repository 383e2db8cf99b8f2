"""Reconcile a ledger with the batch system and the spool; check, rebuild and prune it.

A look asks for the queue once and for the accounting once, for any number of jobs.
:mod:`matchmaker.delegation.states` then makes one step for each record, and
:mod:`matchmaker.delegation.effects` carries out the actions that are due.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from matchmaker.delegation import states
from matchmaker.delegation.contact import Origin, SpoolMarks
from matchmaker.delegation.effects import DelegationContext, absolute, carry_out_all, digest_of
from matchmaker.delegation.moves import Observation
from matchmaker.delegation.record import (
    Answer,
    JobState,
    JobStatus,
    NoAnswer,
    Payload,
    Phase,
    Record,
    UnansweredError,
    Unreadable,
    key_of,
)
from matchmaker.delegation.spool import SharedSpool

if TYPE_CHECKING:
    from matchmaker.delegation.contact import Spool
    from matchmaker.delegation.ledger import Ledger


_LOG: Final = logging.getLogger(__name__)
_T = TypeVar("_T")
# Clocks and time zones differ: accounting is asked from a day before the oldest job.
_DAY: Final = 86_400.0
_OVER: Final = frozenset({Phase.ENDED, Phase.CANCELLED})

_Statuses = Mapping[str, tuple[JobStatus, ...]]
"""What an answer shows, by key."""


@attrs.frozen(slots=True)
class Reconciliation:
    """The result of a reconciliation.

    Attributes:
        live: how many live jobs it looked at.
        paused: how many of them wait for their owner now.
        moved: the jobs whose state changed, before and after.
        silence: why the batch system or the spool gave no answer; empty if both did.
        troubles: steps that failed, by key; they are tried again next time.
        strangers: how many jobs of ours the queue has that this ledger does not know.
    """

    live: int = 0
    moved: tuple[tuple[Record, Record], ...] = ()
    silence: str = ""
    troubles: tuple[tuple[str, str], ...] = ()
    strangers: int = 0
    paused: int = 0


def reconcile(context: DelegationContext, keys: Collection[str] | None = None) -> Reconciliation:
    """One look at the batch system, and one move at most for each live job, or for some keys."""
    now = context.clock()
    # The records come before the look: what is submitted in between must not seem absent.
    damaged: list[Unreadable] = []
    if keys is None:
        rows = context.ledger.live_rows(context.cluster)
        records = [row for row in rows if isinstance(row, Record)]
        damaged = [row for row in rows if isinstance(row, Unreadable)]
    else:
        records = [r for r in context.ledger.records(keys) if r.cluster == context.cluster]
    queue = _by_key(context.system.look())
    accounting = _recalled(context, records, queue, now)
    marks = _marks(context, records)
    live = sum(record.state.live for record in records)
    strangers = 0
    if keys is None and not isinstance(queue, NoAnswer):
        alive = {
            key for key, statuses in queue.items() if any(x.phase not in _OVER for x in statuses)
        }
        others = alive - {record.key for record in records} - {row.key for row in damaged}
        ended = [r for r in context.ledger.records(others) if r.cluster == context.cluster]
        strangers = len(others) - len(ended)
        records += [record for record in ended if not record.state.live]
    steps = []
    troubles = [(row.key, row.why) for row in damaged]
    for record in records:
        shown = marks.get(record.spool, {})
        seen = _observation(record, queue, accounting, shown)
        if isinstance(seen.marks, NoAnswer) and not isinstance(shown, NoAnswer):
            troubles.append((record.key, seen.marks.reason))
        steps.append((record, states.step(record, seen, now, context.deadlines)))
    changes = [(old, made.record) for old, made in steps if made.record != old]
    saved = context.ledger.save(changes, context.owner)
    written = {old.key: new for (old, _), new in zip(changes, saved, strict=True)}
    # Whoever lost the race for a row does nothing about it.
    due = [
        (current, made.effects)
        for old, made in steps
        if made.effects and (current := written.get(old.key, old)) is not None
    ]
    report = Reconciliation(
        live,
        tuple(
            (old, new)
            for (old, _), new in zip(changes, saved, strict=True)
            if new is not None and (old.state, old.attempt) != (new.state, new.attempt)
        ),
        "; ".join(
            x.reason for x in (queue, accounting, *marks.values()) if isinstance(x, NoAnswer)
        ),
        (*troubles, *carry_out_all(context, due)),
        strangers,
        sum(
            (written.get(old.key) or old).state is JobState.PAUSED and old.state.live
            for old, _ in steps
        ),
    )
    _log(report, context.cluster)
    return report


def _log(report: Reconciliation, cluster: str) -> None:
    """Log each job that moved and each fault, and at level debug that a look was made."""
    where = {"cluster": cluster}
    for old, new in report.moved:
        _LOG.info("job moved", extra={
            "job": new.key, **where, "id": new.remote_id, "attempt": new.attempt,
            "before": str(old.state), "state": str(new.state), "reason": new.reason,
        })  # fmt: skip
    for key, trouble in report.troubles:
        _LOG.warning("job held up", extra={"job": key, **where, "reason": trouble})
    if report.silence:
        _LOG.warning("no answer", extra={**where, "reason": report.silence})
    _LOG.debug("looked", extra={**where, "live": report.live, "paused": report.paused})


_SpoolMarks = Mapping[tuple[str, int], SpoolMarks | NoAnswer] | NoAnswer
"""The records of attempts in one spool."""


def _marks(context: DelegationContext, records: Iterable[Record]) -> dict[str, _SpoolMarks]:
    """Read the records of attempts, by the place of the spool: one look at each spool."""
    wanted: dict[str, list[tuple[str, int]]] = {}
    for record in records:
        wanted.setdefault(record.spool, []).append((record.key, record.attempt))
    found: dict[str, _SpoolMarks] = {}
    for place, names in wanted.items():
        try:
            found[place] = context.spool_of(place).marks(names)
        except ValueError as error:
            found[place] = NoAnswer(str(error))
    return found


def rebuild(context: DelegationContext) -> Reconciliation:
    """Make the missing records anew from the batch system and the records of starts and ends.

    A row of the ledger stays as it is, unless it is damaged, or there is a later attempt of a live
    job than it has. Attempts of another batch system or of another ledger are left to these. An
    empty ledger takes the place of the one that signed the spool, if that was here or is gone.

    Raises UnansweredError while one of them gives no answer.
    """
    now = context.clock()
    queue = _by_key(context.system.look())
    latest, origins, marks = _kept(context)
    if isinstance(queue, NoAnswer):
        raise UnansweredError(f"nothing to rebuild from: {queue.reason}")
    kept_rows = {
        r.key
        for r in context.ledger.records(latest)
        if not r.state.live or r.cluster != context.cluster or r.attempt >= latest[r.key]
    }
    left = {key: attempt for key, attempt in latest.items() if key not in kept_rows}
    before = context.ledger.last_states(left)
    made = []
    for key, attempt in sorted(left.items()):
        own = origins.get((key, attempt), Origin(ledger="", owner=context.owner, created=now))
        begun = states.begin(
            key, now, context.deadlines, owner=own.owner, cluster=context.cluster, digest=own.job,
            ledger=own.ledger or context.ledger.identity, spool=context.spool_of("").place,
            lease=own.lease, from_start=own.from_start,
        ).record  # fmt: skip
        begun = attrs.evolve(begun, attempt=attempt, created=own.created)
        last = JobState(before[key]) if key in before else None
        seen = marks.get((key, attempt), SpoolMarks())
        made.append(states.rebuilt(begun, seen, last, now, context.deadlines))
    context.ledger.rebuild(made, now, context.owner, _described(context, made))
    return reconcile(context)


def _described(context: DelegationContext, records: Collection[Record]) -> Mapping[str, Payload]:
    """The jobs of rebuilt rows, by key, of those whose description is that of their digest."""
    names = [(record.key, record.attempt) for record in records]
    found = _answered(context.spool_of("").described(names))
    digests = {record.key: record.digest for record in records}
    return {
        key: payload
        for key, payload in found.items()
        if digest_of(payload, context.system.name) == digests[key]
    }


_Kept = tuple[
    dict[str, int],
    Mapping[tuple[str, int], Origin],
    Mapping[tuple[str, int], SpoolMarks | NoAnswer],
]


def _kept(context: DelegationContext) -> _Kept:
    """The latest attempts of this ledger that the spool has, whose they are, and their records.

    Those of a ledger that was at the place of this one are too: it was lost, and jobs were handed
    over before anybody rebuilt it.
    """
    place = absolute(context.ledger.place)
    spool = context.spool_of("")
    attempts = _answered(spool.attempts())
    first = _answered(spool.first())
    if first is not None and first.ledger != context.ledger.identity:
        gone = "://" not in first.place and not Path(first.place).exists()
        if gone or first.place == place:
            context.ledger.adopt(first.ledger)
    names = dict(sorted(name for name, at in attempts.items() if at in {"", context.cluster}))
    origins = _answered(spool.origins(names.items()))
    unsigned = Origin(ledger=context.ledger.identity) if first is None else first
    signed = {name: origins.get(name, unsigned) for name in names.items()}
    latest = {
        key: attempt
        for (key, attempt), origin in signed.items()
        if origin.ledger == context.ledger.identity or origin.place == place
    }
    return latest, origins, _answered(spool.marks(latest.items()))


def _answered(answer: _T | NoAnswer) -> _T:
    if isinstance(answer, NoAnswer):
        raise UnansweredError(f"nothing to rebuild from: {answer.reason}")
    return answer


def _by_key(answer: Answer) -> _Statuses | NoAnswer:
    if isinstance(answer, NoAnswer):
        return answer
    found: dict[str, list[JobStatus]] = {}
    for status in answer.statuses:
        named = key_of(status.name)
        if named is not None:
            found.setdefault(named[0], []).append(status)
    return {key: tuple(statuses) for key, statuses in found.items()}


def _recalled(
    context: DelegationContext, records: Iterable[Record], queue: _Statuses | NoAnswer, now: float
) -> _Statuses | NoAnswer | None:
    """What accounting has of the jobs that the queue does not show alive."""
    if isinstance(queue, NoAnswer):
        return None
    missing = [
        record
        for record in records
        if all(s.phase in _OVER or s.name != record.name for s in queue.get(record.key, ()))
    ]
    if not missing:
        return {}
    since = min(*(record.created for record in missing), now) - _DAY
    return _by_key(context.system.recall({r.name: r.remote_id for r in missing}, since))


def _observation(
    record: Record, queue: _Statuses | NoAnswer, accounting: _Statuses | NoAnswer | None,
    marks: _SpoolMarks,
) -> Observation:  # fmt: skip
    return Observation(
        queue=_own(record, queue) if isinstance(queue, Mapping) else queue,
        accounting=_own(record, accounting) if isinstance(accounting, Mapping) else accounting,
        marks=_own_marks(record, marks) if isinstance(marks, Mapping) else marks,
    )


def _own(record: Record, shown: _Statuses) -> tuple[JobStatus, ...]:
    """The jobs of the key, unless their mark says that another ledger submitted them."""
    found = shown.get(record.key, ())
    return tuple(status for status in found if record.owns(status.mark))


def _own_marks(
    record: Record, marks: Mapping[tuple[str, int], SpoolMarks | NoAnswer]
) -> SpoolMarks | NoAnswer:
    """The records of the attempt, unless they are another job's."""
    found = marks.get((record.key, record.attempt), SpoolMarks())
    if isinstance(found, SpoolMarks) and found.job and record.digest and found.job != record.digest:
        return NoAnswer(f"the spool has another job as {record.name}")
    return found


_NAMED: Final = 5
"""How many jobs a finding names."""


def check(ledger: Ledger, spool: Spool | None = None) -> list[str]:
    """The faults of a ledger, one finding a line; nothing if it is sound.

    Args:
        ledger: the ledger, every row of which is read.
        spool: the records of starts and ends, whose jobs the ledger should know; None to leave
            them out.

    Raises LedgerError if the ledger cannot be read for another reason than damage.
    """
    damage = ledger.check()
    if damage:
        return damage
    found = [f"{row.key}: {row.why}" for row in ledger.unreadable()]
    unknown = unknown_to(ledger, spool) if spool is not None else []
    if isinstance(unknown, NoAnswer):
        return [*found, f"the spool cannot be read: {unknown.reason}"]
    if unknown:
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        found.append(
            f"the ledger does not know jobs that the spool has: "
            f"{', '.join(unknown[:_NAMED])}{more}; classad jobs --rebuild takes them in"
        )
    return found


def unknown_to(ledger: Ledger, spool: Spool) -> list[str] | NoAnswer:
    """The keys of jobs that the spool has and the ledger has not, as after the loss of its file."""
    kept = spool.attempts()
    if isinstance(kept, NoAnswer):
        return kept
    keys = {key for key, _ in kept}
    return sorted(keys - ledger.known(keys))


def prune(ledger: Ledger, before: float) -> tuple[int, list[tuple[str, str]]]:
    """Remove the records of jobs that ended before a time, and what their spools have of them.

    Gives how many are gone, and what could not be done, by key: such a record stays.
    """
    gone, last = 0, ""
    troubles: list[tuple[str, str]] = []
    while some := ledger.ended(before, after=last):
        last = some[-1].key
        left = []
        for record in some:
            done = SharedSpool(Path(record.spool)).forget(record.key, record.digest)
            if isinstance(done, NoAnswer):
                troubles.append((record.key, done.reason))
            else:
                left.append(record)
        gone += ledger.remove(left)
    if gone:
        ledger.drop_contents()
    return gone, troubles
