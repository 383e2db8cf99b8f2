"""Publishing records as entries of GLUE 2.0.

A cluster is a service with a manager, its SubClusters are execution environments, and each queue
with each of its views is a share at the queue's endpoint. What came from GLUE 2.0 is published as
it was; what came from GLUE 1.3 gets the names and units of GLUE 2.0, with the marks by which
`glue20` finds its way back. What GLUE 2.0 has no word for is in OtherInfo, as
``GlueCEPolicyPriority=1``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import attrs

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.glue.access import RULES
from matchmaker.glue.clean_entries import HS06
from matchmaker.glue.clean_texts import UNLIMITED
from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.ldif import Attributes, Entry
from matchmaker.glue.publish import Pairs, Writer, rdn, text_of, whole
from matchmaker.glue.records import (
    Cluster,
    ComputingElement,
    Snapshot,
    StorageElement,
    SubCluster,
    Values,
    split_id,
)
from matchmaker.glue.schema import ancestry, attribute, attributes, convert
from matchmaker.glue.translate import CE_ID, VO_VIEW, renamed

BASE: Final = "GLUE2GroupID=grid,o=glue"
_UNKNOWN: Final = "UNDEFINEDVALUE"
_UNKNOWN_NUMBER: Final = 444444
_STATES: Final = ("production", "queueing", "draining", "closed")
_ID_OF = {
    "GLUE2ComputingService": "GLUE2ServiceID",
    "GLUE2ComputingEndpoint": "GLUE2EndpointID",
    "GLUE2ComputingShare": "GLUE2ShareID",
    "GLUE2ComputingManager": "GLUE2ManagerID",
    "GLUE2ExecutionEnvironment": "GLUE2ResourceID",
}
_SPECIAL = {"GlueCEStateStatus", "GlueCEInfoLRMSType", "GlueCEInfoContactString"}
_MADE_ANEW = {"GlueForeignKey", "GlueChunkKey", "GlueSchemaVersionMajor", "GlueSchemaVersionMinor"}


def entries20(snapshot: Snapshot, report: Report, base: str = BASE) -> Iterator[Entry]:
    """The entries of GLUE 2.0 for a snapshot, parents first and each once.

    Args:
        snapshot: linked records.
        report: called with an `Issue` for each value that cannot be published.
        base: the name that each site is put under.
    """
    seen: set[str] = set()
    for entry in _all(snapshot, Writer(report), base):
        if entry.dn.lower() not in seen:
            seen.add(entry.dn.lower())
            yield entry


def _all(snapshot: Snapshot, writer: Writer, base: str) -> Iterator[Entry]:
    yield Entry("o=glue", Attributes([("objectClass", "organization"), ("o", "glue")]))
    yield _group(base, base.partition(",")[0].partition("=")[2])
    domains: dict[str, str] = {}
    for site_id in dict.fromkeys(
        [
            *(site.id for site in snapshot.sites),
            *(cluster.site_id or "resource" for cluster in snapshot.clusters),
            *(["resource"] if any(c.cluster is None for c in snapshot.computing_elements) else []),
        ]
    ):
        dn = f"{rdn('GLUE2DomainID', site_id)},{base}"
        known = next((site for site in snapshot.sites if site.id == site_id), None)
        values = _named(known.values, "GLUE2Domain", "GLUE2AdminDomain") if known else {}
        name = known.values.get("GlueSiteName") if known else None
        more = [("GLUE2DomainID", site_id)]
        more += [("GLUE2EntityName", name)] if isinstance(name, str) else []
        yield writer.entry(dn, "GLUE2AdminDomain", values, more)
        yield _group(f"GLUE2GroupID=resource,{dn}", "resource")
        domains[site_id] = f"GLUE2GroupID=resource,{dn}"
    somewhere = next(iter(domains.items()), ("resource", base))
    homes: dict[str, tuple[str, str]] = {}
    of_clusters: dict[str, list[ComputingElement]] = {}
    for ce in snapshot.computing_elements:
        home = (ce.cluster.site_id or "resource") if ce.cluster else "resource"
        for bind in ce.binds:
            homes.setdefault(bind.se_id, (home, domains[home]))
        name = ce.cluster.id if ce.cluster else ce.id.partition(":")[0]
        of_clusters.setdefault(name, []).append(ce)
    for element in snapshot.storage_elements:
        yield from _storage(writer, element, *homes.get(element.id, somewhere))
    for cluster in whole(snapshot.clusters):
        site_id = cluster.site_id or "resource"
        queues = of_clusters.pop(cluster.id, [])
        yield from _service(writer, cluster, queues, site_id, domains[site_id])
    for name, queues in of_clusters.items():
        made = Cluster(name, {})
        yield from _service(writer, made, queues, "resource", domains["resource"])


def _group(dn: str, name: str) -> Entry:
    return Entry(dn, Attributes([("objectClass", "GLUE2Group"), ("GLUE2GroupID", name)]))


# --- names and units ------------------------------------------------------------------------------


def _named(values: Values, *owners: str) -> dict[str, Value]:
    """Values of GLUE 1.3 under the names and in the units of classes of GLUE 2.0."""
    made: dict[str, Value] = {}
    for name, value in values.items():
        known = attribute(name)
        other = attribute(known.glue2) if known is not None and known.glue2 else None
        if known is None or other is None or other.owner not in owners or name in _SPECIAL:
            continue
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        unit = known.unit if number and value != UNLIMITED else other.unit
        shown = convert(value, unit, other.unit) if isinstance(value, (int, float)) else value
        if other.classad == "boolean" and not isinstance(value, bool):
            continue
        if shown is not None and shown is not UNDEFINED:
            made.setdefault(other.name, shown)
    return made


def _left(values: Values, shown: Values, *owners: str) -> list[tuple[str, str]]:
    """What the values of GLUE 2.0 do not give back as it was, for OtherInfo."""
    back = renamed(shown, *owners)
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        known = attribute(name)
        if known is None or name in _MADE_ANEW or known.version != "1.3":
            continue
        if name == RULES or name in _GIVEN or back.get(name) == value or value is UNDEFINED:
            continue
        texts = (text_of(name, item) for item in (value if isinstance(value, list) else [value]))
        pairs += [("GLUE2EntityOtherInfo", f"{name}={text}") for text in texts if text is not None]
    return pairs


_GIVEN: Final = {
    "GlueCEUniqueID",
    "GlueCEStateStatus",
    "GlueCEInfoLRMSType",
    "GlueVOViewLocalID",
    "GlueClusterUniqueID",
    "GlueSubClusterUniqueID",
    "GlueHostBenchmarkSI00",
    "GlueHostBenchmarkSF00",
    "GlueHostApplicationSoftwareRunTimeEnvironment",
    "GlueSEUniqueID",
    "GlueSALocalID",
    "GlueSAAccessControlBaseRule",
}


@cache
def _full_names(kind: str) -> Mapping[str, str]:
    """The names of a class's attributes by their short ones in nested ads."""
    owners = {known.name for known in ancestry(kind)}
    found = [a for a in attributes().values() if a.owner in owners]
    return {(a.name.removeprefix(a.owner) or a.name).lower(): a.name for a in found}


