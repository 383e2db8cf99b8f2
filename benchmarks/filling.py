"""Prints how fast streams of ads become pools, beside HTCondor's library making a list of the ads.

``python benchmarks/filling.py [--quick] [--slots N]``; ``make bench`` runs it too. Streams are of
the shapes that real pools have (``parsing``), in files; what counts or names something is new in
each ad. The time is that of the processor. With ``--slots`` a stream of so many slots of twenty
attributes goes through a pipe into a pool, whose memory is measured: ten million take minutes.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import parsing
from pools import STARTS, job
from run import peer
from timing import figure

import matchmaker as mm

ROUNDS: Final = 5
STREAMS: Final = (
    ("daemons", parsing.daemon, "Name", 2_000),
    ("daemons", parsing.daemon, "Name", 10_000),
    ("jobs", parsing.job, "GlobalJobId", 2_000),
)
FORMATS: Final = {"new": parsing.new, "json": parsing.as_json}
SLOT: Final = """Name = "slot1@wn{number:08}.cnaf.grid"
Machine = "wn{number:08}.cnaf.grid"
SlotID = 1
State = "{state}"
Activity = "{activity}"
OpSys = "LINUX"
OpSysAndVer = "{system}"
Arch = "X86_64"
Cpus = {cpus}
Memory = {memory}
Disk = {disk}
LoadAvg = {load:.3f}
KFlops = {speed}
Mips = 21000
HasSingularity = true
IsDesktop = false
Tags = {{ "el9", "x86_64" }}
TotalLoad = LoadAvg * Cpus
START = {start}
Requirements = START

"""


def line(what: str, *figures: str) -> None:
    """Prints a line of the table."""
    print(" | ".join([f"{what:<56}", *(f"{each:>14}" for each in figures)]), flush=True)


def slots(count: int) -> None:
    """Writes slots to standard output."""
    chance = random.Random(7)
    for number in range(count):
        sys.stdout.write(
            SLOT.format(
                number=number,
                state=chance.choice(("Unclaimed", "Claimed", "Owner")),
                activity=chance.choice(("Idle", "Busy")),
                system=chance.choice(("AlmaLinux9", "AlmaLinux8", "Debian12")),
                cpus=chance.choice((4, 8, 16, 32, 64)),
                memory=chance.choice((16_000, 32_000, 64_000, 128_000)),
                disk=int(chance.random() * 1e9),
                load=chance.random() * 1.2,
                speed=10**6 + int(chance.random() * 1e6),
                start=chance.choice(STARTS),
            )
        )


def resident() -> int:
    """The bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def many(count: int) -> None:
    """Prints the time, the memory, and how long a job takes with so many slots."""
    import pyarrow.compute

    assert pyarrow.compute
    before = resident()
    with subprocess.Popen(
        [sys.executable, __file__, "--write", str(count)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        begin = time.process_time()
        pool = mm.Pool.read(writer.stdout)
        taken = time.process_time() - begin
    gc.collect()
    held, most = resident() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert len(pool) == count
    line(f"{count:,} slots of 20 attributes into a pool, an ad", f"{taken / count * 1e6:.2f}")
    line("  memory, bytes an ad; at most, while it was filled",
              f"{held / count:.0f}; {(most - before) / count:.0f}")  # fmt: skip
    for number in range(3):
        wanted = mm.parse_ad(job(number))
        begin = time.perf_counter()
        found = pool.top(wanted, 100)
        line(f"  a job, the best 100 ({len(found)} found), seconds",
                  f"{time.perf_counter() - begin:.2f}")  # fmt: skip


def taken(work: Callable[[], Any]) -> float:
    """The processor time of something, whose result is given up afterwards."""
    gc.collect()
    begin = time.process_time()
    held = work()
    found = time.process_time() - begin
    del held
    return found


def compared(
    what: str, path: str, key: str, count: int, *, rounds: int, beside: str | None = None
) -> None:
    """Prints a line: all sides in turn, after one round that is not counted.

    `beside` is the file in the old format that HTCondor's library reads instead.
    """
    classad2 = peer()

    def ours() -> mm.Pool:
        return mm.Pool.read(path, key)

    def one_by_one() -> mm.Pool:
        return mm.Pool(mm.read_ads(path), key)

    def theirs() -> list[Any]:
        with Path(beside or path).open(encoding="utf-8") as file:
            return list(classad2.parseAds(file))

    first, second = ours(), one_by_one()
    assert first.keys() == second.keys()
    assert len(first) == count
    assert all(one == two for one, two in zip(first, second, strict=True)), what
    del first, second
    sides = [ours, one_by_one, *([] if isinstance(classad2, str) else [theirs])]
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, found in zip(sides, times, strict=True):
            found.append(taken(side) / count * 1e6)
    ratios = [figure(median(b / a for a, b in zip(times[0], t, strict=True))) for t in times[1:]]
    line(f"{count:,} {what} into a pool, an ad", *(figure(median(t)) for t in times), *ratios)


def main() -> None:
    """Measures and prints the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--slots", type=int, default=0)
    options.add_argument("--write", type=int, default=0)
    given = options.parse_args()
    if given.write:
        slots(given.write)
        return
    if given.slots:
        many(given.slots)
        return
    line("what", "Pool.read (µs)", "Pool(read_ads)", "list(parseAds)", "ratio", "ratio")
    with TemporaryDirectory() as folder:
        for what, shape, key, count in STREAMS[:1] if given.quick else STREAMS:
            path = Path(folder) / f"{what}.{count}"
            text = parsing.old(shape)
            with path.open("w", encoding="utf-8") as file:
                file.writelines(f"{text(number)}\n" for number in range(count))
            rounds = 2 if given.quick else ROUNDS
            compared(what, str(path), key, count, rounds=rounds)
            for name, form in FORMATS.items() if count == 2_000 else ():
                other = path.with_suffix(f".{name}")
                other.write_text("\n".join(map(form(shape), range(count))), encoding="utf-8")
                compared(f"{what} ({name})", str(other), key, count, rounds=rounds,
                         beside=str(path))  # fmt: skip
    many(20_000 if given.quick else 500_000)


if __name__ == "__main__":
    main()
