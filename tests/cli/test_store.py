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


ONE_FAILS = (
    'command = ["sh", "-c", "test $0 != 2 && echo > votes$0.txt", "{parameter}"]\n'
    'parameters = "1-3"\nattempts = 2\n'
)


def test_a_parameter_that_fails_on_several_nodes_is_given_up(
    classad: Run, store: Path, tmp_path: Path
) -> None:
    (store / "plan.toml").write_text(ONE_FAILS)

    def pilot(node: str) -> tuple[int, str, dict[str, object]]:
        done = classad(
            "pilot", "--store", store, "--dir", tmp_path / node, "--node", node, "--json"
        )
        return done.status, done.err, json.loads(done.out)

    # One node alone tries it twice, and leaves it to others.
    status, said, told = pilot("farm1")
    assert (status, told["ended"]) == (1, "what is left failed on this node")
    assert (told["stored"], told["failed"], told["given_up"], told["failed_here"]) == (4, 4, 0, 2)
    assert "shuf1148.arff, 2: exit status 1" in said
    shown = classad("store", "status", store)
    assert shown.status == 1
    counts = ["shuf1148.arff", "2", "0", "0", "1", "0", "0", "#x#"]
    assert shown.out.splitlines()[1].split() == counts
    assert shown.out.splitlines()[-1].endswith("; 2 failed parameters (--failures)")
    assert len(json.loads(classad("store", "demand", store, "--json").out)) == 2
    # A second pilot of the node does not try again.
    assert pilot("farm1")[2]["failed"] == 0

    status, _, told = pilot("farm2")
    assert (status, told["ended"], told["given_up"]) == (1, "given up", 2)
    counts[4:8] = "0", "1", "0", "#!#"
    assert classad("store", "status", store).out.splitlines()[1].split() == counts
    failures = classad("store", "status", store, "--failures").out.splitlines()
    assert failures[1].split() == [
        "shuf1148.arff",
        "2",
        "2",
        "3",
        "given",
        "up",
        "exit",
        "status",
        "1",
    ]
    assert classad("store", "demand", store).out == ""

    # What was mended is brought back.
    assert classad("store", "retry", store, "9").status == 2
    assert json.loads(classad("store", "retry", store, "--json").out) == [
        {"input": f"shuf{number}.arff", "parameter": "2"} for number in (1148, 2296)
    ]
    assert classad("store", "retry", store, "2").status == 1
    (store / "plan.toml").write_text(ONE_FAILS.replace("test $0 != 2 && ", ""))
    assert pilot("farm1")[2]["ended"] == "all is done"


def test_a_program_that_cannot_be_started_is_the_nodes_failure(
    classad: Run, store: Path, tmp_path: Path
) -> None:
    words = {"'no-such-program'": "No such file", "'sh', '-c', 'exit 127'": "exit status 127",
             "'/'": "Permission denied"}  # fmt: skip
    for command, why in words.items():
        (store / "plan.toml").write_text(f"command = [{command}]\nparameters = '1-9'\n")
        done = classad("pilot", "--store", store, "--slots", 2, "--dir", tmp_path / "node")
        assert done.status == 1
        assert "the pilot has ended: it could not start a program" in done.out
        assert why in done.err
        assert "could not be started" in done.err
        # It leaves nothing, neither claims nor notes.
        names = [path.name for path in store.rglob("*") if path.name.startswith(("act", "fail"))]
        assert names == []


def test_a_program_that_worked_here_is_the_nodes_failure_no_more(
    classad: Run, store: Path, tmp_path: Path
) -> None:
    (store / "plan.toml").write_text(ONE_FAILS.replace("$0 != 2", "$0 != 2 || exit 127"))
    # One that draws it first leaves.
    told: dict[str, object] = {}
    for _ in range(20):
        done = classad("pilot", "--store", store, "--dir", tmp_path / "node", "--json")
        if (told := json.loads(done.out))["ended"] != "it could not start a program":
            break
    assert (told["ended"], told["failed_here"]) == ("what is left failed on this node", 2)


def test_a_node_where_all_fails_is_left(classad: Run, store: Path, tmp_path: Path) -> None:
    (store / "plan.toml").write_text('command = ["false"]\nparameters = "1-40"\n')
    words = ("pilot", "--store", store, "--dir", tmp_path / "node", "--node", "farm7")
    done = classad(*words, "--failures", 4)
    assert (done.status, len(list(store.rglob("failed*")))) == (1, 4)
    assert "the pilot has ended: too many failures in a row; 4 failed" in done.out
    said = "the last 4 parameters failed here, and on no other node: is something missing on farm7?"
    assert said in done.err
    assert "40 of" not in classad("store", "status", store, "--failures").out


def test_a_long_claim_makes_no_long_line(classad: Run, store: Path) -> None:
    (store / "work" / "shuf1148.arff" / "active80").write_text("x" * (1 << 19))
    (store / "work" / "shuf1148.arff" / "active81").write_text("farm7 4711 nonce\n")
    (store / "work" / "shuf1148.arff" / "failed82.a.b").write_text("farm7\n" + "y" * (1 << 19))
    assert len(classad("store", "status", store, "--claims").out) < 1000
    assert len(classad("store", "status", store, "--failures").out) < 1000


# --- lists of tasks -------------------------------------------------------------------------------


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    place = tmp_path / "tasks"
    place.mkdir()
    return place


def results(store: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (store / "work" / "tasks").glob("*.out")}