def _nested(values: Values, part: str, kind: str) -> dict[str, Value]:
    """The values of a part of a nested ad of GLUE 2.0, by their full names."""
    whole_ad = values.get("GLUE2")
    inner = whole_ad.eval(part) if isinstance(whole_ad, ClassAd) else None
    if part not in ("ExecutionEnvironment", "Benchmark", "ApplicationEnvironment"):
        computing = whole_ad.eval("Computing") if isinstance(whole_ad, ClassAd) else None
        inner = computing.eval(part) if isinstance(computing, ClassAd) else None
    return _full(inner, kind) if isinstance(inner, ClassAd) else {}


def _full(ad: ClassAd, kind: str) -> dict[str, Value]:
    names = _full_names(kind)
    return {names[n.lower()]: ad.eval(n) for n in ad if n.lower() in names}


# --- computing ------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class _Place:
    """Where the parts of a service are: their names and the ids that keys are made of."""

    site_id: str
    home: str
    service_id: str
    manager_id: str

    @property
    def service(self) -> str:
        return f"{rdn('GLUE2ServiceID', self.service_id)},{self.home}"

    @property
    def manager(self) -> str:
        return f"{rdn('GLUE2ManagerID', self.manager_id)},{self.service}"


def _service(
    writer: Writer, cluster: Cluster, queues: list[ComputingElement], site_id: str, home: str
) -> Iterator[Entry]:
    shown = [level for ce in queues for level in (ce.values, *(v.values for v in ce.views))]
    services = [_nested(values, "Service", "GLUE2ComputingService") for values in shown]
    service = next((found for found in services if found), {})
    ident = service.get("GLUE2ServiceID")
    place = _Place(site_id, home, ident if isinstance(ident, str) else cluster.id, cluster.id)
    more = [
        ("GLUE2ServiceID", place.service_id),
        ("GLUE2ServiceType", _or(service.get("GLUE2ServiceType"), "org.ogf.glue.ComputingService")),
        ("GLUE2ServiceQualityLevel", _or(service.get("GLUE2ServiceQualityLevel"), "production")),
        ("GLUE2ServiceAdminDomainForeignKey", site_id),
    ]
    yield writer.entry(place.service, "GLUE2ComputingService", service, more)
    yield _manager(writer, cluster, queues, place)
    for sub in cluster.subclusters:
        yield from _hosts(writer, sub, place)
    for ce in queues:
        yield from _queue(writer, ce, place)
    for ce in queues:
        yield from _close(writer, ce, place)


