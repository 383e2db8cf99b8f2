"""Worker nodes and queues as records, the same for all batch systems, and their ads.

The reader of each batch system fills these records. Unknown values are None, and undefined in the
ad.

The access of a queue is in the batch system's own names. It is a tuple of alternatives, one must
admit a job. An alternative is names by list, ``AllowedGroups`` or ``DeniedAccounts``: it admits
whoever each ``Allowed…`` list names and no ``Denied…`` list does. Without alternatives the queue
admits everybody. Names that cannot be read might be anybody's, so they admit nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import attrs

from matchmaker.batch.description.texts import UNLIMITED, Output, OutputFormat
from matchmaker.classad import ClassAd

Lists: TypeAlias = Mapping[str, tuple[str, ...]]
Access: TypeAlias = tuple[Lists, ...]

EVERYBODY: Final[Access] = ()
NOBODY: Final[Access] = ({"AllowedUsers": ()},)

ALLOWED: Final = "Allowed"
DENIED: Final = "Denied"

# What no name of a user or group holds: separators, quotes, brackets and control characters.
_WORD: Final = r"[^\s,=(){}\[\]<>\"'\\\x00-\x1f\x7f\ufffd]+"
_NAME: Final = re.compile(_WORD)
_SPACED: Final = re.compile(f"{_WORD}(?: {_WORD})*")


def names_in(text: str, *, spaced: bool = False) -> tuple[str, ...] | None:
    """Read the names of a list, ``cms,ops``; None if one of them cannot be read.

    Names of Windows' groups may have spaces within (``spaced``). Elsewhere a space is the rest of a
    comma.

    >>> names_in("cms,ops"), names_in("cms,(null)"), names_in("")
    (('cms', 'ops'), None, None)
    >>> names_in("domain users"), names_in("domain users", spaced=True)
    (None, ('domain users',))
    """
    names = tuple(name.strip(" \t") for name in text.split(","))
    pattern = _SPACED if spaced else _NAME
    return names if all(pattern.fullmatch(name) for name in names) else None


def both(first: Access, second: Access) -> Access:
    """Return the access of jobs that both admit.

    >>> both(({"AllowedGroups": ("cms", "ops")},), ({"AllowedGroups": ("ops", "lhcb")},))
    ({'AllowedGroups': ('ops',)},)
    >>> both((), ({"DeniedUsers": ("eve",)},))
    ({'DeniedUsers': ('eve',)},)
    """
    if not first or not second:
        return first or second
    return tuple(_merged(one, other) for one in first for other in second)


def _merged(one: Lists, other: Lists) -> Lists:
    made = {**other, **one}
    for kind in one.keys() & other.keys():
        if kind.startswith(ALLOWED):
            made[kind] = tuple(name for name in one[kind] if name in other[kind])
        else:
            made[kind] = tuple(dict.fromkeys((*one[kind], *other[kind])))
    return made


def either(accesses: Iterable[Access]) -> Access:
    """Return the access of jobs that one of several admits; nobody without any.

    >>> either([({"AllowedGroups": ("cms",)},), ({"AllowedUsers": ("ada",)},)])
    ({'AllowedGroups': ('cms',)}, {'AllowedUsers': ('ada',)})
    >>> either([({"AllowedGroups": ("cms",)},), EVERYBODY]), either([])
    ((), ({'AllowedUsers': ()},))
    """
    known = list(accesses)
    if EVERYBODY in known:
        return EVERYBODY
    return tuple(lists for access in known for lists in access) or NOBODY


NATIVE: Final = "Native"
"""The attribute that holds an ad of everything that the batch system printed, in its own names."""

PRODUCTION: Final = "Production"
CLOSED: Final = "Closed"
DRAINING: Final = "Draining"
QUEUEING: Final = "Queueing"
"""The states of a queue in GLUE 1.3: runs what it takes; does neither; runs, takes no more; takes,
and runs nothing."""

_CLOSED: Final = "DENY:ALL"
"""The rule of GLUE that denies everybody."""

# Letters, digits and the underscore need no quotes in an ad.
_ORDINARY: Final = frozenset("_abcdefghijklmnopqrstuvwxyz0123456789")


@attrs.frozen(slots=True, kw_only=True)
class NodeRecord:
    """A worker node. Sizes are in MiB, times in seconds.

    Attributes:
        state: the state as the batch system prints it.
        available: whether the node takes jobs, now or when it has room.
        cpus: those that jobs can have.
        gpu_models: how many GPUs of each model, by the batch system's names.
        load: the mean load of one minute.
        max_wall, max_cpu: the greatest limits of its queues on jobs there.
        features: the names that jobs may ask for.
        queues: the queues that may send jobs to the node.
        native: all facts that the batch system printed.
    """

    name: str
    lrms: str
    state: str | None
    available: bool | None
    cpus: int | None = None
    free_cpus: int | None = None
    memory: int | None = None
    free_memory: int | None = None
    disk: int | None = None
    gpus: int | None = None
    free_gpus: int | None = None
    gpu_models: Mapping[str, int | None] = attrs.Factory(dict)
    arch: str | None = None
    system: str | None = None
    load: float | None = None
    max_wall: int | None = None
    max_cpu: int | None = None
    features: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    native: Mapping[str, str] = attrs.Factory(dict)

    def ad(self, of_queues: Mapping[str, QueueRecord] = MappingProxyType({})) -> ClassAd:
        """Return the node as an ad, under the names of HTCondor's slots and of GLUE 1.3's hosts.

        ``Disk`` is in kibibytes, as in HTCondor; ``GlueHostProcessorLoadLast1Min`` in hundredths.
        ``GPUModel`` is a text, or a list on a node with several models; ``GPUModels`` counts each.
        ``QueueAds`` has the policy of each queue of the node that is among ``of_queues``.

        >>> node = NodeRecord(name="n", lrms="slurm", state="IDLE", available=True, cpus=4, disk=2)
        >>> ad = node.ad()
        >>> ad.eval("Cpus"), ad.eval("GlueHostArchitectureSMPSize"), ad.eval("Disk")
        (4, 4, 2048)
        >>> ad.eval("Memory")
        UNDEFINED
        """
        models = [*self.gpu_models]
        counts = {attribute_name(name): n for name, n in self.gpu_models.items() if n is not None}
        mine = [of_queues[name] for name in dict.fromkeys(self.queues) if name in of_queues]
        return _ad(
            {
                "Name": self.name,
                "Machine": self.name,
                "LRMSType": self.lrms,
                "NodeState": self.state,
                "Available": self.available,
                "Cpus": self.cpus,
                "FreeCpus": self.free_cpus,
                "Memory": self.memory,
                "FreeMemory": self.free_memory,
                "Disk": None if self.disk is None else self.disk * 1024,
                "MaxWallClockTime": _minutes(self.max_wall),
                "MaxCPUTime": _minutes(self.max_cpu),
                "GPUs": self.gpus,
                "FreeGPUs": self.free_gpus,
                "GPUModel": models[0] if len(models) == 1 else models or None,
                "GPUModels": ClassAd(counts) if counts else None,
                "Features": list(self.features),
                "Queues": list(self.queues),
                "QueueAds": [queue.policy() for queue in mine] or None,
                "GlueHostArchitectureSMPSize": self.cpus,
                "GlueHostMainMemoryRAMSize": self.memory,
                "GlueHostArchitecturePlatformType": self.arch,
                "GlueHostOperatingSystemName": self.system,
                "GlueHostProcessorLoadLast1Min": (
                    None if self.load is None else round(self.load * 100)
                ),
            },
            self.native,
        )


@attrs.frozen(slots=True, kw_only=True)
class QueueRecord:
    """A queue, partition, cluster queue or schedd. Sizes are in MiB, times in seconds.

    Attributes:
        status: one of GLUE 1.3's four.
        max_wall, max_cpu: limits; `UNLIMITED` if the batch system prints so.
        access: by default everybody's.
        max_node_cpus, max_node_memory: the most that one job may have on a node.
        max_cpu_memory: the most memory for each processor of a job.
        routes: for a queue of HTCondor-CE, an ad for each route of its jobs.
        native: all facts that the batch system printed.
    """

    name: str
    lrms: str
    status: str | None
    total_cpus: int | None = None
    free_cpus: int | None = None
    running: int | None = None
    waiting: int | None = None
    max_wall: int | None = None
    max_cpu: int | None = None
    max_jobs: int | None = None
    max_running: int | None = None
    max_node_cpus: int | None = None
    max_node_memory: int | None = None
    max_cpu_memory: int | None = None
    priority: int | None = None
    default: bool | None = None
    access: Access = EVERYBODY
    routes: tuple[ClassAd, ...] = ()
    native: Mapping[str, str] = attrs.Factory(dict)

    def ad(self) -> ClassAd:
        """Return the queue as an ad, under the names of a GLUE 1.3 computing element.

        Times are in minutes. A queue that does not admit everybody has ``LocalAccess``, and the
        rule of GLUE that denies everybody, until somebody says which organisations its names stand
        for.

        >>> queue = QueueRecord(name="q", lrms="x", status=PRODUCTION, max_wall=7200, running=3)
        >>> ad = queue.ad()
        >>> ad.eval("GlueCEPolicyMaxWallClockTime"), ad.eval("GlueCEStateStatus")
        (120, 'Production')
        """
        jobs = (self.running, self.waiting)
        lists = [ClassAd({k: list(names) for k, names in one.items()}) for one in self.access]
        return _ad(
            {
                "Name": self.name,
                "QueueName": self.name,
                "LRMSType": self.lrms,
                "IsDefault": self.default,
                "GlueCEName": self.name,
                "GlueCEInfoLRMSType": self.lrms,
                "GlueCEInfoTotalCPUs": self.total_cpus,
                "GlueCEStateStatus": self.status,
                "GlueCEStateFreeCPUs": self.free_cpus,
                "GlueCEStateRunningJobs": self.running,
                "GlueCEStateWaitingJobs": self.waiting,
                "GlueCEStateTotalJobs": None if None in jobs else sum(n or 0 for n in jobs),
                "GlueCEPolicyMaxWallClockTime": _minutes(self.max_wall),
                "GlueCEPolicyMaxCPUTime": _minutes(self.max_cpu),
                "GlueCEPolicyMaxTotalJobs": self.max_jobs,
                "GlueCEPolicyMaxRunningJobs": self.max_running,
                "MaxCpusPerNode": self.max_node_cpus,
                "MaxMemoryPerNode": self.max_node_memory,
                "MaxMemoryPerCpu": self.max_cpu_memory,
                "GlueCEPolicyPriority": self.priority,
                "LocalAccess": lists or None,
                "GlueCEAccessControlBaseRule": [_CLOSED] if lists else None,
                "Routes": list(self.routes) or None,
            },
            self.native,
        )

    def policy(self) -> ClassAd:
        """Return the queue's limits as an ad, which the ads of its nodes repeat.

        >>> queue = QueueRecord(name="long", lrms="slurm", status=PRODUCTION, max_wall=7200)
        >>> print(queue.policy())
        [ Name = "long"; GlueCEStateStatus = "Production"; GlueCEPolicyMaxWallClockTime = 120 ]
        """
        ad = self.ad()
        return ClassAd({name: ad.eval(name) for name in POLICY if name in ad})


@attrs.frozen(slots=True)
class SystemReader:
    """The commands that describe a batch system, and a reader of their outputs, in any order.

    Attributes:
        formats: the outputs that the reader was tested with.
        optional: the commands that may fail.
    """

    lrms: str
    commands: tuple[tuple[str, ...], ...]
    formats: tuple[OutputFormat, ...]
    read: Callable[[Iterable[Output]], tuple[Sequence[NodeRecord | ClassAd], Sequence[QueueRecord]]]
    optional: frozenset[tuple[str, ...]] = frozenset()


POLICY: Final = (
    "Name", "IsDefault", "GlueCEStateStatus", "GlueCEPolicyMaxWallClockTime",
    "GlueCEPolicyMaxCPUTime", "MaxCpusPerNode", "MaxMemoryPerNode", "MaxMemoryPerCpu",
)  # fmt: skip
"""The attributes of a queue that the ads of its nodes repeat."""


def greatest(limits: Iterable[int | None]) -> int | None:
    """Return the greatest of several limits; None if one is unknown.

    >>> greatest([60, 90]), greatest([60, None]), greatest([])
    (90, None, None)
    """
    found = list(limits)
    return None if None in found else max((n for n in found if n is not None), default=None)


def by_queue(nodes: Iterable[NodeRecord]) -> dict[str, list[NodeRecord]]:
    """Sort nodes by the queues that may send jobs to them.

    >>> node = NodeRecord(name="n", lrms="x", state="", available=True, queues=("a", "b", "a"))
    >>> {queue: len(nodes) for queue, nodes in by_queue([node]).items()}
    {'a': 1, 'b': 1}
    """
    made: dict[str, list[NodeRecord]] = {}
    for node in nodes:
        for queue in dict.fromkeys(node.queues):
            made.setdefault(queue, []).append(node)
    return made


def cpus(mine: Sequence[NodeRecord]) -> tuple[int | None, int | None]:
    """Sum up the CPUs of a queue's nodes, and the free ones of those that take jobs.

    >>> nodes = [NodeRecord(name=n, lrms="x", state="", available=n == "p", cpus=4, free_cpus=3)
    ...          for n in "pq"]
    >>> cpus(nodes), cpus([])
    ((8, 3), (None, None))
    """
    if not mine:
        return None, None
    free = sum(node.free_cpus or 0 for node in mine if node.available)
    return sum(node.cpus or 0 for node in mine), free


def status(takes: bool, runs: bool) -> str:
    """Return GLUE's word for a queue that takes jobs or not, and runs them or not.

    >>> status(True, True), status(True, False), status(False, True), status(False, False)
    ('Production', 'Queueing', 'Draining', 'Closed')
    """
    if takes:
        return PRODUCTION if runs else QUEUEING
    return DRAINING if runs else CLOSED


def model(name: str | None, gpus: int | None) -> dict[str, int | None]:
    """Return the GPUs of a node whose model is one fact.

    >>> model("a100", 2), model("NONE", 2), model(None, 2)
    ({'a100': 2}, {}, {})
    """
    return {} if name is None or name.lower() in ("", "none", "-") else {name: gpus}


def _minutes(seconds: int | None) -> int | None:
    # A limit is not to be made longer than it is.
    return seconds if seconds is None or seconds == UNLIMITED else seconds // 60


def _ad(facts: Mapping[str, object], native: Mapping[str, str]) -> ClassAd:
    known = {name: value for name, value in facts.items() if value is not None}
    known[NATIVE] = ClassAd({attribute_name(name): text for name, text in native.items()})
    return ClassAd(known)


def attribute_name(text: str) -> str:
    """Make a name for an attribute that needs no quotes.

    >>> attribute_name("resources_available.mem"), attribute_name("1min-load"), attribute_name("")
    ('resources_available_mem', '_1min_load', '_')
    """
    name = "".join(char if char.lower() in _ORDINARY else "_" for char in text)
    return name if name and not name[0].isdigit() else f"_{name}"
