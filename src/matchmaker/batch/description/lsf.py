"""LSF: ``lshosts``, ``bhosts`` and ``bqueues`` with ``-o … -json``, and ``bmgroup -w`` (LSF 10.1).

Each but the last answers with an object:
``{"COMMAND": "bhosts", "HOSTS": 1, "RECORDS": [{"HOST_NAME": …}]}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.description.records import (
    NOBODY,
    Access,
    NodeRecord,
    QueueRecord,
    SystemReader,
    by_queue,
    cpus,
    names_in,
    status,
)
from matchmaker.batch.description.texts import (
    UNLIMITED,
    FactReader,
    Output,
    OutputFormat,
    as_object,
    flat,
    has,
    join,
    less,
    listed,
    operating_system,
    platform,
    real,
    terms,
    words,
)

LRMS: Final = "lsf"

COMMANDS: Final = (
    ("lshosts", "-o", "HOST_NAME type model cpuf ncpus maxmem maxswp maxtmp server RESOURCES",
     "-json"),
    ("bhosts", "-o", "host_name status max njobs run ssusp ususp rsv", "-json"),
    ("bqueues", "-o", "queue_name priority status max njobs pend run susp hosts runlimit cpulimit",
     "-json"),
    ("bmgroup", "-w"),
)  # fmt: skip
OPTIONAL: Final = frozenset({("bmgroup", "-w")})
"""Fails where there are no groups of hosts."""

FORMATS: Final = (
    OutputFormat("lshosts -o … -json", ("10.1",)),
    OutputFormat("bhosts -o … -json", ("10.1",)),
    OutputFormat("bqueues -o … -json", ("10.1",)),
    OutputFormat("bmgroup -w", ("10.1",)),
)

_OPEN: Final = frozenset({"ok", "closed_full", "closed_excl", "closed_busy"})
"""States of a host that takes jobs, now or when it has room."""

# The columns that may name the record of an error.
_NAMES: Final = ("host_name", "hname", "queue_name")

_GROUPS: Final = "GROUP_NAME"
"""How the list of groups of hosts begins."""

# Names of columns that LSF has: anything else may be a damaged `users`.
_COLUMN: Final = re.compile(r"[\w./-]+")
# A limit may name the host whose speed normalises it: `60.0 min of wn1`.
_MINUTES: Final = re.compile(r"(\d+)(?:\.(\d+))?(?:\s*min\b.*)?", re.DOTALL)

Facts = Mapping[str, str]


def read(texts: Iterable[Output]) -> tuple[list[NodeRecord], list[QueueRecord]]:
    """Read the hosts and queues from outputs in any order."""
    by_command: dict[str, list[dict[str, str]]] = {"lshosts": [], "bhosts": [], "bqueues": []}
    of_hosts: dict[str, Output] = {}
    groups: dict[str, str] = {}
    of_queues: list[Output] = []
    for text in texts:
        if text.content.lstrip().startswith(_GROUPS):
            groups.update(_groups(text))
            continue
        if not text.content.strip():
            continue
        data = as_object(text)
        command = str(data.get("COMMAND"))
        if command not in by_command:
            known = ", ".join(by_command)
            raise text.error(f'"COMMAND" should be one of {known}, not {command!r}')
        records = [_facts(record) for record in listed(text, data, "RECORDS")]
        for failed in [record for record in (_facts(data), *records) if "error" in record]:
            place = " ".join([command, *(failed[name] for name in _NAMES if name in failed)])
            text.note(f"{place}: LSF reports an error: {failed['error'].strip()[:200]}")
        records = [record for record in records if "error" not in record]
        if command == "bqueues":
            records = _with_users(records)
        else:
            _check_names(records, text)
            of_hosts.update((_host(record), text) for record in records)
        by_command[command] += records
        of_queues += [text] * len(records) if command == "bqueues" else []
    hosts: dict[str, dict[str, str]] = {}
    for record in (*by_command["lshosts"], *by_command["bhosts"]):
        hosts.setdefault(_host(record), {}).update(record)
    servers = {name: facts for name, facts in hosts.items() if facts.get("server") != "No"}
    queues = list(zip(by_command["bqueues"], of_queues, strict=True))
    members_of = _Hosts(frozenset(servers), groups)
    members = {
        facts.get("queue_name", ""): members_of.of(facts.get("hosts", "all"), text)
        for facts, text in queues
    }
    nodes = [
        _node(
            FactReader(f"host {name}", facts, of_hosts[name]),
            name,
            tuple(queue for queue, mine in members.items() if name in mine),
        )
        for name, facts in servers.items()
    ]
    behind = by_queue(nodes)
    return nodes, [
        _queue(
            FactReader(f"queue {facts.get('queue_name', '')}", facts, text),
            behind.get(facts.get("queue_name", ""), ()),
            _access(facts, text),
        )
        for facts, text in queues
    ]


def _facts(record: Mapping[str, Any]) -> dict[str, str]:
    """Return a record by names in lower case; users that are null, or an object, are an empty text.

    >>> _facts({"USERS": None, "MAX": "-"}), _facts({"USERS": "ada", "users": "all"})
    ({'max': '-', 'users': ''}, {'users': 'ada=all'})
    """
    found: dict[str, str] = {}
    for name, value in flat(record).items():
        join(found, {name.lower(): value})
    lost = {name.lower() for name, value in record.items() if value is None or type(value) is dict}
    join(found, dict.fromkeys(lost & {"users"}, ""))
    return found


def _host(record: Facts) -> str:
    return record.get("host_name", record.get("hname", ""))


def _check_names(records: Iterable[Facts], text: Output) -> None:
    """Raise DescriptionError if two hosts of an output have one name.

    A width of a column cuts names: two hosts become one then.
    """
    known: dict[str, Facts] = {}
    for record in records:
        if known.setdefault(_host(record), record) != record:
            raise text.error(
                f"two hosts are named {_host(record)[:80]!r}; a width in -o, as in host_name:20, "
                "cuts names: ask without one"
            )


def _with_users(records: list[dict[str, str]]) -> list[dict[str, str]]:
    """Add empty users to a queue that lost its own: another has some, or a name is like theirs.

    >>> _with_users([{"usrs": "ada"}]), _with_users([{"ususp": "0"}])
    ([{'users': '', 'usrs': 'ada'}], [{'ususp': '0'}])
    """
    column = any("users" in record for record in records)

    def lost(name: str) -> bool:
        known = _COLUMN.fullmatch(name) and "user" not in name
        return not known or bool(get_close_matches("users", [name], 1, 0.7))

    return [
        {"users": "", **record} if column or any(map(lost, record)) else record
        for record in records
    ]


def _groups(text: Output) -> dict[str, str]:
    """Read the members of each group; ``bmgroup`` has administrators in parentheses."""
    _, *lines = text.content.strip().split("\n")
    rows = (re.sub(r"\([^()]*\)", "", line).split(None, 1) for line in lines)
    return {row[0]: row[1] for row in rows if len(row) == 2}


@attrs.frozen(slots=True)
class _Hosts:
    """The hosts that run jobs, and the groups of them."""

    servers: frozenset[str]
    groups: Mapping[str, str]
    known: dict[str, frozenset[str]] = attrs.Factory(dict)

    def of(self, listing: str, text: Output, above: tuple[str, ...] = ()) -> frozenset[str]:
        """Return the hosts of a queue or group: names, ``all``, ``others``, and ``~name`` for not.

        A name may be followed by a preference, ``wn1+2``, that of a group by a slash. A name that
        is neither of a host nor of a group is noted.
        """
        named: set[str] = set()
        excluded: set[str] = set()
        others = listing.strip() in ("", "-")
        for term in terms(listing):
            name = term.lstrip("~").partition("+")[0].rstrip("/")
            into = excluded if term.startswith("~") else named
            if name == "others":
                others = True
            elif name == "all":
                into |= self.servers
            elif name in self.servers:
                into.add(name)
            elif "[" in name:
                into |= {host for host in self.servers if has(name, host)}
            elif name in self.groups and name not in above and len(above) < LIMITS.depth:
                if name not in self.known:
                    self.known[name] = self.of(self.groups[name], text, (*above, name))
                into |= self.known[name]
            elif name not in ("none", "-", "allremote") and self.servers:
                text.note(f"{name!r} is no host that runs jobs and no group of bmgroup")
        # Others are all that the queue does not name, so that with them it has all.
        return frozenset((self.servers if others else named) - excluded)


def _node(host: FactReader, name: str, queues: tuple[str, ...]) -> NodeRecord:
    facts = host.facts
    cores, slots, used = (host.number(each) for each in ("ncpus", "max", "njobs"))
    total = slots if slots is not None else cores
    resources = words((facts.get("resources") or "").strip("()").replace(" ", ","))
    state = facts.get("status")
    return NodeRecord(
        name=name,
        lrms=LRMS,
        state=state or "unknown",
        available=None if state is None else state.lower() in _OPEN,
        cpus=cores if cores is not None else slots,
        free_cpus=less(total, used),
        memory=host.size("maxmem", unit="m"),
        disk=host.size("maxtmp", unit="m"),
        arch=platform(facts.get("type")),
        system=operating_system(facts.get("type")),
        load=host.load("r1m"),
        # A resource that a host gives to one job at a time has a mark of exclamation.
        features=tuple(each.lstrip("!") for each in resources),
        queues=queues,
        native=facts,
    )


def _access(facts: Facts, text: Output) -> Access:
    """Read the access of a queue: users and groups of them; unreadable ones admit nobody."""
    users = re.sub(r"[\s,]+", ",", facts.get("users", "all").strip())
    if users in ("all", "-"):
        return ()
    names = [name.removesuffix("/") for name in names_in(users) or ()]
    denied = tuple(name[1:] for name in names if name.startswith("~"))
    allowed = tuple(name for name in names if not name.startswith("~"))
    wrong = {"", "all"}.intersection(denied) or any("~" in name for name in (*allowed, *denied))
    if not names or wrong:
        text.note(f"queue {facts.get('queue_name')} admits nobody: its users cannot be read")
        return NOBODY
    lists = {"AllowedUsers": allowed} if "all" not in allowed else {}
    return ({**lists, **({"DeniedUsers": denied} if denied else {})},)


def _queue(queue: FactReader, mine: Sequence[NodeRecord], access: Access) -> QueueRecord:
    facts = queue.facts
    opened, _, active = facts.get("status", "").partition(":")
    total, free = cpus(mine)
    return QueueRecord(
        name=facts.get("queue_name", ""),
        lrms=LRMS,
        status=status(opened.lower() == "open", active.lower() == "active") if active else None,
        total_cpus=total,
        free_cpus=free,
        running=queue.number("run"),
        waiting=queue.number("pend"),
        max_wall=queue.value(("runlimit",), _seconds, "minutes such as 60.0"),
        max_cpu=queue.value(("cpulimit",), _seconds, "minutes such as 60.0"),
        max_running=queue.number("max"),
        priority=queue.number("priority", "prio"),
        access=access,
        native=facts,
    )


def _seconds(minutes: str) -> int | None:
    """Read minutes, ``60.0`` or ``60.0 min of wn1``, as whole seconds; a dash means unlimited.

    >>> _seconds("60.0 min of wn1"), _seconds("0.5"), _seconds("-"), _seconds("long")
    (3600, 30, 999999999, None)
    """
    if minutes.strip() == "-":
        return UNLIMITED
    found = _MINUTES.fullmatch(minutes.strip())
    number = real(f"{found[1]}.{found[2] or 0}") if found else None
    return None if number is None else int(number * 60)


READERS: Final = (SystemReader(LRMS, COMMANDS, FORMATS, read, OPTIONAL),)
