"""Records as entries of GLUE 1.3 and of GLUE 2.0: sites, clusters, queues, storage; parents first.

In GLUE 2.0 a cluster is a service with a manager, its SubClusters are execution environments, and
each queue with each of its views is a share at the queue's endpoint. Values that came from GLUE 2.0
are published as they were; those from GLUE 1.3 get the names and units of GLUE 2.0 (`translation`),
with the marks by which `linking` reads them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import attrs

from matchmaker.classad import UNDEFINED, Value
from matchmaker.glue.access import ALSO, CLOSED, RULES, denies, views
from matchmaker.glue.entries import Attributes, Entry, rdn
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.publish import (
    NOWHERE,
    EntryWriter,
    Pairs,
    homes_of_storage,
    key,
    made_id,
    merged_clusters,
    publishable,
    with_one_list,
)
from matchmaker.glue.records import (
    ComputingElement,
    GlueCluster,
    GlueRecords,
    GlueSite,
    StorageElement,
    SubCluster,
    Values,
    split_id,
    texts,
)
from matchmaker.glue.schema import attribute, attributes
from matchmaker.glue.translation import (
    CE_ID,
    CONTACTS,
    VO_VIEW,
    applications,
    benchmarks,
    family,
    nested,
    remainder,
    serving,
    state,
    to_glue2,
)

GLUE1_BASE: Final = "Mds-Vo-name=local,o=grid"
_VERSION = [("GlueSchemaVersionMajor", "1"), ("GlueSchemaVersionMinor", "3")]


def entries13(snapshot: GlueRecords, report: Report, base: str = GLUE1_BASE) -> Iterator[Entry]:
    """Yield the entries of GLUE 1.3 for a snapshot, parents first.

    `base` is the name that each site is put under, as ``Mds-Vo-name=SITE``.
    """
    snapshot = publishable(snapshot, "1.3", report)
    writer = EntryWriter(report)
    yield from _parents(base)
    places: dict[str, str] = {}

    def place(site_id: str) -> Iterator[Entry]:
        name = site_id or NOWHERE
        if key(name) not in places:
            dn = places[key(name)] = f"{rdn('Mds-Vo-name', name)},{base}"
            yield Entry(dn, Attributes([("objectClass", "Mds"), ("Mds-Vo-name", name)]))

    def home(site_id: str) -> str:
        return places[key(site_id or NOWHERE)]

    for site in snapshot.sites:
        yield from place(site.id)
        more = [("GlueForeignKey", f"GlueSiteUniqueID={site.id}"), *_VERSION]
        yield writer.below(home(site.id), "GlueSite", site.id, site.values, more)
    queues: dict[str, list[ComputingElement]] = {}
    for ce in snapshot.computing_elements:
        if ce.cluster is not None:
            queues.setdefault(ce.cluster.id, []).append(ce)
    for cluster in snapshot.clusters:
        yield from place(cluster.site_id)
        yield from _glue1_cluster(
            writer, cluster, queues.get(cluster.id, ()), home(cluster.site_id)
        )
    homes = homes_of_storage(snapshot)
    for element in snapshot.storage_elements:
        yield from place(homes[element.id])
        yield from _glue1_storage(writer, element, home(homes[element.id]))
    for ce in snapshot.computing_elements:
        site_id = ce.cluster.site_id if ce.cluster is not None else ""
        yield from place(site_id)
        yield from _glue1_queue(writer, ce, home(site_id))


def _parents(base: str) -> Iterator[Entry]:
    """Yield the entries above the sites: ``o=grid`` and those between."""
    parts = base.split(",")
    for number in range(len(parts) - 1, -1, -1):
        name, _, value = parts[number].partition("=")
        kind = "organization" if name.strip().lower() == "o" else "Mds"
        pairs = [("objectClass", kind), (name.strip(), value.strip())]
        yield Entry(",".join(parts[number:]), Attributes(pairs))


def _glue1_cluster(
    writer: EntryWriter, cluster: GlueCluster, queues: Iterable[ComputingElement], home: str
) -> Iterator[Entry]:
    keys = [f"GlueSiteUniqueID={cluster.site_id}"] if cluster.site_id else []
    keys += [f"GlueCEUniqueID={ce.id}" for ce in queues]
    more = [*(("GlueForeignKey", each) for each in keys), *_VERSION]
    values = {n: value for n, value in cluster.values.items() if not n.startswith("GLUE2Computing")}
    made = writer.below(home, "GlueCluster", cluster.id, values, more)
    yield made
    for sub in cluster.subclusters:
        more = [("GlueChunkKey", f"GlueClusterUniqueID={cluster.id}"), *_VERSION]
        yield writer.below(made.dn, "GlueSubCluster", sub.id, sub.values, more)


def _glue1_queue(writer: EntryWriter, ce: ComputingElement, home: str) -> Iterator[Entry]:
    cluster = [f"GlueClusterUniqueID={ce.cluster.id}"] if ce.cluster is not None else []
    more = [*(("GlueForeignKey", each) for each in cluster), *_VERSION]
    queue = writer.below(home, "GlueCE", ce.id, ce.values, more)
    yield queue
    for view in ce.views:
        key = ("GlueChunkKey", f"GlueCEUniqueID={ce.id}")
        own = _differing(view.values, ce.values)
        yield writer.below(queue.dn, "GlueVOView", view.id, own, [key])
    if not ce.binds and not ce.bound:
        return
    close = dict.fromkeys((*ce.bound, *(bind.se_id for bind in ce.binds)))
    more = [*(("GlueCESEBindGroupSEUniqueID", se) for se in close), *_VERSION]
    group = writer.below(home, "GlueCESEBindGroup", ce.id, {}, more)
    yield group
    for bind in ce.binds:
        more = [("GlueCESEBindCEUniqueID", ce.id), ("GlueCESEBindSEUniqueID", bind.se_id)]
        mount = {"GlueCESEBindCEAccesspoint": bind.mount} if bind.mount else {}
        below = f"{rdn('GlueCESEBindSEUniqueID', bind.se_id)},{group.dn}"
        yield writer.entry(below, "GlueCESEBind", {**bind.values, **mount}, [*more, *_VERSION])


def _differing(view: Values, queue: Values) -> dict[str, Value]:
    """Return the values of a view unlike its queue's; the number for "unknown" hides one."""
    found: dict[str, Value] = {}
    for name, value in view.items():
        if name in queue and queue[name] == value and not name.endswith("BaseRule"):
            continue
        known = attribute(name)
        hides = value is UNDEFINED and queue.get(name, UNDEFINED) is not UNDEFINED
        found[name] = known.sentinel[0] if hides and known and known.sentinel else value
    return found


