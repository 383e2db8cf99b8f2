"""A delegator logs each event with the key of its job, and each fault with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from matchmaker import parse_ad
from matchmaker.delegation import Delegator, Ledger
from matchmaker.delegation.spool import SharedSpool
from tests.delegation.world import BROKEN, REFUSED, World

KEYS = ("job", "cluster", "id", "attempt", "before", "state", "reason")


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    """The level, the event and the keys of each record since the last call."""
    found = [
        (r.levelname, r.getMessage(), {k: getattr(r, k) for k in KEYS if hasattr(r, k)})
        for r in caplog.records
    ]
    caplog.clear()
    return found


def test_each_event_has_the_key_of_its_job(
    ledger: Ledger, script: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "matchmaker.delegation")
    world = World()
    made = Delegator(ledger, world, SharedSpool(script.parent / "s"), clock=lambda: world.now)
    job = made.submit(parse_ad("[ Cpus = 1 ]"), script, key="a")
    at = {"job": "a", "cluster": world.name}
    assert events(caplog) == [
        ("INFO", "job submitted", {**at, "id": job.remote_id, "attempt": 1}),
    ]
    world.pass_time(12)
    made.reconcile()
    moved = {**at, "id": job.remote_id, "attempt": 1, "before": "prepared", "state": "committed"}
    assert events(caplog) == [("INFO", "job moved", {**moved, "reason": ""})]
    made.cancel("a")
    assert events(caplog)[0] == ("INFO", "end requested", at)


def test_a_fault_is_a_warning_with_its_reason(
    ledger: Ledger, script: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "matchmaker.delegation")
    world = World()
    made = Delegator(ledger, world, SharedSpool(script.parent / "s"), clock=lambda: world.now)
    world.faults["look"] = ["silent"]
    made.reconcile()
    assert events(caplog) == [
        ("WARNING", "no answer", {"cluster": world.name, "reason": BROKEN.reason})
    ]
    world.faults["park"] = ["refused"]
    made.submit(parse_ad("[ Cpus = 1 ]"), script, key="a")
    assert events(caplog) == [
        ("WARNING", "submission refused",
         {"job": "a", "cluster": world.name, "attempt": 1, "reason": REFUSED.reason}),
    ]  # fmt: skip
