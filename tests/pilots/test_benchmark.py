"""The loads and the measures of ``benchmarks/pilots.py``."""

from __future__ import annotations

import math
from random import Random
from statistics import mean, pvariance

import pytest

from benchmarks.pilots import (
    LPC_DISPERSION,
    LPC_HOURS,
    LPC_QUEUES,
    Das2,
    Half,
    LpcEgee,
    as_pilots,
    distance,
    drawn,
    hanging,
    log_normal,
    series_of,
)
from matchmaker.pilots.simulation import delays
from matchmaker.pilots.simulation.workload import TraceJob


def test_jobs_as_at_lpc_have_its_published_figures() -> None:
    jobs = list(LpcEgee(60_000))
    assert jobs == list(LpcEgee(60_000))
    hours = (jobs[-1].submit - jobs[0].submit) / 3600
    assert len(jobs) / hours == pytest.approx(mean(LPC_HOURS), rel=0.15)
    counts = [0] * (int(hours) + 1)
    for job in jobs:
        counts[int((job.submit - jobs[0].submit) // 3600)] += 1
    assert 0.6 < pvariance(counts) / mean(counts) / LPC_DISPERSION < 1.6
    for share, limit, middle, _ in LPC_QUEUES[:5]:
        runs = [job.run for job in jobs if job.wall == limit]
        assert len(runs) / len(jobs) == pytest.approx(share, abs=0.05)
        assert middle / 1.6 < mean(runs) < 1.6 * middle
    assert {job.site for job in jobs} == {"CE1", "CE2"}


def test_jobs_as_at_das_2_have_its_published_figures() -> None:
    jobs = list(Das2(20_000))
    gap = 23.375 * math.gamma(1 + 1 / 0.522)
    assert (jobs[-1].submit - jobs[0].submit) / len(jobs) == pytest.approx(gap, rel=0.1)
    logs = [math.log(job.run) for job in jobs]
    assert mean(logs) == pytest.approx(4.40, abs=0.1)
    assert math.sqrt(pvariance(logs)) == pytest.approx(1.7, abs=0.15)


def test_a_log_normal_distribution_has_its_mean_and_99th_percentile() -> None:
    for middle, late in ((166, 1370), (31.6, 432)):
        mu, sigma = log_normal(middle, late)
        assert math.exp(mu + sigma**2 / 2) == pytest.approx(middle, rel=1e-6)
        assert math.exp(mu + 2.326 * sigma) == pytest.approx(late, rel=1e-6)


def test_a_trace_is_split_by_time() -> None:
    jobs = [TraceJob(submit=time, run=1) for time in (0, 1, 2, 3, 40, 100)]
    assert [job.submit for job in Half(jobs, second=False)] == [0, 1, 2, 3, 40]
    assert [job.submit for job in Half(jobs, second=True)] == [100]
    assert [job.submit for job in Half(jobs, second=False, count=2)] == [0, 1]


def made(count: int = 400, *, in_order: bool = True) -> list[TraceJob]:
    """A trace of one owner whose jobs wait as pilots in the world ``usual``."""
    random, found = Random(3), []
    for site in ("a", "b", "c"):
        luck, now, times, starts = delays.usual(site, 7, 0.0), 0.0, [], []
        for _ in range(count):
            now += random.expovariate(1 / 900)
            times.append(now)
            starts.append(now + luck.draw(now)[0])
        for time, start in zip(times, sorted(starts) if in_order else starts, strict=True):
            found.append(TraceJob(submit=time, run=60, wall=300, site=site, wait=start - time))
    return sorted(found, key=lambda job: job.submit)


def test_jobs_as_pilots_in_the_replayed_world_wait_as_in_the_trace() -> None:
    """The Kolmogorov-Smirnov distance is small, and is not if the waits are others'."""
    jobs = made()
    own = [job.wait for job in jobs if job.wait is not None]
    found = as_pilots(jobs)
    assert len(found) == len(own)
    assert distance(own, found) < 0.1
    assert distance([10 * wait for wait in own], found) > 0.3
    # If the jobs of the trace start in another order than they came, it shows.
    others = made(in_order=False)
    assert 0.1 < distance([job.wait or 0.0 for job in others], as_pilots(others)) < 0.3
    assert distance([1, 2, 3], [1, 2, 3]) == 0
    assert distance([1, 2], [3]) == 1


def test_how_waits_hang_together_is_measured() -> None:
    within, between, lags = hanging(drawn(delays.usual)).split(" | ")
    assert 0.5 < float(within) < 0.8
    assert 1.9 < float(between) < 2.6
    minute, hour, *_, day = map(float, lags.split())
    assert minute > 0.85
    assert minute > hour > day
    assert series_of(made(5))[0]
    assert "too few" in hanging([])
