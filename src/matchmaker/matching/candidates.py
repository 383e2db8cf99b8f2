"""The slots that jobs of one cluster may have next, best first, while others take them.

Those that are as they were come from ``orders``, those that have given a part since from
``divided``; here are the better of the two, and which slots have room.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import Allowance
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import Evaluator
from matchmaker.matching.columns.vectors import Mask, numbers
from matchmaker.matching.divided import Divided
from matchmaker.matching.given import with_scopes
from matchmaker.matching.orders import Orders, Untouched
from matchmaker.matching.slots import Amounts, Short, Slots, amount, no_amount

if TYPE_CHECKING:
    import numpy.typing as npt

    Ranks: TypeAlias = npt.NDArray[np.float64]


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
        order, room = orders.of(job), Requests(slots, job).room
        self._untouched = Untouched(slots, job, count, order, room)
        self._divided = Divided(slots, job, order, room)

    def best(self) -> Offer | None:
        """The best slot that a job of the cluster can have by now, of equal ones the first by key.

        None where no slot that matches has room.
        """
        while True:
            untouched = self._untouched.first()
            divided = self._divided.first(untouched)
            found = divided or untouched
            if found is None:
                return None
            fall, _, row = found
            taken = self._slots.ask(self.job, row)
            if not isinstance(taken, Short):
                return Offer(row, 0.0 - fall, taken)
            # It seemed to have room, but reals are not exact where integers are large.
            if divided:
                self._divided.refuse(row)
            else:
                self._untouched.refuse()


class Requests:
    """What a job asks of slots."""

    def __init__(self, slots: Slots, job: ClassAd) -> None:
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
        self._evaluator.work.renew()
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
