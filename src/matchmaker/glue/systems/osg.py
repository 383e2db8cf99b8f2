"""The information systems of the OSG: its collector, its topology, and factories of glideinWMS.

``condor_status -pool collector.opensciencegrid.org:9619 -schedd`` prints the collector's ads of
CEs, in each format of ads. ``OSG_ResourceCatalog`` is a list of ads, one for each kind of resource
behind a CE, with ``Memory`` (MB), ``CPUs``, ``GPUs``, ``OS``, ``MaxWallTime`` (minutes; 0 is no
limit), ``MaxPilots``, ``AllowedVOs`` and, for entries that give whole nodes, ``WholeNode`` and
``EstimatedCPUs``; ``Queue``, or ``set_remote_queue`` in ``Transform``, is the queue of the batch
system, and without one its default. Each becomes a queue. Names that GLUE has none for, such as
``GPUs``, stay as they are. ``grid_resource`` of the CE's ad says how HTCondor reaches it.

Topology is the registry of resources, their hosts and downtimes. Its server gives XML:
``/rgsummary/xml``, ``<ResourceSummary>`` of resource groups with their resources, and
``/rgdowntime/xml``, ``<Downtimes>``. Its repository has the same as YAML, a file a resource group,
``topology/FACILITY/SITE/GROUP.yaml``, and one of its downtimes, ``GROUP_downtime.yaml``. The files
lack the names that their paths have, and their downtimes name a resource in place of its host; a
computing element of the collector has the name of its resource too (``OSG_Resource``). A resource
with the service ``CE`` is a computing element, an HTCondor-CE. A downtime closes it if its severity
is ``Outage`` or ``Severe``, the two highest.

A factory of glideinWMS sends pilots to sites. ``<glidein><entries>`` of its configuration has an
``<entry>`` for each kind of pilot at a ``gatekeeper``, a computing element: ``gridtype`` says how
it is reached, ``<config><max_jobs><per_entry>`` how many pilots there may be, and ``<attrs>`` what
a pilot has: ``GLIDEIN_CPUS`` (a number, or ``auto``, ``slot`` or ``node`` with
``GLIDEIN_ESTIMATED_CPUS``), ``GLIDEIN_MaxMemMBs``, ``GLIDEIN_Max_Walltime`` (seconds),
``GLIDEIN_Resource_Slots`` and ``GLIDEIN_Supported_VOs``. ``rsl`` or ``<submit_attrs>`` hold the
requests to the batch system. An entry describes its queue; of several at one queue each is a view
of it. (docs/sources.md has the sources.)
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast
from xml.etree.ElementTree import Element

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.classad.values import is_number
from matchmaker.glue.access import RULES, agreed_queues, is_vo
from matchmaker.glue.clean import whole
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.readers import ReadBudget
from matchmaker.glue.records import (
    OUTAGE,
    QUEUE,
    ComputingElement,
    GlueCluster,
    GlueRecords,
    GlueSite,
    SubCluster,
    split_id,
    texts,
)
from matchmaker.glue.systems.building import (
    DEFAULT_QUEUE,
    GRID_RESOURCE,
    PORTS,
    SYSTEM,
    Endpoint,
    QueueBuilder,
    RegistryBuilder,
    children,
    inner,
    name,
    positive,
    rules_of,
    text,
)

COLLECTOR: Final = "OSG collector"
CATALOG: Final = "OSG_ResourceCatalog"
RESOURCE: Final = "OSG_Resource"
"""The attribute of a CE with the name that its resource has in OSG topology."""

_OF_HOST: Final[Mapping[str, str]] = {
    "Memory": "GlueHostMainMemoryRAMSize",
    "CPUs": "GlueHostArchitectureSMPSize",
    "GPUs": "GPUs",
}
_WHOLE_NODE: Final[Mapping[str, str]] = {
    "EstimatedCPUs": "GlueHostArchitectureSMPSize",
    "GPUs": "GPUs",
}
"""An entry for whole nodes has the memory and CPUs of the smallest job, and not those of a node."""

_POLICIES: Final[Mapping[str, str]] = {
    "MaxWallTime": "GlueCEPolicyMaxWallClockTime",
    "MaxPilots": "GlueCEPolicyMaxTotalJobs",
}
_KEPT: Final = ("VOTag", "IsPilotEntry", "RequireSingularity", "Subclusters")
"""Attributes of an entry that are of the queue, and without a name in GLUE."""

# HTCondor-C's: the schedd, and the collector with its port.
_GRID_RESOURCE: Final = re.compile(r"condor [!-~]{1,255} ([!-~]{1,255})")


def has_catalogs(document: object) -> bool:
    """Whether a document is ads of which one has a catalogue."""
    ads = document if isinstance(document, list) else []
    return any(isinstance(ad, ClassAd) and CATALOG in ad for ad in ads)


def collector_records(document: object, report: Report) -> GlueRecords:
    """Make records of the CEs among ads; those without a catalogue are reported and left out."""
    ads = document if isinstance(document, list) else []
    return records_of_ads((ad for ad in ads if isinstance(ad, ClassAd)), report)


def records_of_ads(ads: Iterable[ClassAd], report: Report) -> GlueRecords:
    """Make records of CEs; report ads without a catalogue, and entries that are no ads."""
    sites: dict[str, GlueSite] = {}
    clusters: dict[str, GlueCluster] = {}
    queues: dict[str, ComputingElement] = {}
    times = Counter[str]()
    for number, ad in enumerate(ads, 1):
        host = first_text(ad, ("Name", "Machine", RESOURCE)) or f"ce{number}"
        host = host.rpartition("@")[2].partition(":")[0]
        listed = ad.eval(CATALOG)
        if not isinstance(listed, list):
            said = f"no {CATALOG}, so nothing is known of what it offers"
            report(issue("osg.no-catalog", said, raw=host))
            continue
        site_id = first_text(ad, ("OSG_ResourceGroup", RESOURCE)) or ""
        if site_id:
            sites.setdefault(site_id, GlueSite(site_id, {"GlueSiteUniqueID": site_id}))
        for queue, sub in _queues(ad, host, listed, report):
            if (before := queues.get(queue.id.lower())) is not None:
                said = "a queue of this id came before; what only one admits is refused"
                report(issue("link.duplicate", said, raw=queue.id))
                times[queue.id.lower()] += 1
                if times[queue.id.lower()] > LIMITS.again:
                    said = f"a queue of one id more than {LIMITS.again} times, left out"
                    report(issue("link.too-many", said, raw=queue.id))
                    continue
                [queues[queue.id.lower()]] = agreed_queues([before], [queue], report)
                continue
            cluster = GlueCluster(f"{host}/{sub.id}", {}, site_id, sites.get(site_id), (sub,))
            clusters[cluster.id] = cluster
            queues[queue.id.lower()] = attrs.evolve(queue, cluster=cluster)
    return GlueRecords(tuple(sites.values()), tuple(clusters.values()), tuple(queues.values()), ())


def _queues(
    ad: ClassAd, host: str, listed: Iterable[Value], report: Report
) -> Iterator[tuple[ComputingElement, SubCluster]]:
    systems = ad.eval("OSG_BatchSystems")
    lrms = systems.split(",")[0].strip().lower() if isinstance(systems, str) else "condor"
    reached, port = _reached(ad, host)
    for number, entry in enumerate(listed, 1):
        if not isinstance(entry, ClassAd):
            place = f"{host}: entry {number}"
            report(issue("osg.entry", "no ad in the catalogue, skipped", raw=place))
            continue
        name = first_text(entry, ("Name",)) or f"resource{number}"
        queue = first_text(entry, ("Queue",)) or _remote_queue(entry)
        values: dict[str, Value] = {
            "GlueCEName": queue or name,
            "GlueCEInfoHostName": host,
            "GlueCEInfoGatekeeperPort": port,
            "GlueCEInfoLRMSType": lrms,
            "GlueCEStateStatus": "Production",
            SYSTEM: COLLECTOR,
            GRID_RESOURCE: reached,
        }
        if (resource := first_text(ad, (RESOURCE,))) is not None:
            values[RESOURCE] = resource
        for kept in _KEPT:
            value = entry.eval(kept)
            if isinstance(value, str | bool) or (isinstance(value, list) and texts(value) == value):
                values[kept] = value
        # The entry's name, of which the id is made, is no queue's.
        values["GlueCECapability"] = [f"{QUEUE}{queue or DEFAULT_QUEUE}"]
        values.update(_numbers(entry, _POLICIES))
        vos = _allowed_vos(entry.eval("AllowedVOs"))
        if vos is UNDEFINED or vos == []:
            said = "no AllowedVOs: whom it admits is unknown"
            report(issue("access.none", said, raw=f"{host}: {name}"))
        elif isinstance(vos, list) and all(map(is_vo, vos)):
            values[RULES] = [f"VO:{vo}" for vo in vos]
        else:
            values[RULES] = []
            said = "AllowedVOs is no list of VOs; it admits nobody"
            report(issue("clean.access-rule", said, raw=f"{host}: {name}: {vos}"))
        whole_node = entry.eval("WholeNode")
        of_host = _numbers(entry, _WHOLE_NODE if whole_node is True else _OF_HOST)
        hosts: dict[str, Value] = {"GlueSubClusterUniqueID": name, **of_host}
        if isinstance(whole_node, bool):
            hosts["WholeNode"] = whole_node
        if (system := first_text(entry, ("OS",))) is not None:
            hosts["GlueHostOperatingSystemName"] = system
        ident = f"{host}:{port}/condorce-{lrms.replace('-', '_') or 'condor'}-{name}"
        yield ComputingElement(ident, values), SubCluster(name, hosts)


def _allowed_vos(value: Value) -> Value:
    """Return the VOs of an entry as a list; quotes around a name are no part of it.

    >>> _allowed_vos('"osg", cms'), _allowed_vos(['"cms"', 7]), _allowed_vos("")
    (['osg', 'cms'], ['cms', 7], [])
    """
    if isinstance(value, str):
        value = list[Value](part for part in value.split(",") if part.strip())
    if not isinstance(value, list):
        return value
    return [vo.strip().strip("\"'") if isinstance(vo, str) else vo for vo in value]


def _reached(ad: ClassAd, host: str) -> tuple[str, int]:
    """Return the ``grid_resource`` of a CE, and the port where it listens."""
    said = ad.eval("grid_resource")
    found = _GRID_RESOURCE.fullmatch(said) if isinstance(said, str) else None
    endpoint = Endpoint.of(found[1], "htcondor-ce") if found else None
    if found is not None and endpoint is not None:
        return found.group(), endpoint.port
    port = PORTS["htcondor-ce"]
    return f"condor {host} {host}:{port}", port


def _remote_queue(entry: ClassAd) -> str | None:
    transform = entry.eval("Transform")
    return first_text(transform, ("set_remote_queue",)) if isinstance(transform, ClassAd) else None


def _numbers(entry: ClassAd, names: Mapping[str, str]) -> dict[str, Value]:
    given = {ours: entry.eval(theirs) for theirs, ours in names.items()}
    found = {name: whole(value) for name, value in given.items() if is_number(value)}
    return {name: number for name, number in found.items() if number is not None and number >= 0}


TOPOLOGY: Final = "OSG topology"
TOPOLOGY_ROOTS: Final = frozenset({"ResourceSummary", "Downtimes"})
_GRAM: Final = 2119
"""The port of the gatekeepers before HTCondor-CE, which some entries still have."""
# What YAML means by null, unless it stands in quotes.
_NULLS: Final = frozenset({"~", "null", "Null", "NULL"})
# The two highest of topology's severities.
_CLOSES: Final = frozenset({"outage", "severe"})
_GROUP: Final = frozenset({"GroupID", "Production", "SupportCenter", "GroupDescription"})
_DOWNTIME: Final = frozenset({"Class", "ResourceName", "StartTime", "EndTime"})

YAML: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\r]*+(?:#[^\n]*+|---[^\n]*+)?\n)*+"
    rb"(?:(?:Production|SupportCenter|GroupDescription|GroupID|Disable|Resources)\s*+:"
    rb"|-\s+(?:Class|ID|Description|Severity|StartTime|EndTime|CreatedTime|ResourceName|Services)"
    rb"\s*+:)"
)
"""Match the beginning of a file of the repository."""


def parse_yaml(data: bytes) -> object:
    """Parse YAML to dicts, lists and texts, without aliases and tags.

    All that is not a list or a mapping is a text, whatever it looks like.

    Raises:
        ValueError: it is not YAML, has an alias or nests too deep; or PyYAML is missing.
    """
    try:
        import yaml
    except ImportError:
        raise ValueError(
            "YAML is read by PyYAML, which is not installed: pip install"
            " 'classad-matchmaker[yaml]', or give the XML of topology's server"
            " (/rgsummary/xml, /rgdowntime/xml)"
        ) from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    room = ReadBudget(max(LIMITS.document, len(data)))
    root: list[Any] = []
    # Each open list, or mapping with the key whose value comes next.
    opened: list[tuple[list[Any] | dict[str, Any], list[str]]] = [(root, [])]

    def put(value: Any) -> None:
        into, key = opened[-1]
        if isinstance(into, list):
            into.append(value)
        elif key:
            into[key.pop()] = value
        else:
            key.append(value if isinstance(value, str) else "")

    try:
        for event in room.objects(yaml.parse(data, Loader=loader)):
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("YAML with aliases (*name) is not read")  # noqa: TRY004 - input
            if isinstance(event, yaml.ScalarEvent):
                put("" if event.value in _NULLS and not event.style else event.value)
            elif isinstance(event, yaml.CollectionStartEvent):
                if len(opened) > LIMITS.depth:
                    raise ValueError(f"lists and mappings nested more than {LIMITS.depth} deep")
                made: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
                put(made)
                opened.append((made, []))
            elif isinstance(event, yaml.CollectionEndEvent):
                opened.pop()
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {text(str(error))}") from None
    return root[0] if root else None


def is_topology(document: object) -> bool:
    """Whether a document is topology's: its XML, or a file of its repository.

    >>> is_topology({"GroupID": "1", "Resources": {}}), is_topology([{"Class": "SCHEDULED"}])
    (True, False)
    """
    if isinstance(document, Element):
        return document.tag in TOPOLOGY_ROOTS
    if isinstance(document, dict):
        return "Resources" in document and not _GROUP.isdisjoint(document)
    return isinstance(document, list) and any(
        isinstance(item, dict) and item.keys() >= _DOWNTIME for item in document[:100]
    )


def topology_records(document: object, report: Report) -> GlueRecords:
    """Make records of topology's XML or YAML; what cannot be read is reported and left out."""
    registry = RegistryBuilder(TOPOLOGY, report)
    if isinstance(document, Element) and document.tag == "Downtimes":
        for part in children(document, "CurrentDowntimes", "FutureDowntimes"):
            for downtime in children(part, "Downtime"):
                _add_downtime(registry, "ResourceFQDN", _fields(downtime))
    elif isinstance(document, Element):
        for group in children(document, "ResourceGroup"):
            _add_group(registry, _fields(group), inner(group, "GroupName"))
    elif isinstance(document, dict):
        _add_group(registry, document, "")
    elif isinstance(document, list):
        for item in document:
            if isinstance(item, dict):
                _add_downtime(registry, "ResourceName", item)
            else:
                registry.leave("system.entry", "no mapping where a downtime was expected", "")
    return registry.records()


