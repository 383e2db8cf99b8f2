"""Prints what policies of pilot submission cost, side by side in one run.

``python benchmarks/pilots.py [--trace FILE] [--full] [--ablate]`` takes 16 minutes of a processor,
and 6 more with LCG's trace (``--seeds 1``: a fifth of it); hours with ``--full``.

The loads are made up (``LOADS``), made by generators that are fitted to published statistics of two
archives (``FITTED``), or the jobs of traces. A trace is split by time in two halves: numbers of a
policy may be chosen on the first (``--half first``); the second is the report. Of each, 3,000 jobs
are run, or all with ``--full``. Each load runs in all worlds in which the pilots of a queue share
its state, with each policy and seed; a row has medians of the seeds. At the end: the medians of all
rows in parts of DIRAC's SiteDirector, the aims and the rows that miss them, and the rows in which a
peer is better in submissions, wait and waste at once. ``--ablate`` runs our policy without each of
its numbers instead.

``--worlds`` prints how waits hang together in each world, and in the traces that have waits: how
far their logarithms spread within pairs of jobs of one owner and queue that were submitted within a
minute, and between pairs, and their correlation by lag; and the Kolmogorov-Smirnov distances of a
trace's waits to those of its jobs run as pilots in the replayed world, and to the worlds.
"""

from __future__ import annotations

import argparse
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from random import Random
from statistics import correlation, median, pstdev
from time import process_time

import attrs

from matchmaker.pilots import (
    Decision,
    PilotSnapshot,
    PilotSubmission,
    PolicyAd,
    SimulationReport,
)
from matchmaker.pilots.simulation.delays import ASSUMPTIONS, SHARED, Delays, replayed
from matchmaker.pilots.simulation.grid import SimulationSettings
from matchmaker.pilots.simulation.report import PolicyRow, RunTally, rows, svg
from matchmaker.pilots.simulation.rules import NAMES, PilotRule
from matchmaker.pilots.simulation.simulation import OURS, named, ours, run
from matchmaker.pilots.simulation.workload import HOUR, Load, TraceFile, TraceJob, survey

SHORT = 3000
LOADS = {
    "mixed": Load(jobs=1000, hours=24, sites=8),
    "few jobs": Load(jobs=300, hours=8, sites=5),
    "many users": Load(jobs=1500, hours=48, groups=4, sites=20),
    "one user's bursts": Load(jobs=1500, hours=48, groups=1, sites=12, bag=200),
    "single jobs": Load(jobs=1000, hours=72, sites=12, bag=1),
    "few long jobs": Load(jobs=300, hours=168, sites=10, run=20_000),
    "many kinds": Load(jobs=1500, hours=48, groups=40, sites=20),
    "dense": Load(jobs=4000, hours=24, groups=3, sites=10, bag=3, run=900),
    "one site": Load(jobs=1000, hours=48, sites=1),
}
"""Made-up loads. Numbers of the policy were chosen on them, with seeds 1 and 2."""
ABLATIONS = {
    "all numbers": "[]",
    "no Everywhere": "[ Everywhere = 0 ]",
    "Everywhere without bound": "[ Everywhere = 1000000 ]",
    "no Copies": "[ Copies = 0 ]",
    "no Ready": "[ Ready = 0 ]",
    "no Grace": "[ Grace = 0 ]",
}
"""Our policy without each number that works by default; Minimum, Weight, Limit and SilentHold work
only where a site or a source of demand asks for it."""


# --- loads fitted to published statistics ---------------------------------------------------------

LPC_QUEUES = (
    # share of jobs, limit (s), mean and 99th percentile of run times (s)
    (0.1995, 900, 31.6, 432),
    (0.3368, 7200, 166, 1370),
    (0.1484, 86_400, 2624, 52_297),
    (0.0902, 129_600, 6437, 86_462),
    (0.2179, 259_200, 8954, 172_823),
    (0.0073, 3600, 39.5, 2025),
)
LPC_HOURS = (
    33, 34, 32, 29, 29, 29, 27, 33, 33, 37, 46, 37, 41, 56, 51, 66, 44, 44, 43, 36, 35, 35, 36, 35,
)  # fmt: skip
"""Jobs an hour by the hour of the day."""
LPC_DISPERSION = 181.0
"""Variance over mean of the jobs that arrive in an hour."""
LPC_BAG = 10.0
"""Jobs of a bag on average: a choice of ours, as only the dispersion is published."""
LPC_WAITS = ((4, 0.5), (478, 0.9), (11_917, 0.99))
"""Waits (s), and the share of jobs that waited no longer."""
Z99 = 2.326
"""The 99th percentile of the normal distribution, in deviations."""


