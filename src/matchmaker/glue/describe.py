"""Describing a site: from ads of queues and of worker nodes to the records that are published.

`gather` is the opposite of `flatten`: the attributes of a CE ad go back to the queue, the cluster,
the hosts and the storage that they are about. `describe` puts in hosts that are known one by one:
what all of them have in common, or each class of equal ones apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.glue.flatten import unwrap
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

_OF_HOSTS = "GlueHost"
_LOCAL: Final[Mapping[str, tuple[str, ...]]] = {
    "GlueHostMainMemoryRAMSize": ("TotalMemory", "Memory"),
    "GlueHostArchitectureSMPSize": ("TotalCpus", "DetectedCpus", "Cpus"),
    "GlueHostArchitecturePlatformType": ("Arch",),
    "GlueHostOperatingSystemName": ("OpSysName", "OpSys"),
    "GlueHostOperatingSystemRelease": ("OpSysVersion", "OpSysMajorVer"),
}
"""What HTCondor's ads of machines call the facts of hosts."""

Hosts = Sequence[Mapping[str, Value]]


def describe(
    queues: Iterable[ClassAd], hosts: Iterable[ClassAd] = (), *, split: bool = False
) -> Snapshot:
    """The records of queues and of the worker nodes behind them, ready to be published.

    Args:
        queues: ads of computing elements, as `Glue.computing_elements` gives them or written by
            hand; ``CEid`` is what they need.
        hosts: ads of the worker nodes that all these queues have in common, with the names of GLUE
            (``GlueHost…``) or of HTCondor; without them the queues' own words about hosts stand.
        split: whether each class of equal nodes is a SubCluster, or all are one that promises what
            every node keeps: the least of each number, what is true of all, tags that all have.

    >>> from matchmaker import parse_ad, parse_ads
    >>> queue = parse_ad('[ CEid = "ce.s.grid:8443/cream-slurm-long" ]')
    >>> hosts = list(parse_ads("[ Memory = 4000; Cpus = 4 ] [ Memory = 2000; Cpus = 8 ]"))
    >>> [cluster] = describe([queue], hosts).clusters
    >>> cluster.subclusters[0].values["GlueHostMainMemoryRAMSize"]
    2000
    >>> len(describe([queue], hosts, split=True).clusters[0].subclusters)
    2
    """
    found = gather(queues)
    nodes = [host_values(ad) for ad in hosts]
    if not nodes:
        return found
    groups = _alike(nodes) if split else [nodes]
    clusters = {
        cluster.id: attrs.evolve(cluster, subclusters=_subclusters(cluster.id, groups))
        for cluster in found.clusters
    }
    return attrs.evolve(
        found,
        clusters=tuple(clusters.values()),
        computing_elements=tuple(
            attrs.evolve(ce, cluster=clusters[ce.cluster.id] if ce.cluster else None)
            for ce in found.computing_elements
        ),
    )


def host_values(ad: ClassAd) -> dict[str, Value]:
    """The facts of a worker node under the names of GLUE 1.3, whichever its ad uses."""
    found: dict[str, Value] = {}
    for name in ad:
        known = attribute(name)
        if known is not None and known.name.startswith(_OF_HOSTS):
            found[known.name] = ad.eval(name)
    for name, others in _LOCAL.items():
        for other in others:
            value = ad.eval(other)
            if name not in found and isinstance(value, (int, str)):
                found[name] = value.lower() if other == "Arch" and isinstance(value, str) else value
    return {name: value for name, value in found.items() if _fits(name, value)}


def _fits(name: str, value: Value) -> bool:
    known = attribute(name)
    if known is None:
        return False
    if known.multi:
        return isinstance(value, list)
    kinds: Mapping[str, tuple[type, ...]] = {
        "integer": (int, float),
        "real": (int, float),
        "boolean": (bool,),
        "string": (str,),
    }
    number = known.classad in ("integer", "real")
    return isinstance(value, kinds[known.classad]) and not (number and isinstance(value, bool))


def _alike(nodes: Hosts) -> list[Hosts]:
    groups: dict[str, list[Mapping[str, Value]]] = {}
    for node in nodes:
        groups.setdefault(repr(sorted(node.items())), []).append(node)
    return list(groups.values())


def _subclusters(cluster: str, groups: Sequence[Hosts]) -> tuple[SubCluster, ...]:
    made = []
    for number, nodes in enumerate(groups, 1):
        name = cluster if len(groups) == 1 else f"{cluster}-{number}"
        values = {"GlueSubClusterUniqueID": name, "GlueSubClusterName": name, **common(nodes)}
        cores = [node.get("GlueHostArchitectureSMPSize") for node in nodes]
        if all(isinstance(core, int) for core in cores):
            values["GlueSubClusterLogicalCPUs"] = sum(c for c in cores if isinstance(c, int))
        made.append(SubCluster(name, values))
    return tuple(made)


