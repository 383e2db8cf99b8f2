"""A pilot and a client by docs/pilot-protocol.md alone, with no code of ours but the binder."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

from tests.pilots.binding import KEY, binding

PAIRS = int(os.environ.get("PAIRS", "120"))
CLIENTS = 200
SLOTS = 20
HEADER = {"alg": "HS256", "typ": "JWT"}


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def token(scope: str, subject: str) -> str:
    """A JSON Web Token of the test's binder."""
    claims = {"sub": subject, "scope": scope, "pool": "test", "jti": subject, "exp": 4e9}
    parts = [base64.urlsafe_b64encode(canonical(each)).rstrip(b"=") for each in (HEADER, claims)]
    said = b".".join(parts)
    signature = base64.urlsafe_b64encode(hmac.digest(KEY, said, hashlib.sha256)).rstrip(b"=")
    return (said + b"." + signature).decode()


OPEN: list[asyncio.StreamWriter] = []


class Peer:
    """A connection of frames, and then of parts."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        OPEN.append(writer)

    def say(self, kind: str, **fields: Any) -> None:
        body = canonical({"kind": kind, **fields})
        self.writer.write(len(body).to_bytes(4) + body)

    async def hear(self) -> dict[str, Any]:
        length = int.from_bytes(await self.reader.readexactly(4))
        assert length <= 262_144, "no frame"
        found: dict[str, Any] = json.loads(await self.reader.readexactly(length))
        return found

    def part(self, data: bytes) -> None:
        self.writer.write(len(data).to_bytes(4) + data)

    async def parts(self) -> bytes:
        """All parts up to the one of length 0."""
        found = bytearray()
        while length := int.from_bytes(await self.reader.readexactly(4)):
            assert length <= 1 << 20, "no part"
            found += await self.reader.readexactly(length)
        return bytes(found)


async def greeted(address: str, secret: str, role: str) -> Peer:
    host, _, port = address.rpartition(":")
    peer = Peer(*await asyncio.open_connection(host, int(port)))
    said, _, signature = secret.rpartition(".")
    hello = {"versions": [2], "role": role, "token": said, "nonce": os.urandom(32).hex()}
    peer.say("hello", **hello)
    answer = await peer.hear()
    assert answer["kind"] == "challenge", answer
    signed = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    key = hmac.digest(signed, b"matchmaker pilot protocol", hashlib.sha256)
    spoken = canonical({"said": hello, "version": 2, "nonce": answer["nonce"]})

    def proof(side: str) -> str:
        return hmac.digest(key, side.encode() + b"\0" + spoken, hashlib.sha256).hex()

    assert answer["proof"] == proof("binder")
    peer.say("proof", proof=proof("peer"))
    assert (await peer.hear())["kind"] == "welcome"
    return peer


async def pilot(address: str, secret: str) -> None:
    """Offers slots, one job after another, with a newer offer whenever it feels like it."""
    lots = random.Random(secret)
    control = await greeted(address, secret, "pilot")
    control.say("register", ad="[]", session="", running={}, mixed=True)
    registered = await control.hear()

    async def serve(number: int) -> None:
        while True:
            slot = await greeted(address, registered["token"], "slot")
            slot.say("offer", session=registered["session"], slot=str(number), ad=ad(lots))
            hearing = asyncio.create_task(slot.hear())
            while not hearing.done():
                await asyncio.wait({hearing}, timeout=lots.choice((0.0, 0.001, 0.01)))
                # Perhaps on its way when a pairing is, too.
                slot.say("offer", session=registered["session"], slot=str(number), ad=ad(lots))
            given = hearing.result()
            named = {"job": given["job"], "epoch": given["epoch"]}
            assert given["kind"] == "paired", given
            if lots.random() < 0.1:
                slot.say("declined", **named, reason="not today")
                slot.writer.close()
                continue
            slot.say("accepted", **named)
            slot.part(b"hello ")
            asked = await slot.parts()
            for start in range(0, len(asked), 70_000):
                slot.part(asked[start : start + 70_000])
            slot.part(b"")
            await slot.writer.drain()
            control.say("ended", **named, result="[ ExitCode = 0 ]")
            await slot.reader.read(1)
            slot.writer.close()

    async def beat() -> None:
        while True:
            control.say("beat", number=1)
            await asyncio.sleep(registered["lease"] / 4)

    async def listen() -> None:
        while True:
            heard = await control.hear()
            assert heard["kind"] in {"alive", "acknowledge"}, heard

    async with asyncio.TaskGroup() as group:
        for each in (beat(), listen(), *map(serve, range(4))):
            group.create_task(each)


def ad(lots: random.Random) -> str:
    return f"[ Requirements = true; Load = {lots.random()} ]"


async def client(address: str, secret: str, number: int, lots: random.Random) -> str:
    """One pair, and what was wrong with it; empty for nothing."""
    peer = await greeted(address, secret, "client")
    peer.say("connect", ad="[ Requirements = true ]", seconds=300)
    while (answer := await peer.hear())["kind"] == "waiting":
        pass
    if answer["kind"] != "paired":
        return str(answer)
    sent = f"<{number}>".encode() * lots.choice((1, 2000, 60_000))
    for start in range(0, len(sent), 100_000):
        peer.part(sent[start : start + 100_000])
    peer.part(b"")
    try:
        got = await peer.parts()
    except (AssertionError, asyncio.IncompleteReadError) as error:
        return f"{type(error).__name__}: {error}"[:60]
    peer.writer.close()
    return "" if got == b"hello " + sent else f"foreign bytes: {got[:60]!r}"


def test_who_knows_the_page_alone_gets_no_foreign_byte(tmp_path: Path) -> None:
    wrong: Counter[str] = Counter()
    lots = random.Random(31)

    async def case() -> None:
        async with binding(tmp_path, lease=300.0) as address:
            secrets = [token("pilot", f"p{number}") for number in range(SLOTS // 4)]
            pilots = [asyncio.create_task(pilot(address, each)) for each in secrets]
            mine, numbers = token("client", "ana"), iter(range(PAIRS))

            async def some() -> None:
                for number in numbers:
                    if why := await client(address, mine, number, lots):
                        wrong[why] += 1

            async with asyncio.TaskGroup() as group:
                for _ in range(CLIENTS):
                    group.create_task(some())
            for each in pilots:
                assert not each.done(), each.exception()
                each.cancel()
            await asyncio.gather(*pilots, return_exceptions=True)
            for writer in OPEN:
                writer.close()
            await asyncio.gather(*(each.wait_closed() for each in OPEN), return_exceptions=True)

    asyncio.run(case())
    assert wrong == {}, f"of {PAIRS} pairs: {wrong}"
