"""Starts the processes of handlers in the binder, and leads pairs through them.

If the application of a pair has a handler, the pair goes through the handler's process, with two
connections on this machine; other pairs go from end to end. A process that dies or does not answer
is ended, and started again for the next pair. ``handling`` says what a handler is.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import entry_points
from tempfile import TemporaryDirectory
from typing import Any, Final

from matchmaker.classad import ClassAd
from matchmaker.pilots.binder.ads import asked
from matchmaker.pilots.binder.pairing import APPLICATION
from matchmaker.pilots.wire.connection import ClosedError, Connection
from matchmaker.pilots.wire.frames import FrameKind

_START_SECONDS: Final = 15.0
_ANSWER_SECONDS: Final = 10.0
_GROUP: Final = "matchmaker.binder"


def installed() -> frozenset[str]:
    """The applications, in lower case, for which a handler is installed."""
    return frozenset(entry.name.lower() for entry in entry_points(group=_GROUP))


class Handlers:
    """The processes of handlers, each started when it is first needed."""

    def __init__(self, applications: Iterable[str]) -> None:
        self._applications = frozenset(applications)
        self._folder: TemporaryDirectory[str] | None = None
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._starting: dict[str, asyncio.Lock] = {}

    def wanted(self, ad: ClassAd) -> str:
        """The application of a job, if it has a handler; else empty."""
        name = asked(ad, APPLICATION) if self._applications else None
        folded = name.lower() if isinstance(name, str) else ""
        return folded if folded in self._applications else ""

    async def sides(self, application: str, ad: str) -> tuple[Connection, Connection]:
        """Two connections to a handler: the one for the client, and the one for the pilot.

        Raises ClosedError if the handler cannot be used; its process is then ended.
        """
        async with self._starting.setdefault(application, asyncio.Lock()):
            path = await self._path(application)
            pair, opened = secrets.token_hex(8), []
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    for side in ("pilot", "client"):
                        connection = await _dial(path)
                        opened.append(connection)
                        # Only a handler that answers gets the pair.
                        connection.send(FrameKind.BEAT, number=1)
                        await connection.expect(FrameKind.ALIVE)
                        connection.send(FrameKind.CONNECT, ad=ad, seconds=0, pair=pair, side=side)
            except (OSError, ValueError) as error:
                for each in opened:
                    each.abort("the handler does not answer")
                await self._end(application)
                raise ClosedError(f"the handler of {application} does not answer") from error
        return opened[1], opened[0]

    async def _path(self, application: str) -> str:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="classad-binder.")
        path = f"{self._folder.name}/{list(self._starting).index(application)}.socket"
        process = self._processes.get(application)
        if process is not None and process.returncode is None:
            return path
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - one call, which does not wait
        # Imports are found as here.
        paths = os.pathsep.join(filter(None, sys.path))
        self._processes[application] = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "matchmaker.pilots.binder.handling", application, path,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        try:
            async with asyncio.timeout(_START_SECONDS):
                said = self._processes[application].stdout
                # A handler says that it listens, or has ended.
                if said is None or not await said.readline():
                    raise ClosedError("the handler has ended")  # noqa: TRY301 - said below
        except (TimeoutError, ClosedError):
            await self._end(application)
            raise ClosedError(f"the handler of {application} could not be started") from None
        return path

    async def _end(self, application: str) -> None:
        process = self._processes.pop(application, None)
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def close(self) -> None:
        """Ends all processes."""
        for application in list(self._processes):
            await self._end(application)
        if self._folder is not None:
            self._folder.cleanup()


async def _dial(path: str) -> Connection:
    loop = asyncio.get_running_loop()
    made: tuple[Any, Connection] = await loop.create_unix_connection(Connection, path)
    made[1].proven()
    return made[1]
