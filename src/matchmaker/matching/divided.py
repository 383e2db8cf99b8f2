"""The slots that have given a part to some job of a cycle, best first, for the jobs of one kind.

Their ranks by now are known before it is asked whether they match: only those are asked that would
be taken. Slots that are as they were are in ``orders``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from matchmaker._limits import UNCACHED_POOL
from matchmaker.classad.ad import ClassAd
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.masks import Masks
from matchmaker.matching.columns.vectors import Mask
from matchmaker.matching.orders import Place, RankByNow, SlotOrder
from matchmaker.matching.slots import Slots


class Divided:
    """The slots that have given a part, have room by now, and may match a kind of jobs."""

    def __init__(
        self, slots: Slots, job: ClassAd, order: SlotOrder | None, room: Callable[[Rows], Mask]
    ) -> None:
        """``room`` says where a job of the kind that `job` is of fits in."""
        self._slots = slots
        self._room = room
        self._masks = Masks(slots.now, job, Cache(UNCACHED_POOL))
        self._ranks_of = order.by_now if order is not None else RankByNow(slots, job).of
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
        """Leaves a row out until it changes."""
        self._keep(self._rows != row)

    def _ask(self, at: int, least: float | None) -> None:
        """Asks one of them, and if it does not match all that are ranked so high at least."""
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
        """Takes up the slots that have given a part since the log was last read."""
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
