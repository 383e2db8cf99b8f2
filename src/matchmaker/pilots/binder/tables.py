"""The storage of a binder: its SQL tables, the changes that wait for them, and the output of jobs.

A change of the book is one transaction, which ends before pilots get its messages. Only one binder
at a time writes to a set of tables. All waiting changes are merged into one, with the latest state
of each job. So they take no more memory than the jobs, however long the database is away; beyond a
limit, nothing new is accepted.

Each piece of output belongs to a job and an epoch, so that the pieces of a pilot that lost its job
never mix with another's. It is stored at the end of the last one, or not at all: the answer says
how far the binder has come. A job, and all jobs of an owner together, have limits; beyond the
owner's, the output of the jobs that ended first is deleted.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Callable, Collection, Iterable, Mapping
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, Final

import attrs
import sqlalchemy as sql
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    RowMapping,
    Table,
    Text,
)
from sqlalchemy.engine import Connection

from matchmaker.classad import parse_ad
from matchmaker.delegation.database import DamagedError, Database, LedgerError, columns
from matchmaker.pilots.binder.admission import MOST_OUTPUT, MOST_STORED, bounded_value
from matchmaker.pilots.binder.state import (
    BinderChange,
    BinderJob,
    BinderMessage,
    Book,
    JobStage,
    PilotSession,
    held_by,
)
from matchmaker.pilots.node.task import MOST_FILES, MOST_MARK, output_bytes
from matchmaker.pilots.policy.estimates import MOST, RECENT
from matchmaker.pilots.wire.protocol import ERR, FILE, MOST_PIECE, OUT, Frame, is_path

_LOG: Final = logging.getLogger(__name__)
VERSION: Final = 2
"""The version of the tables; those of a newer one are refused."""
_DAMAGED: Final = (
    "it holds no binder's tables, or damaged ones: put a copy in its place, or move it away, and"
    " the next run begins with none"
)
# Another writer, such as a backup, may hold the file for some seconds.
_WAIT_SECONDS: Final = 10.0
_MOST_STARTS: Final = RECENT * MOST
# Queues of an answer, which is read by people and factories of a site.
_MOST_QUEUES: Final = 50
# Older versions of SQLite allow 999 variables in a statement.
_AT_ONCE: Final = 500

metadata: Final = MetaData()

facts: Final = Table(
    "binder_facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Integer, nullable=False),
)
jobs: Final = Table("binder_jobs", metadata, *columns(BinderJob, key="id"))
Index("binder_jobs_key", jobs.c.owner, jobs.c.key, unique=True)
sessions: Final = Table(
    "binder_sessions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("subject", Text, nullable=False),
    Column("ad", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("owners", Text, nullable=False),
    Column("mixed", Boolean, nullable=False),
)
# Times are seconds since 1970, by the clocks of the pilots' submitters.
starts: Final = Table(
    "binder_starts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("queue", Text, nullable=False),
    Column("submitted", Float, nullable=False),
    Column("started", Float, nullable=False),
)
Index("binder_starts_queue", starts.c.queue, starts.c.id)
revoked: Final = Table(
    "binder_revoked",
    metadata,
    Column("token", Text, primary_key=True),
    Column("ends", Float, nullable=False),
)
# Pieces of the output of jobs and of their files; each begins at byte ``at`` of its part.
output: Final = Table(
    "binder_output",
    metadata,
    Column("job", Text, primary_key=True),
    Column("epoch", BigInteger, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("at", BigInteger, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

used: Final = Table(
    "binder_used",
    metadata,
    Column("token", Text, primary_key=True),
    Column("ends", Float, nullable=False),
    Column("nonce", Text, nullable=False),
)

_NAMES: Final = tuple(column.name for column in jobs.c)
# Bytes that may wait for the storage; beyond it no new job and no new pilot is accepted.
MOST_UNSTORED: Final = 16 << 20
# A failed write is repeated after this time: a database restarts in seconds.
_AGAIN_SECONDS: Final = 1.0
# Changes that nobody waits for become one write a second.
_LATER_SECONDS: Final = 1.0


class SupersededError(Exception):
    """Another binder works with the tables now."""


class Tables:
    """A binder's tables in a file of SQLite or in PostgreSQL.

    Every method raises LedgerError if the database cannot be read or written; the call then stores
    nothing.
    """

    def __init__(self, place: str | Path, *, wait: float = _WAIT_SECONDS) -> None:
        """Open the tables, and create them if there are none.

        Raises LedgerError if that fails, or if they are of a newer version.

        Args:
            place: the path of a file of SQLite, or a URL such as ``postgresql://host/database``.
            wait: how many seconds to wait for another writer.
        """
        self.place = str(place)
        self._database = Database(place, wait=wait, damaged=_DAMAGED)
        self._reading, self._writing = self._database.reading, self._database.writing
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with self._writing() as write:
            metadata.create_all(write)
            known = _facts(write)
            if not known:
                known = {"version": VERSION, "turn": 0}
                rows = [{"name": name, "value": value} for name, value in known.items()]
                write.execute(facts.insert(), rows)
            if known["version"] > VERSION:
                raise LedgerError(
                    f"{self.place}: a binder's tables of version {known['version']}; this program"
                    f" knows versions up to {VERSION}: use a newer program"
                )
            if known["version"] < VERSION:
                # Pilots of the version before speak another protocol: their sessions are over.
                sessions.drop(write)
                sessions.create(write)
                version = facts.update().where(facts.c.name == "version")
                write.execute(version.values(value=VERSION))
            self._turn = known.get("turn", 0)

    def close(self) -> None:
        """Close the connections; the tables cannot be used afterwards."""
        self._database.close()

    def write(self, change: BinderChange) -> None:
        """Store a change, all or nothing; durable when it returns.

        A change that concerns only jobs of connected clients does not wait for the disk: if the
        machine fails, these jobs are lost anyway.

        A change may be stored twice without harm, such as after a lost answer. Raises TakenError if
        an owner has another job of the same key, and SupersededError if another binder has read the
        tables since.
        """
        if not change.stored:
            return
        over = frozenset(change.over)
        durable = bool(change.begun or over or any(job.detached for job in change.jobs))
        with self._writing(durable=durable) as write:
            self._check_turn(write)
            _delete(write, jobs.c.id, {job.id for job in change.jobs})
            if change.jobs:
                write.execute(jobs.insert(), [_job_row(job) for job in change.jobs])
            _delete(write, sessions.c.name, over.union(each.name for each in change.begun))
            if new := [_session_row(each) for each in change.begun if each.name not in over]:
                write.execute(sessions.insert(), new)

    def _check_turn(self, write: Connection) -> None:
        if _facts(write).get("turn", 0) != self._turn:
            raise SupersededError(f"{self.place}: another binder works with these tables now")

    def read(self) -> tuple[list[BinderJob], list[PilotSession]]:
        """Return all jobs and sessions; a session counts as heard at 0, which ``restore`` changes.

        From then on a binder that read them earlier cannot write. Raises DamagedError for a row
        that is not a job or a session.
        """
        with self._writing() as read:
            self._turn = _facts(read).get("turn", 0) + 1
            read.execute(facts.update().where(facts.c.name == "turn").values(value=self._turn))
            found = [self._job(row) for row in read.execute(sql.select(jobs)).mappings()]
            names = read.execute(sql.select(sessions)).mappings()
            return found, [self._session(row) for row in names]

    def forget(self, ids: Collection[str]) -> None:
        """Delete jobs, with their output."""
        with self._writing() as write:
            _delete(write, jobs.c.id, ids)
            _delete(write, output.c.job, ids)

    def put_piece(self, job: str, epoch: int, part: str, at: int, data: bytes) -> None:
        """Store a piece of a job's output, and delete all that was stored from there on.

        Durable when it returns. Raises SupersededError as ``write`` does.
        """
        mine = (output.c.job == job) & (output.c.epoch == epoch) & (output.c.part == part)
        with self._writing() as write:
            self._check_turn(write)
            write.execute(output.delete().where(mine, output.c.at >= at))
            row = {"job": job, "epoch": epoch, "part": part, "at": at, "data": data}
            write.execute(output.insert().values(row))

    def piece(self, job: str, epoch: int, part: str, at: int) -> bytes:
        """Return the rest of the piece with a byte of a job's output; nothing beyond the end."""
        mine = (output.c.job == job) & (output.c.epoch == epoch) & (output.c.part == part)
        found = sql.select(output.c.at, output.c.data).where(mine, output.c.at <= at)
        with self._reading() as read:
            row = read.execute(found.order_by(output.c.at.desc()).limit(1)).first()
            return b"" if row is None else bytes(row.data[at - row.at :])

    def outputs(self) -> list[tuple[str, int, str, int]]:
        """Return the stored output: the job, the epoch, the part, and its size in bytes."""
        parts = output.c.job, output.c.epoch, output.c.part
        size = sql.func.sum(sql.func.length(output.c.data))
        with self._reading() as read:
            rows = read.execute(sql.select(*parts, size).group_by(*parts).order_by(*parts))
            return [(row[0], row[1], row[2], int(row[3])) for row in rows]

    def drop_outputs(self, pairs: Collection[tuple[str, int]]) -> None:
        """Delete the output of jobs by the epochs in which they ran."""
        with self._writing() as write:
            self._check_turn(write)
            for job, epoch in pairs:
                mine = (output.c.job == job) & (output.c.epoch == epoch)
                write.execute(output.delete().where(mine))

    def measured(self, queue: str, submitted: float, started: float) -> None:
        """Record how long a queue took to start a pilot; keep the latest records of each queue.

        Raises ValueError for times that are not finite numbers.
        """
        if not (isfinite(submitted) and isfinite(started)):
            raise ValueError(f"{queue[:80]!r}: times are finite, not {submitted} and {started}")
        with self._writing() as write:
            row = {"queue": queue, "submitted": submitted, "started": started}
            write.execute(starts.insert().values(row))
            of_queue = sql.select(starts.c.id).where(starts.c.queue == queue)
            kept = of_queue.order_by(starts.c.id.desc()).offset(_MOST_STARTS).limit(1)
            if (first := write.scalar(kept)) is not None:
                write.execute(starts.delete().where(starts.c.queue == queue, starts.c.id <= first))

    def delays(self) -> dict[str, float]:
        """Return how many seconds each queue takes to start a pilot: the median of its starts.

        If there are many queues, only those that started a pilot most recently.
        """
        latest = sql.select(starts.c.queue).group_by(starts.c.queue)
        latest = latest.order_by(sql.func.max(starts.c.id).desc()).limit(_MOST_QUEUES)
        found: dict[str, list[float]] = {}
        with self._reading() as read:
            for row in read.execute(sql.select(starts).where(starts.c.queue.in_(latest))):
                found.setdefault(row.queue, []).append(row.started - row.submitted)
        return {queue: median(found[queue]) for queue in sorted(found)}

    def revoke(self, token: str, ends: float, now: float) -> None:
        """Refuse a token by its id until its end, and forget those that have ended.

        Times are seconds since 1970.
        """
        with self._writing() as write:
            write.execute(
                revoked.delete().where((revoked.c.ends < now) | (revoked.c.token == token))
            )
            write.execute(revoked.insert().values(token=token, ends=ends))

    def revoked(self) -> frozenset[str]:
        """Return the ids of the tokens that are refused."""
        with self._reading() as read:
            return frozenset(read.scalars(sql.select(revoked.c.token)))

    def use(self, token: str, nonce: str, ends: float, now: float) -> bool:
        """Record the use of a pilot's token by its id; False if another pilot used it before.

        A pilot that never got the answer asks again with its nonce; an empty nonce matches
        nobody's. The use is durable when this returns. Times are seconds since 1970.
        """
        with self._writing() as write:
            write.execute(used.delete().where(used.c.ends < now))
            before = write.scalar(sql.select(used.c.nonce).where(used.c.token == token))
            if before is None:
                write.execute(used.insert().values(token=token, nonce=nonce, ends=ends))
            return before is None or (nonce != "" and before == nonce)

    def _session(self, row: RowMapping) -> PilotSession:
        values = {**row, "mixed": bool(row["mixed"])}
        self._texts({name: value for name, value in values.items() if name != "mixed"})
        return PilotSession(**values, heard=0.0)

    def _job(self, row: RowMapping) -> BinderJob:
        values = {name: row[name] for name in _NAMES}
        self._texts({n: v for n, v in values.items() if n not in {"epoch", "detached", "cancel"}})
        if not isinstance(values["epoch"], int) or values["epoch"] < 0:
            raise self._damaged(f"the epoch of {values['id'][:80]!r} is no number")
        try:
            return BinderJob(**{**values, "stage": JobStage(values["stage"])})
        except ValueError as error:
            raise self._damaged(f"{values['id'][:80]!r}: {error}") from None

    def _texts(self, row: Any) -> dict[str, str]:
        # SQLite keeps any kind of value in any column.
        if bad := [name for name, value in row.items() if not isinstance(value, str)]:
            raise self._damaged(f"{bad[0]} is no text")
        return dict(row)

    def _damaged(self, why: str) -> DamagedError:
        return DamagedError(f"{self.place}: a row of the binder is damaged: {why}")


