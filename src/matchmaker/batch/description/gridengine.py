"""Grid Engine: ``qhost``, ``qstat`` (both in XML) and ``qconf``.

The shapes are those of Grid Engine 8.1.9 (qhost(1), qstat(1), queue_conf(5), complex(5)). Each
output can be read alone; facts of the others are unknown then.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from matchmaker.batch.description.records import (
    EVERYBODY,
    NOBODY,
    Access,
    NodeRecord,
    QueueRecord,
    SystemReader,
    both,
    by_queue,
    greatest,
    model,
    names_in,
    status,
)
from matchmaker.batch.description.texts import (
    FactReader,
    Output,
    OutputFormat,
    as_xml,
    first,
    limit,
    operating_system,
    platform,
    real,
    whole,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

LRMS: Final = "sge"

COMMANDS: Final = (
    ("qhost", "-F", "-q", "-xml"),
    ("qstat", "-F", "-xml"),
    ("qstat", "-g", "c", "-xml"),
    ("qconf", "-sc"),
    ("qconf", "-sq", "*"),
)

FORMATS: Final = tuple(
    OutputFormat(command, ("8.1.9",), running=("8.1.9",))
    for command in ("qhost -xml", "qhost -F -q -xml", "qstat -f -xml", "qstat -F -xml",
                    "qstat -g c -xml", "qconf -sc", "qconf -sq")
)  # fmt: skip

_CLOSING: Final = frozenset("adDEosSuC")
"""Letters of a queue instance's state that keep jobs from it: alarm, disabled, error, unknown, …"""

_HEADING: Final = "#name"
"""How the list of complexes begins."""

_SLOTS: Final = ("slots", "slots_total")
_STATE: Final = ("state_string", "state")
"""The names of facts about a queue on a host, in ``qhost`` and in ``qstat``."""

# Words for a value that a host has not reported.
_UNKNOWN: Final = ("", "-", "UNKNOWN")
# Either limit ends a job: the hard one kills it, the soft one warns it, so the least counts.
_WALL: Final = ("h_rt", "s_rt")
_CPU: Final = ("h_cpu", "s_cpu")
_LISTS: Final = {"user_lists": "AllowedUserLists", "xuser_lists": "DeniedUserLists",
                 "projects": "AllowedProjects", "xprojects": "DeniedProjects"}  # fmt: skip
_BEHIND: Final = frozenset(
    {*_LISTS, "calendar", "complex_values", "initial_state", "owner_list", "qname",
     "subordinate_list"}
)  # fmt: skip
"""What may stand behind one of these lists. (queue_conf(5).)"""
# queue_conf(5): `[host=value]` replaces the value on that host or group of hosts.
_OVERRIDE: Final = re.compile(r"\[([^=\[\]]*)=([^\[\]]*)\]")

Facts = Mapping[str, str]


@attrs.frozen(slots=True)
class _HostLimits:
    """A limit of a queue, by host: ``01:30:00,[node2=01:00:00]``; None if it is unknown.

    Nobody tells the hosts of a group such as ``@big``: hosts that are not named have the lowest of
    the general limit and those of groups.
    """

    hosts: Mapping[str, int | None] = attrs.Factory(dict)
    others: int | None = None

    @classmethod
    def of(cls, queue: FactReader, name: str) -> _HostLimits:
        """Read a limit of a queue's configuration; note a part that cannot be read."""
        parts = {
            "": queue.facts[name].partition(",")[0],
            **dict(_OVERRIDE.findall(queue.facts[name])),
        }
        read: dict[str, int | None] = {}
        for host, value in parts.items():
            read[host] = limit(value)
            if read[host] is None and value != "NONE":
                queue.text.note_value(
                    queue.place, name, value, "a time such as 24:00:00, or INFINITY"
                )
        groups = [read.pop(host) for host in list(read) if host.startswith("@")]
        return cls(read, _least([read.pop(""), *groups]))


@attrs.frozen(slots=True)
class _Outputs:
    """The values of all outputs, by host and by queue."""

    hosts: dict[str, dict[str, str]] = attrs.Factory(dict)
    instances: dict[str, dict[str, dict[str, str]]] = attrs.Factory(dict)
    used: dict[str, FactReader] = attrs.Factory(dict)
    configured: dict[str, dict[str, str]] = attrs.Factory(dict)
    access: dict[str, Access] = attrs.Factory(dict)
    limits: dict[tuple[str, str], _HostLimits] = attrs.Factory(dict)
    booleans: set[str] = attrs.Factory(set)
    texts: dict[str, Output] = attrs.Factory(dict)

    def host(self, name: str, facts: Mapping[str, str]) -> FactReader:
        return FactReader(f"host {name}", facts, self.texts[name])

    def of_instance(self, queue: str, host: str) -> FactReader:
        facts = self.instances.get(host, {}).get(queue, {})
        return FactReader(f"queue {queue}@{host}", facts, self.texts[host])

    def instance(self, queue: str, host: str) -> dict[str, str]:
        return self.instances.setdefault(host, {}).setdefault(queue, {})


