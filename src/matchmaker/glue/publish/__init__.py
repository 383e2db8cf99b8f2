"""Publish records: ids that a directory can hold, and entries as a server with the schema takes.

`publishable` leaves out records without an id that the schema can hold, or with the id of another,
and reports them. A `EntryWriter` makes an entry of values: it names all the classes that its
attributes need, has the attributes that these must have, and reports values that the schema has no
room for. `trees` decides which entries there are, and `site` describes the queues and nodes of a
site.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, TypeVar
from unicodedata import category, normalize

import attrs

from matchmaker.classad import UNDEFINED, Value
from matchmaker.classad.functions.control import rule_texts
from matchmaker.glue.access import ALSO, CLOSED, RULES, all_of, denies, folded, required
from matchmaker.glue.clean import text_of
from matchmaker.glue.clean.rules import RULES_OF_ACCESS
from matchmaker.glue.entries import Attributes, Entry, cut, key_values, rdn
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.records import (
    ComputingElement,
    GlueCluster,
    GlueRecords,
    Values,
    queue_name,
    texts,
)
from matchmaker.glue.schema import (
    GLUE1_IDS,
    GLUE2_IDS,
    ancestry,
    attribute,
    classes,
    object_classes,
)

_KEYS = {"GlueForeignKey", "GlueChunkKey"}  # of which an entry may have more than are made here
_NAMED_BY: Final = {**GLUE1_IDS, **GLUE2_IDS}
_OTHER: Final = "GLUE2EntityOtherInfo"
_NONE: Final[Values] = {}
_UNKNOWN: Final = "undefined"
# The number that GLUE 1.3 has for unknown figures; readers clean it away.
_UNKNOWN_NUMBER: Final = "444444"
Pairs = Iterable[tuple[str, str]]


_OURS: Final = frozenset({"glue2", "objectclass", "update_time", "expiry_time"})
"""Values that readers add to a record."""


@attrs.frozen(slots=True)
class EntryWriter:
    """Makes entries of one snapshot, and reports what they cannot hold."""

    report: Report

    def below(
        self, above: str, kind: str, ident: str, values: Values, more: Pairs = (), *,
        other: Values = _NONE,
    ) -> Entry:  # fmt: skip
        """Make an entry below another, named by the id of its class; all else as `entry`."""
        name = _NAMED_BY[kind.lower()]
        dn = f"{rdn(name, ident)},{above}"
        return self.entry(dn, kind, values, [(name, ident), *more], other)

    def entry(
        self, dn: str, kind: str, values: Values, more: Pairs = (), other: Values = _NONE
    ) -> Entry:
        """Make an entry of a class from the values that it may have, and from further pairs.

        Args:
            dn: its name.
            kind: its structural class.
            values: by attribute; those that are UNDEFINED, or of no class that can join, are not
                published.
            more: names and texts, before the values.
            other: values of GLUE 1.3 that an entry of GLUE 2.0 has in its OtherInfo.
        """
        pairs: dict[str, list[str]] = {}
        for name, text in more:
            pairs.setdefault(name, []).append(text)
        for name, value in other.items():
            for text in self._texts(dn, name, value):
                pairs.setdefault(_OTHER, []).append(f"{name}={text}")
        for name, value in values.items():
            if attribute(name) is None:
                if name.lower() not in _OURS:
                    said = "the schema has no such attribute, left out"
                    self.report(issue("publish.class", said, dn=dn, attribute=name))
                continue
            if name in pairs and name not in {*_KEYS, _OTHER}:
                continue
            if name == RULES:
                self.access(dn, value)
            shown = [CLOSED] if name == RULES and value == [] else value
            if texts := self._texts(dn, name, shown):
                pairs[name] = list(dict.fromkeys([*pairs.get(name, ()), *texts]))
        self._complete(kind, pairs)
        named = object_classes(kind, pairs)
        allowed = (classes()[each.lower()] for each in named)
        room = {n.lower() for known in allowed for n in (*known.must, *known.may)}
        kept = {name: texts for name, texts in pairs.items() if name.lower() in room}
        for name in pairs.keys() - kept.keys():
            said = f"an entry of class {kind} has no room for it, left out"
            self.report(issue("publish.class", said, dn=dn, attribute=name))
        found = [("objectClass", n) for n in named if n != "Mds" or kind == "Mds"]
        found += [(name, text) for name, texts in kept.items() for text in texts]
        return Entry(dn, Attributes(found))

    def access(self, dn: str, rules: Value) -> None:
        """Report rules of access that no rule of GLUE can say."""
        if rules == []:
            said = f"it admits nobody: published with {CLOSED}, which readers other than a WMS skip"
        elif rules is UNDEFINED:
            said = "whom it admits is not known: published without a rule"
        else:
            return
        self.report(issue("publish.access", said, dn=dn, attribute=RULES))

    def _complete(self, kind: str, pairs: dict[str, list[str]]) -> None:
        """Fill in attributes that the schema requires with its word for "not known"."""
        for known in ancestry(kind):
            for name in known.must:
                if name not in pairs:
                    made = attribute(name)
                    number = made is not None and made.ldap == "integer"
                    usual = made.usual if made is not None else ""
                    pairs[name] = [usual or (_UNKNOWN_NUMBER if number else _UNKNOWN)]

    def _texts(self, dn: str, name: str, value: Value) -> list[str]:
        known = attribute(name)
        items = value if isinstance(value, list) else [value]
        texts: dict[str, str] = {}
        for item in items:
            text = None if item is UNDEFINED else text_of(name, item)
            if text is not None:
                # Strings of GLUE 1.3 are equal whatever their case.
                texts.setdefault(text.lower() if known and known.version == "1.3" else text, text)
            elif item is not UNDEFINED and item != "":
                said = "no value of the schema's type, left out"
                self.report(issue("publish.value", said, dn=dn, attribute=name, raw=str(item)))
                if name in RULES_OF_ACCESS:  # it might deny
                    texts[CLOSED] = CLOSED
        found = list(texts.values())
        return found if known is not None and known.multi else found[:1]


NOWHERE: Final = "resource"
"""The name of the site of things that belong to none, as a single resource publishes itself."""

_T = TypeVar("_T")
# Control and format characters, which RFC 4518 maps to nothing.
_UNSEEN: Final = frozenset({"Cc", "Cf"})


def key(ident: str) -> str:
    r"""Fold an id as ids are compared: directories see neither case nor spare space in them.

    Nor do they see how a character is composed, or characters without width (RFC 4518, section 2).

    >>> key(" CE01  a "), key("\ufb01le")
    ('ce01 a', 'file')
    """
    text = ident.lower()
    if not text.isascii():
        text = normalize("NFKC", text).lower()
    if not text.isprintable():
        text = "".join(char for char in text if char.isspace() or category(char) not in _UNSEEN)
    return " ".join(text.split())


LONGEST_NAME: Final = 244
"""Bytes of the first part of a name that OpenLDAP's database holds, each escaped one as three."""

