"""Prints how long matching jobs with many slots takes, beside HTCondor's library in a loop.

``python benchmarks/pools.py [--quick] [--plot FILE]``; ``make bench-all`` runs it too. Both sides
hold the same slots and are first checked to give the same matches and ranks. What the loop would
take is reckoned from a part of it where the whole would take minutes; such figures are marked
``~``.
"""

from __future__ import annotations

import argparse
import gc
import random
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import attrs
from run import peer
from timing import figure

import matchmaker as mm

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
LOOPED: Final = 100_000
"""The most slots that the loop is really run over."""

STARTS: Final = (
    'TARGET.RequestCpus <= Cpus && TARGET.RequestMemory <= Memory && TARGET.Owner =!= "nobody"',
    'TARGET.RequestMemory <= Memory && State == "Unclaimed" && LoadAvg < 0.9',
    'TARGET.RequestCpus <= Cpus && member(TARGET.Owner, { "ada", "ben" })',
)
JOB: Final = """[
  Owner = "ada"; RequestCpus = {cpus}; RequestMemory = {memory}; RequestDisk = {disk}; Prio = 0.5;
  Requirements = TARGET.Arch == "X86_64" && TARGET.OpSys == "LINUX"
                 && TARGET.Memory >= MY.RequestMemory && TARGET.Cpus >= RequestCpus
                 && TARGET.Disk >= RequestDisk && member("el9", TARGET.Tags);
  Rank = TARGET.KFlops / 1000.0 + TARGET.Memory * 0.001 - (TARGET.LoadAvg > 1 ? 500 : 0)
]"""


def job(number: int = 0) -> str:
    """The text of a job; those of different numbers ask for different resources."""
    chance = random.Random(number)
    return JOB.format(
        cpus=chance.choice((1, 2, 4, 8)),
        memory=chance.randrange(500, 64_000),
        disk=chance.randrange(10**5, 10**8),
    )


def slots(count: int) -> Iterator[dict[str, Any]]:
    """The attributes of slots: what repeats, what hardly does, and three START expressions."""
    chance = random.Random(7)
    starts = [mm.parse_expr(text) for text in STARTS]
    tags = [mm.parse_expr(text) for text in ('{ "el9", "x86_64" }', '{ "el8", "si900", "gpu" }')]
    total, start = mm.parse_expr("LoadAvg * Cpus"), mm.parse_expr("START")
    for number in range(count):
        yield {
            "Name": f"slot1@wn{number:07}.cnaf.grid",
            "Machine": f"wn{number:07}.cnaf.grid",
            "SlotID": 1,
            "State": chance.choice(("Unclaimed", "Unclaimed", "Claimed", "Owner")),
            "Activity": chance.choice(("Idle", "Busy")),
            "OpSys": "LINUX",
            "OpSysAndVer": chance.choice(("AlmaLinux9", "AlmaLinux8", "Debian12")),
            "Arch": chance.choice(("X86_64", "X86_64", "X86_64", "AARCH64")),
            "Cpus": chance.choice((4, 8, 16, 32, 64)),
            "Memory": chance.choice((16_000, 32_000, 64_000, 128_000, 256_000)),
            "Disk": chance.randrange(10**6, 10**9),
            "LoadAvg": round(chance.random() * 1.2, 3),
            "KFlops": chance.randrange(10**6, 2 * 10**6),
            "Mips": chance.choice((21_000, 25_123)),
            "HasSingularity": chance.random() < 0.9,
            "IsDesktop": False,
            "Tags": chance.choice(tags),
            "TotalLoad": total,
            "START": chance.choice(starts),
            "Requirements": start,
        }


def pool_of(count: int) -> mm.Pool:
    """The slots as a pool."""
    return mm.Pool(map(mm.ClassAd, slots(count)))


def seconds(work: Callable[[], object], rounds: int) -> float:
    """The median time of something, garbage not collected meanwhile."""
    taken = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        begin = perf_counter()
        work()
        taken.append(perf_counter() - begin)
        gc.enable()
    return median(taken)


