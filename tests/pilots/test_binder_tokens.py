"""Tokens of pilots: one registration each, whose jobs a pilot gets, and what a job can find."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.pilots.binder import admission
from matchmaker.pilots.binder.admission import load_key
from matchmaker.pilots.node.pilot import PilotAgent as NodePilot
from matchmaker.pilots.node.slots import NodeResources, NodeState
from matchmaker.pilots.node.works import PilotSettings
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connect import BinderAddress
from matchmaker.pilots.wire.connection import ClosedError, dial
from matchmaker.pilots.wire.protocol import (
    FrameKind,
    PeerRefusedError,
    Role,
    TokenError,
    TokenScope,
    read_token,
    signature_of,
    split_token,
)
from tests.pilots.binding import Pilot, binding, place, token
from tests.pilots.real import COMMAND, Grid, grid
from tests.services.breakable import until

JOB = parse_ad('[ Cmd = "/bin/true"; Requirements = true ]')


def run(work: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


async def submitted(address: str, owner: str, key: str) -> str:
    async with connect.binder(place(address, owner)) as binder:
        return (await binder.submit(JOB, key)).id


async def stage(address: str, owner: str, id_: str) -> str:
    async with connect.binder(place(address, owner)) as binder:
        return (await binder.job(id_)).stage


def test_a_token_buys_one_registration(tmp_path: Path) -> None:
    async def case() -> None:
        bought = token(TokenScope.PILOT)
        async with binding(tmp_path) as address:
            first, second = Pilot(address), Pilot(address)
            first.token = second.token = bought
            await first.register()
            refused = await second.register()
            assert refused.kind is FrameKind.REFUSED
            assert "this token was used" in refused["reason"]
            # Nor does it allow to come back as that pilot, or to offer its slots.
            second.session = first.session
            assert (await second.register()).kind is FrameKind.OVER
            with pytest.raises(PeerRefusedError, match="scope pilot does not allow 'slot'"):
                await dial(address, bought, Role.SLOT)
            # With what it bought, the pilot does both.
            assert (await first.register()).kind is FrameKind.REGISTERED
            slot = await first.slot()
            await submitted(address, "ana", "k")
            await slot.expect(FrameKind.PAIRED, 10)
            first.close()
        async with binding(tmp_path) as address:
            # After a restart, too.
            second.address = first.address = address
            second.session = ""
            assert (await second.register()).kind is FrameKind.REFUSED
            assert (await first.register()).kind is FrameKind.REGISTERED

    run(case())


def test_a_pilot_whose_answer_was_lost_registers_again(tmp_path: Path) -> None:
    async def case() -> None:
        bought = token(TokenScope.PILOT)
        async with binding(tmp_path) as address:
            pilot = Pilot(address, nonce="of its memory")
            pilot.token = bought
            await pilot.register()
            session = pilot.session
            # The binder has recorded the use, and the pilot knows nothing of it.
            pilot.token, pilot.session = bought, ""
            assert (await pilot.register()).kind is FrameKind.REGISTERED
            assert pilot.session == session
            pilot.token, pilot.session = bought, ""
            thieves = [Pilot(address, nonce=nonce) for nonce in ("", "another")]
            for thief in thieves:
                thief.token = bought
                assert (await thief.register()).kind is FrameKind.REFUSED
        async with binding(tmp_path) as address:
            pilot.address = address
            assert (await pilot.register()).kind is FrameKind.REGISTERED
            assert pilot.session == session
            slot = await pilot.slot()
            await submitted(address, "ana", "k")
            await slot.expect(FrameKind.PAIRED, 10)

    run(case())


def test_a_revoked_token_ends_what_it_bought(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            await pilot.register()
            id_ = read_token(split_token(pilot.token)[0]).id
            async with connect.admin(place(address, "boss", TokenScope.ADMIN)) as admin:
                await admin.revoke(id_, 9e9)
            with pytest.raises(PeerRefusedError, match="revoked"):
                await dial(address, pilot.token, Role.SLOT)

    run(case())


def test_a_revoked_token_ends_the_connections_that_it_has(tmp_path: Path) -> None:
    """Of whoever stole it, too, who would never let go."""

    async def case() -> None:
        stolen = token(TokenScope.CLIENT)
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            await pilot.register()
            slot = await pilot.slot()
            client = await dial(address, stolen, Role.CLIENT)
            other = await dial(address, token(TokenScope.CLIENT), Role.CLIENT)
            async with connect.admin(place(address, "boss", TokenScope.ADMIN)) as admin:
                for each in (pilot.token, stolen):
                    await admin.revoke(read_token(split_token(each)[0]).id, 9e9)
            for connection in (pilot.control, slot, client):
                with pytest.raises(PeerRefusedError, match="revoked"):
                    await connection.expect(FrameKind.DONE, 10)
            other.send(FrameKind.ASK, jobs=[], seconds=0)
            await other.expect(FrameKind.JOBS, 10)

    run(case())


def test_a_slot_with_a_target_of_its_own_is_refused(tmp_path: Path) -> None:
    """It would match another owner's job for ever, and never get it."""

    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            pilot.token = token(TokenScope.PILOT, owners=("ana",))
            await pilot.register()
            id_ = await submitted(address, "ben", "k")
            slot = await dial(address, pilot.token, Role.SLOT)
            ad = '[ TARGET = [ Owner = "ana" ]; Requirements = true ]'
            slot.send(FrameKind.OFFER, session=pilot.session, slot="s", ad=ad)
            with pytest.raises(PeerRefusedError, match="jobs of others than the pilot's owners"):
                await slot.expect(FrameKind.PAIRED, 10)
            assert await stage(address, "ben", id_) == "queued"

    run(case())


