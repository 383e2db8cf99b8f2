"""HTCondor: ``condor_status -json`` and ``condor_status -schedd -json``: ads already.

Slots keep their ads and get the names by which GLUE 1.3 knows hosts; each schedd is a queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from matchmaker.batch.description.records import PRODUCTION, Queue
from matchmaker.batch.description.texts import Text, as_json
from matchmaker.classad import ClassAd, ParseError, parse_ads, parse_expr

LRMS: Final = "htcondor"

COMMANDS: Final = (("condor_status", "-json"), ("condor_status", "-schedd", "-json"))

_OF_HOSTS: Final = {
    "LRMSType": '"htcondor"',
    "NodeState": "State",
    "Available": 'State is undefined || (State != "Owner" && State != "Drained")',
    "GlueHostArchitectureSMPSize": "DetectedCpus ?: (TotalCpus ?: Cpus)",
    "GlueHostMainMemoryRAMSize": "DetectedMemory ?: (TotalMemory ?: Memory)",
    "GlueHostArchitecturePlatformType": "Arch",
    "GlueHostOperatingSystemName": "OpSysName ?: OpSys",
    # 904 is release 9.4, and 1200 is 12.
    "GlueHostOperatingSystemRelease": (
        "isInteger(OpSysVer) ? strcat(OpSysVer / 100,"
        ' OpSysVer % 100 == 0 ? "" : strcat(".", OpSysVer % 100)) : undefined'
    ),
}


def read(texts: Iterable[Text]) -> tuple[list[ClassAd], list[Queue]]:
    """The slots and schedds in some outputs, in any order.

    Raises DescriptionError for what is no JSON list of ads.
    """
    slots: list[ClassAd] = []
    queues: list[Queue] = []
    for text in texts:
        for ad in _ads(text):
            if ad.eval("MyType") == "Scheduler":
                queues.append(_queue(ad))
            else:
                slots.append(_slot(ad))
    return slots, queues


def _ads(text: Text) -> Iterable[ClassAd]:
    # Without ads the command prints nothing at all.
    if not text.content.strip():
        return
    data = as_json(text)
    if not isinstance(data, list):
        raise text.wrong("a JSON list of ads was expected")
    for entry in data:
        if not isinstance(entry, dict):
            text.skip(str(entry), "an ad")
            continue
        try:
            yield from parse_ads(json.dumps([entry]), format="json")
        except ParseError as error:
            text.skip(str(entry.get("Name", entry)), f"an ad ({error})")


def _slot(ad: ClassAd) -> ClassAd:
    for name, expression in _OF_HOSTS.items():
        if name not in ad:
            ad[name] = parse_expr(expression)
    return ad


def _queue(ad: ClassAd) -> Queue:
    def number(name: str) -> int | None:
        value: Any = ad.eval(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    return Queue(
        name=str(ad.eval("Name")),
        lrms=LRMS,
        status=PRODUCTION,
        running=number("TotalRunningJobs"),
        waiting=number("TotalIdleJobs"),
        max_running=number("MaxJobsRunning"),
        native={name: str(ad.eval(name)) for name in ad},
    )
