"""Queues of the OSG's collector: ads of CEs, each with a catalogue of its resources.

``condor_status -pool collector.opensciencegrid.org:9619 -schedd`` prints them, in each format of
ads. ``OSG_ResourceCatalog`` is a list of ads, one for each kind of resource behind a CE, with
``Memory`` (MB), ``CPUs``, ``GPUs``, ``OS``, ``MaxWallTime`` (minutes; 0 is no limit),
``MaxPilots``, ``AllowedVOs`` and, for entries that give whole nodes, ``WholeNode`` and
``EstimatedCPUs``; ``Queue``, or ``set_remote_queue`` in ``Transform``, is the queue of the batch
system, and without one its default. Each becomes a queue. Names that GLUE has none for, such as
``GPUs``, stay as they are. ``grid_resource`` of the CE's ad says how HTCondor reaches it.
(docs/sources.md has the sources.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.classad.values import is_number
from matchmaker.glue.access import RULES, agreed_queues, is_vo
from matchmaker.glue.clean import whole
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.records import (
    QUEUE,
    Cluster,
    ComputingElement,
    GlueRecords,
    Site,
    SubCluster,
    texts,
)
from matchmaker.glue.systems.building import (
    DEFAULT_QUEUE,
    GRID_RESOURCE,
    PORTS,
    SYSTEM,
    Endpoint,
)

NAME: Final = "OSG collector"
CATALOG: Final = "OSG_ResourceCatalog"
RESOURCE: Final = "OSG_Resource"
"""The attribute of a CE with the name that its resource has in OSG topology."""

_HOST: Final[Mapping[str, str]] = {
    "Memory": "GlueHostMainMemoryRAMSize",
    "CPUs": "GlueHostArchitectureSMPSize",
    "GPUs": "GPUs",
}
_WHOLE_NODE: Final[Mapping[str, str]] = {
    "EstimatedCPUs": "GlueHostArchitectureSMPSize",
    "GPUs": "GPUs",
}
"""An entry for whole nodes has the memory and CPUs of the smallest job, and not those of a node."""

_LIMITS: Final[Mapping[str, str]] = {
    "MaxWallTime": "GlueCEPolicyMaxWallClockTime",
    "MaxPilots": "GlueCEPolicyMaxTotalJobs",
}
_KEPT: Final = ("VOTag", "IsPilotEntry", "RequireSingularity", "Subclusters")
"""Attributes of an entry that are of the queue, and that GLUE has no name for."""

# HTCondor-C's: the schedd, and the collector with its port.
_GRID_RESOURCE: Final = re.compile(r"condor [!-~]{1,255} ([!-~]{1,255})")


def recognises(document: object) -> bool:
    """Whether a document is ads of which one has a catalogue."""
    return isinstance(document, list) and any(
        isinstance(ad, ClassAd) and CATALOG in ad for ad in document
    )


def records(document: object, report: Report) -> GlueRecords:
    """Make records of the CEs among ads; those without a catalogue are reported and left out."""
    ads = document if isinstance(document, list) else []
    return snapshot((ad for ad in ads if isinstance(ad, ClassAd)), report)


def snapshot(ads: Iterable[ClassAd], report: Report) -> GlueRecords:
    """Make records of CEs; report ads without a catalogue, and entries that are no ads."""
    sites: dict[str, Site] = {}
    clusters: dict[str, Cluster] = {}
    queues: dict[str, ComputingElement] = {}
    times = Counter[str]()
    for number, ad in enumerate(ads, 1):
        host = first_text(ad, ("Name", "Machine", RESOURCE)) or f"ce{number}"
        host = host.rpartition("@")[2].partition(":")[0]
        listed = ad.eval(CATALOG)
        if not isinstance(listed, list):
            said = f"no {CATALOG}, so nothing is known of what it offers"
            report(issue("osg.no-catalog", said, raw=host))
            continue
        site_id = first_text(ad, ("OSG_ResourceGroup", RESOURCE)) or ""
        if site_id:
            sites.setdefault(site_id, Site(site_id, {"GlueSiteUniqueID": site_id}))
        for queue, sub in _queues(ad, host, listed, report):
            if (before := queues.get(queue.id.lower())) is not None:
                said = "a queue of this id came before; what only one admits is refused"
                report(issue("link.duplicate", said, raw=queue.id))
                times[queue.id.lower()] += 1
                if times[queue.id.lower()] > LIMITS.again:
                    said = f"a queue of one id more than {LIMITS.again} times, left out"
                    report(issue("link.too-many", said, raw=queue.id))
                    continue
                [queues[queue.id.lower()]] = agreed_queues([before], [queue], report)
                continue
            cluster = Cluster(f"{host}/{sub.id}", {}, site_id, sites.get(site_id), (sub,))
            clusters[cluster.id] = cluster
            queues[queue.id.lower()] = attrs.evolve(queue, cluster=cluster)
    return GlueRecords(tuple(sites.values()), tuple(clusters.values()), tuple(queues.values()), ())


def _queues(
    ad: ClassAd, host: str, listed: Iterable[Value], report: Report
) -> Iterator[tuple[ComputingElement, SubCluster]]:
    systems = ad.eval("OSG_BatchSystems")
    lrms = systems.split(",")[0].strip().lower() if isinstance(systems, str) else "condor"
    reached, port = _reached(ad, host)
    for number, entry in enumerate(listed, 1):
        if not isinstance(entry, ClassAd):
            said = "no ad in the catalogue, skipped"
            report(issue("osg.entry", said, raw=f"{host}: entry {number}"))
            continue
        name = first_text(entry, ("Name",)) or f"resource{number}"
        queue = first_text(entry, ("Queue",)) or _remote_queue(entry)
        values: dict[str, Value] = {
            "GlueCEName": queue or name,
            "GlueCEInfoHostName": host,
            "GlueCEInfoGatekeeperPort": port,
            "GlueCEInfoLRMSType": lrms,
            "GlueCEStateStatus": "Production",
            SYSTEM: NAME,
            GRID_RESOURCE: reached,
        }
        if (resource := first_text(ad, (RESOURCE,))) is not None:
            values[RESOURCE] = resource
        for kept in _KEPT:
            value = entry.eval(kept)
            if isinstance(value, str | bool) or (isinstance(value, list) and texts(value) == value):
                values[kept] = value
        # The entry's name, of which the id is made, is no queue's.
        values["GlueCECapability"] = [f"{QUEUE}{queue or DEFAULT_QUEUE}"]
        values.update(_numbers(entry, _LIMITS))
        vos = _vos(entry.eval("AllowedVOs"))
        if vos is UNDEFINED or vos == []:
            said = "no AllowedVOs: whom it admits is unknown"
            report(issue("access.none", said, raw=f"{host}: {name}"))
        elif isinstance(vos, list) and all(map(is_vo, vos)):
            values[RULES] = [f"VO:{vo}" for vo in vos]
        else:
            values[RULES] = []
            said = "AllowedVOs is no list of VOs; it admits nobody"
            report(issue("clean.access-rule", said, raw=f"{host}: {name}: {vos}"))
        hosts: dict[str, Value] = {"GlueSubClusterUniqueID": name}
        whole_node = entry.eval("WholeNode")
        hosts.update(_numbers(entry, _WHOLE_NODE if whole_node is True else _HOST))
        if isinstance(whole_node, bool):
            hosts["WholeNode"] = whole_node
        if (system := first_text(entry, ("OS",))) is not None:
            hosts["GlueHostOperatingSystemName"] = system
        safe = lrms.replace("-", "_") or "condor"
        ident = f"{host}:{port}/condorce-{safe}-{name}"
        yield ComputingElement(ident, values), SubCluster(name, hosts)


def _vos(value: Value) -> Value:
    """Return the VOs of an entry as a list; quotes around a name are no part of it.

    >>> _vos('"osg", cms'), _vos(['"cms"', 7]), _vos("")
    (['osg', 'cms'], ['cms', 7], [])
    """
    if isinstance(value, str):
        value = list[Value](part for part in value.split(",") if part.strip())
    if not isinstance(value, list):
        return value
    return [vo.strip().strip("\"'") if isinstance(vo, str) else vo for vo in value]


def _reached(ad: ClassAd, host: str) -> tuple[str, int]:
    """Return the ``grid_resource`` of a CE, and the port where it listens."""
    said = ad.eval("grid_resource")
    found = _GRID_RESOURCE.fullmatch(said) if isinstance(said, str) else None
    endpoint = Endpoint.of(found[1], "htcondor-ce") if found else None
    if found is not None and endpoint is not None:
        return found.group(), endpoint.port
    port = PORTS["htcondor-ce"]
    return f"condor {host} {host}:{port}", port


def _remote_queue(entry: ClassAd) -> str | None:
    """Return the queue that the CE's transform of jobs sets, if the entry has one."""
    transform = entry.eval("Transform")
    return first_text(transform, ("set_remote_queue",)) if isinstance(transform, ClassAd) else None


def _numbers(entry: ClassAd, names: Mapping[str, str]) -> dict[str, Value]:
    """Return the whole numbers of an entry under GLUE's names."""
    given = {ours: entry.eval(theirs) for theirs, ours in names.items()}
    found = {name: whole(value) for name, value in given.items() if is_number(value)}
    return {name: number for name, number in found.items() if number is not None and number >= 0}
