"""Make GLUE records of the queues and computing elements that an information system describes.

Documents come from strangers: `text`, `positive` and `named` take values of the right type and
size, and nothing else. A `QueueBuilder` gathers sites, endpoints and queues, and makes records of
them. A `RegistryBuilder` does so for systems that name the computing elements of a site without
their queues: such a one becomes an ad with ``QueuesUnknown``, whose queues, limits and access are
unknown.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final
from xml.etree.ElementTree import Element

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import Value
from matchmaker.classad.errors import shorten
from matchmaker.glue.access import RULES, is_vo
from matchmaker.glue.clean import whole
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.records import (
    NOT_KNOWN,
    ComputingElement,
    Downtime,
    GlueCluster,
    GlueRecords,
    GlueSite,
    SubCluster,
    VOView,
)

SYSTEM: Final = "InformationSystem"
"""The attribute of a queue that names the system by which it is described."""
DEFAULT_QUEUE: Final = "default"
"""The queue of a computing element that hands jobs on without naming one (HTCondor-CE)."""
GRID_RESOURCE: Final = "GridResource"
"""The attribute of a queue with the value of HTCondor's ``grid_resource`` that reaches it."""

CONDOR_URL: Final = "condor://"
"""The scheme of an HTCondor-CE's URL in a BDII."""

PORTS: Final[Mapping[str, int]] = {"arc-ce": 443, "htcondor-ce": 9619, "cream-ce": 8443}
"""Where the flavours of computing elements listen if nothing else is said (Harvester)."""

_KINDS: Final[Mapping[str, str]] = {
    "arc-ce": "nordugrid",
    "htcondor-ce": "condorce",
    "cream-ce": "cream",
}
"""The part of a queue's id that names the flavour of its computing element."""

_ENDPOINT: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?"
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>/[!-~]*)?"
)
_NO_HOSTS: Final = frozenset({"to.be.set", "none", "null", "noce"})
"""Placeholders of PanDA and its catalogue for a computing element that does not exist."""
_BLANKS: Final = re.compile(r"[\x00-\x20\x7f]+")


@attrs.frozen(slots=True)
class Endpoint:
    """The address of a computing element, and its software in lower case (`flavour`)."""

    flavour: str
    host: str
    port: int
    path: str = ""

    @classmethod
    def of(cls, url: object, flavour: object) -> Endpoint | None:
        """Parse ``host``, ``host:port`` or a URL; None for anything else.

        ARC's port of GridFTP becomes that of its REST interface, which has replaced it.

        >>> Endpoint.of("gsiftp://CE01.t2.grid:2811", "ARC-CE")
        Endpoint(flavour='arc-ce', host='ce01.t2.grid', port=443, path='')
        >>> Endpoint.of("not a host", "ARC-CE") is None
        True
        """
        found = _ENDPOINT.fullmatch(url.strip()) if isinstance(url, str) else None
        if found is None or len(found.group()) > LIMITS.raw or found["host"].lower() in _NO_HOSTS:
            return None
        kind = text(flavour).lower()
        port = int(found["port"]) if found["port"] else PORTS.get(kind, 443)
        if kind == "arc-ce" and (port == 2811 or found["scheme"] == "gsiftp"):
            port = PORTS[kind]
        if not 0 < port < 65536:
            return None
        return cls(kind, found["host"].lower(), port, (found["path"] or "").rstrip("/"))

    def queue_id(self, lrms: str, queue: str) -> str:
        """Make the id of a queue, as GLUE 1.3 has them.

        >>> Endpoint("arc-ce", "ce.t2.grid", 443).queue_id("slurm", "long")
        'ce.t2.grid:443/nordugrid-slurm-long'
        """
        kind = _KINDS.get(self.flavour) or re.sub(r"[^a-z0-9_.]+", "", self.flavour) or "ce"
        system = lrms.replace("-", "_").replace("/", "_") or NOT_KNOWN
        return f"{self.host}:{self.port}/{kind}-{system}-{queue}"

    def grid_resource(self, lrms: str, queue: str) -> str | None:
        """Make the value of HTCondor's ``grid_resource``; None for a flavour it does not reach.

        >>> Endpoint("htcondor-ce", "ce.t2.grid", 9619).grid_resource("slurm", "long")
        'condor ce.t2.grid ce.t2.grid:9619'
        """
        if self.flavour == "htcondor-ce":
            return f"condor {self.host} {self.host}:{self.port}"
        if self.flavour == "arc-ce":
            return f"arc https://{self.host}:{self.port}/arex/rest/1.0"
        if self.flavour == "cream-ce":
            service = f"https://{self.host}:{self.port}/ce-cream/services/CREAM2"
            return f"cream {service} {lrms} {queue}"
        return None

    @property
    def contact(self) -> str:
        """The URL of the service; ``host:port`` if its software has none."""
        if self.flavour == "arc-ce":
            # Behind GridFTP's port there were jobs or a queue.
            path = self.path if self.path.startswith("/arex") else "/arex"
            return f"https://{self.host}:{self.port}{path}"
        return f"{self.host}:{self.port}"


