"""Connections to the ledger's database, and its errors in words for people.

The settings that make SQLite durable, with one writer at a time, are here.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, get_args

import attrs
import sqlalchemy as sql
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError


class LedgerError(ValueError):
    """The ledger cannot be read or written; the message says why and what to do."""


class DamagedError(LedgerError):
    """The ledger's file is damaged, or holds something else."""


class UnfinishedError(LedgerError):
    """A job may be on record, and what came of its submission is not.

    Whoever hands it over again must use the same key: then it still starts once.

    Attributes:
        key: the job's key.
        state: the state in which the ledger has the job; None if it is not known whether it has it.
    """

    def __init__(self, message: str, key: str, state: str | None) -> None:
        super().__init__(message)
        self.key = key
        self.state = state


class TakenError(Exception):
    """The key exists already."""


def make_private(path: Path) -> None:
    """Make a file that its owner alone may read, whatever the umask; one that is there stays.

    SQLite gives its log and its shared memory, ``-wal`` and ``-shm``, the mode of the file.
    """
    with suppress(OSError):  # SQLite says what is wrong with the place.
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.fchmod(descriptor, 0o600)
            os.close(descriptor)


def make_private_folder(path: Path) -> None:
    """Make a folder that its owner alone may enter, whatever the umask; one that is there stays.

    Raises OSError.
    """
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)


def exposed(path: Path) -> str:
    """Return a sentence for people if others may read a file or enter a folder; else nothing.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name:
    ...     open_, private = Path(name, "open"), Path(name, "private")
    ...     open_.touch(); open_.chmod(0o644); make_private(private)
    ...     exposed(open_).partition(": ")[2], exposed(private)
    ('others may read it, and it holds what is not theirs: chmod 600 makes it yours alone', '')
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    if not mode & 0o077:
        return ""
    folder = stat.S_ISDIR(mode)
    return (
        f"{path}: others may {'look into' if folder else 'read'} it, and it holds what is not"
        f" theirs: chmod {'700' if folder else '600'} makes it yours alone"
    )


def _set_up_sqlite(engine: Engine, wait: float) -> None:
    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        # Transactions begin below, at once with the right to write, and not at the first write.
        connection.isolation_level = None
        _write_ahead(connection, wait)

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        options = connection.get_execution_options()
        raw = connection.connection.cursor()
        if options.get("writes"):
            # In the log of SQLite what is not synchronized is so with the next that is.
            raw.execute(f"PRAGMA synchronous = {'FULL' if options.get('durable') else 'NORMAL'}")
        raw.execute("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")


def _write_ahead(connection: sqlite3.Connection, wait: float) -> None:
    """Set the mode of the file's log, which stays.

    SQLite's own timeout does not hold here: if two processes open a new file, one is refused at
    once.
    """
    end = time.monotonic() + wait
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= end:
                raise
            time.sleep(0.01)
        else:
            return


_TYPES: Final[Mapping[object, Any]] = {bool: sql.Boolean, int: sql.BigInteger, float: sql.Float}


def columns(kind: type, *, key: str = "") -> list[sql.Column[Any]]:
    """The columns for the fields of a class: text but for numbers and truth; NULL is None."""
    made = []
    for field in attrs.fields(attrs.resolve_types(kind)):
        kinds = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
        made.append(
            sql.Column(
                field.name, _TYPES.get(kinds[0], sql.Text),
                primary_key=field.name == key, nullable=NoneType in kinds,
            )
        )  # fmt: skip
    return made


DAMAGED: Final = "it is no ledger, or a damaged one; classad jobs --rebuild makes it anew"
_SAY: Final = {
    "locked": "another program has been writing to it for {wait:g} s; try again",
    "read-?only": "it cannot be written: change the permissions of the file and its folder",
    "full": "the disk is full: make room and try again",
    "unable to open": "it cannot be opened or made: check the folder and its permissions",
    "disk i/o": "the disk reports an error",
}
"""What errors of SQLite mean, by patterns in their text; the first that is found counts."""
_BROKEN: Final = "not a database|malformed|no such"


def _sqlite_words(error: sqlite3.Error, wait: float, damaged: str) -> str:
    said = str(error)
    for pattern, words in {**_SAY, _BROKEN: damaged}.items():
        if re.search(pattern, said, re.IGNORECASE):
            return words.format(wait=wait)
    return said


class Database:
    """A file of SQLite, or a PostgreSQL by its URL, with errors in words for people.

    Each use raises LedgerError if the database fails, DamagedError if it cannot be used any more,
    and TakenError for a key that is there already.

    Args:
        place: the path or the URL.
        wait: how many seconds to wait for another writer.
        damaged: the message for a database that cannot be used any more.
    """

    def __init__(self, place: str | Path, *, wait: float, damaged: str = DAMAGED) -> None:
        self.place = str(place)
        self.engine = _engine(self.place, wait)
        self.sqlite = self.engine.dialect.name == "sqlite"
        self._explained = partial(_explained, self.place, wait, damaged)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that reads."""
        with self._explained(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """Yield a connection in one transaction, which an exception rolls back.

        With ``durable``, the commit waits for the disk.
        """
        with self._explained(), self.engine.connect() as plain:
            connection = plain.execution_options(writes=True, durable=durable)
            with connection.begin():
                if not durable and not self.sqlite:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")
                yield connection

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()


def _engine(place: str, wait: float) -> Engine:
    """Make the engine for a path or a URL. Raises LedgerError for an unknown kind of database."""
    if "://" not in place:
        if place in {"", ":memory:"}:
            raise LedgerError(f"{place!r} is no file, and the ledger must be kept: name a file")
        make_private(Path(place))
        url = sql.URL.create("sqlite", database=place)
        made = sql.create_engine(url, connect_args={"timeout": wait})
        _set_up_sqlite(made, wait)
        return made
    # The driver that the extra installs; a URL may name another one.
    address = place.replace("postgresql://", "postgresql+psycopg://", 1)
    if not address.startswith("postgresql+"):
        raise LedgerError(
            f"{place.partition('://')[0]}: the ledger is a file, or at postgresql://…"
        )
    try:
        return sql.create_engine(
            address, pool_pre_ping=True, connect_args={"connect_timeout": int(wait)}
        )
    except (ArgumentError, NoSuchModuleError) as error:
        raise LedgerError(f"not the address of a database: {error}") from None
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"{error.name} is not installed: pip install 'classad-matchmaker[postgresql]'"
        ) from None


@contextmanager
def _explained(place: str, wait: float, damaged: str) -> Iterator[None]:
    """Turn the database's errors into LedgerError, and a key that is there into TakenError."""
    try:
        yield
    except IntegrityError as error:
        raise TakenError from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = getattr(error, "orig", error)
        if isinstance(cause, sqlite3.Error):
            words = _sqlite_words(cause, wait, damaged)
        else:
            words = " ".join(str(cause or error).split())[:300]
        kind = DamagedError if words == damaged else LedgerError
        raise kind(f"{place}: {words}") from error
