"""Random schedules of faults: no job is lost, no payload starts twice."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.delegation.machine import Transfers
from tests.delegation.planted import PLANTED, planted

SCHEDULES = int(os.environ.get("DELEGATION_SCHEDULES", "1000"))
MANY = settings(
    max_examples=SCHEDULES, stateful_step_count=50, deadline=None,
    suppress_health_check=list(HealthCheck), print_blob=True,
)  # fmt: skip


def test_no_job_is_lost_and_none_starts_twice() -> None:
    run_state_machine_as_test(Transfers, settings=MANY)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    few = settings(
        MANY, max_examples=2000, database=None, print_blob=False, derandomize=True,
        phases=[Phase.generate],
    )  # fmt: skip
    with planted(name) as found, pytest.raises(AssertionError, match=found):
        run_state_machine_as_test(Transfers, settings=few)


class Unfenced(Transfers):
    """The same without records of starts: the batch system's word must do."""

    fenced = False


def test_without_records_no_payload_starts_twice() -> None:
    run_state_machine_as_test(Unfenced, settings=settings(MANY, max_examples=SCHEDULES // 10))
