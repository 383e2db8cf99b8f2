"""The slots of a worker node: which are offered, which resources jobs take, which are suspended.

A node is one partitionable slot: each job takes its request from the rest. Some places are for the
foreground: if a foreground job comes and no processors are free, background jobs are suspended
until it has ended. All functions here are pure; ``pilot`` carries out their decisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import ceil
from operator import sub
from typing import Final

import attrs

from matchmaker.classad import ClassAd, Expr, parse_expr
from matchmaker.classad.ad import literal

# More than any node has: a request that cannot be met.
_OVER: Final = 1 << 60
FOREGROUND: Final = "foreground"
"""The value of a job's ``JobClass`` for which others stand still."""
_KINDS: Final = "cpus", "memory", "disk", "gpus"
"""Of resources; ``memory`` is requested by ``RequestMemory``, and offered as ``Memory``."""
_KNOWN: Final = (
    "(isString(TARGET.Cmd) || TARGET.Application is undefined"
    " || member(TARGET.Application, MY.Applications))"
)
_FITS: Final = " && ".join(
    f"(TARGET.Request{name} is undefined"
    f" || TARGET.Request{name} >= 0 && TARGET.Request{name} <= MY.{name})"
    for name in map(str.capitalize, _KINDS)
)


@attrs.frozen(slots=True, kw_only=True)
class NodeResources:
    """Processors, MiB of memory, MiB of disk, GPUs."""

    cpus: int = 0
    memory: int = 0
    disk: int = 0
    gpus: int = 0

    def __sub__(self, other: NodeResources) -> NodeResources:
        left = {kind: getattr(self, kind) - getattr(other, kind) for kind in _KINDS}
        return NodeResources(**left)

    def within(self, other: NodeResources) -> bool:
        """Whether another has at least as much of each."""
        return all(getattr(self, kind) <= getattr(other, kind) for kind in _KINDS)


@attrs.frozen(slots=True, kw_only=True)
class SitePolicy:
    """The site's policy, as expressions of a slot's ad with the job's as ``TARGET``.

    Attributes:
        start: whether a job may begin here.
        suspend: whether a background job is suspended now.
        resume: whether it may continue, if ``suspend`` suspended it.
        preempt: whether a job is ended and given back.
        rank: background jobs with the lowest rank are suspended first.

    ``JobSeconds`` and ``JobSuspended`` of the slot's ad describe the running job; an expression
    that is not true counts as false.
    """

    start: Expr = attrs.field(factory=lambda: parse_expr("true"))
    suspend: Expr = attrs.field(factory=lambda: parse_expr("false"))
    resume: Expr = attrs.field(factory=lambda: parse_expr("true"))
    preempt: Expr = attrs.field(factory=lambda: parse_expr("false"))
    rank: Expr = attrs.field(factory=lambda: parse_expr("0"))


@attrs.frozen(slots=True, kw_only=True)
class SlotClaim:
    """A job on the node, with the resources that it takes.

    Attributes:
        foreground: whether others are suspended for it.
        for_others: whether it is suspended because the foreground needs its processors.
        by_policy: whether it is suspended because of the site's policy.
        preempted: whether it is to be ended and given back.
    """

    job: str
    ad: ClassAd = attrs.field(eq=False)
    takes: NodeResources
    foreground: bool = False
    for_others: bool = False
    by_policy: bool = False
    preempted: bool = False

    @property
    def suspended(self) -> bool:
        """Whether it is suspended."""
        return self.for_others or self.by_policy

    @property
    def held(self) -> NodeResources:
        """The resources that no other job can have: if suspended, without its processors."""
        return attrs.evolve(self.takes, cpus=0) if self.suspended else self.takes


@attrs.frozen(slots=True, kw_only=True)
class NodeState:
    """A node and its jobs, the oldest first.

    ``most`` jobs of each class run at once; ``reserved`` foreground jobs find a place at any time
    (0 disables the class).
    """

    total: NodeResources
    most: int
    reserved: int = 0
    policy: SitePolicy = SitePolicy()
    claims: tuple[SlotClaim, ...] = ()

    @property
    def free(self) -> NodeResources:
        """The resources that no job holds."""
        return reduce(sub, (each.held for each in self.claims), self.total)


def offers(node: NodeState, machine: ClassAd) -> dict[str, ClassAd]:
    """Return the ads of the resources that are offered now, by slot: ``any``, and ``foreground``.

    Each slot's ad repeats the machine's.

    >>> node = NodeState(total=NodeResources(cpus=2, memory=1000), most=2, reserved=1)
    >>> sorted(offers(node, ClassAd()))
    ['any', 'foreground']
    >>> busy = take(node, "1", ClassAd(RequestCpus=2))
    >>> busy is not None and list(offers(busy, ClassAd()))
    ['foreground']
    """
    found = {}
    others = [each for each in node.claims if not each.foreground]
    if len(others) < node.most and node.free.cpus > 0 and not _any_suspended(node):
        found["any"] = _ad(node, machine, node.free, "")
    if len(node.claims) - len(others) < node.reserved:
        room = attrs.evolve(node.free, cpus=_movable(node))
        if room.cpus > 0:
            limit = f' && TARGET.JobClass == "{FOREGROUND}"'
            found[FOREGROUND] = _ad(node, machine, room, limit)
    return found


