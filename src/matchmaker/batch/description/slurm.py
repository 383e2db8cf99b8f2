"""Slurm's nodes and partitions: ``scontrol show node|partition``, as lines or as JSON.

The lines are those of ``scontrol -o`` or without it (man scontrol, versions 20 to 25). The JSON is
that of ``scontrol show nodes|partitions --json`` and, before version 23.02, of ``sinfo --json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from matchmaker.batch.description.records import (
    CLOSED,
    DRAINING,
    PRODUCTION,
    QUEUEING,
    Node,
    Queue,
    by_queue,
    cpus,
)
from matchmaker.batch.description.texts import Text, as_object, flat, listed
from matchmaker.batch.description.units import less, real, seconds, whole, words

LRMS: Final = "slurm"

_JOB: Final = "Job=%i Partition=%P State=%T"
COMMANDS: Final = (
    ("scontrol", "--oneliner", "show", "node"),
    ("scontrol", "--oneliner", "show", "partition"),
    ("squeue", "--noheader", "--array", f"--format={_JOB}"),
)

_PAIR: Final = re.compile(r"(?:(?<=\s)|^)([A-Za-z][A-Za-z0-9_:/]*)=")
_LAST: Final = ("Reason", "Comment", "Extra", "OS")
"""What may hold anything, ``a=b`` too; ``OS`` ends before ``RealMemory``."""

_TAKES_JOBS: Final = frozenset({"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED"})
_OUT: Final = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FUTURE", "INVAL", "INVALID_REG",
     "MAINT", "NOT_RESPONDING", "NO_RESPOND", "POWERING_DOWN", "REBOOT", "REBOOT_ISSUED",
     "REBOOT_REQUESTED", "UNKNOWN"}
)  # fmt: skip
_STATUS: Final = {"UP": PRODUCTION, "DOWN": QUEUEING, "DRAIN": DRAINING, "INACTIVE": CLOSED}
_NO_LIMIT: Final = 4294967295
_RUNS: Final = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT"})


def read(texts: Iterable[Text]) -> tuple[list[Node], list[Queue]]:
    """The nodes and partitions in some outputs, in any order."""
    nodes: list[Node] = []
    partitions: list[Mapping[str, str]] = []
    jobs: list[Mapping[str, str]] | None = None
    for text in texts:
        if text.content.lstrip().startswith("{"):
            data = as_object(text)
            nodes += (_node_of_json(entry) for entry in listed(text, data, "nodes"))
            partitions += (_partition_of_json(entry) for entry in listed(text, data, "partitions"))
            continue
        for line, words_ in _entries(text.content):
            if "NodeName" in words_:
                nodes.append(_node(words_))
            elif "PartitionName" in words_:
                partitions.append(words_)
            elif "Job" in words_:
                jobs = jobs if jobs is not None else []
                jobs.append(words_)
            elif words_ or line.strip() not in _NOTHING:
                text.skip(line, f"a node, a partition, or a job as {_JOB} has it")
        if not text.content.strip():
            jobs = jobs if jobs is not None else []
    behind = by_queue(nodes)
    return nodes, [
        _queue(entry, behind.get(entry["PartitionName"], ()), jobs) for entry in partitions
    ]


_NOTHING: Final = frozenset({"", "No nodes in the system", "No partitions in the system"})


def _entries(content: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each entry with its first line: a line each, or several with an empty line between."""
    lines: list[str] = []
    for line in (*content.split("\n"), ""):
        begins = bool(line) and not line[0].isspace()
        if lines and (begins or not line.strip()):
            yield lines[0], _pairs(" ".join(lines))
            lines = []
        if line.strip():
            lines.append(line)


def _pairs(line: str) -> dict[str, str]:
    found: dict[str, str] = {}
    marks = list(_PAIR.finditer(line))
    index = 0
    while index < len(marks):
        mark = marks[index]
        index += 1
        if mark[1] in _LAST:
            # What follows is of the text, up to the name that Slurm prints next, if any.
            while index < len(marks) and not (mark[1] == "OS" and marks[index][1] == "RealMemory"):
                index += 1
        end = marks[index].start() if index < len(marks) else len(line)
        found.setdefault(mark[1], line[mark.end() : end].strip())
    return found


def _node(facts: Mapping[str, str]) -> Node:
    states = [state.strip("*~#!%$@^-") for state in facts.get("State", "UNKNOWN").split("+")]
    cores, used = whole(facts.get("CPUTot")), whole(facts.get("CPUAlloc"))
    memory, taken = whole(facts.get("RealMemory")), whole(facts.get("AllocMem"))
    gpus = _gpus(facts.get("Gres"))
    used_gpus = _gpus_of_tres(facts.get("AllocTRES"))
    return Node(
        name=facts["NodeName"],
        lrms=LRMS,
        state=facts.get("State", "UNKNOWN"),
        available=_available(states) and not facts.get("State", "").endswith("*"),
        cpus=cores,
        free_cpus=less(cores, used),
        memory=memory,
        free_memory=less(memory, taken),
        disk=whole(facts.get("TmpDisk")),
        gpus=gpus,
        free_gpus=less(gpus, used_gpus),
        arch=facts.get("Arch") or None,
        system=_first_word(facts.get("OS")),
        load=real(facts.get("CPULoad")),
        features=words(facts.get("ActiveFeatures", facts.get("AvailableFeatures"))),
        queues=words(facts.get("Partitions")),
        native=facts,
    )


