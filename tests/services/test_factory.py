"""A factory against a real Slurm: jobs are done, pilots end, none is doubled or left behind."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from pathlib import Path

import pytest

from matchmaker.delegation.ledger import Ledger
from matchmaker.pilots.factory.services import Services
from tests.services.breakable import BreakableSlurm, two_nodes, until
from tests.services.manufacturing import Factory, factory

pytestmark = [pytest.mark.service, pytest.mark.slow]

# `make nightly` asks for ten minutes.
SECONDS = float(os.environ.get("FACTORY_SECONDS", "25"))
KILLS = int(os.environ.get("FACTORY_KILLS", "8"))
SEED = int(os.environ.get("FACTORY_SEED", "7"))

SLURM = """
[[queue]]
name = "slurm"
site = "here"
lrms = "slurm"
words = ["--output=/dev/null"]
"""


def report(text: str) -> None:
    """Prints a figure; ``pytest -rP`` shows it."""
    sys.stdout.write(f"{text}\n")


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
    # What is marked as handed over was handed over: none is lost, and none is there twice.
    assert records.keys() == {row.key for row in rows if row.handed}
    with contextlib.closing(Services(made.ledger)) as services:
        counts = services.counts()
        (service,) = services.all()
    submitted = sum(of.submitted for of in counts.values())
    # Those that Slurm refused were handed over, and count as refused alone.
    refused = sum(row.handed and row.refused for row in rows)
    assert service.submitted == submitted + refused == len(records)
    assert submitted == sum(of.ended for of in counts.values())
    # Every pilot that wrote that it started was seen by the factory, whatever was killed.
    assert made.count("pilots") <= sum(of.started for of in counts.values()) <= submitted
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
        # Fewer jobs than caps and kills would say nothing of pilots a job.
        while time.monotonic() < end or made.jobs < 20:
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
    pilots = sum(row.handed for row in made.rows())
    report(f"{made.jobs} jobs, {kills} kills: {pilots} pilots, {pilots / made.jobs:.2f} a job")
    assert pilots <= 1.3 * made.jobs


def test_forty_jobs_and_a_factory_that_is_killed_in_its_cycles(
    cluster: BreakableSlurm, tmp_path: Path
) -> None:
    """Killed at random times, from its start to the middle of a cycle; counts and caps hold."""
    chance = random.Random(SEED)
    made = Factory(tmp_path, cluster.environment, SLURM)
    with factory(made):
        for kill in range(KILLS):
            if made.jobs < 40:
                made.add(min(chance.choice((0, 5, 10)), 40 - made.jobs), chance.choice((0.2, 1.0)))
            # One in four is killed as it starts; a cycle of the others takes a second.
            if kill % 4:
                until(made.has_begun, "that the factory has begun")
            time.sleep(chance.uniform(0.0, 2.5))
            assert len(cluster.jobs("PENDING,RUNNING,CONFIGURING")) <= made.most
            if kill % 4 == 3:
                # The table and the batch system agree while the factory is dead, too.
                made.kill()
                agrees(made, cluster)
            else:
                made.kill()
            made.start()
        made.add(40 - made.jobs, 1.0)
        made.all_done()
        left_nothing(made, cluster)
    pilots = sum(row.handed for row in made.rows())
    report(f"40 jobs, {KILLS} kills: {pilots} pilots, {pilots / 40:.2f} a job")
    assert pilots <= 1.3 * 40


def agrees(made: Factory, cluster: BreakableSlurm) -> None:
    """Every pilot that Slurm has is a live row, and was handed over once."""
    names = [name for name in cluster.jobs() if name.startswith("mm-")]
    keys = [name.split("-")[1] for name in names]
    rows = {row.key: row for row in made.rows()}
    assert len(set(keys)) == len(keys), names
    assert all(rows[key].handed for key in keys)
    with contextlib.closing(Services(made.ledger)) as services:
        submitted = sum(service.submitted for service in services.all())
    assert submitted == sum(row.handed for row in rows.values())


def test_a_partition_that_refuses_is_left_alone_until_it_is_open(
    cluster: BreakableSlurm, tmp_path: Path
) -> None:
    made = Factory(tmp_path, cluster.environment, SLURM, backoff=15.0)
    with factory(made):
        partition = cluster.command("sinfo", "--noheader", "--format=%R").split()[0]
        cluster.command("scontrol", "update", f"PartitionName={partition}", "State=DRAIN")
        until(made.has_begun, "that the factory has begun")
        made.add(5)

        def reason() -> str:
            with contextlib.closing(Services(made.ledger)) as services:
                (service,) = services.all()
            return str(service.facts["queues"][0]["held"]) if "at" in service.facts else ""

        until(lambda: "refused" in reason() or "not take" in reason(), "that the queue is held")
        time.sleep(5.0)
        said = reason()
        assert len(made.rows()) == 1, said
        report(said)
        why = made.tell("why", "slurm")
        assert why.returncode == 0
        assert said.split(":")[0] in why.stdout
        cluster.command("scontrol", "update", f"PartitionName={partition}", "State=UP")
        made.all_done(150.0)
        left_nothing(made, cluster)
