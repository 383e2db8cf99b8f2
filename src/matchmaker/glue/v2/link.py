"""From entries of GLUE 2.0 to the records of GLUE 1.3: each endpoint with each share is a queue.

Jobs are submitted to a computing endpoint, and a share says how they are treated. The pair is what
GLUE 1.3 calls a Computing Element; shares of one queue are its VO views. A manager is the cluster,
its execution environments are the SubClusters. `glue2_to_glue1` gives the values their names and
units of GLUE 1.3. The values of GLUE 2.0 stay beside them in the ad ``GLUE2``, nested as in the
gLite broker: ``GLUE2.Computing.Share.MaxCPUTime`` is in seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import ClassAd, Expr
from matchmaker.glue.access import (
    ALSO,
    RULES,
    AccessPolicies,
    all_of,
    required,
    unknown,
    without_rules,
)
from matchmaker.glue.clean import Facts
from matchmaker.glue.issues import Report
from matchmaker.glue.linking import (
    Children,
    Quota,
    Record,
    by_id,
    dangling,
    finding,
    grouped,
    home,
    keys_of,
    unique,
)
from matchmaker.glue.records import (
    Cluster,
    ComputingElement,
    GlueRecords,
    Site,
    SubCluster,
    VOView,
)
from matchmaker.glue.schema import attributes
from matchmaker.glue.v2 import glue2_to_glue1 as translate
from matchmaker.glue.v2.storage import Close, storage_elements

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

ENDPOINTS: Final = (
    "GLUE2ShareEndpointForeignKey",
    "GLUE2ComputingShareComputingEndpointForeignKey",
)
"""The attributes by which a share names its endpoints."""

_SUBMISSION: Final = ("jobcreation", "jobexecution", "jobsubmission")
"""Words in what an endpoint is for (Capability_t) if it takes jobs."""

_WITHIN: Final = frozenset({"glue2mappingpolicy", "glue2accesspolicy", "glue2benchmark"})
"""Classes whose ids are their own only within their parents."""


def link(
    kinds: Mapping[str, list[Record]],
    policies: AccessPolicies,
    report: Report,
    rules: frozenset[str] = frozenset(),
    described: Collection[str] = frozenset(),
) -> GlueRecords:
    """Link records; what fails is reported.

    `kinds` has the records of each class of `IDS`; of the `rules` that are on, ``clean.benchmark``
    is applied here. The queues whose ids, in lower case, are `described` have no values but their
    rules of access: another description of them stays.
    """
    if not any(kinds[kind] for kind in IDS):
        return GlueRecords((), (), (), ())

    def distinct(kind: str) -> list[Record]:
        return unique(kinds[kind], report, home)

    known = {kind: kinds[kind] if kind in _WITHIN else distinct(kind) for kind in IDS}
    most = LIMITS.links + LIMITS.links_each * sum(map(len, known.values()))
    links = Quota(most, "links", report)
    return _Linker(known, policies, report, rules, links, described).all()


@cache
def _short_names() -> Mapping[str, str]:
    """The name of each attribute without that of its class."""
    known = dict.fromkeys(attributes().values())
    return {its.name: its.name.removeprefix(its.owner) or its.name for its in known}


@attrs.define(slots=True)
class _Linker:
    """The records of one snapshot by class, and how they hang together."""

    kinds: Mapping[str, list[Record]]
    policies: AccessPolicies
    report: Report
    rules: frozenset[str]
    links: Quota
    described: Collection[str]
    _nested: dict[int, Expr] = attrs.Factory(dict)
    _sizes: dict[int, int] = attrs.Factory(dict)

    def nested(self, record: Record | None) -> Expr:
        """The values of an entry under their short names: ``MaxCPUTime``, ``ID``, ``OtherInfo``.

        Made once for all that the entry is linked to.
        """
        made = self._nested.get(id(record))
        if made is None:
            short = _short_names()
            items = sorted(record.values.items()) if record is not None else ()
            ad = ClassAd({short.get(n, n): v for n, v in items if n.lower() != "objectclass"})
            made = self._nested[id(record)] = ad.expression()
        return made

    def all(self) -> GlueRecords:
        sites = {r.id.lower(): Site(r.id, v) for r, v in self._domains()}
        elements = {e.id.lower(): e for e in storage_elements(self.kinds, self.links)}
        clusters: dict[tuple[str, ...], Cluster] = {}
        queues: list[ComputingElement] = []
        hosts = self._subclusters()
        managers = self._by_service("Manager")
        endpoints = self._by_service("Endpoint")
        shares = self._by_service("Share")
        close = Close.of(self.kinds, elements, self.report)
        # The id of a share is its own only within its service.
        services = Counter(share.id.lower() for its in shares.values() for share in its)
        for service in self.kinds["glue2computingservice"]:
            key = service.id.lower()
            site_id = self._site_of(service, sites)
            mine = managers.pop(key, [])
            if len(mine) > 1:
                said = "several managers of one service; the first was taken"
                self.report(finding(service, "link.several", said, "; ".join(m.id for m in mine)))
            manager = mine[0] if mine else None
            offered = {e.id.lower(): e for e in endpoints.pop(key, [])}
            jobs = {ident: e for ident, e in offered.items() if takes_jobs(e)}
            treated = shares.pop(key, [])
            weighed = chain.from_iterable(
                self._pairs(service, manager, offered, share) for share in treated
            )
            parts = len(jobs) + len(treated)
            made = self._light(weighed, LIMITS.taken + LIMITS.taken_each * parts, service)
            most = max(LIMITS.queues, LIMITS.repeated * parts)
            room = Quota(most, "queues, shares at endpoints", self.report)
            for group in by_queue(room.take(made, service)):
                element, share = queue_of(group)
                if unknown(element):
                    self.report(without_rules(share))
                alone = services[share.id.lower()] == 1 or element.id != share.id
                ident = element.id if alone else f"{service.id}/{share.id}"
                cluster = None
                if manager is not None:
                    its = self.links.take(hosts[_place(manager)], share)
                    subs = self._hosts_of(share, its)
                    place = (*_place(manager), *(sub.id for sub in subs))
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
                near = by_id(self.links.take(close.to(service.id, element.id), share))
                binds = tuple(map(close.bind, near))
                bound = tuple(bind.se_id for bind in binds)
                queues.append(
                    attrs.evolve(element, id=ident, cluster=cluster, binds=binds, bound=bound)
                )
        for left in (managers, endpoints, shares):
            for key, records in left.items():
                for record in records:
                    self.report(dangling(record, f"GLUE2ServiceID={key}"))
        return GlueRecords(
            tuple(sites.values()),
            tuple(clusters.values()),
            tuple(queues),
            tuple(elements.values()),
        )

    def _domains(self) -> Iterator[tuple[Record, Facts]]:
        names = ("GLUE2LocationDomainForeignKey",)
        places = grouped(self.kinds["glue2location"], names, "GLUE2DomainID")
        names = ("GLUE2ContactDomainForeignKey",)
        contacts = grouped(self.kinds["glue2contact"], names, "GLUE2DomainID")
        for domain in self.kinds["glue2admindomain"]:
            key = domain.id.lower()
            yield domain, translate.site(domain, places.get(key, []), contacts.get(key, []))

    def _site_of(self, service: Record, sites: Mapping[str, Site]) -> str:
        found = keys_of(service, ("GLUE2ServiceAdminDomainForeignKey",), "GLUE2DomainID")
        if not found:
            return ""
        if found[0] not in sites:
            self.report(dangling(service, f"GLUE2DomainID={found[0]}", sites))
            known = service.texts("GLUE2ServiceAdminDomainForeignKey")
            return known[0] if known else found[0]
        return sites[found[0]].id

    def _by_service(self, kind: str) -> dict[str, list[Record]]:
        names = (f"GLUE2{kind}ServiceForeignKey", f"GLUE2Computing{kind}ComputingServiceForeignKey")
        records = self.kinds[f"glue2computing{kind.lower()}"]
        for record in records:
            if not keys_of(record, names, "GLUE2ServiceID"):
                said = "it names no service and stands under none"
                self.report(finding(record, "link.dangling", said))
        return grouped(records, names, "GLUE2ServiceID")

    def _subclusters(self) -> dict[tuple[str, str], list[tuple[str, SubCluster]]]:
        """The sets of hosts of each manager, with the id by which shares call them."""
        resource, by = "GLUE2ResourceID", "GLUE2ManagerID"
        marks, tags = self.kinds["glue2benchmark"], self.kinds["glue2applicationenvironment"]
        marks_of = Children.by_keys(
            marks, ("GLUE2BenchmarkExecutionEnvironmentForeignKey",), resource
        )
        general = Children.by_keys(marks, ("GLUE2BenchmarkComputingManagerForeignKey",), by)
        applications = Children.by_keys(
            tags, ("GLUE2ApplicationEnvironmentComputingManagerForeignKey",), by
        )
        names = (
            "GLUE2ResourceManagerForeignKey",
            "GLUE2ExecutionEnvironmentComputingManagerForeignKey",
        )
        environments = Children.by_keys(self.kinds["glue2executionenvironment"], names, by)
        found: dict[tuple[str, str], list[tuple[str, SubCluster]]] = {}
        for manager in self.kinds["glue2computingmanager"]:
            records, its = environments.of(manager), applications.of(manager)
            tagged = _by_environment(its)
            most = max(LIMITS.tags, LIMITS.repeated * (len(records) + len(its)))
            room = Quota(most, "applications on the hosts of a manager", self.report)
            subs = found[_place(manager)] = []
            for record in records:
                chosen = by_id([*tagged.get("", []), *tagged.get(record.id.lower(), [])])
                chosen = room.take(chosen, record)
                speeds = self.links.take(marks_of.of(record) or general.of(manager), record)
                values = translate.subcluster(
                    record, manager, speeds, chosen, report=self.report, rules=self.rules
                )
                values["GLUE2"] = ClassAd(
                    {
                        "ExecutionEnvironment": self.nested(record),
                        "Benchmark": [self.nested(speed) for speed in speeds],
                        "ApplicationEnvironment": [self.nested(tag) for tag in chosen],
                    }
                )
                subs.append((record.id.lower(), SubCluster(record.id, values)))
            if not subs:
                said = "no execution environment, so nothing is known of its hosts"
                self.report(finding(manager, "link.no-subcluster", said))
        known = {manager.id.lower() for manager in self.kinds["glue2computingmanager"]}
        for key, records in environments:
            if key not in known:
                for record in records:
                    self.report(dangling(record, f"GLUE2ManagerID={key}"))
        return found

    def _hosts_of(self, share: Record, hosts: Sequence[tuple[str, SubCluster]]) -> list[SubCluster]:
        names = (
            "GLUE2ShareResourceForeignKey",
            "GLUE2ComputingShareExecutionEnvironmentForeignKey",
        )
        wanted = keys_of(share, names, "")
        if not wanted:
            return [sub for _, sub in hosts]
        known = dict(hosts)
        for key in wanted:
            if key not in known:
                self.report(dangling(share, f"GLUE2ResourceID={key}"))
        chosen = [(key, known[key]) for key in wanted if key in known]
        return [sub for _, sub in sorted(chosen, key=lambda row: row[0]) or hosts]

    def _light(
        self, made: Iterable[tuple[int, EndpointShare]], most: int, service: Record
    ) -> Iterator[EndpointShare]:
        """Pairs until they are made of more than `most` values; then an issue says so."""
        for size, pair in made:
            most -= size
            if most < 0:
                said = "its shares at its endpoints repeat too much; the others are left out"
                self.report(finding(service, "link.too-many", said))
                return
            yield pair

    def _size(self, record: Record) -> int:
        """How many values an entry has, counted once for all that it is linked to."""
        if id(record) not in self._sizes:
            counts = (len(v) if isinstance(v, list) else 1 for v in record.values.values())
            self._sizes[id(record)] = sum(counts)
        return self._sizes[id(record)]

    def _pairs(
        self,
        service: Record,
        manager: Record | None,
        endpoints: Mapping[str, Record],
        share: Record,
    ) -> Iterator[tuple[int, EndpointShare]]:
        """Each endpoint with a share, and the number of values that the pair is made of."""
        wanted = keys_of(share, ENDPOINTS, "")
        known = [
            endpoint
            for ident, endpoint in endpoints.items()
            # ARC's key is the beginning of the ids of its endpoints, ``…:arex`` of ``…:arex:ac``.
            if not wanted or any(ident == key or ident.startswith(f"{key}:") for key in wanted)
        ]
        if wanted and not known:
            self.report(dangling(share, f"GLUE2EndpointID={wanted[0]}"))
            known = [*endpoints.values()]
        chosen: list[Record | None] = [*filter(takes_jobs, by_id(known))]
        if not chosen:
            said = "no endpoint takes its jobs; it goes by its own id"
            self.report(finding(share, "link.no-endpoint", said))
            chosen = [None]
        for endpoint in chosen:
            ce_id = translate.ce_id(endpoint, share, manager)
            access = self.policies.access(share, endpoint)
            parts = (endpoint, share, manager)
            size = sum(self._size(part) for part in parts if part is not None)
            size += len(all_of([access]))
            if ce_id.lower() in self.described and ce_id != share.id:
                values = Facts(GLUE2=ClassAd())
            else:
                values = translate.queue(endpoint, share, manager)
                values["GLUE2"] = ClassAd(
                    {
                        "Computing": ClassAd(
                            {
                                "Endpoint": self.nested(endpoint),
                                "Service": self.nested(service),
                                "Manager": self.nested(manager),
                                "Share": self.nested(share),
                            }
                        )
                    }
                )
            values.update(access)
            yield size, EndpointShare(ce_id, share, values, endpoint.id if endpoint else "")


@attrs.frozen(slots=True, eq=False)
class EndpointShare:
    """An endpoint with a share, as GLUE 1.3 would call and describe it.

    Attributes:
        ce_id: the id of the queue.
        share: of the service.
        values: of the queue or its view.
        endpoint: its id.
    """

    ce_id: str
    share: Record
    values: Facts
    endpoint: str


def takes_jobs(endpoint: Record) -> bool:
    """Whether an endpoint takes jobs; others manage them, or are for information or delegation."""
    said = [text.lower() for text in endpoint.texts("GLUE2EndpointCapability")]
    return not said or any(word in text for text in said for word in _SUBMISSION)


def by_queue(pairs: Iterable[EndpointShare]) -> list[Sequence[EndpointShare]]:
    """The pairs of each queue; of a share at several endpoints of one address there is one.

    Endpoints of one address are doors to one queue: whom one of them admits may use it. Those that
    differ in whom they admit are so many views.
    """
    groups: dict[str, dict[tuple[int, str], EndpointShare]] = {}
    for pair in pairs:
        alone = pair.endpoint if pair.ce_id == pair.share.id else ""
        place = id(pair.share), f"{required(pair.values)}{alone}"
        groups.setdefault(pair.ce_id.lower(), {}).setdefault(place, pair)
    return [[*group.values()] for group in groups.values()]


def queue_of(group: Sequence[EndpointShare]) -> tuple[ComputingElement, Record]:
    """The queue that pairs of one id are, with a view for each share that is not the queue itself.

    Shares of one queue that do not say what they are to it become its views. A share that goes by
    its id at several endpoints has theirs behind it.
    """
    shares = Counter(pair.share.id.lower() for pair in group)
    own = [pair for pair in group if not translate.marks(pair.share, translate.VO_VIEW)]
    views = [pair for pair in group if translate.marks(pair.share, translate.VO_VIEW)]
    if len(own) > 1:
        views, own = [*views, *own], []
    shared = own[0].values if own else _common([pair.values for pair in views])
    names = Counter(_name(pair.share).lower() for pair in views)
    made = []
    for pair in views:
        name = _name(pair.share)
        if names[name.lower()] > 1:
            alone = shares[pair.share.id.lower()] == 1
            name = pair.share.id if alone else f"{pair.share.id}/{pair.endpoint}"
        made.append(VOView(name, pair.values))
    return ComputingElement(group[0].ce_id, shared, views=tuple(made)), (own or views)[0].share


def _name(share: Record) -> str:
    """Return the name of a share of a queue: its mark, its name, or else its id."""
    marked = translate.marks(share, translate.VO_VIEW)
    return marked[0] if marked else share.text("GLUE2EntityName").strip() or share.id


def _common(all_values: Sequence[Facts]) -> Facts:
    """Return the values on which several views agree; each has its own rules of access."""
    first, *others = all_values
    made = Facts()
    agreed = {
        name: value
        for name, value in first.items()
        if name not in (RULES, ALSO)
        and all(name in other and other[name] == value for other in others)
    }
    made.take(agreed, first.cleaned)
    return made


def _place(record: Record) -> tuple[str, str]:
    """The service and the id of a record."""
    return home(record), record.id.lower()


def _by_environment(applications: Iterable[Record]) -> dict[str, list[Record]]:
    """Applications by the environments that they are for; under no name those that are for all."""
    made: dict[str, list[Record]] = {}
    for record in applications:
        names = ("GLUE2ApplicationEnvironmentExecutionEnvironmentForeignKey",)
        for key in keys_of(record, names, "") or [""]:
            made.setdefault(key, []).append(record)
    return made