def read(texts: Iterable[Output]) -> tuple[list[NodeRecord], list[QueueRecord]]:
    """Read the execution hosts and cluster queues from outputs in any order.

    A host has the resources of its queues: complex values are as often theirs as the host's.
    """
    said = _Outputs()
    configured: list[Output] = []
    for text in texts:
        content = text.content.lstrip()
        if content.startswith(_HEADING):
            lines = (line.split() for line in content.split("\n"))
            said.booleans.update(line[0] for line in lines if line[2:3] == ["BOOL"])
        elif content.startswith("<"):
            _take(as_xml(text), said, text)
        elif content:
            configured.append(text)
            for name, facts in _configured(text).items():
                said.configured[name] = facts
                named = [each for each in (*_WALL, *_CPU) if each in facts]
                queue = FactReader(f"queue {name}", facts, text)
                said.limits.update({(name, each): _HostLimits.of(queue, each) for each in named})
                said.access[name] = both(
                    said.access.get(name, EVERYBODY), _access(name, facts, text)
                )
    hosts = dict.fromkeys([*said.hosts, *said.instances])
    nodes = [_node(host, said) for host in hosts]
    behind = by_queue(nodes)
    names = dict.fromkeys([*said.configured, *said.used, *behind])
    for name in [name for name in names if configured and name not in said.configured]:
        # Its record may have lost its name.
        said.access[name] = NOBODY
        configured[-1].note(f"queue {name} admits nobody: its record is missing")
    return nodes, [_queue(name, said, behind.get(name, ())) for name in names]


def _take(root: Element, said: _Outputs, text: Output) -> None:
    if root.tag not in ("qhost", "job_info"):
        raise text.error(f"<qhost> or <job_info> was expected, not <{root.tag}>")
    for host in root.iter("host"):
        name = host.get("name", "")
        if name == "global":
            continue
        said.texts[name] = text
        said.hosts[name] = {**_values(host, "resourcevalue"), **_values(host, "hostvalue")}
        for queue in host.iter("queue"):
            said.instance(queue.get("name", ""), name).update(_values(queue, "queuevalue"))
    for entry in root.iter("cluster_queue_summary"):
        facts = _parts(entry)
        name = facts.get("name", "")
        said.used[name] = FactReader(f"queue {name}", facts, text)
    for entry in root.iter("Queue-List"):
        queue_name, _, host_name = (entry.findtext("name") or "").partition("@")
        said.texts.setdefault(host_name, text)
        said.instance(queue_name, host_name).update({**_parts(entry), **_values(entry, "resource")})


def _values(element: Element, kind: str) -> dict[str, str]:
    """Return the texts of elements of a kind inside one, by their ``name``."""
    return {value.get("name", ""): (value.text or "").strip() for value in element.iter(kind)}


def _parts(element: Element) -> dict[str, str]:
    return {part.tag: (part.text or "").strip() for part in element if part.get("name") is None}


_MODEL: Final = ("gpu_model", "gpu_type")
"""Complexes of sites that say what GPUs a host has."""


def _node(name: str, said: _Outputs) -> NodeRecord:
    queues = said.instances.get(name, {})
    parts = [said.hosts.get(name, {}), *queues.values()]
    facts = dict(ChainMap({}, *parts))
    host = said.host(name, facts)
    of_queues = [said.of_instance(queue, name) for queue in queues]
    states = [first(queue, _STATE) or "" for queue in queues.values()]
    cpus = host.value(("num_proc",), _count, "a number")
    slots = sum(_slots(queue) or 0 for queue in of_queues)
    taken = sum(_taken(queue) for queue in of_queues)
    available = any(not _CLOSING.intersection(state) for state in states)
    if not queues:
        # A host whose daemon has not reported runs nothing; of another, the queues decide.
        state, takes = None, None if cpus is not None else False
    else:
        state, takes = ",".join(dict.fromkeys(filter(None, states))) or "ok", available
    arch = first(facts, ("arch_string", "arch"))
    gpus = host.value(("gpu", "ngpus"), _count, "a number")
    return NodeRecord(
        name=name,
        lrms=LRMS,
        state=state,
        available=takes,
        cpus=slots or None if cpus is None else cpus,
        free_cpus=None if not queues else max(0, min(cpus or slots, slots) - taken),
        memory=host.size("mem_total"),
        free_memory=host.size("mem_free"),
        gpus=gpus,
        gpu_models=model(first(facts, _MODEL), gpus),
        arch=platform(arch),
        system=operating_system(arch),
        load=host.load("load_avg", "np_load_avg"),
        max_wall=greatest(_own(said, queue, name, _WALL) for queue in queues),
        max_cpu=greatest(_own(said, queue, name, _CPU) for queue in queues),
        features=tuple(
            each for each in sorted(said.booleans) if any(_count(part.get(each)) for part in parts)
        ),
        queues=tuple(queues),
        native={fact: text for fact, text in facts.items() if text not in _UNKNOWN},
    )


