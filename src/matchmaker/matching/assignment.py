"""A negotiation cycle: many jobs, each to its best free slot, in an order that is fair to groups.

The best slot for a job is found in ``candidates``, through a ``Supply``: one pool here, several
shards in ``matchmaker.shards``.

The rules, which are a plain form of those of HTCondor's negotiator:

1. Jobs belong to accounting groups. Within a group they come by falling priority, then by rising
   ``QDate``, then as they were given.
2. The group with the least usage for its share is next, of equal ones the first by name; its usage
   grows by the CPUs that its job gets.
3. A job gets the slot that it ranks highest among those that are free, match it both ways with
   their remaining resources, and have room for what it asks. Of equal rank, the first by key.
4. A static slot is then taken. A partitionable one has less left, and its ad says so to the jobs
   that follow. Nothing is preempted.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, SupportsFloat

import attrs
import numpy as np

from matchmaker._limits import UNCACHED_POOL
from matchmaker.classad.ad import ClassAd, an_expression
from matchmaker.classad.errors import closest, printable, shorten
from matchmaker.classad.evaluate import Allowance, evaluate_attribute
from matchmaker.classad.nodes import Attr, Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import brief
from matchmaker.classad.values import Value, is_error
from matchmaker.classad.walks import conjuncts
from matchmaker.matching.candidates import (
    Amounts,
    Candidates,
    CandidateSlot,
    CycleSlots,
    JobRequests,
    Shortage,
    SlotOrders,
    amount,
)
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.dependencies import Clusters
from matchmaker.matching.columns.evaluator import OverworkError
from matchmaker.matching.columns.masks import MaskCache, Masks
from matchmaker.matching.columns.store import View
from matchmaker.matching.pair import (
    FOLDED_RANK,
    RANK,
    REQUIREMENTS,
    Clause,
    refusal,
    value_text,
    with_scopes,
)
from matchmaker.matching.ranking import rank_number
from matchmaker.matching.results import arrow_table, data_frame, html_table
from matchmaker.matching.states import SlotState, state_names

if TYPE_CHECKING:
    from matchmaker.matching.columns.arrow import ArrowTable


RESOURCES: Final = {
    "Cpus": "MY.RequestCpus ?: 1",
    "Memory": "MY.RequestMemory ?: 0",
    "Disk": "MY.RequestDisk ?: 0",
    "GPUs": "MY.RequestGPUs ?: 0",
}
"""What a job takes of a partitionable slot: a CPU if it does not say otherwise."""

GROUP: Final = (
    "MY.AcctGroup ?: (isString(MY.AccountingGroup)"
    ' ? replace("[.][^.]*$", MY.AccountingGroup, "") : (MY.AccountingGroup ?: MY.Owner))'
)
"""The group of ``group_atlas.u0`` is ``group_atlas``: HTCondor puts the user behind the last dot.
(HTCondor manual, "Group Accounting")"""

FREE: Final = (
    '(MY.State is undefined || MY.State == "Unclaimed")'
    " && MY.Available isnt false && MY.Draining isnt true && MY.Start isnt false"
)
"""Which slots may be assigned: those that do not say that they are not free."""

NO_GROUP: Final = "<none>"
"""The group of the jobs that name none."""


def _share(given: Expr | str | Mapping[str, float]) -> Expr | Mapping[str, float]:
    return an_expression(given) if isinstance(given, (Expr, str)) else _by_group(given)


def _by_group(given: Mapping[str, float]) -> Mapping[str, float]:
    if not isinstance(given, Mapping):
        raise TypeError(f"numbers by group were expected, not {type(given).__name__}")
    for group, number in given.items():
        if not isinstance(group, str):
            raise TypeError(f"groups go by their names, not by {type(group).__name__}")
        if not isinstance(number, SupportsFloat):
            raise TypeError(
                f"the share or usage of {group} is a number, not {type(number).__name__}"
            )
        if not 0 <= number < math.inf:
            raise ValueError(f"{group} cannot have a share or usage of {number}")
    return dict(given)


def _resources(given: Mapping[str, Expr | str]) -> Mapping[str, Expr]:
    if not isinstance(given, Mapping):
        raise TypeError(f"expressions by resource were expected, not {type(given).__name__}")
    if len({ascii_fold(name) for name in given}) < len(given):
        raise ValueError(f"a resource is named twice: {', '.join(given)}")
    return {name: an_expression(expression) for name, expression in given.items()}


@attrs.frozen(slots=True, kw_only=True)
class Policy:
    """The terms of a negotiation cycle. Expressions may be given as text.

    - ``priority``, of a job: a number, the highest first; anything else counts as 0.
    - ``group``, of a job: the name of its accounting group; without a text it is ``<none>``.
    - ``share``: by group, 1 by default, or an expression of a job, which stands for its group while
      it is next. Twice the share is twice the CPUs, while there are jobs. Groups with any other
      value come last.
    - ``usage``: the usage that groups begin with, 0 by default.
    - ``free``, of a slot: whether it may be assigned.
    - ``names``: the slots' own names for State, Activity, Available, Draining and Start, by which
      reasons say why slots that match are not free.
    - ``resources``: by the attribute of a partitionable slot, how much a job takes of it, an
      expression of the job, with the slot as TARGET.

    Raise ParseError for text that cannot be parsed, ValueError for a share or usage below 0 or
    infinite and for a resource that is named twice, and TypeError for other types.
    """

    priority: Expr = attrs.field(factory=lambda: parse_expr("MY.JobPrio"), converter=an_expression)
    group: Expr = attrs.field(factory=lambda: parse_expr(GROUP), converter=an_expression)
    share: Expr | Mapping[str, float] = attrs.field(factory=dict, converter=_share)
    usage: Mapping[str, float] = attrs.field(factory=dict, converter=_by_group)
    free: Expr = attrs.field(factory=lambda: parse_expr(FREE), converter=an_expression)
    resources: Mapping[str, Expr] = attrs.field(factory=lambda: RESOURCES, converter=_resources)
    names: Mapping[str, str] = attrs.field(factory=dict, converter=state_names)


SHOWN: Final = 8
"""How many groups are named in one note."""

LOOKED_AT: Final = 1000
"""Of how many kinds of jobs it is looked whether they ask for a resource."""


def without_effect(
    policy: Policy, columns: Collection[str], kinds: Sequence[ClassAd], groups: Collection[str]
) -> tuple[str, ...]:
    """Report the terms of a policy that change nothing for these kinds of jobs and groups.

    `columns` are the folded names of the slots' attributes, empty without slots. Without jobs
    nothing is reported.
    """
    if not kinds:
        return ()
    found = [*_groups(policy, groups), *_unasked(policy.resources, columns, kinds)]
    return tuple(map(printable, found))


def _groups(policy: Policy, groups: Collection[str]) -> Iterator[str]:
    if policy.group is not parse_expr(GROUP) and set(groups) == {NO_GROUP}:
        yield f"no job has a group: all are of {NO_GROUP}, by {brief(policy.group)}"
    shares = {} if isinstance(policy.share, Expr) else policy.share
    for what, given in (("share", shares), ("usage", policy.usage)):
        unknown = [group for group in given if group not in groups]
        known = {ascii_fold(group): group for group in groups}
        hints = [
            f"did you mean {shorten(like, 60)}?"
            for group in unknown[:SHOWN]
            if (like := known.get(ascii_fold(group)) or closest(group, known))
        ]
        if unknown:
            names = ", ".join(shorten(group, 60) for group in unknown[:SHOWN])
            more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
            hint = f"; {hints[0]}" if hints else ""
            yield f"no job is of {names}{more}, for which a {what} is given{hint}"


def _unasked(
    resources: Mapping[str, Expr], columns: Collection[str], kinds: Sequence[ClassAd]
) -> Iterator[str]:
    standard = _resources(RESOURCES)
    for name in resources:
        if resources[name] is standard.get(name) or not columns:
            continue
        if ascii_fold(name) not in columns:
            yield f"no slot has {shorten(name, 60)}, which is a resource of the policy"
        elif len(kinds) <= LOOKED_AT and not any(_asks(resources[name], job) for job in kinds):
            asked = brief(resources[name])
            yield f"no job asks for {shorten(name, 60)}: {asked} is 0 for all of them"


def _asks(expression: Expr, job: ClassAd) -> bool:
    """Whether a job asks for some of a resource, or for no amount; or that depends on the slot."""
    return amount(Allowance().value(expression, with_scopes(job), None)) != 0


class Outcome(StrEnum):
    """The outcome of a negotiation cycle for one job.

    ``NO_MATCH``: no slot matches, free or not. ``NO_ROOM``: slots match, but none of them is free
    and has room. ``ERROR``: a term of the job itself is an error.
    """

    PLACED = "placed"
    NO_MATCH = "no match"
    NO_ROOM = "no room"
    ERROR = "error"


@attrs.frozen(slots=True)
class IdleReason:
    """Why a job is left idle, in words; and of the slots that match, how many each thing keeps."""

    outcome: Outcome
    reason: str
    counts: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class LastRefusal:
    """The last refusal of the slots of a part of a pool, if none matches.

    ``stage`` is the number of the clause of the job that they fail, or the number of clauses if the
    slots refuse (``theirs``). ``row`` is the first of the ``left`` slots there, ``said`` the values
    that the clause depends on, and ``wrong`` says that its value is an error.
    """

    stage: int
    left: int
    row: int
    said: str
    wrong: bool = False
    theirs: bool = False


@attrs.frozen(slots=True)
class PartReason:
    """Why none of the slots of a part of a pool can be given to a job.

    Of those that match, ``reasons`` counts the free ones by reason, and ``states`` the states of
    the others; ``bad_request`` is the first request without an amount: the number of the resource,
    the row, and the error. ``last_refusal`` is set if none matches.
    """

    total: int
    matched: int
    free: int
    reasons: tuple[tuple[str, int], ...] = ()
    states: Mapping[str, int] = attrs.field(factory=dict)
    bad_request: tuple[int, int, str] | None = None
    last_refusal: LastRefusal | None = None


def why_idle(slots: CycleSlots, job: ClassAd) -> IdleReason:
    """Return why no slot could be given to a job, as they are after the matches so far."""
    nonsense = JobRequests(slots, job).nonsense
    return combined_reason(nonsense, () if nonsense else (part_reason(slots, job),))


def part_reason(slots: CycleSlots, job: ClassAd) -> PartReason:
    """Find out why a job cannot have any of the slots, as they are after the matches so far."""
    found = slots.decide(job)
    total = len(slots.view)
    if len(found.rows):
        return _counted(slots, job, found.rows, total)
    return PartReason(
        total, 0, 0, last_refusal=_last_refusal(slots, job, found.error) if total else None
    )


def combined_reason(nonsense: str, parts: Sequence[PartReason]) -> IdleReason:
    """Combine the reasons of the parts of a pool, in order, why a job is left idle.

    With `nonsense`, an error of a request for every slot, the parts do not matter.
    """
    if nonsense:
        return IdleReason(Outcome.ERROR, printable(nonsense))
    total = sum(part.total for part in parts)
    if not total:
        return IdleReason(Outcome.NO_MATCH, "there are no slots")
    idle = _no_room(parts) if any(part.matched for part in parts) else _no_match(parts, total)
    return attrs.evolve(idle, reason=printable(idle.reason))


def _last_refusal(slots: CycleSlots, job: ClassAd, error: str | None) -> LastRefusal:
    """Find the clause that the last slots fail, with its values for the first of them.

    `error` is the reason if no clause takes too much by itself.
    """
    view = slots.view
    masks = Masks(view, job, slots.cache)
    left = view.rows()
    stage = 0
    for clause in conjuncts(job.expr(REQUIREMENTS)) if REQUIREMENTS in job else []:
        try:
            kept = left[masks.clause(clause)[left]]
        except OverworkError:
            kept = left[:0]
        if not len(kept):
            found = refusal(job, view.ad(int(left[0])))
            wrong = error is not None if found is None else is_error(found.value)
            return LastRefusal(
                stage, len(left), int(left[0]), _on(slots, left, found, error), wrong
            )
        left = kept
        stage += 1
    found = refusal(view.ad(int(left[0])), job)
    return LastRefusal(stage, len(left), int(left[0]), _on(slots, left, found, error), theirs=True)


def _no_match(parts: Sequence[PartReason], total: int) -> IdleReason:
    """By the parts in which the last slots of all fall away."""
    refusals = [part.last_refusal for part in parts if part.last_refusal is not None]
    stage = max(one.stage for one in refusals)
    last = [one for one in refusals if one.stage == stage]
    left = _all(sum(one.left for one in last), total)
    first = min(last, key=lambda one: one.row)
    refuses = f"the job refuses {left}"
    if all(one.theirs for one in last):
        refuses = f"the job is refused by {left}"
    return IdleReason(Outcome.ERROR if first.wrong else Outcome.NO_MATCH, f"{refuses}{first.said}")


def _all(left: int, total: int) -> str:
    if left == total:
        return f"all {total} slots" if total > 1 else "the only slot"
    return f"the last {left} of {total} slots" if left > 1 else f"the last of {total} slots"


def _on(slots: CycleSlots, left: Rows, found: Clause | None, error: str | None) -> str:
    if found is not None:
        return f": on {slots.now.keys[int(left[0])]} {found}"
    return f": {error}" if error is not None else ""


def _counted(slots: CycleSlots, job: ClassAd, matched: Rows, total: int) -> PartReason:
    """Count the slots that match by the reason why a job cannot have them."""
    free = slots.free[matched]
    rows = matched[free]
    divisible = slots.divisible[rows]
    counts = Counter({TAKEN: 0, NO_AMOUNT: 0})
    unsaid = np.ones(len(rows), np.bool_)
    first: tuple[int, int, str] | None = None
    for number, (name, short, wrong) in enumerate(JobRequests(slots, job).shortages(rows)):
        invalid = wrong & unsaid
        if first is None and invalid.any():
            row = int(rows[invalid][0])
            answer = slots.ask(job, row)
            if isinstance(answer, Shortage):
                first = number, row, answer.reason
        counts[NO_AMOUNT] += int(invalid.sum())
        counts[f"with too little {name}"] += int((short & divisible & unsaid & ~invalid).sum())
        unsaid &= ~(short & divisible | invalid)
    counts[TAKEN] = int((unsaid & ~divisible).sum())
    rest = rows[unsaid & divisible]
    matches = Masks(slots.now, job, MaskCache(UNCACHED_POOL)).at(rest)
    counts["no longer a match with what is left"] = int((~matches).sum())
    for row in rest[matches].tolist():
        answer = slots.ask(job, row)
        counts[
            f"with too little {answer.resource if isinstance(answer, Shortage) else 'room'}"
        ] += 1
    states = slots.states.counts(job, matched[~free])
    return PartReason(total, len(matched), len(rows), tuple(counts.items()), states, first)


def _no_room(parts: Sequence[PartReason]) -> IdleReason:
    """What keeps the slots that match, added up."""
    counts: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for part in parts:
        for what, count in part.reasons:
            counts[what] += count
        states.update(part.states)
    for state in SlotState:
        # The policy may keep what the slot itself calls free.
        known = state not in (SlotState.FREE, SlotState.UNSAID)
        counts[state.words if known else "not free by the policy"] += states[state.value]
    held = {what: count for what, count in counts.items() if count}
    words = ", ".join(f"{count} {what}" for what, count in held.items())
    matched = sum(part.matched for part in parts)
    text = f"{matched} {'slot matches' if matched == 1 else 'slots match'}: {words}"
    invalid = [part.bad_request for part in parts if part.bad_request is not None]
    if not invalid:
        return IdleReason(Outcome.NO_ROOM, text, held)
    alone = counts[NO_AMOUNT] == sum(part.free for part in parts)
    return IdleReason(
        Outcome.ERROR if alone else Outcome.NO_ROOM, f"{text}; {min(invalid)[2]}", held
    )


TAKEN: Final = "taken"
NO_AMOUNT: Final = "where the request is no amount"


@attrs.define(slots=True, eq=False)
class JobKind:
    """Equivalent jobs: the first of them, and how many have not had their turn."""

    job: ClassAd
    waiting: int = 0


class Supply(Protocol):
    """The slots of a cycle, which jobs take one after the other."""

    @property
    def columns(self) -> Collection[str]:
        """The folded names of the slots' attributes; empty without slots."""
        ...

    def cluster(self, job: ClassAd) -> Hashable:
        """The autocluster of a job."""
        ...

    def begin(self, kinds: Sequence[JobKind]) -> None:
        """Take note of the jobs that are going to ask."""
        ...

    def best(self, kind: JobKind) -> CandidateSlot | None:
        """The best slot that a job of a kind can have by now."""
        ...

    def give(self, job: ClassAd, offer: CandidateSlot) -> tuple[str, Value]:
        """Give a job the offered slot; return its key and the job's rank of it before."""
        ...

    def idle(self, job: ClassAd) -> Callable[[], IdleReason]:
        """Return a function that says, when the cycle is over, why a job gets no slot by now."""
        ...

    def remains(self) -> dict[str, Amounts]:
        """Return the remaining resources of slots that gave a part, by key. Ends the cycle."""
        ...


