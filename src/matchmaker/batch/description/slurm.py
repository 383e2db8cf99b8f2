"""Slurm's nodes, partitions and jobs: ``scontrol show node|partition`` and ``squeue``.

Lines are those of ``scontrol -o`` or without it (scontrol(1), versions 14.03 to 25.11), JSON that
of ``--json`` and of slurmrestd (0.0.37 to 0.0.45). Tables give the names of one fact in each. In
JSON the lists of slurmrestd are read without the object around them too, as Slurm-web passes them
on, and those of ``sinfo --json``, which groups nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from matchmaker._diagnostics import NOTE
from matchmaker.batch.description.records import (
    ALLOWED,
    CLOSED,
    DENIED,
    DRAINING,
    EVERYBODY,
    NOBODY,
    PRODUCTION,
    QUEUEING,
    Access,
    NodeRecord,
    QueueRecord,
    SystemReader,
    by_queue,
    cpus,
    greatest,
    names_in,
)
from matchmaker.batch.description.texts import (
    UNLIMITED,
    FactReader,
    Output,
    OutputFormat,
    as_json,
    count,
    first,
    flat,
    has,
    join,
    less,
    limit,
    listed,
    platform,
    whole,
    words,
)

JOB: Final = "Job=%i Partition=%P State=%T"
"""The format of a job in lines of ``squeue``."""

# A name begins a word: `a=b` within a value does not.
_PAIR: Final = re.compile(r"(?:(?<=\s)|^)([A-Za-z][A-Za-z0-9_:/]*)=")
_LAST: Final = ("Reason", "Comment", "Extra", "OS")
"""What may hold anything, ``a=b`` too; ``OS`` ends before ``RealMemory``."""

WHO: Final = re.compile(r"(?:^|\.)(?:allow|deny|denied)", re.IGNORECASE)
"""What the names of facts on access begin with. One that is not known may keep anybody out."""

_LISTED: Final = ("Allow", "Deny", "RootOnly")
"""How the names of facts on access begin."""

LOST: Final = "Allow or Deny"
"""The name of what may have been lists of access, and cannot be read."""

_HEADS: Final = {"NodeName": "node", "PartitionName": "partition", "Job": "job"}
_NAMES: Final = {kind: name for name, kind in _HEADS.items()}
_LISTS: Final = {"nodes": "node", "partitions": "partition", "jobs": "job", "sinfo": "sinfo"}
_OF_PARTITIONS: Final = frozenset(
    {"nodes", "node_sets", "partition", "maximums", "priority", "max_time_limit", "total_cpus",
     "allowed_groups"}
)  # fmt: skip
_OF_NODES: Final = frozenset({"cpus", "real_memory", "sockets", "state", "hostname", "partitions"})
"""Fields that tell entries of a list apart: versions 0.0.37 to 0.0.45, and Slurm-web's choice."""
# scontrol prints these sentences on a system without nodes or partitions.
_NOTHING: Final = frozenset({"", "No nodes in the system", "No partitions in the system"})


