"""What one peer may cost a binder: its ads, what it has open, what it says, and a full disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchmaker as mm
from matchmaker.classad import parse_ad
from matchmaker.classad.nodes import ListExpr, Literal
from matchmaker.delegation.database import LedgerError
from matchmaker.pilots.binder import tables
from matchmaker.pilots.binder.admission import (
    MATCHING,
    MOST_SYNTAX,
    RateLimit,
    checked_result,
    parse_job_ad,
    parse_slot_ad,
)
from matchmaker.pilots.binder.exchange import FairShare, pair, why_waiting
from matchmaker.pilots.binder.state import BinderChange, BinderJob, BinderMessage
from matchmaker.pilots.binder.tables import PendingChanges, Tables
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connection import dial
from matchmaker.pilots.wire.protocol import Frame, FrameKind, PeerRefusedError, Role, TokenScope
from tests.pilots.binding import Pilot, binding, echo, place, token
from tests.pilots.test_binder_server import ECHO, JOB, run

CLAUSES = " && ".join(f"TARGET.A{number} =!= {number}" for number in range(7_500))
GREEDY = "; ".join(f"z{n} = strcat(z{n + 1}, z{n + 1})" for n in range(17))


@asynccontextmanager
async def ready(folder: Path, **changed: Any) -> AsyncIterator[tuple[str, Pilot]]:
    """A binder's address, and a pilot that is registered."""
    async with binding(folder, **changed) as address:
        pilot = Pilot(address)
        await pilot.register()
        yield address, pilot
        pilot.close()


async def answered(address: str, kind: FrameKind, subject: str = "bad", **fields: Any) -> str:
    """The reason with which a client is refused."""
    client = await dial(address, token(TokenScope.CLIENT, subject), Role.CLIENT)
    client.send(kind, **fields)
    while (frame := await client.receive(20)).kind is not FrameKind.FAILED:
        assert frame.kind is FrameKind.WAITING
    client.close("the test is over")
    return str(frame["reason"])


# --- ads


@pytest.mark.parametrize("kind", [FrameKind.CONNECT, FrameKind.SUBMIT])
def test_an_ad_of_thousands_of_clauses_is_refused(tmp_path: Path, kind: FrameKind) -> None:
    async def case() -> None:
        async with ready(tmp_path) as (address, _):
            how = {"seconds": 5} if kind is FrameKind.CONNECT else {"key": "k"}
            ad = f"[ Requirements = {CLAUSES} ]"[:190_000]
            assert "outside of strings" in await answered(address, kind, ad=ad, **how)

    run(case())


def test_a_slot_of_thousands_of_clauses_is_refused(tmp_path: Path) -> None:
    async def case() -> None:
        async with ready(tmp_path) as (_, pilot):
            slot = await pilot.slot(f"[ Requirements = {CLAUSES[:180_000]} && true ]")
            refused = await slot.receive(10)
            assert refused.kind is FrameKind.REFUSED
            assert "outside of strings" in refused["reason"]

    run(case())


def test_a_slots_policy_has_less_room(tmp_path: Path) -> None:
    async def case() -> None:
        async with ready(tmp_path) as (_, pilot):
            slot = await pilot.slot(f"[ Requirements = MY.Start; Start = {CLAUSES[:3000]} 1 ]")
            refused = await slot.receive(10)
            assert refused.kind is FrameKind.REFUSED
            assert "shorten its policy" in refused["reason"]

    run(case())


def test_a_slot_may_have_many_literals() -> None:
    names = ", ".join(f'"application {number}"' for number in range(500))
    assert "A" in parse_slot_ad(f"[ Requirements = true; A = {{ {names} }} ]")


@pytest.mark.parametrize(
    "text",
    [
        f'[ A = "{"x" * 100_000}" ]',
        "[ A = {" + ", ".join(['"' + "x" * 1000 + '"'] * 100) + "} ]",
    ],
)
def test_long_strings_are_taken(text: str) -> None:
    assert "A" in parse_job_ad(text)


