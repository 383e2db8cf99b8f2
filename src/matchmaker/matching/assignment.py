"""A negotiation cycle: many jobs, each to its best free slot, in an order that is fair to groups.

Here are the order of the jobs and the outcome. The policy is in ``terms``, what slots have left in
``slots``, the best slot for a job in ``candidates``, why a job gets none in ``idle``; all three are
asked through a ``supply``.

The rules, which are a plain form of those of HTCondor's negotiator:

1. Jobs belong to accounting groups. Within a group they come by falling priority, then by rising
   ``QDate``, then as they were given.
2. The group with the least usage for its share is next, of equal ones the first by name; its usage
   grows by the CPUs that its job gets.
3. A job gets the slot that it ranks highest among those that are free, match it both ways with what
   they have left by now, and have room for what it asks. Of equal rank, the first by key.
4. A static slot is then taken. A partitionable one has less left, and its ad says so to the jobs
   that follow. Nothing is preempted.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import printable
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.nodes import Attr, Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import Value, is_error
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.views import View
from matchmaker.matching.given import with_scopes
from matchmaker.matching.idle import Idle, Outcome
from matchmaker.matching.names import RANK
from matchmaker.matching.pair import value_text
from matchmaker.matching.ranking import rank_number
from matchmaker.matching.slots import Amounts
from matchmaker.matching.supply import Kind, Supply, Whole
from matchmaker.matching.tables import arrow_table, data_frame, html_table

if TYPE_CHECKING:
    from matchmaker.matching.columns.arrow_types import ArrowTable
from matchmaker.matching.terms import NO_GROUP, Policy, without_effect

_SUBMITTED: Final = Attr(None, "QDate", False)


@attrs.frozen(slots=True)
class Placement:
    """What a cycle came to for one job.

    ``number`` is the job's place among those given, from 0. ``slot`` is the key of its slot, with
    the job's ``rank`` of it, and ``taken`` what it got: the part that it asked for, or all that a
    static slot has. Where it is left idle, ``slot`` and ``rank`` are None and ``reason`` says why;
    ``counts`` has the numbers in it: how many slots that match are claimed, taken and so on.

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


class Changing(Protocol):
    """A pool that an assignment is entered in."""

    def __getitem__(self, name: str, /) -> ClassAd: ...

    def set(self, name: str, /, **attributes: Value) -> None:
        """Sets attributes of an ad."""


@attrs.frozen(slots=True)
class Assignment:
    """The outcome of a negotiation cycle.

    ``placements`` are in the order in which jobs were given, ``order`` the numbers of those that
    had their turn, in the order in which they had it. ``usage`` is that of the groups afterwards,
    ``left`` what the partitionable slots that serve a job still have, by key. ``notes`` say which
    terms of the policy change nothing, such as a share of a group that no job is of.
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
        """What the cycle came to for each job, in the order in which they were given."""
        return iter(self.placements)

    def apply(self, pool: Changing, claimed: Mapping[str, Value] | None = None) -> None:
        """Enters in a pool what the slots that serve a job have now.

        A partitionable slot has what is left of its resources, a static one the attributes of
        ``claimed``: ``State = "Claimed"`` where none are given. Raises KeyError, with the pool as
        it was, where it has lost one of the slots, and TypeError for what is no pool.

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
    view: View, cache: Cache, jobs: Iterable[ClassAd], policy: Policy | None = None
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
    return Cycle(Whole(view, cache, policy), list(jobs), policy).run()


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
        """Notes what the job that had its turn uses."""
        self.usage[group] += usage
        self._line_up(group)


class Cycle:
    """One cycle while it runs: the jobs in a fair order, the slots from a supply."""

    def __init__(self, supply: Supply, jobs: list[ClassAd], policy: Policy) -> None:
        self._jobs = jobs
        self._policy = policy
        self._supply = supply
        self._placements: dict[int, Callable[[], Placement]] = {}
        self._clusters = [supply.cluster(job) for job in jobs]
        self._kinds: dict[Hashable, Kind] = {}
        for cluster, job in zip(self._clusters, jobs, strict=True):
            self._kinds.setdefault(cluster, Kind(job)).waiting += 1
        self._idle: dict[Hashable, Callable[[], Idle]] = {}

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
        """Gives the job whose turn it is its best slot, and says what that costs its group."""
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


def _left_idle(number: int, group: str, idle: Idle) -> Placement:
    return Placement(number, group, idle.outcome, reason=idle.reason, counts=idle.counts)


def _cost(taken: Amounts) -> float:
    """The CPUs that a job got; 1 where it got a slot, but none of these."""
    return next((float(n) for name, n in taken.items() if ascii_fold(name) == "cpus"), 1.0)


def _positive(share: Value) -> float:
    number = rank_number(share)
    return number if number is not None and 0 < number < math.inf else 0.0
