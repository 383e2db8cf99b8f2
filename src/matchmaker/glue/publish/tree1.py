"""Publishing records as entries of GLUE 1.3: sites, clusters, queues and storage, parents first.

`values` decides what can be published, and `writer` what each entry holds.
`tree2` has GLUE 2.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from matchmaker.classad import UNDEFINED, Value
from matchmaker.glue.entries import Attributes, Entry, rdn
from matchmaker.glue.issues import Report
from matchmaker.glue.publish.values import NOWHERE, homes_of_storage, key, publishable
from matchmaker.glue.publish.writer import Writer
from matchmaker.glue.records import Cluster, ComputingElement, GlueRecords, StorageElement, Values
from matchmaker.glue.schema import attribute

BASE: Final = "Mds-Vo-name=local,o=grid"
_VERSION = [("GlueSchemaVersionMajor", "1"), ("GlueSchemaVersionMinor", "3")]


def entries13(snapshot: GlueRecords, report: Report, base: str = BASE) -> Iterator[Entry]:
    """The entries of GLUE 1.3 for a snapshot, parents first.

    `base` is the name that each site is put under, as ``Mds-Vo-name=SITE``.
    """
    snapshot = publishable(snapshot, "1.3", report)
    writer = Writer(report)
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
        yield from _cluster(writer, cluster, queues.get(cluster.id, ()), home(cluster.site_id))
    homes = homes_of_storage(snapshot)
    for element in snapshot.storage_elements:
        yield from place(homes[element.id])
        yield from _element(writer, element, home(homes[element.id]))
    for ce in snapshot.computing_elements:
        site_id = ce.cluster.site_id if ce.cluster is not None else ""
        yield from place(site_id)
        yield from _queue(writer, ce, home(site_id))


def _parents(base: str) -> Iterator[Entry]:
    """The entries above the sites: ``o=grid`` and what is between."""
    parts = base.split(",")
    for number in range(len(parts) - 1, -1, -1):
        name, _, value = parts[number].partition("=")
        kind = "organization" if name.strip().lower() == "o" else "Mds"
        pairs = [("objectClass", kind), (name.strip(), value.strip())]
        yield Entry(",".join(parts[number:]), Attributes(pairs))


def _cluster(
    writer: Writer, cluster: Cluster, queues: Iterable[ComputingElement], home: str
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


def _queue(writer: Writer, ce: ComputingElement, home: str) -> Iterator[Entry]:
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
    """What a view says otherwise than its queue; "not known" too, by the number that means it."""
    found: dict[str, Value] = {}
    for name, value in view.items():
        if name in queue and queue[name] == value and not name.endswith("BaseRule"):
            continue
        known = attribute(name)
        hides = value is UNDEFINED and queue.get(name, UNDEFINED) is not UNDEFINED
        found[name] = known.sentinel[0] if hides and known and known.sentinel else value
    return found


def _element(writer: Writer, element: StorageElement, home: str) -> Iterator[Entry]:
    made = writer.below(home, "GlueSE", element.id, element.values, _VERSION)
    yield made
    for area in element.areas:
        more = [("GlueChunkKey", f"GlueSEUniqueID={element.id}"), *_VERSION]
        yield writer.below(made.dn, "GlueSA", area.id, area.values, more)
