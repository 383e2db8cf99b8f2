"""Rules that hold for every test: services, hypothesis profiles, shared fixtures.

A test marked ``service`` needs real servers, which its fixtures start. Where a server cannot be
started, the fixture calls ``pytest.skip`` with the reason, and ``pytest -rs`` shows it. Under
``CI=true`` the same skip is a failure, so that a run nobody watches never passes by testing less.
"""

from __future__ import annotations

import builtins
import gc
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.cases import cases
from tests.oracle import figures
from tests.paranoid import paranoid
from tests.services.condor import condor
from tests.services.gridengine import gridengine
from tests.services.slurm import slurm

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

# Fixtures that every folder of tests may ask for.
__all__ = ["condor", "gridengine", "slurm"]

# Folders whose tests run in paranoid mode.
PARANOID = {"reduction", "golden", "batch"}

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

# No test depends on the speed of the machine: no deadline, no check on slow generation.
settings.register_profile(
    "dev", deadline=None, max_examples=cases(100), suppress_health_check=[HealthCheck.too_slow]
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option by which a run of all tests claims how many cases agree with HTCondor."""
    parser.addoption(
        "--conformance", type=int, default=0, metavar="CASES",
        help="fail unless as many cases agreed with the reference implementation, all together",
    )  # fmt: skip


def _conformance(config: pytest.Config) -> tuple[int, int, bool]:
    """The cases that agreed and that differed, in all processes, and whether they are too few.

    Where the reference implementation is not installed nothing was compared, and skips say so.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    agreeing, differing = figures.added_up(reporter.stats) if reporter is not None else (0, 0)
    compared = agreeing + differing > 0
    return agreeing, differing, compared and agreeing < config.getoption("conformance")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run in which fewer cases agreed than it claims."""
    if _conformance(session.config)[2]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_finish() -> None:
    """Takes the thousands of tests out of what each later garbage collection looks through."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _paranoid(request: pytest.FixtureRequest) -> Iterator[None]:
    """Checks every rewrite that a reduction makes, in the tests that are about reductions."""
    if not PARANOID & set(request.path.parts) and "reduction" not in request.path.name:
        yield
        return
    with paranoid():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many cases agreed with the reference implementation, in all processes together."""
    agreeing, differing, too_few = _conformance(terminalreporter.config)
    if agreeing + differing:
        terminalreporter.write_line(figures.line(agreeing, differing))
    if too_few:
        least = terminalreporter.config.getoption("conformance")
        terminalreporter.write_line(f"conformance: FAILED, at least {least:,} must agree", red=True)


@pytest.fixture
def hide_pyarrow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Called, it makes pyarrow seem not installed."""
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return real(name, *rest)

    return lambda: monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Local time is that of the module's ``ZONE``."""
    monkeypatch.setenv("TZ", request.module.ZONE)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
