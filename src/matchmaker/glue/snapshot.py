"""A snapshot of a GLUE 1.3 information system: its entries as records, and the links between them.

Here entries become sites, clusters, SubClusters, CEs, VOViews, close storage, storage elements and
their areas. Records refer to each other by object, not by key; keys that lead nowhere or twice are
reported. What belongs to one record is ordered by id, as the answers of a server come in no order
that means anything. Reading is in `ldif`, values in `typed`, the ads of queues in `flatten`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import attrs

from matchmaker.classad import Value
from matchmaker.glue.clean import DEFAULT_RULES, check_rules
from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.ldif import Entry
from matchmaker.glue.typed import values

Values: TypeAlias = Mapping[str, Value]


@attrs.frozen(slots=True, eq=False)
class Site:
    """A site (GlueSite)."""

    id: str
    values: Values


@attrs.frozen(slots=True, eq=False)
class SubCluster:
    """A set of like hosts in a cluster (GlueSubCluster)."""

    id: str
    values: Values


@attrs.frozen(slots=True, eq=False)
class Cluster:
    """A cluster (GlueCluster); its site's key is kept as it may name a site not in the snapshot."""

    id: str
    values: Values
    site_id: str = ""
    site: Site | None = None
    subclusters: tuple[SubCluster, ...] = ()


@attrs.frozen(slots=True, eq=False)
class StorageArea:
    """What a storage element offers one virtual organisation (GlueSA)."""

    id: str
    values: Values


@attrs.frozen(slots=True, eq=False)
class StorageElement:
    """A storage element (GlueSE)."""

    id: str
    values: Values
    areas: tuple[StorageArea, ...] = ()


@attrs.frozen(slots=True, eq=False)
class Bind:
    """A storage element close to a CE (GlueCESEBind), with the path it is mounted on."""

    se_id: str
    mount: str
    values: Values
    se: StorageElement | None = None


@attrs.frozen(slots=True, eq=False)
class VOView:
    """What a queue looks like to one virtual organisation (GlueVOView)."""

    id: str
    values: Values


@attrs.frozen(slots=True, eq=False)
class ComputingElement:
    """A queue of a batch system (GlueCE) with all that is linked to it.

    `bound` are the ids that its GlueCESEBindGroup lists.
    """

    id: str
    values: Values
    cluster: Cluster | None = None
    views: tuple[VOView, ...] = ()
    binds: tuple[Bind, ...] = ()
    bound: tuple[str, ...] = ()


