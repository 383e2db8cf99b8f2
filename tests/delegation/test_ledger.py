"""The ledger: the same tests on SQLite, on PostgreSQL and on the one in memory of other tests."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

from matchmaker.delegation import Ledger, LedgerError
from matchmaker.delegation.database import exposed, make_private_folder
from matchmaker.delegation.ledger import New
from matchmaker.delegation.record import Invocation, Payload, Record
from matchmaker.delegation.record import JobState as State
from matchmaker.delegation.spool import SharedSpool
from matchmaker.delegation.states import begin
from matchmaker.pilots.binder.tables import Tables
from matchmaker.pilots.factory.services import Services
from tests.delegation.postgres import postgres
from tests.delegation.world import MemoryLedger
from tests.services.daemons import ServiceUnavailable

JOB = Payload(
    ad="[ a = 1 ]", script="/x/job.sh", content=b"#!/bin/sh\n\0\xff", words=("--mem=1G", "-x"),
    own_words=("-x",), directory="/d", environment=(("A", "1"),), metadata=(("key", "k"),),
    invocation=Invocation(arguments=("a b",), directory="/d", exports=(("B", "2"),), stdin="in"),
)  # fmt: skip


def record(key: str = "k", created: float = 100.0) -> Record:
    return begin(key, created, digest="d", owner="me", cluster="slurm").record


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    try:
        with postgres() as url:
            yield url
    except ServiceUnavailable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


Open = Callable[[], Any]


@pytest.fixture(params=["sqlite", "memory", pytest.param("postgresql", marks=pytest.mark.service)])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same ledger, as often as wanted."""
    opened: list[Ledger] = []
    memory = MemoryLedger()
    place = str(tmp_path / "jobs.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("server")

    def ledger() -> Any:
        if request.param == "memory":
            return memory
        opened.append(Ledger(place))
        return opened[-1]

    yield ledger
    if request.param == "postgresql":
        from matchmaker.delegation.ledger import metadata

        metadata.drop_all(opened[0]._database.engine)
    for each in opened:
        each.close()


def test_what_is_written_is_read(again: Open) -> None:
    written = again().add([(record(), JOB, "me")])[0]
    assert written == attrs.evolve(record(), revision=1, epoch=1)
    ledger = again()
    assert ledger.find("k") == written
    assert ledger.payload("k") == JOB
    assert ledger.find("K") is None
    assert ledger.payload("other") is None
    assert [(e.source, e.target, e.by) for e in ledger.history("k")] == [("new", "intent", "me")]


def test_a_key_is_written_once(again: Open) -> None:
    ledger = again()
    assert ledger.add([(record(), JOB, "")])[0] is not None
    assert again().add([(record(created=200.0), attrs.evolve(JOB, ad="[]"), "")])[0] is None
    assert ledger.find("k").created == 100.0
    assert ledger.payload("k") == JOB


def test_of_two_writers_one_wins(again: Open) -> None:
    one, two = again(), again()
    old = one.add([(record(), JOB, "")])[0]
    first = attrs.evolve(old, state=State.UNKNOWN, reason="first")
    second = attrs.evolve(old, state=State.PREPARED, remote_id="7")
    assert one.save([(old, first)], "one")[0] == attrs.evolve(first, revision=2)
    assert two.save([(old, second)], "two") == [None]
    assert two.find("k").reason == "first"
    assert [entry.target for entry in two.history("k")] == ["intent", "unknown"]


def test_of_many_changes_those_hold_that_nobody_made_meanwhile(again: Open) -> None:
    ledger = again()
    old = [ledger.add([(record(f"k{n}", float(n)), JOB, "")])[0] for n in range(5)]
    ledger.save([(old[2], attrs.evolve(old[2], seen=1.0))])
    new = [(r, attrs.evolve(r, state=State.PREPARED, remote_id="7")) for r in old]
    assert [made is not None for made in ledger.save(new)] == [True, True, False, True, True]
    assert [r.state for r in ledger.live("slurm")] == [
        State.PREPARED, State.PREPARED, State.INTENT, State.PREPARED, State.PREPARED,
    ]  # fmt: skip
    assert len(ledger.history("k2")) == 1
    assert len(ledger.history("k3")) == 2


def test_live_records_are_of_a_batch_system_and_not_terminal(again: Open) -> None:
    ledger = again()
    done = ledger.add([(record("done"), JOB, "")])[0]
    ledger.save([(done, attrs.evolve(done, state=State.DONE, deadline=None, exit=0))])
    ledger.add([(attrs.evolve(record("other"), cluster="sge"), JOB, "")])
    ledger.add([(record("k"), JOB, "")])
    assert [r.key for r in ledger.live("slurm")] == ["k"]
    assert {r.key for r in ledger.live()} == {"k", "other"}
    assert {r.key for r in ledger.records(["done", "k", "none"])} == {"done", "k"}


def test_a_rebuilt_ledger_refuses_whoever_had_it_open(again: Open) -> None:
    ledger = again()
    if isinstance(ledger, MemoryLedger):
        return  # one object cannot be opened twice
    before, kept = ledger.add([(record("a"), JOB, "")])[0], ledger.add([(record("b"), JOB, "")])[0]
    other = again()
    rebuilt = attrs.evolve(record("a", 500.0), attempt=3, state=State.UNKNOWN, digest="")
    ledger.rebuild([rebuilt, attrs.evolve(rebuilt, key="c")], 500.0, "me")
    assert {(r.key, r.attempt, r.digest) for r in ledger.records(["a", "b", "c"])} == {
        ("a", 3, "d"), ("b", 1, "d"), ("c", 3, ""),
    }  # fmt: skip
    assert ledger.payload("a") == JOB
    with pytest.raises(LedgerError, match="rebuilt meanwhile"):
        other.save([(before, attrs.evolve(before, state=State.PREPARED))])
    with pytest.raises(LedgerError, match="rebuilt meanwhile"):
        other.add([(record("new"), JOB, "")])
    assert ledger.save([(kept, attrs.evolve(kept, seen=1.0))]) == [None]
    new = again().find("b")
    assert again().save([(new, attrs.evolve(new, seen=1.0))])[0] is not None


def test_text_of_strangers_is_text(again: Open) -> None:
    hostile = "'; DROP TABLE transfers; -- \u202e \U0001f600 \\ %s {x} :old_key"
    odd = attrs.evolve(record(), reason=hostile, owner=hostile, remote_id=hostile)
    several = ((hostile, hostile),)
    job = Payload(
        ad=hostile, script=hostile, content=hostile.encode(), words=(hostile, ""),
        own_words=(hostile,), directory=hostile, environment=several, metadata=several,
        invocation=Invocation(arguments=(hostile,), directory=hostile, exports=several),
    )  # fmt: skip
    ledger = again()
    ledger.add([(odd, job, "")])
    assert again().find("k").reason == hostile
    assert again().payload("k") == job
    assert ledger.find(hostile) is None


def test_many_threads_write_and_none_is_lost(again: Open) -> None:
    ledger = again()
    old = ledger.add([(record(), JOB, "")])[0]
    wins: list[object] = []

    def write(number: int) -> None:
        ledger.add([(record(f"k{number}"), JOB, "")])
        wins.extend(x for x in ledger.save([(old, attrs.evolve(old, seen=float(number)))]) if x)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert len(ledger.live()) == 9


# --- SQLite's files -------------------------------------------------------------------------------


def made(path: Path) -> Path:
    ledger = Ledger(path)
    ledger.add([(record(), JOB, "")])
    ledger.close()
    return path


@pytest.mark.parametrize(("version", "do"), [(9, "use a newer program"), (2, "end its jobs with")])
def test_a_ledger_of_another_version_is_refused(tmp_path: Path, version: int, do: str) -> None:
    path = made(tmp_path / "jobs.db")
    with sqlite3.connect(path) as connection:
        changed = "UPDATE delegation_facts SET value = ? WHERE name = 'version'"
        connection.execute(changed, (version,))
    with pytest.raises(LedgerError, match=f"a ledger of version {version}; .* version 3: {do}"):
        Ledger(path)


def test_a_read_only_ledger_is_refused() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = made(folder / "jobs.db")
        # While it is open elsewhere, what readers need is there.
        opened = Ledger(path)
        for file in folder.iterdir():
            file.chmod(0o444)
        refused = pytest.raises(LedgerError, match="it cannot be written: change")
        with as_a_stranger(), refused:
            Ledger(path).add([(record("new"), JOB, "")])
        assert [each.key for each in opened.live()] == ["k"]
        opened.close()


@contextlib.contextmanager
def as_a_stranger() -> Iterator[None]:
    """Acts as a user who owns nothing, where this is root, who may write everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_need_not_be_durable_is_seen_by_others_at_once(tmp_path: Path) -> None:
    ledger, other = Ledger(tmp_path / "jobs.db"), Ledger(tmp_path / "jobs.db")
    made = ledger.add([(record("k"), JOB, "")])[0]
    assert made is not None
    wanted = attrs.evolve(made, state=State.PREPARED, remote_id="7")
    (saved,) = ledger.save([(made, wanted)], durable=False)
    assert other.find("k") == saved
    assert other.save([(made, wanted)], durable=False) == [None]
    said = {durable: _synchronous(ledger, durable=durable) for durable in (True, False)}
    assert said == {True: 2, False: 1}, "FULL reaches the disk, NORMAL with the next that does"


def test_a_new_file_that_another_writes_is_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "jobs.db"
    with contextlib.closing(
        sqlite3.connect(place, isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE some (thing)")
        with pytest.raises(LedgerError, match=r"has been writing to it for 0\.1 s"):
            Ledger(place, wait=0.1)
        later = threading.Timer(0.2, other.execute, ["COMMIT"])
        later.start()
        assert Ledger(place).find("k") is None
        later.join()


def _synchronous(ledger: Ledger, *, durable: bool) -> int:
    with ledger._writing(durable=durable) as write:
        return int(write.exec_driver_sql("PRAGMA synchronous").scalar() or 0)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be opened or made: check the folder"):
        Ledger(tmp_path / "none" / "jobs.db")


def test_a_locked_ledger_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "jobs.db")
    ledger = Ledger(path, wait=0.2)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match=r"another program has been writing to it for 0.2 s"):
            ledger.add([(record("new"), JOB, "")])
        assert ledger.find("k") is not None, "readers do not wait"
        other.execute("ROLLBACK")
    assert ledger.add([(record("new"), JOB, "")])[0] is not None


def test_a_damaged_ledger_names_the_way_back(tmp_path: Path) -> None:
    path = made(tmp_path / "jobs.db")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(LedgerError, match=r"damaged.*classad jobs --rebuild"):
        Ledger(path).find("k")
    (tmp_path / "text.db").write_text("no ledger at all " * 100)
    with pytest.raises(LedgerError, match="no ledger, or a damaged one"):
        Ledger(tmp_path / "text.db")


def test_the_check_finds_damage_that_reading_does_not(tmp_path: Path) -> None:
    path = made(tmp_path / "jobs.db")
    ledger = Ledger(path)
    assert ledger.check() == []
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'log_key'")
    ledger.close()
    assert Ledger(path).check() != []


def test_a_full_disk_leaves_nothing_half_done(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the writer is a process of its own."""
    path = made(tmp_path / "jobs.db")
    code = f"""
import resource, signal
from matchmaker.delegation import Ledger, LedgerError
from tests.delegation.test_ledger import JOB, record
import attrs
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger({str(path)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    for n in range(1000):
        ledger.add([(record(f"k{{n}}"), attrs.evolve(JOB, ad="x" * 5000), "")])
except LedgerError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "the disk reports an error" in done.stdout or "full" in done.stdout, done.stderr
    assert "nothing was done" not in done.stdout
    ledger = Ledger(path)
    assert ledger.check() == []
    for each in ledger.live():
        assert ledger.payload(each.key) is not None
        assert len(ledger.history(each.key)) == 1


@pytest.mark.parametrize("place", ["mysql://x/y", "postgresql://[", "sqlite:///x"])
def test_another_kind_of_database_is_refused(place: str) -> None:
    with pytest.raises(LedgerError):
        Ledger(place)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="No such file"):
        Ledger(f"postgresql://x@/postgres?host={tmp_path}", wait=2)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """The file of SQLite, its log and shared memory, the spool, and the other tables."""
    before = os.umask(umask)
    try:
        folder = tmp_path / "state" / "classad"
        make_private_folder(folder)
        ledger = Ledger(folder / "jobs.db")
        services, binder = Services(str(folder / "services.db")), Tables(folder / "binder.db")
        SharedSpool(folder / "spool").ready()
        ledger.add([(record(), JOB, "")])
        found = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
        for each in (ledger, services, binder):
            each.close()
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert found.pop("spool") == 0o700
    assert {"jobs.db", "jobs.db-wal", "jobs.db-shm", "binder.db", "services.db"} <= found.keys()
    assert set(found.values()) == {0o600}


def test_what_others_may_read_is_said(tmp_path: Path) -> None:
    path = made(tmp_path / "jobs.db")
    assert exposed(path) == ""
    path.chmod(0o640)
    assert "chmod 600" in exposed(path)
    assert path.stat().st_mode & 0o777 == 0o640, "it is said, and not changed"
    tmp_path.chmod(0o755)
    assert "chmod 700" in exposed(tmp_path)


def test_orders_of_many_threads_share_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "jobs.db")
    end = time.monotonic() + 30
    sizes: list[int] = []
    plain = Ledger._add

    def slow(self: Ledger, wanted: Sequence[New]) -> list[Record]:
        # The first transaction lasts until all others wait for theirs.
        while not sizes and len(self._adds._queue) < 9 and time.monotonic() < end:
            time.sleep(0.001)
        sizes.append(len(wanted))
        return plain(self, wanted)

    monkeypatch.setattr(Ledger, "_add", slow)
    with ThreadPoolExecutor(10) as threads:
        news = [[(record(f"k{n}"), JOB, ""), (record(f"m{n}"), JOB, "")] for n in range(10)]
        written = list(threads.map(ledger.add, news))
    ledger.close()
    assert sizes == [2, 18]
    keys = [[each.key for each in some if each is not None] for some in written]
    assert keys == [[f"k{n}", f"m{n}"] for n in range(10)]
