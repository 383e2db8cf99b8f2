"""How large the ads of a description would be, and which queues are left out so that they fit.

An ad repeats what its queue, cluster, hosts and close storage say. A small file in which many
queues share one large cluster, or one queue has many views, could else make more than a machine
holds. What is left out is reported, the largest first, so that a stranger's queues do not push out
those of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue.access import all_of
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.records import Bind, Cluster, ComputingElement, GlueRecords, Values

CE_KEY: Final = "glueceuniqueid="
"""How a key to a queue begins: a cluster has one for each of its queues, which ads leave out."""

_KEYS: Final = ("GlueForeignKey", "GlueChunkKey")


def fitting(snapshot: GlueRecords, entries: int, report: Report) -> GlueRecords:
    """A snapshot without the queues whose ads would be too large for its number of entries."""
    most = LIMITS.ads + LIMITS.ads_each * entries
    weigh = _weigher()
    weights = [weigh(ce) for ce in snapshot.computing_elements]
    total = sum(weights)
    if total <= most:
        return snapshot
    dropped: set[int] = set()
    for place in sorted(range(len(weights)), key=weights.__getitem__, reverse=True):
        if total <= most:
            break
        total -= weights[place]
        dropped.add(place)
        ce = snapshot.computing_elements[place]
        said = f"its ads would repeat {weights[place]} attributes and list items; it is left out"
        report(issue("link.too-many", said, raw=ce.id))
    queues = snapshot.computing_elements
    return attrs.evolve(
        snapshot,
        computing_elements=tuple(ce for n, ce in enumerate(queues) if n not in dropped),
    )


def _weigher() -> Callable[[ComputingElement], int]:
    """How many attributes and list items the ads of a queue have, at most and roughly."""
    clusters: dict[int, int] = {}
    seen: set[tuple[int, str]] = set()

    def of_cluster(cluster: Cluster) -> int:
        if id(cluster) not in clusters:
            subs = max((_size(sub.values) for sub in cluster.subclusters), default=0)
            clusters[id(cluster)] = _size(cluster.values) + subs
        return clusters[id(cluster)]

    def copies(bind: Bind, rules: int) -> int:
        if bind.se is None or (id(bind.se), bind.mount) in seen:
            return 0
        seen.add((id(bind.se), bind.mount))
        areas = bind.se.areas[:rules]
        own = max(1, len(areas)) * len(bind.se.values)
        return own + sum(len(area.values) for area in areas)

    def weigh(ce: ComputingElement) -> int:
        rules = [len(all_of([level.values])) for level in (ce, *ce.views)]
        own = rules[0]
        whole = _size(ce.values) + (of_cluster(ce.cluster) if ce.cluster is not None else 0)
        weight = len(rules) * (whole + own + len(ce.bound))
        weight += sum(_size(view.values) for view in ce.views) + sum(rules)
        areas = sum(len(bind.se.areas) for bind in ce.binds if bind.se is not None)
        close = len(ce.binds)
        weight += sum(2 * close + min(areas, close * count) for count in rules)
        return weight + sum(copies(bind, sum(rules)) for bind in ce.binds)

    return weigh


def _size(values: Values) -> int:
    size = len(values)
    for name in _KEYS:
        keys = values.get(name)
        if isinstance(keys, list):
            texts = (key.lower() for key in keys if isinstance(key, str))
            size += len(keys) - sum(text.startswith(CE_KEY) for text in texts)
    return size