def records(text: Output) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the nodes, partitions and jobs of an output; an empty job if it lists no jobs.

    Nodes and partitions of ``sinfo`` have kinds of their own: other outputs say more of them.
    """
    if text.content.lstrip()[:1] in ("{", "["):
        yield from _of_json(text)
        return
    if not text.content.strip():
        yield "job", {}
    before: dict[str, str] = {}
    alike: dict[str, dict[str, dict[str, str]]] = {}
    kind = None
    for line, facts in _entries(text.content):
        kind = next((kind for name, kind in _HEADS.items() if name in facts), None)
        if kind is not None:
            if kind == "partition":
                # Slurm prints no comments there. One may have taken in the lists after it.
                facts.update((LOST, facts[name]) for name in _LAST if name in facts)
                name, *more = facts["PartitionName"].split()[:2] or [""]
                if more:  # a name has no blank: the next fact has lost its own
                    facts |= {"PartitionName": name, LOST: more[0]}
            alike.setdefault(kind, {})[facts[_NAMES[kind]]] = facts
            yield kind, facts
        elif facts or line.strip() not in _NOTHING:
            text.skip(line, f"a node, a partition, or a job as {JOB} has it")
            # It may be the rest of the line before, with lists of who is admitted.
            before[LOST] = line.strip()
        before = facts
    if kind is not None:
        text.check_end(kind, alike[kind], least=2)


def _of_json(text: Output) -> Iterator[tuple[str, dict[str, str]]]:
    data = as_json(text)
    if isinstance(data, dict) and isinstance(data.get("name"), str):
        data = [data]  # Slurm-web's answer about one node
    if isinstance(data, list):
        for entry in data:
            kind = _kind(entry)
            if kind is None:
                text.skip(str(entry), "a node, a partition or a job of slurmrestd")
            else:
                yield from _entry(kind, entry, text)
        return
    known = [name for name in _LISTS if name in data] if isinstance(data, dict) else []
    if not known:
        raise text.error(f"none of {', '.join(_LISTS)} is in it")
    for name in known:
        if name == "jobs":
            yield "job", {}
        if name == "sinfo":
            yield from _of_sinfo(list(listed(text, data, name)), text)
            continue
        for entry in listed(text, data, name):
            yield from _entry(_LISTS[name], entry, text)
    for error in listed(text, data, "errors"):
        raise text.error(f"Slurm reports an error: {str(error.get('error') or error)[:200]}")


def _kind(entry: Any) -> str | None:
    """Tell nodes, partitions and jobs apart.

    >>> _kind({"name": "n", "cpus": 4}), _kind({"name": "p", "node_sets": ""}), _kind({"x": 1})
    ('node', 'partition', None)
    """
    if not isinstance(entry, dict):
        return None
    if "job_id" in entry:
        return "job"
    if "name" not in entry:
        return None
    if _OF_PARTITIONS & entry.keys():
        return "partition"
    return "node" if _OF_NODES & entry.keys() else None


def _entry(
    kind: str, entry: Mapping[str, Any], text: Output
) -> Iterator[tuple[str, dict[str, str]]]:
    if kind == "partition":
        yield kind, _partition(entry)
    else:
        yield kind, flat(entry)


def _of_sinfo(
    entries: Iterable[Mapping[str, Any]], text: Output
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the nodes and partitions of ``sinfo --json``: an entry for nodes that are in one state.

    Of an entry with several nodes only the facts that they share are read, such as a size whose
    least is the greatest. ``sinfo --Node --json`` has an entry for each node.
    """
    nodes: dict[str, dict[str, str]] = {}
    queues: dict[str, list[str]] = {}
    partitions: dict[str, dict[str, str]] = {}
    for entry in entries:
        facts = flat(entry)
        within = entry.get("partition")
        partition = _partition(within) if isinstance(within, dict) else {}
        name = partition.get("name")
        if name:
            partitions.setdefault(name, partition)
        else:
            text.skip(str(entry), "an entry of sinfo with the name of its partition")
        names = [each for each in words(facts.get("nodes.nodes")) if each != "(null)"]
        shared = _shared(facts, alone=len(names) == 1)
        for node in names:
            known = nodes.setdefault(node, {"name": node})
            known.update({fact: value for fact, value in shared.items() if fact not in known})
            queues.setdefault(node, []).extend([name] if name else [])
    for node, known in nodes.items():
        yield "sinfo node", known | {"partitions": ",".join(dict.fromkeys(queues[node]))}
    for partition in partitions.values():
        yield "sinfo partition", partition


_SHARED: Final = {"cpus": "cpus", "memory": "real_memory", "disk": "temporary_disk",
                  "sockets": "sockets", "cores": "cores", "threads": "threads",
                  "cpus.load": "cpu_load"}  # fmt: skip
"""The facts of which ``sinfo`` gives a least and a greatest value, and a node's names for them."""
_ALONE: Final = {"memory.allocated": "alloc_memory", "features.total": "features",
                 "features.active": "active_features", "gres.total": "gres",
                 "gres.used": "gres_used", "resource_spec.memory": "specialized_memory",
                 "resource_spec.cpus": "specialized_cpus"}  # fmt: skip
"""The facts that ``sinfo`` takes from one of the nodes of an entry."""


