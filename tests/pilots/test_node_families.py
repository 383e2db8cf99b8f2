"""Tasks in control groups: none of their processes flees. The groups are the kernel's."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from matchmaker.classad import ClassAd
from matchmaker.pilots.node import running
from matchmaker.pilots.node.isolation import (
    ControlGroup,
    dividing_group,
    group_of,
    limit_memory,
    own_group,
)
from matchmaker.pilots.node.keeper import group_usage, remove_group
from matchmaker.pilots.node.running import run
from matchmaker.pilots.node.task import TaskLimits
from matchmaker.pilots.wire import connect
from tests.pilots.real import COMMAND, grid
from tests.pilots.test_node_running import FLEES, bounded, gone, named, python, task

COUNTS = """
import os, sys, time
if os.fork(): time.sleep(600)
os.setsid()
if os.fork(): os._exit(0)
os.setsid()
for number in range(100_000): open(sys.argv[1], "w").write(str(number)); time.sleep(0.01)
"""

ENTERS = 'echo $$ >"$1"/cgroup.procs; shift; exec "$@"'


@pytest.fixture
def group() -> Iterator[Path]:
    """A new control group of version 2, which is removed at the end."""
    mounts = Path("/proc/self/mountinfo").read_text() if sys.platform == "linux" else ""
    top = group_of("0::/", mounts)
    if top is None:
        pytest.skip("no control groups of version 2 here")
    made = top / f"matchmaker-test.{secrets.token_hex(8)}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        if not (made / "cgroup.kill").exists():
            pytest.skip("this kernel ends no control groups")
        yield made
    finally:
        remove_group(made)


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def tasks(group: Path) -> list[Path]:
    """The groups of tasks that there are, and whatever else is below."""
    return [each for each in group.iterdir() if each.is_dir()]


def frozen(group: Path) -> bool:
    return "frozen 1" in (group / "cgroup.events").read_text()


def test_who_flees_is_frozen_goes_on_and_is_killed(tmp_path: Path, group: Path) -> None:
    counter = tmp_path / "counter"

    async def case() -> None:
        started = await running.start(python(COUNTS, str(counter)), tmp_path / "work")
        await asyncio.to_thread(until, lambda: counter.exists() and counter.read_text())
        (mine,) = tasks(group)
        started.suspend()
        await asyncio.to_thread(until, lambda: frozen(mine))
        before = counter.read_text()
        await asyncio.sleep(0.5)
        assert counter.read_text() == before
        started.resume()
        await asyncio.to_thread(until, lambda: counter.read_text() not in {"", before})
        started.suspend()
        started.end("enough", 0.2)
        found = await started.result()
        assert found.reason == "enough"

    with dividing_group(group):
        bounded(case())
    assert not named(str(counter))
    assert tasks(group) == []
    assert (group / "cgroup.procs").read_text() == ""


def test_a_task_that_leaves_its_keepers_family_is_killed_by_its_group(group: Path) -> None:
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    words = [sys.executable, "-c", FLEES, mark, "600"]
    with subprocess.Popen(["/bin/sh", "-c", ENTERS, "sh", str(group), *words]) as process:
        until(lambda: named(f"{mark}-fled"))
        # No process has this number: no signal reaches anybody.
        family = ControlGroup((1 << 22) + 1, group)
        assert family.members() == []
        family.kill()
        assert process.wait(20) == -signal.SIGKILL
    assert gone(mark)


def test_processor_time_is_the_groups(tmp_path: Path, group: Path) -> None:
    burnt = tmp_path / "burnt"
    burns = "import os, time\nif os.fork(): os._exit(0)\nwhile time.process_time() < 0.3: pass\n"
    burns += f"open({str(burnt)!r}, 'w')"
    waits = "import os, subprocess, sys, time; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    waits += f"\nwhile not os.path.exists({str(burnt)!r}): time.sleep(0.02)"
    with dividing_group(group):
        found = bounded(run(python(waits, burns), tmp_path))
    assert found.exit == 0
    assert found.cpu >= 0.3
    assert found.memory > 0


def test_a_program_that_cannot_run_leaves_no_group(tmp_path: Path, group: Path) -> None:
    with dividing_group(group):
        assert "No such file" in bounded(run(task("/no/x"), tmp_path)).reason
        missing = python("", files={"a": tmp_path / "missing"})
        assert "could not be started" in bounded(run(missing, tmp_path)).reason
    assert tasks(group) == []


def test_groups_that_a_task_makes_in_its_own_go_too(tmp_path: Path, group: Path) -> None:
    text = (
        "import os, pathlib, subprocess\n"
        f"top = pathlib.Path({str(group.parent)!r})\n"
        "mine = top / open('/proc/self/cgroup').read().rpartition('0::/')[2].strip()\n"
        "(mine / 'a' / 'b').mkdir(parents=True)\n"
        "process = subprocess.Popen(['sleep', '600'])\n"
        "(mine / 'a' / 'b' / 'cgroup.procs').write_text(str(process.pid))\n"
    )
    with dividing_group(group):
        assert bounded(run(python(text), tmp_path)).exit == 0
    assert tasks(group) == []


PILOT = """
import asyncio, sys
from pathlib import Path
from matchmaker.pilots.node import running
from matchmaker.pilots.node.isolation import dividing_group
from matchmaker.pilots.node.isolation import adopting_orphans
from matchmaker.pilots.node.task import Task
async def main():
    given = Task(id="t", argv=(sys.executable, "-c", sys.argv[2], sys.argv[3]))
    started = await running.start(given, Path(sys.argv[1]))
    while not Path(sys.argv[3]).exists(): await asyncio.sleep(0.01)
    started.suspend()
    print(started._keeper.pid, flush=True)
    print((await started.result()).reason, flush=True)
