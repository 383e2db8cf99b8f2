"""Jobs are handed over to a real Slurm while all of it breaks: each starts once, and none is lost.

The faults have the numbers of docs/delegation.md. After each, every job is followed to its end: its
payload has written one line for each start, and the ledger knows how it ended.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from matchmaker.delegation.commands import Commands
from matchmaker.delegation.control import load_control
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.ledger import Ledger
from matchmaker.delegation.record import Deadlines, ReasonCode
from matchmaker.delegation.record import JobState as State
from matchmaker.delegation.spool import SharedSpool
from tests.services.breakable import BreakableSlurm, breakable, breakable_with, two_nodes, until
from tests.services.daemons import ServiceUnavailable, program
from tests.services.delegating import QUICK, Room, tell
from tests.services.slurm import SlurmOracle

pytestmark = [pytest.mark.service, pytest.mark.slow]

told = pytest.fixture(scope="module", autouse=True)(tell)


@attrs.define
class SlurmRoom(Room):
    """Jobs on a Slurm that may break."""

    slurm: BreakableSlurm = attrs.field(kw_only=True)


def room_on(slurm: BreakableSlurm, folder: Path) -> SlurmRoom:
    real = {name: program(name) for name in ("sbatch", "squeue")}
    words = ("--output=/dev/null",)
    return SlurmRoom("slurm", folder, slurm.environment, words, real=real, slurm=slurm)


cluster = pytest.fixture(scope="module")(two_nodes)


@pytest.fixture
def room(cluster: BreakableSlurm, tmp_path: Path) -> Iterator[SlurmRoom]:
    made = room_on(cluster, tmp_path)
    yield made
    cluster.go_on()
    made.unwrap()
    cluster.command("scancel", "--me")
    made.add_up()


def test_no_fault_at_all(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "good")
    room.submit(d, "bad", "exit 3")
    good, bad = room.follow(d, "good", "bad")
    assert (good.state, good.exit) == (State.DONE, 0)
    assert (bad.state, bad.exit) == (State.FAILED, 3)
    assert room.starts("good") == room.starts("bad") == 1
    assert d.acknowledge("good").state is State.ACKNOWLEDGED
    # Under its own name, with the key and the ad in its metadata.
    said = room.slurm.command("scontrol", "show", "job", bad.remote_id)
    assert "JobName=mm-bad-1" in said
    assert "Comment=mark=" in said
    assert " ad=base64:" in said
    assert " key=bad " in said


# --- the client -----------------------------------------------------------------------------------


def test_1_to_5_the_client_is_killed_at_every_step(room: SlurmRoom) -> None:
    # Before and after each act, and in each transaction: write, submit, note, commit, release, end.
    assert room.killed_at_every_step() >= 16
    assert room.slurm.jobs() == []


def test_18_a_client_that_is_silent_past_the_hold_starts_nothing(room: SlurmRoom) -> None:
    d = room.delegator(hold=7.0, margin=1.0)
    room.submit(d, "k")
    until(lambda: room.slurm.jobs() == [], "the end of the job that nobody committed")
    assert room.starts("k") == 0
    # Back again, it goes on with another attempt.
    room.all_once(room.delegator())
    assert d.job("k").attempt == 2


def test_18_a_client_that_is_silent_past_the_lease_stops_its_job(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "exec sleep 600", lease=8.0)
    room.follow(d, "k", to=(State.RUNNING,))
    until(lambda: room.slurm.jobs() == [], "the end of the job with its lease")
    (record,) = room.follow(room.delegator(), "k")
    assert (record.state, record.exit) in ((State.FAILED, 143), (State.CANCELLED, 143))
    assert room.starts("k") == 1


def test_18_a_renewed_lease_keeps_its_job(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "sleep 8", lease=6.0)
    room.follow(d, "k", to=(State.RUNNING,))
    d.renew("k", 60.0)
    room.all_once(d)


REFUSED = {
    "--partition=nope": "Invalid partition name specified",
    "--time=soon": "Invalid --time specification",
    "--mem=900000M": "Memory specification can not be satisfied",
    "--constraint=nope": "Invalid feature specification",
    "--nodes=x": "is not a valid node count",
    "--hint=nope": "unrecognized --hint argument",
    "--nodelist=nope": "Invalid node name specified",
}


@pytest.mark.parametrize("word", REFUSED)
def test_21_a_definite_refusal_fails_at_once_in_slurms_words(room: SlurmRoom, word: str) -> None:
    d = room.delegator()
    room.words = (*room.words, word)
    made = room.submit(d, "k")
    assert (made.state, made.code, made.attempt) == (State.FAILED, ReasonCode.REFUSED, 1)
    assert REFUSED[word] in made.reason


def test_22_a_partition_in_maintenance_fails_nothing(room: SlurmRoom) -> None:
    """INACTIVE refuses submissions for a while; with DOWN jobs wait. Both end well afterwards."""
    d = room.delegator(backoff=0.5, backoff_most=1.0, attempts=3)
    name = "PartitionName=main"
    room.slurm.command("scontrol", "update", name, "State=INACTIVE")
    try:
        made = room.submit(d, "k")
        assert made.code is ReasonCode.NO_ANSWER
        assert "Required partition not available" in made.reason
        (paused,) = room.follow(d, "k", to=(State.PAUSED,))
        assert (paused.attempt, paused.code) == (3, ReasonCode.NO_ANSWER)
        assert "Required partition not available" in paused.reason
        room.slurm.command("scontrol", "update", name, "State=DOWN")
        room.submit(d, "down")
        room.follow(d, "down", to=(State.COMMITTED,))
    finally:
        room.slurm.command("scontrol", "update", name, "State=UP")
    assert d.resume("k").attempt == 4
    room.all_once(d)


def test_23_a_controller_that_is_long_away_fails_nothing(room: SlurmRoom) -> None:
    d = room.delegator(backoff=0.5, backoff_most=1.0, attempts=2)
    room.slurm.saved()
    room.slurm.kill()
    room.submit(d, "k")
    for _ in range(5):
        time.sleep(1.0)
        d.reconcile()
    assert d.job("k").state is State.UNKNOWN
    assert d.job("k").attempt == 1
    room.slurm.start()
    room.all_once(d)


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ("sleep 300", ("--time=0:01",), ReasonCode.TIMEOUT),
        ("exit 3", (), ReasonCode.EXIT_STATUS),
        ("kill -SEGV $$", (), ReasonCode.SIGNAL),
    ],
)
def test_24_why_it_ended_has_a_code(
    room: SlurmRoom, text: str, words: tuple[str, ...], code: ReasonCode
) -> None:
    d = room.delegator()
    room.words = (*room.words, *words)
    room.submit(d, "k", text)
    (made,) = room.follow(d, "k", seconds=120.0)
    assert (made.state, made.code) == (State.FAILED, code), made.reason


def test_24_a_job_that_a_person_cancels_says_so(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "sleep 300")
    (runs,) = room.follow(d, "k", to=(State.RUNNING,))
    room.slurm.command("scancel", runs.remote_id)
    (made,) = room.follow(d, "k")
    assert (made.state, made.code) == (State.FAILED, ReasonCode.CANCELLED), made.reason


def test_25_a_rebuild_leaves_another_ledgers_job_alone(room: SlurmRoom) -> None:
    """And a lost ledger finds its own again, by the mark that it had."""
    d = room.delegator()
    room.submit(d, "k", "sleep 20")
    (before,) = room.follow(d, "k", to=(State.RUNNING,))
    system = Commands(load_control("slurm"), environment=room.site)
    times = Deadlines(**{**QUICK, "lease": 1.0})  # type: ignore[arg-type]
    other = Delegator(Ledger(room.folder / "b.db"), system, room.folder / "b", deadlines=times)
    assert isinstance(SharedSpool(room.folder / "b").ready(), Path)
    assert other.rebuild().strangers == 1
    time.sleep(2.0)
    assert other.reconcile().live == 0
    d.reconcile()
    assert d.job("k").state is State.RUNNING
    (room.folder / "jobs.db").unlink()
    again = room.delegator()
    again.rebuild()
    assert again.job("k").mark == before.mark
    room.all_once(again)


def test_17_two_delegators_on_one_ledger(room: SlurmRoom) -> None:
    first, second = room.delegator(), room.delegator(parallel=4)
    for number in range(6):
        room.submit((first, second)[number % 2], f"k{number}")
    end = threading.Event()

    def reconcile(delegator: Delegator) -> None:
        while not end.is_set():
            delegator.reconcile()

    threads = [threading.Thread(target=reconcile, args=(d,)) for d in (first, second)]
    for thread in threads:
        thread.start()
    try:
        room.all_once(room.delegator())
    finally:
        end.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("off", [3600.0, -3600.0])
def test_19_a_clock_an_hour_off(room: SlurmRoom, off: float) -> None:
    d = room.delegator(clock=lambda: time.time() + off)
    room.submit(d, "k1")
    room.all_once(d)
    # Handed over by one clock, followed by another.
    room.submit(d, "k2")
    room.all_once(room.delegator())


@pytest.mark.parametrize("off", [3600, -3600])
def test_19_the_clock_of_a_node_is_an_hour_off(room: SlurmRoom, off: int) -> None:
    """A lease ends by the clock of the storage."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        pytest.skip("no faketime here (`make test` installs it where it may)")
    d = room.delegator()
    # With FAKE_UTIME a file that is touched still gets its time from the storage.
    clock = f"LD_PRELOAD={library},FAKETIME={off:+}s,FAKE_UTIME=1"
    room.words = (*room.words, f"--export=ALL,{clock}")
    room.submit(d, "k", f"date +%s >{room.folder}/date; sleep 4", lease=20.0)
    room.all_once(d)
    assert abs(int((room.folder / "date").read_text()) - time.time() - off) < 600


