"""The peers' rules, each on snapshots that show what its source says."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from matchmaker import ClassAd
from matchmaker.pilots.policy.snapshot import (
    Decision,
    Demand,
    Pilot,
    PilotQueue,
    PilotSnapshot,
    PilotState,
)
from matchmaker.pilots.simulation import rules

NONE: Mapping[str, object] = {}
QUEUES = tuple(
    PilotQueue(key=key, pilot=ClassAd({"Site": key, "Requirements": True}), wall=1000.0)
    for key in ("a", "b", "c")
)
ANY = ClassAd({"Requirements": True})


def kind(waiting: int, running: int = 0, wall: float = 100.0) -> Demand:
    return Demand(key=f"k{waiting}", ad=ANY, waiting=waiting, running=running, wall=wall)


def pilots(queue: str, state: PilotState, count: int, since: float = 0.0) -> tuple[Pilot, ...]:
    return tuple(
        Pilot(key=f"{queue}{state}{n}", queue=queue, state=state, since=since) for n in range(count)
    )


def submitted(name: str, *demand: Demand, supply: tuple[Pilot, ...] = ()) -> dict[str, int]:
    snapshot = PilotSnapshot(now=1000, demand=demand, queues=QUEUES, pilots=supply)
    return {s.queue: s.count for s in rules.peer_rule(name).decide(snapshot, 7).submissions}


def test_dirac_counts_all_jobs_at_each_queue_less_the_pilots_that_wait_there() -> None:
    supply = pilots("a", PilotState.QUEUED, 3) + pilots("b", PilotState.IDLE, 9)
    assert submitted("dirac", kind(5), supply=supply) == {"a": 2, "b": 5, "c": 5}
    assert submitted("dirac", kind(500)) == dict.fromkeys("abc", 100)


def test_glideinwms_asks_for_a_third_of_a_sites_share_and_at_least_one() -> None:
    assert submitted("glideinwms", kind(27)) == dict.fromkeys("abc", 3)
    assert submitted("glideinwms", kind(1)) == dict.fromkeys("abc", 1)
    idle = pilots("a", PilotState.IDLE, 9)
    assert submitted("glideinwms", kind(27), supply=idle) == {"b": 3, "c": 3}
    queued = pilots("a", PilotState.QUEUED, 2)
    assert submitted("glideinwms", kind(27), supply=queued) == {"a": 1, "b": 3, "c": 3}


def test_hyperqueue_shares_tasks_among_queues_with_a_backlog_each() -> None:
    """A task is placed once; no queue holds more than its backlog."""
    assert sum(submitted("hyperqueue", kind(2)).values()) == 2
    assert submitted("hyperqueue", kind(500)) == dict.fromkeys("abc", 10)
    supply = pilots("a", PilotState.QUEUED, 4) + pilots("b", PilotState.BUSY, 50)
    assert submitted("hyperqueue", kind(500), supply=supply) == {"a": 6, "b": 10, "c": 10}
    # The next cycle finds the same queues, so that a task which waits gets no further pilot.
    first = submitted("hyperqueue", kind(7))
    queued = tuple(p for key, n in first.items() for p in pilots(key, PilotState.QUEUED, n))
    assert submitted("hyperqueue", kind(7), supply=queued) == {}


def test_taskvine_lets_few_workers_wait_to_connect() -> None:
    assert submitted("taskvine", kind(30)) == dict.fromkeys("abc", 5)
    supply = pilots("a", PilotState.QUEUED, 4)
    assert submitted("taskvine", kind(30), supply=supply) == {"a": 1, "b": 5, "c": 5}
    # Workers of other factories count when there are more of them than its own.
    assert submitted("taskvine", kind(0, 4), supply=pilots("a", PilotState.BUSY, 4)) == {}


def test_parsl_submits_tasks_less_slots_and_ends_what_is_beyond() -> None:
    found = submitted("parsl", kind(10, 5), supply=pilots("a", PilotState.BUSY, 5))
    assert sum(found.values()) == 10
    idle = pilots("a", PilotState.IDLE, 3) + pilots("b", PilotState.IDLE, 3, since=999)
    snapshot = PilotSnapshot(now=1000, demand=(kind(0, 1),), queues=QUEUES, pilots=idle)
    decision = rules.peer_rule("parsl").decide(snapshot, 7)
    assert {end.pilot for end in decision.ends} == {p.key for p in idle[:3]}


def test_parsl_ends_all_blocks_after_two_minutes_without_a_task() -> None:
    supply = pilots("a", PilotState.QUEUED, 2) + pilots("b", PilotState.IDLE, 1, since=1000)
    rule = rules.peer_rule("parsl")

    def at(now: float, memory: Mapping[str, object], *demand: Demand) -> Decision:
        return rule.decide(
            PilotSnapshot(now=now, demand=demand, queues=QUEUES, pilots=supply, memory=memory), 7
        )

    first = at(1000, {})
    assert not first.ends
    assert not at(1110, first.memory).ends
    assert {end.pilot for end in at(1130, first.memory).ends} == {p.key for p in supply}
    # A task in between begins the time anew.
    assert not at(1130, at(1060, first.memory, kind(1)).memory).ends
    # With fewer tasks than slots only blocks that were idle for as long end.
    assert [end.pilot for end in at(1130, {}, kind(1)).ends] == ["bidle0"]


def test_cobald_steps_its_demand_at_two_thresholds() -> None:
    rule = rules.peer_rule("cobald")
    first = rule.decide(PilotSnapshot(now=0, demand=(), queues=QUEUES), 7)
    assert {s.queue: s.count for s in first.submissions} == dict.fromkeys("abc", 1)
    idle = pilots("a", PilotState.IDLE, 1) + pilots("b", PilotState.BUSY, 1)
    then = PilotSnapshot(now=120, demand=(), queues=QUEUES, pilots=idle, memory=first.memory)
    second = rule.decide(then, 7)
    assert {s.queue: s.count for s in second.submissions} == {"b": 1, "c": 2}
    assert [end.pilot for end in second.ends] == ["aidle0"]


@pytest.mark.parametrize("name", rules.NAMES)
def test_every_rule_keeps_to_limits_and_sends_nothing_where_nothing_fits(name: str) -> None:
    closed = tuple(attrs.evolve(queue, closed="down") for queue in QUEUES)
    short = tuple(attrs.evolve(queue, wall=10.0) for queue in QUEUES)
    limited = tuple(attrs.evolve(queue, max_queued=2, max_pilots=1) for queue in QUEUES)
    rule = rules.peer_rule(name)
    found = rule.decide(PilotSnapshot(now=0, demand=(kind(30),), queues=limited), 7)
    assert all(s.count <= 1 for s in found.submissions)
    empty = rule.decide(PilotSnapshot(now=0, demand=(kind(30),), queues=closed), 7)
    assert not empty.submissions
    if name == "cobald":  # which looks at no jobs
        return
    for demand, queues in (((kind(30),), short), (None, QUEUES), ((), QUEUES)):
        assert not rule.decide(PilotSnapshot(now=0, demand=demand, queues=queues), 7).submissions
