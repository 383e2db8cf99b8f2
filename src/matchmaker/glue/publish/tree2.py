"""Publishing records as entries of GLUE 2.0: sites, and the services that run jobs.

A cluster is a service with a manager, its SubClusters are execution environments, and each queue
with each of its views is a share at the queue's endpoint. What came from GLUE 2.0 is published as
it was; what came from GLUE 1.3 gets the names and units of GLUE 2.0 (`glue1_to_glue2`), with the
marks by which `v2` reads them back. Storage is in `storage2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import attrs

from matchmaker.classad import Value
from matchmaker.glue.access import CLOSED, RULES, agreed, denies
from matchmaker.glue.entries import Attributes, Entry
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.linking import rdn
from matchmaker.glue.publish.glue1_to_glue2 import (
    applications,
    benchmarks,
    family,
    left,
    nested,
    renamed,
    state,
)
from matchmaker.glue.publish.site2 import site_entries
from matchmaker.glue.publish.storage2 import close, policy, storage
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
    texts,
)
from matchmaker.glue.schema import attribute, attributes
from matchmaker.glue.v2.glue2_to_glue1 import CE_ID, VO_VIEW

BASE: Final = "GLUE2GroupID=grid,o=glue"
_ENDPOINT: Final = "GLUE2ComputingEndpoint"
_SERVICE: Final = "org.ogf.glue.ComputingService"
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


def entries20(snapshot: GlueRecords, report: Report, base: str = BASE) -> Iterator[Entry]:
    """The entries of GLUE 2.0 for a snapshot, parents first and each once.

    Args:
        snapshot: linked records.
        report: called with an `Issue` for each value that cannot be published.
        base: the name that each site is put under.
    """
    seen: dict[str, Entry] = {}
    for entry in _all(publishable(snapshot, "2.0", report), Writer(report), base):
        known = seen.setdefault(key(entry.dn), entry)
        if known is entry:
            yield entry
        # Queues have endpoints in common.
        elif known != entry and _ENDPOINT not in entry.attributes["objectClass"]:
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
    return _or(ce.id.partition(":")[0], ce.id)


def _group(dn: str, name: str) -> Entry:
    return Entry(dn, Attributes([("objectClass", "GLUE2Group"), ("GLUE2GroupID", name)]))


def _of_site(site_id: str) -> Pairs:
    return [("GLUE2ServiceAdminDomainForeignKey", site_id)] if site_id else []


@attrs.frozen(slots=True)
class _Place:
    """Where the parts of a service are: their names and the ids that keys are made of."""

    home: str
    service_id: str
    manager_id: str

    @property
    def service(self) -> str:
        return f"{rdn('GLUE2ServiceID', self.service_id)},{self.home}"

    @property
    def manager(self) -> str:
        return f"{rdn('GLUE2ManagerID', self.manager_id)},{self.service}"


def _told(queues: Sequence[ComputingElement], kind: str) -> dict[str, Value]:
    """What the first of some queues to tell of a class of GLUE 2.0 said of it."""
    levels = (level for ce in queues for level in (ce.values, *(v.values for v in ce.views)))
    return next((found for values in levels if (found := nested(values, kind))), {})


def _or(value: Value | None, other: str) -> str:
    return value if isinstance(value, str) and key(value) else other


def _service(
    writer: Writer, of: tuple[Cluster, str], queues: Sequence[ComputingElement], home: str
) -> Iterator[Entry]:
    """The entries of a cluster, with the id of its service where it tells none itself."""
    cluster, ident = of
    service = _told(queues, "GLUE2ComputingService")
    place = _Place(home, _or(service.get("GLUE2ServiceID"), ident), cluster.id)
    words = {_interface(ce) for ce in queues}
    types = {INTERFACES[word][0] for word in words if word in INTERFACES}
    values = {
        "GLUE2ServiceType": types.pop() if len(types) == len(words) == 1 else _SERVICE,
        "GLUE2ServiceCapability": ["executionmanagement.jobexecution"],
        **service,
    }
    more = [("GLUE2ServiceID", place.service_id), *_of_site(cluster.site_id)]
    yield writer.entry(place.service, "GLUE2ComputingService", values, more)
    yield _manager(writer, cluster, queues, place)
    for sub in cluster.subclusters:
        yield from _hosts(writer, sub, place)
    states = _states(queues, place)
    for ce in queues:
        yield from _queue(writer, ce, place, states)
    yield from _mapping_policies(writer, queues, place)
    yield from _access_policies(writer, queues, place)
    for ce in queues:
        yield from close(writer, ce, place.service_id, place.service)


def _manager(
    writer: Writer, cluster: Cluster, queues: Sequence[ComputingElement], place: _Place
) -> Entry:
    values = _told(queues, "GLUE2ComputingManager")
    more = [
        ("GLUE2ManagerID", place.manager_id),
        ("GLUE2ManagerServiceForeignKey", place.service_id),
        ("GLUE2ComputingManagerComputingServiceForeignKey", place.service_id),
    ]
    other: Values = {}
    if not values:
        owners = ("GLUE2ComputingManager", "GLUE2Manager")
        values = renamed(cluster.values, *owners)
        told = [renamed(ce.values, *owners) for ce in queues]
        for name, value in told[0].items() if told else ():
            if all(other.get(name) == value for other in told):
                values.setdefault(name, value)
        other = left(cluster.values, values, "GlueCluster")
        if lrms := next((t for ce in queues if (t := _lrms(ce))), ""):
            values["GLUE2ManagerProductName"] = lrms
        for kind in ("Physical", "Logical"):
            counts = [s.values.get(f"GlueSubCluster{kind}CPUs") for s in cluster.subclusters]
            known = [count for count in counts if isinstance(count, int)]
            if counts and len(known) == len(counts):
                values.setdefault(f"GLUE2ComputingManagerTotal{kind}CPUs", sum(known))
    return writer.entry(place.manager, "GLUE2ComputingManager", values, more, other)


def _lrms(ce: ComputingElement) -> str:
    said = ce.values.get("GlueCEInfoLRMSType")
    parts = split_id(ce.id)
    return said if isinstance(said, str) else parts[1] if parts else ""


# --- hosts ----------------------------------------------------------------------------------------


def _hosts(writer: Writer, sub: SubCluster, place: _Place) -> Iterator[Entry]:
    dn = f"{rdn('GLUE2ResourceID', sub.id)},{place.manager}"
    values = nested(sub.values, "GLUE2ExecutionEnvironment")
    more: list[tuple[str, str]] = [
        ("GLUE2ResourceID", sub.id),
        ("GLUE2ResourceManagerForeignKey", place.manager_id),
        ("GLUE2ExecutionEnvironmentComputingManagerForeignKey", place.manager_id),
    ]
    other: Values = {}
    if not values:
        values = renamed(sub.values, "GLUE2ExecutionEnvironment")
        if system := family(sub.values.get("GlueHostOperatingSystemName")):
            values["GLUE2ExecutionEnvironmentOSFamily"] = system
        hosts = [a.owner for a in attributes().values() if a.owner.startswith("GlueHost")]
        other = left(sub.values, values, "GlueSubCluster", *hosts)
        values |= {n: value for n, value in sub.values.items() if attribute(n) is None}
    yield writer.entry(dn, "GLUE2ExecutionEnvironment", values, more, other)
    for number, found in enumerate(benchmarks(sub.values), 1):
        ident = _or(found.get("GLUE2BenchmarkID"), made_id(f"{sub.id}_benchmark_{number}"))
        more = [
            ("GLUE2BenchmarkID", ident),
            ("GLUE2BenchmarkExecutionEnvironmentForeignKey", sub.id),
        ]
        yield writer.entry(f"{rdn('GLUE2BenchmarkID', ident)},{dn}", "GLUE2Benchmark", found, more)
    for found in applications(sub.values):
        name = "GLUE2ApplicationEnvironment"
        ident = _or(found.get(f"{name}ID"), made_id(f"{sub.id}_{found.get(f'{name}AppName')}"))
        more = [
            (f"{name}ID", ident),
            (f"{name}ComputingManagerForeignKey", place.manager_id),
        ]
        if f"{name}ID" not in found:
            more.append((f"{name}ExecutionEnvironmentForeignKey", sub.id))
        below = f"{rdn(f'{name}ID', ident)},{place.manager}"
        yield writer.entry(below, name, found, more)


# --- queues ---------------------------------------------------------------------------------------

_QUEUE: Final = ("GlueCE", "GlueCEInfo", "GlueCEState", "GlueCEPolicy")


def _levels(ce: ComputingElement) -> Iterator[tuple[str, Values]]:
    """What a queue is published as: itself, unless it is but its views, and each of its views."""
    common = {name: value for name, value in ce.values.items() if name != "GLUE2"}
    if texts(ce.values.get(RULES)) or not any(texts(view.values.get(RULES)) for view in ce.views):
        yield "", ce.values
    for view in ce.views:
        yield view.id, {**common, **view.values}


def _states(queues: Sequence[ComputingElement], place: _Place) -> Mapping[str, str]:
    """The states of endpoints: in production where one of the queues is, else what all are."""
    found: dict[str, set[str]] = {}
    for ce in queues:
        ident = str(_endpoint(ce, place)["GLUE2EndpointID"])
        found.setdefault(ident, set()).update(state(values) for _, values in _levels(ce))
    made = {}
    for ident, states in found.items():
        one = "production" if "production" in states else states.pop() if len(states) == 1 else ""
        if one:
            made[ident] = one
    return made


def _queue(
    writer: Writer, ce: ComputingElement, place: _Place, states: Mapping[str, str]
) -> Iterator[Entry]:
    """The endpoint of a queue, and its shares: for itself and for each of its views."""
    for view, values in _levels(ce):
        endpoint = nested(values, _ENDPOINT) or _endpoint(ce, place)
        ident = _or(endpoint.get("GLUE2EndpointID"), ce.id)
        if ident in states:
            endpoint.setdefault("GLUE2EndpointServingState", states[ident])
        below = f"{rdn('GLUE2EndpointID', ident)},{place.service}"
        more = [
            ("GLUE2EndpointID", ident),
            ("GLUE2EndpointServiceForeignKey", place.service_id),
        ]
        yield writer.entry(below, _ENDPOINT, endpoint, more)
        yield from _share(writer, (ce, view), values, ident, place)


def _endpoint(ce: ComputingElement, place: _Place) -> dict[str, Value]:
    """The endpoint that a queue's id begins with: ``host:port/interface``."""
    host, interface = ce.id.partition("/")[0], _interface(ce)
    listed = [*texts(ce.values.get("GlueCEInfoContactString")), f"https://{host}/{interface}"]
    found: dict[str, Value] = {
        "GLUE2EndpointID": f"{host or place.service_id}_{interface or 'jobs'}"
    }
    if (url := next((text for text in listed if _is_at(text, host)), None)) is not None:
        found["GLUE2EndpointURL"] = url
    if interface:
        name = INTERFACES[interface][1] if interface in INTERFACES else interface
        found["GLUE2EndpointInterfaceName"] = found["GLUE2EndpointImplementationName"] = name
        found["GLUE2EndpointCapability"] = ["executionmanagement.jobexecution"]
    return found


