"""One damaged row or directory: its job gets a finding, and the others go on."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import RowMapping

import matchmaker as mm
from matchmaker.delegation import DamagedError, Deadlines, Delegator, KeyTakenError, Ledger
from matchmaker.delegation import ledger as rows
from matchmaker.delegation.contact import Spool
from matchmaker.delegation.database import LedgerError
from matchmaker.delegation.delegate import Order
from matchmaker.delegation.reconcile import check, unknown_to
from matchmaker.delegation.record import Invocation, Phase, Record
from matchmaker.delegation.record import JobState as State
from matchmaker.delegation.spool import SharedSpool
from tests.delegation.world import World

AD = mm.parse_ad("[]")


def delegator(ledger: Ledger, world: World, cluster: str | None = None) -> Delegator:
    spool = SharedSpool(Path(ledger.place).parent / "spool")
    return Delegator(ledger, world, spool, cluster=cluster, clock=lambda: world.now)


def _file(room: Path) -> None:
    shutil.rmtree(room)
    room.write_text("")


def _pipe(room: Path) -> None:
    os.mkfifo(room / "end")


DAMAGES: list[Callable[[Path], object]] = [
    _file, _pipe, lambda room: (room / "end").mkdir(), lambda room: (room / "start").mkdir(),
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_directory_stops_its_own_job_alone(
    ledger: Ledger, script: Path, damage: Callable[[Path], object]
) -> None:
    world = World()
    made = delegator(ledger, world)
    for key in "abc":
        made.submit(AD, script, key=key)
    damage(script.parent / "spool" / "b" / "1")
    world.pass_time(12)
    report = made.reconcile()
    assert [key for key, _ in report.troubles] == ["b"]
    assert "spool/b/1" in report.troubles[0][1]
    assert not report.silence
    assert [made.job(key).state for key in "abc"] == ["committed", "prepared", "committed"]


@pytest.mark.parametrize(
    ("column", "value"),
    [("state", "nonsense"), ("attempt", "x"), ("since", "long ago"), ("attempt", -3),
     ("lease_until", float("inf")), ("owner", b"\xff"), ("attempt", 10**12)],
)  # fmt: skip
def test_a_damaged_row_stops_its_own_job_alone(
    ledger: Ledger, script: Path, column: str, value: object
) -> None:
    world = World()
    made = delegator(ledger, world)
    for key in "abc":
        made.submit(AD, script, key=key)
    with sqlite3.connect(ledger.place) as raw:
        raw.execute(f"UPDATE transfers SET {column} = ? WHERE key = 'b'", (value,))  # noqa: S608
    world.pass_time(12)
    report = made.reconcile()
    assert [key for key, _ in report.troubles] == ["b"]
    assert "--rebuild" in report.troubles[0][1]
    assert [made.job(key).state for key in "ac"] == ["committed", "committed"]
    with pytest.raises(DamagedError, match=r"b: .*--rebuild"):
        made.job("b")
    assert [found.key for found in ledger.unreadable()] == ["b"]
    assert check(ledger)[0].startswith("b: its row in the ledger is damaged")
    made.rebuild()
    assert made.job("b").state.live
    assert ledger.unreadable() == []
    assert ledger.payload("b") is not None


def test_a_damaged_row_of_a_file_stops_its_own_job_alone(
    ledger: Ledger, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another handed its key over meanwhile, and the row is damaged."""
    world = World()
    made = delegator(ledger, world)
    made.submit(AD, script, key="b")
    with sqlite3.connect(ledger.place) as raw:
        raw.execute("UPDATE transfers SET state = 'nonsense' WHERE key = 'b'")
    # As if each key were new when it was looked up.
    monkeypatch.setattr(Ledger, "records", lambda *_: [])
    orders = [Order(job=AD, script=script, key=key) for key in "abc"]
    first, damaged, last = made.submit_all(orders)
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(damaged, LedgerError)
    assert world.calls["park"] == 3


def test_a_key_that_is_no_key_is_a_damaged_row(ledger: Ledger, script: Path) -> None:
    world = World()
    made = delegator(ledger, world)
    for key in "ab":
        made.submit(AD, script, key=key)
    with sqlite3.connect(ledger.place) as raw:
        raw.execute("UPDATE transfers SET key = '../b' WHERE key = 'b'")
    world.pass_time(12)
    assert [key for key, _ in made.reconcile().troubles] == ["../b"]
    assert made.job("a").state is State.COMMITTED


