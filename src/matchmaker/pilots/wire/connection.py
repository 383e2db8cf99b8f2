"""Connections that speak frames, and the bytes of a pair between its two ends.

``Connection`` speaks frames, ``greet`` and ``welcome`` are the two sides of the greeting.
``PairStream`` is one end of a pair: parts with their length, and an end for each direction. A part
of no bytes ends its direction, since a connection with TLS cannot be half-closed. A peer that sends
faster than its frames are read is not read meanwhile; a peer that does not read is cut off.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, cast

from matchmaker.pilots.wire import protocol
from matchmaker.pilots.wire.protocol import (
    MOST_BYTES,
    Frame,
    FrameDecoder,
    FrameError,
    FrameKind,
    Greeting,
    PeerRefusedError,
    Role,
    encode,
)

# Two round trips; a peer that takes longer holds a connection for nothing.
GREETING_SECONDS: Final = 15.0
# Bytes that a peer may leave unread before it is cut off: 32 of the longest frames.
_UNSENT: Final = 8 << 20
# The length before a part.
_HEAD: Final = 4
# One part is copied at once; longer data has several.
_MOST_PART: Final = 1 << 20
# Bytes that may wait to be read; then reading from the connection stops.
_HIGH: Final = 1 << 20


class ClosedError(ConnectionError):
    """The connection has ended; the message has the reason."""


class Connection(asyncio.Protocol):
    """A connection of frames. One task at a time calls ``receive``."""

    __slots__ = ("_decoder", "_paused", "_reason", "_taker", "_transport")

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self._paused = False
        self._reason = ""
        self._taker: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the connection exists."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes until they are read; pause the transport if there are many."""
        self._decoder.feed(data)
        if self._transport is not None and not self._paused:
            self._paused = len(self._decoder) > 2 * self._decoder.limit
            if self._paused:
                self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """Wake the reader, which gets the frames that came and then ClosedError."""
        self._ended(f"the connection broke: {error}" if error else "the other side has gone")

    @property
    def open(self) -> bool:
        """Whether frames can still be sent."""
        at = self._transport
        return not self._reason and at is not None and not at.is_closing()

    def proven(self) -> None:
        """Accept longer frames from now on."""
        self._decoder.limit = MOST_BYTES

    async def receive(self, seconds: float | None = None) -> Frame:
        """Return the next frame.

        Raises ClosedError if the connection has ended, and TimeoutError if no frame comes within a
        number of seconds; None is without limit.
        """
        while (frame := self._next()) is None:
            if self._reason:
                raise ClosedError(self._reason)
            self._taker = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(seconds):
                    await self._taker
            finally:
                self._taker = None
        return frame

    async def expect(self, kind: FrameKind, seconds: float | None = None) -> Frame:
        """Return the next frame, which must be of a kind.

        Raises PeerRefusedError if the other side refuses, ClosedError for another frame, and
        TimeoutError.
        """
        frame = await self.receive(seconds)
        self.check(frame, kind)
        return frame

    def check(self, frame: Frame, kind: FrameKind) -> None:
        """Raise as ``expect`` does for a frame of another kind."""
        if frame.kind in {FrameKind.REFUSED, FrameKind.FAILED}:
            raise PeerRefusedError(frame["reason"])
        if frame.kind is not kind:
            self.close(f"{frame.kind} came where {kind} was expected")
            raise ClosedError(self._reason)

    def send(self, kind: FrameKind, **fields: Any) -> None:
        """Send a frame, or nothing after the end. Raises ValueError if it is too long."""
        data = encode(kind, **fields)
        if self._transport is None or self._reason:
            return
        if self._transport.get_write_buffer_size() > _UNSENT:
            self.abort("it does not take what is sent to it")
            return
        self._transport.write(data)

    def close(self, reason: str) -> None:
        """End the connection after all that was sent; the reason is for this side."""
        if self._transport is not None:
            self._transport.close()
        self._ended(reason)

    def abort(self, reason: str) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        self._ended(reason)

    def rest(self) -> bytes:
        """Return the bytes that were not read as frames, and remove them."""
        return self._decoder.rest()

    def finish(self, data: bytes) -> None:
        """Send the last bytes of a pair, and end the connection."""
        if self._transport is not None and self.open:
            self._transport.write(data)
        self.close("the pair has ended")

    def hand_over(self, protocol: asyncio.Protocol) -> bytes:
        """Give the transport to a protocol that carries bytes; return those that came early.

        Raises ClosedError if the connection has ended.
        """
        if self._transport is None or not self.open:
            raise ClosedError(self._reason or "the connection has ended")
        transport, self._transport = self._transport, None
        self._ended("it carries bytes now")
        transport.set_protocol(protocol)
        if self._paused:
            transport.resume_reading()
        protocol.connection_made(transport)
        return self.rest()

    def _next(self) -> Frame | None:
        try:
            frame = self._decoder.next()
        except FrameError as error:
            if self._transport is not None and not self._reason:
                self._transport.write(encode(FrameKind.REFUSED, reason=str(error)))
            self.close(str(error))
            raise ClosedError(str(error)) from None
        if self._transport is not None and self._paused:
            self._paused = len(self._decoder) > self._decoder.limit
            if not self._paused and not self._transport.is_closing():
                self._transport.resume_reading()
        return frame

    def _ended(self, reason: str) -> None:
        if not self._reason:
            self._reason = reason
        self._wake()

    def _wake(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)


