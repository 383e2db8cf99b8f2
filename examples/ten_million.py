"""Ten million generated slots in shards on this machine: one job's best 100, and a cycle of jobs.

    python examples/ten_million.py

Fewer with ``--slots 1000000``. The files are made first, a saved pool for each shard, and removed
at the end. Needs the extra ``shards``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import matchmaker as mm


def slots(first: int, count: int) -> mm.Pool:
    """Some of the slots: their attributes are drawn, by the number of the first."""
    chance = np.random.default_rng(first)
    cpus = chance.choice([1, 2, 4, 8, 16, 32, 64], count)
    archs = pa.array(["X86_64", "aarch64"]).take(pa.array(chance.integers(0, 2, count)))
    starts = pa.array(["TARGET.RequestMemory <= Memory", 'TARGET.Owner != "guest"'])
    table = pa.table({
        "Name": pa.array([f"slot1@node{number}" for number in range(first, first + count)]),
        "Arch": archs.dictionary_encode(),
        "Cpus": cpus,
        "Memory": cpus * chance.choice([1024, 2048, 4096], count),
        "Disk": cpus * 20_000,
        "KFlops": chance.integers(500, 3000, count) * 1000,
        "PartitionableSlot": chance.random(count) < 0.8,
        "State": pa.array(["Unclaimed", "Claimed"]).take(
            pa.array((chance.random(count) < 0.3).astype(int))
        ).dictionary_encode(),
        "Requirements": starts.take(pa.array(chance.integers(0, 2, count))).dictionary_encode(),
    })  # fmt: skip
    return mm.Pool.from_arrow(table, key="Name", expressions=["Requirements"])


def jobs(kinds: int, of_each: int) -> Iterator[mm.ClassAd]:
    """Jobs of some kinds, which want different amounts and rank alike."""
    for number in range(kinds):
        job = mm.parse_ad(
            f'[ Owner = "user{number % 20}"; RequestCpus = {1 + number % 8};'
            f" RequestMemory = {512 + number}; Rank = TARGET.KFlops;"
            ' Requirements = TARGET.Arch == "X86_64" && TARGET.Memory >= MY.RequestMemory'
            f" && TARGET.KFlops >= {500_000 + 1000 * (number % 97)} ]"
        )
        yield from [job] * of_each


def main() -> None:
    """Makes the files, asks, and prints how long each step took."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--slots", type=int, default=10_000_000)
    asked.add_argument("--shards", type=int, default=10)
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--kinds", type=int, default=20)
    given = asked.parse_args()
    each = given.slots // given.shards
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        paths = [Path(folder) / f"{number}.arrow" for number in range(given.shards)]
        for number, path in enumerate(paths):
            slots(number * each, each).save(path)
        size = sum(path.stat().st_size for path in paths)
        print(
            f"files: {time.perf_counter() - began:.1f} s, {size // (each * given.shards)} B a slot"
        )
        began = time.perf_counter()
        with mm.Shards(paths, workers=given.workers) as shards:
            print(f"started and read: {time.perf_counter() - began:.1f} s, {shards}")
            job = next(jobs(1, 1))
            for which in ("first", "again"):
                began = time.perf_counter()
                best = shards.top(job, 100)
                print(f"best 100, {which}: {time.perf_counter() - began:.2f} s: {best}")
            began = time.perf_counter()
            found = shards.assign(jobs(given.kinds, 10))
            print(f"a cycle: {time.perf_counter() - began:.2f} s, {str(found).splitlines()[0]}")


if __name__ == "__main__":
    main()
