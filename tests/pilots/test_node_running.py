"""Tasks run within their limits, and nothing of them is left behind: real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from matchmaker.pilots.node import running
from matchmaker.pilots.node.keeper import processes
from matchmaker.pilots.node.running import RunningTask, run
from matchmaker.pilots.node.task import Task, TaskLimits, TaskResult

T = TypeVar("T")

FLEES = """
import os, sys, time
# Twice a new session, other environment, no open file of ours.
if os.fork(): time.sleep(float(sys.argv[2])); os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.setsid()
os.closerange(0, 256)
os.execve(sys.executable, [sys.argv[1] + "-fled", "-c", "import time; time.sleep(600)"], {})
"""


EATS = """
import subprocess, sys, time
text = "x = bytes(b'x' * (300 << 20)); import time; time.sleep(600)"
subprocess.Popen([sys.executable, "-c", text])
time.sleep(600)
"""


STOPS = "import os, signal, time; os.kill(os.getppid(), signal.SIGSTOP); time.sleep(600)"

HOPS = """
import os, time
os.kill(os.getppid(), 9)
for each in range(3): os.close(each)
end = time.time() + 20
while time.time() < end:
    if os.fork(): os._exit(0)
    os.setsid()
    time.sleep(0.05)
"""


def bounded(work: Coroutine[Any, Any, T]) -> T:
    async def within() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(within())


def task(*argv: str, **changed: Any) -> Task:
    return Task(**{"id": "t", "argv": argv, **changed})


def python(text: str, *words: str, **changed: Any) -> Task:
    return task(sys.executable, "-c", text, *words, **changed)


def named(mark: str) -> list[int]:
    """Processes with a text among their words."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in place.read_bytes().split(b"\0"):
                found.append(int(place.parent.name))
        except OSError:
            pass
    return found