def text(value: object) -> str:
    r"""Return a text in one line, without blanks around; empty for anything else.

    >>> text(" long "), text(7), text("a\nb"), text(None)
    ('long', '', 'a b', '')
    """
    if not isinstance(value, str) or len(value) > LIMITS.text:
        return ""
    # Half of a surrogate pair, which JSON can escape, is in no ad.
    return _BLANKS.sub(" ", value.encode("utf-8", "replace").decode()).strip()


def name(value: object) -> str:
    """Return the name of a queue or batch system: a text without blanks; empty for anything else.

    >>> name("long"), name("two words"), name(["long"])
    ('long', '', '')
    """
    found = text(value)
    return found if " " not in found and len(found) <= LIMITS.raw else ""


def positive(value: object) -> int | None:
    """Return a number above 0, rounded; None for anything else, which stands for unknown.

    >>> positive(4000), positive("4000"), positive(2.6), positive(0), positive("-1"), positive(True)
    (4000, 4000, 3, None, None, None)
    """
    number = number_of(value)
    return (whole(number) or None) if number is not None else None


def number_of(value: object) -> float | None:
    """Return a number above 0; None for anything else. CRIC writes some numbers as texts."""
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{1,18})?", value.strip(), re.ASCII):
            return None
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value > 0 else None


def numbers(item: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Value]:
    """Return the numbers above 0 of an object, rounded, under GLUE's names.

    >>> numbers({"cpus": "4", "memory": 0}, {"cpus": "Cpus", "memory": "Memory"})
    {'Cpus': 4}
    """
    found = ((ours, positive(item.get(theirs))) for theirs, ours in names.items())
    return {ours: number for ours, number in found if number is not None}


