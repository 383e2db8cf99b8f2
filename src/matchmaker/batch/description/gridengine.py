"""Grid Engine: ``qhost -F -q -xml``, ``qstat -g c -xml`` and ``qconf -sq``.

The shapes are those of Grid Engine 8.1.9 (qhost(1), qstat(1), queue_conf(5), complex(5)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from matchmaker.batch.description.records import Node, Queue, status
from matchmaker.batch.description.texts import Text, as_xml
from matchmaker.batch.description.units import megabytes, real, seconds, whole, words

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

LRMS: Final = "sge"

COMMANDS: Final = (
    ("qhost", "-F", "-q", "-xml"),
    ("qstat", "-g", "c", "-xml"),
    ("qconf", "-sq", "*"),
)

_CLOSING: Final = frozenset("adDEosSuC")
"""Letters of a queue instance's state that keep jobs from it: alarm, disabled, error, unknown, …"""

_BUILT_IN: Final = frozenset(
    {"arch", "cpu", "hostname", "load_avg", "load_long", "load_medium", "load_short", "mem_free",
     "mem_total", "mem_used", "np_load_avg", "np_load_long", "np_load_medium", "np_load_short",
     "num_proc", "swap_free", "swap_rate", "swap_rsvd", "swap_total", "swap_used",
     "virtual_free", "virtual_total", "virtual_used", "m_core", "m_socket", "m_thread",
     "m_topology", "m_topology_inuse", "m_topology_numa"}
)  # fmt: skip


def read(texts: Iterable[Text]) -> tuple[list[Node], list[Queue]]:
    """The execution hosts and cluster queues in some outputs, in any order."""
    nodes: list[Node] = []
    used: dict[str, dict[str, str]] = {}
    configured: dict[str, dict[str, str]] = {}
    for text in texts:
        if not text.content.lstrip().startswith("<"):
            configured.update(_configured(text))
            continue
        root = as_xml(text)
        if root.tag == "qhost":
            nodes += (_node(host) for host in root.iter("host") if host.get("name") != "global")
        elif root.tag == "job_info":
            for entry in root.iter("cluster_queue_summary"):
                told = {part.tag: (part.text or "").strip() for part in entry}
                used[told.get("name", "")] = told
        else:
            raise text.wrong(f"<qhost> or <job_info> was expected, not <{root.tag}>")
    names = dict.fromkeys([*configured, *used, *(name for node in nodes for name in node.queues)])
    return nodes, [
        _queue(name, configured.get(name, {}), used.get(name, {}), nodes) for name in names
    ]


def _node(host: Element) -> Node:
    told = {
        value.get("name", ""): (value.text or "").strip()
        for kind in ("hostvalue", "resourcevalue")
        for value in host.iter(kind)
    }
    instances: dict[str, dict[str, str]] = {}
    for instance in host.iter("queue"):
        instances[instance.get("name", "")] = {
            value.get("name", ""): (value.text or "").strip()
            for value in instance.iter("queuevalue")
        }
    states = [instance.get("state_string", "") for instance in instances.values()]
    slots = [whole(instance.get("slots")) or 0 for instance in instances.values()]
    taken = [
        (whole(instance.get("slots_used")) or 0) + (whole(instance.get("slots_resv")) or 0)
        for instance in instances.values()
    ]
    cpus = whole(told.get("num_proc")) or (max(slots) if slots else None)
    return Node(
        name=host.get("name", ""),
        lrms=LRMS,
        state=",".join(dict.fromkeys(state for state in states if state)) or "ok",
        available=any(not _CLOSING.intersection(state) for state in states),
        cpus=cpus,
        free_cpus=None if cpus is None or not slots else max(0, min(cpus, sum(slots)) - sum(taken)),
        memory=megabytes(told.get("mem_total")),
        free_memory=megabytes(told.get("mem_free")),
        gpus=whole((told.get("gpu") or told.get("ngpus") or "").partition(".")[0]),
        arch=_known(told.get("arch_string") or told.get("arch")),
        load=real(told.get("load_avg")),
        features=tuple(
            name
            for name, text in told.items()
            if name not in _BUILT_IN and text.lower() in ("true", "1", "1.000000")
        ),
        queues=tuple(instances),
        native={name: text for name, text in told.items() if _known(text) is not None},
    )


def _known(text: str | None) -> str | None:
    return None if text in (None, "", "-") else text


def _configured(text: Text) -> dict[str, dict[str, str]]:
    """The attributes of each queue of ``qconf -sq``; a backslash at the end continues a line."""
    found: dict[str, dict[str, str]] = {}
    told: dict[str, str] | None = None
    for line in text.content.replace("\\\n", " ").split("\n"):
        name, _, value = line.strip().partition(" ")
        if name == "qname":
            told = found.setdefault(value.strip(), {})
        if told is not None and name:
            told[name] = " ".join(value.split())
        elif name:
            text.skip(line, "qname NAME")
    return found


def _queue(
    name: str, told: Mapping[str, str], used: Mapping[str, str], nodes: Iterable[Node]
) -> Queue:
    mine = [node for node in nodes if name in node.queues]
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
        max_wall=_least(told, "h_rt", "s_rt"),
        max_cpu=_least(told, "h_cpu", "s_cpu"),
        priority=whole(told.get("priority")),
        native={**told, **{f"used.{each}": text for each, text in used.items()}},
    )


def _least(told: Mapping[str, str], *names: str) -> int | None:
    """The least of some limits, each ``24:0:0`` or ``24:0:0,[host=…]``; ``INFINITY`` is none."""
    limits = [seconds((words(told.get(name)) or ("",))[0]) for name in names]
    return min((limit for limit in limits if limit is not None), default=None)
