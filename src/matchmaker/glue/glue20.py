"""From entries of GLUE 2.0 to the records of GLUE 1.3: each endpoint with each share is a queue.

A computing endpoint is where jobs are submitted, a share is how they are treated; the pair is what
GLUE 1.3 calls a Computing Element, and shares of one queue are its VO views. A manager is the
cluster, its execution environments are the SubClusters. `translate` gives the values their names
and units of GLUE 1.3; those of GLUE 2.0 stay beside them in the ad ``GLUE2``, as the gLite broker
nested them: ``GLUE2.Computing.Share.MaxCPUTime`` is in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Final

import attrs

from matchmaker.classad import ClassAd, Expr
from matchmaker.glue import translate
from matchmaker.glue.access import RULES
from matchmaker.glue.issues import Report
from matchmaker.glue.linking import Record, by_id, dangling, finding, rdns, unique
from matchmaker.glue.records import (
    Bind,
    Cluster,
    ComputingElement,
    Site,
    Snapshot,
    StorageArea,
    StorageElement,
    SubCluster,
    VOView,
)
from matchmaker.glue.schema import attribute
from matchmaker.glue.translate import CE_ID, VO_VIEW, marks
from matchmaker.glue.typed import Facts

IDS: Final[Mapping[str, str]] = {
    "glue2admindomain": "GLUE2DomainID",
    "glue2location": "GLUE2LocationID",
    "glue2contact": "GLUE2ContactID",
    "glue2computingservice": "GLUE2ServiceID",
    "glue2storageservice": "GLUE2ServiceID",
    "glue2computingendpoint": "GLUE2EndpointID",
    "glue2computingshare": "GLUE2ShareID",
    "glue2storageshare": "GLUE2ShareID",
    "glue2computingmanager": "GLUE2ManagerID",
    "glue2executionenvironment": "GLUE2ResourceID",
    "glue2benchmark": "GLUE2BenchmarkID",
    "glue2applicationenvironment": "GLUE2ApplicationEnvironmentID",
    "glue2mappingpolicy": "GLUE2PolicyID",
    "glue2accesspolicy": "GLUE2PolicyID",
    "glue2tostorageservice": "GLUE2ToStorageServiceID",
    "glue2storageservicecapacity": "GLUE2StorageServiceCapacityID",
    "glue2storagesharecapacity": "GLUE2StorageShareCapacityID",
}
"""The classes that are read, and the attribute that names an entry of each."""

QUEUES: Final = 1_000
TAGS: Final = 100_000
EACH: Final = 20
"""A service may have so many queues, each share at each endpoint, and a manager's hosts so many
applications together, each on each set of hosts; or so many for each of these entries. A few
thousand entries could else make millions."""

_SUBMISSION = ("jobcreation", "jobexecution", "jobmanagement", "jobsubmission", "jobdescription")


def link(
    kinds: Mapping[str, list[Record]], report: Report, rules: frozenset[str] = frozenset()
) -> Snapshot:
    """Link records, given by class as in `IDS`; what fails is reported."""
    if not any(kinds[kind] for kind in IDS):
        return Snapshot((), (), (), ())
    return _Linker({kind: list(unique(kinds[kind], report)) for kind in IDS}, report, rules).all()


@cache
def _short(name: str) -> str:
    known = attribute(name)
    return name if known is None else known.name.removeprefix(known.owner) or known.name


def nested(record: Record | None) -> Expr:
    """The values of an entry under their short names: ``MaxCPUTime``, ``ID``, ``OtherInfo``."""
    made = ClassAd()
    for name, value in sorted(record.values.items()) if record is not None else ():
        if name.lower() != "objectclass":
            made[_short(name)] = value
    return made.expression()


def _keys(record: Record, names: Iterable[str], ancestor: str) -> list[str]:
    """The ids, in lower case, that a record's keys name; without a key, its place in the tree."""
    found: dict[str, None] = {}
    for name in names:
        value = record.values.get(name)
        texts = value if isinstance(value, list) else [value]
        found |= {text.lower(): None for text in texts if isinstance(text, str)}
    if not found and (placed := rdns(record.entry.dn).get(ancestor.lower(), "")):
        found[placed.lower()] = None
    return list(found)


def _grouped(
    records: Iterable[Record], names: Sequence[str], ancestor: str
) -> dict[str, list[Record]]:
    made: dict[str, list[Record]] = {}
    for record in records:
        for key in _keys(record, names, ancestor):
            made.setdefault(key, []).append(record)
    return {key: by_id(group) for key, group in made.items()}


def _service_names(kind: str, service: str = "Computing") -> tuple[str, ...]:
    return (f"GLUE2{kind}ServiceForeignKey", f"GLUE2{service}{kind}{service}ServiceForeignKey")


