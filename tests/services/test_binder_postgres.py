"""A binder whose tables are in a PostgreSQL that is killed: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from matchmaker.classad import ClassAd
from matchmaker.pilots.wire import connect
from tests.delegation.postgres import cluster, served
from tests.pilots.real import Grid, grid

pytestmark = [pytest.mark.service, pytest.mark.slow]


async def submitted(made: Grid, log: Path, numbers: range) -> None:
    """Hands jobs in while the database comes and goes."""
    for number in numbers:
        text = f"echo {number} >> {log}; sleep 0.1"
        ad = ClassAd(Cmd="/bin/sh", Arguments=["-c", text], Requirements=True)
        while True:
            try:
                async with asyncio.timeout(20), connect.binder(made.place()) as binder:
                    await binder.submit(ad, f"k{number}")
                break
            except (OSError, ValueError):
                await asyncio.sleep(0.1)


async def all_ended(made: Grid) -> list[connect.JobFacts]:
    deadline = time.monotonic() + 60
    while True:
        jobs = await made.jobs()
        if all(each.over for each in jobs):
            return jobs
        assert time.monotonic() < deadline, jobs
        await asyncio.sleep(0.2)


def test_jobs_survive_a_database_that_is_killed(tmp_path: Path) -> None:
    chance, log = random.Random(5), tmp_path / "log"

    async def case(made: Grid, folder: Path) -> list[connect.JobFacts]:
        with contextlib.ExitStack() as server:
            server.enter_context(served(folder))
            made.binder()
            for name in ("p1", "p2"):
                made.pilot(name, "--cpus", 2)
            submitting = asyncio.create_task(submitted(made, log, range(40)))
            for _ in range(5):
                await asyncio.sleep(chance.uniform(0.1, 0.6))
                await asyncio.to_thread(server.close)
                await asyncio.sleep(chance.choice([0.0, 1.5]))
                await asyncio.to_thread(server.enter_context, served(folder))
            await submitting
            jobs = await all_ended(made)
            for name in ("p1", "p2", "binder"):
                await asyncio.to_thread(made.end, name)
            return jobs

    with cluster() as folder:
        url = f"postgresql://tests@/postgres?host={folder}"
        with grid(tmp_path, tables=url, lease=3.0) as made:
            jobs = asyncio.run(case(made, folder))
    assert Counter(each.stage for each in jobs) == {"ended": 40}
    ran = Counter(map(int, log.read_text().split()))
    assert ran == dict.fromkeys(range(40), 1)
