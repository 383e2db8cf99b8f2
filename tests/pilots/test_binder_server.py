"""A binder on a real port: clients and pilots are brought together, and nothing runs twice."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.matching.pool import Pool
from matchmaker.pilots.binder import exchange as exchange_module
from matchmaker.pilots.binder import state
from matchmaker.pilots.binder.exchange import Exchange
from matchmaker.pilots.binder.state import BinderChange, BinderJob
from matchmaker.pilots.binder.tables import Tables
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connection import ClosedError, dial
from matchmaker.pilots.wire.protocol import FrameKind, PeerRefusedError, Role, TokenScope
from tests.pilots.binding import ANY, Pilot, binding, echo, place, token
from tests.services.slapd import make_certificate

ECHO = parse_ad('[ Application = "echo"; Requirements = true ]')
JOB = parse_ad('[ Cmd = "/bin/true"; Requirements = true; Owner = "root" ]')

Case = Callable[[Path], Coroutine[Any, Any, None]]


def run(case: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await case

    asyncio.run(bounded())


def test_a_client_and_a_pilot_speak_both_ways_and_end_one_by_one(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            await pilot.register()
            serving = asyncio.create_task(echo(pilot, await pilot.slot()))
            async with connect.paired(place(address), ECHO) as stream:
                for part in (b"one", b"x" * 500_000):
                    await stream.write(part)
                    got = b""
                    while len(got) < len(part):
                        got += await stream.read()
                    assert got == part
                await stream.end()
                assert await stream.read() == b""
            await serving
            await pilot.hear(FrameKind.ACKNOWLEDGE)
            async with connect.binder(place(address)) as binder:
                (job,) = [each async for each in binder.jobs()]
                assert (job.stage, job.given) == ("ended", 1)
            pilot.close()

    run(case())


def test_a_job_goes_on_without_its_client(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            async with connect.binder(place(address)) as binder:
                first = await binder.submit(JOB, "k1")
                again = await binder.submit(JOB, "k1")
                assert (first.id, first.stage) == (again.id, "queued")
                with pytest.raises(PeerRefusedError, match="which has another ad"):
                    await binder.submit(ECHO, "k1")
            pilot = Pilot(address)
            await pilot.register()
            slot = await pilot.slot()
            paired = await slot.expect(FrameKind.PAIRED, 10)
            assert (paired["job"], paired["epoch"], paired["stream"]) == (first.id, 1, False)
            # The owner is who the token names, not who the ad says.
            assert parse_ad(paired["ad"]).eval("Owner") == "ana"
            pilot.accept(slot, paired)
            # The connection of the slot serves for the next job too.
            pilot.offer(slot)
            async with connect.binder(place(address)) as binder:
                other = await binder.submit(JOB, "k2")
                assert (await slot.expect(FrameKind.PAIRED, 10))["job"] == other.id
                pilot.ended(paired, "[ ExitCode = 3 ]")
                await pilot.hear(FrameKind.ACKNOWLEDGE)
                ended = await binder.job(first.id, seconds=10)
                assert ended.over
                assert ended.result is not None
                assert ended.result.eval("ExitCode") == 3
            pilot.close()

    run(case())


def test_a_restart_goes_on_with_pilots_and_jobs(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            await pilot.register()
            slot = await pilot.slot()
            async with connect.binder(place(address)) as binder:
                runs = await binder.submit(JOB, "runs")
                paired = await slot.expect(FrameKind.PAIRED, 10)
                pilot.accept(slot, paired)
                waits = await binder.submit(JOB, "waits")
                lost = Pilot(address)
                await lost.register()
                given = await (await lost.slot()).expect(FrameKind.PAIRED, 10)
                assert given["job"] == waits.id
        async with binding(tmp_path) as address:
            pilot.address = lost.address = address
            assert (await pilot.register({runs.id: 1})).kind is FrameKind.REGISTERED
            # This pilot comes back without the job, which is given again.
            assert (await lost.register({})).kind is FrameKind.REGISTERED
            slot = await lost.slot()
            again = await slot.expect(FrameKind.PAIRED, 10)
            assert (again["job"], again["epoch"]) == (waits.id, 2)
            async with connect.binder(place(address)) as binder:
                assert (await binder.job(runs.id)).stage == "running"
                pilot.ended(paired)
                assert (await binder.job(runs.id, seconds=10)).stage == "ended"
            pilot.close()
            lost.close()

    run(case())


def test_a_silent_pilot_loses_its_job_after_the_lease_and_not_before(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path, lease=1.2) as address:
            silent, other = Pilot(address), Pilot(address)
            heard = time.monotonic()
            await silent.register()
            slot = await silent.slot()
            async with connect.binder(place(address)) as binder:
                job = await binder.submit(JOB, "k")
                paired = await slot.expect(FrameKind.PAIRED, 10)
                silent.accept(slot, paired)
                await other.register()
                waiting = await other.slot()
                given = asyncio.create_task(waiting.expect(FrameKind.PAIRED, 30))
                while not given.done():
                    await other.beat()
                    await asyncio.sleep(0.1)
                assert given.result()["epoch"] == 2
                assert time.monotonic() - heard > 1.2
                await silent.hear(FrameKind.OVER)
                # What it says late changes nothing.
                silent.ended(paired)
                other.ended(given.result(), "[ By = 2 ]")
                ended = await binder.job(job.id, seconds=10)
                assert ended.result is not None
                assert ended.result.eval("By") == 2
            assert (await silent.register({job.id: 1})).kind is FrameKind.OVER

    run(case())


def test_a_pairing_that_was_lost_on_the_way_is_asked_about(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            await pilot.register()
            slot = await pilot.slot()
            async with connect.binder(place(address)) as binder:
                job = await binder.submit(JOB, "k")
                await slot.expect(FrameKind.PAIRED, 10)
                slot.abort("the network")
                killed = await pilot.hear(FrameKind.KILL)
                assert (killed["job"], killed["epoch"]) == (job.id, 1)
                pilot.control.send(FrameKind.DECLINED, job=job.id, epoch=1, reason="it never came")
                again = await (await pilot.slot()).expect(FrameKind.PAIRED, 10)
                assert again["epoch"] == 2
            pilot.close()

    run(case())


def test_a_client_that_waits_is_told_why(tmp_path: Path) -> None:
    async def case() -> None:
        said: list[str] = []
        async with binding(tmp_path) as address:
            with pytest.raises(
                PeerRefusedError, match=r"no slot came in 1.2 s: no pilot is connected"
            ):
                async with connect.paired(place(address), ECHO, seconds=1.2, waiting=said.append):
                    pass
            pilot = Pilot(address)
            await pilot.register()
            await pilot.slot()
            blast = parse_ad('[ Application = "blast"; Requirements = false ]')
            with pytest.raises(PeerRefusedError, match="no pilot has the application blast"):
                async with connect.paired(place(address), blast, seconds=1.2):
                    pass
            async with connect.admin(place(address, scope=TokenScope.ADMIN)) as admin:
                status = await admin.status()
                assert status["jobs"]["cancelled"] == 2
                assert (status["pilots"], status["slots"]) == (1, 1)
            pilot.close()
        assert "no pilot is connected" in said

    run(case())


def test_clients_see_and_end_their_own_jobs_alone(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path, most_jobs=2) as address:
            async with connect.binder(place(address, "ana")) as ana:
                job = await ana.submit(JOB, "k")
                await ana.submit(JOB, "k2")
                with pytest.raises(PeerRefusedError, match="2 open jobs"):
                    await ana.submit(JOB, "k3")
                with pytest.raises(PeerRefusedError, match="1 to 128 printable"):
                    await ana.submit(JOB, "k\n")
                assert (await ana.submit(JOB, "k")).id == job.id
            async with connect.binder(place(address, "eve")) as eve:
                with pytest.raises(PeerRefusedError, match="no job"):
                    await eve.job(job.id)
                with pytest.raises(PeerRefusedError, match="no job"):
                    await eve.cancel(job.id)
                assert [each async for each in eve.jobs()] == []
                with pytest.raises(PeerRefusedError, match="may not say status"):
                    await eve.status()
            async with connect.admin(place(address, scope=TokenScope.ADMIN)) as admin:
                assert (await admin.cancel(job.id, "enough")).reason == "enough"
                assert len([each async for each in admin.jobs()]) == 2

    run(case())


def test_lists_come_in_parts(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address, connect.binder(place(address)) as binder:
            made = [(await binder.submit(JOB, f"k{number}")).key for number in range(230)]
            assert [each.key async for each in binder.jobs()] == made[::-1]

    run(case())


def test_a_revoked_token_is_refused_also_after_a_restart(tmp_path: Path) -> None:
    async def case() -> None:
        text = token(TokenScope.CLIENT, id="t7")
        async with binding(tmp_path) as address:
            (await dial(address, text, Role.CLIENT)).close("")
            async with connect.admin(place(address, scope=TokenScope.ADMIN)) as admin:
                await admin.revoke("t7", time.time() + 100)
            with pytest.raises(PeerRefusedError, match="revoked"):
                await dial(address, text, Role.CLIENT)
        async with binding(tmp_path) as address:
            with pytest.raises(PeerRefusedError, match="revoked"):
                await dial(address, text, Role.CLIENT)

    run(case())


@pytest.mark.parametrize(
    ("role", "frames"),
    [
        (Role.PILOT, [(FrameKind.BEAT, {"number": 1})]),
        (Role.PILOT, [(FrameKind.REGISTER, {"ad": "[", "session": "", "running": {}})]),
        (Role.PILOT, [(FrameKind.REGISTER, {"ad": "[]", "session": "", "running": {"a": "b"}})]),
        (Role.SLOT, [(FrameKind.OFFER, {"session": "guessed", "slot": "s", "ad": ANY})]),
        (Role.SLOT, [(FrameKind.BEAT, {"number": 1})]),
        (Role.CLIENT, [(FrameKind.OFFER, {"session": "", "slot": "s", "ad": ANY})]),
        (Role.CLIENT, [(FrameKind.CONNECT, {"ad": "[", "seconds": 1})]),
        (Role.CLIENT, [(FrameKind.CONNECT, {"ad": "[]", "seconds": 9}), (FrameKind.STATUS, {})]),
    ],
)
def test_what_a_peer_may_not_say_is_refused_in_words(
    tmp_path: Path, role: Role, frames: list[tuple[FrameKind, dict[str, Any]]]
) -> None:
    async def case() -> None:
        scopes = {
            Role.CLIENT: TokenScope.CLIENT,
            Role.PILOT: TokenScope.PILOT,
            Role.SLOT: TokenScope.SESSION,
        }
        scope = scopes[role]
        async with binding(tmp_path) as address:
            connection = await dial(address, token(scope), role)
            for kind, fields in frames:
                connection.send(kind, **fields)
            with pytest.raises(PeerRefusedError):
                await connection.expect(FrameKind.ALIVE, 10)

    run(case())


def test_a_session_belongs_to_the_token_that_began_it(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot, thief = Pilot(address), Pilot(address)
            await pilot.register()
            await thief.register()
            thief.control.close("it comes back as another")
            thief.session = pilot.session
            assert (await thief.register()).kind is FrameKind.OVER
            slot = await thief.slot()
            with pytest.raises(PeerRefusedError, match="session is over"):
                await slot.expect(FrameKind.PAIRED, 10)
            pilot.close()

    run(case())


def test_a_peer_that_floods_or_is_silent_slows_nobody(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            flooding, silent = (
                Pilot(address),
                await dial(address, token(TokenScope.PILOT), Role.PILOT),
            )
            await flooding.register()

            async def flood() -> None:
                while flooding.control.open:
                    for _ in range(1000):
                        flooding.control.send(FrameKind.BEAT, number=1)
                    await asyncio.sleep(0.01)

            flooding.control._transport.set_write_buffer_limits(1 << 30)  # type: ignore[union-attr]
            task = asyncio.create_task(flood())
            pilot = Pilot(address)
            await pilot.register()
            for _ in range(5):
                serving = asyncio.create_task(echo(pilot, await pilot.slot()))
                async with connect.paired(place(address), ECHO, seconds=10) as stream:
                    await stream.write(b"x")
                    assert await stream.read() == b"x"
                await asyncio.wait_for(serving, 10)
            flooding.control.abort("enough")
            task.cancel()
            silent.abort("enough")
            pilot.close()

    run(case())


def test_a_client_that_leaves_while_it_waits_takes_no_slot(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            connection = await dial(address, token(TokenScope.CLIENT), Role.CLIENT)
            connection.send(FrameKind.CONNECT, ad=str(ECHO), seconds=60)
            async with connect.binder(place(address)) as binder:
                jobs: list[connect.JobFacts] = []
                while not jobs:
                    jobs = [each async for each in binder.jobs()]
                connection.abort("")
                assert (await binder.job(jobs[0].id, seconds=10)).stage == "cancelled"

    run(case())


def test_a_second_binder_on_the_same_tables_ends_the_first(tmp_path: Path) -> None:
    from matchmaker.pilots.binder.tables import SupersededError

    async def submits(address: str) -> None:
        async with connect.binder(place(address)) as binder:
            await binder.submit(JOB, "k")

    async def case() -> None:
        async with binding(tmp_path) as first, binding(tmp_path):
            with pytest.raises((ClosedError, TimeoutError)):
                await submits(first)

    with pytest.raises(SupersededError):
        run(case())


def test_beyond_this_machine_a_binder_needs_a_certificate(tmp_path: Path) -> None:
    async def case() -> None:
        with pytest.raises(ValueError, match="a certificate and its key are needed"):
            async with binding(tmp_path, host="0.0.0.0"):  # noqa: S104
                pass

    run(case())


def test_over_tls_bytes_and_half_closes_go_through(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    own, other = (make_certificate(folder) for folder in (tmp_path / "own", tmp_path / "other"))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(own.certificate, own.key)

    async def case() -> None:
        tls = connect.tls_context([str(own.certificate)])
        async with binding(tmp_path, tls=server) as address:
            pilot = Pilot(address)
            pilot.tls = tls
            await pilot.register()
            serving = asyncio.create_task(echo(pilot, await pilot.slot()))
            async with connect.paired(place(address, tls=tls), ECHO) as stream:
                await stream.write(b"x" * 3_000_000)
                await stream.end()
                got = 0
                while part := await stream.read():
                    got += len(part)
                assert got == 3_000_000
            await serving
            with pytest.raises(ssl.SSLCertVerificationError):
                await dial(
                    address, token(TokenScope.CLIENT), Role.CLIENT,
                    connect.tls_context([str(other.certificate)]),
                )  # fmt: skip
            with pytest.raises((ClosedError, TimeoutError, OSError)):
                await dial(address, token(TokenScope.CLIENT), Role.CLIENT)
            pilot.close()

    run(case())


def test_the_storage_may_fail_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matchmaker.delegation.database import LedgerError
    from matchmaker.pilots.binder import tables

    real, broken = Tables.write, [True]

    def write(self: Tables, changes: Any) -> None:
        if broken:
            raise LedgerError("the disk is full")
        real(self, changes)

    async def case() -> None:
        monkeypatch.setattr(tables, "_AGAIN_SECONDS", 0.05)
        async with binding(tmp_path) as address, connect.binder(place(address)) as binder:
            monkeypatch.setattr(Tables, "write", write)
            submitted = asyncio.create_task(binder.submit(JOB, "k"))
            async with connect.admin(place(address, scope=TokenScope.ADMIN)) as admin:
                while "disk is full" not in (await admin.status())["trouble"]:
                    assert not submitted.done()
            assert not submitted.done()
            broken.clear()
            assert (await submitted).stage == "queued"

    run(case())


@pytest.mark.parametrize("attached", [False, True])
def test_an_ad_that_grows_as_it_is_written_anew_is_refused(tmp_path: Path, attached: bool) -> None:
    text = f'[ Cmd = "/bin/true"; Requirements = true; A = {{{",".join(["1"] * 94_000)}}} ]'

    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            await pilot.register()
            await pilot.slot()
            client = await dial(address, token(TokenScope.CLIENT), Role.CLIENT)
            if attached:
                client.send(FrameKind.CONNECT, ad=text, seconds=5)
            else:
                client.send(FrameKind.SUBMIT, ad=text, key="long")
            assert "shorten it" in (await client.receive(10))["reason"]
            async with connect.binder(place(address)) as binder:
                assert not (await binder.submit(JOB, "another")).over
            pilot.close()

    run(case())


def test_a_job_that_is_too_long_to_be_given_harms_no_other(tmp_path: Path) -> None:
    async def case() -> None:
        stored = BinderJob(id="long", owner="ana", key="long", ad=f'[ A = "{"x" * 270_000}" ]')
        tables = Tables(tmp_path / "binder.db")
        tables.write(BinderChange(jobs=(stored,)))
        tables.close()
        async with binding(tmp_path) as address, connect.binder(place(address)) as binder:
            pilot = Pilot(address)
            await pilot.register()
            slot = await pilot.slot()
            kill = await pilot.hear(FrameKind.KILL)
            fields = {"job": kill["job"], "epoch": kill["epoch"], "reason": "it is not here"}
            pilot.control.send(FrameKind.DECLINED, **fields)
            long = await binder.job("long", seconds=10)
            assert (long.stage, "at most" in long.reason) == ("cancelled", True)
            with pytest.raises(ClosedError):
                await slot.receive(10)
            slot = await pilot.slot()
            job = await binder.submit(JOB, "another")
            assert (await slot.expect(FrameKind.PAIRED, 10))["job"] == job.id
            pilot.close()

    run(case())


def test_a_pilot_has_one_session_on_a_connection(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            await pilot.register()
            pilot.control.send(FrameKind.REGISTER, ad="[]", session="", running={})
            assert "session" in (await pilot.hear(FrameKind.REFUSED))["reason"]
            pilot.close()

    run(case())


def test_who_asks_again_and_again_leaves_nothing_behind(tmp_path: Path) -> None:
    async def case() -> None:
        tables = Tables(tmp_path / "binder.db")
        exchange = Exchange(tables, lease=5.0, clock=time.monotonic)
        exchange.post(
            state.submit(exchange.book, BinderJob(id="1", owner="ana", key="1", ad="[]"))[1]
        )
        for _ in range(10):
            await exchange.all_ended(["1"], 0.001)
        await asyncio.sleep(0)
        gc.collect()
        assert not exchange._endings
        tables.close()

    run(case())


def test_a_job_that_pilots_decline_again_and_again_waits_between(tmp_path: Path) -> None:
    async def case() -> None:
        async with binding(tmp_path) as address, connect.binder(place(address)) as binder:
            pilot = Pilot(address)
            await pilot.register()
            slot = await pilot.slot()
            job = await binder.submit(JOB, "1")

            async def decline() -> None:
                while slot.open:
                    said = await slot.expect(FrameKind.PAIRED)
                    fields = {"job": said["job"], "epoch": said["epoch"], "reason": "no"}
                    slot.send(FrameKind.DECLINED, **fields)
                    pilot.offer(slot)

            declining = asyncio.create_task(decline())
            given = (await binder.job(job.id, seconds=2)).given
            assert 8 <= given < 20
            # It is still given, now and then.
            while (await binder.job(job.id, seconds=0.2)).given == given:
                pass
            declining.cancel()
            pilot.close()

    run(case())


def test_a_job_that_a_policy_refuses_says_so(tmp_path: Path) -> None:
    """A client asks for its job, which waits: the reason names the clause of the slot."""

    async def asked() -> str:
        async with binding(tmp_path) as address:
            pilot = Pilot(address)
            await pilot.register()
            slot = await pilot.slot(
                '[ Name = "s"; Start = TARGET.Owner == "ben"; Requirements = MY.Start ]'
            )
            async with connect.binder(place(address)) as found:
                job = await found.submit(
                    parse_ad('[ Cmd = "/bin/true"; Requirements = true ]'), "k"
                )
                assert job.stage == "queued"
                reason = (await found.job(job.id)).reason
            slot.close("over")
            pilot.close()
            return reason

    reason = asyncio.run(asked())
    assert "TARGET.Owner" in reason or "refuse" in reason, reason


def test_reasons_that_take_long_keep_no_job_from_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = threading.Event()

    def slow(_: Pool, __: ClassAd) -> str:
        found.wait(60)
        return "at last"

    monkeypatch.setattr(exchange_module, "why_waiting", slow)

    async def case() -> None:
        async with binding(tmp_path) as address, connect.binder(place(address)) as binder:
            waiting = []
            for _ in range(40):
                client = await dial(address, token(TokenScope.CLIENT), Role.CLIENT)
                client.send(FrameKind.CONNECT, ad=str(JOB), seconds=0)
                waiting.append(client)
            try:
                async with asyncio.timeout(20):
                    assert (await binder.submit(JOB, "1")).stage == "queued"
            finally:
                found.set()
            for client in waiting:
                async with asyncio.timeout(20):
                    while (await client.receive()).kind is not FrameKind.FAILED:
                        pass

    run(case())
