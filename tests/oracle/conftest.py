"""The reference implementation for the tests of this folder, and the time zone it is run in."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator

import pytest

from tests.oracle.oracle import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """HTCondor's own ClassAd library in a child process; skips where it is not installed."""
    if importlib.util.find_spec("htcondor2") is None:
        pytest.skip("the package htcondor, the reference implementation, is not installed")
    oracle = Oracle()
    yield oracle
    oracle.close()


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is UTC, as it is for the reference implementation."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
