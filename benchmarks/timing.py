"""Interleaved timing: in each round both sides take their turn on the same data, then the next.

A machine's speed drifts, so that sides measured one after the other are not comparable. The order
within a round alternates. What is told is the median of the rounds, with the least and the most,
and the median of the rounds' ratios.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import process_time_ns
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
        """The number to show."""
        return median(self.rounds)

    def ratio_to(self, other: Timing) -> float:
        """How many times longer this took: the median of the ratios of each round.

        The two sides of a round follow each other, so that a slow moment of the machine is in both.
        """
        return median(mine / its for mine, its in zip(self.rounds, other.rounds, strict=True))

    def divided(self, count: int) -> Timing:
        """The same for one of the `count` things that a piece of data holds."""
        return Timing(tuple(each / count for each in self.rounds))

    def __str__(self) -> str:
        return f"{figure(self.median)} ({figure(min(self.rounds))}-{figure(max(self.rounds))})"


def interleaved(
    sides: Sequence[Work],
    batch: Callable[[], Sequence[Any]],
    rounds: int,
    clock: Callable[[], int] = process_time_ns,
    *,
    collecting: bool = False,
) -> tuple[Timing, ...]:
    """Times each side on the same batch, in as many rounds, each with a batch of its own.

    A first round warms up and is not counted. The clock counts the nanoseconds that this process
    has had of a processor: how long it had to wait for one says nothing about the work. The garbage
    collector is off unless `collecting`.
    """
    taken: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + 1):
        data = batch()
        order = range(len(sides)) if number % 2 else reversed(range(len(sides)))
        for side in order:
            elapsed = _elapsed(sides[side], data, clock, collecting=collecting)
            if number:
                taken[side].append(elapsed / len(data) / 1000)
    return tuple(Timing(tuple(times)) for times in taken)


def _elapsed(work: Work, data: Sequence[Any], clock: Callable[[], int], *, collecting: bool) -> int:
    gc.collect()
    if not collecting:
        gc.disable()
    try:
        start = clock()
        for item in data:
            work(item)
        return clock() - start
    finally:
        gc.enable()


def figure(number: float) -> str:
    """A number with two or three digits that mean something."""
    if number >= 100:
        return f"{number:,.0f}"
    if number >= 1:
        return f"{number:.1f}" if number >= 10 else f"{number:.2f}"
    return f"{number:.2g}"


def resident() -> int:
    """The bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
