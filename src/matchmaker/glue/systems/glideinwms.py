"""A glideinWMS factory's configuration: the entries by which it sends pilots to sites.

``<glidein><entries>`` has an ``<entry>`` for each kind of pilot at a ``gatekeeper``, a computing
element: ``gridtype`` says how it is reached, ``<config><max_jobs><per_entry>`` how many pilots
there may be, and ``<attrs>`` what a pilot has: ``GLIDEIN_CPUS`` (a number, or ``auto``, ``slot``
or ``node`` with ``GLIDEIN_ESTIMATED_CPUS``), ``GLIDEIN_MaxMemMBs``, ``GLIDEIN_Max_Walltime``
(seconds), ``GLIDEIN_Resource_Slots`` and ``GLIDEIN_Supported_VOs``. What is asked of the batch
system is in ``rsl`` or in ``<submit_attrs>``. An entry describes its queue; of several at one
queue each is a view of it. (docs/sources.md has the sources.)
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element

import attrs

from matchmaker.classad import Value
from matchmaker.glue.access import RULES
from matchmaker.glue.issues import Report
from matchmaker.glue.records import GlueRecords, split_id
from matchmaker.glue.systems.building import (
    DEFAULT_QUEUE,
    Builder,
    Endpoint,
    name,
    positive,
    rules_of,
    text,
)
from matchmaker.glue.systems.osg import RESOURCE

NAME: Final = "glideinWMS"
ROOTS: Final = frozenset({"glidein"})

_FLAVOURS: Final[Mapping[str, str]] = {
    "condor": "htcondor-ce",
    "arc": "arc-ce",
    "nordugrid": "arc-ce",
    "cream": "cream-ce",
}
"""The grid types of computing elements; others are clouds, or accounts reached by SSH."""

_QUEUE: Final = re.compile(r"\(\s*queue\s*=\s*\"?([^()\"\s]+)", re.IGNORECASE)
_GPUS: Final = re.compile(r"(?:^|;)\s*GPUs\s*(?:,\s*([0-9]+))?", re.IGNORECASE)


def recognises(document: object) -> bool:
    """Whether a document is a factory's configuration, or a part of one with entries."""
    return (
        isinstance(document, Element)
        and document.tag == "glidein"
        and document.find("entries") is not None
    )


def records(document: object, report: Report) -> GlueRecords:
    """Make records of a factory's entries; what cannot be read is reported and left out."""
    builder = Builder(NAME, report)
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
    """An entry, or the set that it is in, and what it says of a pilot."""

    element: Element
    attributes: dict[str, str]
    asked: dict[str, str]
    most: int | None

    @classmethod
    def of(cls, element: Element) -> _Part:
        asked = _attributes(element, "config/submit/submit_attrs/submit_attr")
        limits = element.iterfind("config/max_jobs/per_entry")
        numbers = [positive(limit.get("glideins")) for limit in limits]
        return cls(
            element,
            _attributes(element, "attrs/attr"),
            {key.lstrip("+").lower(): value for key, value in asked.items()},
            next(filter(None, reversed(numbers)), None),
        )


def _attributes(part: Element, path: str) -> dict[str, str]:
    """Return the values of attributes by name, without quotes around; the last one wins."""
    return {
        text(item.get("name")): text(item.get("value")).strip('"') for item in part.iterfind(path)
    }


def _add_entry(builder: Builder, parts: Sequence[_Part]) -> None:
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
    values |= (hosts := _hosts(attributes, asked))
    for ours, theirs in (
        ("MaxMemoryPerNode", "GlueHostMainMemoryRAMSize"),
        ("MaxCpusPerNode", "GlueHostArchitectureSMPSize"),
    ):
        if theirs in hosts:
            values[ours] = hosts[theirs]
    if (seconds := positive(attributes.get("GLIDEIN_Max_Walltime"))) is not None:
        values["GlueCEPolicyMaxWallClockTime"] = max(seconds // 60, 1)
    if (most := next(filter(None, (part.most for part in parts)), None)) is not None:
        values["GlueCEPolicyMaxTotalJobs"] = most
    if resource := attributes.get("GLIDEIN_ResourceName"):
        values[RESOURCE] = resource
    if vos := attributes.get("GLIDEIN_Supported_VOs"):
        values[RULES] = list[Value](rules_of(_vos(vos)))
    found = _QUEUE.search(text(entry.get("rsl")))
    queues = [found[1]] if found else []
    queues += [asked.get(key, "") for key in ("batch_queue", "remote_queue", "queue")]
    builder.add(
        endpoint,
        (name(place[2]) if place else next(filter(None, map(name, queues)), "")) or DEFAULT_QUEUE,
        lrms=name(place[1]) if place else "",
        site=attributes.get("GLIDEIN_Site", ""),
        view=title,
        values=values,
    )


def _vos(labels: str) -> Iterator[str]:
    """Yield the virtual organisations behind a factory's labels.

    A factory marks entries with GPUs by labels of their own, and some by ``VO`` at their ends.

    >>> list(_vos("CMS, OSGVO,glowGPU"))
    ['CMS', 'OSGVO', 'OSG', 'glowGPU', 'glow']
    """
    for label in filter(None, (part.strip() for part in labels.split(","))):
        yield label
        plain = label.removesuffix("GPU").removesuffix("VO")
        if plain and plain != label:
            yield plain


def _hosts(attributes: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, Value]:
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
