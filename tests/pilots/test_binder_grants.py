"""A running job as a client of the binder: with a token that is good while it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.pilots.binder import admission
from matchmaker.pilots.wire import connect, protocol
from matchmaker.pilots.wire.connect import BinderAddress
from matchmaker.pilots.wire.connection import dial
from matchmaker.pilots.wire.protocol import Frame, FrameKind, PeerRefusedError, Role, TokenScope
from tests.pilots.binding import Pilot, binding, place, token
from tests.pilots.real import grid
from tests.pilots.test_binder_server import JOB, run

MAY = parse_ad('[ Cmd = "/bin/true"; Requirements = true; MayConnect = true ]')
NEVER = parse_ad("[ Requirements = false ]")


@asynccontextmanager
async def given(folder: Path, ad: ClassAd, **how: Any) -> AsyncIterator[tuple[str, Pilot, Frame]]:
    """A binder's address, a pilot, and what it heard as it got a job of Ana's."""
    async with binding(folder) as address:
        pilot = Pilot(address)
        await pilot.register()
        slot = await pilot.slot()
        mine = token(TokenScope.CLIENT, **how)
        async with connect.binder(BinderAddress(address=address, token=mine)) as binder:
            await binder.submit(ad, "k")
        paired = await slot.expect(FrameKind.PAIRED, 10)
        pilot.accept(slot, paired)
        yield address, pilot, paired
        slot.close("the test is over")
        pilot.close()


async def refused(address: str, text: str) -> str:
    """Why a token is refused at once."""
    with pytest.raises(PeerRefusedError) as error:
        async with connect.binder(BinderAddress(address=address, token=text)) as binder:
            await binder.submit(JOB, "more")
    return str(error.value)


def test_a_job_gets_no_more_than_its_submitter_has(tmp_path: Path) -> None:
    ends = float(int(time.time() + 300))

    async def case() -> None:
        async with given(tmp_path, MAY, ends=ends) as (address, pilot, paired):
            text = paired["grant"]
            said = protocol.read_token(protocol.split_token(text)[0])
            assert (said.subject, said.scope, said.ends) == ("ana", TokenScope.CLIENT, ends)
            with pytest.raises(PeerRefusedError, match="does not allow"):
                await dial(address, text, Role.ADMIN)
            async with connect.binder(BinderAddress(address=address, token=text)) as binder:
                more = await binder.submit(JOB, "more")
                assert more.owner == "ana"
                with pytest.raises(PeerRefusedError, match="own token may connect"):
                    await binder.submit(MAY, "and so on")
            pilot.ended(paired)
            await pilot.hear(FrameKind.ACKNOWLEDGE)
            assert "does not run any more" in await refused(address, text)
            # What it handed in goes on.
            async with connect.binder(place(address)) as binder:
                assert not (await binder.job(more.id)).over

    run(case())


@pytest.mark.parametrize("ad", ["[ Requirements = true ]", "[ MayConnect = false ]"])
def test_a_job_that_does_not_ask_gets_none(tmp_path: Path, ad: str) -> None:
    async def case() -> None:
        async with given(tmp_path, parse_ad(ad)) as (_, _, paired):
            assert "grant" not in paired.fields

    run(case())


def test_whoever_says_so_in_the_ad_is_not_believed(tmp_path: Path) -> None:
    async def case() -> None:
        ad = parse_ad(f'{str(MAY)[:-1]}; SubmitTokenEnds = 9e9; SubmitToken = "x" ]')
        async with given(tmp_path, ad) as (_, _, paired):
            said = protocol.read_token(protocol.split_token(paired["grant"])[0])
            assert said.ends < time.time() + 601

    run(case())


def test_an_admins_job_gets_none(tmp_path: Path) -> None:
    async def case() -> None:
        async with (
            binding(tmp_path) as address,
            connect.binder(place(address, scope=TokenScope.ADMIN)) as binder,
        ):
            with pytest.raises(PeerRefusedError, match="own token may connect"):
                await binder.submit(MAY, "k")

    run(case())


def test_a_revoked_token_takes_those_of_its_jobs_along(tmp_path: Path) -> None:
    async def case() -> None:
        async with given(tmp_path, MAY, id="7") as (address, _, paired):
            async with connect.binder(
                BinderAddress(address=address, token=paired["grant"])
            ) as binder:
                await binder.submit(JOB, "1")
                async with connect.admin(place(address, scope=TokenScope.ADMIN)) as admin:
                    await admin.revoke("7", time.time() + 600)
                # On a connection that was there before, too.
                with pytest.raises(PeerRefusedError, match="was revoked"):
                    await binder.submit(JOB, "2")
            assert "was revoked" in await refused(address, paired["grant"])

    run(case())


def test_a_job_that_is_given_again_has_another_token(tmp_path: Path) -> None:
    async def case() -> None:
        async with given(tmp_path, MAY) as (address, pilot, paired):
            fields = {"job": paired["job"], "epoch": paired["epoch"], "reason": "no"}
            slot = await pilot.slot()
            pilot.control.send(FrameKind.DECLINED, **fields)
            again = await slot.expect(FrameKind.PAIRED, 10)
            assert again["job"] == paired["job"]
            assert "does not run any more" in await refused(address, paired["grant"])
            async with connect.binder(
                BinderAddress(address=address, token=again["grant"])
            ) as binder:
                await binder.submit(JOB, "more")

    run(case())


def test_what_a_job_asked_for_ends_with_it(tmp_path: Path) -> None:
    async def case() -> None:
        async with given(tmp_path, MAY) as (address, pilot, paired):
            waiting = await dial(address, paired["grant"], Role.CLIENT)
            waiting.send(FrameKind.CONNECT, ad=str(NEVER), seconds=60)
            assert (await waiting.receive(10)).kind is FrameKind.WAITING
            pilot.ended(paired)
            frame = await waiting.receive(10)
            assert "the job that asked for it has ended" in frame["reason"]
            waiting.close("the test is over")

    run(case())


def test_a_job_has_few_open_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST_OPEN", 2)

    async def case() -> None:
        async with given(tmp_path, MAY) as (address, _, paired):
            async with connect.binder(
                BinderAddress(address=address, token=paired["grant"])
            ) as binder:
                first = await binder.submit(NEVER, "1")
                await binder.submit(NEVER, "2")
                with pytest.raises(PeerRefusedError, match="this job has 2 open jobs"):
                    await binder.submit(NEVER, "3")
                await binder.cancel(first.id)
                await binder.submit(NEVER, "3")
            async with connect.binder(place(address)) as binder:
                await binder.submit(NEVER, "4")

    run(case())


def test_the_same_key_with_another_token_is_the_same_job(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            ids = set()
            for _ in range(2):
                async with connect.binder(place(address)) as binder:
                    ids.add((await binder.submit(MAY, "k")).id)
            assert len(ids) == 1
            async with connect.binder(place(address)) as binder:
                with pytest.raises(PeerRefusedError, match="another ad"):
                    await binder.submit(JOB, "k")

    run(case())


PROGRAM = """
import asyncio, os, shutil, sys, time
from matchmaker import parse_ad
from matchmaker.pilots.wire import connect

