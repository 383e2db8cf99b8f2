"""Publishing records as entries of GLUE 2.0: sites, and the services that run jobs.

A cluster is a service with a manager, its SubClusters are execution environments, and each queue
with each of its views is a share at the queue's endpoint. What came from GLUE 2.0 is published as
it was; what came from GLUE 1.3 gets the names and units of GLUE 2.0 (`glue1_to_glue2`), with the
marks by which `v2` reads them back. Endpoints and shares are in `shares2`, storage in `storage2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from matchmaker.classad import Value
from matchmaker.glue.entries import Attributes, Entry, rdn
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.publish.glue1_to_glue2 import (
    applications,
    benchmarks,
    family,
    left,
    nested,
    renamed,
)
from matchmaker.glue.publish.shares2 import ENDPOINT, INTERFACES, Place, interface, or_else, shares
from matchmaker.glue.publish.site2 import site_entries
from matchmaker.glue.publish.storage2 import close, storage
from matchmaker.glue.publish.values import (
    NOWHERE,
    homes_of_storage,
    key,
    made_id,
    publishable,
    whole,
)
from matchmaker.glue.publish.writer import Pairs, Writer
from matchmaker.glue.records import (
    Cluster,
    ComputingElement,
    GlueRecords,
    SubCluster,
    Values,
    split_id,
)
from matchmaker.glue.schema import attribute, attributes

BASE: Final = "GLUE2GroupID=grid,o=glue"
_SERVICE: Final = "org.ogf.glue.ComputingService"


def entries20(snapshot: GlueRecords, report: Report, base: str = BASE) -> Iterator[Entry]:
    """The entries of GLUE 2.0 for a snapshot, parents first and each once.

    `base` is the name that each site is put under.
    """
    seen: dict[str, Entry] = {}
    for entry in _all(publishable(snapshot, "2.0", report), Writer(report), base):
        known = seen.setdefault(key(entry.dn), entry)
        if known is entry:
            yield entry
        # Queues have endpoints in common.
        elif known != entry and ENDPOINT not in entry.attributes["objectClass"]:
            said = "an entry of this name came before; this one is left out"
            report(issue("publish.duplicate", said, dn=entry.dn))


def _all(snapshot: GlueRecords, writer: Writer, base: str) -> Iterator[Entry]:
    yield Entry("o=glue", Attributes([("objectClass", "organization"), ("o", "glue")]))
    yield _group(base, base.partition(",")[0].partition("=")[2])
    sites = {key(site.id): site for site in snapshot.sites}
    homes: dict[str, str] = {}

    def place(site_id: str) -> Iterator[Entry]:
        if key(site_id) in homes:
            return
        above = base
        if site_id:
            above = f"{rdn('GLUE2DomainID', site_id)},{base}"
            yield from site_entries(writer, above, site_id, sites.get(key(site_id)))
        homes[key(site_id)] = f"GLUE2GroupID={NOWHERE},{above}"
        yield _group(homes[key(site_id)], NOWHERE)

    for site in snapshot.sites:
        yield from place(site.id)
    of_storage = homes_of_storage(snapshot)
    for element in snapshot.storage_elements:
        site_id = of_storage[element.id]
        yield from place(site_id)
        yield from storage(writer, element, homes[key(site_id)], _of_site(site_id))
    queues: dict[str, list[ComputingElement]] = {}
    for ce in snapshot.computing_elements:
        name = ce.cluster.id if ce.cluster is not None else _host(ce)
        queues.setdefault(key(name), []).append(ce)
    clusters = {key(cluster.id): cluster for cluster in whole(snapshot.clusters)}
    for name, group in queues.items():
        clusters.setdefault(name, Cluster(_host(group[0]), {}))
    taken = {key(element.id) for element in snapshot.storage_elements}
    for name, cluster in clusters.items():
        yield from place(cluster.site_id)
        # A host may be known for its queues and for its storage, which are services each.
        ident = f"{cluster.id}_computing" if name in taken else cluster.id
        home = homes[key(cluster.site_id)]
        yield from _service(writer, (cluster, ident), queues.get(name, []), home)


def _host(ce: ComputingElement) -> str:
    return or_else(ce.id.partition(":")[0], ce.id)


def _group(dn: str, name: str) -> Entry:
    return Entry(dn, Attributes([("objectClass", "GLUE2Group"), ("GLUE2GroupID", name)]))


def _of_site(site_id: str) -> Pairs:
    return [("GLUE2ServiceAdminDomainForeignKey", site_id)] if site_id else []


def _known_of(queues: Sequence[ComputingElement], kind: str) -> dict[str, Value]:
    """What the first of some queues that has a class of GLUE 2.0 says of it."""
    levels = (level for ce in queues for level in (ce.values, *(v.values for v in ce.views)))
    return next((found for values in levels if (found := nested(values, kind))), {})


def _service(
    writer: Writer, of: tuple[Cluster, str], queues: Sequence[ComputingElement], home: str
) -> Iterator[Entry]:
    """The entries of a cluster, with the id of its service where it has none itself."""
    cluster, ident = of
    service = _known_of(queues, "GLUE2ComputingService")
    place = Place(home, or_else(service.get("GLUE2ServiceID"), ident), cluster.id)
    words = {interface(ce) for ce in queues}
    types = {INTERFACES[word][0] for word in words if word in INTERFACES}
    values = {
        "GLUE2ServiceType": types.pop() if len(types) == len(words) == 1 else _SERVICE,
        "GLUE2ServiceCapability": ["executionmanagement.jobexecution"],
        **service,
    }
    more = _of_site(cluster.site_id)
    yield writer.below(home, "GLUE2ComputingService", place.service_id, values, more)
    yield _manager(writer, cluster, queues, place)
    for sub in cluster.subclusters:
        yield from _hosts(writer, sub, place)
    yield from shares(writer, queues, place)
    for ce in queues:
        yield from close(writer, ce, place.service_id, place.service)


def _manager(
    writer: Writer, cluster: Cluster, queues: Sequence[ComputingElement], place: Place
) -> Entry:
    values = _known_of(queues, "GLUE2ComputingManager")
    keys = ("GLUE2ManagerServiceForeignKey", "GLUE2ComputingManagerComputingServiceForeignKey")
    more = [(key, place.service_id) for key in keys]
    other: Values = {}
    if not values:
        owners = ("GLUE2ComputingManager", "GLUE2Manager")
        values = renamed(cluster.values, *owners)
        values |= {n: value for n, value in cluster.values.items() if n.startswith(owners)}
        facts = [renamed(ce.values, *owners) for ce in queues]
        for name, value in facts[0].items() if facts else ():
            if all(other.get(name) == value for other in facts):
                values.setdefault(name, value)
        other = left(cluster.values, values, "GlueCluster")
        if lrms := next((t for ce in queues if (t := _lrms(ce))), ""):
            values["GLUE2ManagerProductName"] = lrms
        for kind in ("Physical", "Logical"):
            counts = [s.values.get(f"GlueSubCluster{kind}CPUs") for s in cluster.subclusters]
            known = [count for count in counts if isinstance(count, int)]
            if counts and len(known) == len(counts):
                values.setdefault(f"GLUE2ComputingManagerTotal{kind}CPUs", sum(known))
    kind, ident = "GLUE2ComputingManager", place.manager_id
    return writer.below(place.service, kind, ident, values, more, other=other)


def _lrms(ce: ComputingElement) -> str:
    said = ce.values.get("GlueCEInfoLRMSType")
    parts = split_id(ce.id)
    return said if isinstance(said, str) else parts[1] if parts else ""


# --- hosts ----------------------------------------------------------------------------------------


def _hosts(writer: Writer, sub: SubCluster, place: Place) -> Iterator[Entry]:
    values = nested(sub.values, "GLUE2ExecutionEnvironment")
    kind, name = "GLUE2ExecutionEnvironment", "GLUE2ApplicationEnvironment"
    keys = ("GLUE2ResourceManagerForeignKey", f"{kind}ComputingManagerForeignKey")
    more = [(key, place.manager_id) for key in keys]
    other: Values = {}
    if not values:
        values = renamed(sub.values, kind)
        if system := family(sub.values.get("GlueHostOperatingSystemName")):
            values["GLUE2ExecutionEnvironmentOSFamily"] = system
        hosts = [a.owner for a in attributes().values() if a.owner.startswith("GlueHost")]
        other = left(sub.values, values, "GlueSubCluster", *hosts)
        values |= {n: value for n, value in sub.values.items() if attribute(n) is None}
    hosts_entry = writer.below(place.manager, kind, sub.id, values, more, other=other)
    yield hosts_entry
    for number, found in enumerate(benchmarks(sub.values), 1):
        ident = or_else(found.get("GLUE2BenchmarkID"), made_id(f"{sub.id}_benchmark_{number}"))
        more = [("GLUE2BenchmarkExecutionEnvironmentForeignKey", sub.id)]
        yield writer.below(hosts_entry.dn, "GLUE2Benchmark", ident, found, more)
    for found in applications(sub.values):
        ident = or_else(found.get(f"{name}ID"), made_id(f"{sub.id}_{found.get(f'{name}AppName')}"))
        more = [(f"{name}ComputingManagerForeignKey", place.manager_id)]
        if f"{name}ID" not in found:
            more.append((f"{name}ExecutionEnvironmentForeignKey", sub.id))
        yield writer.below(place.manager, name, ident, found, more)
