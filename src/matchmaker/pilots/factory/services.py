"""The tables of factories, beside the ledger's: services, pilots, requests to queues, and demand.

A service has one process at a time, which holds its row of ``servicelist`` by a token: after
another process has taken the service over, it can write nothing any more. A pilot is reserved in
``pilots`` in the transaction that counts the others, so that caps hold at any moment and whatever
crashes. It is marked as handed over before it is handed over. ``requests`` keeps the rate of each
queue, for all services and across their ends; ``demandlist`` has the jobs that a service saw last.
A service's cycle is in :mod:`matchmaker.pilots.factory.cycle`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import attrs
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from matchmaker.delegation.database import Database, LedgerError, TakenError, columns

_WAIT_SECONDS: Final = 10.0
"""Seconds that a writer waits for another: a decision of a large factory writes for one."""


class ServiceError(ValueError):
    """A service cannot be started or reached; the message says why and what to do."""


class TakenOverError(ServiceError):
    """Another process runs the service now: this one must do nothing more."""


@attrs.frozen(slots=True, kw_only=True)
class Service:
    """A row of ``servicelist``. Times are in seconds since 1970.

    Attributes:
        name: names the service.
        token: of the process that runs it, or ran it last.
        state: ``running``, ``stopped`` or ``failed``.
        wish: a command's wish: ``stop``, ``end`` (its pilots too), or empty.
        serves: the sites and queues that it submits to, in words.
        file: its settings.
        host, pid: its machine and process.
        started: when this process began.
        beat: when it was last heard of.
        patience: after how many seconds without a heartbeat it counts as dead.
        ended: when it stopped or failed.
        reason: why it stopped or failed.
        cycles: how many decisions it made, of all its processes.
        submitted: how many pilots it handed over, of all its processes, also those that their
            batch system then refused: counted in the transaction that marks them so, so that no
            kill loses any.
        facts: numbers and reasons of its last cycle, for people and monitoring.
        memory: the memory of its last decision, for the next one.
    """

    name: str
    token: str
    state: str = "running"
    wish: str = ""
    serves: str = ""
    file: str = ""
    host: str = ""
    pid: int = 0
    started: float
    beat: float
    patience: float = 120.0
    ended: float | None = None
    reason: str = ""
    cycles: int = 0
    submitted: int = 0
    facts: Mapping[str, Any] = attrs.Factory(dict)
    memory: Mapping[str, Any] = attrs.Factory(dict)


@attrs.frozen(slots=True, kw_only=True)
class PilotRow:
    """A row of ``pilots``. Times are in seconds since 1970.

    Attributes:
        key: its key in the ledger.
        service: the service that submitted it.
        queue: the key of its queue.
        cluster: the batch system, as the ledger calls it.
        submitted: when it was reserved; from then on, when it was handed over.
        handed: whether it was handed over, or is about to be; else it is only reserved.
        started: when it was first seen running; None if it was not.
        ended: when it was first seen ended, or was refused.
        live: whether it counts: it was reserved and has not ended.
        failed: whether its queue lost it.
        refused: whether its batch system, or this machine, did not take it.
        reason: why it ended as it did.
    """

    key: str
    service: str
    queue: str
    cluster: str
    submitted: float
    handed: bool = False
    started: float | None = None
    ended: float | None = None
    live: bool = True
    failed: bool = False
    refused: bool = False
    reason: str = ""


@attrs.frozen(slots=True)
class Reservation:
    """Pilots to reserve at a queue, and its limits, in all and waiting; None for no limit."""

    queue: str
    cluster: str
    count: int
    most: int | None = None
    most_queued: int | None = None


@attrs.frozen(slots=True, kw_only=True)
class SeenJob:
    """A job of the demand that a service saw last: its kind, whether it runs, and since when."""

    id: str
    kind: str
    runs: bool
    since: float


@attrs.frozen(slots=True)
class QueueCounts:
    """How many pilots of a queue are on record; one that was refused counts as nothing else."""

    submitted: int = 0
    started: int = 0
    ended: int = 0
    lost: int = 0
    refused: int = 0


MOST_JOBS: Final = 100_000
"""Of so many jobs a service notes the kind: some ten megabytes, written once for each job."""

metadata: Final = sql.MetaData()
servicelist: Final = sql.Table("servicelist", metadata, *columns(Service, key="name"))
pilots: Final = sql.Table("pilots", metadata, *columns(PilotRow, key="key"))
requests: Final = sql.Table(
    "requests", metadata,
    sql.Column("queue", sql.Text, primary_key=True), sql.Column("due", sql.Float, nullable=False),
)  # fmt: skip
demandlist: Final = sql.Table(
    "demandlist", metadata, sql.Column("service", sql.Text, primary_key=True),
    *columns(SeenJob, key="id"),
)  # fmt: skip
sql.Index("pilots_live", pilots.c.live, pilots.c.queue)
sql.Index("pilots_submitted", pilots.c.submitted)


class Services:
    """The tables in a database; safe for several processes, on PostgreSQL on many machines.

    Every method raises LedgerError if the database cannot be read or written.
    """

    def __init__(self, place: str, *, wait: float = _WAIT_SECONDS) -> None:
        """Open the tables, and make them if there are none.

        Args:
            place: the ledger's file or URL.
            wait: how many seconds to wait for another writer.
        """
        self.place = place
        self._database = Database(place, wait=wait)
        self._reading = self._database.reading
        self.sqlite = self._database.sqlite
        try:
            with self._reading() as read:
                known = sql.inspect(read).has_table(demandlist.name)
                before = sql.inspect(read).has_table(pilots.name)
            if not known:
                with self._writing() as write:
                    for name, default in (
                        (("handed", "TRUE"), ("refused", "FALSE")) if before else ()
                    ):
                        # Tables from before pilots were submitted at a rate.
                        write.exec_driver_sql(
                            f"ALTER TABLE pilots ADD COLUMN {name} BOOLEAN NOT NULL"
                            f" DEFAULT {default}"
                        )
                    metadata.create_all(write)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    # --- services -----------------------------------------------------------------------------

    def all(self) -> list[Service]:
        """Return every service, by name."""
        with self._reading() as read:
            rows = read.execute(sql.select(servicelist).order_by(servicelist.c.name)).mappings()
            return [_service(row) for row in rows]

    def find(self, name: str) -> Service | None:
        """Return the service of a name, or None."""
        return next((one for one in self.all() if one.name == name), None)

    def begin(self, new: Service, dead: Callable[[Service], bool]) -> Service:
        """Take a service: a new one, one that ended, or one whose process is dead.

        Its numbers and its memory go on from where they were. Raises ServiceError if it runs.
        """
        with self._writing() as write:
            row = write.execute(
                sql.select(servicelist).where(servicelist.c.name == new.name)
            ).mappings().first()  # fmt: skip
            if row is None:
                write.execute(servicelist.insert(), _row(new))
                return new
            known = _service(row)
            if known.state == "running" and not dead(known):
                raise ServiceError(
                    f"{new.name} runs already, on {known.host} as process {known.pid}: "
                    f"classad factory stop {new.name} stops it"
                )
            made = attrs.evolve(
                new, cycles=known.cycles, submitted=known.submitted, memory=known.memory,
                facts=known.facts,
            )  # fmt: skip
            write.execute(
                servicelist.update().where(servicelist.c.name == new.name).values(_row(made))
            )
            return made

    def save(self, service: Service) -> Service:
        """Write a service's row; return it with a command's wish and the count of pilots.

        Raises TakenOverError if another process has it.
        """
        values = _row(service)
        # A command writes the wish; the count is written with each pilot.
        del values["wish"], values["submitted"]
        with self._writing() as write:
            mine = (servicelist.c.name == service.name, servicelist.c.token == service.token)
            if write.execute(servicelist.update().where(*mine).values(values)).rowcount != 1:
                raise TakenOverError(f"another process runs {service.name} now")
            wanted = sql.select(servicelist.c.wish, servicelist.c.submitted).where(*mine)
            wish, submitted = write.execute(wanted).one()
            return attrs.evolve(service, wish=str(wish or ""), submitted=submitted)

    def wish(self, name: str, wish: str) -> Service:
        """Write down a command's wish of a service. Raises ServiceError for an unknown one."""
        with self._writing() as write:
            where = servicelist.c.name == name
            done = write.execute(servicelist.update().where(where).values(wish=wish)).rowcount
        found = self.find(name)
        if not done or found is None:
            names = ", ".join(one.name for one in self.all()) or "none"
            raise ServiceError(f"no service is called {name!r}; there are: {names}")
        return found

    def bury(self, known: Service, now: float, reason: str) -> None:
        """Record the end of a service whose process is dead and left no record of it."""
        mine = (servicelist.c.name == known.name, servicelist.c.token == known.token,
                servicelist.c.state == "running", servicelist.c.beat == known.beat)  # fmt: skip
        with self._writing() as write:
            write.execute(
                servicelist.update().where(*mine)
                .values(state="failed", ended=now, reason=reason, wish="")
            )  # fmt: skip

    # --- pilots -------------------------------------------------------------------------------

    def live(self) -> list[PilotRow]:
        """Return the pilots of all services that count, the oldest first."""
        return self._rows(pilots.c.live == sql.true())

    def history(self, since: float, most: int = 50_000) -> list[PilotRow]:
        """Return the pilots submitted since a time, the oldest first; of too many the latest."""
        return self._rows(pilots.c.submitted >= since, most=most)

    def _rows(self, *where: sql.ColumnElement[bool], most: int | None = None) -> list[PilotRow]:
        order = pilots.c.submitted.desc()
        with self._reading() as read:
            found = read.execute(sql.select(pilots).where(*where).order_by(order).limit(most))
            return [PilotRow(**row) for row in found.mappings()][::-1]

    def counts(self) -> dict[str, QueueCounts]:
        """Count the pilots on record by queue."""

        def number(condition: sql.ColumnElement[bool]) -> sql.ColumnElement[int]:
            return sql.func.sum(sql.case((condition, 1), else_=0))

        true = sql.true()
        taken = (pilots.c.handed == true) & (pilots.c.refused == sql.false())
        wanted = sql.select(
            pilots.c.queue,
            number(taken),
            number(pilots.c.started.is_not(None)),
            number((pilots.c.live == sql.false()) & taken),
            number(pilots.c.failed == true),
            number(pilots.c.refused == true),
        ).group_by(pilots.c.queue)
        with self._reading() as read:
            return {row[0]: QueueCounts(*map(int, row[1:])) for row in read.execute(wanted)}

    def reserve(
        self, service: Service, wanted: Sequence[Reservation], now: float,
        new_key: Callable[[], str], *, most: int | None = None, most_queued: int | None = None,
    ) -> list[PilotRow]:  # fmt: skip
        """Reserve pilots as far as the caps allow, in one transaction with counting the others.

        Args:
            service: for whom; its process must still hold it.
            wanted: how many where.
            now: the time, in seconds since 1970.
            new_key: makes the keys.
            most: how many pilots there may be in all, of every service.
            most_queued: how many of them may wait.

        Raises TakenOverError if another process has the service.
        """
        made: list[PilotRow] = []
        with self._writing() as write:
            if not self.sqlite:
                write.exec_driver_sql("LOCK TABLE pilots IN SHARE ROW EXCLUSIVE MODE")
            _check_owner(write, service)
            waits = sql.func.sum(sql.case((pilots.c.started.is_(None), 1), else_=0))
            counts = {
                row[0]: (int(row[1]), int(row[2]))
                for row in write.execute(
                    sql.select(pilots.c.queue, sql.func.count(), waits)
                    .where(pilots.c.live == sql.true())
                    .group_by(pilots.c.queue)
                )
            }
            room = _least(most, sum(all_ for all_, _ in counts.values()))
            room_queued = _least(most_queued, sum(queued for _, queued in counts.values()))
            for one in wanted:
                there, queued = counts.get(one.queue, (0, 0))
                number = min(
                    one.count, _least(one.most, there), _least(one.most_queued, queued),
                    room, room_queued,
                )  # fmt: skip
                made += [
                    PilotRow(key=new_key(), service=service.name, queue=one.queue,
                        cluster=one.cluster, submitted=now)
                    for _ in range(number)
                ]  # fmt: skip
                room, room_queued = room - number, room_queued - number
                counts[one.queue] = (there + number, queued + number)
            if made:
                write.execute(pilots.insert(), [attrs.asdict(row) for row in made])
        return made

    def release(self, service: Service) -> None:
        """Remove the pilots that are only reserved. Raises TakenOverError."""
        with self._writing() as write:
            _check_owner(write, service)
            mine = (pilots.c.service == service.name) & (pilots.c.live == sql.true())
            write.execute(pilots.delete().where(mine & (pilots.c.handed == sql.false())))

    def hand_over(self, service: Service, row: PilotRow, now: float) -> PilotRow:
        """Mark a reserved pilot as handed over, and count it. Raises TakenOverError."""
        with self._writing() as write:
            _check_owner(write, service)
            _count(write, service.name, 1)
            made = attrs.evolve(row, handed=True, submitted=now)
            changes = {"handed": True, "submitted": now}
            write.execute(pilots.update().where(pilots.c.key == row.key).values(changes))
        return made

    def refuse(self, row: PilotRow) -> None:
        """Write down that a pilot marked as handed over never came into the ledger."""
        with self._writing() as write:
            _count(write, row.service, -1)
            made = attrs.evolve(row, handed=False, live=False, refused=True)
            write.execute(pilots.update().where(pilots.c.key == row.key).values(attrs.asdict(made)))

    def grant(self, queue: str, rate: float, now: float) -> float:
        """Grant a request to a queue's batch system: return 0, or the seconds it has to wait.

        Args:
            queue: the queue; all services that use the ledger count together.
            rate: how many requests a second it takes. At most one second's go at once.
            now: the time, in seconds since 1970.
        """
        with self._writing() as write:
            if not self.sqlite:
                write.exec_driver_sql("LOCK TABLE requests IN SHARE ROW EXCLUSIVE MODE")
            mine = requests.c.queue == queue
            due = write.scalar(sql.select(requests.c.due).where(mine))
            # A clock that was set back must not close a queue for long.
            if due is not None and now < due <= now + 1 / rate:
                return float(due) - now
            # Time in which nothing was asked for is not made up for, beyond that second.
            since = now - max(0.0, 1 - 1 / rate)
            values = {"due": max(since if due is None else min(due, now), since) + 1 / rate}
            if due is None:
                write.execute(requests.insert(), {"queue": queue, **values})
            else:
                write.execute(requests.update().where(mine).values(values))
            return 0.0

    def update(self, rows: Sequence[PilotRow]) -> None:
        """Write the starts and ends of pilots."""
        if not rows:
            return
        names = ("started", "ended", "live", "failed", "refused", "reason")
        change = (
            pilots.update()
            .where(pilots.c.key == sql.bindparam("old_key"))
            .values({name: sql.bindparam(name) for name in names})
        )
        with self._writing() as write:
            write.execute(
                change,
                [{"old_key": r.key, **{n: getattr(r, n) for n in names}} for r in rows],
            )

    def forget(self, before: float) -> None:
        """Remove the pilots that were submitted before a time and have ended."""
        with self._writing() as write:
            old = (pilots.c.live == sql.false()) & (pilots.c.submitted < before)
            write.execute(pilots.delete().where(old))

    # --- demand -------------------------------------------------------------------------------

    def jobs(self, service: str) -> dict[str, SeenJob]:
        """Return the jobs that a service saw last, by their ids."""
        mine = sql.select(demandlist).where(demandlist.c.service == service)
        with self._reading() as read:
            found = [
                SeenJob(id=row.id, kind=row.kind, runs=row.runs, since=row.since)
                for row in read.execute(mine)
            ]
        return {job.id: job for job in found}

    def job(self, service: str, id_: str) -> SeenJob | None:
        """Return a job as a service saw it last, or None."""
        mine = (demandlist.c.service == service) & (demandlist.c.id == id_)
        with self._reading() as read:
            row = read.execute(sql.select(demandlist).where(mine)).first()
        if row is None:
            return None
        return SeenJob(id=row.id, kind=row.kind, runs=row.runs, since=row.since)

    def note_jobs(
        self, service: str, before: Mapping[str, SeenJob], after: Mapping[str, SeenJob]
    ) -> None:
        """Write down the demand that a service sees: the difference to the demand before."""
        gone = [{"old_id": id_} for id_ in before if after.get(id_) != before[id_]]
        new = [job for id_, job in after.items() if before.get(id_) != job]
        if not gone and not new:
            return
        mine = demandlist.c.service == service
        with self._writing() as write:
            if gone:
                old = demandlist.c.id == sql.bindparam("old_id")
                write.execute(demandlist.delete().where(mine & old), gone)
            if new:
                write.execute(
                    demandlist.insert(), [{"service": service, **attrs.asdict(job)} for job in new]
                )

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        try:
            with self._database.writing() as connection:
                yield connection
        except TakenError:
            raise LedgerError(f"{self.place}: another process wrote the same; try again") from None


def _check_owner(write: Connection, service: Service) -> None:
    token = write.scalar(sql.select(servicelist.c.token).where(servicelist.c.name == service.name))
    if token != service.token:
        raise TakenOverError(f"another process runs {service.name} now")


def _count(write: Connection, service: str, number: int) -> None:
    counted = servicelist.c.submitted + number
    mine = servicelist.c.name == service
    write.execute(servicelist.update().where(mine).values(submitted=counted))


def _least(cap: int | None, there: int) -> int:
    """Return the room that a cap leaves; without a cap a number beyond any."""
    return 1 << 40 if cap is None else max(0, cap - there)


_FIELDS: Final = tuple(field.name for field in attrs.fields(Service))


def _row(service: Service) -> dict[str, Any]:
    values = {name: getattr(service, name) for name in _FIELDS}
    for name in ("facts", "memory"):
        values[name] = json.dumps(values[name])
    return values


def _service(row: sql.RowMapping) -> Service:
    values: dict[str, Any] = {name: row[name] for name in _FIELDS}
    for name in ("facts", "memory"):
        try:
            held = json.loads(values[name])
        except (ValueError, TypeError):
            held = {}
        values[name] = held if isinstance(held, dict) else {}
    return Service(**values)
