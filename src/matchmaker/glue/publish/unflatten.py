"""From ads of queues back to records: the opposite of `flatten`.

The attributes of a CE ad go back to the queue, the cluster, the hosts and the storage that they are
about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from matchmaker.classad import ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.glue.access import ALSO, RULES
from matchmaker.glue.flatten import unwrap
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
)
from matchmaker.glue.schema import attribute


def unflatten(queues: Iterable[ClassAd]) -> GlueRecords:
    """The records that ads of computing elements were made of, as far as the ads describe them."""
    made = _Gathered()
    for wrapped in queues:
        made.add(unwrap(wrapped))
    return made.snapshot()


@attrs.define(slots=True)
class _Gathered:
    """The records of the ads seen so far, by id."""

    sites: dict[str, Site] = attrs.Factory(dict)
    clusters: dict[tuple[str, str], Cluster] = attrs.Factory(dict)
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
        linked = tuple(
            attrs.evolve(
                ce, binds=tuple(attrs.evolve(b, se=elements.get(b.se_id)) for b in ce.binds)
            )
            for ce in queues
        )
        return GlueRecords(
            tuple(self.sites.values()),
            tuple(self.clusters.values()),
            linked,
            tuple(elements.values()),
        )

    def _queue(self, name: str, ads: Sequence[tuple[str, ClassAd]]) -> ComputingElement:
        own = next((ad for view, ad in ads if not view), None)
        shown = own if own is not None else ads[0][1]
        values = _of(shown, "GlueCE", "GlueInformationService")
        if own is None:
            values.pop(RULES, None)
            values.pop(ALSO, None)
        values["GlueCEUniqueID"] = name
        _nest(values, shown, ("Computing",))
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
                seen = _of(ad, "GlueCE", "GlueVOView")
                _nest(seen, ad, ("Computing",))
                different = {
                    k: v for k, v in seen.items() if k == "GLUE2" or values.get(k, None) != v
                }
                views.append(VOView(view, {**different, "GlueVOViewLocalID": view}))
        bound = shown.eval("GlueCESEBindGroupSEUniqueID")
        return ComputingElement(
            name,
            values,
            cluster,
            tuple(views),
            tuple(binds.values()),
            tuple(str(se) for se in bound) if isinstance(bound, list) else (),
        )

    def _cluster(self, ad: ClassAd, queue: str) -> Cluster:
        host = queue.partition("/")[0].partition(":")[0]
        name = first_text(ad, ("GlueClusterUniqueID", "GlueCEInfoHostName")) or host
        sub = first_text(ad, ("GlueSubClusterUniqueID",))
        site_id = first_text(ad, ("GlueSiteUniqueID",)) or ""
        # Each queue sees the hosts of its own ad, so that a cluster may be here more than once.
        place = (name, sub or "")
        if place not in self.clusters:
            if site_id:
                site = {"GlueSiteUniqueID": site_id}
                self.sites.setdefault(site_id, Site(site_id, dict[str, Value](site)))
            values = _of(ad, "GlueCluster")
            subs: tuple[SubCluster, ...] = ()
            if sub:
                hosts = _of(ad, "GlueSubCluster", "GlueHost")
                _nest(hosts, ad, ("ExecutionEnvironment", "Benchmark", "ApplicationEnvironment"))
                subs = (SubCluster(sub, hosts),)
            self.clusters[place] = Cluster(name, values, site_id, self.sites.get(site_id), subs)
        return self.clusters[place]

    def _binds(self, ad: ClassAd) -> Iterable[Bind]:
        close = ad.eval("CloseStorageElements")
        for element in close if isinstance(close, list) else ():
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
        values = _of(element, "GlueSE", "GlueInformationService")
        if "GlueForeignKey" in element:
            values["GlueForeignKey"] = element.eval("GlueForeignKey")
        known = self.storage.setdefault(name, (values, {}))
        if not values:
            return
        area = _of(element, "GlueSA", "GlueVOInfo")
        ident = element.eval("GlueSALocalID")
        if isinstance(ident, str):
            known[1].setdefault(ident, StorageArea(ident, area))


def _of(ad: ClassAd, *owners: str) -> dict[str, Value]:
    """The attributes of an ad, and their values, of classes of GLUE 1.3 that begin with a word."""
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


def _nest(values: dict[str, Value], ad: ClassAd, parts: Sequence[str]) -> None:
    """The parts of an ad's nested GLUE 2.0 that are about a record."""
    whole = ad.eval("GLUE2")
    if isinstance(whole, ClassAd) and any(part in whole for part in parts):
        values["GLUE2"] = ClassAd({part: whole[part] for part in parts if part in whole})