@attrs.define(slots=True)
class _Linker:
    """The records of one snapshot by class, and how they hang together."""

    kinds: Mapping[str, list[Record]]
    report: Report
    rules: frozenset[str]

    def all(self) -> Snapshot:
        sites = {r.id.lower(): Site(r.id, v) for r, v in self._domains()}
        elements = {e.id.lower(): e for e in self._storage()}
        clusters: dict[tuple[str, ...], Cluster] = {}
        queues: list[ComputingElement] = []
        hosts = self._subclusters()
        managers = self._by_service("manager", "Manager")
        endpoints = self._by_service("endpoint", "Endpoint")
        shares = self._by_service("share", "Share")
        policies = self._policies()
        close = self._binds(elements)
        for service in self.kinds["glue2computingservice"]:
            key = service.id.lower()
            site_id = self._site_of(service, sites)
            mine = managers.pop(key, [])
            if len(mine) > 1:
                said = "several managers of one service; the first was taken"
                self.report(finding(service, "link.several", said, "; ".join(m.id for m in mine)))
            manager = mine[0] if mine else None
            pairs: dict[str, list[_Pair]] = {}
            jobs = {e.id.lower(): e for e in endpoints.pop(key, []) if _takes_jobs(e)}
            treated = shares.pop(key, [])
            made = (
                pair
                for share in treated
                for pair in self._pairs(service, manager, jobs, share, policies)
            )
            most = max(QUEUES, EACH * (len(jobs) + len(treated)))
            for pair in islice(made, most):
                pairs.setdefault(pair.ce_id.lower(), []).append(pair)
            if next(made, None) is not None:
                said = f"{len(treated)} shares at {len(jobs)} endpoints are more than {most} queues"
                self.report(finding(service, "link.too-many", f"{said}; the others are left out"))
            for group in pairs.values():
                for element, share in _elements(group):
                    cluster = None
                    if manager is not None:
                        subs = self._hosts_of(share, hosts.get(manager.id.lower(), []))
                        place = (manager.id, *(sub.id for sub in subs))
                        if place not in clusters:
                            clusters[place] = Cluster(
                                manager.id,
                                translate.cluster(manager),
                                site_id,
                                sites.get(site_id.lower()),
                                tuple(subs),
                            )
                        cluster = clusters[place]
                    else:
                        said = "no manager, so nothing is known of its hosts"
                        self.report(finding(share, "link.no-cluster", said))
                    binds = tuple(close(service.id, element.id))
                    bound = tuple(bind.se_id for bind in binds)
                    queues.append(attrs.evolve(element, cluster=cluster, binds=binds, bound=bound))
        for left in (managers, endpoints, shares):
            for key, records in left.items():
                for record in records:
                    self.report(dangling(record, f"GLUE2ServiceID={key}"))
        return Snapshot(
            tuple(sites.values()), tuple(clusters.values()), tuple(queues), tuple(elements.values())
        )

    def _domains(self) -> Iterator[tuple[Record, Facts]]:
        names = ("GLUE2LocationDomainForeignKey",)
        places = _grouped(self.kinds["glue2location"], names, "GLUE2DomainID")
        for domain in self.kinds["glue2admindomain"]:
            yield domain, translate.site(domain, places.get(domain.id.lower(), []))

    def _site_of(self, service: Record, sites: Mapping[str, Site]) -> str:
        found = _keys(service, ("GLUE2ServiceAdminDomainForeignKey",), "GLUE2DomainID")
        if not found:
            return ""
        if found[0] not in sites:
            self.report(dangling(service, f"GLUE2DomainID={found[0]}"))
            known = service.texts("GLUE2ServiceAdminDomainForeignKey")
            return known[0] if known else found[0]
        return sites[found[0]].id

    def _by_service(self, kind: str, name: str) -> dict[str, list[Record]]:
        records = self.kinds[f"glue2computing{kind}"]
        return _grouped(records, _service_names(name), "GLUE2ServiceID")

    def _policies(self) -> Mapping[str, dict[str, list[Record]]]:
        return {
            kind: _grouped(self.kinds[f"glue2{kind.lower()}policy"], (key,), ancestor)
            for kind, key, ancestor in (
                ("Mapping", "GLUE2MappingPolicyShareForeignKey", "GLUE2ShareID"),
                ("Access", "GLUE2AccessPolicyEndpointForeignKey", "GLUE2EndpointID"),
            )
        }

    def _subclusters(self) -> dict[str, list[tuple[str, SubCluster]]]:
        """The sets of hosts of each manager, with the id by which shares call them."""
        resource = "GLUE2ResourceID"
        marks_of = _grouped(
            self.kinds["glue2benchmark"],
            ("GLUE2BenchmarkExecutionEnvironmentForeignKey",),
            resource,
        )
        general = _grouped(
            self.kinds["glue2benchmark"],
            ("GLUE2BenchmarkComputingManagerForeignKey",),
            "GLUE2ManagerID",
        )
        applications = _grouped(
            self.kinds["glue2applicationenvironment"],
            ("GLUE2ApplicationEnvironmentComputingManagerForeignKey",),
            "GLUE2ManagerID",
        )
        managers = {m.id.lower(): m for m in self.kinds["glue2computingmanager"]}
        found: dict[str, list[tuple[str, SubCluster]]] = {}
        # Each is of many sets of hosts.
        described = {tag.id: nested(tag) for tag in self.kinds["glue2applicationenvironment"]}
        names = (
            "GLUE2ResourceManagerForeignKey",
            "GLUE2ExecutionEnvironmentComputingManagerForeignKey",
        )
        environments = _grouped(self.kinds["glue2executionenvironment"], names, "GLUE2ManagerID")
        for key, records in environments.items():
            manager = managers.get(key)
            tagged = _by_environment(applications.get(key, []))
            most = left = max(TAGS, EACH * (len(records) + len(applications.get(key, []))))
            for record in records:
                if manager is None:
                    self.report(dangling(record, f"GLUE2ManagerID={key}"))
                    continue
                tags = by_id([*tagged.get("", []), *tagged.get(record.id.lower(), [])])
                if len(tags) > left:
                    said = f"more than {most} applications on its hosts; the others are left out"
                    self.report(finding(record, "link.too-many", said))
                    tags = tags[:left]
                left -= len(tags)
                speeds = marks_of.get(record.id.lower()) or general.get(key, [])
                values = translate.subcluster(
                    record, manager, speeds, tags, report=self.report, rules=self.rules
                )
                values["GLUE2"] = ClassAd(
                    {
                        "ExecutionEnvironment": nested(record),
                        "Benchmark": [nested(speed) for speed in speeds],
                        "ApplicationEnvironment": [described[tag.id] for tag in tags],
                    }
                )
                sub = SubCluster(record.id, values)
                found.setdefault(key, []).append((record.id.lower(), sub))
        for key, manager in managers.items():
            if key not in found:
                said = "no execution environment, so nothing is known of its hosts"
                self.report(finding(manager, "link.no-subcluster", said))
        return found

    def _hosts_of(self, share: Record, hosts: Sequence[tuple[str, SubCluster]]) -> list[SubCluster]:
        names = (
            "GLUE2ShareResourceForeignKey",
            "GLUE2ComputingShareExecutionEnvironmentForeignKey",
        )
        wanted = _keys(share, names, "")
        if not wanted:
            return [sub for _, sub in hosts]
        known = dict(hosts)
        for key in wanted:
            if key not in known:
                self.report(dangling(share, f"GLUE2ResourceID={key}"))
        chosen = [(key, known[key]) for key in wanted if key in known]
        return [sub for _, sub in sorted(chosen, key=lambda row: row[0]) or hosts]

    def _pairs(
        self,
        service: Record,
        manager: Record | None,
        endpoints: Mapping[str, Record],
        share: Record,
        policies: Mapping[str, dict[str, list[Record]]],
    ) -> Iterator[_Pair]:
        names = (
            "GLUE2ShareEndpointForeignKey",
            "GLUE2ComputingShareComputingEndpointForeignKey",
        )
        wanted = _keys(share, names, "")
        known = [endpoints[key] for key in wanted if key in endpoints]
        chosen: list[Record | None] = [*(by_id(known) if wanted else endpoints.values())]
        if wanted and not chosen:
            self.report(dangling(share, f"GLUE2EndpointID={wanted[0]}"))
        if not chosen:
            said = "no endpoint takes its jobs; it goes by its own id"
            self.report(finding(share, "link.no-endpoint", said))
            chosen = [None]
        mapping = policies["Mapping"].get(share.id.lower(), [])
        for endpoint in chosen:
            access = policies["Access"].get(endpoint.id.lower(), []) if endpoint else []
            values = translate.queue(endpoint, share, manager, mapping, access)
            values["GLUE2"] = ClassAd(
                {
                    "Computing": ClassAd(
                        {
                            "Endpoint": nested(endpoint),
                            "Service": nested(service),
                            "Manager": nested(manager),
                            "Share": nested(share),
                        }
                    )
                }
            )
            yield _Pair(translate.ce_id(endpoint, share, manager), share, values)

    def _storage(self) -> Iterator[StorageElement]:
        names = _service_names("Share", "Storage")
        shares = _grouped(self.kinds["glue2storageshare"], names, "GLUE2ServiceID")
        mapping = _grouped(
            self.kinds["glue2mappingpolicy"],
            ("GLUE2MappingPolicyShareForeignKey",),
            "GLUE2ShareID",
        )
        sizes = _grouped(
            self.kinds["glue2storagesharecapacity"],
            ("GLUE2StorageShareCapacityStorageShareForeignKey",),
            "GLUE2ShareID",
        )
        totals = _grouped(
            self.kinds["glue2storageservicecapacity"],
            ("GLUE2StorageServiceCapacityStorageServiceForeignKey",),
            "GLUE2ServiceID",
        )
        for service in self.kinds["glue2storageservice"]:
            areas = [
                StorageArea(name, values)
                for share in shares.get(service.id.lower(), [])
                for name, values in translate.areas(
                    share, mapping.get(share.id.lower(), []), sizes.get(share.id.lower(), [])
                )
            ]
            values = translate.storage(service, totals.get(service.id.lower(), []))
            areas.sort(key=lambda area: (area.id.lower(), area.id))
            yield StorageElement(service.id, values, tuple(areas))

    def _binds(self, elements: Mapping[str, StorageElement]) -> _Close:
        """The storage that is close to a queue, by the ids of its service and of itself."""
        names = ("GLUE2ToStorageServiceComputingServiceForeignKey",)
        general: dict[str, list[Record]] = {}
        of_queues: dict[tuple[str, str], list[Record]] = {}
        grouped = _grouped(self.kinds["glue2tostorageservice"], names, "GLUE2ServiceID")
        for service, records in grouped.items():
            for record in records:
                only = marks(record, CE_ID)
                if not only:
                    general.setdefault(service, []).append(record)
                for ce in only:
                    of_queues.setdefault((service, ce.lower()), []).append(record)
        return _Close(general, of_queues, elements, self.report)


