"""Records in a shared directory: atomic, exclusive where they must be, and never a wrong answer."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from matchmaker.delegation.contact import SpoolMarks
from matchmaker.delegation.record import NoAnswer, Payload
from matchmaker.delegation.spool import SharedSpool


def order(content: bytes) -> Payload:
    return Payload(ad="[]", script="job.sh", content=content)


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    path = tmp_path / "job.bin"
    path.write_bytes(b"\x7fELF\0\xff")
    return path


@pytest.fixture
def spool(tmp_path: Path, payload: Path) -> SharedSpool:
    made = SharedSpool(tmp_path / "spool")
    assert isinstance(made.prepare("k", 1, order(payload.read_bytes())), Path)
    return made


def test_a_payload_is_kept_as_it_is(spool: SharedSpool, payload: Path) -> None:
    payload.write_text("changed later")
    kept = spool.root / "k" / "1" / "payload"
    assert kept.read_bytes() == b"\x7fELF\0\xff"
    assert os.access(kept, os.X_OK)


def test_the_room_of_another_job_is_refused(spool: SharedSpool, payload: Path) -> None:
    first, second = "ab" * 32, "cd" * 32
    script = spool.prepare("j", 1, order(payload.read_bytes()), first)
    assert isinstance(script, Path)
    payload.write_text("another job")
    answer = spool.prepare("j", 1, order(payload.read_bytes()), second)
    assert isinstance(answer, NoAnswer)
    assert "another job" in answer.reason
    assert script.with_name("payload").read_bytes() == b"\x7fELF\0\xff"
    assert spool.marks([("j", 1)]) == {("j", 1): SpoolMarks(job=first)}
    # One that does not say whose it is, is not this job's either.
    assert isinstance(spool.prepare("k", 1, order(payload.read_bytes()), first), NoAnswer)


def test_directories_that_others_may_write_to_are_not_used(
    spool: SharedSpool, payload: Path, tmp_path: Path
) -> None:
    """Whoever may put another script into one decides what runs under this account."""
    (tmp_path / "theirs").mkdir()
    (spool.root / "linked").symlink_to(tmp_path / "theirs")
    answer = spool.prepare("linked", 1, order(payload.read_bytes()))
    assert isinstance(answer, NoAnswer)
    assert "it is a link" in answer.reason
    (spool.root / "open").mkdir()
    (spool.root / "open").chmod(0o777)
    assert isinstance(spool.prepare("open", 1, order(payload.read_bytes())), Path)
    assert (spool.root / "open").stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        (spool.root / "other" / "1").mkdir(parents=True)
        os.chown(spool.root / "other" / "1", 65534, 65534)
        answer = spool.prepare("other", 1, order(payload.read_bytes()))
        assert isinstance(answer, NoAnswer)
        assert "another account's" in answer.reason
        assert not list((spool.root / "other" / "1").iterdir())


def test_an_earlier_attempt_is_not_prepared_once_there_is_a_later_one(
    spool: SharedSpool, payload: Path
) -> None:
    """As by a ledger that was lost, whose second attempt runs, or by who was stopped meanwhile."""
    job = "ab" * 32
    for attempt in (9, 10):
        assert isinstance(spool.prepare("j", attempt, order(payload.read_bytes()), job), Path)
    answer = spool.prepare("j", 9, order(payload.read_bytes()), job)
    assert isinstance(answer, NoAnswer)
    assert "there is an attempt 10" in answer.reason
    assert "classad jobs --rebuild" in answer.reason
    assert isinstance(spool.prepare("j", 10, order(payload.read_bytes()), job), Path)


def test_records_are_private(spool: SharedSpool) -> None:
    assert spool.commit("k", 1, 60) is None
    for path in (spool.root, *spool.root.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_commit_is_made_once(spool: SharedSpool) -> None:
    lease = spool.root / "k" / "1" / "lease"
    assert spool.commit("k", 1, 60) is None
    first = lease.stat().st_mtime
    assert spool.commit("k", 1, 6000) is None
    assert lease.stat().st_mtime == first


def test_a_renewal_is_no_commit(spool: SharedSpool) -> None:
    assert spool.renew("k", 1, 60) is None
    assert spool.marks([("k", 1)]) == {("k", 1): SpoolMarks()}


def test_a_lease_is_by_the_clock_of_the_storage(
    spool: SharedSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of this machine does not count."""
    monkeypatch.setattr("time.time", lambda: 0.0)
    lease = spool.root / "k" / "1" / "lease"
    assert spool.commit("k", 1, 60) is None
    now = (spool.root / "k" / "1" / "payload").stat().st_mtime
    assert 0 <= lease.stat().st_mtime - now - 60 < 30
    assert spool.renew("k", 1, 0) is None
    assert lease.stat().st_mtime < now + 30


