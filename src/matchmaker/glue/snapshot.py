"""The records of a source: its entries are cleaned, sorted by class, linked and joined.

`linking` makes the same `records` of GLUE 1.3 and of GLUE 2.0. If a source describes a thing in
both, as a BDII does, the description of GLUE 1.3 stays: it says more about a queue. An ad repeats
the values of its queue, cluster, hosts and close storage, so a small file could make more than a
machine holds: `fitting` leaves out the largest queues, and reports them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue.access import HOLDERS, agreed_queues, all_of
from matchmaker.glue.clean import DEFAULT_RULES, VALIDATORS, Cleaner, check_rules
from matchmaker.glue.entries import Attributes, CleanEntry, Entry, duplicate, normal_name, rdns
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.linking import AccessPolicies, agreeing, damaged, link_glue1, link_glue2
from matchmaker.glue.records import (
    CE_KEY,
    ComputingElement,
    GlueRecord,
    GlueRecords,
    Values,
    texts,
)
from matchmaker.glue.schema import GLUE1_IDS, GLUE2_IDS, ancestry, classes

_IDS = {**GLUE1_IDS, **GLUE2_IDS}
_NAMED_BY = {key.lower(): kind for kind, key in GLUE1_IDS.items()}
# Published texts are not kept: they are most of the memory of a grid.
_NO_TEXTS = Attributes()
_KINDS: Final = tuple(_IDS)
_NO_CLASS: Final = len(_KINDS)
_PLACES: Final = {
    spelt: _KINDS.index(kind) if kind in _IDS else _NO_CLASS
    for kind, known in classes().items()
    for spelt in (kind, known.name)
}
"""The place of each class, by its usual spellings; those that are linked, most particular first."""


def build(
    entries: Iterable[Entry],
    report: Report,
    rules: frozenset[str] = DEFAULT_RULES,
    now: datetime | None = None,
) -> GlueRecords:
    """Clean and link the entries of an information system.

    Args:
        entries: from a reader, in any order.
        report: called with an `Issue` for each value cleaned and each link that fails.
        rules: ids of the cleaning rules that are on.
        now: the time by which entries are fresh or stale, now if not given.

    Raises:
        ValueError: no cleaning rule has an id.
    """
    check_rules(rules)
    kinds: dict[str, list[CleanEntry]] = {kind: [] for kind in _IDS}
    described: Counter[str] = Counter()
    seen: dict[str, tuple[str, int]] = {}
    now = now or datetime.now(UTC)
    if tools := rules & VALIDATORS:
        from matchmaker.glue.clean.validators import validated

        entries = validated(entries, tools, now, report)
    cleaner = Cleaner(report, rules, now)
    for entry in entries:
        kind = _kind(entry)
        if (class_ := _class(entry, kind)) is not None:
            described[class_] += 1
        if kind is None:
            continue
        # The id of a policy, and so its name in a flat document, may be that of others too. Of
        # two entries whose names are lost neither is the other.
        name = normal_name(entry.dn) if entry.dn and not kind.endswith("policy") else ""
        came = seen.get(name) if name else None
        again = came is not None and kind not in HOLDERS
        record = _record(entry, kind, cleaner, (lambda _: None) if again else report)
        if came is not None:
            first = kinds[came[0]][came[1]]
            report(duplicate(record, first, "an entry of this name came before, skipped"))
            if kind == came[0] and not again:
                kinds[kind][came[1]] = agreeing(first, record, report)
            if kind == came[0] or again:
                continue
        seen[name] = kind, len(kinds[kind])
        kinds[kind].append(record)
    old = link_glue1(kinds, report)
    described_by_old = {ce.id.lower() for ce in old.computing_elements}
    new = link_glue2(kinds, AccessPolicies.of(kinds, report), report, rules, described_by_old)
    linked = joined(old, new, agree=report)
    if described and not linked.computing_elements:
        counts = ", ".join(f"{number} {name}" for name, number in sorted(described.items()))
        report(issue("link.no-queue", f"the source describes no queue; it has {counts}"))
    return fitting(linked, sum(map(len, kinds.values())), report)


def _record(entry: Entry, kind: str, cleaner: Cleaner, report: Report) -> CleanEntry:
    """Clean an entry; one that has rules of access and lost a part admits nobody."""
    found = cleaner.values(entry, report)
    ident = found.get(_IDS[kind])
    if not isinstance(ident, str) or not ident:
        ident = rdns(entry.dn).get(_IDS[kind].lower(), "")
    if "\0" in ident:  # which no ad can hold
        ident = ""
    place = Entry(entry.dn, _NO_TEXTS, entry.line)  # what was published is not kept
    record = CleanEntry(place, ident, found)
    if entry.damaged and kind in HOLDERS:
        return damaged(record, HOLDERS[kind], report)
    return record


def _class(entry: Entry, kind: str | None) -> str | None:
    """Return the most particular class of GLUE that an entry is of, or None."""
    if kind is not None:
        return classes()[kind].name
    named = (
        classes().get(name.strip().lower()) for name in entry.attributes.get("objectClass", ())
    )
    found = [made for made in named if made is not None and made.kind == "structural"]
    return max(found, key=lambda made: len(ancestry(made.name))).name if found else None


def joined(
    first: GlueRecords,
    second: GlueRecords,
    report: Report | None = None,
    agree: Report | None = None,
) -> GlueRecords:
    """Join the records of two snapshots; of two of one kind and id the first stays.

    Args:
        first: records that stay.
        second: records that are added.
        report: called with ``source.duplicate`` for each queue and storage element left out.
        agree: given if both are of one source: a queue then admits whom all its descriptions admit,
            and this is called with ``access.conflict`` if they differ.

    >>> from matchmaker.glue.records import StorageElement
    >>> one = GlueRecords((), (), (), (StorageElement("se.S.grid", {}),))
    >>> other = GlueRecords((), (), (), (StorageElement("se.s.grid", {}),))
    >>> issues = []
    >>> [se.id for se in joined(one, other, issues.append).storage_elements], len(issues)
    (['se.S.grid'], 1)
    """
    queues: Sequence[ComputingElement] = first.computing_elements
    others: Sequence[ComputingElement] = second.computing_elements
    if agree is not None:
        queues = [*agreed_queues(queues, others, agree)]
    return GlueRecords(
        _both(first.sites, second.sites),
        _both(first.clusters, second.clusters),
        _both(queues, others, report),
        _both(first.storage_elements, second.storage_elements, report),
        (*first.downtimes, *second.downtimes),
    )


_T = TypeVar("_T", bound=GlueRecord)


def _both(old: Sequence[_T], new: Sequence[_T], report: Report | None = None) -> tuple[_T, ...]:
    known = {record.id.lower() for record in old}
    added = [record for record in new if record.id.lower() not in known]
    if report is not None and len(added) < len(new):
        said = "a record of this id came before; this one is left out"
        for record in new:
            if record.id.lower() in known:
                report(issue("source.duplicate", said, raw=record.id))
    return (*old, *added)


def _kind(entry: Entry) -> str | None:
    """Return the linked class of an entry, from its objectClass or else from its name."""
    named = entry.attributes.get("objectClass", ())
    found = _NO_CLASS
    for name in named:
        place = _PLACES.get(name)
        if place is None:
            place = _PLACES.get(name.strip().lower(), _NO_CLASS)
        found = min(found, place)
    if named:
        return _KINDS[found] if found < _NO_CLASS else None
    return _NAMED_BY.get(entry.dn.partition("=")[0].strip().lower())


# Lists of these are the ones that grow with the number of queues.
_KEYS: Final = ("GlueForeignKey", "GlueChunkKey")


def fitting(snapshot: GlueRecords, entries: int, report: Report) -> GlueRecords:
    """Leave out the largest queues, if the ads would be too large for the number of entries."""
    left, weigh = LIMITS.ads + LIMITS.ads_each * entries, _weigher()
    queues = snapshot.computing_elements
    weights = {id(ce): weigh(ce) for ce in queues}
    if sum(weights.values()) <= left:
        return snapshot
    kept: set[int] = set()
    # The largest go, so that a stranger's queues do not push out those of others.
    for ce in sorted(queues, key=lambda ce: weights[id(ce)]):
        left -= weights[id(ce)]
        if left >= 0:
            kept.add(id(ce))
        else:
            said = f"its ads would repeat {weights[id(ce)]} attributes and list items"
            report(issue("link.too-many", f"{said}; it is left out", raw=ce.id))
    return attrs.evolve(snapshot, computing_elements=tuple(ce for ce in queues if id(ce) in kept))


def _weigher() -> Callable[[ComputingElement], int]:
    """Make a function that counts roughly the attributes and list items of a queue's ads."""
    sizes: dict[int, int] = {}  # of clusters and hosts, which many queues share

    def size(values: Values) -> int:
        if id(values) not in sizes:
            keys = [key for name in _KEYS for key in texts(values.get(name))]
            others = sum(not key.lower().startswith(CE_KEY) for key in keys)
            sizes[id(values)] = len(values) + others
        return sizes[id(values)]

    def weigh(ce: ComputingElement) -> int:
        rules = [len(all_of([level.values])) for level in (ce, *ce.views)]
        hosts = 0
        if ce.cluster is not None:
            subs = [size(sub.values) for sub in ce.cluster.subclusters]
            hosts = size(ce.cluster.values) + max(subs, default=0)
        each = size(ce.values) + hosts + rules[0] + len(ce.bound)
        # An ad lists close storage once for each VO that it admits and that has an area there.
        areas = [len(bind.se.areas) if bind.se is not None else 0 for bind in ce.binds]
        close = sum(2 + min(number, count) for number in areas for count in rules)
        views = sum(size(view.values) for view in ce.views)
        return len(rules) * each + views + sum(rules) + close

    return weigh
