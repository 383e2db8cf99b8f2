"""The ledger: records of transfers and their log in SQL, durable before anything is done.

A record is written in one transaction, which fails if another process wrote the record since it
was read (its revision) or the ledger was rebuilt (its epoch). A transfer and its job are two
tables: the first is small and often written, the second is written once. Indexes cover the queries
of commands, so that their time does not grow with the number of jobs that ended long ago.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, Final

import attrs
import sqlalchemy as sql
from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    RowMapping,
    Table,
    Text,
    event,
    func,
    or_,
)
from sqlalchemy.engine import Connection

from matchmaker._locks import Lock
from matchmaker.delegation.database import (
    DamagedError,
    Database,
    LedgerError,
    TakenError,
    columns,
)
from matchmaker.delegation.group_commit import GroupCommit
from matchmaker.delegation.record import (
    Invocation,
    JobState,
    NoJobError,
    Payload,
    ReasonCode,
    Record,
    Transition,
    Unreadable,
    key_of,
    pairs,
)

VERSION: Final = 3
"""The version of the tables; a ledger of another one is refused."""

metadata: Final = MetaData()

# What the ledger says of itself: its version and its epoch.
facts: Final = Table(
    "delegation_facts", metadata, Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)  # fmt: skip

transfers: Final = Table(
    "transfers", metadata, *columns(Record, key="key"), Column("live", Boolean, nullable=False)
)
# By its text: an Index with a condition for PostgreSQL imports all of that dialect, which takes a
# command that uses SQLite 20 ms.
for _dialect, _true in (("sqlite", "1"), ("postgresql", "true")):
    event.listen(
        transfers,
        "after_create",
        DDL(  # type: ignore[no-untyped-call]
            f"CREATE INDEX transfers_live ON transfers (cluster, created) WHERE live = {_true}"
        ).execute_if(dialect=_dialect),
    )
Index("transfers_created", transfers.c.created)
Index("transfers_state", transfers.c.state, transfers.c.created)

# Thousands of jobs have one script and one environment: each is stored once, by its digest.
contents: Final = Table(
    "contents", metadata, Column("digest", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)  # fmt: skip

jobs: Final = Table(
    "jobs",
    metadata,
    Column("key", Text, primary_key=True),
    *(
        Column(name, Text, nullable=False)
        for name in (
            "ad", "script", "content", "invocation", "own_words", "words", "directory",
            "environment", "metadata",
        )
    ),
)  # fmt: skip

log: Final = Table(
    "log", metadata, Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("key", Text, nullable=False), *columns(Transition),
)  # fmt: skip
Index("log_key", log.c.key, log.c.id)


_LARGEST: Final = sys.float_info.max
_NAMES: Final = tuple(field.name for field in attrs.fields(Record))
_KINDS: Final = {
    name: (
        *((float, int) if isinstance(column.type, Float) else (column.type.python_type,)),
        *((NoneType,) if column.nullable else ()),
    )
    for name in _NAMES
    for column in [transfers.c[name]]
}


def suspect() -> ColumnElement[bool]:
    """What holds for each row of SQLite that may be no record, which is wrong in none of these."""
    wrong: list[ColumnElement[bool]] = []
    for name in _NAMES:
        column = transfers.c[name]
        kinds = {"Float": ("real", "integer"), "Text": ("text",)}.get(
            type(column.type).__name__, ("integer",)
        )
        held = func.typeof(column)
        wrong.append(held.not_in((*kinds, "null") if column.nullable else kinds))
        if isinstance(column.type, Float):
            wrong.append(~column.between(-_LARGEST, _LARGEST))
        if isinstance(column.type, Boolean):
            wrong.append(column.cast(Integer).not_in((0, 1)))
    key = transfers.c.key
    return or_(
        *wrong, transfers.c.state.not_in([str(state) for state in JobState]),
        transfers.c.code.not_in([str(code) for code in ReasonCode]),
        ~transfers.c.attempt.between(1, 999_999), func.length(key) > 64,
        key.op("NOT GLOB")("[A-Za-z0-9]*"), key.op("GLOB")("*[^A-Za-z0-9_.-]*"),
    )  # fmt: skip


def row_of(record: Record) -> dict[str, Any]:
    """The columns of a record."""
    row = {name: getattr(record, name) for name in _NAMES}
    row["state"] = str(record.state)
    row["code"] = None if record.code is None else str(record.code)
    row["live"] = record.state.live
    return row


def record_of(row: RowMapping) -> Record:
    """The record in a row of ``transfers``. Raises ValueError for a row that holds something else.

    SQLite keeps any kind of value in any column.
    """
    values = {name: row[name] for name in _NAMES}
    for name, value in values.items():
        if not isinstance(value, _KINDS[name]):
            raise ValueError(f"{name} is {str(value)[:80]!r}")  # noqa: TRY004 - of a stranger
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{name} is {value}")
    values["state"] = JobState(values["state"])
    values["code"] = None if values["code"] is None else ReasonCode(values["code"])
    record = Record(**values)
    if key_of(record.name) != (record.key, record.attempt):
        raise ValueError(f"{record.name[:80]!r} is no name of a job")
    return record


def job_rows(key: str, payload: Payload) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The columns of a job, and the rows of ``contents`` that they name by digest."""
    environment = json.dumps(payload.environment).encode()
    named = {_digest(each): each for each in (payload.content, environment)}
    row = {
        "key": key, "ad": payload.ad, "script": payload.script, "content": _digest(payload.content),
        "invocation": json.dumps(attrs.asdict(payload.invocation)),
        "own_words": json.dumps(payload.own_words), "words": json.dumps(payload.words),
        "directory": payload.directory, "environment": _digest(environment),
        "metadata": json.dumps(payload.metadata),
    }  # fmt: skip
    return row, named


