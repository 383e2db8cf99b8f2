"""Messages that cross on a slot's connection: no client ever gets a byte that is not its pair's."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

from matchmaker.classad import ClassAd
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.protocol import TokenScope
from tests.pilots.binding import binding, place, token

PAIRS = int(os.environ.get("PAIRS", "100"))
CLIENTS = 200
PILOTS = 20


async def _pair(address: str, number: int, lots: random.Random) -> str:
    """One pair, and what was wrong with it; empty for nothing."""
    name = f"n{number}"
    size = lots.choice((1, 100, 5000, 300_000))
    # As long as frames' lengths and JSON would look like something else.
    sent = f"<{name}>".encode() * (size // 4 + 1)
    # One in eight is a program, which takes a process.
    application = "program" if number % 8 == 0 else "echo"
    ad = ClassAd(Name=name, Application=application, Arguments=[name], Requirements=True)
    got = bytearray()
    try:
        async with connect.paired(place(address), ad, seconds=300) as stream:

            async def send() -> None:
                await stream.write(sent)
                await stream.end()

            sending = asyncio.create_task(send())
            while part := await stream.read():
                got += part
            await sending
    except (OSError, ValueError, TimeoutError) as error:
        return f"{type(error).__name__}: {error}"
    if bytes(got) == f"{name}:".encode() + sent:
        return ""
    return "foreign bytes" if b'"kind"' in got else f"other bytes: {bytes(got[:80])!r}"


def test_pairs_under_load_get_their_own_bytes_and_no_other(tmp_path: Path) -> None:
    """With as many clients as five for each place, programs and handlers; both ways."""
    wrong: Counter[str] = Counter()
    lots = random.Random(7)

    async def case() -> None:
        async with binding(tmp_path, lease=300.0) as address:
            tokens = [token(TokenScope.PILOT, f"p{number}") for number in range(PILOTS)]
            words = (sys.executable, "-m", "tests.pilots.farm", address, str(tmp_path), *tokens)
            farm = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE)
            assert farm.stdin is not None
            try:
                numbers = iter(range(PAIRS))

                async def client() -> None:
                    for number in numbers:
                        if why := await _pair(address, number, lots):
                            wrong[why] += 1

                await asyncio.gather(*(client() for _ in range(min(CLIENTS, PAIRS))))
            finally:
                farm.stdin.close()
                assert await asyncio.wait_for(farm.wait(), 60) == 0

    asyncio.run(case())
    assert wrong == {}, f"of {PAIRS} pairs: {wrong}"
