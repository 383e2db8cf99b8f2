"""The tables of factories, beside the ledger's: ``servicelist``, a row a service, and ``pilots``.

A service has one process at a time, which holds the row by a token; what another process took over
it can no longer write. A pilot is reserved in ``pilots`` before it is handed over, in the
transaction that counts the others, so that caps hold at any moment and whatever crashes. What a
service does is in :mod:`matchmaker.pilots.factory.cycle`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import attrs
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from matchmaker.delegation import database
from matchmaker.delegation.database import TakenError
from matchmaker.delegation.errors import LedgerError

_WAIT_SECONDS: Final = 10.0


class ServiceError(ValueError):
    """A service cannot be started or reached; the message says why and what to do."""


class TakenOverError(ServiceError):
    """Another process runs the service now: this one must do nothing more."""


@attrs.frozen(slots=True, kw_only=True)
class Service:
    """A row of ``servicelist``. Times are seconds since 1970.

    Attributes:
        name: names the service.
        token: of the process that runs it, or ran it last.
        state: ``running``, ``stopped`` or ``failed``.
        wish: what a command wants of it: ``stop``, ``end`` (its pilots too), or nothing.
        serves: the sites and queues that it submits to, in words.
        file: its settings.
        host, pid: where it runs.
        started: when this process began.
        beat: when it was last heard of.
        patience: after how many seconds without a heartbeat it counts as dead.
        ended: when it stopped or failed.
        reason: why it stopped or failed.
        cycles: how many decisions it made, of all its processes.
        submitted: how many pilots it set out to submit, of all its processes: counted in the
            transaction that reserves them, so that no kill loses any.
        facts: numbers and reasons of its last cycle, for people and monitoring.
        memory: what its next decision has to know.
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
    """A pilot as the factory has it on record. Times are seconds since 1970.

    Attributes:
        key: its key in the ledger.
        service: who submitted it.
        queue: the key of its queue.
        cluster: the batch system, as the ledger calls it.
        submitted: when it was reserved.
        started: when it was first seen running; None if it was not.
        ended: when it was first seen ended, or was refused.
        live: whether it counts: it was reserved and has not ended.
        failed: whether its queue lost it.
        reason: why it ended as it did.
    """

    key: str
    service: str
    queue: str
    cluster: str
    submitted: float
    started: float | None = None
    ended: float | None = None
    live: bool = True
    failed: bool = False
    reason: str = ""


@attrs.frozen(slots=True)
class Reservation:
    """Pilots to reserve at a queue, and how many it may have: in all, and waiting; None: any."""

    queue: str
    cluster: str
    count: int
    most: int | None = None
    most_queued: int | None = None


metadata: Final = sql.MetaData()
servicelist: Final = sql.Table("servicelist", metadata, *database.columns(Service, key="name"))
pilots: Final = sql.Table("pilots", metadata, *database.columns(PilotRow, key="key"))
sql.Index("pilots_live", pilots.c.live, pilots.c.queue)
sql.Index("pilots_submitted", pilots.c.submitted)


