"""The binder's tables: the same tests on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import sqlalchemy as sql

from matchmaker.delegation import LedgerError
from matchmaker.delegation.database import DamagedError, TakenError
from matchmaker.pilots.binder import state, tables
from matchmaker.pilots.binder.state import (
    BinderChange,
    BinderJob,
    Book,
    JobStage,
    PilotSession,
    apply_change,
)
from matchmaker.pilots.binder.tables import SupersededError, Tables
from tests.delegation.postgres import postgres
from tests.services.daemons import ServiceUnavailable

Open = Callable[[], Tables]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    try:
        with postgres() as url:
            yield url
    except ServiceUnavailable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same tables, as often as wanted."""
    opened: list[Tables] = []
    place = str(tmp_path / "binder.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("server")

    def opens() -> Tables:
        opened.append(Tables(place))
        return opened[-1]

    yield opens
    if request.param == "postgresql" and opened:
        tables.metadata.drop_all(opened[0]._database.engine)
    for each in opened:
        each.close()


def job(id_: str = "j", **changed: Any) -> BinderJob:
    plain = BinderJob(id=id_, owner="ana", key=id_, ad='[ a = "é\\n" ]')
    return attrs.evolve(plain, **changed)


SESSION = PilotSession(name="s", subject="site", ad="[ Cpus = 4 ]", owners="ana ben", heard=7.0)


def test_a_restart_goes_on_from_what_was_stored(again: Open) -> None:
    book, stored = Book(), again()
    for change in (
        state.begin(SESSION),
        state.submit(book, job("a"))[1],
        state.submit(book, job("b"))[1],
        state.submit(book, job("c", detached=False))[1],
    ):
        apply_change(book, change)
        stored.write(change)
    for id_ in ("a", "c"):
        change = state.give(book, id_, "s")
        apply_change(book, change)
        stored.write(change)
    later, lost = state.restore(*again().read(), now=100.0)
    assert later.jobs == book.jobs
    assert later.sessions == {"s": attrs.evolve(SESSION, heard=100.0)}
    assert [each.id for each in lost.jobs] == ["c"]
    assert not state.expire(later, 109.0, 10.0)
    again_queued = state.expire(later, 111.0, 10.0)
    assert {each.id: each.stage for each in again_queued.jobs}["a"] is JobStage.QUEUED


def test_a_session_that_was_soon_over_is_not_kept(again: Open) -> None:
    again().write(BinderChange(jobs=(job(),), begun=(SESSION,), over=("s",)))
    assert again().read() == ([job()], [])


def test_many_jobs_are_stored_at_once(again: Open) -> None:
    many = tuple(job(f"j{n:04}") for n in range(1200))
    again().write(BinderChange(jobs=many))
    again().write(BinderChange(jobs=tuple(attrs.evolve(each, epoch=1) for each in many)))
    found, _ = again().read()
    assert {each.epoch for each in found} == {1}
    again().forget([each.id for each in many[1:]])
    assert [each.id for each in again().read()[0]] == ["j0000"]


def test_one_owner_has_one_job_of_a_key(again: Open) -> None:
    stored = again()
    stored.write(BinderChange(jobs=(job("a", key="k"),)))
    with pytest.raises(TakenError):
        stored.write(BinderChange(jobs=(job("b", key="k"), job("c"))))
    assert [each.id for each in stored.read()[0]] == ["a"]


def test_starts_of_queues_give_their_delays(again: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_MOST_STARTS", 3)
    stored = again()
    stored.measured("other", 0.0, 9000.0)
    for wait in (5000.0, 60.0, 120.0, 180.0):
        stored.measured("short", 1000.0, 1000.0 + wait)
    assert again().delays() == {"other": 9000.0, "short": 120.0}
    monkeypatch.setattr(tables, "_MOST_QUEUES", 1)
    assert again().delays() == {"short": 120.0}
    with pytest.raises(ValueError, match="finite"):
        stored.measured("short", float("nan"), 1.0)


def test_a_revoked_token_is_refused_until_its_end(again: Open) -> None:
    again().revoke("old", ends=50.0, now=10.0)
    again().revoke("t", ends=500.0, now=20.0)
    again().revoke("t", ends=500.0, now=20.0)
    assert again().revoked() == {"old", "t"}
    again().revoke("u", ends=500.0, now=100.0)
    assert again().revoked() == {"t", "u"}


def test_tables_of_a_newer_version_are_refused(again: Open) -> None:
    with again()._writing() as write:
        write.execute(tables.facts.update().values(value=tables.VERSION + 1))
    with pytest.raises(LedgerError, match="use a newer program"):
        again()


def test_tables_of_the_first_version_keep_their_jobs(again: Open) -> None:
    stored = again()
    stored.write(state.submit(Book(), job("a"))[1])
    with stored._writing() as write:
        tables.sessions.drop(write)
        write.execute(sql.text("CREATE TABLE binder_sessions (name TEXT, subject TEXT, ad TEXT)"))
        write.execute(sql.text("INSERT INTO binder_sessions VALUES ('s', 'site', '[]')"))
        version = tables.facts.update().where(tables.facts.c.name == "version")
        write.execute(version.values(value=1))
    jobs, sessions = again().read()
    assert ([each.id for each in jobs], sessions) == (["a"], [])
    again().write(state.begin(SESSION))
    assert [each.name for each in again().read()[1]] == ["s"]


def test_a_token_is_used_once(again: Open) -> None:
    assert again().use("t", "n", 100.0, now=1.0)
    assert again().use("t", "n", 100.0, now=2.0)
    assert not again().use("t", "other", 100.0, now=2.0)
    assert not again().use("t", "", 100.0, now=2.0)
    assert again().use("u", "", 200.0, now=150.0)
    assert not again().use("u", "", 200.0, now=150.0)
    # It has ended, and nobody is let in with it.
    assert again().use("t", "other", 100.0, now=150.0)


@pytest.mark.parametrize(
    ("column", "value"), [("stage", "'flying'"), ("epoch", "'x'"), ("epoch", "-1"), ("ad", "x'00'")]
)
def test_damaged_rows_are_named(tmp_path: Path, column: str, value: str) -> None:
    stored = Tables(tmp_path / "b.db")
    stored.write(BinderChange(jobs=(job(),)))
    with sqlite3.connect(tmp_path / "b.db") as raw:
        raw.execute(f"UPDATE binder_jobs SET {column} = {value}")  # noqa: S608 - ours
    with pytest.raises(DamagedError, match="a row of the binder is damaged"):
        stored.read()
    stored.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.db").write_text("no database " * 100)
    with pytest.raises(LedgerError, match=r"b\.db: it holds no binder's tables") as error:
        Tables(tmp_path / "b.db")
    assert "classad jobs" not in str(error.value)


def test_only_the_binder_that_read_last_can_write(again: Open) -> None:
    first, second = again(), again()
    first.read()
    first.write(BinderChange(jobs=(job("a"),)))
    second.read()
    with pytest.raises(SupersededError, match="another binder"):
        first.write(BinderChange(jobs=(job("b"),)))
    second.write(BinderChange(jobs=(job("c"),)))
    assert sorted(each.id for each in second.read()[0]) == ["a", "c"]


def test_a_change_may_be_stored_twice(again: Open) -> None:
    table = again()
    session = PilotSession(name="s", subject="p", ad="[]", heard=1.0)
    change = BinderChange(jobs=(job("a"),), begun=(session,))
    table.write(change)
    table.write(change)
    assert [each.id for each in table.read()[0]] == ["a"]
    assert [each.name for each in table.read()[1]] == ["s"]


def test_output_is_stored_by_job_and_epoch(again: Open) -> None:
    stored = again()
    stored.read()
    stored.put_piece("a", 1, "out", 0, b"old")
    stored.put_piece("a", 2, "out", 0, bytes(range(256)))
    # Nobody knows whether the next one was stored: it comes again.
    stored.put_piece("a", 2, "out", 256, b"more")
    stored.put_piece("a", 2, "out", 256, b"more")
    stored.put_piece("a", 2, "file:é", 0, b"\0")
    assert sorted(stored.outputs()) == [
        ("a", 1, "out", 3), ("a", 2, "file:é", 1), ("a", 2, "out", 260),
    ]  # fmt: skip
    assert stored.piece("a", 2, "out", 250) == bytes(range(250, 256))
    assert stored.piece("a", 2, "out", 258) == b"re"
    assert stored.piece("a", 2, "out", 260) == stored.piece("b", 1, "out", 0) == b""
    stored.drop_outputs([("a", 1)])
    assert [each[1] for each in stored.outputs()] == [2, 2]
    stored.forget(["a"])
    assert stored.outputs() == []


def test_a_superseded_binder_stores_no_output(again: Open) -> None:
    first, second = again(), again()
    first.read()
    second.read()
    with pytest.raises(SupersededError, match="another binder"):
        first.put_piece("a", 1, "out", 0, b"late")
