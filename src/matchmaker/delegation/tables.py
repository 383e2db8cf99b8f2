"""The tables of the ledger in SQL, and rows made into records and back.

A transfer and its job are two tables: the first is small and often written, the second is not
written again. Indexes hold what commands ask for, so that they take the same time whatever the
number of jobs that ended long ago.
"""

from __future__ import annotations

import json
from math import isfinite
from types import NoneType
from typing import Any, Final

import attrs
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    RowMapping,
    Table,
    Text,
    true,
)

from matchmaker.delegation.contact import key_of
from matchmaker.delegation.database import columns
from matchmaker.delegation.observation import ReasonCode
from matchmaker.delegation.record import Payload, Record, State, Transition

VERSION: Final = 1
"""The version of the tables; a ledger of a newer one is refused."""

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
Index(
    "transfers_live",
    transfers.c.cluster,
    transfers.c.created,
    sqlite_where=transfers.c.live == true(),
    postgresql_where=transfers.c.live == true(),
)
Index("transfers_created", transfers.c.created)
Index("transfers_state", transfers.c.state, transfers.c.created)

jobs: Final = Table("jobs", metadata, Column("key", Text, primary_key=True), *columns(Payload))

log: Final = Table(
    "log",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("key", Text, nullable=False),
    *columns(Transition),
)
Index("log_key", log.c.key, log.c.id)


_NAMES: Final = tuple(field.name for field in attrs.fields(Record))
_KINDS: Final = {
    name: (
        *((float, int) if isinstance(column.type, Float) else (column.type.python_type,)),
        *((NoneType,) if column.nullable else ()),
    )
    for name in _NAMES
    for column in [transfers.c[name]]
}


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


def job_row(key: str, payload: Payload) -> dict[str, Any]:
    """The columns of a job."""
    return {
        "key": key,
        "ad": payload.ad,
        "script": payload.script,
        "words": json.dumps(payload.words),
        "metadata": json.dumps(payload.metadata),
    }


def payload_of(row: RowMapping) -> Payload:
    """The job in a row of ``jobs``."""
    pairs = tuple((str(name), str(text)) for name, text in json.loads(row["metadata"]))
    return Payload(row["ad"], row["script"], tuple(json.loads(row["words"])), pairs)
