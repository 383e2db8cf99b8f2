"""Peers with good tokens that say anything at any time: the binder goes on, and others are served.

``BINDER_LIES`` says how many frames they send, ``PILOT_SEED`` which.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from matchmaker.classad import parse_ad
from matchmaker.pilots.binder.admission import load_key
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connection import ClosedError, Connection, dial
from matchmaker.pilots.wire.protocol import (
    FrameKind,
    PeerRefusedError,
    Role,
    Token,
    TokenScope,
    sign,
)
from tests.pilots.real import Grid, grid

LIES = int(os.environ.get("BINDER_LIES", "600"))
SEED = int(os.environ.get("PILOT_SEED", random.SystemRandom().randrange(1 << 31)))
JOBS = 10
LIARS = {
    Role.CLIENT: TokenScope.CLIENT,
    Role.PILOT: TokenScope.PILOT,
    Role.SLOT: TokenScope.SESSION,
}
ADS = (
    "", "[", "[]", "[ Requirements = true ]", "[ Requirements = TARGET.Cpus > 0; Rank = Rank ]",
    '[ Cmd = "/nowhere"; Requirements = true ]', "[ Requirements = Requirements ]",
    '[ Application = "none"; Requirements = true ]', '[ Cmd = "/bin/true"; RequestCpus = -1 ]',
    "[ Cpus = 64; Requirements = error ]", "[ Direct = true; Requirements = true ]",
    "[ a = " + "{" * 60 + "}" * 60 + " ]", "[ ExitCode = 0 ]", "[ ExitCode = a ]",
    '[ Applications = { 1, "x", {} }; Requirements = true ]', "[ Requirements = random() > 0.5 ]",
    "[ Owner = undefined; Name = error; Requirements = true ]", "x" * 9000, "[ a = 1e999 ]",
)  # fmt: skip
NUMBERS = (-1, 0, 1, 2, 1 << 31, 1 << 63, -(1 << 70), 10**30)


class Liar:
    """One peer: it says anything, and what it heard of jobs and sessions it says again."""

    def __init__(self, place: connect.BinderAddress, role: Role, chance: random.Random) -> None:
        self.place, self.role, self.chance = place, role, chance
        self.heard: list[str] = ["", "x", "\u202e", "é" * 300, "0" * 16]
        self.connection: Connection | None = None

    def value(self, wanted: Any, name: str) -> Any:
        """Anything of a type; an epoch is often the first."""
        if self.chance.random() < 0.03:
            return self.chance.choice((None, [], {}, "no", 1.5, True))
        if wanted is str:
            return self.chance.choice(ADS if name in {"ad", "result"} else self.heard)
        if wanted is list:
            return [self.chance.choice(self.heard) for _ in range(self.chance.choice((0, 1, 50)))]
        if wanted is dict:
            return {self.chance.choice(self.heard): self.chance.choice(NUMBERS) for _ in range(3)}
        if wanted is bool:
            return self.chance.random() < 0.5
        if wanted is int:
            return 1 if self.chance.random() < 0.5 else self.chance.choice(NUMBERS)
        return self.chance.choice((0, -1.0, 0.01, 1e300, 3))

    async def lie(self) -> None:
        """Says one thing, and listens for a moment."""
        if self.connection is None or not self.connection.open:
            self.connection = await dial(self.place.address, self.place.token, self.role)
        kind = self.chance.choice(list(FrameKind))
        fields = {name: self.value(wanted, name) for name, wanted in kind.fields.items()}
        with suppress(ValueError):
            self.connection.send(kind, **fields)
        with suppress(TimeoutError, ClosedError):
            while True:
                said = await self.connection.receive(0.02)
                self.heard.extend(
                    str(said.fields[name]) for name in ("job", "session") if name in said.fields
                )
        del self.heard[60:]


def place(made: Grid, scope: TokenScope, subject: str) -> connect.BinderAddress:
    token = Token(subject=subject, scope=scope, pool="binder", ends=time.time() + 86_400)
    return connect.BinderAddress(
        address=made.address, token=sign(load_key(made.folder / "key"), token)
    )


async def lies(made: Grid, chance: random.Random, count: int) -> None:
    """Liars of all kinds, until they have said so much."""
    left = iter(range(count))

    async def one(role: Role, number: int) -> None:
        liar = Liar(place(made, LIARS[role], f"liar{number}"), role, chance)
        for _ in left:
            try:
                await liar.lie()
            except (PeerRefusedError, ClosedError, TimeoutError, OSError):
                liar.connection = None
        if liar.connection is not None:
            liar.connection.abort("")

    await asyncio.gather(*(one(role, n) for n, role in enumerate([*LIARS, *LIARS, *LIARS])))


async def honest(made: Grid, ran: Path) -> list[connect.JobFacts]:
    """Jobs of another client, while the others lie."""
    async with connect.binder(place(made, TokenScope.CLIENT, "ana")) as binder:
        jobs = []
        for number in range(JOBS):
            ad = parse_ad(
                '[ Cmd = "/bin/sh"; Requirements = TARGET.Honest;'
                f' Arguments = {{ "-c", "echo {number} >> {ran}; sleep 0.2" }} ]'
            )
            jobs.append((await binder.submit(ad, f"{number}{secrets.token_hex(2)}")).id)
        return [await binder.job(each, seconds=120) for each in jobs]


@pytest.mark.slow
def test_nothing_that_peers_say_harms_the_binder_or_others(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    ran = tmp_path / "ran"
    (tmp_path / "node.ad").write_text("[ Honest = true ]")
    with grid(tmp_path) as made:
        made.binder()
        made.pilot("p", "--cpus", 2, "--ad", tmp_path / "node.ad")

        async def all_at_once() -> list[connect.JobFacts]:
            lying = asyncio.create_task(lies(made, chance, LIES))
            ended = await honest(made, ran)
            await lying
            return ended

        ended = asyncio.run(all_at_once())
        assert [job.stage for job in ended] == ["ended"] * JOBS, SEED
        assert sorted(ran.read_text().split()) == sorted(map(str, range(JOBS))), SEED
        binder = made.running["binder"]
        assert binder.poll() is None, SEED
        pages = int(Path(f"/proc/{binder.pid}/statm").read_text().split()[1])
        assert pages * resource.getpagesize() < 400 << 20
        made.end("p")
        made.end("binder")
    for name in ("binder", "p"):
        assert "Traceback" not in (made.logs / f"{name}.log").read_text(), SEED