def _or(value: Value | None, other: str) -> str:
    return value if isinstance(value, str) and value else other


def _manager(
    writer: Writer, cluster: Cluster, queues: list[ComputingElement], place: _Place
) -> Entry:
    shown = [level for ce in queues for level in (ce.values, *(v.values for v in ce.views))]
    values = next(
        (found for v in shown if (found := _nested(v, "Manager", "GLUE2ComputingManager"))), {}
    )
    more = [
        ("GLUE2ManagerID", place.manager_id),
        ("GLUE2ManagerServiceForeignKey", place.service_id),
    ]
    if not values:
        owners = ("GLUE2ComputingManager", "GLUE2Manager")
        values = _named(cluster.values, *owners)
        told = [_named(ce.values, *owners) for ce in queues]
        for name, value in told[0].items() if told else ():
            if all(other.get(name) == value for other in told):
                values.setdefault(name, value)
        lrms = next((t for ce in queues if (t := _lrms(ce))), _UNKNOWN)
        more += [
            ("GLUE2ManagerProductName", lrms),
            *_left(cluster.values, values, "GlueCluster"),
        ]
    return writer.entry(place.manager, "GLUE2ComputingManager", values, more)


def _lrms(ce: ComputingElement) -> str:
    said = ce.values.get("GlueCEInfoLRMSType")
    parts = split_id(ce.id)
    return said if isinstance(said, str) else parts[1] if parts else ""


def _hosts(writer: Writer, sub: SubCluster, place: _Place) -> Iterator[Entry]:
    dn = f"{rdn('GLUE2ResourceID', sub.id)},{place.manager}"
    values = _nested(sub.values, "ExecutionEnvironment", "GLUE2ExecutionEnvironment")
    more: list[tuple[str, str]] = [
        ("GLUE2ResourceID", sub.id),
        ("GLUE2ResourceManagerForeignKey", place.manager_id),
    ]
    if not values:
        values = _named(sub.values, "GLUE2ExecutionEnvironment")
        hosts = [a.owner for a in attributes().values() if a.owner.startswith("GlueHost")]
        more += _left(sub.values, values, "GlueSubCluster", *hosts)
    for name, unknown in {
        "Platform": _UNKNOWN,
        "OSFamily": "linux" if "GLUE2ExecutionEnvironmentOSName" in values else _UNKNOWN,
        "MainMemorySize": str(_UNKNOWN_NUMBER),
        "ConnectivityIn": "undefined",
        "ConnectivityOut": "undefined",
    }.items():
        full = f"GLUE2ExecutionEnvironment{name}"
        if values.get(full, UNDEFINED) is UNDEFINED:
            more.append((full, unknown))
    yield writer.entry(dn, "GLUE2ExecutionEnvironment", values, more)
    for number, found in enumerate(_benchmarks(sub), 1):
        ident = _or(found.get("GLUE2BenchmarkID"), f"{sub.id}_benchmark_{number}")
        more = [
            ("GLUE2BenchmarkID", ident),
            ("GLUE2BenchmarkExecutionEnvironmentForeignKey", sub.id),
        ]
        yield writer.entry(f"{rdn('GLUE2BenchmarkID', ident)},{dn}", "GLUE2Benchmark", found, more)
    for found in _applications(sub):
        name = "GLUE2ApplicationEnvironment"
        ident = _or(found.get(f"{name}ID"), f"{sub.id}_{found.get(f'{name}AppName')}")
        more = [
            (f"{name}ID", ident),
            (f"{name}ComputingManagerForeignKey", place.manager_id),
        ]
        if f"{name}ID" not in found:
            more.append((f"{name}ExecutionEnvironmentForeignKey", sub.id))
        below = f"{rdn(f'{name}ID', ident)},{place.manager}"
        yield writer.entry(below, name, found, more)