def _interface(ce: ComputingElement) -> str:
    """The word for the interface in a queue's id: ``cream`` in ``host:port/cream-pbs-long``."""
    return ce.id.partition("/")[2].partition("-")[0]


def _mapping_policies(
    writer: Writer, queues: Sequence[ComputingElement], place: _Place
) -> Iterator[Entry]:
    """The policy of each share: of one that is several queues, what all of them agree on."""
    found: dict[str, list[str]] = {}
    for ce in queues:
        for view, values in _levels(ce):
            ident, rules = _share_id(ce, view, values), texts(values.get(RULES))
            first = found.setdefault(ident, rules)
            if first is not rules:
                found[ident] = agreed(first, rules) or [CLOSED]
    for ident, rules in found.items():
        dn = f"{rdn('GLUE2ShareID', ident)},{place.service}"
        yield from policy(writer, dn, ident, rules)


def _share_id(ce: ComputingElement, view: str, values: Values) -> str:
    known = nested(values, "GLUE2ComputingShare").get("GLUE2ShareID")
    return _or(known, made_id(f"{ce.id}/{view}" if view else ce.id))


def _access_policies(
    writer: Writer, queues: Sequence[ComputingElement], place: _Place
) -> Iterator[Entry]:
    """The policy of each endpoint: it admits all whom a share at it admits, which decides itself.

    Shares without a rule admit nobody, also where their endpoint has a policy, as others of their
    service have one. Where none has, the endpoint has none either.
    """
    found: dict[str, dict[str, None]] = {}
    for ce in queues:
        for _, values in _levels(ce):
            own = nested(values, _ENDPOINT) or _endpoint(ce, place)
            rules = found.setdefault(_or(own.get("GLUE2EndpointID"), ce.id), {})
            rules |= {r: None for r in texts(values.get(RULES)) if not denies(r)}
    for ident, admitting in found.items():
        if admitting:
            dn = f"{rdn('GLUE2EndpointID', ident)},{place.service}"
            yield from policy(writer, dn, ident, list(admitting), "Access")


