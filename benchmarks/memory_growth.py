"""How the memory of a process grows over a long time: resident bytes at ten points of each load.

``make bench-all``, or ``python benchmarks/memory_growth.py [--full] [LOAD …]``. No two jobs or ads
of a load are alike, so that nothing kept of one serves another: caches fill up to their bounds, and
from there on the curve is flat. ``--full`` takes 100,000 jobs on ten slots, a million choices among
17 queues, a million ads of new names, and a stream of five million ads.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO, cast

import attrs
from timing import resident

import matchmaker as mm
from matchmaker._cache import caches

POINTS = 10


@attrs.frozen(slots=True)
class Load:
    """What is done again and again: with a number that is new each time, and how often."""

    what: str
    begin: Callable[[], Callable[[int], object]]
    quick: int
    full: int


def job(number: int) -> mm.ClassAd:
    """A job with clauses, values and a rank that no other has."""
    return mm.parse_ad(
        f'[ Owner = "user{number}"; VirtualOrganisation = "atlas"; Want = {number};'
        f" Requirements = TARGET.Memory >= MY.Want % 5000 && TARGET.Memory != {number}"
        f" && TARGET.Cpus + {number} > {number}; Rank = TARGET.Memory % {number + 3} ]"
    )


def ten_slots() -> Callable[[int], object]:
    """Matches a job with ten slots."""
    text = "".join(f'[ Name = "s{n}"; Cpus = {n + 1}; Memory = {1000 * n} ]' for n in range(10))
    pool = mm.Pool(mm.parse_ads(text))
    return lambda number: pool.match(job(number))


def queues() -> Callable[[int], object]:
    """Chooses one of 17 queues for a job."""
    text = "".join(
        f'[ GlueCEUniqueID = "q{n}"; GlueCEStateStatus = "Production"; GlueCEStateFreeCPUs = {n};'
        f' Cpus = {n + 1}; Memory = {n * 500}; GlueCEAccessControlBaseRule = {{"VO:atlas"}} ]'
        for n in range(17)
    )
    pool = mm.broker.pool(mm.parse_ads(text))
    return lambda number: mm.broker.choose(job(number), pool)


def new_names() -> Callable[[int], object]:
    """Reads and makes ads with a name that is new."""

    def one(number: int) -> object:
        text = f'[ Name = "n{number}"; Attribute{number} = {number}; Other{number} = "x" ]'
        return mm.parse_ad(text), mm.ClassAd({f"Made{number}": number, "Name": "x"})

    return one


class Endless:
    """A file without an end, of ads in the old format, with new names, values and expressions."""

    def __init__(self) -> None:
        self.number = 0

    def read(self, _: int) -> str:
        """The next ads of it."""
        begin, self.number = self.number, self.number + 100
        return "".join(map(self.ad, range(begin, self.number)))

    def ad(self, number: int) -> str:
        """An ad of eight attributes, and the empty line behind it."""
        return (
            f'Name = "slot1@wn{number}"\nMemory = {number}\nLoad = {number / 7!r}\n'
            f'Seen{number} = {number}\nArch = "X86_64"\nCpus = 8\nTotal = Cpus * {number}\n'
            f"Start = TARGET.Memory >= {number} && TARGET.Wants{number} =!= true\n\n"
        )


def stream() -> Callable[[int], object]:
    """Reads the next ad of a stream, and drops it."""
    ads = mm.read_ads(cast("IO[str]", Endless()), "old")
    return lambda _: len(next(ads))


LOADS = {
    "stream": Load("ads of a stream", stream, 50_000, 5_000_000),
    "slots": Load("jobs on a pool of ten slots", ten_slots, 5_000, 100_000),
    "queues": Load("choices among 17 queues", queues, 3_000, 1_000_000),
    "names": Load("ads of new names", new_names, 100_000, 1_000_000),
}


def grow(load: Load, times: int) -> None:
    """Carries out a load, and prints a line of its table at each point."""
    work = load.begin()
    print(f"{times:,} {load.what}\n{'done':>10} {'MB':>7} {'in caches':>10} {'seconds':>8}")
    work(times)
    begin, sizes = time.monotonic(), []
    for point in range(POINTS + 1):
        gc.collect()
        sizes.append(resident() / 1e6)
        held = sum(cache.size for cache in caches()) / 1e6
        bar = "#" * round(sizes[-1] / 4)
        taken = time.monotonic() - begin
        print(f"{times * point // POINTS:>10,} {sizes[-1]:7.1f} {held:10.1f} {taken:8.0f}  {bar}")
        if point < POINTS:
            for number in range(times * point // POINTS, times * (point + 1) // POINTS):
                work(number)
    half = sizes[POINTS // 2]
    print(f"growth in the second half: {sizes[-1] - half:+.1f} MB ({sizes[-1] / half - 1:+.1%})\n")


def main() -> None:
    """Carries out the loads, each in a process of its own."""
    full = "--full" in sys.argv
    names = [name for name in sys.argv[1:] if name in LOADS]
    if len(names) == 1:
        load = LOADS[names[0]]
        grow(load, load.full if full else load.quick)
        return
    for name in names or LOADS:
        more = ["--full"] if full else []
        subprocess.run([sys.executable, __file__, name, *more], check=True)


if __name__ == "__main__":
    main()