class PoolSupply:
    """The slots of one pool."""

    def __init__(self, view: View, cache: MaskCache, policy: Policy) -> None:
        self.slots = CycleSlots(view, cache, policy.resources, policy.free, policy.names)
        self.columns: Collection[str] = view.columns if len(view) else ()
        self._orders = SlotOrders(self.slots)
        self._clusters = Clusters(view.columns, policy.resources.values())
        self._candidates: dict[JobKind, Candidates] = {}

    def cluster(self, job: ClassAd) -> Hashable:
        """See :meth:`Supply.cluster`."""
        return self._clusters.of(job)

    def begin(self, kinds: Sequence[JobKind]) -> None:
        """See :meth:`Supply.begin`: the slots are here already."""

    def best(self, kind: JobKind) -> CandidateSlot | None:
        """See :meth:`Supply.best`."""
        candidates = self._candidates.get(kind)
        if candidates is None:
            candidates = Candidates(self.slots, self._orders, kind.job, kind.waiting)
            self._candidates[kind] = candidates
        return candidates.best()

    def give(self, job: ClassAd, offer: CandidateSlot) -> tuple[str, Value]:
        """See :meth:`Supply.give`."""
        now = self.slots.now
        rank = evaluate_attribute(job, FOLDED_RANK, now.ad(offer.row))
        self.slots.take(offer.row, offer.taken)
        return now.keys[offer.row], rank

    def idle(self, job: ClassAd) -> Callable[[], IdleReason]:
        """See :meth:`Supply.idle`."""
        idle = why_idle(self.slots, job)
        return lambda: idle

    def remains(self) -> dict[str, Amounts]:
        """See :meth:`Supply.remains`."""
        return self.slots.remains()


