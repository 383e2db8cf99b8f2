"""A binder in this process, and peers that follow the protocol by hand."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from matchmaker.pilots.binder.admission import BinderSettings
from matchmaker.pilots.binder.server import serve
from matchmaker.pilots.binder.tables import Tables
from matchmaker.pilots.wire.connect import BinderAddress
from matchmaker.pilots.wire.connection import ClosedError, Connection, PairStream, dial
from matchmaker.pilots.wire.protocol import Frame, FrameKind, Role, Token, TokenScope, sign

KEY = b"k" * 32
ANY = '[ Name = "s"; Applications = { "echo" }; Requirements = true ]'


def token(scope: TokenScope, subject: str = "ana", **changed: Any) -> str:
    plain = {"pool": "test", "ends": time.time() + 600, **changed}
    return sign(KEY, Token(subject=subject, scope=scope, **plain))


@asynccontextmanager
async def binding(folder: Path, **changed: Any) -> AsyncIterator[str]:
    """A binder that keeps its tables in a folder; gives its address."""
    tables = Tables(folder / "binder.db")
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    settings = BinderSettings(**{"name": "test", "key": KEY, "lease": 5.0, **changed})
    task = asyncio.create_task(serve(settings, tables, ready=address.set_result, stop=stop))
    task.add_done_callback(lambda _: address.done() or address.cancel())
    try:
        await address
    except asyncio.CancelledError:
        await task
    try:
        yield address.result()
    finally:
        stop.set()
        await asyncio.wait_for(task, 30)
        tables.close()


def place(
    address: str, subject: str = "ana", scope: TokenScope = TokenScope.CLIENT, **how: Any
) -> BinderAddress:
    return BinderAddress(address=address, token=token(scope, subject), **how)


class Pilot:
    """A pilot without work of its own: what it hears and says is up to the test."""

    def __init__(
        self, address: str, subject: str = "pilot", *, mixed: bool = True, nonce: str = ""
    ) -> None:
        self.address = address
        self.token = token(TokenScope.PILOT, subject)
        self.session = ""
        self.mixed = mixed
        self.nonce = nonce
        self.served = ""
        self.offers = 0
        self.tls: ssl.SSLContext | None = None
        self.control: Connection

    async def register(self, running: dict[str, int] | None = None) -> Frame:
        """Greets, for the first time or again, and gives the answer."""
        self.control = await dial(self.address, self.token, Role.PILOT, self.tls)
        self.control.send(
            FrameKind.REGISTER, ad="[]", session=self.session, running=running or {},
            mixed=self.mixed, served=self.served, nonce=self.nonce,
        )  # fmt: skip
        answer = await self.control.receive(10)
        if answer.kind is FrameKind.REGISTERED:
            self.session, self.token = answer["session"], answer["token"]
        return answer

    async def slot(self, ad: str = ANY) -> Connection:
        """A connection with a free slot."""
        connection = await dial(self.address, self.token, Role.SLOT, self.tls)
        self.offer(connection, ad)
        return connection

    def offer(self, connection: Connection, ad: str = ANY) -> None:
        self.offers += 1
        connection.send(FrameKind.OFFER, session=self.session, slot="s", ad=ad)

    @staticmethod
    def accept(slot: Connection, paired: Frame) -> None:
        slot.send(FrameKind.ACCEPTED, job=paired["job"], epoch=paired["epoch"])

    def ended(self, paired: Frame, result: str = "[ ExitCode = 0 ]") -> None:
        self.control.send(FrameKind.ENDED, job=paired["job"], epoch=paired["epoch"], result=result)

    async def hear(self, kind: FrameKind, seconds: float = 10.0) -> Frame:
        """The next frame of a kind on the control connection; others are passed over."""
        async with asyncio.timeout(seconds):
            while True:
                frame = await self.control.receive()
                if frame.kind is kind:
                    return frame

    async def beat(self) -> None:
        self.control.send(FrameKind.BEAT, number=1)

    def close(self) -> None:
        self.control.close("the test is over")


async def echo(pilot: Pilot, slot: Connection) -> None:
    """Runs one job on a slot: gives back what its client sends, then its end."""
    with suppress(ClosedError):
        paired = await slot.expect(FrameKind.PAIRED)
        pilot.accept(slot, paired)
        stream = PairStream()
        stream.data_received(slot.hand_over(stream))
        while part := await stream.read():
            await stream.write(part)
        with suppress(ConnectionError):
            await stream.end()
        pilot.ended(paired)
        stream.close()
