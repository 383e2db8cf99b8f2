"""Two delegators, one job: every interleaving, and mistakes that the search must find."""

from __future__ import annotations

import os

import attrs
import pytest

from tests.delegation import model
from tests.delegation.model import World, search
from tests.delegation.planted import PLANTED, planted

DEEP = "MODEL_LEASE" in os.environ
"""`make nightly` also kills each delegator once, and wipes the queue, while a job is paused."""

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """What the moves made of a row is remembered: not from one table to another."""
    model._step.cache_clear()
    model._after_reply.cache_clear()


def test_no_interleaving_starts_a_job_twice_or_loses_it() -> None:
    found = search(World(kills=(1, 1)))
    assert found.wrong == "", found.way
    assert found.endless == 0
    assert found.ends >= {"done", "cancelled"}
    assert "paused" in found.seen
    assert found.states > 100_000


def test_no_interleaving_of_a_pause_starts_a_job_twice_or_loses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Submissions that make no job, one attempt, then paused and resumed: one attempt more."""
    monkeypatch.setattr(model, "DEADLINES", attrs.evolve(model.DEADLINES, attempts=1))
    kills = (1, 1) if DEEP else (0, 0)
    found = search(World(kills=kills, wipes=int(DEEP), misses=1, refusals=1, resumes=1))
    assert found.wrong == "", found.way
    assert found.endless == 0
    assert found.ends >= {"done", "failed", "cancelled"}
    assert "paused" in found.seen


@pytest.mark.parametrize("name", sorted(PLANTED.keys() - {"holds end unnoticed"}))
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "DEADLINES", attrs.evolve(model.DEADLINES, lease=6))
    with planted(name) as wanted:
        found = search(World(kills=(0, 0), wipes=int("absence" in name)))
    assert found.wrong in {wanted, "failed, and it runs or ended well"}, found
