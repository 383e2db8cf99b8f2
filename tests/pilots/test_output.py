"""What a job printed and its output files come back whole, and nothing else does."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from base64 import b64encode
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.delegation import LedgerError
from matchmaker.pilots.binder.tables import Tables
from matchmaker.pilots.node.running import run
from matchmaker.pilots.node.task import (
    CapturedOutput,
    ResultPart,
    Task,
    TaskError,
    TaskLimits,
    TaskResult,
    collect_files,
    task_of_ad,
)
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connect import JobFacts, OutputPart
from matchmaker.pilots.wire.connection import Connection
from matchmaker.pilots.wire.protocol import Frame, FrameKind, PeerRefusedError
from tests.pilots.binding import Pilot, binding, place
from tests.pilots.real import Grid, grid

MIB = 1 << 20


def python(text: str, **more: Any) -> ClassAd:
    return ClassAd(Cmd=sys.executable, Arguments=["-c", text], Requirements=True, **more)


NOISE = "import random, sys; sys.stdout.buffer.write(random.Random(7).randbytes({}))"


def noise(count: int) -> bytes:
    return random.Random(7).randbytes(count)


async def whole(binder: connect.BinderClient, job: JobFacts) -> dict[str, bytes]:
    return {
        part.name: b"".join([data async for data in binder.read(job, part)])
        for part in connect.parts(job)
    }


async def ended(made: Grid, ad: ClassAd, seconds: float = 120.0) -> JobFacts:
    async with connect.binder(made.place()) as binder:
        job = await binder.submit(ad, os.urandom(8).hex())
        return await binder.job(job.id, seconds=seconds)


# --- what a program printed


def printed(data: bytes, most: int, folder: Path) -> tuple[ResultPart | None, str, bytes]:
    async def case() -> tuple[ResultPart | None, str, bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        made = CapturedOutput("out", most, folder)
        await made.read(reader)
        return *made.part(), made.shown()

    return asyncio.run(case())


def content(part: ResultPart) -> bytes:
    pieces, offset = [], 0
    while data := part.piece(offset):
        pieces.append(data)
        offset += len(data)
    part.close()
    return b"".join(pieces)


@pytest.mark.parametrize("size", [0, 5, 8192, 8193, 70_000, 999_999, 1_000_000])
def test_a_text_within_its_limit_is_whole(tmp_path: Path, size: int) -> None:
    data = (b"0123456789" * 100_000)[:size]
    part, note, shown = printed(data, 1_000_000, tmp_path)
    assert note == ""
    assert (shown if part is None else content(part)) == data
    assert (part is None) == (size <= 8192)


@pytest.mark.parametrize("data", [b"\0", b"a\xff", noise(3000)])
def test_bytes_that_are_no_text_come_beside_the_ad(tmp_path: Path, data: bytes) -> None:
    part, _, _ = printed(data, MIB, tmp_path)
    assert part is not None
    assert content(part) == data


@pytest.mark.parametrize("most", [100, 8192, 8193, 50_000])
def test_of_a_longer_text_both_ends_are_kept(tmp_path: Path, most: int) -> None:
    data = b"".join(b"%09d\n" % number for number in range(20_000))
    part, note, shown = printed(data, most, tmp_path)
    found = shown if part is None else content(part)
    before, _, rest = found.partition(b"\n[")
    count, _, after = rest.partition(b" bytes are left out]\n")
    assert (data[: len(before)], data[-len(after) :]) == (before, after)
    assert len(before) + len(after) == most
    assert len(before) + int(count) + len(after) == len(data)
    assert note == f"out: {int(count)} bytes are over MaxOutput"


def test_a_result_with_odd_bytes_fits_its_ad() -> None:
    found = TaskResult(exit=3, output=b"\x01" * 8192, errors=b"\x02" * 8192)
    assert len(str(found.ad())) <= 32 << 10
    assert parse_ad(str(found.ad())).eval("ExitCode") == 3


# --- files


def hostile(folder: Path) -> Path:
    """A job's directory with all that a job may leave in it."""
    secret = folder / "secret"
    secret.write_text("root:x")
    home = folder / "home"
    (home / "inner").mkdir(parents=True)
    (home / "good.dat").write_bytes(noise(1000))
    (home / "inner" / "deep.dat").write_bytes(b"deep")
    (home / "link").symlink_to(secret)
    (home / "loop").symlink_to("loop")
    (home / "way").symlink_to(folder)
    os.mkfifo(home / "pipe")
    return home