def _slots(instance: FactReader) -> int | None:
    return instance.number(*_SLOTS)


def _taken(instance: FactReader) -> int:
    return sum(instance.number(name) or 0 for name in ("slots_used", "slots_resv"))


def _count(text: str | None) -> int | None:
    """Read a counted resource: ``1.000000`` is 1, as is ``TRUE``."""
    if text is not None and text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    number = real(text)
    return None if number is None or number < 0 else int(number)


def _configured(text: Output) -> dict[str, dict[str, str]]:
    """Read the attributes of each queue of ``qconf -sq``; a backslash continues a line."""
    found: dict[str, dict[str, str]] = {}
    facts: dict[str, str] | None = None
    before = ""
    for line in text.content.replace("\\\n", " ").split("\n"):
        name, _, value = line.strip().partition(" ")
        if name == "qname":
            facts = found.setdefault(value.strip(), {})
        if facts is not None and name:
            value = " ".join(value.split())
            torn = before in _LISTS and name not in _BEHIND
            before = name
            if not value or not name.isidentifier() or line[:1].isspace() or torn:
                # It may be a part of a list, as every attribute has a value.
                facts.update(dict.fromkeys(_LISTS, f"(broken by {name[:80]!r})"))
            elif facts.setdefault(name, value) != value:
                # It may be of another queue: neither's lists can be read then.
                facts.update(dict.fromkeys(_LISTS, "(there twice)"))
        elif name:
            text.skip(line, "qname NAME")
    text.check_end("queue", found)
    return found


def _access(queue: str, facts: Facts, text: Output) -> Access:
    """Read the access of a queue. Lists that are lost, or differ between hosts, admit nobody."""
    lists: dict[str, tuple[str, ...]] = {}
    for name, kind in _LISTS.items():
        value = facts.get(name, "(missing)")
        names = names_in(re.sub(r"[\s,]+", ",", value)) if "[" not in value else None
        if names is None or (value != "NONE" and "NONE" in names):
            text.note(f"queue {queue} admits nobody: {name} {value[:80]!r} cannot be read")
            return NOBODY
        if value != "NONE":
            lists[kind] = names
    return (lists,) if lists else EVERYBODY


def _queue(name: str, said: _Outputs, mine: Sequence[NodeRecord]) -> QueueRecord:
    facts, used = said.configured.get(name, {}), said.used.get(name)
    hosts = [host for host, queues in said.instances.items() if name in queues]
    instances = [said.of_instance(name, host) for host in hosts]
    opened = [one for one in instances if not _CLOSING.intersection(first(one.facts, _STATE) or "")]
    total = free = running = None
    if used is not None:
        total, free, running = (used.number(each) for each in ("total", "available", "used"))
    elif instances:
        total = sum(_slots(one) or 0 for one in instances)
        free = sum(max(0, (_slots(one) or 0) - _taken(one)) for one in opened)
        running = sum(one.number("slots_used") or 0 for one in instances)
    return QueueRecord(
        name=name,
        lrms=LRMS,
        # A queue takes jobs in any state; it runs none where every instance is closed.
        status=status(takes=True, runs=bool(opened)) if instances else None,
        total_cpus=total,
        free_cpus=free,
        running=running,
        max_wall=_lowest(name, said, mine, _WALL),
        max_cpu=_lowest(name, said, mine, _CPU),
        priority=whole(facts.get("priority")),
        access=said.access.get(name, EVERYBODY),
        native={
            **facts,
            **{f"used.{each}": text for each, text in (used.facts if used else {}).items()},
        },
    )


def _own(said: _Outputs, queue: str, host: str, names: tuple[str, ...]) -> int | None:
    """Return the least of some limits of a queue on jobs on a host; None if unknown."""
    found = []
    for name in names:
        if name in said.instances.get(host, {}).get(queue, {}):
            found.append(said.of_instance(queue, host).time(name))
        else:
            known = said.limits.get((queue, name), _HostLimits())
            found.append(known.hosts.get(host, known.others))
    return _least(found)


def _lowest(
    queue: str, said: _Outputs, mine: Iterable[NodeRecord], names: tuple[str, ...]
) -> int | None:
    limits = [said.limits[queue, name] for name in names if (queue, name) in said.limits]
    configured = [each for one in limits for each in (one.others, *one.hosts.values())]
    return _least([*configured, *(_own(said, queue, node.name, names) for node in mine)])


def _least(limits: Iterable[int | None]) -> int | None:
    return min((each for each in limits if each is not None), default=None)


READERS: Final = (SystemReader(LRMS, COMMANDS, FORMATS, read),)