def _glue1_storage(writer: EntryWriter, element: StorageElement, home: str) -> Iterator[Entry]:
    made = writer.below(home, "GlueSE", element.id, element.values, _VERSION)
    yield made
    for area in element.areas:
        more = [("GlueChunkKey", f"GlueSEUniqueID={element.id}"), *_VERSION]
        yield writer.below(made.dn, "GlueSA", area.id, area.values, more)


GLUE2_BASE: Final = "GLUE2GroupID=grid,o=glue"
_SERVICE: Final = "org.ogf.glue.ComputingService"
_JOBS: Final = "executionmanagement.jobexecution"


def entries20(snapshot: GlueRecords, report: Report, base: str = GLUE2_BASE) -> Iterator[Entry]:
    """Yield the entries of GLUE 2.0 for a snapshot, parents first and each once.

    `base` is the name that each site is put under.
    """
    seen: dict[str, Entry] = {}
    for entry in _all(publishable(snapshot, "2.0", report), EntryWriter(report), base):
        known = seen.setdefault(key(entry.dn), entry)
        if known is entry:
            yield entry
        # Queues have endpoints in common.
        elif known != entry and ENDPOINT not in entry.attributes["objectClass"]:
            said = "an entry of this name came before; this one is left out"
            report(issue("publish.duplicate", said, dn=entry.dn))


def _all(snapshot: GlueRecords, writer: EntryWriter, base: str) -> Iterator[Entry]:
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
    clusters = {key(cluster.id): cluster for cluster in merged_clusters(snapshot.clusters)}
    for name, group in queues.items():
        clusters.setdefault(name, GlueCluster(_host(group[0]), {}))
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
    levels = (level for ce in queues for level in (ce.values, *(v.values for v in ce.views)))
    return next((found for values in levels if (found := nested(values, kind))), {})