def payload_of(row: RowMapping, named: Mapping[str, bytes]) -> Payload:
    """The job in a row of ``jobs``, with the contents that it names.

    Raises KeyError or ValueError for a row that was changed or damaged.
    """
    invocation = json.loads(row["invocation"])
    return Payload(
        ad=row["ad"],
        script=row["script"],
        content=named[row["content"]],
        invocation=Invocation(**{
            **invocation, "arguments": tuple(invocation["arguments"]),
            "exports": pairs(invocation["exports"]),
        }),
        own_words=tuple(json.loads(row["own_words"])),
        words=tuple(json.loads(row["words"])),
        directory=row["directory"],
        environment=pairs(json.loads(named[row["environment"]])),
        metadata=pairs(json.loads(row["metadata"])),
    )  # fmt: skip


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# A writer holds the file for milliseconds: who waits longer meets a program that hangs.
_WAIT_SECONDS: Final = 10.0
# SQLite takes 999 parameters in a statement of any version.
_AT_ONCE: Final = 500

Change = tuple[Record, Record]
"""A record as it was read, and as it is to be."""
New = tuple[Record, Payload, str]
"""A new record, its job, and who writes it."""


class Ledger:
    """Records of transfers in a database.

    Safe for threads and for several processes on one machine; on PostgreSQL for several machines.
    Every method raises LedgerError if the database cannot be read or written.
    """

    def __init__(self, place: str | Path, *, wait: float = _WAIT_SECONDS) -> None:
        """Open a ledger, and makes its tables if there are none.

        Args:
            place: the path of a file of SQLite, or a URL such as ``postgresql://host/database``.
            wait: how many seconds to wait for another writer.

        Raises:
            LedgerError: it cannot be opened or made, or is of a newer version.
        """
        self.place = str(place)
        self._lock = Lock()
        self._adds = GroupCommit(self._add_all)
        self._saves = GroupCommit(self._save_all)
        self._database = Database(place, wait=wait)
        self._reading = self._database.reading
        self.sqlite = self._database.sqlite
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with self._reading() as read:
            known = sql.inspect(read).has_table(facts.name)
        if not known:
            with self._writing() as write:
                metadata.create_all(write)
                own = secrets.randbits(32)
                for name, value in (("version", VERSION), ("epoch", 1), ("identity", own)):
                    there = write.scalar(sql.select(facts.c.value).where(facts.c.name == name))
                    if there is None:
                        write.execute(facts.insert().values(name=name, value=value))
        with self._reading() as read:
            found = {row.name: row.value for row in read.execute(sql.select(facts))}
        version = found.get("version", 0)
        if version != VERSION:
            do = "use a newer program" if version > VERSION else (
                "end its jobs with the program that made it, or name another ledger"
            )  # fmt: skip
            raise LedgerError(
                f"{self.place}: a ledger of version {version}; this program knows version "
                f"{VERSION}: {do}"
            )
        self.epoch = found.get("epoch", 0)
        self.identity = f"{found.get('identity', 0):08x}"
        """What tells the jobs of this ledger from those of others; a rebuild may restore it."""

    def close(self) -> None:
        """Close the connections; the ledger cannot be used afterwards."""
        self._database.close()

    # --- reading ----------------------------------------------------------------------------------

    def find(self, key: str) -> Record | None:
        """Return the record of a key, or None. Raises DamagedError for a damaged row."""
        for found in self._select(transfers.c.key == key):
            if isinstance(found, Unreadable):
                raise DamagedError(f"{found.key}: {found.why}")
            return found
        return None

    def get(self, key: str) -> Record:
        """The record of a key. Raises NoJobError for an unknown one."""
        found = self.find(key)
        if found is None:
            raise NoJobError(f"no job has the key {key[:80]!r}; classad jobs lists them")
        return found

    def records(self, keys: Collection[str]) -> list[Record]:
        """The records of those keys that there are and can be read."""
        wanted = sorted(keys)
        found: list[Record] = []
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            found += _readable(self._select(transfers.c.key.in_(some)))
        return found

    def live(self, cluster: str | None = None) -> list[Record]:
        """The records that are not terminal, the oldest first; of one batch system or of all."""
        return _readable(self.live_rows(cluster))

    def live_rows(self, cluster: str | None = None) -> list[Record | Unreadable]:
        """Give the live records, and each row that is damaged and so no record."""
        only = () if cluster is None else (transfers.c.cluster == cluster,)
        return self._select(transfers.c.live == sql.true(), *only, order=transfers.c.created)

    def recent(self, most: int = 1000, states: Collection[str] = ()) -> list[Record]:
        """The youngest records, in some states or in all."""
        only = (transfers.c.state.in_(sorted(map(str, states))),) if states else ()
        return _readable(self._select(*only, order=transfers.c.created.desc(), most=most))

    def unreadable(self) -> list[Unreadable]:
        """Return every row whose values were changed or damaged.

        The database itself looks for rows that may be such, so that a million of sound ones take
        seconds.
        """
        where = (suspect(),) if self.sqlite else ()
        return [found for found in self._select(*where) if isinstance(found, Unreadable)]

    def known(self, keys: Collection[str]) -> set[str]:
        """Those of some keys that have a row, sound or not."""
        wanted = sorted(keys)
        found: set[str] = set()
        with self._reading() as read:
            for start in range(0, len(wanted), _AT_ONCE):
                some = transfers.c.key.in_(wanted[start : start + _AT_ONCE])
                found |= set(read.scalars(sql.select(transfers.c.key).where(some)))
        return found

    def ended(self, before: float, most: int = 1000, after: str = "") -> list[Record]:
        """Records that have been terminal since before a time, by key, those after a key."""
        return _readable(
            self._select(
                transfers.c.live == sql.false(), transfers.c.since < before,
                transfers.c.key > after, order=transfers.c.key, most=most,
            )
        )  # fmt: skip

    def count_ended(self, before: float) -> int:
        """How many records have been terminal since before a time."""
        where = (transfers.c.live == sql.false(), transfers.c.since < before)
        with self._reading() as read:
            query = sql.select(sql.func.count()).select_from(transfers).where(*where)
            return int(read.scalar(query) or 0)

    def _select(
        self, *where: sql.ColumnElement[bool], order: Any = None, most: int | None = None
    ) -> list[Record | Unreadable]:
        with self._reading() as read:
            query = sql.select(transfers).where(*where).order_by(order).limit(most)
            return [_found(row) for row in read.execute(query).mappings()]

    def payload(self, key: str) -> Payload | None:
        """The job that a key stands for; None if nothing describes it, as after a rebuild.

        Raises DamagedError for a row that was changed or damaged.
        """
        with self._reading() as read:
            row = read.execute(sql.select(jobs).where(jobs.c.key == key)).mappings().first()
            if row is None:
                return None
            wanted = contents.c.digest.in_((row["content"], row["environment"]))
            rows = read.execute(sql.select(contents).where(wanted))
            named = {each.digest: each.content for each in rows}
        try:
            return payload_of(row, named)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(
                f"{self.place}: the description of {key} is damaged: {error}"
            ) from None

    def history(self, key: str) -> list[Transition]:
        """The transitions of a job, the first one first; empty for an unknown key."""
        with self._reading() as read:
            columns = [log.c[field.name] for field in attrs.fields(Transition)]
            query = sql.select(*columns).where(log.c.key == key).order_by(log.c.id)
            return [Transition(*row) for row in read.execute(query)]

    def check(self) -> list[str]:
        """Return the faults that the database's own check finds."""
        if not self.sqlite:
            return []
        with self._reading() as read:
            said = [str(row[0]) for row in read.exec_driver_sql("PRAGMA integrity_check(20)")]
        return [] if said == ["ok"] else said

    # --- writing ----------------------------------------------------------------------------------

    def add(self, wanted: Sequence[New]) -> list[Record | None]:
        """Write new records with their jobs; None for each key that is there already.

        They share a transaction, with those of other threads.
        """
        return self._adds(wanted) if wanted else []

    def _add_all(self, wanted: Sequence[Sequence[New]]) -> list[list[Record | None]]:
        added = iter(self._add_free([new for some in wanted for new in some]))
        return [[next(added) for _ in some] for some in wanted]

    def _add_free(self, wanted: Sequence[New]) -> list[Record | None]:
        try:
            return list(self._add(wanted))
        except TakenError:
            if len(wanted) == 1:
                return [None]
        return [found for one in wanted for found in self._add_free([one])]

    def _add(self, wanted: Sequence[New]) -> list[Record]:
        made = [attrs.evolve(record, epoch=self.epoch, revision=1) for record, _, _ in wanted]
        rows = [job_rows(record.key, payload) for record, payload, _ in wanted]
        named = {digest: content for _, more in rows for digest, content in more.items()}
        with self._writing() as write:
            self._check_epoch(write)
            write.execute(transfers.insert(), [row_of(record) for record in made])
            # In one order for all: PostgreSQL ends one of two that wait for each other's.
            contents_ = [{"digest": d, "content": c} for d, c in sorted(named.items())]
            write.execute(_CONTENT, contents_)
            write.execute(jobs.insert(), [row for row, _ in rows])
            write.execute(log.insert(), [_entry(None, r, by) for r, _, by in wanted])
        return made

    def save(
        self, changes: Sequence[Change], by: str = "", *, durable: bool = True
    ) -> list[Record | None]:
        """Write changed records in one transaction; None for each that another wrote meanwhile.

        A change of state goes into the log in the same transaction. Threads share a transaction.
        One that need not be `durable` outlives the death of this process, and reaches the disk with
        the next that must: a crash of the machine before that takes it back.
        """
        return self._saves((tuple(changes), by, durable)) if changes else []

    def _save_all(
        self, wanted: Sequence[tuple[Sequence[Change], str, bool]]
    ) -> list[list[Record | None]]:
        changes = [(change, by) for some, by, _ in wanted for change in some]
        saved = iter(self._save(changes, durable=any(durable for *_, durable in wanted)))
        return [[next(saved) for _ in some] for some, *_ in wanted]

    def _save(self, named: Sequence[tuple[Change, str]], *, durable: bool) -> list[Record | None]:
        changes = [change for change, _ in named]
        new = [attrs.evolve(after, revision=before.revision + 1) for before, after in changes]
        rows = [
            {**row_of(made), "old_key": before.key, "old_revision": before.revision,
             "old_epoch": before.epoch}
            for (before, _), made in zip(changes, new, strict=True)
        ]  # fmt: skip
        with self._writing(durable=durable) as write:
            self._check_epoch(write)
            won = _updated(write, rows)
            moved = [
                _entry(before, made, by)
                for ((before, _), by), made, held in zip(named, new, won, strict=True)
                if held and (before.state, before.attempt) != (made.state, made.attempt)
            ]
            if moved:
                write.execute(log.insert(), moved)
        return [made if held else None for made, held in zip(new, won, strict=True)]

    def adopt(self, identity: str) -> bool:
        """Take the identity of a lost ledger; False, and no change, if there are jobs already."""
        with self._writing() as write:
            if write.scalar(sql.select(log.c.id).limit(1)) is not None:
                return False
            value = int(identity, 16)
            write.execute(facts.update().where(facts.c.name == "identity").values(value=value))
        self.identity = identity
        return True

    def last_states(self, keys: Collection[str]) -> dict[str, str]:
        """The last state in the log, by key, of those keys that are there."""
        wanted = sorted(keys)
        found: dict[str, str] = {}
        with self._reading() as read:
            for start in range(0, len(wanted), _AT_ONCE):
                some = log.c.key.in_(wanted[start : start + _AT_ONCE])
                query = sql.select(log.c.key, log.c.target).where(some).order_by(log.c.id)
                found |= {row.key: row.target for row in read.execute(query)}
        return found

    def remove(self, records: Sequence[Record]) -> int:
        """Remove terminal records with their jobs and their log, unless they were written since.

        Gives how many are gone. Their keys are free again.
        """
        gone: list[str] = []
        with self._writing() as write:
            self._check_epoch(write)
            for record in records:
                same = (transfers.c.key == record.key, transfers.c.revision == record.revision)
                dead = transfers.c.live == sql.false()
                if write.execute(transfers.delete().where(*same, dead)).rowcount == 1:
                    gone.append(record.key)
            for start in range(0, len(gone), _AT_ONCE):
                some = gone[start : start + _AT_ONCE]
                write.execute(jobs.delete().where(jobs.c.key.in_(some)))
                write.execute(log.delete().where(log.c.key.in_(some)))
        return len(gone)

    def drop_contents(self) -> None:
        """Remove the scripts and environments that no job names any more."""
        used = sql.select(jobs.c.content).union(sql.select(jobs.c.environment))
        with self._writing() as write:
            write.execute(contents.delete().where(contents.c.digest.not_in(used)))

    def rebuild(
        self, records: Sequence[Record], at: float, by: str = "",
        payloads: Mapping[str, Payload] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Replace the live records, and those of the given keys, in a new epoch.

        Whoever read the ledger before can write no more. Jobs and the log stay. Each record keeps
        the facts of the job in the row before, so that a job with a description can be submitted
        again with the same mark. ``payloads`` describe jobs, by key, that lost theirs.
        """
        keys = sorted({record.key for record in records})
        with self._writing() as write:
            self._check_epoch(write)
            known: dict[str, dict[str, Any]] = {}
            for start in range(0, len(keys), _AT_ONCE):
                some = transfers.c.key.in_(keys[start : start + _AT_ONCE])
                columns = (transfers.c.key, *(transfers.c[name] for name in _OF_THE_JOB))
                for row in write.execute(sql.select(*columns).where(some)).mappings():
                    known[row["key"]] = {n: v for n, v in row.items() if n in _OF_THE_JOB}
                write.execute(transfers.delete().where(some))
            self.epoch += 1
            write.execute(facts.update().where(facts.c.name == "epoch").values(value=self.epoch))
            write.execute(
                transfers.update().where(transfers.c.live == sql.true()).values(epoch=self.epoch)
            )
            made = [
                attrs.evolve(r, epoch=self.epoch, revision=1, **_sound(known.get(r.key, {})))
                for r in records
            ]
            if made:
                write.execute(transfers.insert(), [row_of(record) for record in made])
                self._describe(write, payloads)
                write.execute(log.insert(), [{**_entry(None, r, by), "at": at,
                                              "reason": "rebuilt"} for r in made])  # fmt: skip

    def _describe(self, write: Connection, payloads: Mapping[str, Payload]) -> None:
        """Write the jobs that have no description."""
        for key, payload in payloads.items():
            if write.scalar(sql.select(jobs.c.key).where(jobs.c.key == key)) is None:
                row, named = job_rows(key, payload)
                contents_ = [{"digest": d, "content": c} for d, c in named.items()]
                write.execute(_CONTENT, contents_)
                write.execute(jobs.insert(), [row])

    def _check_epoch(self, write: Connection) -> None:
        now = write.scalar(_EPOCH)
        if now != self.epoch:
            raise LedgerError(f"{self.place} was rebuilt meanwhile; open it again")

    @contextmanager
    def _writing(self, *, durable: bool = True) -> Iterator[Connection]:
        # Threads wait here: SQLite makes who finds it busy sleep, longer each time.
        with self._lock, self._database.writing(durable=durable) as connection:
            yield connection


def _updated(write: Connection, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Write rows all at once, and one by one only if somebody else wrote some of them."""
    if len(rows) > 1:
        with write.begin_nested() as attempt:
            if write.execute(_UPDATE, rows).rowcount == len(rows):
                return [True] * len(rows)
            attempt.rollback()
    return [write.execute(_UPDATE, row).rowcount == 1 for row in rows]


# Made once: each making of a statement takes longer than SQLite does for it.
_CONTENT: Final = sql.text(
    "INSERT INTO contents (digest, content) VALUES (:digest, :content)"
    " ON CONFLICT (digest) DO NOTHING"
)
_EPOCH: Final = sql.select(facts.c.value).where(facts.c.name == "epoch")
_UPDATE: Final = (
    transfers.update()
    .where(
        transfers.c.key == sql.bindparam("old_key"),
        transfers.c.revision == sql.bindparam("old_revision"),
        transfers.c.epoch == sql.bindparam("old_epoch"),
    )
    .values({column.name: sql.bindparam(column.name) for column in transfers.c})
)


_OF_THE_JOB: Final[Mapping[str, type]] = {
    "ledger": str, "digest": str, "created": float, "owner": str,
}  # fmt: skip
"""What a row says of its job that is the same in every attempt."""


def _sound(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of a row has the right kind; all of it, since the mark is made of all."""
    return row if all(isinstance(row.get(n), kind) for n, kind in _OF_THE_JOB.items()) else {}


def _found(row: sql.RowMapping) -> Record | Unreadable:
    try:
        return record_of(row)
    except ValueError as error:
        why = f"its row in the ledger is damaged ({error}): classad jobs --rebuild makes it anew"
        return Unreadable(str(row["key"])[:80], why)


def _readable(found: Iterable[Record | Unreadable]) -> list[Record]:
    return [one for one in found if isinstance(one, Record)]


def _entry(before: Record | None, after: Record, by: str) -> dict[str, Any]:
    return {
        "key": after.key, "attempt": after.attempt, "revision": after.revision, "at": after.since,
        "source": "new" if before is None else str(before.state), "target": str(after.state),
        "by": by, "reason": after.reason, "code": None if after.code is None else str(after.code),
    }  # fmt: skip


def set_aside(place: str) -> str | None:
    """Rename the file of a damaged ledger, so that a new one can be made; return its new name.

    None if nothing is damaged, or the ledger is not a file. Raises LedgerError if it cannot be read
    for another reason, and OSError.
    """
    path = Path(place)
    if "://" in place or not path.exists():
        return None
    try:
        ledger = Ledger(place)
        try:
            damaged = bool(ledger.check())
            ledger.live()
        finally:
            ledger.close()
    except DamagedError:
        damaged = True
    if not damaged:
        return None
    number = next(n for n in range(1, 10_000) if not Path(f"{place}.damaged-{n}").exists())
    for end in ("", "-wal", "-shm"):
        if Path(f"{place}{end}").exists():
            Path(f"{place}{end}").rename(f"{place}.damaged-{number}{end}")
    return f"{place}.damaged-{number}"
