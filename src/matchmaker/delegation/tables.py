"""The tables of the ledger in SQL, and rows made into records and back.

A transfer and its job are two tables: the first is small and often written, the second is not
written again. Indexes hold what commands ask for, so that they take the same time whatever the
number of jobs that ended long ago.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from math import isfinite
from types import NoneType
from typing import Any, Final

import attrs
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

from matchmaker.delegation.database import columns
from matchmaker.delegation.observation import ReasonCode
from matchmaker.delegation.record import (
    Invocation,
    Payload,
    Record,
    State,
    Transition,
    key_of,
    pairs,
)

VERSION: Final = 3
"""The version of the tables; a ledger of another one is refused."""

metadata: Final = MetaData()

# What the ledger says of itself: its version and its epoch.
facts: Final = Table(
    "delegation_facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

transfers: Final = Table(
    "transfers",
    metadata,
    *columns(Record, key="key"),
    Column("live", Boolean, nullable=False),
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
    "contents",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

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
    "log",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("key", Text, nullable=False),
    *columns(Transition),
)
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
        *wrong,
        transfers.c.state.not_in([str(state) for state in State]),
        transfers.c.code.not_in([str(code) for code in ReasonCode]),
        ~transfers.c.attempt.between(1, 999_999),
        func.length(key) > 64,
        key.op("NOT GLOB")("[A-Za-z0-9]*"),
        key.op("GLOB")("*[^A-Za-z0-9_.-]*"),
    )


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
    values["state"] = State(values["state"])
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
        "key": key,
        "ad": payload.ad,
        "script": payload.script,
        "content": _digest(payload.content),
        "invocation": json.dumps(attrs.asdict(payload.invocation)),
        "own_words": json.dumps(payload.own_words),
        "words": json.dumps(payload.words),
        "directory": payload.directory,
        "environment": _digest(environment),
        "metadata": json.dumps(payload.metadata),
    }
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
