"""HTCondor: ``condor_status`` and ``condor_status -schedd``, ``-json`` or ``-long``: ads already.

Slots keep their ads and get the names that GLUE 1.3 has for hosts; each schedd is a queue. The
schedd of an HTCondor-CE has the routes that ``condor_ce_job_router_info -config`` lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from matchmaker.batch.description.records import PRODUCTION, QueueRecord, SystemReader
from matchmaker.batch.description.texts import Output, OutputFormat, as_json, whole
from matchmaker.classad import UNDEFINED, ClassAd, ParseError, Value, parse_ads, parse_expr
from matchmaker.classad.formats.json import marked, settled
from matchmaker.classad.values import is_integer

LRMS: Final = "htcondor"

COMMANDS: Final = (("condor_status", "-json"), ("condor_status", "-schedd", "-json"))
_OF_CE: Final = (
    ("condor_ce_status", "-schedd", "-json"),
    ("condor_ce_job_router_info", "-config"),
)

FORMATS: Final = (
    *(OutputFormat(command, ("23.9",), running=("23.9",))
      for command in ("condor_status -json", "condor_status -long",
                      "condor_status -schedd -json", "condor_status -schedd -long")),
    OutputFormat("condor_ce_job_router_info -config", ("8.8", "23.9"), running=("23.9",)),
)  # fmt: skip

# Expressions, not values: they follow the other attributes of the slot.
_OF_HOSTS: Final = {
    "LRMSType": '"htcondor"',
    "NodeState": "State",
    "Available": 'State is undefined || (State != "Owner" && State != "Drained")',
    "GlueHostArchitectureSMPSize": "DetectedCpus ?: (TotalCpus ?: Cpus)",
    "GlueHostMainMemoryRAMSize": "DetectedMemory ?: (TotalMemory ?: Memory)",
    "GlueHostArchitecturePlatformType": "toLower(Arch)",
    "GlueHostOperatingSystemName": "OpSysName ?: OpSys",
    # 904 is release 9.4, and 1200 is 12.
    "GlueHostOperatingSystemRelease": (
        "isInteger(OpSysVer) ? strcat(OpSysVer / 100,"
        ' OpSysVer % 100 == 0 ? "" : strcat(".", OpSysVer % 100)) : undefined'
    ),
}

# condor_ce_job_router_info prints `Route 1` above the facts of each route.
_ROUTE: Final = re.compile(r"^Route \d+\s*$", re.MULTILINE)
_OF_ROUTE: Final = re.compile(r"^(\w+) *: ?(.*)$", re.MULTILINE)
_QUEUE: Final = re.compile(r'\bset[_ ](?:default|batch)_queue\s*+=?\s*+"([^"\s]+)"', re.IGNORECASE)
"""How a route names the queue that it submits to, in its old form and in its new one."""


def read(texts: Iterable[Output]) -> tuple[list[ClassAd], list[QueueRecord]]:
    """Read the slots and schedds from outputs in any order; of two with one name the first is kept.

    Raises DescriptionError for output that has no ads.
    """
    slots: dict[str, ClassAd] = {}
    schedds: dict[str, ClassAd] = {}
    routes: list[ClassAd] = []
    for text in texts:
        if _ROUTE.search(text.content):
            routes += _routes(text)
            continue
        alike: dict[object, dict[str, ClassAd]] = {}
        for ad in _ads(text):
            name, kind = str(ad.eval("Name")), ad.eval("MyType")
            if kind not in ("Scheduler", "Machine", UNDEFINED):
                continue
            alike.setdefault(kind, {})[name] = ad
            of_kind = schedds if kind == "Scheduler" else slots
            if of_kind.setdefault(name, ad) is not ad:
                what = "schedds" if kind == "Scheduler" else "slots"
                text.note(f"two {what} are named {name}; the first is kept")
        if not text.content.lstrip().startswith("["):
            for of_one, ads in alike.items():
                text.check_end("schedd" if of_one == "Scheduler" else "slot", ads)
    # What is asked for of a CE may stand beside the schedds of the pool behind it.
    of_ce = {name for name, ad in schedds.items() if "HTCondorCEVersion" in ad} or schedds.keys()
    known = list(slots.values())
    counts = _cpus(known)
    return [_slot(ad) for ad in known], [
        _queue(ad, counts, routes if name in of_ce else ()) for name, ad in schedds.items()
    ]


def _ads(text: Output) -> Iterator[ClassAd]:
    """Yield the ads of ``-json`` or ``-long``; leave out and note one that cannot be read."""
    content = text.content.strip()
    blocks: Iterable[tuple[str, str]]
    if content[:1] in ("[", "{"):
        # Decoded, a string that looks like an expression could not be told from one.
        def undefined(constant: str) -> None:
            text.note(f"{constant} was found where JSON has a value: the attribute is undefined")

        data = as_json(attrs.evolve(text, content=settled(content)), undefined)
        if not isinstance(data, list):
            raise text.error("a JSON list of ads was expected")
        blocks = (("json", marked(json.dumps([entry]))) for entry in data)
    else:
        # Without ads the commands print nothing at all.
        blocks = (("old", block) for block in re.split(r"\n\s*\n", content) if block)
    for form, block in blocks:
        try:
            yield from parse_ads(block, format=form)
        except ParseError as error:
            text.skip(block.split("\n")[0], f"an ad ({error})")


def _slot(ad: ClassAd) -> ClassAd:
    for name, expression in _OF_HOSTS.items():
        if name not in ad:
            ad[name] = parse_expr(expression)
    return ad


def _routes(text: Output) -> list[ClassAd]:
    """Read the routes of a job router, as ads: their demands on jobs, and their destinations."""
    found = []
    for block in _ROUTE.split(text.content)[1:]:
        facts = dict(_OF_ROUTE.findall(block))
        queue = _QUEUE.search(block)
        values: dict[str, Value | None] = {
            "Name": facts.get("Name", "").strip('"') or None,
            "GridResource": facts.get("GridResource", "").strip() or None,
            "Queue": queue[1] if queue else None,
            **{name: whole(facts.get(name)) for name in ("Universe", "MaxJobs", "MaxIdleJobs")},
        }
        ad = ClassAd({name: value for name, value in values.items() if value is not None})
        try:
            ad["Requirements"] = parse_expr(facts.get("Requirements") or "true")
        except ParseError:
            ad["Requirements"] = False
            text.note(f"route {values['Name']}: its Requirements cannot be read: it takes no job")
        found.append(ad)
    return found


def _queue(
    ad: ClassAd, counts: tuple[int | None, int | None], routes: Iterable[ClassAd]
) -> QueueRecord:
    total, free = counts
    return QueueRecord(
        name=str(ad.eval("Name")),
        lrms=LRMS,
        status=PRODUCTION,
        total_cpus=total,
        free_cpus=free,
        running=_number(ad, "TotalRunningJobs"),
        waiting=_number(ad, "TotalIdleJobs"),
        max_running=_number(ad, "MaxJobsRunning"),
        routes=tuple(routes),
        native={name: str(ad.eval(name)) for name in ad},
    )


def _cpus(slots: Sequence[ClassAd]) -> tuple[int | None, int | None]:
    """Count the CPUs of a pool, and those that nobody claimed; None if no slot is known.

    A dynamic slot has its CPUs from a partitionable one, whose ad has their first number.
    """
    if not slots:
        return None, None
    total = free = 0
    for slot in slots:
        cpus = _number(slot, "Cpus") or 0
        if slot.eval("SlotType") != "Dynamic":
            total += _number(slot, "TotalSlotCpus") or cpus
        if slot.eval("State") == "Unclaimed":
            free += cpus
    return total, free


def _number(ad: ClassAd, name: str) -> int | None:
    value: Any = ad.eval(name)
    return value if is_integer(value) else None


READERS: Final = (
    SystemReader(LRMS, COMMANDS, FORMATS, read),
    # An HTCondor-CE has schedds and their routes to the batch system behind it, and no nodes.
    SystemReader("htcondor-ce", _OF_CE, FORMATS[2:], read),
)