def named(document: object, key: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object, or of a list of objects by what each has under a key."""
    if isinstance(document, dict):
        for number, (title, item) in enumerate(document.items(), 1):
            yield text(title) or str(number), item
    elif isinstance(document, list):
        for number, item in enumerate(document, 1):
            found = text(item.get(key)) if isinstance(item, dict) else ""
            yield found or str(number), item


def rules_of(vos: Iterable[object]) -> list[str]:
    """Make rules of access of the names of virtual organisations; leave out other values.

    >>> rules_of(["atlas", 7, "two words"])
    ['VO:atlas']
    """
    return list(dict.fromkeys(f"VO:{vo}" for vo in vos if is_vo(vo)))


@attrs.define(slots=True)
class _Queue:
    endpoint: Endpoint
    lrms: str
    name: str
    site: str
    parts: list[tuple[str, dict[str, Value]]] = attrs.Factory(list)
    hosts: dict[str, Value] = attrs.Factory(dict)


@attrs.define(slots=True)
class QueueBuilder:
    """Gathers the queues that a document describes, and reports the entries that are left out."""

    system: str
    report: Report
    room: int = LIMITS.described
    _queues: dict[str, _Queue] = attrs.field(factory=dict, init=False)
    _left: Counter[tuple[str, str]] = attrs.field(factory=Counter, init=False)
    _first: dict[tuple[str, str], str] = attrs.field(factory=dict, init=False)

    def leave(self, rule: str, said: str, raw: str) -> None:
        """Count an entry that is left out; `records` reports each reason once, with an example."""
        self._left[rule, said] += 1
        self._first.setdefault((rule, said), raw)

    def expected(self, noun: str, place: str) -> None:
        """Leave out a value where an object was expected."""
        self.leave("system.entry", f"no object where {noun} was expected, skipped", place)

    def endpoint(self, url: object, flavour: object, place: str, key: str) -> Endpoint | None:
        """Parse the endpoint under a key; None, and left out, if there is none."""
        found = Endpoint.of(url, flavour)
        if found is None:
            said = f"no {key} such as ce.site.org:9619, left out"
            self.leave("system.no-endpoint", said, place)
        return found

    def add(
        self, endpoint: Endpoint, queue: str, lrms: str, site: str, *, view: str,
        values: Mapping[str, Value], hosts: Mapping[str, Value] | None = None,
    ) -> None:  # fmt: skip
        """Add a description of a queue.

        The batch system is in lower case; it and the site may be empty. `view` tells apart several
        descriptions of one queue. Attributes of it and its hosts have the names of GLUE if they
        can.
        """
        ident = endpoint.queue_id(lrms, queue)
        if self.room <= 0:
            said = "more queues than are read of a document, the rest is left out"
            self.leave("link.too-many", said, ident)
            return
        self.room -= 1
        known = self._queues.setdefault(ident.lower(), _Queue(endpoint, lrms, queue, site))
        known.parts.append((view, dict(values)))
        for key, value in (hosts or {}).items():
            before = known.hosts.setdefault(key, value)
            if isinstance(before, int) and isinstance(value, int) and value > before:
                known.hosts[key] = value

    def records(self, downtimes: Iterable[Downtime] = ()) -> GlueRecords:
        """Make the records of all queues, and report entries that were left out."""
        for (rule, said), times in self._left.items():
            example = self._first[rule, said]
            more = f" (and {times - 1} more)" if times > 1 else ""
            self.report(issue(rule, f"{self.system}: {said}", raw=f"{example}{more}", count=times))
        sites: dict[str, GlueSite] = {}
        clusters: list[GlueCluster] = []
        queues: list[ComputingElement] = []
        for queue in self._queues.values():
            if queue.site and queue.site not in sites:
                sites[queue.site] = GlueSite(queue.site, {"GlueSiteUniqueID": queue.site})
            made = self._made(queue)
            sub = SubCluster(made.id, {"GlueSubClusterUniqueID": made.id, **queue.hosts})
            cluster = GlueCluster(made.id, {}, queue.site, sites.get(queue.site), (sub,))
            clusters.append(cluster)
            queues.append(attrs.evolve(made, cluster=cluster))
        if not queues:
            self.report(issue("link.no-queue", f"{self.system}: no queue is described"))
        found = tuple(sites.values()), tuple(clusters), tuple(queues)
        return GlueRecords(*found, (), tuple(downtimes))

    def _made(self, queue: _Queue) -> ComputingElement:
        endpoint = queue.endpoint
        ident = endpoint.queue_id(queue.lrms, queue.name)
        values: dict[str, Value] = {
            "GlueCEName": queue.name,
            "GlueCEInfoHostName": endpoint.host,
            "GlueCEInfoGatekeeperPort": endpoint.port,
            "GlueCEInfoContactString": [endpoint.contact],
            SYSTEM: self.system,
        }
        if queue.lrms:
            values["GlueCEInfoLRMSType"] = values["GlueCEInfoJobManager"] = queue.lrms
        if endpoint.flavour:
            values["GlueCEImplementationName"] = endpoint.flavour
        if (resource := endpoint.grid_resource(queue.lrms, queue.name)) is not None:
            values[GRID_RESOURCE] = resource
        if len(queue.parts) == 1 or any(RULES not in part for _, part in queue.parts):
            if len(queue.parts) > 1:
                said = "described several times, not each time with rules; the first counts"
                self.report(issue("link.duplicate", f"{self.system}: a queue is {said}", raw=ident))
            values |= queue.parts[0][1]
            if RULES not in values:
                said = f"{self.system}: no rule of access: whom it admits is unknown"
                self.report(issue("access.none", said, raw=ident))
            return ComputingElement(ident, values)
        views: dict[str, VOView] = {}
        for view, part in queue.parts:
            views.setdefault(view.lower(), VOView(view, part))
        # Whoever has no view of the queue is admitted by none.
        values[RULES] = []
        return ComputingElement(ident, values, None, tuple(views.values()))


QUEUES_UNKNOWN: Final = "QueuesUnknown"
"""The attribute, true, of a computing element that is named without its queues."""


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
class RegistryBuilder:
    """Gathers the computing elements and the downtimes that a document lists."""

    system: str
    report: Report
    _sites: dict[str, GlueSite] = attrs.field(factory=dict, init=False)
    _ces: dict[str, ComputingElement] = attrs.field(factory=dict, init=False)
    _downtimes: list[Downtime] = attrs.field(factory=list, init=False)

    def leave(self, rule: str, said: str, raw: str) -> None:
        """Report an entry that is left out."""
        self.report(issue(rule, f"{self.system}: {said}", raw=raw))

    def add_site(self, ident: str, values: Mapping[str, str]) -> None:
        """Add a site with those of its values that are not empty."""
        known = {name: value for name, value in values.items() if value}
        if ident:
            self._sites.setdefault(ident, GlueSite(ident, {"GlueSiteUniqueID": ident, **known}))

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
        cluster = GlueCluster(ident, {}, site, self._sites.get(site))
        self._ces[ident] = ComputingElement(ident, made, cluster)

    def add_downtime(
        self, place: str, service: str, times: tuple[str, str], *, severity: str,
        why: Iterable[str], url: str = "",
    ) -> None:  # fmt: skip
        """Add a downtime of a service at a place, from and to; one that ends at once is off."""
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
