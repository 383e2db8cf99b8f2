"""Prints how long one decision about pilots takes: 1,000 queues, 10,000 kinds, 100,000 pilots.

``make bench-all``, or ``python benchmarks/decide.py``. Cold: nothing is remembered from a cycle
before. Warm: the next cycle, with the same ads.
"""

from __future__ import annotations

import random
import time

from matchmaker import ClassAd, parse_expr
from matchmaker.pilots import Demand, Estimate, Pilot, PilotQueue, PilotSnapshot, PilotState, rule

QUEUES, KINDS, PILOTS = 1000, 10_000, 100_000


def snapshot() -> PilotSnapshot:
    """A grid of 40 groups, whose kinds differ in group, memory, processors and time."""
    chance = random.Random(1)
    groups = [f"vo{number}" for number in range(40)]
    accepts = parse_expr("member(TARGET.Group, MY.Groups)")
    wants = parse_expr("TARGET.Memory >= MY.RequestMemory && TARGET.Cpus >= MY.RequestCpus")
    queues = tuple(
        PilotQueue(
            key=f"q{number}",
            pilot=ClassAd(
                Memory=chance.choice([2000, 4000, 8000]),
                Cpus=chance.choice([1, 4, 8]),
                Groups=chance.sample(groups, 8),
                Requirements=accepts,
            ),
            wall=chance.choice([86_400.0, 259_200.0]),
            estimate=Estimate(median=chance.uniform(60, 6000), started=50),
        )
        for number in range(QUEUES)
    )
    demand = tuple(
        Demand(
            key=f"k{number}",
            ad=ClassAd(
                Group=groups[number % 40],
                RequestMemory=250 * (1 + number // 40 % 32),
                RequestCpus=(1, 4, 8)[number // 1280 % 3],
                Requirements=wants,
            ),
            waiting=chance.randrange(10),
            arrived=chance.randrange(3),
            wall=chance.choice([3600.0, 14_400.0, 86_400.0]),
        )
        for number in range(KINDS)
    )
    states = list(PilotState)
    pilots = tuple(
        Pilot(
            key=f"p{number}",
            queue=f"q{chance.randrange(QUEUES)}",
            state=chance.choice(states),
            since=chance.uniform(0, 1e5),
            ends=chance.uniform(1e5, 3e5),
            kind=f"k{chance.randrange(KINDS)}",
        )
        for number in range(PILOTS)
    )
    return PilotSnapshot(
        now=1e5, demand=demand, queues=queues, pilots=pilots, memory={"now": 1e5 - 120}
    )


def main() -> None:
    """Times a cold and a warm decision."""
    seen = snapshot()
    decide = rule()
    for name in ("cold", "warm"):
        before = time.process_time()
        found = decide(seen, 1)
        took = time.process_time() - before
        count = sum(one.count for one in found.submissions)
        print(f"{name}: {took:.2f} s of a processor, {count} submitted,"
              f" {len(found.ends)} ended, {len(found.waits)} kinds wait")  # fmt: skip


if __name__ == "__main__":
    main()
