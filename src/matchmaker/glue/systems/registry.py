"""Gather the computing elements and announced downtimes that registries of sites list.

OSG topology and GOCDB name the computing elements of a site, and nothing behind them. Such a one
becomes an ad with ``QueuesUnknown``: its queues, limits and access are unknown. If another
source describes queues of the same host, they take over the values of the registry (`placed`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Final
from xml.etree.ElementTree import Element

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.classad.quoting import shorten
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.records import Cluster, ComputingElement, GlueRecords, Site, split_id
from matchmaker.glue.systems.building import GRID_RESOURCE, SYSTEM, Endpoint, text
from matchmaker.glue.systems.downtimes import Downtime

QUEUES_UNKNOWN: Final = "QueuesUnknown"
"""The attribute, true, of a computing element that is named without its queues."""

CLOSED_BY: Final = "ClosedBy"
"""The attribute of a queue with the name of the registry that closed it."""
_ADDED: Final = (
    "GlueSiteUniqueID", "OSG_Resource", "OSG_Facility", "OSG_Site", "VOOwnership", "ServiceType",
    "Scopes",
)  # fmt: skip
"""The attributes that a queue takes over from registries that name its computing element."""

_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"
# Topology writes the hours of a day, 0 to 23, and AM or PM behind them.
_TIME: Final = re.compile(
    r"(?P<month>[A-Z][a-z]{2})[a-z]* +(?P<day>[0-9]{1,2}), *(?P<year>[0-9]{4})"
    r" +(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?: +[AP]M)?"
    r"(?: +(?:UTC|GMT|(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2})))?"
)


def time_of(said: str) -> datetime | None:
    """Parse a time: seconds since 1970, or a date in words, in UTC if it has no offset.

    >>> print(time_of("1795784400"), time_of("Nov 27, 2026 13:00 PM UTC"))
    2026-11-27 13:00:00+00:00 2026-11-27 13:00:00+00:00
    >>> print(time_of("Nov 27, 2026 08:00 -0500"), time_of("tomorrow"), time_of("9" * 30))
    2026-11-27 08:00:00-05:00 None None
    """
    try:
        if said.isascii() and said.isdecimal():
            return datetime.fromtimestamp(int(said), UTC)
        found = _TIME.fullmatch(said)
        if found is None:
            return None
        offset = timedelta(hours=int(found["hours"] or 0), minutes=int(found["minutes"] or 0))
        zone = timezone(-offset if found["sign"] == "-" else offset) if offset else UTC
        return datetime(
            int(found["year"]), _MONTHS.index(found["month"]) // 3 + 1, int(found["day"]),
            int(found["hour"]), int(found["minute"]), tzinfo=zone,
        )  # fmt: skip
    except (OverflowError, ValueError, OSError):
        return None


def inner(element: Element, path: str) -> str:
    """Return the text of an element below another, in one line; empty if there is none."""
    return text(element.findtext(path))


@attrs.define(slots=True)
class Registry:
    """Gathers the computing elements and the downtimes that a document lists.

    Attributes:
        system: the name of the information system.
        report: called with each finding.
    """

    system: str
    report: Report
    _sites: dict[str, Site] = attrs.field(factory=dict, init=False)
    _ces: dict[str, ComputingElement] = attrs.field(factory=dict, init=False)
    _downtimes: list[Downtime] = attrs.field(factory=list, init=False)

    def leave(self, rule: str, said: str, raw: str) -> None:
        """Report an entry that is left out."""
        self.report(issue(rule, f"{self.system}: {said}", raw=raw))

    def add_site(self, ident: str, values: Mapping[str, str]) -> None:
        """Add a site with those of its values that are not empty."""
        known = {name: value for name, value in values.items() if value}
        if ident:
            self._sites.setdefault(ident, Site(ident, {"GlueSiteUniqueID": ident, **known}))

    def add_ce(
        self, endpoint: Endpoint, site: str, values: Mapping[str, Value], *, closed: bool
    ) -> None:
        """Add a computing element; of two at one endpoint the one that takes jobs counts."""
        ident = f"{endpoint.host}:{endpoint.port}"
        before = self._ces.get(ident)
        if before is not None and (closed or before.values["GlueCEStateStatus"] == "Production"):
            return
        self.add_site(site, {})
        made: dict[str, Value] = {
            "GlueCEInfoHostName": endpoint.host,
            "GlueCEInfoGatekeeperPort": endpoint.port,
            "GlueCEInfoContactString": [endpoint.contact],
            "GlueCEImplementationName": endpoint.flavour,
            "GlueCEStateStatus": "Closed" if closed else "Production",
            SYSTEM: self.system,
            QUEUES_UNKNOWN: True,
            **values,
        }
        # CREAM is told the batch system and the queue, which nobody said.
        if endpoint.flavour != "cream-ce" and (resource := endpoint.grid_resource("", "")):
            made[GRID_RESOURCE] = resource
        cluster = Cluster(ident, {}, site, self._sites.get(site))
        self._ces[ident] = ComputingElement(ident, made, cluster)

    def add_downtime(
        self,
        place: str,
        service: str,
        times: tuple[str, str],
        *,
        severity: str,
        why: Iterable[str],
        url: str = "",
    ) -> None:
        """Add a downtime of a service; one that ends as it begins was called off.

        Args:
            place: its host, or another name of it.
            service: its type.
            times: from and to, as published.
            severity: ``OUTAGE`` if the service is down.
            why: the parts of the reason.
            url: where more is said.
        """
        start, end = map(time_of, times)
        if start is None or end is None or end < start or not place:
            said = "a downtime without a place, or without a time from and to, left out"
            self.leave("system.downtime", said, f"{place}: {times[0]} to {times[1]}")
        elif start < end:
            reason = shorten(": ".join(filter(None, why)), LIMITS.raw)
            self._downtimes.append(Downtime(place, service, start, end, severity, reason, url))

    def records(self) -> GlueRecords:
        """Make the records."""
        ces = tuple(self._ces.values())
        if ces:
            said = "named without queues, so their limits and whom they admit are unknown"
            self.report(issue("access.none", f"{self.system}: {said}", count=len(ces)))
        else:
            said = f"no computing element is listed; downtimes: {len(self._downtimes)}"
            self.report(issue("link.no-queue", f"{self.system}: {said}"))
        clusters = tuple(ce.cluster for ce in ces if ce.cluster is not None)
        return GlueRecords(tuple(self._sites.values()), clusters, ces, (), tuple(self._downtimes))


def children(element: Element, *tags: str) -> Iterator[Element]:
    """Yield the elements right below one that have one of several names."""
    return (child for child in element if child.tag in tags)


def placed(ads: Sequence[ClassAd]) -> list[ClassAd | None]:
    """Add to queues the values that registries have of their computing elements.

    Args:
        ads: of queues, and of computing elements without queues.

    Returns:
        The ads in their order; None for a computing element of which other ads are the queues. A
        queue of one that a registry has closed is closed.

    >>> closed = ClassAd(QueuesUnknown=True, GlueCEInfoHostName="ce", GlueCEStateStatus="Closed",
    ...                  InformationSystem="GOCDB")
    >>> left, queue = placed([closed, ClassAd(CEid="q", GlueCEInfoHostName="CE")])
    >>> left is None, queue["GlueCEStateStatus"], queue["ClosedBy"]
    (True, 'Closed', 'GOCDB')
    """
    named: dict[str, list[ClassAd]] = {}
    for ad in ads:
        if ad.eval(QUEUES_UNKNOWN) is True and (host := _host(ad)):
            its = named.setdefault(host, [])
            its += [ad] if len(its) < LIMITS.registered else []
    if not named:
        return list(ads)
    described = {_host(ad) for ad in ads if ad.eval(QUEUES_UNKNOWN) is not True}
    found: list[ClassAd | None] = []
    for ad in ads:
        host = _host(ad)
        if ad.eval(QUEUES_UNKNOWN) is True:
            found.append(None if host in described else ad)
        else:
            found.append(_told(ad, named[host]) if host in named else ad)
    return found


def _host(ad: ClassAd) -> str:
    """Return the host of a computing element; empty if neither it nor its id says it."""
    said = first_text(ad, ("GlueCEInfoHostName",))
    parts = None if said else split_id(first_text(ad, ("GlueCEUniqueID", "CEid")) or "")
    return (said or (parts[0].partition("/")[0].partition(":")[0] if parts else "")).lower()


def _told(queue: ClassAd, registered: Iterable[ClassAd]) -> ClassAd:
    """Return a queue with the values that registries have of its computing element."""
    made = queue.copy()
    registered = list(registered)
    for ce in registered:
        for name in _ADDED:
            if name in ce and name not in made:
                made[name] = ce.expr(name)
    # A host may be named by several registries, or at several ports: one that is open is enough.
    if all(ce.eval("GlueCEStateStatus") == "Closed" for ce in registered):
        made["GlueCEStateStatus"] = "Closed"
        made[CLOSED_BY] = first_text(registered[0], (SYSTEM,)) or "a registry"
    return made
