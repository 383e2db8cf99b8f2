"""A port, called a door, for one client that talks to a pilot directly, without the binder.

A slot that is offered with a door has its own port. The binder gives the client a token for one
job, and the pilot the key that signed it. With these they do the same greeting as with the binder
(``wire``), so nobody else can connect, and nobody twice. Beyond this machine the door has a
certificate, which the client gets from the binder.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path

import attrs

from matchmaker.pilots.wire.connection import ClosedError, Connection, is_loopback, welcome
from matchmaker.pilots.wire.handshake import RefusedError

SECONDS = 30.0
"""How long a client has to come."""


@attrs.frozen(slots=True, kw_only=True)
class Wall:
    """The address and the certificate of a node's doors.

    Attributes:
        host: the address at which clients reach this node.
        certificate: the text of the certificate, in PEM; empty on this machine alone.
        tls: with the certificate's key; None on this machine alone.
    """

    host: str
    certificate: str = ""
    tls: ssl.SSLContext | None = None


def wall(host: str, certificate: str | None, key: str | None) -> Wall:
    """The wall of a node. Raises ValueError beyond this machine without a certificate, and OSError.

    >>> wall("127.0.0.1", None, None).tls is None
    True
    """
    if certificate is None:
        if not is_loopback(host):
            raise ValueError(f"{host} is not this machine: a certificate and its key are needed")
        return Wall(host=host)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.load_cert_chain(certificate, key)
    return Wall(host=host, certificate=Path(certificate).read_text("ascii"), tls=tls)


class Door:
    """A port that accepts one client."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.address = ""
        self._server: asyncio.Server | None = None
        self._expected: asyncio.Future[tuple[str, bytes]] = loop.create_future()
        self._inside: asyncio.Future[Connection] = loop.create_future()
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, where: Wall) -> Door:
        """A new door. Raises OSError."""
        door, loop = cls(), asyncio.get_running_loop()
        door._server = await loop.create_server(door._accept, where.host, 0, ssl=where.tls)
        port = door._server.sockets[0].getsockname()[1]
        host = f"[{where.host}]" if ":" in where.host else where.host
        door.address = f"{host}:{port}"
        return door

    async def client(self, job: str, key: bytes) -> Connection:
        """The client of a job. Raises TimeoutError if it does not come."""
        if not self._expected.done():
            self._expected.set_result((job, key))
        try:
            async with asyncio.timeout(SECONDS):
                return await asyncio.shield(self._inside)
        finally:
            self.close()

    def close(self) -> None:
        """Accepts no more clients."""
        if self._server is not None:
            self._server.close()

    def _accept(self) -> Connection:
        connection = Connection()
        task = asyncio.get_running_loop().create_task(self._greet(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return connection

    async def _greet(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                job, key = await asyncio.shield(self._expected)
            await welcome(connection, key, pool=job, now=time.time, revoked=())
        except (RefusedError, ClosedError, TimeoutError):
            connection.close("nobody else comes in")
            return
        if self._inside.done():
            connection.close("one has come in")
        else:
            self._inside.set_result(connection)
