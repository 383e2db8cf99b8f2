"""Queues as the OSG's collector has them: ads of CEs, each with a catalogue of what it offers.

``OSG_ResourceCatalog`` is a list of ads, one for each kind of resource behind a CE, with ``Memory``
(MB), ``CPUs``, ``GPUs``, ``OS``, ``MaxWallTime`` (minutes), ``AllowedVOs`` and, for entries that
give whole nodes, ``WholeNode`` and ``EstimatedCPUs``. Each becomes a queue. GLUE has no name for
``GPUs`` and ``WholeNode``; the ad has them as they are. (osg-configure, ``OSG_ResourceCatalog``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.classad.values import is_number
from matchmaker.glue.access import RULES, is_vo, restricted
from matchmaker.glue.clean.typed import whole
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

CATALOG: Final = "OSG_ResourceCatalog"
PORT: Final = 9619
"""Where HTCondor-CE listens."""

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


def snapshot(ads: Iterable[ClassAd], report: Report) -> GlueRecords:
    """The records of CEs; ads without a catalogue, and entries that are no ads, are reported."""
    sites: dict[str, Site] = {}
    clusters: dict[str, Cluster] = {}
    queues: dict[str, ComputingElement] = {}
    for number, ad in enumerate(ads, 1):
        host = first_text(ad, ("Name", "Machine", "OSG_Resource")) or f"ce{number}"
        host = host.rpartition("@")[2].partition(":")[0]
        listed = ad.eval(CATALOG)
        if not isinstance(listed, list):
            said = f"no {CATALOG}, so nothing is known of what it offers"
            report(issue("osg.no-catalog", said, raw=host))
            continue
        site_id = first_text(ad, ("OSG_ResourceGroup", "OSG_Resource")) or ""
        if site_id:
            sites.setdefault(site_id, Site(site_id, {"GlueSiteUniqueID": site_id}))
        for queue, sub in _queues(ad, host, listed, report):
            if (before := queues.get(queue.id.lower())) is not None:
                said = "a queue of this id came before; what only one admits is refused"
                report(issue("link.duplicate", said, raw=queue.id))
                if RULES in queue.values:
                    queues[queue.id.lower()] = restricted(before, texts(queue.values[RULES]))
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
            "GlueCEInfoGatekeeperPort": PORT,
            "GlueCEInfoLRMSType": lrms,
            "GlueCEStateStatus": "Production",
        }
        if queue:
            # The entry's name, of which the id is made, is no queue's.
            values["GlueCECapability"] = [f"{QUEUE}{queue}"]
        values.update(_numbers(entry, _LIMITS))
        vos = entry.eval("AllowedVOs")
        if isinstance(vos, str):
            vos = [vo.strip() for vo in vos.split(",")]
        if vos is UNDEFINED:
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
        ident = f"{host}:{PORT}/condorce-{safe}-{name}"
        yield ComputingElement(ident, values), SubCluster(name, hosts)


def _remote_queue(entry: ClassAd) -> str | None:
    """The queue that a route of the CE sets, where the entry says how jobs are transformed."""
    transform = entry.eval("Transform")
    return first_text(transform, ("set_remote_queue",)) if isinstance(transform, ClassAd) else None


def _numbers(entry: ClassAd, names: Mapping[str, str]) -> dict[str, Value]:
    """The whole numbers of an entry by our names for them."""
    given = {ours: entry.eval(theirs) for theirs, ours in names.items()}
    found = {name: whole(value) for name, value in given.items() if is_number(value)}
    return {name: number for name, number in found.items() if number is not None}
