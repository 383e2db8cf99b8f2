"""Which queues get the pilots that are wanted: limits, probes, regular selection, full throttle.

How many pilots each class of kinds wants is decided in :mod:`matchmaker.pilots.policy`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
import numpy as np

from matchmaker.pilots.arrays import Bools, Ints, Reals


@attrs.frozen(eq=False)
class Places:
    """The queues that pilots may be submitted to, and how many of them; ``room`` is used up.

    Attributes:
        slow: whether pilots wait at each queue for longer than nine of ten did before.
        room: how many pilots each queue takes still.
        response: how long each queue takes to start a pilot, in seconds.
        price: how many pilots the kinds that each queue serves want of it, to a pilot there.
        weight: the chance of each queue under regular selection.
        spread: at full throttle, how many times slower than the quickest a queue may be.
        random: where chance comes from.
        placed: how many pilots each queue gets.
    """

    slow: Bools
    room: Ints
    response: Reals
    price: Reals
    weight: Reals
    spread: float
    random: random.Random
    placed: Ints

    def place(self, able: Bools, count: int, own: Reals | float, *, throttle: bool) -> int:
        """Places pilots at queues that are able and have room; gives how many found no place.

        Slow queues get some only where there is no other.

        Args:
            able: of each queue whether it will do.
            count: how many pilots.
            own: the part of each queue's price that is their own: the rest is others', to whom a
                queue is left where there is another as quick.
            throttle: whether the quickest come first; else chance decides, by weight.
        """
        while count > 0:
            free = able & (self.room > 0)
            quick = free & ~self.slow
            found = np.flatnonzero(quick if quick.any() else free)
            if not len(found):
                return count
            chance = self.weight[found]
            if throttle or not chance.any():
                score = (self.response * (1 + np.maximum(self.price - own, 0)))[found]
                near = score <= self.spread * score.min()
                found, chance = found[near], 1 / score[near]
            share = self._shares(count, chance)
            share = np.minimum(share, self.room[found])
            self.placed[found] += share
            self.room[found] -= share
            count -= int(share.sum())
        return 0

    def _shares(self, count: int, weights: Reals) -> Ints:
        """Divides a count in proportion to weights; what is left of whole ones, by chance."""
        exact = count * weights / weights.sum()
        whole = np.floor(exact + 1e-9).astype(np.intp)
        rest = count - int(whole.sum())
        if rest > 0:
            # A draw without replacement by weight (Efraimidis and Spirakis, 2006).
            part = np.maximum(exact - whole, 1e-12)
            drawn = np.array([1 - self.random.random() for _ in range(len(part))])
            whole[np.argsort(np.log(drawn) / part)[::-1][:rest]] += 1
        return np.asarray(whole, np.intp)


def limited(limits: Sequence[Reals], there: Ints) -> Ints:
    """How many more pilots fit under the limits, each with what is there already."""
    room = np.min([limit - there for limit in limits], axis=0)
    room = np.maximum(np.floor(np.minimum(room, 1e9)), 0)
    return np.asarray(room, np.intp)