@pytest.mark.parametrize(
    "text",
    [
        "[ 'a\"b' = 1; " + "c = d; " * MOST_SYNTAX + "e = '\"' ]",
        '[ a = 1; // "\n' + "c = d; " * MOST_SYNTAX + '// "\n ]',
        '[ a = 1; /* " */' + "c = d; " * MOST_SYNTAX + '/* " */ ]',
        "[ a = " + "{1, 2}, " * MOST_SYNTAX,
    ],
)
def test_no_quote_hides_syntax(text: str) -> None:
    with pytest.raises(ValueError, match="outside of strings"):
        parse_job_ad(text)


def test_quotes_without_an_end_are_gone_through_once() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        parse_job_ad('[ a = "' + '\\"' * 30_000)


def test_an_ad_that_takes_too_many_steps_is_refused_and_the_next_one_is_paired(
    tmp_path: Path,
) -> None:
    async def case() -> None:
        async with ready(tmp_path) as (address, pilot):
            serving = asyncio.create_task(echo(pilot, await pilot.slot()))
            greedy = f"[ Requirements = size([ {GREEDY}; z17 = TARGET.Name ].z0) > 0 ]"
            said = await answered(address, FrameKind.CONNECT, ad=greedy, seconds=60)
            assert "took more than" in said
            async with connect.binder(place(address, "bad")) as binder:
                job = await binder.submit(parse_ad(greedy), "k")
                assert (await binder.job(job.id, seconds=60)).stage == "cancelled"
            async with connect.paired(place(address), ECHO, seconds=60) as stream:
                await stream.write(b"good")
                assert await stream.read() == b"good"
            await serving

    run(case())


def test_a_slots_greed_refuses_no_client() -> None:
    greedy = f'[ Name = "s"; Requirements = size([ {GREEDY}; z17 = TARGET.Id ].z0) > 0 ]'
    refused: list[str] = []
    slots = mm.Pool([mm.parse_ad(greedy)], limits=MATCHING)
    assert pair(slots, [("c", mm.ClassAd(Id="x"))], lambda id_, _: refused.append(id_)) == {}
    assert refused == []


def test_who_takes_long_waits_for_itself_alone() -> None:
    # Each look at an ad of the bad owner takes a hundred times as long as a good one's.
    turns, now = FairShare(), [0.0]
    for number in range(500):
        turns.enter("bad", f"bad{number}", mm.ClassAd())
    seen = []
    for number in range(40):
        turns.enter(f"good{number % 4}", f"good{number}", mm.ClassAd())
        for id_, _ in turns.turn(lambda: now[0], 0.5):
            now[0] += 1.0 if id_.startswith("bad") else 0.01
            seen.append(id_)
    good = [id_ for id_ in seen if id_.startswith("good")]
    assert len(good) == 40
    # One slow look may stand before each of them, and no more.
    assert len(seen) <= 2 * len(good)


def test_who_comes_back_again_and_again_gets_no_more_turns() -> None:
    turns, now = FairShare(), [0.0]
    seen = {"bad": 0, "good": 0}
    turns.enter("good", "good", mm.ClassAd())
    for number in range(200):
        turns.enter("bad", f"bad{number}", mm.ClassAd())
        turns.enter("good", f"good{number}", mm.ClassAd())
        for id_, _ in turns.turn(lambda: now[0], 0.001):
            name = id_.rstrip("0123456789")
            seen[name] += 1
            now[0] += 1.0 if name == "bad" else 0.1
            turns.leave(name, id_)
    assert seen["good"] >= 9 * seen["bad"] - 10