def log_normal(mean: float, late: float) -> tuple[float, float]:
    """Return the parameters of a log-normal distribution of its mean and 99th percentile.

    A ratio above what any log-normal distribution has gives the one that comes nearest.

    >>> mu, sigma = log_normal(166, 1370)
    >>> round(math.exp(mu + sigma**2 / 2)), round(math.exp(mu + Z99 * sigma))
    (166, 1370)
    """
    sigma = Z99 - math.sqrt(max(Z99**2 - 2 * math.log(late / mean), 0.0))
    return math.log(late) - Z99 * sigma, sigma


@attrs.frozen(slots=True)
class LpcEgee:
    """Jobs as at the LPC cluster of the EGEE grid in 2004: bags of serial jobs at two elements.

    By the archive: numbers of jobs and run times by queue, arrivals by the hour, dispersion, the
    parts of the elements. The size of a bag is log-normal; five groups send bags, the first most.
    """

    count: int = SHORT

    def __iter__(self) -> Iterator[TraceJob]:
        random = Random("LPC-EGEE")
        # A job meets E[size^2] / E[size] jobs in its bag: the dispersion of their number.
        sigma = math.sqrt(math.log(LPC_DISPERSION / LPC_BAG))
        middle = math.log(LPC_BAG) - sigma**2 / 2
        now, left = 0.0, self.count
        while left:
            rate = LPC_HOURS[int(now / HOUR) % 24] / HOUR / LPC_BAG
            now += random.expovariate(rate)
            _, limit, mean, late = random.choices(LPC_QUEUES, [q[0] for q in LPC_QUEUES])[0]
            mu, spread = log_normal(mean, late)
            group = f"vo{random.choices(range(1, 6), [1 / n for n in range(1, 6)])[0]}"
            for _ in range(min(left, max(1, round(random.lognormvariate(middle, sigma))))):
                left -= 1
                seconds = min(random.lognormvariate(mu, spread), limit)
                yield TraceJob(
                    submit=round(now), run=max(1, round(seconds)),
                    wall=limit, group=group, site="CE1" if random.random() < 0.54 else "CE2",
                )  # fmt: skip


@attrs.frozen(slots=True)
class Das2:
    """Jobs as at the five clusters of DAS-2 in the hours of the day's peak: short, in quick bursts.

    By the paper: Weibull times between arrivals, log-normal run times. A parallel job takes one
    pilot. Twelve groups share the clusters by 1/n, as users do there; the archive has more.
    """

    count: int = SHORT

    def __iter__(self) -> Iterator[TraceJob]:
        random = Random("DAS-2")
        now = 0.0
        for _ in range(self.count):
            now += random.weibullvariate(23.375, 0.522)
            group = random.choices(range(1, 13), [1 / n for n in range(1, 13)])[0]
            run_time = min(random.lognormvariate(4.40, 1.7), 162_754)
            yield TraceJob(
                submit=round(now), run=max(1, round(run_time)), wall=max(900, 4 * run_time),
                group=f"group{group}", site=f"fs{random.randrange(5)}",
            )  # fmt: skip


FITTED: Mapping[str, Callable[[int], Iterable[TraceJob]]] = {"LPC-EGEE": LpcEgee, "DAS-2": Das2}
"""Fitted to the figures that docs/sources.md names. No number of the policy was chosen on them."""


@attrs.frozen(slots=True)
class Half:
    """The first jobs of a half of a trace, split in the middle of its time."""

    jobs: Iterable[TraceJob]
    second: bool = True
    count: int | None = SHORT

    def __iter__(self) -> Iterator[TraceJob]:
        times = [job.submit for job in self.jobs]
        middle = (times[0] + times[-1]) / 2 if times else 0.0
        half = (job for job in self.jobs if (job.submit >= middle) == self.second)
        return islice(half, self.count)