def _facts(connection: Connection) -> dict[str, int]:
    rows = connection.execute(sql.select(facts.c.name, facts.c.value))
    return {row.name: row.value for row in rows}


def _job_row(job: BinderJob) -> dict[str, Any]:
    row = {name: getattr(job, name) for name in _NAMES}
    return {**row, "stage": str(job.stage)}


def _session_row(session: PilotSession) -> dict[str, Any]:
    return {column.name: getattr(session, column.name) for column in sessions.c}


def _delete(write: Connection, key: Column[str], names: Collection[str]) -> None:
    ordered = sorted(names)
    for start in range(0, len(ordered), _AT_ONCE):
        some = ordered[start : start + _AT_ONCE]
        write.execute(sql.delete(key.table).where(key.in_(some)))


@attrs.define(slots=True, eq=False)
class _Batch:
    """Several changes as one, and the futures that wait until it is stored."""

    jobs: dict[str, BinderJob] = attrs.field(factory=dict)
    begun: dict[str, PilotSession] = attrs.field(factory=dict)
    over: dict[str, None] = attrs.field(factory=dict)
    messages: dict[BinderMessage, None] = attrs.field(factory=dict)
    waiting: list[asyncio.Future[None]] = attrs.field(factory=list)
    bytes: int = 0

    def add(self, change: BinderChange) -> None:
        self.jobs.update((job.id, job) for job in change.jobs)
        self.begun.update((each.name, each) for each in change.begun)
        self.over.update(dict.fromkeys(change.over))
        self.messages.update(dict.fromkeys(change.messages))
        self.bytes += sum(job.bytes for job in change.jobs)
        self.bytes += sum(len(each.ad) for each in change.begun)

    def change(self) -> BinderChange:
        jobs, begun = tuple(self.jobs.values()), tuple(self.begun.values())
        return BinderChange(jobs=jobs, begun=begun, over=tuple(self.over))