# Less than a name's limit: a tag such as GLUE2PolicyID= stands before an id.
_SHORT: Final = 200
_WIDE: Final = re.compile(rb'\\[0-9A-Fa-f]{2}|\\.|[^\x20-\x7e]|[,+"\\<>;=#]', re.DOTALL)


def _width(text: str) -> int:
    return len(_WIDE.sub(b"xxx", text.encode("utf-8", "surrogatepass")))


def made_id(text: str) -> str:
    """Return an id that is made here, or its digest if a directory could not hold it.

    >>> made_id("ce.s.grid_policy"), len(made_id("q" * 300))
    ('ce.s.grid_policy', 35)
    """
    if _width(text) <= _SHORT:
        return text
    return f"id-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def publishable_entries(entries: Iterable[Entry], report: Report) -> Iterator[Entry]:
    """Yield the entries whose names a directory can hold, without those below the others.

    Args:
        entries: parents first.
        report: called with ``publish.id`` for each that is left out itself.

    >>> from matchmaker.glue.entries import Attributes
    >>> found = []
    >>> long = Entry(f"GlueCEUniqueID={'q' * 250},o=grid", Attributes())
    >>> view = Entry(f"GlueVOViewLocalID=x,{long.dn}", Attributes())
    >>> list(publishable_entries([long, view], found.append))
    []
    >>> print(found[0].rule, found[0].message)
    publish.id its name has 265 bytes, and OpenLDAP holds 244: this entry is left out
    """
    lost: set[str] = set()
    for entry in entries:
        name, above = cut(entry.dn)
        if above in lost:
            lost.add(entry.dn)
        elif (width := _width(name) - 2) > LONGEST_NAME:
            lost.add(entry.dn)
            said = f"its name has {width} bytes, and OpenLDAP holds {LONGEST_NAME}"
            report(issue("publish.id", f"{said}: this entry is left out", raw=name))
        else:
            yield entry


