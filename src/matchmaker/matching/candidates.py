"""Find the best slot for a kind of jobs in one negotiation cycle, while others take slots.

A static slot serves one job. A partitionable one gives a job the part that it asks for, and its ad
then has what remains. Most ranks ask the slot alone (``TARGET.KFlops``), so that many kinds put the
slots in one order: it is made once, and a kind passes over slots that do not match. Slots that have
given a part are ranked again. The order of the jobs is in ``assignment``.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from matchmaker._limits import UNCACHED_POOL
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.nodes import Attr, Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import Evaluator, allowance, own_values
from matchmaker.matching.columns.forms import ViewColumns, unshared
from matchmaker.matching.columns.masks import (
    MaskCache,
    Masks,
    MatchDecision,
    decide,
    rank_key,
    ranks,
)
from matchmaker.matching.columns.store import View
from matchmaker.matching.columns.vectors import (
    ConstantVector,
    Mask,
    Vector,
    is_true,
    numbers,
    values,
)
from matchmaker.matching.pair import FOLDED_RANK, value_text, with_scopes
from matchmaker.matching.states import SlotStates

if TYPE_CHECKING:
    import numpy.typing as npt

    Ranks: TypeAlias = npt.NDArray[np.float64]
    Places: TypeAlias = npt.NDArray[np.int32]


Amounts: TypeAlias = "dict[str, int | float]"

PARTITIONABLE: Final = "partitionableslot"
# From here on not every integer is a real.
_WHOLE: Final = 2.0**53
_NOBODY: Final = ClassAd()


def amount(value: Value) -> int | float | None:
    """A value as an amount of a resource: a finite number from 0 on, or None for any other value.

    A boolean counts as 0 or 1; a whole real becomes an integer.

    >>> amount(2.5), amount(1024.0), amount(True), amount(-1), amount("8 GB")
    (2.5, 1024, 1, None, None)
    """
    if not isinstance(value, (bool, int, float)) or not math.isfinite(value) or value < 0:
        return None
    whole = isinstance(value, float) and value.is_integer() and value < _WHOLE
    return int(value) if whole or isinstance(value, bool) else value


def no_amount(resource: str, expression: Expr, value: Value) -> str:
    """The error message for a request that is not an amount."""
    return f"{expression} is {value_text(value)}, which is no amount of {resource}"


@attrs.frozen(slots=True)
class Shortage:
    """Which resource a slot cannot give to a job, and why, in words."""

    resource: str
    reason: str


class CycleSlots:
    """The slots of a pool in one cycle, by row.

    ``resources`` has, by the slot's attribute, an expression of the job: how much it takes of a
    partitionable slot. ``free`` is an expression of the slots, ``names`` are their own names for
    the attributes of their state.
    """

    def __init__(
        self,
        view: View,
        cache: MaskCache,
        resources: Mapping[str, Expr],
        free: Expr,
        names: Mapping[str, str],
    ) -> None:
        self.view = view
        """The ads as they were when the cycle began."""
        self._names = names
        self.cache = cache
        self.resources = resources
        self._folded = {name: ascii_fold(name) for name in resources}
        columns = dict(view.held)
        for folded in self._folded.values():
            if folded in columns:
                columns[folded] = unshared(view.columns[folded])
        self.now: View = attrs.evolve(view, columns=ViewColumns(columns), changing=True)
        """The ads as they are by now, with what is left of the resources."""
        alive = np.ones(view.size, np.bool_) if view.alive is None else view.alive
        self.free: Mask = alive & is_true(own_values(view, free), view.size)
        # Where it is true: not a number, and nothing else.
        divides = (value is True for value in values(_own(view, PARTITIONABLE), view.size))
        self.divisible: Mask = np.fromiter(divides, np.bool_, view.size)
        self.left: dict[str, npt.NDArray[np.float64]] = {}
        """About how much of each resource is left: reals, where the ads may hold integers."""
        for name, folded in self._folded.items():
            has, _ = numbers(_own(view, folded), view.size)
            self.left[name] = np.where(np.isfinite(has) & (has > 0), has, 0.0)
        self.clean: Mask = self.free.copy()
        """Free slots that are as they were when the cycle began."""
        self.each = allowance(len(view))
        """The steps that may be taken for each slot, by each question."""
        self.log = array("q")
        """The rows that have given a part, in the order in which they did."""
        self._touched = np.zeros(view.size, np.int64)

    @cached_property
    def places(self) -> npt.NDArray[np.int32]:
        """The place of each row in the order of the keys."""
        keys = self.now.keys
        found = np.zeros(self.now.size, np.int32)
        ordered = sorted(self.now.rows().tolist(), key=keys.__getitem__)
        found[ordered] = np.arange(len(ordered), dtype=np.int32)
        return found

    @cached_property
    def states(self) -> SlotStates:
        """The states of the slots."""
        return SlotStates.of(self.view, self._names)

    def decide(self, job: ClassAd) -> MatchDecision:
        """Which slots match a job as they were when the cycle began."""
        return decide(self.view, job, self.cache, default_rank=0.0)

    def changed_since(self, moment: int) -> Rows:
        """The rows that have given a part since the log had this length, each once."""
        rows = np.frombuffer(self.log, np.int64)[moment:].copy()
        last: Rows = rows[self._touched[rows] == np.arange(moment + 1, len(self.log) + 1)]
        return last

    def unchanged_since(self, rows: Rows, moment: int) -> Mask:
        """Which of some rows have not given a part since the log had this length."""
        return np.less_equal(self._touched[rows], moment)

    def ask(self, job: ClassAd, row: int) -> Amounts | Shortage:
        """Return the resources a job would take of a slot by now, or the shortage."""
        ad, job = self.now.ad(row), with_scopes(job)
        within = Allowance(self.each)
        divisible = self.divisible[row]
        taken: Amounts = {}
        for name, expression in self.resources.items():
            value = within.value(expression, job, ad)
            wanted = amount(value)
            if wanted is None:
                return Shortage(name, no_amount(name, expression, value))
            if not wanted or not divisible:
                continue
            has = self._own(ad, name) or 0
            if wanted > has:
                return Shortage(name, f"{wanted} {name} are more than the {has} left")
            taken[name] = wanted
        if not divisible:
            return {name: own for name in self.resources if (own := self._own(ad, name))}
        return taken

    def _own(self, ad: ClassAd, name: str) -> int | float | None:
        folded = self._folded[name]
        held = ad._held.get(folded, UNDEFINED)
        if isinstance(held, Expr):
            held = Allowance(self.each).value(held, ad, _NOBODY, folded)
        return amount(held)

    def take(self, row: int, taken: Amounts) -> None:
        """Give a slot to a job: a static one whole, of a partitionable one the part taken."""
        if not self.divisible[row]:
            self.clean[row] = False
            return
        if not taken:
            return
        ad = self.now.ad(row)
        for name, wanted in taken.items():
            left = amount((self._own(ad, name) or 0) - wanted) or 0
            self.now.columns[self._folded[name]].put(row, left)
        # A resource may be defined by another: Disk = Cpus * 1000.
        ad = self.now.ad(row)
        for name in self.resources:
            self.left[name][row] = self._own(ad, name) or 0
        self.clean[row] = False
        self.log.append(row)
        self._touched[row] = len(self.log)

    def remains(self) -> dict[str, Amounts]:
        """Return the remaining resources of slots that gave a part, by key."""
        found = {}
        for row in sorted(set(self.log)):
            ad = self.now.ad(row)
            own = {name: self._own(ad, name) for name in self.resources}
            found[self.now.keys[row]] = {n: has for n, has in own.items() if has is not None}
        return found


def _own(view: View, folded: str) -> Vector:
    """The values of an attribute of the slots, each by itself."""
    if folded not in view.columns:
        return ConstantVector(UNDEFINED)
    return own_values(view, Attr(None, folded, False))


# A job rarely looks further than some slots, and to sort all of a large pool takes longer than the
# rest of its turn. `partition` finds the best in one pass; when they are used up, four times as
# many are sorted. A job takes one slot, but other kinds of jobs take some of the same.
FIRST, EACH = 256, 4
"""How many of the best slots are sorted at first: at least ``FIRST``, and ``EACH`` for each job."""

Place: TypeAlias = "tuple[float, int, int]"
"""What slots are sorted by: the rank with its sign changed, the place of the key, and the row."""

# An order sorts all free slots, not only the best: it pays when some kinds have asked for the same
# one. It takes 16 bytes a slot, so that their number is bounded.
ALIKE, MOST = 8, 8
"""How many kinds must rank slots alike before they share an order; how many orders there may be."""


class SlotOrder:
    """The order of slots for kinds of jobs that rank them alike.

    It is that of the free slots when it was made; the ranks of slots that have given a part since
    are computed anew, by ``by_now``.
    """

    def __init__(self, slots: CycleSlots, job: ClassAd) -> None:
        self._slots = slots
        self._rank = CurrentRank(slots, job)
        self._by_now = np.zeros(slots.view.size)
        self._seen = 0
        rows = np.flatnonzero(slots.clean)
        ranked = ranked_by(slots, job, rows)
        order = first(ranked, slots.places[rows], len(rows))
        self.rows: Rows = rows[order]
        """Free slots by falling rank as they were, of equal ones the first by key."""
        self.ranks: Ranks = ranked[order]

    def by_now(self, rows: Rows) -> Ranks:
        """Return the present ranks of slots that have given a part."""
        changed = self._slots.changed_since(self._seen)
        self._seen = len(self._slots.log)
        self._by_now[changed] = self._rank.of(changed)
        found: Ranks = self._by_now[rows]
        return found


class SlotOrders:
    """The orders of one cycle, by the values other than the slots' that a job's rank depends on."""

    def __init__(self, slots: CycleSlots) -> None:
        self._slots = slots
        self._asked: Counter[Hashable] = Counter()
        self._made: dict[Hashable, SlotOrder] = {}

    def of(self, job: ClassAd) -> SlotOrder | None:
        """The order for a kind of jobs, or None if few kinds rank slots alike so far."""
        key = rank_key(self._slots.view, job)
        if key is None:
            return None
        self._asked[key] += 1
        if self._asked[key] >= ALIKE and key not in self._made and len(self._made) < MOST:
            self._made[key] = SlotOrder(self._slots, job)
        return self._made.get(key)


class CurrentRank:
    """The current rank of slots by a job; 0.0 if it is not a number."""

    def __init__(self, slots: CycleSlots, job: ClassAd) -> None:
        self._evaluator = Evaluator(slots.now, job, (Side.JOB, FOLDED_RANK))
        self._content: Value | Expr = job._held.get(FOLDED_RANK, UNDEFINED)

    def of(self, rows: Rows) -> Ranks:
        """The ranks of some rows."""
        self._evaluator.work.renew()
        content = self._content
        vector: Vector = (
            self._evaluator.vector(content, Side.JOB, rows)
            if isinstance(content, Expr)
            else ConstantVector(content)
        )
        return numbers(vector, len(rows))[0]


class UndividedSlots:
    """The slots that match a kind of jobs and are as they were, best first, some at a time."""

    def __init__(
        self,
        slots: CycleSlots,
        job: ClassAd,
        count: int,
        order: SlotOrder | None,
        room: Callable[[Rows], Mask],
    ) -> None:
        """`count` jobs are of the kind of `job`; ``room`` gives the slots with room for one."""
        self._slots = slots
        self._job = job
        self._order = order
        self._room = room
        self._width = max(FIRST, EACH * count)
        self._matching = np.zeros(0, np.uint8)
        """A bit for each slot, once it is known which of them match."""
        self._place = 0
        """How many of the slots in the order have been looked at."""
        self._rows, self._ranks = np.zeros(0, np.intp), np.zeros(0)
        self._next = 0
        self._all = False

    def first(self) -> Place | None:
        """The best of them by now."""
        clean = self._slots.clean
        while True:
            ahead = clean[self._rows[self._next :]]
            step = int(ahead.argmax()) if len(ahead) else 0
            if len(ahead) and ahead[step]:
                self._next += step
                row = int(self._rows[self._next])
                return -float(self._ranks[self._next]), int(self._slots.places[row]), row
            if self._all:
                return None
            self._more()

    def refuse(self) -> None:
        """Pass over the best slot."""
        self._next += 1

    def _more(self) -> None:
        """Put more slots in order."""
        ordered = self._order if len(self._matching) else None
        rows, ranked = self._matched() if ordered is None else self._ordered(ordered)
        kept = self._slots.clean[rows]
        kept[kept] = self._room(rows[kept])
        rows, ranked = rows[kept], ranked[kept]
        if self._order is None:
            order = first(ranked, self._slots.places[rows], self._width)
            self._all = len(order) == len(rows)
            rows, ranked = rows[order], ranked[order]
        self._rows, self._ranks, self._next = rows, ranked, 0
        self._width *= 4

    def _ordered(self, order: SlotOrder) -> tuple[Rows, Ranks]:
        """The next in the order that match."""
        some = slice(self._place, self._place + self._width)
        rows, ranked = order.rows[some], order.ranks[some]
        self._place += len(rows)
        self._all = self._place == len(order.rows)
        matching = self._matching[rows >> 3] >> (7 - (rows & 7)) & 1 != 0
        return rows[matching], ranked[matching]

    def _matched(self) -> tuple[Rows, Ranks]:
        """All that match, in any order."""
        slots = self._slots
        if len(self._matching):
            mask = np.unpackbits(self._matching, count=slots.view.size).view(np.bool_)
            rows = np.flatnonzero(mask & slots.clean)
            return rows, ranked_by(slots, self._job, rows)
        found = slots.decide(self._job)
        mask = np.zeros(slots.view.size, np.bool_)
        mask[found.rows] = True
        self._matching = np.packbits(mask)
        if len(found.rows) <= self._width:
            self._order = None
        return (found.rows, found.ranks) if self._order is None else self._ordered(self._order)


def ranked_by(slots: CycleSlots, job: ClassAd, rows: Rows) -> Ranks:
    """Rank slots as they were when the cycle began; 0.0 if a rank is not a number."""
    found, _ = ranks(slots.view, job, rows, slots.cache)
    found[np.isnan(found)] = 0.0
    return found


def first(ranks: Ranks, places: Places, count: int) -> Rows:
    """Which are the first by falling rank and then by place, in that order.

    >>> first(np.array([1.0, 5.0, 5.0]), np.array([0, 2, 1], np.int32), 2).tolist()
    [2, 1]
    """
    index = np.arange(len(ranks))
    if len(ranks) > count:
        threshold = np.partition(ranks, len(ranks) - count)[len(ranks) - count]
        better, equal = np.flatnonzero(ranks > threshold), np.flatnonzero(ranks == threshold)
        more = count - len(better)
        if len(equal) > more:
            equal = equal[np.argpartition(places[equal], more - 1)[:more]]
        index = np.concatenate([better, equal])
    return index[np.lexsort((places[index], -ranks[index]))]


class DividedSlots:
    """The slots that have given a part, have room by now, and may match a kind of jobs."""

    def __init__(
        self, slots: CycleSlots, job: ClassAd, order: SlotOrder | None, room: Callable[[Rows], Mask]
    ) -> None:
        """``room`` gives the slots with room for a job of the kind of `job`."""
        self._slots = slots
        self._room = room
        self._masks = Masks(slots.now, job, MaskCache(UNCACHED_POOL))
        self._ranks_of = order.by_now if order is not None else CurrentRank(slots, job).of
        self._rows = np.zeros(0, np.intp)
        self._ranks = np.zeros(0)
        self._sure = np.zeros(0, np.bool_)
        """Which of these rows match; the others were not asked."""
        self._seen = 0

    def first(self, other: Place | None) -> Place | None:
        """The best of them by now, or None if none matches or `other` comes before it."""
        self._read_log()
        while len(self._rows):
            best = self._ranks.max()
            equal = np.flatnonzero(self._ranks == best)
            at = int(equal[self._slots.places[self._rows[equal]].argmin()])
            row = int(self._rows[at])
            place = -float(best), int(self._slots.places[row]), row
            if other is not None and other < place:
                return None
            if self._sure[at]:
                return place
            self._ask(at, None if other is None else -other[0])
        return None

    def refuse(self, row: int) -> None:
        """Leave a row out until it changes."""
        self._keep(self._rows != row)

    def _ask(self, at: int, least: float | None) -> None:
        """Ask one of them, and if it does not match, all that are ranked so high at least."""
        matches = self._masks.alone(self._rows[at : at + 1])
        if matches[0]:
            self._sure[at] = True
            return
        asked = ~self._sure if least is None else ~self._sure & (self._ranks >= least)
        asked[at] = False
        places = np.flatnonzero(asked)
        matching = self._masks.at(self._rows[places])
        self._sure[places] = True
        kept = np.ones(len(self._rows), np.bool_)
        kept[at] = False
        kept[places] = matching
        self._keep(kept)

    def _keep(self, kept: Mask) -> None:
        self._rows, self._ranks = self._rows[kept], self._ranks[kept]
        self._sure = self._sure[kept]

    def _read_log(self) -> None:
        """Take up the slots that have given a part since the log was last read."""
        slots, seen = self._slots, self._seen
        self._seen = len(slots.log)
        if self._seen == seen:
            return
        self._keep(slots.unchanged_since(self._rows, seen))
        rows = slots.changed_since(seen)
        rows = rows[self._room(rows)]
        self._rows = np.concatenate([self._rows, rows])
        self._ranks = np.concatenate([self._ranks, self._ranks_of(rows)])
        self._sure = np.concatenate([self._sure, np.zeros(len(rows), np.bool_)])


@attrs.frozen(slots=True)
class CandidateSlot:
    """A slot for a job: its row, the job's rank of it, and the resources that the job takes."""

    row: int
    rank: float
    taken: Amounts


