"""Prints the time that requests cost a batch system, here a real Slurm.

``PYTHONPATH=. python benchmarks/slurm_requests.py [--quick]``. ``sbatch``, ``scontrol update`` and
``scancel`` one after the other, as a factory asks, and ``squeue``; with no job in the queue and
with many. Each figure is a median in milliseconds of wall clock, and, in parentheses, the mean of
the controller's processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

from tests.services.breakable import BreakableSlurm, breakable


def timed(slurm: BreakableSlurm, act: Callable[[], object], number: int) -> tuple[float, float]:
    """Milliseconds that an act takes: the median by the wall, and the controller's mean."""
    took, before = [], controller(slurm)
    for _ in range(number):
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return 1000 * median(took), 1000 * (controller(slurm) - before) / number


def controller(slurm: BreakableSlurm) -> float:
    """The controller's processor time so far, in seconds."""
    assert slurm.process is not None
    fields = Path(f"/proc/{slurm.process.pid}/stat").read_text().rpartition(")")[2].split()
    # The fields after the name: the 12th and 13th are the times in user and system mode.
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    """Prints a line for each length of the queue."""
    quick = "--quick" in sys.argv
    number, lengths = (20, (0, 100)) if quick else (100, (0, 500, 2000))
    with breakable() as slurm:
        script = slurm.folder / "job.sh"
        script.write_text("#!/bin/sh\nexit 0\n")
        words = ("--parsable", "--output=/dev/null", "--begin=now+1hour", str(script))
        print("| jobs queued | sbatch | scontrol update | scancel | squeue |")
        print("|---|---|---|---|---|")
        there = 0
        for length in lengths:
            while there < length:
                slurm.command("sbatch", *words)
                there += 1
            ids: list[str] = []
            costs = [
                timed(slurm, partial(submitted, slurm, words, ids), number),
                timed(slurm, partial(released, slurm, iter(ids)), number),
            ]
            left = iter(ids)
            costs.append(timed(slurm, partial(cancelled, slurm, left), number))
            costs.append(timed(slurm, lambda: slurm.command("squeue", "-h", "-r"), number // 5))
            cells = [f"{wall:.0f} ms ({busy:.1f})" for wall, busy in costs]
            print(f"| {there:,} | {' | '.join(cells)} |", flush=True)


def submitted(slurm: BreakableSlurm, words: tuple[str, ...], ids: list[str]) -> None:
    """Submits a job that cannot start yet."""
    ids.append(slurm.command("sbatch", *words).strip())


def released(slurm: BreakableSlurm, ids: Iterator[str]) -> None:
    """Moves the begin of a job, as a commit does; to another hour, so that it stays queued."""
    slurm.command("scontrol", "update", f"JobId={next(ids)}", "StartTime=now+2hours")


def cancelled(slurm: BreakableSlurm, ids: Iterator[str]) -> None:
    """Cancels a job."""
    slurm.command("scancel", next(ids))


if __name__ == "__main__":
    main()
