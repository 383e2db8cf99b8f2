from __future__ import annotations

import math
import random

import pytest

from matchmaker.classad.values import ERROR, UNDEFINED, Value
from matchmaker.matching.ranking import best_first, rank_number


@pytest.mark.parametrize(
    ("rank", "number"),
    [
        (3, 3.0),
        (-2.5, -2.5),
        (True, 1.0),
        (False, 0.0),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        (2**63 - 1, float(2**63 - 1)),
    ],
)
def test_numbers_and_booleans_rank(rank: Value, number: float) -> None:
    found = rank_number(rank)
    assert found == number
    assert isinstance(found, float)


@pytest.mark.parametrize("rank", [math.nan, "3", "", [3], UNDEFINED, ERROR])
def test_nothing_else_ranks(rank: Value) -> None:
    assert rank_number(rank) is None


def order(items: str, tie: random.Random | None = None) -> list[str]:
    """Items such as ``b3``: named b, of rank 3."""
    return best_first(items.split(), lambda i: float(i[1:]), lambda i: i[0], tie)


def test_best_first_and_equals_by_name() -> None:
    assert order("b3 a3 c9 d-1 a9") == ["a9", "c9", "a3", "b3", "d-1"]
    assert order("") == []


def test_infinite_ranks_have_their_place() -> None:
    assert order("a1 binf c-inf") == ["binf", "a1", "c-inf"]


def test_a_tie_is_broken_by_chance_only_among_equals() -> None:
    orders = {tuple(order("a1 b1 c1 d5 e0", random.Random(seed))) for seed in range(60)}
    assert all(found[0] == "d5" and found[-1] == "e0" for found in orders)
    # Three equals have six orders, and chance finds each of them.
    assert len(orders) == 6


def test_the_same_chance_gives_the_same_order_however_the_input_is_ordered() -> None:
    assert order("a1 b1 c1 d1", random.Random(3)) == order("d1 b1 a1 c1", random.Random(3))