def _service(
    writer: EntryWriter, of: tuple[GlueCluster, str], queues: Sequence[ComputingElement], home: str
) -> Iterator[Entry]:
    """Yield the entries of a cluster; the id is for a service without one of its own."""
    cluster, ident = of
    service = _known_of(queues, "GLUE2ComputingService")
    place = ServicePlace(home, or_else(service.get("GLUE2ServiceID"), ident), cluster.id)
    words = {interface(ce) for ce in queues}
    types = {INTERFACES[word][0] for word in words if word in INTERFACES}
    kind = types.pop() if len(types) == len(words) == 1 else _SERVICE
    usual: Values = {"GLUE2ServiceType": kind, "GLUE2ServiceCapability": [_JOBS]}
    values, more = {**usual, **service}, _of_site(cluster.site_id)
    yield writer.below(home, "GLUE2ComputingService", place.service_id, values, more)
    yield _manager(writer, cluster, queues, place)
    for sub in cluster.subclusters:
        yield from _hosts(writer, sub, place)
    yield from shares(writer, queues, place)
    for ce in queues:
        yield from close(writer, ce, place.service_id, place.service)


def _manager(
    writer: EntryWriter,
    cluster: GlueCluster,
    queues: Sequence[ComputingElement],
    place: ServicePlace,
) -> Entry:
    values = _known_of(queues, "GLUE2ComputingManager")
    keys = ("GLUE2ManagerServiceForeignKey", "GLUE2ComputingManagerComputingServiceForeignKey")
    more = [(key, place.service_id) for key in keys]
    other: Values = {}
    if not values:
        owners = ("GLUE2ComputingManager", "GLUE2Manager")
        values = to_glue2(cluster.values, *owners)
        values |= {n: value for n, value in cluster.values.items() if n.startswith(owners)}
        facts = [to_glue2(ce.values, *owners) for ce in queues]
        for name, value in facts[0].items() if facts else ():
            if all(other.get(name) == value for other in facts):
                values.setdefault(name, value)
        other = remainder(cluster.values, values, "GlueCluster")
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
    said, parts = ce.values.get("GlueCEInfoLRMSType"), split_id(ce.id)
    return said if isinstance(said, str) else parts[1] if parts else ""


def _hosts(writer: EntryWriter, sub: SubCluster, place: ServicePlace) -> Iterator[Entry]:
    values = nested(sub.values, "GLUE2ExecutionEnvironment")
    kind, name = "GLUE2ExecutionEnvironment", "GLUE2ApplicationEnvironment"
    keys = ("GLUE2ResourceManagerForeignKey", f"{kind}ComputingManagerForeignKey")
    more = [(key, place.manager_id) for key in keys]
    other: Values = {}
    if not values:
        values = to_glue2(sub.values, kind)
        if system := family(sub.values.get("GlueHostOperatingSystemName")):
            values["GLUE2ExecutionEnvironmentOSFamily"] = system
        hosts = [a.owner for a in attributes().values() if a.owner.startswith("GlueHost")]
        other = remainder(sub.values, values, "GlueSubCluster", *hosts)
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


ENDPOINT: Final = "GLUE2ComputingEndpoint"
INTERFACES: Final[Mapping[str, tuple[str, str]]] = {
    "cream": ("org.glite.ce.CREAM", "org.glite.ce.CREAM"),
    "jobmanager": ("org.edg.gatekeeper", "org.edg.gatekeeper"),
    "nordugrid": ("org.nordugrid.arex", "org.nordugrid.gridftpjob"),
    "emies": ("org.nordugrid.arex", "org.ogf.glue.emies.activitycreation"),
    "arex": ("org.nordugrid.arex", "org.nordugrid.arex"),
    "arcrest": ("org.nordugrid.arex", "org.nordugrid.arcrest"),
    "gridftpjob": ("org.nordugrid.arex", "org.nordugrid.gridftpjob"),
    "htcondorce": ("org.opensciencegrid.htcondorce", "org.opensciencegrid.htcondorce"),
    "condorce": ("org.opensciencegrid.htcondorce", "org.opensciencegrid.htcondorce"),
}
"""The service's type and the interface's name, in the vocabularies of GLUE 2.0, by the word that an
id of GLUE 1.3 has for them."""

