"""PBS Pro, OpenPBS and Torque: ``pbsnodes`` and ``qstat -Q -f``.

The shapes of PBS are those of the PBS Professional Reference Guide (pbsnodes, qstat, *Vnode
Attributes*, *Queue Attributes*), in JSON or as text; those of Torque, which shares the queues, of
the TORQUE Administrator Guide (pbsnodes, qstat, *Queue attributes*) and of the ``status`` that its
``pbs_mom`` reports. Torque prints its nodes as XML or text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import attrs

from matchmaker._diagnostics import NOTE
from matchmaker.batch.description.records import (
    EVERYBODY,
    NOBODY,
    Access,
    Lists,
    NodeRecord,
    QueueRecord,
    SystemReader,
    both,
    by_queue,
    cpus,
    either,
    model,
    names_in,
    status,
)
from matchmaker.batch.description.texts import (
    FactBlock,
    FactReader,
    Output,
    OutputFormat,
    as_object,
    as_xml,
    blocks,
    count,
    first,
    flat,
    less,
    platform,
    seconds,
    whole,
    words,
)

LRMS: Final = "pbspro"

COMMANDS: Final = (
    ("pbsnodes", "-a", "-F", "json"),
    ("qstat", "-Q", "-f", "-F", "json"),
)

FORMATS: Final = (
    OutputFormat("pbsnodes -a -F json", ("22.05",)),
    OutputFormat("pbsnodes -a", ("22.05",)),
    OutputFormat("qstat -Q -f -F json", ("22.05",)),
    OutputFormat("qstat -Q -f", ("22.05",)),
)

Facts: TypeAlias = Mapping[str, str]

AVAILABLE: Final = frozenset(
    {"free", "busy", "job-busy", "job-exclusive", "job-sharing", "resv-exclusive"}
)
"""States of a node that takes jobs, now or when it has room."""

HEAD: Final = "Queue:"
"""What the name of a queue follows in text."""

_AVAILABLE: Final = "resources_available."
_ASSIGNED: Final = "resources_assigned."
_CHUNK: Final = "default_chunk."
# A size or a time in default_chunk is the job's request, any other value a condition on nodes.
_AMOUNT: Final = re.compile(r"\d+(?:\.\d+)?[kmgtp]?[bw]?|[\d:]+", re.IGNORECASE)
# PBS takes each of these words for a Boolean, in any case.
_TRUE: Final = frozenset({"true", "t", "y", "yes", "1"})
_FALSE: Final = frozenset({"false", "f", "n", "no", "0"})
# PBS takes the first letter for the word.
_ROUTE: Final = frozenset({"route", "r"})
_EXECUTION: Final = frozenset({"execution", "e"})
# Names like those of access: an unknown one may keep people out.
_ACL: Final = re.compile(r"(?:.*\.)?acl|[^.]*(?:users|groups|enable)$", re.IGNORECASE)
_ACLS: Final = frozenset(
    {"acl_user_enable", "acl_users", "acl_user_hosts", "acl_group_enable", "acl_groups",
     "acl_group_hosts", "acl_group_sloppy", "acl_host_enable", "acl_hosts", "acl_logic_or",
     "require_cred_enable"}
)  # fmt: skip
"""The facts on access of PBS and Torque. What is like one and is none may have been one."""
# A limit on all jobs together; others in the list are of single users or groups.
_LIMIT: Final = re.compile(r"\[o:PBS_ALL=(\d+)\]")


def read(texts: Iterable[Output]) -> tuple[list[NodeRecord], list[QueueRecord]]:
    """Read the vnodes with CPUs, and the queues that jobs are submitted to, in any order."""
    nodes: dict[str, dict[str, str]] = {}
    told_by: dict[str, Output] = {}
    found = PbsQueues()
    for text in texts:
        if text.content.lstrip()[:1] in ("{", "["):
            data = as_object(attrs.evolve(text, content=_quoted(text.content)))
            if "nodes" not in data and "Queue" not in data:
                raise text.error('neither "nodes" nor "Queue" is in it')
            told = {
                name: facts
                for name, facts in _named(text, data, "nodes").items()
                if _is_node(name, facts, text)
            }
            for name, facts in _named(text, data, "Queue").items():
                found.add(name, facts, text)
        else:
            told = listed_nodes(text, found)
        nodes.update(told)
        told_by.update(dict.fromkeys(told, text))
    bound = {facts["queue"] for facts in nodes.values() if "queue" in facts}
    chunks = {name: _chunk(facts) for name, facts in found.facts.items()}

    def takes(queue: str, node: str) -> bool:
        facts = nodes[node]
        placed = facts["queue"] == queue if "queue" in facts else queue not in bound
        return placed and all(
            value.lower() in words(facts.get(name, "").lower()) for name, value in chunks[queue]
        )

    described = [_node(name, facts, told_by[name]) for name, facts in nodes.items()]
    return found.described(LRMS, described, takes)


# A line of JSON whose value has no quotes, brackets or blanks.
_BARE: Final = re.compile(r'^([^\S\n]*+"(?:[^"\\]|\\.)*":)([^\s"\[{][^\s"]*?)(,?)$', re.MULTILINE)
_NUMBER: Final = re.compile(
    r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null", re.ASCII
)


def _quoted(content: str) -> str:
    """Put quotes around values that C reads as a number and JSON does not: ``007``, ``inf``.

    Versions 19 to 23 print them without quotes.

    >>> _quoted('"a":007,'), _quoted('"a":7')
    ('"a":"007",', '"a":7')
    """
    return _BARE.sub(
        lambda found: (
            found[0] if _NUMBER.fullmatch(found[2]) else f'{found[1]}"{found[2]}"{found[3]}'
        ),
        content,
    )


def _is_node(name: str, facts: Facts, text: Output) -> bool:
    """Tell whether an entry is a node: it has a state; note the message of an error."""
    if "state" in facts:
        return True
    error = facts.get("Error", facts.get(name, ""))
    if error:
        text.note(f"node {name[:80]}: PBS reports an error: {error.strip()[:200]}")
    else:
        text.skip(name, "a node with its state")
    return False


def listed_nodes(text: Output, queues: PbsQueues) -> dict[str, dict[str, str]]:
    """Return the nodes of an output in text, by name; add its queues to ``queues``."""
    nodes: dict[str, dict[str, str]] = {}
    found = blocks(text)
    for block, after in zip_longest(found, found[1:]):
        if block.head.startswith(HEAD):
            damage = list(block.damage)
            if after is not None and (_is_stray(after) or _is_cut(after)):
                # It may be a part of a line of this queue, with the facts after that.
                damage.append(after.head)
            name = block.head[len(HEAD) :].strip()
            queues.add(name, block.facts, text, next(iter(damage), ""))
        elif _is_stray(block):
            text.skip(block.head, "a node with its state")
        else:
            nodes[block.head] = block.facts
    text.check_end("node", nodes)
    return nodes


def _is_stray(block: FactBlock) -> bool:
    return not block.head.startswith(HEAD) and "state" not in block.facts


def _is_cut(block: FactBlock) -> bool:
    return block.head.startswith(HEAD) and "queue_type" not in block.facts


def _named(text: Output, data: Mapping[str, Any], key: str) -> dict[str, dict[str, str]]:
    entries = data.get(key, {})
    if not isinstance(entries, dict):
        raise text.error(f"{key} should be an object")
    found = {}
    for name, entry in entries.items():
        if isinstance(entry, dict):
            found[name] = flat(entry)
        else:
            text.skip(f"{name}: {entry}", f"an object in {key}")
    return found


_MODEL: Final = ("gpu_model", "gpu_type", "accelerator_model")
"""Resources of sites, and of Cray, that say what GPUs a node has."""


def _node(name: str, facts: Facts, text: Output) -> NodeRecord:
    node = FactReader(f"node {name}", facts, text)
    has = _part(facts, _AVAILABLE)
    states = words(facts.get("state"))
    cores = node.number(f"{_AVAILABLE}ncpus", "pcpus")
    gpus = node.number(f"{_AVAILABLE}ngpus")
    memory = node.size(f"{_AVAILABLE}mem")

    def used(resource: str, read: Callable[[str], int | None]) -> int | None:
        # What is not in use is not listed.
        return read(f"{_ASSIGNED}{resource}") if f"{_ASSIGNED}{resource}" in facts else 0

    arch = has.get("arch")
    return NodeRecord(
        name=name,
        lrms=LRMS,
        state=facts.get("state", "unknown"),
        available=bool(states) and AVAILABLE.issuperset(states),
        cpus=cores,
        free_cpus=less(cores, used("ncpus", node.number)),
        memory=memory,
        free_memory=less(memory, used("mem", node.size)),
        gpus=gpus,
        free_gpus=less(gpus, used("ngpus", node.number)),
        gpu_models=model(first(has, _MODEL), gpus),
        # PBS calls the operating system so: `arch=linux`.
        arch=platform(arch),
        system=arch if platform(arch) is None else None,
        # Booleans of the site's own are asked for like features: `:bigmem=True`.
        features=tuple(each for each, value in has.items() if value.lower() == "true"),
        native=facts,
    )


def _chunk(queue: Facts) -> list[tuple[str, str]]:
    """Return the conditions of a queue on the node of each chunk; amounts are the job's."""
    asked = _part(queue, _CHUNK).items()
    return [(f"{_AVAILABLE}{name}", value) for name, value in asked if not _AMOUNT.fullmatch(value)]