def gone(mark: str) -> bool:
    deadline = time.monotonic() + 10
    while (left := [*named(mark), *named(f"{mark}-fled")]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not left


def test_a_task_runs_and_says_what_became_of_it(tmp_path: Path) -> None:
    text = "import os, sys; print(os.getcwd(), *sys.argv[1:]); print(sorted(os.environ));"
    text += "print(open('given').read()); open('f', 'w'); print('e', file=sys.stderr); sys.exit(3)"
    (tmp_path / "source").write_text("content")
    given = python(text, "a b", env={"A": "x y"}, files={"given": tmp_path / "source"})
    found = bounded(run(given, tmp_path / "work"))
    lines = found.output.decode().splitlines()
    assert (found.exit, found.signal, found.reason) == (3, None, "")
    assert lines[0].endswith(" a b")
    assert str(tmp_path / "work" / "t.") in lines[0]
    assert lines[1] == "['A', 'HOME', 'LC_CTYPE', 'PATH', 'TMPDIR']"
    assert lines[2] == "content"
    assert found.errors == b"e\n"
    assert list((tmp_path / "work").iterdir()) == []
    assert found.cpu > 0
    assert found.memory > 1 << 20
    assert found.ad().eval("ExitCode") == 3


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("/nowhere/prog",), "/nowhere/prog: No such file or directory"),
        (("/",), "/: Permission denied"),
        (("",), "cannot be empty"),
        (("prog\N{BULLET}",), "No such file"),
        (("/bin/echo", "x" * 3_000_000), "Argument list too long"),
    ],
    ids=["missing", "directory", "empty", "unknown", "long"],
)
def test_a_program_that_cannot_run_gives_a_reason(
    tmp_path: Path, argv: tuple[str, ...], words: str
) -> None:
    found = bounded(run(task(*argv), tmp_path))
    assert (found.exit, found.signal) == (None, None)
    assert words in found.reason
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_or_a_full_disk_gives_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = task("/bin/true", files={"a": tmp_path / "missing"})
    assert "could not be started" in bounded(run(given, tmp_path / "work")).reason
    assert list((tmp_path / "work").iterdir()) == []
    with pytest.raises(ValueError, match="no name of a file"):
        bounded(run(task("/bin/true", files={"../a": Path("/etc/passwd")}), tmp_path / "work"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    assert "No space left" in bounded(run(task("/bin/true"), tmp_path / "work")).reason


@pytest.mark.parametrize("seconds", ["0", "600"])
def test_processes_that_flee_are_ended_with_the_task(tmp_path: Path, seconds: str) -> None:
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"

    def soon(started: RunningTask) -> None:
        asyncio.get_running_loop().call_later(1.0, started.end, "enough", 0.3)

    found = bounded(run(python(FLEES, mark, seconds), tmp_path, started=soon))
    assert gone(mark)
    assert found.reason == ("enough" if seconds == "600" else "")
    assert (found.exit == 0) == (seconds == "0")


def test_a_program_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    text = "import signal, time; signal.signal(15, signal.SIG_IGN); print('x', flush=True);"
    began = time.monotonic()
    given = python(text + "time.sleep(600)", limits=TaskLimits(seconds=0.5))

    def soon(started: RunningTask) -> None:
        asyncio.get_running_loop().call_later(0.5, started.end, "enough", 0.2)

    found = bounded(run(given, tmp_path, started=soon))
    assert (found.signal, found.reason) == (signal.SIGKILL, "enough")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("text", "limits", "words"),
    [
        ("import time; time.sleep(600)", TaskLimits(seconds=0.4), "ran for the 0.4 s"),
        (EATS, TaskLimits(memory=200 << 20), "bytes of memory"),
        (
            "import time; open('f', 'wb').write(b'x' * (30 << 20)); time.sleep(600)",
            TaskLimits(disk=20 << 20),
            "bytes of disk",
        ),
    ],
)
def test_limits_are_kept(tmp_path: Path, text: str, limits: TaskLimits, words: str) -> None:
    found = bounded(run(python(text, limits=limits), tmp_path))
    assert words in found.reason
    assert found.exit is None
    assert list(tmp_path.iterdir()) == []


def test_of_long_output_the_ends_are_kept(tmp_path: Path) -> None:
    text = "import sys; sys.stdout.write('a' * 10 + 'x' * 50_000_000 + 'z' * 10)"
    found = bounded(run(python(text, limits=TaskLimits(output=20)), tmp_path))
    assert found.output.startswith(b"a" * 10)
    assert found.output.endswith(b"z" * 10)
    assert b"[50000000 bytes are left out]" in found.output
    assert found.exit == 0


def test_a_directory_that_resists_is_removed(tmp_path: Path) -> None:
    text = "mkdir -p a/b/c && touch a/b/c/f && ln -s /etc a/l && chmod 0 a/b/c a/b a . && true"
    found = bounded(run(task("/bin/sh", "-c", text), tmp_path))
    assert found.exit == 0
    assert list(tmp_path.iterdir()) == []
    assert Path("/etc/passwd").exists()


def test_a_suspended_task_stands_still_and_its_time_too(tmp_path: Path) -> None:
    text = """
import os, sys, time
os.fork()
for number in range(10_000): print(number, flush=True); time.sleep(0.01)
"""

    async def case() -> None:
        started = await running.start(python(text, limits=TaskLimits(seconds=0.8)), tmp_path)
        started.stdin.close()
        await started.stdout.readline()
        started.suspend()
        await asyncio.sleep(0.2)
        before = started.seconds
        states = {each.state for each in started._family.members()}
        assert states == {"T"}
        await asyncio.sleep(1.0)
        assert started.seconds == before
        started.resume()
        assert not started.suspended
        reading = asyncio.create_task(started.stdout.read())
        found = await started.result()
        await reading
        assert "ran for the 0.8 s" in found.reason
        assert 0.7 < found.seconds < 30

    bounded(case())


def test_a_suspended_task_can_be_ended(tmp_path: Path) -> None:
    async def case() -> TaskResult:
        started = await running.start(task("/bin/sleep", "600"), tmp_path)
        started.suspend()
        started.end("enough", 5.0)
        return await started.result()

    found = bounded(case())
    assert (found.reason, found.signal) == ("enough", signal.SIGTERM)


def test_the_program_has_its_streams(tmp_path: Path) -> None:
    async def case() -> bytes:
        started = await running.start(task("/bin/cat"), tmp_path)
        started.stdin.write(b"through")
        started.stdin.write_eof()
        got = await started.stdout.read()
        await started.result()
        return got

    assert bounded(case()) == b"through"


PILOT = """
import asyncio, os, sys
from pathlib import Path
from matchmaker.pilots.node import running
from matchmaker.pilots.node.keeper import processes
from matchmaker.pilots.node.isolation import adopting_orphans
from matchmaker.pilots.node.task import TaskLimits, Task
async def main():
    limits = TaskLimits(seconds=float(sys.argv[4]) if len(sys.argv) > 4 else None)
    given = Task(id="t", argv=(sys.executable, "-c", *sys.argv[2:4], "600"), limits=limits)
    started = await running.start(given, Path(sys.argv[1]))
    (keeper,) = (each.pid for each in processes().values() if each.parent == os.getpid())
    print(keeper, flush=True)
    found = await started.result()
    print(found.reason, flush=True)
    print("over", flush=True)
with adopting_orphans():
    asyncio.run(main())
"""


@pytest.mark.parametrize("victim", ["pilot", "keeper"])
def test_nothing_is_left_where_the_pilot_or_the_keeper_is_killed(
    tmp_path: Path, victim: str
) -> None:
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    words = [sys.executable, "-c", PILOT, str(tmp_path), FLEES, mark]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as pilot:
        late = threading.Timer(30, pilot.kill)
        late.start()
        assert pilot.stdout is not None
        keeper = int(pilot.stdout.readline())
        deadline = time.monotonic() + 20
        while not named(f"{mark}-fled") and time.monotonic() < deadline:
            time.sleep(0.02)
        assert named(f"{mark}-fled")
        os.kill(pilot.pid if victim == "pilot" else keeper, signal.SIGKILL)
        assert gone(mark)
        if victim == "keeper":
            assert "killed" in pilot.stdout.readline()
            assert pilot.stdout.readline() == "over\n"
        late.cancel()
        deadline = time.monotonic() + 10
        while (left := processes().get(keeper)) and left.state not in "ZX":
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_task_that_stops_its_keeper_is_ended_all_the_same(tmp_path: Path) -> None:
    # In a process whose children are no others.
    words = [sys.executable, "-c", PILOT, str(tmp_path), STOPS, "stops-keeper", "0.5"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert "0.5 s" in done.stdout
    assert not named("stops-keeper")
    assert not list(tmp_path.iterdir())


def test_one_that_kills_its_keeper_and_forks_on_and_on_does_not_flee(tmp_path: Path) -> None:
    words = [sys.executable, "-c", PILOT, str(tmp_path), HOPS, "hops-on"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.endswith("over\n")
    assert "killed" in done.stdout
    assert not named("hops-on")


def test_its_directory_is_removed_however_deep_it_is(tmp_path: Path) -> None:
    text = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nopen('f', 'w').close()"
    assert bounded(run(python(text), tmp_path)).exit == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("then", ["", "ln -s / $HOME", "echo > $HOME", "mkdir -m 0 -p $HOME/d"])
def test_removing_leaves_the_folder_of_all_tasks_as_it_was(tmp_path: Path, then: str) -> None:
    tmp_path.chmod(0o755)
    assert bounded(run(task("/bin/sh", "-c", f"rm -rf $HOME; {then}"), tmp_path)).exit == 0
    assert not list(tmp_path.iterdir())
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_file_too_deep_to_be_named_counts_as_disk(tmp_path: Path) -> None:
    text = "import os, time\nfor _ in range(40): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
    text += "open('f', 'wb').write(bytes(9 << 20)); time.sleep(60)"
    found = bounded(run(python(text, limits=TaskLimits(disk=4 << 20)), tmp_path))
    assert "disk" in found.reason


def test_arguments_may_be_as_long_as_the_system_takes(tmp_path: Path) -> None:
    words = ["x" * 100_000] * 5
    found = bounded(run(python("import sys; print(sum(map(len, sys.argv)))", *words), tmp_path))
    assert int(found.output) > 500_000


def test_what_nobody_allows_longer_is_ended_and_does_not_begin(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    late = python(f"open({str(begun)!r}, 'w')", until=time.monotonic())
    found = bounded(run(late, tmp_path))
    assert (found.lapsed, found.exit, found.reason) == (True, None, "nobody allowed it longer")
    assert not begun.exists()
    soon = python("import time; time.sleep(600)", until=time.monotonic() + 1.5)
    found = bounded(run(soon, tmp_path))
    assert (found.lapsed, found.signal) == (True, signal.SIGKILL)
    in_time = python("print(1)", until=time.monotonic() + 600)
    assert not bounded(run(in_time, tmp_path)).lapsed
