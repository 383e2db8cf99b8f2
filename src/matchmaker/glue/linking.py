"""From entries to records: the keys of GLUE 1.3 and 2.0 that tie queues to clusters and storage.

Both schemas become the same `records`. In GLUE 2.0 jobs are submitted to a computing endpoint, and
a share says how they are treated: the pair is a Computing Element of GLUE 1.3, and shares of one
queue are its VO views. A manager is the cluster, its execution environments are the SubClusters.
`translation` gives the values their names and units of GLUE 1.3; those of GLUE 2.0 stay beside them
in the ad ``GLUE2``, nested as in the gLite broker: ``GLUE2.Computing.Share.MaxCPUTime`` is in
seconds. Parts of one record are ordered by id, as a server answers in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import ClassAd, Expr, Value
from matchmaker.glue import translation as translate
from matchmaker.glue.access import (
    ALSO,
    CONFLICT,
    POLICY_RULE,
    RULES,
    UNREADABLE,
    all_of,
    denies,
    folded,
    published,
    readable,
    required,
    restricted,
    unknown,
    with_rules,
)
from matchmaker.glue.clean import CleanValues
from matchmaker.glue.entries import (
    ChildEntries,
    CleanEntry,
    Quota,
    by_id,
    dangling,
    finding,
    first_key,
    grouped,
    home,
    key_values,
    keys_of,
    rdns,
    under,
    unique,
)
from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.records import (
    Bind,
    ComputingElement,
    GlueCluster,
    GlueRecords,
    GlueSite,
    StorageArea,
    StorageElement,
    SubCluster,
    Values,
    VOView,
    split_id,
)
from matchmaker.glue.schema import GLUE2_IDS, attributes
from matchmaker.glue.translation import CE_ID, marks


def link_glue1(kinds: Mapping[str, list[CleanEntry]], report: Report) -> GlueRecords:
    """Link records of the classes of `GLUE1_IDS`, and report keys that fail."""
    sites = {r.id.lower(): GlueSite(r.id, r.values) for r in unique(kinds["gluesite"], report)}
    areas = under(kinds["gluesa"], "GlueSEUniqueID")
    ses: dict[str, StorageElement] = {}
    for r in unique(kinds["gluese"], report):
        its = unique(areas.get(r.id.lower(), ()), report)
        stored = tuple(StorageArea(area.id, area.values) for area in its)
        ses[r.id.lower()] = StorageElement(r.id, r.values, stored)
    clusters = _clusters(kinds, sites, report)
    ces = tuple(_computing_elements(kinds, clusters, ses, report))
    return GlueRecords(tuple(sites.values()), tuple(clusters.values()), ces, tuple(ses.values()))


def _clusters(
    kinds: Mapping[str, list[CleanEntry]], sites: Mapping[str, GlueSite], report: Report
) -> dict[str, GlueCluster]:
    subclusters = under(kinds["gluesubcluster"], "GlueClusterUniqueID")
    clusters: dict[str, GlueCluster] = {}
    for record in unique(kinds["gluecluster"], report):
        keys = key_values(record.values, "GlueForeignKey", "GlueSiteUniqueID")
        site_id = first_key(record, keys, report)
        if site_id and site_id.lower() not in sites:
            report(dangling(record, f"GlueSiteUniqueID={site_id}", sites))
        its = unique(subclusters.pop(record.id.lower(), ()), report)
        subs = tuple(SubCluster(r.id, r.values) for r in its)
        if not subs:
            said = "no SubCluster, so nothing is known of its hosts"
            report(finding(record, "link.no-subcluster", said))
        site = sites.get(site_id.lower())
        clusters[record.id.lower()] = GlueCluster(record.id, record.values, site_id, site, subs)
    for key, orphans in subclusters.items():
        for record in orphans:
            report(dangling(record, f"GlueClusterUniqueID={key}"))
    return clusters


def _computing_elements(
    kinds: Mapping[str, list[CleanEntry]],
    clusters: Mapping[str, GlueCluster],
    ses: Mapping[str, StorageElement],
    report: Report,
) -> Iterator[ComputingElement]:
    def merge(first: CleanEntry, second: CleanEntry) -> CleanEntry:
        return agreeing(first, second, report)

    records = unique(kinds["gluece"], report, merge=merge)
    views = _views(kinds["gluevoview"])
    binds: dict[str, list[CleanEntry]] = {}
    for record in kinds["gluecesebind"]:
        owner = record.text("GlueCESEBindCEUniqueID")
        owner = owner or record.rdns.get("gluecesebindgroupceuniqueid", "")
        binds.setdefault(owner.lower(), []).append(record)
    groups = {r.id.lower(): r for r in kinds["gluecesebindgroup"]}
    for record in records:
        key = record.id.lower()
        its = unique(views.pop(key, ()), report, merge=merge)
        if split_id(record.id) is None:
            said = "its id does not tell the batch system and the queue"
            report(finding(record, "link.ce-id", said, record.id))
        group = groups.pop(key, None)
        bound = group.texts("GlueCESEBindGroupSEUniqueID") if group else ()
        cluster = _cluster_of(record, clusters, report)
        seen = tuple(VOView(r.id, published(r.values)) for r in its)
        near = tuple(_bind(r, ses, report) for r in by_id(unique(binds.pop(key, ()), report)))
        element = ComputingElement(record.id, published(record.values), cluster, seen, near, bound)
        if unknown(element):
            report(without_rules(record))
        yield element
    leftover = [r for rs in (*views.values(), *binds.values(), [*groups.values()]) for r in rs]
    for record in leftover:
        report(finding(record, "link.dangling", "its CE is not in the snapshot", record.id))


def _views(records: Iterable[CleanEntry]) -> dict[str, list[CleanEntry]]:
    """Group views by the id, in lower case, of the queue that each is of: by key, else by place."""
    found: dict[str, list[CleanEntry]] = {}
    for record in records:
        named = key_values(record.values, "GlueChunkKey", "GlueCEUniqueID")
        placed = record.rdns.get("glueceuniqueid", "")
        for key in dict.fromkeys(key.lower() for key in named or [placed]):
            found.setdefault(key, []).append(record)
    return {key: by_id(group) for key, group in found.items()}


def _cluster_of(
    record: CleanEntry, clusters: Mapping[str, GlueCluster], report: Report
) -> GlueCluster | None:
    """Find a queue's cluster by key, else by host name: rule 1 of the gLite broker's flattening."""
    keys = key_values(record.values, "GlueForeignKey", "GlueClusterUniqueID")
    named = first_key(record, keys, report)
    found = clusters.get(named.lower()) if named else None
    if named and found is None:
        report(dangling(record, f"GlueClusterUniqueID={named}", clusters))
    if found is None:
        found = clusters.get(record.text("GlueCEInfoHostName").lower())
    if found is None and not named:
        said = "neither a key nor its host name leads to a cluster"
        report(finding(record, "link.no-cluster", said))
    return found


def _bind(record: CleanEntry, ses: Mapping[str, StorageElement], report: Report) -> Bind:
    if (se := ses.get(record.id.lower())) is None:
        report(dangling(record, f"GlueSEUniqueID={record.id}", ses))
    return Bind(record.id, record.text("GlueCESEBindCEAccesspoint"), record.values, se)


ENDPOINTS: Final = (
    "GLUE2ShareEndpointForeignKey", "GLUE2ComputingShareComputingEndpointForeignKey"
)  # fmt: skip
"""The attributes by which a share names its endpoints."""

_SUBMISSION: Final = ("jobcreation", "jobexecution", "jobsubmission")
"""Words in the capabilities of an endpoint (Capability_t) that takes jobs."""

_WITHIN: Final = frozenset({"glue2mappingpolicy", "glue2accesspolicy", "glue2benchmark"})
"""Classes whose ids are unique only within their parents."""


def link_glue2(
    kinds: Mapping[str, list[CleanEntry]],
    policies: AccessPolicies,
    report: Report,
    rules: frozenset[str] = frozenset(),
    described: Collection[str] = frozenset(),
) -> GlueRecords:
    """Link records of the classes of `GLUE2_IDS`, and report keys that fail.

    Of the `rules` that are on, ``clean.benchmark`` is applied here. The queues whose ids, in lower
    case, are `described` have no values but their rules of access: another description of them
    stays.
    """
    if not any(kinds[kind] for kind in GLUE2_IDS):
        return GlueRecords((), (), (), ())

    def distinct(kind: str) -> list[CleanEntry]:
        return unique(kinds[kind], report, home)

    known = {kind: kinds[kind] if kind in _WITHIN else distinct(kind) for kind in GLUE2_IDS}
    most = LIMITS.links + LIMITS.links_each * sum(map(len, known.values()))
    links = Quota(most, "links", report)
    return _Linker(known, policies, report, rules, links, described).all()


@cache
def _short_names() -> Mapping[str, str]:
    known = dict.fromkeys(attributes().values())
    return {its.name: its.name.removeprefix(its.owner) or its.name for its in known}


@attrs.define(slots=True)
class _Linker:
    """The records of one snapshot by class, and the links between them."""

    kinds: Mapping[str, list[CleanEntry]]
    policies: AccessPolicies
    report: Report
    rules: frozenset[str]
    links: Quota
    described: Collection[str]
    _nested: dict[int, Expr] = attrs.Factory(dict)
    _sizes: dict[int, int] = attrs.Factory(dict)

    def nested(self, record: CleanEntry | None) -> Expr:
        """Return the values of an entry under their short names, such as ``MaxCPUTime``.

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
        sites = {r.id.lower(): GlueSite(r.id, v) for r, v in self._domains()}
        elements = {e.id.lower(): e for e in storage_elements(self.kinds, self.links)}
        clusters: dict[tuple[str, ...], GlueCluster] = {}
        queues: list[ComputingElement] = []
        hosts = self._subclusters()
        managers = self._by_service("Manager")
        endpoints = self._by_service("Endpoint")
        shares = self._by_service("Share")
        close = CloseStorage.of(self.kinds, elements, self.report)
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
            made = self._within_quota(weighed, LIMITS.taken + LIMITS.taken_each * parts, service)
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
                    its = self.links.take(hosts[_service_and_id(manager)], share)
                    subs = self._hosts_of(share, its)
                    place = (*_service_and_id(manager), *(sub.id for sub in subs))
                    if place not in clusters:
                        values, site = translate.cluster(manager), sites.get(site_id.lower())
                        made_of = manager.id, values, site_id, site
                        clusters[place] = GlueCluster(*made_of, tuple(subs))
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
            tuple(sites.values()), tuple(clusters.values()), tuple(queues), tuple(elements.values())
        )

    def _domains(self) -> Iterator[tuple[CleanEntry, CleanValues]]:
        names = ("GLUE2LocationDomainForeignKey",)
        places = grouped(self.kinds["glue2location"], names, "GLUE2DomainID")
        names = ("GLUE2ContactDomainForeignKey",)
        contacts = grouped(self.kinds["glue2contact"], names, "GLUE2DomainID")
        for domain in self.kinds["glue2admindomain"]:
            key = domain.id.lower()
            yield domain, translate.site(domain, places.get(key, []), contacts.get(key, []))

    def _site_of(self, service: CleanEntry, sites: Mapping[str, GlueSite]) -> str:
        found = keys_of(service, ("GLUE2ServiceAdminDomainForeignKey",), "GLUE2DomainID")
        if not found:
            return ""
        if found[0] not in sites:
            self.report(dangling(service, f"GLUE2DomainID={found[0]}", sites))
            known = service.texts("GLUE2ServiceAdminDomainForeignKey")
            return known[0] if known else found[0]
        return sites[found[0]].id

    def _by_service(self, kind: str) -> dict[str, list[CleanEntry]]:
        names = (f"GLUE2{kind}ServiceForeignKey", f"GLUE2Computing{kind}ComputingServiceForeignKey")
        records = self.kinds[f"glue2computing{kind.lower()}"]
        for record in records:
            if not keys_of(record, names, "GLUE2ServiceID"):
                said = "it names no service and stands under none"
                self.report(finding(record, "link.dangling", said))
        return grouped(records, names, "GLUE2ServiceID")

    def _subclusters(self) -> dict[tuple[str, str], list[tuple[str, SubCluster]]]:
        """Return the sets of hosts of each manager, with the id by which shares call them."""

        def children(kind: str, ancestor: str, *keys: str) -> ChildEntries:
            names = tuple(f"GLUE2{key}ForeignKey" for key in keys)
            return ChildEntries.by_keys(self.kinds[f"glue2{kind}"], names, ancestor)

        resource, by = "GLUE2ResourceID", "GLUE2ManagerID"
        tag = "ApplicationEnvironment"
        marks_of = children("benchmark", resource, "BenchmarkExecutionEnvironment")
        general = children("benchmark", by, "BenchmarkComputingManager")
        applications = children(tag.lower(), by, f"{tag}ComputingManager")
        keys = ("ResourceManager", "ExecutionEnvironmentComputingManager")
        environments = children("executionenvironment", by, *keys)
        found: dict[tuple[str, str], list[tuple[str, SubCluster]]] = {}
        for manager in self.kinds["glue2computingmanager"]:
            records, its = environments.of(manager), applications.of(manager)
            tagged = _by_environment(its)
            most = max(LIMITS.tags, LIMITS.repeated * (len(records) + len(its)))
            room = Quota(most, "applications on the hosts of a manager", self.report)
            subs = found[_service_and_id(manager)] = []
            for record in records:
                chosen = by_id([*tagged.get("", []), *tagged.get(record.id.lower(), [])])
                chosen = room.take(chosen, record)
                speeds = self.links.take(marks_of.of(record) or general.of(manager), record)
                values = translate.subcluster(
                    record, manager, speeds, chosen, report=self.report, rules=self.rules
                )
                values["GLUE2"] = ClassAd(
                    ExecutionEnvironment=self.nested(record),
                    Benchmark=[*map(self.nested, speeds)],
                    ApplicationEnvironment=[*map(self.nested, chosen)],
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

    def _hosts_of(
        self, share: CleanEntry, hosts: Sequence[tuple[str, SubCluster]]
    ) -> list[SubCluster]:
        kind = "GLUE2ComputingShareExecutionEnvironmentForeignKey"
        wanted = keys_of(share, ("GLUE2ShareResourceForeignKey", kind), "")
        if not wanted:
            return [sub for _, sub in hosts]
        known = dict(hosts)
        for key in wanted:
            if key not in known:
                self.report(dangling(share, f"GLUE2ResourceID={key}"))
        chosen = [(key, known[key]) for key in wanted if key in known]
        return [sub for _, sub in sorted(chosen, key=lambda row: row[0]) or hosts]

    def _within_quota(
        self, made: Iterable[tuple[int, EndpointShare]], most: int, service: CleanEntry
    ) -> Iterator[EndpointShare]:
        """Yield pairs until they are made of more than `most` values; then an issue says so."""
        for size, pair in made:
            most -= size
            if most < 0:
                said = "its shares at its endpoints repeat too much; the others are left out"
                self.report(finding(service, "link.too-many", said))
                return
            yield pair

    def _size(self, record: CleanEntry) -> int:
        if id(record) not in self._sizes:
            counts = (len(v) if isinstance(v, list) else 1 for v in record.values.values())
            self._sizes[id(record)] = sum(counts)
        return self._sizes[id(record)]

    def _pairs(
        self,
        service: CleanEntry,
        manager: CleanEntry | None,
        endpoints: Mapping[str, CleanEntry],
        share: CleanEntry,
    ) -> Iterator[tuple[int, EndpointShare]]:
        """Yield each endpoint of a share with it, and the number of values in the pair."""
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
        chosen: list[CleanEntry | None] = [*filter(takes_jobs, by_id(known))]
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
                values = CleanValues(GLUE2=ClassAd())
            else:
                values = translate.queue(endpoint, share, manager)
                computing = ClassAd(
                    Endpoint=self.nested(endpoint),
                    Service=self.nested(service),
                    Manager=self.nested(manager),
                    Share=self.nested(share),
                )
                values["GLUE2"] = ClassAd(Computing=computing)
            values.update(access)
            yield size, EndpointShare(ce_id, share, values, endpoint.id if endpoint else "")


@attrs.frozen(slots=True, eq=False)
class EndpointShare:
    """An endpoint with a share, as GLUE 1.3 would call it: a queue, or a view of one."""

    ce_id: str
    share: CleanEntry
    values: CleanValues
    endpoint: str


def takes_jobs(endpoint: CleanEntry) -> bool:
    """Whether an endpoint takes jobs; others manage them, or are for information or delegation."""
    said = [text.lower() for text in endpoint.texts("GLUE2EndpointCapability")]
    return not said or any(word in text for text in said for word in _SUBMISSION)


def by_queue(pairs: Iterable[EndpointShare]) -> list[Sequence[EndpointShare]]:
    """Group pairs by their queue; of a share at several endpoints of one address there is one.

    Endpoints of one address are doors to one queue: whom one of them admits may use it. Those that
    differ in whom they admit are so many views.
    """
    groups: dict[str, dict[tuple[int, str], EndpointShare]] = {}
    for pair in pairs:
        alone = pair.endpoint if pair.ce_id == pair.share.id else ""
        place = id(pair.share), f"{required(pair.values)}{alone}"
        groups.setdefault(pair.ce_id.lower(), {}).setdefault(place, pair)
    return [[*group.values()] for group in groups.values()]


def queue_of(group: Sequence[EndpointShare]) -> tuple[ComputingElement, CleanEntry]:
    """Make the queue of pairs of one id, with a view for each share that is not the queue itself.

    Shares of one queue that do not say what they are to it become its views. The names of views by
    one share at several endpoints end in the endpoint's.
    """
    shares = Counter(pair.share.id.lower() for pair in group)
    own = [pair for pair in group if not translate.marks(pair.share, translate.VO_VIEW)]
    views = [pair for pair in group if translate.marks(pair.share, translate.VO_VIEW)]
    if len(own) > 1:
        views, own = [*views, *own], []
    shared = own[0].values if own else _common_values([pair.values for pair in views])
    names = Counter(_share_name(pair.share).lower() for pair in views)
    made = []
    for pair in views:
        name = _share_name(pair.share)
        if names[name.lower()] > 1:
            alone = shares[pair.share.id.lower()] == 1
            name = pair.share.id if alone else f"{pair.share.id}/{pair.endpoint}"
        made.append(VOView(name, pair.values))
    return ComputingElement(group[0].ce_id, shared, views=tuple(made)), (own or views)[0].share


def _share_name(share: CleanEntry) -> str:
    marked = translate.marks(share, translate.VO_VIEW)
    return marked[0] if marked else share.text("GLUE2EntityName").strip() or share.id


def _common_values(all_values: Sequence[CleanValues]) -> CleanValues:
    """Return the values on which several views agree; each has its own rules of access."""
    first, *others = all_values
    made = CleanValues()
    names = (name for name in first if name not in (RULES, ALSO))
    agreed = (n for n in names if all(n in one and one[n] == first[n] for one in others))
    made.take({name: first[name] for name in agreed}, first.cleaned)
    return made


def _service_and_id(record: CleanEntry) -> tuple[str, str]:
    return home(record), record.id.lower()


def _by_environment(applications: Iterable[CleanEntry]) -> dict[str, list[CleanEntry]]:
    """Group applications by the environments that they are for; under no name those for all."""
    made: dict[str, list[CleanEntry]] = {}
    for record in applications:
        names = ("GLUE2ApplicationEnvironmentExecutionEnvironmentForeignKey",)
        for key in keys_of(record, names, "") or [""]:
            made.setdefault(key, []).append(record)
    return made


Kinds: TypeAlias = Mapping[str, list[CleanEntry]]


def storage_elements(kinds: Kinds, links: Quota) -> Iterator[StorageElement]:
    """Yield the storage elements of a source, each with an area for each VO of a share."""

    def of(ident: str, kind: str, *keys: str) -> dict[str, list[CleanEntry]]:
        names = tuple(f"GLUE2{key}ForeignKey" for key in keys)
        return grouped(kinds[f"glue2{kind}"], names, ident)

    service_id, share_id = "GLUE2ServiceID", "GLUE2ShareID"
    shares = of(service_id, "storageshare", "ShareService", "StorageShareStorageService")
    mapping = of(share_id, "mappingpolicy", "MappingPolicyShare")
    sizes = of(share_id, "storagesharecapacity", "StorageShareCapacityStorageShare")
    totals = of(service_id, "storageservicecapacity", "StorageServiceCapacityStorageService")
    for service in kinds["glue2storageservice"]:
        areas: list[StorageArea] = []
        for share in links.take(shares.get(service.id.lower(), []), service):
            key = share.id.lower()
            found = translate.areas(
                share,
                links.take(mapping.get(key, []), share),
                links.take(sizes.get(key, []), share),
            )
            areas += links.take((StorageArea(name, its) for name, its in found), share)
        values = translate.storage(service, totals.get(service.id.lower(), []))
        areas.sort(key=lambda area: (area.id.lower(), area.id))
        yield StorageElement(service.id, values, tuple(areas))


@attrs.frozen(slots=True)
class CloseStorage:
    """The storage that is close to queues, by their services and by the queues themselves."""

    of_services: Mapping[str, list[CleanEntry]]
    of_queues: Mapping[tuple[str, str], list[CleanEntry]]
    elements: Mapping[str, StorageElement]
    report: Report

    @classmethod
    def of(
        cls, kinds: Kinds, elements: Mapping[str, StorageElement], report: Report
    ) -> CloseStorage:
        """Group the links to storage among records by class."""
        names = ("GLUE2ToStorageServiceComputingServiceForeignKey",)
        general: dict[str, list[CleanEntry]] = {}
        of_queues: dict[tuple[str, str], list[CleanEntry]] = {}
        by_service = grouped(kinds["glue2tostorageservice"], names, "GLUE2ServiceID")
        for service, records in by_service.items():
            for record in records:
                only = marks(record, CE_ID)
                if not only:
                    general.setdefault(service, []).append(record)
                for ce in only:
                    of_queues.setdefault((service, ce.lower()), []).append(record)
        return cls(general, of_queues, elements, report)

    def to(self, service_id: str, ce_id: str) -> Iterator[CleanEntry]:
        """Yield the links between storage and a queue of a service."""
        yield from self.of_services.get(service_id.lower(), [])
        yield from self.of_queues.get((service_id.lower(), ce_id.lower()), [])

    def bind(self, record: CleanEntry) -> Bind:
        """Make a bind of a link; report a storage element that is missing."""
        names = keys_of(record, ("GLUE2ToStorageServiceStorageServiceForeignKey",), "")
        se_id = record.text("GLUE2ToStorageServiceStorageServiceForeignKey")
        se = self.elements.get(names[0]) if names else None
        if se is None:
            self.report(dangling(record, f"GLUE2ServiceID={se_id}"))
        mount = record.text("GLUE2ToStorageServiceLocalPath")
        return Bind(se_id, mount, translate.bind(record), se)


@attrs.frozen(slots=True)
class AccessPolicies:
    """The rules of shares and endpoints, by kind, service and id in lower case."""

    _rules: Mapping[tuple[str, str, str], Sequence[str]]

    @classmethod
    def of(cls, kinds: Mapping[str, Sequence[CleanEntry]], report: Report) -> AccessPolicies:
        """Link the policies among records by class.

        The id of a policy is unique only within its owner: ARC repeats one under every
        endpoint. HTCondor-CE puts the access policy of its endpoint below a share.
        """
        targets = {
            "Share": _ids(kinds["glue2computingshare"], kinds["glue2storageshare"]),
            "Endpoint": _ids(kinds["glue2computingendpoint"]),
        }
        found: dict[tuple[str, str, str], list[str]] = {}
        for kind, usual in (("Mapping", "Share"), ("Access", "Endpoint")):
            for policy in kinds[f"glue2{kind.lower()}policy"]:
                for place in _owners(policy, usual, targets, report):
                    if POLICY_RULE in policy.values:
                        rules = readable(policy.texts(POLICY_RULE))
                        found.setdefault(place, []).extend(rules)
        return cls({place: list(dict.fromkeys(rules)) for place, rules in found.items()})

    def access(self, share: CleanEntry, endpoint: CleanEntry | None) -> Values:
        """Return the access that a share and an endpoint publish; both must admit.

        The rules of the share are its own. An endpoint that has them all, and no denial, adds none.
        """
        places = [("Share", share)] + ([] if endpoint is None else [("Endpoint", endpoint)])
        found = (self._rules.get((of, home(one), one.id.lower())) for of, one in places)
        lists = [list(rules) for rules in found if rules is not None]
        made: dict[str, Value] = {RULES: list[Value](lists[0])} if lists else {}
        for rules in lists[1:]:
            more = {folded(r) for r in lists[0] if not denies(r)} - {*map(folded, rules)}
            if more or any(map(denies, rules)):
                made[ALSO] = [list[Value](rules)]
        return made


def _ids(*kinds: Sequence[CleanEntry]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for record in (record for records in kinds for record in records):
        found.setdefault(record.id.lower(), set()).add(home(record))
    return found


def _owners(
    policy: CleanEntry, usual: str, targets: Mapping[str, Mapping[str, set[str]]], report: Report
) -> Iterator[tuple[str, str, str]]:
    """Yield the owners of a policy: ``Share`` or ``Endpoint``, its service, and its id."""
    kind = "Mapping" if usual == "Share" else "Access"
    name = f"GLUE2{kind}Policy{usual}ForeignKey"
    named = [(usual, key) for key in keys_of(policy, (name,), "")]
    placed = rdns(policy.entry.dn)
    places = [(of, placed.get(f"glue2{of.lower()}id", "").lower()) for of in (usual, *targets)]
    known = [(of, ident) for of, ident in named if ident in targets[of]]
    if not known:
        known = [(of, ident) for of, ident in places if ident and ident in targets[of]][:1]
        for of, ident in named if placed.get("glue2serviceid") and targets[usual] else ():
            report(dangling(policy, f"GLUE2{of}ID={ident}"))
    for of, ident in known:
        services = targets[of][ident]
        # The ids of shares and endpoints may repeat in other services.
        if home(policy) in services or len(services) == 1:
            yield of, home(policy) if home(policy) in services else next(iter(services)), ident
        else:
            report(dangling(policy, f"GLUE2{of}ID={ident}"))


def without_rules(record: CleanEntry) -> Issue:
    """Return the finding that nobody knows whom a queue admits."""
    return finding(record, "access.none", "no rule of access: whom it admits is unknown", record.id)


def agreeing(first: CleanEntry, second: CleanEntry, report: Report) -> CleanEntry:
    """Return the first of two entries of one name; the rules of both must admit."""
    ours, theirs = published(first.values), published(second.values)
    made = restricted(ours, [required(theirs)])
    if made is ours:
        return first
    if required(ours):
        report(finding(second, *CONFLICT, first.id))
    return attrs.evolve(first, values=made)


def damaged(record: CleanEntry, name: str, report: Report) -> CleanEntry:
    """Return an entry of which a part was lost, as one that has a rule that cannot be read."""
    said = "a part of it cannot be read; it admits nobody"
    report(finding(record, "access.damaged", said, record.id))
    rules = [*record.texts(name), UNREADABLE]
    return attrs.evolve(record, values=with_rules(record.values, rules, name))
