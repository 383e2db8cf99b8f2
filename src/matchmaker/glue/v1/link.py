"""From entries of GLUE 1.3 to linked records: the keys that tie a queue to cluster and storage.

What belongs to one record is ordered by id, as the answers of a server come in no order that means
anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from matchmaker.glue.access import agreeing, published, unknown, without_rules
from matchmaker.glue.issues import Report
from matchmaker.glue.linking import (
    Record,
    by_id,
    dangling,
    finding,
    first_key,
    key_values,
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
) -> GlueRecords:
    """Link records of the classes of `IDS`; what fails is reported."""
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
    ces = tuple(_computing_elements(kinds, clusters, ses, report))
    return GlueRecords(tuple(sites.values()), tuple(clusters.values()), ces, tuple(ses.values()))


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
) -> Iterator[ComputingElement]:
    def merge(first: Record, second: Record) -> Record:
        return agreeing(first, second, report)

    records = unique(kinds["gluece"], report, merge=merge)
    views = _views(kinds["gluevoview"])
    binds: dict[str, list[Record]] = {}
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
        element = ComputingElement(
            record.id,
            published(record.values),
            _cluster_of(record, clusters, report),
            tuple(VOView(r.id, published(r.values)) for r in its),
            tuple(_bind(r, ses, report) for r in by_id(unique(binds.pop(key, ()), report))),
            bound,
        )
        if unknown(element):
            report(without_rules(record))
        yield element
    leftover = [r for rs in (*views.values(), *binds.values(), [*groups.values()]) for r in rs]
    for record in leftover:
        report(finding(record, "link.dangling", "its CE is not in the snapshot", record.id))


def _views(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group views by the id, in lower case, of the queue that each is of: by key, else by place."""
    found: dict[str, list[Record]] = {}
    for record in records:
        named = key_values(record.values, "GlueChunkKey", "GlueCEUniqueID")
        placed = record.rdns.get("glueceuniqueid", "")
        for key in dict.fromkeys(key.lower() for key in named or [placed]):
            found.setdefault(key, []).append(record)
    return {key: by_id(group) for key, group in found.items()}


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