def test_command_lines_need_no_plan(classad: Run, empty: Path, tmp_path: Path) -> None:
    lines = "echo one\n# a remark\n\necho 'two words' $HOME;\n  printf three\n"
    words = ("pilot", "--store", empty, "--dir", tmp_path / "node", "--tasks")
    done = classad(*words, "-", "--json", stdin=lines)
    assert (done.status, json.loads(done.out)["ended"]) == (0, "all is done"), done.err
    assert results(empty) == {"1.out": "one\n", "4.out": "two words $HOME;\n", "5.out": "three"}
    assert (empty / "tasks.csv").read_text() == lines
    status = classad("store", "status", empty)
    assert (status.status, status.out.splitlines()[1].split()[:2]) == (0, ["tasks", "3"])
    # The same list again is the same work; another is refused.
    (tmp_path / "list").write_text(lines)
    assert classad(*words, tmp_path / "list").status == 0
    other = classad(*words, "-", stdin="echo other")
    assert (other.status, "has another tasks.csv" in other.err) == (2, True)
    missing = classad(*words, tmp_path / "none")
    assert (missing.status, len(missing.err.splitlines())) == (2, 1)


def test_a_shell_reads_command_lines_where_the_plan_says_so(
    classad: Run, empty: Path, tmp_path: Path
) -> None:
    (empty / "plan.toml").write_text("shell = true\n")
    (empty / "tasks.csv").write_text("echo a | tr a b; ls\n")
    # Files of the one input are there for each task.
    (empty / "work" / "tasks").mkdir(parents=True)
    (empty / "work" / "tasks" / "data").touch()
    assert classad("pilot", "--store", empty, "--dir", tmp_path / "node").status == 0
    assert results(empty) == {"1.out": "b\ndata\n"}


def test_columns_fill_the_command_of_the_plan(classad: Run, empty: Path, tmp_path: Path) -> None:
    (empty / "plan.toml").write_text('command = ["echo", "{parameter}", "-c{cost}", "{text}"]\n')
    (empty / "tasks.csv").write_text('\ufeffname,cost,text\nlow,1,"a, ""b"" {cost}"\nhigh,8,\n')
    before = classad("store", "status", empty, "--json")
    assert (before.status, json.loads(before.out)["inputs"][0]["free"]) == (1, 2)
    assert len(json.loads(classad("store", "demand", empty, "--json").out)) == 2
    assert classad("pilot", "--store", empty, "--dir", tmp_path / "node").status == 0
    assert results(empty) == {"low.out": 'low -c1 a, "b" {cost}\n', "high.out": "high -c8 \n"}


def test_a_task_may_leave_a_file_as_its_result(classad: Run, empty: Path, tmp_path: Path) -> None:
    (empty / "plan.toml").write_text(
        'command = ["sh", "-c", "echo $1 > $0.json; echo loud", "{parameter}", "{x}"]\n'
        'result = "{parameter}.json"\n'
    )
    (empty / "tasks.csv").write_text("x\n7\n8\n")
    assert classad("pilot", "--store", empty, "--dir", tmp_path / "node").status == 0
    found = {path.name: path.read_text() for path in (empty / "work" / "tasks").iterdir()}
    assert found == {"2.json": "7\n", "3.json": "8\n"}


def test_a_long_output_is_stored_whole(classad: Run, empty: Path, tmp_path: Path) -> None:
    (empty / "tasks.csv").write_text("seq 100000\n")
    assert classad("pilot", "--store", empty, "--dir", tmp_path / "node").status == 0
    assert results(empty)["1.out"].split() == [str(number) for number in range(1, 100_001)]


def test_failures_are_shown_by_task(classad: Run, empty: Path, tmp_path: Path) -> None:
    (empty / "tasks.csv").write_text("echo fine\nls /no/such/file\n")
    assert classad("pilot", "--store", empty, "--dir", tmp_path / "node").status == 1
    said = classad("store", "status", empty, "--failures").out.splitlines()
    assert said[1].split()[:4] == ["tasks", "2", "1", "3"]
    assert "exit status 2 ls: cannot access" in said[1]


@pytest.mark.parametrize(
    ("plan", "tasks", "said"),
    [
        ("", "", "tasks.csv has no tasks"),
        ("", "echo 'x\n", "tasks.csv, line 1: a quote is open"),
        ("", "a\0b", "a null byte"),
        ("parameters = '1'\ncommand = ['f']", "echo", "has parameters, and there is tasks.csv"),
        ("command = ['f', '{y}']", "x\n1\n", "{y} in command; {input}, {parameter} and {x} are"),
        ("command = ['f', '{x}']", "x,y\n1\n", "tasks.csv, line 2: 1 values; the header has 2"),
        ("command = ['f']", "name,y\na,1\na,2\n", "line 3: there is a task a already"),
        ("command = ['f']", "name\na/b\n", "line 2: name 'a/b': give letters"),
        ("command = ['f']", "x,x\n1,2\n", "'x' in the first line, which names the columns"),
        ("command = ['f']", "echo one\n", "'echo one' in the first line"),
        ("command = ['f']", 'x\n"1', "tasks.csv, line 2: unexpected end of data"),
        ("command = ['f']\nshell = true", "x\n1\n", "shell is for command lines"),
        ("shell = 7", "echo", "shell is neither true nor false"),
        ("command = ['f']\nparameters = '1'\nshell = true", None, "shell is for command lines"),
        ("command = ['f']", None, "parameters is missing, and there is no tasks.csv"),
    ],
)
def test_a_bad_list_of_tasks(  # noqa: PLR0917 - fixtures, and what is drawn
    classad: Run, empty: Path, tmp_path: Path, plan: str, tasks: str | None, said: str
) -> None:
    (empty / "plan.toml").write_text(plan)
    if tasks is not None:
        (empty / "tasks.csv").write_text(tasks)
    done = classad("pilot", "--store", empty, "--dir", tmp_path / "node")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert said in done.err
    assert not (empty / "work").exists()


# --- plans ----------------------------------------------------------------------------------------


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