def test_a_lease_that_was_ended_is_seen_until_the_job_has_ended(spool: SharedSpool) -> None:
    assert spool.commit("k", 1, 60) is None
    (spool.root / "k" / "1" / "start").write_text("started n1.7.1\n")
    assert spool.marks([("k", 1)]) == {("k", 1): SpoolMarks(committed=True, started=True)}
    assert spool.renew("k", 1, 0) is None
    marks = SpoolMarks(committed=True, started=True, stopped=True)
    assert spool.marks([("k", 1)]) == {("k", 1): marks}
    (spool.root / "k" / "1" / "end").write_text("143 n1.7.1\n")
    ended = SpoolMarks(committed=True, started=True, exit=143)
    assert spool.marks([("k", 1)]) == {("k", 1): ended}


def test_of_many_who_forbid_a_start_or_take_it_one_wins(spool: SharedSpool) -> None:
    start = spool.root / "k" / "1" / "start"
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: spool.forbid("k", 1), range(16))) == [None] * 16
    assert start.read_text() == "forbidden by its owner\n"
    assert spool.marks([("k", 1)]) == {("k", 1): SpoolMarks(forbidden=True)}


def test_a_start_that_was_taken_cannot_be_forbidden(spool: SharedSpool) -> None:
    (spool.root / "k" / "1" / "start").write_text("started n1.7.1\n")
    assert spool.forbid("k", 1) is None
    assert spool.marks([("k", 1)]) == {("k", 1): SpoolMarks(started=True)}


@pytest.mark.parametrize("damage", ["", "forbid", "\0" * 9, "started n1"])
def test_a_damaged_record_of_a_start_is_a_start(spool: SharedSpool, damage: str) -> None:
    (spool.root / "k" / "1" / "start").write_text(damage)
    assert spool.marks([("k", 1)]) == {("k", 1): SpoolMarks(started=True)}


@pytest.mark.parametrize("damage", ["", "3", "three x\n", "-1 x\n", "99999 x\n"])
def test_a_damaged_record_of_an_end_says_nothing(spool: SharedSpool, damage: str) -> None:
    (spool.root / "k" / "1" / "end").write_text(damage)
    assert spool.marks([("k", 1)]) == {("k", 1): SpoolMarks()}


def test_a_spool_that_is_not_mounted_is_silent(spool: SharedSpool, payload: Path) -> None:
    """An empty directory in its place must not look like attempts that never started."""
    assert spool.commit("k", 1, 60) is None
    shutil.rmtree(spool.root)
    for answer in (spool.marks([("k", 1)]), spool.attempts(), spool.forget("k")):
        assert isinstance(answer, NoAnswer)
        assert "is the shared directory mounted?" in answer.reason
    spool.root.mkdir()
    assert isinstance(spool.marks([("k", 1)]), NoAnswer)
    for done in (spool.commit("k", 1, 1), spool.renew("k", 1, 1), spool.forbid("k", 1)):
        assert isinstance(done, NoAnswer)
    # Another job may begin there, and the first has still no record that could be forbidden.
    assert isinstance(spool.prepare("other", 1, order(payload.read_bytes())), Path)
    assert isinstance(spool.forbid("k", 1), NoAnswer)


