"""What a factory does to batch systems: pilots are handed over, renewed and ended.

What is done was decided before, and is on record before it is done. The cycle is in ``factory``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.delegation import states
from matchmaker.delegation.errors import LedgerError
from matchmaker.delegation.record import LIVE, Record, State
from matchmaker.pilots.factory import sources
from matchmaker.pilots.factory.means import Known, Means, beat
from matchmaker.pilots.factory.services import Row, Service, Wanted
from matchmaker.pilots.factory.sources import Place
from matchmaker.pilots.policy.snapshot import Decision, Pilot
from matchmaker.pilots.wire import connect

_TOKEN_SECONDS: Final = 7 * 86_400.0
"""How long a pilot may wait in its queue until it registers."""


def handed_again(
    means: Means, service: Service, rows: list[Row], records: Mapping[str, Record],
    places: Mapping[str, Place],
) -> list[Row]:  # fmt: skip
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


def _refused(means: Means, row: Row, why: str, *, failed: bool) -> Row:
    return attrs.evolve(row, ended=means.clock(), live=False, failed=failed, reason=why[:300])


def _handed(means: Means, place: Place, row: Row) -> str:
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


def _give_token(means: Means, key: str) -> None:
    """Gets a pilot its own token from the binder. Raises OSError and ValueError."""
    pilot = means.settings.pilot
    if pilot.binder is None or pilot.token is None or pilot.reports is None:
        return
    tls = None if pilot.ca is None else connect.authorities([pilot.ca])
    own = Path(pilot.token).read_text("ascii").strip()
    place = connect.Place(address=pilot.binder, token=own, tls=tls)

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
    means: Means, known: Known, decision: Decision, places: Mapping[str, Place]
) -> tuple[Known, list[Row], list[str]]:
    """Reserves what was decided, within the caps, and hands it over."""
    wanted = []
    for one in decision.submissions:
        if (place := places.get(one.queue)) is not None:
            most, most_queued = place.queue.max_pilots, place.queue.max_queued
            wanted.append(Wanted(one.queue, place.system, one.count, most, most_queued))
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
    means: Means, service: Service, decision: Decision, rows: Iterable[Row],
    pilots: Iterable[Pilot],
) -> tuple[int, list[str]]:  # fmt: skip
    """Ends this service's pilots that the decision names; how many, and what went wrong."""
    wanted = {one.pilot for one in decision.ends}
    mine = {row.key: row for row in rows if row.service == service.name and row.key in wanted}
    return end(means, [mine[pilot.key] for pilot in pilots if pilot.key in mine])


def lend_decided(
    means: Means, service: Service, decision: Decision, rows: Iterable[Row]
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


def end(means: Means, rows: Sequence[Row]) -> tuple[int, list[str]]:
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


def renewed(means: Means, rows: Iterable[Row], records: Mapping[str, Record]) -> list[str]:
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
