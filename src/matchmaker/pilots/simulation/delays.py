"""Simulate the time until a queue starts a pilot: worlds of assumptions, drawn from a seed.

A queue has a state that all its pilots share: the level of its waiting time, which drifts over
hours and jumps when other owners' load comes or goes. One owner's pilots start
in the order of their submission and behind each other. So two pilots submitted together wait about
equally long, and many do not start sooner than one. The level at a time depends on the seed and the
queue alone, not on the pilots: every policy meets the same world.

``usual``, ``apart`` and ``bursts`` are such worlds. In the worlds ``independent…`` each pilot draws
a delay of its own, as if it had a queue for itself: then forty copies in one queue start six times
sooner than one, which no batch system does. They are there for comparison only. ``trace`` replays
the waiting times that a trace has itself.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final, TypeAlias

import attrs

from matchmaker.pilots.simulation.workload import HOUR, TraceJob

MEDIAN: Final = 600.0
"""Seconds that a pilot waits at the median level."""
LONGEST: Final = 24 * HOUR
SHORTEST: Final = 1.0

# Waits of one owner and queue in a trace of one site (17,898 jobs): the logarithms of two jobs that
# were submitted within a minute of each other spread by 0.67 about what they share, which spreads
# by 2.37; the least wait of a bag of five or more is 0.8 of its median. So most pilots of a bag
# start together, and some are held up: nobody gains by submitting more of them.
BETWEEN: Final = 2.37
OWN: Final = 0.2
HELD_UP: Final = 0.2
"""The part of the pilots that are held up, by limits or by nodes that drain."""
HOLD: Final = 1.5
"""The deviation of the logarithm of the additional wait of these."""
BEHIND: Final = 0.02
"""The part of a wait that each pilot ahead of the same owner adds: a fair share grows smaller with
each start."""
DRIFT: Final = 6 * HOUR
JUMP: Final = 30 * HOUR
STEP: Final = 600.0
"""Seconds for which a level holds: short against ``DRIFT``."""

SIGMA: Final = 0.8
"""Spread of the logarithm of each pilot's own delay, where delays are independent: our choice."""
APART: Final = (60.0, 5400.0)
"""Seconds between which the medians of queues lie, evenly by logarithm: our choice."""
TAIL: Final = 1.5
"""The exponent of the long tail: finite mean, infinite variance."""
OPEN, SHUT = 24 * HOUR, 3 * HOUR
"""Mean seconds for which a queue starts pilots, and then starts none."""
LOSING, LOST = 0.1, 1 / 3
"""The share of queues that lose pilots, and the share of pilots that they lose: our choice."""
_LEAST: Final = MEDIAN / 2 ** (1 / TAIL)
"""The shortest wait of a long tail with this median."""


@attrs.define(slots=True)
class Noise:
    """A random function of time with mean 0, deviation 1 and correlation over `span` seconds.

    It is interpolated between independent normal numbers at multiples of `span`, or holds each of
    them until the next if `steps` is true. A value depends on the name and the time alone.

    >>> noise = Noise("x", 3600)
    >>> noise.at(100) == Noise("x", 3600).at(100), abs(noise.at(100) - noise.at(101)) < 0.1
    (True, True)
    """

    name: str
    span: float
    steps: bool = False
    _cell: int = -1
    _ends: tuple[float, float] = (0.0, 0.0)

    def at(self, time: float) -> float:
        """Return the value at a time in seconds."""
        cell, part = divmod(time / self.span, 1.0)
        if cell != self._cell:
            self._cell = int(cell)
            self._ends = self._value(self._cell), self._value(self._cell + 1)
        if self.steps:
            return self._ends[0]
        # A weighted mean of two numbers spreads less than each: this keeps the deviation.
        first, second = self._ends
        return ((1 - part) * first + part * second) / math.hypot(1 - part, part)

    def _value(self, cell: int) -> float:
        return Random(f"{self.name} {cell}").gauss(0, 1)  # noqa: S311 - a simulation


Wait: TypeAlias = Callable[[float, int], float]
"""The seconds that a pilot waits, of the time and the number of pilots ahead of the same owner."""


