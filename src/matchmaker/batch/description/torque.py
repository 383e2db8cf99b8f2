"""Torque: ``pbsnodes -x`` (XML) and ``qstat -Q -f`` (lines).

The shapes are those of the TORQUE Administrator Guide (pbsnodes, qstat, *Queue attributes*) and of
what its ``pbs_mom`` reports in ``status``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from matchmaker.batch.description import pbs
from matchmaker.batch.description.records import Node, Queue, by_queue
from matchmaker.batch.description.texts import Text, as_xml
from matchmaker.batch.description.units import less, megabytes, real, whole, words

LRMS: Final = "torque"

COMMANDS: Final = (("pbsnodes", "-x"), ("qstat", "-Q", "-f"))

_QUEUE: Final = "Queue:"


def read(texts: Iterable[Text]) -> tuple[list[Node], list[Queue]]:
    """The nodes and execution queues in some outputs, in any order.

    A property that a queue's ``resources_default.neednodes`` names binds the nodes that have it to
    the queue; where a queue names none, it has all.
    """
    nodes: list[Node] = []
    queues: dict[str, dict[str, str]] = {}
    for text in texts:
        if text.content.lstrip().startswith("<"):
            root = as_xml(text)
            if root.tag != "Data":
                raise text.wrong(f"<Data> was expected, not <{root.tag}>")
            nodes += (
                _node({part.tag: (part.text or "").strip() for part in entry})
                for entry in root.iter("Node")
            )
        else:
            queues.update(_queues(text))
    executing = {name: facts for name, facts in queues.items() if pbs.executes(facts)}
    bound = [
        attrs.evolve(
            node,
            queues=tuple(
                name
                for name, facts in executing.items()
                if facts.get("resources_default.neednodes", node.name)
                in (node.name, *node.features)
            ),
        )
        for node in nodes
    ]
    behind = by_queue(bound)
    return bound, [
        pbs.queue(name, facts, LRMS, behind.get(name, ())) for name, facts in executing.items()
    ]


def _node(facts: Mapping[str, str]) -> Node:
    status = {
        name.strip(): value.strip()
        for name, _, value in (part.partition("=") for part in facts.get("status", "").split(","))
        if name.strip()
    }
    states = words(facts.get("state"))
    cpus, gpus = whole(facts.get("np")), whole(facts.get("gpus"))
    # One entry a processor in use, `0/123.server`, or since version 5 ranges: `0-3/123.server`.
    used = sum(_processors(job.partition("/")[0]) for job in words(facts.get("jobs")))
    return Node(
        name=facts.get("name", ""),
        lrms=LRMS,
        state=facts.get("state", "unknown"),
        available=bool(states) and pbs.AVAILABLE.issuperset(states),
        cpus=cpus,
        free_cpus=less(cpus, used),
        memory=megabytes(status.get("physmem")),
        free_memory=megabytes(status.get("availmem")),
        gpus=gpus,
        system=status.get("opsys"),
        arch=_architecture(status.get("uname")),
        load=real(status.get("loadave")),
        features=words(facts.get("properties")),
        native={
            **{name: text for name, text in facts.items() if name != "status"},
            **{f"status.{name}": text for name, text in status.items()},
        },
    )


def _processors(places: str) -> int:
    """How many processors a part of a list of jobs stands for.

    >>> _processors("0"), _processors("0-3"), _processors("x")
    (1, 4, 1)
    """
    first, _, last = places.partition("-")
    begin, end = whole(first), whole(last or first)
    return 1 if begin is None or end is None or not 0 <= end - begin < 1 << 16 else end - begin + 1


def _architecture(uname: str | None) -> str | None:
    """The machine of ``Linux wn1 5.14.0 #1 SMP … x86_64``."""
    return uname.split()[-1] if uname and len(uname.split()) > 1 else None


def _queues(text: Text) -> dict[str, dict[str, str]]:
    """``Queue: batch``, then lines ``name = value``; a tab begins what continues a value."""
    found: dict[str, dict[str, str]] = {}
    facts: dict[str, str] | None = None
    name: str | None = None
    for line in text.content.split("\n"):
        if line.startswith(_QUEUE):
            facts, name = found.setdefault(line[len(_QUEUE) :].strip(), {}), None
        elif line.startswith("\t") and facts is not None and name is not None:
            facts[name] += line.strip()
        elif " = " in line and facts is not None:
            name, _, value = (part.strip() for part in line.partition(" = "))
            facts[name] = value
        elif line.strip():
            text.skip(line, "Queue: NAME or NAME = VALUE")
    return found