def publishable(snapshot: GlueRecords, version: str, report: Report) -> GlueRecords:
    """Return what a version of GLUE can hold of a snapshot, and every queue's cluster.

    Args:
        snapshot: linked records.
        version: ``1.3``, whose ids are ASCII, or ``2.0``.
        report: called with ``publish.id`` for an id that cannot be held, ``publish.duplicate`` for
            a second one, ``publish.no-site`` for a record of no site.
    """
    check = _Check(version, report)
    sites = tuple(check.named("site", snapshot.sites))
    clusters = check.clusters(snapshot)
    queues = []
    for named in check.named("queue", snapshot.computing_elements):
        levels = (attrs.evolve(view, values=with_one_list(view.values)) for view in named.views)
        single = attrs.evolve(named, values=with_one_list(named.values), views=tuple(levels))
        ce = check.denying(single)
        cluster = clusters.get(_seen_as(ce.cluster)) if ce.cluster is not None else None
        if cluster is None:
            check.homeless("queue", ce.id)
        queues.append(
            attrs.evolve(
                ce,
                cluster=cluster,
                views=tuple(check.named(f"view of {ce.id}", ce.views)),
                binds=tuple(check.named(f"bind of {ce.id}", ce.binds, "se_id")),
                bound=tuple(se for se in ce.bound if not check.wrong(se)),
            )
        )
    elements = [
        attrs.evolve(element, areas=tuple(check.named(f"area of {element.id}", element.areas)))
        for element in check.named("storage element", snapshot.storage_elements)
    ]
    found = GlueRecords(sites, tuple(clusters.values()), tuple(queues), tuple(elements))
    homes = homes_of_storage(found)
    for cluster in found.clusters:
        if not cluster.site_id:
            check.homeless("cluster", cluster.id)
    for element in elements:
        if not homes[element.id]:
            check.homeless("storage element", element.id)
    return found


def with_one_list(values: Values) -> Values:
    """Return values with one list of rules, which admits nobody whom the several refuse.

    Of rules that differ none stays but denials.

    >>> with_one_list({RULES: ["VO:cms", "VO:ops"], ALSO: [["VO:CMS", "DENY:VO:ops"]]})[RULES]
    ['VO:cms', 'DENY:VO:ops']
    """
    if ALSO not in values:
        return values
    lists = [set(map(folded, rule_texts([one]))) for one in required(values)]
    kept = {
        folded(rule): rule
        for rule in reversed(all_of([values]))
        if denies(rule) or all(folded(rule) in one or one == {"all"} for one in lists)
    }
    own: dict[str, Value] = {RULES: [*reversed(kept.values())]}
    return {name: value for name, value in values.items() if name != ALSO} | own


def homes_of_storage(snapshot: GlueRecords) -> Mapping[str, str]:
    """Return the site of each storage element: by its own key, else of the first close queue."""
    close: dict[str, str] = {}
    for ce in snapshot.computing_elements:
        if ce.cluster is not None and ce.cluster.site_id:
            for bind in ce.binds:
                close.setdefault(key(bind.se_id), ce.cluster.site_id)
    homes: dict[str, str] = {}
    for element in snapshot.storage_elements:
        own = key_values(element.values, "GlueForeignKey", "GlueSiteUniqueID")
        homes[element.id] = own[0] if own else close.get(key(element.id), "")
    return homes


