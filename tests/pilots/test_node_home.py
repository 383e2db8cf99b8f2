"""A pilot's own directory is gone when the pilot is, however it ended: real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from matchmaker.classad import ClassAd, parse_expr
from matchmaker.pilots.node.isolation import own_directory
from matchmaker.pilots.node.keeper import OWN, below, processes, remove_dead
from matchmaker.pilots.wire import connect
from tests.pilots.real import Grid, grid

LITTERS = "mkdir -p ../beside/deep && echo x >../beside/deep/file && chmod 0 ../beside; "
KILLS = "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 600"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Grid]:
    with grid(tmp_path) as made:
        made.binder()
        yield made


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def shell(grid: Grid, text: str) -> str:
    """The id of a job that runs a text by the shell."""

    async def submitted() -> str:
        async with connect.binder(grid.place()) as binder:
            ad = ClassAd(Cmd="/bin/sh", Arguments=["-c", text])
            return (await binder.submit(ad, "one")).id

    return asyncio.run(submitted())


def test_files_beside_a_jobs_directory_go_when_no_job_runs(site: Grid) -> None:
    site.pilot("p", "--cpus", 1)
    id_ = shell(site, LITTERS)

    async def ended() -> connect.JobFacts:
        async with connect.binder(site.place()) as binder:
            return await binder.job(id_, seconds=60)

    found = asyncio.run(ended())
    assert found.result is not None
    assert found.result.eval("ExitCode") == 0
    (mine,) = (site.folder / "work.p").iterdir()
    assert not [*mine.iterdir()]
    site.end("p")
    assert not [*(site.folder / "work.p").iterdir()]


def test_a_job_that_kills_its_pilot_leaves_no_file(site: Grid) -> None:
    site.pilot("p", "--cpus", 1)
    shell(site, LITTERS + KILLS)
    work = site.folder / "work.p"
    site.running["p"].wait(60)
    until(lambda: not [*work.iterdir()], "something is left")


def test_the_next_pilot_removes_what_a_node_left_that_fell_over(site: Grid) -> None:
    site.pilot("live", "--cpus", 1)
    work = site.folder / "work.live"
    until(lambda: [*work.glob(f"{OWN}*")], "the pilot does not begin")
    (living,) = work.iterdir()
    words = ("--dir", work, "--cpus", 1)
    site.start("dead", "pilot", "--token", site.pilot_token(), *words, "--app", "a=/bin/sh")

    async def submitted() -> None:
        async with connect.binder(site.place()) as binder:
            ad = ClassAd(Application="a", Arguments=["-c", LITTERS + "sleep 600"])
            ad["Requirements"] = parse_expr('member("a", TARGET.Applications)')
            await binder.submit(ad, "two")

    asyncio.run(submitted())
    until(lambda: [*work.glob("*/beside")], "the job does not begin")
    dead = site.running["dead"].pid
    # The pilot first, and at once all that it started.
    os.kill(dead, signal.SIGSTOP)
    for each in below(dead, processes()):
        os.kill(each.pid, signal.SIGKILL)
    site.signal("dead", signal.SIGKILL)
    (left,) = {*work.iterdir()} - {living}
    site.start("next", "pilot", "--token", site.pilot_token(), *words)
    until(lambda: not left.exists(), f"{left} is left")
    assert living.is_dir()
    site.end("next")
    # It may have begun the job again, whose keeper then removes the directory.
    until(lambda: [*work.iterdir()] == [living], "the next pilot's directory is left")
    site.end("live")
    assert not [*work.iterdir()]


def test_a_directory_in_use_a_link_and_a_file_stay(tmp_path: Path) -> None:
    with own_directory(str(tmp_path)) as mine:
        remove_dead(mine)
        assert mine.is_dir()
        with own_directory(str(tmp_path)) as other:
            assert mine.is_dir()
            assert other != mine
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / f"{OWN}link").symlink_to(target)
    (tmp_path / f"{OWN}file").touch()
    with own_directory(str(tmp_path)):
        pass
    assert {each.name for each in tmp_path.iterdir()} == {"target", f"{OWN}link", f"{OWN}file"}


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="root alone gives away")
def test_another_users_directory_stays(tmp_path: Path) -> None:
    theirs = tmp_path / f"{OWN}theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    with own_directory(str(tmp_path)):
        assert theirs.is_dir()


# A pilot whose lock outlives its pipes for a moment, as when it is killed on a busy machine.
DIES_SLOWLY = """
import asyncio, os, signal, sys, time
from pathlib import Path
from matchmaker.pilots.node import running
from matchmaker.pilots.node.isolation import own_directory
from matchmaker.pilots.node.task import Task
async def main():
    with own_directory(sys.argv[1]) as mine:
        given = Task(id="t", argv=("/bin/sh", "-c", "echo begun; exec sleep 600"))
        started = await running.start(given, mine)
        await started.stdout.readline()
        if not os.fork():
            os.close(started._control)
            os.close(1)
            time.sleep(0.7)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_a_pilot_whose_lock_outlives_it_for_a_moment_leaves_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DIES_SLOWLY, str(tmp_path)], check=False, timeout=60)
    until(lambda: not [*tmp_path.iterdir()], "its directory is left")
