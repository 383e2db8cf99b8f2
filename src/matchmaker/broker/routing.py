"""Route a job: choose a queue, reduce the requirement for it, choose its hosts, make the flags.

Each answer comes from another part: ``choosing``, ``reduction``, ``nodes`` and ``batch``.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import attrs

from matchmaker import nodes as local
from matchmaker.batch import (
    Fit,
    Mapping,
    NoFlagsError,
    NoHostError,
    NotTakenError,
    QueueLimits,
    Strictness,
    Submission,
    Submitter,
    flags,
    same_system,
)
from matchmaker.broker.choosing import DEFAULT, NOT_TAKEN, TAKES_JOBS, Rules, choose
from matchmaker.broker.sources import NAMES, Queue, each_named
from matchmaker.classad import ClassAd, parse_expr
from matchmaker.classad.ad import first_text, some_ads
from matchmaker.classad.evaluate import charged
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.printer import unparse_value
from matchmaker.classad.values import is_number
from matchmaker.glue import scope
from matchmaker.glue.records import split_id, texts
from matchmaker.glue.systems.building import (
    CONDOR_URL,
    DEFAULT_QUEUE,
    GRID_RESOURCE,
    SYSTEM,
    Endpoint,
)
from matchmaker.matching.selection import Selection
from matchmaker.reduction import Reduction, ReductionError, reduce

if TYPE_CHECKING:
    from matchmaker.matching.pool import Pool

LOCAL_NAMES: Final = ("QueueName", "GlueCEName")
"""The attributes of a queue with its name in the batch system."""


def _nodes(given: Iterable[ClassAd] | None) -> tuple[ClassAd, ...] | None:
    return None if given is None else tuple(some_ads(given))


@attrs.frozen(slots=True, kw_only=True)
class Hosts:
    """The hosts of a queue, and the mapping of its batch system to flags.

    Attributes:
        nodes: the ads of the queue's worker nodes; None if nobody knows them.
        mapping: the batch system's mapping to flags; None if no flags are wanted.
        want: which way flags may err that cannot be exact.
        policy: the same in a site's terms; replaces ``want``.
        attributes: attributes of hosts that the GLUE schema does not know, beside the mapping's.
        submitter: the account that submits, for mappings that use it.
    """

    nodes: tuple[ClassAd, ...] | None = attrs.field(default=None, converter=_nodes)
    mapping: Mapping | None = attrs.field(default=None)
    want: Fit = Fit.NECESSARY
    policy: Strictness | None = None
    attributes: tuple[str, ...] = ()
    submitter: Submitter | None = None

    @mapping.validator
    def _loaded(self, _: object, mapping: object) -> None:
        if mapping is not None and not isinstance(mapping, Mapping):
            raise TypeError(f"mapping is what load_mapping('slurm') gives, not {mapping!r}")

    def scope(self, name: str) -> str:
        """Return the scope of an attribute by the GLUE schema, or else whether it is one of hosts.

        >>> Hosts(attributes=("Scratch",)).scope("scratch"), Hosts().scope("Scratch")
        ('host', 'unknown')
        """
        known = scope(name)
        if known != "unknown":
            return known
        of_mapping = self.mapping.attributes if self.mapping is not None else frozenset()
        own = {ascii_fold(each) for each in self.attributes}
        return "host" if ascii_fold(name) in of_mapping | own else known


@attrs.frozen(slots=True, kw_only=True)
class Route:
    """The way of a job to its hosts: the answers to the four questions, each None if it is missing.

    Attributes:
        selection: the queues that may run the job, best first, and why each other may not; None if
            the caller named the queue.
        reduction: the job's requirement without the facts of the queue.
        nodes: the worker nodes that may run the job, and why each other may not.
        submission: the flags that ask the batch system for such hosts.
        failure: the error in place of a reduction or of flags.
        passed_over: better queues, by name, none of whose nodes will do, each with the reason.
    """

    selection: Selection | None = None
    queue: Queue | None = None
    reduction: Reduction | None = None
    nodes: Selection | None = None
    submission: Submission | None = None
    failure: ReductionError | NoFlagsError | None = None
    passed_over: tuple[tuple[str, str], ...] = ()


def local_name(ad: ClassAd) -> str:
    """Return the name of a queue in its batch system, or the end of its id; empty if not known.

    Information systems write ``default`` for the queue that a batch system takes if none is named.

    >>> from matchmaker import parse_ad
    >>> [local_name(parse_ad(f"[ {text} ]")) for text in (
    ...     'QueueName = "long"', 'CEid = "ce:9619/condorce-slurm-gpu"', 'CEid = "ce"',
    ...     'QueueName = "default"; InformationSystem = "CRIC"')]
    ['long', 'gpu', '', '']
    """
    parts = split_id(first_text(ad, NAMES) or "")
    name = first_text(ad, LOCAL_NAMES) or (parts[2] if parts else "")
    return "" if name == DEFAULT_QUEUE and SYSTEM in ad else name


def unnamed(queue: Queue, submission: Submission | None, mapping: Mapping | None) -> str:
    """Return a warning that flags do not name the queue that they are for; empty if they may.

    >>> from matchmaker import parse_ad
    >>> from matchmaker.batch import load_mapping
    >>> table, ad = load_mapping("slurm"), parse_ad('[ CEid = "ce" ]')
    >>> made = Submission("slurm", "sbatch", (), (), Fit.EXACT)
    >>> unnamed(Queue("ce", ad), made, table)[:60]
    'no flag names the queue: ce does not say what slurm calls it'
    """
    if submission is None or mapping is None or "queue" not in mapping.used or local_name(queue.ad):
        return ""
    return (
        f"no flag names the queue: {queue.name} does not say what {mapping.lrms} calls it"
        " (QueueName). The job goes to the default queue, of which the verdict says nothing"
    )


@charged
def route(
    job: ClassAd,
    ces: Iterable[ClassAd] | Pool,
    hosts: Hosts | None = None,
    *,
    queue: str | None = None,
    at: datetime | None = None,
    tie: random.Random | None = None,
    rules: Rules = DEFAULT,
) -> Route:
    """Choose a queue, reduce the requirement for it, choose nodes, and make the submit flags.

    It ends if no queue matches or the requirement cannot be reduced: the rest is None then. Of the
    nodes only those count that the queue sends jobs to, by their ``Queues``. A queue none of whose
    nodes will do is passed over for the next best.

    Args:
        job: the job's ad.
        ces: the queues, as :func:`choose` takes them.
        hosts: the worker nodes and the batch system of the queue; without, the answer has neither
            nodes nor flags.
        queue: the name of the queue to take, whether or not it matches; by default the best.
        at: as for :func:`choose`.
        tie: as for :func:`choose`.
        rules: as for :func:`choose`.

    Raises:
        ValueError: no queue has the name, or a node that must be named has no plain name.
        ParseError: a condition of ``rules.admission`` cannot be read.

    >>> from matchmaker import parse_ad
    >>> from matchmaker.batch import load_mapping
    >>> job = parse_ad("[ Requirements = other.Up && other.GlueHostMainMemoryRAMSize >= 2000 ]")
    >>> queue = parse_ad('[ CEid = "a"; Up = true ]')
    >>> found = route(job, [queue], Hosts(mapping=load_mapping("slurm")), queue="a")
    >>> found.queue.name, str(found.reduction.residual), found.submission.argv
    ('a', 'other.GlueHostMainMemoryRAMSize >= 2000', ('--mem=2000M',))
    """
    given: object = hosts if hosts is not None else Hosts()
    if not isinstance(given, Hosts):
        said = "hosts are a Hosts(nodes=..., mapping=...), not"
        raise TypeError(f"{said} {type(given).__name__}")
    hosts = given
    if queue is not None:
        named = _named(ces, queue)
        told = local.policies_of(hosts.nodes or ()).get(local_name(named.ad))
        ad = local.with_policy(named.ad, told)
        return _route_to(attrs.evolve(named, ad=ad), job, hosts)
    listed = [ad for ad in hosts.nodes or () if local.queues_of(ad) is not None]
    described: dict[str, ClassAd] = {}
    if listed:
        policies = local.policies_of(hosts.nodes or ())
        described = {
            name: local.with_policy(ad, policies.get(local_name(ad)))
            for name, ad in _described(ces).items()
        }
        ces = [_as_seen(ad, job, hosts) for ad in described.values()]
    selection = choose(job, ces, at=at, tie=tie, rules=rules)
    second: tuple[Route, int] | None = None
    passed: list[tuple[str, str]] = []
    for ranked in selection.ranked:
        taken = Queue(ranked.name, described.get(ranked.name, ranked.ad))
        found = _route_to(taken, job, hosts)
        waits = found.submission is not None and found.submission.waits
        refused = isinstance(found.failure, NoHostError)
        # Nodes that do not list their queues are those of every queue: the next has no others.
        other = listed or isinstance(found.failure, NotTakenError)
        if not other or not (refused or waits):
            return attrs.evolve(found, selection=selection, passed_over=tuple(passed))
        # Rather a queue where the job waits than none.
        if second is None or (waits and second[0].submission is None):
            second = found, len(passed)
        why = found.submission.dropped[-1].reason if found.submission else str(found.failure)
        passed.append((ranked.name, why))
    if second is None:
        return Route(selection=selection)
    # No queue has a node that will do now: the answers are those of the best one.
    found, before = second
    over = tuple(passed[:before]) if found.submission is not None else ()
    return attrs.evolve(found, selection=selection, passed_over=over)


def _described(ces: Iterable[ClassAd] | Pool) -> dict[str, ClassAd]:
    """Return the ads of queues by name; of several with one name the first."""
    from matchmaker.matching.pool import Pool

    if isinstance(ces, Pool):
        return {name: ces[name] for name in ces.keys()}  # noqa: SIM118 - a pool is no mapping
    found: dict[str, ClassAd] = {}
    for name, ad in each_named(ces):
        found.setdefault(name, ad)
    return found


def _as_seen(ad: ClassAd, job: ClassAd, hosts: Hosts) -> ClassAd:
    """Add to a queue's ad the facts of a node that will do for the job, else of its first node.

    A batch system describes its queues without their hosts, and a job asks for hosts: it matches a
    queue of which a node matches. Attributes that the queue has itself stay.
    """
    name = local_name(ad)
    mine = [node for node in hosts.nodes or () if name in (local.queues_of(node) or ())]
    if not mine:
        return ad
    try:
        residual = reduce(job, ad, hosts.scope).residual
    except ReductionError:
        return ad
    good = (node for node in mine if truth(residual.eval(job, node)) is True)
    node, seen = next(good, mine[0]), ad.copy()
    for attribute in node:
        if attribute not in seen and hosts.scope(attribute) == "host":
            seen[attribute] = node.eval(attribute)
    return seen


def _route_to(queue: Queue, job: ClassAd, hosts: Hosts) -> Route:
    """Answer the questions that remain once a queue is taken."""
    found, name = Route(queue=queue), local_name(queue.ad)
    nodes: Sequence[ClassAd] | None = hosts.nodes
    if nodes is not None and name:
        nodes = local.in_queue(nodes, name)
    try:
        reduction = reduce(job, queue.ad, hosts.scope)
    except ReductionError as error:
        return attrs.evolve(found, failure=error)
    found = attrs.evolve(found, reduction=reduction)
    if nodes is not None:
        found = attrs.evolve(found, nodes=local.choose(job, nodes, reduction.residual))
    if hosts.mapping is None:
        return found
    try:
        _check_system(queue, hosts.mapping)
        _check_state(queue)
        if hosts.nodes and not nodes:
            known = {each for ad in hosts.nodes for each in local.queues_of(ad) or ()}
            raise NoHostError(
                f"none of the {len(hosts.nodes)} worker nodes is of the queue {name}; by their"
                f" Queues they are of {', '.join(sorted(known)[:8]) or 'none'}"
            )
        made = flags(
            reduction, hosts.mapping.lrms, hosts.mapping, nodes, hosts.want,
            policy=hosts.policy, queue=name, submitter=hosts.submitter,
            limits=QueueLimits.of(queue.ad),
        )  # fmt: skip
    except NoFlagsError as error:
        return attrs.evolve(found, failure=error)
    return attrs.evolve(found, submission=made)


def _named(ces: Iterable[ClassAd] | Pool, name: str) -> Queue:
    from matchmaker.matching.pool import Pool

    if isinstance(ces, Pool) and name in ces:
        return Queue(name, ces[name])
    found = _described(ces)
    if name not in found:
        alike = [known for known, ad in found.items() if local_name(ad) == name] or list(found)
        shown = ", ".join(alike[:5]) + ", ..." * (len(alike) > 5)
        raise ValueError(f"no queue is named {name}; there are {shown or 'none'}")
    return Queue(name, found[name])


def _check_system(queue: Queue, mapping: Mapping) -> None:
    """Raise NoFlagsError if the queue is run by another batch system than the mapping's."""
    runs = queue.ad.eval("LRMSType")
    # BLAH stands before every batch system.
    if mapping.style == "blah" or not isinstance(runs, str) or same_system(runs, mapping.lrms):
        return
    raise NoFlagsError(f"{queue.name} is run by {runs}, not by {mapping.lrms}; name another queue")