def test_a_directory_of_others_is_no_spool(tmp_path: Path, payload: Path) -> None:
    answer = SharedSpool(tmp_path).prepare("k", 1, order(payload.read_bytes()))
    assert isinstance(answer, NoAnswer)
    assert "name another directory" in answer.reason
    assert sorted(path.name for path in tmp_path.iterdir()) == [payload.name]


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns after a microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def first(root: Path, number: int) -> str:
    """Why a job cannot be prepared in a spool that others are making; empty if it can."""
    made = SharedSpool(root).prepare(f"k{number}", 1, order(b"#!/bin/sh\n"))
    return made.reason if isinstance(made, NoAnswer) else ""


@pytest.mark.usefixtures("switching")
def test_many_threads_make_one_spool(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(40):
            said = pool.map(first, [tmp_path / str(number)] * 8, range(8))
            assert set(said) == {""}


def test_many_processes_make_one_spool(tmp_path: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        jobs = [(tmp_path / str(number // 4), number) for number in range(160)]
        assert set(pool.starmap(first, jobs, chunksize=1)) == {""}


def test_a_spool_is_made_where_another_was_killed_while_it_made_it(tmp_path: Path) -> None:
    """Whatever a kill leaves, at each step."""
    made = tmp_path / "made"
    assert SharedSpool(made).ready() == made
    (marker,) = made.iterdir()
    for name in (f".{marker.name}.{'0' * 16}", marker.name):
        left = tmp_path / name
        left.mkdir()
        (left / name).touch()
        assert SharedSpool(left).ready() == left
        assert first(left, 1) == ""


def test_attempts_are_found_again_and_forgotten(spool: SharedSpool, payload: Path) -> None:
    spool.prepare("k", 2, order(payload.read_bytes()))
    spool.prepare("a-1.b", 1, order(payload.read_bytes()))
    found = spool.attempts()
    assert not isinstance(found, NoAnswer)
    assert sorted(found) == [("a-1.b", 1), ("k", 1), ("k", 2)]
    assert spool.forget("k") is None
    assert spool.forget("k") is None
    assert spool.attempts() == {("a-1.b", 1): ""}


def test_what_is_another_jobs_is_not_forgotten(spool: SharedSpool, payload: Path) -> None:
    spool.prepare("other", 1, order(payload.read_bytes()), "d1")
    answer = spool.forget("other", "d2")
    assert isinstance(answer, NoAnswer)
    assert "another job" in answer.reason
    assert (spool.root / "other" / "1" / "payload").exists()
    assert spool.forget("other", "d1") is None
    assert spool.attempts() == {("k", 1): ""}
    spool.prepare("other", 1, order(payload.read_bytes()), "d1", "slurm@a.b")
    assert spool.attempts() == {("k", 1): "", ("other", 1): "slurm@a.b"}
    assert spool.marks([("other", 1)]) == {("other", 1): SpoolMarks(job="d1")}


@pytest.mark.parametrize("key", ["..", "../k", "/etc", "", "a b", "k\n", "-k", "é"])
def test_a_hostile_key_is_no_directory(spool: SharedSpool, payload: Path, key: str) -> None:
    with pytest.raises(ValueError, match="a key has"):
        spool.prepare(key, 1, order(payload.read_bytes()))


def test_a_full_disk_leaves_the_old_record(
    spool: SharedSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = spool.root / "k" / "1" / "lease"
    assert spool.commit("k", 1, 60) is None
    before = lease.stat().st_mtime

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = spool.renew("k", 1, 600)
    assert isinstance(answer, NoAnswer)
    assert "No space left" in answer.reason
    assert lease.stat().st_mtime == before
    assert [path for path in lease.parent.iterdir() if path.name.startswith(".")] == []
