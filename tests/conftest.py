"""Rules that hold for every test: services, hypothesis profiles, shared fixtures.

A test marked ``service`` needs real servers, which its fixtures start. Where a server cannot be
started, the fixture calls ``pytest.skip`` with the reason, and ``pytest -rs`` shows it. Under
``CI=true`` the same skip is a failure, so that a run nobody watches never passes by testing less.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from matchmaker.reduction.paranoid import paranoid
from tests.oracle import figures
from tests.services.gridengine import gridengine
from tests.services.slurm import slurm

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# Fixtures that every folder of tests may ask for.
__all__ = ["gridengine", "slurm"]

# Folders whose tests run in paranoid mode.
PARANOID = {"reduction", "golden", "batch"}

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

# No test depends on the speed of the machine: no deadline, no check on slow generation.
settings.register_profile(
    "dev", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
# The same examples in every run, so that a red run is about the change at hand.
settings.register_profile(
    "ci", parent=settings.get_profile("dev"), derandomize=True, database=None, print_blob=True
)
# For a long search by hand: pytest --hypothesis-profile=thorough
settings.register_profile("thorough", parent=settings.get_profile("dev"), max_examples=5000)
settings.load_profile("ci" if IN_CI else "dev")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI, turn the skip of a service test into a failure that keeps the reason."""
    report = yield
    if (
        IN_CI
        and report.skipped
        and not hasattr(report, "wasxfail")
        and (item.get_closest_marker("service") is not None or "oracle" in item.path.parts)
    ):
        reason = str(call.excinfo.value) if call.excinfo is not None else "no reason given"
        report.outcome = "failed"
        report.longrepr = f"this test may not be skipped when CI is set: {reason}"
    return report


@pytest.fixture(autouse=True)
def _paranoid(request: pytest.FixtureRequest) -> Iterator[None]:
    """Checks every rewrite that a reduction makes, in the tests that are about reductions."""
    if not PARANOID & set(request.path.parts):
        yield
        return
    with paranoid():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many cases agreed with the reference implementation, in all processes together."""
    line = figures.line(terminalreporter.stats)
    if line is not None:
        terminalreporter.write_line(line)
