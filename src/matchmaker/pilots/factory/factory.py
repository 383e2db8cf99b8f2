"""A factory's cycle: look, decide, act; and the service around it.

One cycle reads the sources, makes a snapshot of what was read and what is on record, asks
:func:`~matchmaker.pilots.policy.decision.decide`, and carries the decision out through a
:class:`~matchmaker.delegation.delegate.Delegator`. It may be killed at any point: the next cycle,
here or in another process, goes on from the record. Clocks come from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd, dumps
from matchmaker.delegation.errors import LedgerError
from matchmaker.delegation.record import Record, State
from matchmaker.pilots.factory import demand as demands
from matchmaker.pilots.factory import sources, stock
from matchmaker.pilots.factory.effects import (
    end,
    end_decided,
    handed_again,
    lend_decided,
    renewed,
    submit,
)
from matchmaker.pilots.factory.means import Known, Means, beat
from matchmaker.pilots.factory.services import Row, Service, TakenOverError
from matchmaker.pilots.factory.sources import Place, SilentError
from matchmaker.pilots.policy.estimates import estimate
from matchmaker.pilots.policy.snapshot import (
    Decision,
    Demand,
    PilotQueue,
    PilotSnapshot,
    PilotState,
)

_HISTORY: Final = 14 * 86_400.0
"""For how many seconds the pilots of a queue say what it is like."""
_TIDY: Final = 500
"""Cycles between two times that old pilots are forgotten."""


# --- one cycle ------------------------------------------------------------------------------------


def cycle(means: Means, known: Known) -> Known:
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
        stock.pilot(row, records.get(row.key), reports, walls.get(row.queue, 0.0)) for row in rows
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


def _looked(means: Means, known: Known) -> dict[str, str]:
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
    means: Means, known: Known, reports: stock.Reports
) -> tuple[Known, list[Row], dict[str, Record]]:
    """Writes down what became of the pilots; gives those that live, and their records."""
    live = means.services.live()
    records = {record.key: record for record in means.ledger.records([row.key for row in live])}
    settings = means.settings.pilot
    after = [
        stock.settled(
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


def _taken(means: Means, over: Sequence[Row]) -> tuple[Row, ...]:
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


def _places(means: Means, known: Known, now: float) -> tuple[Known, dict[str, Place], list[str]]:
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
    means: Means, known: Known, rows: Iterable[Row], pilots: Iterable[ClassAd], now: float
) -> tuple[Known, tuple[Demand, ...] | None, list[str]]:
    """Demand by kind, or None where a source is silent; and which were."""
    ours = {row.key for row in rows}
    jobs: list[demands.Job] = []
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
    names = demands.needed(pilots)
    found = demands.kinds(jobs, names, seen, now, before=before)
    return attrs.evolve(known, first_seen=seen), found, []


def _queues(
    means: Means, places: Mapping[str, Place], silence: Mapping[str, str], now: float
) -> tuple[PilotQueue, ...]:
    """The queues of a snapshot, with what their history says."""
    history = stock.histories(means.services.history(now - _HISTORY))
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


def _same_ads(known: Known, snapshot: PilotSnapshot) -> tuple[Known, PilotSnapshot]:
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
    snapshot: PilotSnapshot, decision: Decision, places: Mapping[str, Place]
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
    means: Means, service: Service, *, steady: Callable[[], float],
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
    known = Known(service=service)
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


def end_pilots(means: Means, service: Service) -> Service:
    """Ends the free pilots of a service that does not run, which this process has taken."""
    known = Known(service=attrs.evolve(service, wish="end"))
    return _closed(means, known, "stopped", "its pilots were ended by command")


def _closed(means: Means, known: Known, state: str, reason: str) -> Service:
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
