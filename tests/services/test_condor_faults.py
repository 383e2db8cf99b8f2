"""Jobs are handed over to a real HTCondor while it breaks: each starts once, and none is lost.

The faults have the numbers of docs/delegation.md; those that are Slurm's own are not here. HTCondor
runs nothing as root: its commands and jobs are an ordinary user's, to whom the spool is given.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator

import attrs
import pytest

from matchmaker.delegation.record import JobState as State
from matchmaker.delegation.record import ReasonCode
from tests.services.breakable import until
from tests.services.condor import Machine, Pool, RefusedError, pool
from tests.services.daemons import ServiceUnavailable
from tests.services.delegating import Room, tell
from tests.services.given import GivenSpool

pytestmark = [pytest.mark.service, pytest.mark.slow]

told = pytest.fixture(scope="module", autouse=True)(tell)


@attrs.define
class PoolRoom(Room):
    """Jobs on a pool whose schedd may be killed."""

    pool: Pool = attrs.field(kw_only=True)

    def kill_schedd(self) -> None:
        """Kills the schedd, which the master starts again after a while."""
        address = self.pool.run("condor_status", "-schedd", "-af", "MyAddress")
        (self.pool.folder / "log" / ".schedd_address").unlink(missing_ok=True)
        text = (self.pool.folder / "log" / "MasterLog").read_text()
        (number,) = re.findall(r'Started DaemonCore process ".*condor_schedd", pid.*= (\d+)', text)[
            -1:
        ]
        assert address
        os.kill(int(number), signal.SIGKILL)

    def queued(self) -> list[str]:
        return self.pool.run("condor_q", "-af", "JobBatchName").split()


@pytest.fixture(scope="module")
def made() -> Iterator[Pool]:
    try:
        with pool([Machine("m1", cpus=2), Machine("m2", cpus=2)]) as running:
            yield running
    except ServiceUnavailable as error:
        pytest.skip(f"no HTCondor here: {error}")


@pytest.fixture
def room(made: Pool) -> Iterator[PoolRoom]:
    # A folder that the jobs' user may pass through, which pytest's own are not.
    folder = made.folder / f"test-{time.monotonic_ns()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    real = {name: str(made.folder / "bin" / name) for name in ("condor_submit", "condor_q")}
    room = PoolRoom(
        "htcondor", folder, made.environment, spool=GivenSpool(folder / "our spool", grace=1),
        real=real, pool=made,
    )  # fmt: skip
    yield room
    room.unwrap()
    room.add_up()
    # The next test has jobs of the same names: nothing of these may be left.
    until(lambda: emptied(made), "that the queue is empty")


def emptied(made: Pool) -> bool:
    """Removes every job; whether the schedd answers, and has none."""
    try:
        for words in (("-all",), ("-all", "-forcex")):
            with contextlib.suppress(RefusedError):
                made.run("condor_rm", *words)
        return made.run("condor_q", "-af", "ClusterId") == ""
    except RefusedError:
        return False


def test_no_fault_at_all(room: PoolRoom) -> None:
    d = room.delegator()
    room.submit(d, "good")
    record = room.submit(d, "bad", "exit 3")
    carried = room.pool.run("condor_q", record.remote_id, "-af", "JobBatchName", "ClassAdKey")
    assert carried.split() == ["mm-bad-1", "bad"]
    good, bad = room.follow(d, "good", "bad")
    assert (good.state, good.exit) == (State.DONE, 0)
    assert (bad.state, bad.exit) == (State.FAILED, 3)
    assert room.starts("good") == room.starts("bad") == 1


def test_6_condor_submit_is_killed(room: PoolRoom) -> None:
    d = room.delegator()
    for number, delay in enumerate((0.003, 0.01, 0.03, 0.06)):
        room.wrap("condor_submit", f'"$real" "$@" & sleep {delay}; kill -9 $!; exit 137')
        room.submit(d, f"k{number}")
    room.unwrap()
    room.all_once(d)


def test_6_the_reply_of_condor_submit_is_lost(room: PoolRoom) -> None:
    d = room.delegator()
    room.wrap("condor_submit", '"$real" "$@" >/dev/null; exit 1')
    assert room.submit(d, "k").state is State.UNKNOWN
    room.all_once(d)
    assert d.job("k").attempt == 1


REFUSED = {
    "+x = ((": "Parse error in expression",
    "accounting_group = bad group": "Invalid accounting_group",
    "priority = high": "is invalid, must eval to an integer",
    'arguments = "a': "Unterminated double-quote",
    "initialdir = /none": "No such directory",
}


@pytest.mark.parametrize("line", REFUSED)
def test_21_a_definite_refusal_fails_at_once_in_condors_words(room: PoolRoom, line: str) -> None:
    d = room.delegator()
    room.words = (*room.words, "-append", line)
    made = room.submit(d, "k")
    assert (made.state, made.code, made.attempt) == (State.FAILED, ReasonCode.REFUSED, 1)
    assert REFUSED[line] in made.reason


def test_8_condor_submit_runs_twice(room: PoolRoom) -> None:
    d = room.delegator()
    room.wrap("condor_submit", '"$real" "$@" >/dev/null; exec "$real" "$@"')
    room.submit(d, "k1")
    room.wrap("condor_submit", '"$real" "$@" >/dev/null; "$real" "$@" >/dev/null; exit 1')
    room.submit(d, "k2")
    room.all_once(d)
    until(lambda: room.queued() == [], "the end of the second ones")


def test_9_the_schedd_is_killed_at_once_after_the_reply(room: PoolRoom) -> None:
    """It writes a job down before it acknowledges it."""
    d = room.delegator()
    room.submit(d, "k")
    room.kill_schedd()
    room.all_once(d)
    assert d.job("k").attempt == 1


def test_11_the_schedd_is_killed_during_a_run(room: PoolRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "sleep 5")
    room.follow(d, "k", to=(State.RUNNING,))
    room.kill_schedd()
    (record,) = room.follow(d, "k")
    # Its shadow may end with the schedd here, and the job with its shadow.
    assert (record.state, record.exit) in ((State.DONE, 0), (State.FAILED, 143)), d.history("k")
    assert room.starts("k") == 1


def test_14_condor_q_is_cut_short(room: PoolRoom) -> None:
    d = room.delegator(absent=0.001)
    for number in range(2):
        room.submit(d, f"k{number}")
    for lost in (*range(3, 500, 97), 9999):
        room.wrap("condor_q", f'"$real" "$@" 2>/dev/null | head -c -{lost}')
        assert d.reconcile().silence
        assert all(d.job(key).absent_since is None for key in room.keys)
    room.unwrap()
    room.all_once(room.delegator())
    assert {d.job(key).attempt for key in room.keys} == {1}, d.history("k0")


def test_18_a_client_that_is_silent_past_the_lease_stops_its_job(room: PoolRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "exec sleep 600", lease=20.0)
    room.follow(d, "k", to=(State.RUNNING,))
    until(lambda: room.queued() == [], "the end of the job with its lease")
    (record,) = room.follow(room.delegator(), "k")
    assert (record.state, record.exit) in ((State.FAILED, 143), (State.CANCELLED, 143))
    assert room.starts("k") == 1


def test_20_a_job_that_is_put_off_its_node_does_not_start_again(room: PoolRoom) -> None:
    d = room.delegator()
    room.submit(d, "k", "exec sleep 600", lease=60.0)
    (record,) = room.follow(d, "k", to=(State.RUNNING,))
    room.pool.run("condor_vacate_job", "-fast", record.remote_id)
    room.follow(d, "k")
    until(lambda: room.queued() == [], "that nothing is left")
    assert room.starts("k") == 1


def test_20_a_cancel_races_the_start(room: PoolRoom) -> None:
    d = room.delegator(parallel=2)
    for number in range(3):
        room.submit(d, f"k{number}", "sleep 2")
    room.follow(d, *room.keys, to=(State.COMMITTED, State.RUNNING))
    for number in range(3):
        time.sleep(0.4)
        d.cancel(f"k{number}")
    for record in room.follow(d, *room.keys):
        assert record.state in (State.CANCELLED, State.DONE)
        assert room.starts(record.key) <= 1
