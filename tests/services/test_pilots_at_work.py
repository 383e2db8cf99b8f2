"""Binder, factory and pilots on a real Slurm: jobs wait, pilots come, run them, and go again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from matchmaker.classad import ClassAd
from matchmaker.pilots.node.keeper import processes
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.protocol import TokenScope
from tests.pilots.real import COMMAND, Grid, grid, with_text
from tests.pilots.test_pilot_faults import job
from tests.services.breakable import BreakableSlurm, two_nodes, until
from tests.services.manufacturing import Factory

pytestmark = [pytest.mark.service, pytest.mark.slow]

QUEUE = """
[[queue]]
name = "slurm"
site = "here"
lrms = "slurm"
words = ["--output=/dev/null"]
"""

PILOT = """#!/bin/sh
key=$(basename "$(dirname "$(dirname "$0")")")
exec {python} -c '{main}' pilot --binder {address} --token "{home}/reports/$key.token" \\
    --cpus 1 --idle 4 --dir "{home}/work.$key" --report "{home}/reports/$key" \\
    >>"{home}/pilots/$key" 2>&1
"""

DEMAND = """#!/bin/sh
{python} -c '{main}' binder jobs --waiting --ads --at {address} --token {token} || [ $? = 1 ]
"""

cluster = pytest.fixture(scope="module")(two_nodes)


def prepared(made: Grid, cluster: BreakableSlurm, home: Path) -> Factory:
    """A factory whose pilots serve the binder."""
    home.mkdir()
    found = Factory(home, cluster.environment, QUEUE, most=3)
    found.prepare()
    # Each pilot gets a token of its own.
    found.file.write_text(
        found.file.read_text().replace(
            "[pilot]", f'[pilot]\nbinder = "{made.address}"\ntoken = "{made.folder}/factory.token"'
        )
    )
    for name, text in (("pilot.sh", PILOT), ("demand.sh", DEMAND)):
        (home / name).write_text(
            text.format(
                python=sys.executable, main=COMMAND[2], address=made.address, home=home,
                token=made.folder / "admin.token",
            )
        )  # fmt: skip
        (home / name).chmod(0o755)
    return found


async def submitted(made: Grid, log: Path, numbers: range) -> list[str]:
    async with connect.binder(made.place()) as binder:
        return [
            (await binder.submit(_job(log, number), f"k{number}")).id for number in numbers
        ]  # fmt: skip


async def handed_in(made: Grid, place: Path, count: int) -> list[str]:
    """Jobs that say so where another run of the same job is alive."""
    async with connect.binder(made.place()) as binder:
        return [
            (await binder.submit(job(place, number, 2.0), f"k{number}")).id
            for number in range(count)
        ]  # fmt: skip


def _job(log: Path, number: int) -> ClassAd:
    text = f"echo {number} >> {log}; sleep 0.5"
    return ClassAd(Cmd="/bin/sh", Arguments=["-c", text, f"mark-{log}"], Requirements=True)


async def ended(made: Grid, ids: list[str]) -> list[connect.JobFacts]:
    async with connect.binder(made.place()) as binder:
        return [await binder.job(id_, seconds=100) for id_ in ids]


def test_jobs_at_the_binder_bring_pilots_which_go_again(
    cluster: BreakableSlurm, tmp_path: Path
) -> None:
    with grid(tmp_path, lease=10.0) as made:
        made.binder()
        factory = prepared(made, cluster, tmp_path / "factory")
        log = tmp_path / "log"
        ids = asyncio.run(submitted(made, log, range(10)))
        factory.start()
        try:
            jobs = asyncio.run(ended(made, ids))
            assert [each.stage for each in jobs] == ["ended"] * 10, factory.log()
            until(lambda: cluster.jobs() == [], "that every pilot has ended")
            assert factory.stop() == 0, factory.log()
        finally:
            with contextlib.suppress(ProcessLookupError):
                factory.kill()
        assert sorted(map(int, log.read_text().split())) == list(range(10))
        assert 1 <= factory.count("pilots") <= 4
        assert [each.given for each in jobs] == [1] * 10
        assert with_text(f"mark-{log}") == []


def test_jobs_survive_nodes_that_are_killed(cluster: BreakableSlurm, tmp_path: Path) -> None:
    chance = random.Random(3)
    with grid(tmp_path, lease=3.0) as made:
        made.binder()
        factory = prepared(made, cluster, tmp_path / "factory")
        log = tmp_path / "log"
        ids = asyncio.run(submitted(made, log, range(16)))
        factory.start()
        try:
            until(log.exists, "that a job runs")
            for _ in range(3):
                time.sleep(chance.uniform(0.2, 1.0))
                for pid in with_text(f"{tmp_path}/factory/reports/"):
                    with contextlib.suppress(ProcessLookupError):
                        if chance.random() < 0.5:
                            subprocess.run(["kill", "-9", str(pid)], check=False)
                made.signal("binder", signal.SIGKILL)
                made.binder()
            jobs = asyncio.run(ended(made, ids))
            assert {each.stage for each in jobs} == {"ended"}, factory.log()
            until(lambda: cluster.jobs() == [], "that every pilot has ended")
            factory.stop()
        finally:
            with contextlib.suppress(ProcessLookupError):
                factory.kill()
        ran = list(map(int, log.read_text().split()))
        assert set(ran) == set(range(16))
        for number, each in enumerate(jobs):
            assert ran.count(number) <= each.given
        assert with_text(f"mark-{log}") == []


def working(pid: int) -> str:
    """The node on which a process runs: its pilot's environment says it."""
    among = processes()
    while True:
        said = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        found = [each for each in said if each.startswith(b"SLURMD_NODENAME=")]
        if found:
            return found[0].partition(b"=")[2].decode()
        pid = among[pid].parent