@attrs.define(slots=True)
class Starts:
    """The waits and the luck of the pilots of one queue.

    Attributes:
        wait: gives the waits.
        random: the luck of single pilots.
        spells: the luck of spells, drawn apart: every policy meets the same ones.
        loses: the probability that a pilot is lost when it starts.
        shuts: when the next or present spell without starts begins; infinite for none.
        opens: when it ends.
    """

    wait: Wait
    random: Random
    spells: Random = attrs.field(factory=lambda: Random(0))  # noqa: S311 - a simulation
    loses: float = 0.0
    shuts: float = math.inf
    opens: float = math.inf

    def draw(self, now: float = 0.0, ahead: int = 0) -> tuple[float, bool]:
        """Return the seconds until a slot for the next pilot, and whether it will be lost."""
        return self.wait(now, ahead), self.random.random() < self.loses

    def open_from(self, now: float) -> float:
        """Return when the queue starts pilots: now, or the end of a spell.

        Times must not decrease.
        """
        while self.opens <= now:
            self.shuts = self.opens + self.spells.expovariate(1 / OPEN)
            self.opens = self.shuts + self.spells.expovariate(1 / SHUT)
        return now if now < self.shuts else self.opens


Delays = Callable[[str, int, float], Starts]
"""An assumption: of a queue's key, a seed and the time of the beginning."""


