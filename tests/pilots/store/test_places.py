"""What each storage does for pilots, held to the same tests: a directory, and a bucket."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import attrs
import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import MemoryStore

from matchmaker.pilots.store.backends import Directory, open_store
from matchmaker.pilots.store.plan import StorePlan, inputs_of
from matchmaker.pilots.store.protocol import SharedStore, StoreError, UnsureError
from matchmaker.pilots.store.remote import Bucket, bucket

PLAN = StorePlan(command=("f",), parameters=("1",))


@attrs.frozen
class Place:
    """A store with an input, and the way to put a file there."""

    store: SharedStore
    folders: bool


def on_disk(path: Path) -> Place:
    (path / "work" / "a.arff").mkdir(parents=True)
    (path / "work" / "a.arff" / "data").write_bytes(b"data")
    return Place(Directory(str(path), path), True)


def in_memory() -> Place:
    objects = MemoryStore()
    obstore.put(objects, "work/a.arff/data", b"data")
    return Place(Bucket("memory://", objects), False)


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return on_disk(tmp_path) if request.param == "directory" else in_memory()


def inputs(store: SharedStore, *, finished: bool = False) -> list[str]:
    return inputs_of(PLAN, store.inputs(finished=finished) or ())[0]


def names(store: SharedStore, input_: str = "a.arff", *, finished: bool = False) -> list[str]:
    entries = store.listing(input_, finished=finished) or ()
    return sorted(each.name for each in entries if each.kind == "file")


def test_of_many_that_create_a_claim_one_has_it(place: Place) -> None:
    with ThreadPoolExecutor(8) as pool:
        for path in (f"work/a.arff/active{number}" for number in range(20)):
            create = partial(place.store.create, path)
            made = list(pool.map(create, (b"pilot %d" % number for number in range(16))))
            assert made.count(True) == 1
            assert place.store.read(path) == b"pilot %d" % made.index(True)


def test_a_result_is_stored_once(place: Place, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"1" * 100_000)
    second.write_bytes(b"2")
    path = "work/a.arff/votes1.txt"
    assert place.store.needed("a.arff", path)
    assert place.store.publish(path, first)
    assert not place.store.needed("a.arff", path)
    assert not place.store.publish(path, second)
    assert place.store.read(path) == first.read_bytes()
    assert names(place.store) == ["data", "votes1.txt"]


def test_times_are_the_storages(place: Place) -> None:
    now = place.store.now("nonce")
    place.store.create("work/a.arff/active1", b"me")
    [claim] = [e for e in place.store.listing("a.arff") or () if e.name == "active1"]
    assert abs(claim.modified - now) < 60
    place.store.renew("work/a.arff/active1", b"me")
    [renewed] = [e for e in place.store.listing("a.arff") or () if e.name == "active1"]
    assert renewed.modified >= claim.modified
    place.store.leave("nonce")
    place.store.leave("nonce")
    assert place.store.read("pilots/nonce") is None


def test_what_a_killed_pilot_left_is_removed_once_it_is_old(place: Place) -> None:
    """By the storage's clock, by one that leaves; a pilot that was only slow makes its own anew."""
    for nonce in ("killed", "mine"):
        place.store.now(nonce)
    place.store.leave("mine")
    assert place.store.read("pilots/killed") is not None
    place.store.now("mine")
    place.store.leave("mine", age=-5.0)
    assert place.store.read("pilots/killed") is None
    place.store.now("killed")
    assert place.store.read("pilots/killed") is not None


def test_files_come_and_go(place: Place, tmp_path: Path) -> None:
    target = tmp_path / "fetched"
    assert place.store.fetch("work/a.arff/data", target)
    assert target.read_bytes() == b"data"
    assert not place.store.fetch("bin/none", target)
    assert place.store.read("plan.toml") is None
    place.store.create("work/a.arff/active1", b"me")
    place.store.remove("work/a.arff/active1")
    place.store.remove("work/a.arff/active1")
    assert names(place.store) == ["data"]


def test_a_straggler_after_the_move_does_no_harm(place: Place, tmp_path: Path) -> None:
    store, path = place.store, "work/a.arff/votes1.txt"
    result = tmp_path / "result"
    result.write_bytes(b"late")
    store.publish(path, result)
    store.finish("a.arff")
    store.finish("a.arff")
    assert (inputs(store), inputs(store, finished=True)) == ([], ["a.arff"])
    store.renew("work/a.arff/active1", b"me")
    store.remove("work/a.arff/active1")
    assert not store.publish(path, result)
    assert not store.needed("a.arff", path)
    assert (inputs(store), inputs(store, finished=True)) == ([], ["a.arff"])
    assert names(store, finished=True) == ["data", "votes1.txt"]
    if place.folders:
        assert not store.create("work/a.arff/active2", b"me")
        assert store.listing("a.arff") is None


