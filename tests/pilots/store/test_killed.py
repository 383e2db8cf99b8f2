"""Real pilots on a directory, killed and ended: every result comes, and nothing is left running."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND

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


@pytest.mark.parametrize("name", ["active1", "votes1.txt"])
def test_a_name_that_no_file_has_keeps_no_pilot_busy(store: Path, name: str) -> None:
    """A folder where a claim or a result goes: what is lost in each round is nothing to do."""
    (store / "plan.toml").write_text(
        'command = ["touch", "votes{parameter}.txt"]\nparameters = "1-2"\n'
    )
    (store / "work" / "input" / name).mkdir()
    pilot = subprocess.run(
        [*COMMAND, "pilot", "--store", str(store), "--json", "--idle", "1"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert "Traceback" not in pilot.stderr
    told = json.loads(pilot.stdout)
    assert told["ended"] == "idle"
    assert told["stored"] == 1
    assert told["listings"] < 30
    assert (store / "work" / "input" / "votes2.txt").is_file()


def test_a_pilot_that_loses_every_claim_ends_when_it_is_told_to(store: Path) -> None:
    (store / "plan.toml").write_text(
        'command = ["touch", "votes{parameter}.txt"]\nparameters = "1-2"\n'
    )
    (store / "work" / "input" / "active1").mkdir()
    pilot = begun(store, "pilot")
    try:
        while not (store / "work" / "input" / "votes2.txt").exists():
            assert pilot.poll() is None
            time.sleep(0.01)
        pilot.send_signal(signal.SIGTERM)
        told, errors = pilot.communicate(timeout=20)
    finally:
        pilot.kill()
        pilot.wait()
    assert not errors
    assert json.loads(told)["ended"] == "stopped"
