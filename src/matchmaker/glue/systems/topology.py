"""OSG topology, the registry of the Open Science Grid: resources with their hosts, and downtimes.

Its server gives XML: ``/rgsummary/xml``, ``<ResourceSummary>`` of resource groups with their
resources, and ``/rgdowntime/xml``, ``<Downtimes>``. Its repository has the same as YAML, a file a
resource group, ``topology/FACILITY/SITE/GROUP.yaml``, and one of its downtimes,
``GROUP_downtime.yaml``. The files do not say the names that their paths have, and their downtimes
name a resource where the XML has its host; a computing element of the OSG's collector has the name
of its resource too (``OSG_Resource``).

A resource with the service ``CE`` is a computing element, an HTCondor-CE. A downtime closes it if
its severity is ``Outage`` or ``Severe``, the two highest. (docs/sources.md has the sources.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from xml.etree.ElementTree import Element

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import Value
from matchmaker.glue.issues import Report
from matchmaker.glue.readers.blocks import Room
from matchmaker.glue.records import GlueRecords
from matchmaker.glue.systems.building import Endpoint, positive, text
from matchmaker.glue.systems.downtimes import OUTAGE
from matchmaker.glue.systems.osg import RESOURCE
from matchmaker.glue.systems.registry import Registry, children, inner

NAME: Final = "OSG topology"
ROOTS: Final = frozenset({"ResourceSummary", "Downtimes"})
_GRAM: Final = 2119
"""The port of the gatekeepers before HTCondor-CE, which some entries still have."""
_NULLS: Final = frozenset({"~", "null", "Null", "NULL"})
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
    room = Room(max(LIMITS.document, len(data)))
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
                made: list[Any] | dict[str, Any] = (
                    [] if isinstance(event, yaml.SequenceStartEvent) else {}
                )
                put(made)
                opened.append((made, []))
            elif isinstance(event, yaml.CollectionEndEvent):
                opened.pop()
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {text(str(error))}") from None
    return root[0] if root else None


def recognises(document: object) -> bool:
    """Whether a document is topology's: its XML, or a file of its repository.

    >>> recognises({"GroupID": "1", "Resources": {}}), recognises([{"Class": "SCHEDULED"}])
    (True, False)
    """
    if isinstance(document, Element):
        return document.tag in ROOTS
    if isinstance(document, dict):
        return "Resources" in document and not _GROUP.isdisjoint(document)
    return isinstance(document, list) and any(
        isinstance(item, dict) and item.keys() >= _DOWNTIME for item in document[:100]
    )


def records(document: object, report: Report) -> GlueRecords:
    """Make records of topology's XML or YAML; what cannot be read is reported and left out."""
    registry = Registry(NAME, report)
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


def _add_group(registry: Registry, group: Mapping[str, Any], name: str) -> None:
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
        closed = (
            disabled or _true(resource.get("Disable")) or not _true(resource.get("Active", "true"))
        )
        registry.add_ce(endpoint, name, values, closed=closed)


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
    """Return a detail of a service; empty if it has none."""
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
    """Return the name of a site or a facility."""
    parts = value if isinstance(value, list) else []
    return next((text(e.text) for e in parts if isinstance(e, Element) and e.tag == "Name"), "")


def _true(value: object) -> bool:
    return text(value).lower() in ("true", "yes", "on")


def _add_downtime(registry: Registry, place: str, downtime: Mapping[str, Any]) -> None:
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
