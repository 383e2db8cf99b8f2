"""A binder's slots and clients while the messages of both sides cross in every order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, cast
from unittest.mock import Mock, patch

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from matchmaker.pilots.binder import server, state
from matchmaker.pilots.binder.admission import BinderSettings
from matchmaker.pilots.binder.server import _Binder
from matchmaker.pilots.binder.state import BinderChange, BinderJob, JobStage, PilotSession
from matchmaker.pilots.binder.tables import Tables
from matchmaker.pilots.wire.connection import ClosedError, Connection
from matchmaker.pilots.wire.protocol import (
    FrameDecoder,
    FrameKind,
    Greeting,
    Role,
    Token,
    TokenScope,
    encode,
)
from tests.cases import cases

END = b""
ID = "t"
WHICH = st.integers(0, 1)


class Way(asyncio.Transport):
    """The binder's end of a connection: what it writes waits until the test lets it arrive."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.protocol: asyncio.BaseProtocol = connection
        self.down: deque[bytes] = deque()
        self.up: deque[bytes] = deque()
        self.closed = False

    def write(self, data: Any) -> None:
        if not self.closed:
            self.down.append(bytes(data))

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.down.append(END)
            asyncio.get_event_loop().call_soon(self._lost)

    def _lost(self) -> None:
        cast(asyncio.Protocol, self.protocol).connection_lost(None)

    abort = close

    def arrive(self) -> None:
        """Lets the next bytes of the peer arrive at the binder."""
        data = self.up.popleft()
        if self.closed:
            return
        if data == END:
            self.close()
        else:
            cast(asyncio.Protocol, self.protocol).data_received(data)

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol


@attrs.define(eq=False)
class Side:
    """The far end of a slot's or a client's connection."""

    way: Way
    decoder: FrameDecoder = attrs.field(factory=lambda: FrameDecoder(1 << 20))
    job: str = ""
    switched: bool = False
    offered: bool = False
    gone: bool = False
    sent: bytearray = attrs.field(factory=bytearray)
    got: bytearray = attrs.field(factory=bytearray)

    def say(self, data: bytes) -> None:
        if not self.gone:
            self.way.up.append(data)

    def talk(self, data: bytes) -> None:
        if not self.gone:
            self.sent += data
            self.way.up.append(data)

    def go(self) -> None:
        self.say(END)
        self.gone = True


class _NoTables:
    """Tables that keep nothing."""

    def read(self) -> tuple[list[BinderJob], list[PilotSession]]:
        return [], []

    def revoked(self) -> frozenset[str]:
        return frozenset()

    def outputs(self) -> list[tuple[str, int, str, int]]:
        return []

    def write(self, change: BinderChange) -> None:
        pass


async def _stored(*_: object) -> bool:
    return True


