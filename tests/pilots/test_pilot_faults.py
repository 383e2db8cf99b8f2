"""Binders, pilots and keepers are killed at random: no job is lost, none runs twice at once.

``PILOT_KILLS`` says how many faults there are, in parts of at most 10; ``PILOT_SEED`` which.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from matchmaker.classad import ClassAd
from matchmaker.pilots.node.keeper import processes
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.protocol import TokenScope
from tests.pilots.real import Grid, grid, with_text

KILLS = int(os.environ.get("PILOT_KILLS", "30"))
PART = 10
SEED = int(os.environ.get("PILOT_SEED", random.SystemRandom().randrange(1 << 31)))

pytestmark = pytest.mark.slow

# Says so where another run of the same job is alive, and how often it has run to its end.
SCRIPT = """
cd "$1"
if [ -e "$2.pid" ] && kill -0 "$(cat "$2.pid")" 2>/dev/null; then echo "$2" >> twice; fi
echo $$ > "$2.pid"
sleep "$3"
echo "$2" >> ends
rm -f "$2.pid"
"""


def job(place: Path, number: int, seconds: float) -> ClassAd:
    return ClassAd(
        Cmd="/bin/sh", Requirements=True,
        Arguments=["-c", SCRIPT, f"mark-{place}", str(place), str(number), f"{seconds:.2f}"],
    )  # fmt: skip


async def submitted(made: Grid, ad: ClassAd, key: str) -> None:
    """Hands a job in, again and again until the answer is heard."""
    deadline = time.monotonic() + 60
    while True:
        try:
            async with connect.binder(made.place()) as binder:
                await binder.submit(ad, key)
                return
        except (OSError, ValueError):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


def keepers(pilot: int) -> list[int]:
    among = processes()
    return [each.pid for each in among.values() if each.parent == pilot]


async def fault(made: Grid, chance: random.Random, pilots: list[str]) -> None:
    """One fault; who was killed is started again."""
    kind = chance.choice(
        ["binder", "kill", "kill", "stop", "term", "keeper", "late binder", "client", "client"]
    )
    name = chance.choice(pilots)
    if kind.endswith("binder"):
        made.signal("binder", signal.SIGKILL)
        if kind == "late binder":
            await asyncio.sleep(chance.uniform(0, 1.5 * made.lease))
        made.binder()
    elif kind == "kill":
        made.signal(name, signal.SIGKILL)
        made.pilot(name, "--cpus", 2)
    elif kind == "client":
        # Killed while it hands a job in again that is there already, or not yet.
        client = made.start(
            "client", "binder", "submit", made.folder / "again.ad", "--key", "again",
            "--token", made.folder / "client.token",
        )  # fmt: skip
        await asyncio.sleep(chance.uniform(0, 0.6))
        client.kill()
        await asyncio.to_thread(client.communicate)
    elif kind == "stop":
        made.signal(name, signal.SIGSTOP)
        await asyncio.sleep(chance.choice([0.2, 1.5 * made.lease]))
        made.signal(name, signal.SIGCONT)
    elif kind == "term":
        await asyncio.to_thread(made.end, name)
        made.pilot(name, "--cpus", 2)
    else:
        found = keepers(made.running[name].pid)
        with suppress(ProcessLookupError):
            if found:
                os.kill(chance.choice(found), signal.SIGKILL)


@pytest.mark.parametrize("part", range(-(-KILLS // PART)))
def test_no_job_is_lost_and_none_runs_twice_at_once(
    part: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(SEED + part)
    faults = min(PART, KILLS - part * PART)
    log = tmp_path / "jobs"
    log.mkdir()

    async def case(made: Grid) -> list[connect.JobFacts]:
        (made.folder / "again.ad").write_text('[ Cmd = "/bin/true"; Requirements = true ]')
        made.binder()
        pilots = ["p1", "p2", "p3"]
        for name in pilots:
            made.pilot(name, "--cpus", 2)
        number = 0
        for _ in range(faults):
            for _ in range(chance.randint(1, 6)):
                number += 1
                ad = job(log, number, chance.choice([0.0, 0.1, 0.5, 2.0]))
                await submitted(made, ad, f"k{number}")
            await asyncio.sleep(chance.uniform(0, 0.6))
            await fault(made, chance, pilots)
        deadline = time.monotonic() + 240
        while True:
            jobs = await made.jobs()
            if all(each.over for each in jobs):
                break
            assert time.monotonic() < deadline, [each for each in jobs if not each.over]
            await asyncio.sleep(0.3)
        for name in pilots:
            assert "has ended" in await asyncio.to_thread(made.end, name)
        assert len([each for each in jobs if each.key != "again"]) == number
        async with connect.binder(made.place()) as binder:
            return [await binder.job(each.id) for each in jobs]

    with grid(tmp_path, lease=2.0) as made:
        jobs = asyncio.run(case(made))
        made.end("binder")
        assert with_text(f"mark-{log}") == []
    assert [each for each in jobs if each.stage != "ended"] == []
    assert not (log / "twice").exists()
    ends = Counter((log / "ends").read_text().split())
    again = 0
    for each in jobs:
        assert each.result is not None
        if each.key == "again":
            continue
        times = ends[each.key[1:]]
        if each.result.eval("ExitCode") == 0:
            assert times >= 1
            # Who was given once ended once.
            assert times <= each.given
        else:
            assert each.result.eval("Reason") == "the process that kept it was killed"
        again += max(0, times - 1)
    said = f"{len(jobs)} jobs, {faults} faults of seed {SEED}, part {part}: {again} ended again"
    record_property("faults", said)
    sys.stderr.write(f"{said}\n")


def test_a_pilot_that_stood_still_begins_no_job_that_another_has(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    ad = ClassAd(
        Cmd="/bin/sh", Arguments=["-c", f"echo begun >> {begun}; sleep 2"], Requirements=True
    )

    async def case(made: Grid) -> None:
        made.binder()
        made.pilot("still", "--cpus", 1)
        async with connect.admin(made.place(TokenScope.ADMIN)) as admin:
            for _ in range(600):
                await asyncio.sleep(0.05)
                if (await admin.status())["slots"]:
                    break
        made.signal("still", signal.SIGSTOP)
        await submitted(made, ad, "k")
        made.pilot("other", "--cpus", 1)
        async with connect.binder(made.place()) as binder:
            (job,) = [each async for each in binder.jobs()]
            for _ in range(600):
                await asyncio.sleep(0.05)
                if (await binder.job(job.id)).stage == "running":
                    break
            made.signal("still", signal.SIGCONT)
            assert (await binder.job(job.id, seconds=60)).result is not None

    with grid(tmp_path, lease=2.0) as made:
        asyncio.run(case(made))
        made.end("still")
        made.end("other")
    assert begun.read_text() == "begun\n"