@attrs.frozen(slots=True)
class Row:
    """A line of the table: seconds for us, and for the loop where there is one."""

    what: str
    ours: float
    loop: float | None = None
    reckoned: bool = False
    note: str = ""

    def __str__(self) -> str:
        loop = "-" if self.loop is None else f"{'~' if self.reckoned else ''}{self.loop * 1000:.4g}"
        ratio = "-" if self.loop is None else figure(self.loop / self.ours)
        return (
            f"{self.what:<58} | {self.ours * 1000:>10.4g} | {loop:>12} | {ratio:>7} | {self.note}"
        )


class Loop:
    """The peer's way: its ads in a list, matched and ranked one after the other."""

    def __init__(self, classad2: Any, count: int) -> None:
        self._classad2 = classad2
        self.ads = [classad2.ClassAd(mm.dumps(mm.ClassAd(slot))) for slot in slots(count)]

    def match(self, text: str) -> tuple[list[str], list[float]]:
        """The names and ranks of what matches."""
        ad = self._classad2.ClassAd(text)
        rank = ad.lookup("Rank")
        found = [slot for slot in self.ads if ad.symmetricMatch(slot)]
        return (
            [slot["Name"] for slot in found],
            [float(rank.eval(ad, slot)) for slot in found],
        )


def one_job(pool: mm.Pool, text: str) -> mm.Matches:
    """A job that the pool has never seen, on columns that have no masks."""
    pool.forget()
    return pool.match(mm.parse_ad(text))


