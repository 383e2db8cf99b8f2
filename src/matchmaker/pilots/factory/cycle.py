"""A factory's cycle: look, decide, act.

One cycle reads the sources, makes a snapshot of the answers and of the records, asks
:func:`~matchmaker.pilots.policy.decision.decide`, and reserves the pilots that were decided. They
are handed over through a :class:`~matchmaker.delegation.delegate.Delegator` at the rate of their
queues, until the next cycle, which decides anew about those that are left. The factory may be
killed at any point: the next cycle, here or in another process, goes on from the record. Clocks
come from outside.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from matchmaker.classad import ClassAd, dumps
from matchmaker.delegation import states
from matchmaker.delegation.database import LedgerError
from matchmaker.delegation.record import LIVE, JobState, Record
from matchmaker.pilots.factory import inventory, metrics, sources
from matchmaker.pilots.factory.inventory import DemandJob, PilotReports
from matchmaker.pilots.factory.services import (
    MOST_JOBS,
    PilotRow,
    Reservation,
    SeenJob,
    Service,
    Services,
)
from matchmaker.pilots.factory.sources import PilotTarget, SilentError
from matchmaker.pilots.policy.decision import SILENT_HALF
from matchmaker.pilots.policy.estimates import estimate
from matchmaker.pilots.policy.snapshot import (
    Decision,
    Demand,
    Pilot,
    PilotQueue,
    PilotSnapshot,
    PilotState,
)
from matchmaker.pilots.wire import connect

if TYPE_CHECKING:
    from matchmaker.delegation.delegate import Delegator
    from matchmaker.delegation.ledger import Ledger
    from matchmaker.pilots.factory.settings import DemandSource, FactorySettings, QueueSource

_LOG: Final = logging.getLogger(__name__)

_HISTORY: Final = 14 * 86_400.0
"""Seconds for which the pilots of a queue tell how it behaves: the load of a site changes with the
week, and two of them are seen."""
_TIDY: Final = 500
"""Cycles between two times that old pilots are forgotten: some hours, and a cost that is not
seen."""
_NOT_SERVED: Final = "this service does not submit there"
_USUAL: Final = (_NOT_SERVED, "a limit is reached")
"""How the reasons begin for which a queue is held as it should be: nobody need be warned."""
_TOKEN_SECONDS: Final = 7 * 86_400.0
"""Seconds that a pilot may wait in its queue until it registers: batch systems end jobs that have
waited for a week."""


@attrs.frozen(slots=True, kw_only=True)
class FactoryContext:
    """The factory's collaborators.

    Attributes:
        settings: its file.
        rule: the decision, from a snapshot and a seed.
        ledger: the records of pilots as jobs.
        services: the factory's own tables.
        delegator: makes the delegator to a batch system, by its name in the ledger.
        clock: gives the time in seconds since 1970, and does not jump while the process lives.
        new_key: makes the keys of pilots.
        serves: whether pilots are submitted to a queue by this service.
        hold: for how many seconds the jobs of a silent source count as they were.
        sleep: waits some seconds.
    """

    settings: FactorySettings
    rule: Callable[[PilotSnapshot, int], Decision]
    ledger: Ledger
    services: Services
    delegator: Callable[[str], Delegator]
    clock: Callable[[], float]
    new_key: Callable[[], str]
    serves: Callable[[PilotTarget], bool] = lambda _: True
    hold: float = 1800.0
    sleep: Callable[[float], object] = time.sleep


@attrs.frozen(slots=True, kw_only=True)
class FactoryState:
    """The state that a factory carries between cycles; a restart begins with the service alone.

    Attributes:
        service: the service's row.
        described: the queues of each source, by its number, and when it last answered.
        jobs: the jobs of each source of demand, by its number, and when it last answered.
        seen: the jobs of the last cycle by id; None before the first answer.
        over: the pilots that ended and whose results were not taken yet; None before the first
            look, which finds those that an earlier process left.
        ads: the ads of the last snapshot by their text: equal ones are matched once.
        targets: the queues of the last cycle.
        submissions: reserved pilots, to be handed over in this order.
        cancels: pilots that wait in their queue and shall not, in this order.
        ending: the live pilots that a decision has named to end: each is logged once.
        troubles: why sources are silent and queues are held back, by ``source`` or ``queue`` and
            the name: a change is logged.
    """

    service: Service
    described: Mapping[int, tuple[float, tuple[PilotTarget, ...]]] = attrs.Factory(dict)
    jobs: Mapping[int, tuple[float, tuple[DemandJob, ...]]] = attrs.Factory(dict)
    seen: Mapping[str, SeenJob] | None = None
    over: tuple[PilotRow, ...] | None = None
    ads: Mapping[str, ClassAd] = attrs.Factory(dict)
    targets: Mapping[str, PilotTarget] = attrs.Factory(dict)
    submissions: tuple[PilotRow, ...] = ()
    cancels: tuple[PilotRow, ...] = ()
    ending: frozenset[str] = frozenset()
    troubles: Mapping[tuple[str, str], str] = attrs.Factory(dict)


@attrs.frozen(slots=True)
class SilentSource:
    """A source that gave no answer: its place in the file and its name, since when, and why."""

    name: str
    since: float
    reason: str
    said: str

    @classmethod
    def of(
        cls, table: str, number: int, source: DemandSource | QueueSource, since: float,
        error: SilentError,
    ) -> SilentSource:  # fmt: skip
        """Make it from a source's table, the number of it and what the reader said."""
        called, said = sources.called(source), str(error)
        # Two sources may run the same command.
        name = f"[[{table}]] {number + 1} {called}"
        return cls(name, since, said.removeprefix(f"{called}: "), said)


