"""A direct channel: the client that was sent comes in, nobody else does, and nobody twice."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest

from matchmaker.classad import ClassAd
from matchmaker.pilots.node.running import Door, door_settings
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire import connection as wire
from matchmaker.pilots.wire.connection import Connection, PairStream, dial
from matchmaker.pilots.wire.protocol import PeerRefusedError, Role, Token, TokenScope, sign
from tests.pilots.real import grid
from tests.services.slapd import make_certificate

KEY = b"d" * 32


def token(job: str, key: bytes = KEY) -> str:
    return sign(key, Token(subject="ana", scope=TokenScope.CLIENT, pool=job, ends=time.time() + 60))


async def greeted(coming: Awaitable[Connection], going: Awaitable[Connection]) -> None:
    ours, theirs = await asyncio.gather(coming, going)
    streams = PairStream(), PairStream()
    for each, stream in zip((ours, theirs), streams, strict=True):
        stream.data_received(each.hand_over(stream))
    await streams[0].write(b"x" * 100_000)
    await streams[0].end()
    got = 0
    while part := await streams[1].read():
        got += len(part)
    assert got == 100_000
    streams[1].close()
    streams[0].close()


@pytest.mark.parametrize("tls", [False, True])
def test_the_one_who_was_sent_comes_in(tmp_path: Path, tls: bool) -> None:
    made = make_certificate(tmp_path)
    files = (str(made.certificate), str(made.key)) if tls else (None, None)

    async def case() -> None:
        where = door_settings("127.0.0.1", *files)
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.load_verify_locations(cadata=where.certificate)
        door = await Door.open(where)
        coming = asyncio.create_task(door.client("j1", KEY))
        for wrong in (token("j2"), token("j1", b"e" * 32)):
            with pytest.raises(PeerRefusedError):
                await dial(door.address, wrong, Role.CLIENT, context)
        await greeted(coming, dial(door.address, token("j1"), Role.CLIENT, context))
        with pytest.raises((OSError, PeerRefusedError)):
            await dial(door.address, token("j1"), Role.CLIENT, context)

    asyncio.run(case())


def test_beyond_this_machine_a_door_needs_a_certificate() -> None:
    with pytest.raises(ValueError, match="a certificate and its key are needed"):
        door_settings("192.0.2.1", None, None)


def test_bytes_go_past_the_binder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dialled: list[str] = []
    real = wire.dial

    async def noted(address: str, *rest: object) -> Connection:
        dialled.append(address)
        return await real(address, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(connect, "dial", noted)

    async def said(made: object, place: connect.BinderAddress, direct: bool) -> bytes:
        ad = ClassAd(Application="cat", Requirements=True, Direct=direct)
        async with connect.paired(place, ad, seconds=20) as stream:
            await stream.write(b"through")
            await stream.end()
            return await stream.read()

    with grid(tmp_path) as made:
        made.binder()
        made.pilot("p", "--cpus", 1, "--app", "cat=/bin/cat", "--direct", "127.0.0.1")
        for direct in (True, False, True):
            dialled.clear()
            assert asyncio.run(said(made, made.place(), direct)) == b"through"
            assert len(dialled) == 1 + direct
            assert dialled[0] == made.address
        assert "has ended" in made.end("p")