class Candidates:
    """The slots for the `count` jobs of one cluster; `job` is the first of them."""

    def __init__(self, slots: CycleSlots, orders: SlotOrders, job: ClassAd, count: int) -> None:
        self.job = job
        self._slots = slots
        order, room = orders.of(job), JobRequests(slots, job).room
        self._untouched = UndividedSlots(slots, job, count, order, room)
        self._divided = DividedSlots(slots, job, order, room)

    def best(self) -> CandidateSlot | None:
        """Return the best slot for a job of the cluster by now, of equal ones the first by key.

        Return None if no slot that matches has room.
        """
        while True:
            untouched = self._untouched.first()
            divided = self._divided.first(untouched)
            found = divided or untouched
            if found is None:
                return None
            fall, _, row = found
            taken = self._slots.ask(self.job, row)
            if not isinstance(taken, Shortage):
                return CandidateSlot(row, 0.0 - fall, taken)
            # It seemed to have room, but reals are not exact where integers are large.
            if divided:
                self._divided.refuse(row)
            else:
                self._untouched.refuse()


class JobRequests:
    """The resources that a job requests of slots."""

    def __init__(self, slots: CycleSlots, job: ClassAd) -> None:
        self._slots = slots
        job = with_scopes(job)
        self._evaluator = Evaluator(slots.now, job, (Side.JOB, ""))
        self._same: dict[str, int | float | None] = {}
        """The amounts that are the same for all slots."""
        self.nonsense = ""
        """What is wrong with a request that is no amount, whatever the slot; empty if none is."""
        steps = Allowance()
        for name, expression in slots.resources.items():
            reach = self._evaluator.reaches.of(expression, Side.JOB)
            if not (reach.opaque or reach.columns):
                value = steps.value(expression, job, ClassAd())
                self._same[name] = amount(value)
                if self._same[name] is None and not self.nonsense:
                    self.nonsense = no_amount(name, expression, value)

    @property
    def plain(self) -> bool:
        """Whether all requests are amounts that are the same for all slots."""
        amounts = self._same.values()
        return len(self._same) == len(self._slots.resources) and None not in amounts

    def room(self, rows: Rows) -> Mask:
        """Return which slots have room for the job's requests, compared as reals.

        A static slot always has room, if the requests are amounts.
        """
        divisible = self._slots.divisible[rows]
        room: Mask = np.ones(len(rows), np.bool_)
        if divisible.any() or not self.plain:
            for _, short, invalid in self.shortages(rows):
                room &= ~(short & divisible | invalid)
        return room

    def shortages(self, rows: Rows) -> Iterator[tuple[str, Mask, Mask]]:
        """For each resource: which slots have too little, and which requests are not amounts.

        Compared as reals: a slot that has too little by this has too little in truth.
        """
        self._evaluator.work.renew()
        for name, expression in self._slots.resources.items():
            left = self._slots.left[name][rows]
            if name not in self._same:
                vector = self._evaluator.vector(expression, Side.JOB, rows)
                wanted, none = numbers(vector, len(rows))
                invalid = none | (wanted < 0) | np.isinf(wanted)
                yield name, (wanted > left) & (wanted != 0), invalid
                continue
            same = self._same[name]
            if same is None:
                yield name, np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
            elif same:
                yield name, left < float(same), np.zeros(len(rows), np.bool_)
