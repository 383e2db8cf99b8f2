"""The dispatcher: passes a client's bytes to a handler or a program, and the answer back.

A handler is a coroutine function, ``handler:MODULE:FUNCTION`` in the list of applications. It gets
the stream and the job's ad, and answers without a new process. A program reads standard input and
writes standard output. If its words contain ``{port}``, it connects to that port on ``{address}``
instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.pilots.node.output import ERR, OUT, Printed
from matchmaker.pilots.node.running import GRACE, Running, start, with_printed
from matchmaker.pilots.node.task import HANDLER, Result, Task
from matchmaker.pilots.wire.connection import ClosedError, Connection
from matchmaker.pilots.wire.stream import Stream

_PIECE: Final = 1 << 16
_CONNECT_SECONDS: Final = 30.0
_TAKE_SECONDS: Final = 60.0
"""How long a client may take for what is left when the program has ended."""

Handler = Callable[[Stream, ClassAd], Awaitable[None]]


async def converse(
    task: Task, root: Path, stream: Stream, ad: ClassAd, *, started: Callable[[Running], object]
) -> Result:
    """Runs a task whose input and output are a client's, until either side has ended.

    Args:
        task: the program or the handler.
        root: where the task's directory is made.
        stream: the client.
        ad: the job's ad.
        started: called with the program as soon as it runs.
    """
    try:
        if task.argv[0].startswith(HANDLER):
            return await _handled(task, stream, ad)
        if any("{port}" in word for word in task.argv):
            return await _called(task, root, stream, started)
        return await _piped(task, root, stream, started)
    except OSError as error:
        return Result(reason=f"it could not be started: {error}")
    finally:
        await stream.finish()


async def directly(
    task: Task, root: Path, came: Awaitable[Connection], ad: ClassAd, *,
    started: Callable[[Running], object],
) -> Result:  # fmt: skip
    """The same for a client that comes by itself."""
    try:
        connection = await came
        stream = Stream()
        stream.data_received(connection.hand_over(stream))
    except (TimeoutError, ClosedError):
        return Result(reason="its client did not come to its door")
    return await converse(task, root, stream, ad, started=started)


async def _handled(task: Task, stream: Stream, ad: ClassAd) -> Result:
    began, result = time.monotonic(), Result(exit=0)
    try:
        async with asyncio.timeout(task.limits.seconds):
            await _handler(task.argv[0])(stream, ad)
    except TimeoutError:
        result = Result(reason=f"it ran for the {task.limits.seconds:g} s that it may")
    except Exception as error:  # noqa: BLE001 - a site's handler may raise anything
        reason = f"the handler failed: {type(error).__name__}: {error}"
        result = Result(exit=1, reason=reason[:500])
    return attrs.evolve(result, seconds=time.monotonic() - began)


def _handler(word: str) -> Handler:
    """The function of ``handler:MODULE:FUNCTION``; only the site's list names handlers."""
    module, _, name = word.removeprefix(HANDLER).partition(":")
    found: Handler = getattr(import_module(module), name)
    return found


async def _piped(
    task: Task, root: Path, stream: Stream, started: Callable[[Running], object]
) -> Result:
    running = await start(task, root)
    try:
        started(running)
        return await _carried(running, root, running.stdout, running.stdin, stream)
    finally:
        running.release()


async def _called(
    task: Task, root: Path, stream: Stream, started: Callable[[Running], object]
) -> Result:
    """Starts a program that connects to a port of this machine."""
    called: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    called = asyncio.get_running_loop().create_future()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if called.done():
            writer.close()
        else:
            called.set_result((reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = str(server.sockets[0].getsockname()[1])
    words = tuple(
        word.replace("{port}", port).replace("{address}", "127.0.0.1") for word in task.argv
    )
    running = await start(attrs.evolve(task, argv=words), root)
    started(running)
    running.stdin.close()
    ending = asyncio.create_task(running.result())
    try:
        either: set[asyncio.Future[Any]] = {called, ending}
        await asyncio.wait(either, timeout=_CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.close()
    try:
        if not called.done():
            running.end(f"it did not connect to its port in {_CONNECT_SECONDS:g} s")
            return await ending
        reader, writer = called.result()
        printed = Printed(OUT, task.limits.output, root)
        reading = asyncio.create_task(printed.read(running.stdout))
        result = await _carried(running, root, reader, writer, stream)
        await reading
        return await with_printed(result, printed)
    finally:
        running.release()


async def _emptied(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(_PIECE):
            pass


async def _taken(going: asyncio.Task[None], running: Running) -> None:
    """Waits until a client has read all output, for a limited time.

    A client that does not read cannot keep a slot beyond the job's time, or long after the program.
    """
    asked = asyncio.create_task(running.asked.wait())
    ended = asyncio.create_task(running.result())
    try:
        either: set[asyncio.Task[Any]] = {going, asked, ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            await asyncio.wait(
                {going, asked}, timeout=_TAKE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        await asyncio.wait({going}, timeout=GRACE)
    finally:
        for each in (going, asked, ended):
            each.cancel()


async def _carried(
    running: Running, root: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
    stream: Stream,
) -> Result:  # fmt: skip
    """Passes bytes on in both directions. If the client has gone, the program is ended."""

    async def inwards() -> None:
        try:
            while data := await stream.read(_PIECE):
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
        except ConnectionError as error:
            # Its own pipe may be closed, which is the program's right; a lost client is not.
            if stream.lost:
                running.end(f"its client has gone: {error}", GRACE)

    async def outwards() -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_PIECE):
                await stream.write(data)
            await stream.end()

    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(inwards())]
    printed = Printed(ERR, running.task.limits.output, root)
    errors = asyncio.create_task(printed.read(running.stderr))
    going = asyncio.create_task(outwards())
    await _taken(going, running)
    # A process counts as ended when all that it printed is read.
    tasks.append(asyncio.create_task(_emptied(reader)))
    if stream.lost:
        running.end("its client has gone", GRACE)
    result = await running.result()
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    writer.close()
    await errors
    return await with_printed(result, printed)
