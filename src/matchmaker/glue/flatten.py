"""From linked records to the CE ads of a matchmaker, one for each queue and VO view, and back.

Follows the flattening of the gLite broker, which made the ad of the founding talk: the facts of a
queue, its cluster, one of its SubClusters and its close storage in one ad, with the access checks
of the time as ``requirements``. One difference: a CE without a cluster or a SubCluster is kept,
with its host attributes undefined. An information system announces downtimes by host or endpoint;
`with_downtimes` writes the first that is not over into a queue's ad, and the broker's conditions
refuse the queue while it lasts. `unflatten` gives the attributes of ads back to the records that
they are of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import UNDEFINED, ClassAd, Expr, Value, parse_expr
from matchmaker.classad.ad import first_text, literal
from matchmaker.classad.errors import shorten
from matchmaker.classad.nodes import ListExpr
from matchmaker.glue.access import (
    ALSO,
    IGNORED,
    RULES,
    UNKNOWN,
    all_of,
    authorised,
    denies,
    not_denied,
    required,
    views,
    vo_of,
)
from matchmaker.glue.issues import Issue
from matchmaker.glue.records import (
    CE_KEY,
    NOT_KNOWN,
    OUTAGE,
    Bind,
    ComputingElement,
    Downtime,
    GlueCluster,
    GlueRecords,
    GlueSite,
    StorageArea,
    StorageElement,
    SubCluster,
    VOView,
    local_queue,
    split_id,
    texts,
)
from matchmaker.glue.schema import attribute

# The broker's checks, as the CE ad of the talk has them, and with what VOMS brought after it.
CHECKS: Final[Mapping[str, str]] = {
    "AuthorizationCheck": f"{authorised('other')} || other.{IGNORED} is true",
    "DenialCheck": f"{not_denied('other')} || other.{IGNORED} is true",
    "CloseOutputSECheck": "isUndefined(other.OutputSE)"
    " || member(other.OutputSE, GlueCESEBindGroupSEUniqueID)",
}
PURCHASED_BY: Final = "matchmaker"

_KEYS = ("GlueForeignKey", "GlueChunkKey")  # lists that all levels add to

SubClusterChoice: TypeAlias = Callable[[Sequence[SubCluster]], SubCluster | None]
"""Which SubCluster speaks for the hosts of a cluster."""


def first(subclusters: Sequence[SubCluster]) -> SubCluster | None:
    """Return the SubCluster with the first id, None of none.

    The gLite broker took the first that a server gave it.

    >>> first([SubCluster("a", {}), SubCluster("b", {})]).id
    'a'
    """
    return subclusters[0] if subclusters else None


def lowest_memory(subclusters: Sequence[SubCluster]) -> SubCluster | None:
    """Return the SubCluster with the least RAM (MB), as DIRAC chooses; unknown counts as most.

    >>> large = SubCluster("a", {"GlueHostMainMemoryRAMSize": 64000})
    >>> lowest_memory([large, SubCluster("b", {"GlueHostMainMemoryRAMSize": 2000})]).id
    'b'
    """

    def memory(sub: SubCluster) -> float:
        found = sub.values.get("GlueHostMainMemoryRAMSize")
        return found if isinstance(found, int | float) else float("inf")

    return min(subclusters, key=memory, default=None)


def ads(snapshot: GlueRecords, choose: SubClusterChoice = first) -> Iterator[ClassAd]:
    """Yield the CE ads of a snapshot, in the order of its queues, the first of each name.

    Queues of one id admit whom all of them admit (`access`), so the first stands for all. Those in
    one of the snapshot's downtimes say so.
    """
    if not snapshot.downtimes:
        return _each_ad(snapshot, choose)
    return iter(with_downtimes(_each_ad(snapshot, choose), snapshot.downtimes))


def _each_ad(snapshot: GlueRecords, choose: SubClusterChoice) -> Iterator[ClassAd]:
    shared = _Shared()
    known: set[str] = set()
    for ce in snapshot.computing_elements:
        for name, ad in _of_queue(ce, choose, shared):
            if (key := name.lower()) not in known:
                known.add(key)
                yield ad


def _of_queue(
    ce: ComputingElement, choose: SubClusterChoice, shared: _Shared
) -> Iterator[tuple[str, ClassAd]]:
    """Yield the ads of one queue: one for each VOView with rules, and itself if rules remain.

    A view's ad is a copy of the queue's, updated with the view, named ``<CE id>/<view id>`` in
    ``CEid``; ``GlueCEUniqueID`` stays the queue's own. `access.views` decides whom each admits.
    """
    common = _common(ce, choose, shared)
    for view, access in views(ce):
        ad, name = common.copy(), ce.id
        if view is not None:
            _add_view(ad, view, ce, shared)
            name = f"{ce.id}/{view.id}"
        for each in (RULES, ALSO):
            ad.pop(each, None)
        ad.update(access)
        if not required(access):
            ad[UNKNOWN] = True
        admitting = [rule for rule in all_of([access]) if not denies(rule)]
        yield name, _finished(ad, ce, name, admitting, shared)


@attrs.define(slots=True)
class _Shared:
    """Parts that the ads of one snapshot have in common, made once."""

    levels: dict[int, dict[str, Expr]] = attrs.Factory(dict)
    keys: dict[int, dict[str, list[str]]] = attrs.Factory(dict)
    areas: dict[int, dict[str, StorageArea]] = attrs.Factory(dict)
    elements: dict[tuple[object, ...], Expr] = attrs.Factory(dict)
    storage: dict[tuple[object, ...], Expr] = attrs.Factory(dict)

    def level(self, values: Mapping[str, Value]) -> dict[str, Expr]:
        """Return the values of a cluster or its hosts as expressions of an ad."""
        found = self.levels.get(id(values))
        if found is None:
            items = ((n, v) for n, v in values.items() if n.lower() != "objectclass")
            found = self.levels[id(values)] = {name: literal(value) for name, value in items}
        return found

    def keys_of(self, values: Mapping[str, Value], name: str) -> list[str]:
        """Return the keys of a cluster or its hosts, without those to the queues of a cluster."""
        made = self.keys.setdefault(id(values), {})
        if name not in made:
            own = texts(values.get(name))
            made[name] = [text for text in own if not text.lower().startswith(CE_KEY)]
        return made[name]

    def element(self, bind: Bind, area: StorageArea | None) -> Expr:
        """Return a close storage element with one of its areas as an item of a list."""
        place = bind.se_id, bind.mount, id(bind.se), id(area)
        if place not in self.elements:
            self.elements[place] = _element(bind, area, self).expression()
        return self.elements[place]

    def area(self, se: StorageElement, vo: str) -> StorageArea | None:
        """Return the area of a storage element for a VO, whatever the case of either."""
        if id(se) not in self.areas:
            self.areas[id(se)] = {area.id.lower(): area for area in reversed(se.areas)}
        return self.areas[id(se)].get(vo.lower())


def provenance(
    ce: ComputingElement, view: VOView | None, choose: SubClusterChoice
) -> dict[str, Issue]:
    """Return the changes and doubts of cleaning in the ad of a queue or view, by attribute."""
    levels: list[Mapping[str, Value]] = [view.values] if view is not None else []
    levels.append(ce.values)
    if ce.cluster is not None:
        chosen = choose(ce.cluster.subclusters)
        levels += [ce.cluster.values, *([chosen.values] if chosen is not None else [])]
    found: dict[str, Issue] = {}
    settled: set[str] = set()
    for level in levels:
        cleaned: Mapping[str, Issue] = getattr(level, "cleaned", {})
        found |= {name: issue for name, issue in cleaned.items() if name not in settled}
        settled.update(level)
    return found


def _common(ce: ComputingElement, choose: SubClusterChoice, shared: _Shared) -> ClassAd:
    """Make the ad that all ads of a queue share. The queue's values go before its cluster's."""
    cluster = ce.cluster
    levels: list[Mapping[str, Value]] = []
    if cluster is not None:
        chosen = choose(cluster.subclusters)
        levels = [cluster.values, *([chosen.values] if chosen is not None else [])]
    found: dict[str, Value | Expr] = {
        name: value for name, value in ce.values.items() if name.lower() != "objectclass"
    }
    for level in levels:
        for name, expression in shared.level(level).items():
            found.setdefault(name, expression)
    for name in _KEYS:
        own = texts(ce.values.get(name))
        merged = [*own, *(key for level in levels for key in shared.keys_of(level, name))]
        if merged:
            found[name] = list(dict.fromkeys(merged))
        else:
            found.pop(name, None)
    _nest(found, [ce.values, *levels])
    found["GlueCEUniqueID"] = ce.id
    if cluster is not None and cluster.site_id:
        found["GlueSiteUniqueID"] = cluster.site_id
    parts = split_id(ce.id)
    if parts is not None:
        contact, lrms, queue = parts
        found["GlobusResourceContactString"] = contact
        if lrms != NOT_KNOWN:
            found["LRMSType"] = lrms
        found["QueueName"] = queue
    elif isinstance(named := ce.values.get("GlueCEName"), str):
        found["QueueName"] = named  # an id of GLUE 2.0 may be any URI
    if (named := local_queue(ce.values)) is not None:
        found["QueueName"] = named
    preferred = ce.values.get("GlueCEInfoLRMSType")
    if isinstance(preferred, str):
        found["LRMSType"] = preferred
    ad = ClassAd(found | _close_storage(ce))
    ad["PurchasedBy"] = PURCHASED_BY
    for name, text in CHECKS.items():
        ad[name] = parse_expr(text)
    ad["requirements"] = parse_expr(" && ".join(CHECKS))
    return ad


def _nest(found: MutableMapping[str, Any], levels: Sequence[Mapping[str, Value]]) -> None:
    """Join the values of GLUE 2.0, in its own names, of the queue and of its hosts in one ad."""
    parts = [part for level in levels if isinstance(part := level.get("GLUE2"), ClassAd)]
    if parts:
        found["GLUE2"] = ClassAd({name: part[name] for part in parts for name in part})


def _close_storage(ce: ComputingElement) -> dict[str, Value]:
    found: dict[str, Value] = {}
    ids = list(dict.fromkeys((*ce.bound, *(bind.se_id for bind in ce.binds))))
    if ids:
        found["GlueCESEBindGroupCEUniqueID"] = ce.id
        found["GlueCESEBindGroupSEUniqueID"] = ids
    if ce.binds:
        found["CloseStorageElements"] = [
            ClassAd({"mount": bind.mount or UNDEFINED, "name": bind.se_id}) for bind in ce.binds
        ]
    return found


def _add_view(ad: ClassAd, view: VOView, ce: ComputingElement, shared: _Shared) -> None:
    """Update a queue's ad with one of its views."""
    cluster = ce.cluster.values if ce.cluster is not None else {}
    for name, value in view.values.items():
        if name.lower() != "objectclass" and name not in (*_KEYS, "GLUE2", "GlueCEUniqueID"):
            ad[name] = value
    for name in _KEYS:
        if own := texts(view.values.get(name)):
            known = texts(ad.eval(name)) if name in ad else shared.keys_of(cluster, name)
            ad[name] = list(dict.fromkeys((*known, *own)))
    nested = {"GLUE2": ad.eval("GLUE2")} if "GLUE2" in ad else {}
    _nest(ad, [nested, view.values])