def beat(context: FactoryContext, state: FactoryState, **changes: Any) -> FactoryState:
    """Write a heartbeat, with the changes to the service's row. Raises TakenOverError."""
    service = attrs.evolve(state.service, beat=context.clock(), **changes)
    return attrs.evolve(state, service=context.services.save(service))


# --- one cycle ------------------------------------------------------------------------------------


def cycle(context: FactoryContext, state: FactoryState) -> FactoryState:
    """Make one cycle. Raises LedgerError and TakenOverError; any other trouble goes on record."""
    now = context.clock()
    silence = _reconcile(context, state)
    reports = sources.reports(context.settings.pilot.reports)
    # What the cycle before reserved and did not hand over is decided anew.
    context.services.release(state.service)
    state, rows, records = _settle(context, state, reports)
    if state.service.cycles % _TIDY == 0:
        context.services.forget(now - _HISTORY)
    state, silent = _read_queues(context, state, now)
    rows, again = _unfinished(context, state, rows, records)
    ads = [target.queue.pilot for target in state.targets.values()]
    # A pilot's own ad may ask for more: whose jobs alone it takes.
    ads += [report.ad for report in reports.of.values() if report.ad is not None]
    state, demand, quiet, unknown = _read_demand(context, state, rows, ads, now)
    silent += quiet
    queues = _queues(context, state, silence, records, now)
    walls = {name: target.queue.wall for name, target in state.targets.items()}
    pilots = tuple(
        inventory.pilot(row, records.get(row.key), reports, walls.get(row.queue, 0.0))
        for row in rows
    )
    snapshot = PilotSnapshot(
        now=now, demand=demand, queues=queues, pilots=pilots, memory=state.service.memory
    )
    state, snapshot = _same_ads(state, snapshot)
    decision = context.rule(snapshot, state.service.cycles)
    if unknown and now - state.service.started < context.hold:
        # Nobody knows which of the free pilots the jobs of that source need.
        decision = attrs.evolve(decision, ends=(), lends=())
    # One row has the number of a cycle and its facts: who looks while pilots are handed over must
    # not find the facts of the cycle before.
    facts = {
        **metrics.facts(snapshot, decision, state.targets), "silent": [one.said for one in silent],
        "sources": {
            "demand": len(context.settings.demand),
            "silent": [[one.name, one.since] for one in silent],
        },
        "troubles": [], "submitted": 0, "ended": 0, "pending": 0,
    }  # fmt: skip
    memory, cycles = dict(decision.memory), state.service.cycles + 1
    state = beat(context, state, memory=memory, cycles=cycles, facts=facts)
    reasons = {("source", one.name): one.reason for one in silent}
    reasons |= {("queue", q["queue"]): q["held"] for q in facts["queues"] if q["held"]}
    _log_changes(state, facts, reasons)
    state = attrs.evolve(state, submissions=again, cancels=(), troubles=reasons)
    state, troubles = _end_decided(context, state, decision, rows, pilots)
    troubles += _lend_decided(context, state.service, decision, rows)
    troubles += _renew(context, rows, records)
    state = _reserve(context, state, decision)
    state, _ = carry_out(context, noted(state, troubles=troubles))
    return beat(context, state)


