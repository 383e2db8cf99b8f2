"""The process of a handler, which stands between clients and pilots of one application.

A handler is a coroutine function that an installed distribution names under its application in the
entry point group ``matchmaker.binder``. It gets the client's stream, the pilot's stream and the
job's ad; it may log, filter, cache, or answer itself. It runs in its own process, so a handler
that raises, hangs or takes memory harms nobody else. ``handlers`` starts the process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Final

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.pilots.wire.connection import ClosedError, Connection
from matchmaker.pilots.wire.frames import Frame, FrameKind
from matchmaker.pilots.wire.stream import Stream

GROUP: Final = "matchmaker.binder"
_PIECE: Final = 1 << 16

Handler = Callable[[Stream, Stream, ClassAd], Awaitable[None]]


async def carry(client: Stream, pilot: Stream, _: ClassAd) -> None:
    """Passes bytes on in both directions until both have ended: a handler that changes nothing."""

    async def onwards(source: Stream, sink: Stream) -> None:
        while data := await source.read(_PIECE):
            await sink.write(data)
        await sink.end()

    await asyncio.gather(onwards(client, pilot), onwards(pilot, client))


def found(application: str) -> Handler:
    """The handler of an application. Raises LookupError, or what its module raises."""
    for entry in entry_points(group=GROUP):
        if entry.name.lower() == application:
            handler: Handler = entry.load()
            return handler
    raise LookupError(f"no distribution names a handler of {application} in {GROUP}")


class _Handling:
    """The streams that have come, until both of a pair are there."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._alone: dict[str, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self) -> Connection:
        connection = Connection()
        connection.proven()
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return connection

    async def _serve(self, connection: Connection) -> None:
        with suppress(ClosedError, TimeoutError):
            while True:
                frame = await connection.receive()
                if frame.kind is FrameKind.CONNECT:
                    await self._pair(connection, frame)
                    return
                connection.send(FrameKind.ALIVE, number=frame["number"])

    async def _pair(self, connection: Connection, frame: Frame) -> None:
        stream = Stream()
        stream.data_received(connection.hand_over(stream))
        pair = str(frame["pair"])
        if frame["side"] == "pilot":
            self._alone[pair] = stream
            return
        # The pilot's side is always connected first.
        pilot = self._alone.pop(pair)
        try:
            await self._handler(stream, pilot, parse_ad(frame["ad"]))
        except ConnectionError:
            pass  # An end has gone, which is no matter of the handler's.
        except Exception:  # noqa: BLE001 - anything may be raised, and is for whoever wrote it
            traceback.print_exc()
            # No end may take what came for all there is.
            stream.abort()
            pilot.abort()
        await asyncio.gather(stream.finish(), pilot.finish())


async def serve(application: str, path: str) -> None:
    """Serves pairs on a socket of this machine, for as long as the process lives."""
    handling = _Handling(found(application))
    server = await asyncio.get_running_loop().create_unix_server(handling.accept, path)
    os.write(1, b"listening\n")
    # What a handler prints is for whoever reads the binder's errors.
    os.dup2(2, 1)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
