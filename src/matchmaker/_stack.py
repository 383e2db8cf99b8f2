"""Room on Python's stack for what nests deep, however deep its caller stands already.

How deep expressions may nest is bounded by what they are (``limits``), and those bounds take more
of the stack than a caller may have left. So whatever meets Python's own limit is done once more
with room enough: what it gives depends neither on who asks nor on what was asked before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from traceback import walk_stack
from typing import Final, ParamSpec, TypeVar

from matchmaker._locks import Lock

_T = TypeVar("_T")
_P = ParamSpec("_P")

ROOM: Final = 10_000
"""How many calls may stand in each other: twice what the deepest evaluation takes."""

_lock: Final = Lock()
# Whoever has room at this moment; the limit before the first of them came, and the one since.
_guests: Final[list[int]] = []
_limits: Final = [0, 0]


def with_room(call: Callable[_P, _T], *args: _P.args, **more: _P.kwargs) -> _T:
    """What a function without effects gives, called once more if Python's stack is too short.

    >>> def count(left): return 1 + count(left - 1) if left else 0
    >>> with_room(count, 5000)
    5000
    """
    try:
        return call(*args, **more)
    except RecursionError:
        with room():
            return call(*args, **more)


@contextmanager
def room() -> Iterator[None]:
    """Raises Python's limit, for all threads, until the last one that has room has left."""
    depth = sum(1 for _ in walk_stack(None))
    with _lock:
        before = sys.getrecursionlimit()
        if not _guests:
            _limits[0] = before
        _limits[1] = max(before, depth + ROOM)
        sys.setrecursionlimit(_limits[1])
        _guests.append(depth)
    try:
        yield
    finally:
        with _lock:
            _guests.remove(depth)
            # Someone else may have set another limit meanwhile, or stand deeper than the old one.
            if not _guests and sys.getrecursionlimit() == _limits[1]:
                with suppress(RecursionError):
                    sys.setrecursionlimit(_limits[0])
