"""Real pilots on a directory, killed and ended: every result comes, and nothing is left running."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from matchmaker.pilots.store import protocol
from tests.cli.conftest import COMMAND, run_here

PARAMETERS = 40


@pytest.fixture
def store(tmp_path: Path) -> Path:
    place = tmp_path / "store"
    (place / "work" / "input").mkdir(parents=True)
    command = f"echo $0 >>{tmp_path}/runs; sleep 0.2; echo $0 >votes$0.txt"
    (place / "plan.toml").write_text(
        f'command = ["sh", "-c", {json.dumps(command)}, "{{parameter}}"]\n'
        f'parameters = "1-{PARAMETERS}"\nttl = 6\nagain = 1000\n'
    )
    return place


def begun(store: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "pilot", "--store", str(store), "--json", "--dir", str(store.parent / name)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def claimed(store: Path, pid: int) -> bool:
    for path in (store / "work").rglob("active*"):
        try:
            if f" {pid} " in path.read_text():
                return True
        except FileNotFoundError:
            continue
    return False


def wait_for_claim(store: Path, pilot: subprocess.Popen[str]) -> None:
    while not claimed(store, pilot.pid):
        assert pilot.poll() is None
        time.sleep(0.01)


def left_running(folder: Path) -> list[str]:
    """The processes whose directory is below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        try:
            where = str(path.readlink())
        except OSError:
            continue
        if where.startswith(f"{folder}/"):
            found.append(where)
    return found


@pytest.mark.slow
def test_a_killed_pilot_costs_a_run_and_no_result(store: Path, tmp_path: Path) -> None:
    pilots = [begun(store, f"node{number}") for number in range(3)]
    wait_for_claim(store, pilots[0])
    pilots[0].kill()
    said = [pilot.communicate(timeout=120) for pilot in pilots]
    told = [json.loads(out) for out, _ in said[1:]]
    assert [pilot.returncode for pilot in pilots] == [-signal.SIGKILL, 0, 0], said
    found = {path.name: path.read_text() for path in (store / "finished").rglob("votes*")}
    assert found == {f"votes{each}.txt": f"{each}\n" for each in range(1, PARAMETERS + 1)}
    runs = Counter((tmp_path / "runs").read_text().split())
    assert len(runs) == PARAMETERS
    assert sum(runs.values()) - PARAMETERS <= sum(each["taken_over"] for each in told) <= 1
    assert sum(each["duplicates"] for each in told) == 0
    while left_running(tmp_path):
        time.sleep(0.1)


@pytest.mark.slow
def test_a_pilot_that_is_ended_gives_its_work_back(store: Path, tmp_path: Path) -> None:
    pilot = begun(store, "node")
    wait_for_claim(store, pilot)
    pilot.send_signal(signal.SIGTERM)
    out, err = pilot.communicate(timeout=60)
    assert (pilot.returncode, json.loads(out)["ended"]) == (0, "stopped"), err
    names = [path.name for path in (store / "work" / "input").iterdir()]
    assert not [name for name in names if not name.startswith("votes")]
    assert not list((store / "pilots").iterdir())
    assert left_running(tmp_path) == []


@pytest.mark.parametrize("name", ["active1", "votes1.txt", "data"])
@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_plain_file_is_said(store: Path, tmp_path: Path, name: str, kind: str) -> None:
    """In the place of a claim or a result, or among the input's files: nothing could be done."""
    (store / "plan.toml").write_text(
        'command = ["touch", "votes{parameter}.txt"]\nparameters = "1-2"\n'
    )
    place = store / "work" / "input" / name
    (store / "work" / "other").mkdir()
    if kind == "link":
        place.symlink_to(store / "plan.toml")
    else:
        (Path.mkdir if kind == "folder" else os.mkfifo)(place)
    pilot = run_here("pilot", "--store", store, "--dir", tmp_path / "node", "--json")
    told = json.loads(pilot.stdout)
    assert (pilot.returncode, told["ended"], told["refused"]) == (1, "all else is done", 1)
    assert told["stored"] == 2
    said = {"folder": "a folder", "link": "a symbolic link", "pipe": "a pipe, a socket or a device"}
    assert f"work/input is left out: {name} is {said[kind]}" in pilot.stderr
    assert len(pilot.stderr.splitlines()) == 1
    status = run_here("store", "status", store)
    assert status.returncode == 1
    assert f"work/input: {name} is {said[kind]}" in status.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my data", "rename it"),
        ("-rf", "rename it"),
        ("link", "is a symbolic link"),
        ("file", "is a file"),
    ],
)
def test_what_is_no_input_is_said(store: Path, tmp_path: Path, name: str, said: str) -> None:
    place = store / "work" / name
    (store / "work" / "input").rmdir()
    (tmp_path / "elsewhere").mkdir()
    if name == "link":
        place.symlink_to(tmp_path / "elsewhere")
    else:
        (Path.touch if name == "file" else Path.mkdir)(place)
    pilot = run_here("pilot", "--store", store, "--dir", tmp_path / "node")
    assert (pilot.returncode, "all else is done" in pilot.stdout) == (1, True)
    assert f"work/{name} is left out: " in pilot.stderr
    assert said in pilot.stderr
    status = run_here("store", "status", store)
    assert (status.returncode, said in status.stderr) == (1, True)


def test_a_disk_that_stays_full_ends_the_pilot(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_wait", lambda _: 0.0)
    write = os.write

    def full(file: int, data: bytes) -> int:
        if str(store) in str(Path(f"/proc/self/fd/{file}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    monkeypatch.setattr(os, "write", full)
    pilot = run_here("pilot", "--store", store, "--dir", tmp_path / "node")
    assert (pilot.returncode, pilot.stdout) == (2, "")
    assert "No space left on device (6 tries)" in pilot.stderr.splitlines()[-1]
    assert not list(store.rglob("active*"))


def test_a_store_that_cannot_be_written_is_one_line(store: Path, tmp_path: Path) -> None:
    (store / "pilots").touch()
    pilot = run_here("pilot", "--store", store, "--slots", 2, "--dir", tmp_path / "node")
    assert (pilot.returncode, pilot.stdout, len(pilot.stderr.splitlines())) == (2, "", 1)
    assert f"{store}/pilots" in pilot.stderr
