"""Pairs of a client and a pilot: joined end to end, through the process of a handler, or directly.

A pair's ends choose their own protocol; bytes and half-closes are passed on unread, and the bytes
that one end sent and the other has not yet read are limited: a slow peer slows only its sender.

A handler is a coroutine function that an installed distribution names under its application in the
entry point group ``matchmaker.binder``. It gets the client's stream, the pilot's stream and the
job's ad; it may log, filter, cache, or answer itself. It runs in its own process, so a handler that
raises, hangs or takes memory harms nobody else. The binder reaches it by two connections on this
machine; a process that dies or does not answer is ended, and started again for the next pair. Run
as a program, this module is that process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import attrs

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.pilots.binder.admission import bounded_value
from matchmaker.pilots.binder.state import BinderJob
from matchmaker.pilots.wire.connection import ClosedError, Connection, PairStream
from matchmaker.pilots.wire.protocol import Frame, FrameKind, Token, TokenScope, sign

_LOG: Final = logging.getLogger(__name__)
# Bytes that may wait for an end; then reading from the other one stops.
HIGH: Final = 256 << 10
# Reading goes on early enough that a fast peer never runs dry.
LOW: Final = 64 << 10
# The token of a direct pair is used at once.
_DIRECT_SECONDS: Final = 60.0
APPLICATION: Final = "Application"
"""The attribute of a client's ad that names the application that it wants."""
# A handler's imports may take seconds on a busy machine.
_START_SECONDS: Final = 15.0
# A handler that answers no heartbeat for so long hangs; its clients wait meanwhile.
_ANSWER_SECONDS: Final = 10.0
GROUP: Final = "matchmaker.binder"
# Large enough that copying costs little, small enough to share the loop.
_PIECE: Final = 1 << 16
Handler = Callable[[PairStream, PairStream, ClassAd], Awaitable[None]]


class RelayEnd(asyncio.Protocol):
    """One end of a pair: it writes its input to the other end.

    ``half`` says that no more will come from this end. The future ``over`` is done after its
    connection; then the other end gets the bytes under way, and ends too.
    """

    __slots__ = ("half", "other", "over", "transport")

    def __init__(self) -> None:
        self.other: asyncio.Transport | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.half = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read nothing until there is another end."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(HIGH, LOW)
        if self.other is None:
            self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Write to the other end, which pauses this one when it is full."""
        if self.other is not None:
            self.other.write(data)

    def eof_received(self) -> bool:
        """Half-close the other end, if its connection can; TLS cannot, and ends.

        When both ends have sent their last byte, both connections end.
        """
        other = self.other
        if other is None or other.is_closing() or not other.can_write_eof():
            return False
        self.half = True
        partner = other.get_protocol()
        if isinstance(partner, RelayEnd) and partner.half:
            other.close()
            return False
        other.write_eof()
        return True

    def pause_writing(self) -> None:
        """Stop reading from the other end: this one is full."""
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        """Read from the other end again."""
        if self.other is not None and not self.other.is_closing():
            self.other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """End the other one: after the bytes under way, or at once if this one broke."""
        if self.other is not None:
            if error is None:
                self.other.close()
            else:
                self.other.abort()
        self.other = None
        if not self.over.done():
            self.over.set_result(None)


def join_ends(one: RelayEnd, two: RelayEnd) -> None:
    """Make two connected ends a pair. Raises ValueError for an end that is not connected."""
    if one.transport is None or two.transport is None:
        raise ValueError("both ends are connected before they become a pair")
    one.other, two.other = two.transport, one.transport
    for transport in (one.transport, two.transport):
        if one.over.done() or two.over.done():
            transport.close()
        else:
            transport.resume_reading()


@attrs.define(slots=True, eq=False)
class SlotOffer:
    """A free slot, and the connection on which its pilot waits for a job.

    A message of the pilot may cross the one that gives it a job. So from the moment that a slot is
    taken, later offers on its connection are ignored until the pilot has answered.

    Attributes:
        slot: the pilot's name of it.
        direct: the address for direct clients; empty for none.
        certificate: the certificate of that address, in PEM.
        key: names it among all free slots.
        owners: the only owners for whose jobs it was entered; empty for anybody's.
        taken: whether a job was chosen for it.
        job: the job, once the pilot was told of it; None before.
        secret: the key of the token of a direct client.
    """

    session: str
    slot: str
    connection: Connection
    ad: ClassAd
    direct: str = ""
    certificate: str = ""
    key: str = attrs.field(factory=lambda: secrets.token_hex(8))
    owners: str = ""
    taken: bool = False
    job: BinderJob | None = None
    secret: bytes = attrs.field(default=b"", repr=False)

    def give(self, job: BinderJob, *, grant: str = "", directly: bool = False) -> None:
        """Tell the pilot of its job. Raises ValueError if that is too long for a frame."""
        more = {"grant": grant} if grant else {}
        if directly:
            self.secret = secrets.token_bytes(32)
            more["key"] = self.secret.hex()
        self.connection.send(FrameKind.PAIRED, **_pair_fields(job), **more)
        self.job = job


def join_pair(
    job: BinderJob, client: Connection, slot: Connection, between: Sequence[Connection] = ()
) -> None:
    """Make the connections of a pair pass bytes on.

    All are open but perhaps the slot's: a pilot may be done before its client hears of it.
    ``between`` are connections to a handler, for the client's and the pilot's side; or none.
    """
    client.send(FrameKind.PAIRED, **_pair_fields(job))
    near = client
    if between:
        _join(client, between[0])
        near = between[1]
    if slot.open:
        _join(near, slot)
    else:
        near.finish(slot.rest())


def _join(one: Connection, other: Connection) -> None:
    """Make two connections pass on each other's bytes."""
    ends = RelayEnd(), RelayEnd()
    early = one.hand_over(ends[0]), other.hand_over(ends[1])
    join_ends(*ends)
    for end, data in zip(ends, early, strict=True):
        end.data_received(data)