# --- sbatch ---------------------------------------------------------------------------------------


def test_6_sbatch_is_killed(room: SlurmRoom) -> None:
    d = room.delegator()
    for number, delay in enumerate((0.003, 0.006, 0.01, 0.02, 0.04, 0.06)):
        room.wrap("sbatch", f'"$real" "$@" & sleep {delay}; kill -9 $!; exit 137')
        room.submit(d, f"k{number}")
    room.unwrap()
    room.all_once(d)


def test_6_the_reply_of_sbatch_is_lost(room: SlurmRoom) -> None:
    d = room.delegator()
    room.wrap("sbatch", '"$real" "$@" >/dev/null; exit 1')
    assert room.submit(d, "k").state is State.UNKNOWN
    room.all_once(d)
    assert d.job("k").attempt == 1


def test_7_sbatch_meets_a_stopped_controller(room: SlurmRoom) -> None:
    d = room.delegator()
    room.slurm.stop()
    assert room.submit(d, "k").state is State.UNKNOWN
    room.slurm.go_on()
    room.all_once(d)


def test_8_sbatch_runs_twice(room: SlurmRoom) -> None:
    d = room.delegator()
    room.wrap("sbatch", '"$real" "$@" >/dev/null; exec "$real" "$@"')
    room.submit(d, "k1")
    room.wrap("sbatch", '"$real" "$@" >/dev/null; "$real" "$@" >/dev/null; exit 1')
    room.submit(d, "k2")
    assert room.slurm.jobs() == ["mm-k1-1", "mm-k1-1", "mm-k2-1", "mm-k2-1"]
    room.all_once(d)
    until(lambda: room.slurm.jobs() == [], "the end of the second ones")


