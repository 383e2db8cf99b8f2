"""``queues.toml``: queues and downtimes as people write them down, for want of anything else.

A table ``[[queue]]`` is a queue, ``[[downtime]]`` a downtime, and ``[defaults]`` has the values of
queues without their own. `schemas/queues.json` describes the same as a JSON Schema. As people write
the file by hand, a fault refuses it whole, with its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import attrs

from matchmaker.classad import Value
from matchmaker.glue.access import RULES, is_rule, is_vo
from matchmaker.glue.issues import Report
from matchmaker.glue.records import OUTAGE, Downtime, GlueRecords
from matchmaker.glue.systems.building import Endpoint, QueueBuilder, name, rules_of

if TYPE_CHECKING:
    import cattrs

NAME: Final = "queues.toml"

_TABLES: Final = frozenset({"queue", "downtime", "defaults"})


@attrs.frozen(slots=True, kw_only=True)
class QueueEntry:
    """A table ``[[queue]]`` (``schemas/queues.json``). Times are in minutes, memory in MB."""

    endpoint: str
    flavour: str = ""
    name: str = "default"
    lrms: str = ""
    site: str = ""
    vos: tuple[str, ...] | None = None
    rules: tuple[str, ...] | None = None
    status: str = "Production"
    max_wall_time: int | None = None
    max_cpu_time: int | None = None
    max_cpus: int | None = None
    max_memory: int | None = None
    max_jobs: int | None = None
    max_running: int | None = None
    total_cpus: int | None = None
    node_cpus: int | None = None
    node_memory: int | None = None
    node_gpus: int | None = None
    os: str | None = None
    os_release: str | None = None
    architecture: str | None = None
    software: tuple[str, ...] | None = None


@attrs.frozen(slots=True, kw_only=True)
class DowntimeEntry:
    """A table ``[[downtime]]``: of a host, ``host:port`` or a queue's id; UTC without a zone."""

    ce: str
    start: datetime
    end: datetime
    severity: str = OUTAGE
    reason: str = ""
    url: str = ""


@attrs.frozen(slots=True, kw_only=True)
class QueuesFile:
    """The tables of a ``queues.toml``."""

    queue: tuple[QueueEntry, ...] = ()
    downtime: tuple[DowntimeEntry, ...] = ()


_OF_QUEUE: Final[Mapping[str, str]] = {
    "max_wall_time": "GlueCEPolicyMaxWallClockTime",
    "max_cpu_time": "GlueCEPolicyMaxCPUTime",
    "max_cpus": "MaxCpusPerNode",
    "max_memory": "MaxMemoryPerNode",
    "max_jobs": "GlueCEPolicyMaxTotalJobs",
    "max_running": "GlueCEPolicyMaxRunningJobs",
    "total_cpus": "GlueCEInfoTotalCPUs",
}
_OF_HOSTS: Final[Mapping[str, str]] = {
    "node_cpus": "GlueHostArchitectureSMPSize",
    "node_memory": "GlueHostMainMemoryRAMSize",
    "node_gpus": "GPUs",
    "os": "GlueHostOperatingSystemName",
    "os_release": "GlueHostOperatingSystemRelease",
    "architecture": "GlueHostArchitecturePlatformType",
    "software": "GlueHostApplicationSoftwareRunTimeEnvironment",
}


def recognises(document: object) -> bool:
    """Whether a document has only the tables of a ``queues.toml``, and one at least.

    >>> recognises({"queue": [{}]}), recognises({"defaults": {}}), recognises({"tool": {}})
    (True, False, False)
    """
    tables = document if isinstance(document, dict) else {}
    listed = any(isinstance(tables.get(key), list) for key in ("queue", "downtime"))
    return listed and tables.keys() <= _TABLES


def records(document: object, report: Report) -> GlueRecords:
    """Make records of a ``queues.toml``.

    Raises:
        ValueError: a key is unknown, a value of the wrong type, or an endpoint or rule is none;
            all that is wrong is said, each with its place.
    """
    found = _structured(document if isinstance(document, dict) else {})
    builder = QueueBuilder(NAME, report)
    faults: list[str] = []
    for number, queue in enumerate(found.queue, 1):
        wrong = _faults(queue)
        faults += [f"queue {number}: {said}" for said in wrong]
        endpoint = Endpoint.of(queue.endpoint, queue.flavour)
        if not wrong and endpoint is not None:
            _add(builder, endpoint, queue, number)
    downtimes = []
    for number, entry in enumerate(found.downtime, 1):
        start, end = (t if t.tzinfo else t.replace(tzinfo=UTC) for t in (entry.start, entry.end))
        if start >= end:
            faults.append(f"downtime {number}: end: it has to be after start")
        announced = entry.severity, entry.reason, entry.url
        downtimes.append(Downtime(entry.ce, "", start, end, *announced))
    if faults:
        raise ValueError(f"{NAME}: {'; '.join(faults[:10])}")
    return builder.records(downtimes)