def test_files_come_back_and_nothing_that_leads_out(tmp_path: Path) -> None:
    names = ["good.dat", "inner/deep.dat", "link", "loop", "way/secret", "pipe", "inner", "no"]
    parts, notes = collect_files(hostile(tmp_path), names, MIB, os.getuid())
    assert {part.name: content(part) for part in parts} == {
        "file:good.dat": noise(1000), "file:inner/deep.dat": b"deep",
    }  # fmt: skip
    assert notes == [
        "link: it is a link, and links are not followed",
        "loop: it is a link, and links are not followed",
        "way/secret: a folder of its path is a link, or no folder",
        "pipe: it is no plain file",
        "inner: it is no plain file",
        "no: there is no such file",
    ]


def test_a_hard_link_to_another_accounts_file_does_not_come_back(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("x")
    assert collect_files(tmp_path, ["theirs"], MIB, os.getuid() + 1) == (
        [], ["theirs: it is another account's"],
    )  # fmt: skip


def test_files_beyond_the_limit_are_named_with_their_sizes(tmp_path: Path) -> None:
    for name, size in (("a", 600), ("b", 500), ("c", 400)):
        (tmp_path / name).write_bytes(bytes(size))
    parts, notes = collect_files(tmp_path, ["a", "b", "c"], 1000, os.getuid())
    assert [part.name for part in parts] == ["file:a", "file:c"]
    assert notes == ["b: it has 500 bytes; 400 are left of MaxOutput"]
    for part in parts:
        part.close()


@pytest.mark.parametrize("name", ["/etc/shadow", "../x", "a/../../x", "", ".", "a//b", "a\nb"])
def test_an_ad_names_only_files_below_its_directory(name: str) -> None:
    with pytest.raises(TaskError, match=r"OutputFiles is .* relative paths"):
        task_of_ad("1", ClassAd(Cmd="/bin/true", OutputFiles=[name]), {})


def test_a_file_that_something_still_writes_to_has_the_size_of_its_end(tmp_path: Path) -> None:
    # What the program leaves behind ends with it, and writes no more when the file is read.
    text = "(while :; do echo more >> grows; done) & sleep 0.1; echo done > other"
    made = Task(id="1", argv=("/bin/sh", "-c", text), outputs=("grows", "other"))
    found = asyncio.run(run(attrs_limits(made, 64 * MIB), tmp_path))
    sizes = {part.name: (part.size, len(content(part))) for part in found.parts}
    assert sizes["file:grows"][0] == sizes["file:grows"][1] > 0
    assert sizes["file:other"] == (5, 5)


def attrs_limits(made: Task, most: int) -> Task:
    import attrs

    return attrs.evolve(made, limits=TaskLimits(output=most))


# --- through the binder


def bounded(case: Coroutine[Any, Any, None], seconds: float = 120.0) -> None:
    asyncio.run(asyncio.wait_for(case, seconds))


def test_three_megabytes_and_files_come_back_byte_for_byte(tmp_path: Path) -> None:
    text = """
import os, random, sys
noise = lambda count: random.Random(7).randbytes(count)
sys.stdout.buffer.write(noise(3_000_000))
sys.stderr.write("short")
os.mkdir("d")
open("d/big.dat", "wb").write(noise(1_500_000))
open("empty", "wb").close()
os.symlink("/etc/passwd", "link")
"""

    async def case(made: Grid) -> None:
        names = ["d/big.dat", "empty", "link", "gone"]
        job = await ended(made, python(text, MaxOutput=4, OutputFiles=names))
        assert job.result is not None, job
        assert job.result.eval("ExitCode") == 0, job
        async with connect.binder(made.place()) as binder:
            found = await whole(binder, job)
        assert found.pop("out") == noise(3_000_000)
        assert found == {
            "err": b"short", "file:d/big.dat": noise(1_500_000), "file:empty": b"",
        }  # fmt: skip
        assert job.result.eval("OutputNotes") == [
            "link: it is a link, and links are not followed", "gone: there is no such file",
        ]  # fmt: skip

    with grid(tmp_path) as made:
        made.binder()
        made.pilot("p", "--cpus", 2)
        bounded(case(made))


async def stored(made: Grid, least: int) -> tuple[str, int]:
    """The job and the epoch of what is stored last, when it has so many bytes."""
    text = "SELECT job, epoch, sum(length(data)) FROM binder_output GROUP BY job, epoch"
    found: list[tuple[str, int, int]] = []
    while not found or found[-1][2] < least:
        await asyncio.sleep(0.005)
        with closing(sqlite3.connect(made.folder / "binder.db")) as raw:
            found = raw.execute(f"{text} ORDER BY epoch").fetchall()
    return found[-1][:2]


def test_a_file_beyond_the_limit_goes_to_the_sites_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    text = """
import os, random
os.mkdir("d")
open("d/big.dat", "wb").write(random.Random(7).randbytes(1_500_000))
open("small", "wb").write(b"x")
"""

    async def case(made: Grid) -> None:
        job = await ended(made, python(text, OutputFiles=["d/big.dat", "small"]))
        assert job.result is not None
        url = f"file://{store}/{job.id}.1.d.big.dat"
        assert job.result.eval("OutputUrls") == [url], job
        assert job.result.eval("OutputNotes") == [f"d/big.dat: its 1500000 bytes are at {url}"]
        assert job.result.eval("OutputFiles") == ["small"]
        assert [each.read_bytes() for each in sorted(store.iterdir())] == [noise(1_500_000)]
        await asyncio.to_thread(shutil.rmtree, store)
        job = await ended(made, python(text, OutputFiles=["d/big.dat", "small"]))
        assert job.result is not None
        assert "OutputUrls" not in job.result
        notes = str(job.result["OutputNotes"])
        assert "d/big.dat: its 1500000 bytes were not stored: " in notes

    with grid(tmp_path) as made:
        made.binder()
        made.pilot("p", "--cpus", 1, "--output-store", f"file://{store}")
        bounded(case(made))


def test_a_restart_of_the_binder_leaves_the_output_whole(tmp_path: Path) -> None:
    async def case(made: Grid) -> None:
        async with connect.binder(made.place()) as binder:
            id_ = (await binder.submit(python(NOISE.format(8_000_000), MaxOutput=8), "k")).id
        assert await stored(made, 500_000) == (id_, 1)
        made.signal("binder", signal.SIGKILL)
        made.binder()
        async with connect.binder(made.place()) as binder:
            job = await binder.job(id_, seconds=100)
            assert (job.stage, job.given) == ("ended", 1)
            assert hashed((await whole(binder, job))["out"]) == hashed(noise(8_000_000))

    with grid(tmp_path, lease=120.0) as made:
        made.binder()
        made.pilot("p", "--cpus", 1)
        bounded(case(made))


def test_a_pilot_killed_in_mid_upload_leaves_nothing_in_the_output(tmp_path: Path) -> None:
    # The second run prints other bytes: what came of the first is not among them.
    text = """
import pathlib, sys
seen = pathlib.Path(sys.argv[1])
first = not seen.exists()
seen.touch()
sys.stdout.write(("first " if first else "second") * 2_000_000)
"""

    async def case(made: Grid) -> None:
        ad = python(text, MaxOutput=16)
        ad["Arguments"] = ["-c", text, str(made.folder / "seen")]
        async with connect.binder(made.place()) as binder:
            id_ = (await binder.submit(ad, "k")).id
        assert await stored(made, 500_000) == (id_, 1)
        made.signal("one", signal.SIGKILL)
        made.pilot("two", "--cpus", 1)
        async with connect.binder(made.place()) as binder:
            job = await binder.job(id_, seconds=100)
            assert (job.stage, job.given) == ("ended", 2)
            assert (await whole(binder, job))["out"] == b"second" * 2_000_000
        found = Tables(made.folder / "binder.db")
        assert [each[1] for each in found.outputs()] == [2]
        found.close()

    with grid(tmp_path, lease=2.0) as made:
        made.binder()
        made.pilot("one", "--cpus", 1)
        bounded(case(made))


def hashed(data: bytes) -> tuple[int, str]:
    return len(data), hashlib.sha256(data).hexdigest()


def test_a_pilot_that_is_asked_to_end_sends_the_rest_first(tmp_path: Path) -> None:
    async def case(made: Grid) -> None:
        async with connect.binder(made.place()) as binder:
            id_ = (await binder.submit(python(NOISE.format(4_000_000), MaxOutput=4), "k")).id
            await stored(made, 500_000)
            await asyncio.to_thread(made.end, "p")
            job = await binder.job(id_)
            assert (job.stage, job.given) == ("ended", 1)
            assert (await whole(binder, job))["out"] == noise(4_000_000)

    with grid(tmp_path) as made:
        made.binder()
        made.pilot("p", "--cpus", 1)
        bounded(case(made))


class Sender(Pilot):
    """A pilot that sends pieces by hand."""

    async def given(self, ad: str) -> Frame:
        if not self.session:
            await self.register()
        slot = await self.slot()
        async with connect.binder(place(self.address)) as binder:
            await binder.submit(parse_ad(ad), os.urandom(4).hex())
        paired = await slot.expect(FrameKind.PAIRED, 10)
        self.accept(slot, paired)
        return paired

    def chunk(self, paired: Frame, data: bytes, offset: int = 0, name: str = "out") -> None:
        self.control.send(
            FrameKind.CHUNK, job=paired["job"], epoch=paired["epoch"], name=name, offset=offset,
            data=b64encode(data).decode(),
        )  # fmt: skip

    async def put(
        self, paired: Frame, data: bytes, offset: int = 0, name: str = "out"
    ) -> tuple[int, str]:
        self.chunk(paired, data, offset, name)
        found = await self.hear(FrameKind.STORED)
        return found["size"], found["reason"]


JOB = '[ Cmd = "/bin/true"; Requirements = true; MaxOutput = 0.001 ]'
"""1,048 bytes come back."""


def test_a_piece_is_stored_once_and_only_in_its_place(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Sender(address)
            paired = await pilot.given(JOB)
            assert await pilot.put(paired, b"abc") == (3, "")
            assert await pilot.put(paired, b"abc") == (3, "")
            assert await pilot.put(paired, b"later", 9) == (3, "")
            assert await pilot.put(paired, b"def", 3) == (6, "")
            assert await pilot.put(paired, b"x", name="file:a/b") == (1, "")
            pilot.ended(paired, '[ OutBytes = 6; OutputFiles = {"a/b"}; OutputSizes = {1} ]')
            await pilot.hear(FrameKind.ACKNOWLEDGE)
            async with connect.binder(place(address)) as binder:
                job = await binder.job(paired["job"])
                assert await whole(binder, job) == {
                    "out": b"abcdef", "err": b"", "file:a/b": b"x",
                }  # fmt: skip
            # Others do not see it, and an ended job gets no more.
            async with connect.binder(place(address, "eve")) as binder:
                with pytest.raises(PeerRefusedError, match="no job"):
                    await binder.job(paired["job"])
                part = OutputPart(name="out", size=6, stored=6)
                with pytest.raises(PeerRefusedError, match="no job"):
                    _ = [data async for data in binder.read(job, part)]
            pilot.chunk(paired, b"more", 6)
            assert (await pilot.hear(FrameKind.KILL))["job"] == paired["job"]
            pilot.close()

    bounded(case())


def test_pieces_of_a_pilot_that_lost_its_job_do_not_mix(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path, lease=1.0) as address:
            old = Sender(address, "old")
            first = await old.given(JOB)
            assert await old.put(first, b"from the old one") == (16, "")
            # It was silent for a lease, as the binder's clock says; its connection is still there.
            new = Sender(address, "new")
            await new.register()
            slot = await new.slot()
            beating = asyncio.create_task(beat(new))
            second = await slot.expect(FrameKind.PAIRED, 20)
            new.accept(slot, second)
            assert (second["job"], second["epoch"]) == (first["job"], first["epoch"] + 1)
            old.chunk(first, b"late", 16)
            await old.hear(FrameKind.KILL)
            assert await new.put(second, b"from the new one") == (16, "")
            new.ended(second, "[ OutBytes = 16 ]")
            await new.hear(FrameKind.ACKNOWLEDGE)
            async with connect.binder(place(address)) as binder:
                job = await binder.job(first["job"])
                assert (await whole(binder, job))["out"] == b"from the new one"
            beating.cancel()
            old.close()
            new.close()

    bounded(case())


async def beat(pilot: Pilot) -> None:
    while True:
        await pilot.beat()
        await asyncio.sleep(0.2)


def test_limits_of_a_job_and_of_an_owner_are_said_in_words(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path, most_output=700, most_stored=1500) as address:
            pilot = Sender(address)
            first = await pilot.given(JOB)
            assert await pilot.put(first, bytes(700)) == (700, "")
            size, why = await pilot.put(first, bytes(100), 700)
            assert (size, why[:33]) == (700, "700 bytes are stored at most, by ")
            assert await pilot.put(first, bytes(400), name="file:a") == (400, "")
            size, why = await pilot.put(first, bytes(301), name="file:b")
            assert (size, why[:10]) == (0, "700 bytes ")
            second = await pilot.given(JOB)
            size, why = await pilot.put(second, bytes(600))
            assert (size, why) == (
                0,
                "the open jobs of ana have stored 1500 bytes, which are the most",
            )
            pilot.ended(first, "[ OutBytes = 700 ]")
            await pilot.hear(FrameKind.ACKNOWLEDGE)
            # The output of what ended first goes, and its reader hears that it is not whole.
            assert await pilot.put(second, bytes(600)) == (600, "")
            async with connect.binder(place(address)) as binder:
                job = await binder.job(first["job"])
                out = connect.parts(job)[0]
                assert (out.size, out.stored, out.whole) == (700, 0, False)
            pilot.close()

    bounded(case())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("../x", b"x"),
        ("file:../x", b"x"),
        ("file:/etc/x", b"x"),
        ("out", b""),
        ("out", bytes(99_000)),
    ],
)
def test_a_piece_against_the_rules_ends_the_connection(
    tmp_path: Path, name: str, data: bytes
) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Sender(address)
            paired = await pilot.given(JOB)
            pilot.chunk(paired, data, 0, name)
            await pilot.hear(FrameKind.REFUSED)

    bounded(case())


def test_heartbeats_do_not_wait_for_a_storage_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = [True]
    put = Tables.put_piece

    def slow(self: Tables, *values: Any) -> None:
        if wait[0]:
            time.sleep(0.5)
            raise LedgerError("the disk is full")
        put(self, *values)

    monkeypatch.setattr(Tables, "put_piece", slow)

    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Sender(address)
            paired = await pilot.given(JOB)
            pilot.chunk(paired, b"abc")
            await pilot.beat()
            assert (await pilot.control.receive(10)).kind is FrameKind.ALIVE
            found = await pilot.hear(FrameKind.STORED)
            assert (found["size"], found["reason"]) == (0, "")
            wait[0] = False
            assert await pilot.put(paired, b"abc") == (3, "")
            pilot.chunk(paired, b"d", 3)
            pilot.chunk(paired, b"e", 3)
            assert isinstance(pilot.control, Connection)
            pilot.close()

    bounded(case())