def _available(states: Iterable[str]) -> bool:
    known = {state.upper() for state in states}
    return bool(known & _TAKES_JOBS) and not known & _OUT


def _node_of_json(entry: Mapping[str, Any]) -> Node:
    facts = flat(entry)
    states = _states(entry.get("state")) + _states(entry.get("state_flags"))
    memory, gpus = whole(facts.get("real_memory")), _gpus(facts.get("gres"))
    load = _number(entry.get("cpu_load"))
    cores = whole(facts.get("cpus"))
    idle = whole(facts.get("idle_cpus", facts.get("alloc_idle_cpus")))
    used = whole(facts.get("alloc_cpus"))
    return Node(
        name=facts.get("name", ""),
        lrms=LRMS,
        state="+".join(states) or "UNKNOWN",
        available=_available(states),
        cpus=cores,
        free_cpus=less(cores, used) if used is not None else idle,
        memory=memory,
        free_memory=less(memory, whole(facts.get("alloc_memory"))),
        disk=whole(facts.get("temporary_disk")),
        gpus=gpus,
        free_gpus=less(gpus, _gpus(facts.get("gres_used"))),
        arch=facts.get("architecture") or None,
        system=_first_word(facts.get("operating_system")),
        # Hundredths; an unset number is 2**32 - 2.
        load=None if load is None or load >= _NO_LIMIT - 1 else load / 100,
        features=_list(entry.get("active_features", entry.get("features"))),
        queues=_list(entry.get("partitions")),
        native=facts,
    )


def _states(value: Any) -> list[str]:
    if isinstance(value, str):
        value = value.split("+")
    return [str(one).upper() for one in value if one] if isinstance(value, list) else []


def _list(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(str(one) for one in value if one)
    return words(value) if isinstance(value, str) else ()


def _number(value: Any) -> float | None:
    """A number, also as newer versions wrap it: ``{"set": true, "number": 7}``."""
    if isinstance(value, dict):
        return _number(value.get("number")) if value.get("set") else None
    return None if isinstance(value, bool) else real(str(value))


def _partition_of_json(entry: Mapping[str, Any]) -> dict[str, str]:
    """A partition as the lines have it, as far as a queue needs it."""

    def at(*path: str) -> Any:
        value: Any = entry
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    minutes = at("maximums", "time")
    if isinstance(minutes, dict) and minutes.get("infinite"):
        minutes = None
    limit = _number(minutes)
    facts = {
        **flat(entry),
        "PartitionName": str(at("name") or ""),
        "State": (_states(at("partition", "state") or at("state")) or ["UP"])[0],
        "TotalCPUs": str(at("cpus", "total")),
        "MaxTime": "UNLIMITED" if limit is None else str(int(limit)),
        "PriorityTier": str(at("priority", "tier")),
    }
    flags = at("flags") or at("partition", "flags") or []
    facts["Default"] = "YES" if "default" in str(flags).lower() else "NO"
    return facts


def _queue(
    facts: Mapping[str, str], mine: Sequence[Node], jobs: Iterable[Mapping[str, str]] | None
) -> Queue:
    name = facts["PartitionName"]
    _, free = cpus(mine)
    states = [job.get("State", "") for job in jobs or () if name in words(job.get("Partition"))]
    return Queue(
        name=name,
        lrms=LRMS,
        status=_STATUS.get(facts.get("State", "UP"), CLOSED),
        total_cpus=whole(facts.get("TotalCPUs")),
        free_cpus=free,
        running=None if jobs is None else sum(state in _RUNS for state in states),
        waiting=None if jobs is None else states.count("PENDING"),
        max_wall=seconds(facts.get("MaxTime"), 60),
        priority=whole(facts.get("PriorityTier")),
        default=facts.get("Default") == "YES",
        native=facts,
    )


def _gpus(gres: str | None) -> int | None:
    """How many GPUs a list of generic resources has: ``gpu:a100:2(S:0),tmp:1`` has two.

    >>> _gpus("gpu:a100:2(S:0-1),gpu:h100:1"), _gpus("gpu"), _gpus("(null)"), _gpus(None)
    (3, 1, 0, None)
    """
    if gres is None:
        return None
    total = 0
    for one in words(re.sub(r"\([^)]*\)", "", gres)):
        kind, *rest = one.split(":")
        if kind.removeprefix("gres/") == "gpu":
            count = whole(rest[-1]) if rest else None
            total += 1 if count is None else count
    return total


def _gpus_of_tres(tres: str | None) -> int | None:
    for one in words(tres):
        name, _, number = one.partition("=")
        if name == "gres/gpu":
            return whole(number)
    return 0


def _first_word(text: str | None) -> str | None:
    return text.split()[0] if text and text.split() else None