def _faults(queue: QueueEntry) -> list[str]:
    """Return the faults in the values of a queue."""
    found = []
    if Endpoint.of(queue.endpoint, queue.flavour) is None:
        said = "not a host, host:port or URL such as ce.site.org:9619"
        found.append(f"endpoint: {said}: {queue.endpoint!r}")
    for key, value in (("name", queue.name), ("lrms", queue.lrms)):
        if value and not name(value):
            found.append(f"{key}: a name without blanks is expected: {value!r}")
    found += [f"vos: not the name of a VO: {vo!r}" for vo in queue.vos or () if not is_vo(vo)]
    found += [f"rules: not a rule: {rule!r}" for rule in queue.rules or () if not is_rule(rule)]
    states = ("Production", "Draining", "Closed", "Queueing")
    if queue.status.capitalize() not in states:
        found.append(f"status: one of {', '.join(states)} is expected: {queue.status!r}")
    return found


def _add(builder: QueueBuilder, endpoint: Endpoint, queue: QueueEntry, number: int) -> None:
    def taken(names: Mapping[str, str]) -> dict[str, Value]:
        given = ((ours, getattr(queue, key)) for key, ours in names.items())
        known = ((ours, value) for ours, value in given if value is not None)
        return {ours: list(v) if isinstance(v, tuple) else v for ours, v in known}

    values = taken(_OF_QUEUE)
    values["GlueCEStateStatus"] = queue.status.capitalize()
    if queue.vos is not None or queue.rules is not None:
        values[RULES] = list[Value]([*rules_of(queue.vos or ()), *(queue.rules or ())])
    lrms, view, hosts = queue.lrms.lower(), f"queue{number}", taken(_OF_HOSTS)
    builder.add(endpoint, queue.name, lrms, queue.site, view=view, values=values, hosts=hosts)


def _structured(document: Mapping[str, Any]) -> QueuesFile:
    """Make the tables of a document. Raises ValueError, with each fault and its place."""
    import cattrs

    defaults = document.get("defaults", {})
    if not isinstance(defaults, dict):
        raise ValueError(f"{NAME}: defaults: a table is expected")  # noqa: TRY004 - of a file
    queues = document.get("queue", [])
    if isinstance(queues, list) and all(isinstance(queue, dict) for queue in queues):
        queues = [defaults | queue for queue in queues]
    whole = {"queue": queues, "downtime": document.get("downtime", [])}
    try:
        found: QueuesFile = _converter().structure(whole, QueuesFile)
    except cattrs.BaseValidationError as error:
        said = cattrs.transform_error(error, "", _said)
        # The path begins with $; what is meant is a table and its number, from 1.
        raise ValueError(f"{NAME}: {'; '.join(map(_placed, said[:10]))}") from None
    return found


def _converter() -> cattrs.Converter:
    """Make a converter that takes no value of another type for one of its own."""
    import cattrs

    made = cattrs.Converter(forbid_extra_keys=True)
    for kind, word in ((int, "a number above 0"), (str, "a text"), (datetime, "a time")):
        made.register_structure_hook(kind, _exactly(kind, word))
    made.register_structure_hook_func(lambda kind: kind == tuple[str, ...], _texts)
    return made


def _exactly(kind: type, word: str) -> Any:
    """Make a hook that takes values of one type alone."""

    def take(value: Any, _: type) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{word} is expected: {value!r}")
        if isinstance(value, int) and not 0 < value < 1 << 63:
            raise ValueError(f"{word} is expected: {value!r}")
        if isinstance(value, str) and any(ord(char) < 32 for char in value):
            raise ValueError(f"a text in one line is expected: {value!r}")
        return value

    return take


def _texts(value: Any, _: type) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"a list of texts is expected: {value!r}")
    return tuple(value)


def _said(error: BaseException, _: type | None) -> str:
    """Describe a fault in a value in the words of this module."""
    import cattrs

    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        return f"unknown: {', '.join(sorted(error.extra_fields))}"
    if isinstance(error, KeyError):
        return "missing"
    if isinstance(error, ValueError):
        return str(error)
    return "a list of tables is expected"


def _placed(said: str) -> str:
    """Write ``… @ .queue[0].name`` as ``queue 1: name: …``."""
    text, _, path = said.rpartition(" @ ")
    parts = []
    for part in path.lstrip("$.").split("."):
        table, _, number = part.rstrip("]").partition("[")
        parts.append(f"{table} {int(number) + 1}" if number.isdigit() else table)
    return ": ".join([*filter(None, parts), text])