class Services:
    """The two tables in a database; safe for several processes, on PostgreSQL on many machines.

    Every method raises LedgerError where the database cannot be read or written.
    """

    def __init__(self, place: str, *, wait: float = _WAIT_SECONDS) -> None:
        """Opens the tables, and makes them if there are none.

        Args:
            place: the ledger's file or URL.
            wait: how many seconds to wait for another writer.
        """
        self.place = place
        self._wait = wait
        self._engine = database.engine(place, wait)
        self._reading = partial(database.reading, self._engine, place, wait)
        self.sqlite = self._engine.dialect.name == "sqlite"
        try:
            with self._reading() as read:
                known = sql.inspect(read).has_table(pilots.name)
            if not known:
                with self._writing() as write:
                    metadata.create_all(write)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose()

    # --- services -----------------------------------------------------------------------------

    def all(self) -> list[Service]:
        """Every service, by name."""
        with self._reading() as read:
            rows = read.execute(sql.select(servicelist).order_by(servicelist.c.name)).mappings()
            return [_service(row) for row in rows]

    def find(self, name: str) -> Service | None:
        """The service of a name, or None."""
        return next((one for one in self.all() if one.name == name), None)

    def begin(self, new: Service, dead: Callable[[Service], bool]) -> Service:
        """Takes a service: a new one, one that ended, or one whose process is dead.

        Its numbers and its memory go on from where they were.

        Raises:
            ServiceError: it is running.
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

    def save(self, service: Service) -> str:
        """Writes a service's row; returns what a command wishes of it.

        Raises TakenOverError where another process has it.
        """
        values = _row(service)
        del values["wish"]
        with self._writing() as write:
            mine = (servicelist.c.name == service.name, servicelist.c.token == service.token)
            if write.execute(servicelist.update().where(*mine).values(values)).rowcount != 1:
                raise TakenOverError(f"another process runs {service.name} now")
            wish = write.scalar(sql.select(servicelist.c.wish).where(*mine))
            return str(wish or "")

    def wish(self, name: str, wish: str) -> Service:
        """Writes down what a command wants of a service. Raises ServiceError for an unknown one."""
        with self._writing() as write:
            where = servicelist.c.name == name
            done = write.execute(servicelist.update().where(where).values(wish=wish)).rowcount
        found = self.find(name)
        if not done or found is None:
            names = ", ".join(one.name for one in self.all()) or "none"
            raise ServiceError(f"no service is called {name!r}; there are: {names}")
        return found

    def bury(self, known: Service, now: float, reason: str) -> None:
        """Records the end of a service whose process is dead and left no record of it."""
        mine = (servicelist.c.name == known.name, servicelist.c.token == known.token,
                servicelist.c.state == "running", servicelist.c.beat == known.beat)  # fmt: skip
        with self._writing() as write:
            write.execute(
                servicelist.update().where(*mine)
                .values(state="failed", ended=now, reason=reason, wish="")
            )  # fmt: skip

    # --- pilots -------------------------------------------------------------------------------

    def live(self) -> list[PilotRow]:
        """The pilots of all services that count, the oldest first."""
        return self._rows(pilots.c.live == sql.true())

    def history(self, since: float, most: int = 50_000) -> list[PilotRow]:
        """The pilots that were submitted since a time, the oldest first; of too many the latest."""
        return self._rows(pilots.c.submitted >= since, most=most)

    def _rows(self, *where: sql.ColumnElement[bool], most: int | None = None) -> list[PilotRow]:
        order = pilots.c.submitted.desc()
        with self._reading() as read:
            found = read.execute(sql.select(pilots).where(*where).order_by(order).limit(most))
            return [PilotRow(**row) for row in found.mappings()][::-1]

    def reserve(
        self, service: Service, wanted: Sequence[Reservation], now: float,
        new_key: Callable[[], str], *, most: int | None = None, most_queued: int | None = None,
    ) -> list[PilotRow]:  # fmt: skip
        """Reserves pilots as far as the caps allow, in one transaction with counting the others.

        Args:
            service: for whom; its process must still hold it.
            wanted: how many where.
            now: the time, in seconds since 1970.
            new_key: makes the keys.
            most: how many pilots there may be in all, of every service.
            most_queued: how many of them may wait.

        Raises TakenOverError where another process has the service.
        """
        made: list[PilotRow] = []
        with self._writing() as write:
            if not self.sqlite:
                write.exec_driver_sql("LOCK TABLE pilots IN SHARE ROW EXCLUSIVE MODE")
            token = write.scalar(
                sql.select(servicelist.c.token).where(servicelist.c.name == service.name)
            )
            if token != service.token:
                raise TakenOverError(f"another process runs {service.name} now")
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
                counted = servicelist.c.submitted + len(made)
                mine = servicelist.c.name == service.name
                write.execute(servicelist.update().where(mine).values(submitted=counted))
        return made

    def update(self, rows: Sequence[PilotRow]) -> None:
        """Writes what became of pilots."""
        if not rows:
            return
        names = ("started", "ended", "live", "failed", "reason")
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
        """Removes the pilots that were submitted before a time and have ended."""
        with self._writing() as write:
            old = (pilots.c.live == sql.false()) & (pilots.c.submitted < before)
            write.execute(pilots.delete().where(old))

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        try:
            with database.writing(self._engine, self.place, self._wait) as connection:
                yield connection
        except TakenError:
            raise LedgerError(f"{self.place}: another process wrote the same; try again") from None


def _least(cap: int | None, there: int) -> int:
    """How much room a cap leaves; a number beyond any where there is no cap."""
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