def take(node: NodeState, job: str, ad: ClassAd) -> NodeState | None:
    """Return the node with one more job, and others suspended for it; None without room.

    >>> node = NodeState(total=NodeResources(cpus=1, memory=1000), most=1, reserved=1)
    >>> node = take(node, "slow", ClassAd(RequestMemory=400))
    >>> node = take(node, "fast", ClassAd(JobClass="foreground"))
    >>> [(each.job, each.suspended) for each in node.claims]
    [('slow', True), ('fast', False)]
    >>> take(node, "more", ClassAd()) is None
    True
    """
    busy = sum(each.foreground for each in node.claims)
    # Where the places of the foreground are taken, its jobs are as all others.
    wanted = ad.eval("JobClass")
    foreground = isinstance(wanted, str) and wanted.lower() == FOREGROUND and busy < node.reserved
    room = attrs.evolve(node.free, cpus=_movable(node)) if foreground else node.free
    takes = request(ad, _ad(node, ClassAd(), room, ""))
    if not foreground and (len(node.claims) - busy >= node.most or _any_suspended(node)):
        return None
    claims = list(node.claims)
    order = sorted(
        (place for place, each in enumerate(claims) if not (each.foreground or each.suspended)),
        key=lambda place: (_rank(node, claims[place]), -place),
    )
    now = node
    while not takes.within(now.free):
        if not (foreground and order and takes.cpus > now.free.cpus):
            return None
        place = order.pop(0)
        claims[place] = attrs.evolve(claims[place], for_others=True)
        now = attrs.evolve(node, claims=tuple(claims))
    made = SlotClaim(job=job, ad=ad, takes=takes, foreground=foreground)
    # Of those that stand still, one may have made no room that was needed in the end.
    return leave(attrs.evolve(now, claims=(*now.claims, made)), "")


def leave(node: NodeState, job: str) -> NodeState:
    """Return the node without a job; jobs that were suspended for it continue, the oldest first.

    >>> node = NodeState(total=NodeResources(cpus=1, memory=9), most=1, reserved=1)
    >>> node = take(take(node, "slow", ClassAd()), "fast", ClassAd(JobClass="foreground"))
    >>> [(each.job, each.suspended) for each in leave(node, "fast").claims]
    [('slow', False)]
    """
    claims = [each for each in node.claims if each.job != job]
    for place, each in enumerate(claims):
        if each.for_others:
            free = attrs.evolve(node, claims=tuple(claims)).free
            if each.by_policy or each.takes.cpus <= free.cpus:
                claims[place] = attrs.evolve(each, for_others=False)
    return attrs.evolve(node, claims=tuple(claims))


def apply_policy(node: NodeState, machine: ClassAd, seconds: dict[str, float]) -> NodeState:
    """Return the node after the site's policy was applied.

    ``seconds`` has how long each job has run, by its id.
    """
    claims = list(node.claims)
    for place, each in enumerate(claims):
        slot = _ad(node, machine, each.takes, "")
        slot["JobSeconds"] = seconds.get(each.job, 0.0)
        slot["JobSuspended"] = each.suspended
        policy = node.policy
        if slot.eval(policy.preempt, target=each.ad) is True:
            claims[place] = attrs.evolve(each, preempted=True)
        elif each.foreground:
            continue
        elif not each.by_policy and slot.eval(policy.suspend, target=each.ad) is True:
            claims[place] = attrs.evolve(each, by_policy=True)
        elif each.by_policy and slot.eval(policy.resume, target=each.ad) is True:
            room = each.takes.cpus <= attrs.evolve(node, claims=tuple(claims)).free.cpus
            claims[place] = attrs.evolve(each, by_policy=False, for_others=not room)
    # Processors that came free are for those that stand still.
    return leave(attrs.evolve(node, claims=tuple(claims)), "")


def request(ad: ClassAd, slot: ClassAd | None = None) -> NodeResources:
    """Return the requested resources of a job; by default one processor, and nothing else.

    A request may depend on the slot's ad. One that is not a number above 0 counts as more than any
    node has.

    >>> request(ClassAd(RequestMemory=1.5, RequestDisk="much")).memory
    2
    """
    found = {"cpus": 1}
    for kind in _KINDS:
        name = f"Request{kind}"
        if name in ad:
            value = ad.eval(name, target=slot)
            found[kind] = _OVER
            if isinstance(value, int | float) and 0 <= value < _OVER:
                found[kind] = ceil(value)
    return NodeResources(**{**found, "cpus": max(1, found["cpus"])})


def for_owners(ad: ClassAd, owners: Iterable[str]) -> Expr:
    """Return the requirements of an ad, limited to jobs of some owners, by their exact names.

    >>> str(for_owners(ClassAd(Requirements=True), ["ana", "ben"]))
    '(TARGET.Owner =?= "ana" || TARGET.Owner =?= "ben") && true'
    """
    mine = " || ".join(f"TARGET.Owner =?= {literal(name)}" for name in owners)
    given = f" && ({ad.expr('Requirements')})" if "Requirements" in ad else ""
    return parse_expr(f"({mine}){given}")


def _any_suspended(node: NodeState) -> bool:
    """Whether a job is suspended for others, and would continue first."""
    return any(each.for_others for each in node.claims)


def _movable(node: NodeState) -> int:
    """Return the processors that are free if all background jobs are suspended."""
    return node.total.cpus - sum(each.held.cpus for each in node.claims if each.foreground)


def _ad(node: NodeState, machine: ClassAd, room: NodeResources, limit: str) -> ClassAd:
    ad = machine.copy()
    for kind in _KINDS:
        ad[kind.capitalize()] = getattr(room, kind)
    ad["TotalCpus"], ad["TotalMemory"] = node.total.cpus, node.total.memory
    ad["Start"] = node.policy.start
    ad["Rank"] = node.policy.rank
    ad["Requirements"] = parse_expr(f"MY.Start && {_KNOWN} && {_FITS}{limit}")
    return ad


def _rank(node: NodeState, claim: SlotClaim) -> float:
    value = ClassAd().eval(node.policy.rank, target=claim.ad)
    return float(value) if isinstance(value, int | float) else 0.0