def send_directly(job: BinderJob, client: Connection, offer: SlotOffer) -> None:
    """Send a client to its pilot's own port, with a token for this job alone."""
    ends = time.time() + _DIRECT_SECONDS
    made = Token(subject=job.owner, scope=TokenScope.CLIENT, pool=job.id, ends=ends)
    client.send(
        FrameKind.PAIRED, **_pair_fields(job), direct=offer.direct, certificate=offer.certificate,
        token=sign(offer.secret, made),
    )  # fmt: skip
    client.close("it talks to its pilot")


def _pair_fields(job: BinderJob) -> dict[str, Any]:
    """Return the fields for both sides of a pair."""
    return {"job": job.id, "epoch": job.epoch, "ad": job.ad, "stream": not job.detached}


def installed() -> frozenset[str]:
    """Return the applications, in lower case, with an installed handler."""
    return frozenset(entry.name.lower() for entry in entry_points(group=GROUP))


class HandlerProcesses:
    """The processes of handlers, each started when it is first needed."""

    def __init__(self, applications: Iterable[str]) -> None:
        self._applications = frozenset(applications)
        self._folder: TemporaryDirectory[str] | None = None
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._starting: dict[str, asyncio.Lock] = {}

    def wanted(self, ad: ClassAd) -> str:
        """Return the application of a job, if it has a handler; else an empty text."""
        name = bounded_value(ad, APPLICATION) if self._applications else None
        folded = name.lower() if isinstance(name, str) else ""
        return folded if folded in self._applications else ""

    async def sides(self, application: str, ad: str) -> tuple[Connection, Connection]:
        """Open two connections to a handler: for the client, and for the pilot.

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
                _LOG.warning("handler does not answer", extra={"application": application})
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
            sys.executable, "-m", "matchmaker.pilots.binder.relay", application, path,
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
            _LOG.warning("handler could not be started", extra={"application": application})
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
        """End all processes."""
        for application in list(self._processes):
            await self._end(application)
        if self._folder is not None:
            self._folder.cleanup()


async def _dial(path: str) -> Connection:
    loop = asyncio.get_running_loop()
    made: tuple[Any, Connection] = await loop.create_unix_connection(Connection, path)
    made[1].proven()
    return made[1]


async def carry(client: PairStream, pilot: PairStream, _: ClassAd) -> None:
    """Pass bytes on in both directions until both have ended: a handler that changes nothing."""

    async def onwards(source: PairStream, sink: PairStream) -> None:
        while data := await source.read(_PIECE):
            await sink.write(data)
        await sink.end()

    await asyncio.gather(onwards(client, pilot), onwards(pilot, client))


def load_handler(application: str) -> Handler:
    """Return the handler of an application. Raises LookupError, or an error of its module."""
    for entry in entry_points(group=GROUP):
        if entry.name.lower() == application:
            handler: Handler = entry.load()
            return handler
    raise LookupError(f"no distribution names a handler of {application} in {GROUP}")


class _Handling:
    """The streams that have come, until both of a pair are there."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._alone: dict[str, PairStream] = {}
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
        stream = PairStream()
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
        except Exception:  # noqa: BLE001 - anything may be raised, and is for its author
            traceback.print_exc()
            # No end may take a part of the data for all of it.
            stream.abort()
            pilot.abort()
        await asyncio.gather(stream.finish(), pilot.finish())


async def serve_handler(application: str, path: str) -> None:
    """Serve pairs on a socket of this machine, until the process is killed."""
    handling = _Handling(load_handler(application))
    server = await asyncio.get_running_loop().create_unix_server(handling.accept, path)
    os.write(1, b"listening\n")
    # A handler's standard output goes to the binder's errors.
    os.dup2(2, 1)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve_handler(sys.argv[1], sys.argv[2]))
