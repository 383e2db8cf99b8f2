"""From entries of any source to one snapshot: read, cleaned, sorted by class, and linked.

GLUE 1.3 is linked by `glue13`, GLUE 2.0 by `glue20`, both into the same `records`. Where a source
has both descriptions of a thing, as a BDII does, that of GLUE 1.3 stays: it is the more complete of
the two for a queue, and one description is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from matchmaker.classad import Value
from matchmaker.glue import glue13, glue20
from matchmaker.glue.clean import DEFAULT_RULES, check_rules
from matchmaker.glue.entries import Attributes, Entry
from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.linking import Record, normal_name, rdns
from matchmaker.glue.records import Snapshot
from matchmaker.glue.typed import values
from matchmaker.glue.weighing import fitting

_IDS = {**glue13.IDS, **glue20.IDS}
_NO_TEXTS = Attributes()
_NAMED_BY = {key.lower(): kind for kind, key in glue13.IDS.items()}


def build(
    entries: Iterable[Entry],
    report: Report,
    rules: frozenset[str] = DEFAULT_RULES,
    now: datetime | None = None,
) -> Snapshot:
    """Clean and link the entries of an information system.

    Args:
        entries: from `ldif.read_entries`, an LDAP search or another reader, in any order.
        report: called with an `Issue` for each value cleaned and each link that fails.
        rules: ids of the cleaning rules that are on.
        now: the time by which entries are fresh or stale, now if not given.

    Raises:
        ValueError: for an id that no cleaning rule has.
    """
    check_rules(rules)
    kinds: dict[str, list[Record]] = {kind: [] for kind in _IDS}
    seen: set[str] = set()
    now = now or datetime.now(UTC)
    for entry in entries:
        kind = _kind(entry)
        if kind is None:
            continue
        if (name := normal_name(entry.dn)) in seen:
            said = "an entry of this name came before, skipped"
            report(Issue("link.duplicate", said, entry.line, entry.dn))
            continue
        seen.add(name)
        found = values(entry, report, rules, now)
        ident = _ident(entry, found.get(_IDS[kind]), kind)
        place = Entry(entry.dn, _NO_TEXTS, entry.line)  # what was published is not kept
        kinds[kind].append(Record(place, ident, found))
    linked = joined(glue13.link(kinds, report), glue20.link(kinds, report, rules))
    return fitting(linked, sum(map(len, kinds.values())), report)


def joined(first: Snapshot, second: Snapshot, report: Report | None = None) -> Snapshot:
    """The records of two snapshots; where both have one of a kind and id, that of the first.

    Args:
        first: whose records stay.
        second: whose records are added.
        report: called with ``source.duplicate`` for each queue and storage element left out.

    >>> from matchmaker.glue.records import StorageElement
    >>> one = Snapshot((), (), (), (StorageElement("se.S.grid", {}),))
    >>> other = Snapshot((), (), (), (StorageElement("se.s.grid", {}),))
    >>> issues = []
    >>> [se.id for se in joined(one, other, issues.append).storage_elements], len(issues)
    (['se.S.grid'], 1)
    """
    return Snapshot(
        _both(first.sites, second.sites),
        _both(first.clusters, second.clusters),
        _both(first.computing_elements, second.computing_elements, report),
        _both(first.storage_elements, second.storage_elements, report),
    )


class _Named(Protocol):
    @property
    def id(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


def _both(old: Sequence[_T], new: Sequence[_T], report: Report | None = None) -> tuple[_T, ...]:
    known = {record.id.lower() for record in old}
    added = [record for record in new if record.id.lower() not in known]
    if report is not None and len(added) < len(new):
        said = "a record of this id came before; this one is left out"
        for record in new:
            if record.id.lower() in known:
                report(Issue("source.duplicate", said, raw=record.id))
    return (*old, *added)


def _ident(entry: Entry, published: Value | None, kind: str) -> str:
    """The id of an entry: the attribute's text or, without one, from its name.

    An id that no ad can hold counts as none.
    """
    named = rdns(entry.dn).get(_IDS[kind].lower(), "")
    ident = published if isinstance(published, str) and published else named
    return "" if "\0" in ident else ident


def _kind(entry: Entry) -> str | None:
    """The class of an entry that is linked, from its objectClass or else from its name."""
    named = {name.strip().lower() for name in entry.attributes.get("objectClass", ())}
    for kind in _IDS:
        if kind in named:
            return kind
    attribute = entry.dn.partition("=")[0].strip().lower()
    return None if named else _NAMED_BY.get(attribute)
