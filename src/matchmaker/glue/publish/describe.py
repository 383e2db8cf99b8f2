"""Describing a site: the hosts behind queues, where they are known one by one.

What all of them have in common is promised, or each class of equal ones is described apart. The
records of the queues are made of their ads by `unflatten`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.glue.clean.typed import whole
from matchmaker.glue.publish.unflatten import unflatten
from matchmaker.glue.records import (
    Cluster,
    ComputingElement,
    GlueRecords,
    SubCluster,
    queue_name,
    texts,
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

_PASSING: Final = re.compile(r"GlueHost(?:Name|UniqueID|.*Load.*|.*Available(?:Space)?)")
"""Which node it is, and what changes from minute to minute."""

Hosts = Sequence[Mapping[str, Value]]


def describe_site(
    queues: Iterable[ClassAd], hosts: Iterable[ClassAd] = (), *, split: bool = False
) -> GlueRecords:
    """The records of queues and of the worker nodes behind them, ready to be published.

    Args:
        queues: ads of computing elements, as `Glue.computing_elements` gives them or written by
            hand; ``CEid`` is what they need.
        hosts: ads of the worker nodes, with the names of GLUE (``GlueHost…``) or of HTCondor. One
            that lists its ``Queues``, as a batch system does, is behind these alone, another
            behind all; a queue without any keeps its own words about hosts.
        split: whether each class of equal nodes is a SubCluster, or all are one that promises what
            every node keeps: the least of each number, what is true of all, tags that all have.

    Raises:
        ValueError: for a queue without an id.

    >>> from matchmaker import parse_ad, parse_ads
    >>> queue = parse_ad('[ CEid = "ce.s.grid:8443/cream-slurm-long" ]')
    >>> hosts = list(parse_ads("[ Memory = 4000; Cpus = 4 ] [ Memory = 2000; Cpus = 8 ]"))
    >>> [cluster] = describe_site([queue], hosts).clusters
    >>> cluster.subclusters[0].values["GlueHostMainMemoryRAMSize"]
    2000
    >>> len(describe_site([queue], hosts, split=True).clusters[0].subclusters)
    2
    """
    found = unflatten(queues)
    nodes = [_host(ad) for ad in hosts]
    seen: dict[tuple[str, tuple[int, ...]], list[ComputingElement]] = {}
    for ce in found.computing_elements:
        if ce.cluster is not None:
            seen.setdefault((ce.cluster.id, _behind(ce, nodes)), []).append(ce)
    several = {cluster for cluster, count in Counter(c for c, _ in seen).items() if count > 1}
    clusters: dict[str, Cluster] = {}
    for (ident, behind), queues_there in seen.items():
        cluster = queues_there[0].cluster
        if cluster is not None and behind:
            name = f"{ident}/{queue_name(queues_there[0].id)}" if ident in several else ident
            subs = _subclusters(name, [nodes[number] for number in behind], split=split)
            cluster = attrs.evolve(cluster, subclusters=subs)
        if cluster is not None:
            clusters.update((ce.id, cluster) for ce in queues_there)
    return attrs.evolve(
        found,
        clusters=tuple(dict.fromkeys(clusters.values())),
        computing_elements=tuple(
            attrs.evolve(ce, cluster=clusters.get(ce.id)) for ce in found.computing_elements
        ),
    )


@attrs.frozen(slots=True)
class _Host:
    """A worker node: the queues that send jobs there, None if it does not say, and its facts.

    Several slots may be of one machine.
    """

    machine: str | None
    queues: frozenset[str] | None
    available: bool
    values: Mapping[str, Value]


def _host(ad: ClassAd) -> _Host:
    listed = ad.eval("Queues")
    queues = frozenset(texts(listed)) if isinstance(listed, list) else None
    # What is true of it tomorrow, and could be of others.
    lasting = {n: value for n, value in host_values(ad).items() if not _PASSING.fullmatch(n)}
    return _Host(first_text(ad, ("Machine",)), queues, ad.eval("Available") is not False, lasting)


def _behind(ce: ComputingElement, nodes: Sequence[_Host]) -> tuple[int, ...]:
    """The nodes, by their places in a list, that a queue may send jobs to."""
    name = queue_name(ce.id)
    return tuple(n for n, h in enumerate(nodes) if h.queues is None or name in h.queues)


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
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, kinds[known.classad]) and not (number and isinstance(value, bool))


def _subclusters(cluster: str, hosts: Sequence[_Host], *, split: bool) -> tuple[SubCluster, ...]:
    groups = _alike(hosts) if split else [hosts]
    made = []
    for number, group in enumerate(groups, 1):
        name = cluster if len(groups) == 1 else f"{cluster}-{number}"
        live = [host.values for host in group if host.available]
        out = [host.values for host in group if not host.available]
        facts = common(live, out) if live else common(out)
        values = {"GlueSubClusterUniqueID": name, "GlueSubClusterName": name, **facts}
        cores = {
            host.machine or place: host.values.get("GlueHostArchitectureSMPSize")
            for place, host in enumerate(group)
        }
        known = [core for core in cores.values() if isinstance(core, int)]
        if len(known) == len(cores) and (total := whole(sum(known))) is not None:
            values["GlueSubClusterLogicalCPUs"] = total
        made.append(SubCluster(name, values))
    return tuple(made)


def _alike(hosts: Sequence[_Host]) -> list[list[_Host]]:
    """Classes of equal nodes; one that is out is of the first that has all its facts."""
    groups: dict[str, list[_Host]] = {}
    for host in sorted(hosts, key=lambda host: not host.available):
        fits = host.values.items()
        like = repr(sorted(fits))
        if not host.available and like not in groups:
            like = next((k for k, g in groups.items() if fits <= g[0].values.items()), like)
        groups.setdefault(like, []).append(host)
    return list(groups.values())


def common(nodes: Hosts, out: Hosts = ()) -> dict[str, Value]:
    """What every node keeps: the least of numbers, what is true of all, what all lists hold.

    A fact that one node lacks is left out for all. Of nodes that are out, and take no jobs at
    the moment, only the facts that they have count: one that is down may have none.

    >>> common([{"GlueHostBenchmarkSI00": 620}, {"GlueHostBenchmarkSI00": 400}], [{}])
    {'GlueHostBenchmarkSI00': 400}
    """
    made: dict[str, Value] = {}
    for name in nodes[0]:
        values = [node.get(name, UNDEFINED) for node in nodes]
        if any(value is UNDEFINED for value in values):
            continue
        merged = _merged([*values, *(node[name] for node in out if name in node)])
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