def test_jobs_of_the_spool_that_the_ledger_does_not_know_are_found(
    ledger: Ledger, script: Path
) -> None:
    world = World(length=30.0)
    made = delegator(ledger, world)
    for key in "ab":
        made.submit(AD, script, key=key)
    spool = SharedSpool(script.parent / "spool")
    assert unknown_to(ledger, spool) == []
    other = Ledger(script.parent / "new.db")
    assert unknown_to(other, spool) == ["a", "b"]
    assert check(ledger, spool) == []
    assert "jobs that the spool has: a, b; classad jobs --rebuild" in check(other, spool)[0]
    again = Delegator(other, world, spool, clock=lambda: world.now)
    again.rebuild()
    assert other.live() == [], "the other ledger is there, and goes on with its jobs"
    Path(ledger.place).rename(f"{ledger.place}.lost")
    again.rebuild()
    assert unknown_to(other, spool) == []
    assert {record.key for record in other.live()} == {"a", "b"}
    other.close()


def test_a_rebuild_takes_the_jobs_of_its_own_batch_system(ledger: Ledger, script: Path) -> None:
    """Two batch systems, one ledger and one spool."""
    here, there = World(), World()
    delegator(ledger, here, "here").submit(AD, script, key="a")
    delegator(ledger, there, "there").submit(AD, script, key="b")
    other = Ledger(script.parent / "new.db")
    spool = SharedSpool(script.parent / "spool")
    Path(ledger.place).rename(f"{ledger.place}.lost")
    Delegator(other, here, spool, cluster="here", clock=lambda: here.now).rebuild()
    assert [record.key for record in other.live()] == ["a"]
    Delegator(other, there, spool, cluster="there", clock=lambda: there.now).rebuild()
    assert {r.key: r.cluster for r in other.live()} == {"a": "faulty@here", "b": "faulty@there"}
    other.close()


def on(ledger: Ledger, world: World) -> Delegator:
    """A delegator whose jobs run: the world has the records too."""
    return Delegator(ledger, world, world, clock=lambda: world.now)


def test_a_rebuild_leaves_another_ledgers_job_alone(ledger: Ledger, script: Path) -> None:
    """It was taken once, and when its lease in the wrong ledger was over, it was cancelled."""
    world = World(length=1000.0)
    made = on(ledger, world)
    made.submit(AD, script, key="k")
    for _ in range(4):
        world.pass_time(12)
        made.reconcile()
    assert made.job("k").state is State.RUNNING
    other = Ledger(script.parent / "other.db")
    quick = Deadlines(lease=30.0)
    spools: list[Spool] = [SharedSpool(script.parent / "other"), world]
    for spool in spools:
        stranger = Delegator(other, world, spool, deadlines=quick, clock=lambda: world.now)
        assert isinstance(spool.ready(), Path)
        assert stranger.rebuild().strangers == 1
        assert other.recent() == []
        world.pass_time(100)
        stranger.reconcile()
    made.reconcile()
    assert (made.job("k").state, world.calls["cancel"]) == (State.RUNNING, 0)
    other.close()


def test_a_rebuilt_row_knows_its_job_by_its_mark(ledger: Ledger, script: Path) -> None:
    """The digest, the owner and the time are in the spool, so that its mark is the same."""
    world = World(length=1000.0)
    made = on(ledger, world)
    before = made.submit(AD, script, key="k")
    foreign = world._new("mm-k-1", 10_000.0, "00112233aabbccdd")
    ledger.close()
    Path(ledger.place).unlink()
    new = Ledger(ledger.place)
    again = on(new, world)
    again.rebuild()
    after = again.job("k")
    assert (after.mark, after.digest, after.created) == (before.mark, before.digest, before.created)
    for _ in range(4):
        world.pass_time(12)
        again.reconcile()
    assert again.job("k").state is State.RUNNING
    assert foreign.phase is Phase.PARKED
    with pytest.raises(KeyTakenError):
        again.submit(mm.parse_ad("[ other = true ]"), script, key="k")
    new.close()


def test_a_ledger_that_was_used_before_its_rebuild_takes_the_jobs_of_the_lost_one(
    ledger: Ledger, script: Path
) -> None:
    """A portal that hands over one more job does not know that the file is gone."""
    world = World(length=1000.0)
    made = on(ledger, world)
    before = made.submit(AD, script, key="k")
    for _ in range(4):
        world.pass_time(12)
        made.reconcile()
    ledger.close()
    Path(ledger.place).unlink()
    new = Ledger(ledger.place)
    again = on(new, world)
    assert (new.find("k"), again.submit(AD, script, key="later").state) == (None, State.PREPARED)
    assert again.rebuild().troubles == ()
    for _ in range(4):
        world.pass_time(12)
        again.reconcile()
    assert {r.key: r.state for r in new.recent()} == dict.fromkeys(("k", "later"), State.RUNNING)
    assert (again.job("k").mark, again.job("k").digest) == (before.mark, before.digest)
    assert not check(new, world)
    new.close()