class Crossing(RuleBasedStateMachine):
    """One pilot with two slots, a few clients, and a binder in between."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.tasks: list[asyncio.Task[Any]] = []
        self.slots: list[Side] = []
        self.clients: list[Side] = []
        self.refused: set[tuple[str, int]] = set()
        self.heard: deque[tuple[str, int]] = deque()
        self.running: dict[tuple[str, int], None] = {}
        self.made = 0

    @initialize()
    def begin(self) -> None:
        self.run(self._begin())

    async def _begin(self) -> None:
        plain = BinderSettings(key=b"k" * 32, name="test")
        self.binder = _Binder(plain, cast(Tables, _NoTables()))
        self.exchange = self.binder.exchange
        self.exchange.storing.tried = _stored  # type: ignore[method-assign, assignment]
        session = PilotSession(name="s", subject="p", ad="[]", heard=0.0, token=ID, mixed=True)
        self.exchange.post(state.begin(session))
        control = Mock(spec=Connection, send=self._control)
        self.exchange.pilots["s"] = control
        for each in (self.exchange.store(), self.exchange.match_jobs()):
            self.tasks.append(asyncio.create_task(each))
        self.slots = [self._slot(), self._slot()]

    @rule(which=WHICH)
    def work_comes(self, which: int) -> None:
        """A slot is offered, and there is a client for it: what follows may cross."""
        self.offer(which)
        self.client_comes()
        while self.slots[which].way.up:
            self.slots[which].way.arrive()
        self.run()

    def _control(self, kind: FrameKind, **fields: Any) -> None:
        if kind is FrameKind.KILL:
            self.heard.append((fields["job"], fields["epoch"]))

    def _dial(self, role: Role) -> Side:
        connection = Connection()
        connection.proven()
        way = Way(connection)
        connection.connection_made(way)
        scope, subject = (
            (TokenScope.SESSION, "p") if role is Role.SLOT else (TokenScope.CLIENT, "ana")
        )
        token = Token(subject=subject, scope=scope, pool="test", id=ID, ends=9e9)
        greeting = Greeting(token, role, 2, "")
        if role is Role.SLOT:
            serving = self.binder._slot(connection, greeting)
        else:
            serving = self.binder._requests(connection, greeting)
        self.tasks.append(asyncio.create_task(self._served(serving, connection)))
        return Side(way)

    async def _served(self, serving: Coroutine[Any, Any, None], connection: Connection) -> None:
        try:
            await serving
        except ClosedError:
            pass
        finally:
            connection.close("it is over")

    def _slot(self) -> Side:
        return self._dial(Role.SLOT)

    def run(self, work: Coroutine[Any, Any, Any] | None = None) -> None:
        async def settled() -> None:
            if work is not None:
                await work
            for _ in range(40):
                await asyncio.sleep(0)

        # Which slot a job gets, and whose turn it is, are the same in each run of a case.
        with (
            patch.object(server, "_SOON", 1e6),
            patch("secrets.token_hex", self._name),
            patch("time.thread_time", float),
        ):
            self.loop.run_until_complete(settled())

    def _name(self, size: int) -> str:
        self.made += 1
        return f"{self.made:0{size}}"

    # --- the pilot

    @rule(which=WHICH)
    def offer(self, which: int) -> None:
        """Also a newer one, of a slot that is offered already."""
        slot = self.slots[which]
        if not slot.switched:
            self.made += 1
            ad = f"[ Requirements = true; Number = {self.made} ]"
            slot.say(encode(FrameKind.OFFER, session="s", slot=str(which), ad=ad))
            slot.offered = True

    @rule(which=WHICH, seldom=st.integers(0, 9))
    def slot_goes(self, which: int, seldom: int) -> None:
        """Withdrawn, or its pair has ended; another connection takes its place."""
        if seldom and not self.slots[which].switched:
            return
        self.slots[which].go()
        self.slots.append(self.slots[which])

        async def dial() -> None:
            self.slots[which] = self._slot()

        self.run(dial())

    @rule(which=st.integers(0, 6))
    def slot_talks(self, which: int) -> None:
        slot = self.slots[which % len(self.slots)]
        if slot.switched:
            slot.talk(b"p%d;" % len(slot.sent))

    @rule(
        order=st.lists(st.integers(0, 99), min_size=1, max_size=9),
        accepts=st.sampled_from([True, True, True, False]),
    )
    def deliver(self, order: list[int], accepts: bool) -> None:
        """Some of what is under way arrives, in any order but on one connection."""
        for each in order:
            ways: list[tuple[Any, ...]] = []
            sides = (*self.slots, *self.clients)
            ways += [(self._up, side) for side in sides if side.way.up]
            ways += [(self._slot_down, slot, accepts) for slot in self.slots if slot.way.down]
            ways += [(self._client_down, side) for side in self.clients if side.way.down]
            if self.heard:
                ways.append((self._control_down,))
            if not ways:
                return
            act, *what = ways[each % len(ways)]
            act(*what)

    def _up(self, side: Side) -> None:
        side.way.arrive()
        self.run()

    def _slot_down(self, slot: Side, accepts: bool) -> None:
        data = slot.way.down.popleft()
        if data == END or slot.gone:
            return
        if slot.switched:
            slot.got += data
            return
        slot.decoder.feed(data)
        while (frame := slot.decoder.next()) is not None:
            assert frame.kind is FrameKind.PAIRED, frame
            if self._paired(slot, frame.fields, accepts):
                slot.got += slot.decoder.rest()
                return

    def _paired(self, slot: Side, given: Any, accepts: bool) -> bool:
        """Whether bytes follow."""
        named = {"job": given["job"], "epoch": given["epoch"]}
        assert slot.offered, "a slot that is not offered got a job"
        slot.offered = False
        if not accepts or (given["job"], given["epoch"]) in self.refused:
            slot.say(encode(FrameKind.DECLINED, **named, reason="no"))
            return False
        assert not any(job == given["job"] for job, _ in self.running)
        if hasattr(FrameKind, "ACCEPTED"):
            slot.say(encode(FrameKind.ACCEPTED, **named))
        self.running[given["job"], given["epoch"]] = None
        if given["stream"]:
            slot.job, slot.switched = given["job"], True
            slot.talk(f"{given['job']};".encode())
        return slot.switched

    def _control_down(self) -> None:
        """The binder asks for the end of a job: the pilot ends it, or never begins it."""
        id_, epoch = self.heard.popleft()
        self.refused.add((id_, epoch))
        self.running.pop((id_, epoch), None)
        for slot in self.slots:
            if slot.job == id_:
                slot.go()
        self.run(self._posts(state.declined(self.exchange.book, "s", id_, epoch, "killed")))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """The report may come before the answer on the slot's connection."""
        id_, epoch = data.draw(st.sampled_from(list(self.running)))
        del self.running[id_, epoch]
        self.refused.add((id_, epoch))
        self.run(self._posts(state.ended(self.exchange.book, "s", id_, epoch, "[]")))

    async def _posts(self, change: Any) -> None:
        self.exchange.post(change)

    # --- clients

    @rule()
    def client_comes(self) -> None:
        async def come() -> None:
            client = self._dial(Role.CLIENT)
            client.say(encode(FrameKind.CONNECT, ad="[ Requirements = true ]", seconds=1e6))
            client.way.arrive()
            self.clients.append(client)

        if len(self.clients) < 9:
            self.run(come())

    @rule()
    def job_comes(self) -> None:
        self.made += 1
        name = f"j{self.made}"
        job = BinderJob(id=name, owner="ben", key=name, ad="[ Requirements = true ]")
        self.run(self._posts(state.submit(self.exchange.book, job)[1]))

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 8), what=st.sampled_from([*["talk"] * 9, "go"]))
    def client_does(self, which: int, what: str) -> None:
        client = self.clients[which % len(self.clients)]
        if what == "go":
            client.go()
        elif client.switched:
            client.talk(b"c%d;" % len(client.sent))

    def _client_down(self, client: Side) -> None:
        data = client.way.down.popleft()
        if data == END or client.gone:
            return
        if client.switched:
            client.got += data
            return
        client.decoder.feed(data)
        while not client.switched and (frame := client.decoder.next()) is not None:
            assert frame.kind in {FrameKind.PAIRED, FrameKind.FAILED}, frame
            if frame.kind is FrameKind.PAIRED:
                client.job, client.switched = frame["job"], True
                client.got += client.decoder.rest()

    @rule(data=st.data(), seldom=st.integers(0, 4))
    def cancel(self, data: st.DataObject, seldom: int) -> None:
        if seldom == 0 and (jobs := list(self.exchange.book.jobs)):
            id_ = data.draw(st.sampled_from(jobs))
            self.run(self._posts(state.cancel(self.exchange.book, id_, "enough")))

    # --- what is always so

    @invariant()
    def nobody_gets_what_is_not_its_own(self) -> None:
        for client in self.clients:
            for slot in self.slots:
                if client.job and client.job == slot.job:
                    assert slot.sent.startswith(client.got), (bytes(client.got), bytes(slot.sent))
                    assert client.sent.startswith(slot.got), (bytes(slot.got), bytes(client.sent))
        for client in self.clients:
            if client.got:
                assert client.got.startswith(client.job[: len(client.got)].encode())

    @invariant()
    def the_binder_knows_what_runs(self) -> None:
        if not self.slots:
            return
        for id_, epoch in self.running:
            job = self.exchange.book.jobs[id_]
            assert job.epoch == epoch or job.stage is not JobStage.RUNNING

    def teardown(self) -> None:
        async def ended() -> None:
            for each in self.tasks:
                each.cancel()
            for said in await asyncio.gather(*self.tasks, return_exceptions=True):
                assert said is None or isinstance(said, asyncio.CancelledError), said

        self.loop.run_until_complete(ended())
        asyncio.set_event_loop(None)
        self.loop.close()


Crossing.TestCase.settings = settings(
    max_examples=cases(200), stateful_step_count=50, deadline=None,
)  # fmt: skip
TestCrossing = Crossing.TestCase