def _fields(element: Element) -> dict[str, Any]:
    """Return the elements below one by name: texts, or lists of those that have some themselves."""
    found: dict[str, Any] = {}
    for child in element:
        found.setdefault(child.tag, list(child) if len(child) else text(child.text))
    return found


def _add_group(registry: RegistryBuilder, group: Mapping[str, Any], name: str) -> None:
    """Add the computing elements of a resource group, and the group as a site."""
    disabled = _true(group.get("Disable"))
    above = {"OSG_Facility": group.get("Facility"), "OSG_Site": group.get("Site")}
    description = text(group.get("GroupDescription"))
    registry.add_site(name, {"GlueSiteName": name, "GlueSiteDescription": description})
    for title, resource in _resources(group.get("Resources")):
        if not isinstance(resource, Mapping):
            said = "no mapping where a resource was expected, skipped"
            registry.leave("system.entry", said, text(title))
            continue
        services = dict(_services(resource.get("Services")))
        if "CE" not in services:
            continue
        host = text(resource.get("FQDN"))
        endpoint = Endpoint.of(_detail(services["CE"], "uri_override"), "htcondor-ce")
        if endpoint is None or endpoint.port == _GRAM:
            endpoint = Endpoint.of(host, "htcondor-ce")
        if endpoint is None:
            said = "a computing element without an FQDN, left out"
            registry.leave("system.no-endpoint", said, f"{title}: {host}")
            continue
        values: dict[str, Value] = {RESOURCE: text(title)}
        values |= {key: told for key, value in above.items() if (told := _name(value))}
        if owners := [*_owners(resource.get("VOOwnership"))]:
            values["VOOwnership"] = list[Value](owners)
        active = _true(resource.get("Active", "true")) and not _true(resource.get("Disable"))
        registry.add_ce(endpoint, name, values, closed=disabled or not active)