async def ask():
    ad = parse_ad('[ Application = "upper"; Requirements = true ]')
    async with connect.paired(connect.here(), ad, seconds=30) as stream:
        await stream.write(b"from within")
        await stream.end()
        print((await stream.read()).decode(), flush=True)

file = os.environ["CLASSAD_BINDER_TOKEN"]
print(oct(os.stat(file).st_mode & 0o777), os.path.dirname(file) == os.environ["HOME"])
asyncio.run(ask())
shutil.copy(file, sys.argv[1])
"""


@pytest.mark.slow
def test_a_running_job_asks_for_a_pilot(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    kept = tmp_path / "kept.token"
    ad = ClassAd(
        Cmd=sys.executable, Arguments=[str(tmp_path / "program.py"), str(kept)], Requirements=True,
        MayConnect=True, Env=parse_ad(f'[ PYTHONPATH = "{":".join(filter(None, sys.path))}" ]'),
    )  # fmt: skip

    async def case() -> None:
        async with connect.binder(made.place()) as binder:
            job = await binder.submit(ad, "k")
            ended = await binder.job(job.id, seconds=50)
            assert ended.result is not None, ended
            assert ended.result.eval("Out") == "0o600 True\nFROM WITHIN\n", str(ended.result)
        text = kept.read_text().strip()
        with pytest.raises(PeerRefusedError, match="does not run any more"):
            async with connect.binder(BinderAddress(address=made.address, token=text)) as binder:
                await binder.job(job.id)

    with grid(tmp_path) as made:
        made.binder()
        made.pilot("p", "--cpus", 2, "--app", "upper=tr a-z A-Z")
        run(case())
        made.end("p")