_SUBMITTED: Final = Attr(None, "QDate", False)


@attrs.frozen(slots=True)
class Placement:
    """The result of a cycle for one job.

    ``number`` is the job's place among those given, from 0. ``slot`` is the key of its slot, with
    the job's ``rank`` of it, and ``taken`` the resources that it got: the part that it asked for,
    or all of a static slot. If it is left idle, ``slot`` and ``rank`` are None and ``reason`` says
    why; ``counts`` has the numbers in it: how many slots that match are claimed, taken and so on.

    A rank that is not a number counts as 0.0, as in HTCondor; ``ranked`` is then false.
    """

    number: int
    group: str
    outcome: Outcome
    slot: str | None = None
    rank: float | None = None
    ranked: bool = True
    taken: Amounts = attrs.field(factory=dict)
    reason: str = ""
    counts: Mapping[str, int] = attrs.field(factory=dict)


class ChangingPool(Protocol):
    """A pool that an assignment is entered in."""

    def __getitem__(self, name: str, /) -> ClassAd: ...

    def set(self, name: str, /, **attributes: Value) -> None:
        """Set attributes of an ad."""


@attrs.frozen(slots=True)
class Assignment:
    """The outcome of a negotiation cycle.

    ``placements`` are in the order in which jobs were given, ``order`` the numbers of those that
    had their turn, in the order in which they had it. ``usage`` is that of the groups afterwards,
    ``left`` the resources that remain in partitionable slots that serve a job, by key. ``notes``
    say which terms of the policy change nothing, such as a share of a group that no job is of.
    """

    placements: tuple[Placement, ...]
    order: tuple[int, ...]
    usage: Mapping[str, float]
    left: Mapping[str, Amounts]
    notes: tuple[str, ...] = ()

    @property
    def placed(self) -> tuple[Placement, ...]:
        """The jobs that have a slot."""
        return tuple(p for p in self.placements if p.slot is not None)

    @property
    def idle(self) -> tuple[Placement, ...]:
        """The jobs that have none."""
        return tuple(p for p in self.placements if p.slot is None)

    @property
    def unranked(self) -> tuple[Placement, ...]:
        """The jobs whose rank of their slot is not a number."""
        return tuple(p for p in self.placements if not p.ranked)

    def __repr__(self) -> str:
        return f"<Assignment: {len(self.placed)} of {len(self.placements)} jobs placed>"

    def __iter__(self) -> Iterator[Placement]:
        """Iterate over the results, in the order in which the jobs were given."""
        return iter(self.placements)

    def apply(self, pool: ChangingPool, claimed: Mapping[str, Value] | None = None) -> None:
        """Update the slots that serve a job in a pool.

        A partitionable slot keeps the rest of its resources, a static one gets the attributes of
        ``claimed``, by default ``State = "Claimed"``. Raise KeyError, with the pool as it was, if
        it has lost one of the slots, and TypeError for another object than a pool.

        >>> from matchmaker import Pool, parse_ad, parse_ads
        >>> pool = Pool(parse_ads('[ Name = "a"; PartitionableSlot = true; Cpus = 8 ]'))
        >>> pool.assign([parse_ad("[ RequestCpus = 3 ]")]).apply(pool)
        >>> pool["a"].eval("Cpus")
        5
        """
        if not callable(getattr(pool, "set", None)):
            raise TypeError(f"a Pool was expected, not {type(pool).__name__}")
        taken = dict.fromkeys(p.slot for p in self.placements if p.slot is not None)
        ads = {key: pool[key] for key in taken}
        for key, ad in ads.items():
            if key in self.left:
                pool.set(key, **self.left[key])
            elif ad.eval("PartitionableSlot") is not True:
                pool.set(key, **(claimed or {"State": "Claimed"}))

    def _repr_html_(self) -> str:
        head = ("job", "group", "outcome", "slot", "rank", "taken or reason")
        return html_table(head, map(_cells, self.placements), len(self.placements))

    def to_arrow(self) -> ArrowTable:
        """A ``pyarrow.Table`` with a row a job: the fields of ``Placement``, ``taken`` in JSON."""
        rows = self.placements
        columns = {name: [getattr(row, name) for row in rows] for name in _COLUMNS}
        columns["outcome"] = [row.outcome.value for row in rows]
        columns["taken"] = [json.dumps(row.taken) for row in rows]
        return arrow_table(columns)

    def to_pandas(self) -> Any:
        """Return a pandas ``DataFrame``."""
        return data_frame(self.to_arrow())

    def __str__(self) -> str:
        lines = [f"{len(self.placed)} of {len(self.placements)} jobs placed"]
        reasons = Counter(p.reason for p in self.idle)
        lines += [f"{count} idle: {reason}" for reason, count in reasons.most_common(20)]
        lines += self.notes
        return "\n".join(lines)


