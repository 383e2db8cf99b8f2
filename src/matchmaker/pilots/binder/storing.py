"""The changes that wait for the database: entered first, then stored, then sent to pilots.

All waiting changes are merged into one, with the latest state of each job. So they take no more
memory than the jobs, however long the database is away; beyond a limit, nothing new is accepted.
``moves`` makes the changes, and ``tables`` writes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from matchmaker.delegation.errors import LedgerError
from matchmaker.pilots.binder.states import Change, Job, Session, Word
from matchmaker.pilots.binder.tables import Tables

MOST_UNSTORED: Final = 16 << 20
"""How many bytes may wait for the storage; beyond it no new job and no new pilot is taken."""
_AGAIN_SECONDS: Final = 1.0
_LATER_SECONDS: Final = 1.0


@attrs.define(slots=True, eq=False)
class _Batch:
    """Several changes as one, and who waits until it is stored."""

    jobs: dict[str, Job] = attrs.field(factory=dict)
    begun: dict[str, Session] = attrs.field(factory=dict)
    over: dict[str, None] = attrs.field(factory=dict)
    words: dict[Word, None] = attrs.field(factory=dict)
    waiting: list[asyncio.Future[None]] = attrs.field(factory=list)
    bytes: int = 0

    def add(self, change: Change) -> None:
        self.jobs.update((job.id, job) for job in change.jobs)
        self.begun.update((each.name, each) for each in change.begun)
        self.over.update(dict.fromkeys(change.over))
        self.words.update(dict.fromkeys(change.words))
        self.bytes += sum(job.bytes for job in change.jobs)
        self.bytes += sum(len(each.ad) for each in change.begun)

    def change(self) -> Change:
        jobs, begun = tuple(self.jobs.values()), tuple(self.begun.values())
        return Change(jobs=jobs, begun=begun, over=tuple(self.over))


class Storing:
    """The waiting changes. ``trouble`` says why they cannot be stored; empty if they can."""

    def __init__(self, tables: Tables, say: Callable[[Iterable[Word]], None]) -> None:
        self.trouble = ""
        self._tables = tables
        self._say = say
        self._next = _Batch()
        self._under_way = 0
        self._soon = asyncio.Event()
        self._later: asyncio.TimerHandle | None = None

    def add(self, change: Change) -> None:
        """Enters a change: stored at once if messages wait for it, else within a second.

        Raises nothing; call ``room`` before you enter something new.
        """
        self._next.add(change)
        if change.words:
            self._soon.set()
        elif change.stored and self._later is None:
            # Nobody waits for it: several such changes are one write.
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(_LATER_SECONDS, self._soon.set)

    async def stored(self) -> None:
        """Waits until all changes that were entered so far are stored."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._next.waiting.append(done)
        self._soon.set()
        await done

    def room(self) -> None:
        """Raises ValueError if so much waits that nothing new may be entered."""
        if self._next.bytes + self._under_way > MOST_UNSTORED:
            why = self.trouble or "the storage is slow"
            raise ValueError(f"nothing new is taken until it can be stored: {why}; try again later")

    async def step(self) -> None:
        """Waits for changes, stores them, and sends their messages. A failed write is repeated.

        Raises SupersededError if another binder works with the tables.
        """
        await self._soon.wait()
        self._soon.clear()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        batch, self._next = self._next, _Batch()
        self._under_way = batch.bytes
        while True:
            if await self.tried(self._tables.write, batch.change()):
                break
            await asyncio.sleep(_AGAIN_SECONDS)
        self._under_way = 0
        self._say(batch.words)
        for done in batch.waiting:
            if not done.done():
                done.set_result(None)

    async def tried(self, write: Callable[[Any], object], rows: Any) -> bool:
        """Whether a write succeeded; if not, ``trouble`` says why."""
        try:
            await asyncio.to_thread(write, rows)
        except LedgerError as error:
            self.trouble = str(error)
        else:
            self.trouble = ""
        return not self.trouble
