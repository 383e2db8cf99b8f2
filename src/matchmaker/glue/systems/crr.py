"""Computing Resource Reporting (CRR), the JSON with which a site of the WLCG describes itself.

``computingresources`` is an object of resources by name: a batch system (``jobmanager``) with its
``shares`` (queues) and ``accesspoints`` (CEs by flavour, each with ``endpoint_urls``). A share has
the values of its resource that it does not state itself. Memory is in GB for a processor, times in
minutes.
Versions 1.2 and 1.5 differ in names; both are read, and so is the proposal before them, a list
``computingservices`` with a queue an entry. (docs/sources.md has the sources.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import Value
from matchmaker.glue.access import RULES
from matchmaker.glue.issues import Report
from matchmaker.glue.records import GlueRecords, split_id
from matchmaker.glue.systems.building import (
    DEFAULT_QUEUE,
    Builder,
    Endpoint,
    name,
    named,
    number_of,
    positive,
    rules_of,
    text,
)

NAME: Final = "CRR"

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
_PROCESSORS: Final = ("number_logical_cpus", "number_processors")

_SERVICE: Final[Mapping[str, str]] = {
    "cs_queue_maxwalltime": "GlueCEPolicyMaxWallClockTime",
    "cs_queue_maxcputime": "GlueCEPolicyMaxCPUTime",
    "cs_queue_maxrunningjobs": "GlueCEPolicyMaxRunningJobs",
}


def recognises(document: object) -> bool:
    """Whether a document is a report of computing resources.

    >>> recognises({"computingresources": {}}), recognises({"storageservice": {}})
    (True, False)
    """
    return isinstance(document, dict) and (
        isinstance(document.get("computingresources"), (dict, list))
        or isinstance(document.get("computingservices"), list)
    )


def records(document: object, report: Report) -> GlueRecords:
    """Make records of a report; what cannot be read is reported and left out."""
    builder = Builder(NAME, report)
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
    """A queue with its own values and those of its resource."""

    name: str
    values: Mapping[str, Value]
    hosts: Mapping[str, Value]


def _add_resource(builder: Builder, title: str, resource: Mapping[str, Any]) -> None:
    """Add the shares of a resource at each of its access points."""
    lrms = name(resource.get("jobmanager")).lower()
    site = text(resource.get("site"))
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
                builder.add(
                    endpoint,
                    share.name,
                    lrms=lrms,
                    site=site,
                    view=title,
                    values=share.values,
                    hosts=share.hosts,
                )
    if not found:
        said = "a computing resource that no access point reaches, left out"
        builder.leave("system.no-endpoint", said, title)


def _shares(builder: Builder, title: str, resource: Mapping[str, Any]) -> list[_Share]:
    """Return the shares of a resource; without any itself, with an empty name."""
    folded = {key.lower(): value for key, value in resource.items()}
    common: dict[str, Value] = {"ComputingResource": title}
    hosts: dict[str, Value] = {}
    for key in _PROCESSORS:
        if (processors := positive(folded.get(key))) is not None:
            common["GlueCEInfoTotalCPUs"] = processors
    quality = text(folded.get("status")).lower()
    if quality:
        common["QualityLevel"] = quality
    if quality == "production":
        common["GlueCEStateStatus"] = "Production"
    if system := text(folded.get("os")):
        hosts["GlueHostOperatingSystemName"] = system
    if text(folded.get("coprocessor")).upper() == "GPU":
        hosts["GPUs"] = 1
    own, own_hosts = _limits(folded)
    common, hosts = common | own, hosts | own_hosts
    found = []
    for key, share in named(folded.get("shares"), "name"):
        if not isinstance(share, dict) or not name(key):
            said = "no object with a name where a share was expected, skipped"
            builder.leave("system.entry", said, f"{title}: {key}")
            continue
        values, its_hosts = _limits({part.lower(): value for part, value in share.items()})
        found.append(_Share(name(key), common | values, hosts | its_hosts))
    return found or [_Share("", common, hosts)]


def _limits(folded: Mapping[str, Any]) -> tuple[dict[str, Value], dict[str, Value]]:
    """Return the limits in a resource or a share: those of a queue, and those of its hosts."""
    values: dict[str, Value] = {}
    hosts: dict[str, Value] = {}
    for theirs, ours in _TIMES.items():
        if (minutes := positive(folded.get(theirs))) is not None:
            values[ours] = minutes
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


def _add_service(builder: Builder, title: str, service: Mapping[str, Any]) -> None:
    """Add the queue that an entry of ``computingservices`` is."""
    endpoint = Endpoint.of(service.get("cs_endpointurl"), service.get("cs_flavour"))
    if endpoint is None:
        said = "no cs_endpointurl such as https://ce.site.org:9619, left out"
        builder.leave("system.no-endpoint", said, title)
        return
    values: dict[str, Value] = {}
    for theirs, ours in _SERVICE.items():
        if (number := positive(service.get(theirs))) is not None:
            values[ours] = number
    hosts: dict[str, Value] = {}
    if (memory := positive(service.get("cs_queue_maxmainmemory"))) is not None:
        hosts["GlueHostMainMemoryRAMSize"] = memory
    if state := text(service.get("cs_state")):
        values["GlueCEStateStatus"] = state.capitalize()
    vos = service.get("cs_assigned_vo")
    if isinstance(vos, list) and vos:
        values[RULES] = list[Value](rules_of(vos))
    builder.add(
        endpoint,
        name(service.get("cs_queue_name")) or DEFAULT_QUEUE,
        lrms=name(service.get("cs_jobmanager")).lower(),
        site="",
        view=title,
        values=values,
        hosts=hosts,
    )
