"""Demand and supply by class: kinds that are served alike, pilots that serve alike, who takes whom.

What is submitted or ended for what is left over is decided in :mod:`matchmaker.pilots.policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import numpy as np

from matchmaker.pilots.arrays import Bools, Ints, Reals

STEPS: Final = 64
"""How many lengths of time are distinguished; more are rounded up, so that no pilot counts that has
too little left."""


@attrs.frozen(eq=False)
class Classes:
    """Kinds that match the same ads and need the same time are one class.

    Attributes:
        of: for each kind the number of its class.
        fits: for each class (a row) whether it matches each ad (a column).
        step: for each class the number of its wall clock among ``steps``.
        steps: the lengths of time that are distinguished, in seconds, rising.
    """

    of: Ints
    fits: Bools
    step: Ints
    steps: Reals

    def __len__(self) -> int:
        return len(self.fits)


def classes(fits: Bools, walls: Reals) -> Classes:
    """The classes of kinds, by what they match (a row each) and how many seconds they need."""
    steps = np.unique(walls)
    if len(steps) > STEPS:
        steps = np.unique(np.quantile(steps, np.linspace(0, 1, STEPS), method="higher"))
    step = np.searchsorted(steps, walls)
    numbers: dict[tuple[bytes, int], int] = {}
    of = np.fromiter(
        (
            numbers.setdefault((row.tobytes(), at), len(numbers))
            for row, at in zip(np.packbits(fits, axis=1), step.tolist(), strict=True)
        ),
        np.intp,
        len(walls),
    )
    _, first = np.unique(of, return_index=True)
    return Classes(of, fits[first], step[first], steps)


@attrs.frozen(eq=False)
class Supply:
    """Pilots that serve the same classes, a row each, in the order in which they are taken.

    Attributes:
        ad: for each row the number of its ad.
        room: for each row, how many of the classes' ``steps`` its time left suffices for.
        age: for each row how long its pilots have been queued, in seconds; 0 once they started.
        left: how many pilots of each row are not taken; it changes as they are.
    """

    ad: Ints
    room: Ints
    age: Reals
    left: Reals

    def take(
        self, classes: Classes, number: int, wanted: float, rows: slice, youngest: float = np.inf
    ) -> float:
        """Takes pilots of some rows for a class; gives how many it still wants.

        Rows whose pilots have been queued for more than `youngest` seconds are passed over.
        """
        ad, left = self.ad[rows], self.left[rows]
        able = classes.fits[number][ad]
        able &= self.room[rows] > classes.step[number]
        able &= left > 0
        if youngest < np.inf:
            able &= self.age[rows] <= youngest
        found = np.flatnonzero(able)
        if not len(found):
            return wanted
        have = left[found]
        upto = have.cumsum()
        left[found] = have - np.clip(wanted - (upto - have), 0.0, have)
        return max(wanted - float(upto[-1]), 0.0)

    def serve(
        self,
        classes: Classes,
        order: Iterable[int],
        wanted: Reals,
        rows: slice,
        youngest: Reals | None = None,
    ) -> Reals:
        """Takes pilots for the classes, in an order; gives how many each still wants."""
        short = wanted.copy()
        for number in order:
            if short[number] > 0:
                until = np.inf if youngest is None else float(youngest[number])
                short[number] = self.take(classes, number, float(short[number]), rows, until)
        return short


def grouped(keys: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Rows with equal keys as one: the first of each, and for each row the number of its group.

    Groups are in rising order of the keys, the first key counting most. Keys are at least 0.
    """
    code = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        code = code * (int(key.max(initial=0)) + 1) + key
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return first, inverse