async def greet(connection: Connection, token: str, role: Role) -> None:
    """Greet the binder as a peer with a token and its signature.

    Raises PeerRefusedError if the binder refuses, or did not make the token; ClosedError,
    TimeoutError, and TokenError if the token cannot be read.
    """
    said = protocol.hello(token, role, _nonce())
    async with asyncio.timeout(GREETING_SECONDS):
        connection.send(FrameKind.HELLO, **said)
        answer = await connection.expect(FrameKind.CHALLENGE)
        try:
            proof = protocol.answer_challenge(token, said, answer)
        except PeerRefusedError as error:
            connection.close(str(error))
            raise
        connection.send(FrameKind.PROOF, proof=proof)
        await connection.expect(FrameKind.WELCOME)
    connection.proven()


async def welcome(
    connection: Connection, key: bytes, *, pool: str, now: Callable[[], float],
    revoked: Collection[str],
) -> Greeting:  # fmt: skip
    """Greet a peer as the binder. A refused peer gets the reason, and the connection ends.

    Raises PeerRefusedError, ClosedError and TimeoutError.
    """
    try:
        async with asyncio.timeout(GREETING_SECONDS):
            said = await connection.expect(FrameKind.HELLO)
            answer, greeting = protocol.challenge(
                said.fields, key, _nonce(), pool=pool, now=now(), revoked=revoked
            )
            connection.send(FrameKind.CHALLENGE, **answer)
            protocol.check_proof(greeting, (await connection.expect(FrameKind.PROOF))["proof"])
    except (PeerRefusedError, FrameError) as error:
        connection.send(FrameKind.REFUSED, reason=str(error))
        connection.close(str(error))
        raise PeerRefusedError(str(error)) from None
    connection.proven()
    connection.send(FrameKind.WELCOME)
    return greeting


async def dial(
    address: str, token: str, role: Role, tls: ssl.SSLContext | None = None
) -> Connection:
    """Open a connection to a binder, and greet it.

    Args:
        address: ``HOST:PORT``.
        token: the token, with its signature.
        role: the purpose of the connection.
        tls: checks the binder's certificate; needed beyond this machine.

    Raises ValueError for a bad address, or one beyond this machine without ``tls``; OSError; and
    all that ``greet`` raises.
    """
    host, port = parse_address(address)
    if tls is None and not is_loopback(host):
        raise ValueError(f"{host} is not this machine: a certificate to check is needed (TLS)")
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(GREETING_SECONDS):
        _, connection = await loop.create_connection(
            Connection, host, port, ssl=tls, server_hostname=host if tls else None
        )
    try:
        await greet(connection, token, role)
    except BaseException:
        connection.abort("the greeting failed")
        raise
    return connection


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of an address. Raises ValueError.

    >>> parse_address("[::1]:9618"), parse_address("binder.example:9618")
    (('::1', 9618), ('binder.example', 9618))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
        raise ValueError(f"{text[:200]!r} is no address: HOST:PORT was expected")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine for sure.

    >>> is_loopback("localhost"), is_loopback("127.0.0.9"), is_loopback("10.0.0.1")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _nonce() -> str:
    return secrets.token_hex(32)


