"""Prints what policies of pilot submission cost, side by side in one run.

``python benchmarks/pilots.py [--trace FILE] [--full] [--jobs N]``. Without a trace the jobs are
made up. ``make bench-all`` takes a short cut: 3,000 jobs and one seed. ``--shapes`` takes made-up
loads of other shapes, the medians of two seeds each: what is good on one trace only is seen there.
``--full`` takes the whole trace or a made-up week, five seeds and all three assumptions on start
delays. That takes an hour for the 188,041 jobs of the LCG grid of November 2005, which the Parallel
Workloads Archive has. The figures are medians over seeds and assumptions. The last lines say
whether our policy waits no longer than DIRAC's rule, and wastes no more than glideinWMS's, and what
its simulations took.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time

import attrs

from matchmaker.pilots.delays import ASSUMPTIONS
from matchmaker.pilots.figures import TITLES, cells, rows, svg
from matchmaker.pilots.loads import Load
from matchmaker.pilots.metrics import SimulationReport
from matchmaker.pilots.rules import NAMES
from matchmaker.pilots.simulation import OURS, simulate
from matchmaker.pilots.swf import Trace
from matchmaker.pilots.workload import Job

SHORT = 3000
SEEDS = (1, 2, 3, 4, 5)
SHAPES = {
    "many users": Load(jobs=2000, hours=48, groups=4, sites=20),
    "one user's bursts": Load(jobs=2000, hours=48, groups=1, sites=12, bag=200),
    "single jobs": Load(jobs=1500, hours=72, sites=12, bag=1),
    "few long jobs": Load(jobs=300, hours=168, sites=10, run=20_000),
    "many kinds": Load(jobs=2000, hours=48, groups=40, sites=20),
    "one site": Load(jobs=1000, hours=48, sites=1),
}
"""Loads of other shapes, by what they are."""


@attrs.frozen(slots=True)
class First:
    """The first jobs of a trace."""

    jobs: Iterable[Job]
    count: int

    def __iter__(self) -> Iterator[Job]:
        return islice(self.jobs, self.count)


@attrs.frozen(slots=True)
class Task:
    """One simulation."""

    jobs: Iterable[Job]
    policy: str
    delays: str
    seed: int


@attrs.frozen(slots=True)
class Measured:
    """What came of it: seconds of processor time, and the process's most memory in bytes."""

    report: SimulationReport
    seconds: float
    memory: int


def measured(task: Task) -> Measured:
    """Runs one simulation."""
    begin = process_time()
    report = simulate(task.jobs, task.policy, task.seed, delays=task.delays)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Measured(report, process_time() - begin, most)


def workload(trace: Path | None, *, full: bool) -> Iterable[Job]:
    """The jobs to run."""
    if trace is not None:
        return Trace(trace) if full else First(Trace(trace), SHORT)
    return Load(jobs=30_000, hours=168, groups=8, sites=40) if full else Load(jobs=SHORT, sites=20)


def shapes(names: Iterable[str]) -> None:
    """Prints what each policy wastes and how long jobs wait, by load and assumption on delays."""
    print("load | delays | policy | wasted hours | mean, p95 wait (min)")
    for what, load in SHAPES.items():
        for delays in ASSUMPTIONS:
            for name in names:
                found = [simulate(load, name, seed, delays=delays) for seed in SEEDS[:2]]
                mean = median(report.waits.mean for report in found) / 60
                late = median(report.waits.late for report in found) / 60
                wasted = median(report.wasted_hours for report in found)
                print(f"{what} | {delays} | {name} | {wasted:,.0f} | {mean:.2f}, {late:.2f}",
                      flush=True)  # fmt: skip


def verdict(reports: list[SimulationReport]) -> list[str]:
    """Whether the headline holds, with the figures."""
    by_policy = {row.policy: row for row in rows(reports)}
    ours, dirac, glideinwms = (by_policy[name] for name in (OURS, "dirac", "glideinwms"))
    return [
        f"{'holds' if mine <= theirs else 'FAILS'}: {what} {mine:,.2f}, {whose} {theirs:,.2f}"
        for what, mine, theirs, whose in (
            ("mean wait (min)", ours.mean / 60, dirac.mean / 60, "dirac"),
            ("p95 wait (min)", ours.late / 60, dirac.late / 60, "dirac"),
            ("wasted hours", ours.wasted_hours, glideinwms.wasted_hours, "glideinwms"),
        )
    ]


def line(done: Measured) -> str:
    """What came of one simulation, for who waits."""
    report = done.report
    return (
        f"  {report.policy:<11} {report.delays:<7} seed {report.seed}:"
        f" wasted {report.wasted_hours:,.0f} h,"
        f" wait {report.waits.mean / 60:.2f} / {report.waits.late / 60:.2f} min,"
        f" in {done.seconds:.1f} s"
    )


def main() -> None:
    """Simulates, and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="in the Standard Workload Format"
    )
    parser.add_argument("--full", action="store_true", help="the whole, five seeds, all delays")
    parser.add_argument("--shapes", action="store_true", help="made-up loads of other shapes")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--policy", action="append", help="only these; may be repeated")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw waste against wait")
    options = parser.parse_args()
    if options.shapes:
        shapes(options.policy or (OURS, "dirac", "glideinwms"))
        return
    jobs = workload(options.trace, full=options.full)
    names = tuple(options.policy or (OURS, *NAMES))
    tasks = [
        Task(jobs, name, delays, seed)
        for name in names
        for delays in (ASSUMPTIONS if options.full else ("usual",))
        for seed in (SEEDS if options.full else SEEDS[:1])
    ]
    found = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for done in pool.map(measured, tasks):
            found.append(done)
            print(line(done), flush=True)
    reports = [each.report for each in found]
    table = [TITLES, *map(cells, rows(reports))]
    widths = [max(len(row[column]) for row in table) for column in range(len(TITLES))]
    for row in table:
        print(" | ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))
    if {OURS, "dirac", "glideinwms"} <= set(names):
        print(*verdict(reports), sep="\n")
    for name in names:
        mine = [each for each in found if each.report.policy == name]
        seconds, most = median(each.seconds for each in mine), max(each.memory for each in mine)
        print(f"{name}: {seconds:.1f} s of a processor a simulation, at most {most >> 20} MB")
    if options.svg:
        options.svg.write_text(svg(reports), encoding="utf-8")


if __name__ == "__main__":
    main()
