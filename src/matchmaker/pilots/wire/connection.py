"""A connection that speaks frames, and the greeting on it from either side.

What frames mean is elsewhere. A peer that sends faster than its frames are taken is not read for
as long; one that does not take what is sent to it is cut off.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Collection
from ipaddress import ip_address
from typing import Any, Final, cast

from matchmaker.pilots.wire import handshake
from matchmaker.pilots.wire.frames import (
    MOST_BYTES,
    Decoder,
    Frame,
    FrameError,
    FrameKind,
    encode,
)  # fmt: skip
from matchmaker.pilots.wire.handshake import Greeting, RefusedError, Role

GREETING_SECONDS: Final = 15.0
"""How long a greeting may take."""
_UNSENT: Final = 8 << 20
"""How many bytes a peer may leave untaken before it is cut off."""


class ClosedError(ConnectionError):
    """The connection has ended, for the reason that this says."""


class Connection(asyncio.Protocol):
    """One connection of frames. ``receive`` is called by one task at a time."""

    __slots__ = ("_decoder", "_paused", "_reason", "_taker", "_transport")

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._paused = False
        self._reason = ""
        self._taker: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Keeps what came until it is taken."""
        self._decoder.feed(data)
        if self._transport is not None and not self._paused:
            self._paused = len(self._decoder) > 2 * self._decoder.limit
            if self._paused:
                self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever waits for a frame hears of it, once the frames that came are taken."""
        self._ended(f"the connection broke: {error}" if error else "the other side has gone")

    # --- what the owner calls

    @property
    def open(self) -> bool:
        """Whether more may be sent."""
        at = self._transport
        return not self._reason and at is not None and not at.is_closing()

    def proven(self) -> None:
        """Takes longer frames from now on."""
        self._decoder.limit = MOST_BYTES

    async def receive(self, seconds: float | None = None) -> Frame:
        """The next frame.

        Args:
            seconds: how long to wait for it; None for as long as the connection lasts.

        Raises:
            ClosedError: the connection has ended.
            TimeoutError: nothing came in time.
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
        """The next frame, which must be of a kind.

        Raises:
            RefusedError: the other side refuses.
            ClosedError: the connection has ended, or another frame came.
            TimeoutError: nothing came in time.
        """
        frame = await self.receive(seconds)
        self.check(frame, kind)
        return frame

    def check(self, frame: Frame, kind: FrameKind) -> None:
        """Raises RefusedError or ClosedError, as ``expect`` does, for a frame of another kind."""
        if frame.kind in {FrameKind.REFUSED, FrameKind.FAILED}:
            raise RefusedError(frame["reason"])
        if frame.kind is not kind:
            self.close(f"{frame.kind} came where {kind} was expected")
            raise ClosedError(self._reason)

    def send(self, kind: FrameKind, **fields: Any) -> None:
        """Sends a frame, or nothing where the connection has ended.

        Raises ValueError for one that is too long.
        """
        data = encode(kind, **fields)
        if self._transport is None or self._reason:
            return
        if self._transport.get_write_buffer_size() > _UNSENT:
            self.abort("it does not take what is sent to it")
            return
        self._transport.write(data)

    def close(self, reason: str) -> None:
        """Ends the connection after what was sent; the reason is for this side."""
        if self._transport is not None:
            self._transport.close()
        self._ended(reason)

    def abort(self, reason: str) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        self._ended(reason)

    def rest(self) -> bytes:
        """The bytes that came and were not taken as frames, which are given away."""
        return self._decoder.rest()

    def finish(self, data: bytes) -> None:
        """Sends the last bytes of a pair, and ends the connection."""
        if self._transport is not None and self.open:
            self._transport.write(data)
        self.close("the pair has ended")

    def hand_over(self, protocol: asyncio.Protocol) -> bytes:
        """Gives the connection to a protocol that carries bytes; returns those that came early.

        Raises ClosedError where it has ended.
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

    # --- within

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
    """The greeting, as a peer of the binder.

    Args:
        connection: a new one.
        token: its text, with the signature.
        role: what the connection is for.

    Raises:
        RefusedError: the binder refuses, or is not the one that made the token.
        ClosedError: the connection has ended.
        TimeoutError: it took too long.
        TokenError: the token cannot be read.
    """
    said = handshake.hello(token, role, _nonce())
    async with asyncio.timeout(GREETING_SECONDS):
        connection.send(FrameKind.HELLO, **said)
        answer = await connection.expect(FrameKind.CHALLENGE)
        try:
            proof = handshake.answered(token, said, answer)
        except RefusedError as error:
            connection.close(str(error))
            raise
        connection.send(FrameKind.PROOF, proof=proof)
        await connection.expect(FrameKind.WELCOME)
    connection.proven()


async def welcome(
    connection: Connection, key: bytes, *, pool: str, now: Callable[[], float],
    revoked: Collection[str],
) -> Greeting:  # fmt: skip
    """The greeting, as the binder. Who is refused hears why, and the connection ends.

    Raises:
        RefusedError: the peer is refused.
        ClosedError: the connection has ended.
        TimeoutError: it took too long.
    """
    try:
        async with asyncio.timeout(GREETING_SECONDS):
            said = await connection.expect(FrameKind.HELLO)
            answer, greeting = handshake.challenge(
                said.fields, key, _nonce(), pool=pool, now=now(), revoked=revoked
            )
            connection.send(FrameKind.CHALLENGE, **answer)
            handshake.proven(greeting, (await connection.expect(FrameKind.PROOF))["proof"])
    except (RefusedError, FrameError) as error:
        connection.send(FrameKind.REFUSED, reason=str(error))
        connection.close(str(error))
        raise RefusedError(str(error)) from None
    connection.proven()
    connection.send(FrameKind.WELCOME)
    return greeting


async def dial(
    address: str, token: str, role: Role, tls: ssl.SSLContext | None = None
) -> Connection:
    """A connection to a binder that is greeted.

    Args:
        address: ``HOST:PORT``.
        token: its text, with the signature.
        role: what the connection is for.
        tls: how the binder's certificate is checked; needed beyond this machine.

    Raises:
        ValueError: the address is none, or lies beyond this machine and there is no ``tls``.
        OSError: no connection can be made.
        RefusedError, ClosedError, TimeoutError, TokenError: as ``greet`` does.
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
    """The host and the port of an address. Raises ValueError.

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
