"""A factory against a real Slurm: jobs are done, pilots end, none is doubled or left behind."""

from __future__ import annotations

import contextlib
import os
import random
import time
from pathlib import Path

import pytest

from matchmaker.delegation.ledger import Ledger
from tests.services.breakable import BreakableSlurm, two_nodes, until
from tests.services.manufacturing import Factory, factory

pytestmark = [pytest.mark.service, pytest.mark.slow]

# `make nightly` asks for ten minutes.
SECONDS = float(os.environ.get("FACTORY_SECONDS", "25"))
SEED = int(os.environ.get("FACTORY_SEED", "7"))

SLURM = """
[[queue]]
name = "slurm"
site = "here"
lrms = "slurm"
words = ["--output=/dev/null"]
"""


cluster = pytest.fixture(scope="module")(two_nodes)


def test_pilots_come_where_jobs_wait_and_go_when_none_do(
    cluster: BreakableSlurm, tmp_path: Path
) -> None:
    made = Factory(tmp_path, cluster.environment, SLURM)
    with factory(made):
        made.add(8)
        made.all_done()
        until(lambda: cluster.jobs() == [], "that every pilot has ended")
        service = made.status()
        assert service["state"] == "running"
        assert made.stop() == 0, made.log()
    made.each_once()
    assert 1 <= made.count("pilots") <= 4
    assert made.status()["reason"] == "stopped by SIGTERM"


def test_two_short_jobs_get_no_more_pilots_than_three(
    cluster: BreakableSlurm, tmp_path: Path
) -> None:
    made = Factory(tmp_path, cluster.environment, SLURM)
    with factory(made):
        made.add(2, 1.0)
        made.all_done()
        until(lambda: cluster.jobs() == [], "that every pilot has ended")
        assert made.stop() == 0, made.log()
    made.each_once()
    assert 1 <= len(made.rows()) <= 3


def left_nothing(made: Factory, cluster: BreakableSlurm) -> None:
    """Ends a factory's pilots with it; then nothing runs, and every record says how it ended."""
    until(lambda: cluster.jobs() == [], "that every pilot has ended")

    def taken() -> bool:
        with contextlib.closing(Ledger(made.home / "jobs.db")) as ledger:
            return all(str(record.state) == "acknowledged" for record in ledger.recent())

    until(taken, "that every result is taken")
    assert made.tell("stop", "--wait", "60").returncode == 0, made.log()
    made.each_once()
    assert made.none_running()
    rows = made.rows()
    assert [row.key for row in rows if row.live] == []
    with contextlib.closing(Ledger(made.home / "jobs.db")) as ledger:
        records = {record.key: record for record in ledger.recent()}
    # What was reserved is what was handed over: none is lost, and none is there twice.
    assert records.keys() == {row.key for row in rows}
    assert {str(record.state) for record in records.values()} == {"acknowledged"}
    assert {path.name for path in (made.home / "pilots").iterdir()} <= records.keys()


def test_a_factory_that_is_killed_at_random_goes_on(
    cluster: BreakableSlurm, tmp_path: Path
) -> None:
    """With demand that comes and goes, and a controller that is restarted."""
    chance = random.Random(SEED)
    made = Factory(tmp_path, cluster.environment, SLURM)
    with factory(made):
        end = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < end:
            made.add(chance.choice((0, 2, 5)), chance.choice((0.2, 1.0)))
            time.sleep(chance.uniform(0.3, 4.0))
            assert len(cluster.jobs("PENDING,RUNNING,CONFIGURING")) <= made.most
            if chance.random() < 0.5:
                made.kill()
                kills += 1
                time.sleep(chance.uniform(0.0, 1.0))
                made.start()
            if chance.random() < 0.15:
                cluster.saved()
                cluster.kill()
                cluster.start()
        made.all_done()
        left_nothing(made, cluster)
    assert kills > 0
    assert made.count("done") == made.jobs > 0
    assert len(made.rows()) <= 1.3 * made.jobs