class PairStream(asyncio.Protocol):
    """One end of a pair. One task may read while another writes."""

    __slots__ = (
        "_buffer",
        "_came",
        "_drained",
        "_ended",
        "_left",
        "_paused",
        "_sent_end",
        "_transport",
        "_why",
    )  # fmt: skip

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._left: int | None = None  # of the part under way; None before its length
        self._ended = False
        self._sent_end = False
        self._why = ""
        self._paused = False
        self._came = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the connection exists."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes until they are read; pause the transport if there are many."""
        self._buffer += data
        if len(self._buffer) > _HIGH and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._came.set()

    def pause_writing(self) -> None:
        """Called by asyncio when the peer is slow to accept data."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Called by asyncio when the peer accepts data again."""
        self._drained.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Wake the reader, which gets the bytes that came, then the end or an error."""
        self._why = self._why or (str(error) if error else "the other end has gone")
        self._drained.set()
        self._came.set()

    @property
    def lost(self) -> bool:
        """Whether the connection has ended."""
        return bool(self._why)

    async def read(self, most: int = 1 << 16) -> bytes:
        """Return the next bytes, at most ``most``; none after the other end's last byte.

        Raises ConnectionError if the connection ended before that, or the other end breaks the
        protocol.
        """
        while (found := self._next(most)) is None:
            if self._why:
                raise ConnectionError(self._why)
            self._came.clear()
            await self._came.wait()
        return found

    async def write(self, data: bytes) -> None:
        """Send bytes. Raises ConnectionError if the connection has ended."""
        view = memoryview(data)
        for start in range(0, len(view), _MOST_PART):
            part = view[start : start + _MOST_PART]
            await self._room()
            if self._transport is not None:
                self._transport.writelines((len(part).to_bytes(_HEAD), part))
        await self._room()

    async def end(self) -> None:
        """End this direction. Raises ConnectionError as ``write`` does."""
        if not self._sent_end:
            await self._room()
            self._sent_end = True
            if self._transport is not None:
                self._transport.write(bytes(_HEAD))

    async def finish(self, seconds: float = 2.0) -> None:
        """End this direction, wait for the other one, and close the connection.

        To close while bytes are unread would reset the connection, and lose data that was written.
        The other end has a number of seconds for its rest.
        """
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self.end()
                while await self.read():
                    pass
        self.close()

    def close(self) -> None:
        """End the connection after all that was written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _room(self) -> None:
        await self._drained.wait()
        if self._why or self._transport is None or self._transport.is_closing():
            raise ConnectionError(self._why or "the connection has ended")

    def _next(self, most: int) -> bytes | None:
        """Return the next bytes; none at the end of the direction, None if more must come."""
        if self._ended:
            return b""
        if self._left is None:
            if len(self._buffer) < _HEAD:
                return None
            self._left = int.from_bytes(self._buffer[:_HEAD])
            del self._buffer[:_HEAD]
            if self._left > _MOST_PART:
                self._why = f"a part of {self._left} bytes came; {_MOST_PART} are the most"
                self.abort()
            elif not self._left:
                self._ended = True
                return b""
        if self._why and self._left > _MOST_PART:
            return None
        found = bytes(self._buffer[: min(most, self._left)])
        del self._buffer[: len(found)]
        self._left = self._left - len(found) or None
        if self._paused and len(self._buffer) < _HIGH // 2 and self._transport is not None:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return found or None