_COLUMNS: Final = (
    "number", "group", "outcome", "slot", "rank", "ranked", "taken", "reason",
)  # fmt: skip


def _cells(placement: Placement) -> tuple[object, ...]:
    taken = ", ".join(f"{amount} {name}" for name, amount in placement.taken.items())
    return (
        placement.number, placement.group, placement.outcome.value, placement.slot, placement.rank,
        placement.reason or taken,
    )  # fmt: skip


def assign(
    view: View, cache: MaskCache, jobs: Iterable[ClassAd], policy: Policy | None = None
) -> Assignment:
    """One negotiation cycle of jobs on the slots of a pool, which it leaves as it is.

    The same jobs, pool and policy always give the same assignment, unless an expression asks for
    the time or for chance. Jobs that are alike are matched once. No ad raises.

    >>> from matchmaker import Pool, parse_ad, parse_ads
    >>> pool = Pool(parse_ads('''
    ...   [ Name = "big"; PartitionableSlot = true; Cpus = 8; Memory = 4000 ]
    ...   [ Name = "old"; Cpus = 1; Memory = 1000 ]'''))
    >>> job = parse_ad('''[ Owner = "ana"; RequestCpus = 3; RequestMemory = 1500;
    ...   Requirements = TARGET.Memory >= MY.RequestMemory ]''')
    >>> found = pool.assign([job, job, job])
    >>> [(p.slot, p.taken) for p in found.placed]
    [('big', {'Cpus': 3, 'Memory': 1500}), ('big', {'Cpus': 3, 'Memory': 1500})]
    >>> found.left, found.idle[0].reason
    ({'big': {'Cpus': 2, 'Memory': 1000}}, '1 slot matches: 1 with too little Cpus')
    """
    policy = policy if policy is not None else Policy()
    if not isinstance(policy, Policy):
        raise TypeError(f"a Policy was expected, not {type(policy).__name__}")
    return NegotiationCycle(PoolSupply(view, cache, policy), list(jobs), policy).run()