def _is_at(url: str, address: str) -> bool:
    """Whether a URL is of the host of an address; of another's the reader would not believe it."""
    try:
        return "://" in url and urlsplit(url).hostname == address.partition(":")[0].lower()
    except ValueError:
        return False


def _share(
    writer: Writer, of: tuple[ComputingElement, str], values: Values, endpoint: str, place: _Place
) -> Iterator[Entry]:
    ce, view = of
    shown = nested(values, "GLUE2ComputingShare")
    ident = _share_id(ce, view, values)
    more: list[tuple[str, str]] = [
        ("GLUE2ShareID", ident),
        ("GLUE2ShareServiceForeignKey", place.service_id),
    ]
    other: Values = {}
    if not shown:
        shown = renamed(values, "GLUE2ComputingShare", "GLUE2Share")
        parts = split_id(ce.id)
        if parts is not None:
            shown["GLUE2ComputingShareMappingQueue"] = parts[2]
        more += [("GLUE2EntityOtherInfo", f"{CE_ID}={ce.id}")]
        more += [("GLUE2EntityOtherInfo", f"{VO_VIEW}={view}")] if view else []
        other = left(values, shown, *_QUEUE)
        if served := state(values):
            shown["GLUE2ComputingShareServingState"] = served
    if "GLUE2ShareEndpointForeignKey" not in shown:
        more.append(("GLUE2ShareEndpointForeignKey", endpoint))
    if "GLUE2ShareResourceForeignKey" not in shown and ce.cluster is not None:
        more += [("GLUE2ShareResourceForeignKey", sub.id) for sub in ce.cluster.subclusters]
    dn = f"{rdn('GLUE2ShareID', ident)},{place.service}"
    yield writer.entry(dn, "GLUE2ComputingShare", shown, more, other)
    if RULES in values:
        writer.access(dn, values[RULES])
