"""Putting what matched in order: best rank first, and how ties are broken."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from typing import TypeVar

from matchmaker.classad.values import Value

_T = TypeVar("_T")


def rank_number(rank: Value) -> float | None:
    """A rank as a number, or None where it is none: a boolean counts, NaN and strings do not.

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
    """Candidates by falling rank. Equal ranks go by key, or by chance where ``tie`` is given.

    >>> best_first(["b3", "a3", "c9"], rank=lambda c: float(c[1]), key=str)
    ['c9', 'a3', 'b3']
    """
    ordered = sorted(candidates, key=key)
    if tie is not None:
        tie.shuffle(ordered)
    # The sort is stable, so that what the keys or the chance ordered stays ordered among equals.
    return sorted(ordered, key=rank, reverse=True)
