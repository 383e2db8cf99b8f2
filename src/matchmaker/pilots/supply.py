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

    def serve(
        self,
        classes: Classes,
        order: Iterable[int],
        wanted: Reals,
        rows: slice,
        youngest: Reals | None = None,
    ) -> Reals:
        """Takes pilots of some rows for the classes, in an order; gives how many each still wants.

        Rows whose pilots have been queued for more than `youngest` seconds of a class are passed
        over.
        """
        short = wanted.copy()
        ad, room, age, left = self.ad[rows], self.room[rows], self.age[rows], self.left[rows]
        for number in order:
            if short[number] <= 0:
                continue
            able = classes.fits[number][ad]
            able &= room > classes.step[number]
            able &= left > 0
            if youngest is not None:
                able &= age <= youngest[number]
            found = np.flatnonzero(able)
            if len(found):
                have = left[found]
                upto = have.cumsum()
                left[found] = have - np.clip(short[number] - (upto - have), 0.0, have)
                short[number] = max(short[number] - upto[-1], 0.0)
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