@attrs.frozen(slots=True)
class _Check:
    """Checks ids for one version of GLUE."""

    version: str
    report: Report

    def wrong(self, ident: str) -> str:
        """Return why a directory cannot hold an id; empty if it can."""
        if "\0" in ident or any("\ud800" <= char <= "\udfff" for char in ident):
            return "an id that is no text of a directory"
        if not key(ident):
            return "an id with nothing to be seen in it"
        if self.version == "1.3" and not ident.isascii():
            return "GLUE 1.3 has ids in ASCII only"
        return ""

    def named(self, kind: str, records: Iterable[_T], by: str = "id") -> Iterator[_T]:
        """Yield records whose ids, without space around them, can be held and are their own."""
        seen: set[str] = set()
        ident_of: Callable[[Any], str] = attrgetter(by)
        for record in records:
            ident = ident_of(record).strip()
            if why := self.wrong(ident):
                said = f"{why}: this {kind} is left out"
                self.report(issue("publish.id", said, raw=ident))
            elif key(ident) in seen:
                said = f"this {kind} has the id of another but for case and space; it is left out"
                self.report(issue("publish.duplicate", said, raw=ident))
            else:
                seen.add(key(ident))
                same = ident == ident_of(record)
                yield record if same else attrs.evolve(record, **{by: ident})  # type: ignore[misc]

    def denying(self, ce: ComputingElement) -> ComputingElement:
        """Make a queue deny whom those of its views deny that `named` leaves out."""
        times = Counter(key(view.id) for view in ce.views)
        lost = [v for v in ce.views if self.wrong(v.id.strip()) or times[key(v.id)] > 1]
        denied = [r for view in lost for r in texts(view.values.get(RULES)) if denies(r)]
        rules = [*dict.fromkeys([*texts(ce.values.get(RULES)), *denied])]
        return attrs.evolve(ce, values={**ce.values, RULES: rules}) if denied else ce

    def homeless(self, kind: str, ident: str) -> None:
        """Report a record that belongs to no site."""
        said = f"this {kind} has no site; name one with --site or in its ad. It is published"
        where = f"outside all sites, under {NOWHERE!r}"
        self.report(issue("publish.no-site", f"{said} {where}", raw=ident))

    def clusters(self, snapshot: GlueRecords) -> dict[tuple[str, ...], GlueCluster]:
        """Return the clusters by what queues see of them, also those that only a queue knows.

        GLUE 2.0 may show a cluster with some of its hosts to some of its queues. GLUE 1.3 has no
        word for that: there each such set of hosts is a cluster, after the first by the name of its
        first queue.
        """
        clusters = [*snapshot.clusters]
        clusters += [ce.cluster for ce in snapshot.computing_elements if ce.cluster is not None]
        queues: dict[tuple[str, ...], ComputingElement] = {}
        for ce in snapshot.computing_elements:
            if ce.cluster is not None:
                queues.setdefault(_seen_as(ce.cluster), ce)
        found: dict[tuple[str, ...], GlueCluster] = {}
        names: set[str] = set()
        for cluster in clusters:
            place, ident = _seen_as(cluster), cluster.id.strip()
            if place in found:
                continue
            if why := self.wrong(ident):
                said = f"{why}: this cluster is left out"
                self.report(issue("publish.id", said, raw=ident))
                continue
            if self.version == "1.3" and key(ident) in names:
                ident += f"/{queue_name(queues[place].id) if place in queues else len(found)}"
            names.add(key(ident))
            found[place] = attrs.evolve(
                cluster,
                id=ident,
                site_id="" if self.wrong(cluster.site_id) else cluster.site_id.strip(),
                subclusters=tuple(self.named(f"SubCluster of {ident}", cluster.subclusters)),
            )
        return found


def _seen_as(cluster: GlueCluster) -> tuple[str, ...]:
    return (key(cluster.id), *(key(sub.id) for sub in cluster.subclusters))


def merged_clusters(clusters: Iterable[GlueCluster]) -> Iterator[GlueCluster]:
    """Yield each cluster once, with all the hosts that any of its queues sees."""
    found: dict[str, GlueCluster] = {}
    for cluster in clusters:
        known = found.get(cluster.id, cluster)
        subs = {sub.id: sub for sub in (*known.subclusters, *cluster.subclusters)}
        found[cluster.id] = attrs.evolve(known, subclusters=tuple(subs.values()))
    yield from found.values()