# --- simulations ----------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class Task:
    """One simulation."""

    load: str
    jobs: Sequence[TraceJob]
    policy: str
    world: str
    seed: int


def simulated(task: Task) -> tuple[SimulationReport, float]:
    """Run one simulation; also give its seconds of processor time."""
    begin = process_time()
    policy = task.policy
    rule = ours(PolicyAd(ABLATIONS[policy]), policy) if policy in ABLATIONS else named(policy)
    world = survey(task.jobs)
    delays = ASSUMPTIONS[task.world]
    report = run(task.jobs, world, rule, delays, task.seed, assumption=task.world)
    return report, process_time() - begin


def ratios(found: PolicyRow, base: PolicyRow) -> tuple[float, ...]:
    """Give submissions, mean and p95 wait, and wasted hours as parts of another policy's."""
    pairs = ((found.pilots, base.pilots), (found.mean, base.mean), (found.late, base.late),
             (found.wasted_hours, base.wasted_hours))  # fmt: skip
    return tuple(one / max(other, 1e-9) for one, other in pairs)


def shown(found: PolicyRow, base: PolicyRow) -> str:
    """Format the figures of a policy, and their ratios to another one's."""
    parts = " ".join(f"{ratio:.2f}" for ratio in ratios(found, base))
    return (
        f"{found.pilots:,.0f} | {found.cancelled:,.0f} | {found.a_job:.2f} |"
        f" {found.wasted_hours:,.0f} | {found.mean / 60:.2f}, {found.late / 60:.2f} | {parts}"
    )


def verdict(
    tables: Mapping[tuple[str, str], Mapping[str, PolicyRow]], jobs: Mapping[str, int]
) -> None:
    """Print the medians over all loads and worlds, the aims and the rows that miss them."""
    print()
    for policy in next(iter(tables.values())):
        found = [ratios(table[policy], table["dirac"]) for table in tables.values()]
        middle = " ".join(f"{median(each):.2f}" for each in zip(*found, strict=True))
        worst = " ".join(f"{max(each):.2f}" for each in zip(*found, strict=True))
        print(f"{policy}, to dirac: submissions, mean, p95, waste {middle}; worst {worst}")
    if any(OURS not in table for table in tables.values()):
        return
    mine = {row: ratios(table[OURS], table["dirac"]) for row, table in tables.items()}
    cancelled = {row: table[OURS].cancelled / jobs[row[0]] for row, table in tables.items()}
    for name, values, least, aim in (
        ("submissions", {row: each[0] for row, each in mine.items()}, 1.2, 1.0),
        ("mean wait", {row: each[1] for row, each in mine.items()}, 1.25, 1.0),
        ("p95 wait", {row: each[2] for row, each in mine.items()}, 1.25, 1.0),
        ("wasted hours", {row: each[3] for row, each in mine.items()}, 0.6, 0.4),
        ("cancellations a job", cancelled, 0.3, 0.1),
    ):
        value = median(values.values())
        holds = "aim" if value <= aim else "least" if value <= least else "FAILS"
        over = ", ".join(
            f"{'/'.join(row)} {each:.2f}" for row, each in values.items() if each > least
        )
        print(
            f"{holds}: {name} {value:.2f} (least {least}, aim {aim}); rows above: {over or 'none'}"
        )
    for (load, world), table in tables.items():
        for policy, row in table.items():
            better = all(ratio < 1 for ratio in ratios(row, table[OURS]))
            if policy != OURS and better:
                print(f"FAILS: {policy} is better in all on {load}, {world}")


# --- how waits hang together ----------------------------------------------------------------------

LAGS = (60.0, HOUR, 6 * HOUR, 24 * HOUR)
"""Seconds, and how they are shown: 1 min, 1 h, 6 h, 24 h."""