# --- what disks do --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT])
def test_an_error_that_passes_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = on_disk(tmp_path).store

    def fails(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        patched.setattr(os, "write", fails)
        with pytest.raises(UnsureError):
            store.create("work/a.arff/active1", b"me")
        (tmp_path / "result").write_bytes(b"1")
        with pytest.raises(UnsureError):
            store.publish("work/a.arff/votes1.txt", tmp_path / "result")
    # Nothing half-written is left.
    assert names(store) == ["data"]
    assert store.create("work/a.arff/active1", b"me")


def test_a_server_without_links_gets_a_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = on_disk(tmp_path).store
    (tmp_path / "result").write_bytes(b"1")

    def fails(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", fails)
    assert store.publish("work/a.arff/votes1.txt", tmp_path / "result")
    assert not store.publish("work/a.arff/votes1.txt", tmp_path / "result")
    assert names(store) == ["data", "votes1.txt"]


def test_a_link_whose_answer_was_lost_has_been_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, link = on_disk(tmp_path).store, os.link
    (tmp_path / "result").write_bytes(b"1")

    def twice(source: Any, target: Any) -> None:
        link(source, target)
        raise FileExistsError(errno.EEXIST, "is there")

    monkeypatch.setattr(os, "link", twice)
    assert store.publish("work/a.arff/votes1.txt", tmp_path / "result")


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    store = on_disk(tmp_path).store
    (tmp_path / "finished" / "a.arff").mkdir(parents=True)
    (tmp_path / "finished" / "a.arff" / "old").touch()
    with pytest.raises(StoreError, match="is there already: move it away"):
        store.finish("a.arff")


@pytest.mark.parametrize("name", ["plan.toml", "work/a.arff/active7"])
def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    store = Directory(url=str(tmp_path), root=tmp_path)
    (tmp_path / "work" / "a.arff").mkdir(parents=True)
    os.mkfifo(tmp_path / name)
    said: list[str] = []
    reading = Thread(target=refused, args=(store, name, said), daemon=True)
    reading.start()
    reading.join(20)
    assert [each.partition(": ")[2] for each in said] == ["no plain file"]


def refused(store: Directory, name: str, said: list[str]) -> None:
    with pytest.raises(StoreError) as error:
        store.read(name)
    said.append(str(error.value))


def test_links_and_strange_names_are_no_inputs(tmp_path: Path) -> None:
    store = on_disk(tmp_path).store
    (tmp_path / "work" / "link").symlink_to("/etc")
    (tmp_path / "work" / "-rf").mkdir()
    (tmp_path / "work" / "a\nb").mkdir()
    (tmp_path / "work" / "a.arff" / "passwd").symlink_to("/etc/passwd")
    assert inputs(store) == ["a.arff"]
    assert names(store) == ["data"]


# --- what buckets do ------------------------------------------------------------------------------


class Conflicting:
    """A bucket that answers 409 to each put: obstore calls that "already exists"."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def put(self, *_: Any, **__: Any) -> None:
        raise AlreadyExistsError("409")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_two_puts_at_once_are_tried_again() -> None:
    # S3 answers 409 to both.
    real = in_memory().store
    assert isinstance(real, Bucket)
    conflicting: Any = Conflicting(real.objects)
    store = attrs.evolve(real, objects=conflicting)
    with pytest.raises(UnsureError, match="at once"):
        store.create("work/a.arff/active1", b"me")
    with pytest.raises(UnsureError, match="at once"):
        store.publish("work/a.arff/votes1.txt", Path(__file__))
    assert real.create("work/a.arff/active1", b"me")


def test_a_claim_whose_answer_was_lost_is_the_pilots() -> None:
    store = in_memory().store
    assert store.create("work/a.arff/active1", b"me")
    assert store.create("work/a.arff/active1", b"me")
    assert not store.create("work/a.arff/active1", b"you")


def test_urls_name_storages(tmp_path: Path) -> None:
    assert open_store(tmp_path.as_uri()).inputs is not None
    assert isinstance(open_store("s3://pool/sweep"), Bucket)
    with pytest.raises(StoreError, match="no storage that pilots know"):
        open_store("gopher://x")
    with pytest.raises(StoreError, match="s3:"):
        bucket("s3:")