# --- slurmctld ------------------------------------------------------------------------------------


def test_9_the_controller_is_killed_within_4_s_and_uses_the_id_again(room: SlurmRoom) -> None:
    """With the true wait before the commit: what was acknowledged is lost, and nothing started."""
    d = room.delegator(settle=10.0)
    room.slurm.just_saved()
    record = room.submit(d, "k")
    assert record.state is State.PREPARED
    room.slurm.kill()
    room.slurm.start()
    assert room.slurm.jobs() == []
    # A job of ours that is no job of the ledger's takes the id.
    again = room.slurm.command(
        "sbatch", "--parsable", "--hold", "--job-name=innocent", "--wrap", "true"
    )
    assert again.strip() == record.remote_id
    room.all_once(d)
    assert d.job("k").attempt == 2, d.history("k")
    assert d.job("k").remote_id != record.remote_id
    said = room.slurm.command("squeue", "-h", "-o", "%i %j %T")
    assert f"{record.remote_id} innocent PENDING" in said


def test_10_the_controller_is_killed_after_it_saved_its_state(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "k")
    room.slurm.saved()
    room.slurm.kill()
    assert d.reconcile().silence
    room.slurm.start()
    room.all_once(d)
    assert d.job("k").attempt == 1


def test_11_the_controller_is_killed_during_a_run(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "sleep 10")
    room.follow(d, "k", to=(State.RUNNING,))
    # A controller that has not saved that it runs would cancel it.
    room.slurm.just_saved()
    room.slurm.kill()
    assert d.reconcile().silence
    # The record of its end counts though Slurm is silent.
    assert d.job("k").state in (State.RUNNING, State.DONE)
    room.slurm.start()
    room.all_once(d)


