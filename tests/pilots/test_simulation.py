"""The simulator on workloads that can be checked by hand, and its laws."""

from __future__ import annotations

import pickle
import tracemalloc

import attrs
import pytest

from matchmaker.pilots.policy.decision import rule as decide_with
from matchmaker.pilots.policy.policy_ad import PolicyAd
from matchmaker.pilots.policy.snapshot import (
    Decision,
    End,
    Lend,
    PilotSnapshot,
    PilotState,
    PilotSubmission,
)
from matchmaker.pilots.simulation import delays
from matchmaker.pilots.simulation.grid import SimulationSettings
from matchmaker.pilots.simulation.report import PolicyRow, SimulationReport, front_of, rows
from matchmaker.pilots.simulation.rules import PilotRule
from matchmaker.pilots.simulation.simulation import RuleError, run, simulate
from matchmaker.pilots.simulation.workload import Load, TraceJob, survey


def one_each(snapshot: PilotSnapshot, seed: int) -> Decision:
    """As many queued pilots as jobs wait, at the first queue."""
    waiting = sum(kind.waiting for kind in snapshot.demand or ())
    coming = sum(p.state in (PilotState.QUEUED, PilotState.STARTING) for p in snapshot.pilots)
    if waiting <= coming:
        return Decision()
    return Decision(submissions=(PilotSubmission(snapshot.queues[0].key, waiting - coming, ""),))


SIMPLE = PilotRule("one each", one_each)


def simulated(
    jobs: list[TraceJob],
    rule: PilotRule = SIMPLE,
    delay: float = 600,
    startup: float = 60,
    seed: int = 7,
) -> SimulationReport:
    return run(
        jobs,
        survey(jobs),
        rule,
        delays.fixed(delay),
        seed,
        settings=SimulationSettings(startup=startup, request=0),
    )


def test_a_job_waits_for_its_pilot() -> None:
    found = simulated([TraceJob(submit=100, run=300)])
    # The first decision is made when the first job arrives; then 600 s in the queue, 60 s to start.
    assert found.waits.worst == found.waits.mean == found.first_job == 660
    assert (found.pilots, found.unused, found.not_run) == (1, 0, 0)
    assert found.hours * 3600 == pytest.approx(360)
    assert found.busy_hours * 3600 == 300
    assert found.wasted_hours * 3600 == pytest.approx(60)


def test_a_pilot_takes_the_next_job_at_once() -> None:
    found = simulated([TraceJob(submit=0, run=300), TraceJob(submit=1, run=300)])
    # One slot more than was needed: both run at the same time in the trace, so the site has two.
    # The second is decided on at 120 s, and starts at 780 s, when the first pilot still runs.
    assert found.waits.worst == 779
    assert found.pilots == 2
    found = simulated(
        [TraceJob(submit=0, run=300), TraceJob(submit=1, run=300)], delay=0, startup=0
    )
    assert found.waits.worst == 119


def test_a_site_runs_no_more_pilots_than_it_has_slots() -> None:
    jobs = [TraceJob(submit=0, run=100), TraceJob(submit=100, run=100)]
    assert survey(jobs).sites[0].slots == 1
    found = simulated(jobs, delay=300, startup=0)
    # The first pilot starts at 300 s and runs both jobs; the second never gets a slot.
    assert (found.pilots, found.unused) == (2, 1)
    assert found.waits.worst == 300


def test_an_idle_pilot_ends_after_its_time() -> None:
    jobs = [TraceJob(submit=0, run=100), TraceJob(submit=5000, run=100)]
    found = simulated(jobs, delay=0, startup=0)
    # Idle for 300 s after the first job. The second waits for the decision at 5,040 s.
    assert found.wasted_hours * 3600 == pytest.approx(300)
    assert (found.pilots, found.waits.worst) == (2, 40)


def test_a_job_never_gets_a_pilot_with_too_little_time_left() -> None:
    jobs = [TraceJob(submit=0, run=200, wall=250), TraceJob(submit=190, run=100, wall=300)]
    # A pilot of this site lives 450 s. When the first job ends it has 250 s left, of which the
    # second needs 300: it takes the next pilot, which idles out first.
    found = simulated(jobs, delay=0, startup=0)
    assert found.pilots == 2


@pytest.mark.parametrize(
    "decision",
    [
        Decision(submissions=(PilotSubmission("nowhere", 1, ""),)),
        Decision(submissions=(PilotSubmission("", 0, ""),)),
        Decision(ends=(End("1", ""),)),
        Decision(ends=(End("x", ""),)),
    ],
)
def test_a_decision_that_cannot_be_carried_out_is_an_error(decision: Decision) -> None:
    with pytest.raises(RuleError, match="wrong"):
        simulated([TraceJob(submit=0, run=1)], PilotRule("wrong", lambda s, seed: decision))


def test_a_busy_pilot_is_never_ended() -> None:
    def bad(snapshot: PilotSnapshot, seed: int) -> Decision:
        return (
            Decision(ends=tuple(End(p.key, "") for p in snapshot.pilots))
            if (snapshot.pilots)
            else one_each(snapshot, seed)
        )

    with pytest.raises(RuleError, match="runs a job"):
        simulated([TraceJob(submit=0, run=1000)], PilotRule("bad", bad), delay=0, startup=0)


