"""Carry out the effects that are due for a record, and record a submission's reply.

If an effect fails, the next look repeats it, because the states give it again.
:mod:`matchmaker.delegation.states` decides.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from matchmaker._limits import DELEGATION_LIMITS as LIMITS
from matchmaker.delegation import states
from matchmaker.delegation.contact import BatchSystem, Origin, Spool
from matchmaker.delegation.database import LedgerError
from matchmaker.delegation.moves import NOT_ASKED, Observation
from matchmaker.delegation.record import Deadlines, JobState, NoAnswer, Payload, Record, Refused
from matchmaker.delegation.states import Act, Effect

if TYPE_CHECKING:
    from matchmaker.delegation.ledger import Ledger

TRIES: Final = 10
"""How often a record is read again that another delegator keeps writing."""

_AT_ONCE: Final = 200
"""For how many jobs the commits are written before these are released."""

_LOG: Final = logging.getLogger(__name__)
_T = TypeVar("_T")


@attrs.frozen(slots=True)
class DelegationContext:
    """The tools of a delegator.

    Attributes:
        ledger: the ledger of the jobs.
        system: the batch system.
        spool: the records of starts and ends of new jobs; None if no place for them was named.
        deadlines: how long each step may take.
        owner: who acts, for the log.
        parallel: how many commands of the batch system may run at a time.
        clock: gives the time in seconds since 1970.
        cluster: the name of the batch system in the ledger.
    """

    ledger: Ledger
    system: BatchSystem
    spool: Spool | None
    deadlines: Deadlines
    owner: str
    parallel: int
    clock: Callable[[], float]
    cluster: str

    def spool_of(self, place: str) -> Spool:
        """The spool of a record, which stays a job's own whoever looks after the job.

        Raises ValueError for a record without one, if none is named here either.
        """
        if self.spool is not None and place in {"", self.spool.place}:
            return self.spool
        if not place:
            raise ValueError("name the spool's directory: the ledger does not say where it is")
        from matchmaker.delegation.spool import SharedSpool

        return SharedSpool(Path(place))


def carry_out_all(
    context: DelegationContext, due: Sequence[tuple[Record, tuple[Effect, ...]]]
) -> list[tuple[str, str]]:
    """Carry out the effects of many records; return the key and the reason of each failure."""
    troubles: list[tuple[str, str]] = []
    for start in range(0, len(due), _AT_ONCE):
        troubles += _carry_out(context, due[start : start + _AT_ONCE])
    return troubles


def _carry_out(
    context: DelegationContext, due: Sequence[tuple[Record, tuple[Effect, ...]]]
) -> list[tuple[str, str]]:
    """Carry out the effects of many jobs: the releases last, by one command."""
    if context.parallel > 1 and len(due) > 1:
        with ThreadPoolExecutor(context.parallel) as pool:
            failed = list(pool.map(lambda one: carry_out(context, *one), due))
    else:
        failed = [carry_out(context, *one) for one in due]
    freed = [
        (number, (effect.remote_id, effect.name))
        for number, ((_, effects), missed) in enumerate(zip(due, failed, strict=True))
        for effect in effects
        if effect.act is Act.RELEASE and Act.COMMIT not in missed
    ]
    for (number, _), trouble in zip(freed, _released(context, [j for _, j in freed]), strict=True):
        if trouble is not None:
            failed[number][Act.RELEASE] = trouble.reason
    return [
        (record.key, "; ".join(f"{act}: {reason}" for act, reason in missed.items()))
        for (record, _), missed in zip(due, failed, strict=True)
        if missed
    ]


def _released(
    context: DelegationContext, jobs: Sequence[tuple[str, str]]
) -> Sequence[NoAnswer | None]:
    """Release jobs whose commits are on record: together, or one by one."""
    if not jobs:
        return []
    done = _heard(lambda: context.system.release(jobs))
    if not isinstance(done, NoAnswer):
        return done
    if len(jobs) == 1:
        return [done]
    return [each for job in jobs for each in _released(context, [job])]


def carry_out(
    context: DelegationContext, record: Record, effects: tuple[Effect, ...]
) -> dict[Act, str]:
    """Carry out the effects of a record in order, but for releases; return the failures."""
    failed: dict[Act, str] = {}
    for effect in effects:
        if effect.act is Act.PARK:
            hand_in(context, record, effect)
        elif effect.act is not Act.RELEASE:
            trouble = _heard(lambda: _done(context, record, effect))  # noqa: B023 - called at once
            if trouble is not None:
                failed[effect.act] = trouble.reason
    return failed


def hand_in(context: DelegationContext, record: Record, effect: Effect) -> Record | None:
    """Submit an attempt and write down what came of it; the record after, if it is known."""
    reply = _submit(context, record, effect, None)
    return _replied(context, record, reply)


def hand_in_all(
    context: DelegationContext, wanted: Sequence[tuple[Record, Effect, Payload]]
) -> list[Record]:
    """Submit the first attempts of many jobs, and write down what came of them at once."""

    def submitted(one: tuple[Record, Effect, Payload]) -> str | Refused | NoAnswer:
        return _submit(context, *one)

    if context.parallel > 1 and len(wanted) > 1:
        with ThreadPoolExecutor(context.parallel) as pool:
            replies = list(pool.map(submitted, wanted))
    else:
        replies = [submitted(one) for one in wanted]
    records = [record for record, _, _ in wanted]
    now = context.clock()
    moved = [
        states.step(
            record, Observation(queue=NOT_ASKED, reply=reply), now, context.deadlines
        ).record
        for record, reply in zip(records, replies, strict=True)
    ]
    saved = context.ledger.save(
        list(zip(records, moved, strict=True)), context.owner, durable=False
    )
    # Another has gone on with a row that is not saved: its record is what counts.
    return [
        new or _replied(context, record, reply) or context.ledger.get(record.key)
        for new, record, reply in zip(saved, records, replies, strict=True)
    ]


def _heard(act: Callable[[], _T]) -> _T | NoAnswer:
    """Call a function; return NoAnswer for a defect, which must not stop the other jobs."""
    try:
        return act()
    except LedgerError:
        raise
    except Exception as error:  # noqa: BLE001 - a batch system may be the caller's own object
        return NoAnswer(f"{type(error).__name__}: {error}")


def _done(context: DelegationContext, record: Record, effect: Effect) -> NoAnswer | None:
    spool = context.spool_of(record.spool)
    match effect.act:
        case Act.CANCEL:
            return context.system.cancel(effect.remote_id, effect.name)
        case Act.COMMIT:
            length = record.lease if record.from_start else None
            return spool.commit(record.key, record.attempt, effect.seconds, length)
        case Act.FORBID:
            return spool.forbid(record.key, record.attempt)
        case Act.STOP:
            return spool.renew(record.key, record.attempt, 0.0)
        case _:
            return None


def _submit(
    context: DelegationContext, record: Record, effect: Effect, given: Payload | None
) -> str | Refused | NoAnswer:
    """Submit an attempt, and log the reply."""
    reply = _heard(lambda: _park(context, record, effect, given))
    keys = {"job": record.key, "cluster": context.cluster, "attempt": record.attempt}
    if isinstance(reply, str):
        _LOG.info("job submitted", extra={**keys, "id": reply})
    else:
        event = "submission refused" if isinstance(reply, Refused) else "submission unanswered"
        _LOG.warning(event, extra={**keys, "reason": reply.reason})
    return reply


def _park(
    context: DelegationContext, record: Record, effect: Effect, given: Payload | None
) -> str | Refused | NoAnswer:
    """Submit an attempt; unless it is refused, it counts as submitted perhaps."""
    payload = given if given is not None else context.ledger.payload(record.key)
    if payload is None:
        return Refused("it never started, and the ledger does not describe it any more")
    script = context.spool_of(record.spool).prepare(
        record.key, record.attempt, payload, record.digest, context.cluster
    )
    if not isinstance(script, NoAnswer):
        signed = context.spool_of(record.spool).sign(
            record.key, record.attempt, _origin(context, record)
        )
        script = signed if signed is not None else script
    if isinstance(script, NoAnswer):
        return script
    more = {"attempt": str(record.attempt), "mark": record.mark}
    return context.system.park(
        record.name, script, payload.words, metadata={**dict(payload.metadata), **more},
        seconds=effect.seconds, directory=payload.directory,
        environment=dict(payload.environment), umask=payload.invocation.umask,
    )  # fmt: skip


def absolute(place: str) -> str:
    """The place of a ledger, whatever the working directory."""
    return place if "://" in place else str(Path(place).absolute())


def _origin(context: DelegationContext, record: Record) -> Origin:
    return Origin(
        ledger=record.ledger, place=absolute(context.ledger.place), created=record.created,
        owner=record.owner, job=record.digest, lease=float(record.lease),
        from_start=record.from_start,
    )  # fmt: skip


def _replied(
    context: DelegationContext, record: Record, reply: str | Refused | NoAnswer
) -> Record | None:
    """Record the reply to a submission, unless the job has gone on meanwhile.

    The row need not reach the disk: a lost reply is found again by the job's name.
    """
    known: Record | None = record
    seen = Observation(queue=NOT_ASKED, reply=reply)
    for _ in range(TRIES):
        if known is None or known.attempt != record.attempt:
            return known
        if known.state not in {JobState.INTENT, JobState.UNKNOWN}:
            return known
        moved = states.step(known, seen, context.clock(), context.deadlines).record
        if moved == known:
            return known
        written = context.ledger.save([(known, moved)], context.owner, durable=False)[0]
        if written is not None:
            return written
        known = context.ledger.find(record.key)
    return known


def script_at(path: Path) -> bytes:
    """The content of a job's script. Raises OSError, and ValueError for no file or a large one."""
    if not path.is_file() and path.exists():
        raise ValueError(f"{path} is no file; name the job's script")
    with path.open("rb") as file:
        content = file.read(LIMITS.script + 1)
    if len(content) > LIMITS.script:
        raise ValueError(f"{path} is larger than {LIMITS.script} bytes: hand over a short script")
    return content


def digest_of(payload: Payload, system: str) -> str:
    """A hash of an order: its batch system, ad, script, and the owner's call.

    The queue and the flags that were found for it are not part of it, nor the caller's directory.
    """
    call = attrs.evolve(payload.invocation, directory="", umask="")
    said = json.dumps([system, payload.own_words, payload.ad, attrs.astuple(call)]).encode()
    return hashlib.sha256(hashlib.sha256(said).digest() + payload.content).hexdigest()