def common(nodes: Hosts) -> dict[str, Value]:
    """What every node keeps: the least of numbers, what is true of all, what all lists hold.

    A fact that one node does not tell is none of all.

    >>> common([{"GlueHostBenchmarkSI00": 620}, {"GlueHostBenchmarkSI00": 400}])
    {'GlueHostBenchmarkSI00': 400}
    """
    made: dict[str, Value] = {}
    for name in nodes[0]:
        values = [node.get(name, UNDEFINED) for node in nodes]
        if any(value is UNDEFINED for value in values):
            continue
        merged = _merged(values)
        if merged is not UNDEFINED:
            made[name] = merged
    return made


def _merged(values: Sequence[Value]) -> Value:
    first = values[0]
    if isinstance(first, bool):
        return all(value is True for value in values)
    if isinstance(first, (int, float)):
        return min(value for value in values if isinstance(value, (int, float)))
    if isinstance(first, list):
        return [item for item in first if all(isinstance(v, list) and item in v for v in values)]
    return first if all(value == first for value in values) else UNDEFINED


# --- from ads of queues back to records ----------------------------------------------------------


def gather(queues: Iterable[ClassAd]) -> Snapshot:
    """The records that ads of computing elements were made of, as far as the ads tell of them."""
    made = _Gathered()
    for wrapped in queues:
        made.add(unwrap(wrapped))
    return made.snapshot()


@attrs.define(slots=True)
class _Gathered:
    """What the ads seen so far tell, by id."""

    sites: dict[str, Site] = attrs.Factory(dict)
    clusters: dict[str, Cluster] = attrs.Factory(dict)
    storage: dict[str, tuple[dict[str, Value], dict[str, StorageArea]]] = attrs.Factory(dict)
    queues: dict[str, list[tuple[str, ClassAd]]] = attrs.Factory(dict)

    def add(self, ad: ClassAd) -> None:
        name = first_text(ad, ("CEid", "GlueCEUniqueID", "Name"))
        if not name:
            raise ValueError("an ad of a queue has no CEid, by which it would be published")
        base = first_text(ad, ("GlueCEUniqueID",)) or name
        view = name.removeprefix(base).removeprefix("/") if name.startswith(base) else ""
        self.queues.setdefault(base, []).append((view, ad))

    def snapshot(self) -> Snapshot:
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
        return Snapshot(
            tuple(self.sites.values()),
            tuple(self.clusters.values()),
            linked,
            tuple(elements.values()),
        )

    def _queue(self, name: str, ads: Sequence[tuple[str, ClassAd]]) -> ComputingElement:
        own = next((ad for view, ad in ads if not view), None)
        shown = own if own is not None else ads[0][1]
        values = _of(shown, lambda owner: owner.startswith("GlueCE"), "GlueInformationService")
        rules = "GlueCEAccessControlBaseRule"
        if own is None:
            values.pop(rules, None)
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
                seen = _of(ad, lambda owner: owner.startswith(("GlueCE", "GlueVOView")), "")
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
        if name not in self.clusters:
            if site_id:
                site = {"GlueSiteUniqueID": site_id}
                self.sites.setdefault(site_id, Site(site_id, dict[str, Value](site)))
            values = _of(ad, lambda owner: owner == "GlueCluster", "")
            self.clusters[name] = Cluster(name, values, site_id, self.sites.get(site_id))
        cluster = self.clusters[name]
        if sub and sub not in {known.id for known in cluster.subclusters}:
            hosts = _of(ad, lambda owner: owner.startswith(("GlueSubCluster", "GlueHost")), "")
            _nest(hosts, ad, ("ExecutionEnvironment", "Benchmark", "ApplicationEnvironment"))
            subs = (*cluster.subclusters, SubCluster(sub, hosts))
            cluster = self.clusters[name] = attrs.evolve(cluster, subclusters=subs)
        return cluster

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
        values = _of(element, lambda owner: owner.startswith("GlueSE"), "GlueInformationService")
        if "GlueForeignKey" in element:
            values["GlueForeignKey"] = element.eval("GlueForeignKey")
        known = self.storage.setdefault(name, (values, {}))
        if not values:
            return
        area = _of(element, lambda owner: owner.startswith(("GlueSA", "GlueVOInfo")), "")
        ident = element.eval("GlueSALocalID")
        if isinstance(ident, str):
            known[1].setdefault(ident, StorageArea(ident, area))


def _of(ad: ClassAd, owned: Callable[[str], bool], also: str) -> dict[str, Value]:
    """The attributes of an ad that belong to certain classes of GLUE 1.3, and their values."""
    found: dict[str, Value] = {}
    for name in ad:
        known = attribute(name)
        if known is None or known.version != "1.3" or known.name.startswith("GlueCESEBind"):
            continue
        if owned(known.owner) or (also and known.owner.startswith(also)):
            found[known.name] = ad.eval(name)
    return found


def _nest(values: dict[str, Value], ad: ClassAd, parts: Sequence[str]) -> None:
    """The parts of an ad's nested GLUE 2.0 that are about a record."""
    whole = ad.eval("GLUE2")
    if isinstance(whole, ClassAd) and any(part in whole for part in parts):
        values["GLUE2"] = ClassAd({part: whole[part] for part in parts if part in whole})
