"""The protocol of claims: pilots interleaved at every step, killed, broken off and lied to."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from matchmaker.pilots.store.plan import StorePlan, input_state
from tests.pilots.store.simulated import Fault, Trouble, World

CASES = int(os.environ.get("STORE_CASES", "60"))
rates = st.sampled_from([0.0, 0.01, 0.1, 0.3])
few = st.sampled_from([0.0, 0.002, 0.02])
troubles = st.builds(
    Trouble, lost=rates, doubtful=rates, killed=few, old=rates, silent=rates, gone=few
)


def lived(
    seed: int, trouble: Trouble, *, pilots: int, parameters: int, inputs: int = 1,
    folders: bool = True, again: float = 60.0, attempts: int = 3, ttl: float = 20.0,
) -> World:  # fmt: skip
    """A world in which as many pilots as are needed have begun, and none is left."""
    plan = StorePlan(
        command=("f",), parameters=tuple(map(str, range(parameters))), ttl=ttl, again=again,
        attempts=attempts,
    )  # fmt: skip
    world = World(plan, Random(seed), trouble, folders)
    world.inputs = [f"i{number}" for number in range(inputs)]
    for number in range(pilots):
        world.begin(f"first{number}")
    world.live()
    # Who starts pilots starts others where they were killed; the storage is well by then.
    world.trouble = attrs.evolve(trouble, lost=0.0, doubtful=0.0, killed=0.0, gone=0.0, old=0.0)
    world.begin("last")
    world.live()
    return world


@settings(max_examples=CASES, deadline=None)
@given(
    seed=st.integers(0, 2**32), trouble=troubles, pilots=st.integers(1, 5),
    parameters=st.integers(1, 8), inputs=st.integers(1, 3), folders=st.booleans(),
)  # fmt: skip
@example(
    seed=1, trouble=Trouble(lost=0.3, doubtful=0.3), pilots=5, parameters=8, inputs=1, folders=True
)
def test_each_result_is_stored_once_whatever_happens(  # noqa: PLR0917 - each is drawn
    seed: int, trouble: Trouble, pilots: int, parameters: int, inputs: int, folders: bool
) -> None:
    world = lived(
        seed, trouble, pilots=pilots, parameters=parameters, inputs=inputs, folders=folders
    )
    assert world.problems == []
    assert sorted(world.results) == sorted(
        f"work/i{number}/votes{each}.txt" for number in range(inputs) for each in range(parameters)
    )
    assert world.finished == set(world.inputs)
    assert world.ended[-1].ended == "all is done"


@settings(max_examples=CASES, deadline=None)
@given(
    seed=st.integers(0, 2**32), killed=few, doubtful=rates, pilots=st.integers(1, 5),
    parameters=st.integers(1, 20),
)  # fmt: skip
def test_a_killed_pilot_costs_one_run(
    seed: int, killed: float, doubtful: float, pilots: int, parameters: int
) -> None:
    trouble = Trouble(killed=killed, doubtful=doubtful)
    world = lived(seed, trouble, pilots=pilots, parameters=parameters, again=1e9, ttl=300.0)
    assert len(set(world.results)) == parameters
    assert len(world.runs) <= parameters + world.killed
    assert len(world.completed) <= parameters + world.killed
    if not world.killed:
        assert Counter(world.runs).most_common(1)[0][1] == 1
        assert sum(tally.taken_over for tally in world.ended) == 0


@settings(max_examples=CASES, deadline=None)
@given(seed=st.integers(0, 2**32), pilots=st.integers(1, 5), parameters=st.integers(1, 20))
def test_what_others_run_for_long_is_run_again_but_by_two_at_most(
    seed: int, pilots: int, parameters: int
) -> None:
    world = lived(seed, Trouble(), pilots=pilots, parameters=parameters, again=2.0)
    runs = Counter(claim.parameter for claim in world.runs)
    assert world.together <= 2
    assert len(world.results) == parameters
    assert sum(t.stored for t in world.ended) == parameters
    assert sum(t.duplicates for t in world.ended) == len(world.runs) - parameters
    assert sum(t.repeated for t in world.ended) == len(world.runs) - parameters
    # The last few: each pilot that has nothing to do repeats one at a time.
    assert sum(count > 1 for count in runs.values()) <= max(0, 2 * (pilots - 1))


@settings(max_examples=CASES // 2, deadline=None)
@given(seed=st.integers(0, 2**32), pilots=st.integers(1, 4), attempts=st.integers(1, 3))
def test_what_always_fails_is_given_up(seed: int, pilots: int, attempts: int) -> None:
    world = lived(seed, Trouble(failed=1.0), pilots=pilots, parameters=3, attempts=attempts)
    assert world.problems == []
    assert world.results == []
    assert world.finished == set()
    last = world.ended[-1]
    if pilots + 1 >= attempts:
        assert (last.ended, last.given_up, last.failed_here) == ("given up", 3, 0)
    else:
        ended = "what is left failed on this node"
        assert (last.ended, last.given_up, last.failed_here) == (ended, 0, 3)
    assert len(world.runs) <= 3 * attempts * (pilots + 1)


@settings(max_examples=CASES, deadline=None)
@given(
    seed=st.integers(0, 2**32), trouble=troubles, failed=st.sampled_from([0.1, 0.5, 1.0]),
    nodes=st.integers(1, 3), pilots=st.integers(1, 3), attempts=st.integers(1, 3),
)  # fmt: skip
def test_failures_count_by_node_and_none_is_lost(  # noqa: PLR0917 - each is drawn
    seed: int, trouble: Trouble, failed: float, nodes: int, pilots: int, attempts: int
) -> None:
    world = World(
        StorePlan(
            command=("f",), parameters=tuple("abcd"), ttl=20.0, again=60.0, attempts=attempts
        ),
        Random(seed), attrs.evolve(trouble, failed=failed), folders=False, inputs=["i"],
    )  # fmt: skip
    for number in range(nodes * pilots):
        world.begin(f"p{number}", f"n{number % nodes}")
    world.live()
    assert world.problems == []
    world.trouble = Trouble()
    found = input_state(world.plan, world.listing("i") or ())
    for parameter in world.plan.parameters:
        happened = world.failed.get(("i", parameter), Counter())
        noted = Counter(found.failures.get(parameter, {}))
        # Who was killed may not have noted its last.
        assert noted <= happened
        assert (happened - noted).total() <= world.killed
        assert (parameter in found.given_up) == (
            len(noted) >= attempts and parameter not in found.done
        )


@settings(max_examples=CASES, deadline=None)
@given(
    seed=st.integers(0, 2**32), trouble=troubles, parameters=st.integers(1, 30),
    bad=st.integers(1, 3), most=st.sampled_from([0, 1, 3, 10]),
    fault=st.sampled_from(["run", "start", "node"]),
)  # fmt: skip
def test_one_bad_node_costs_no_parameter(  # noqa: PLR0917 - each is drawn
    seed: int, trouble: Trouble, parameters: int, bad: int, most: int, fault: Fault
) -> None:
    plan = StorePlan(command=("f",), parameters=tuple(map(str, range(parameters))), ttl=20.0,
                again=60.0, attempts=2)  # fmt: skip
    world = World(plan, Random(seed), trouble, inputs=["i"], most=most, fault=fault)
    for number in range(bad):
        world.begin(f"bad{number}", "bad", bad=True)
    world.begin("first")
    world.live()
    world.trouble = Trouble()
    world.begin("badlast", "bad", bad=True)
    world.begin("last")
    world.live()
    assert world.problems == []
    assert len(world.results) == parameters
    assert all(tally.given_up == 0 for tally in world.ended)
    if fault != "run":
        assert world.put("work/i/failed", b"") is (world.finished != {"i"})
        assert sum(sum(each.values()) for each in world.failed.values()) <= bad + 1
    elif most:
        # Each of its pilots leaves after so many, or where nothing is left for it.
        assert sum(sum(each.values()) for each in world.failed.values()) <= (bad + 1) * (
            most - 1 + plan.attempts * most
        )


@settings(max_examples=CASES // 2, deadline=None)
@given(
    seed=st.integers(0, 2**32), pilots=st.integers(1, 4), parameters=st.integers(1, 40),
    fault=st.sampled_from(["run", "start", "node"]),
)  # fmt: skip
def test_on_a_single_node_all_ends_also_where_nothing_works(
    seed: int, pilots: int, parameters: int, fault: Fault
) -> None:
    plan = StorePlan(command=("f",), parameters=tuple(map(str, range(parameters))))
    world = World(plan, Random(seed), Trouble(), inputs=["i"], fault=fault)
    for number in range(pilots):
        world.begin(f"p{number}", "one", bad=True)
    world.live()
    assert (world.problems, world.results, world.finished) == ([], [], set())
    assert len(world.ended) == pilots
    for tally in world.ended:
        assert tally.given_up == 0
        if fault != "run":
            assert (tally.ended, tally.failed) == ("it could not start a program", 0)
        elif tally.ended != "too many failures in a row":
            assert (tally.ended, tally.failed_here) == (
                "what is left failed on this node", parameters
            )  # fmt: skip


def test_one_listing_a_round_not_one_a_claim() -> None:
    world = lived(7, Trouble(), pilots=16, parameters=1000, again=1e9)
    assert len(world.results) == len(world.runs) == 1000
    assert world.listings < 250