@attrs.frozen(slots=True)
class _Entry:
    """A job in the line of its group."""

    number: int
    group: str
    before: tuple[float, float, int]
    """What puts the jobs of a group in order: the least first."""
    share: float


class _Lines:
    """The jobs that wait, by group, and whose turn is next."""

    def __init__(self, entries: Iterable[_Entry], usage: Mapping[str, float]) -> None:
        self.usage = dict(usage)
        self._waiting: dict[str, list[_Entry]] = defaultdict(list)
        for entry in sorted(entries, key=lambda entry: entry.before, reverse=True):
            self._waiting[entry.group].append(entry)
        self._next: list[tuple[float, str]] = []
        for group in self._waiting:
            self.usage.setdefault(group, 0.0)
            self._line_up(group)

    def _line_up(self, group: str) -> None:
        line = self._waiting[group]
        if line:
            share = line[-1].share
            heapq.heappush(self._next, (self.usage[group] / share if share else math.inf, group))

    def pop(self) -> _Entry | None:
        """The job whose turn it is. Its group has no other until ``used`` is called."""
        return self._waiting[heapq.heappop(self._next)[1]].pop() if self._next else None

    def used(self, group: str, usage: float) -> None:
        """Add the usage of the job that had its turn."""
        self.usage[group] += usage
        self._line_up(group)