with adopting_orphans(), dividing_group(Path(sys.argv[4])):
    asyncio.run(main())
"""


@pytest.mark.parametrize("victim", ["pilot", "keeper"])
def test_a_frozen_task_ends_with_its_pilot_or_its_keeper(
    tmp_path: Path, group: Path, victim: str
) -> None:
    counter = tmp_path / "counter"
    words = [sys.executable, "-c", PILOT, str(tmp_path / "w"), COUNTS, str(counter), str(group)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as pilot:
        late = threading.Timer(30, pilot.kill)
        late.start()
        assert pilot.stdout is not None
        keeper = int(pilot.stdout.readline())
        os.kill(pilot.pid if victim == "pilot" else keeper, signal.SIGKILL)
        said = pilot.stdout.readline()
        late.cancel()
    assert ("killed" in said) == (victim == "keeper")
    until(lambda: not tasks(group))
    assert (group / "cgroup.procs").read_text() == ""
    assert not [pid for pid in named(str(counter)) if pid != keeper]


def test_a_pilot_divides_its_group_and_no_other(tmp_path: Path, group: Path) -> None:
    with grid(tmp_path) as made:
        made.binder()
        words = ["pilot", "--token", made.pilot_token(), "--dir", tmp_path / "work"]
        words += ["--binder", made.address, "--cpus", 1, "--idle", 3]
        with subprocess.Popen(
            ["/bin/sh", "-c", ENTERS, "sh", str(group), *COMMAND, *map(str, words)],
            stdout=subprocess.PIPE, text=True,
        ) as pilot:  # fmt: skip
            ad = ClassAd(Cmd="/bin/cat", Arguments=["/proc/self/cgroup"], Requirements=True)

            async def done() -> connect.JobFacts:
                async with connect.binder(made.place()) as binder:
                    return await binder.job((await binder.submit(ad, "k")).id, seconds=50)

            found = asyncio.run(done())
            printed, _ = pilot.communicate(timeout=60)
    assert "has ended" in printed
    assert found.result is not None
    assert f"0::/{group.name}/task." in str(found.result.eval("Out"))
    assert tasks(group) == []


def test_the_group_of_all_is_not_divided() -> None:
    place = own_group()
    assert place is None or (place / "cgroup.type").exists()


def test_memory_is_bounded_and_counted_where_the_kernel_does(tmp_path: Path) -> None:
    # No kernel: files that look like its own.
    for name, text in (
        ("memory.max", "max\n"), ("memory.oom.group", "0\n"), ("memory.swap.max", "max\n"),
        ("memory.current", "4096\n"), ("memory.peak", "8192\n"),
        ("memory.events", "low 0\nmax 3\noom 1\noom_kill 2\n"),
        ("cpu.stat", "usage_usec 2500000\nuser_usec 1\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    limit_memory(tmp_path, None)
    assert (tmp_path / "memory.max").read_text() == "max\n"
    limit_memory(tmp_path, 1 << 20)
    assert (tmp_path / "memory.max").read_text().startswith("1048576")
    assert (tmp_path / "memory.oom.group").read_text().startswith("1")
    assert ControlGroup(1 << 22, tmp_path).memory() == 4096
    assert group_usage(tmp_path) == {"cpu": 2.5, "memory": 8192, "starved": 2}
    (tmp_path / "memory.current").unlink()
    with subprocess.Popen(["sleep", "60"]) as childless:
        assert ControlGroup(childless.pid, tmp_path).memory() == 0
        childless.kill()


def test_a_limit_of_memory_is_kept_in_a_group_too(tmp_path: Path, group: Path) -> None:
    text = "x = bytes(b'x' * (300 << 20)); import time; time.sleep(600)"
    with dividing_group(group):
        found = bounded(run(python(text, limits=TaskLimits(memory=100 << 20)), tmp_path))
    assert "memory" in found.reason
    assert found.exit is None
