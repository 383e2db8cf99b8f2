"""Laws of the simulator: the same again, nothing lost, and the efficiency model of the seed."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from random import Random
from statistics import correlation, median, pstdev

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker.pilots.policy.snapshot import Decision, PilotSnapshot, PilotState, PilotSubmission
from matchmaker.pilots.simulation import delays, rules
from matchmaker.pilots.simulation.grid import SimulationSettings
from matchmaker.pilots.simulation.report import SimulationReport
from matchmaker.pilots.simulation.rules import PilotRule
from matchmaker.pilots.simulation.simulation import OURS, named, run, simulate
from matchmaker.pilots.simulation.workload import Load, TraceJob, survey
from tests.pilots.efficiency import gain, generic, startd

loads = st.builds(
    Load,
    jobs=st.integers(1, 60),
    hours=st.integers(1, 4),
    groups=st.integers(1, 4),
    sites=st.integers(1, 6),
    bag=st.integers(1, 12),
    run=st.integers(1, 1200),
    seed=st.integers(0, 10_000),
)
assumptions = st.sampled_from(list(delays.ASSUMPTIONS))
names = st.sampled_from((OURS, *rules.NAMES))


@settings(max_examples=8)
@given(loads, names, assumptions, st.integers(0, 1000))
def test_the_same_seed_gives_the_same_report(
    load: Load, name: str, assumption: str, seed: int
) -> None:
    first = simulate(load, name, seed, delays=assumption)
    assert simulate(list(load), name, seed, delays=assumption) == first


def test_another_seed_gives_another_report() -> None:
    found = {simulate(Load(jobs=100), "dirac", seed).waits.mean for seed in range(4)}
    assert len(found) == 4


@settings(max_examples=20)
@given(loads, names, assumptions, st.booleans())
def test_nothing_is_lost(load: Load, name: str, assumption: str, at_home: bool) -> None:
    clockwork = SimulationSettings(at_home=at_home)
    report = simulate(load, name, delays=assumption, settings=clockwork)
    jobs = list(load)
    assert report.jobs == len(jobs)
    assert report.waits.jobs + report.not_run == report.jobs
    assert sum(waits.jobs for waits in report.by_group.values()) == report.waits.jobs
    assert report.not_run == 0
    assert report.busy_hours * 3600 == pytest.approx(sum(job.run for job in jobs))
    assert report.hours == pytest.approx(report.busy_hours + report.wasted_hours)
    assert report.wasted_hours >= -1e-9
    assert 0 <= report.cancelled + report.lost <= report.unused <= report.pilots
    waits = report.waits
    assert 0 <= waits.median <= waits.late <= waits.worst * 1.006 + 1e-9
    assert waits.mean <= waits.worst + 1e-9
    assert 1 / max(1, len(report.by_group)) - 1e-9 <= report.fairness <= 1 + 1e-9


@settings(max_examples=12)
@given(loads, names)
def test_what_a_rule_sees_is_true(load: Load, name: str) -> None:
    """Snapshots agree with themselves, and slots, walls and idle times are kept."""
    world = survey(load)
    slots = {site.key: site.slots for site in world.sites}
    rule = named(name)
    arrived = 0

    def look(snapshot: PilotSnapshot, seed: int) -> Decision:
        nonlocal arrived
        held = dict.fromkeys(slots, 0)
        busy: dict[str, int] = {}
        for pilot in snapshot.pilots:
            held[pilot.queue] += pilot.state is not PilotState.QUEUED
            assert (pilot.state is PilotState.BUSY) == bool(pilot.kind)
            busy[pilot.kind] = busy.get(pilot.kind, 0) + 1
            assert pilot.since <= snapshot.now
            assert (pilot.ends is None) == (pilot.state is PilotState.QUEUED)
            assert pilot.ends is None or pilot.ends >= snapshot.now
            if pilot.state is PilotState.IDLE:
                assert snapshot.now - pilot.since <= rule.idle
        assert all(held[key] <= slots[key] for key in slots)
        for kind in snapshot.demand or ():
            arrived += kind.arrived
            assert kind.running == busy.get(kind.key, 0)
            assert (kind.oldest > 0) <= (kind.waiting > 0)
        return rule.decide(snapshot, seed)

    report = run(load, world, attrs.evolve(rule, decide=look), delays.usual, 7)
    assert arrived <= report.jobs


def keep(count: int) -> PilotRule:
    """A rule that has as many pilots as it may, while jobs wait."""

    def decide(snapshot: PilotSnapshot, seed: int) -> Decision:
        waiting = sum(kind.waiting for kind in snapshot.demand or ())
        missing = min(count - len(snapshot.pilots), waiting)
        if missing <= 0:
            return Decision()
        return Decision(submissions=(PilotSubmission(snapshot.queues[0].key, missing, ""),))

    return PilotRule("keep", decide)


def rounds_of(
    rounds: int, slots: int, job: int, delay: int, clockwork: SimulationSettings
) -> SimulationReport:
    """Rounds of equal jobs, which arrive together, on as many slots as a round has jobs."""
    jobs = [TraceJob(submit=0, run=job, wall=100_000)] * (rounds * slots)
    world = survey(jobs)
    world = attrs.evolve(world, sites=(attrs.evolve(world.sites[0], slots=slots),))
    return run(jobs, world, keep(slots), delays.fixed(delay), 7, settings=clockwork)


times = st.integers(0, 30)
SHAPES = {
    "rounds": st.integers(1, 5),
    "slots": st.integers(1, 3),
    "job": st.integers(1, 40),
    "delay": times,
    "startup": times,
    "fetch": times,
}


@settings(max_examples=25)
@given(**SHAPES)
def test_startd_pilots_take_as_long_as_the_model_says(
    *, rounds: int, slots: int, job: int, delay: int, startup: int, fetch: int
) -> None:
    clockwork = SimulationSettings(cycle=1, startup=startup, fetch=fetch, request=0)
    report = rounds_of(rounds, slots, job, delay, clockwork)
    # The pilot script runs once; what each further job takes is fetching it.
    expected = startd(rounds, delay + startup + fetch, job, fetch=fetch)
    assert report.lasted == expected
    assert report.pilots == slots


@settings(max_examples=25)
@given(**SHAPES)
def test_generic_pilots_take_as_long_as_the_model_says(
    *, rounds: int, slots: int, job: int, delay: int, startup: int, fetch: int
) -> None:
    clockwork = SimulationSettings(
        cycle=1, startup=startup, fetch=fetch, jobs_per_pilot=1, request=0
    )
    report = rounds_of(rounds, slots, job, delay, clockwork)
    assert report.lasted == generic(rounds, delay + startup + fetch, job)
    assert report.pilots == slots * rounds


@given(st.integers(1, 100), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1), st.floats(0, 1))
def test_pilots_that_stay_are_never_slower_if_fetching_is_quicker_than_the_queue(
    rounds: int, switch: float, job: float, script: float, fetch: float
) -> None:
    found = gain(rounds, switch + script + fetch, job, script, fetch)
    assert found >= 1 - 1e-9
    assert found <= rounds + 1e-9


@pytest.mark.parametrize(
    ("rounds", "switch", "job"), [(0, 1, 1), (1, -1, 1), (1, 1, float("nan")), (1, float("inf"), 1)]
)
def test_the_model_refuses_what_is_no_time(rounds: int, switch: float, job: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        startd(rounds, switch, job)


def _logs(world: delays.Delays, name: str, times: list[float]) -> list[float]:
    luck = world(name, 7, 0.0)
    return [math.log(luck.draw(time)[0]) for time in times]


def test_waits_of_a_queue_hang_together() -> None:
    """The waits of two pilots submitted within a minute are alike, as in the trace of a real queue.

    There their logarithms differ with a deviation of 0.67, where all spread with one of 2.37 about
    a median; the least wait of a bag of five or more is 0.8 of its median.
    """
    random = Random(5)
    pairs, medians, bags = [], [], []
    for n in range(60):
        luck = delays.usual(f"s{n}", 7, 0.0)
        waits = []
        for _ in range(60):
            at = random.uniform(0, 30 * 24 * 3600)
            one, two = (math.log(luck.draw(time)[0]) for time in (at, at + random.uniform(0, 60)))
            pairs.append((one, two))
            waits.append(one)
            bag = sorted(luck.draw(at, ahead)[0] for ahead in range(9))
            bags.append(bag[0] / bag[4])
        medians.append(median(waits))
    # Waits are cut at a second and at a day.
    assert 1.8 < pstdev(one for one, _ in pairs) < 2.5
    assert 0.85 < correlation(*zip(*pairs, strict=True)) < 0.99
    assert math.log(300) < median(medians) < math.log(1200)
    assert 0.7 < median(bags) < 0.9


def test_the_level_of_a_queue_drifts_over_hours() -> None:
    """The correlation of waits falls with the time between them, and after days none is left."""
    found = {}
    times = [3600.0 * hour for hour in range(0, 24 * 30, 7)]
    for lag in (60, 3600, 6 * 3600, 4 * 24 * 3600):
        pairs: list[tuple[float, float]] = []
        for n in range(40):
            first = _logs(delays.usual, f"s{n}", times)
            second = _logs(delays.usual, f"s{n}", [time + lag for time in times])
            pairs += zip(first, second, strict=True)
        found[lag] = correlation(*zip(*pairs, strict=True))
    assert found[60] > found[3600] > found[6 * 3600] > found[4 * 24 * 3600]
    assert found[3600] > 0.6
    assert abs(found[4 * 24 * 3600]) < 0.15


def test_to_submit_again_does_not_help_in_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for their luck, pilots that are submitted to a queue earlier do not start later."""
    monkeypatch.setattr(delays, "_own", lambda random: 0.0)
    times = [delays.STEP * step for step in range(300)]
    for name in delays.SHARED:
        for n in range(20):
            luck = delays.ASSUMPTIONS[name](f"s{n}", 7, 0.0)
            starts = [time + luck.draw(time)[0] for time in times]
            assert all(one <= next_ + 1e-6 for one, next_ in pairwise(starts))


