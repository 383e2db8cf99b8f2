"""Random schedules of faults: no job is lost, no payload starts twice."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.delegation.machine import Transfers
from tests.delegation.nightly import schedule
from tests.delegation.planted import PLANTED, planted

pytestmark = pytest.mark.slow

SCHEDULES = int(os.environ.get("DELEGATION_SCHEDULES", "400"))
MANY = settings(
    max_examples=SCHEDULES, stateful_step_count=50, deadline=None,
    suppress_health_check=list(HealthCheck), print_blob=True,
)  # fmt: skip


def test_no_job_is_lost_and_none_starts_twice() -> None:
    run_state_machine_as_test(Transfers, settings=MANY)


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_planted_fault_is_found(name: str) -> None:
    """By the schedules of the nightly run, each of which is made by its number alone."""
    with planted(name) as found, pytest.raises(AssertionError, match=f"{found}|it ended well"):
        _schedules(300)


def _schedules(most: int) -> None:
    for number in range(most):
        schedule(number)