def _finished(
    ad: ClassAd, ce: ComputingElement, ce_id: str, rules: Sequence[str], shared: _Shared
) -> ClassAd:
    ad["CEid"] = ce_id
    if ce.binds:
        ad["storage"] = _storage(
            ce.binds, list(dict.fromkeys(filter(None, map(vo_of, rules)))), shared
        )
    return ad


def _storage(binds: Sequence[Bind], vos: Sequence[str], shared: _Shared) -> Expr:
    """List close storage for gang matching: each SE with the area of each VO that the ad admits.

    The broker made the list anew for the VO of each job; here it holds all, and ``VO`` is set if
    there is but one. Sizes in ``freespace`` are kB, as GlueSAStateAvailableSpace is published.
    """
    wanted = sorted({vo.lower() for vo in vos})
    key = (tuple((bind.se_id, bind.mount, id(bind.se)) for bind in binds), tuple(vos))
    if key not in shared.storage:
        elements: list[Expr] = []
        for bind in binds:
            areas: list[StorageArea | None] = [None]
            if bind.se is not None:
                known = (shared.area(bind.se, vo) for vo in wanted)
                areas = [area for area in known if area is not None] or [None]
            elements += [shared.element(bind, area) for area in areas]
        storage = ClassAd({"CloseSEs": ListExpr(tuple(elements))})
        if len(wanted) == 1:
            storage["VO"] = vos[0]
        shared.storage[key] = storage.expression()
    return shared.storage[key]


