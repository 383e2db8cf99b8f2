"""Downtimes: announced times in which a computing element takes no jobs.

An information system announces them by host or by endpoint. A queue's ad gets the first that is
not over when its source is read, as ``DowntimeStart``, ``DowntimeEnd`` (times) and
``DowntimeReason``; the broker's conditions of admission refuse the queue while it lasts, and a job
whose wall time would reach into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import ClassAd
from matchmaker.classad.ad import first_text
from matchmaker.classad.quoting import shorten

START: Final = "DowntimeStart"
END: Final = "DowntimeEnd"
REASON: Final = "DowntimeReason"

OUTAGE: Final = "OUTAGE"
"""The severity that closes a queue. Any other, such as ``WARNING``, is an announcement (GOCDB)."""


@attrs.frozen(slots=True)
class Downtime:
    """A downtime of a computing element.

    Attributes:
        ce: the host, ``host:port``, the id of a queue, or the name of the resource in OSG topology;
            letters of either case are the same.
        service: the type of the service as published, such as ``ARC-CE``.
        start: when it begins, with a time zone.
        end: when it is over, with a time zone.
        severity: ``OUTAGE`` if the service is down; anything else does not close it.
        reason: why, for people.
        url: where more is said, or empty.
    """

    ce: str
    service: str
    start: datetime
    end: datetime
    severity: str = OUTAGE
    reason: str = ""
    url: str = ""


def pending(downtimes: Iterable[Downtime], at: datetime) -> tuple[Downtime, ...]:
    """Return the downtimes that are not over at a time."""
    return tuple(downtime for downtime in downtimes if downtime.end > at)


def close(ads: Iterable[ClassAd], downtimes: Iterable[Downtime]) -> list[ClassAd]:
    """Return the ads of queues, those in a downtime with its attributes; the others as they are.

    Of several downtimes of a queue the first counts, with those that overlap it.

    >>> from datetime import UTC
    >>> down = Downtime("CE.t2.edu", "ARC-CE", datetime(2026, 12, 1, tzinfo=UTC),
    ...                 datetime(2026, 12, 2, tzinfo=UTC), reason="new cooling")
    >>> [ad] = close([ClassAd(CEid="ce.t2.edu:443/nordugrid-slurm-q")], [down])
    >>> print(ad["DowntimeReason"], ad["DowntimeEnd"])
    new cooling 2026-12-02 00:00:00+00:00
    """
    by_place: dict[str, list[Downtime]] = {}
    for downtime in downtimes:
        if downtime.severity.upper() == OUTAGE:
            by_place.setdefault(downtime.ce.lower(), []).append(downtime)
    for place, its in by_place.items():
        # Hosts have a few; what strangers write must not be looked at again for each queue.
        by_place[place] = sorted(its, key=_times)[: LIMITS.downtimes]
    return [_closed(ad, by_place) for ad in ads] if by_place else list(ads)


def elsewhere(ads: Iterable[ClassAd], downtimes: Iterable[Downtime]) -> list[str]:
    """Return the places of downtimes that would close a queue and that no queue has, each once.

    >>> from datetime import UTC
    >>> times = datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 2, tzinfo=UTC)
    >>> down = [Downtime(place, "CE", *times) for place in ("A.edu", "B")]
    >>> elsewhere([ClassAd(CEid="a.edu:443/q")], down)
    ['B']
    """
    known = {place for ad in ads for place in _places(ad)}
    outages = (downtime.ce for downtime in downtimes if downtime.severity.upper() == OUTAGE)
    return [place for place in dict.fromkeys(outages) if place.lower() not in known]


def _closed(ad: ClassAd, by_place: Mapping[str, list[Downtime]]) -> ClassAd:
    found = [downtime for place in _places(ad) for downtime in by_place.get(place, ())]
    if not found:
        return ad
    first, *later = sorted(found, key=_times)
    end, reasons = first.end, [first.reason]
    for downtime in later:
        if downtime.start <= end:
            end = max(end, downtime.end)
            reasons.append(downtime.reason)
    closed = ad.copy()
    closed[START], closed[END] = first.start, end
    reason = "; ".join(dict.fromkeys(filter(None, reasons)))
    closed[REASON] = shorten(reason, LIMITS.raw) or "no reason was given"
    return closed


def _times(downtime: Downtime) -> tuple[datetime, datetime]:
    return downtime.start, downtime.end


def _places(ad: ClassAd) -> set[str]:
    """Return the names that a downtime may give a queue: ids, endpoint, host, OSG resource."""
    ids = (
        first_text(ad, (name,))
        for name in ("CEid", "GlueCEUniqueID", "GlueCEInfoContactString", "OSG_Resource")
    )
    known = {ident.lower() for ident in ids if ident is not None}
    endpoints = {ident.partition("://")[2] or ident for ident in known}
    endpoints = {endpoint.partition("/")[0] for endpoint in endpoints}
    host = first_text(ad, ("GlueCEInfoHostName",))
    hosts = {endpoint.partition(":")[0] for endpoint in endpoints}
    return known | endpoints | hosts | ({host.lower()} if host is not None else set())
