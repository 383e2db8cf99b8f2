"""A factory's cycle: look, decide, act; and the service around it.

One cycle reads the sources, makes a snapshot of what was read and what is on record, asks
:func:`~matchmaker.pilots.policy.decision.decide`, and carries the decision out through a
:class:`~matchmaker.delegation.delegate.Delegator`. It may be killed at any point: the next cycle,
here or in another process, goes on from the record. Clocks come from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from matchmaker.classad import ClassAd, dumps
from matchmaker.delegation import states
from matchmaker.delegation.errors import LedgerError
from matchmaker.delegation.record import LIVE, Record, State
from matchmaker.pilots.factory import inventory, sources
from matchmaker.pilots.factory.services import (
    PilotRow,
    Reservation,
    Service,
    Services,
    TakenOverError,
)
from matchmaker.pilots.factory.sources import PilotTarget, SilentError
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
    from matchmaker.pilots.factory.settings import FactorySettings


@attrs.frozen(slots=True, kw_only=True)
class FactoryContext:
    """What a factory works with.

    Attributes:
        settings: its file.
        rule: the decision, from a snapshot and a seed.
        ledger: the records of pilots as jobs.
        services: the factory's own tables.
        delegator: who hands pilots over to a batch system, by its name in the ledger.
        clock: gives the time in seconds since 1970, and does not jump while the process lives.
        new_key: makes the keys of pilots.
        serves: whether pilots are submitted to a queue by this service.
    """

    settings: FactorySettings
    rule: Callable[[PilotSnapshot, int], Decision]
    ledger: Ledger
    services: Services
    delegator: Callable[[str], Delegator]
    clock: Callable[[], float]
    new_key: Callable[[], str]
    serves: Callable[[PilotTarget], bool] = lambda _: True


@attrs.frozen(slots=True, kw_only=True)
class FactoryState:
    """What a cycle leaves to the next in the same process; a restart begins with the first.

    Attributes:
        service: the service's row.
        places: the queues by source, and when each source last answered.
        first_seen: when each job was first seen; None before the first answer.
        over: the pilots that ended and whose results were not taken yet; None before the first
            look, which finds those that an earlier process left.
        ads: the ads of the last snapshot by their text: equal ones are matched once.
    """

    service: Service
    places: Mapping[int, tuple[float, tuple[PilotTarget, ...]]] = attrs.Factory(dict)
    first_seen: Mapping[str, float] | None = None
    over: tuple[PilotRow, ...] | None = None
    ads: Mapping[str, ClassAd] = attrs.Factory(dict)


def beat(means: FactoryContext, known: FactoryState, **changes: Any) -> FactoryState:
    """Writes down that the service lives, with what has changed of it."""
    service = attrs.evolve(known.service, beat=means.clock(), **changes)
    return attrs.evolve(known, service=attrs.evolve(service, wish=means.services.save(service)))


_HISTORY: Final = 14 * 86_400.0
"""For how many seconds the pilots of a queue say what it is like."""
_TIDY: Final = 500
"""Cycles between two times that old pilots are forgotten."""


# --- one cycle ------------------------------------------------------------------------------------


def cycle(means: FactoryContext, known: FactoryState) -> FactoryState:
    """One cycle. Raises LedgerError and TakenOverError; every other trouble is on record."""
    now = means.clock()
    silence = _looked(means, known)
    reports = sources.reports(means.settings.pilot.reports)
    known, rows, records = _settled(means, known, reports)
    if known.service.cycles % _TIDY == 0:
        means.services.forget(now - _HISTORY)
    known, places, silent = _places(means, known, now)
    rows = handed_again(means, known.service, rows, records, places)
    ads = [place.queue.pilot for place in places.values()]
    # What a pilot says of itself may ask more: whose jobs alone it takes.
    ads += [word.ad for word in reports.words.values() if word.ad is not None]
    known, demand, quiet = _demand(means, known, rows, ads, now)
    silent += quiet
    queues = _queues(means, places, silence, now)
    walls = {name: place.queue.wall for name, place in places.items()}
    pilots = tuple(
        inventory.pilot(row, records.get(row.key), reports, walls.get(row.queue, 0.0))
        for row in rows
    )
    snapshot = PilotSnapshot(
        now=now, demand=demand, queues=queues, pilots=pilots, memory=known.service.memory
    )
    known, snapshot = _same_ads(known, snapshot)
    decision = means.rule(snapshot, known.service.cycles)
    # One row has the number of a cycle and its facts: who looks while pilots are handed over must
    # not find the facts of the cycle before.
    facts = {
        **_facts(snapshot, decision, places), "silent": silent, "troubles": [], "submitted": 0,
        "ended": 0,
    }  # fmt: skip
    memory, cycles = dict(decision.memory), known.service.cycles + 1
    known = beat(means, known, memory=memory, cycles=cycles, facts=facts)
    ended, troubles = end_decided(means, known.service, decision, rows, pilots)
    troubles += lend_decided(means, known.service, decision, rows)
    known, made, refused = submit(means, known, decision, places)
    troubles += refused
    troubles += renewed(means, rows, records)
    facts |= {"troubles": troubles[:_MOST_SAID], "submitted": len(made), "ended": ended}
    return beat(means, known, facts=facts)


def _looked(means: FactoryContext, known: FactoryState) -> dict[str, str]:
    """Reconciles every batch system; why one gave no answer, by its name.

    One without pilots too: what its queue has left of pilots that ended is removed.
    """
    rows = (*means.services.live(), *(known.over or ()))
    places = [sources.written(means.settings, queue) for queue in means.settings.queue]
    places += [
        place for _, found in known.places.values() for place in found if not place.queue.closed
    ]
    silence = {}
    for cluster in sorted({row.cluster for row in rows} | {place.system for place in places}):
        try:
            silence[cluster] = means.delegator(cluster).reconcile().silence
        except LedgerError:
            raise
        except ValueError as error:
            silence[cluster] = str(error)
    return {cluster: why for cluster, why in silence.items() if why}


def _settled(
    means: FactoryContext, known: FactoryState, reports: inventory.PilotReports
) -> tuple[FactoryState, list[PilotRow], dict[str, Record]]:
    """Writes down what became of the pilots; gives those that live, and their records."""
    live = means.services.live()
    records = {record.key: record for record in means.ledger.records([row.key for row in live])}
    settings = means.settings.pilot
    after = [
        inventory.settled(
            row, records.get(row.key), reports.words.get(row.key), settings.early,
            kept=reports.kept,
        )
        for row in live
    ]  # fmt: skip
    means.services.update([new for old, new in zip(live, after, strict=True) if new != old])
    over = [row for row in after if not row.live]
    if known.over is None:
        # An earlier process may have been killed before it took the results.
        since = means.clock() - _HISTORY
        over = [row for row in means.services.history(since) if not row.live]
    left = _taken(means, (*(known.over or ()), *over))
    return (
        attrs.evolve(known, over=left), [row for row in after if row.live], records
    )  # fmt: skip


def _taken(means: FactoryContext, over: Sequence[PilotRow]) -> tuple[PilotRow, ...]:
    """Takes the results of pilots that ended a while ago; gives the others.

    A paused pilot is cancelled: another one may start sooner elsewhere.

    The record of an end is written before the batch system ends the job, whose directory must
    outlive it.
    """
    records = {record.key: record for record in means.ledger.records([row.key for row in over])}
    before = means.clock() - 2 * means.settings.deadlines.absent
    left = []
    for row in over:
        record = records.get(row.key)
        if record is None or record.state is State.ACKNOWLEDGED:
            continue
        if record.state is State.PAUSED:
            record = means.delegator(record.cluster).cancel(record.key)
        if record.state.live:
            if record.cancel_wanted:
                left.append(row)
            continue
        if row.ended is not None and row.ended > before:
            left.append(row)
            continue
        means.delegator(record.cluster).acknowledge(record.key)
        sources.forget(means.settings.pilot.reports, record.key)
    return tuple(left)


def _places(
    means: FactoryContext, known: FactoryState, now: float
) -> tuple[FactoryState, dict[str, PilotTarget], list[str]]:
    """The queues by name, of sources that answer or did so lately, and which were silent."""
    settings = means.settings
    found = {queue.name: sources.written(settings, queue) for queue in settings.queue}
    kept = dict(known.places)
    silent = []
    for number, source in enumerate(settings.source):
        try:
            kept[number] = (now, tuple(sources.described(settings, source)))
        except SilentError as error:
            silent.append(str(error))
        at, places = kept.get(number, (now, ()))
        for place in places:
            if now - at > settings.stale:
                why = f"its source has been silent for {now - at:.0f} s"
                queue = attrs.evolve(place.queue, closed=place.queue.closed or why)
                place = attrs.evolve(place, queue=queue)  # noqa: PLW2901
            found.setdefault(place.queue.key, place)
    return attrs.evolve(known, places=kept), found, silent


def _demand(
    means: FactoryContext,
    known: FactoryState,
    rows: Iterable[PilotRow],
    pilots: Iterable[ClassAd],
    now: float,
) -> tuple[FactoryState, tuple[Demand, ...] | None, list[str]]:
    """Demand by kind, or None where a source is silent; and which were."""
    ours = {row.key for row in rows}
    jobs: list[inventory.DemandJob] = []
    silent = []
    for source in means.settings.demand:
        try:
            jobs += sources.jobs(source, means.ledger, ours)
        except SilentError as error:
            silent.append(str(error))
    if silent:
        return known, None, silent
    before = known.first_seen
    seen = {
        job.id: (before or {}).get(job.id, min(job.queued or now, now)) for job in jobs if job.id
    }
    names = inventory.needed(pilots)
    found = inventory.kinds(jobs, names, seen, now, before=before)
    return attrs.evolve(known, first_seen=seen), found, []


def _queues(
    means: FactoryContext, places: Mapping[str, PilotTarget], silence: Mapping[str, str], now: float
) -> tuple[PilotQueue, ...]:
    """The queues of a snapshot, with what their history says."""
    history = inventory.histories(means.services.history(now - _HISTORY))
    made = []
    for place in places.values():
        queue, closed = place.queue, place.queue.closed
        if not closed and not means.serves(place):
            closed = "this service does not submit there"
        if not closed and place.system in silence:
            closed = f"its batch system does not answer: {silence[place.system]}"
        known = estimate(history.get(queue.key, ()), now)
        made.append(attrs.evolve(queue, estimate=known, closed=closed))
    return tuple(made)


def _same_ads(known: FactoryState, snapshot: PilotSnapshot) -> tuple[FactoryState, PilotSnapshot]:
    """The snapshot with the ads of the one before where they are equal."""
    kept: dict[str, ClassAd] = {}

    def same(text: str, ad: ClassAd) -> ClassAd:
        return kept.setdefault(text, known.ads.get(text, ad))

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
    return attrs.evolve(known, ads=kept), snapshot


# --- what is said of a cycle ----------------------------------------------------------------------

_MOST_SAID: Final = 1000


def _facts(
    snapshot: PilotSnapshot, decision: Decision, places: Mapping[str, PilotTarget]
) -> dict[str, Any]:
    """The numbers and reasons of a cycle, as values that JSON can hold."""
    counts: dict[str, dict[str, int]] = {}
    for pilot in snapshot.pilots:
        of = counts.setdefault(pilot.queue, dict.fromkeys(PilotState, 0))
        of[pilot.state] += 1
    held = {one.queue: one.reason for one in decision.held}
    for queue in snapshot.queues:
        if queue.closed:
            held.setdefault(queue.key, queue.closed)
    demand = snapshot.demand
    return {
        "at": snapshot.now,
        "mode": decision.mode,
        "target": decision.target,
        "waiting": None if demand is None else sum(kind.waiting for kind in demand),
        "running": None if demand is None else sum(kind.running for kind in demand),
        "pilots": {str(state): sum(of[state] for of in counts.values()) for state in PilotState},
        "queues": [
            {
                "queue": queue.key,
                "site": places[queue.key].site,
                "system": places[queue.key].system,
                "held": held.get(queue.key, ""),
                "median": queue.estimate.median,
                "failures": queue.estimate.failures,
                "pilots": {
                    str(state): counts.get(queue.key, {}).get(state, 0) for state in PilotState
                },
            }
            for queue in snapshot.queues[:_MOST_SAID]
        ],
        "submissions": [[o.queue, o.count, o.reason] for o in decision.submissions[:_MOST_SAID]],
        "ends": [[one.pilot, one.reason] for one in decision.ends[:_MOST_SAID]],
        "lends": [[one.pilot, one.takes, one.reason] for one in decision.lends[:_MOST_SAID]],
        "waits": [[one.kind, one.jobs, one.reason] for one in decision.waits[:_MOST_SAID]],
        "notes": list(decision.notes[:_MOST_SAID]),
    }


# --- the service ----------------------------------------------------------------------------------


def run(
    means: FactoryContext, service: Service, *, steady: Callable[[], float],
    wait: Callable[[float], str], said: Callable[[Service], None] = lambda _: None,
    most: int | None = None,
) -> Service:  # fmt: skip
    """Runs cycles until the service is stopped; its row then says how it ended.

    Args:
        means: what it works with.
        service: its row, which this process has taken.
        steady: a clock that never jumps, in seconds.
        wait: waits a number of seconds, or less; gives why to stop, or nothing.
        said: is given the row after each cycle.
        most: how many cycles at most.

    Raises what a cycle raises that is no passing trouble; the row says so.
    """
    known = FactoryState(service=service)
    left = most
    try:
        while True:
            begun = steady()
            try:
                known = cycle(means, known)
                said(known.service)
            except LedgerError as error:
                facts = {**known.service.facts, "troubles": [str(error)]}
                known = attrs.evolve(known, service=attrs.evolve(known.service, facts=facts))
                said(known.service)
            left = None if left is None else left - 1
            if left == 0:
                return _closed(means, known, "stopped", "it made as many cycles as it should")
            while (rest := begun + means.settings.cycle - steady()) > 0:
                if reason := wait(min(rest, means.settings.beat, _LOOK)):
                    return _closed(means, known, "stopped", reason)
                try:
                    known = beat(means, known)
                except LedgerError:
                    continue
                if known.service.wish:
                    return _closed(means, known, "stopped", "stopped by command")
            if reason := wait(0):
                return _closed(means, known, "stopped", reason)
    except TakenOverError:
        raise
    except BaseException as error:
        _closed(means, known, "failed", f"{type(error).__name__}: {error}")
        raise


_LOOK: Final = 2.0
"""How many seconds pass at most until a wish to stop is seen."""


def end_pilots(means: FactoryContext, service: Service) -> Service:
    """Ends the free pilots of a service that does not run, which this process has taken."""
    known = FactoryState(service=attrs.evolve(service, wish="end"))
    return _closed(means, known, "stopped", "its pilots were ended by command")


def _closed(means: FactoryContext, known: FactoryState, state: str, reason: str) -> Service:
    """Writes down the end of a service; with the wish ``end``, its free pilots end first."""
    service = known.service
    if service.wish == "end":
        mine = [row for row in means.services.live() if row.service == service.name]
        count, troubles = end(means, mine)
        reason = f"{reason}; {count} of {len(mine)} pilots were asked to end"
        reason = "; ".join((reason, *troubles[:3]))
    service = attrs.evolve(
        service, state=state, ended=means.clock(), beat=means.clock(), reason=reason[:500], wish=""
    )
    means.services.save(service)
    return service


# --- effects

_TOKEN_SECONDS: Final = 7 * 86_400.0
"""How long a pilot may wait in its queue until it registers."""


def handed_again(
    means: FactoryContext, service: Service, rows: list[PilotRow], records: Mapping[str, Record],
    places: Mapping[str, PilotTarget],
) -> list[PilotRow]:  # fmt: skip
    """Hands over what was reserved before a crash, under the same key; gives the live pilots.

    What is reserved counts: it is neither forgotten nor reserved again.
    """
    left = [row for row in rows if row.service == service.name and row.key not in records]
    gone = set()
    for row in left:
        place = places.get(row.queue)
        why = _handed(means, place, row) if place is not None else "no source has the queue now"
        if why:
            means.services.update([_refused(means, row, why, failed=place is not None)])
            gone.add(row.key)
    return [row for row in rows if row.key not in gone]


def _refused(means: FactoryContext, row: PilotRow, why: str, *, failed: bool) -> PilotRow:
    return attrs.evolve(row, ended=means.clock(), live=False, failed=failed, reason=why[:300])


def _handed(means: FactoryContext, place: PilotTarget, row: PilotRow) -> str:
    """Hands a reserved pilot over; why it could not be, or nothing."""
    ad = ClassAd({"Pilot": row.key, "Queue": row.queue, "Service": row.service})
    try:
        _give_token(means, row.key)
        means.delegator(place.system).submit(
            ad, means.settings.pilot.script, place.words, key=row.key, lease=means.settings.lease,
            # A factory that is gone leaves no pilots that start weeks later.
            lease_from="submit",
        )  # fmt: skip
    except LedgerError:
        raise
    except (ValueError, OSError) as error:
        sources.forget(means.settings.pilot.reports, row.key)
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def _give_token(means: FactoryContext, key: str) -> None:
    """Gets a pilot its own token from the binder. Raises OSError and ValueError."""
    pilot = means.settings.pilot
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


def submit(
    means: FactoryContext,
    known: FactoryState,
    decision: Decision,
    places: Mapping[str, PilotTarget],
) -> tuple[FactoryState, list[PilotRow], list[str]]:
    """Reserves what was decided, within the caps, and hands it over."""
    wanted = []
    for one in decision.submissions:
        if (place := places.get(one.queue)) is not None:
            most, most_queued = place.queue.max_pilots, place.queue.max_queued
            wanted.append(Reservation(one.queue, place.system, one.count, most, most_queued))
    if not wanted:
        return known, [], []
    caps = means.settings.caps
    reserved = means.services.reserve(
        known.service, wanted, means.clock(), means.new_key,
        most=caps.pilots, most_queued=caps.queued,
    )  # fmt: skip
    service = known.service
    counted = attrs.evolve(service, submitted=service.submitted + len(reserved))
    known = attrs.evolve(known, service=counted)
    made, closed = [], dict[str, str]()
    for row in reserved:
        why = closed.get(row.queue)
        if why is None and (why := _handed(means, places[row.queue], row)):
            # The others of this queue would be refused alike: one counts as lost.
            means.services.update([_refused(means, row, why, failed=True)])
            closed[row.queue] = why
        elif why:
            means.services.update([_refused(means, row, why, failed=False)])
        else:
            made.append(row)
        if means.clock() - known.service.beat > means.settings.beat:
            known = beat(means, known)
    return known, made, [f"{queue}: {why}" for queue, why in closed.items()]


def end_decided(
    means: FactoryContext, service: Service, decision: Decision, rows: Iterable[PilotRow],
    pilots: Iterable[Pilot],
) -> tuple[int, list[str]]:  # fmt: skip
    """Ends this service's pilots that the decision names; how many, and what went wrong."""
    wanted = {one.pilot for one in decision.ends}
    mine = {row.key: row for row in rows if row.service == service.name and row.key in wanted}
    return end(means, [mine[pilot.key] for pilot in pilots if pilot.key in mine])