def _resources(value: object) -> Iterator[tuple[str, object]]:
    """Yield resources by name: of a mapping, or of elements that have a ``Name``."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, Element) and item.tag == "Resource":
                yield inner(item, "Name"), _fields(item)


def _services(value: object) -> Iterator[tuple[str, object]]:
    """Yield services by name: of a mapping, of a list of names, or of elements with a ``Name``."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, Element):
                yield inner(item, "Name"), item
            else:
                yield text(item), None


def _detail(service: object, name: str) -> str:
    if isinstance(service, Element):
        return inner(service, f"Details/{name}")
    details = service.get("Details") if isinstance(service, dict) else None
    return text(details.get(name)) if isinstance(details, dict) else ""


def _owners(value: object) -> Iterator[str]:
    """Yield the owners of a resource with their parts in percent, as ``VO=percent``.

    Who owns a part of a resource has it first; who else may use it is not said.
    """
    pairs: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = ((inner(e, "VO"), inner(e, "Percent")) for e in value if isinstance(e, Element))
    for vo, percent in pairs:
        if text(vo) and text(vo) != "(Other)" and (number := positive(percent)) is not None:
            yield f"{text(vo)}={number}"


def _name(value: object) -> str:
    parts = value if isinstance(value, list) else []
    return next((text(e.text) for e in parts if isinstance(e, Element) and e.tag == "Name"), "")


