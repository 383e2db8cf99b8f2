"""Two delegators, one job: every interleaving, and mistakes that the search must find."""

from __future__ import annotations

import pytest

from tests.delegation import model
from tests.delegation.model import World, search
from tests.delegation.planted import PLANTED, planted


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """What the moves made of a row is remembered: not from one table to another."""
    model._step.cache_clear()
    model._after_reply.cache_clear()


def test_no_interleaving_starts_a_job_twice_or_loses_it() -> None:
    found = search(World(kills=(1, 0)))
    assert found.wrong == "", found.way
    assert found.endless == 0
    assert found.ends >= {"done", "failed", "cancelled"}
    assert found.states > 10_000


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_planted_fault_is_found(name: str) -> None:
    with planted(name) as wanted:
        found = search(World(kills=(1, 0), wipes=1, wishes=1))
    assert wanted in found.wrong or (wanted == "past its deadline" and found.endless), found
