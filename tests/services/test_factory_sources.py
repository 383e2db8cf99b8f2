"""A factory reads queues and demand from real servers; its guide works on a real Slurm."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker.delegation.ledger import Ledger
from matchmaker.pilots.factory import settings
from matchmaker.pilots.factory.sources import SilentError, jobs
from tests.delegation.postgres import postgres
from tests.services.breakable import BreakableSlurm, two_nodes, until
from tests.services.condor import Machine, Pool, pool
from tests.services.daemons import ServiceUnavailable
from tests.services.manufacturing import Factory, factory
from tests.services.slapd import Start, slapd

__all__ = ["slapd"]

pytestmark = [pytest.mark.service, pytest.mark.slow]

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "factory.md"
CLASSAD = str(Path(sys.executable).with_name("classad"))

cluster = pytest.fixture(scope="module")(two_nodes)


@pytest.fixture(scope="module")
def condor() -> Iterator[Pool]:
    try:
        with pool([Machine("m1")]) as running:
            yield running
    except ServiceUnavailable as error:
        pytest.skip(f"no HTCondor here: {error}")


def classad(cluster: BreakableSlurm, folder: Path, *words: str) -> str:
    """What a command prints, run in a folder with this Slurm; it succeeds."""
    return subprocess.run(
        [CLASSAD, *words], capture_output=True, text=True, check=True, cwd=folder,
        env={**os.environ, **cluster.environment},
    ).stdout  # fmt: skip


def source(*lines: str) -> str:
    return "\n".join(["[[source]]", 'site = "here"', 'words = ["--output=/dev/null"]', *lines])


def do_some(made: Factory, cluster: BreakableSlurm, queue: str = "main") -> None:
    """Jobs come; pilots of this queue do them, and go."""
    with factory(made):
        made.add(4, 0.2)
        made.all_done()
        until(lambda: cluster.jobs() == [], "that every pilot has ended")
        assert made.stop() == 0, made.log()
    made.each_once()
    assert {row.queue for row in made.rows()} == {queue}


def test_the_queues_of_a_batch_system(cluster: BreakableSlurm, tmp_path: Path) -> None:
    do_some(Factory(tmp_path, cluster.environment, source('describe = "slurm"')), cluster)


def test_the_queues_that_a_server_publishes_and_a_ledger_in_postgresql(
    cluster: BreakableSlurm, slapd: Start, tmp_path: Path
) -> None:
    published = classad(
        cluster, tmp_path, "publish", "--lrms", "slurm", "--endpoint", "ce.s.org:8443/cream",
        "--site", "here", "--vo", "cms",
    )  # fmt: skip
    queues = source(f'ldap = "{slapd(published)}"')
    with contextlib.ExitStack() as running:
        try:
            ledger = running.enter_context(postgres())
        except ServiceUnavailable as error:
            pytest.skip(f"no PostgreSQL here: {error}")
        made = Factory(
            tmp_path, cluster.environment, queues, ledger=ledger,
            request='[ VirtualOrganisation = "cms"; Requirements = other.GlueCEName == "main" ]',
        )  # fmt: skip
        do_some(made, cluster, "ce.s.org:8443/cream-slurm-main")


def waiting(demand: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch,
            folder: Path) -> list[tuple[str, bool]]:  # fmt: skip
    """The jobs of a source, and whether each runs."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    made = settings.settings(
        f'ledger = "own.db"\n[pilot]\nscript = "p"\n[[queue]]\nname = "q"\nlrms = "slurm"\n'
        f"[[demand]]\n{demand}\n",
        folder,
    )
    with contextlib.closing(Ledger(folder / "own.db")) as own:
        return sorted((job.id, job.runs) for job in jobs(made.demand[0], own, ()))


def test_the_demand_of_a_real_condor_queue(
    condor: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What waits counts, what is held does not, and no more does a pilot of ours."""
    waits = condor.submit((), "requirements = false")
    condor.submit((), "hold = true")
    condor.submit((), "requirements = false", "batch_name = mm-p1-1")
    found = waiting("condor = []", condor.environment, monkeypatch, tmp_path)
    assert len(found) == 1
    assert found[0][0].split("#")[1] == waits
    assert not found[0][1]
    nowhere = {**condor.environment, "CONDOR_CONFIG": "/nonexistent"}
    with pytest.raises(SilentError, match="condor_q"):
        waiting("condor = []", nowhere, monkeypatch, tmp_path)


def test_the_demand_of_a_ledger(
    cluster: BreakableSlurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Jobs that were handed over and wait, of another ledger."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "job.ad").write_text('[ Owner = "ann"; Requirements = true ]')
    (tmp_path / "queue.ad").write_text('[ Name = "main"; Requirements = true ]')
    classad(
        cluster, tmp_path, "submit", "job.ad", "--ce", "queue.ad", "--script", "job.sh",
        "--lrms", "slurm", "--key", "j1", "--ledger", "other.db", "--wait", "0",
    )  # fmt: skip
    demand = f'ledger = "{tmp_path}/other.db"'
    assert waiting(demand, cluster.environment, monkeypatch, tmp_path) == [("j1", False)]
    classad(cluster, tmp_path, "cancel", "j1", "--ledger", "other.db")


def test_the_guide_as_it_is_written(cluster: BreakableSlurm, tmp_path: Path) -> None:
    """The first factory of docs/factory.md, with another directory and shorter times."""
    text = GUIDE.read_text().replace("/shared/grid", str(tmp_path))
    blocks = re.findall(r"^    ```(\w+)\n(.*?)^    ```$", text, re.MULTILINE | re.DOTALL)
    plain = [(kind, re.sub(r"^    ", "", body, flags=re.MULTILINE)) for kind, body in blocks]
    (pilot, demand, commands), (file,) = (
        [body for kind, body in plain if kind == wanted] for wanted in ("sh", "toml")
    )
    for name, body in (("pilot.sh", pilot), ("demand.sh", demand)):
        (tmp_path / name).write_text(body.replace("-lt 60", "-lt 5"))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "grid.toml").write_text(
        file.replace("cycle = 30", "cycle = 1") + "[deadlines]\nsettle = 0.5\n"
    )
    for name in ("todo", "taken", "done", "reports"):
        (tmp_path / name).mkdir()
    check, queues, run, status, why, stop = (
        line.split("#")[0].split() for line in commands.splitlines()
    )
    classad(cluster, tmp_path, *check[1:])
    assert "main" in classad(cluster, tmp_path, *queues[1:])
    for number in range(3):
        (tmp_path / "todo" / f"job{number}").write_text(f"echo {number} >>'{tmp_path}/ran'\n")
    environment = {**os.environ, **cluster.environment}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen([CLASSAD, *run[1:]], cwd=tmp_path, env=environment, stdout=log) as process,
    ):
        try:
            until(lambda: len(list((tmp_path / "done").iterdir())) == 3, "that the jobs are done")
            assert "grid" in classad(cluster, tmp_path, *status[1:])
            assert "main: " in classad(cluster, tmp_path, *why[1:])
            classad(cluster, tmp_path, *stop[1:], "--wait", "60")
            assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                process.kill()
    assert sorted((tmp_path / "ran").read_text().split()) == ["0", "1", "2"]
    until(lambda: cluster.jobs() == [], "that every pilot has ended")