def noted(
    state: FactoryState, *, submitted: int = 0, ended: int = 0, troubles: Sequence[str] = ()
) -> FactoryState:
    """Add to the facts of the cycle; the next heartbeat writes them."""
    facts = dict(state.service.facts)
    facts["troubles"] = [*facts.get("troubles", ()), *troubles][: metrics.MOST]
    # Before the first cycle there is nothing else to tell.
    if "at" in facts:
        facts["submitted"] += submitted
        facts["ended"] += ended
        facts["pending"] = len(state.submissions) + len(state.cancels)
    for trouble in troubles:
        _LOG.warning("trouble", extra={"service": state.service.name, "reason": trouble})
    return attrs.evolve(state, service=attrs.evolve(state.service, facts=facts))


def last_look(context: FactoryContext, state: FactoryState) -> FactoryState:
    """Look once more at the pilots: the rows, and the facts of the last cycle, show what is left.

    Raises LedgerError.
    """
    _reconcile(context, state)
    reports = sources.reports(context.settings.pilot.reports)
    state, rows, records = _settle(context, state, reports)
    left = [inventory.pilot(row, records.get(row.key), reports, math.inf) for row in rows]
    facts = metrics.recounted(state.service.facts, left)
    return attrs.evolve(state, service=attrs.evolve(state.service, facts=facts))


def _log_changes(
    state: FactoryState, facts: Mapping[str, Any], after: Mapping[tuple[str, str], str]
) -> None:
    """Log the cycle, and the queues and sources whose state changed with it."""
    name, before = state.service.name, state.troubles
    for (kind, key), reason in after.items():
        # Reasons have times and counts in them; what stays as it was is logged once.
        if (kind, key) not in before:
            usual = kind == "queue" and reason.startswith(_USUAL)
            event = "source silent" if kind == "source" else "queue held"
            _LOG.log(logging.INFO if usual else logging.WARNING, event,
                     extra={"service": name, kind: key, "reason": reason})  # fmt: skip
    for kind, key in sorted(before.keys() - after.keys()):
        event = "source answers" if kind == "source" else "queue open"
        _LOG.info(event, extra={"service": name, kind: key})
    _LOG.info("cycle", extra={
        "service": name, "cycle": state.service.cycles, "waiting": facts["waiting"],
        **{f"pilots_{kind}": number for kind, number in facts["pilots"].items()},
    })  # fmt: skip


# --- reading --------------------------------------------------------------------------------------


def _reconcile(context: FactoryContext, state: FactoryState) -> dict[str, str]:
    """Reconcile every batch system; return why one gave no answer, by its name.

    One without pilots is asked too: files that ended pilots left in its queue are removed.
    """
    rows = (*context.services.live(), *(state.over or ()))
    targets = [sources.written(context.settings, queue) for queue in context.settings.queue]
    targets += [
        target
        for _, found in state.described.values()
        for target in found
        if not target.queue.closed
    ]
    silence = {}
    for cluster in sorted({row.cluster for row in rows} | {target.system for target in targets}):
        try:
            silence[cluster] = context.delegator(cluster).reconcile().silence
        except LedgerError:
            raise
        except ValueError as error:
            silence[cluster] = str(error)
    return {cluster: why for cluster, why in silence.items() if why}


def _settle(
    context: FactoryContext, state: FactoryState, reports: PilotReports
) -> tuple[FactoryState, list[PilotRow], dict[str, Record]]:
    """Write down the starts and ends of pilots; return those that live, and their records."""
    live = context.services.live()
    records = {record.key: record for record in context.ledger.records([row.key for row in live])}
    settings = context.settings.pilot
    after = [
        inventory.settled(
            row, records.get(row.key), reports.of.get(row.key), settings.early, kept=reports.kept
        )
        for row in live
    ]
    changed = [new for old, new in zip(live, after, strict=True) if new != old]
    context.services.update(changed)
    for row in changed:
        _log_pilot(row)
    over = [row for row in after if not row.live]
    if state.over is None:
        # An earlier process may have been killed before it took the results.
        since = context.clock() - _HISTORY
        over = [row for row in context.services.history(since) if not row.live]
    left = _take_results(context, (*(state.over or ()), *over))
    return attrs.evolve(state, over=left), [row for row in after if row.live], records


