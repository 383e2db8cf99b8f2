"""Laws of the decision about pilots, on random pools."""

from __future__ import annotations

from collections import Counter

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, parse_expr
from matchmaker.pilots import (
    Demand,
    Estimate,
    Pilot,
    PilotQueue,
    PilotSnapshot,
    PilotState,
    PolicyAd,
    decide,
)

WANTS = parse_expr("TARGET.Size >= MY.Want")
SIZES = [ClassAd(Size=size) for size in range(4)]
WANTED = [ClassAd(Want=want, Requirements=WANTS) for want in range(4)]
FREE = {PilotState.QUEUED, PilotState.STARTING, PilotState.IDLE}
STRICT = PolicyAd("[ Ready = 0; Everywhere = 0; Copies = 1 ]")

demands = st.lists(
    st.builds(
        lambda want, waiting, running, wall: Demand(
            key=f"{want}", ad=WANTED[want], waiting=waiting, running=running, wall=wall
        ),
        want=st.integers(0, 3),
        waiting=st.integers(0, 12),
        running=st.integers(0, 3),
        wall=st.sampled_from([0.0, 600.0, 7200.0]),
    ),
    max_size=4,
    unique_by=lambda one: one.key,
).map(tuple)
limits = st.none() | st.integers(0, 9)
estimates = st.sampled_from(
    [
        Estimate(),
        Estimate(median=60.0, late=300.0, started=10, failures=0.0),
        Estimate(median=900.0, started=3),
        Estimate(failures=1.0, streak=4, probing=True),
    ]
)
queues = st.lists(
    st.builds(
        lambda size, **more: PilotQueue(key=f"q{size}", pilot=SIZES[size], **more),
        size=st.integers(0, 3),
        wall=st.sampled_from([3600.0, float("inf")]),
        max_queued=limits,
        max_pilots=limits,
        estimate=estimates,
        closed=st.sampled_from(["", "", "downtime"]),
    ),
    max_size=4,
    unique_by=lambda one: one.key,
).map(tuple)
some_pilots = st.lists(
    st.builds(
        Pilot,
        key=st.just(""),
        queue=st.sampled_from(["q0", "q1", "q2", "q3"]),
        state=st.sampled_from(PilotState),
        since=st.sampled_from([0.0, 800.0, 990.0]),
        ends=st.sampled_from([1300.0, 90_000.0]),
        kind=st.sampled_from(["0", "1", "3"]),
    ),
    max_size=12,
).map(lambda found: tuple(attrs.evolve(p, key=str(n)) for n, p in enumerate(found)))
snapshots = st.builds(
    PilotSnapshot, now=st.just(1000.0), demand=demands, queues=queues, pilots=some_pilots
)
CASES = settings(max_examples=25, deadline=None)


@CASES
@given(snapshots, st.integers(0, 9))
def test_the_same_snapshot_and_seed_give_the_same_decision(
    snapshot: PilotSnapshot, seed: int
) -> None:
    assert decide(snapshot, STRICT, seed) == decide(snapshot, STRICT, seed)


@CASES
@given(snapshots, st.integers(0, 5))
def test_no_pilot_without_a_job_unless_the_minimum_asks(
    snapshot: PilotSnapshot, least: int
) -> None:
    policy = PolicyAd({**STRICT.ad, "Minimum": least})
    jobs = sum(one.waiting for one in snapshot.demand or ())
    submitted = sum(one.count for one in decide(snapshot, policy).submissions)
    assert submitted <= max(jobs, least)


