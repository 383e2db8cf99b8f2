"""Grid Engine: ``qhost``, ``qstat`` (both in XML) and ``qconf``.

The shapes are those of Grid Engine 8.1.9 (qhost(1), qstat(1), queue_conf(5), complex(5)).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from matchmaker.batch.description.records import Node, Queue, by_queue, status
from matchmaker.batch.description.texts import Text, as_xml
from matchmaker.batch.description.units import known, megabytes, real, seconds, whole, words

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

_CLOSING: Final = frozenset("adDEosSuC")
"""Letters of a queue instance's state that keep jobs from it: alarm, disabled, error, unknown, …"""

_HEADING: Final = "#name"
"""How the list of complexes begins."""


def read(texts: Iterable[Text]) -> tuple[list[Node], list[Queue]]:
    """The execution hosts and cluster queues in some outputs, in any order.

    A host has what its queues have: complex values are as often theirs as the host's.
    """
    hosts: list[Element] = []
    instances: dict[str, list[dict[str, str]]] = {}
    used: dict[str, dict[str, str]] = {}
    configured: dict[str, dict[str, str]] = {}
    booleans: set[str] = set()
    for text in texts:
        content = text.content.lstrip()
        if not content:
            continue
        if content.startswith(_HEADING):
            booleans |= {line[0] for line in _table(content) if line[2:3] == ["BOOL"]}
        elif not content.startswith("<"):
            configured.update(_configured(text))
        else:
            root = as_xml(text)
            if root.tag not in ("qhost", "job_info"):
                raise text.wrong(f"<qhost> or <job_info> was expected, not <{root.tag}>")
            hosts += (host for host in root.iter("host") if host.get("name") != "global")
            for entry in root.iter("cluster_queue_summary"):
                facts = {part.tag: (part.text or "").strip() for part in entry}
                used[facts.get("name", "")] = facts
            for entry in root.iter("Queue-List"):
                _, _, host_name = (entry.findtext("name") or "").partition("@")
                instances.setdefault(host_name, []).append(_values(entry, "resource"))
    nodes = [_node(host, instances.get(host.get("name", ""), []), booleans) for host in hosts]
    names = dict.fromkeys([*configured, *used, *(name for node in nodes for name in node.queues)])
    behind = by_queue(nodes)
    return nodes, [
        _queue(name, configured.get(name, {}), used.get(name, {}), behind.get(name, ()))
        for name in names
    ]


def _values(element: Element, kind: str) -> dict[str, str]:
    """The texts of elements of a kind inside one, by the names that they carry."""
    return {value.get("name", ""): (value.text or "").strip() for value in element.iter(kind)}


def _table(content: str) -> list[list[str]]:
    return [line.split() for line in content.split("\n") if line and not line.startswith("#")]


def _node(host: Element, instances: Iterable[dict[str, str]], booleans: set[str]) -> Node:
    parts = [_values(host, "resourcevalue"), *instances]
    facts = dict(ChainMap({}, _values(host, "hostvalue"), *parts))
    queues = {each.get("name", ""): _values(each, "queuevalue") for each in host.iter("queue")}
    states = [queue.get("state_string", "") for queue in queues.values()]
    slots = sum(whole(queue.get("slots")) or 0 for queue in queues.values())
    taken = sum(
        (whole(queue.get(name)) or 0)
        for queue in queues.values()
        for name in ("slots_used", "slots_resv")
    )
    cpus = whole(facts.get("num_proc"))
    return Node(
        name=host.get("name", ""),
        lrms=LRMS,
        state=",".join(dict.fromkeys(state for state in states if state)) or "ok",
        available=any(not _CLOSING.intersection(state) for state in states),
        cpus=slots or None if cpus is None else cpus,
        free_cpus=None if not queues else max(0, min(cpus or slots, slots) - taken),
        memory=megabytes(facts.get("mem_total")),
        free_memory=megabytes(facts.get("mem_free")),
        gpus=_count(facts.get("gpu", facts.get("ngpus"))),
        arch=known(facts.get("arch_string")),
        load=real(facts.get("load_avg")),
        features=tuple(
            name for name in sorted(booleans) if any(_count(part.get(name)) for part in parts)
        ),
        queues=tuple(queues),
        native={name: text for name, text in facts.items() if known(text) is not None},
    )


def _count(text: str | None) -> int | None:
    """A resource that is counted: ``1.000000`` is 1, as is ``TRUE``."""
    if text is not None and text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    number = real(text)
    return None if number is None else int(number)


def _configured(text: Text) -> dict[str, dict[str, str]]:
    """The attributes of each queue of ``qconf -sq``; a backslash at the end continues a line."""
    found: dict[str, dict[str, str]] = {}
    facts: dict[str, str] | None = None
    for line in text.content.replace("\\\n", " ").split("\n"):
        name, _, value = line.strip().partition(" ")
        if name == "qname":
            facts = found.setdefault(value.strip(), {})
        if facts is not None and name:
            facts[name] = " ".join(value.split())
        elif name:
            text.skip(line, "qname NAME")
    return found


def _queue(
    name: str, facts: Mapping[str, str], used: Mapping[str, str], mine: Sequence[Node]
) -> Queue:
    total = whole(used.get("total"))
    if total is None and mine:
        total = sum(node.cpus or 0 for node in mine)
    open_somewhere = not mine or any(node.available for node in mine)
    return Queue(
        name=name,
        lrms=LRMS,
        # A queue takes jobs in any state; it runs none where every instance is closed.
        status=status(takes=True, runs=open_somewhere),
        total_cpus=total,
        free_cpus=whole(used.get("available")),
        running=whole(used.get("used")),
        max_wall=_least(facts, "h_rt", "s_rt"),
        max_cpu=_least(facts, "h_cpu", "s_cpu"),
        priority=whole(facts.get("priority")),
        native={**facts, **{f"used.{each}": text for each, text in used.items()}},
    )


def _least(facts: Mapping[str, str], *names: str) -> int | None:
    """The least of some limits, each ``24:0:0`` or ``24:0:0,[host=…]``; ``INFINITY`` is none."""
    limits = [seconds((words(facts.get(name)) or ("",))[0]) for name in names]
    return min((limit for limit in limits if limit is not None), default=None)
