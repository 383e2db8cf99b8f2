"""``classad eval``: expressions and ads from everywhere, traces, data, and what is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from matchmaker import parse_ads
from tests.cli.conftest import run_here


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return run_here("eval", *arguments, given=given)


def printed(*arguments: str, given: str = "") -> str:
    done = run(*arguments, given=given)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def data(*arguments: str, given: str = "") -> Any:
    return json.loads(printed("--json", *arguments, given=given))


def refused(*arguments: str, given: str = "") -> str:
    done = run(*arguments, given=given)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture
def slots(tmp_path: Path) -> str:
    path = tmp_path / "slots.ad"
    path.write_text('[ Name = "wn1"; Cpus = 4 ]\n[ Cpus = 8 ]\n', encoding="utf-8")
    return str(path)


def test_several_expressions_without_an_ad() -> None:
    assert printed("1 + 1", "x", "1 / 0") == "2\nundefined\nerror: integer division by zero\n"


def test_expression_that_begins_with_a_minus() -> None:
    assert "come after --" in refused("-1 + 2")
    assert printed("--", "-1 + 2", "1") == "1\n1\n"
    assert "come after" not in refused("--targte", "[ ]", "1")


def test_each_expression_for_each_ad(slots: str) -> None:
    assert printed("Cpus", "Cpus > 5", "--ad", slots, "--my", "[ Cpus = 1 ]") == (
        "ad   Cpus  Cpus > 5\nwn1  4     false\n2    8     true\n3    1     false\n"
    )


def test_ads_from_standard_input() -> None:
    assert printed("a", "--ad", "-", given="a = 1\n\na = 2\n") == "ad  a\n1   1\n2   2\n"
    assert printed("TARGET.a", "--target", "-", given="[ a = 3 ]") == "3\n"


def test_target_as_text_or_file(slots: str, tmp_path: Path) -> None:
    assert printed("TARGET.a + b", "--my", "b = 1", "--target", "[ a = 3 ]") == "4\n"
    one = tmp_path / "one.json"
    one.write_text('{"a": 5}', encoding="utf-8")
    assert printed("a", "--target", str(one)) == "5\n"
    assert "exactly one" in refused("a", "--target", slots)


def test_expressions_from_standard_input() -> None:
    assert printed(given="1 + 1\n\n# a remark\n2 * 3") == "2\n6\n"
    assert "line 3, column 3: unexpected ')'" in refused(given="1\n\n2+)\n")
    assert printed(given="") == ""


def test_data() -> None:
    assert data("a", "b", "--my", '[ Name = "m"; a = {1, 2.5}; b = undefined ]') == [
        {"ad": "m", "expression": "a", "value": [1, 2.5]},
        {"ad": "m", "expression": "b", "value": None},
    ]


def test_trace() -> None:
    shown = printed("--trace", "MY.START", "false && x", "--my", "[ START = Load < 1; Load = 2 ]")
    assert shown == (
        "MY.START is false\n  Load < 1 is false\n    Load is 2\n"
        "false && x is false\n  x: not evaluated\n"
    )


def test_traces_of_several_ads(slots: str) -> None:
    assert printed("--trace", "Cpus", "--ad", slots) == "wn1:\nCpus is 4\n2:\nCpus is 8\n"


def test_trace_as_data() -> None:
    [record] = data("--trace", "a || b", "--my", "[ a = c; c = true ]")
    assert record == {
        "ad": "1", "expression": "a || b", "value": True,
        "parts": [
            {"expression": "a", "value": True,
             "parts": [{"expression": "c", "value": True, "parts": []}]},
            {"expression": "b", "note": "not evaluated", "parts": []},
        ],
    }  # fmt: skip


def test_no_ad_steers_the_terminal() -> None:
    evil = '[ a = "\\033]0;x\\007" ]'
    for more in ([], ["--trace"], ["--ad", "/dev/stdin"]):
        shown = printed("a", "--my", evil, *more, given="[ b = 1 ]")
        assert "\033" not in shown


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["1 +"], "", "line 1, column 4: the text ends too early"),
        (["a", "--my", "[ a = "], "", "--my, line 1"),
        (["a", "--my", "[a=2][a=4]"], "", "--my: more than one ad was found (give --my once for"),
        (
            ["a", "--my", "job.ad"],
            "",
            "--my: 'job.ad' is no text of an ad (an ad in a file is given",
        ),
        (["a", "--my", " "], "", "--my: no ad was found (such as '[ Cpus = 4 ]')"),
        (["a", "--target", "[a=2][a=4]"], "", "--target: more than one ad was found"),
        (["a", "--target", "[ a = "], "", "--target, line 1"),
        (["a", "--ad", "-", "--target", "-"], "", "standard input can be read only once"),
        (["--ad", "-"], "[ a = 1 ]", "standard input can be read only once"),
        (["a", "--ad", "-"], "", "no ads were found"),
        (["a", "--ad", "no/such/file"], "", "no/such/file: No such file"),
    ],
)
def test_bad_input(arguments: list[str], given: str, message: str) -> None:
    assert message in refused(*arguments, given=given)


def test_what_json_lacks_is_marked_as_an_expression_and_a_string_is_not_taken_for_one() -> None:
    text = printed("--json", 'real("INF")')
    assert '"\\/Expr(real(\\"INF\\"))\\/"' in text
    [marked] = data('"/Expr(1)/"')
    [ad] = parse_ads(printed("--json", '"/Expr(1)/"'), "json")
    assert marked["value"] == '/Expr("/Expr(1)/")/'
    assert ad.eval("value") == "/Expr(1)/"