def lend_decided(
    means: FactoryContext, service: Service, decision: Decision, rows: Iterable[PilotRow]
) -> list[str]:
    """Lends this service's pilots that the decision names, and no others; what went wrong.

    A pilot takes other work only from where it reports: without such a directory none is lent.
    """
    folder = means.settings.pilot.reports
    if folder is None:
        return ["no pilot is lent: [pilot] reports is not given"] if decision.lends else []
    mine = {row.key for row in rows if row.service == service.name}
    takes = {one.pilot: one.takes for one in decision.lends if one.pilot in mine}
    try:
        sources.lend(folder, takes, mine)
    except OSError as error:
        return [f"pilots cannot be lent: {folder}: {error.strerror or error}"]
    return []


def end(means: FactoryContext, rows: Sequence[PilotRow]) -> tuple[int, list[str]]:
    """Asks pilots to end before their next job, and cancels those that have not started.

    A pilot that reports first and then asks whether it shall end is never cancelled at work: the
    wish is written before its report is read again.
    """
    folder = means.settings.pilot.reports
    troubles = []
    asked = list(rows)
    if folder is not None:
        for row in rows:
            try:
                sources.ask_to_end(folder, row.key)
            except OSError as error:
                troubles.append(f"{row.key} cannot be asked to end: {error.strerror or error}")
                asked.remove(row)
        there = sources.reports(folder)
        if not there.kept:
            return 0, [*troubles, f"{folder} cannot be read: no pilot is cancelled"]
        waiting = [row for row in asked if row.key not in there.words]
    else:
        waiting = asked
    for cluster in sorted({row.cluster for row in waiting}):
        keys = [row.key for row in waiting if row.cluster == cluster]
        records = [r for r in means.ledger.records(keys) if r.state in LIVE]
        means.ledger.save([(r, states.wish_end(r)) for r in records if not r.cancel_wanted])
        report = means.delegator(cluster).reconcile(keys)
        troubles += [f"{key}: {why}" for key, why in report.troubles]
    return len(asked), troubles


def renewed(
    means: FactoryContext, rows: Iterable[PilotRow], records: Mapping[str, Record]
) -> list[str]:
    """Begins the leases anew that have run for a third of their length."""
    troubles = []
    now = means.clock()
    for row in rows:
        record = records.get(row.key)
        if record is None or record.cancel_wanted or record.state is State.CANCELLING:
            continue
        if record.lease_until - now < record.lease * 2 / 3:
            try:
                means.delegator(row.cluster).renew(row.key)
            except LedgerError:
                raise
            except ValueError as error:
                troubles.append(str(error))
    return troubles