def _log_pilot(row: PilotRow) -> None:
    keys = {"pilot": row.key, "queue": row.queue}
    if row.live:
        _LOG.info("pilot started", extra=keys)
    elif row.refused or row.failed:
        what = "pilot refused" if row.refused else "pilot lost"
        _LOG.warning(what, extra={**keys, "reason": row.reason})
    else:
        _LOG.info("pilot ended", extra=keys | ({"reason": row.reason} if row.reason else {}))


def _take_results(context: FactoryContext, over: Sequence[PilotRow]) -> tuple[PilotRow, ...]:
    """Take the results of pilots that ended a while ago; return the others.

    A paused pilot is cancelled: another one may start sooner elsewhere. The record of an end is
    written before the batch system ends the job, whose directory must outlive it.
    """
    records = {record.key: record for record in context.ledger.records([row.key for row in over])}
    before = context.clock() - 2 * context.settings.deadlines.absent
    left = []
    for row in over:
        record = records.get(row.key)
        if record is None or record.state is JobState.ACKNOWLEDGED:
            continue
        if record.state is JobState.PAUSED:
            record = context.delegator(record.cluster).cancel(record.key)
        if record.state.live:
            if record.cancel_wanted:
                left.append(row)
            continue
        if row.ended is not None and row.ended > before:
            left.append(row)
            continue
        context.delegator(record.cluster).acknowledge(record.key)
        sources.forget(context.settings.pilot.reports, record.key)
    return tuple(left)


def _read_queues(
    context: FactoryContext, state: FactoryState, now: float
) -> tuple[FactoryState, list[SilentSource]]:
    """Find the queues, of sources that answer or did so lately; return which were silent."""
    settings = context.settings
    found = {queue.name: sources.written(settings, queue) for queue in settings.queue}
    described = dict(state.described)
    silent = []
    for number, source in enumerate(settings.source):
        try:
            described[number] = (now, tuple(sources.described(settings, source)))
        except SilentError as error:
            since, _ = described.get(number, (state.service.started, ()))
            silent.append(SilentSource.of("source", number, source, since, error))
        at, targets = described.get(number, (now, ()))
        for target in targets:
            queue = target.queue
            if now - at > settings.stale:
                why = f"its source has been silent for {now - at:.0f} s"
                queue = attrs.evolve(queue, closed=queue.closed or why)
            found.setdefault(queue.key, attrs.evolve(target, queue=queue))
    return attrs.evolve(state, described=described, targets=found), silent


def _read_demand(
    context: FactoryContext, state: FactoryState, rows: Iterable[PilotRow],
    pilots: Iterable[ClassAd], now: float,
) -> tuple[FactoryState, tuple[Demand, ...] | None, list[SilentSource], bool]:  # fmt: skip
    """Return the demand by kind, the silent sources, and whether one has never answered.

    The jobs of a silent source count as they were, for ``hold`` seconds; then they fade. They keep
    pilots, and ask for none. If no source answers, the demand is None.
    """
    ours = {row.key for row in rows}
    answers = dict(state.jobs)
    jobs: list[DemandJob] = []
    silent = []
    unknown = False
    for number, source in enumerate(context.settings.demand):
        try:
            answers[number] = (now, tuple(sources.jobs(source, context.ledger, ours)))
            jobs += answers[number][1]
        except SilentError as error:
            since, _ = answers.get(number, (state.service.started, ()))
            silent.append(SilentSource.of("demand", number, source, since, error))
            unknown = unknown or number not in answers
            at, were = answers.get(number, (now, ()))
            stay = 0.5 ** (max(now - at - context.hold, 0.0) / SILENT_HALF)
            kept = were[: math.ceil(len(were) * stay - 0.5)]
            jobs += [attrs.evolve(job, silent=True) for job in kept]
    if len(silent) == len(context.settings.demand):
        return state, None, silent, unknown
    before = state.seen
    if before is None:
        before = context.services.jobs(state.service.name) or None
    names = inventory.needed(pilots)
    keys = [inventory.kind_of(job, names) for job in jobs]
    seen = {
        job.id: SeenJob(
            id=job.id, kind=key, runs=job.runs,
            since=before[job.id].since if before and job.id in before
            else min(job.queued or now, now),
        )
        for job, key in zip(jobs, keys, strict=True)
        if job.id
    }  # fmt: skip
    noted = dict(islice((before or {}).items(), MOST_JOBS))
    context.services.note_jobs(state.service.name, noted, dict(islice(seen.items(), MOST_JOBS)))
    demand = inventory.kinds(jobs, keys, seen, now, before=before)
    return attrs.evolve(state, seen=seen, jobs=answers), demand, silent, unknown


