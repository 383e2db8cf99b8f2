"""CRIC, the Computing Resource Information Catalogue of the WLCG: its PanDA queues and its CEs.

``atlas/pandaqueue/query/?json`` is an object of PanDA queues by name. Each lists in ``queues`` the
batch queues behind it (``ce_endpoint``, ``ce_flavour``, ``ce_queue_name``, ``ce_jobmanager``); its
own limits are for a job of ``corecount`` processors: ``maxrss`` in MB, ``maxtime`` in seconds.
``core/ce/query/?json`` is an object of lists of CEs by site, each with its ``queues`` by name and
times in minutes. A collector of HTCondor-CE gives the same as ``ce_services`` and ``queues``.
(docs/sources.md has the sources.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from matchmaker.classad import Value
from matchmaker.glue.access import RULES
from matchmaker.glue.clean import whole
from matchmaker.glue.issues import Report
from matchmaker.glue.records import GlueRecords
from matchmaker.glue.systems.building import (
    DEFAULT_QUEUE,
    Builder,
    name,
    named,
    positive,
    rules_of,
    text,
)

NAME: Final = "CRIC"

_PANDA: Final = frozenset({"panda_resource", "siteid", "vo_name", "maxrss", "pilot_manager"})
_CE: Final = frozenset({"endpoint", "flavour"})

_STATUS: Final[Mapping[str, str]] = {
    "online": "Production",
    "test": "Draining",
    "brokeroff": "Draining",
    "offline": "Closed",
}
"""GLUE's state for each status of PanDA's brokerage; only an online queue takes jobs."""


_CLOUDS: Final = frozenset({"kubernetes", "cloud", "cloudscheduler", "vac"})
"""The flavours of what takes no job through a computing element."""

_OF_HOSTS: Final[tuple[str, ...]] = (
    "GlueHostArchitectureSMPSize",
    "GlueHostMainMemoryRAMSize",
    "GlueHostNetworkAdapterOutboundIP",
    "GPUs",
)


def recognises(document: object) -> bool:
    """Whether a document is CRIC's: PanDA queues, or CEs by site or by name.

    >>> recognises({"T2": {"panda_resource": "T2", "queues": []}}), recognises({"a": 1})
    (True, False)
    """
    if isinstance(document, dict) and isinstance(document.get("ce_services"), dict):
        return isinstance(document.get("queues"), dict)
    return any(_is_panda(item) or _is_ce(item) for item in _items(document))


def records(document: object, report: Report) -> GlueRecords:
    """Make records of CRIC's JSON; what cannot be read is reported and left out."""
    builder = Builder(NAME, report)
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


def _items(document: object) -> Iterator[object]:
    """Yield the first entries of a document, out of the lists that they may be in."""
    for number, (_, item) in enumerate(named(document, "name")):
        if number >= 100:
            return
        yield from item[:10] if isinstance(item, list) else (item,)


def _is_panda(item: object) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("queues"), list)
        and not (_PANDA.isdisjoint(item))
    )


def _is_ce(item: object) -> bool:
    return isinstance(item, dict) and item.keys() >= _CE


def _limits(builder: Builder, title: str, item: Mapping[str, Any]) -> dict[str, Value]:
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


def _add_panda(builder: Builder, title: str, item: Mapping[str, Any]) -> None:
    """Add the batch queues of a PanDA queue."""
    if item.get("is_virtual") is True:
        return
    shared = _limits(builder, title, item)
    hosts = {key: shared[key] for key in _OF_HOSTS if key in shared}
    active = text(item.get("state")).upper() in ("", "ACTIVE")
    status = _STATUS.get(text(item.get("status")).lower())
    site = text(item.get("gocname")) or text(item.get("rc_site")) or text(item.get("atlas_site"))
    queues = item["queues"]
    if not queues:
        builder.leave("system.no-endpoint", "a PanDA queue without a CE, left out", title)
    for number, queue in enumerate(queues, 1):
        place = f"{title}: queue {number}"
        if not isinstance(queue, dict):
            builder.expected("a queue", place)
            continue
        url, flavour = queue.get("ce_endpoint"), queue.get("ce_flavour")
        endpoint = builder.endpoint(url, flavour, place, "ce_endpoint")
        if endpoint is None:
            continue
        if endpoint.flavour in _CLOUDS:
            builder.leave("system.entry", "a cloud, and no computing element, left out", place)
            continue
        values = dict(shared)
        for theirs, ours in (
            ("ce_queue_maxwctime", "GlueCEPolicyMaxWallClockTime"),
            ("ce_queue_maxcputime", "GlueCEPolicyMaxCPUTime"),
        ):
            if ours not in values and (minutes := positive(queue.get(theirs))) is not None:
                values[ours] = minutes
        here = active and text(queue.get("ce_state")).upper() in ("", "ACTIVE")
        if not here:
            values["GlueCEStateStatus"] = "Closed"
        elif status is not None:
            values["GlueCEStateStatus"] = status
        builder.add(
            endpoint,
            name(queue.get("ce_queue_name")) or DEFAULT_QUEUE,
            lrms=name(queue.get("ce_jobmanager")).lower(),
            site=site,
            view=title,
            values=values,
            hosts=hosts,
        )


def _add_ce(builder: Builder, site: str, ce: object, place: str) -> None:
    """Add the queues of a CE."""
    if not isinstance(ce, dict):
        builder.expected("a CE", place)
        return
    endpoint = builder.endpoint(ce.get("endpoint"), ce.get("flavour"), place, "endpoint")
    if endpoint is None:
        return
    site = text(ce.get("site")) or text(ce.get("rcsite")) or site
    active = text(ce.get("state")).upper() in ("", "ACTIVE")
    lrms = name(ce.get("jobmanager")).lower()
    found = [*named(ce.get("queues"), "name")] or [(DEFAULT_QUEUE, {})]
    for key, queue in found:
        if not isinstance(queue, dict):
            builder.expected("a queue", place)
            continue
        values: dict[str, Value] = {}
        hosts: dict[str, Value] = {}
        for theirs, ours, into in (
            ("max_wallclocktime", "GlueCEPolicyMaxWallClockTime", values),
            ("max_cputime", "GlueCEPolicyMaxCPUTime", values),
            ("memory", "GlueHostMainMemoryRAMSize", hosts),
            ("cpus", "GlueHostArchitectureSMPSize", hosts),
        ):
            if (number := positive(queue.get(theirs))) is not None:
                into[ours] = number
        status = text(queue.get("status")) or text(ce.get("status"))
        if not active:
            values["GlueCEStateStatus"] = "Closed"
        elif status:
            values["GlueCEStateStatus"] = status.capitalize()
        builder.add(
            endpoint,
            name(queue.get("name")) or name(key) or DEFAULT_QUEUE,
            lrms=lrms,
            site=site,
            view=name(key) or DEFAULT_QUEUE,
            values=values,
            hosts=hosts,
        )