def distance(one: Iterable[float], other: Iterable[float]) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples.

    >>> distance([1, 2], [1, 2]), distance([1, 2], [3, 4])
    (0.0, 1.0)
    """
    first, second = sorted(one), sorted(other)

    def share(values: Sequence[float], bound: float) -> float:
        return bisect_left(values, math.nextafter(bound, math.inf)) / len(values)

    return max(abs(share(first, each) - share(second, each)) for each in {*first, *second})


def hanging(series: Iterable[Sequence[tuple[float, float]]]) -> str:
    """Format the spread of the logarithms of waits within and between pairs, and correlations.

    A series has the times and the waits of the jobs of one owner and queue. A pair are two jobs
    that lie a lag apart, give or take a tenth; the first lag is anything up to a minute.
    """
    pairs: dict[float, list[tuple[float, float]]] = {lag: [] for lag in LAGS}
    for each in series:
        times = [time for time, _ in each]
        logs = [math.log(max(wait, 1.0)) for _, wait in each]
        for here, time in enumerate(times):
            for lag in LAGS:
                after = max(
                    bisect_left(times, time + (0.9 * lag if lag > LAGS[0] else 0)), here + 1
                )
                if after < len(times) and times[after] <= time + 1.1 * lag:
                    pairs[lag].append((logs[here], logs[after]))
    first = pairs[LAGS[0]]
    if len(first) < 3:
        return "too few jobs within a minute of each other"
    within = pstdev(one - other for one, other in first) / math.sqrt(2)
    between = pstdev((one + other) / 2 for one, other in first)
    lags = " ".join(
        f"{correlation(*zip(*found, strict=True)):.2f}" if len(found) > 2 else "-"
        for found in pairs.values()
    )
    return f"{within:.2f} | {between:.2f} | {lags}"


def series_of(jobs: Iterable[TraceJob]) -> list[list[tuple[float, float]]]:
    """Return the times and waits of the jobs of each group and site that have a wait."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for job in jobs:
        if job.wait is not None:
            found.setdefault((job.group, job.site), []).append((job.submit, job.wait))
    return list(found.values())