_QUEUE: Final = ("GlueCE", "GlueCEInfo", "GlueCEState", "GlueCEPolicy")


@attrs.frozen(slots=True)
class ServicePlace:
    """The place of a service's parts: the names above them, and the ids that keys are made of."""

    home: str
    service_id: str
    manager_id: str

    @property
    def service(self) -> str:
        """The name of the service's entry."""
        return f"{rdn('GLUE2ServiceID', self.service_id)},{self.home}"

    @property
    def manager(self) -> str:
        """The name of the manager's entry."""
        return f"{rdn('GLUE2ManagerID', self.manager_id)},{self.service}"


def or_else(value: Value | None, other: str) -> str:
    """Return a text that can be an id, or else another."""
    return value if isinstance(value, str) and key(value) else other


def shares(
    writer: EntryWriter, queues: Sequence[ComputingElement], place: ServicePlace
) -> Iterator[Entry]:
    """Yield the endpoints of the queues of a service, their shares, and the policies of both."""
    states = _states(queues, place)
    for ce in queues:
        yield from _endpoint_and_shares(writer, ce, place, states)
    yield from _mapping_policies(writer, queues, place)
    yield from _access_policies(writer, queues, place)


def _levels(ce: ComputingElement) -> Iterator[tuple[str, Values]]:
    """Yield the parts of a queue that become shares: itself, unless only its views, and views."""
    common = {name: value for name, value in ce.values.items() if name != "GLUE2"}
    for view, access in views(ce):
        values = dict(ce.values) if view is None else {**common, **view.values}
        values.pop(RULES, None)
        values.update(access)
        yield view.id if view is not None else "", values


def _states(queues: Sequence[ComputingElement], place: ServicePlace) -> Mapping[str, str]:
    """Return the states of endpoints: in production if one of the queues is, else if all agree."""
    found: dict[str, set[str]] = {}
    for ce in queues:
        ident = str(_endpoint(ce, place)["GLUE2EndpointID"])
        found.setdefault(ident, set()).update(state(values) for _, values in _levels(ce))
    agreed = {
        i: {"production"} if "production" in states else states for i, states in found.items()
    }
    return {i: only for i, states in agreed.items() if len(states) == 1 and (only := min(states))}


def _endpoint_and_shares(
    writer: EntryWriter, ce: ComputingElement, place: ServicePlace, states: Mapping[str, str]
) -> Iterator[Entry]:
    """Yield the endpoint of a queue, and its shares: for itself and for each of its views."""
    for view, values in _levels(ce):
        endpoint = nested(values, ENDPOINT) or _endpoint(ce, place)
        ident = or_else(endpoint.get("GLUE2EndpointID"), ce.id)
        if ident in states:
            endpoint.setdefault("GLUE2EndpointServingState", states[ident])
        more = [("GLUE2EndpointServiceForeignKey", place.service_id)]
        yield writer.below(place.service, ENDPOINT, ident, endpoint, more)
        yield from _share(writer, (ce, view), values, ident, place)


def _endpoint(ce: ComputingElement, place: ServicePlace) -> dict[str, Value]:
    """Return the endpoint that a queue's id begins with: ``host:port/interface``."""
    host, word = ce.id.partition("/")[0], interface(ce)
    listed = [*texts(ce.values.get("GlueCEInfoContactString")), f"https://{host}/{word}"]
    found: dict[str, Value] = {"GLUE2EndpointID": f"{host or place.service_id}_{word or 'jobs'}"}
    if (url := next((text for text in listed if _is_at(text, host)), None)) is not None:
        found["GLUE2EndpointURL"] = url
    if word:
        name = INTERFACES[word][1] if word in INTERFACES else word
        found["GLUE2EndpointInterfaceName"] = found["GLUE2EndpointImplementationName"] = name
        found["GLUE2EndpointCapability"] = [_JOBS]
    return found


def interface(ce: ComputingElement) -> str:
    """Return the interface in a queue's id: ``cream`` in ``host:port/cream-pbs-long``."""
    return ce.id.partition("/")[2].partition("-")[0]