def living(pids: list[int]) -> list[int]:
    among = processes()
    return [pid for pid in pids if pid in among and among[pid].state not in "ZX"]


def idle(cluster: BreakableSlurm) -> set[str]:
    """The nodes of which nothing is taken."""
    return set(cluster.command("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split())


async def status(made: Grid) -> dict[str, Any]:
    async with connect.admin(made.place(TokenScope.ADMIN)) as binder:
        return await binder.status()


def test_a_node_that_is_killed_whole_loses_no_job(cluster: BreakableSlurm, tmp_path: Path) -> None:
    place = tmp_path / "jobs"
    place.mkdir()
    mark = f"mark-{place}"
    with grid(tmp_path, lease=3.0) as made:
        made.binder()
        factory = prepared(made, cluster, tmp_path / "factory")
        ids = asyncio.run(handed_in(made, place, 16))
        factory.start()
        try:
            until(lambda: with_text(mark) != [], "that a job runs")
            node = working(with_text(mark)[0])
            killed = cluster.kill_node(node)
            # Its pilot, the pilot's keeper and the job at least, beside Slurm's own.
            assert len(killed) >= 4
            until(lambda: not living(killed), "that nothing of the node lives")
            jobs = asyncio.run(ended(made, ids))
            assert {each.stage for each in jobs} == {"ended"}, factory.log()
            cluster.start_node(node)
            until(lambda: cluster.jobs() == [], "that every pilot has ended")
            factory.stop()
        finally:
            with contextlib.suppress(ProcessLookupError):
                factory.kill()
        until(lambda: idle(cluster) == {"n1", "n2"}, "that no slot of the nodes is taken")
        until(lambda: asyncio.run(status(made))["pilots"] == 0, "that the binder has no pilot")
        said = asyncio.run(status(made))
        assert (said["sessions"], said["slots"], said["jobs"]["ended"]) == (0, 0, 16)
    ends = Counter((place / "ends").read_text().split())
    assert set(ends) == set(map(str, range(16)))
    assert not (place / "twice").exists()
    assert max(each.given for each in jobs) > 1, "the node ran no job"
    for number, each in enumerate(jobs):
        assert ends[str(number)] <= each.given
    assert with_text(mark) == []


LEFT = """\
import os, time
from matchmaker.pilots.node.describe import ask_command, read_file, seconds_left
print(seconds_left(os.environ, time.time(), read_file, ask_command))
os.environ.pop("SLURM_JOB_END_TIME", None)
print(seconds_left(os.environ, time.time(), read_file, ask_command))
"""


def test_slurm_says_how_long_a_pilot_may_run(cluster: BreakableSlurm, tmp_path: Path) -> None:
    (tmp_path / "left.py").write_text(LEFT)
    printed = tmp_path / "printed"
    words = ("--wait", "--time=3", f"--output={printed}")
    cluster.command("sbatch", *words, "--wrap", f"{sys.executable} {tmp_path / 'left.py'}")
    as_it_is, by_command = map(float, printed.read_text().split())
    assert 100 < as_it_is <= 180
    assert 100 < by_command <= 180
