"""Made-up workloads for simulations: bags of jobs, busier by day than by night.

The same load gives the same jobs each time that it is iterated over, one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

import attrs
from attrs.validators import ge, le

from matchmaker.pilots.simulation.workload import CLASSES, HOUR, Job

MOST_JOBS = 10_000_000
MOST = 10_000
"""Of hours, groups, sites, and jobs of a bag."""
SPREAD = 1.3
"""Of the logarithm of run times."""


@attrs.frozen(slots=True, kw_only=True)
class Load:
    """A made-up workload.

    Attributes:
        jobs: how many jobs arrive.
        hours: over how many hours, on average.
        groups: how many groups submit; the first submits most.
        sites: how many sites there are; each group uses about half of them.
        bag: how many jobs arrive at once, on average.
        run: the median of run times, in seconds.
        seed: of all that is drawn.

    Raises:
        ValueError: a number is out of its bounds.

    >>> load = Load(jobs=100, seed=3)
    >>> len(list(load)), list(load) == list(load)
    (100, True)
    """

    jobs: int = attrs.field(default=1000, validator=[ge(1), le(MOST_JOBS)])
    hours: int = attrs.field(default=24, validator=[ge(1), le(MOST)])
    groups: int = attrs.field(default=3, validator=[ge(1), le(MOST)])
    sites: int = attrs.field(default=8, validator=[ge(1), le(MOST)])
    bag: int = attrs.field(default=5, validator=[ge(1), le(MOST)])
    run: int = attrs.field(default=1800, validator=[ge(1), le(1_000_000)])
    seed: int = 0

    def __iter__(self) -> Iterator[Job]:
        """The jobs, in the order of their arrival."""
        random = Random(f"load {self.seed}")  # noqa: S311 - a simulation
        homes = [
            random.sample(range(1, self.sites + 1), max(1, self.sites // 2))
            for _ in range(self.groups)
        ]
        weights = [1 / place for place in range(1, self.groups + 1)]
        gap = self.hours * HOUR * self.bag / self.jobs
        now, left = 0.0, self.jobs
        while left:
            # From half to one and a half times as many as on average, by the time of day.
            busy = 1 - 0.5 * math.cos(2 * math.pi * now / (24 * HOUR))
            now += random.expovariate(busy / gap)
            group = random.choices(range(self.groups), weights)[0]
            wall = random.choice(CLASSES[1:7])
            size = min(left, 1 + int(random.expovariate(1 / (self.bag - 0.5))))
            for _ in range(size):
                run = min(random.lognormvariate(math.log(self.run), SPREAD), wall)
                yield Job(
                    submit=round(now),
                    run=round(run),
                    wall=wall,
                    group=f"group{group + 1}",
                    site=f"site{random.choice(homes[group])}",
                )
            left -= size
