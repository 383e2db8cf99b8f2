"""PBS Pro and OpenPBS: ``pbsnodes -a -F json`` and ``qstat -Q -f -F json``.

The shapes are those of the PBS Professional Reference Guide (pbsnodes, qstat, *Vnode Attributes*,
*Queue Attributes*). Torque is in ``torque``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from matchmaker.batch.description.records import Node, Queue, by_queue, cpus, status
from matchmaker.batch.description.texts import Text, as_object, flat
from matchmaker.batch.description.units import less, megabytes, seconds, whole, words

LRMS: Final = "pbspro"

COMMANDS: Final = (
    ("pbsnodes", "-a", "-F", "json"),
    ("qstat", "-Q", "-f", "-F", "json"),
)

AVAILABLE: Final = frozenset(
    {"free", "busy", "job-busy", "job-exclusive", "job-sharing", "resv-exclusive"}
)
"""States of a node that takes jobs, now or when it has room."""

_AVAILABLE: Final = "resources_available."
_ASSIGNED: Final = "resources_assigned."
_LIMIT: Final = re.compile(r"\[o:PBS_ALL=(\d+)\]")


def read(texts: Iterable[Text]) -> tuple[list[Node], list[Queue]]:
    """The nodes and execution queues in some outputs, in any order.

    A node that no queue is set for takes jobs of every queue that has no nodes of its own.
    """
    nodes: dict[str, dict[str, str]] = {}
    queues: dict[str, dict[str, str]] = {}
    for text in texts:
        data = as_object(text)
        if "nodes" not in data and "Queue" not in data:
            raise text.wrong('neither "nodes" nor "Queue" is in it')
        nodes.update(_named(text, data, "nodes"))
        queues.update(_named(text, data, "Queue"))
    bound = {facts["queue"] for facts in nodes.values() if "queue" in facts}
    executing = [name for name, facts in queues.items() if executes(facts)]
    free = tuple(name for name in executing if name not in bound)
    found = [_node(name, facts, free) for name, facts in nodes.items()]
    behind = by_queue(found)
    return found, [queue(name, queues[name], LRMS, behind.get(name, ())) for name in executing]


def _named(text: Text, data: Mapping[str, Any], key: str) -> dict[str, dict[str, str]]:
    entries = data.get(key, {})
    if not isinstance(entries, dict):
        raise text.wrong(f"{key} should be an object")
    found = {}
    for name, entry in entries.items():
        if isinstance(entry, dict):
            found[name] = flat(entry)
        else:
            text.skip(f"{name}: {entry}", f"an object in {key}")
    return found


def _node(name: str, facts: Mapping[str, str], free_queues: tuple[str, ...]) -> Node:
    has = _part(facts, _AVAILABLE)
    used = _part(facts, _ASSIGNED)
    states = words(facts.get("state"))
    cores, gpus = whole(has.get("ncpus", facts.get("pcpus"))), whole(has.get("ngpus"))
    memory = megabytes(has.get("mem"))
    return Node(
        name=name,
        lrms=LRMS,
        state=facts.get("state", "unknown"),
        available=bool(states) and AVAILABLE.issuperset(states),
        cpus=cores,
        free_cpus=less(cores, whole(used.get("ncpus", "0"))),
        memory=memory,
        free_memory=less(memory, megabytes(used.get("mem", "0"))),
        gpus=gpus,
        free_gpus=less(gpus, whole(used.get("ngpus", "0"))),
        arch=has.get("arch"),
        # Booleans of the site's own are asked for like features: `:bigmem=True`.
        features=tuple(each for each, value in has.items() if value.lower() == "true"),
        queues=(facts["queue"],) if "queue" in facts else words(has.get("Qlist")) or free_queues,
        native=facts,
    )


def executes(facts: Mapping[str, str]) -> bool:
    """Whether a queue of PBS or Torque runs jobs; one that routes hands them to others."""
    return facts.get("queue_type", "Execution")[:1] in "Ee"


def queue(name: str, facts: Mapping[str, str], lrms: str, mine: Sequence[Node]) -> Queue:
    """A queue of PBS or Torque, from its attributes by their names, and the nodes behind it."""
    counts = {
        state: whole(number)
        for state, _, number in (
            part.partition(":") for part in words(facts.get("state_count"), " ")
        )
    }
    total, free = cpus(mine)
    return Queue(
        name=name,
        lrms=lrms,
        status=status(_is_true(facts.get("enabled")), _is_true(facts.get("started"))),
        total_cpus=total,
        free_cpus=free,
        running=counts.get("Running"),
        waiting=counts.get("Queued"),
        max_wall=seconds(facts.get("resources_max.walltime")),
        max_cpu=seconds(facts.get("resources_max.cput")),
        max_jobs=_limit(facts.get("max_queued", facts.get("max_queuable"))),
        max_running=_limit(facts.get("max_run", facts.get("max_running"))),
        priority=whole(facts.get("Priority")),
        native=facts,
    )


def _part(facts: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: text for name, text in facts.items() if name.startswith(prefix)}


def _limit(text: str | None) -> int | None:
    """A limit on all jobs: a number, or ``[o:PBS_ALL=10]`` among limits on users and groups."""
    found = _LIMIT.search(text) if text else None
    return whole(found[1]) if found else whole(text)


def _is_true(text: str | None) -> bool:
    return (text or "").lower() == "true"