def _element(bind: Bind, area: StorageArea | None, shared: _Shared) -> ClassAd:
    element = ClassAd()
    for level in (bind.se, area):
        # In order of name: a server's order varies, and nested ads are equal in order.
        for name, value in sorted(shared.level(level.values).items()) if level else ():
            element[name] = value
    free = area.values.get("GlueSAStateAvailableSpace") if area is not None else None
    element["name"] = bind.se_id
    element["mount"] = bind.mount or UNDEFINED
    element["freespace"] = UNDEFINED if free is None else free
    return element


def unwrap(ad: ClassAd) -> ClassAd:
    """Return the CE ad in an information system's ``[id; update_time; expiry_time; info = […]]``.

    The times and the id join the inner ad unless it has them. Without requirements it requires the
    checks that it has, such as AuthorizationCheck. An ad without ``info`` is returned as it is.

    >>> from matchmaker.classad import parse_ad
    >>> ce = unwrap(parse_ad('[ id = "q"; update_time = 1128351882; expiry_time = 300;'
    ...     ' info = [ GlueCEName = "long"; AuthorizationCheck = other.VO == "EGEE" ] ]'))
    >>> print(ce["requirements"], ce.eval("GlueCEName"), expires(ce))
    AuthorizationCheck long 2005-10-03 15:09:42+00:00
    """
    inner = ad.eval("info")
    if not isinstance(inner, ClassAd):
        return ad
    ce = ClassAd(inner)
    for name in ("id", "update_time", "expiry_time"):
        if name in ad and name not in ce:
            ce[name] = ad[name]
    checks = [name for name in CHECKS if name in ce]
    if checks and "requirements" not in ce:
        ce["requirements"] = parse_expr(" && ".join(checks))
    return ce


