"""From entries of GLUE 1.3 to linked records: the keys that tie a queue to cluster and storage.

What belongs to one record is ordered by id, as the answers of a server come in no order that means
anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import attrs

from matchmaker.classad import ClassAd, Value
from matchmaker.glue.access import CLOSED, RULES, denies
from matchmaker.glue.admission import agreeing, closed, unreadable, with_rules, without_policy
from matchmaker.glue.issues import Report
from matchmaker.glue.linking import (
    Record,
    by_id,
    dangling,
    finding,
    first_key,
    key_values,
    normal_name,
    rdns,
    under,
    unique,
)
from matchmaker.glue.records import (
    Bind,
    Cluster,
    ComputingElement,
    GlueRecords,
    Site,
    StorageArea,
    StorageElement,
    SubCluster,
    VOView,
    split_id,
)

# The attribute that names an entry of each class, most particular class first.
IDS: Final[Mapping[str, str]] = {
    "gluevoview": "GlueVOViewLocalID",
    "gluecesebindgroup": "GlueCESEBindGroupCEUniqueID",
    "gluecesebind": "GlueCESEBindSEUniqueID",
    "gluesubcluster": "GlueSubClusterUniqueID",
    "gluecluster": "GlueClusterUniqueID",
    "gluece": "GlueCEUniqueID",
    "gluesa": "GlueSALocalID",
    "gluese": "GlueSEUniqueID",
    "gluesite": "GlueSiteUniqueID",
}


def link(
    kinds: Mapping[str, list[Record]],
    report: Report,
    *,
    broken_off: bool = False,
    open_: bool = False,
) -> GlueRecords:
    """Link records; what fails is reported.

    `kinds` has the records of each class of `IDS`. Where the source is `broken_off`, it ended too
    early, and a view that denies may be missing.
    """
    sites = {r.id.lower(): Site(r.id, r.values) for r in unique(kinds["gluesite"], report)}
    areas = under(kinds["gluesa"], "GlueSEUniqueID")
    ses = {
        r.id.lower(): StorageElement(
            r.id,
            r.values,
            tuple(StorageArea(a.id, a.values) for a in unique(areas.get(r.id.lower(), ()), report)),
        )
        for r in unique(kinds["gluese"], report)
    }
    clusters = _clusters(kinds, sites, report)
    missing = [CLOSED] if broken_off else []
    ces = tuple(_computing_elements(kinds, clusters, ses, report, missing, open_=open_))
    adrift = tuple(_adrift(kinds["gluece"], clusters))
    return GlueRecords(
        tuple(sites.values()), tuple(clusters.values()), ces, tuple(ses.values()), adrift
    )


def _clusters(
    kinds: Mapping[str, list[Record]], sites: Mapping[str, Site], report: Report
) -> dict[str, Cluster]:
    subclusters = under(kinds["gluesubcluster"], "GlueClusterUniqueID")
    clusters: dict[str, Cluster] = {}
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
        clusters[record.id.lower()] = Cluster(
            record.id, record.values, site_id, sites.get(site_id.lower()), subs
        )
    for key, orphans in subclusters.items():
        for record in orphans:
            report(dangling(record, f"GlueClusterUniqueID={key}"))
    return clusters


def _computing_elements(
    kinds: Mapping[str, list[Record]],
    clusters: Mapping[str, Cluster],
    ses: Mapping[str, StorageElement],
    report: Report,
    missing: Sequence[str],
    *,
    open_: bool,
) -> Iterator[ComputingElement]:
    def merge(first: Record, second: Record) -> Record:
        return agreeing(first, second, "gluece", report)

    records = unique(_by_each_id(kinds["gluece"]), report, merge=merge)
    views = _views(kinds["gluevoview"], report)
    lost = _Lost.of(records, views, kinds)
    binds: dict[str, list[Record]] = {}
    for record in kinds["gluecesebind"]:
        owner = record.text("GlueCESEBindCEUniqueID")
        owner = owner or rdns(record.entry.dn).get("gluecesebindgroupceuniqueid", "")
        binds.setdefault(owner.lower(), []).append(record)
    groups = {r.id.lower(): r for r in kinds["gluecesebindgroup"]}
    for record in records:
        key = record.id.lower()
        its = unique(views.pop(key, ()), report, merge=merge)
        rules = [*record.texts(RULES), *lost.over(record), *missing]
        if not record.texts(RULES) and not any(view.texts(RULES) for view in its):
            if open_:
                rules.append("ALL")
            else:
                report(without_policy(record))
        if split_id(record.id) is None:
            said = "its id does not tell the batch system and the queue"
            report(finding(record, "link.ce-id", said, record.id))
        group = groups.pop(key, None)
        bound = group.texts("GlueCESEBindGroupSEUniqueID") if group else ()
        yield ComputingElement(
            record.id,
            with_rules(record, RULES, rules).values,
            _cluster_of(record, clusters, report),
            tuple(VOView(r.id, r.values) for r in its),
            tuple(_bind(r, ses, report) for r in by_id(unique(binds.pop(key, ()), report))),
            bound,
        )
    leftover = [r for rs in (*views.values(), *binds.values(), [*groups.values()]) for r in rs]
    for record in leftover:
        report(finding(record, "link.dangling", "its CE is not in the snapshot", record.id))


def _by_each_id(records: Iterable[Record]) -> Iterator[Record]:
    """Queues; one whose name and attribute give two ids is damaged, and may be of either."""
    for record in records:
        yield record
        named = rdns(record.entry.dn).get("glueceuniqueid", record.id)
        if named.lower() != record.id.lower() and named and "\0" not in named:
            yield closed(attrs.evolve(record, id=named), RULES)


def _adrift(
    records: Iterable[Record], clusters: Mapping[str, Cluster]
) -> Iterator[ComputingElement]:
    """Damaged queues whose ids are lost: what is left says which queues may be the same."""
    for record in records:
        lost = unreadable(record.id)
        if (split_id(record.id) is not None and not lost) or (
            record.id and CLOSED not in record.texts(RULES)
        ):
            continue
        host = record.id.partition("/")[0].partition(":")[0] if "/" in record.id else ""
        host = "" if unreadable(host) else host
        values: dict[str, Value] = {
            "GlueCEInfoHostName": host or record.text("GlueCEInfoHostName"),
            "GlueCEName": record.text("GlueCEName"),
            "GLUE2": ClassAd(),
            RULES: list[Value]([CLOSED]),
        }
        yield ComputingElement("", values, _cluster_of(record, clusters, lambda _: None))


def _views(records: Iterable[Record], report: Report) -> dict[str, list[Record]]:
    """Views by the id, in lower case, of the queue that each is of; empty where it says none."""
    found: dict[str, list[Record]] = {}
    for record in records:
        placed = rdns(record.entry.dn).get("glueceuniqueid", "").lower()
        named = [k.lower() for k in key_values(record.values, "GlueChunkKey", "GlueCEUniqueID")]
        if placed and named and named != [placed]:
            said = "its key and its place in the tree differ; it admits nobody"
            report(finding(record, "access.conflict", said, "; ".join(named)))
            named = [*named, placed]
            view = closed(record, RULES)
        else:
            view = record
        for key in dict.fromkeys(named or [placed]):
            found.setdefault(key, []).append(view)
    return {key: by_id(group) for key, group in found.items()}


@attrs.frozen(slots=True)
class _Lost:
    """The denials of views without an id or a known queue, by the part of the tree they may be of.

    That is the nearest place above the view in which the source has anything else; the whole tree
    where a view's name cannot be read.
    """

    denials: Mapping[str, Sequence[str]]

    @classmethod
    def of(
        cls,
        queues: Iterable[Record],
        views: Mapping[str, Iterable[Record]],
        kinds: Mapping[str, list[Record]],
    ) -> _Lost:
        """From queues, and views by the id of their queue."""
        known = {record.id.lower() for record in queues}
        lost = [r for key, rs in views.items() for r in rs if key not in known or not r.id]
        found: dict[str, list[str]] = {}
        if denying := [(r, rules) for r in lost if (rules := [*filter(denies, r.texts(RULES))])]:
            others = chain.from_iterable(kinds[kind] for kind in IDS if kind != "gluevoview")
            places = {place for record in others for place in _places(record)}
            for record, rules in denying:
                place = next((p for p in _places(record) if p in places), "")
                found.setdefault(place, []).extend(rules)
        return cls(found)

    def over(self, record: Record) -> list[str]:
        """The denials that may have been of a queue."""
        if not self.denials:
            return []
        return [rule for place in _places(record) for rule in self.denials.get(place, ())]


def _places(record: Record) -> list[str]:
    """The names above a record's, as names are compared, nearest first; then the whole tree."""
    parts = normal_name(record.entry.dn).split(",")
    return [",".join(parts[n:]) for n in range(1, len(parts))] + [""]


def _cluster_of(record: Record, clusters: Mapping[str, Cluster], report: Report) -> Cluster | None:
    """By foreign key, else by host name: rule 1 of the gLite broker's flattening."""
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


def _bind(record: Record, ses: Mapping[str, StorageElement], report: Report) -> Bind:
    se = ses.get(record.id.lower())
    if se is None:
        report(dangling(record, f"GlueSEUniqueID={record.id}", ses))
    return Bind(record.id, record.text("GlueCESEBindCEAccesspoint"), record.values, se)
