"""LSF: ``lshosts``, ``bhosts`` and ``bqueues`` with ``-o … -json`` (LSF 10.1).

Each answers with an object: ``{"COMMAND": "bhosts", "HOSTS": 1, "RECORDS": [{"HOST_NAME": …}]}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from matchmaker.batch.description.records import Node, Queue, by_queue, cpus, status
from matchmaker.batch.description.texts import Text, as_object, flat, listed
from matchmaker.batch.description.units import known, less, megabytes, real, whole, words

LRMS: Final = "lsf"

COMMANDS: Final = (
    ("lshosts", "-o", "HOST_NAME type model cpuf ncpus maxmem maxswp maxtmp server RESOURCES",
     "-json"),
    ("bhosts", "-o", "host_name status max njobs run ssusp ususp rsv", "-json"),
    ("bqueues", "-o", "queue_name priority status max njobs pend run susp hosts runlimit cpulimit",
     "-json"),
)  # fmt: skip

_OPEN: Final = frozenset({"ok", "closed_full", "closed_excl", "closed_busy"})
"""States of a host that takes jobs, now or when it has room."""

_MINUTES: Final = re.compile(r"(\d+)(?:\.(\d+))?(?:\s*min\b.*)?", re.DOTALL)


def read(texts: Iterable[Text]) -> tuple[list[Node], list[Queue]]:
    """The hosts and queues in some outputs, in any order."""
    by_command: dict[str, list[dict[str, str]]] = {"lshosts": [], "bhosts": [], "bqueues": []}
    for text in texts:
        data = as_object(text)
        command = str(data.get("COMMAND"))
        if command not in by_command:
            known = ", ".join(by_command)
            raise text.wrong(f'"COMMAND" should be one of {known}, not {command!r}')
        by_command[command] += (
            {name.lower(): value for name, value in flat(record).items()}
            for record in listed(text, data, "RECORDS")
        )
    hosts: dict[str, dict[str, str]] = {}
    for record in (*by_command["lshosts"], *by_command["bhosts"]):
        name = record.get("host_name", record.get("hname", ""))
        hosts.setdefault(name, {}).update(record)
    queues = by_command["bqueues"]
    nodes = [
        _node(name, facts, queues) for name, facts in hosts.items() if facts.get("server") != "No"
    ]
    behind = by_queue(nodes)
    return nodes, [_queue(facts, behind.get(facts.get("queue_name", ""), ())) for facts in queues]


def _node(name: str, facts: Mapping[str, str], queues: Iterable[Mapping[str, str]]) -> Node:
    cores, slots, used = (whole(facts.get(each)) for each in ("ncpus", "max", "njobs"))
    total = slots if slots is not None else cores
    resources = words((facts.get("resources") or "").strip("()").replace(" ", ","))
    state = facts.get("status", "unknown")
    return Node(
        name=name,
        lrms=LRMS,
        state=state,
        available=state.lower() in _OPEN,
        cpus=cores if cores is not None else slots,
        free_cpus=less(total, used),
        memory=megabytes(facts.get("maxmem"), "m"),
        disk=megabytes(facts.get("maxtmp"), "m"),
        arch=known(facts.get("type")),
        load=real(facts.get("r1m")),
        # A resource that a host gives to one job at a time has a mark of exclamation.
        features=tuple(each.lstrip("!") for each in resources),
        queues=tuple(
            each["queue_name"]
            for each in queues
            if "queue_name" in each and _has(each.get("hosts"), name)
        ),
        native=facts,
    )


def _has(hosts: str | None, name: str) -> bool:
    """Whether a queue has a host: ``all``, or names, each maybe with a preference: ``wn1+2``."""
    listed_ = [host.rpartition("+")[0] or host for host in (hosts or "all").split()]
    return name in listed_ or bool({"all", "none", "-"}.intersection(listed_))


def _queue(facts: Mapping[str, str], mine: Sequence[Node]) -> Queue:
    opened, _, active = facts.get("status", "Open:Active").partition(":")
    total, free = cpus(mine)
    return Queue(
        name=facts.get("queue_name", ""),
        lrms=LRMS,
        status=status(opened.lower() == "open", active.lower() == "active"),
        total_cpus=total,
        free_cpus=free,
        running=whole(facts.get("run")),
        waiting=whole(facts.get("pend")),
        max_wall=_seconds(facts.get("runlimit")),
        max_cpu=_seconds(facts.get("cpulimit")),
        max_running=whole(facts.get("max")),
        priority=whole(facts.get("priority", facts.get("prio"))),
        native=facts,
    )


def _seconds(minutes: str | None) -> int | None:
    """Minutes, as ``60.0`` or ``60.0 min of wn1``, in whole seconds.

    >>> _seconds("60.0 min of wn1"), _seconds("0.5"), _seconds("-")
    (3600, 30, None)
    """
    found = _MINUTES.fullmatch(minutes.strip()) if minutes else None
    number = real(f"{found[1]}.{found[2] or 0}") if found else None
    return None if number is None else int(number * 60)
