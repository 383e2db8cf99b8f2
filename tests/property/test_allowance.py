"""An ad within its allowance has in a pool what a pair gives; one beyond it, that or ERROR."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, match, parse_ad
from matchmaker._limits import POOL_LIMITS as LIMITS
from matchmaker.classad import reference, state
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.nodes import Expr
from matchmaker.matching.columns import evaluator
from matchmaker.matching.columns.masks import MaskCache
from matchmaker.matching.columns.store import Store
from matchmaker.matching.ranking import rank_number
from matchmaker.matching.snapshot import Snapshot
from tests.cases import cases
from tests.limits import fields
from tests.property.test_columns import jobs, pools, viewed


@pytest.fixture(autouse=True, scope="module")
def by_columns() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(evaluator, "FEW_ROWS", 0)
        # What an expression takes changes a little when a function is made of it.
        patched.setattr(reference, "COMPILE_AFTER", 1 << 60)
        yield


@given(jobs, pools(), st.integers(3, 40), st.sampled_from([0, 100, 1000]))
@settings(max_examples=cases(150))
def test_an_ad_within_its_allowance_has_what_a_pair_gives(
    job: ClassAd, ads: list[ClassAd], each: int, flat: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(fields(LIMITS), "each", each)
        patched.setitem(fields(LIMITS), "flat", flat)
        most = evaluator.allowance(len(ads))
        cache = MaskCache()
        for _ in range(2):
            found = Snapshot(viewed(ads), cache).match(job)
            ranks = dict(zip(found.rows, found.ranks, strict=True))
            for row, ad in enumerate(ads):
                outcome = match(job, ad)
                if within("requirements", job, ad, most) and within("requirements", ad, job, most):
                    assert (row in ranks) == outcome.matched
                assert row not in ranks or outcome.matched
                if row in ranks and within("rank", job, ad, most):
                    rank = rank_number(outcome.rank) or 0.0
                    assert ranks[row] == rank or math.isnan(rank)


@given(jobs, pools(), st.randoms(use_true_random=False), st.sampled_from([12, 80]))
@settings(max_examples=cases(100))
def test_an_answer_does_not_depend_on_the_order_of_the_ads(
    job: ClassAd, ads: list[ClassAd], chance: Random, limit: int
) -> None:
    numbered = list(enumerate(ads))
    shuffled = chance.sample(numbered, len(numbered))
    for flat in (10_000_000, chance.randrange(1000)):
        with few_steps(limit, flat):
            assert answers(job, shuffled) == answers(job, numbered)


@pytest.mark.parametrize("flat", range(20, 100, 10))
def test_what_goes_wrong_by_columns_alone_is_no_error_of_a_row(flat: int) -> None:
    asking = "[ a = 0; b = 0; c = 0; Cpus = 0; Requirements = a == a ]"
    ads = [ClassAd() for _ in range(6)] + list(map(parse_ad, ["[ a = a == a ]", asking]))
    numbered = list(enumerate(ads))
    with few_steps(80, flat):
        expected = answers(ClassAd(), numbered)
        assert answers(ClassAd(), [numbered[n] for n in (6, 7, 3, 0, 2, 5, 1, 4)]) == expected


@contextmanager
def few_steps(limit: int, flat: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(state.Budget, "limit", limit)
        patched.setitem(fields(LIMITS), "flat", flat)
        patched.setitem(fields(LIMITS), "each", 0)
        yield


def answers(job: ClassAd, ads: list[tuple[int, ClassAd]]) -> tuple[object, ...]:
    """What a pool of numbered ads gives for a job, whatever their order."""
    store = Store()
    store.extend((str(number), ad) for number, ad in ads)
    found = Snapshot(store.view(), MaskCache()).match(job)
    matched = sorted(zip(found.keys, found.ranks, strict=True))
    return matched, set(found.unranked), found.error is None


def within(name: str, ad: ClassAd, other: ClassAd, most: int) -> bool:
    """Whether an attribute takes no more than the allowance."""
    held = ad._held.get(name)
    return not isinstance(held, Expr) or evaluate_counted(held, ad, other, name)[1].steps <= most
