"""``classad pilot --store`` and ``classad store status``: on good input and on bad."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from matchmaker import parse_ad
from tests.cli.conftest import Run


@pytest.fixture
def store(examples: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(examples / "store", tmp_path / "store"))


@pytest.mark.slow
def test_a_pilot_does_all_and_the_status_says_so(classad: Run, store: Path, tmp_path: Path) -> None:
    before = classad("store", "status", store, "--json")
    assert before.status == 1
    assert [row["done"] for row in json.loads(before.out)["inputs"]] == [7, 0]
    folder = tmp_path / "node"
    done = classad("pilot", "--store", store, "--slots", 2, "--dir", folder, "--json")
    assert (done.status, done.err) == (0, "")
    told = json.loads(done.out)
    assert (told["ended"], told["stored"], told["duplicates"]) == ("all is done", 33, 0)
    after = classad("store", "status", store, "--json")
    assert after.status == 0
    found = json.loads(after.out)
    assert found["done"] is True
    assert [(row["done"], row["finished"]) for row in found["inputs"]] == [(20, True)] * 2
    votes = (store / "finished" / "shuf2296.arff" / "votes80.txt").read_text()
    assert votes.splitlines()[0] == f"6 {6 * 80 % 7}"
    names = {path.name for path in (store / "finished").rglob("*") if path.is_file()}
    # One slot may move an input aside before the other has removed its last claim.
    kept = {name for name in names if not name.startswith("active")}
    assert kept == {"data", *(f"votes{each}.txt" for each in range(63, 83))}
    assert not list((store / "pilots").iterdir())
    assert not list(folder.iterdir())


def test_the_status_names_who_runs_what(classad: Run, store: Path) -> None:
    (store / "work" / "shuf1148.arff" / "active80").write_text("farm7 4711 nonce\n")
    done = classad("store", "status", store, "--claims")
    assert done.status == 1
    assert done.out.splitlines()[1].split()[:5] == ["shuf1148.arff", "80", "1", "farm7", "4711"]
    assert " 1 claim" in classad("store", "status", store).out


def test_a_parameter_that_fails_is_given_up(classad: Run, store: Path, tmp_path: Path) -> None:
    (store / "plan.toml").write_text(
        'command = ["sh", "-c", "test $0 != 2 && echo > votes$0.txt", "{parameter}"]\n'
        'parameters = "1-3"\nattempts = 2\n'
    )
    done = classad("pilot", "--store", store, "--dir", tmp_path / "node", "--json")
    told = json.loads(done.out)
    assert done.status == 1
    assert (told["ended"], told["stored"], told["given_up"]) == ("given up", 4, 2)
    assert "shuf1148.arff, 2: exit status 1" in done.err
    shown = classad("store", "status", store)
    assert shown.status == 1
    assert shown.out.splitlines()[1].split() == ["shuf1148.arff", "2", "0", "0", "1", "0", "#!#"]
    note = (store / "work" / "shuf1148.arff" / "failed2.2").read_text()
    assert "exit status 1" in note


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("", "command is missing"),
        ("command = 7\nparameters = '1'", "command is no list of strings"),
        ("command = ['{x}']\nparameters = '1'", "{x} in command; {input} and {parameter}"),
        ("command = ['f']\nparameters = '9-1'", "the first is at most the last"),
        ("command = ['f']\nparameters = '1-99999999'", "at most 1000000"),
        ("command = ['f']\nparameters = '../x'", "give letters, digits"),
        ("command = ['f']\nparameters = '1'\nresult = 'a/{parameter}'", "result is no file name"),
        ("command = ['f']\nparameters = '1'\nresult = 'active{parameter}'", "result begins with"),
        ("command = ['f']\nparameters = '1'\nttl = 0", "ttl is no number above 0"),
        ("command = ['f']\nparameters = '1'\nexecutable = '/bin/sh'", "executable is no path"),
        ("command = ['f']\nparameters = '1'\nexecutable = 'bin/none'", "bin/none is not there"),
        ("command = ['f']\nparameters = '1'\ncomand = 1", "unknown key 'comand'"),
        ("command", "is no TOML"),
    ],
)
def test_a_bad_plan(classad: Run, store: Path, tmp_path: Path, plan: str, said: str) -> None:
    (store / "plan.toml").write_text(plan)
    done = classad("pilot", "--store", store, "--dir", tmp_path / "node")
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert not list(store.rglob("active*"))


def test_what_is_no_store(classad: Run, tmp_path: Path) -> None:
    for word in ("pilot --store", "store status"):
        for place, said in [
            (tmp_path / "none", "no such directory"),
            (tmp_path, "there is no plan.toml"),
            ("ftp://x/y", "is no storage that pilots know"),
        ]:
            done = classad(*word.split(), place)
            assert (done.status, done.out) == (2, "")
            assert said in done.err
    assert "give --binder and --token, or --store" in classad("pilot").err


def test_what_is_left_is_demand(classad: Run, store: Path) -> None:
    (store / "work" / "shuf1148.arff" / "active80").write_text("farm7 4711 nonce\n")
    ads = json.loads(classad("store", "demand", store, "--json").out)
    assert len(ads) == 33
    assert [ad["Id"] for ad in ads if ad["JobStatus"] == 2] == ["shuf1148.arff/80"]
    lines = classad("store", "demand", store).out.splitlines()
    assert [parse_ad(line).eval("Id") for line in lines] == [ad["Id"] for ad in ads]


def test_a_factory_that_asks_ends_a_pilot(classad: Run, store: Path, tmp_path: Path) -> None:
    (tmp_path / "key.end").touch()
    done = classad(
        "pilot", "--store", store, "--report", tmp_path / "key", "--dir", tmp_path / "n", "--json"
    )
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["ended"] == "stopped"
    assert (tmp_path / "key").read_text().startswith("draining\n")
    assert not list(store.rglob("active*"))