def _benchmarks(sub: SubCluster) -> Iterator[dict[str, Value]]:
    nested = sub.values.get("GLUE2")
    if isinstance(nested, ClassAd):
        listed = nested.eval("Benchmark")
        for ad in listed if isinstance(listed, list) else ():
            if isinstance(ad, ClassAd):
                yield _full(ad, "GLUE2Benchmark")
        return
    for kind, name in (("SI00", "specint2000"), ("SF00", "specfp2000")):
        value = sub.values.get(f"GlueHostBenchmark{kind}")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield {"GLUE2BenchmarkType": name, "GLUE2BenchmarkValue": float(value)}
            if kind == "SI00":
                speed = round(value / HS06, 2)
                yield {"GLUE2BenchmarkType": "hep-spec06", "GLUE2BenchmarkValue": speed}


def _applications(sub: SubCluster) -> Iterator[dict[str, Value]]:
    nested = sub.values.get("GLUE2")
    if isinstance(nested, ClassAd):
        listed = nested.eval("ApplicationEnvironment")
        for ad in listed if isinstance(listed, list) else ():
            if isinstance(ad, ClassAd):
                yield _full(ad, "GLUE2ApplicationEnvironment")
        return
    tags = sub.values.get("GlueHostApplicationSoftwareRunTimeEnvironment")
    for tag in tags if isinstance(tags, list) else ():
        yield {"GLUE2ApplicationEnvironmentAppName": tag}


_QUEUE = ("GlueCE", "GlueCEInfo", "GlueCEState", "GlueCEPolicy")


def _queue(writer: Writer, ce: ComputingElement, place: _Place) -> Iterator[Entry]:
    """The endpoint of a queue, and its shares: for itself and for each of its views."""
    common = {name: value for name, value in ce.values.items() if name != "GLUE2"}
    levels: list[tuple[str, Values]] = []
    if ce.values.get(RULES) or not any(view.values.get(RULES) for view in ce.views):
        levels.append(("", ce.values))
    levels += [(view.id, {**common, **view.values}) for view in ce.views]
    for view, values in levels:
        endpoint = _nested(values, "Endpoint", "GLUE2ComputingEndpoint")
        endpoint = endpoint or _endpoint(ce, place)
        ident = _or(endpoint.get("GLUE2EndpointID"), ce.id)
        below = f"{rdn('GLUE2EndpointID', ident)},{place.service}"
        more = [("GLUE2EndpointServiceForeignKey", place.service_id)]
        more += [
            (f"GLUE2Endpoint{name}", unknown)
            for name, unknown in {
                "URL": f"https://{place.service_id}/",
                "InterfaceName": _UNKNOWN,
                "QualityLevel": "production",
                "HealthState": "unknown",
                "ServingState": "production",
            }.items()
            if f"GLUE2Endpoint{name}" not in endpoint
        ]
        yield writer.entry(below, "GLUE2ComputingEndpoint", endpoint, more)
        yield from _share(writer, (ce, view), values, ident, place)


def _endpoint(ce: ComputingElement, place: _Place) -> dict[str, Value]:
    host, _, rest = ce.id.partition("/")
    interface = rest.partition("-")[0] or _UNKNOWN
    contact = ce.values.get("GlueCEInfoContactString")
    listed = (
        [text for text in contact if isinstance(text, str)] if isinstance(contact, list) else []
    )
    url = next((text for text in listed if "://" in text), f"https://{host}/{interface}")
    return {
        "GLUE2EndpointID": f"{host or place.service_id}_{interface}",
        "GLUE2EndpointURL": url,
        "GLUE2EndpointInterfaceName": interface,
    }