def _true(value: object) -> bool:
    return text(value).lower() in ("true", "yes", "on")


def _add_downtime(registry: RegistryBuilder, place: str, downtime: Mapping[str, Any]) -> None:
    """Add a downtime of a computing element; one of other services concerns no queue."""
    if "CE" not in dict(_services(downtime.get("Services"))):
        return
    severity = text(downtime.get("Severity"))
    registry.add_downtime(
        text(downtime.get(place)),
        "CE",
        (text(downtime.get("StartTime")), text(downtime.get("EndTime"))),
        severity=OUTAGE if severity.lower() in _CLOSES else severity.upper(),
        why=(text(downtime.get("Class")).lower(), text(downtime.get("Description"))),
    )


GLIDEINWMS: Final = "glideinWMS"
GLIDEINWMS_ROOTS: Final = frozenset({"glidein"})

_FLAVOURS: Final[Mapping[str, str]] = {
    "condor": "htcondor-ce",
    "arc": "arc-ce",
    "nordugrid": "arc-ce",
    "cream": "cream-ce",
}
"""The grid types of computing elements; others are clouds, or accounts reached by SSH."""

_LIMITS: Final[Mapping[str, str]] = {
    "GlueHostMainMemoryRAMSize": "MaxMemoryPerNode",
    "GlueHostArchitectureSMPSize": "MaxCpusPerNode",
}
"""The limits of a job on a node, which are the resources of a pilot."""

