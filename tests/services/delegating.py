"""Jobs that count their own starts, handed over to a real batch system that a test breaks.

After each fault every job is followed to its end: its payload has written one line for each start,
and the ledger knows how it ended. What was seen is added up, and said at the end of a module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from matchmaker import ClassAd
from matchmaker.delegation.commands import Commands
from matchmaker.delegation.control import load_control
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.ledger import Ledger
from matchmaker.delegation.record import Deadlines, Record
from matchmaker.delegation.record import JobState as State
from matchmaker.delegation.spool import SharedSpool
from tests.services.breakable import until

QUICK: Mapping[str, float] = {
    "settle": 0.5, "absent": 2.0, "hold": 300.0, "margin": 5.0, "cancel": 1.0, "reply": 5.0,
    "backoff": 1.0,
}  # fmt: skip

TALLY: dict[str, int] = {}


@attrs.define
class Room:
    """A ledger, a spool and jobs on a batch system that may break.

    Attributes:
        lrms: the batch system.
        folder: where everything of the test is.
        environment: the variables of its commands; the folder ``wrapped`` comes before their own.
        words: options of every job.
        spool: the records.
    """

    lrms: str
    folder: Path
    environment: Mapping[str, str]
    words: tuple[str, ...] = ()
    spool: SharedSpool = attrs.field()
    keys: list[str] = attrs.Factory(list)
    real: Mapping[str, str] = attrs.Factory(dict)

    @spool.default
    def _own_spool(self) -> SharedSpool:
        return SharedSpool(self.folder / "our spool", grace=1)

    @property
    def site(self) -> Mapping[str, str]:
        wrapped = self.folder / "wrapped"
        return {**self.environment, "PATH": f"{wrapped}{os.pathsep}{self.environment['PATH']}"}

    def delegator(
        self, clock: Callable[[], float] = time.time, parallel: int = 1, seconds: float = 20.0,
        **deadlines: float,
    ) -> Delegator:  # fmt: skip
        return Delegator(
            Ledger(self.folder / "jobs.db"),
            Commands(load_control(self.lrms), environment=self.site, seconds=seconds),
            self.spool,
            deadlines=Deadlines(**{**QUICK, **deadlines}),  # type: ignore[arg-type]
            parallel=parallel,
            clock=clock,
        )

    def script(self, key: str, text: str) -> Path:
        """A payload that writes a line for each of its starts."""
        path = self.folder / f"{key}.sh"
        path.write_text(f"#!/bin/sh\necho $$ >>{self.folder}/ran-{key}\n{text}\n")
        return path

    def submit(
        self, delegator: Delegator, key: str, text: str = "exit 0", lease: float | None = None
    ) -> Record:
        self.keys.append(key)
        script = self.script(key, text)
        return delegator.submit(ClassAd({"Key": key}), script, self.words, key=key, lease=lease)

    def starts(self, key: str) -> int:
        path = self.folder / f"ran-{key}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def follow(
        self, delegator: Delegator, *keys: str, to: tuple[State, ...] = (), seconds: float = 60.0
    ) -> list[Record]:
        """Reconciles until the jobs have ended, or are in one of some states."""

        def there() -> bool:
            delegator.reconcile()
            found = [delegator.job(key).state for key in keys]
            return all(state in to if to else not state.live for state in found)

        until(there, f"an end of {keys}", seconds)
        return [delegator.job(key) for key in keys]

    def all_once(self, delegator: Delegator) -> None:
        """Follows every job to its end: each started once, and is done."""
        for record in self.follow(delegator, *self.keys):
            seen = (record.key, record.state, self.starts(record.key))
            assert seen == (record.key, State.DONE, 1), delegator.history(record.key)

    def killed_at_every_step(self, most: float = 300.0) -> int:
        """Hands over a job for each step of a delegator that is killed there; how many were."""
        script = self.script("step-${key}", "exit 0")
        own_key = 'key=$(basename "$(dirname "$(dirname "$0")")")'
        text = script.read_text().replace("\n", f"\n{own_key}\n", 1)
        script.write_text(text)
        site: dict[str, Any] = {
            "lrms": self.lrms, "ledger": str(self.folder / "jobs.db"), "words": self.words,
            "spool": str(self.spool.root), "script": str(script), "deadlines": dict(QUICK),
            "environment": dict(self.site),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "tests.services.killed"], input=json.dumps(site),
            capture_output=True, text=True, check=False, timeout=most,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        steps = int(done.stdout)
        delegator = self.delegator()
        left = [record.key for record in Ledger(self.folder / "jobs.db").recent()]
        # Killed before the intent was durable: its owner has no handle; nothing was submitted.
        assert {"step-0", "step-1"}.isdisjoint(left)
        assert {f"step-{number}" for number in range(2, steps + 1)} <= set(left)
        for record in self.follow(delegator, *left):
            ran = self.folder / f"ran-step-{record.key}"
            assert record.state is State.DONE, delegator.history(record.key)
            assert len(ran.read_text().splitlines()) == 1
        assert not list(self.folder.glob("ran-step-step-[01]"))
        count("jobs", len(left))
        return steps

    def wrap(self, name: str, script: str) -> None:
        """Puts a script in the place of a command, which it may call as ``$real``."""
        (self.folder / "wrapped").mkdir(exist_ok=True)
        path = self.folder / "wrapped" / name
        path.write_text(f'#!/bin/sh\nreal="{self.real[name]}"\n{script}\n')
        path.chmod(0o755)

    def unwrap(self) -> None:
        for path in self.folder.glob("wrapped/*"):
            path.unlink()

    def add_up(self) -> None:
        """Counts a fault, and what became of its jobs."""
        ledger = Ledger(self.folder / "jobs.db")
        found = {record.key: record for record in ledger.records(self.keys)}
        count("faults")
        count("jobs", len(self.keys))
        count("twice", sum(self.starts(key) > 1 for key in self.keys))
        count("lost", sum(key not in found or found[key].state.live for key in self.keys))


def count(what: str, number: int = 1) -> None:
    TALLY[what] = TALLY.get(what, 0) + number


def tell(request: pytest.FixtureRequest) -> Iterator[None]:
    """Says at the end of a module how many faults there were, and how many jobs went through."""
    TALLY.clear()
    yield
    plugins = request.config.pluginmanager
    reporter, capturing = (
        plugins.get_plugin("terminalreporter"),
        plugins.get_plugin("capturemanager"),
    )
    if reporter is not None and capturing is not None and TALLY:
        name = request.module.__name__.rpartition("test_")[2]
        seen = {what: TALLY.get(what, 0) for what in ("faults", "jobs", "lost", "twice")}
        # What a fixture writes is shown for tests that fail alone.
        with capturing.global_and_fixture_disabled():
            reporter.write_line(
                "\n{name}: {faults} faults, {jobs} jobs, {lost} lost, {twice} started twice".format(
                    name=name, **seen
                )
            )
