"""The output of jobs: pieces that pilots send, which are stored before they are answered.

Each piece belongs to a job and an epoch, so that the pieces of a pilot that lost its job never
mix with another's. It is stored where the last one ended, or not at all: the answer says how far
the binder has come. A job, and all jobs of an owner together, have limits; beyond the owner's, the
output of the jobs that ended first is deleted. ``tables`` has the rows.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from matchmaker.classad import parse_ad
from matchmaker.delegation.errors import LedgerError
from matchmaker.pilots.binder.ads import asked
from matchmaker.pilots.binder.moves import held_by
from matchmaker.pilots.binder.states import Book, Job, Stage
from matchmaker.pilots.binder.tables import Tables
from matchmaker.pilots.node.output import ERR, FILE, MOST_MARK, OUT, is_path
from matchmaker.pilots.node.task import MIB, MOST_FILES, output_bytes
from matchmaker.pilots.wire.frames import MOST_PIECE, Frame

MOST_OUTPUT: Final = 16 * MIB
"""How many bytes of its output, of its errors, and of its files a job may store."""
MOST_STORED: Final = 1024 * MIB
"""How many bytes the jobs of an owner may store together."""
_log: Final = logging.getLogger(__name__)


@attrs.define(slots=True, eq=False)
class _Stored:
    """What is stored of a job's output, by the epoch in which it ran."""

    owner: str
    epoch: int
    most: int
    sizes: dict[str, int] = attrs.field(factory=dict)


