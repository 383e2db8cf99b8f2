"""The binder's port: who may connect, which frames each role may send, and how fast.

``exchange`` applies frames to jobs and slots, and ``clients`` answers requests. Each connection is
one task. It reads a frame when the one before is done, and no faster than ``Pace`` allows. So a
peer that floods is read slowly, and slows nobody else.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.delegation.errors import LedgerError
from matchmaker.pilots.binder import moves
from matchmaker.pilots.binder.ads import a_slot, an_ad, asked, reported
from matchmaker.pilots.binder.bounds import MOST_KEY, MOST_TEXT, Pace, Settings
from matchmaker.pilots.binder.clients import client
from matchmaker.pilots.binder.exchange import Exchange
from matchmaker.pilots.binder.grants import granted, refusal, session_token
from matchmaker.pilots.binder.joining import Offer
from matchmaker.pilots.binder.proxy import End
from matchmaker.pilots.binder.states import Session
from matchmaker.pilots.binder.tables import SupersededError, Tables
from matchmaker.pilots.wire.connection import (
    GREETING_SECONDS,
    ClosedError,
    Connection,
    is_loopback,
    welcome,
)  # fmt: skip
from matchmaker.pilots.wire.frames import Frame, FrameKind
from matchmaker.pilots.wire.handshake import Greeting, RefusedError, Role
from matchmaker.pilots.wire.tokens import Scope, Token

_MOST_RUNNING: Final = 4096
_ANSWERS: Final = FrameKind.ACCEPTED, FrameKind.DECLINED


async def serve(
    settings: Settings, tables: Tables, *, ready: Callable[[str], None], stop: asyncio.Event
) -> None:
    """Runs a binder until it is asked to stop.

    Args:
        settings: of the binder.
        tables: where it stores jobs and sessions.
        ready: called with its address when it listens.
        stop: set to end it; pilots and jobs continue, and connect to the next run.

    Raises:
        ValueError: it would listen beyond this machine without a certificate.
        OSError: it cannot listen.
        LedgerError: the tables cannot be read.
        SupersededError: another binder works with the tables.
    """
    if settings.tls is None and not is_loopback(settings.host):
        raise ValueError(
            f"{settings.host} is not this machine: a certificate and its key are needed (TLS)"
        )
    loop = asyncio.get_running_loop()
    binder: _Binder

    def accept() -> asyncio.BaseProtocol:
        return binder.accept()

    # Who reads the tables ends the binder that works with them: not before the port is ours.
    server = await loop.create_server(
        accept, settings.host, settings.port, backlog=1024, start_serving=False,
        ssl=settings.tls, ssl_handshake_timeout=GREETING_SECONDS if settings.tls else None,
    )  # fmt: skip
    try:
        binder = _Binder(settings, tables)
        await server.start_serving()
    except BaseException:
        server.close()
        raise
    tasks: list[Coroutine[Any, Any, Any]] = [
        binder.exchange.store(), binder.exchange.bring_together(), binder.exchange.watch(),
        stop.wait(),
    ]  # fmt: skip
    running = [loop.create_task(each) for each in tasks]
    host, port = server.sockets[0].getsockname()[:2]
    try:
        ready(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await binder.end()


class _Accepted(Connection):
    """A connection that begins to be served as soon as it is made, and counts until it is lost."""

    __slots__ = ("_begin", "_gone")

    def __init__(
        self, begin: Callable[[_Accepted], None], gone: Callable[[_Accepted], None]
    ) -> None:
        super().__init__()
        self._begin = begin
        self._gone = gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._begin(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._gone(self)

    def hand_over(self, protocol: asyncio.Protocol) -> bytes:
        if isinstance(protocol, End):
            protocol.over.add_done_callback(lambda _: self._gone(self))
        return super().hand_over(protocol)


class _Binder:
    """The connections of a binder, each with its task."""

    def __init__(self, settings: Settings, tables: Tables) -> None:
        self.settings = settings
        self.exchange = Exchange(
            tables, lease=settings.lease, clock=time.monotonic,
            applications=settings.handled,
            grant=lambda job: granted(job, settings.key, settings.name),
            most_output=settings.most_output, most_stored=settings.most_stored,
        )  # fmt: skip
        self._tables = tables
        self._tasks: dict[asyncio.Task[None], Connection] = {}
        self._pieces: set[asyncio.Task[None]] = set()
        # Those of pairs too, which no task serves.
        self._open: set[_Accepted] = set()

    def accept(self) -> Connection:
        return _Accepted(self._begin, self._open.discard)

    def _begin(self, connection: _Accepted) -> None:
        if len(self._open) >= self.settings.most_connections:
            connection.send(FrameKind.REFUSED, reason="the binder has too many connections")
            connection.close("too many connections")
            return
        self._open.add(connection)
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._tasks[task] = connection
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def end(self) -> None:
        """Ends all connections."""
        tasks = dict(self._tasks)
        for task, connection in tasks.items():
            connection.close("the binder ends")
            task.cancel()
        await asyncio.gather(*tasks, *self._pieces, return_exceptions=True)
        await self.exchange.close()

    async def _serve(self, connection: Connection) -> None:
        try:
            greeting = await welcome(
                connection, self.settings.key, pool=self.settings.name, now=time.time,
                revoked=self.exchange.revoked,
            )  # fmt: skip
        except (RefusedError, ClosedError, TimeoutError):
            connection.close("the greeting failed")
            return
        if why := refusal(greeting.token, self.exchange.book, self.exchange.revoked):
            connection.send(FrameKind.REFUSED, reason=why)
            connection.close(why)
            return
        self.exchange.greeted[connection] = greeting.token
        serves = {Role.PILOT: self._pilot, Role.SLOT: self._slot}
        try:
            await serves.get(greeting.role, self._requests)(connection, greeting)
        except ValueError as error:
            connection.send(FrameKind.REFUSED, reason=str(error)[:MOST_TEXT])
        except (ClosedError, TimeoutError):
            pass
        finally:
            del self.exchange.greeted[connection]
            connection.close("it is over")

    async def _requests(self, connection: Connection, greeting: Greeting) -> None:
        await client(connection, greeting, self.exchange, self.settings)

    # --- pilots

    async def _pilot(self, connection: Connection, greeting: Greeting) -> None:
        """The connection on which a pilot reports."""
        exchange, pace, session = self.exchange, Pace(), ""
        storing: asyncio.Task[None] | None = None
        try:
            while True:
                # A pilot that is silent for longer than a lease has nothing to say any more.
                frame = await connection.receive(2 * self.settings.lease)
                await pace.step(frame)
                if frame.kind is FrameKind.REGISTER:
                    if not frame["session"] and session in exchange.book.sessions:
                        raise RefusedError("register: it has a session on this connection")
                    exchange.gone(session, connection)
                    session = await self._register(connection, greeting, frame)
                elif not session:
                    raise RefusedError(f"{frame.kind} came where register was expected")
                elif frame.kind is FrameKind.BEAT:
                    change = moves.hear(exchange.book, session, time.monotonic())
                    exchange.post(change)
                    if not change.words:
                        connection.send(FrameKind.ALIVE, number=frame["number"])
                elif frame.kind is FrameKind.LEAVE:
                    reason = f"its pilot left: {frame['reason'][:MOST_TEXT]}"
                    await exchange.settle(moves.leave(exchange.book, session, reason))
                    connection.send(FrameKind.DONE)
                    return
                elif frame.kind is FrameKind.CHUNK:
                    if storing is not None and not storing.done():
                        raise RefusedError("chunk: it came before the answer to the last one")
                    # The storage may be slow, and heartbeats do not wait for it.
                    storing = asyncio.create_task(self._piece(connection, session, frame))
                    self._pieces.add(storing)
                    storing.add_done_callback(self._pieces.discard)
                else:
                    self._report(session, frame)
        finally:
            exchange.gone(session, connection)

    async def _piece(self, connection: Connection, session: str, frame: Frame) -> None:
        """Stores a piece of a job's output, and says how much of it is there."""
        said = {"job": frame["job"], "epoch": frame["epoch"]}
        try:
            taken = await self.exchange.outputs.take(session, frame)
        except ValueError as error:
            connection.send(FrameKind.REFUSED, reason=str(error)[:MOST_TEXT])
            connection.close(str(error))
            return
        except SupersededError as error:
            connection.close(str(error))
            return
        if taken is None:
            connection.send(FrameKind.KILL, **said)
            return
        size, why = taken
        connection.send(FrameKind.STORED, **said, name=frame["name"], size=size, reason=why)

    def _report(self, session: str, frame: Frame) -> None:
        book = self.exchange.book
        if frame.kind is FrameKind.DECLINED:
            reason = frame["reason"][:MOST_TEXT]
            change = moves.declined(book, session, frame["job"], frame["epoch"], reason)
        elif frame.kind is FrameKind.ENDED:
            result = reported(frame["result"])
            change = moves.ended(book, session, frame["job"], frame["epoch"], result)
        else:
            raise RefusedError(f"a pilot may not say {frame.kind}")
        self.exchange.post(change)

    async def _register(self, connection: Connection, greeting: Greeting, frame: Frame) -> str:
        exchange = self.exchange
        ad = an_ad(frame["ad"])
        running = frame["running"]
        if len(running) > _MOST_RUNNING or not all(type(n) is int for n in running.values()):
            raise RefusedError(f"running: at most {_MOST_RUNNING} jobs with their epochs")
        name: str = frame["session"]
        now = time.monotonic()
        if name:
            if exchange.session(name, greeting.token) is None:
                connection.send(FrameKind.OVER)
                return ""
            change = moves.resume(exchange.book, name, running, now)
        else:
            first = greeting.token.scope is Scope.PILOT
            try:
                exchange.storing.room()
                mine = not first or await exchange.use(greeting.token, _nonce(frame))
            except ValueError as error:
                # Storage is full or away. A refusal would end the pilot: it is to try again.
                raise ClosedError(str(error)) from None
            if not mine:
                raise RefusedError("this token was used: each pilot needs one of its own")
            # A pilot that never heard of its session gets that one.
            if first and (name := exchange.begun_with(greeting.token)):
                change = moves.resume(exchange.book, name, running, now)
            else:
                name = secrets.token_hex(16)
                change = moves.begin(_begun(name, greeting.token, frame, now))
                await self._measure(ad)
        await exchange.settle(attrs.evolve(change, words=()))
        before = exchange.pilots.get(name)
        exchange.pilots[name] = connection
        if before is not None and before is not connection:
            before.close("its pilot came back on another connection")
        connection.send(
            FrameKind.REGISTERED, session=name, lease=self.settings.lease,
            token=session_token(greeting.token, self.settings.key, time.time()),
        )  # fmt: skip
        for word in change.words:
            connection.send(word.kind, job=word.job, epoch=word.epoch)
        return name

    async def _measure(self, ad: ClassAd) -> None:
        """Records how long the pilot's queue took to start it, if its ad says so."""
        queue, submitted = asked(ad, "Queue"), asked(ad, "SubmittedAt")
        if isinstance(queue, str) and isinstance(submitted, int | float):
            began = asked(ad, "StartedAt")
            started = began if isinstance(began, int | float) else time.time()
            # It is a figure for estimates, and no reason to refuse a pilot.
            with suppress(LedgerError, ValueError, OverflowError):
                await asyncio.to_thread(
                    self._tables.measured, queue[:MOST_KEY], float(submitted), float(started)
                )

    async def _slot(self, connection: Connection, greeting: Greeting) -> None:
        """A connection on which a pilot waits with a free slot, for one job after another."""
        exchange, pace = self.exchange, Pace()
        offer: Offer | None = None
        try:
            while True:
                frame = await connection.receive()
                await pace.step(frame)
                if frame.kind is FrameKind.OFFER:
                    # One that crossed ``paired`` says nothing of what is free.
                    if offer is None or not offer.taken:
                        offer = self._offered(connection, greeting, frame, offer)
                    continue
                job = None if offer is None else offer.job
                if offer is None or job is None or frame.kind not in _ANSWERS:
                    raise RefusedError(f"{frame.kind} came where offer was expected")
                if (frame["job"], frame["epoch"]) != (job.id, job.epoch):
                    raise RefusedError(f"{frame.kind}: {job.id} was given, another was named")
                given, offer = offer, None
                if frame.kind is FrameKind.DECLINED:
                    exchange.declined(given, frame["reason"][:MOST_TEXT])
                elif await exchange.accepted(given):
                    return
        finally:
            if offer is not None:
                exchange.unheard(offer)

    def _offered(
        self, connection: Connection, greeting: Greeting, frame: Frame, before: Offer | None
    ) -> Offer:
        """Enters a free slot, in place of the one that was offered before."""
        exchange = self.exchange
        session = exchange.session(frame["session"], greeting.token)
        if session is None or session.name not in exchange.pilots:
            raise RefusedError("its session is over, or its pilot is not connected")
        if before is not None:
            exchange.withdraw(before)
        ad = a_slot(frame["ad"])
        found = (asked(ad, name) for name in ("DirectAddress", "DirectCertificate"))
        direct, certificate = (each if isinstance(each, str) else "" for each in found)
        slot = frame["slot"][:MOST_KEY]
        offer = Offer(session.name, slot, connection, ad, direct, certificate)
        exchange.offer(offer)
        return offer


def _nonce(frame: Frame) -> str:
    """The number by which a pilot is known again that registers twice with one token."""
    nonce = frame.fields.get("nonce", "")
    if not isinstance(nonce, str) or len(nonce) > MOST_KEY:
        raise RefusedError("nonce: a text was expected")
    return nonce


def _begun(name: str, token: Token, frame: Frame, now: float) -> Session:
    """The new session of a pilot.

    Raises RefusedError where it says wrongly whose jobs it has run in earlier sessions.
    """
    mixed, served = frame.fields.get("mixed") is True, frame.fields.get("served", "")
    if not isinstance(served, str) or " " in served or len(served) > MOST_KEY:
        raise RefusedError("served: the name of an owner was expected")
    owners = " ".join(token.owners) or ("" if mixed else served)
    return Session(
        name=name, subject=token.subject, ad=frame["ad"], heard=now, token=token.id,
        owners=owners, mixed=mixed,
    )  # fmt: skip
