"""Interleaved timing: in each round both sides take their turn on the same data, then the next.

A machine's speed drifts, so that sides measured one after the other are not comparable. The order
within a round alternates. What is told is the median of the rounds, with the least and the most.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter_ns
from typing import Any

import attrs

Work = Callable[[Any], object]
"""What is done to one piece of data, for one side."""


@attrs.frozen(slots=True)
class Timing:
    """Microseconds for one piece of data, a number a round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The number to compare."""
        return median(self.rounds)

    def __str__(self) -> str:
        return f"{figure(self.median)} ({figure(min(self.rounds))}-{figure(max(self.rounds))})"


def interleaved(
    sides: Sequence[Work], batch: Callable[[], Sequence[Any]], rounds: int
) -> tuple[Timing, ...]:
    """Times each side on the same batch, in as many rounds, each with a batch of its own.

    A first round warms up and is not counted.
    """
    taken: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + 1):
        data = batch()
        order = range(len(sides)) if number % 2 else reversed(range(len(sides)))
        for side in order:
            elapsed = _elapsed(sides[side], data)
            if number:
                taken[side].append(elapsed / len(data) / 1000)
    return tuple(Timing(tuple(times)) for times in taken)


def _elapsed(work: Work, data: Sequence[Any]) -> int:
    gc.collect()
    gc.disable()
    try:
        start = perf_counter_ns()
        for item in data:
            work(item)
        return perf_counter_ns() - start
    finally:
        gc.enable()


def figure(number: float) -> str:
    """A number with two or three digits that mean something."""
    if number >= 100:
        return f"{number:,.0f}"
    if number >= 1:
        return f"{number:.1f}" if number >= 10 else f"{number:.2f}"
    return f"{number:.2g}"