def test_jobs_that_find_no_pilot_are_counted() -> None:
    found = simulated([TraceJob(submit=0, run=1)], PilotRule("nothing", lambda s, seed: Decision()))
    assert (found.jobs, found.not_run, found.waits.jobs, found.first_job) == (1, 1, 0, None)


def test_a_job_that_runs_at_the_end_counts_whole() -> None:
    long = TraceJob(submit=0, run=3_000_000)
    never = TraceJob(submit=0, run=100, group="other", site="other")

    def only_here(snapshot: PilotSnapshot, seed: int) -> Decision:
        here = attrs.evolve(snapshot, demand=tuple(k for k in snapshot.demand or () if not k.group))
        return one_each(here, seed)

    found = simulated([long, never], PilotRule("here", only_here), delay=0, startup=0)
    # The simulation gives up after a fortnight, while the long job runs.
    assert (found.not_run, found.lasted) == (1, 14 * 24 * 3600)
    assert found.busy_hours == found.hours == pytest.approx(3_000_000 / 3600)


def test_a_pilot_that_is_lent_leaves() -> None:
    def lend(snapshot: PilotSnapshot, seed: int) -> Decision:
        idle = tuple(p for p in snapshot.pilots if p.state is PilotState.IDLE)
        lends = tuple(Lend(p.key, "true", "") for p in idle)
        return attrs.evolve(one_each(snapshot, seed), lends=lends)

    jobs = [TraceJob(submit=0, run=100), TraceJob(submit=1000, run=100)]
    found = simulated(jobs, PilotRule("lend", lend, 1e6), delay=0, startup=0)
    assert found.wasted_hours * 3600 == pytest.approx(20)
    assert found.pilots == 2


@pytest.mark.parametrize("policy", ["matchmaker", "dirac", "glideinwms", "parsl", "hyperqueue"])
def test_years_in_which_nothing_happens_take_no_cycles(policy: str) -> None:
    day = 24 * 3600.0
    jobs = [
        TraceJob(submit=0, run=600),
        TraceJob(submit=30 * day, run=600),
        TraceJob(submit=3000 * day, run=600),
    ]
    report = simulate(jobs, policy)
    assert (report.not_run, report.busy_hours) == (0, 0.5)
    assert report.lasted > 3000 * day
    # A day until all is taken to be quiet, and what pilots do then.
    assert report.cycles < 3 * (day + 8 * 3600) / 120
    long = simulate(
        [TraceJob(submit=0, run=3000 * day), TraceJob(submit=3000 * day, run=1)], policy
    )
    assert long.not_run == 0
    assert long.cycles < 3 * (day + 8 * 3600) / 120


@pytest.mark.parametrize("run", [600, 1000 * 24 * 3600.0])
def test_years_without_a_job_take_no_cycles_though_pilots_come_and_go(run: float) -> None:
    day = 24 * 3600.0
    report = simulate([TraceJob(submit=0, run=run), TraceJob(submit=1001 * day, run=600)], "cobald")
    assert (report.not_run, report.lasted > 1001 * day) == (0, True)
    assert report.cycles < 2 * (7 + 2) * day / 120


def test_days_without_a_job_are_gone_through() -> None:
    day = 24 * 3600.0
    report = simulate([TraceJob(submit=0, run=600), TraceJob(submit=6 * day, run=600)], "cobald")
    assert report.cycles > 6 * day / 120


def test_a_trace_of_a_hundred_years_is_refused() -> None:
    jobs = [TraceJob(submit=0, run=600), TraceJob(submit=3.2e9, run=600)]
    with pytest.raises(ValueError, match="arrive in 101 years, and at most 30"):
        simulate(jobs, "cobald")


def test_a_report_goes_to_another_process() -> None:
    found = simulated([TraceJob(submit=0, run=300)])
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301


@pytest.mark.slow
def test_memory_is_that_of_what_lives() -> None:
    def most(days: int) -> int:
        load = Load(jobs=1000 * days, hours=24 * days, sites=2, groups=1, run=120)
        tracemalloc.start()
        try:
            simulate(load, "dirac", settings=SimulationSettings(cycle=1800))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(1)  # what is loaded and compiled once
    # Eight times as many jobs. Distinct waits are counted, of which there are some thousands.
    assert most(8) < 3 * most(1)


def test_our_policy_is_taken_in_any_form() -> None:
    load = Load(jobs=10, hours=1, run=60)
    by_name = simulate(load, "matchmaker")
    assert simulate(load) == by_name
    assert attrs.evolve(simulate(load, PolicyAd()), policy="matchmaker") == by_name
    assert attrs.evolve(simulate(load, decide_with()), policy="matchmaker") == by_name
    with pytest.raises(ValueError, match="no policy 'x'; there are matchmaker, dirac"):
        simulate(load, "x")


def test_the_front_has_the_policies_that_no_other_beats() -> None:
    def row(name: str, mean: float, wasted: float) -> PolicyRow:
        report = simulated([TraceJob(submit=0, run=60)])
        (found,) = rows([attrs.evolve(report, policy=name)])
        return attrs.evolve(found, mean=mean, wasted_hours=wasted)

    points = [row("a", 3, 1), row("b", 1, 9), row("c", 2, 9), row("d", 2, 4), row("e", 4, 1)]
    assert [one.policy for one in front_of(points)] == ["b", "d", "a"]
