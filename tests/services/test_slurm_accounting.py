"""What Slurm's accounting says of jobs that its queue has forgotten: by a real ``slurmdbd``."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker.delegation.commands import Commands
from matchmaker.delegation.control import load_control
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.ledger import Ledger
from matchmaker.delegation.record import Deadlines, NoAnswer, Phase, QueueListing
from matchmaker.delegation.record import JobState as State
from tests.batch.test_idioms import IDIOMS
from tests.services.accounting import accounting
from tests.services.breakable import BreakableSlurm, breakable_with, until
from tests.services.daemons import ServiceUnavailable
from tests.services.delegating import QUICK
from tests.services.test_slurm_faults import SlurmRoom, room_on

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[BreakableSlurm, subprocess.Popen[bytes]]]:
    try:
        with breakable_with(accounting, min_age=2) as (made, database):
            yield made, database
    except ServiceUnavailable as error:
        pytest.skip(f"no accounting of Slurm here: {error}")


def forgotten(room: SlurmRoom, names: set[str]) -> None:
    """Waits until the queue has none of some jobs."""

    def gone() -> bool:
        shown = room.slurm.command("squeue", "-h", "-t", "all", "-o", "%j").split()
        return not names & set(shown)

    until(gone, f"a queue without {names}", 120.0)


def test_the_accounting_says_how_a_job_ended_that_the_queue_forgot(
    cluster: tuple[BreakableSlurm, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    slurm, database = cluster
    room = room_on(slurm, tmp_path)
    system = Commands(load_control("slurm"), environment=room.site)
    d = Delegator(Ledger(tmp_path / "jobs.db"), system, deadlines=Deadlines(**QUICK))  # type: ignore[arg-type]
    for key, text in (("good", "exit 0"), ("bad", "exit 3"), ("ended", "sleep 300")):
        room.submit(d, key, text)
    room.follow(d, "good", "bad", "ended", to=(State.COMMITTED, State.RUNNING))
    until(lambda: all(map(room.starts, ("good", "bad", "ended"))), "three starts")
    slurm.command("scancel", d.job("ended").remote_id)
    forgotten(room, {"mm-good-1", "mm-bad-1", "mm-ended-1"})

    # Nobody answers for what the queue forgot: nothing is lost, and nothing submitted again.
    database.send_signal(signal.SIGSTOP)
    try:
        d.reconcile()
        slow = Commands(load_control("slurm"), seconds=3.0, environment=room.site)
        assert isinstance(slow.recall({"mm-good-1": ""}, time.time() - 3600), NoAnswer)
    finally:
        database.send_signal(signal.SIGCONT)
    assert {d.job(key).attempt for key in ("good", "bad", "ended")} == {1}

    expected = {
        ("mm-good-1", Phase.ENDED, 0),
        ("mm-bad-1", Phase.ENDED, 3),
        ("mm-ended-1", Phase.CANCELLED, None),
    }

    def recalled() -> bool:
        found = system.recall(
            dict.fromkeys([name for name, _, _ in expected], ""), time.time() - 3600
        )
        seen = found.statuses if isinstance(found, QueueListing) else ()
        return {(sight.name, sight.phase, sight.exit) for sight in seen} == expected

    until(recalled, "the accounts of three jobs")
    good, bad, ended = room.follow(d, "good", "bad", "ended")
    assert (good.state, good.exit) == (State.DONE, 0)
    assert (bad.state, bad.exit) == (State.FAILED, 3)
    assert ended.state is State.FAILED
    assert "the batch system ended it" in ended.reason
    assert [room.starts(key) for key in ("good", "bad", "ended")] == [1, 1, 1]


def test_a_quality_of_service_that_a_mapping_writes_is_kept(
    cluster: tuple[BreakableSlurm, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    slurm, _ = cluster
    slurm.command("sacctmgr", "-i", "-Q", "add", "qos", "test")
    idiom = next(each for each in IDIOMS if each.name.startswith("8."))
    for given, lines in idiom.cases:
        script = tmp_path / "job.sh"
        script.write_text("\n".join(["#!/bin/sh", *idiom.printed("slurm", given, tmp_path), ""]))
        job = slurm.command("sbatch", "--hold", "--parsable", str(script)).strip()
        said = slurm.command("scontrol", "show", "job", job)
        slurm.command("scancel", job)
        assert f"QOS={lines[0].partition('=')[2]}" in said.split()
