"""Processes that a killed keeper left: the pilot, now their parent, ends them (``prctl(2)``)."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from matchmaker.pilots.node.keeper import adopt, below, processes, send

KEEPERS: Final[set[int]] = set()
"""The keepers of this process; its other children are what a killed keeper left."""
STARTING: Final[set[str]] = set()
"""The directories of tasks whose keepers are being made, and are not known yet."""
_LOOKS: Final = 6
_SECONDS: Final = 2.0


@contextmanager
def adopting() -> Iterator[None]:
    """Makes this process the parent of what killed keepers leave behind."""
    adopt(yes=True)
    try:
        yield
    finally:
        # Nobody would wait for the processes that others in this process leave behind.
        adopt(yes=False)


def end_strays(keeper: int) -> None:
    """Kills what a killed keeper left to this process, and all that those have started.

    This process may have no other children but keepers. A child is only killed if it stays unknown
    for a while, because it may be a keeper that is just being started.
    """
    seen: Counter[int] = Counter()
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        sure = not STARTING
        among = processes()
        sure = sure and not STARTING
        strays = [
            each.pid for each in among.values()
            if each.parent == os.getpid() and each.pid != keeper and each.pid not in KEEPERS
        ]  # fmt: skip
        # Its pipes close before its children become ours.
        dying = keeper in among and among[keeper].state not in "ZX"
        if not strays and not dying:
            return
        seen.update(strays)
        for stray in strays:
            if sure or seen[stray] > _LOOKS:
                for each in below(stray, among):
                    send(each.pid, signal.SIGKILL)
                send(stray, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(stray, os.WNOHANG)
        time.sleep(0.005 if sure else 0.05)
