"""A day of a binder, by a clock that runs fast: nothing grows with the time that it lives."""

from __future__ import annotations

import asyncio
import gc
import os
import random
from pathlib import Path
from typing import Any

import pytest

from matchmaker.classad import ClassAd
from matchmaker.pilots.binder import exchange as room
from matchmaker.pilots.binder import state
from matchmaker.pilots.binder.exchange import Exchange
from matchmaker.pilots.binder.relay import SlotOffer
from matchmaker.pilots.binder.state import BinderJob, PilotSession
from matchmaker.pilots.binder.tables import Tables
from matchmaker.pilots.wire.connection import Connection
from matchmaker.pilots.wire.protocol import FrameKind

MINUTES = int(os.environ.get("BINDER_MINUTES", "240"))
LEASE = 60.0
KEPT = MINUTES // 5


class Heard(Connection):
    """A connection without a peer: it keeps what is sent, until the test takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[FrameKind, dict[str, Any]]] = []

    @property
    def open(self) -> bool:
        return not self._reason

    def send(self, kind: FrameKind, **fields: Any) -> None:
        self.sent.append((kind, fields))


class Life:
    """Pilots that come, take jobs, end them or fall silent; clients that hand jobs in."""

    def __init__(self, binder: Exchange, clock: list[float]) -> None:
        self.binder = binder
        self.clock = clock
        self.chance = random.Random(5)
        self.pilots: dict[str, tuple[Heard, Heard]] = {}
        self.offers: dict[str, SlotOffer] = {}
        self.number = 0
        self.ended = 0

    async def minute(self) -> None:
        self.clock[0] += 60.0
        binder, chance = self.binder, self.chance
        for _ in range(chance.randint(0, 2)):
            await self.pilot_comes()
        for _ in range(chance.randint(0, 8)):
            self.number += 1
            job = BinderJob(
                id=f"j{self.number}", owner=f"o{self.number % 7}", key=f"k{self.number}",
                ad=f"[ Requirements = true; Number = {self.number} ]",
                detached=chance.random() < 0.7,
            )  # fmt: skip
            if job.detached:
                await binder.settle(state.submit(binder.book, job)[1])
            else:
                binder.wait(job, Heard())
        await asyncio.sleep(0)
        for name, (control, slot) in list(self.pilots.items()):
            await self.pilot_lives(name, control, slot)
        binder.post(state.expire(binder.book, self.clock[0], 1.25 * LEASE))
        for job in list(binder.book.jobs.values()):
            if job.stage.open and chance.random() < 0.05:
                binder.post(state.cancel(binder.book, job.id, "enough"))
        await binder.storing.stored()

    async def pilot_comes(self) -> None:
        self.number += 1
        name = f"s{self.number}"
        control, slot = Heard(), Heard()
        session = PilotSession(
            name=name, subject="p", ad="[]", heard=self.clock[0], mixed=True
        )  # fmt: skip
        await self.binder.settle(state.begin(session))
        self.binder.pilots[name] = control
        self.pilots[name] = control, slot
        self.offer(name, slot)

    def offer(self, name: str, slot: Heard) -> None:
        self.offers[name] = SlotOffer(name, "any", slot, ClassAd(Requirements=True))
        self.binder.offer(self.offers[name])

    async def pilot_lives(self, name: str, control: Heard, slot: Heard) -> None:
        binder, fate = self.binder, self.chance.random()
        said, slot.sent = slot.sent, []
        control.sent.clear()
        if fate < 0.1 or name not in binder.book.sessions:
            # Killed: its connections end, its lease runs out.
            del self.pilots[name]
            binder.pilot_lost(name, control)
            binder.slot_lost(self.offers.pop(name))
            return
        binder.post(state.hear(binder.book, name, self.clock[0]))
        if fate < 0.2:
            await binder.settle(state.leave(binder.book, name, "idle"))
            del self.pilots[name]
            binder.pilot_lost(name, control)
            binder.slot_lost(self.offers.pop(name))
            return
        for kind, fields in said:
            assert kind is FrameKind.PAIRED
            id_, epoch = fields["job"], fields["epoch"]
            offer = self.offers.pop(name)
            assert offer.job is not None
            assert (offer.job.id, offer.job.epoch) == (id_, epoch)
            await binder.accepted(offer)
            binder.post(state.ended(binder.book, name, id_, epoch, "[ ExitCode = 0 ]"))
            self.ended += 1
            if slot.open:
                self.offer(name, slot)


def blocks() -> int:
    gc.collect()
    return len(gc.get_objects())


def test_a_day_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_ENDED", KEPT)
    # Connections without a peer carry no bytes.
    monkeypatch.setattr(room, "join_pair", lambda *_: None)

    async def case() -> tuple[int, int, Exchange]:
        clock = [0.0]
        binder = Exchange(tables, lease=LEASE, clock=lambda: clock[0])
        tasks = [asyncio.create_task(each) for each in (binder.store(), binder.match_jobs())]
        life = Life(binder, clock)
        for _ in range(MINUTES // 2):
            await life.minute()
        half = blocks()
        for _ in range(MINUTES // 2):
            await life.minute()
        whole = blocks()
        # The day is over: all that is left is cancelled, and all pilots leave.
        for name, (control, _) in life.pilots.items():
            await binder.settle(state.leave(binder.book, name, "night"))
            binder.pilot_lost(name, control)
        clock[0] += 3600
        binder.post(state.expire(binder.book, clock[0], LEASE))
        for job in list(binder.book.jobs.values()):
            binder.post(state.cancel(binder.book, job.id, "night"))
        await binder.storing.stored()
        # What is stored then comes after what was forgotten.
        await binder.storing.stored()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert life.number > 3 * MINUTES
        assert life.ended > MINUTES // 2
        return half, whole, binder

    tables = Tables(tmp_path / "binder.db")
    half, whole, binder = asyncio.run(case())
    assert whole < 1.02 * half + 500, (half, whole)
    assert len(binder.book.jobs) <= KEPT + 50
    assert all(not job.stage.open for job in binder.book.jobs.values())
    assert binder.book.sessions == {}
    assert len(binder.slots) == 0
    for table in ("_offers", "_given", "_clients", "_endings", "open"):
        assert not getattr(binder, table), table
    assert not binder._waiting._owners
    assert len(binder.book.keys) == len(binder.book.jobs)
    assert not any(binder.book.held.values())
    assert len(binder.book.held) <= 1, "a session that is over leaves nothing"
    jobs, sessions = tables.read()
    assert len(jobs) <= KEPT + 50
    assert sessions == []
    tables.close()