def test_a_rebuilt_job_is_submitted_again_as_it_was_ordered(ledger: Ledger, script: Path) -> None:
    """The spool has the order, so that nothing of it is lost with the ledger."""
    world = World()
    made = on(ledger, world)
    world.faults = {"park": ["nothing"]}
    before = made.submit(
        AD, script, ["--mem=5M"], key="k", lease=2_000_000, lease_from="start",
        directory=script.parent, environment={"A": "b\nc"},
        invocation=Invocation(arguments=("x y", "\u00e9"), exports=(("B", "2"),)),
    )  # fmt: skip
    order = ledger.payload("k")
    ledger.close()
    Path(ledger.place).unlink()
    script.unlink()
    new = Ledger(ledger.place)
    again = on(new, world)
    again.rebuild()
    assert new.payload("k") == order
    rebuilt = again.job("k")
    assert (rebuilt.lease, rebuilt.from_start) == (before.lease, before.from_start) == (2e6, True)
    for _ in range(12):
        world.pass_time(12)
        again.reconcile()
    after = again.job("k")
    assert (after.state, after.attempt) == (State.RUNNING, before.attempt + 1), again.history("k")
    assert world.parked == [(str(script.parent), {"A": "b\nc"})] * 2
    new.close()


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"ad": 3}', "no JSON", None])
def test_an_order_that_was_damaged_in_the_spool_is_not_taken(
    ledger: Ledger, script: Path, damage: str | None
) -> None:
    world = World()
    spool = SharedSpool(script.parent / "spool")
    Delegator(ledger, world, spool, clock=lambda: world.now).submit(AD, script, key="k")
    path = spool.root / "k" / "1" / "order"
    text = path.read_text()
    other = text.replace('"own_words": []', '"own_words": ["-x"]')
    path.write_text(other if damage is None else damage)
    ledger.close()
    Path(ledger.place).unlink()
    new = Ledger(ledger.place)
    Delegator(new, world, spool, clock=lambda: world.now).rebuild()
    assert new.payload("k") is None
    assert new.get("k").state.live
    new.close()


@pytest.mark.parametrize("how", ["its row", "its file"])
def test_a_rebuild_brings_no_ended_job_back_to_life(ledger: Ledger, script: Path, how: str) -> None:
    world = World(length=5.0)
    made = on(ledger, world)
    for key in ("done", "taken", "cancelled"):
        made.submit(AD, script, key=key)
        if key == "cancelled":
            made.cancel(key)
        for _ in range(6):
            world.pass_time(12)
            made.reconcile()
    assert made.job("done").state is State.DONE
    made.acknowledge("taken")
    # A second submission of it comes late.
    world._new("mm-taken-1", 900.0, made.job("taken").mark)
    ledger.close()
    if how == "its row":
        with sqlite3.connect(ledger.place) as raw:
            raw.execute("DELETE FROM transfers")
    else:
        Path(ledger.place).unlink()
    new = Ledger(ledger.place)
    again = on(new, world)
    again.rebuild()
    for _ in range(8):
        world.pass_time(12)
        again.reconcile()
    assert again.job("done").state is State.DONE
    assert "taken" not in {record.key for record in new.recent()}
    kept = State.CANCELLED if how == "its row" else State.PAUSED
    assert again.job("cancelled").state is kept
    assert max(world.starts.values(), default=0) <= 1
    assert "cancelled" not in world.starts
    new.close()


def test_sound_rows_are_not_read_one_by_one_to_be_checked(
    ledger: Ledger, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million of them took minutes; the database finds those that may be wrong."""
    world = World()
    made = on(ledger, world)
    for number in range(20):
        made.submit(AD, script, key=f"k{number}")
    with sqlite3.connect(ledger.place) as raw:
        raw.execute("UPDATE transfers SET code = 'NONSENSE' WHERE key = 'k7'")
    read: list[str] = []
    real = rows.record_of

    def record_of(row: RowMapping) -> Record:
        read.append(row["key"])
        return real(row)

    monkeypatch.setattr(rows, "record_of", record_of)
    (found,) = check(ledger, world)
    assert found.startswith("k7: its row in the ledger is damaged")
    assert read == ["k7"]