class PendingChanges:
    """The changes that wait for the database; ``trouble`` says why they cannot be stored."""

    def __init__(self, tables: Tables, say: Callable[[Iterable[BinderMessage]], None]) -> None:
        self.trouble = ""
        self._tables = tables
        self._say = say
        self._next = _Batch()
        self._under_way = 0
        self._soon = asyncio.Event()
        self._later: asyncio.TimerHandle | None = None

    def add(self, change: BinderChange) -> None:
        """Enter a change: stored at once if messages wait for it, else within a second.

        Call ``room`` before you enter something new.
        """
        self._next.add(change)
        if change.messages:
            self._soon.set()
        elif change.stored and self._later is None:
            # Nobody waits for it: several such changes are one write.
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(_LATER_SECONDS, self._soon.set)

    async def stored(self) -> None:
        """Wait until all changes that were entered so far are stored."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._next.waiting.append(done)
        self._soon.set()
        await done

    def room(self) -> None:
        """Raise ValueError if so much waits that nothing new may be entered."""
        if self._next.bytes + self._under_way > MOST_UNSTORED:
            why = self.trouble or "the storage is slow"
            raise ValueError(f"nothing new is taken until it can be stored: {why}; try again later")

    async def step(self) -> None:
        """Wait for changes, store them, and send their messages. Repeat a failed write.

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
        self._say(batch.messages)
        for done in batch.waiting:
            if not done.done():
                done.set_result(None)

    async def tried(self, write: Callable[[Any], object], rows: Any) -> bool:
        """Whether a write succeeded; if not, ``trouble`` says why."""
        try:
            await asyncio.to_thread(write, rows)
        except LedgerError as error:
            if not self.trouble:
                _LOG.error("changes cannot be stored", extra={"reason": str(error)})
            self.trouble = str(error)
        else:
            if self.trouble:
                _LOG.info("changes are stored again")
            self.trouble = ""
        return not self.trouble


