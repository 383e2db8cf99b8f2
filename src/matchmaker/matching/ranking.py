"""Putting what matched in order: best rank first, and how ties are broken."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from matchmaker.classad.values import Value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_T = TypeVar("_T")


def rank_number(rank: Value) -> float | None:
    """A rank as a number, or None for any other value: a boolean counts, NaN and strings do not.

    >>> rank_number(True), rank_number("high"), rank_number(float("nan"))
    (1.0, None, None)
    """
    if isinstance(rank, (bool, int, float)) and not math.isnan(rank):
        return float(rank)
    return None


def best_first(
    candidates: Iterable[_T],
    rank: Callable[[_T], float],
    key: Callable[[_T], str],
    tie: random.Random | None = None,
) -> list[_T]:
    """Sort candidates by falling rank. Equal ranks go by key, or by chance if ``tie`` is given.

    >>> best_first(["b3", "a3", "c9"], rank=lambda c: float(c[1]), key=str)
    ['c9', 'a3', 'b3']
    """
    ordered = sorted(candidates, key=key)
    if tie is not None:
        tie.shuffle(ordered)
    # The sort is stable, so that what the keys or the chance ordered stays ordered among equals.
    return sorted(ordered, key=rank, reverse=True)


def best_of_many(
    ranks: npt.NDArray[np.float64],
    keys: Callable[[list[int]], Sequence[str]],
    count: int,
    tie: random.Random | None = None,
) -> list[int]:
    """The places of the best `count` ranks, best first, as ``best_first`` has them.

    ``keys`` gives the keys of places. They are read only for candidates as good as the last of the
    best, so that the cost is that of one pass.

    >>> import numpy as np
    >>> best_of_many(
    ...     np.array([3.0, 3.0, 9.0, 1.0]), lambda places: ["bacd"[p] for p in places], 2)
    [2, 1]
    """
    import numpy as np

    count = min(count, len(ranks))
    if not count:
        return []
    threshold = np.partition(ranks, len(ranks) - count)[len(ranks) - count]
    places = np.flatnonzero(ranks >= threshold)
    some = places.tolist()
    by: Sequence[Any] = keys(some) if tie is None else [tie.random() for _ in some]
    chosen = heapq.nsmallest(count, zip((-ranks[places]).tolist(), by, some, strict=True))
    return [place for _, _, place in chosen]


def fuzzy(
    ranks: npt.NDArray[np.float64], count: int, chance: random.Random, factor: float = 1.0
) -> list[int]:
    """The places of `count` ranks drawn by lot, a better rank being drawn sooner.

    The weight of a rank r is atan((r - mean) * factor) + pi/2: with a small factor all are nearly
    equal, with a large one those above the mean share nearly everything. (gLite WMS, FuzzyRank.)

    >>> import numpy as np
    >>> first = [fuzzy(np.array([1.0, 9.0]), 1, random.Random(seed))[0] for seed in range(100)]
    >>> first.count(1) > 80
    True
    """
    import numpy as np

    with np.errstate(all="ignore"):
        deviation = np.nan_to_num((ranks - ranks.mean()) * factor) if len(ranks) else ranks
    # Drawing without replacement by weights: the least of exponential times with those rates.
    weights = np.arctan(deviation) + math.pi / 2
    waits = [chance.expovariate(weight) if weight > 0 else math.inf for weight in weights.tolist()]
    return heapq.nsmallest(count, range(len(waits)), key=waits.__getitem__)