@CASES
@given(snapshots, st.sampled_from(["[]", "[ Minimum = 30; Everywhere = 7 ]"]), st.data())
def test_caps_hold_at_any_interleaving_of_replies(
    snapshot: PilotSnapshot, policy: str, data: st.DataObject
) -> None:
    """Submissions are on record at once, and appear as queued or running in any order."""
    terms = PolicyAd(policy)
    began = Counter(pilot.queue for pilot in snapshot.pilots)
    for _ in range(3):
        found = decide(snapshot, terms)
        wait = Counter(one.queue for one in snapshot.pilots if one.state is PilotState.QUEUED)
        sent = Counter({one.queue: one.count for one in found.submissions})
        for queue in snapshot.queues:
            if queue.max_queued is not None:
                assert sent[queue.key] <= max(queue.max_queued - wait[queue.key], 0)
        new = [
            Pilot(key=f"{snapshot.now} {one.queue} {n}", queue=one.queue, state=state, since=1000.0)
            for one in found.submissions
            for n in range(one.count)
            if (state := data.draw(st.sampled_from(list(PilotState))))
        ]
        ended = {end.pilot for end in found.ends}
        kept = [pilot for pilot in snapshot.pilots if pilot.key not in ended]
        snapshot = attrs.evolve(
            snapshot, now=snapshot.now + 120, pilots=(*kept, *new), memory=found.memory
        )
        there = Counter(pilot.queue for pilot in snapshot.pilots)
        for queue in snapshot.queues:
            if queue.max_pilots is not None:
                assert there[queue.key] <= max(queue.max_pilots, began[queue.key])


@CASES
@given(snapshots, some_pilots.map(lambda found: found[:1]), st.sampled_from(list(FREE)))
def test_more_supply_never_raises_submissions(
    snapshot: PilotSnapshot, more: tuple[Pilot, ...], state: PilotState
) -> None:
    new = tuple(attrs.evolve(p, key=f"new {p.key}", state=state, since=990.0) for p in more)
    fuller = attrs.evolve(snapshot, pilots=(*snapshot.pilots, *new))
    before = sum(one.count for one in decide(snapshot, STRICT).submissions)
    assert sum(one.count for one in decide(fuller, STRICT).submissions) <= before


@CASES
@given(snapshots, st.booleans())
def test_a_busy_pilot_is_never_ended(snapshot: PilotSnapshot, known: bool) -> None:
    seen = attrs.evolve(
        snapshot,
        now=1e5,
        demand=snapshot.demand if known else None,
        memory={"now": 1e5 - 120, "silent": 0.0},
    )
    found = decide(seen)
    idle = {p.key for p in seen.pilots if p.state in {PilotState.IDLE, PilotState.QUEUED}}
    assert {end.pilot for end in found.ends} <= idle


@CASES
@given(snapshots)
def test_a_kind_that_waits_is_served_or_has_a_reason(snapshot: PilotSnapshot) -> None:
    """Within ten cycles each kind that an open queue could run has supply, or a limit is met."""
    policy = STRICT
    for _ in range(10):
        found = decide(snapshot, policy)
        new = tuple(
            Pilot(key=f"{snapshot.now} {s.queue} {n}", queue=s.queue,
                  state=PilotState.QUEUED, since=snapshot.now)
            for s in found.submissions for n in range(s.count)
        )  # fmt: skip
        ended = {end.pilot for end in found.ends}
        kept = tuple(pilot for pilot in snapshot.pilots if pilot.key not in ended)
        snapshot = attrs.evolve(
            snapshot, now=snapshot.now + 120, pilots=kept + new, memory=found.memory
        )
    waits = {wait.kind: wait.reason for wait in decide(snapshot, policy).waits}
    there = Counter(pilot.queue for pilot in snapshot.pilots)
    for kind in snapshot.demand or ():
        if kind.waiting <= 0:
            continue
        assert waits[kind.key]
        able = [
            queue
            for queue in snapshot.queues
            if not queue.closed
            and not queue.estimate.probing
            and queue.wall >= kind.wall
            and int(queue.key[1:]) >= int(kind.key)
        ]
        room = [
            queue
            for queue in able
            if (queue.max_pilots is None or queue.max_pilots > there[queue.key])
            and (queue.max_queued is None or queue.max_queued > there[queue.key])
        ]
        # Elsewhere, as in a queue that was closed meanwhile, there may be pilots that serve it too.
        supplied = waits[kind.key] == "pilots that are idle or starting"
        served = supplied or any(there[queue.key] for queue in able)
        assert served or not room, waits[kind.key]
