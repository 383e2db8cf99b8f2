"""How long simulated sites take to start a pilot: three assumptions, each drawn from a seed.

``usual``: every site alike, log-normal with a median of ten minutes. ``apart``: the same, with a
median of a site's own, from a minute to an hour and a half. ``bursts``: long tails (Pareto) with
spells of hours in which a site starts nothing, and one site in ten that loses a third of its
pilots. The numbers are assumptions, not measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import attrs

from matchmaker.pilots.workload import HOUR

MEDIAN = 600.0
SIGMA = 0.8
"""Of the logarithm: nine of ten pilots start within 2.8 medians."""
APART = (60.0, 5400.0)
TAIL = 1.5
"""The exponent of the long tail: finite mean, infinite variance."""
LONGEST = 24 * HOUR
OPEN, SHUT = 24 * HOUR, 3 * HOUR
"""How long a site starts pilots and then does not, both on average."""
LOSING, LOST = 0.1, 1 / 3


@attrs.define(slots=True)
class Starts:
    """The luck of the pilots of one site, drawn one after the other.

    Attributes:
        delay: draws the seconds from submission to the earliest start.
        loses: the probability that a pilot is lost when it starts.
        random: where the numbers come from.
        shuts: when the next or present spell without starts begins; infinite for none.
        opens: when it ends.
    """

    delay: Callable[[], float]
    random: Random
    loses: float = 0.0
    shuts: float = math.inf
    opens: float = math.inf

    def draw(self) -> tuple[float, bool]:
        """The delay of the next pilot, in seconds, and whether it is lost when it starts."""
        return self.delay(), self.random.random() < self.loses

    def open_from(self, now: float) -> float:
        """When the site starts pilots: now, or the end of a spell. Times must not decrease."""
        while self.opens <= now:
            self.shuts = self.opens + self.random.expovariate(1 / OPEN)
            self.opens = self.shuts + self.random.expovariate(1 / SHUT)
        return now if now < self.shuts else self.opens


Delays = Callable[[str, int, float], Starts]
"""An assumption: of a site's key, a seed and the time of the beginning."""


def usual(site: str, seed: int, begin: float) -> Starts:
    """Log-normal around ten minutes, every site alike."""
    random = Random(f"usual {seed} {site}")  # noqa: S311 - a simulation
    return Starts(lambda: random.lognormvariate(math.log(MEDIAN), SIGMA), random)


def apart(site: str, seed: int, begin: float) -> Starts:
    """Log-normal around a median of the site's own, from a minute to an hour and a half."""
    random = Random(f"apart {seed} {site}")  # noqa: S311
    middle = random.uniform(*map(math.log, APART))
    return Starts(lambda: random.lognormvariate(middle, SIGMA), random)


def bursts(site: str, seed: int, begin: float) -> Starts:
    """Long tails, spells of hours without a start, and some sites that lose pilots."""
    random = Random(f"bursts {seed} {site}")  # noqa: S311
    least = MEDIAN / 2 ** (1 / TAIL)
    return Starts(
        lambda: min(least * random.paretovariate(TAIL), LONGEST),
        random,
        loses=LOST if random.random() < LOSING else 0.0,
        shuts=begin,
        opens=begin,
    )


def fixed(seconds: float) -> Delays:
    """Every pilot starts after the same time: for checks by hand."""
    return lambda site, seed, begin: Starts(lambda: seconds, Random(seed))  # noqa: S311


ASSUMPTIONS: dict[str, Delays] = {"usual": usual, "apart": apart, "bursts": bursts}