def _mapping_policies(
    writer: EntryWriter, queues: Sequence[ComputingElement], place: ServicePlace
) -> Iterator[Entry]:
    """Yield the policy of each share; for a share that is several queues, one that all agree on."""
    found: dict[str, Values] = {}
    for ce in queues:
        for view, values in _levels(ce):
            ident = _share_id(ce, view, values)
            if RULES in values:
                own: Values = {RULES: values[RULES]}
                found[ident] = (
                    with_one_list({**own, ALSO: [found[ident][RULES]]}) if ident in found else own
                )
    for ident, known in found.items():
        if rules := texts(known[RULES]) or [CLOSED]:
            dn = f"{rdn('GLUE2ShareID', ident)},{place.service}"
            yield from policy(writer, dn, ident, rules)


def _share_id(ce: ComputingElement, view: str, values: Values) -> str:
    known = nested(values, "GLUE2ComputingShare").get("GLUE2ShareID")
    return or_else(known, made_id(f"{ce.id}/{view}" if view else ce.id))


def _access_policies(
    writer: EntryWriter, queues: Sequence[ComputingElement], place: ServicePlace
) -> Iterator[Entry]:
    """Yield the policy of each endpoint: it admits all whom a share at it admits.

    The share decides itself. An endpoint with a share whose access is unknown has none.
    """
    found: dict[str, dict[str, None]] = {}
    unknown: set[str] = set()
    for ce in queues:
        for _, values in _levels(ce):
            own = nested(values, ENDPOINT) or _endpoint(ce, place)
            ident = or_else(own.get("GLUE2EndpointID"), ce.id)
            rules = found.setdefault(ident, {})
            rules |= {r: None for r in texts(values.get(RULES)) if not denies(r)}
            if RULES not in values:
                unknown.add(ident)
    for ident, admitting in found.items():
        if admitting and ident not in unknown:
            dn = f"{rdn('GLUE2EndpointID', ident)},{place.service}"
            yield from policy(writer, dn, ident, list(admitting), "Access")


def _is_at(url: str, address: str) -> bool:
    """Whether a URL is of the host of an address; readers do not believe another's."""
    try:
        return "://" in url and urlsplit(url).hostname == address.partition(":")[0].lower()
    except ValueError:
        return False


def _share(
    writer: EntryWriter,
    of: tuple[ComputingElement, str],
    values: Values,
    endpoint: str,
    place: ServicePlace,
) -> Iterator[Entry]:
    ce, view = of
    shown = nested(values, "GLUE2ComputingShare")
    ident = _share_id(ce, view, values)
    more = [("GLUE2ShareServiceForeignKey", place.service_id)]
    other: Values = {}
    if not shown:
        shown = to_glue2(values, "GLUE2ComputingShare", "GLUE2Share")
        parts = split_id(ce.id)
        if parts is not None:
            shown["GLUE2ComputingShareMappingQueue"] = parts[2]
        more += [("GLUE2EntityOtherInfo", f"{CE_ID}={ce.id}")]
        more += [("GLUE2EntityOtherInfo", f"{VO_VIEW}={view}")] if view else []
        other = remainder(values, shown, *_QUEUE)
        if served := state(values):
            shown["GLUE2ComputingShareServingState"] = served
    if "GLUE2ShareEndpointForeignKey" not in shown:
        more.append(("GLUE2ShareEndpointForeignKey", endpoint))
    if "GLUE2ShareResourceForeignKey" not in shown and ce.cluster is not None:
        more += [("GLUE2ShareResourceForeignKey", sub.id) for sub in ce.cluster.subclusters]
    share = writer.below(place.service, "GLUE2ComputingShare", ident, shown, more, other=other)
    yield share
    if RULES in values:
        writer.access(share.dn, values[RULES])


