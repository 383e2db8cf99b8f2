"""Slurm's nodes, partitions and jobs: ``scontrol show node|partition`` and ``squeue``.

Lines are those of ``scontrol -o`` or without it (scontrol(1), versions 14.03 to 25.11), JSON that
of ``--json`` and of slurmrestd (0.0.37 to 0.0.44). Tables give the names of one fact in each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from matchmaker.batch.description.access import (
    ALLOWED,
    DENIED,
    EVERYBODY,
    NOBODY,
    Access,
    names_in,
)
from matchmaker.batch.description.hosts import has
from matchmaker.batch.description.records import (
    CLOSED,
    DRAINING,
    PRODUCTION,
    QUEUEING,
    Node,
    Queue,
    by_queue,
    cpus,
    greatest,
)
from matchmaker.batch.description.slurm_output import JOB, WHO, records
from matchmaker.batch.description.texts import Format, Text
from matchmaker.batch.description.units import (
    first,
    less,
    limit,
    megabytes,
    platform,
    real,
    whole,
    words,
)

LRMS: Final = "slurm"

COMMANDS: Final = (
    ("scontrol", "--details", "--oneliner", "show", "node"),
    ("scontrol", "--oneliner", "show", "partition"),
    ("squeue", "--noheader", "--array", f"--format={JOB}"),
)

_OF_JSON: Final = ("0.0.37", "0.0.38", "0.0.39", "0.0.40", "0.0.41", "0.0.42", "0.0.43", "0.0.44")
FORMATS: Final = (
    Format("scontrol show node", ("14.03", "22.05", "25.11"), running=("22.05",)),
    Format("scontrol show partition", ("14.03", "22.05", "25.11"), running=("22.05",)),
    Format("nodes in JSON", _OF_JSON, running=_OF_JSON[:2]),
    Format("partitions in JSON", _OF_JSON, running=_OF_JSON[:2]),
    Format("jobs in JSON", _OF_JSON, running=_OF_JSON[:2]),
    Format(f"squeue --format={JOB!r}", ("22.05",), running=("22.05",)),
)

_NODE: Final = {
    "name": ("NodeName", "name"),
    "state": ("State", "state"),
    "flags": ("state_flags",),
    "cpus": ("CPUEfctv", "effective_cpus", "CPUTot", "cpus"),
    "used cpus": ("CPUAlloc", "alloc_cpus"),
    "memory": ("RealMemory", "real_memory"),
    "reserved memory": ("MemSpecLimit", "specialized_memory"),
    "used memory": ("AllocMem", "alloc_memory"),
    "disk": ("TmpDisk", "temporary_disk"),
    "gres": ("Gres", "gres"),
    "used gres": ("GresUsed", "gres_used"),
    "tres": ("CfgTRES", "tres"),
    "used tres": ("AllocTRES", "tres_used"),
    "arch": ("Arch", "architecture"),
    "system": ("OS", "operating_system"),
    "load": ("CPULoad",),
    "hundredths of load": ("cpu_load",),
    "features": ("ActiveFeatures", "active_features", "AvailableFeatures", "Features", "features"),
    "partitions": ("Partitions", "partitions"),
}
"""The names of a node's facts, in lines and in JSON, the most telling first."""

_PARTITION: Final = {
    "name": ("PartitionName", "name"),
    "state": ("State", "partition.state", "state", "nodes_online"),
    "cpus": ("TotalCPUs", "cpus.total", "total_cpus"),
    "time": ("MaxTime", "maximums.time", "max_time_limit"),
    "cpus of a node": ("MaxCPUsPerNode", "maximums.cpus_per_node", "maximum_cpus_per_node"),
    "memory of a node": (
        "MaxMemPerNode", "maximums.partition_memory_per_node", "maximum_memory_per_node",
    ),
    "memory of a cpu": (
        "MaxMemPerCPU", "maximums.partition_memory_per_cpu", "maximum_memory_per_cpu",
    ),
    # Either of both, in versions 0.0.37 and 0.0.39 of the JSON alone.
    "memory": ("maximum_memory_per_node", "maximums.memory_per_cpu"),
    "priority": ("PriorityTier", "priority.tier", "priority_tier", "Priority"),
    "default": ("Default",),
    "flags": ("flags",),
    "nodes": ("Nodes", "nodes.configured", "nodes"),
}  # fmt: skip
_ACCESS: Final = {
    "AllowGroups": "AllowedGroups", "groups.allowed": "AllowedGroups",
    "allowed_groups": "AllowedGroups",
    "AllowAccounts": "AllowedAccounts", "accounts.allowed": "AllowedAccounts",
    "allowed_accounts": "AllowedAccounts",
    "DenyAccounts": "DeniedAccounts", "accounts.deny": "DeniedAccounts",
    "denied_accounts": "DeniedAccounts",
    "AllowQos": "AllowedQos", "qos.allowed": "AllowedQos", "allowed_qos": "AllowedQos",
    "DenyQos": "DeniedQos", "qos.deny": "DeniedQos", "denied_qos": "DeniedQos",
}  # fmt: skip
_NOT_WHO: Final = frozenset({"allowed_allocation_nodes", "nodes.allowed_allocation"})
_WHOLE: Final = frozenset({"AllocNodes", "Hidden", *_NOT_WHO})
"""Facts that Slurm prints beside a list of each kind, groups, accounts and QOS."""
_FLAGS: Final = re.compile(r"(?:[a-z_]+(?:,[a-z_]+)*)?", re.IGNORECASE)
_ROOT: Final = {"RootOnly": frozenset({"AllocNodes", "Hidden", "ReqResv", "DisableRootJobs"}),
                "flags": frozenset({"allowed_allocation_nodes"})}  # fmt: skip
