"""Threads that need the same kind of work at the same time share it.

A command of the batch system, or a transaction that must reach the disk, costs as much for many as
for one. So it is done at once for all threads that came while the one before was under way. No
thread waits for others to come.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import attrs

from matchmaker._locks import Lock

_Asked = TypeVar("_Asked")
_Found = TypeVar("_Found")

_MOST: Final = 200
"""How many are served at a time."""


@attrs.define(slots=True, eq=False)
class _Waiting(Generic[_Asked, _Found]):
    asked: _Asked
    found: _Found | None = None
    error: BaseException | None = None
    done: bool = False


class GroupCommit(Generic[_Asked, _Found]):
    """A function of one thing, carried out by a function of many.

    Args:
        work: gives for a sequence of things a sequence of results, in order. Its errors are raised
            to every caller of the batch.

    >>> double = GroupCommit(lambda numbers: [2 * number for number in numbers])
    >>> double(4)
    8
    """

    def __init__(self, work: Callable[[Sequence[_Asked]], Sequence[_Found]]) -> None:
        self._work = work
        self._coming = Lock()
        self._serving = Lock()
        self._queue: list[_Waiting[_Asked, _Found]] = []
        _all.add(self)

    def __call__(self, asked: _Asked) -> _Found:
        """The result for one thing."""
        mine: _Waiting[_Asked, _Found] = _Waiting(asked)
        with self._coming:
            self._queue.append(mine)
        while not mine.done:
            with self._serving:
                if not mine.done:
                    self._serve()
        if mine.error is not None:
            raise mine.error
        return mine.found  # type: ignore[return-value]

    def _serve(self) -> None:
        with self._coming:
            now, self._queue = self._queue[:_MOST], self._queue[_MOST:]
        try:
            for one, found in zip(now, self._work([one.asked for one in now]), strict=True):
                one.found = found
        except BaseException as error:  # noqa: BLE001 - each caller raises it again
            for one in now:
                one.error = error
        finally:
            for one in now:
                one.done = True


_all: Final[WeakSet[GroupCommit[Any, Any]]] = WeakSet()


def _empty() -> None:
    """In a forked child nobody waits: the threads that do are the parent's, which serves them."""
    for one in _all:
        one._queue = []  # noqa: SLF001 - of this module


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_empty)