def test_many_pilots_in_one_queue_start_hardly_sooner_than_one() -> None:
    """The first of forty pilots takes a third off the wait of one, of independent ones 5/6."""

    def first(world: delays.Delays, count: int) -> float:
        found = []
        for n in range(200):
            luck = world(f"s{n}", 7, 0.0)
            found.append(min(luck.draw(1e6, ahead)[0] for ahead in range(count)))
        return median(found)

    assert first(delays.usual, 40) > 0.5 * first(delays.usual, 1)
    assert first(delays.independent, 40) < first(delays.independent, 1) / 4


def test_worlds_differ_as_they_say() -> None:
    medians = [median(_logs(delays.apart, f"s{n}", [3e5 * k for k in range(9)])) for n in range(99)]
    assert max(medians) - min(medians) > math.log(20)
    lost = sum(delays.bursts(f"s{n}", 7, 0.0).loses > 0 for n in range(1000))
    assert 60 < lost < 140
    drawn = sorted(_logs(delays.bursts, "a", [1e5 * k for k in range(2001)]))
    assert math.log(480) < drawn[1000] < math.log(720)
    # Pareto: of a hundred one waits over ten times the median.
    assert drawn[1980] - drawn[1000] > math.log(8)


def test_a_site_with_bursts_is_shut_for_hours() -> None:
    luck = delays.bursts("a", 7, 0.0)
    shut = 0
    now = 0.0
    for _ in range(20_000):
        now += 600
        opens = luck.open_from(now)
        assert opens >= now
        shut += opens > now
    assert 0.03 < shut / 20_000 < 0.25


