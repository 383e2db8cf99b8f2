"""A list of tasks, real pilots, some of them killed, and a node on which everything fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pytest

from matchmaker.pilots.store.backends import Directory
from matchmaker.pilots.store.plan import TASKS, input_state, read_plan
from matchmaker.pilots.store.status import demand, status
from tests.cli.conftest import COMMAND, run_here
from tests.pilots.store.test_killed import left_running

NUMBER = int(os.environ.get("STORE_TASKS", "24"))
KILLED = 2


def begun(store: Path, name: str, node: str) -> subprocess.Popen[str]:
    words = ["pilot", "--store", store, "--json", "--dir", store.parent / name, "--node", node]
    return subprocess.Popen(
        [*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def stored(store: Path) -> int:
    return len(list((store / "work" / TASKS).glob("*.out")))


@pytest.mark.slow
@pytest.mark.parametrize("status_of_bad", [1, 127])
def test_nothing_is_lost_and_nothing_given_up_wrongly(tmp_path: Path, status_of_bad: int) -> None:
    store = tmp_path / "store"
    store.mkdir()
    # A task knows from its own directory on which node it is.
    line = "sh -c 'case $HOME in */bad*) exit {};; esac; echo $(( {} * 7 ))'\n"
    (store / "tasks.csv").write_text(
        "".join(line.format(status_of_bad, each) for each in range(1, NUMBER + 1))
    )
    (store / "plan.toml").write_text("ttl = 5\nagain = 1000\n")
    bad = [begun(store, f"bad{number}", "farm13") for number in range(2)]
    good = [begun(store, f"good{number}", f"farm{number}") for number in range(4)]
    random = Random(7)
    for number, victim in enumerate(random.sample(good, KILLED), 1):
        while stored(store) < number * NUMBER // (KILLED + 2):
            time.sleep(0.02)
        victim.kill()
    said = [each.communicate() for each in bad + good]
    codes = [each.returncode for each in bad + good]
    assert codes.count(-signal.SIGKILL) == KILLED, said
    assert sorted(set(codes[2:])) == [-signal.SIGKILL, 0], said
    told = [json.loads(out) for out, _ in said if out]
    assert {each["ended"] for each in told[2:]} == {"all is done"}
    assert all(each["given_up"] == each["duplicates"] == 0 for each in told)
    results = {path.stem: path.read_text() for path in (store / "work" / TASKS).glob("*.out")}
    assert results == {str(each): f"{each * 7}\n" for each in range(1, NUMBER + 1)}
    for each in told[:2]:
        # It leaves, unless the others have done all by then, or all but what failed here.
        why = {1: "too many failures in a row", 127: "it could not start a program"}
        assert each["ended"] in {
            why[status_of_bad], "all is done", "what is left failed on this node",
        }  # fmt: skip
        assert each["stored"] == 0
        assert each["failed"] <= (30 if status_of_bad == 1 else 0)
    found = json.loads(run_here("store", "status", store, "--json").stdout)
    assert (found["done"], found["failures"], found["inputs"][0]["done"]) == (True, [], NUMBER)
    while left_running(tmp_path):
        time.sleep(0.05)


@pytest.mark.slow
def test_on_one_node_a_program_that_always_fails_ends_all(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "tasks.csv").write_text("false\n" * 25)
    pilots = [begun(store, f"node{number}", "farm1") for number in range(3)]
    told = [json.loads(pilot.communicate()[0]) for pilot in pilots]
    assert [pilot.returncode for pilot in pilots] == [1, 1, 1]
    ended = {"too many failures in a row", "what is left failed on this node"}
    assert {each["ended"] for each in told} <= ended
    found = json.loads(run_here("store", "status", store, "--json").stdout)
    assert found["inputs"][0]["given_up"] == 0
    assert {each["nodes"] for each in found["failures"]} == {1}
    assert found["claims"] == []


def test_a_long_list_is_one_file_and_one_listing(tmp_path: Path) -> None:
    number = 100_000
    text = "".join(f"./fit --seed {each} 'a b'\n" for each in range(number))
    plan = read_plan("", text)
    store = Directory(str(tmp_path), tmp_path)
    assert len(status(store, plan).rows) == 1
    assert sum(1 for _ in demand(store, plan)) == number
    store.prepare(TASKS)
    for each in ("7", "8"):
        assert store.create(f"work/tasks/{plan.result_of(each)}", b"")
    found = input_state(plan, store.listing(TASKS) or ())
    assert (len(found.free), len(found.done)) == (number - 2, 2)
    assert plan.words(TASKS, "100000") == ("./fit", "--seed", "99999", "a b")


def test_names_may_be_as_long_as_a_plan_allows(tmp_path: Path) -> None:
    """Of an input and a parameter; together they are too long for a file system."""
    store, input_, parameter = tmp_path / "store", "i" * 200, "p" * 64
    (store / "work" / input_).mkdir(parents=True)
    (store / "plan.toml").write_text(
        f'command = ["echo", "hello"]\nstdout = true\nparameters = ["{parameter}"]\n'
    )
    done = run_here("pilot", "--store", store)
    assert done.returncode == 0, done.stderr
    assert (store / "finished" / input_ / f"votes{parameter}.txt").read_text() == "hello\n"
