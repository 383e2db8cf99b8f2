"""Laws of the simulator: the same again, nothing lost, and the efficiency model of the seed."""

from __future__ import annotations

import random

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker.pilots import delays, rules
from matchmaker.pilots.efficiency import gain, generic, startd
from matchmaker.pilots.grid import Settings
from matchmaker.pilots.loads import Load
from matchmaker.pilots.metrics import SimulationReport
from matchmaker.pilots.rules import Rule
from matchmaker.pilots.simulation import OURS, named, run, simulate
from matchmaker.pilots.snapshot import Decision, PilotSnapshot, PilotState, PilotSubmission
from matchmaker.pilots.workload import Job, survey

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
    clockwork = Settings(at_home=at_home)
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


def keep(count: int) -> Rule:
    """A rule that has as many pilots as it may, while jobs wait."""

    def decide(snapshot: PilotSnapshot, seed: int) -> Decision:
        waiting = sum(kind.waiting for kind in snapshot.demand or ())
        missing = min(count - len(snapshot.pilots), waiting)
        if missing <= 0:
            return Decision()
        return Decision(submissions=(PilotSubmission(snapshot.queues[0].key, missing, ""),))

    return Rule("keep", decide)


def rounds_of(
    rounds: int, slots: int, job: int, delay: int, clockwork: Settings
) -> SimulationReport:
    """Rounds of equal jobs, which arrive together, on as many slots as a round has jobs."""
    jobs = [Job(submit=0, run=job, wall=100_000)] * (rounds * slots)
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
    clockwork = Settings(cycle=1, startup=startup, fetch=fetch)
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
    clockwork = Settings(cycle=1, startup=startup, fetch=fetch, jobs_per_pilot=1)
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


def test_start_delays_are_as_assumed() -> None:
    luck = delays.usual("a", 7, 0.0)
    drawn = sorted(luck.draw()[0] for _ in range(2001))
    assert 500 < drawn[1000] < 700
    medians = []
    for n in range(200):
        luck = delays.apart(f"s{n}", 7, 0.0)
        medians.append(sorted(luck.draw()[0] for _ in range(51))[25])
    assert max(medians) > 20 * min(medians)
    lost = sum(delays.bursts(f"s{n}", 7, 0.0).loses > 0 for n in range(1000))
    assert 60 < lost < 140


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


def test_rules_have_the_same_luck() -> None:
    """The pilots of a site draw the same delays under every rule, one after the other."""
    first = delays.usual("a", 7, 0.0)
    second = delays.usual("a", 7, 0.0)
    random.seed(3)
    assert [first.draw() for _ in range(9)] == [second.draw() for _ in range(9)]