def _queues(
    context: FactoryContext, state: FactoryState, silence: Mapping[str, str],
    records: Mapping[str, Record], now: float,
) -> tuple[PilotQueue, ...]:  # fmt: skip
    """Return the queues of a snapshot: estimates from their history, and why some are closed."""
    past = context.services.history(now - _HISTORY)
    history = inventory.histories(past)
    refused = inventory.refusal(past, records, now)
    made = []
    for target in state.targets.values():
        queue, closed = target.queue, target.queue.closed
        if not closed and not context.serves(target):
            closed = _NOT_SERVED
        if not closed and target.system in silence:
            closed = f"its batch system does not answer: {silence[target.system]}"
        closed = closed or refused.get(queue.key, "")
        known = estimate(history.get(queue.key, ()), now)
        made.append(attrs.evolve(queue, estimate=known, closed=closed))
    return tuple(made)


def _same_ads(state: FactoryState, snapshot: PilotSnapshot) -> tuple[FactoryState, PilotSnapshot]:
    """Replace ads by those of the snapshot before that are equal: pairs are matched by identity."""
    kept: dict[str, ClassAd] = {}

    def same(text: str, ad: ClassAd) -> ClassAd:
        return kept.setdefault(text, state.ads.get(text, ad))

    demand = snapshot.demand
    snapshot = attrs.evolve(
        snapshot,
        demand=None
        if demand is None
        else tuple(attrs.evolve(k, ad=same(f"kind {k.key}", k.ad)) for k in demand),
        queues=tuple(attrs.evolve(q, pilot=same(dumps(q.pilot), q.pilot)) for q in snapshot.queues),
        pilots=tuple(
            attrs.evolve(p, ad=None if p.ad is None else same(dumps(p.ad), p.ad))
            for p in snapshot.pilots
        ),
    )
    return attrs.evolve(state, ads=kept), snapshot


# --- acting ---------------------------------------------------------------------------------------


def _unfinished(
    context: FactoryContext, state: FactoryState, rows: list[PilotRow],
    records: Mapping[str, Record],
) -> tuple[list[PilotRow], tuple[PilotRow, ...]]:  # fmt: skip
    """Find the pilots that a kill left marked as handed over, and not in the ledger.

    They are handed over again, under the same keys. Returns the live pilots, and these.
    """
    again = []
    gone = set()
    for row in rows:
        if row.service == state.service.name and row.key not in records:
            if row.queue in state.targets:
                again.append(row)
            else:
                why = "no source has the queue now"
                context.services.refuse(attrs.evolve(row, ended=context.clock(), reason=why))
                gone.add(row.key)
    return [row for row in rows if row.key not in gone], tuple(again)


def _reserve(context: FactoryContext, state: FactoryState, decision: Decision) -> FactoryState:
    """Reserve the pilots that were decided, within the caps."""
    wanted = []
    for one in decision.submissions:
        if (target := state.targets.get(one.queue)) is not None:
            most, most_queued = target.queue.max_pilots, target.queue.max_queued
            wanted.append(Reservation(one.queue, target.system, one.count, most, most_queued))
    if not wanted:
        return state
    caps = context.settings.caps
    reserved = context.services.reserve(
        state.service, wanted, context.clock(), context.new_key,
        most=caps.pilots, most_queued=caps.queued,
    )  # fmt: skip
    return attrs.evolve(state, submissions=(*state.submissions, *reserved))