class NegotiationCycle:
    """One cycle while it runs: the jobs in a fair order, the slots from a supply."""

    def __init__(self, supply: Supply, jobs: list[ClassAd], policy: Policy) -> None:
        self._jobs = jobs
        self._policy = policy
        self._supply = supply
        self._placements: dict[int, Callable[[], Placement]] = {}
        self._clusters = [supply.cluster(job) for job in jobs]
        self._kinds: dict[Hashable, JobKind] = {}
        for cluster, job in zip(self._clusters, jobs, strict=True):
            self._kinds.setdefault(cluster, JobKind(job)).waiting += 1
        self._idle: dict[Hashable, Callable[[], IdleReason]] = {}

    def run(self) -> Assignment:
        """The assignment of all jobs."""
        entries = [entry for n, job in enumerate(self._jobs) if (entry := self._entry(n, job))]
        lines = _Lines(entries, self._policy.usage)
        self._supply.begin(list(self._kinds.values()))
        order = []
        while (entry := lines.pop()) is not None:
            order.append(entry.number)
            lines.used(entry.group, self._place(entry))
        left = self._supply.remains()
        placements = tuple(self._placements[number]() for number in range(len(self._jobs)))
        usage = dict(sorted(lines.usage.items()))
        groups = {entry.group for entry in entries}
        kinds = [kind.job for kind in self._kinds.values()]
        notes = without_effect(self._policy, self._supply.columns, kinds, groups)
        return Assignment(placements, tuple(order), usage, left, notes)

    def _entry(self, number: int, job: ClassAd) -> _Entry | None:
        """The job's place in the lines, or None if its group, priority or share is ERROR."""
        policy, steps, job = self._policy, Allowance(), with_scopes(job)
        group = steps.value(policy.group, job, None)
        priority = steps.value(policy.priority, job, None)
        name = group if isinstance(group, str) else NO_GROUP
        share: Value = (
            steps.value(policy.share, job, None)
            if isinstance(policy.share, Expr)
            else policy.share.get(name, 1.0)
        )
        for what, value in (("group", group), ("priority", priority), ("share", share)):
            if is_error(value):
                reason = printable(f"the job's {what} is {value_text(value)}")
                wrong = Placement(number, name, Outcome.ERROR, reason=reason)
                self._placements[number] = lambda: wrong  # noqa: B023 - returns at once
                return None
        submitted = rank_number(steps.value(_SUBMITTED, job, None))
        before = (
            -(rank_number(priority) or 0.0), math.inf if submitted is None else submitted, number
        )  # fmt: skip
        return _Entry(number, name, before, _positive(share))

    def _place(self, entry: _Entry) -> float:
        """Give the job whose turn it is its best slot; return what that costs its group."""
        number, group, cluster = entry.number, entry.group, self._clusters[entry.number]
        job, kind = self._jobs[number], self._kinds[cluster]
        offer = self._supply.best(kind)
        kind.waiting -= 1
        if offer is None:
            # Equivalent jobs have the same reason, until one of them gets a slot.
            idle = self._idle.get(cluster)
            if idle is None:
                idle = self._idle[cluster] = self._supply.idle(job)
            self._placements[number] = lambda: _left_idle(number, group, idle())
            return 0.0
        self._idle.pop(cluster, None)
        slot, value = self._supply.give(job, offer)
        ranked = RANK not in job or rank_number(value) is not None
        placed = Placement(number, group, Outcome.PLACED, slot, offer.rank, ranked, offer.taken)
        self._placements[number] = lambda: placed
        return _cost(offer.taken)


def _left_idle(number: int, group: str, idle: IdleReason) -> Placement:
    return Placement(number, group, idle.outcome, reason=idle.reason, counts=idle.counts)


def _cost(taken: Amounts) -> float:
    """Return the CPUs that a job got; 1 for a slot without CPUs."""
    return next((float(n) for name, n in taken.items() if ascii_fold(name) == "cpus"), 1.0)


def _positive(share: Value) -> float:
    number = rank_number(share)
    return number if number is not None and 0 < number < math.inf else 0.0