@attrs.frozen(slots=True)
class _Close:
    """Where a queue finds the storage that is close to it."""

    grouped: Mapping[str, list[Record]]
    of_queues: Mapping[tuple[str, str], list[Record]]
    elements: Mapping[str, StorageElement]
    report: Report

    def __call__(self, service_id: str, ce_id: str) -> Iterator[Bind]:
        own = self.of_queues.get((service_id.lower(), ce_id.lower()), [])
        for record in by_id([*self.grouped.get(service_id.lower(), []), *own]):
            names = _keys(record, ("GLUE2ToStorageServiceStorageServiceForeignKey",), "")
            se_id = record.text("GLUE2ToStorageServiceStorageServiceForeignKey")
            se = self.elements.get(names[0]) if names else None
            if se is None:
                self.report(dangling(record, f"GLUE2ServiceID={se_id}"))
            mount = record.text("GLUE2ToStorageServiceLocalPath")
            yield Bind(se_id, mount, translate.bind(record), se)


@attrs.frozen(slots=True)
class _Pair:
    """An endpoint with a share, as GLUE 1.3 would call and describe it."""

    ce_id: str
    share: Record
    values: Facts


def _elements(group: Sequence[_Pair]) -> Iterator[tuple[ComputingElement, Record]]:
    """The queues that pairs of one id are: one, with a view for each share that is a view.

    Shares of one queue that do not say what they are to it become its views, where they have rules
    of access of their own; else they stand apart, under an id with their own.
    """
    own = [pair for pair in group if not marks(pair.share, VO_VIEW)]
    views = [pair for pair in group if marks(pair.share, VO_VIEW)]
    if len(own) > 1:
        views += [pair for pair in own if pair.values.get(RULES)]
        for pair in own:
            if pair not in views:
                yield ComputingElement(f"{pair.ce_id}/{pair.share.id}", pair.values), pair.share
        own = []
    if not own and not views:
        return
    shared = own[0].values if own else _common([pair.values for pair in views])
    made = tuple(
        VOView((marks(pair.share, VO_VIEW) or (pair.share.id,))[0], pair.values) for pair in views
    )
    yield ComputingElement(group[0].ce_id, shared, views=made), (own or views)[0].share


def _common(all_values: Sequence[Facts]) -> Facts:
    """What all of several agree on, less the rules of access, which are each one's own."""
    first, *others = all_values
    made = Facts()
    agreed = {
        name: value
        for name, value in first.items()
        if name != RULES and all(name in other and other[name] == value for other in others)
    }
    made.take(agreed, first.cleaned)
    return made


def _takes_jobs(endpoint: Record) -> bool:
    """Whether an endpoint is for jobs; others of a service are for information or delegation."""
    said = [capability.lower() for capability in endpoint.texts("GLUE2EndpointCapability")]
    return not said or any(word in capability for capability in said for word in _SUBMISSION)


def _by_environment(applications: Iterable[Record]) -> dict[str, list[Record]]:
    """Applications by the environments that they are for; under no name those that are for all."""
    made: dict[str, list[Record]] = {}
    for record in applications:
        names = ("GLUE2ApplicationEnvironmentExecutionEnvironmentForeignKey",)
        for key in _keys(record, names, "") or [""]:
            made.setdefault(key, []).append(record)
    return made
