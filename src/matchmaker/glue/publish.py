"""Publishing records: entries of GLUE 1.3 as an LDAP server with its schema takes them.

An entry names all the classes that its attributes need, parents come first, and values that the
schema has no room for are left out and reported. GLUE 2.0 is in `publish20`, LDIF in `ldif`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.values import MAX_INT
from matchmaker.glue.access import RULES
from matchmaker.glue.clean_texts import UNLIMITED
from matchmaker.glue.issues import Issue, Report, excerpt
from matchmaker.glue.ldif import Attributes, Entry
from matchmaker.glue.publishable import NOWHERE, homes_of_storage, key, publishable
from matchmaker.glue.records import Cluster, ComputingElement, Snapshot, StorageElement, Values
from matchmaker.glue.schema import ancestry, attribute, classes, object_classes

BASE: Final = "Mds-Vo-name=local,o=grid"
_SPECIAL = re.compile(r'([,+"\\<>;=])')
_CODED = re.compile(r"[^\x20-\x7e]")
_KEYS = {"GlueForeignKey", "GlueChunkKey"}  # of which an entry may have more than are made here
_OTHER: Final = "GLUE2EntityOtherInfo"
_NONE: Final[Values] = {}
_NO_LIMIT = {"GlueCEPolicyMaxTotalJobs", "GLUE2ComputingShareMaxTotalJobs"}
_UNKNOWN: Final = "undefined"
_UNKNOWN_NUMBER: Final = "444444"
_USUAL: Final = {
    "GLUE2ServiceType": "org.ogf.glue.Service",
    "GLUE2ServiceQualityLevel": "production",
    "GLUE2EndpointQualityLevel": "production",
    "GLUE2EndpointHealthState": "unknown",
    "GLUE2PolicyScheme": "org.glite.standard",
    "GLUE2StorageShareSharingID": "dedicated",
}
"""What stands where the schema wants a word, none is told, and it has a better one than unknown."""

_VERSION = [("GlueSchemaVersionMajor", "1"), ("GlueSchemaVersionMinor", "3")]

Pairs = Iterable[tuple[str, str]]


def rdn(name: str, value: str) -> str:
    r"""One part of a name, with what LDAP takes for its own escaped (RFC 4514, section 2.4).

    >>> rdn("GlueCEUniqueID", "ce.s.grid:8443/cream-pbs-a,b")
    'GlueCEUniqueID=ce.s.grid:8443/cream-pbs-a\\,b'
    >>> rdn("o", "caf\u00e9")
    'o=caf\\c3\\a9'
    """
    text = _SPECIAL.sub(r"\\\1", value)
    # In hexadecimal what is not printable ASCII, so that a file of entries has plain names.
    text = _CODED.sub(lambda found: "".join(f"\\{byte:02x}" for byte in _bytes(found[0])), text)
    if text[:1] in (" ", "#"):
        text = f"\\{text}"
    if text.endswith(" ") and len(text) > 1:
        text = f"{text[:-1]}\\ "
    return f"{name}={text}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def text_of(name: str, value: Value) -> str | None:
    """A value as a directory holds it; None where it has no room for it.

    >>> text_of("GlueHostNetworkAdapterOutboundIP", True), text_of("GlueCEStateFreeCPUs", 7)
    ('TRUE', '7')
    >>> text_of("GlueCEStateFreeCPUs", "many") is None
    True
    """
    known = attribute(name)
    if known is None or isinstance(value, ClassAd):
        return None
    if isinstance(value, bool):
        # GLUE 2.0 has its booleans as text, in small letters.
        return str(value).upper() if known.ldap == "boolean" else str(value).lower()
    if known.classad in ("integer", "real"):
        return _number(name, known.ldap, value)
    if known.ldap == "boolean" or not isinstance(value, str):
        return None
    text = value.strip()
    if not text or (known.version == "1.3" and not text.isascii()) or not text.isprintable():
        return None
    return text


def _number(name: str, ldap: str, value: Value) -> str | None:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    if abs(value) > MAX_INT:  # no reader takes it for a number
        return None
    if value == UNLIMITED and name in _NO_LIMIT:
        return "0"
    return str(round(value)) if ldap == "integer" else f"{value:.15g}"


@attrs.frozen(slots=True)
class Writer:
    """Makes entries of one snapshot, and tells what they cannot hold."""

    report: Report

    def entry(
        self, dn: str, kind: str, values: Values, more: Pairs = (), other: Values = _NONE
    ) -> Entry:
        """An entry of a class: the values that it may have, and pairs that it is to have besides.

        Args:
            dn: its name.
            kind: its structural class.
            values: by attribute; what is UNDEFINED, or of no class that can join, is not published.
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
            if attribute(name) is None or (name in pairs and name not in {*_KEYS, _OTHER}):
                continue
            if name == RULES:
                self.access(dn, value)
            if texts := self._texts(dn, name, value):
                pairs[name] = list(dict.fromkeys([*pairs.get(name, ()), *texts]))
        self._complete(kind, pairs)
        named = object_classes(kind, pairs)
        room = {n.lower() for known in named for n in _room(known)}
        kept = {name: texts for name, texts in pairs.items() if name.lower() in room}
        for name in pairs.keys() - kept.keys():
            said = f"an entry of class {kind} has no room for it, left out"
            self.report(Issue("publish.class", said, dn=dn, attribute=name))
        found = [("objectClass", n) for n in named if n != "Mds" or kind == "Mds"]
        found += [(name, text) for name, texts in kept.items() for text in texts]
        return Entry(dn, Attributes(found))

    def access(self, dn: str, rules: Value) -> None:
        """Tells of rules of access that no rule can say, so that a reader will take none."""
        if rules == []:
            said = "it admits nobody, which no rule says: published as open to all"
        elif rules is UNDEFINED:
            said = "whom it admits is not known: published as open to all"
        else:
            return
        self.report(Issue("publish.access", said, dn=dn, attribute=RULES))

    def _complete(self, kind: str, pairs: dict[str, list[str]]) -> None:
        """What the schema wants and nobody has told: the schema's word for "not known"."""
        for known in ancestry(kind):
            for name in known.must:
                if name not in pairs:
                    made = attribute(name)
                    number = made is not None and made.ldap == "integer"
                    pairs[name] = [_USUAL.get(name, _UNKNOWN_NUMBER if number else _UNKNOWN)]

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
                self.report(
                    Issue("publish.value", said, dn=dn, attribute=name, raw=excerpt(str(item)))
                )
        found = list(texts.values())
        return found if known is not None and known.multi else found[:1]


