"""What a simulation measures: pilots, wasted time, waits by group, fairness, the pool over time.

A :class:`Tally` collects in memory that does not grow with the number of jobs, and makes a
:class:`SimulationReport`. Waits are kept to three digits, so quantiles are exact to half a percent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import attrs

POINTS = 2000
"""How many points the pool over time has at most."""
SHORTEST = 10.0
"""A job counts as at least this long in its slowdown, in seconds (bounded slowdown)."""


@attrs.frozen(slots=True, kw_only=True)
class Waits:
    """How long jobs waited for a pilot, in seconds; 0 where no job ran.

    Attributes:
        jobs: how many ran.
        mean: their mean wait.
        median: half of them waited no longer.
        late: 95 of 100 waited no longer.
        worst: the longest wait.
        slowdown: the mean of (wait + run) / run, with a run of at least ten seconds.
    """

    jobs: int
    mean: float
    median: float
    late: float
    worst: float
    slowdown: float


class Moment(NamedTuple):
    """The pool at one time, in seconds: jobs that wait, and pilots by state."""

    time: float
    waiting: int
    queued: int
    starting: int
    idle: int
    busy: int


@attrs.frozen(slots=True, kw_only=True)
class SimulationReport:
    """What came of a simulation.

    Attributes:
        policy: the name of the policy.
        delays: the name of the assumption on start delays.
        seed: the seed.
        jobs: how many jobs arrived.
        not_run: how many of them found no pilot before the end.
        pilots: how many pilots were submitted.
        unused: how many of them ran no job, whether cancelled, lost or left idle.
        cancelled: how many of the unused were cancelled in their queue.
        lost: how many of the unused were lost when they started.
        hours: how long pilots held slots.
        busy_hours: how long they ran jobs.
        wasted_hours: the difference.
        waits: of all jobs.
        by_group: of the jobs of each group.
        fairness: Jain's index of the groups' mean slowdowns: 1 if all are equal, 1/n at worst.
        first_job: seconds from the first arrival to the first start of a job; None for no start.
        lasted: seconds from the first arrival to the end of the last job, or of the simulation.
        cycles: how many decisions were made.
        pool: the pool over time, at most 2,000 points.
    """

    policy: str
    delays: str
    seed: int
    jobs: int
    not_run: int
    pilots: int
    unused: int
    cancelled: int
    lost: int
    hours: float
    busy_hours: float
    wasted_hours: float
    waits: Waits
    by_group: Mapping[str, Waits]
    fairness: float
    first_job: float | None
    lasted: float
    cycles: int
    pool: tuple[Moment, ...]


@attrs.define(slots=True)
class _Group:
    waits: Counter[float] = attrs.field(factory=Counter)
    total: float = 0.0
    slowdowns: float = 0.0
    worst: float = 0.0


@attrs.define(slots=True)
class Tally:
    """The counts of a simulation that goes on."""

    jobs: int = 0
    ran: int = 0
    pilots: int = 0
    unused: int = 0
    cancelled: int = 0
    lost: int = 0
    held: float = 0.0
    busy: float = 0.0
    cycles: int = 0
    lasted: float = 0.0
    begin: float | None = None
    first: float | None = None
    groups: dict[str, _Group] = attrs.field(factory=dict)
    pool: list[Moment] = attrs.field(factory=list)
    _every: int = 1

    def started(self, group: str, now: float, wait: float, run: float) -> None:
        """A job starts: now, after a wait, and it will run so long; all in seconds."""
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = _Group()
        found.waits[float(f"{wait:.3g}")] += 1
        found.total += wait
        found.slowdowns += 1 + wait / max(run, SHORTEST)
        found.worst = max(found.worst, wait)
        self.ran += 1
        self.busy += run
        if self.first is None:
            self.first = now

    def sample(self, moment: Moment) -> None:
        """The pool at a cycle; of a long simulation every second, fourth, … cycle is kept."""
        self.cycles += 1
        if self.cycles % self._every:
            return
        self.pool.append(moment)
        if len(self.pool) >= POINTS:
            self._every *= 2
            self.pool = self.pool[1::2]

    def report(self, policy: str, delays: str, seed: int) -> SimulationReport:
        """The figures of the whole."""
        by_group = {
            group: _waits(found.waits, [found]) for group, found in sorted(self.groups.items())
        }
        together: Counter[float] = Counter()
        for found in self.groups.values():
            together.update(found.waits)
        return SimulationReport(
            policy=policy,
            delays=delays,
            seed=seed,
            jobs=self.jobs,
            not_run=self.jobs - self.ran,
            pilots=self.pilots,
            unused=self.unused,
            cancelled=self.cancelled,
            lost=self.lost,
            hours=self.held / 3600,
            busy_hours=self.busy / 3600,
            wasted_hours=(self.held - self.busy) / 3600,
            waits=_waits(together, self.groups.values()),
            by_group=by_group,
            fairness=jain(waits.slowdown for waits in by_group.values()),
            first_job=None if self.first is None else self.first - (self.begin or 0.0),
            lasted=self.lasted,
            cycles=self.cycles,
            pool=tuple(self.pool),
        )


def jain(values: Iterable[float]) -> float:
    """Jain's index of fairness: 1 if all values are equal, 1/n if one of n has everything.

    >>> jain([3, 3]), jain([1, 0]), jain([])
    (1.0, 0.5, 1.0)
    """
    held = list(values)
    squares = sum(value * value for value in held)
    return sum(held) ** 2 / (len(held) * squares) if squares else 1.0


def _waits(counts: Counter[float], groups: Iterable[_Group]) -> Waits:
    jobs = counts.total()
    held = list(groups)
    ordered = sorted(counts.items())
    return Waits(
        jobs=jobs,
        mean=sum(group.total for group in held) / jobs if jobs else 0.0,
        median=_quantile(ordered, jobs, 0.5),
        late=_quantile(ordered, jobs, 0.95),
        worst=max((group.worst for group in held), default=0.0),
        slowdown=sum(group.slowdowns for group in held) / jobs if jobs else 0.0,
    )


def _quantile(ordered: list[tuple[float, int]], jobs: int, share: float) -> float:
    """The least wait that a share of the jobs did not exceed."""
    seen = 0
    for wait, count in ordered:
        seen += count
        if seen >= share * jobs:
            return wait
    return 0.0
