"""The delegator's own promises: keys, bad input, what survives a kill, and the form for asyncio."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

import matchmaker as mm
from matchmaker.delegation.delegate import Order
from matchmaker.delegation.record import (
    Deadlines,
    Invocation,
    Record,
    check_key,
    job_name,
    key_of,
)
from matchmaker.delegation.record import (
    JobState as State,
)
from matchmaker.delegation.spool import SharedSpool
from tests.delegation.world import Killed, MemoryLedger, World

AD = mm.parse_ad('[ Requirements = other.Memory > 1; Owner = "ana" ]')


@pytest.fixture
def world() -> World:
    return World(length=50.0)


@pytest.fixture
def ledger() -> Any:
    return MemoryLedger()


@pytest.fixture
def made(world: World, ledger: Any) -> mm.delegation.Delegator:
    return mm.delegation.Delegator(ledger, world, world, owner="me", clock=lambda: world.now)


def looks(world: World, made: mm.delegation.Delegator, times: int, seconds: float = 12.0) -> None:
    for _ in range(times):
        world.pass_time(seconds)
        made.reconcile()


def states(made: mm.delegation.Delegator, key: str) -> list[str]:
    return [entry.target for entry in made.history(key)]


def test_a_job_goes_its_way(made: mm.delegation.Delegator, world: World, script: Path) -> None:
    job = made.submit(AD, script=script)
    assert job.state is State.PREPARED
    assert len(job_name(job.key, 1)) <= 15, "every batch system takes so long a name"
    looks(world, made, 8)
    assert states(made, job.key) == ["intent", "prepared", "committed", "running", "done"]
    assert made.job(job.key).exit == 0
    assert made.acknowledge(job.key).state is State.ACKNOWLEDGED
    assert made.acknowledge(job.key).state is State.ACKNOWLEDGED
    assert not world.files


def test_the_same_key_is_the_same_job(made: mm.delegation.Delegator, world: World,
                                      script: Path) -> None:  # fmt: skip
    first = made.submit(AD, script, ["--mem=1G"], key="k")
    again = made.submit(AD, script, ["--mem=1G"], key="k")
    assert again == first
    assert world.calls["park"] == 1
    looks(world, made, 8)
    assert made.submit(AD, script, ["--mem=1G"], key="k").state is State.DONE
    with pytest.raises(mm.delegation.KeyTakenError, match=r"Owner of its ad\."):
        made.submit(mm.parse_ad("[]"), script, ["--mem=1G"], key="k")
    with pytest.raises(mm.delegation.KeyTakenError, match=r"in the options for the batch system\."):
        made.submit(AD, script, ["--mem=2G"], key="k")
    call = Invocation(arguments=("5",))
    with pytest.raises(mm.delegation.KeyTakenError, match=r"in the script's arguments\."):
        made.submit(AD, script, ["--mem=1G"], key="k", invocation=call)
    script.write_text("exit 1")
    with pytest.raises(mm.delegation.KeyTakenError, match=r"it differs in the script\."):
        made.submit(AD, script, ["--mem=1G"], key="k")
    assert world.calls["park"] == 1


def test_what_a_broker_finds_is_no_part_of_the_order(
    made: mm.delegation.Delegator, world: World, script: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A day later another queue is best, and whoever repeats the order is elsewhere."""

    def found(queue: str) -> mm.batch.Submission:
        return mm.batch.Submission(
            "faulty", "sub", (f"--partition={queue}",), (), mm.batch.Fit.EXACT
        )

    first = made.submit(AD, script, found("a"), key="k", words=["-x"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANOTHER", "1")
    assert made.submit(AD, script, found("b"), key="k", words=["-x"]) == first
    assert made.known("k", AD, script, words=["-x"]) == first
    assert made.known("other", AD, script) is None
    assert world.calls["park"] == 1
    with pytest.raises(mm.delegation.KeyTakenError):
        made.known("k", AD, script)


@pytest.mark.parametrize("reply", ["", "lost", "nothing", "twice"])
@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("fault", ["fails", "killed"])
def test_whoever_believes_the_message_starts_the_job_once(
    script: Path, at: int, fault: str, reply: str
) -> None:
    """The ledger fails in turn at each of its writes, or the caller is killed there.

    An error without a state, before the row is there, may say anything; after it, it names the
    key, and whoever repeats the order by that key has one start.
    """
    world = World(length=20.0)
    ledger = MemoryLedger(world)
    made = mm.delegation.Delegator(
        cast("Any", ledger), world, world, clock=lambda: world.now, new_key=iter("kxyz").__next__
    )  # fmt: skip
    world.faults = {"ledger": [""] * at + [fault], "park": [reply]}
    said: mm.delegation.UnfinishedError | None = None
    try:
        key = made.submit(AD, script).key
    except mm.delegation.UnfinishedError as error:
        key, said = error.key, error
    except Killed:
        key = "k"  # printed before it was on record
    if said is not None:
        assert (said.state is None) is (key not in ledger.rows)
        assert "nothing was done" not in str(said)
        assert "by the same key" in str(said)
    world.faults = {}
    made.submit(AD, script, key=key)
    looks(world, made, 60)
    assert {record.key for record in ledger.rows.values()} == {"k"}
    assert world.starts == {"k": 1}
    assert made.job("k").state is State.DONE


def test_two_at_once_with_a_key_submit_once(world: World, ledger: Any, script: Path) -> None:
    ledger.world = world
    one, two = (
        mm.delegation.Delegator(ledger, world, world, clock=lambda: world.now) for _ in "12"
    )

    def both() -> None:
        two.submit(AD, script, key="k")

    world.between = both
    one.submit(AD, script, key="k")
    assert world.calls["park"] == 1


def test_what_travels_with_the_job(script: Path, ledger: Any, world: World,
                                   monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    seen: dict[str, str] = {}

    def park(name: str, script: Path, words: object, *, metadata: dict[str, str],
             **more: object) -> str:  # fmt: skip
        seen.update(metadata)
        return "1"

    monkeypatch.setattr(world, "park", park)
    made = mm.delegation.Delegator(ledger, world, world, owner="ana@ui", clock=lambda: world.now)
    made.submit(AD, script, key="k", policy=mm.parse_expr("other.MaxWall >= 60"))
    assert seen["key"] == "k"
    assert seen["attempt"] == "1"
    assert mm.parse_ad(seen["ad"]) == AD
    assert seen["policy"].startswith("classad1:")


@pytest.mark.parametrize(
    "key", ["", ".", "../x", "a/b", "a b", "-a", "a\n", "a;b", "$(id)", "\u00e4", "x" * 65]
)
def test_a_hostile_key_is_refused(made: mm.delegation.Delegator, world: World, script: Path,
                                  key: str) -> None:  # fmt: skip
    with pytest.raises(ValueError, match="a key has 1 to 64"):
        made.submit(AD, script, key=key)
    assert not world.calls


@pytest.mark.parametrize("word", ["a\nb", "a\0b", "a\x1b[2J"])
def test_a_hostile_word_is_refused(made: mm.delegation.Delegator, world: World, script: Path,
                                   word: str) -> None:  # fmt: skip
    with pytest.raises(ValueError, match="no word for a command"):
        made.submit(AD, script, [word])
    assert not world.calls


def test_names_lead_back_to_keys() -> None:
    for key, attempt in (("a", 1), ("run-3.b", 12), ("x" * 64, 999)):
        assert key_of(job_name(check_key(key), attempt)) == (key, attempt)
    for name in ("", "mm-", "mm-a", "mm-a-0", "mm-a-01", "mm-a-1x", "x-a-1", "mm-a b-1", "mm--1"):
        assert key_of(name) is None


def test_what_cannot_be_is_refused(made: mm.delegation.Delegator, world: World,
                                   script: Path) -> None:  # fmt: skip
    reduction = mm.reduce(mm.parse_ad("[ Requirements = true ]"), mm.parse_ad("[]"),
                          scope=lambda name: "host")  # fmt: skip
    flags = mm.batch.flags(reduction, lrms="sge")
    with pytest.raises(ValueError, match="the flags are for sge, and the job goes to faulty"):
        made.submit(AD, script, flags)
    with pytest.raises(FileNotFoundError):
        made.submit(AD, script.with_name("none.sh"))
    with pytest.raises(ValueError, match="a lease is a number of seconds above 0"):
        made.submit(AD, script, lease=0)
    with pytest.raises(mm.delegation.NoJobError, match="no job has the key 'none'"):
        made.history("none")
    with pytest.raises(ValueError, match="hold must be longer"):
        Deadlines(hold=60)
    with pytest.raises(ValueError, match="settle must be a number above 0"):
        Deadlines(settle=0)
    assert not world.calls


def test_what_is_too_large_is_refused(made: mm.delegation.Delegator, world: World,
                                      script: Path) -> None:  # fmt: skip
    with pytest.raises(ValueError, match="is no file; name the job's script"):
        made.submit(AD, "/dev/zero")
    with pytest.raises(ValueError, match="ad has more than 1048576 characters"):
        made.submit(mm.ClassAd({"a": "x" * (1 << 20)}), script)
    with pytest.raises(ValueError, match="more than 120000 characters"):
        made.submit(AD, script, ["x" * 1000] * 121)
    with script.open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(ValueError, match="is larger than 16777216 bytes"):
        made.submit(AD, script)
    assert not world.calls


def test_an_unknown_batch_system_is_refused(tmp_path: Path) -> None:
    ledger = mm.delegation.Ledger(tmp_path / "jobs.db")
    with pytest.raises(ValueError, match="nosuch"):
        mm.delegation.Delegator(ledger, system="nosuch")
    ledger.close()


class Broken(World):
    """A batch system with a defect in what it does for one job."""

    def park(self, name: str, script: Path, words: Any, **named: Any) -> Any:
        if name == "mm-a-1":
            raise KeyError("a defect")
        return super().park(name, script, words, **named)

    def release(self, jobs: Sequence[tuple[str, str]]) -> Any:
        if "mm-b-1" in {name for _, name in jobs}:
            raise OverflowError("another defect")
        return super().release(jobs)


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_defect_with_one_job_does_not_stop_the_others(
    ledger: Any, script: Path, parallel: int
) -> None:
    world = Broken(length=50.0)
    made = mm.delegation.Delegator(
        ledger, world, world, parallel=parallel, clock=lambda: world.now
    )  # fmt: skip
    lost = made.submit(AD, script, key="a")
    assert lost.state is State.UNKNOWN
    assert "KeyError: 'a defect'" in lost.reason
    for key in "bc":
        made.submit(AD, script, key=key)
    troubles: list[tuple[str, str]] = []
    for _ in range(3):
        world.pass_time(12.0)
        troubles += made.reconcile().troubles
    assert ("b", "release: OverflowError: another defect") in troubles
    assert made.job("c").state is State.RUNNING


@pytest.mark.parametrize("lease", [1e300, 2e9, float("nan"), 0.0])
def test_a_lease_has_a_bound(made: mm.delegation.Delegator, world: World, ledger: Any,
                             script: Path, lease: float) -> None:  # fmt: skip
    with pytest.raises(ValueError, match="a lease is a number of seconds above 0"):
        made.submit(AD, script, key="k", lease=lease)
    with pytest.raises(ValueError, match="lease must be a number above 0"):
        Deadlines(lease=lease)
    assert ledger.find("k") is None
    made.submit(AD, script, key="k", lease=1e9)
    with pytest.raises(ValueError, match="a lease is a number of seconds above 0"):
        made.renew("k", lease)


def test_each_attempt_is_of_the_order_as_it_was_given(
    ledger: Any, world: World, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script is gone, and somebody else looks from elsewhere, with another environment."""
    spool = SharedSpool(tmp_path / "spool")
    monkeypatch.setenv("OF_THE_ORDER", "yes")
    monkeypatch.setenv("CLASSAD_BINDER_TOKEN", "secret")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    world.faults = {"park": ["nothing"]}
    first = mm.delegation.Delegator(ledger, world, spool, clock=lambda: world.now)
    assert first.submit(AD, script, key="k").state is State.UNKNOWN
    script.unlink()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OF_THE_ORDER")
    monkeypatch.setenv("OF_ANOTHER", "yes")
    other = mm.delegation.Delegator(
        ledger, world, SharedSpool(tmp_path / "other"), clock=lambda: world.now
    )
    for _ in range(12):
        world.pass_time(12.0)
        other.reconcile()
    assert len(world.parked) >= 2
    for directory, environment in world.parked:
        assert directory == str(home)
        assert environment["OF_THE_ORDER"] == "yes"
        assert "OF_ANOTHER" not in environment
        assert "CLASSAD_BINDER_TOKEN" not in environment
    room = tmp_path / "spool" / "k" / "2"
    assert (room / "payload").read_text() == "#!/bin/sh\n"
    assert f"directory={home}" in (room / "start.sh").read_text()
    assert not (tmp_path / "other").exists(), "a job keeps the spool that it was given"


def test_a_spool_that_nodes_do_not_share_is_named(world: World, ledger: Any, tmp_path: Path,
                                                  script: Path) -> None:  # fmt: skip
    """The nodes write their records elsewhere: jobs end, and no start is on record here."""
    ours = SharedSpool(tmp_path / "spool")
    made = mm.delegation.Delegator(ledger, world, ours, clock=lambda: world.now)
    made.submit(AD, script, key="k")
    looks(world, made, 100, 120)
    job = made.job("k")
    assert job.state is State.PAUSED
    assert job.attempt == 8
    assert "is the spool shared with the nodes?" in job.reason
    assert world.starts["k"] == 0


def test_a_silent_owner_loses_the_job(made: mm.delegation.Delegator, world: World,
                                      script: Path) -> None:  # fmt: skip
    world.length = 10_000.0
    made.submit(AD, script, key="k", lease=300.0)
    looks(world, made, 4)
    assert made.job("k").state is State.RUNNING
    made.renew("k")
    looks(world, made, 20)
    assert made.job("k").state is State.RUNNING
    looks(world, made, 10)
    assert made.job("k").state is State.CANCELLED
    assert "its lease ran out" in made.job("k").reason
    assert not world.runs


def test_a_renewal_that_the_job_may_not_know_is_an_error(
    made: mm.delegation.Delegator, world: World, script: Path
) -> None:
    world.length = 10_000.0
    made.submit(AD, script, key="k", lease=300.0)
    looks(world, made, 4)
    world.faults = {"renew": ["nothing"]}
    with pytest.raises(mm.delegation.UnansweredError, match=r"k: .* renew it again"):
        made.renew("k", 9000.0)
    made.renew("k")
    assert world.files["k", 1].lease_until == world.now + 9000.0


def test_a_renewal_before_the_commit_is_on_record_counts(
    ledger: Any, script: Path, tmp_path: Path
) -> None:
    """Between the committed row and the commit's record: the job must get the new lease."""
    world = World()
    spool = SharedSpool(tmp_path / "spool")
    made, owner = (
        mm.delegation.Delegator(ledger, world, spool, clock=lambda: world.now) for _ in "12"
    )
    made.submit(AD, script, key="k", lease=300.0)
    world.pass_time(12)
    real = SharedSpool.commit

    def late(
        self: SharedSpool, key: str, attempt: int, seconds: float, length: float | None = None
    ) -> Any:
        with pytest.MonkeyPatch.context() as again:
            again.setattr(SharedSpool, "commit", real)
            owner.renew("k", 90_000.0)
        return real(self, key, attempt, seconds, length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedSpool, "commit", late)
        made.reconcile()
    assert made.job("k").state is State.COMMITTED
    lease = (tmp_path / "spool" / "k" / "1" / "lease").stat().st_mtime
    assert lease - time.time() > 80_000


def test_a_script_that_changes_meanwhile_is_not_submitted(
    world: World, ledger: Any, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the spool is what the digest was made of."""
    real = SharedSpool.prepare

    def late(self: SharedSpool, *args: Any, **named: Any) -> Any:
        script.write_text("rm -rf /\n")
        return real(self, *args, **named)

    monkeypatch.setattr(SharedSpool, "prepare", late)
    made = mm.delegation.Delegator(
        ledger, world, SharedSpool(tmp_path / "spool"), clock=lambda: world.now
    )
    made.submit(AD, script, key="k")
    assert (tmp_path / "spool" / "k" / "1" / "payload").read_text() == "#!/bin/sh\n"


@pytest.mark.parametrize("forgets", [True, False])
def test_a_cancel_that_fails_goes_on_until_it_has_effect(
    ledger: Any, script: Path, *, forgets: bool
) -> None:
    world = World(length=5000.0)
    made = mm.delegation.Delegator(ledger, world, world, clock=lambda: world.now)
    made.submit(AD, script, key="k")
    world.faults = {"cancel": ["nothing"] * 6}
    made.cancel("k")
    for _ in range(5):
        world.pass_time(12)
        made.reconcile()
        assert made.job("k").state is State.CANCELLING
        assert made.job("k").deadline is not None
    world.faults = {}
    if forgets:
        world.jobs.clear()
    looks(world, made, 6)
    assert made.job("k").state is State.CANCELLED
    assert {job.phase for job in world.jobs.values()} <= {"cancelled"}


def test_two_ledgers_with_one_key_leave_each_others_jobs_alone(
    script: Path, tmp_path: Path
) -> None:
    """On one batch system, as the same user, under the same name."""
    world = World(length=500.0)
    one, two = (
        mm.delegation.Delegator(
            cast("Any", MemoryLedger()), world, SharedSpool(tmp_path / name),
            clock=lambda: world.now, owner="ana@ui",
        )
        for name in ("one", "two")
    )  # fmt: skip
    one.submit(AD, script, key="k")
    world.pass_time(1)
    two.submit(AD, script, key="k")
    number = one.job("k").remote_id
    two.cancel("k")
    looks(world, two, 6)
    assert two.job("k").state is State.CANCELLED
    assert world.jobs[number].phase == "parked"
    world.faults = {"park": ["lost", "lost"]}
    three = mm.delegation.Delegator(
        cast("Any", MemoryLedger()),
        world,
        SharedSpool(tmp_path / "three"),
        clock=lambda: world.now,
        owner="ana@ui",
    )
    assert three.submit(AD, script, key="k").state is State.UNKNOWN
    looks(world, three, 1)
    assert three.job("k").remote_id not in {"", number}


def test_a_silent_batch_system_is_waited_for(made: mm.delegation.Delegator, world: World,
                                             script: Path) -> None:  # fmt: skip
    made.submit(AD, script, key="k")
    looks(world, made, 2)
    world.faults = {"look": ["silent"] * 100}
    looks(world, made, 100)
    job = made.job("k")
    assert job.state is State.DONE, "by the record of its end"
    world.length, world.faults = 10_000.0, {}
    made.submit(AD, script, key="k2")
    looks(world, made, 4)
    world.faults = {"look": ["silent"] * 100}
    looks(world, made, 20, 60.0)
    job = made.job("k2")
    assert job.state is State.RUNNING
    assert "not seen for" in (mm.delegation.stuck(job, world.now) or "")


def test_a_rebuilt_ledger_goes_on(made: mm.delegation.Delegator, world: World, ledger: Any,
                                  script: Path) -> None:  # fmt: skip
    world.length = 100.0
    for key in ("runs", "parked", "ended"):
        made.submit(AD, script, key=key)
        looks(world, made, {"runs": 3, "parked": 0, "ended": 0}[key])
    ledger.rows.clear()
    ledger.payloads.clear()
    made.rebuild()
    looks(world, made, 15)
    assert {r.key: r.state for r in ledger.rows.values()} == dict.fromkeys(
        ("runs", "parked", "ended"), State.DONE
    )
    assert max(world.starts.values()) == 1


def test_a_job_whose_ledger_was_lost_does_not_start_again(world: World, ledger: Any, script: Path,
                                                          tmp_path: Path) -> None:  # fmt: skip
    """It is handed over again, and its second attempt is running: that one is taken."""
    spool = SharedSpool(tmp_path / "spool")
    made = mm.delegation.Delegator(ledger, world, spool, clock=lambda: world.now)
    world.faults = {"park": ["nothing"]}
    made.submit(AD, script, key="k")
    looks(world, made, 8)
    assert made.job("k").attempt == 2
    room = spool.root / "k" / "2"
    (room / "start").write_text("started n1\n")
    world.jobs.clear()
    ledger.rows.clear()
    ledger.payloads.clear()
    again = mm.delegation.Delegator(ledger, world, spool, clock=lambda: world.now)
    again.submit(AD, script, key="k")
    for _ in range(8):
        looks(world, again, 1)
        assert not (spool.root / "k" / "1" / "lease").exists()
    (room / "end").write_text("0 n1\n")
    looks(world, again, 2)
    assert (again.job("k").state, again.job("k").attempt) == (State.DONE, 2)


def test_an_old_spool_does_not_answer_for_another_job(world: World, ledger: Any, script: Path,
                                                      tmp_path: Path) -> None:  # fmt: skip
    spool = SharedSpool(tmp_path / "spool")

    def fresh() -> mm.delegation.Delegator:
        return mm.delegation.Delegator(
            type(ledger)(), world, spool, clock=lambda: world.now, owner="me"
        )

    fresh().submit(AD, script, key="k")
    assert spool.commit("k", 1, 60.0) is None
    room = tmp_path / "spool" / "k" / "1"
    (room / "start").write_text("7 node\n")
    (room / "end").write_text("0 0\n")
    world.jobs.clear()
    script.write_text("#!/bin/sh\nanother job\n")
    other = fresh()
    other.submit(AD, script, key="k", lease=300.0)
    assert "another job" in other.job("k").reason
    looks(world, other, 3)
    assert other.job("k").state is State.UNKNOWN
    assert other.job("k").exit is None
    other.cancel("k")
    looks(world, other, 60)
    assert other.job("k").state is State.CANCELLED
    other.acknowledge("k")
    assert (room / "start").read_text() == "7 node\n"


def test_jobs_of_other_ledgers_are_left_alone(made: mm.delegation.Delegator, world: World) -> None:
    world._new("mm-others-1", 900.0)
    world._new("unrelated", 900.0)
    assert made.reconcile().strangers == 1
    assert world.calls["cancel"] == 0


def test_two_clusters_of_a_kind_share_a_ledger(ledger: Any, script: Path) -> None:
    """What one does not show is not absent from the other."""
    here, there = World(length=50.0), World(length=50.0)
    one, two = (
        mm.delegation.Delegator(ledger, w, w, cluster=name, clock=lambda: here.now)
        for w, name in ((here, "a"), (there, "b"))
    )
    job = one.submit(AD, script, key="k")
    assert job.cluster == "faulty@a"
    for _ in range(10):
        there.pass_time(12)
        assert two.reconcile().live == 0
        looks(here, one, 1)
    assert one.job("k").state is State.DONE
    assert there.calls["park"] == 0
    with pytest.raises(ValueError, match="a key has 1 to 64"):
        mm.delegation.Delegator(ledger, here, here, cluster="a b")


def test_the_form_for_asyncio(made: mm.delegation.Delegator, world: World, script: Path) -> None:
    form = mm.delegation.AsyncDelegator(made)

    async def all_of_it() -> list[Record]:
        jobs = await asyncio.gather(*(form.submit(AD, script, key=f"k{n}") for n in range(4)))
        await form.cancel(jobs[0].key)
        for _ in range(8):
            world.pass_time(12)
            await form.reconcile()
        assert len(await form.history("k1")) == 5
        return [await form.acknowledge(job.key) for job in jobs]

    done = asyncio.run(all_of_it())
    assert [record.state for record in done] == [State.ACKNOWLEDGED] * 4
    assert world.starts.total() == 3
    public = {name for name in vars(mm.delegation.Delegator) if not name.startswith("_")}
    assert public <= vars(mm.delegation.AsyncDelegator).keys()


def test_effects_run_side_by_side(ledger: Any, world: World, script: Path) -> None:
    made = mm.delegation.Delegator(ledger, world, world, parallel=4, clock=lambda: world.now)
    for number in range(20):
        made.submit(AD, script, key=f"k{number}")
    world.pass_time(12)
    assert len(made.reconcile().moved) == 20
    looks(world, made, 8)
    assert {record.state for record in ledger.rows.values()} == {State.DONE}


# What a delegator of its own process does until it is killed: a fake sbatch takes its time.
CHILD = """
import sys, time
from collections.abc import Sequence
from pathlib import Path
import matchmaker as mm
from matchmaker.delegation.spool import SharedSpool
root = Path(sys.argv[1])
class Slow:
    name = "slow"
    def park(self, name, script, words, *, metadata, seconds, content):
        time.sleep(0.02)
        with (root / "queue").open("a") as file:
            file.write(f"{name}\\n")
        time.sleep(0.02)
        return "1"
ledger = mm.delegation.Ledger(root / "jobs.db")
made = mm.delegation.Delegator(ledger, Slow(), SharedSpool(root / "spool"))
print("ready", flush=True)
for n in range(100):
    made.submit(mm.parse_ad("[]"), root / "job.sh", key=f"k{n}")
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.01, 0.03, 0.05, 0.11, 0.2])
def test_a_killed_delegator_leaves_no_job_that_the_ledger_does_not_know(
    tmp_path: Path, script: Path, after: float
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(after)
        os.kill(child.pid, signal.SIGKILL)
    queue = tmp_path / "queue"
    names = queue.read_text().split() if queue.exists() else []
    assert len(names) == len(set(names))
    ledger = mm.delegation.Ledger(tmp_path / "jobs.db")
    assert ledger.check() == []
    known = {record.name: record for record in ledger.live()}
    assert set(names) <= known.keys()
    early = {record.name for record in known.values() if record.state is State.INTENT}
    assert len(early) <= 1
    for record in known.values():
        assert ledger.payload(record.key) is not None
        assert record.deadline is not None
    ledger.close()


def test_deadlines_are_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Deadlines().settle = 1.0  # type: ignore[misc]


def test_many_are_written_down_together(
    made: mm.delegation.Delegator, world: World, script: Path, ledger: Any
) -> None:
    """Of each the record or its error; of two with one key the first counts."""
    one = [Order(job=AD, script=script, key=f"k{n}") for n in range(3)]
    other = Order(job=mm.parse_ad("[]"), script=script, key="k0")
    gone = Order(job=AD, script="/none.sh", key="gone")
    first, second, third, taken, same, lost = made.submit_all([*one, other, one[0], gone])
    assert [each.key for each in (first, second, third) if isinstance(each, Record)] == [
        "k0", "k1", "k2",
    ]  # fmt: skip
    assert isinstance(taken, mm.delegation.KeyTakenError)
    assert isinstance(same, Record)
    assert isinstance(lost, OSError)
    assert world.calls["park"] == 3
    assert sorted(ledger.rows) == ["k0", "k1", "k2"]
    ledger.world, world.faults = world, {"ledger": ["", "fails"]}
    found = made.submit_all([Order(job=AD, script=script, key="a"), one[1]])
    assert isinstance(found[0], mm.delegation.UnfinishedError)
    assert isinstance(found[1], Record)