@attrs.define(slots=True, eq=False)
class _Stored:
    """The stored output of a job, by the epoch in which it ran."""

    owner: str
    epoch: int
    most: int
    sizes: dict[str, int] = attrs.field(factory=dict)


class OutputStore:
    """The sizes of the stored output of all jobs."""

    def __init__(
        self, tables: Tables, book: Book, *, most: int = MOST_OUTPUT, each: int = MOST_STORED
    ) -> None:
        """Read the sizes of the stored output. Raises LedgerError.

        ``most`` limits the bytes of each kind for a job, ``each`` those of all jobs of an owner.
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
        """Return the stored bytes of a job's output, by names of parts."""
        found = self._stored.get(id_)
        return {} if found is None else found.sizes

    def changed(self, job: BinderJob) -> None:
        """Delete the output of a job that runs anew, or that did not end, soon."""
        found = self._stored.get(job.id)
        if found is not None and (found.epoch != job.epoch or not _keeps(job)):
            self._drop(job.id)

    def forget(self, ids: Iterable[str]) -> None:
        """Delete the output of jobs."""
        for id_ in ids:
            if id_ in self._stored:
                self._drop(id_)

    async def take(self, session: str, frame: Frame) -> tuple[int, str] | None:
        """Store a piece that a pilot sent.

        Returns the stored bytes of this part, and why no more are accepted; None if the pilot does
        not have the job. Raises ValueError for a malformed piece.
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
                _LOG.warning("output not stored", extra={"job": id_, "reason": str(error)})
                return offset, ""
            if held_by(self._book, session, id_, epoch) is None:
                self._unwanted.add((id_, epoch))
                return None
            self._enter(job, name, len(data))
            return offset + len(data), ""

    async def piece(self, id_: str, name: str, offset: int) -> bytes:
        """Return the stored bytes of a part from an offset, at most a piece.

        Raises ValueError if there are none.
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
        """Delete output that nobody wants any more; a failed deletion is tried again later."""
        if self._unwanted:
            # A piece may be stored behind the deletion, and names its job here anew.
            some, self._unwanted = self._unwanted, set()
            try:
                await asyncio.to_thread(self._tables.drop_outputs, some)
            except LedgerError as error:
                self._unwanted |= some
                _LOG.warning("output not deleted", extra={"reason": str(error)})

    def _at(self, id_: str, epoch: int, name: str) -> int:
        found = self._stored.get(id_)
        return found.sizes.get(name, 0) if found is not None and found.epoch == epoch else 0

    def _refusal(self, job: BinderJob, name: str, size: int) -> str:
        """Return why a piece is not stored; make room for one that is."""
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
            if other != job.id and self._book.jobs[other].stage is JobStage.ENDED:
                _LOG.info("output deleted for room", extra={"job": other, "for_job": job.id})
                self._drop(other)
        if sum(mine.values()) + size > self._each:
            return (
                f"the open jobs of {job.owner} have stored {self._each} bytes, which are the most"
            )
        return ""

    def _known(self, job: BinderJob) -> _Stored:
        found = self._stored.get(job.id)
        if found is not None and found.epoch == job.epoch:
            return found
        if found is not None:
            self._drop(job.id)
        value = bounded_value(parse_ad(job.ad), "MaxOutput")
        self._stored[job.id] = made = _Stored(
            job.owner, job.epoch, min(self._most, output_bytes(value))
        )
        return made

    def _enter(self, job: BinderJob, name: str, size: int) -> None:
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


def _keeps(job: BinderJob) -> bool:
    """Whether a job's output is kept: while it runs, and after it has ended by itself."""
    return job.stage.held or job.stage is JobStage.ENDED