@attrs.frozen(slots=True)
class PbsQueues:
    """The queues of PBS or Torque, by name: their attributes, access and outputs."""

    facts: dict[str, Facts] = attrs.Factory(dict)
    access: dict[str, Access] = attrs.Factory(dict)
    texts: dict[str, Output] = attrs.Factory(dict)

    def add(self, name: str, facts: Facts, text: Output, damage: str = "") -> None:
        """Add a queue of an output; ``damage`` is a line of it that cannot be read."""
        self.facts[name] = facts
        wrong = f"its record is damaged: {damage[:80]}" if damage else ""
        # A queue that is listed twice admits whom both lists admit.
        known = self.access.get(name, EVERYBODY)
        self.access[name] = both(known, _access(name, facts, text, wrong))
        self.texts[name] = text

    def described(
        self, lrms: str, nodes: Iterable[NodeRecord], takes: Callable[[str, str], bool]
    ) -> tuple[list[NodeRecord], list[QueueRecord]]:
        """Return the nodes that have CPUs, with their queues, and the queues that users submit to.

        A routing queue stands for the queues that it hands its jobs to. `takes` says by their names
        whether an execution queue sends jobs to a node.
        """
        kept = [node for node in nodes if node.cpus != 0]
        offered = {name: facts for name, facts in self.facts.items() if not _is_inner(facts)}
        onward = {
            name: frozenset(words(facts.get("route_destinations")))
            for name, facts in self.facts.items()
            if _routes(facts)
        }
        ends = {name: self._ends(name, onward) for name in offered}
        self._name_inner(ends)
        bound = [
            attrs.evolve(
                node,
                queues=tuple(
                    name for name in offered if any(takes(end, node.name) for end in ends[name])
                ),
            )
            for node in kept
        ]
        behind = by_queue(bound)
        return bound, [
            self._queue(name, lrms, ends[name], behind.get(name, ())) for name in offered
        ]

    def _name_inner(self, ends: Mapping[str, Sequence[str]]) -> None:
        """Note the queues that no user submits to, and the queues that feed them."""
        inner: dict[tuple[str, ...], list[str]] = {}
        for name in self.facts:
            if _is_inner(self.facts[name]):
                feeding = tuple(each for each, reached in ends.items() if name in reached)
                inner.setdefault(feeding, []).append(name)
        for feeding, names in inner.items():
            self.texts[names[0]].note(
                f"jobs come to {', '.join(names)} from routing queues alone (from_route_only):"
                f" submit to {' or '.join(feeding) or 'one of those, which are not described'}",
                NOTE,
            )

    def _ends(self, name: str, onward: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
        """Return the execution queues of this server that jobs of a queue run in."""
        reached = {name}
        waiting = [name]
        while waiting:
            new = onward.get(waiting.pop(), frozenset()) - reached
            reached |= new
            waiting += new & onward.keys()
        return tuple(each for each in self.facts if each in reached and each not in onward)

    def _queue(
        self, name: str, lrms: str, ends: Sequence[str], mine: Sequence[NodeRecord]
    ) -> QueueRecord:
        facts = self.facts[name]
        queue = self._record(name)
        # Jobs in queues that nobody submits to came from here.
        fed = [end for end in ends if _is_inner(self.facts[end])]
        counts = [_counts(self._record(each)) for each in (name, *fed)]
        runs = any(_is_true(self.facts[end].get("started")) for end in ends)
        access = self.access[name]
        if _routes(facts):
            access = both(access, either(self.access[end] for end in ends))
            if not ends:
                self.texts[name].note(f"queue {name} admits nobody: no destination of it is known")
        total, free = cpus(mine)
        return QueueRecord(
            name=name,
            lrms=lrms,
            status=status(_is_true(facts.get("enabled")), runs and _is_true(facts.get("started"))),
            total_cpus=total,
            free_cpus=free,
            running=_sum(each.get("Running") for each in counts),
            waiting=_sum(each.get("Queued") for each in counts),
            max_wall=self._longest(name, ends, "resources_max.walltime"),
            max_cpu=self._longest(name, ends, "resources_max.cput"),
            max_jobs=_limit(queue, "max_queued", "max_queuable"),
            max_running=_limit(queue, "max_run", "max_running"),
            priority=queue.value(("Priority",), whole, "a whole number"),
            access=access,
            native=facts,
        )

    def _record(self, name: str) -> FactReader:
        return FactReader(f"queue {name}", self.facts[name], self.texts[name])

    def _longest(self, name: str, ends: Sequence[str], limit: str) -> int | None:
        """Return the limit of a queue, or else the greatest of its destinations."""

        def of(queue: str) -> int | None:
            return self._record(queue).value((limit,), seconds, "a time such as 24:00:00")

        own = of(name)
        if own is not None:
            return own
        others = [of(end) for end in ends if end != name]
        return None if None in others else max((each or 0 for each in others), default=None)


def _access(name: str, facts: Facts, text: Output, wrong: str = "") -> Access:
    """Read the access of a queue: lists of users and groups; an empty one names nobody.

    The queue admits nobody if a fact on access is ``wrong``.
    """
    alternatives: list[Lists] = []
    wrong = wrong or _damage(facts)
    for kind, own in (("Users", "user"), ("Groups", "group")):
        # A list counts unless it is said not to.
        enabled = facts.get(f"acl_{own}_enable", "True" if f"acl_{own}s" in facts else "False")
        if enabled.lower() in _FALSE and not wrong:
            continue
        names = names_in(facts.get(f"acl_{own}s", ""))
        if wrong or not _is_true(enabled) or names is None:
            text.note(f"queue {name} admits nobody: {wrong or f'acl_{own}s cannot be read'}")
            return NOBODY
        # `-eve@host` is denied wherever she comes from; of whom is admitted, the place counts.
        denied = tuple(each[1:].partition("@")[0] for each in names if each.startswith("-"))
        admitted = (each.removeprefix("+").removesuffix("@*") for each in names)
        alternatives.append(
            {
                f"Allowed{kind}": tuple(each for each in admitted if not each.startswith("-")),
                **({f"Denied{kind}": denied} if denied else {}),
            }
        )
    # Where one of these is lost, its list may have been off, and be no way in.
    clear = {"acl_user_enable", "acl_group_enable"} <= facts.keys()
    if (clear and _is_true(facts.get("acl_logic_or"))) or not alternatives:
        return tuple(alternatives)
    return ({name: each for one in alternatives for name, each in one.items()},)


def _is_inner(queue: Facts) -> bool:
    return (queue.get("from_route_only") or "false").lower() not in _FALSE


def _routes(queue: Facts) -> bool:
    return queue.get("queue_type", "").lower() in _ROUTE or "route_destinations" in queue


def _damage(facts: Facts) -> str:
    """Return why a queue's access cannot be known; empty if it is."""
    kind = facts.get("queue_type")
    if kind is None:
        return "it has no queue_type"
    if kind.lower() not in (_ROUTE if _routes(facts) else _EXECUTION):
        return f"queue_type {kind[:80]!r} cannot be right"
    if "enabled" not in facts:
        return "enabled is missing, which comes behind its lists"
    unknown = next((each for each in facts if _ACL.match(each) and each not in _ACLS), "")
    return f"{unknown[:80]} is not known" if unknown else ""


def _counts(queue: FactReader) -> Mapping[str, int]:
    def read(text: str) -> dict[str, int] | None:
        parts = [part.partition(":") for part in words(text, " ")]
        numbers = {state: count(number) for state, _, number in parts}
        known = {state: number for state, number in numbers.items() if number is not None}
        return known if len(known) == len(numbers) else None

    return queue.value(("state_count",), read, "counts such as Queued:2 Running:3") or {}


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(number or 0 for number in known)


def _part(facts: Facts, prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: text for name, text in facts.items() if name.startswith(prefix)}


def _limit(queue: FactReader, *names: str) -> int | None:
    """Read a limit on all jobs: a number, or ``[o:PBS_ALL=10]`` among those of users and groups."""

    def read(text: str) -> tuple[int | None] | None:
        found = _LIMIT.search(text)
        if found or "=" not in text:
            number = count(found[1] if found else text)
            return None if number is None else (number,)
        return None if "o:PBS_ALL" in text else (None,)

    found = queue.value(names, read, "a number, or limits such as [o:PBS_ALL=100]")
    return None if found is None else found[0]


def _is_true(text: str | None) -> bool:
    return (text or "").lower() in _TRUE


# --- Torque ---------------------------------------------------------------------------------------

_TORQUE_COMMANDS: Final = (("pbsnodes", "-x"), ("qstat", "-Q", "-f"))

_TORQUE_FORMATS: Final = (
    OutputFormat("pbsnodes -x", ("2.5", "4.2", "6.1")),
    OutputFormat("pbsnodes -a", ("2.5", "6.1")),
    OutputFormat("qstat -Q -f", ("2.5", "6.1")),
)


def read_torque(texts: Iterable[Output]) -> tuple[list[NodeRecord], list[QueueRecord]]:
    """Read the nodes and queues of Torque from outputs in any order.

    ``resources_default.neednodes`` of a queue names a property, and binds the nodes that have it to
    the queue; a queue that names none has all nodes.
    """
    nodes: list[NodeRecord] = []
    queues = PbsQueues()
    for text in texts:
        if text.content.lstrip().startswith("<"):
            root = as_xml(text)
            if root.tag != "Data":
                raise text.error(f"<Data> was expected, not <{root.tag}>")
            nodes += (
                _torque_node({part.tag: (part.text or "").strip() for part in entry}, text)
                for entry in root.iter("Node")
            )
        else:
            listed = listed_nodes(text, queues)
            nodes += (_torque_node({"name": name, **facts}, text) for name, facts in listed.items())
    features = {node.name: node.features for node in nodes}

    def takes(queue: str, node: str) -> bool:
        needed = queues.facts[queue].get("resources_default.neednodes", node)
        return needed in (node, *features[node])

    return queues.described("torque", nodes, takes)


def _torque_node(facts: Mapping[str, str], text: Output) -> NodeRecord:
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
    return NodeRecord(
        name=facts.get("name", ""),
        lrms="torque",
        state=facts.get("state", "unknown"),
        available=bool(states) and AVAILABLE.issuperset(states),
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
    """Count the processors of a part of a list of jobs.

    >>> _processors("0"), _processors("0-3"), _processors("x")
    (1, 4, 1)
    """
    first, _, last = places.partition("-")
    begin, end = whole(first), whole(last or first)
    return 1 if begin is None or end is None or not 0 <= end - begin < 1 << 16 else end - begin + 1


READERS: Final = (
    SystemReader(LRMS, COMMANDS, FORMATS, read),
    SystemReader("torque", _TORQUE_COMMANDS, _TORQUE_FORMATS, read_torque),
)