def test_those_who_wait_are_looked_at_again_in_their_order() -> None:
    turns = FairShare()
    for id_ in "123":
        turns.enter("ana", id_, mm.ClassAd())
    assert [id_ for id_, _ in turns.turn(lambda: 0.0, 1.0)] == ["1", "2", "3"]
    assert not turns.due
    turns.match_all_again()
    turns.leave("ana", "2")
    turns.enter("ana", "4", mm.ClassAd())
    assert [id_ for id_, _ in turns.turn(lambda: 0.0, 1.0)] == ["4", "1", "3", "4"]
    turns.match_all_again()
    turns.none()
    assert not turns.due


def test_owners_that_come_and_go_leave_nothing_behind() -> None:
    turns = FairShare()
    for number in range(5_000):
        turns.enter(f"o{number}", "1", mm.ClassAd())
        assert len(list(turns.turn(lambda: 0.0, 1.0))) == 1
        turns.leave(f"o{number}", "1")
        turns.enter("again", "1", mm.ClassAd())
        turns.leave("again", "1")
    assert not turns._owners
    assert len(turns._due) <= 1
    assert len(turns._spent) < 1_100


def test_good_peers_are_paired_while_bad_ads_stand_there(tmp_path: Path) -> None:
    async def case() -> None:
        async with ready(tmp_path, lease=300.0) as (address, pilot):
            slot = await pilot.slot('[ Name = "s"; Requirements = TARGET.Application == "echo" ]')
            # As long as an ad may be, each another one, and none that a slot takes.
            clauses = CLAUSES[: MOST_SYNTAX - 300].rpartition(" && ")[0]
            async with connect.binder(place(address, "bad")) as bad:
                for number in range(30):
                    ad = f"[ Number = {number}; Requirements = {clauses} && TARGET.B == {number} ]"
                    assert (await bad.submit(parse_ad(ad), str(number))).stage == "queued"
                serving = asyncio.create_task(echo(pilot, slot))
                async with connect.paired(place(address, "good"), ECHO, seconds=60) as stream:
                    await stream.write(b"good")
                    assert await stream.read() == b"good"
                await serving
                assert [each.stage async for each in bad.jobs()] == ["queued"] * 30

    run(case())


def test_an_ad_that_takes_long_is_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    from matchmaker.pilots.binder import exchange

    monkeypatch.setattr(exchange, "_LONG_SECONDS", -1.0)
    slots = mm.Pool([mm.ClassAd(Name="s")])
    assert "takes long to match" in why_waiting(slots, mm.parse_ad("[ Requirements = false ]"))