def test_12_the_controller_forgets_everything(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "parked")
    room.submit(d, "runs", "sleep 4", lease=20.0)
    room.follow(d, "runs", to=(State.RUNNING,))
    room.submit(d, "later")
    room.slurm.kill()
    room.slurm.start("-c")
    for record in room.follow(d, *room.keys):
        # The node ends jobs that the controller does not know, even a new one that has the id of
        # such a one. Whether ours was quicker is chance; what Slurm ended nobody submits again.
        ended = record.state in (State.FAILED, State.LOST)
        assert ended or record.state is State.DONE
        assert record.reason or not ended
        assert room.starts(record.key) == 1 or (ended and record.key != "runs")
        assert room.starts(record.key) <= 1
    # Jobs of later tests shall have none of these ids.
    for _ in range(6):
        made = room.slurm.command("sbatch", "--parsable", "--hold", "--wrap", "true")
        room.slurm.command("scancel", made.strip())


# --- squeue ---------------------------------------------------------------------------------------


def test_13_squeue_gets_no_answer(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "parked")
    room.submit(d, "runs", "sleep 5")
    room.follow(d, "runs", to=(State.RUNNING,))
    room.slurm.stop()
    assert "squeue" in d.reconcile().silence
    for key in room.keys:
        # The record of an end counts though Slurm is silent; nothing else does.
        record = d.job(key)
        assert record.attempt == 1
        assert record.state in (State.PREPARED, State.COMMITTED, State.RUNNING, State.DONE)
    room.slurm.go_on()
    room.all_once(d)


def test_14_squeue_is_cut_short(room: SlurmRoom) -> None:
    """Whatever is left of its output: no job is taken for gone."""
    d = room.delegator(absent=0.001)
    for number in range(3):
        room.submit(d, f"k{number}", "sleep 1")
    for lost in (*range(2, 400, 37), 9999):
        room.wrap("squeue", f'"$real" "$@" 2>/dev/null | head -c -{lost}')
        assert d.reconcile().silence
        assert all(d.job(key).absent_since is None for key in room.keys)
    room.unwrap()
    room.all_once(d)
    assert {d.job(key).attempt for key in room.keys} == {1}


def test_15_slurm_forgets_a_job_that_has_ended(tmp_path: Path) -> None:
    try:
        with breakable(min_age=2) as slurm:
            room = room_on(slurm, tmp_path)
            d = room.delegator()
            room.submit(d, "good")
            room.submit(d, "bad", "exit 3")
            room.follow(d, "good", "bad", to=(State.COMMITTED, State.RUNNING))
            d.reconcile()
            until(lambda: slurm.command("squeue", "-h", "-t", "all") == "", "that it forgets")
            good, bad = room.follow(d, "good", "bad")
            assert (good.state, bad.state, bad.exit) == (State.DONE, State.FAILED, 3)
            assert room.starts("good") == room.starts("bad") == 1
            room.add_up()
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm here: {error}")


