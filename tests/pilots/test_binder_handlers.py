"""Handlers of applications: they see and change what passes, and one that fails harms no other."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from matchmaker.classad import ClassAd
from matchmaker.pilots.binder import relay
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connection import ClosedError
from matchmaker.pilots.wire.protocol import PeerRefusedError
from tests.pilots.binding import Pilot, binding, echo, place
from tests.pilots.real import with_text

MODULE = '''
import asyncio, time
from matchmaker.pilots.binder.relay import carry

async def plain(client, pilot, ad):
    await carry(client, pilot, ad)

async def answers(client, pilot, ad):
    """What is asked a second time is answered from here."""
    known = {}
    while asked := await client.read():
        if asked not in known:
            await pilot.write(asked)
            known[asked] = await pilot.read()
            await client.write(known[asked])
        else:
            await client.write(b"again " + known[asked])
    await pilot.end()

async def raises(client, pilot, ad):
    raise RuntimeError("on purpose")

async def hangs(client, pilot, ad):
    time.sleep(600)
'''
HOW = {"handled": frozenset(("plain", "answers", "raises", "hangs", "missing")), "lease": 300.0}
NAMES = ("plain", "answers", "raises", "hangs", "missing")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with handlers, as pip would install it."""
    site = tmp_path / "site"
    facts = site / "handled-1.dist-info"
    facts.mkdir(parents=True)
    (site / "handled_by_test.py").write_text(MODULE)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: handled\nVersion: 1\n")
    lines = [f"{name} = handled_by_test:{name}" for name in NAMES]
    (facts / "entry_points.txt").write_text("[matchmaker.binder]\n" + "\n".join(lines))
    monkeypatch.syspath_prepend(str(site))
    return site


def ad(application: str) -> ClassAd:
    return ClassAd(Application=application, Requirements=True)


async def asked(address: str, application: str, *parts: bytes) -> list[bytes]:
    answers = []
    async with connect.paired(place(address), ad(application), seconds=20) as stream:
        for part in parts:
            await stream.write(part)
            answers.append(await stream.read())
    return answers


def test_handlers_carry_and_answer(tmp_path: Path, installed: Path) -> None:
    assert relay.installed() >= set(NAMES)

    async def case() -> None:
        async with (
            asyncio.timeout(60),
            binding(tmp_path, **HOW) as address,
        ):
            pilot = Pilot(address)
            await pilot.register()
            for application, expected in (
                ("plain", [b"a", b"b", b"a"]), ("Answers", [b"a", b"b", b"again a"]),
                ("none", [b"a", b"b", b"a"]),
            ):  # fmt: skip
                serving = asyncio.create_task(echo(pilot, await pilot.slot()))
                assert await asked(address, application, b"a", b"b", b"a") == expected
                await serving
            pilot.close()

    asyncio.run(case())
    assert with_text("matchmaker.pilots.binder.relay") == []


def test_a_handler_that_fails_harms_no_other(
    tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(relay, "_ANSWER_SECONDS", 1.0)

    async def fails(address: str, pilot: Pilot, application: str) -> None:
        slot = await pilot.slot()
        serving = asyncio.create_task(echo(pilot, slot))
        with pytest.raises((ConnectionError, PeerRefusedError, ClosedError, TimeoutError)):
            async with asyncio.timeout(5):
                await asked(address, application, b"a")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    async def case() -> None:
        async with (
            asyncio.timeout(90),
            binding(tmp_path, **HOW) as address,
        ):
            pilot = Pilot(address)
            await pilot.register()
            for application in ("raises", "missing", "hangs", "hangs", "raises"):
                await fails(address, pilot, application)
                serving = asyncio.create_task(echo(pilot, await pilot.slot()))
                assert await asked(address, "plain", b"a") == [b"a"]
                await asyncio.gather(serving, return_exceptions=True)
            # One that is killed is started again.
            for pid in with_text("matchmaker.pilots.binder.relay"):
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.3)
            serving = asyncio.create_task(echo(pilot, await pilot.slot()))
            assert await asked(address, "plain", b"a") == [b"a"]
            await asyncio.gather(serving, return_exceptions=True)
            pilot.close()

    asyncio.run(case())
    assert "on purpose" in capfd.readouterr().err