def _share(
    writer: Writer, of: tuple[ComputingElement, str], values: Values, endpoint: str, place: _Place
) -> Iterator[Entry]:
    ce, view = of
    given = _nested(values, "Share", "GLUE2ComputingShare")
    ident = _or(given.get("GLUE2ShareID"), f"{ce.id}/{view}" if view else ce.id)
    more: list[tuple[str, str]] = [
        ("GLUE2ShareID", ident),
        ("GLUE2ShareServiceForeignKey", place.service_id),
    ]
    if given:
        shown = given
    else:
        shown = _named(values, "GLUE2ComputingShare", "GLUE2Share")
        parts = split_id(ce.id)
        if parts is not None:
            shown["GLUE2ComputingShareMappingQueue"] = parts[2]
        more += [("GLUE2EntityOtherInfo", f"{CE_ID}={ce.id}")]
        more += [("GLUE2EntityOtherInfo", f"{VO_VIEW}={view}")] if view else []
        more += _left(values, shown, *_QUEUE)
    if "GLUE2ShareEndpointForeignKey" not in shown:
        more.append(("GLUE2ShareEndpointForeignKey", endpoint))
    if "GLUE2ShareResourceForeignKey" not in shown and ce.cluster is not None:
        more += [("GLUE2ShareResourceForeignKey", sub.id) for sub in ce.cluster.subclusters]
    if "GLUE2ComputingShareServingState" not in shown:
        state = values.get("GlueCEStateStatus")
        text = state.lower() if isinstance(state, str) else ""
        # The schema wants one. None of them is made up: a broker would believe it.
        more.append(("GLUE2ComputingShareServingState", text if text in _STATES else _UNKNOWN))
    dn = f"{rdn('GLUE2ShareID', ident)},{place.service}"
    yield writer.entry(dn, "GLUE2ComputingShare", shown, more)
    if values.get(RULES) == []:
        said = "it admits nobody, which no rule says: published as open to all"
        writer.report(Issue("publish.access", said, dn=dn, attribute=RULES))
    yield from _policy(writer, dn, ident, values.get(RULES))


def _policy(writer: Writer, dn: str, share: str, rules: Value | None) -> Iterator[Entry]:
    listed = [rule for rule in rules if isinstance(rule, str)] if isinstance(rules, list) else []
    if not listed:
        return
    ident = f"{share}_policy"
    more: Pairs = [
        ("GLUE2PolicyID", ident),
        ("GLUE2PolicyScheme", "org.glite.standard"),
        *(("GLUE2PolicyRule", rule) for rule in listed),
        ("GLUE2MappingPolicyShareForeignKey", share),
    ]
    yield writer.entry(f"{rdn('GLUE2PolicyID', ident)},{dn}", "GLUE2MappingPolicy", {}, more)


def _close(writer: Writer, ce: ComputingElement, place: _Place) -> Iterator[Entry]:
    for bind in ce.binds:
        ident = f"{ce.id}_{bind.se_id}"
        more = [
            ("GLUE2ToStorageServiceID", ident),
            ("GLUE2ToStorageServiceLocalPath", bind.mount or _UNKNOWN),
            ("GLUE2ToStorageServiceRemotePath", _UNKNOWN),
            ("GLUE2ToStorageServiceComputingServiceForeignKey", place.service_id),
            ("GLUE2ToStorageServiceStorageServiceForeignKey", bind.se_id),
            ("GLUE2EntityOtherInfo", f"{CE_ID}={ce.id}"),
        ]
        dn = f"{rdn('GLUE2ToStorageServiceID', ident)},{place.service}"
        yield writer.entry(dn, "GLUE2ToStorageService", {}, more)


# --- storage --------------------------------------------------------------------------------------


def _storage(writer: Writer, element: StorageElement, site_id: str, home: str) -> Iterator[Entry]:
    dn = f"{rdn('GLUE2ServiceID', element.id)},{home}"
    values = _named(element.values, "GLUE2Service", "GLUE2Entity")
    more = [
        ("GLUE2ServiceID", element.id),
        ("GLUE2ServiceType", "org.ogf.glue.StorageService"),
        ("GLUE2ServiceQualityLevel", "production"),
        ("GLUE2ServiceAdminDomainForeignKey", site_id),
        *_left(element.values, values, "GlueSE"),
    ]
    yield writer.entry(dn, "GLUE2StorageService", values, more)
    for area in element.areas:
        ident = f"{element.id}/{area.id}"
        below = f"{rdn('GLUE2ShareID', ident)},{dn}"
        shown = _named(area.values, "GLUE2StorageShare", "GLUE2Share", "GLUE2Entity")
        given = {
            "ServingState": "production",
            "SharingID": "dedicated",
            "AccessLatency": "online",
        }
        more = [
            ("GLUE2ShareID", ident),
            ("GLUE2ShareServiceForeignKey", element.id),
            *_left(area.values, shown, "GlueSA"),
        ]
        more += [
            (f"GLUE2StorageShare{name}", text)
            for name, text in given.items()
            if f"GLUE2StorageShare{name}" not in shown
        ]
        yield writer.entry(below, "GLUE2StorageShare", shown, more)
        rules = area.values.get("GlueSAAccessControlBaseRule") or [f"VO:{area.id}"]
        yield from _policy(writer, below, ident, rules)
