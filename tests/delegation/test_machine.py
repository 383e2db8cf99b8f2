"""Random schedules of faults: no job is lost, no payload starts twice."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.delegation.machine import Transfers
from tests.delegation.planted import planted

pytestmark = pytest.mark.slow

SCHEDULES = int(os.environ.get("DELEGATION_SCHEDULES", "1000"))
MANY = settings(
    max_examples=SCHEDULES, stateful_step_count=50, deadline=None,
    suppress_health_check=list(HealthCheck), print_blob=True,
)  # fmt: skip


def test_no_job_is_lost_and_none_starts_twice() -> None:
    run_state_machine_as_test(Transfers, settings=MANY)


@pytest.mark.parametrize(
    ("name", "number"),
    [("no answer is absence", 1), ("absence is completion", 1), ("holds end unnoticed", 1)],
)
def test_a_planted_fault_is_found(name: str, number: int) -> None:
    """With a seed that finds it soon; others take longer."""
    few = settings(MANY, database=None, print_blob=False, phases=[Phase.generate])
    with planted(name) as found, pytest.raises(AssertionError, match=found):
        run_state_machine_as_test(seed(number)(Planted), settings=few)


class Planted(Transfers):
    """The same; a seed is of a class."""


class Unfenced(Transfers):
    """The same without records of starts: the batch system's word must do."""

    fenced = False


def test_without_records_no_payload_starts_twice() -> None:
    run_state_machine_as_test(Unfenced, settings=settings(MANY, max_examples=SCHEDULES // 10))
