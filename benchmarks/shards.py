"""Shards on Dask: two workers against one, and what a cycle takes beside the shards' own time.

    python benchmarks/shards.py [SLOTS]

A cycle of jobs of 1,000 kinds, one job each, on slots in four shards; with one worker and with two.
``asked`` is the time until all shards have offered slots, ``own`` what the busiest worker computes
of it, ``cycle`` the whole assignment, ``best`` one job's best 100, and ``nothing`` a question that
takes no time.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import matchmaker as mm
from matchmaker.shards import questions
from matchmaker.shards.shard import Shard, ads_to_bytes, policy_to_bytes

KINDS = 1000
SHARDS = 4


def timed(shard: Shard, *args: Any) -> tuple[str, float]:
    """Which worker offers slots, and how long it computes."""
    from distributed import get_worker

    began = time.perf_counter()
    questions.offers(shard, *args)
    return get_worker().address, time.perf_counter() - began


def taken(work: Callable[[], Any]) -> float:
    """Seconds that a piece of work takes, the better of two."""
    found = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def row(paths: list[Path], workers: int, jobs: list[mm.ClassAd]) -> tuple[float, ...]:
    """What some workers take: asked, own, cycle, best, nothing."""
    own: list[float] = []
    with mm.Shards(paths, workers=workers) as shards:
        now = shards.snapshot()
        terms = policy_to_bytes(mm.Policy())
        wanted = [(place, 1) for place in range(len(jobs))]
        data = now.workers.scatter(ads_to_bytes(jobs))

        def ask() -> None:
            busy: Counter[str] = Counter()
            args = [(data, wanted, terms, np.zeros(0, int))] * SHARDS
            for worker, seconds in now.workers.ask(now.shards, timed, args):
                busy[worker] += seconds
            own.append(max(busy.values()))

        asked = taken(ask)
        cycle = taken(lambda: shards.assign(jobs))
        best = taken(lambda: shards.top(jobs[0], 100))
        nothing = taken(lambda: now.workers.ask(now.shards, questions.stamp, [()] * SHARDS))
        return asked, min(own), cycle, best, nothing


def main() -> None:
    """Prints a row for each number of workers."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    made = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "ten_million.py"))
    jobs = list(made["jobs"](KINDS, 1))
    each = count // SHARDS
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.arrow" for number in range(SHARDS)]
        for number, path in enumerate(paths):
            made["slots"](number * each, each).save(path)
        print(f"{each * SHARDS:,} slots, {KINDS:,} kinds, {SHARDS} shards; seconds")
        print("workers    asked      own    cycle     best  nothing")
        rows = []
        for workers in (1, 2):
            rows.append(row(paths, workers, jobs))
            print(f"{workers:7}" + "".join(f"{seconds:9.3f}" for seconds in rows[-1]), flush=True)
    one, two = rows
    print(f"two workers against one: {one[0] / two[0]:.2f} x asked, {one[2] / two[2]:.2f} x cycle")
    print(
        f"a cycle beside the shards' own time: {one[2] / one[1] - 1:.0%}, {two[2] / two[1] - 1:.0%}"
    )


if __name__ == "__main__":
    main()