"""Where Slurm says that a partition is for root alone, and facts that it prints beside it."""

_TAKES_JOBS: Final = frozenset({"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED"})
_HARMLESS: Final = frozenset(
    {"CLOUD", "COMPLETING", "DYNAMIC_NORM", "PLANNED", "POWER", "POWERED_DOWN", "POWERING_UP",
     "POWER_UP", "RESUME", "UNDRAIN"}
)  # fmt: skip
"""Flags of a node that takes jobs all the same: one that sleeps is woken. (sinfo(1), 25.11.)"""
_MARKS: Final = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN",
                 "%": "POWERING_DOWN", "$": "MAINTENANCE", "@": "REBOOT_REQUESTED",
                 "^": "REBOOT_ISSUED", "-": "PLANNED"}  # fmt: skip

_STATUS: Final = {
    "UP": PRODUCTION, "DOWN": QUEUEING, "DRAIN": DRAINING, "INACTIVE": CLOSED,
    # Version 0.0.37 of the JSON has the number of the state, under another name.
    "3": PRODUCTION, "1": QUEUEING, "2": DRAINING, "0": CLOSED,
}  # fmt: skip
_UNSET: Final = 4294967294
_COUNTED: Final = {
    "running": frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT"}),
    "waiting": frozenset({"PENDING"}),
}

Facts = Mapping[str, str]


def read(texts: Iterable[Text]) -> tuple[list[Node], list[Queue]]:
    """The nodes and partitions in some outputs, in any order."""
    nodes: list[Facts] = []
    partitions: list[tuple[Facts, Text]] = []
    jobs: list[Facts] | None = None
    for text in texts:
        for kind, facts in records(text):
            if kind == "node":
                nodes.append(facts)
            elif kind == "partition":
                partitions.append((facts, text))
            else:
                jobs = [] if jobs is None else jobs
                jobs += [facts] if facts else []
    counts = None if jobs is None else _counted(jobs)
    of_partitions = [facts for facts, _ in partitions]
    found = [_node(facts, of_partitions) for facts in nodes]
    times = {_name(facts): limit(first(facts, _PARTITION["time"]), 60) for facts in of_partitions}
    found = [attrs.evolve(node, max_wall=greatest(map(times.get, node.queues))) for node in found]
    behind = by_queue(found)
    return found, [
        _queue(facts, _access(facts, text), behind.get(_name(facts), ()), counts)
        for facts, text in partitions
    ]


def _name(partition: Facts) -> str:
    return first(partition, _PARTITION["name"]) or ""


def _node(facts: Facts, partitions: Iterable[Facts]) -> Node:
    def said(name: str) -> str | None:
        return first(facts, _NODE[name])

    states = _states(said("state")) + _states(said("flags"))
    tres, used = _tres(said("tres")), _tres(said("used tres"))
    # What is in use is listed where it is more than nothing.
    in_use = {**dict.fromkeys(tres, "0"), **used}
    cores = _known(whole(said("cpus")), whole(tres.get("cpu")))
    memory = _known(whole(said("memory")), megabytes(tres.get("mem"), "m"))
    taken = _known(whole(said("used memory")), megabytes(in_use.get("mem"), "m"))
    gpus = _known(_gpus(said("gres")), _gpus_of(tres))
    used_gpus = _known(_gpus(said("used gres")), whole(in_use.get("gres/gpu")))
    hundredths = whole(said("hundredths of load"))
    return Node(
        name=said("name") or "",
        lrms=LRMS,
        state="+".join(states) if "state" in facts else said("state") or "UNKNOWN",
        available=_available(states),
        cpus=cores,
        free_cpus=less(cores, _known(whole(said("used cpus")), whole(in_use.get("cpu")))),
        memory=memory,
        free_memory=less(less(memory, whole(said("reserved memory") or "0")), taken),
        disk=whole(said("disk")),
        gpus=gpus,
        free_gpus=less(gpus, used_gpus if gpus else 0),
        gpu_models=_models(said("gres")) or _models(_typed(tres)),
        arch=platform(said("arch")),
        system=(said("system") or "").partition(" ")[0] or None,
        load=real(said("load")) if hundredths is None or hundredths >= _UNSET else hundredths / 100,
        features=words(said("features")),
        queues=_partitions(said("name") or "", said("partitions"), partitions),
        native=facts,
    )


