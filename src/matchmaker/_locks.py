"""The library's locks: made here, so that a fork leaves none of them held in the child.

A child of ``os.fork`` has only the thread that forked. A lock that another thread held at that
moment would stay locked for ever, and what it guards could be half changed. So a fork first takes
every lock; the parent then releases them, and the child gets new ones.

Locks that nest are taken in one order: the inner one is the one that was made first.
"""

from __future__ import annotations

import os
import threading
from itertools import count
from time import monotonic
from types import TracebackType
from typing import Final
from weakref import WeakValueDictionary

PATIENCE: Final = 5.0
"""The seconds that a fork waits for all locks. Then it goes on: the child's locks are new, and only
what a thread was changing for so long may be incomplete there."""


class Lock:
    """Lets one thread at a time pass. After a fork, the child has a new one.

    The thread that holds it may take it again, as a finalizer does that runs meanwhile.

    >>> lock = Lock()
    >>> with lock:
    ...     pass
    """

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held = threading.RLock()
        _locks[next(_numbers)] = self

    def __enter__(self) -> None:
        self.held.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.held.release()


_numbers: Final = count()
_locks: Final[WeakValueDictionary[int, Lock]] = WeakValueDictionary()
# The locks that a thread has taken in order to fork.
_taken: Final[dict[int, list[Lock]]] = {}


def _all() -> list[Lock]:
    """Every lock, the last made first."""
    made = (reference() for reference in reversed(_locks.valuerefs()))
    return [lock for lock in made if lock is not None]


def _take() -> None:
    """Takes every lock before a fork."""
    until = monotonic() + PATIENCE
    _taken[threading.get_ident()] = [
        lock for lock in _all() if lock.held.acquire(timeout=max(0.0, until - monotonic()))
    ]


def _release() -> None:
    """Releases in the parent what was taken."""
    for lock in _taken.pop(threading.get_ident(), ()):
        lock.held.release()


def _renew() -> None:
    """Gives the child new locks."""
    _taken.clear()
    for lock in _all():
        lock.held = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(before=_take, after_in_parent=_release, after_in_child=_renew)