def _shared(facts: Mapping[str, str], *, alone: bool) -> dict[str, str]:
    """Return the facts of each node of an entry of ``sinfo``, under a node's own names.

    >>> _shared({"node.state": "IDLE", "cpus.minimum": "8", "cpus.maximum": "8",
    ...          "memory.minimum": "1", "memory.maximum": "2", "cpus.allocated": "0"}, alone=False)
    {'state': 'IDLE', 'cpus': '8', 'alloc_cpus': '0', 'alloc_memory': '0'}
    """
    found = {"state": facts["node.state"]} if "node.state" in facts else {}
    for name, own in _SHARED.items():
        least, most = facts.get(f"{name}.minimum"), facts.get(f"{name}.maximum")
        if least is not None and least == most:
            found[own] = least
        elif alone and (least or most):
            found[own] = f"{least} to {most}"  # of one node these cannot differ
    used = facts.get("cpus.allocated")
    if used is not None and (alone or used == "0"):
        found["alloc_cpus"] = used
    if alone:
        found |= {own: facts[name] for name, own in _ALONE.items() if name in facts}
    elif used == "0":
        found["alloc_memory"] = "0"
    elif used == facts.get("cpus.total") and "cpus" in found:
        found["alloc_cpus"] = found["cpus"]
    return found


