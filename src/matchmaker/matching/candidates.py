"""The slots that jobs of one cluster may have next, best first, while others take them.

Those that are as they were come from ``orders``. Those that have given a part to some job since are
matched again, as they are by now, when a job of the cluster has its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.matching.allowance import Allowance
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import Evaluator
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.masks import Masks
from matchmaker.matching.columns.step_budget import Work
from matchmaker.matching.columns.vectors import Mask, Same, Vector, numbers
from matchmaker.matching.given import with_scopes
from matchmaker.matching.names import FOLDED_RANK
from matchmaker.matching.orders import Orders, Place, Untouched
from matchmaker.matching.slots import Amounts, Short, Slots, amount, no_amount

if TYPE_CHECKING:
    import numpy.typing as npt

    Ranks: TypeAlias = npt.NDArray[np.float64]

_NONE: Final = np.zeros(0, np.intp)


@attrs.frozen(slots=True)
class Offer:
    """A slot for a job: its row, the job's rank of it, and what the job takes of it."""

    row: int
    rank: float
    taken: Amounts


class Candidates:
    """The slots for the jobs of one cluster, of which `job` is one and there are `count`."""

    def __init__(self, slots: Slots, orders: Orders, job: ClassAd, count: int) -> None:
        self.job = job
        self._slots = slots
        self._masks = Masks(slots.now, job, Cache(0))
        self._work = Work(len(slots.now))
        self._rank = Evaluator(slots.now, job, (Side.JOB, FOLDED_RANK), self._work)
        self._requests = Requests(slots, job)
        self._untouched = Untouched(slots, orders, job, count, self._requests.room)
        # Slots that have given a part: those that match as they were when the log was last read.
        self._changed, self._changed_ranks = _NONE, np.zeros(0)
        self._seen = 0

    def best(self) -> Offer | None:
        """The best slot that a job of the cluster can have by now, of equal ones the first by key.

        None where no slot that matches has room.
        """
        self._read_log()
        while True:
            found = [first for first in (self._untouched.first(), self._first_changed()) if first]
            if not found:
                return None
            fall, _, row = min(found)
            taken = self._slots.ask(self.job, row)
            if not isinstance(taken, Short):
                return Offer(row, 0.0 - fall, taken)
            # It seemed to have room, but reals are not exact where integers are large.
            self._refuse(row)

    def _first_changed(self) -> Place | None:
        """The best of the slots that have given a part."""
        ranks = self._changed_ranks
        if not len(ranks):
            return None
        best = ranks.max()
        rows = self._changed[ranks == best]
        row = int(rows[self._slots.places[rows].argmin()])
        return -float(best), int(self._slots.places[row]), row

    def _refuse(self, row: int) -> None:
        if self._slots.clean[row]:
            self._untouched.refuse()
        else:
            kept = self._changed != row
            self._changed, self._changed_ranks = self._changed[kept], self._changed_ranks[kept]

    def _read_log(self) -> None:
        """Matches with the slots that have given a part since the log was last read."""
        self._work.renew()
        slots, seen = self._slots, self._seen
        self._seen = len(slots.log)
        if self._seen == seen:
            return
        kept = slots.unchanged_since(self._changed, seen)
        rows = slots.changed_since(seen)
        rows = rows[self._requests.room(rows)]
        rows = rows[self._masks.at(rows)]
        rank: Value | Expr = self.job.content.get(FOLDED_RANK, UNDEFINED)
        vector: Vector = (
            self._rank.vector(rank, Side.JOB, rows) if isinstance(rank, Expr) else Same(rank)
        )
        ranks, _ = numbers(vector, len(rows))
        self._changed = np.concatenate([self._changed[kept], rows])
        self._changed_ranks = np.concatenate([self._changed_ranks[kept], ranks])


class Requests:
    """What a job asks of slots."""

    def __init__(self, slots: Slots, job: ClassAd) -> None:
        self._slots = slots
        self._work = Work(len(slots.now))
        job = with_scopes(job)
        self._evaluator = Evaluator(slots.now, job, (Side.JOB, ""), self._work)
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
        """Which slots have room for what the job asks, compared as reals.

        A static slot has it, whatever its size, if what is asked are amounts.
        """
        divisible = self._slots.divisible[rows]
        room: Mask = np.ones(len(rows), np.bool_)
        if divisible.any() or not self.plain:
            for _, short, amiss in self.shortages(rows):
                room &= ~(short & divisible | amiss)
        return room

    def shortages(self, rows: Rows) -> Iterator[tuple[str, Mask, Mask]]:
        """For each resource: which slots have too little, and of which the job asks no amount.

        Compared as reals: a slot that has too little by this has too little in truth.
        """
        self._work.renew()
        for name, expression in self._slots.resources.items():
            left = self._slots.left[name][rows]
            if name not in self._same:
                vector = self._evaluator.vector(expression, Side.JOB, rows)
                wanted, none = numbers(vector, len(rows))
                amiss = none | (wanted < 0) | np.isinf(wanted)
                yield name, (wanted > left) & (wanted != 0), amiss
                continue
            same = self._same[name]
            if same is None:
                yield name, np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
            elif same:
                yield name, left < float(same), np.zeros(len(rows), np.bool_)
