"""docs/night.md shows the lines that a factory logs while a real Slurm controller is away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.services.breakable import BreakableSlurm, two_nodes, until
from tests.services.manufacturing import Factory, factory

pytestmark = [pytest.mark.service, pytest.mark.slow]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "night.md"
QUEUE = """
[[queue]]
name = "slurm"
site = "here"
lrms = "slurm"
words = ["--output=/dev/null"]
"""

cluster = pytest.fixture(scope="module")(two_nodes)


def events(text: str) -> list[str]:
    """The lines of a factory's log but for its cycles; times, keys and numbers are replaced."""
    lines = [line for line in text.splitlines() if "factory.cycle: " in line]
    lines = [line for line in lines if ": cycle " not in line]
    times = [re.sub(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ", "", line) for line in lines]
    return [re.sub(r"pilot=\w+", "pilot=KEY", re.sub(r"job=\d+", "job=N", t)) for t in times]


def test_the_page_shows_the_lines_of_a_fault(cluster: BreakableSlurm, tmp_path: Path) -> None:
    log = tmp_path / "log"
    made = Factory(tmp_path, cluster.environment, QUEUE)
    made.words = ("--log-level", "info", "--log-file", str(log))
    with factory(made):
        made.add(1, 0.1)
        made.all_done()
        until(lambda: "pilot ended" in log.read_text(), "that the pilot has ended")
        cluster.saved()
        cluster.kill()
        made.add(1, 0.1)
        until(lambda: "queue held" in log.read_text(), "that the queue is held")
        cluster.start()
        until(lambda: log.read_text().count("pilot started") == 2, "that a pilot starts again")
        assert made.stop() == 0
    (shown,) = re.findall(r"(?ms)^```text\n(.*?)^```", PAGE.read_text("utf-8"))
    logged = events(log.read_text())
    first = next(index for index, line in enumerate(logged) if "pilot ended" in line)
    assert logged[first : first + 5] == events(shown)
