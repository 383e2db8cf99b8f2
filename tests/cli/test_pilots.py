"""``classad pilots simulate``: the table, the data, the drawings, and bad input."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from matchmaker.pilots.policy.snapshot import Decision
from matchmaker.pilots.simulation import PEERS, simulation
from matchmaker.pilots.simulation.rules import NAMES, PilotRule
from tests.cli.conftest import Run

LOAD = ("--load", "jobs=60,hours=2")


def trace_line(submit: int, run: int = 60) -> str:
    return f"1 {submit} -1 {run} 1 -1 -1 -1 300 -1 1 5 2 -1 -1 3 -1 -1\n"


def test_the_help_names_the_rules_of_other_systems() -> None:
    assert PEERS == NAMES


def test_a_table_of_policies(classad: Run) -> None:
    done = classad("pilots", "simulate", *LOAD, "--policy", "dirac", "--policy", "parsl")
    assert (done.status, done.err) == (0, "")
    first, titles, *rows = done.out.splitlines()
    assert first.startswith("60 jobs of ")
    assert titles.startswith("policy  submissions  cancelled  pilots a job  wasted hours")
    assert [row.split()[0] for row in rows] == ["dirac", "parsl"]
    again = classad("pilots", "simulate", *LOAD, "--policy", "dirac", "--policy", "parsl")
    assert again.out == done.out


def test_data_of_each_simulation(classad: Run) -> None:
    words = ("--policy", "all", "--seeds", "1-2", "--delays", "bursts", "--json")
    data = json.loads(classad("pilots", "simulate", *LOAD, *words).out)
    assert [row["runs"] for row in data["rows"]] == [2] * 7
    assert len(data["simulations"]) == 14
    one = data["simulations"][0]
    assert (one["policy"], one["delays"], one["seed"], one["jobs"]) == (
        "matchmaker",
        "bursts",
        1,
        60,
    )
    assert {"pool", "by_group", "waits", "fairness"} <= one.keys()


def test_a_sweep_of_a_term(classad: Run, tmp_path: Path) -> None:
    svg = tmp_path / "front.svg"
    done = classad("pilots", "simulate", *LOAD, "--sweep", "Everywhere=1,9", "--svg", svg)
    assert (done.status, done.err) == (0, "")
    names = [row.split()[0] for row in done.out.splitlines()[2:]]
    assert names == ["Everywhere=1", "Everywhere=9", "dirac", "glideinwms"]
    assert "Everywhere=9" in svg.read_text("utf-8")


def test_a_sweep_of_expressions_and_of_several_terms(classad: Run) -> None:
    sweeps = (
        "--sweep",
        "Copies=max({1, 0.25 * TARGET.Queues}),2",
        "--sweep",
        "Grace=ifThenElse(true, 9, 1)",
    )
    done = classad("pilots", "simulate", *LOAD, *sweeps, "--json")
    assert (done.status, done.err) == (0, "")
    assert [each["policy"] for each in json.loads(done.out)["rows"]][:3] == [
        "Copies=max({1, 0.25 * TARGET.Queues})", "Copies=2", "Grace=ifThenElse(true, 9, 1)",
    ]  # fmt: skip


def test_a_trace_from_a_file_or_standard_input(classad: Run, tmp_path: Path) -> None:
    text = trace_line(0) + "bad\n" + trace_line(60)
    trace = tmp_path / "t.swf.gz"
    trace.write_bytes(gzip.compress(text.encode()))
    words = ("--policy", "dirac")
    done = classad("pilots", "simulate", trace, *words)
    assert done.status == 0
    assert done.out.startswith("2 jobs of 0 hours at 1 site; 1 simulation of each policy")
    assert done.err == "classad: t.swf.gz: line 2 is left out: it has 1 fields instead of 18\n"
    assert classad("pilots", "simulate", "-", *words, stdin=text).out == done.out


def test_jobs_without_a_pilot_are_status_one(classad: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    never = PilotRule("dirac", lambda snapshot, seed: Decision())
    monkeypatch.setattr(simulation, "named", lambda name: never)
    done = classad("pilots", "simulate", *LOAD, "--policy", "dirac")
    assert (done.status, done.err) == (1, "")
    assert done.out.splitlines()[-1].split()[-1] == "60"


def test_drawings(classad: Run, tmp_path: Path) -> None:
    svg, page = tmp_path / "a.svg", tmp_path / "a.html"
    words = ("--policy", "dirac", "--policy", "glideinwms", "--svg", svg, "--html", page)
    done = classad("pilots", "simulate", *LOAD, *words)
    assert (done.status, done.err) == (0, "")
    drawn = svg.read_text("utf-8")
    root = ET.fromstring(drawn)  # noqa: S314 - our own
    texts = {"".join(element.itertext()).strip() for element in root.iter()}
    assert {"dirac", "glideinwms", "wasted hours", "mean wait of a job (minutes)"} <= texts
    made = page.read_text("utf-8")
    assert made.count("<svg") == 1
    assert ">glideinwms</td>" in made
    assert "<?xml" not in made
    assert not re.search(r"<(script|img|iframe|link)\b|https?://(?!www\.w3\.org|purl\.org"
                         r"|creativecommons\.org|matplotlib\.org)", made)  # fmt: skip
    assert classad("pilots", "simulate", *LOAD, *words).status == 0
    assert svg.read_text("utf-8") == drawn


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give a TRACE or --load"),
        (("x.swf", *LOAD), "give a TRACE or --load"),
        (("missing.swf",), "missing.swf: No such file or directory"),
        (("--load", "jobs=0"), "'jobs' must be >= 1"),
        (("--load", "jobs=99999999999"), "give NAME=NUMBER"),
        (("--load", "cats=3"), "the names are bag, groups, hours, jobs, run, seed, sites"),
        (("--load", "jobs=3,jobs=4"), "--load has jobs twice"),
        ((*LOAD, "--sweep", "Copies="), "give TERM=VALUE,… as in Copies=1,2,4"),
        ((*LOAD, "--policy", "none"), "no policy 'none'; there are matchmaker, dirac"),
        ((*LOAD, "--seeds", "x"), "give numbers as 7 or 1,2,3 or 1-5"),
        ((*LOAD, "--seeds", "5-1"), "give numbers as 7 or 1,2,3 or 1-5"),
        ((*LOAD, "--seeds", "1-1000"), "give numbers as 7 or 1,2,3 or 1-5"),
        ((*LOAD, "--delays", "none"), "'none' is not one of"),
        ((*LOAD, "--cycle", "0"), "--cycle"),
        ((*LOAD, "--cycle", "nan"), "nan is not a finite number"),
        ((*LOAD, "--sweep", "Copies"), "give TERM=VALUE,… as in Copies=1,2,4"),
        ((*LOAD, "--sweep", "Copise=1,2"), "perhaps Copies is meant"),
        ((*LOAD, "--sweep", "Copies=-1"), "a number of at least 0 was expected"),
        ((*LOAD, "--svg", "-"), "--html and --svg name a file each"),
    ],
)  # fmt: skip
def test_bad_arguments(classad: Run, words: tuple[str, ...], said: str) -> None:
    done = classad("pilots", "simulate", *words)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_cut_trace_is_refused(classad: Run, tmp_path: Path) -> None:
    trace = tmp_path / "t.swf.gz"
    trace.write_bytes(gzip.compress((trace_line(0) * 5000).encode())[:-20])
    done = classad("pilots", "simulate", trace)
    assert (done.status, done.out) == (2, "")
    assert "the gzip data is cut or damaged after line" in done.err
    trace.write_text("; no job\n")
    done = classad("pilots", "simulate", trace)
    assert (done.status, done.out) == (2, "")
    assert "the workload has no job" in done.err


def test_our_policy_with_other_terms(classad: Run, tmp_path: Path) -> None:
    given = tmp_path / "mine.ad"
    given.write_text("[ NoSuchTerm = 1 ]")
    done = classad("pilots", "simulate", *LOAD, "--policy", given, "--policy", "matchmaker")
    assert done.status == 0
    assert "NoSuchTerm" in done.err
    assert [row.split()[0] for row in done.out.splitlines()[2:]] == [str(given), "matchmaker"]
    given.write_text("[ a = ")
    done = classad("pilots", "simulate", *LOAD, "--policy", given)
    assert (done.status, done.out) == (2, "")