def _known(number: int | None, other: int | None) -> int | None:
    return other if number is None else number


def _states(text: str | None) -> list[str]:
    """The states of ``MIXED+PLANNED``, ``idle*`` or a list in JSON.

    >>> _states("idle*"), _states("IDLE,DRAIN"), _states(None)
    (['IDLE', 'NOT_RESPONDING'], ['IDLE', 'DRAIN'], [])
    """
    found: list[str] = []
    for word in re.split(r"[+,]", (text or "").strip().upper()):
        name = word.rstrip("".join(_MARKS))
        found += [name, *(_MARKS[mark] for mark in word[len(name) :])] if word else []
    return found


def _available(states: Iterable[str]) -> bool:
    """Whether a node takes jobs: a state that does, and no flag that may hinder it."""
    known = set(states)
    return bool(known & _TAKES_JOBS) and known <= _TAKES_JOBS | _HARMLESS


def _tres(text: str | None) -> dict[str, str]:
    pairs = (word.partition("=") for word in words(text))
    return {name: value for name, _, value in pairs}


def _gpus(gres: str | None) -> int | None:
    """How many GPUs a list of generic resources has: ``gpu:a100:2(S:0),tmp:1`` has two.

    >>> _gpus("gpu:a100:2(S:0-1),gpu:h100:1"), _gpus("gpu"), _gpus("(null)"), _gpus(None)
    (3, 1, 0, None)
    """
    if gres is None or gres == "N/A":
        return None
    return sum(count for _, count in _devices(gres))


def _models(gres: str | None) -> dict[str, int]:
    """How many GPUs of each type such a list has; those without a type are left out.

    >>> _models("gpu:a100:2(S:0-1),gpu:h100:no_consume:1,gpu:a100:1"), _models("gpu:2")
    ({'a100': 3, 'h100': 1}, {})
    """
    found: dict[str, int] = {}
    for name, count in _devices(gres or ""):
        if name and count:
            found[name] = found.get(name, 0) + count
    return found


def _devices(gres: str) -> Iterator[tuple[str, int]]:
    """The type and the number of each entry for GPUs."""
    for one in words(re.sub(r"\([^()]*\)", "", gres)):
        kind, *rest = one.removeprefix("gres/").removeprefix("gres:").split(":")
        if kind == "gpu":
            count = whole(rest[-1]) if rest else None
            names = rest if count is None else rest[:-1]
            yield (names[0] if names and names[0] != _SHARED else ""), 1 if count is None else count


_SHARED: Final = "no_consume"
"""What stands in place of a type, or behind it, where jobs do not use a device up."""


def _typed(tres: Mapping[str, str]) -> str:
    """The typed GPUs of trackable resources, as a list of generic resources has them."""
    kinds = [name for name in tres if name.startswith("gres/gpu:")]
    return ",".join(f"{name}:{tres[name]}" for name in kinds)


def _gpus_of(tres: Mapping[str, str]) -> int | None:
    """The GPUs of trackable resources: all, or those that are counted by type alone."""
    return _known(whole(tres.get("gres/gpu")), _gpus(_typed(tres) or None))


def _partitions(node: str, said: str | None, partitions: Iterable[Facts]) -> tuple[str, ...]:
    """The partitions of a node; before version 16.05 only they say which nodes they have."""
    if said is not None:
        return words(said)
    return tuple(_name(one) for one in partitions if has(first(one, _PARTITION["nodes"]), node))


def _access(facts: Facts, text: Text) -> Access:
    """Whom a partition admits. Lists that are lost, unreadable or not known admit nobody."""
    lists: dict[str, tuple[str, ...]] = {}
    wrong = ""
    for name, value in facts.items():
        kind = _ACCESS.get(name, "")
        everybody = value == "ALL" and not kind.startswith(DENIED)
        # In JSON a list that is not set is an empty text.
        if not WHO.search(name) or name in _NOT_WHO or everybody or not (value or _of_line(name)):
            continue
        spaced = kind == "AllowedGroups"
        names = names_in(value, spaced=spaced) if kind and value != "ALL" else None
        lists[kind] = names or ()
        wrong = wrong if names else f"{name}={value[:80]} cannot be read"
    if not _FLAGS.fullmatch(facts.get("flags", "")):
        wrong = f"flags={facts['flags'][:80]} cannot be read"
    wrong = wrong or _missing(facts)
    if wrong:
        text.note(f"partition {_name(facts)} admits nobody: {wrong}")
        return NOBODY
    if facts.get("RootOnly", "NO") != "NO" or "root_only" in words(facts.get("flags")):
        lists["AllowedUsers"] = ("root",)
    return (lists,) if lists else EVERYBODY