def carry_out(context: FactoryContext, state: FactoryState) -> tuple[FactoryState, float]:
    """Hand over and cancel as many pilots as the queues' rates allow now.

    Returns in how many seconds the next may follow; infinite if none is left.
    """
    waits: dict[str, float] = {}
    refused = set[str]()

    def granted(row: PilotRow) -> bool:
        if row.queue not in waits:
            rate = _rate(context, state, row.queue)
            wait = context.services.grant(row.queue, rate, context.clock())
            if not wait:
                return True
            waits[row.queue] = wait
        return False

    left = []
    for row in state.submissions:
        if row.queue in refused:
            # The others of this queue would be refused alike.
            continue
        if not granted(row):
            left.append(row)
        elif why := _hand_over(context, state, row):
            refused.add(row.queue)
            state = noted(state, troubles=[f"{row.queue}: {why}"])
        else:
            state = noted(state, submitted=1)
        if context.clock() - state.service.beat > context.settings.beat:
            state = beat(context, state)
    ends = [row for row in state.cancels if granted(row)]
    state = attrs.evolve(
        state, submissions=tuple(left), cancels=tuple(r for r in state.cancels if r not in ends)
    )
    troubles = end(context, ends) if ends else []
    waits = {row.queue: waits[row.queue] for row in (*state.submissions, *state.cancels)}
    return noted(state, troubles=troubles), min(waits.values(), default=math.inf)


def _rate(context: FactoryContext, state: FactoryState, queue: str) -> float:
    if queue in state.targets:
        return state.targets[queue].queue.rate
    # A queue that is gone, or of a service that does not run: the rate of its file, or the default.
    return next((one.rate for one in context.settings.queue if one.name == queue), 1.0)


def _hand_over(context: FactoryContext, state: FactoryState, row: PilotRow) -> str:
    """Hand a reserved pilot over; return why it was not taken, or nothing."""
    target = state.targets[row.queue]
    ad = ClassAd({"Pilot": row.key, "Queue": row.queue, "Service": row.service})
    keys = {"pilot": row.key, "queue": row.queue}
    if not row.handed:
        row = context.services.hand_over(state.service, row, context.clock())
    try:
        _give_token(context, row.key)
        record = context.delegator(target.system).submit(
            ad, context.settings.pilot.script, target.words, key=row.key,
            lease=context.settings.lease,
            # A factory that is gone leaves no pilots that start weeks later.
            lease_from="submit",
        )  # fmt: skip
    except LedgerError:
        raise
    except (ValueError, OSError) as error:
        sources.forget(context.settings.pilot.reports, row.key)
        why = " ".join(str(error).split()) or type(error).__name__
        context.services.refuse(attrs.evolve(row, ended=context.clock(), reason=why[:300]))
        _LOG.warning("pilot refused", extra={**keys, "reason": why})
        return why
    if record.state in {JobState.FAILED, JobState.UNKNOWN}:
        _LOG.warning("pilot not taken", extra={**keys, "reason": record.reason})
        return f"pilot {row.key} was not taken: {record.reason}"
    _LOG.info("pilot submitted", extra={**keys, "job": record.remote_id})
    return ""


def _give_token(context: FactoryContext, key: str) -> None:
    """Get a pilot its own token from the binder. Raises OSError and ValueError."""
    pilot = context.settings.pilot
    if pilot.binder is None or pilot.token is None or pilot.reports is None:
        return
    tls = None if pilot.ca is None else connect.tls_context([pilot.ca])
    own = Path(pilot.token).read_text("ascii").strip()
    place = connect.BinderAddress(address=pilot.binder, token=own, tls=tls)

    async def asked() -> str:
        async with connect.factory(place) as binder:
            return await binder.pilot_token(key, seconds=_TOKEN_SECONDS)

    try:
        text = asyncio.run(asked())
    except (OSError, ValueError) as error:
        said = str(error) or type(error).__name__
        raise ValueError(f"the binder at {pilot.binder} gave no token: {said}") from error
    sources.give_token(pilot.reports, key, text)