def storage(
    writer: EntryWriter, element: StorageElement, home: str, site: Pairs
) -> Iterator[Entry]:
    """Yield the entries of a storage element, under a name, with the pairs that name its site."""
    values = to_glue2(element.values, "GLUE2Service", "GLUE2Entity")
    more = [("GLUE2ServiceType", "org.ogf.glue.StorageService"), *site]
    other = remainder(element.values, values, "GlueSE")
    service = writer.below(home, "GLUE2StorageService", element.id, values, more, other=other)
    yield service
    for area in element.areas:
        ident = f"{element.id}/{area.id}"
        shown = to_glue2(area.values, "GLUE2StorageShare", "GLUE2Share", "GLUE2Entity")
        more = [("GLUE2ShareServiceForeignKey", element.id)]
        if state := serving(element.values.get("GlueSEStatus")):
            more.append(("GLUE2StorageShareServingState", state))
        other = remainder(area.values, shown, "GlueSA")
        share = writer.below(service.dn, "GLUE2StorageShare", ident, shown, more, other=other)
        yield share
        rules = texts(area.values.get("GlueSAAccessControlBaseRule")) or [f"VO:{area.id}"]
        yield from policy(writer, share.dn, ident, rules)


def policy(
    writer: EntryWriter, dn: str, of: str, rules: list[str], kind: str = "Mapping"
) -> Iterator[Entry]:
    """Yield the entry of the rules of access of a share or an endpoint, if it has any."""
    if rules:
        what = {"Mapping": "Share", "Access": "Endpoint"}[kind]
        more = [(f"GLUE2{kind}Policy{what}ForeignKey", of)]
        values = {"GLUE2PolicyRule": [*rules]}
        yield writer.below(dn, f"GLUE2{kind}Policy", made_id(f"{of}_policy"), values, more)


def close(
    writer: EntryWriter, ce: ComputingElement, service_id: str, service: str
) -> Iterator[Entry]:
    """Yield the entries that tie a queue's service to the storage that is close to the queue."""
    for bind in ce.binds:
        ident = made_id(f"{ce.id}_{bind.se_id}")
        more = [
            ("GLUE2ToStorageServiceComputingServiceForeignKey", service_id),
            ("GLUE2ToStorageServiceStorageServiceForeignKey", bind.se_id),
            ("GLUE2EntityOtherInfo", f"{CE_ID}={ce.id}"),
        ]
        values = {"GLUE2ToStorageServiceLocalPath": bind.mount} if bind.mount else {}
        yield writer.below(service, "GLUE2ToStorageService", ident, values, more)


_DEGREES: Final = (
    ("GlueSiteLatitude", "GLUE2LocationLatitude", 90),
    ("GlueSiteLongitude", "GLUE2LocationLongitude", 180),
)


def site_entries(
    writer: EntryWriter, dn: str, site_id: str, site: GlueSite | None
) -> Iterator[Entry]:
    """Yield the entries of a site: a domain, and below it a location and a contact of each type."""
    known = site.values if site is not None else {}
    values = to_glue2(known, "GLUE2Domain", "GLUE2AdminDomain")
    if "GlueSiteName" in known:
        values["GLUE2EntityName"] = known["GlueSiteName"]
    yield writer.entry(dn, "GLUE2AdminDomain", values, [("GLUE2DomainID", site_id)])
    if place := _location(known):
        ident, more = made_id(f"{site_id}_location"), [("GLUE2LocationDomainForeignKey", site_id)]
        yield writer.below(dn, "GLUE2Location", ident, place, more)
    for kind, name in CONTACTS.items():
        address = known.get(name)
        if not isinstance(address, str) or not address.strip():
            continue
        ident, more = made_id(f"{site_id}_{kind}"), [("GLUE2ContactDomainForeignKey", site_id)]
        contact: dict[str, Value] = {"GLUE2ContactType": kind, "GLUE2ContactDetail": address}
        yield writer.below(dn, "GLUE2Contact", ident, contact, more)


def _location(known: Values) -> dict[str, Value]:
    """Return the place of a site, with the country behind the last comma, and its coordinates."""
    found: dict[str, Value] = {}
    if isinstance(place := known.get("GlueSiteLocation"), str) and place.strip():
        found["GLUE2LocationPlace"] = place
        if country := place.rpartition(",")[2].strip():
            found["GLUE2LocationCountry"] = country
    for name, other, most in _DEGREES:
        try:
            degrees = float(str(known.get(name)))
        except ValueError:
            continue
        if -most <= degrees <= most:
            found[other] = degrees
    return found