# --- what waits for the storage


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The disk is full for as long as the list holds something."""
    real, broken = Tables.write, [True]

    def write(self: Tables, changes: Any) -> None:
        if broken:
            raise LedgerError("the disk is full")
        real(self, changes)

    monkeypatch.setattr(tables, "_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(Tables, "write", write)
    return broken


def test_nothing_is_given_while_nothing_can_be_stored(tmp_path: Path, full: list[bool]) -> None:
    async def case() -> None:
        full.clear()
        async with ready(tmp_path) as (address, pilot):
            slot = await pilot.slot()
            await asyncio.sleep(0.2)
            full.append(True)
            # The end of this one is what cannot be stored.
            await answered(address, FrameKind.CONNECT, ad="[ Requirements = false ]", seconds=0)
            await asyncio.sleep(1.5)
            client = await dial(address, token(TokenScope.CLIENT), Role.CLIENT)
            client.send(FrameKind.CONNECT, ad=str(ECHO), seconds=30)
            with pytest.raises(TimeoutError):
                await slot.receive(1.5)
            full.clear()
            pilot.accept(slot, await slot.expect(FrameKind.PAIRED, 10))
            while (frame := await client.receive(10)).kind is FrameKind.WAITING:
                pass
            assert frame.kind is FrameKind.PAIRED
            client.close("the test is over")
            slot.close("the test is over")

    run(case())


def test_what_waits_for_the_storage_is_bounded(
    tmp_path: Path, full: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_UNSTORED", 100_000)
    ad = f'[ Requirements = true; Text = "{"x" * 20_000}" ]'

    async def case() -> None:
        full.clear()
        async with ready(tmp_path) as (address, pilot):
            full.append(True)
            said: list[str] = []
            while not said or "the disk is full" not in said[-1]:
                said.append(await answered(address, FrameKind.CONNECT, ad=ad, seconds=0))
                assert sum("no slot came" in each for each in said) < 6
            assert "nothing new is taken" in said[-1]
            assert "nothing new" in await answered(address, FrameKind.SUBMIT, ad=ad, key="k")
            # Whoever is there already is still answered.
            await pilot.beat()
            await pilot.hear(FrameKind.ALIVE)
            full.clear()
            async with asyncio.timeout(20):
                while "nothing new" in await answered(address, FrameKind.CONNECT, ad=ad, seconds=0):
                    pass

    run(case())


def test_what_is_said_again_and_again_waits_once(tmp_path: Path) -> None:
    async def case() -> None:
        said: list[BinderMessage] = []
        tables = Tables(tmp_path / "binder.db")
        tables.read()
        waiting = PendingChanges(tables, said.extend)
        word = BinderMessage(FrameKind.KILL, "s", "j", 1)
        for number in range(1000):
            job = BinderJob(id="j", owner="o", key="k", ad="[]", epoch=number)
            waiting.add(BinderChange(jobs=(job,), messages=(word,)))
        await waiting.step()
        assert said == [word]
        assert [job.epoch for job in tables.read()[0]] == [999]
        tables.close()

    run(case())


# --- what a client holds and sends


def test_the_bytes_of_a_clients_open_jobs_are_bounded(tmp_path: Path) -> None:
    ad = parse_ad(f'[ Requirements = true; Text = "{"x" * 10_000}" ]')

    async def case() -> None:
        async with (
            ready(tmp_path, most_bytes=35_000) as (address, _),
            connect.binder(place(address)) as binder,
        ):
            for number in range(3):
                await binder.submit(ad, str(number))
            with pytest.raises(PeerRefusedError, match="more than the 35000 that they may"):
                await binder.submit(ad, "3")
            ((first, *_),) = [[each async for each in binder.jobs()]]
            assert (await binder.cancel(first.id)).over
            await binder.submit(ad, "3")
            # They are bounded for each client alone.
            async with connect.binder(place(address, "eve")) as other:
                await other.submit(ad, "1")

    run(case())


def test_a_long_frame_counts_as_several(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    async def case(size: int) -> float:
        pace = RateLimit()
        for _ in range(50):
            await pace.step(Frame(FrameKind.BEAT, size=size))
        return waited[-1]

    assert asyncio.run(case(100)) == 0
    assert asyncio.run(case(200_000)) > 5


def test_connections_of_pairs_count(tmp_path: Path) -> None:
    async def case() -> None:
        async with ready(tmp_path, most_connections=3) as (address, pilot):
            serving = asyncio.create_task(echo(pilot, await pilot.slot()))
            async with connect.paired(place(address), ECHO) as stream:
                await stream.write(b"x")
                assert await stream.read() == b"x"
                with pytest.raises((PeerRefusedError, ConnectionError)):
                    await dial(address, token(TokenScope.CLIENT), Role.CLIENT)
            await serving
            async with asyncio.timeout(10):
                while True:
                    try:
                        (await dial(address, token(TokenScope.CLIENT), Role.CLIENT)).close("")
                        break
                    except (PeerRefusedError, ConnectionError):
                        await asyncio.sleep(0.05)

    run(case())


# --- what a pilot reports, and what a job says


@pytest.mark.parametrize(
    "result",
    [
        f"[ {GREEDY}; z17 = 1; ExitCode = size(z0) ]",
        "[ ExitCode = 1 + 1 ]", "[ ExitCode = undefined ]", "[ ExitCode = { 1, { 2 } } ]",
        "[ ExitCode = [ A = 1 ] ]", "[ ExitCode = TARGET.A ]", "[ ExitCode", "x",
        f'[ Out = "{"x" * 40_000}" ]',
    ],
)  # fmt: skip
def test_a_result_of_other_things_than_literals_is_refused(tmp_path: Path, result: str) -> None:
    async def case() -> None:
        async with ready(tmp_path) as (address, pilot), connect.binder(place(address)) as binder:
            slot = await pilot.slot()
            job = await binder.submit(JOB, "k")
            pilot.ended(await slot.expect(FrameKind.PAIRED, 10), result)
            ended = await binder.job(job.id, seconds=10)
            assert ended.stage == "ended"
            assert ended.result is not None
            assert list(ended.result) == ["Reason"]
            assert "a result was refused" in str(ended.result.eval("Reason"))

    run(case())


@given(
    st.one_of(
        st.text(max_size=60).map("[ A = {} ]".format), st.text(max_size=60),
        st.lists(st.sampled_from(["1", '"x"', "{", "}", ",", "[", "]", "B = ", ";", "true", "a"])
                 ).map(lambda words: f"[ A = {' '.join(words)} ]"),
    )
)  # fmt: skip
def test_whatever_is_reported_nothing_of_it_is_evaluated(text: str) -> None:
    ad = parse_ad(checked_result(text))
    for name in ad:
        node = ad.expr(name)
        parts = node.items if isinstance(node, ListExpr) else (node,)
        assert all(isinstance(part, Literal) for part in parts)


def test_a_result_of_literals_is_kept_as_it_is() -> None:
    text = '[ A = -1; B = 1.5; C = "x\\"y"; D = true; E = { -1, "b", false }; F = {  } ]'
    assert checked_result(text) == text


@pytest.mark.parametrize(
    ("ad", "words"),
    [
        ('[ Cmd = "/bin/true"; Env = "A=1" ]', "Env is"),
        ('[ Cmd = "/bin/true"; Env = [ A = 1 ] ]', "ad of strings"),
        ('[ Cmd = "/bin/true"; Env = undefined ]', "Env is"),
        ('[ Cmd = "/bin/true"; Arguments = "a b" ]', "Arguments is"),
        ('[ Cmd = "/bin/true"; Arguments = { 1 } ]', "list of strings"),
        ("[ Cmd = 1 ]", "Cmd is 1; the path of a program"),
        ('[ Cmd = "handler:os:getcwd" ]', "handlers are the site's"),
        ("[ Application = 1 ]", "Application is"),
        ('[ Application = "echo"; Cmd = 1 ]', "Cmd is"),
        ('[ Cmd = "/bin/true"; RequestCpus = "2" ]', "RequestCpus is"),
        ('[ Cmd = "/bin/true"; MaxSeconds = 0 ]', "a number above 0"),
        ('[ Cmd = "/bin/true"; JobClass = true ]', "JobClass is"),
        ('[ Cmd = "/bin/true"; Direct = "yes" ]', "true or false"),
        (f'[ Cmd = "/bin/true"; {GREEDY}; z17 = "x"; Env = z0 ]', "took more than"),
    ],
)
def test_an_attribute_of_another_type_is_refused(tmp_path: Path, ad: str, words: str) -> None:
    async def case() -> None:
        async with ready(tmp_path) as (address, _):
            assert words in await answered(address, FrameKind.SUBMIT, ad=ad, key="k")
            assert words in await answered(address, FrameKind.CONNECT, ad=ad, seconds=1)

    run(case())


def test_what_an_attribute_may_be_is_taken(tmp_path: Path) -> None:
    ad = parse_ad(
        '[ Cmd = "/bin/true"; Arguments = { "a", strcat("b", "c") }; Env = [ A = "1" ];'
        ' RequestCpus = TARGET.Cpus / 2; MaxSeconds = 1.5; JobClass = "x"; Direct = false ]'
    )

    async def case() -> None:
        async with ready(tmp_path) as (address, _), connect.binder(place(address)) as binder:
            assert (await binder.submit(ad, "k")).stage == "queued"

    run(case())