def _end_decided(
    context: FactoryContext, state: FactoryState, decision: Decision, rows: Sequence[PilotRow],
    pilots: Iterable[Pilot],
) -> tuple[FactoryState, list[str]]:  # fmt: skip
    """Ask this service's idle pilots that the decision names to end; note those to be cancelled."""
    reasons = {one.pilot: one.reason for one in decision.ends}
    mine = {r.key: r for r in rows if r.service == state.service.name and r.key in reasons}
    waiting = {pilot.key for pilot in pilots if pilot.state is PilotState.QUEUED}
    # A pilot may wait some cycles for the rate of its queue, and is decided in each.
    for key in [key for key in mine if key not in state.ending]:
        extra = {"pilot": key, "queue": mine[key].queue, "reason": reasons[key]}
        _LOG.info("pilot to end", extra=extra)
    ending = (state.ending | mine.keys()) & {row.key for row in rows}
    # A batch system is asked at its rate; a pilot that runs is asked by a file, at once.
    cancels = tuple(row for row in mine.values() if row.key in waiting)
    asked, troubles = ask(context, [row for row in mine.values() if row.key not in waiting])
    state = attrs.evolve(state, cancels=cancels, ending=ending)
    return noted(state, ended=len(asked) + len(cancels)), troubles


def _lend_decided(
    context: FactoryContext, service: Service, decision: Decision, rows: Iterable[PilotRow]
) -> list[str]:
    """Lend this service's pilots that the decision names, and no others; return the troubles.

    A pilot finds the jobs that it may take in its directory: without such a one none is lent.
    """
    folder = context.settings.pilot.reports
    if folder is None:
        return ["no pilot is lent: [pilot] reports is not given"] if decision.lends else []
    mine = {row.key for row in rows if row.service == service.name}
    takes = {one.pilot: one.takes for one in decision.lends if one.pilot in mine}
    try:
        sources.lend(folder, takes, mine)
    except OSError as error:
        return [f"pilots cannot be lent: {folder}: {error.strerror or error}"]
    return []


def ask(context: FactoryContext, rows: Iterable[PilotRow]) -> tuple[list[PilotRow], list[str]]:
    """Ask pilots to end before their next job; return those that were asked, and the troubles."""
    folder = context.settings.pilot.reports
    asked, troubles = [], []
    for row in rows:
        try:
            if folder is not None:
                sources.ask_to_end(folder, row.key)
            asked.append(row)
        except OSError as error:
            troubles.append(f"{row.key} cannot be asked to end: {error.strerror or error}")
    return asked, troubles


def end(context: FactoryContext, rows: Sequence[PilotRow]) -> list[str]:
    """Ask pilots to end before their next job, and cancel those that have not started.

    A pilot that reports first and then asks whether it shall end is never cancelled at work: the
    wish is written before its report is read again.
    """
    waiting, troubles = ask(context, rows)
    folder = context.settings.pilot.reports
    if folder is not None:
        there = sources.reports(folder)
        if not there.kept:
            return [*troubles, f"{folder} cannot be read: no pilot is cancelled"]
        waiting = [row for row in waiting if row.key not in there.of]
    for cluster in sorted({row.cluster for row in waiting}):
        keys = [row.key for row in waiting if row.cluster == cluster]
        records = [r for r in context.ledger.records(keys) if r.state in LIVE]
        context.ledger.save([(r, states.wish_end(r)) for r in records if not r.cancel_wanted])
        report = context.delegator(cluster).reconcile(keys)
        troubles += [f"{key}: {why}" for key, why in report.troubles]
    for row in waiting:
        _LOG.info("pilot cancelled", extra={"pilot": row.key, "queue": row.queue})
    return troubles


def _renew(
    context: FactoryContext, rows: Iterable[PilotRow], records: Mapping[str, Record]
) -> list[str]:
    """Begin the leases anew that have run for a third of their length; return the troubles."""
    troubles = []
    now = context.clock()
    for row in rows:
        record = records.get(row.key)
        if record is None or record.cancel_wanted or record.state is JobState.CANCELLING:
            continue
        if record.lease_until - now < record.lease * 2 / 3:
            try:
                context.delegator(row.cluster).renew(row.key)
            except LedgerError:
                raise
            except ValueError as error:
                troubles.append(str(error))
    return troubles