def _partition(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of a partition; null is an empty text.

    A list of access that is not set is an empty text; any other value without names is unreadable.

    >>> _partition({"name": "p", "alternative": None, "denied_qos": [], "qos": {"allowed": ""}})
    {'denied_qos': '(null)', 'alternative': '', 'name': 'p', 'qos.allowed': ''}
    """
    facts = {**{name: "" for name, value in entry.items() if value is None}, **flat(entry)}
    inner = (
        (f"{outer}.{name}", value)
        for outer, within in entry.items()
        if isinstance(within, dict) and not WHO.search(outer)
        for name, value in within.items()
    )
    lost = {
        name: "(null)"
        for name, value in (*entry.items(), *inner)
        if WHO.search(name) and value != "" and not facts.get(name)
    }
    return lost | {name: value for name, value in facts.items() if name not in lost}


def _entries(content: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each entry with its first line: a line each, or several with an empty line between."""
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
        value = line[mark.end() : end].strip()
        if mark[1].startswith(_LISTED):
            join(found, {mark[1]: value})  # neither of two lists is to be believed
        else:
            found.setdefault(mark[1], value)
    return found


LRMS: Final = "slurm"

COMMANDS: Final = (
    ("scontrol", "--details", "--oneliner", "show", "node"),
    ("scontrol", "--oneliner", "show", "partition"),
    ("squeue", "--noheader", "--array", f"--format={JOB}"),
)

_OF_JSON: Final = tuple(f"0.0.{minor}" for minor in range(37, 46))
FORMATS: Final = (
    OutputFormat("scontrol show node", ("14.03", "22.05", "25.11"), running=("22.05",)),
    OutputFormat("scontrol show partition", ("14.03", "22.05", "25.11"), running=("22.05",)),
    OutputFormat("nodes in JSON", _OF_JSON, running=_OF_JSON[:2]),
    OutputFormat("partitions in JSON", _OF_JSON, running=_OF_JSON[:2]),
    OutputFormat("jobs in JSON", _OF_JSON, running=_OF_JSON[:2]),
    OutputFormat("sinfo --json", _OF_JSON[2:]),
    OutputFormat("sinfo --Node --json", _OF_JSON[2:]),
    OutputFormat("nodes in JSON, as a list", _OF_JSON),
    OutputFormat("partitions in JSON, as a list", _OF_JSON),
    OutputFormat(f"squeue --format={JOB!r}", ("22.05",), running=("22.05",)),
)

_NODE: Final = {
    "name": ("NodeName", "name"),
    "state": ("State", "state"),
    "flags": ("state_flags",),
    "cpus": ("CPUTot", "cpus"),
    "offered cpus": ("CPUEfctv", "effective_cpus"),
    "sockets": ("Sockets", "sockets"),
    "cores of a socket": ("CoresPerSocket", "cores"),
    "threads of a core": ("ThreadsPerCore", "threads"),
    "reserved cores": ("CoreSpecCount", "specialized_cores"),
    "reserved cpus": ("CPUSpecList", "CpuSpecList", "specialized_cpus"),
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
# These begin like lists of access and are about the hosts that users submit from.
_NOT_WHO: Final = frozenset({"allowed_allocation_nodes", "nodes.allowed_allocation"})
_WHOLE: Final = frozenset({"AllocNodes", "Hidden", *_NOT_WHO})
"""Facts that Slurm prints beside a list of each kind, groups, accounts and QOS."""
# Flags are words. Anything else is damage, and may have been a list of access.
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
# sinfo(1) explains the marks behind a state.
_MARKS: Final = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN",
                 "%": "POWERING_DOWN", "$": "MAINTENANCE", "@": "REBOOT_REQUESTED",
                 "^": "REBOOT_ISSUED", "-": "PLANNED"}  # fmt: skip

_STATUS: Final = {
    "UP": PRODUCTION, "DOWN": QUEUEING, "DRAIN": DRAINING, "INACTIVE": CLOSED,
    # Version 0.0.37 of the JSON has the number of the state, under another name.
    "3": PRODUCTION, "1": QUEUEING, "2": DRAINING, "0": CLOSED,
}  # fmt: skip
_JOB_STATE: Final = ("State", "job_state")
# NO_VAL of slurm.h: a 32-bit number that was never set.
_UNSET: Final = 4294967294
_COUNTED: Final = {
    "running": frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT"}),
    "waiting": frozenset({"PENDING"}),
}

Facts = Mapping[str, str]


def read(texts: Iterable[Output]) -> tuple[list[NodeRecord], list[QueueRecord]]:
    """Read the nodes and partitions from outputs in any order.

    Those of ``sinfo --json`` count if no other output has them.
    """
    found: dict[str, list[tuple[Facts, Output]]] = {}
    jobs: list[Facts] | None = None
    for text in texts:
        for kind, facts in records(text):
            if kind != "job":
                found.setdefault(kind, []).append((facts, text))
                continue
            jobs = [] if jobs is None else jobs
            jobs += [facts] if facts else []
            if facts and first(facts, _JOB_STATE) is None:
                text.note("a job has no State: it is not counted")
    nodes, more = _joined(found, "node")
    _note_sinfo(more)
    partitions, _ = _joined(found, "partition")
    return _described(nodes, partitions, jobs)


_Records = list[tuple[Facts, Output]]


def _joined(found: Mapping[str, _Records], kind: str) -> tuple[_Records, _Records]:
    """Return the records of a kind, and those of them that ``sinfo`` alone has."""
    whole = found.get(kind, [])
    known = {_name(facts) for facts, _ in whole}
    more = {
        _name(facts): (facts, text)
        for facts, text in reversed(found.get(f"sinfo {kind}", []))
        if _name(facts) not in known
    }
    added = list(more.values())[::-1]
    return [*whole, *added], added


def _note_sinfo(nodes: _Records) -> None:
    """Note the facts of nodes that ``sinfo`` does not print."""
    for text in {id(text): text for _, text in nodes}.values():
        mine = [facts for facts, its in nodes if its is text]
        grouped = [facts for facts in mine if "features" not in facts]
        if grouped:
            text.note(
                f"sinfo groups {len(grouped)} nodes, such as {_name(grouped[0])}: their features,"
                " GPUs and what differs is not said; ask sinfo --Node --json, or scontrol"
                " show nodes --json"
            )
        if any("specialized_memory" not in facts for facts in mine):
            text.note(
                "sinfo does not say what nodes keep for the system (MemSpecLimit, CoreSpecCount);"
                " scontrol show nodes --json does",
                NOTE,
            )


def _described(
    nodes: _Records, partitions: _Records, jobs: list[Facts] | None
) -> tuple[list[NodeRecord], list[QueueRecord]]:
    counts = None if jobs is None else _counted(jobs)
    of_partitions = [facts for facts, _ in partitions]
    found = [_node(facts, text, of_partitions) for facts, text in nodes]
    times = {_name(facts): limit(first(facts, _PARTITION["time"]), 60) for facts in of_partitions}
    found = [attrs.evolve(node, max_wall=greatest(map(times.get, node.queues))) for node in found]
    behind = by_queue(found)
    return found, [
        _queue(facts, text, behind.get(_name(facts), ()), counts) for facts, text in partitions
    ]


def _name(facts: Facts) -> str:
    return first(facts, ("NodeName", "PartitionName", "name")) or ""


def _node(facts: Facts, text: Output, partitions: Iterable[Facts]) -> NodeRecord:
    def said(name: str) -> str | None:
        return first(facts, _NODE[name])

    name = said("name") or ""
    node = FactReader(f"node {name}", facts, text)

    def number(fact: str) -> int | None:
        return node.number(*_NODE[fact])

    def gpus(fact: str) -> int | None:
        return node.value(_NODE[fact], _gpus, "generic resources such as gpu:a100:2")

    if said("state") is None:
        text.note(f"node {name} has no State: it is taken for one that takes no jobs")
    states = _states(said("state")) + _states(said("flags"))
    configured, tres = _tres(node, "tres")
    used, _ = _tres(node, "used tres")
    # What is in use is listed where it is more than nothing.
    in_use = attrs.evolve(used, facts={**dict.fromkeys(tres, "0"), **used.facts})
    offered = _offered_cpus(node)
    # Since version 22.05 these are the CPUs that jobs can have, even if nothing else says so.
    counted = [each for each in (offered, configured.number("cpu")) if each is not None]
    cores = min(counted, default=None)
    memory = _known(number("memory"), configured.size("mem", unit="m"))
    memory = less(memory, number("reserved memory") if _has(facts, "reserved memory") else 0)
    taken = _known(number("used memory"), in_use.size("mem", unit="m"))
    all_gpus = _known(gpus("gres"), _gpus_of(configured))
    used_gpus = _known(gpus("used gres"), in_use.number("gres/gpu"))
    hundredths = number("hundredths of load")
    return NodeRecord(
        name=name,
        lrms=LRMS,
        state="+".join(states) if "state" in facts else said("state") or "UNKNOWN",
        # A state that takes jobs, and no flag that may hinder it.
        available=bool(_TAKES_JOBS.intersection(states)) and set(states) <= _TAKES_JOBS | _HARMLESS,
        cpus=cores,
        free_cpus=less(cores, _known(number("used cpus"), in_use.number("cpu"))),
        memory=memory,
        free_memory=less(memory, taken),
        disk=number("disk"),
        gpus=all_gpus,
        free_gpus=less(all_gpus, used_gpus if all_gpus else 0),
        gpu_models=_models(said("gres")) or _models(_typed(tres)),
        arch=platform(said("arch")),
        system=(said("system") or "").partition(" ")[0] or None,
        load=(
            node.load(*_NODE["load"])
            if hundredths is None or hundredths >= _UNSET
            else hundredths / 100
        ),
        features=words(said("features")),
        queues=_partitions(name, said("partitions"), partitions),
        native=facts,
    )


def _has(facts: Facts, name: str) -> bool:
    return first(facts, _NODE[name]) is not None


def _offered_cpus(node: FactReader) -> int | None:
    """Count the CPUs that jobs can have: all but those of cores that the system keeps.

    Slurm prints them since version 22.05. A core has as many CPUs as threads, or one if the node
    has no more CPUs than cores.

    >>> facts = {"CPUTot": "16", "Sockets": "2", "CoresPerSocket": "4", "ThreadsPerCore": "2"}
    >>> for more in ({"CoreSpecCount": "2"}, {"CPUSpecList": "0,8-9"}, {"CPUTot": "8",
    ...              "CoreSpecCount": "2"}, {"CPUSpecList": "some"}):
    ...     _offered_cpus(FactReader("node n", facts | more, Output("", "x")))
    12
    12
    6
    """
    offered, total, sockets, cores, threads = (
        node.number(*_NODE[name])
        for name in ("offered cpus", "cpus", "sockets", "cores of a socket", "threads of a core")
    )
    if offered is not None or total is None:
        return offered
    each = max(1, threads or 1)
    kept = node.number(*_NODE["reserved cores"]) if _has(node.facts, "reserved cores") else 0
    if kept == 0:
        listed = first(node.facts, _NODE["reserved cpus"])
        numbers = node.value(_NODE["reserved cpus"], _numbers, "numbers of CPUs such as 0-1,8")
        kept = None if listed and numbers is None else len({n // each for n in numbers or ()})
    if total <= (sockets or 1) * (cores or 1):
        each = 1
    return less(total, None if kept is None else kept * each)


def _known(number: int | None, other: int | None) -> int | None:
    return other if number is None else number


def _states(text: str | None) -> list[str]:
    """Split the states of ``MIXED+PLANNED``, ``idle*`` or a list in JSON.

    >>> _states("idle*"), _states("IDLE,DRAIN"), _states(None)
    (['IDLE', 'NOT_RESPONDING'], ['IDLE', 'DRAIN'], [])
    """
    found: list[str] = []
    for word in re.split(r"[+,]", (text or "").strip().upper()):
        name = word.rstrip("".join(_MARKS))
        found += [name, *(_MARKS[mark] for mark in word[len(name) :])] if word else []
    return found


def _tres(node: FactReader, fact: str) -> tuple[FactReader, dict[str, str]]:
    """Return the trackable resources of a fact, to read and as texts."""
    name = next((each for each in _NODE[fact] if each in node.facts), "")
    pairs = (word.partition("=") for word in words(node.facts.get(name)))
    found = {kind: value for kind, _, value in pairs}
    return FactReader(f"{node.place}: {name}", found, node.text), found


def _gpus(gres: str | None) -> int | None:
    """Count the GPUs of generic resources: ``gpu:a100:2(S:0),tmp:1`` has two.

    >>> _gpus("gpu:a100:2(S:0-1),gpu:h100:1"), _gpus("gpu"), _gpus("(null)"), _gpus(None)
    (3, 1, 0, None)
    """
    if gres is None or gres == "N/A":
        return None
    numbers = [number for _, number in _devices(gres)]
    return None if any(number < 0 for number in numbers) else sum(numbers)


def _models(gres: str | None) -> dict[str, int]:
    """Count the GPUs of each type of such a list, without those that have no type.

    >>> _models("gpu:a100:2(S:0-1),gpu:h100:no_consume:1,gpu:a100:1"), _models("gpu:2")
    ({'a100': 3, 'h100': 1}, {})
    """
    found: dict[str, int] = {}
    for name, number in _devices(gres or ""):
        if name and number > 0:
            found[name] = found.get(name, 0) + number
    return found


def _devices(gres: str) -> Iterator[tuple[str, int]]:
    for one in words(re.sub(r"\([^()]*\)", "", gres)):
        kind, *rest = one.removeprefix("gres/").removeprefix("gres:").split(":")
        if kind == "gpu":
            number = whole(rest[-1]) if rest else None
            names = rest if number is None else rest[:-1]
            model = names[0] if names and names[0] != _NO_CONSUME else ""
            yield model, 1 if number is None else number


_NO_CONSUME: Final = "no_consume"
"""What stands in place of a type, or behind it, where jobs do not use a device up."""


def _typed(tres: Mapping[str, str]) -> str:
    """Return the typed GPUs of trackable resources, as a list of generic resources."""
    kinds = [name for name in tres if name.startswith("gres/gpu:")]
    return ",".join(f"{name}:{tres[name]}" for name in kinds)


def _gpus_of(tres: FactReader) -> int | None:
    """Count the GPUs of trackable resources: all, or those that have only a type."""
    return _known(tres.number("gres/gpu"), _gpus(_typed(tres.facts) or None))


def _partitions(node: str, said: str | None, partitions: Iterable[Facts]) -> tuple[str, ...]:
    """Return the partitions of a node; before version 16.05 only they list their nodes."""
    if said is not None:
        return words(said)
    return tuple(_name(one) for one in partitions if has(first(one, _PARTITION["nodes"]), node))


def _access(facts: Facts, text: Output) -> Access:
    """Read the access of a partition. Lists that are lost, unreadable or unknown admit nobody."""
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
    if facts.get("RootOnly", "NO") != "NO" or "root_only" in words(facts.get("flags", "").lower()):
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
    """Count the jobs that run and wait, by partition and `_COUNTED`; None if that is unknown."""
    found: dict[tuple[str, str], int | None] = {}
    for facts in jobs:
        states = set(words(first(facts, _JOB_STATE)))
        kinds = [kind for kind, wanted in _COUNTED.items() if states & wanted]
        tasks = _tasks(facts.get("array_task_string") or "0") if kinds else 0
        for partition in words(first(facts, ("Partition", "partition"))):
            for kind in kinds:
                known = found.get((partition, kind), 0)
                sums = None if known is None or tasks is None else known + tasks
                found[partition, kind] = sums
    return found


def _numbers(text: str) -> set[int] | None:
    """Return the numbers of a list such as ``0-1,8``; None for one that cannot be read."""
    found: set[int] = set()
    room = _MOST_CPUS
    for part in text.split(","):
        low, _, high = part.partition("-")
        begin, end = count(low), count(high or low)
        if begin is None or end is None or not begin <= end < _MOST_CPUS:
            return None
        room -= end + 1 - begin
        if room < 0:
            return None
        found.update(range(begin, end + 1))
    return found


_MOST_CPUS: Final = 1 << 16
"""Slurm counts a node's CPUs in 16 bits."""

# `low-high:step` of --array; 18 digits fit an integer of 64 bits.
_TASKS: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?(?::(\d{1,18}))?", re.ASCII)


def _tasks(text: str) -> int | None:
    """Count the tasks of a list; None if it cannot be read.

    >>> _tasks("1-9:2,20%3"), _tasks("7"), _tasks("1,2,...")
    (6, 1, None)
    """
    found = 0
    for part in text.partition("%")[0].split(","):
        one = _TASKS.fullmatch(part)
        if one is None:
            return None
        low, high, step = int(one[1]), int(one[2] or one[1]), int(one[3] or 1)
        found += max(0, high - low) // (step or 1) + 1
    return found


def _queue(
    facts: Facts, text: Output, mine: Sequence[NodeRecord], counts: _Counts | None
) -> QueueRecord:
    name = _name(facts)
    partition = FactReader(f"partition {name}", facts, text)

    def said(fact: str) -> str | None:
        return first(facts, _PARTITION[fact])

    def jobs(kind: str) -> int | None:
        return None if counts is None else counts.get((name, kind), 0)

    def most(fact: str) -> int | None:
        """Read a limit on a job; JSON has 0 or -1 for none."""
        return partition.value(_PARTITION[fact], _limit_of_job, "a whole number, or UNLIMITED")

    _, free = cpus(mine)
    state = said("state")
    if state is not None and state.upper() not in (*_STATUS, "UNKNOWN"):
        text.note(
            f"partition {name}: State={state[:80]!r}: expected UP, DOWN, DRAIN or INACTIVE;"
            " it counts as closed"
        )
    default, flags = said("default"), said("flags")
    if default is None and flags is not None:
        default = "YES" if "default" in words(flags.lower()) else "NO"
    of_node, of_cpu = most("memory of a node"), most("memory of a cpu")
    if not of_node and not of_cpu:
        either = partition.value(_PARTITION["memory"], _most_of_either, "a whole number of MB")
        of_node, of_cpu = either or (None, None)
    return QueueRecord(
        name=name,
        lrms=LRMS,
        status=None if state is None else _STATUS.get(state.upper(), CLOSED),
        total_cpus=partition.number(*_PARTITION["cpus"]),
        free_cpus=free,
        running=jobs("running"),
        waiting=jobs("waiting"),
        max_wall=partition.time(*_PARTITION["time"], unit=60),
        max_node_cpus=most("cpus of a node") or None,
        max_node_memory=of_node or None,
        max_cpu_memory=of_cpu or None,
        priority=partition.number(*_PARTITION["priority"]),
        default=None if default is None else default == "YES",
        access=_access(facts, text),
        native=facts,
    )


_OF_CPU: Final = 1 << 63
"""The bit that makes a limit of memory one for each processor."""
# A number with the bit of _OF_CPU is negative in 64 bits, and has 19 digits.
_OF_EITHER: Final = re.compile(r"-\d{19}", re.ASCII)


def _limit_of_job(text: str) -> int | None:
    """Read a limit on a job; 0 if it is unlimited or of the other kind, None if unreadable.

    >>> _limit_of_job("4"), _limit_of_job("UNLIMITED"), _limit_of_job("-9223372036854775308")
    (4, 0, 0)
    """
    return 0 if limit(text) == UNLIMITED or _OF_EITHER.fullmatch(text) else count(text)


def _most_of_either(text: str) -> tuple[int, int] | None:
    """Read a limit of memory: on a node, and for each processor; 0 is none.

    >>> _most_of_either("3000"), _most_of_either("-9223372036854775308"), _most_of_either("-4")
    ((3000, 0), (0, 500), None)
    """
    if _OF_EITHER.fullmatch(text):
        return 0, max(0, int(text) + _OF_CPU)
    number = _limit_of_job(text)
    return None if number is None else (number, 0)


READERS: Final = (SystemReader(LRMS, COMMANDS, FORMATS, read),)