def drawn(world: Delays, queues: int = 40, pilots: int = 400) -> list[list[tuple[float, float]]]:
    """Draw times and waits of pilots at some queues of a world, two within each minute."""
    random = Random(5)
    found = []
    for queue in range(queues):
        luck = world(f"q{queue}", 7, 0.0)
        times = sorted(
            one for _ in range(pilots // 2)
            for time in [random.uniform(0, 30 * 24 * HOUR)]
            for one in (time, time + random.uniform(0, 60))
        )  # fmt: skip
        found.append([(time, luck.draw(time)[0]) for time in times])
    return found


def one_a_job(snapshot: PilotSnapshot, seed: int) -> Decision:
    """Submit a pilot for each job that arrived, at the job's own site."""
    counts: dict[str, int] = {}
    for kind in snapshot.demand or ():
        site = str(kind.ad["WantedSite"])
        counts[site] = counts.get(site, 0) + kind.arrived
    return Decision(
        submissions=tuple(PilotSubmission(s, n, "a job arrived") for s, n in counts.items() if n)
    )


def as_pilots(jobs: Sequence[TraceJob], cycle: float = 30.0) -> list[float]:
    """Return the waits of jobs that each submit a pilot to their site in the replayed world."""
    tally = RunTally()
    settings = SimulationSettings(
        cycle=cycle, startup=0, request=0, at_home=True, jobs_per_pilot=1, max_queued=10**9
    )
    rule, world = PilotRule("one a job", one_a_job), survey(jobs)
    # The waits of the trace are those for slots already.
    sites = tuple(attrs.evolve(site, slots=len(jobs)) for site in world.sites)
    world = attrs.evolve(world, sites=sites)
    run(jobs, world, rule, replayed(jobs), 7, settings=settings, tally=tally)
    return [wait for group in tally.groups.values() for wait in group.waits.elements()]


def worlds(traces: Mapping[str, Iterable[TraceJob]]) -> None:
    """Print how waits hang together in each world and trace, and their distances."""
    print("waits | spread within | between | correlation after a minute, 1 h, 6 h, 24 h"
          " | share within 4 s, 478 s, 11,917 s (LPC-EGEE: 0.50 0.90 0.99)")  # fmt: skip
    samples = {}
    for name in SHARED:
        found = drawn(ASSUMPTIONS[name])
        samples[name] = [wait for each in found for _, wait in each]
        shares = " ".join(
            f"{sum(w <= bound for w in samples[name]) / len(samples[name]):.2f}"
            for bound, _ in LPC_WAITS
        )
        print(f"{name} | {hanging(found)} | {shares}", flush=True)
    for name, jobs in traces.items():
        held = list(jobs)
        own = [job.wait for job in held if job.wait is not None]
        if not own:
            print(f"{name} has no waits (field 3 is -1): nothing to compare")
            continue
        print(f"{name} | {hanging(series_of(held))}")
        to = ", ".join(f"{one} {distance(own, waits):.2f}" for one, waits in samples.items())
        print(f"{name}: Kolmogorov-Smirnov distance of its waits to those of its jobs as pilots"
              f" {distance(own, as_pilots(held)):.3f}; to {to}")  # fmt: skip
    print()


def main() -> None:
    """Simulate, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--trace", type=Path, action="append", default=[], metavar="FILE",
                        help="in the Standard Workload Format; may be repeated")  # fmt: skip
    parser.add_argument("--half", choices=("first", "second"), default="second",
                        help="of traces: policies are chosen on the first")  # fmt: skip
    parser.add_argument("--full", action="store_true", help="all jobs of a half, ten times as many"
                        " of the fitted loads")  # fmt: skip
    parser.add_argument("--worlds", action="store_true", help="only how waits hang together")
    parser.add_argument("--ablate", action="store_true", help="our policy without each number")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--policy", action="append", help="only these; may be repeated")
    parser.add_argument("--load", action="append", choices=[*LOADS, *FITTED, "none"],
                        help="only these loads; may be repeated")  # fmt: skip
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many seeds")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw waste against wait")
    options = parser.parse_args()
    count = None if options.full else SHORT
    traces = {
        path.name: Half(TraceFile(path), options.half == "second", count) for path in options.trace
    }
    worlds(traces)
    if options.worlds:
        return
    made = {name: LOADS[name] for name in options.load or LOADS if name in LOADS}
    fitted = {
        name: FITTED[name](10 * SHORT if options.full else SHORT)
        for name in options.load or FITTED
        if name in FITTED
    }
    every: dict[str, Iterable[TraceJob]] = {**made, **fitted, **traces}
    # Read once: a trace of ten days takes seconds to parse.
    loads = {name: tuple(jobs) for name, jobs in every.items()}
    others = (*ABLATIONS, "dirac") if options.ablate else (OURS, *NAMES)
    names = list(dict.fromkeys([*(options.policy or others), "dirac"]))
    seeds = range(1, 1 + options.seeds)
    tasks = [
        Task(load, jobs, name, world, seed)
        for load, jobs in loads.items()
        for world in SHARED
        for name in names
        for seed in seeds
    ]
    print("load | world | policy | submissions | cancelled | a job | wasted h | mean, p95 (min)"
          " | to dirac: submissions, mean, p95, waste")  # fmt: skip
    tables: dict[tuple[str, str], dict[str, PolicyRow]] = {}
    held: dict[tuple[str, str], list[SimulationReport]] = {}
    seconds: dict[str, list[float]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for task, (report, took) in zip(tasks, pool.map(simulated, tasks), strict=True):
            key = task.load, task.world
            held.setdefault(key, []).append(report)
            seconds.setdefault(task.policy, []).append(took)
            if len(held[key]) == len(names) * len(seeds):
                tables[key] = {row.policy: row for row in rows(held[key])}
                for name, row in tables[key].items():
                    print(*key, name, shown(row, tables[key]["dirac"]), sep=" | ", flush=True)
    reports = [report for each in held.values() for report in each]
    verdict(tables, {load: each[0].jobs for (load, _), each in held.items()})
    for name, spent in seconds.items():
        print(f"{name}: {median(spent):.1f} s of a processor a simulation")
    if options.svg:
        options.svg.write_text(svg(reports), encoding="utf-8")


if __name__ == "__main__":
    main()
