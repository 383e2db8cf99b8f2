from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import run_here

ROOT = Path(__file__).resolve().parents[2]
CODE = "from matchmaker.cli import main; main()"
TEXT = '[ Requirements = TARGET.Memroy > "4096"\n    && OpSys is "LINUX" ]\n'


def lint(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    with contextlib.chdir(ROOT):
        return run_here("lint", *arguments, given=text)


@pytest.fixture
def machine(tmp_path: Path) -> str:
    path = tmp_path / "machine.ad"
    path.write_text('[ Memory = 2048; OpSys = "LINUX" ]', encoding="utf-8")
    return str(path)


def test_for_people(machine: str) -> None:
    done = lint("-", "--target", machine, text=TEXT)
    assert done.returncode == 1
    assert done.stderr == ""
    assert done.stdout.split("\n") == [
        (
            '-:1:18: warning CA202: "4096" in quotes is a string: with a number it is an error, '
            'and as text "10" is less than "9"'
        ),
        '    [ Requirements = TARGET.Memroy > "4096"',
        "                     ^~~~~~~~~~~~~~~~~~~~~~",
        "    fix: TARGET.Memroy > 4096",
        "-:1:25: warning CA101: no target has an attribute Memroy; did you mean Memory?",
        '    [ Requirements = TARGET.Memroy > "4096"',
        "                            ^~~~~~",
        "    fix: Memory",
        "-:2:8: note CA305: =?= tells upper from lower case; == does not",
        '        && OpSys is "LINUX" ]',
        "           ^~~~~~~~~~~~~~~~",
        "2 warnings, 1 note",
        "",
    ]


def test_the_same_mistake_on_several_lines_is_told_once() -> None:
    text = "\n".join('[ Requirements = other.Memory > "4096" ]' for _ in range(12))
    done = lint("-", text=text)
    assert done.returncode == 1
    assert done.stdout.count("warning CA202") == 1
    assert "    also on lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 …, 11 times\n" in done.stdout
    assert "12 warnings" in done.stdout
    found = json.loads(lint("-", "--json", text=text).stdout)
    assert [one["line"] for one in found if one["code"] == "CA202"] == [*range(1, 13)]


def test_status() -> None:
    assert lint("-", text="[ a = 1 ]").returncode == 0
    assert lint("-e", 'x is "a"').returncode == 0
    assert lint("-e", "1 +").returncode == 1
    assert lint("examples/job.jdl", "--schema", "glue").stdout == "nothing found\n"
    for arguments in (
        (),
        ("absent.ad",),
        ("-", "--target", "absent.ad"),
        ("-", "--json", "--sarif"),
    ):
        done = lint(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("classad: ")
        assert done.stderr.count("\n") == 1


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.ad"
    path.write_bytes(b"[ a = 1 ]\n\xff")
    done = lint(str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "line 2: byte 0xff is not UTF-8 text" in done.stderr


def test_glue_names() -> None:
    done = lint("-e", "other.GlueCEStateFreeCPU > 1", "--schema", "glue")
    assert "did you mean GlueCEStateFreeCPUs?" in done.stdout


def test_terminal_is_not_steered() -> None:
    done = lint("-", text='[ a = "\x1b[2J" == 1 ]')
    assert "\x1b" not in done.stdout
    assert done.returncode == 1


def test_json(machine: str) -> None:
    done = lint("-", "--target", machine, "--json", text=TEXT)
    found = json.loads(done.stdout)
    assert [one["code"] for one in found] == ["CA202", "CA101", "CA305"]
    assert found[1] == {
        "code": "CA101", "severity": "warning", "source": "-", "line": 1, "column": 25,
        "end_line": 1, "end_column": 31, "text": "Memroy", "fix": "Memory",
        "message": "no target has an attribute Memroy; did you mean Memory?",
    }  # fmt: skip
    assert json.loads(lint("-e", "x", "--json").stdout) == []


# The part of the standard's schema that is used: of each object the members and their types, those
# that must be there with a "!".
REGION = {"startLine!": int, "startColumn": int, "endLine": int, "endColumn": int,
          "snippet": {"text": str}}  # fmt: skip
ARTIFACT = {"uri": str}
SARIF: dict[str, Any] = {
    "$schema": str,
    "version!": str,
    "runs!": [{
        "tool!": {"driver!": {
            "name!": str, "version": str, "semanticVersion": str,
            "rules": [{"id!": str, "shortDescription": {"text!": str},
                       "defaultConfiguration": {"level": str}}],
        }},
        "columnKind": str,
        "results": [{
            "ruleId": str, "ruleIndex": int, "level": str, "message!": {"text!": str},
            "locations": [{"physicalLocation": {"artifactLocation": ARTIFACT, "region": REGION}}],
            "fixes": [{"artifactChanges!": [{
                "artifactLocation!": ARTIFACT,
                "replacements!": [{"deletedRegion!": REGION, "insertedContent": {"text": str}}],
            }]}],
        }],
    }],
}  # fmt: skip


def assert_has_shape(data: Any, shape: Any) -> None:
    if isinstance(shape, dict):
        assert isinstance(data, dict)
        known = {name.rstrip("!"): part for name, part in shape.items()}
        assert data.keys() <= known.keys()
        assert {name[:-1] for name in shape if name.endswith("!")} <= data.keys()
        for name, part in data.items():
            assert_has_shape(part, known[name])
    elif isinstance(shape, list):
        assert isinstance(data, list)
        for item in data:
            assert_has_shape(item, shape[0])
    else:
        assert isinstance(data, shape)


def test_sarif(tmp_path: Path, machine: str) -> None:
    path = tmp_path / "a job.ad"
    path.write_text(TEXT, encoding="utf-8")
    done = lint(str(path), "-e", "1 +", "--target", machine, "--sarif")
    log = json.loads(done.stdout)
    assert_has_shape(log, SARIF)
    assert log["version"] == "2.1.0"
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert run["columnKind"] in {"unicodeCodePoints", "utf16CodeUnits"}
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        for location in result["locations"]:
            region = location["physicalLocation"]["region"]
            assert min(region["startLine"], region["startColumn"], region["endColumn"]) >= 1
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert uri in {path.as_uri(), "expression"}
            assert " " not in uri
    [fix] = run["results"][1]["fixes"]
    [change] = fix["artifactChanges"]
    assert change["replacements"][0]["insertedContent"]["text"] == "Memory"


@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_to_check_is_no_success(text: str) -> None:
    done = lint("-e", "a > 1", "-e", text)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "--expr is empty" in done.stderr
