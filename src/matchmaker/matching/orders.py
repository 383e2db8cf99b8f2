"""The slots that are as they were when a cycle began, best first, for the jobs of one kind.

Most ranks ask the slot alone (``TARGET.KFlops``), so that many kinds put the slots in one order: it
is made once, and a kind passes over those that do not match. The best of slots that are ranked by
few kinds alike are put in order for each kind. Slots that have given a part are in ``divided``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import Evaluator
from matchmaker.matching.columns.masks import rank_key, ranks
from matchmaker.matching.columns.vectors import Mask, Same, Vector, numbers
from matchmaker.matching.names import FOLDED_RANK
from matchmaker.matching.slots import Slots

if TYPE_CHECKING:
    import numpy.typing as npt

    Ranks: TypeAlias = npt.NDArray[np.float64]
    Places: TypeAlias = npt.NDArray[np.int32]

FIRST, EACH = 256, 4
"""How many of the best slots are put in order at first: a number, and more for each job."""

Place: TypeAlias = "tuple[float, int, int]"
"""What puts slots in order: the rank with its sign changed, the place of the key; and the row."""

ALIKE, MOST = 8, 8
"""How many kinds must rank slots alike before they share an order; how many orders there may be."""


class SlotOrder:
    """How kinds of jobs that rank slots alike rank them, as they were and as they are by now."""

    def __init__(self, slots: Slots, job: ClassAd) -> None:
        self._slots = slots
        self._rank = RankByNow(slots, job)
        self._by_now = np.zeros(slots.view.size)
        self._seen = 0
        rows = np.flatnonzero(slots.clean)
        ranked = ranked_by(slots, job, rows)
        order = first(ranked, slots.places[rows], len(rows))
        self.rows: Rows = rows[order]
        """Free slots by falling rank as they were, of equal ones the first by key."""
        self.ranks: Ranks = ranked[order]

    def by_now(self, rows: Rows) -> Ranks:
        """The ranks by now of slots that have given a part."""
        changed = self._slots.changed_since(self._seen)
        self._seen = len(self._slots.log)
        self._by_now[changed] = self._rank.of(changed)
        found: Ranks = self._by_now[rows]
        return found


class Orders:
    """The orders of one cycle, by what the rank of a job rests on beside the slots."""

    def __init__(self, slots: Slots) -> None:
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


class RankByNow:
    """How a job ranks slots as they are by now; 0.0 where its rank is not a number."""

    def __init__(self, slots: Slots, job: ClassAd) -> None:
        self._evaluator = Evaluator(slots.now, job, (Side.JOB, FOLDED_RANK))
        self._content: Value | Expr = job._held.get(FOLDED_RANK, UNDEFINED)

    def of(self, rows: Rows) -> Ranks:
        """The ranks of some rows."""
        self._evaluator.work.renew()
        content = self._content
        vector: Vector = (
            self._evaluator.vector(content, Side.JOB, rows)
            if isinstance(content, Expr)
            else Same(content)
        )
        return numbers(vector, len(rows))[0]


class Untouched:
    """The slots that match a kind of jobs and are as they were, best first, some at a time."""

    def __init__(
        self,
        slots: Slots,
        job: ClassAd,
        count: int,
        order: SlotOrder | None,
        room: Callable[[Rows], Mask],
    ) -> None:
        """`count` jobs are of the kind that `job` is of; ``room`` says where they fit in."""
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
        """Passes over the best of them."""
        self._next += 1

    def _more(self) -> None:
        """Puts more of them in order."""
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


def ranked_by(slots: Slots, job: ClassAd, rows: Rows) -> Ranks:
    """How a job ranks some slots as they were; 0.0 where its rank is not a number."""
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
