"""Prints how fast streams of ads become pools, beside HTCondor's library making a list of the ads.

``python benchmarks/filling.py [--quick] [--slots N]``; ``make bench`` runs it too. Streams are of
the shapes that real pools have (``parsing``), in files; what counts or names something is new in
each ad, and no process reads two files. The time is that of the processor. With ``--slots`` a
stream of so many slots of twenty attributes goes through a pipe into a pool, whose memory is
measured: ten million take minutes.
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

ROUNDS: Final = 3
FORMATS: Final = {"old": parsing.old, "new": parsing.new, "json": parsing.as_json}
STREAMS: Final = (
    ("daemons", parsing.daemon, "Name", 2_000, FORMATS),
    ("daemons", parsing.daemon, "Name", 10_000, {"old": parsing.old}),
    ("jobs", parsing.job, "GlobalJobId", 2_000, FORMATS),
    ("jobs", parsing.job, "GlobalJobId", 10_000, FORMATS),
)
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


def written(folder: Path, rounds: int, *, quick: bool) -> None:
    """Writes the streams, a file for each round: no value that counts or names comes twice."""
    first = 10**6
    for what, shape, _, count, forms in STREAMS[:1] if quick else STREAMS:
        for number in range(rounds):
            for name, form in forms.items():
                path = folder / f"{what}.{count}.{number}.{name}"
                with path.open("w", encoding="utf-8") as file:
                    ads = map(form(shape), range(first, first + count))
                    file.writelines(f"{ad}\n" for ad in ads)
            first += count


def ours(path: str, key: str) -> Any:
    """A pool, by columns."""
    return mm.Pool.read(path, key)


def one_by_one(path: str, key: str) -> Any:
    """The pool of the ads."""
    return mm.Pool(mm.read_ads(path), key)


def theirs(path: str, _: str) -> Any:
    """A list of the ads that HTCondor's library reads, always in the old format."""
    with Path(path).with_suffix(".old").open(encoding="utf-8") as file:
        return list(peer().parseAds(file))


SIDES: Final[dict[str, Callable[[str, str], Any]]] = {
    each.__name__: each for each in (ours, one_by_one, theirs)
}


def measured(side: str, path: str, key: str) -> None:
    """Prints the processor time of a side, in a process that has read nothing before.

    What is imported at the first use of anything is not counted.
    """
    import pyarrow.compute

    from matchmaker.matching.filling import blocks, streams

    assert pyarrow.compute
    assert mm.Pool
    assert blocks
    assert streams
    if side == "theirs":
        peer()
    begin = time.process_time()
    held = SIDES[side](path, key)
    print(time.process_time() - begin)
    assert len(held)


def checked(path: str, key: str) -> None:
    """Fails unless the pool by columns is the pool of the ads."""
    first, second = ours(path, key), one_by_one(path, key)
    assert first.keys() == second.keys()
    assert all(one == two for one, two in zip(first, second, strict=True)), path


def run(*argv: str) -> str:
    """What this program prints in a process of its own, with arguments."""
    command = [sys.executable, __file__, *argv]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def compared(what: str, paths: list[str], key: str, count: int) -> None:
    """Prints a line: all sides in turn, each round with a file and processes of its own."""
    run("--check", paths[0], key)
    sides = [side for side in SIDES if side != "theirs" or not isinstance(peer(), str)]
    times: dict[str, list[float]] = {side: [] for side in sides}
    for path in paths:
        for side, found in times.items():
            found.append(float(run("--side", side, path, key)) / count * 1e6)
    mine = times.pop("ours")
    ratios = [
        figure(median(b / a for a, b in zip(mine, each, strict=True))) for each in times.values()
    ]
    all_times = (figure(median(each)) for each in (mine, *times.values()))
    line(f"{count:,} {what} into a pool, an ad", *all_times, *ratios)


def main() -> None:
    """Measures and prints the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--slots", type=int, default=0)
    # What the processes that this one begins do.
    options.add_argument("--write", type=int, default=0)
    options.add_argument("--make", nargs=2)
    options.add_argument("--check", nargs=2)
    options.add_argument("--side", nargs=3)
    given = options.parse_args()
    if given.write:
        slots(given.write)
    elif given.make:
        written(Path(given.make[0]), int(given.make[1]), quick=given.quick)
    elif given.check:
        checked(*given.check)
    elif given.side:
        measured(*given.side)
    elif given.slots:
        many(given.slots)
    else:
        table(quick=given.quick)


def table(*, quick: bool) -> None:
    """Measures and prints the table."""
    line("what", "Pool.read (µs)", "Pool(read_ads)", "list(parseAds)", "ratio", "ratio")
    rounds = 2 if quick else ROUNDS
    with TemporaryDirectory() as folder:
        run("--make", folder, str(rounds), *(["--quick"] if quick else []))
        for what, _, key, count, forms in STREAMS[:1] if quick else STREAMS:
            for name in forms:
                paths = [f"{folder}/{what}.{count}.{number}.{name}" for number in range(rounds)]
                compared(f"{what} ({name})", paths, key, count)
    many(20_000 if quick else 500_000)


if __name__ == "__main__":
    main()