_QUEUE: Final = re.compile(r"\(\s*queue\s*=\s*\"?([^()\"\s]+)", re.IGNORECASE)
_GPUS: Final = re.compile(r"(?:^|;)\s*GPUs\s*(?:,\s*([0-9]+))?", re.IGNORECASE)


def is_factory(document: object) -> bool:
    """Whether a document is a factory's configuration, or a part of one with entries."""
    named = isinstance(document, Element) and document.tag == "glidein"
    return named and cast("Element", document).find("entries") is not None


def factory_records(document: object, report: Report) -> GlueRecords:
    """Make records of a factory's entries; what cannot be read is reported and left out."""
    builder = QueueBuilder(GLIDEINWMS, report)
    if isinstance(document, Element):
        for entry in document.iterfind("entries/entry"):
            _add_entry(builder, [_Part.of(entry)])
        # What a set of entries has is that of each of them.
        for group in document.iterfind("entry_sets/entry_set"):
            shared = _Part.of(group)
            for entry in group.iterfind("entries/entry"):
                _add_entry(builder, [_Part.of(entry), shared])
    return builder.records()


@attrs.frozen(slots=True)
class _Part:
    element: Element
    attributes: dict[str, str]
    asked: dict[str, str]
    most: int | None

    @classmethod
    def of(cls, element: Element) -> _Part:
        asked = _attributes(element, "config/submit/submit_attrs/submit_attr")
        asked = {key.lstrip("+").lower(): value for key, value in asked.items()}
        limits = element.findall("config/max_jobs/per_entry")
        most = next(filter(None, (positive(one.get("glideins")) for one in reversed(limits))), None)
        return cls(element, _attributes(element, "attrs/attr"), asked, most)