def _room(name: str) -> tuple[str, ...]:
    known = classes()[name.lower()]
    return (*known.must, *known.may)


def entries13(snapshot: Snapshot, report: Report, base: str = BASE) -> Iterator[Entry]:
    """The entries of GLUE 1.3 for a snapshot, parents first.

    Args:
        snapshot: linked records.
        report: called with an `Issue` for each value that cannot be published.
        base: the name that each site is put under, as ``Mds-Vo-name=SITE``.
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
        more = [
            ("GlueSiteUniqueID", site.id),
            ("GlueForeignKey", f"GlueSiteUniqueID={site.id}"),
            *_VERSION,
        ]
        dn = f"{rdn('GlueSiteUniqueID', site.id)},{home(site.id)}"
        yield writer.entry(dn, "GlueSite", site.values, more)
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
    dn = f"{rdn('GlueClusterUniqueID', cluster.id)},{home}"
    keys = [f"GlueSiteUniqueID={cluster.site_id}"] if cluster.site_id else []
    keys += [f"GlueCEUniqueID={ce.id}" for ce in queues]
    more = [("GlueClusterUniqueID", cluster.id), *(("GlueForeignKey", each) for each in keys)]
    yield writer.entry(dn, "GlueCluster", cluster.values, [*more, *_VERSION])
    for sub in cluster.subclusters:
        more = [
            ("GlueSubClusterUniqueID", sub.id),
            ("GlueChunkKey", f"GlueClusterUniqueID={cluster.id}"),
            *_VERSION,
        ]
        below = f"{rdn('GlueSubClusterUniqueID', sub.id)},{dn}"
        yield writer.entry(below, "GlueSubCluster", sub.values, more)


def _queue(writer: Writer, ce: ComputingElement, home: str) -> Iterator[Entry]:
    dn = f"{rdn('GlueCEUniqueID', ce.id)},{home}"
    more = [("GlueCEUniqueID", ce.id)]
    if ce.cluster is not None:
        more.append(("GlueForeignKey", f"GlueClusterUniqueID={ce.cluster.id}"))
    yield writer.entry(dn, "GlueCE", ce.values, [*more, *_VERSION])
    for view in ce.views:
        more = [("GlueVOViewLocalID", view.id), ("GlueChunkKey", f"GlueCEUniqueID={ce.id}")]
        below = f"{rdn('GlueVOViewLocalID', view.id)},{dn}"
        yield writer.entry(below, "GlueVOView", _differing(view.values, ce.values), more)
    if not ce.binds and not ce.bound:
        return
    group = f"{rdn('GlueCESEBindGroupCEUniqueID', ce.id)},{home}"
    close = dict.fromkeys((*ce.bound, *(bind.se_id for bind in ce.binds)))
    more = [
        ("GlueCESEBindGroupCEUniqueID", ce.id),
        *(("GlueCESEBindGroupSEUniqueID", se) for se in close),
    ]
    yield writer.entry(group, "GlueCESEBindGroup", {}, [*more, *_VERSION])
    for bind in ce.binds:
        more = [("GlueCESEBindCEUniqueID", ce.id), ("GlueCESEBindSEUniqueID", bind.se_id)]
        mount = {"GlueCESEBindCEAccesspoint": bind.mount} if bind.mount else {}
        below = f"{rdn('GlueCESEBindSEUniqueID', bind.se_id)},{group}"
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
    dn = f"{rdn('GlueSEUniqueID', element.id)},{home}"
    yield writer.entry(dn, "GlueSE", element.values, [("GlueSEUniqueID", element.id), *_VERSION])
    for area in element.areas:
        more = [("GlueSALocalID", area.id), ("GlueChunkKey", f"GlueSEUniqueID={element.id}")]
        below = f"{rdn('GlueSALocalID', area.id)},{dn}"
        yield writer.entry(below, "GlueSA", area.values, [*more, *_VERSION])
