"""Delegators that are killed: ``python -m tests.services.killed`` hands over a job for each step.

Every process hands one job over and reconciles it to its end, but is killed (``kill -9``, by
itself) at one point: before or after an act on the batch system or the spool, before or after the
ledger writes, or within the ledger's transaction. The first process that reaches its end was not
killed any more; how many were is printed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import attrs
import sqlalchemy as sql

from matchmaker import ClassAd
from matchmaker.delegation.commands import Commands
from matchmaker.delegation.contact import BatchSystem, Spool
from matchmaker.delegation.control import load_control
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.ledger import Ledger
from matchmaker.delegation.record import Deadlines
from matchmaker.delegation.spool import SharedSpool

ACTS = {"add", "save", "prepare", "park", "commit", "release", "cancel", "forbid"}
AT_ONCE = 6
PATIENCE = 60.0


@attrs.define
class Deadly:
    """Kills this process at one of the points that it passes."""

    fatal: int
    passed: int = 0

    def point(self, *_: object) -> None:
        if self.passed == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1

    def around(self, thing: object) -> Any:
        """The same thing, with a point before and after each of its acts."""
        return _Around(thing, self)


@attrs.frozen
class _Around:
    thing: object
    deadly: Deadly

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.thing, name)
        return self._acting(found) if name in ACTS else found

    def _acting(self, act: Callable[..., object]) -> Callable[..., object]:
        def acting(*args: object, **named: object) -> object:
            self.deadly.point()
            done = act(*args, **named)
            self.deadly.point()
            return done

        return acting


def hand_over(site: dict[str, Any], fatal: int) -> None:
    """Hands job ``step-FATAL`` over and follows it to its end, unless it is killed."""
    deadly = Deadly(fatal)
    ledger = Ledger(site["ledger"])
    sql.event.listen(ledger._database.engine, "commit", deadly.point)
    system = Commands(load_control(site["lrms"]), environment=site["environment"])
    delegator = Delegator(
        cast("Ledger", deadly.around(ledger)),
        cast("BatchSystem", deadly.around(system)),
        cast("Spool", deadly.around(SharedSpool(site["spool"]))),
        deadlines=Deadlines(**site["deadlines"]),
    )
    key = f"step-{fatal}"
    record = delegator.submit(ClassAd(), Path(site["script"]), site["words"], key=key)
    end = time.monotonic() + PATIENCE
    while record.state.live and time.monotonic() < end:
        time.sleep(0.3)
        delegator.reconcile([key])
        record = delegator.job(key)


def main() -> None:
    """Reads the site as JSON from standard input; prints how many were killed."""
    site = json.load(sys.stdin)
    running: dict[int, int] = {}
    whole: set[int] = set()
    for step in count():
        if not whole:
            child = os.fork()
            if child == 0:
                hand_over(site, step)
                os._exit(0)
            running[child] = step
        if not running:
            break
        if len(running) == AT_ONCE or whole:
            child, status = os.wait()
            finished = running.pop(child)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                sys.exit(f"the process of step {finished} failed, and was not killed")
            if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
                whole.add(finished)
    sys.stdout.write(f"{min(whole)}\n")


if __name__ == "__main__":
    main()