def test_16_a_job_starts_and_ends_between_two_looks(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "k")
    room.follow(d, "k", to=(State.COMMITTED,))
    until(lambda: room.slurm.jobs() == [], "its end")
    d.reconcile()
    assert d.job("k").state is State.DONE
    assert [entry.target for entry in d.history("k")][-2:] == ["committed", "done"]


# --- nodes, requeues and cancels ------------------------------------------------------------------


def test_20_a_requeued_job_does_not_start_again(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "sleep 3")
    (record,) = room.follow(d, "k", to=(State.RUNNING,))
    # Ours says --no-requeue; an administrator may still.
    room.slurm.command("scontrol", "update", f"JobId={record.remote_id}", "Requeue=1")
    room.slurm.command("scontrol", "requeue", record.remote_id)
    (record,) = room.follow(d, "k", to=(State.FAILED, State.DONE, State.CANCELLED, State.LOST))
    assert room.starts("k") == 1


def test_20_a_node_is_lost(room: SlurmRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "exec sleep 600", lease=40.0)
    (record,) = room.follow(d, "k", to=(State.RUNNING,))
    node = room.slurm.command("squeue", "-h", "-j", record.remote_id, "-o", "%N").strip()
    try:
        room.slurm.lose_node(node)
        (record,) = room.follow(d, "k")
        assert record.state in (State.FAILED, State.LOST, State.CANCELLED)
        assert record.reason
        assert room.starts("k") == 1
    finally:
        room.slurm.start_node(node)


def test_20_a_cancel_races_the_start(room: SlurmRoom) -> None:
    d = room.delegator(parallel=2)
    for number in range(6):
        room.submit(d, f"k{number}", "sleep 2")
    room.follow(d, *room.keys, to=(State.COMMITTED, State.RUNNING))
    for number in range(6):
        time.sleep(0.4)
        d.cancel(f"k{number}")
    for record in room.follow(d, *room.keys):
        assert record.state in (State.CANCELLED, State.DONE)
        assert room.starts(record.key) <= 1
    until(lambda: room.slurm.jobs() == [], "that nothing is left")


RENAMES = """
function slurm_job_submit(job, partitions, uid)
    job.name = "site-" .. uid .. "-" .. string.sub(job.name, 1, 4)
    return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
slurm.user_msg = ""
return slurm.SUCCESS
"""


@contextlib.contextmanager
def renaming(oracle: SlurmOracle) -> Iterator[None]:
    """A site's job_submit plugin that gives each job a name of its own."""
    conf = oracle.folder / "slurm.conf"
    conf.write_text(f"JobSubmitPlugins=lua\n{conf.read_text()}")
    (oracle.folder / "job_submit.lua").write_text(RENAMES)
    yield


def test_26_a_plugin_of_the_site_that_renames_jobs_hides_none(tmp_path: Path) -> None:
    """By name alone, each submission seemed absent, and five parked copies were left."""
    try:
        with breakable_with(renaming, ("n1",)) as (slurm, _):
            room = room_on(slurm, tmp_path)
            d = room.delegator()
            room.submit(d, "k")
            room.submit(d, "ended", "sleep 300")
            room.wrap("sbatch", '"$real" "$@" >/dev/null; exit 1')
            room.submit(d, "lost-reply")
            room.unwrap()
            room.follow(d, "ended", to=(State.RUNNING,))
            shown = slurm.command("squeue", "-h", "-o", "%j %i").split()
            assert any(name.startswith("site-") for name in shown)
            assert not any(name.startswith("mm-") for name in shown)
            d.cancel("ended")
            assert [r.state for r in room.follow(d, "ended")] == [State.CANCELLED]
            for record in room.follow(d, "k", "lost-reply"):
                assert (record.state, record.attempt) == (State.DONE, 1)
                assert room.starts(record.key) == 1
            until(lambda: slurm.command("squeue", "-h") == "", "an empty queue")
            room.add_up()
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm here: {error}")
