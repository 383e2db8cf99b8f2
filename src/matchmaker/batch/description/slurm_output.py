"""The outputs of Slurm's commands, lines or JSON, as facts by their names.

What the facts mean is in ``slurm``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from matchmaker.batch.description.texts import Text, as_object, flat, listed

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
_LISTS: Final = {"nodes": "node", "partitions": "partition", "jobs": "job"}
_NOTHING: Final = frozenset({"", "No nodes in the system", "No partitions in the system"})


def records(text: Text) -> Iterator[tuple[str, dict[str, str]]]:
    """The nodes, partitions and jobs of an output; an empty job where there are none."""
    if text.content.lstrip().startswith("{"):
        data = as_object(text)
        known = [name for name in _LISTS if name in data]
        if not known:
            raise text.wrong(f"none of {', '.join(_LISTS)} is in it")
        for name in known:
            if name == "jobs":
                yield "job", {}
            for entry in listed(text, data, name):
                yield _LISTS[name], _partition(entry) if name == "partitions" else flat(entry)
        for error in listed(text, data, "errors"):
            raise text.wrong(f"Slurm reports an error: {str(error.get('error') or error)[:200]}")
        return
    if not text.content.strip():
        yield "job", {}
    before: dict[str, str] = {}
    alike: dict[str, list[dict[str, str]]] = {}
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
            alike.setdefault(kind, []).append(facts)
            yield kind, facts
        elif facts or line.strip() not in _NOTHING:
            text.skip(line, f"a node, a partition, or a job as {JOB} has it")
            # It may be the rest of the line before, with lists of who is admitted.
            before[LOST] = line.strip()
        before = facts
    if kind is not None:
        *others, last = alike[kind]
        text.check_end(f"{kind} {next(iter(last.values()), '')}", last, others)


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
        if found.setdefault(mark[1], value) != value and mark[1].startswith(_LISTED):
            found[mark[1]] += f"={value}"  # neither of two lists is to be believed
    return found
