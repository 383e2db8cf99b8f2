"""The dispatcher: what a client does with its end harms no pilot."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.pilots.node.running import run_with_client
from matchmaker.pilots.node.task import Task, TaskError, TaskLimits, TaskResult, task_of_ad
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connection import PairStream
from tests.pilots.real import grid


@pytest.mark.parametrize("leaves", [False, True])
def test_a_client_that_never_reads_keeps_no_slot_beyond_its_time(
    tmp_path: Path, leaves: bool
) -> None:
    floods = Task(id="t", argv=("/usr/bin/yes",), limits=TaskLimits(seconds=1.5))

    async def case() -> TaskResult:
        stream = PairStream()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: stream, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            if leaves:
                loop.call_later(0.5, client.close)
            async with asyncio.timeout(30):
                while stream._transport is None:  # noqa: ASYNC110 - a stream says nothing of it
                    await asyncio.sleep(0.01)
                found = await run_with_client(floods, tmp_path, stream, parse_ad("[]"), started=id)
            server.close()
            return found

    assert ("client" if leaves else "1.5 s") in asyncio.run(case()).reason
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", ["handler:os:abort", "handler:unittest.__main__:main"])
def test_a_client_names_no_handler(word: str) -> None:
    with pytest.raises(TaskError, match="site"):
        task_of_ad("t", parse_ad(f'[ Cmd = "{word}" ]'), {})


def test_what_is_checked_is_what_runs() -> None:
    ad = parse_ad('[ Cmd = ifThenElse(random(2) == 0, "/bin/true", "handler:os:abort") ]')
    for _ in range(100):
        with suppress(TaskError):
            assert task_of_ad("t", ad, {}).argv == ("/bin/true",)


@pytest.mark.parametrize("env", ["3", '"A=b"', '{ "A=b" }', "undefined", "[ A = 3 ]", "error"])
def test_an_environment_is_an_ad_of_strings(env: str) -> None:
    with pytest.raises(TaskError, match="Env"):
        task_of_ad("t", parse_ad(f'[ Cmd = "/bin/true"; Env = {env} ]'), {})


# The pilot that loads it waits for a second, not half a minute, for what cannot be ended.
STUBBORN = """
import asyncio
from matchmaker.pilots.node import pilot, works
pilot.GRACE = works.GRACE = 0.2
works._LAST = 0.5
async def serve(stream, ad):
    await stream.write(b"here")
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass
"""


@pytest.mark.slow
def test_a_handler_that_cannot_be_ended_keeps_no_pilot(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    with grid(tmp_path) as made:
        made.binder()
        pilot = made.start(
            "p", "pilot", "--token", made.pilot_token(), "--dir", tmp_path / "work",
            "--cpus", 1, "--app", "stubborn=handler:stubborn:serve", PYTHONPATH=str(tmp_path),
        )  # fmt: skip

        async def paired() -> None:
            ad = ClassAd(Application="stubborn", Requirements=True)
            async with connect.paired(made.place(), ad, seconds=30) as stream:
                assert await stream.read() == b"here"
                pilot.terminate()
                assert await asyncio.to_thread(pilot.wait, 90) == 1

        asyncio.run(paired())
        assert "could not be ended: " in (made.logs / "p.log").read_text()

        async def given_back() -> connect.JobFacts:
            async with connect.binder(made.place()) as binder:
                (found,) = [each async for each in binder.jobs()]
                return await binder.job(found.id, seconds=50)

        assert asyncio.run(given_back()).over
