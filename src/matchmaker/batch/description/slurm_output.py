"""The outputs of Slurm's commands, lines or JSON, as facts by their names.

What the facts mean is in ``slurm``. In JSON the lists of slurmrestd are read without the object
around them too, as Slurm-web passes them on, and those of ``sinfo --json``, which groups nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from matchmaker.batch.description.texts import Text, as_json, flat, listed, put
from matchmaker.batch.description.units import words

JOB: Final = "Job=%i Partition=%P State=%T"
"""The format of a job in lines of ``squeue``."""

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
_NOTHING: Final = frozenset({"", "No nodes in the system", "No partitions in the system"})


def records(text: Text) -> Iterator[tuple[str, dict[str, str]]]:
    """The nodes, partitions and jobs of an output; an empty job where there are none.

    Nodes and partitions of ``sinfo`` are called so: other outputs say more of them.
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


def _of_json(text: Text) -> Iterator[tuple[str, dict[str, str]]]:
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
        raise text.wrong(f"none of {', '.join(_LISTS)} is in it")
    for name in known:
        if name == "jobs":
            yield "job", {}
        if name == "sinfo":
            yield from _of_sinfo(list(listed(text, data, name)), text)
            continue
        for entry in listed(text, data, name):
            yield from _entry(_LISTS[name], entry, text)
    for error in listed(text, data, "errors"):
        raise text.wrong(f"Slurm reports an error: {str(error.get('error') or error)[:200]}")


def _kind(entry: Any) -> str | None:
    """Tell what an entry of a list is.

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


def _entry(kind: str, entry: Mapping[str, Any], text: Text) -> Iterator[tuple[str, dict[str, str]]]:
    if kind == "partition":
        yield kind, _partition(entry)
    else:
        yield kind, flat(entry)


def _of_sinfo(
    entries: Iterable[Mapping[str, Any]], text: Text
) -> Iterator[tuple[str, dict[str, str]]]:
    """The nodes and partitions of ``sinfo --json``: an entry for nodes that are in one state.

    Of several nodes in an entry only what they share is read: their sizes where the least is the
    greatest. ``sinfo --Node --json`` has an entry for each node.
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
    """The facts that hold of each node of an entry of ``sinfo``, under a node's own names.

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
    """The facts of a partition; what is null is said, if only as nothing.

    A list of access that is not set is an empty text. What else has no names in it is no list.

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
        value = line[mark.end() : end].strip()
        if mark[1].startswith(_LISTED):
            put(found, mark[1], value)  # neither of two lists is to be believed
        else:
            found.setdefault(mark[1], value)
    return found
