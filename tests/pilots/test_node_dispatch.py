"""The dispatcher: what a client does with its end harms no pilot."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from matchmaker.classad import parse_ad
from matchmaker.pilots.node.dispatch import converse
from matchmaker.pilots.node.task import Limits, Result, Task, TaskError, task
from matchmaker.pilots.wire.stream import Stream


@pytest.mark.parametrize("leaves", [False, True])
def test_a_client_that_never_reads_keeps_no_slot_beyond_its_time(
    tmp_path: Path, leaves: bool
) -> None:
    floods = Task(id="t", argv=("/usr/bin/yes",), limits=Limits(seconds=1.5))

    async def case() -> Result:
        stream = Stream()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: stream, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            if leaves:
                loop.call_later(0.5, client.close)
            async with asyncio.timeout(30):
                while stream._transport is None:  # noqa: ASYNC110 - a stream says nothing of it
                    await asyncio.sleep(0.01)
                found = await converse(floods, tmp_path, stream, parse_ad("[]"), started=id)
            server.close()
            return found

    assert ("client" if leaves else "1.5 s") in asyncio.run(case()).reason
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", ["handler:os:abort", "handler:unittest.__main__:main"])
def test_a_client_names_no_handler(word: str) -> None:
    with pytest.raises(TaskError, match="site"):
        task("t", parse_ad(f'[ Cmd = "{word}" ]'), {})


@pytest.mark.parametrize("env", ["3", '"A=b"', '{ "A=b" }', "undefined", "[ A = 3 ]", "error"])
def test_an_environment_is_an_ad_of_strings(env: str) -> None:
    with pytest.raises(TaskError, match="Env"):
        task("t", parse_ad(f'[ Cmd = "/bin/true"; Env = {env} ]'), {})
