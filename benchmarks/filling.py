"""Prints how fast a long stream of small slots becomes a pool, and how much memory that takes.

``python benchmarks/filling.py [--quick] [--slots N]``; ``make bench-all`` runs it too. The slots of
twenty attributes have the same names, so this shows what columns cost at their best; ``reading``
fills pools with ads that differ. They go through a pipe: ten million take minutes.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import subprocess
import sys
import time
from typing import Final

from pools import STARTS, job
from timing import resident

import matchmaker as mm

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


def main() -> None:
    """Measures and prints, or writes slots."""
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--slots", type=int, default=0)
    # What the process that this one begins does.
    options.add_argument("--write", type=int, default=0)
    given = options.parse_args()
    if given.write:
        slots(given.write)
    else:
        many(given.slots or (20_000 if given.quick else 500_000))


if __name__ == "__main__":
    main()