def _missing(facts: Facts) -> str:
    """Return the missing fields of access whose neighbours Slurm printed; empty if none is."""
    names = facts.keys() & _ACCESS
    said = {_ACCESS[name] for name in names}
    kinds = {name.removeprefix(ALLOWED).removeprefix(DENIED) for name in said}
    if "PartitionName" in facts and "State" not in facts:
        return "State, and with it the end of the line, is missing"
    if len(kinds) < 3 and (kinds or facts.keys() & _WHOLE):
        return "a list of groups, accounts or QOS is missing"
    # A line has one list of a kind. JSON has both, but none of denied groups.
    twofold = () if any(map(_of_line, names)) else sorted(kinds - {"Groups"})
    pairs = [each + kind for kind in twofold for each in (ALLOWED, DENIED)]
    lost = [each for each in pairs if each not in said]
    lost += [name for name, beside in _ROOT.items() if name not in facts and facts.keys() & beside]
    return f"{lost[0]} is missing" if lost else ""


def _of_line(name: str) -> bool:
    return name[0].isupper()


_Counts = Mapping[tuple[str, str], int | None]


def _counted(jobs: Iterable[Facts]) -> _Counts:
    """How many jobs run and wait, by partition and `_COUNTED`; None where that is unknown."""
    found: dict[tuple[str, str], int | None] = {}
    for facts in jobs:
        states = set(words(first(facts, ("State", "job_state"))))
        kinds = [kind for kind, wanted in _COUNTED.items() if states & wanted]
        tasks = _tasks(facts.get("array_task_string") or "0") if kinds else 0
        for partition in words(first(facts, ("Partition", "partition"))):
            for kind in kinds:
                known = found.get((partition, kind), 0)
                sums = None if known is None or tasks is None else known + tasks
                found[partition, kind] = sums
    return found


_TASKS: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?(?::(\d{1,18}))?", re.ASCII)


def _tasks(text: str) -> int | None:
    """How many tasks a list has; None if it cannot be read.

    >>> _tasks("1-9:2,20%3"), _tasks("7"), _tasks("1,2,...")
    (6, 1, None)
    """
    count = 0
    for part in text.partition("%")[0].split(","):
        one = _TASKS.fullmatch(part)
        if one is None:
            return None
        low, high, step = int(one[1]), int(one[2] or one[1]), int(one[3] or 1)
        count += max(0, high - low) // (step or 1) + 1
    return count


def _queue(facts: Facts, access: Access, mine: Sequence[Node], counts: _Counts | None) -> Queue:
    def said(name: str) -> str | None:
        return first(facts, _PARTITION[name])

    def jobs(kind: str) -> int | None:
        return None if counts is None else counts.get((_name(facts), kind), 0)

    _, free = cpus(mine)
    state, default, flags = said("state"), said("default"), said("flags")
    if default is None and flags is not None:
        default = "YES" if "default" in words(flags.lower()) else "NO"
    of_node, of_cpu = _most(said("memory of a node")), _most(said("memory of a cpu"))
    if of_node is None and of_cpu is None:
        of_node, of_cpu = _most_of_either(said("memory"))
    return Queue(
        name=_name(facts),
        lrms=LRMS,
        status=None if state is None else _STATUS.get(state.upper(), CLOSED),
        total_cpus=whole(said("cpus")),
        free_cpus=free,
        running=jobs("running"),
        waiting=jobs("waiting"),
        max_wall=limit(said("time"), 60),
        max_node_cpus=_most(said("cpus of a node")),
        max_node_memory=of_node,
        max_cpu_memory=of_cpu,
        priority=whole(said("priority")),
        default=None if default is None else default == "YES",
        access=access,
        native=facts,
    )


def _most(text: str | None) -> int | None:
    """A limit on a job; None where there is none, which JSON writes as 0 or -1.

    >>> _most("4"), _most("UNLIMITED"), _most("0"), _most("-1"), _most(None)
    (4, None, None, None, None)
    """
    number = whole(text)
    return number if number is not None and number > 0 else None


_OF_CPU: Final = 1 << 63
"""The bit that makes a limit of memory one for each processor."""


def _most_of_either(text: str | None) -> tuple[int | None, int | None]:
    """The limits of memory on a node and for each processor, of which a number is one.

    >>> _most_of_either("3000"), _most_of_either("-9223372036854775308"), _most_of_either("0")
    ((3000, None), (None, 500), (None, None))
    """
    if text is not None and re.fullmatch(r"-\d{19}", text, re.ASCII):
        return None, _most(str(int(text) + _OF_CPU))
    return _most(text), None
