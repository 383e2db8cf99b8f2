"""The information systems of the WLCG: CRIC, sites' own reports (CRR), and the registry GOCDB.

CRIC is the Computing Resource Information Catalogue. ``atlas/pandaqueue/query/?json`` is an object
of PanDA queues by name. Each lists in ``queues`` the batch queues behind it (``ce_endpoint``,
``ce_flavour``, ``ce_queue_name``, ``ce_jobmanager``); its own limits are for a job of ``corecount``
processors: ``maxrss`` in MB, ``maxtime`` in seconds. ``core/ce/query/?json`` is an object of lists
of CEs by site, each with its ``queues`` by name and times in minutes. A collector of HTCondor-CE
gives the same as ``ce_services`` and ``queues``.

CRR, Computing Resource Reporting, is the JSON with which a site describes itself.
``computingresources`` is an object of resources by name: a batch system (``jobmanager``) with its
``shares`` (queues) and ``accesspoints`` (CEs by flavour, each with ``endpoint_urls``). A share has
the values of its resource that it does not state itself. Memory is in GB for a processor, times in
minutes. Versions 1.2 and 1.5 differ in names; both are read, and so is the proposal before them, a
list ``computingservices`` with a queue an entry.

GOCDB's programmatic interface gives XML, ``<results>`` of ``SITE`` (`get_site`),
``SERVICE_ENDPOINT`` (`get_service_endpoint`) or ``DOWNTIME`` (`get_downtime`, one for each service
that is down, and `get_downtime_nested_services`, with all of them in ``SERVICES``). An endpoint of
a type in `FLAVOURS` is a computing element. A downtime of the severity ``OUTAGE`` closes it; one of
``WARNING`` is at risk, and stays open. (docs/sources.md has the sources.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast
from xml.etree.ElementTree import Element

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import Value
from matchmaker.glue.access import RULES
from matchmaker.glue.clean import whole
from matchmaker.glue.issues import Report
from matchmaker.glue.records import GlueRecords, split_id
from matchmaker.glue.systems.building import (
    DEFAULT_QUEUE,
    Endpoint,
    QueueBuilder,
    RegistryBuilder,
    children,
    inner,
    name,
    named,
    number_of,
    numbers,
    positive,
    rules_of,
    text,
)

CRIC: Final = "CRIC"
CRR: Final = "CRR"
GOCDB: Final = "GOCDB"
GOCDB_ROOTS: Final = frozenset({"results"})

# One is enough: versions of CRIC's JSON differ in the others.
_PANDA: Final = frozenset({"panda_resource", "siteid", "vo_name", "maxrss", "pilot_manager"})
_CE: Final = frozenset({"endpoint", "flavour"})
_LOOKED_AT: Final = 100  # entries by which a document is recognised; real ones are all alike

_STATUS: Final[Mapping[str, str]] = {
    "online": "Production",
    "test": "Draining",
    "brokeroff": "Draining",
    "offline": "Closed",
}
"""GLUE's state for each status of PanDA's brokerage; only an online queue takes jobs."""

_CLOUDS: Final = frozenset({"kubernetes", "cloud", "cloudscheduler", "vac"})
"""Flavours that take no jobs through a computing element."""

_QUEUE_TIMES: Final[Mapping[str, str]] = {
    "ce_queue_maxwctime": "GlueCEPolicyMaxWallClockTime",
    "ce_queue_maxcputime": "GlueCEPolicyMaxCPUTime",
}
_CE_TIMES: Final[Mapping[str, str]] = {
    "max_wallclocktime": "GlueCEPolicyMaxWallClockTime",
    "max_cputime": "GlueCEPolicyMaxCPUTime",
}
_CE_HOSTS: Final[Mapping[str, str]] = {
    "memory": "GlueHostMainMemoryRAMSize",
    "cpus": "GlueHostArchitectureSMPSize",
}
_OF_HOSTS: Final[tuple[str, ...]] = (
    *("GlueHostArchitectureSMPSize", "GlueHostMainMemoryRAMSize"),
    *("GlueHostNetworkAdapterOutboundIP", "GPUs"),
)


def is_cric(document: object) -> bool:
    """Whether a document is CRIC's: PanDA queues, or CEs by site or by name.

    >>> is_cric({"T2": {"panda_resource": "T2", "queues": []}}), is_cric({"a": 1})
    (True, False)
    """
    if isinstance(document, dict) and isinstance(document.get("ce_services"), dict):
        return isinstance(document.get("queues"), dict)
    first = (item for _, item in islice(named(document, "name"), _LOOKED_AT))
    items = (one for item in first for one in (item[:10] if isinstance(item, list) else (item,)))
    return any(_is_panda(item) or _is_ce(item) for item in items)


def cric_records(document: object, report: Report) -> GlueRecords:
    """Make records of CRIC's JSON; what cannot be read is reported and left out."""
    builder = QueueBuilder(CRIC, report)
    if isinstance(document, dict) and isinstance(document.get("ce_services"), dict):
        for ce_name, ce in named(document["ce_services"], "name"):
            by_name = document.get("queues")
            its = by_name.get(ce_name) if isinstance(by_name, dict) else None
            _add_ce(builder, "", {**ce, "queues": its} if isinstance(ce, dict) else ce, ce_name)
        return builder.records()
    for title, item in named(document, "name"):
        if isinstance(item, list):
            for number, ce in enumerate(item, 1):
                _add_ce(builder, title, ce, f"{title} {number}")
        elif _is_ce(item):
            _add_ce(builder, "", item, title)
        elif _is_panda(item):
            _add_panda(builder, title, item)
        else:
            builder.leave("system.entry", "neither a PanDA queue nor a CE, skipped", title)
    return builder.records()


