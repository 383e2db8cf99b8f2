"""A factory against a real Slurm: jobs are done, pilots end, none is doubled or left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.breakable import BreakableSlurm, breakable, until
from tests.services.daemons import ServiceUnavailable
from tests.services.manufacturing import Factory, factory

pytestmark = [pytest.mark.service, pytest.mark.slow]

SLURM = """
[[queue]]
name = "slurm"
site = "here"
lrms = "slurm"
words = ["--output=/dev/null"]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[BreakableSlurm]:
    try:
        with breakable(("n1", "n2")) as made:
            yield made
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm here: {error}")


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
