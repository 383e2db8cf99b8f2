"""An ad within its allowance has in a pool what a pair gives; one beyond it, that or ERROR."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, match
from matchmaker.classad import reference
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.nodes import Expr
from matchmaker.matching.columns import evaluator, step_budget
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.limits import LIMITS
from matchmaker.matching.ranking import rank_number
from matchmaker.matching.snapshot import Snapshot
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
@settings(max_examples=150)
def test_an_ad_within_its_allowance_has_what_a_pair_gives(
    job: ClassAd, ads: list[ClassAd], each: int, flat: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(fields(LIMITS), "each", each)
        patched.setitem(fields(LIMITS), "flat", flat)
        most = step_budget.allowance(len(ads))
        cache = Cache()
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


def within(name: str, ad: ClassAd, other: ClassAd, most: int) -> bool:
    """Whether an attribute takes no more than the allowance."""
    held = ad.content.get(name)
    return not isinstance(held, Expr) or evaluate_counted(held, ad, other, name)[1].steps <= most