def test_policies_meet_the_same_world() -> None:
    """The level of a queue hangs on the time, not on what was submitted before."""
    asked, never = (delays.usual("a", 7, 0.0) for _ in range(2))
    for n in range(50):
        asked.draw(100.0 * n)
    level, other = (median(luck.draw(1e5)[0] for _ in range(99)) for luck in (asked, never))
    assert level == pytest.approx(other, rel=0.15)
    # Spells do not hang on it either.
    asked, never = (delays.bursts("a", 7, 0.0) for _ in range(2))
    for _ in range(50):
        asked.draw(0.0)
    hours = [3600.0 * hour for hour in range(200)]
    assert [asked.open_from(time) for time in hours] == [never.open_from(time) for time in hours]
    assert any(never.open_from(time) > time for time in [1e6 + time for time in hours])
    random.seed(3)
    first, second = (delays.usual("a", 7, 0.0) for _ in range(2))
    assert [first.draw(n) for n in range(9)] == [second.draw(n) for n in range(9)]


def test_a_trace_is_replayed() -> None:
    waits = [30.0, 7000.0, None, 12.0]
    jobs = [TraceJob(submit=100 * n, run=1, site="a", wait=wait) for n, wait in enumerate(waits)]
    luck = delays.replayed(jobs)("a", 7, 0.0)
    assert [luck.draw(at)[0] for at in (0, 99, 150, 250, 1e6)] == [30, 30, 7000, 7000, 12]
    with pytest.raises(ValueError, match="no waiting times"):
        delays.replayed([TraceJob(submit=0, run=1)])
