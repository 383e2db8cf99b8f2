"""Jobs are handed over to a real Grid Engine while it breaks: each starts once, and none is lost.

The faults have the numbers of docs/delegation.md; those that are Slurm's own are not here.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from matchmaker.delegation.record import JobState as State
from matchmaker.delegation.record import ReasonCode
from tests.services.breakable import until
from tests.services.daemons import ServiceUnavailable
from tests.services.delegating import Room, tell
from tests.services.gridengine import LIBRARY, GridEngine, RefusedError, working

pytestmark = [pytest.mark.service, pytest.mark.slow]

told = pytest.fixture(scope="module", autouse=True)(tell)


@attrs.define
class EngineRoom(Room):
    """Jobs on a Grid Engine whose master may be killed."""

    engine: GridEngine = attrs.field(kw_only=True)
    stack: contextlib.ExitStack = attrs.field(kw_only=True)

    def kill(self) -> None:
        (process,) = self.engine.process
        process.kill()
        process.wait()

    def start(self) -> None:
        self.engine.start(self.stack)

    def queued(self) -> list[str]:
        text = self.engine.run(["qstat", "-xml", "-u", "*"])
        return [part.partition("<")[0] for part in text.split("<JB_name>")[1:]]


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[GridEngine, contextlib.ExitStack]]:
    try:
        with contextlib.ExitStack() as stack, working() as made:
            yield made, stack
    except ServiceUnavailable as error:
        pytest.skip(f"no Grid Engine here: {error}")


@pytest.fixture
def room(engine: tuple[GridEngine, contextlib.ExitStack], tmp_path: Path) -> Iterator[EngineRoom]:
    made, stack = engine
    environment = {**made.environment, "PATH": f"{LIBRARY}:{made.environment['PATH']}"}
    real = {name: str(LIBRARY / name) for name in ("qsub", "qstat")}
    words = ("-o", "/dev/null", "-j", "y")
    room = EngineRoom("sge", tmp_path, environment, words, real=real, engine=made, stack=stack)
    yield room
    room.unwrap()
    room.add_up()

    def emptied() -> bool:
        with contextlib.suppress(RefusedError):
            made.run(["qdel", "-f", "*"])
        return room.queued() == []

    # The next test has jobs of the same names: nothing of these may be left.
    until(emptied, "that the queue is empty")


def test_no_fault_at_all(room: EngineRoom) -> None:
    d = room.delegator()
    room.submit(d, "good", "#$ -N other")
    record = room.submit(d, "bad", "exit 3")
    said = room.engine.run(["qstat", "-j", record.remote_id])
    assert "mm-bad-1" in said
    assert "classad_key=bad" in said
    good, bad = room.follow(d, "good", "bad")
    assert (good.state, good.exit) == (State.DONE, 0)
    assert (bad.state, bad.exit) == (State.FAILED, 3)
    assert room.starts("good") == room.starts("bad") == 1


def test_1_to_5_the_client_is_killed_at_every_step(room: EngineRoom) -> None:
    assert room.killed_at_every_step() >= 16


def test_6_qsub_is_killed(room: EngineRoom) -> None:
    d = room.delegator()
    for number, delay in enumerate((0.003, 0.006, 0.01, 0.02, 0.04, 0.06)):
        room.wrap("qsub", f'"$real" "$@" & sleep {delay}; kill -9 $!; exit 137')
        room.submit(d, f"k{number}")
    room.unwrap()
    room.all_once(d)


def test_6_the_reply_of_qsub_is_lost(room: EngineRoom) -> None:
    d = room.delegator()
    room.wrap("qsub", '"$real" "$@" >/dev/null; exit 1')
    assert room.submit(d, "k").state is State.UNKNOWN
    room.all_once(d)
    assert d.job("k").attempt == 1


REFUSED = {
    ("-q", "nope"): 'requests unknown queue "nope"',
    ("-P", "nope"): 'the requested project "nope" does not exist',
    ("-l", "nosuch=1"): 'unknown resource "nosuch"',
    ("-l", "h_vmem=oops"): "is not a memory value",
    ("-pe", "nope", "2"): 'the requested parallel environment "nope" does not exist',
    ("-dl", "203001010000"): "is not a deadline initiation user",
    ("-a", "nonsense"): "Wrong date/time format",
    ("-l", "mem_free=900T", "-w", "e"): "no suitable queues",
}


@pytest.mark.parametrize("words", REFUSED)
def test_21_a_definite_refusal_fails_at_once_in_the_masters_words(
    room: EngineRoom, words: tuple[str, ...]
) -> None:
    d = room.delegator()
    room.words = (*room.words, *words)
    made = room.submit(d, "k")
    assert (made.state, made.code, made.attempt) == (State.FAILED, ReasonCode.REFUSED, 1)
    assert REFUSED[words] in made.reason


def test_23_a_master_that_is_away_fails_nothing(room: EngineRoom) -> None:
    d = room.delegator(backoff=0.5, backoff_most=1.0, attempts=2)
    # The accounting has no file before a job has ended.
    room.submit(d, "before")
    room.all_once(d)
    room.kill()
    made = room.submit(d, "k")
    room.start()
    assert (made.state, made.code) == (State.UNKNOWN, ReasonCode.NO_ANSWER)
    room.all_once(d)


def test_8_qsub_runs_twice(room: EngineRoom) -> None:
    d = room.delegator()
    room.wrap("qsub", '"$real" "$@" >/dev/null; exec "$real" "$@"')
    room.submit(d, "k1")
    room.wrap("qsub", '"$real" "$@" >/dev/null; "$real" "$@" >/dev/null; exit 1')
    room.submit(d, "k2")
    room.all_once(d)
    until(lambda: room.queued() == [], "the end of the second ones")


def test_9_the_master_is_killed_at_once_after_the_reply(room: EngineRoom) -> None:
    """It writes a job down before it acknowledges it."""
    d = room.delegator()
    room.submit(d, "k")
    room.kill()
    assert d.reconcile().silence
    room.start()
    room.all_once(d)
    assert d.job("k").attempt == 1


def test_11_the_master_is_killed_during_a_run(room: EngineRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "sleep 4")
    room.follow(d, "k", to=(State.RUNNING,))
    room.kill()
    assert d.reconcile().silence
    until((room.spool.root / "k" / "1" / "end").exists, "its end")
    room.start()
    room.all_once(d)


def test_13_qstat_gets_no_answer(room: EngineRoom) -> None:
    d = room.delegator(seconds=2.0)
    room.submit(d, "k")
    (process,) = room.engine.process
    process.send_signal(signal.SIGSTOP)
    try:
        assert "qstat" in d.reconcile().silence
        assert d.job("k").state is State.PREPARED
    finally:
        process.send_signal(signal.SIGCONT)
    room.all_once(d)


def test_14_qstat_is_cut_short(room: EngineRoom) -> None:
    d = room.delegator(absent=0.001)
    for number in range(2):
        room.submit(d, f"k{number}")
    for lost in (*range(10, 400, 43), 9999):
        room.wrap("qstat", f'"$real" "$@" 2>/dev/null | head -c -{lost}')
        assert d.reconcile().silence
        assert all(d.job(key).absent_since is None for key in room.keys)
    room.unwrap()
    room.all_once(room.delegator())
    assert {d.job(key).attempt for key in room.keys} == {1}


def test_16_a_job_starts_and_ends_between_two_looks(room: EngineRoom) -> None:
    d = room.delegator()
    room.submit(d, "k")
    room.follow(d, "k", to=(State.COMMITTED,))
    until(lambda: room.queued() == [], "its end")
    d.reconcile()
    assert d.job("k").state is State.DONE


def test_18_a_client_that_is_silent_past_the_lease_stops_its_job(room: EngineRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "exec sleep 600", lease=8.0)
    room.follow(d, "k", to=(State.RUNNING,))
    until(lambda: room.queued() == [], "the end of the job with its lease")
    (record,) = room.follow(room.delegator(), "k")
    assert (record.state, record.exit) in ((State.FAILED, 143), (State.CANCELLED, 143))
    assert room.starts("k") == 1


def test_20_a_cancel_races_the_start(room: EngineRoom) -> None:
    d = room.delegator(parallel=2)
    for number in range(4):
        room.submit(d, f"k{number}", "sleep 2")
    room.follow(d, *room.keys, to=(State.COMMITTED, State.RUNNING))
    for number in range(4):
        time.sleep(0.4)
        d.cancel(f"k{number}")
    for record in room.follow(d, *room.keys):
        assert record.state in (State.CANCELLED, State.DONE)
        assert room.starts(record.key) <= 1
    until(lambda: room.queued() == [], "that nothing is left")
