"""The decision about pilots: its rules, most learned from issues of other systems; its reasons."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from matchmaker import ClassAd, parse_expr
from matchmaker.pilots import (
    Decision,
    Demand,
    Estimate,
    Pilot,
    PilotQueue,
    PilotSnapshot,
    PilotState,
    decide,
)
from matchmaker.pilots.policy.decision import SILENT_HALF

ANY = ClassAd(Requirements=True)
PILOT = ClassAd(Memory=2000)
ONE_EACH = "[ Ready = 0; Everywhere = 0; Copies = 1 ]"


def kind(key: str = "job", waiting: int = 5, ad: ClassAd = ANY, **more: Any) -> Demand:
    return Demand(key=key, ad=ad, waiting=waiting, **more)


def queue(key: str = "ce", pilot: ClassAd = PILOT, **more: Any) -> PilotQueue:
    return PilotQueue(key=key, pilot=pilot, **more)


_numbers: Iterator[int] = iter(range(10**9))


def pilots(
    count: int, state: str, at: str = "ce", since: float = 990.0, **more: Any
) -> list[Pilot]:
    return [
        Pilot(key=f"p{next(_numbers):05}", queue=at, state=PilotState(state), since=since, **more)
        for _ in range(count)
    ]


def decided(
    demand: list[Demand] | None,
    queues: list[PilotQueue],
    supply: list[Pilot] | None = None,
    policy: str = ONE_EACH,
    **more: Any,
) -> Decision:
    snapshot = PilotSnapshot(
        now=more.pop("now", 1000.0),
        demand=None if demand is None else tuple(demand),
        queues=tuple(queues),
        pilots=tuple(supply or ()),
        memory=more.pop("memory", {}),
    )
    return decide(snapshot, policy, **more)


def submitted(decision: Decision) -> dict[str, int]:
    return {one.queue: one.count for one in decision.submissions}


# --- rules learned from issues of other systems ---------------------------------------------------


def test_a_pilot_whose_ad_matches_no_job_is_not_submitted() -> None:
    wants = ClassAd(Requirements=parse_expr("TARGET.Memory >= 4000"))
    large = ClassAd(Memory=8000)
    assert submitted(decided([kind(ad=wants)], [queue(), queue("big", large)])) == {"big": 5}


def test_a_pilot_that_refuses_the_job_is_not_submitted() -> None:
    choosy = ClassAd(Requirements=parse_expr('TARGET.Group == "cms"'))
    decision = decided([kind(ad=ClassAd(Group="atlas"))], [queue(pilot=choosy)])
    assert not decision.submissions
    assert [wait.reason for wait in decision.waits] == ["none of the 1 queues matches"]


@pytest.mark.parametrize("state", ["queued", "starting", "idle"])
def test_pilots_that_are_under_way_are_supply(state: str) -> None:
    assert submitted(decided([kind(waiting=5)], [queue()], pilots(3, state))) == {"ce": 2}


def test_a_pilot_without_enough_time_left_is_no_supply() -> None:
    short, long = pilots(5, "idle", ends=1100.0), pilots(5, "idle", ends=9000.0)
    hour = [kind(wall=3600.0)]
    assert submitted(decided(hour, [queue(wall=7200.0)], short)) == {"ce": 5}
    assert submitted(decided(hour, [queue(wall=7200.0)], long)) == {}


def test_a_queue_whose_pilots_may_not_run_long_enough_gets_none() -> None:
    decision = decided([kind(wall=7200.0)], [queue(wall=3600.0)])
    assert not decision.submissions
    assert decision.waits[0].reason == "no queue that matches lets a pilot run for 7200 s"


def test_idle_pilots_that_cannot_run_the_jobs_are_no_supply() -> None:
    wants = ClassAd(Requirements=parse_expr("TARGET.Memory >= 4000"))
    both = [queue(), queue("big", ClassAd(Memory=8000))]
    assert submitted(decided([kind(waiting=3, ad=wants)], both, pilots(9, "idle"))) == {"big": 3}


def test_an_idle_pilot_counts_by_its_own_ad() -> None:
    wants = ClassAd(Requirements=parse_expr("TARGET.Memory >= 4000"))
    own = pilots(2, "idle", ad=ClassAd(Memory=9000))
    decision = decided([kind(waiting=2, ad=wants)], [queue()], own)
    assert not decision.submissions
    assert not decision.ends


@pytest.mark.parametrize("state", list(PilotState))
def test_a_cap_holds_together_with_all_pilots_on_record(state: str) -> None:
    there = pilots(7, state, kind="other")
    demand = [kind(waiting=50), kind("other", 0)]
    assert sum(submitted(decided(demand, [queue(max_pilots=10)], there)).values()) == 3
    assert not submitted(decided(demand, [queue(max_pilots=7)], there))


def test_demand_that_is_unknown_is_not_zero() -> None:
    supply = pilots(10, "queued", since=0.0) + pilots(10, "idle", since=0.0)
    first = decided(None, [queue()], supply, now=1000.0)
    assert not first.ends
    assert not first.submissions
    later = decided(None, [queue()], supply, now=2000.0, memory=first.memory)
    assert not later.ends
    much = decided(None, [queue()], supply, now=3000.0, memory=later.memory)
    assert [end.pilot for end in much.ends] == [supply[0].key]
    assert "unknown for 2000 s" in much.ends[0].reason
    kept = decided(None, [queue()], supply, "[ Minimum = 19 ]", now=3000.0, memory=later.memory)
    assert len(kept.ends) == 1


@pytest.mark.parametrize("seconds", [10.0, 120.0])
def test_half_of_the_free_pilots_end_in_a_time_whatever_a_cycle_is(seconds: float) -> None:
    supply = pilots(100, "idle", since=0.0)
    memory: dict[str, object] = {"silent": 0.0}
    now = 1800.0
    while now <= 1800.0 + SILENT_HALF:
        decision = decided(None, [queue()], supply, now=now, memory=memory)
        ended = {end.pilot for end in decision.ends}
        supply = [pilot for pilot in supply if pilot.key not in ended]
        memory = dict(decision.memory)
        now += seconds
    assert len(supply) == pytest.approx(47, abs=3)


def test_jobs_of_a_silent_source_keep_pilots_and_ask_for_none() -> None:
    known = kind(waiting=5, silent=3)
    decision = decided([known], [queue()])
    assert submitted(decision) == {"ce": 2}
    idle = pilots(4, "idle", since=0.0)
    decision = decided([kind(waiting=3, silent=3)], [queue()], idle, now=1000.0)
    assert (len(decision.ends), submitted(decision)) == (1, {})
    (wait,) = decision.waits
    assert wait.reason == "their source is silent: nothing is submitted for them"


@pytest.mark.parametrize(
    ("state", "there"), [("queued", 5), ("idle", 5), ("queued", 2), ("queued", 0)]
)
def test_jobs_of_other_sources_get_pilots_beside_those_of_a_silent_one(
    state: str, there: int
) -> None:
    demand = [kind("good", waiting=6), kind("gone", waiting=3, silent=3)]
    decision = decided(demand, [queue()], pilots(there, state, since=990.0), now=1000.0)
    kept = min(there, 3)
    assert submitted(decision) == {"ce": 6 + kept - there}
    assert decision.ends == ()


def test_queued_pilots_end_before_idle_ones_and_busy_ones_never() -> None:
    supply = [
        *pilots(2, "idle", since=0.0),
        *pilots(2, "busy", since=0.0, kind="job"),
        *pilots(2, "starting", since=0.0),
        *pilots(2, "draining", since=0.0),
        *pilots(2, "queued", since=0.0),
    ]
    ends = decided([kind(waiting=0)], [queue()], supply).ends
    assert [end.pilot for end in ends] == [supply[n].key for n in (8, 9, 0, 1)]
    assert ends[0].reason == "queued for 1000 s, and no job needs it"


def test_pilots_end_only_when_they_were_not_needed_for_a_while() -> None:
    young = pilots(3, "idle", since=950.0) + pilots(3, "queued", since=500.0)
    assert not decided([kind(waiting=0)], [queue()], young).ends
    assert len(decided([kind(waiting=0)], [queue()], young, "[ Grace = 10 ]").ends) == 6


@pytest.mark.parametrize(("state", "graces"), [("idle", 1), ("queued", 10)])
def test_a_pilot_ends_as_soon_as_its_grace_is_over(state: str, graces: int) -> None:
    for age, ends in ((30.0 * graces - 1, 0), (30.0 * graces, 1)):
        there = pilots(1, state, since=1000.0 - age)
        assert len(decided([kind(waiting=0)], [queue()], there, "[ Grace = 30 ]").ends) == ends


def test_a_queue_whose_pilots_die_early_gets_a_probe_and_no_more() -> None:
    eats = queue(estimate=Estimate(failures=0.9, streak=3, probing=True))
    first = decided([kind(waiting=20)], [eats])
    assert submitted(first) == {"ce": 1}
    assert first.submissions[0].reason.startswith("a probe")
    away = decided([kind(waiting=20)], [eats], pilots(1, "queued"), memory=first.memory)
    assert not away.submissions
    assert "loses pilots" in away.held[0].reason
    soon = decided([kind(waiting=20)], [eats], now=1500.0, memory=first.memory)
    assert not soon.submissions
    due = decided([kind(waiting=20)], [eats], now=1700.0, memory=first.memory)
    assert submitted(due) == {"ce": 1}


@pytest.mark.parametrize(
    ("streak", "seconds"), [(3, 600.0), (4, 1200.0), (6, 4800.0), (9, 38_400.0), (30, 38_400.0)]
)
def test_the_next_probe_waits_twice_as_long_after_each_loss(streak: int, seconds: float) -> None:
    eats = queue(estimate=Estimate(failures=0.9, streak=streak, probing=True))
    first = decided([kind(waiting=20)], [eats], now=1000.0)
    for now, probes in ((1000.0 + seconds - 1, {}), (1000.0 + seconds, {"ce": 1})):
        found = decided([kind(waiting=20)], [eats], now=now, memory=first.memory)
        assert submitted(found) == probes


def test_jobs_that_run_are_no_demand() -> None:
    decision = decided([kind(waiting=2, running=7)], [queue()])
    assert submitted(decision) == {"ce": 2}


def test_every_refusal_has_a_reason() -> None:
    queues = [
        queue("shut", closed="in downtime"),
        queue("full", max_pilots=1),
        queue("bad", estimate=Estimate(probing=True, streak=5)),
        queue("not to be used"),
    ]
    supply = pilots(1, "busy", "full") + pilots(1, "queued", "bad")
    policy = '[ Use = TARGET.Queue != "not to be used" ]'
    decision = decided([kind(waiting=9)], queues, supply, policy)
    assert {held.queue for held in decision.held} == {one.key for one in queues}
    assert all(held.reason for held in decision.held)
    assert [wait.kind for wait in decision.waits] == ["job"]
    assert decision.waits[0].reason


# --- modes and selection (seed 001) ---------------------------------------------------------------


def test_the_minimum_is_kept_in_idle_mode() -> None:
    decision = decided([], [queue()], policy="[ Minimum = 4 ]")
    assert (decision.mode, submitted(decision)) == ("idle", {"ce": 4})
    enough = decided([], [queue()], pilots(6, "idle", since=0.0), "[ Minimum = 4 ]")
    assert len(enough.ends) == 2


def test_what_is_kept_ready_follows_the_application() -> None:
    policy = '[ Ready = TARGET.Job.Application == "view" ? 6 : 0 ]'
    demand = [kind("view", 0, ClassAd(Application="view"), arrived=1)]
    supply = pilots(8, "idle", since=0.0)
    decision = decided(demand, [queue()], supply, policy, memory={"now": 880.0})
    assert (decision.mode, len(decision.ends)) == ("active", 2)
    other = [kind("sim", 0, ClassAd(Application="sim"), arrived=1)]
    assert len(decided(other, [queue()], supply, policy, memory={"now": 880.0}).ends) == 8


def test_the_rate_of_arrivals_is_remembered() -> None:
    last = decided([kind(waiting=0)], [queue()], now=0.0)
    for now in range(120, 12000, 120):
        one = kind(waiting=0, arrived=12)
        last = decided([one], [queue()], now=float(now), memory=last.memory)
    supply = pilots(100, "idle", since=0.0)
    policy = "[ Ready = 600 * TARGET.Arrivals ]"
    kept = decided([kind(waiting=0)], [queue()], supply, policy, now=12000.0, memory=last.memory)
    assert 55 <= 100 - len(kept.ends) <= 60


def test_jobs_that_ask_at_some_queues_share_them_by_weight() -> None:
    queues = [queue("small", max_pilots=10), queue("large", max_pilots=90)]
    policy = "[ Everywhere = 0; Copies = 1; Weight = TARGET.Slots ]"
    assert submitted(decided([kind(waiting=50)], queues, policy=policy)) == {
        "small": 5,
        "large": 45,
    }
    one = [
        next(iter(submitted(decided([kind(waiting=1)], queues, policy=policy, seed=seed))))
        for seed in range(200)
    ]
    assert 5 <= one.count("small") <= 40


def test_a_share_that_found_a_queue_goes_there_until_its_pilot_starts() -> None:
    """Or each cycle would draw another queue, until all have one."""
    both = [queue("a"), queue("b")]
    for at in "ab":
        for seed in range(20):
            found = decided([kind(waiting=1)], both, pilots(1, "queued", at), seed=seed)
            assert not found.submissions


def test_the_first_jobs_ask_everywhere_and_the_others_at_some_queues() -> None:
    queues = [queue(f"ce{n}") for n in range(10)]
    policy = "[ Everywhere = 5; Copies = 2 ]"
    assert set(submitted(decided([kind(waiting=3)], queues, policy=policy)).values()) == {3}
    assert set(submitted(decided([kind(waiting=55)], queues, policy=policy)).values()) == {15}
    assert submitted(decided([kind(waiting=55)], queues[:1], policy=policy)) == {"ce0": 55}


def test_what_one_queue_has_no_room_for_is_asked_of_the_others() -> None:
    queues = [queue("small", max_queued=3), queue("large")]
    assert submitted(decided([kind(waiting=40)], queues)) == {"small": 3, "large": 37}


def test_the_scarcest_kind_takes_its_supply_first() -> None:
    wants = ClassAd(Requirements=parse_expr("TARGET.Memory >= 4000"))
    both = [queue("big", ClassAd(Memory=8000)), queue("small")]
    demand = [kind("any", 2), kind("large", 2, wants)]
    supply = pilots(2, "idle", "big") + pilots(2, "idle", "small")
    assert not decided(demand, both, supply).submissions


def test_the_excess_can_be_lent_to_batch_work() -> None:
    supply = pilots(3, "idle", since=0.0) + pilots(1, "queued", since=0.0)
    decision = decided([kind(waiting=0)], [queue()], supply, "[ Lend = TARGET.Batch ]")
    assert [(lend.pilot, lend.takes) for lend in decision.lends] == [
        (pilot.key, "TARGET.Batch") for pilot in supply[:3]
    ]
    assert [end.pilot for end in decision.ends] == [supply[3].key]


def test_a_queue_is_sent_no_more_than_its_batch_system_takes() -> None:
    slow, quick = queue("slow", rate=0.1), queue("quick", rate=10.0)
    found = decided([kind(waiting=5000)], [slow, quick], memory={"now": 880.0})
    assert submitted(found) == {"slow": 12, "quick": 1000}
    cycles = [decided([kind()], [slow], now=float(n), memory={"now": n - 1.0}) for n in range(100)]
    assert sum(len(one.submissions) for one in cycles) == 10
    least = decided([kind(waiting=5000)], [slow], policy="[ Limit = 4 ]", memory={"now": 0.0})
    assert submitted(least) == {"slow": 4}


def test_pilots_that_wait_are_cancelled_when_the_jobs_of_a_day_would_not_use_them() -> None:
    waiting = pilots(9, "queued", since=0.0)
    rare = {"now": 880.0, "rates": {"job": 2 / 86_400}}
    assert len(decided([kind(waiting=0)], [queue()], waiting, memory=rare).ends) == 7
    assert not decided([kind(waiting=9)], [queue()], waiting).ends
    gone = {"now": 880.0, "rates": {"other": 20 / 86_400}}
    assert not decided([kind(waiting=0)], [queue()], waiting, memory=gone).ends
    young = pilots(9, "queued", since=500.0)
    assert not decided([kind(waiting=0)], [queue()], young, memory=rare).ends
    assert len(decided([kind(waiting=9)], [queue()], pilots(2, "queued", "gone", 0.0)).ends) == 2


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("Use = TARGET.Pilot.Missing", "undefined"),
        ("Limit = 1 / 0", "error"),
        ('Limit = real("NaN")', "NaN"),
        ("Limit = -1", "-1"),
        ('Weight = "much"', "much"),
    ],
)
def test_a_queue_on_which_the_policy_makes_no_sense_is_left_out(term: str, found: str) -> None:
    name = term.partition(" ")[0]
    policy = f'[ {name} = TARGET.Queue == "bad" ? {term.partition("= ")[2]} : {{}} ]'
    policy = policy.format("true" if name == "Use" else "100")
    decision = decided([kind(waiting=4)], [queue("bad"), queue("good")], policy=policy)
    assert submitted(decision) == {"good": 4}
    [held] = decision.held
    assert held.queue == "bad"
    assert found in held.reason
    assert name in held.reason


@pytest.mark.parametrize("value", ["-5", 'real("NaN")', 'real("INF")', "undefined", "error", '"5"'])
@pytest.mark.parametrize(
    "term", ["Minimum", "Everywhere", "Copies", "Ready", "Grace", "SilentHold"]
)
def test_a_target_that_makes_no_sense_is_said_and_not_obeyed(term: str, value: str) -> None:
    policy = f"[ {term} = {value} ]"
    decision = decided([kind(waiting=4, running=1, arrived=4)], [queue()], policy=policy,
                       memory={"now": 900.0})  # fmt: skip
    assert submitted(decision) == {"ce": 4}
    silent = decided(None, [queue()], pilots(10, "idle"), policy, now=9000.0,
                     memory={"silent": 0.0})  # fmt: skip
    assert len(silent.ends) == 1
    assert any(term in note for note in (*decision.notes, *silent.notes))


@pytest.mark.parametrize("now", [-1e9, 0.0, 1e9, 1e18, math.inf, math.nan])
def test_a_clock_that_jumps_ends_nothing(now: float) -> None:
    supply = pilots(5, "idle", since=990.0, ends=5000.0) + pilots(5, "queued", since=990.0)
    before = decided([kind(waiting=0, arrived=10)], [queue()], supply, policy="[]")
    memory = {**before.memory, "now": 1000.0}
    jumped = decided([kind(waiting=0, arrived=10)], [queue()], supply, "[]", now=now, memory=memory)
    assert not jumped.ends
    assert jumped.notes
    assert jumped.memory["rates"] == before.memory["rates"]


@pytest.mark.parametrize(
    "memory",
    [
        {"now": "yesterday", "rates": 3, "probes": []},
        {"now": True, "rates": {"job": [1, 2], "x": -1}, "probes": {"ce": "x"}},
        {"now": math.nan, "rates": {"job": math.nan}, "silent": {}},
        {"rates": {"job": -1}},
    ],
)
def test_a_memory_that_is_spoiled_counts_as_none(memory: Any) -> None:
    fresh = decided([kind()], [queue()])
    assert decided([kind()], [queue()], memory=memory) == fresh
    assert not decided(None, [queue()], pilots(5, "idle"), memory=memory).ends


def test_kinds_and_pilots_with_odd_numbers_do_no_harm() -> None:
    odd = [kind("a", 2, wall=math.nan), kind("b", -3), kind("c", 2, wall=-5.0, oldest=math.nan)]
    supply = [
        *pilots(1, "queued", since=math.nan),
        *pilots(1, "idle", ends=math.nan, since=5e9),
        *pilots(2, "idle", "unknown"),
    ]
    decision = decided(odd, [queue(), queue("short", wall=math.nan)], supply)
    # Four jobs wait, and the pilots at the queue that is known serve two of them.
    assert sum(submitted(decision).values()) == 2
    assert not {end.pilot for end in decision.ends} & {supply[2].key}


def test_there_may_be_no_queue_no_kind_and_no_pilot() -> None:
    nothing = decided([], [])
    assert (nothing.submissions, nothing.ends, nothing.waits, nothing.held) == ((), (), (), ())
    assert decided([kind()], []).waits[0].reason == "there is no queue"
    assert not decided([], [queue()]).submissions
    assert len(decided([], [queue()], pilots(2, "idle", since=0.0)).ends) == 2


@pytest.mark.parametrize(("ready", "kept"), [(0.4, False), (0.6, True)])
def test_an_idle_pilot_is_kept_if_enough_of_it_is_wanted(ready: float, kept: bool) -> None:
    supply = pilots(1, "idle", since=0.0)
    past = {"now": 880.0, "rates": {"job": 0.01}}
    policy = f"[ Ready = {ready} ]"
    found = decided([kind(waiting=0, arrived=1)], [queue()], supply, policy, memory=past)
    assert bool(found.ends) != kept


def test_a_snapshot_and_a_decision_can_be_sent_to_another_process() -> None:
    snapshot = PilotSnapshot(now=0.0, demand=None, queues=())
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot  # noqa: S301 - our own bytes
    assert pickle.loads(pickle.dumps(Decision())) == Decision()  # noqa: S301


@pytest.mark.parametrize("pause", [0.0, 120.0])
def test_the_memory_forgets_kinds_and_queues_that_are_gone(pause: float) -> None:
    """Each cycle brings a new kind and a queue that fails: only what counts still is kept."""
    memory: Any = {}
    sizes = []
    for cycle in range(400):
        found = decided(
            [kind(f"job{cycle}", 1, arrived=1)],
            [queue(f"ce{cycle}", estimate=Estimate(failures=1.0, streak=4, probing=True))],
            now=pause * cycle,
            memory=memory,
        )
        assert found.submissions
        memory = found.memory
        sizes.append((len(memory["rates"]), len(memory["probes"])))
    assert max(probes for _, probes in sizes) <= 1
    # A rate is forgotten after six hours.
    assert max(rates for rates, _ in sizes) <= 200
    assert sizes[-1] == sizes[250]


def test_a_rate_counts_from_the_first_cycle() -> None:
    """Not as if nothing had come before the first decision."""
    first = decided([kind(waiting=0)], [queue()], now=0.0)
    one = kind(waiting=0, arrived=6)
    supply = pilots(20, "idle", since=-900.0)
    second = decided([one], [queue()], supply, "[]", now=120.0, memory=first.memory)
    assert len(second.ends) == 10


# --- the situations of docs/pilots.md -------------------------------------------------------------


def test_five_situations_with_the_defaults() -> None:
    eight = [queue(f"ce{n}") for n in range(8)]
    first = decided([kind(waiting=18)], eight, policy="[]")
    assert submitted(first) == {f"ce{n}": 12 for n in range(8)}
    there = [one for n in range(8) for one in pilots(12 if n else 2, "queued", f"ce{n}", 500.0)]
    later = decided([kind(waiting=8)], eight, there, policy="[]")
    assert (sum(submitted(later).values()), later.ends) == (6, ())
    waiting = pilots(3, "queued", since=0.0) + pilots(1, "idle", since=900.0)
    assert len(decided([kind(waiting=0)], [queue()], waiting, "[]").ends) == 4
    each_minute: Any = {"now": 880.0, "rates": {"job": 1 / 60}}
    idle = pilots(9, "idle", since=0.0)
    steady = decided([kind(waiting=0, arrived=2)], [queue()], idle, "[]", memory=each_minute)
    assert (len(steady.ends), steady.submissions) == (6, ())
    assert submitted(decided([kind(waiting=2)], [queue()], policy="[]")) == {"ce": 2}


@pytest.mark.parametrize("rate", [0.02, 0.99, 1e-300, -1.0, float("nan"), float("inf")])
def test_any_rate_gives_whole_pilots_and_an_end(rate: float) -> None:
    decision = decided([], [queue(rate=rate)], policy="[ Minimum = 70 ]")
    placed = submitted(decision).get("ce", 0)
    assert placed == {0.02: 1, 0.99: 59, float("inf"): 70}.get(rate, 0)


def test_a_memory_of_huge_numbers_is_no_memory() -> None:
    assert submitted(decided([kind(waiting=1)], [queue()], memory={"now": 10**400})) == {"ce": 1}
