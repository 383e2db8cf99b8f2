from __future__ import annotations

import random

import pytest

from matchmaker import ClassAd, parse_ad
from matchmaker.matching.selection import Selection, select

JOB = parse_ad(
    '[ Owner = "ana"; Requirements = other.Cpus >= 4 && other.Memory > 100; Rank = other.Speed ]'
)


def resources(**texts: str) -> list[tuple[str, ClassAd]]:
    return [(name, parse_ad(f"[ {text} ]")) for name, text in texts.items()]


def names(selection: Selection) -> list[str]:
    return [candidate.name for candidate in selection.ranked]


def test_best_is_first_and_chosen() -> None:
    found = select(
        JOB,
        resources(
            slow="Cpus = 8; Memory = 200; Speed = 1",
            fast="Cpus = 8; Memory = 200; Speed = 9.5",
            also="Cpus = 8; Memory = 200; Speed = 1",
        ),
    )
    assert names(found) == ["fast", "also", "slow"]
    assert found.chosen == found.ranked[0]
    assert found.chosen is not None
    assert found.chosen.rank == 9.5
    assert found.refused == ()


def test_nothing_to_choose_from() -> None:
    found = select(JOB, [])
    assert (found.ranked, found.refused, found.chosen) == ((), (), None)


def test_each_refusal_says_who_and_why_in_the_order_of_the_resources() -> None:
    found = select(
        JOB,
        resources(
            few="Cpus = 2; Memory = 200; Speed = 1",
            closed='Cpus = 4; Memory = 200; Speed = 1; Requirements = other.Owner != "ana"',
            good="Cpus = 4; Memory = 200; Speed = 1",
            odd='Cpus = 4; Memory = 200; Speed = "fast"',
            bare="Cpus = 4",
        ),
    )
    assert names(found) == ["good"]
    assert [(r.name, r.by, r.reason) for r in found.refused] == [
        ("few", "job", "the job refuses: other.Cpus >= 4 is false (Cpus = 2)"),
        (
            "closed",
            "resource",
            'it refuses the job: other.Owner != "ana" is false (Owner = "ana")',
        ),
        ("odd", "rank", 'the job\'s rank of it is string, not a number: Speed is "fast"'),
        ("bare", "job", "the job refuses: other.Memory > 100 is undefined (Memory = undefined)"),
    ]
    assert [str(r.clause.expression) if r.clause else None for r in found.refused] == [
        "other.Cpus >= 4",
        'other.Owner != "ana"',
        "other.Speed",
        "other.Memory > 100",
    ]


@pytest.mark.parametrize("rank", ['"x"', "undefined", "error", 'real("NaN")', "{ 1 }"])
def test_a_default_rank_stands_for_one_that_is_no_number(rank: str) -> None:
    job = parse_ad("[ Rank = other.Speed ]")
    found = select(job, resources(odd=f"Speed = {rank}", low="Speed = -1", high="Speed = 1"), 0.0)
    assert [(c.name, c.rank) for c in found.ranked] == [("high", 1.0), ("odd", 0.0), ("low", -1.0)]
    refused = select(job, resources(odd=f"Speed = {rank}"))
    assert [r.by for r in refused.refused] == ["rank"]


def test_ties_by_chance_keep_what_is_better_in_front() -> None:
    nodes = resources(**{f"n{i}": f"Speed = {1 if i else 5}" for i in range(6)})
    job = parse_ad("[ Rank = other.Speed ]")
    orders = {tuple(names(select(job, nodes, tie=random.Random(seed)))) for seed in range(20)}
    assert len(orders) > 1
    assert {found[0] for found in orders} == {"n0"}


def test_resources_are_read_once() -> None:
    found = select(JOB, iter(resources(a="Cpus = 4; Memory = 200; Speed = 1")))
    assert names(found) == ["a"]


def test_the_job_is_left_as_it_was() -> None:
    before = str(JOB)
    select(JOB, resources(a="Cpus = 4; Memory = 200; Speed = 1"))
    assert str(JOB) == before
