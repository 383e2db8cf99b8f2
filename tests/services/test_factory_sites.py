"""A factory with two sites, a real Slurm and a real HTCondor pool, while it is killed at random."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.breakable import BreakableSlurm, breakable, until
from tests.services.condor import Machine, Pool, pool
from tests.services.daemons import ServiceUnavailable
from tests.services.manufacturing import Factory, factory
from tests.services.test_factory import SECONDS, SEED, SLURM, left_nothing

pytestmark = [pytest.mark.service, pytest.mark.slow]

CONDOR = """
[[queue]]
name = "condor"
site = "there"
lrms = "htcondor"
max_pilots = 2
"""


@pytest.fixture(scope="module")
def sites() -> Iterator[tuple[BreakableSlurm, Pool]]:
    try:
        with breakable(("n1",)) as slurm, pool([Machine("m1", cpus=2)]) as condor:
            yield slurm, condor
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm or no HTCondor here: {error}")


def test_two_sites_and_a_factory_that_is_killed(sites: tuple[BreakableSlurm, Pool]) -> None:
    slurm, condor = sites
    # A folder that the jobs' user may pass through.
    home = condor.folder / f"factory-{time.monotonic_ns()}"
    home.mkdir()
    home.chmod(0o777)
    environment = {
        **condor.environment, **slurm.environment,
        "PATH": os.pathsep.join([condor.environment["PATH"], slurm.environment["PATH"]]),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }  # fmt: skip
    made = Factory(
        home, environment, SLURM.replace("[[queue]]", "[[queue]]\nmax_pilots = 2") + CONDOR,
        program=(sys.executable, "-m", "tests.services.given"),
    )  # fmt: skip
    chance = random.Random(SEED)

    def queued() -> list[str]:
        return [*slurm.jobs(), *condor.run("condor_q", "-af", "JobBatchName").split()]

    with factory(made):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            made.add(chance.choice((0, 3, 6)), chance.choice((0.5, 2.0)))
            time.sleep(chance.uniform(1.0, 5.0))
            assert len(slurm.jobs()) <= 2
            if chance.random() < 0.4:
                made.kill()
                time.sleep(chance.uniform(0.0, 1.0))
                made.start()
        made.all_done()
        until(lambda: queued() == [], "that every pilot has ended")
        left_nothing(made, slurm)
    ran = {(home / "ran" / name.name).read_text().strip() for name in (home / "ran").iterdir()}
    at = {row.key: row.queue for row in made.rows()}
    # Both sites did some of the work.
    assert {at[key] for key in ran} == {"slurm", "condor"}