def _attributes(part: Element, path: str) -> dict[str, str]:
    items = part.iterfind(path)
    return {text(item.get("name")): text(item.get("value")).strip('"') for item in items}


def _add_entry(builder: QueueBuilder, parts: Sequence[_Part]) -> None:
    """Add an entry, the first of the parts that say what it is, before the set that it is in."""
    entry = parts[0].element
    title = text(entry.get("name"))
    kind = text(entry.get("gridtype")).lower()
    flavour = _FLAVOURS.get(kind)
    if not title or flavour is None:
        said = "an entry of a grid type that is no computing element, or without a name, left out"
        builder.leave("system.entry", said, f"{title} {kind}".strip())
        return
    gatekeeper = text(entry.get("gatekeeper"))
    # An HTCondor-CE's is its schedd and its collector, CREAM's the id of a queue, or its URL, the
    # batch system and a queue.
    words = gatekeeper.split(" ")
    place = None
    if flavour == "cream-ce":
        url = len(words) == 3 and "://" in words[0]
        place = (words[0], words[1], words[2]) if url else split_id(gatekeeper)
    host = words[-1]
    if place is not None:
        host = place[0] if "://" in place[0] else place[0].partition("/")[0]
    endpoint = Endpoint.of(host, flavour)
    if endpoint is None:
        said = "an entry whose gatekeeper is no host, left out"
        builder.leave("system.no-endpoint", said, f"{title}: {gatekeeper}")
        return
    # A set may have many entries and many attributes: they are looked up, and never copied.
    attributes = ChainMap(*(part.attributes for part in parts))
    asked = ChainMap(*(part.asked for part in parts))
    values: dict[str, Value] = {"GlideinEntry": title, "GlueCEStateStatus": "Production"}
    if any(text(part.element.get("enabled")).lower() == "false" for part in parts):
        values["GlueCEStateStatus"] = "Closed"
    values |= (hosts := _pilot(attributes, asked))
    values |= {ours: hosts[theirs] for theirs, ours in _LIMITS.items() if theirs in hosts}
    if (seconds := positive(attributes.get("GLIDEIN_Max_Walltime"))) is not None:
        values["GlueCEPolicyMaxWallClockTime"] = max(seconds // 60, 1)
    if (most := next(filter(None, (part.most for part in parts)), None)) is not None:
        values["GlueCEPolicyMaxTotalJobs"] = most
    if resource := attributes.get("GLIDEIN_ResourceName"):
        values[RESOURCE] = resource
    if vos := attributes.get("GLIDEIN_Supported_VOs"):
        values[RULES] = list[Value](rules_of(_labelled_vos(vos)))
    found = _QUEUE.search(text(entry.get("rsl")))
    queues = [found[1]] if found else []
    queues += [asked.get(key, "") for key in ("batch_queue", "remote_queue", "queue")]
    lrms = name(place[1]) if place else ""
    queue = name(place[2]) if place else next(filter(None, map(name, queues)), "")
    site = attributes.get("GLIDEIN_Site", "")
    builder.add(endpoint, queue or DEFAULT_QUEUE, lrms, site, view=title, values=values)


def _labelled_vos(labels: str) -> Iterator[str]:
    """Yield the virtual organisations behind a factory's labels.

    A factory marks entries with GPUs by labels of their own, and some by ``VO`` at their ends.

    >>> list(_labelled_vos("CMS, OSGVO,glowGPU"))
    ['CMS', 'OSGVO', 'OSG', 'glowGPU', 'glow']
    """
    for label in filter(None, (part.strip() for part in labels.split(","))):
        yield label
        plain = label.removesuffix("GPU").removesuffix("VO")
        if plain and plain != label:
            yield plain


def _pilot(attributes: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, Value]:
    """Return the resources of a pilot of an entry, under GLUE's names."""
    found: dict[str, Value] = {}
    cpus = positive(attributes.get("GLIDEIN_CPUS"))
    cpus = cpus or positive(attributes.get("GLIDEIN_ESTIMATED_CPUS"))
    if cpus is not None:
        found["GlueHostArchitectureSMPSize"] = cpus
    if (memory := positive(attributes.get("GLIDEIN_MaxMemMBs"))) is not None:
        found["GlueHostMainMemoryRAMSize"] = memory
    system = attributes.get("GLIDEIN_REQUIRED_OS", "")
    if system and system.lower() != "any":
        found["GlueHostOperatingSystemName"] = system
    platform = attributes.get("GLIDEIN_ARCH") or attributes.get("CONDOR_ARCH", "")
    if platform.lower() not in ("", "default", "auto"):
        found["GlueHostArchitecturePlatformType"] = platform
    slots = _GPUS.search(attributes.get("GLIDEIN_Resource_Slots", ""))
    gpus = positive(asked.get("request_gpus")) or (positive(slots[1]) or 1 if slots else None)
    if gpus is not None:
        found["GPUs"] = gpus
    if asked.get("wantwholenode", "").lower() == "true":
        found["WholeNode"] = True
    return found