class Outputs:
    """The stored output of all jobs, as far as a binder must know it without reading it."""

    def __init__(
        self, tables: Tables, book: Book, *, most: int = MOST_OUTPUT, each: int = MOST_STORED
    ) -> None:
        """Reads how much is stored. Raises LedgerError.

        Args:
            tables: where it is stored.
            book: the jobs.
            most: bytes of each kind for a job.
            each: bytes for all jobs of an owner.
        """
        self._tables = tables
        self._book = book
        self._most = most
        self._each = each
        self._stored: dict[str, _Stored] = {}
        self._of: dict[str, dict[str, int]] = {}
        self._unwanted: set[tuple[str, int]] = set()
        # One piece at a time in memory, on its way to the storage.
        self._writing = asyncio.Semaphore(1)
        for id_, epoch, name, size in tables.outputs():
            job = book.jobs.get(id_)
            if job is None or job.epoch != epoch or not _keeps(job):
                self._unwanted.add((id_, epoch))
            else:
                self._enter(job, name, size)

    def sizes(self, id_: str) -> Mapping[str, int]:
        """How many bytes are stored of a job's output, by names of parts."""
        found = self._stored.get(id_)
        return {} if found is None else found.sizes

    def changed(self, job: Job) -> None:
        """Deletes the output of a job that runs anew, or that did not end, as soon as may be."""
        found = self._stored.get(job.id)
        if found is not None and (found.epoch != job.epoch or not _keeps(job)):
            self._drop(job.id)

    def forget(self, ids: Iterable[str]) -> None:
        """Deletes the output of jobs."""
        for id_ in ids:
            if id_ in self._stored:
                self._drop(id_)

    async def take(self, session: str, frame: Frame) -> tuple[int, str] | None:
        """Stores a piece that a pilot sent.

        Gives how many bytes of this part are stored now, and why no more are taken; None if the
        pilot does not have the job. Raises ValueError for what is no piece.
        """
        id_, epoch, name = frame["job"], frame["epoch"], frame["name"]
        data = b64decode(frame["data"], validate=True)
        if not 0 < len(data) <= MOST_PIECE:
            raise ValueError(f"a piece of {len(data)} bytes; 1 to {MOST_PIECE} were expected")
        if name not in {OUT, ERR} and not (name.startswith(FILE) and is_path(name[len(FILE) :])):
            raise ValueError(f"{name[:80]!r} is no part of a job's output")
        async with self._writing:
            job = held_by(self._book, session, id_, epoch)
            if job is None:
                return None
            offset = self._at(id_, epoch, name)
            if frame["offset"] != offset:
                return offset, ""
            if why := self._refusal(job, name, len(data)):
                return offset, why
            try:
                await asyncio.to_thread(self._tables.put_piece, id_, epoch, name, offset, data)
            except LedgerError as error:
                _log.warning("a piece of the output of %s was not stored: %s", id_, error)
                return offset, ""
            if held_by(self._book, session, id_, epoch) is None:
                self._unwanted.add((id_, epoch))
                return None
            self._enter(job, name, len(data))
            return offset + len(data), ""

    async def piece(self, id_: str, name: str, offset: int) -> bytes:
        """The stored bytes of a part from an offset, at most a piece.

        Raises ValueError where there are none.
        """
        found = self._stored.get(id_)
        if found is None or name not in found.sizes:
            raise ValueError(f"nothing of {name[:80]!r} is stored of the job {id_}")
        if not 0 <= offset <= found.sizes[name]:
            raise ValueError(f"{name[:80]!r} has {found.sizes[name]} bytes, and none at {offset}")
        try:
            return await asyncio.to_thread(self._tables.piece, id_, found.epoch, name, offset)
        except LedgerError as error:
            raise ValueError(f"the output cannot be read: {error}") from None

    async def sweep(self) -> None:
        """Deletes what nobody wants any more; what cannot be deleted now, later."""
        if self._unwanted:
            # A piece may be stored behind the deletion, and names its job here anew.
            some, self._unwanted = self._unwanted, set()
            try:
                await asyncio.to_thread(self._tables.drop_outputs, some)
            except LedgerError as error:
                self._unwanted |= some
                _log.warning("output was not deleted: %s", error)

    def _at(self, id_: str, epoch: int, name: str) -> int:
        found = self._stored.get(id_)
        return found.sizes.get(name, 0) if found is not None and found.epoch == epoch else 0

    def _refusal(self, job: Job, name: str, size: int) -> str:
        """Why a piece is not stored; makes room for one that is."""
        kept = self._known(job)
        alike = [each for each in kept.sizes if each.startswith(FILE) == name.startswith(FILE)]
        if not name.startswith(FILE):
            alike = [name]
        elif name not in kept.sizes and len(alike) >= MOST_FILES:
            return f"at most {MOST_FILES} files of a job are stored"
        has = sum(kept.sizes.get(each, 0) for each in alike)
        if has + size > kept.most + (0 if name.startswith(FILE) else MOST_MARK):
            return (
                f"{kept.most} bytes are stored at most, by the job's MaxOutput and the binder's"
                f" limit of {self._most}"
            )
        mine = self._of.get(job.owner, {})
        for other in list(mine):
            if sum(mine.values()) + size <= self._each:
                break
            if other != job.id and self._book.jobs[other].stage is Stage.ENDED:
                _log.info("the output of %s is deleted: %s needs the room", other, job.id)
                self._drop(other)
        if sum(mine.values()) + size > self._each:
            return (
                f"the open jobs of {job.owner} have stored {self._each} bytes, which are the most"
            )
        return ""

    def _known(self, job: Job) -> _Stored:
        found = self._stored.get(job.id)
        if found is not None and found.epoch == job.epoch:
            return found
        if found is not None:
            self._drop(job.id)
        value = asked(parse_ad(job.ad), "MaxOutput")
        self._stored[job.id] = made = _Stored(
            job.owner, job.epoch, min(self._most, output_bytes(value))
        )
        return made

    def _enter(self, job: Job, name: str, size: int) -> None:
        kept = self._known(job)
        kept.sizes[name] = kept.sizes.get(name, 0) + size
        mine = self._of.setdefault(job.owner, {})
        mine[job.id] = mine.get(job.id, 0) + size

    def _drop(self, id_: str) -> None:
        found = self._stored.pop(id_)
        self._unwanted.add((id_, found.epoch))
        mine = self._of.get(found.owner, {})
        mine.pop(id_, None)
        if not mine:
            self._of.pop(found.owner, None)


def _keeps(job: Job) -> bool:
    """Whether a job's output is kept: while it runs, and when it has ended by itself."""
    return job.stage.held or job.stage is Stage.ENDED