def sizes(classad2: Any, largest: int, rounds: int) -> Iterator[Row]:
    """One job with more and more slots."""
    loop_time, looped = 0.0, 0
    for size in SIZES:
        if size > largest:
            return
        pool = pool_of(size)
        if classad2 and size <= LOOPED:
            loop = Loop(classad2, size)
            looped = size
            keys, ranks = loop.match(job())
            mine = pool.match(mm.parse_ad(job()))
            assert list(mine.keys) == keys
            assert list(mine.ranks) == ranks
            loop_time = seconds(lambda loop=loop: loop.match(job()), max(1, rounds // 5))
        ours = seconds(lambda pool=pool: one_job(pool, job()), rounds)
        theirs = loop_time * size / looped if looped else None
        yield Row(
            f"one job, both ways, with ranks, {size:,} slots",
            ours,
            theirs,
            reckoned=size > looped,
            note=f"{ours / size * 1e9:.0f} ns a pair",
        )
        if size == 100_000:
            yield from several(pool, theirs, rounds)


def several(pool: mm.Pool, loop: float | None, rounds: int) -> Iterator[Row]:
    """What is kept between jobs, and how fast ads change, with 100,000 slots."""
    first = mm.parse_ad(job())
    other = first.copy()
    other["RequestMemory"] = 20_001

    def second() -> float:
        pool.forget()
        pool.match(first)
        begin = perf_counter()
        pool.match(other)
        return perf_counter() - begin

    alone = seconds(lambda: one_job(pool, job()), rounds)
    taken = median(second() for _ in range(rounds))
    yield Row(
        "  a second job, all but one clause shared", taken,
        note=f"{alone / taken:.1f} x faster than the first",
    )  # fmt: skip
    jobs = [mm.parse_ad(job(number)) for number in range(1_000)]
    pool.forget()
    ours = seconds(lambda: sum(len(found) for found in pool.match_many(jobs)), 1)
    yield Row(
        "  1,000 distinct jobs", ours, loop * len(jobs) if loop is not None else None, True,
        note=f"{ours / len(jobs) / len(pool) * 1e9:.0f} ns a pair",
    )  # fmt: skip
    ads = [mm.ClassAd({**slot, "LoadAvg": 0.5}) for slot in slots(20_000)]

    def update() -> None:
        for ad in ads:
            pool.update(ad)

    ours = seconds(update, 1)
    yield Row("  20,000 updates", ours, note=f"{len(ads) / ours:,.0f} updates a second")


def cycle(loop: float | None, jobs: int, clusters: int, count: int, divisible: bool) -> Row:
    """A negotiation cycle. The loop's figure is for matching one job of each cluster, no more."""
    pool = mm.Pool(mm.ClassAd({**slot, "PartitionableSlot": divisible}) for slot in slots(count))
    ads = [mm.parse_ad(job(number % clusters)) for number in range(jobs)]
    for number, ad in enumerate(ads):
        ad["AccountingGroup"] = f"group{number % 20}"
    placed = 0

    def work() -> None:
        nonlocal placed
        pool.forget()
        placed = sum(1 for _ in pool.assign(ads).placed)

    what = f"{count:,} partitionable slots" if divisible else f"{count:,} slots"
    return Row(
        f"a cycle: {jobs:,} jobs, {clusters:,} kinds, {what}",
        seconds(work, 1),
        loop * count * clusters if loop is not None else None, True,
        note=f"{placed:,} placed",
    )  # fmt: skip


def bytes_per_ad(count: int, theirs: bool) -> float:
    """How much a process grows by holding the slots, in bytes for each."""
    with get_context("spawn").Pool(1) as process:
        return process.apply(_grown, (count, theirs))


def _grown(count: int, theirs: bool) -> float:
    classad2 = peer() if theirs else None
    pool_of(64)
    held: Any = Loop(classad2, 64) if theirs else None
    before = _resident()
    held = Loop(classad2, count) if theirs else pool_of(count)
    gc.collect()
    grown = (_resident() - before) / count
    del held
    return grown


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def plot(points: list[tuple[int, Row]], path: str) -> None:
    """Draws time against slots, both axes logarithmic, as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same picture for the same figures.
    mpl.rcParams["svg.hashsalt"] = "matchmaker"
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(figsize=(7, 4.2))
    counts = [size for size, _ in points]
    axes.loglog(counts, [row.ours * 1000 for _, row in points], "o-", label="matchmaker.Pool")
    for reckoned, style, label in (
        (False, "s-", "classad2 in a loop"),
        (True, "s:", "the same, reckoned"),
    ):
        theirs = [
            (size, row.loop * 1000) for size, row in points if row.loop and row.reckoned == reckoned
        ]
        if theirs:
            axes.loglog(*zip(*theirs, strict=True), style, color="tab:orange", label=label)
    axes.set_xlabel("slots")
    axes.set_ylabel("milliseconds for one job, both ways, with ranks")
    axes.grid(visible=True, which="major", alpha=0.4)
    axes.legend()
    drawing.tight_layout()
    drawing.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="few slots and rounds")
    parser.add_argument("--plot", metavar="FILE", help="an SVG of time against slots")
    options = parser.parse_args()
    classad2 = peer()
    if isinstance(classad2, str):
        print(f"HTCondor's library is not here, ours alone ({classad2})")
        classad2 = None
    head = ("many slots", "ours (ms)", "loop (ms)", "ratio", "")
    print(f"{head[0]:<58} | {head[1]:>10} | {head[2]:>12} | {head[3]:>7} |")
    points: list[tuple[int, Row]] = []
    largest, rounds = (SIZES[1], 3) if options.quick else (SIZES[-1], 9)
    for row in sizes(classad2, largest, rounds):
        print(row, flush=True)
        if row.what.startswith("one job"):
            points.append((SIZES[len(points)], row))
    size, last = points[-1]
    pair = last.loop / size if last.loop is not None else None
    for divisible in (False, True):
        size = (200, 10, 10_000) if options.quick else (20_000, 1_000, 200_000)
        print(cycle(pair, *size, divisible))
    count = 10_000 if options.quick else 200_000
    grown = f"{bytes_per_ad(count, False):.0f} B"
    if classad2:
        theirs = bytes_per_ad(min(count, 20_000), True)
        grown += f"; classad2 {theirs:.0f} B"
    print(f"memory of an ad of 20 attributes among {count:,}: {grown}")
    if options.plot:
        plot(points, options.plot)


if __name__ == "__main__":
    main()