def _is_panda(item: object) -> bool:
    listed = isinstance(item, dict) and isinstance(item.get("queues"), list)
    return listed and not _PANDA.isdisjoint(cast("dict[str, object]", item))


def _is_ce(item: object) -> bool:
    return isinstance(item, dict) and item.keys() >= _CE


def _is_active(state: object) -> bool:
    return text(state).upper() in ("", "ACTIVE")


def _panda_limits(builder: QueueBuilder, title: str, item: Mapping[str, Any]) -> dict[str, Value]:
    """Return the limits of a PanDA queue, which hold for each batch queue behind it."""
    found: dict[str, Value] = {"PandaQueue": title}
    cores = positive(item.get("corecount"))
    if cores is not None:
        found["MaxCpusPerNode"] = found["GlueHostArchitectureSMPSize"] = cores
    memory = positive(item.get("maxrss"))
    # A site may say that its limits are those of a processor (Harvester).
    each = cores if "per_core_attr" in text(item.get("catchall")).split(",") else None
    if memory is not None and (memory := whole(memory * (each or 1))) is not None:
        found["MaxMemoryPerNode"] = found["GlueHostMainMemoryRAMSize"] = memory
    if resource := text(item.get("resource_type")):
        found["ResourceType"] = resource
        if resource.lower() == "gpu":
            found["GPUs"] = 1
    connected = text(item.get("wnconnectivity")).partition("#")[0].lower()
    if connected in ("full", "none"):
        found["GlueHostNetworkAdapterOutboundIP"] = connected == "full"
    if (seconds := positive(item.get("maxtime"))) is not None:
        found["GlueCEPolicyMaxWallClockTime"] = max(seconds // 60, 1)
    if (vo := item.get("vo_name")) not in (None, ""):
        found[RULES] = list[Value](rules_of([vo]))
        if not found[RULES]:
            said = "vo_name is no VO; it admits nobody"
            builder.leave("clean.access-rule", said, f"{title}: {vo}")
    return found


def _add_panda(builder: QueueBuilder, title: str, item: Mapping[str, Any]) -> None:
    """Add the batch queues of a PanDA queue."""
    if item.get("is_virtual") is True:
        return
    shared = _panda_limits(builder, title, item)
    hosts = {key: shared[key] for key in _OF_HOSTS if key in shared}
    status = _STATUS.get(text(item.get("status")).lower())
    site = text(item.get("gocname")) or text(item.get("rc_site")) or text(item.get("atlas_site"))
    if not item["queues"]:
        builder.leave("system.no-endpoint", "a PanDA queue without a CE, left out", title)
    for number, queue in enumerate(item["queues"], 1):
        place = f"{title}: queue {number}"
        if not isinstance(queue, dict):
            builder.expected("a queue", place)
            continue
        url, flavour = queue.get("ce_endpoint"), queue.get("ce_flavour")
        if (endpoint := builder.endpoint(url, flavour, place, "ce_endpoint")) is None:
            continue
        if endpoint.flavour in _CLOUDS:
            builder.leave("system.entry", "a cloud, and no computing element, left out", place)
            continue
        # A batch queue's own limits count where the PanDA queue has none.
        values = shared | numbers(queue, _QUEUE_TIMES) | shared
        if not (_is_active(item.get("state")) and _is_active(queue.get("ce_state"))):
            values["GlueCEStateStatus"] = "Closed"
        elif status is not None:
            values["GlueCEStateStatus"] = status
        queue_name = name(queue.get("ce_queue_name")) or DEFAULT_QUEUE
        lrms = name(queue.get("ce_jobmanager")).lower()
        builder.add(endpoint, queue_name, lrms, site, view=title, values=values, hosts=hosts)


def _add_ce(builder: QueueBuilder, site: str, ce: object, place: str) -> None:
    """Add the queues of a CE."""
    if not isinstance(ce, dict):
        builder.expected("a CE", place)
        return
    endpoint = builder.endpoint(ce.get("endpoint"), ce.get("flavour"), place, "endpoint")
    if endpoint is None:
        return
    site = text(ce.get("site")) or text(ce.get("rcsite")) or site
    lrms = name(ce.get("jobmanager")).lower()
    for key, queue in [*named(ce.get("queues"), "name")] or [(DEFAULT_QUEUE, {})]:
        if not isinstance(queue, dict):
            builder.expected("a queue", place)
            continue
        values, hosts = numbers(queue, _CE_TIMES), numbers(queue, _CE_HOSTS)
        if not _is_active(ce.get("state")):
            values["GlueCEStateStatus"] = "Closed"
        elif status := text(queue.get("status")) or text(ce.get("status")):
            values["GlueCEStateStatus"] = status.capitalize()
        view = name(key) or DEFAULT_QUEUE
        queue_name = name(queue.get("name")) or view
        builder.add(endpoint, queue_name, lrms, site, view=view, values=values, hosts=hosts)


_LARGEST: Final = 1_000_000
"""The most GB for a processor that are a size; providers write 9999999 for no limit."""

_TIMES: Final[Mapping[str, str]] = {
    "default_walltime_minutes": "GlueCEPolicyMaxWallClockTime",
    "default_cputime_minutes": "GlueCEPolicyMaxCPUTime",
    "max_wall_minutes": "GlueCEPolicyMaxWallClockTime",
    "max_walltime_minutes": "GlueCEPolicyMaxWallClockTime",
    "max_cputime_minutes": "GlueCEPolicyMaxCPUTime",
}
_MEMORY: Final = ("memory_gb", "default_memory_gb", "max_main_memory_gb", "max_memory_gb")
_PROCESSORS: Final = dict.fromkeys(
    ("number_logical_cpus", "number_processors"), "GlueCEInfoTotalCPUs"
)
_SERVICE: Final[Mapping[str, str]] = {
    "cs_queue_maxwalltime": "GlueCEPolicyMaxWallClockTime",
    "cs_queue_maxcputime": "GlueCEPolicyMaxCPUTime",
    "cs_queue_maxrunningjobs": "GlueCEPolicyMaxRunningJobs",
}
_SERVICE_HOSTS: Final = {"cs_queue_maxmainmemory": "GlueHostMainMemoryRAMSize"}


def is_crr(document: object) -> bool:
    """Whether a document is a report of computing resources.

    >>> is_crr({"computingresources": {}}), is_crr({"storageservice": {}})
    (True, False)
    """
    return isinstance(document, dict) and (
        isinstance(document.get("computingresources"), (dict, list))
        or isinstance(document.get("computingservices"), list)
    )


def crr_records(document: object, report: Report) -> GlueRecords:
    """Make records of a report; what cannot be read is reported and left out."""
    builder = QueueBuilder(CRR, report)
    parts = document if isinstance(document, dict) else {}
    for key, title_of, noun, add in (
        ("computingresources", "name", "a computing resource", _add_resource),
        ("computingservices", "ce_name", "a computing service", _add_service),
    ):
        for title, item in named(parts.get(key), title_of):
            if isinstance(item, dict):
                add(builder, title, item)
            else:
                builder.expected(noun, title)
    return builder.records()


@attrs.frozen(slots=True)
class _Share:
    name: str
    values: Mapping[str, Value]
    hosts: Mapping[str, Value]


def _add_resource(builder: QueueBuilder, title: str, resource: Mapping[str, Any]) -> None:
    """Add the shares of a resource at each of its access points."""
    lrms, site = name(resource.get("jobmanager")).lower(), text(resource.get("site"))
    by_name: dict[str, list[_Share]] = {}
    for share in _shares(builder, title, resource):
        by_name.setdefault(share.name, []).append(share)
    room = LIMITS.queues
    found = False
    for key, point in named(resource.get("accesspoints"), "name"):
        place = f"{title}: {key}"
        if not isinstance(point, dict):
            builder.expected("an access point", place)
            continue
        reached = _reached(by_name, point.get("shares"))
        urls = point.get("endpoint_urls")
        for url in urls if isinstance(urls, list) else [urls]:
            endpoint = builder.endpoint(url, point.get("flavour"), place, "endpoint")
            if endpoint is None:
                continue
            for share in reached(endpoint):
                if not room:
                    said = f"more than {LIMITS.queues} queues of a resource, the rest is left out"
                    builder.leave("link.too-many", said, title)
                    return
                room, found = room - 1, True
                values, hosts = share.values, share.hosts
                builder.add(
                    endpoint, share.name, lrms, site, view=title, values=values, hosts=hosts
                )
    if not found:
        said = "a computing resource that no access point reaches, left out"
        builder.leave("system.no-endpoint", said, title)


def _shares(builder: QueueBuilder, title: str, resource: Mapping[str, Any]) -> list[_Share]:
    """Return the shares of a resource; without any itself, with an empty name."""
    folded = {key.lower(): value for key, value in resource.items()}
    common: dict[str, Value] = {"ComputingResource": title, **numbers(folded, _PROCESSORS)}
    hosts: dict[str, Value] = {}
    if quality := text(folded.get("status")).lower():
        common["QualityLevel"] = quality
    if quality == "production":
        common["GlueCEStateStatus"] = "Production"
    if system := text(folded.get("os")):
        hosts["GlueHostOperatingSystemName"] = system
    if text(folded.get("coprocessor")).upper() == "GPU":
        hosts["GPUs"] = 1
    own, own_hosts = _share_limits(folded)
    common, hosts = common | own, hosts | own_hosts
    found = []
    for key, share in named(folded.get("shares"), "name"):
        if not isinstance(share, dict) or not name(key):
            said = "no object with a name where a share was expected, skipped"
            builder.leave("system.entry", said, f"{title}: {key}")
            continue
        values, its_hosts = _share_limits({part.lower(): value for part, value in share.items()})
        found.append(_Share(name(key), common | values, hosts | its_hosts))
    return found or [_Share("", common, hosts)]


def _share_limits(folded: Mapping[str, Any]) -> tuple[dict[str, Value], dict[str, Value]]:
    """Return the limits in a resource or a share: those of a queue, and those of its hosts."""
    values, hosts = numbers(folded, _TIMES), dict[str, Value]()
    for key in _MEMORY:
        size = number_of(folded.get(key))
        if size is not None and size < _LARGEST and (memory := positive(size * 1000)) is not None:
            hosts["GlueHostMainMemoryRAMSize"] = memory
    vos = folded.get("assigned_vos")
    if isinstance(vos, list) and vos:
        values[RULES] = list[Value](rules_of(vos))
    return values, hosts


def _reached(
    shares: Mapping[str, list[_Share]], names: object
) -> Callable[[Endpoint], Iterable[_Share]]:
    """Return a function that gives the shares behind an endpoint: those that are named, or all.

    A resource without shares is a queue itself, whose name may be in the URL of its endpoint.
    """
    given = names if isinstance(names, list) else []
    wanted = [each for each in given if isinstance(each, str)] or shares
    chosen = [share for one in dict.fromkeys(wanted) for share in shares.get(one, ())]

    def itself(endpoint: Endpoint) -> Iterator[_Share]:
        parts = split_id(f"{endpoint.host}:{endpoint.port}{endpoint.path}")
        queue = name(parts[2]) if parts is not None else ""
        yield attrs.evolve(shares[""][0], name=queue or DEFAULT_QUEUE)

    return itself if "" in shares else lambda _: chosen


def _add_service(builder: QueueBuilder, title: str, service: Mapping[str, Any]) -> None:
    """Add the queue that an entry of ``computingservices`` is."""
    endpoint = Endpoint.of(service.get("cs_endpointurl"), service.get("cs_flavour"))
    if endpoint is None:
        said = "no cs_endpointurl such as https://ce.site.org:9619, left out"
        builder.leave("system.no-endpoint", said, title)
        return
    values, hosts = numbers(service, _SERVICE), numbers(service, _SERVICE_HOSTS)
    if state := text(service.get("cs_state")):
        values["GlueCEStateStatus"] = state.capitalize()
    vos = service.get("cs_assigned_vo")
    if isinstance(vos, list) and vos:
        values[RULES] = list[Value](rules_of(vos))
    queue_name = name(service.get("cs_queue_name")) or DEFAULT_QUEUE
    lrms = name(service.get("cs_jobmanager")).lower()
    builder.add(endpoint, queue_name, lrms, "", view=title, values=values, hosts=hosts)


FLAVOURS: Final[Mapping[str, str]] = {
    "arc-ce": "arc-ce",
    "org.opensciencegrid.htcondorce": "htcondor-ce",
    "htcondor-ce": "htcondor-ce",
    "cream-ce": "cream-ce",
    "unicore6.targetsystemfactory": "unicore",
    "qcg.computing": "qcg",
}
"""The types of services, in lower case, that are computing elements, and their flavours."""

_ENTRIES: Final = ("SITE", "SERVICE_ENDPOINT", "DOWNTIME", "meta")


def is_gocdb(document: object) -> bool:
    """Whether a document is GOCDB's: results that are sites, endpoints or downtimes, or none."""
    results = isinstance(document, Element) and document.tag == "results"
    return results and all(child.tag in _ENTRIES for child in cast("Element", document))


def gocdb_records(document: object, report: Report) -> GlueRecords:
    """Make records of GOCDB's XML; what cannot be read is reported and left out."""
    registry = RegistryBuilder(GOCDB, report)
    if isinstance(document, Element):
        _check_page(registry, document)
        certified: dict[str, bool] = {}
        for site in children(document, "SITE"):
            _add_site(registry, site, certified)
        for endpoint in children(document, "SERVICE_ENDPOINT"):
            _add_endpoint(registry, endpoint, certified)
        for downtime in children(document, "DOWNTIME"):
            _add_downtime(registry, downtime)
    return registry.records()


def _check_page(registry: RegistryBuilder, document: Element) -> None:
    """Report a page that is full, behind which there may be another."""
    count = inner(document, "meta/count")
    following = [link for link in document.iterfind("meta/link") if link.get("rel") == "next"]
    if following and count and count == inner(document, "meta/max_page_size"):
        said = f"a page of {count} results; read the next one too"
        registry.leave("system.page", said, text(following[0].get("href")))


def _add_site(registry: RegistryBuilder, site: Element, certified: dict[str, bool]) -> None:
    ident = text(site.get("NAME")) or inner(site, "SHORT_NAME")
    if not ident:
        registry.leave("system.entry", "a SITE without a NAME, skipped", text(site.get("ID")))
        return
    if status := inner(site, "CERTIFICATION_STATUS"):
        certified[ident] = status.lower() == "certified"
    named = (("GlueSiteDescription", "OFFICIAL_NAME"), ("GlueSiteWeb", "HOME_URL"))
    values = {"GlueSiteName": ident, **{ours: inner(site, theirs) for ours, theirs in named}}
    registry.add_site(ident, {**values, "CertificationStatus": status})


def _add_endpoint(
    registry: RegistryBuilder, service: Element, certified: Mapping[str, bool]
) -> None:
    kind = inner(service, "SERVICE_TYPE")
    flavour = FLAVOURS.get(kind.lower())
    if flavour is None:
        return  # storage, a BDII, a portal
    host = inner(service, "HOSTNAME")
    endpoint = Endpoint.of(host, flavour)
    if endpoint is None:
        said = f"a service of type {kind} without a HOSTNAME, left out"
        registry.leave("system.no-endpoint", said, host)
        return
    for url in (inner(service, "URL"), *(inner(e, "URL") for e in service.iter("ENDPOINT"))):
        # Many have the LDAP server of the information system here, or a page.
        told = Endpoint.of(url, flavour) if not url.startswith("ldap") else None
        if told is not None and told.host == endpoint.host:
            endpoint = told
            break
    site = inner(service, "SITENAME")
    values: dict[str, Value] = {"ServiceType": kind}
    if scopes := [text(scope.text) for scope in service.iter("SCOPE")]:
        values["Scopes"] = list[Value](scopes)
    closed = inner(service, "IN_PRODUCTION").upper() == "N" or not certified.get(site, True)
    registry.add_ce(endpoint, site, values, closed=closed)


def _add_downtime(registry: RegistryBuilder, downtime: Element) -> None:
    """Add a downtime for each computing element that it affects."""
    services = downtime.find("SERVICES")
    for service in [downtime] if services is None else children(services, "SERVICE"):
        kind = inner(service, "SERVICE_TYPE")
        if kind.lower() in FLAVOURS:
            registry.add_downtime(
                inner(service, "HOSTNAME"),
                kind,
                (inner(downtime, "START_DATE"), inner(downtime, "END_DATE")),
                severity=inner(downtime, "SEVERITY").upper(),
                why=(text(downtime.get("CLASSIFICATION")).lower(), inner(downtime, "DESCRIPTION")),
                url=inner(downtime, "GOCDB_PORTAL_URL"),
            )