def _check_state(queue: Queue) -> None:
    if truth(parse_expr(TAKES_JOBS).eval(target=queue.ad)) is False:
        state = unparse_value(queue.ad.eval("GlueCEStateStatus"))
        raise NotTakenError(f"{NOT_TAKEN} ({queue.name}: GlueCEStateStatus = {state})")


_RESOURCE: Final = re.compile(r"(?P<kind>condor|arc|cream)(?: [!#%-\[\]-~]+)+")
"""A ``grid_resource``: its grid type and words without a macro of HTCondor's, and without a
backslash, which at the end of a line takes the next one too."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.@:/+-]+")
_KINDS: Final = {
    "condorce": "htcondor-ce",
    "htcondorce": "htcondor-ce",
    "nordugrid": "arc-ce",
    "arex": "arc-ce",
}
"""Flavours by their names in the ids of queues in BDIIs."""


def grid_lines(job: ClassAd, queue: ClassAd) -> tuple[str, ...]:
    """Write the lines of HTCondor's submit description that send a job to a queue of a grid.

    They go by ``GridResource``, which catalogues such as CRIC's give a queue, or by an id of
    HTCondor-CE or ARC; no lines if neither is known. The requests of the job (``RequestCpus``,
    ``RequestMemory`` in MiB, ``MaxWallTime`` in minutes) are in the words of the computing element.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[ RequestCpus = 8; MaxWallTime = 60 ]")
    >>> for line in grid_lines(job, parse_ad('[ CEid = "ce.t2.grid:9619/condorce-slurm-long" ]')):
    ...     print(line)
    universe = grid
    grid_resource = condor ce.t2.grid ce.t2.grid:9619
    +remote_queue = "long"
    +xcount = 8
    +maxWallTime = 60
    """
    resource = first_text(queue, (GRID_RESOURCE,)) or _resource(queue)
    found = _RESOURCE.fullmatch(resource)
    if found is None:
        return ()
    name = local_name(queue)
    name = name if _NAME.fullmatch(name) and name != "default" else ""
    requests = "RequestCpus", "RequestMemory", "MaxWallTime"
    cpus, memory, wall = (_asked(job, each) for each in requests)
    lines = ["universe = grid", f"grid_resource = {resource}"]
    if found["kind"] == "condor":
        lines += [f'+remote_queue = "{name}"'] if name else []
        asked = (("xcount", cpus), ("maxMemory", memory), ("maxWallTime", wall))
        lines += [f"+{attribute} = {number}" for attribute, number in asked if number]
    elif found["kind"] == "arc":
        parts = [f"<QueueName>{name}</QueueName>"] if name else []
        if cpus:
            slots = f"<NumberOfSlots>{cpus}</NumberOfSlots><SlotsPerHost>{cpus}</SlotsPerHost>"
            parts.append(f"<SlotRequirement>{slots}</SlotRequirement>")
        if memory:
            each = -(-(memory << 20) // (cpus or 1))
            parts.append(f"<IndividualPhysicalMemory>{each}</IndividualPhysicalMemory>")
        if wall:
            parts.append(f"<WallTime>{wall * 60}</WallTime>")
        lines += [f"arc_resources = {''.join(parts)}"] if parts else []
    return tuple(lines)


def _resource(queue: ClassAd) -> str:
    """Return the ``grid_resource`` that the id or the URL of a queue tells; empty if none does."""
    for url in texts(queue.eval("GlueCEInfoContactString")):
        flavour = "arc-ce" if "/arex" in url else "htcondor-ce" if CONDOR_URL in url else ""
        if flavour and (endpoint := Endpoint.of(url, flavour)) is not None:
            return endpoint.grid_resource("", "") or ""
    parts = split_id(first_text(queue, ("GlueCEUniqueID", *NAMES)) or "")
    place, _, kind = (parts[0] if parts else "").partition("/")
    flavour = _KINDS.get(kind.partition("-")[0].lower(), "")
    endpoint = Endpoint.of(place, flavour) if flavour else None
    return (endpoint.grid_resource("", "") or "") if endpoint is not None else ""


def _asked(job: ClassAd, attribute: str) -> int:
    value = job.eval(attribute)
    return math.ceil(value) if is_number(value) and 0 < value < math.inf else 0
