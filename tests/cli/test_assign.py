"""``classad assign``: what it prints, as data, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SLOTS = """
[ Name = "slot1@a"; PartitionableSlot = true; Cpus = 4; Memory = 8000 ]
[ Name = "slot1@b"; Cpus = 1; Memory = 1000 ]
"""
JOBS = """
[ Owner = "ana"; RequestCpus = 3; RequestMemory = 2500; Rank = TARGET.Cpus ]
[ Owner = "ana"; Rank = "best" ]
[ Owner = "ben"; Requirements = TARGET.Cpus > 8 ]
"""


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    (tmp_path / "slots.ad").write_text(SLOTS)
    (tmp_path / "jobs.ad").write_text(JOBS)
    return [tmp_path / "jobs.ad", "--pool", tmp_path / "slots.ad"]


def test_a_table_of_who_gets_what_and_why_others_do_not(classad: Run, files: list[object]) -> None:
    done = classad("assign", *files)
    assert (done.status, done.err) == (0, "")
    clause = "TARGET.Cpus > 8 is false (Cpus = 4)"
    assert done.out.splitlines() == [
        "2 of 3 jobs placed",
        "",
        "job  group  slot     rank  gets",
        "  1  ana    slot1@a     4  3 Cpus, 2500 Memory",
        "  2  ana    slot1@a     0  1 Cpus",
        "",
        "no rank  1 job: a rank that is no number is 0",
        "",
        "idle            why",
        f"3     no match  the job refuses all 2 slots: on slot1@a {clause}",
    ]


def test_as_data(classad: Run, files: list[object]) -> None:
    data = json.loads(classad("assign", *files, "--json").out)
    assert data["placements"][0] == {
        "job": 1, "id": None, "group": "ana", "outcome": "placed", "slot": "slot1@a", "rank": 4.0,
        "ranked": True, "taken": {"Cpus": 3, "Memory": 2500},
    }  # fmt: skip
    assert data["placements"][1]["ranked"] is False
    assert data["placements"][2]["slot"] is None
    assert "TARGET.Cpus > 8" in data["placements"][2]["reason"]
    assert data["order"] == [1, 3, 2]
    assert data["usage"] == {"ana": 4.0, "ben": 0.0}
    assert data["left"] == {"slot1@a": {"Cpus": 0, "Memory": 5500}}


def test_terms_of_the_policy(classad: Run, files: list[object]) -> None:
    def order(*words: str) -> list[int]:
        found: list[int] = json.loads(classad("assign", *files, "--json", *words).out)["order"]
        return found

    assert order("--share", "ana=0", "--share", "ben=2") == [3, 1, 2]
    assert order("--group", '"all"') == [1, 2, 3]
    assert order("--group", '"all"', "--priority", "-(MY.RequestCpus ?: 0)") == [2, 3, 1]


def test_what_groups_had_before_and_what_jobs_take(classad: Run, files: list[object]) -> None:
    data = json.loads(classad("assign", *files, "--json", "--usage", "ana=7").out)
    assert data["order"] == [3, 1, 2]
    assert data["usage"] == {"ana": 11.0, "ben": 0.0}
    words = ["--resources", "Cpus=MY.RequestCpus ?: 2", "--resources", "Memory=100 == 100 ? 8 : 9"]
    data = json.loads(classad("assign", *files, "--json", *words).out)
    assert [p.get("taken") for p in data["placements"][:2]] == [
        {"Cpus": 3, "Memory": 8}, {"Cpus": 1, "Memory": 1000},
    ]  # fmt: skip


def test_keys_are_told_with_file_and_place(classad: Run, files: list[object]) -> None:
    slots = files[-1]
    done = classad("assign", *files, "--pool", slots)
    said = f"{slots}, ad 1: Name = 'slot1@a', as {slots}, ad 1 has; and so 1 more"
    more = "(--key NAME says which attribute tells ads apart)"
    assert done.err == f"classad: {said} {more}\n"
    done = classad("assign", *files, "--key", "SlotType")
    assert done.err.startswith(f"classad: {slots}, ad 1: an ad has no SlotType: [ Name")


def test_the_exit_status_says_whether_a_job_got_a_slot(classad: Run, files: list[object]) -> None:
    done = classad("assign", "-", *files[1:], stdin="[ Requirements = false ]")
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith("0 of 1 job placed")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--share", "ana"], "--share ana: not like physics=2"),
        (["--share", "=1"], "--share =1: not like physics=2"),
        (["--share", "ana=x"], "--share ana=x: x is not a number"),
        (["--share", "ana=1", "--share", "ana=2"], "--share ana=2: ana was given before"),
        (["--usage", "ana="], "--usage ana=: nothing is not a number"),
        (["--usage", "ana=-1"], "ana cannot have a share or usage of -1.0"),
        (["--resources", "Cpus"], "--resources Cpus: not like Cpus=MY.RequestCpus"),
        (["--resources", "Cpus=1 +"], "--resources Cpus=1 +: line 1, column 4: the text ends"),
        (["--resources", "Cpus=1", "--resources", "cpus=2"], "a resource is named twice"),
        (["--group", "a ="], "--group: line 1, column 3"),
        (["--key", ""], "--key names no attribute"),
        (["--share", "ana=-1"], "ana cannot have a share or usage of -1.0"),
        (["--share", "ana=inf"], "ana cannot have a share or usage of inf"),
        (
            ["--priority", "1 +"],
            "--priority: line 1, column 4: the text ends too early; expected a",
        ),
    ],
)
def test_bad_input_is_refused_in_a_line(
    classad: Run, files: list[object], words: list[str], said: str
) -> None:
    done = classad("assign", *files, *words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"classad: {said}")
    assert len(done.err.splitlines()) == 1


def test_names_from_ads_do_not_steer_the_terminal(classad: Run, tmp_path: Path) -> None:
    (tmp_path / "slots.ad").write_text('[ Name = "a\\033[31m"; Cpus = 1 ]')
    done = classad("assign", "-", "--pool", tmp_path / "slots.ad", stdin="[ ]")
    assert (done.status, "\033" in done.out) == (0, False)