def expires(ad: ClassAd) -> datetime | None:
    """Return the time when an ad from an information system goes stale, in UTC.

    It is its update_time plus expiry_time (s); None if one of the two is not a number, and for an
    impossible time.

    >>> from matchmaker.classad import parse_ad
    >>> print(expires(parse_ad("[ update_time = 1128351882; expiry_time = 300 ]")))
    2005-10-03 15:09:42+00:00
    >>> expires(parse_ad("[ update_time = 1128351882 ]")) is None
    True
    """
    updated, lasts = ad.eval("update_time"), ad.eval("expiry_time")
    if not isinstance(updated, int | float) or not isinstance(lasts, int | float):
        return None
    try:
        return datetime.fromtimestamp(updated + lasts, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None


START: Final = "DowntimeStart"
END: Final = "DowntimeEnd"
REASON: Final = "DowntimeReason"


def pending(downtimes: Iterable[Downtime], at: datetime) -> tuple[Downtime, ...]:
    """Return the downtimes that are not over at a time."""
    return tuple(downtime for downtime in downtimes if downtime.end > at)


def with_downtimes(ads: Iterable[ClassAd], downtimes: Iterable[Downtime]) -> list[ClassAd]:
    """Write downtimes into the ads of their queues; the other ads stay as they are.

    Of several downtimes of a queue the first counts, with those that overlap it.

    >>> from datetime import UTC
    >>> down = Downtime("CE.t2.edu", "ARC-CE", datetime(2026, 12, 1, tzinfo=UTC),
    ...                 datetime(2026, 12, 2, tzinfo=UTC), reason="new cooling")
    >>> [ad] = with_downtimes([ClassAd(CEid="ce.t2.edu:443/nordugrid-slurm-q")], [down])
    >>> print(ad["DowntimeReason"], ad["DowntimeEnd"])
    new cooling 2026-12-02 00:00:00+00:00
    """
    by_place: dict[str, list[Downtime]] = {}
    for downtime in downtimes:
        if downtime.severity.upper() == OUTAGE:
            by_place.setdefault(downtime.ce.lower(), []).append(downtime)
    for place, its in by_place.items():
        # Hosts have a few; what strangers write must not be looked at again for each queue.
        by_place[place] = sorted(its, key=_times)[: LIMITS.downtimes]
    return [_in_downtime(ad, by_place) for ad in ads] if by_place else list(ads)


def unmatched_downtimes(ads: Iterable[ClassAd], downtimes: Iterable[Downtime]) -> list[str]:
    """Return the places of downtimes that would close a queue and that no queue has, each once.

    >>> from datetime import UTC
    >>> times = datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 2, tzinfo=UTC)
    >>> down = [Downtime(place, "CE", *times) for place in ("A.edu", "B")]
    >>> unmatched_downtimes([ClassAd(CEid="a.edu:443/q")], down)
    ['B']
    """
    known = {place for ad in ads for place in _downtime_places(ad)}
    outages = (downtime.ce for downtime in downtimes if downtime.severity.upper() == OUTAGE)
    return [place for place in dict.fromkeys(outages) if place.lower() not in known]


def _in_downtime(ad: ClassAd, by_place: Mapping[str, list[Downtime]]) -> ClassAd:
    found = [downtime for place in _downtime_places(ad) for downtime in by_place.get(place, ())]
    if not found:
        return ad
    first, *later = sorted(found, key=_times)
    end, reasons = first.end, [first.reason]
    for downtime in later:
        if downtime.start <= end:
            end = max(end, downtime.end)
            reasons.append(downtime.reason)
    closed = ad.copy()
    closed[START], closed[END] = first.start, end
    reason = "; ".join(dict.fromkeys(filter(None, reasons)))
    closed[REASON] = shorten(reason, LIMITS.raw) or "no reason was given"
    return closed


def _times(downtime: Downtime) -> tuple[datetime, datetime]:
    return downtime.start, downtime.end


def _downtime_places(ad: ClassAd) -> set[str]:
    """Return the names that a downtime may give a queue: ids, endpoint, host, OSG resource."""
    ids = (
        first_text(ad, (name,))
        for name in ("CEid", "GlueCEUniqueID", "GlueCEInfoContactString", "OSG_Resource")
    )
    known = {ident.lower() for ident in ids if ident is not None}
    endpoints = {ident.partition("://")[2] or ident for ident in known}
    endpoints = {endpoint.partition("/")[0] for endpoint in endpoints}
    host = first_text(ad, ("GlueCEInfoHostName",))
    hosts = {endpoint.partition(":")[0] for endpoint in endpoints}
    return known | endpoints | hosts | ({host.lower()} if host is not None else set())


def unflatten(queues: Iterable[ClassAd]) -> GlueRecords:
    """Make the records that ads of computing elements describe."""
    made = _Gathered()
    for wrapped in queues:
        made.add(unwrap(wrapped))
    return made.snapshot()


@attrs.define(slots=True)
class _Gathered:
    """The records of the ads seen so far, by id."""

    sites: dict[str, GlueSite] = attrs.Factory(dict)
    clusters: dict[tuple[str, str], GlueCluster] = attrs.Factory(dict)
    storage: dict[str, tuple[dict[str, Value], dict[str, StorageArea]]] = attrs.Factory(dict)
    queues: dict[str, list[tuple[str, ClassAd]]] = attrs.Factory(dict)

    def add(self, ad: ClassAd) -> None:
        name = first_text(ad, ("CEid", "GlueCEUniqueID"))
        if not name and "QueueName" not in ad:
            name = first_text(ad, ("Name",))
        if not name:
            raise ValueError(
                "an ad of a queue has no CEid, by which it would be published; `place` gives the"
                " queues of a batch system theirs"
            )
        base = first_text(ad, ("GlueCEUniqueID",)) or name
        view = name.removeprefix(base).removeprefix("/") if name.startswith(base) else ""
        self.queues.setdefault(base, []).append((view, ad))

    def snapshot(self) -> GlueRecords:
        queues = tuple(self._queue(name, ads) for name, ads in self.queues.items())
        elements = {
            name: StorageElement(name, values, tuple(areas.values()))
            for name, (values, areas) in self.storage.items()
        }
        linked = []
        for ce in queues:
            binds = tuple(attrs.evolve(bind, se=elements.get(bind.se_id)) for bind in ce.binds)
            linked.append(attrs.evolve(ce, binds=binds))
        sites, clusters = tuple(self.sites.values()), tuple(self.clusters.values())
        return GlueRecords(sites, clusters, tuple(linked), tuple(elements.values()))

    def _queue(self, name: str, ads: Sequence[tuple[str, ClassAd]]) -> ComputingElement:
        own = next((ad for view, ad in ads if not view), None)
        shown = own if own is not None else ads[0][1]
        values = _attributes_of(shown, "GlueCE", "GlueInformationService")
        if own is None:
            values.pop(RULES, None)
            values.pop(ALSO, None)
        values["GlueCEUniqueID"] = name
        _nest_parts(values, shown, ("Computing",))
        binds = {b.se_id: b for _, ad in ads for b in self._binds(ad)}
        keys = shown.eval("GlueForeignKey")
        if isinstance(keys, list) and keys and "GlueClusterUniqueID" not in shown:
            values["GlueForeignKey"] = keys  # its cluster was not found when it was read
            cluster = None
        else:
            cluster = self._cluster(shown, name)
        views = []
        for view, ad in ads:
            if view:
                seen = _attributes_of(ad, "GlueCE", "GlueVOView")
                _nest_parts(seen, ad, ("Computing",))
                own_values = {k: v for k, v in seen.items() if k == "GLUE2" or values.get(k) != v}
                views.append(VOView(view, {**own_values, "GlueVOViewLocalID": view}))
        listed = shown.eval("GlueCESEBindGroupSEUniqueID")
        bound = tuple(str(se) for se in listed) if isinstance(listed, list) else ()
        return ComputingElement(name, values, cluster, tuple(views), tuple(binds.values()), bound)

    def _cluster(self, ad: ClassAd, queue: str) -> GlueCluster:
        host = queue.partition("/")[0].partition(":")[0]
        name = first_text(ad, ("GlueClusterUniqueID", "GlueCEInfoHostName")) or host
        sub = first_text(ad, ("GlueSubClusterUniqueID",))
        site_id = first_text(ad, ("GlueSiteUniqueID",)) or ""
        # Each queue sees the hosts of its own ad, so that a cluster may be here more than once.
        place = (name, sub or "")
        if place not in self.clusters:
            if site_id:
                site = {"GlueSiteUniqueID": site_id}
                self.sites.setdefault(site_id, GlueSite(site_id, dict[str, Value](site)))
            values = _attributes_of(ad, "GlueCluster")
            subs: tuple[SubCluster, ...] = ()
            if sub:
                hosts = _attributes_of(ad, "GlueSubCluster", "GlueHost")
                _nest_parts(
                    hosts, ad, ("ExecutionEnvironment", "Benchmark", "ApplicationEnvironment")
                )
                subs = (SubCluster(sub, hosts),)
            self.clusters[place] = GlueCluster(name, values, site_id, self.sites.get(site_id), subs)
        return self.clusters[place]

    def _binds(self, ad: ClassAd) -> Iterable[Bind]:
        with_downtimes = ad.eval("CloseStorageElements")
        for element in with_downtimes if isinstance(with_downtimes, list) else ():
            if isinstance(element, ClassAd) and isinstance(name := element.eval("name"), str):
                mount = element.eval("mount")
                path = mount if isinstance(mount, str) else ""
                yield Bind(name, path, {})
        storage = ad.eval("storage")
        elements = storage.eval("CloseSEs") if isinstance(storage, ClassAd) else ()
        for element in elements if isinstance(elements, list) else ():
            if isinstance(element, ClassAd) and isinstance(name := element.eval("name"), str):
                self._element(name, element)

    def _element(self, name: str, element: ClassAd) -> None:
        values = _attributes_of(element, "GlueSE", "GlueInformationService")
        if "GlueForeignKey" in element:
            values["GlueForeignKey"] = element.eval("GlueForeignKey")
        known = self.storage.setdefault(name, (values, {}))
        if not values:
            return
        area = _attributes_of(element, "GlueSA", "GlueVOInfo")
        ident = element.eval("GlueSALocalID")
        if isinstance(ident, str):
            known[1].setdefault(ident, StorageArea(ident, area))


def _attributes_of(ad: ClassAd, *owners: str) -> dict[str, Value]:
    """Return the values of an ad whose classes of GLUE 1.3 begin with one of some words."""
    found: dict[str, Value] = {}
    for name in ad:
        known = attribute(name)
        if name == ALSO:
            found[name] = ad.eval(name)
        if known is None or known.version != "1.3" or known.name.startswith("GlueCESEBind"):
            continue
        if known.owner.startswith(owners):
            found[known.name] = ad.eval(name)
    return found


def _nest_parts(values: dict[str, Value], ad: ClassAd, parts: Sequence[str]) -> None:
    """Copy the parts of an ad's nested GLUE 2.0 that are about a record."""
    whole = ad.eval("GLUE2")
    if isinstance(whole, ClassAd) and any(part in whole for part in parts):
        values["GLUE2"] = ClassAd({part: whole[part] for part in parts if part in whole})
