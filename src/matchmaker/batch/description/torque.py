"""Torque: ``pbsnodes -x`` (XML) or ``pbsnodes -a`` (text), and ``qstat -Q -f`` (text).

The shapes are those of the TORQUE Administrator Guide (pbsnodes, qstat, *Queue attributes*) and of
what its ``pbs_mom`` reports in ``status``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from matchmaker.batch.description import pbs
from matchmaker.batch.description.records import Node, Queue
from matchmaker.batch.description.texts import (
    FactReader,
    Format,
    Text,
    as_xml,
    less,
    platform,
    whole,
    words,
)

LRMS: Final = "torque"

COMMANDS: Final = (("pbsnodes", "-x"), ("qstat", "-Q", "-f"))

FORMATS: Final = (
    Format("pbsnodes -x", ("2.5", "4.2", "6.1")),
    Format("pbsnodes -a", ("2.5", "6.1")),
    Format("qstat -Q -f", ("2.5", "6.1")),
)


def read(texts: Iterable[Text]) -> tuple[list[Node], list[Queue]]:
    """The nodes, and the queues that jobs are submitted to, in some outputs, in any order.

    A property that a queue's ``resources_default.neednodes`` names binds the nodes that have it to
    the queue; where a queue names none, it has all.
    """
    nodes: list[Node] = []
    queues = pbs.Queues()
    for text in texts:
        if text.content.lstrip().startswith("<"):
            root = as_xml(text)
            if root.tag != "Data":
                raise text.wrong(f"<Data> was expected, not <{root.tag}>")
            nodes += (
                _node({part.tag: (part.text or "").strip() for part in entry}, text)
                for entry in root.iter("Node")
            )
        else:
            listed = pbs.listed_nodes(text, queues)
            nodes += (_node({"name": name, **facts}, text) for name, facts in listed.items())
    features = {node.name: node.features for node in nodes}

    def takes(queue: str, node: str) -> bool:
        needed = queues.facts[queue].get("resources_default.neednodes", node)
        return needed in (node, *features[node])

    return queues.described(LRMS, nodes, takes)


def _node(facts: Mapping[str, str], text: Text) -> Node:
    node = FactReader(f"node {facts.get('name', '')}", facts, text)
    status = {
        name.strip(): value.strip()
        for name, _, value in (part.partition("=") for part in facts.get("status", "").split(","))
        if name.strip()
    }
    states = words(facts.get("state"))
    reported = FactReader(f"{node.place}: status", status, text)
    cpus, gpus = node.number("np"), node.number("gpus")
    # One entry a processor in use, `0/123.server`, or since version 5 ranges: `0-3/123.server`.
    used = sum(_processors(job.partition("/")[0]) for job in words(facts.get("jobs")))
    memory = reported.size("physmem")
    return Node(
        name=facts.get("name", ""),
        lrms=LRMS,
        state=facts.get("state", "unknown"),
        available=bool(states) and pbs.AVAILABLE.issuperset(states),
        cpus=cpus,
        free_cpus=less(cpus, used),
        memory=memory,
        # What is available, and the total, count swap, all of which may be what is free.
        free_memory=less(reported.size("availmem"), less(reported.size("totmem"), memory)),
        gpus=gpus,
        system=status.get("opsys"),
        arch=platform((status.get("uname") or "").rpartition(" ")[2]),
        load=reported.load("loadave"),
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