@attrs.frozen(slots=True)
class _Record:
    """An entry of a class that is linked, and its values."""

    entry: Entry
    id: str
    values: Values

    def text(self, name: str) -> str:
        found = self.values.get(name)
        return found if isinstance(found, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.values.get(name, ())
        return tuple(x for x in found if isinstance(x, str)) if isinstance(found, list) else ()


# The attribute that names an entry of each class, most particular class first.
_KEYS = {
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
_NAMED_BY = {key.lower(): kind for kind, key in _KEYS.items()}
_ID = re.compile(r"(?P<contact>[^/\n]+/[^-\n]+-(?P<lrms>[^-\n]+))-(?P<queue>[^\n]+)\Z")
_COMMA = re.compile(r"(?<!\\),")


def split_id(ce_id: str) -> tuple[str, str, str] | None:
    """The contact string, batch system and queue that a CE's id is made of; None if it is not.

    The broker's pattern, ``(.+/[^-]+-([^-]+))-(.+)``, held to one slash so as not to backtrack.

    >>> split_id("ce01.cnaf.grid:8443/cream-slurm-egee")
    ('ce01.cnaf.grid:8443/cream-slurm', 'slurm', 'egee')
    >>> split_id("ce01.cnaf.grid") is None
    True
    """
    found = _ID.match(ce_id)
    return (found["contact"], found["lrms"], found["queue"]) if found else None


@attrs.frozen(slots=True)
class Snapshot:
    """The records of an information system, in the order they were published."""

    sites: tuple[Site, ...]
    clusters: tuple[Cluster, ...]
    computing_elements: tuple[ComputingElement, ...]
    storage_elements: tuple[StorageElement, ...]


def build(
    entries: Iterable[Entry], report: Report, rules: frozenset[str] = DEFAULT_RULES
) -> Snapshot:
    """Clean and link the entries of an information system.

    Args:
        entries: from `ldif.read_entries` or an LDAP search, in any order.
        report: called with an `Issue` for each value cleaned and each link that fails.
        rules: ids of the cleaning rules that are on.

    Raises:
        ValueError: for an id that no cleaning rule has.
    """
    check_rules(rules)
    kinds: dict[str, list[_Record]] = {kind: [] for kind in _KEYS}
    seen: set[str] = set()
    for entry in entries:
        kind = _kind(entry)
        if kind is None:
            continue
        if (name := _normal(entry.dn)) in seen:
            said = "an entry of this name came before, skipped"
            report(Issue("link.duplicate", said, entry.line, entry.dn))
            continue
        seen.add(name)
        found = values(entry, report, rules)
        kinds[kind].append(_Record(entry, _ident(entry, found.get(_KEYS[kind]), kind), found))
    return _linked(kinds, report)


def _ident(entry: Entry, published: Value | None, kind: str) -> str:
    """The id of an entry: the attribute's text or, without one, from its name.

    An id that no ad can hold counts as none.
    """
    named = _rdns(entry.dn).get(_KEYS[kind].lower(), "")
    ident = published if isinstance(published, str) and published else named
    return "" if "\0" in ident else ident


def _kind(entry: Entry) -> str | None:
    """The class of an entry that is linked, from its objectClass or else from its name."""
    named = {name.strip().lower() for name in entry.attributes.get("objectClass", ())}
    for kind in _KEYS:
        if kind in named:
            return kind
    attribute = entry.dn.partition("=")[0].strip().lower()
    return None if named else _NAMED_BY.get(attribute)


def _rdns(dn: str) -> dict[str, str]:
    """The first value of each attribute in a name, by the attribute in lower case."""
    parts: dict[str, str] = {}
    for part in _COMMA.split(dn):
        attribute, _, value = part.partition("=")
        parts.setdefault(attribute.strip().lower(), re.sub(r"\\(.)", r"\1", value.strip()))
    return parts


def _normal(dn: str) -> str:
    parts = (part.partition("=") for part in _COMMA.split(dn.lower()))
    return ",".join(f"{attribute.strip()}={value.strip()}" for attribute, _, value in parts)


def _key(record: _Record, attribute: str, target: str) -> list[str]:
    """The values of keys such as ``GlueClusterUniqueID=…`` to a kind of target."""
    prefix = f"{target.lower()}="
    keys = (key.strip() for key in record.texts(attribute))
    return list(
        dict.fromkeys(key[len(prefix) :].strip() for key in keys if key.lower().startswith(prefix))
    )


def _parent(record: _Record, target: str) -> str:
    """The id of the target that a chunk key, else the entry's own name, puts a record under."""
    keys = _key(record, "GlueChunkKey", target)
    return (keys[0] if keys else _rdns(record.entry.dn).get(target.lower(), "")).lower()


def _linked(kinds: Mapping[str, list[_Record]], report: Report) -> Snapshot:
    sites = {r.id.lower(): Site(r.id, r.values) for r in _unique(kinds["gluesite"], report)}
    areas = _under(kinds["gluesa"], "GlueSEUniqueID")
    ses = {
        r.id.lower(): StorageElement(
            r.id,
            r.values,
            tuple(StorageArea(a.id, a.values) for a in areas.get(r.id.lower(), ())),
        )
        for r in _unique(kinds["gluese"], report)
    }
    clusters = _clusters(kinds, sites, report)
    ces = tuple(_computing_elements(kinds, clusters, ses, report))
    return Snapshot(tuple(sites.values()), tuple(clusters.values()), ces, tuple(ses.values()))


def _unique(records: Iterable[_Record], report: Report) -> Iterator[_Record]:
    """Records with an id of their own; the first of several stays."""
    seen: set[str] = set()
    for record in records:
        if not record.id:
            report(_issue(record, "link.no-id", "no id, skipped"))
        elif record.id.lower() in seen:
            report(_issue(record, "link.duplicate", "its id came before, skipped", record.id))
        else:
            seen.add(record.id.lower())
            yield record


def _under(records: Iterable[_Record], target: str) -> dict[str, list[_Record]]:
    grouped: dict[str, list[_Record]] = {}
    for record in records:
        grouped.setdefault(_parent(record, target), []).append(record)
    return {key: _by_id(group) for key, group in grouped.items()}


def _by_id(records: Iterable[_Record]) -> list[_Record]:
    return sorted(records, key=lambda record: (record.id.lower(), record.id))


def _clusters(
    kinds: Mapping[str, list[_Record]], sites: Mapping[str, Site], report: Report
) -> dict[str, Cluster]:
    subclusters = _under(kinds["gluesubcluster"], "GlueClusterUniqueID")
    clusters: dict[str, Cluster] = {}
    for record in _unique(kinds["gluecluster"], report):
        keys = _key(record, "GlueForeignKey", "GlueSiteUniqueID")
        site_id = _first(record, keys, report)
        if site_id and site_id.lower() not in sites:
            report(_dangling(record, f"GlueSiteUniqueID={site_id}"))
        subs = tuple(SubCluster(r.id, r.values) for r in subclusters.pop(record.id.lower(), ()))
        if not subs:
            said = "no SubCluster, so nothing is known of its hosts"
            report(_issue(record, "link.no-subcluster", said))
        clusters[record.id.lower()] = Cluster(
            record.id, record.values, site_id, sites.get(site_id.lower()), subs
        )
    for key, orphans in subclusters.items():
        for record in orphans:
            report(_dangling(record, f"GlueClusterUniqueID={key}"))
    return clusters


def _computing_elements(
    kinds: Mapping[str, list[_Record]],
    clusters: Mapping[str, Cluster],
    ses: Mapping[str, StorageElement],
    report: Report,
) -> Iterator[ComputingElement]:
    views = _under(kinds["gluevoview"], "GlueCEUniqueID")
    binds: dict[str, list[_Record]] = {}
    for record in kinds["gluecesebind"]:
        owner = record.text("GlueCESEBindCEUniqueID")
        owner = owner or _rdns(record.entry.dn).get("gluecesebindgroupceuniqueid", "")
        binds.setdefault(owner.lower(), []).append(record)
    groups = {r.id.lower(): r for r in kinds["gluecesebindgroup"]}
    for record in _unique(kinds["gluece"], report):
        key = record.id.lower()
        if split_id(record.id) is None:
            said = "its id does not tell the batch system and the queue"
            report(_issue(record, "link.ce-id", said, record.id))
        group = groups.pop(key, None)
        bound = group.texts("GlueCESEBindGroupSEUniqueID") if group else ()
        yield ComputingElement(
            record.id,
            record.values,
            _cluster_of(record, clusters, report),
            tuple(VOView(r.id, r.values) for r in views.pop(key, ())),
            tuple(_bind(r, ses, report) for r in _by_id(binds.pop(key, ()))),
            bound,
        )
    leftover = [r for rs in (*views.values(), *binds.values(), [*groups.values()]) for r in rs]
    for record in leftover:
        report(_issue(record, "link.dangling", "its CE is not in the snapshot", record.id))


def _cluster_of(record: _Record, clusters: Mapping[str, Cluster], report: Report) -> Cluster | None:
    """By foreign key, else by host name: rule 1 of the gLite broker's flattening."""
    keys = _key(record, "GlueForeignKey", "GlueClusterUniqueID")
    named = _first(record, keys, report)
    found = clusters.get(named.lower()) if named else None
    if named and found is None:
        report(_dangling(record, f"GlueClusterUniqueID={named}"))
    if found is None:
        found = clusters.get(record.text("GlueCEInfoHostName").lower())
    if found is None and not named:
        said = "neither a key nor its host name leads to a cluster"
        report(_issue(record, "link.no-cluster", said))
    return found


def _bind(record: _Record, ses: Mapping[str, StorageElement], report: Report) -> Bind:
    se = ses.get(record.id.lower())
    if se is None:
        report(_dangling(record, f"GlueSEUniqueID={record.id}"))
    return Bind(record.id, record.text("GlueCESEBindCEAccesspoint"), record.values, se)


def _first(record: _Record, keys: list[str], report: Report) -> str:
    if len(keys) > 1:
        said = "several keys to one kind of entry; the first was taken"
        report(_issue(record, "link.several", said, "; ".join(keys)))
    return keys[0] if keys else ""


def _dangling(record: _Record, key: str) -> Issue:
    return _issue(record, "link.dangling", "the key leads nowhere", key)


def _issue(record: _Record, rule: str, message: str, raw: str = "") -> Issue:
    return Issue(rule, message, record.entry.line, record.entry.dn, raw=raw)