def test_a_pilot_with_owners_gets_nobody_elses_jobs(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            pilot.token = token(TokenScope.PILOT, owners=("ana", "ben"))
            await pilot.register()
            others = [await submitted(address, owner, "k") for owner in ("eve", "Ana", "an")]
            slot = await pilot.slot()
            for owner in ("ben", "ana", "ben"):
                id_ = await submitted(address, owner, f"k{pilot.offers}")
                paired = await slot.expect(FrameKind.PAIRED, 10)
                assert paired["job"] == id_
                pilot.accept(slot, paired)
                pilot.offer(slot)
            with pytest.raises(TimeoutError):
                await slot.receive(0.3)
            for owner, id_ in zip(("eve", "Ana", "an"), others, strict=True):
                assert await stage(address, owner, id_) == "queued"

    run(case())


def test_a_pilot_on_a_shared_account_is_the_first_owners(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Pilot(address, mixed=False)
            await pilot.register()
            hearing = [
                asyncio.create_task((await pilot.slot()).expect(FrameKind.PAIRED, 30))
                for _ in range(2)
            ]  # fmt: skip
            first = await submitted(address, "ana", "k1")
            await asyncio.wait(hearing, return_when=asyncio.FIRST_COMPLETED)
            # The other slot, which was offered before, is ana's too.
            eves = await submitted(address, "eve", "k")
            await asyncio.sleep(0.3)
            assert await stage(address, "eve", eves) == "queued"
            second = await submitted(address, "ana", "k2")
            assert {(await each)["job"] for each in hearing} == {first, second}
            pilot.close()
        async with binding(tmp_path) as address:
            pilot.address = address
            assert (await pilot.register({first: 1, second: 1})).kind is FrameKind.REGISTERED
            slot = await pilot.slot()
            with pytest.raises(TimeoutError):
                await slot.receive(0.3)
            third = await submitted(address, "ana", "k3")
            assert (await slot.expect(FrameKind.PAIRED, 10))["job"] == third
            # In its next session it says whose jobs it has run.
            pilot.control.send(FrameKind.LEAVE, reason="no")
            await pilot.hear(FrameKind.DONE)
            pilot.session = ""
            pilot.served = "eve"
            await pilot.register()
            slot = await pilot.slot()
            assert (await slot.expect(FrameKind.PAIRED, 10))["job"] == eves

    run(case())


def test_two_owners_at_once_do_not_share_a_pilot(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            jobs = {owner: await submitted(address, owner, "k") for owner in ("ana", "eve")}
            pilots = [Pilot(address, mixed=False), Pilot(address, mixed=False)]
            got = []
            for pilot in pilots:
                await pilot.register()
                # Both slots are offered before a job comes, or at once when it waits.
                slots = [await pilot.slot(), await pilot.slot()]
                hearing = [asyncio.create_task(each.receive(1.0)) for each in slots]
                heard = await asyncio.gather(*hearing, return_exceptions=True)
                got.append([each["job"] for each in heard if not isinstance(each, BaseException)])
            assert sorted(map(len, got)) == [1, 1]
            assert {job for each in got for job in each} == set(jobs.values())

    run(case())


def test_a_factory_gets_tokens_of_pilots_and_nothing_else(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            secret = token(TokenScope.FACTORY, "factory", owners=("ana", "ben"))
            where = BinderAddress(address=address, token=secret)
            async with connect.factory(where) as binder:
                made = await binder.pilot_token("p1", owners=["ana"], seconds=60)
                said = read_token(split_token(made)[0])
                assert (said.scope, said.subject, said.owners) == (TokenScope.PILOT, "p1", ("ana",))
                both = await binder.pilot_token("p2", seconds=60)
                assert read_token(split_token(both)[0]).owners == ("ana", "ben")
                assert read_token(split_token(both)[0]).id != said.id
                with pytest.raises(PeerRefusedError, match="eve is no owner of this factory's"):
                    await binder.pilot_token("p1", owners=["eve"], seconds=60)
                with pytest.raises(PeerRefusedError, match="seconds: above 0"):
                    await binder.pilot_token("p1", seconds=1e9)
                with pytest.raises(
                    (PeerRefusedError, ClosedError), match="factory may not say submit"
                ):
                    await binder.submit(JOB, "k")
            pilot = Pilot(address)
            pilot.token = made
            assert (await pilot.register()).kind is FrameKind.REGISTERED
            with pytest.raises(PeerRefusedError, match="does not allow"):
                await dial(address, secret, Role.PILOT)

    run(case())


# --- a job that looks for what it may not have ---

SEARCH = r"""
import asyncio, json, os, re, sys
from pathlib import Path
from matchmaker.pilots.wire.connection import dial
from matchmaker.pilots.wire.protocol import FrameKind
from matchmaker.pilots.wire.protocol import Role

TOKEN = re.compile(rb"[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{43}")
NAME = re.compile(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
found, names, looked, files = set(), set(), set(), set()

def look(data, what):
    looked.add(what)
    found.update(TOKEN.findall(data))
    names.update(NAME.findall(data))

def read(path, what):
    try:
        look(Path(path).read_bytes()[:1 << 22], what)
    except OSError:
        pass

def memory(pid):
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in maps:
                words = line.split()
                if words[1].startswith("r") and "[v" not in line:
                    start, end = (int(each, 16) for each in words[0].split("-"))
                    try:
                        mem.seek(start)
                        look(mem.read(min(end - start, 1 << 24)), "memory")
                    except (OSError, ValueError):
                        pass
    except OSError:
        pass

me = os.getpid()
for each in Path("/proc").glob("[0-9]*"):
    try:
        if each.stat().st_uid not in (0, os.getuid()) or int(each.name) == me:
            continue
        words = (each / "cmdline").read_bytes().split(b"\0")
    except OSError:
        continue
    look(b" ".join(words), "command lines")
    files.update(os.fsdecode(word) for word in words if word.startswith(b"/"))
    read(each / "environ", "environment")
    try:
        for file in (each / "fd").iterdir():
            if os.path.isfile(file):
                read(file, "open files")
    except OSError:
        pass
    memory(each.name)
for file in files:
    if "token" in file and os.path.isfile(file):
        read(file, "named files")
for root, folders, inside in os.walk(sys.argv[2]):
    for name in inside:
        read(os.path.join(root, name), "files")

async def tries(token):
    got = []
    for role in (Role.PILOT, Role.SLOT):
        try:
            connection = await dial(sys.argv[1], token.decode(), role)
            fields = {"session": "", "ad": "[ Requirements = true ]"}
            if role is Role.PILOT:
                connection.send(FrameKind.REGISTER, running={}, **fields)
            else:
                for name in names:
                    fields["session"] = name.decode()
                    connection.send(FrameKind.OFFER, slot="s", **fields)
            frame = await connection.receive(2)
            got.append(str(frame.kind))
        except Exception as error:
            got.append(type(error).__name__)
    return got

said = {token.decode(): asyncio.run(tries(token)) for token in found}
names = sorted(name.decode() for name in names)
print(json.dumps({"tokens": said, "names": names, "looked": sorted(looked)}))
"""


def without_rights() -> list[str]:
    """What runs a command as an account that has no rights over others' processes, as root too."""
    if os.getuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--"]


async def searched(made: Grid, folder: Path, canary: str) -> dict[str, Any]:
    ad = ClassAd(
        Cmd=sys.executable, Arguments=["-c", SEARCH, made.address, str(folder)],
        Env=ClassAd(PYTHONPATH=os.pathsep.join(sys.path), CANARY=canary), Requirements=True,
    )  # fmt: skip
    where = BinderAddress(address=made.address, token=made.token(TokenScope.CLIENT, subject="eve"))
    async with connect.binder(where) as binder:
        job = await binder.submit(ad, "k")
        job = await binder.job(job.id, seconds=100)
    assert job.result is not None
    assert job.result.eval("ExitCode") == 0, job.result
    found: dict[str, Any] = json.loads(str(job.result.eval("Out")))
    return found


def test_a_job_finds_no_token_and_no_session(tmp_path: Path) -> None:
    with grid(tmp_path) as made:
        made.binder()
        bought = made.pilot_token()
        secret = bought.read_text()
        # A token that somebody of this account left where anybody of it may read it.
        canary = made.token(TokenScope.CLIENT, subject="canary")
        work = tmp_path / "work"
        work.mkdir()
        (work / "left").write_text("a file of somebody")
        words = [*without_rights(), *COMMAND, "pilot", "--token", str(bought), "--cpus", "2"]
        words += ["--dir", str(work), "--binder", made.address]
        with (
            subprocess.Popen(
                [*without_rights(), "/bin/sleep", "600"], env={"CANARY": canary}
            ) as left,
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as pilot,
        ):
            try:
                found = asyncio.run(searched(made, work, canary))
                assert not bought.exists()
                with sqlite3.connect(tmp_path / "binder.db") as tables:
                    sessions = [
                        name for (name,) in tables.execute("SELECT name FROM binder_sessions")
                    ]
            finally:
                for each in (pilot, left):
                    each.terminate()
                pilot.communicate(timeout=60)
    # It looks well: it finds what lies open.
    assert {"command lines", "environment", "memory", "files"} <= set(found["looked"])
    # Other tests have binders on this machine; the tokens of this one are signed with its key.
    key = load_key(tmp_path / "key")
    ours = [text for text in found["tokens"] if sealed(key, text)]
    assert ours == [canary]
    assert found["tokens"][canary] == ["PeerRefusedError", "PeerRefusedError"]
    assert secret not in found["tokens"]
    assert len(sessions) == 1
    assert not set(sessions) & set(found["names"])


def sealed(key: bytes, text: str) -> bool:
    try:
        said, seal = split_token(text)
    except TokenError:
        return False
    return signature_of(key, said) == seal


async def ran(made: Grid, owner: str) -> None:
    where = BinderAddress(address=made.address, token=made.token(TokenScope.CLIENT, subject=owner))
    async with connect.binder(where) as binder:
        job = await binder.submit(JOB, "k")
        assert (await binder.job(job.id, seconds=60)).stage == "ended"


def test_a_pilot_tells_its_factory_whose_it_is(tmp_path: Path) -> None:
    report = tmp_path / "report"

    def said() -> ClassAd:
        return parse_ad(report.read_text().partition("\n")[2])

    with grid(tmp_path) as made:
        made.binder()
        made.pilot("p", "--cpus", 1, "--report", report)
        asyncio.run(ran(made, "ana"))
        until(lambda: "Requirements" in said(), "that the pilot says it")
        made.end("p")
        takes = {
            owner: said().eval("Requirements", target=ClassAd(Owner=owner))
            for owner in ("ana", "eve", "Ana")
        }
        assert takes == {"ana": True, "eve": False, "Ana": False}


def test_a_pilot_renews_what_its_token_bought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_SESSION_SECONDS", 4.0)

    async def case() -> None:
        async with binding(tmp_path, lease=1.0) as address:
            where = BinderAddress(address=address, token=token(TokenScope.PILOT))
            stop = asyncio.Event()
            node = NodeState(total=NodeResources(cpus=1, memory=100), most=1)
            how = PilotSettings(place=where, directory=tmp_path, node=node, machine=ClassAd())
            living = asyncio.create_task(NodePilot(how, print).live(stop))
            await asyncio.sleep(6)
            async with connect.binder(place(address)) as binder:
                job = await binder.submit(JOB, "k")
                assert (await binder.job(job.id, seconds=20)).stage == "ended"
            stop.set()
            await living

    run(case())