@attrs.define(slots=True)
class Level:
    """The wait of the next pilot of a queue over time, in steps of ``STEP`` seconds.

    Pilots of one owner start in order, so a pilot starts no later than one that would be submitted
    after it: its wait is at most the time until then, and the level there. Otherwise whoever
    submits once more, or cancels and submits again, would start sooner in the same queue.

    >>> falling = Level(lambda time: 7200.0 if time < 3600 else 60.0)
    >>> falling.at(0), falling.at(3000), falling.at(3600)
    (3660.0, 660.0, 60.0)
    """

    raw: Callable[[float], float]
    _known: dict[int, float] = attrs.field(factory=dict)

    def at(self, time: float) -> float:
        """Return the wait in seconds of a pilot that is submitted at a time."""
        first = last = int(time // STEP)
        while last not in self._known:
            found = self.raw(last * STEP)
            if found <= STEP:  # The next level cannot be reached sooner.
                self._known[last] = found
            else:
                last += 1
        for step in range(last - 1, first - 1, -1):
            self._known[step] = min(self.raw(step * STEP), STEP + self._known[step + 1])
        return self._known[first]


def _shared(name: str, random: Random, middle: float, between: float) -> Wait:
    """Return the waits of a queue whose level spreads by `between` about `middle`, in logarithms.

    Half of the level's variance drifts, and half jumps.
    """
    drift, jump = Noise(f"{name} drift", DRIFT), Noise(f"{name} jump", JUMP, steps=True)
    part = between / math.sqrt(2)
    level = Level(lambda time: math.exp(middle + part * (drift.at(time) + jump.at(time))))

    def wait(now: float, ahead: int) -> float:
        return _bounded(level.at(now) * math.exp(_own(random)) * (1 + BEHIND * ahead))

    return wait


def _own(random: Random) -> float:
    """Return the logarithm of a pilot's own part, beside others that are submitted with it."""
    held_up = abs(random.gauss(0, HOLD)) if random.random() < HELD_UP else 0.0
    return random.gauss(0, OWN) + held_up


def _bounded(seconds: float) -> float:
    return min(max(seconds, SHORTEST), LONGEST)


def usual(site: str, seed: int, begin: float) -> Starts:
    """Make queues alike, with a level around ten minutes that spreads as a real queue's."""
    name = f"usual {seed} {site}"
    random = Random(name)  # noqa: S311 - a simulation
    return Starts(_shared(name, random, math.log(MEDIAN), BETWEEN), random)


def apart(site: str, seed: int, begin: float) -> Starts:
    """Make queues with a median of their own, from a minute to 90, and less drift."""
    name = f"apart {seed} {site}"
    random = Random(name)  # noqa: S311
    middle = random.uniform(*map(math.log, APART))
    return Starts(_shared(name, random, middle, 1.0), random)


def _with_spells(wait: Wait, random: Random, name: str, begin: float) -> Starts:
    """Return a queue with spells in which it starts nothing, and that may lose pilots."""
    loses = LOST if random.random() < LOSING else 0.0
    spells = Random(f"{name} spells")  # noqa: S311 - a simulation
    return Starts(wait, random, spells, loses, shuts=begin, opens=begin)


def bursts(site: str, seed: int, begin: float) -> Starts:
    """Long tails, spells of hours without a start, and some queues that lose pilots."""
    name = f"bursts {seed} {site}"
    random = Random(name)  # noqa: S311
    tail = Noise(f"{name} tail", DRIFT)

    def quantile(time: float) -> float:
        """Return the quantile of the Pareto distribution at the level's rank."""
        rank = 0.5 * math.erfc(tail.at(time) / math.sqrt(2))
        return _LEAST * math.pow(max(rank, 1e-9), -1 / TAIL)

    level = Level(quantile)

    def wait(now: float, ahead: int) -> float:
        return _bounded(level.at(now) * math.exp(_own(random)) * (1 + BEHIND * ahead))

    return _with_spells(wait, random, name, begin)


def independent(site: str, seed: int, begin: float) -> Starts:
    """Each pilot by itself: log-normal around ten minutes, every queue alike."""
    random = Random(f"usual {seed} {site}")  # noqa: S311
    return Starts(lambda now, ahead: random.lognormvariate(math.log(MEDIAN), SIGMA), random)


def independent_apart(site: str, seed: int, begin: float) -> Starts:
    """Each pilot by itself, around a median of the queue's own."""
    random = Random(f"apart {seed} {site}")  # noqa: S311
    middle = random.uniform(*map(math.log, APART))
    return Starts(lambda now, ahead: random.lognormvariate(middle, SIGMA), random)


def independent_bursts(site: str, seed: int, begin: float) -> Starts:
    """Each pilot by itself: long tails, spells without a start, some queues that lose pilots."""
    name = f"bursts {seed} {site}"
    random = Random(name)  # noqa: S311
    return _with_spells(
        lambda now, ahead: min(_LEAST * random.paretovariate(TAIL), LONGEST), random, name, begin
    )


def fixed(seconds: float) -> Delays:
    """Return the assumption that every pilot starts after the same time, for checks by hand."""
    return lambda site, seed, begin: Starts(lambda now, ahead: seconds, Random(seed))  # noqa: S311


def replayed(jobs: Iterable[TraceJob]) -> Delays:
    """Return the assumption that a pilot waits as the trace's last job at its site did.

    A site without a waiting time is as ``usual``.

    Raises:
        ValueError: no job of the trace has a waiting time.

    >>> jobs = [TraceJob(submit=0, run=1, wait=30), TraceJob(submit=50, run=1)]
    >>> replayed(jobs)("", 7, 0.0).draw(40)
    (30, False)
    """
    seen: dict[str, tuple[list[float], list[float]]] = {}
    for job in jobs:
        if job.wait is not None:
            times, waits = seen.setdefault(job.site, ([], []))
            times.append(job.submit)
            waits.append(job.wait)
    if not seen:
        raise ValueError("the trace has no waiting times (its third field is -1 on every line)")

    def starts(site: str, seed: int, begin: float) -> Starts:
        if site not in seen:
            return usual(site, seed, begin)
        times, waits = seen[site]

        def wait(now: float, ahead: int) -> float:
            return waits[max(bisect_right(times, now) - 1, 0)]

        return Starts(wait, Random(f"trace {seed} {site}"))  # noqa: S311

    return starts


ASSUMPTIONS: Final[Mapping[str, Delays]] = {
    "usual": usual,
    "apart": apart,
    "bursts": bursts,
    "independent": independent,
    "independent-apart": independent_apart,
    "independent-bursts": independent_bursts,
}
SHARED: Final = ("usual", "apart", "bursts")
"""The assumptions under which the pilots of a queue share its state."""
