"""The examples: what they must hold for the demo and the guides to show what they say."""

from __future__ import annotations

import hashlib
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

from matchmaker import ClassAd, glue, parse_ad, read_ads
from matchmaker.classad.values import UNDEFINED

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TALK = EXAMPLES / "atlfarm006.ad"

# Of the text without white space, which the talk's slides broke into lines.
LENGTH = 2429
DIGEST = "02d664e9d7edf990d0bdfa045974532d78e42d5353c84bdf6bc1ee004fb28822"

TERNARY = (
    "(other.GlueHostBenchmarkSI00 > 500 ? other.GlueCEPolicyMaxCPUTime > 1000"
    " : other.GlueCEPolicyMaxCPUTime > 2000)"
)


@pytest.fixture(scope="module")
def site() -> glue.Glue:
    return glue.read_ldif(EXAMPLES / "site.ldif")


@pytest.fixture(scope="module")
def nodes() -> list[ClassAd]:
    return list(read_ads(EXAMPLES / "nodes.ad"))


# --- the queue of the founding talk ---------------------------------------------------------------


def test_the_talks_ce_is_whole_and_unchanged() -> None:
    words = TALK.read_text("utf-8").split()
    text = "".join(words)
    assert len(text) == LENGTH
    assert hashlib.sha256(text.encode()).hexdigest() == DIGEST


def test_the_talks_ce_has_its_unquoted_name() -> None:
    assert "name = gridftp05.cern.ch ]" in TALK.read_text("utf-8")
    [ad] = read_ads(TALK)
    assert ad.eval("id") == "atlfarm006.mi.infn.it:2119/blah-pbs-long"
    ce = glue.unwrap(ad)
    elements = ce.eval("CloseStorageElements")
    assert isinstance(elements, list)
    [close] = elements
    assert isinstance(close, ClassAd)
    assert str(close["name"]) == "gridftp05.cern.ch"
    # Without quotes it is an expression, of attributes that nobody has.
    assert close.eval("name") is UNDEFINED
    assert close.eval("mount") == "/mn/SE2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GlueCEPolicyMaxCPUTime", 172800),
        ("GlueHostBenchmarkSI00", 400),
        ("GlueHostMainMemoryRAMSize", 1001),
        ("GlueCEStateStatus", "Production"),
        ("GlueCEAccessControlBaseRule", ["VO:EGEE"]),
        ("GlueInformationServiceURL", [UNDEFINED, UNDEFINED, UNDEFINED]),
        ("LRMSType", "pbs"),
    ],
)
def test_the_talks_ce_says_what_the_talk_showed(name: str, value: object) -> None:
    [ad] = read_ads(TALK)
    assert glue.unwrap(ad).eval(name) == value


# --- the sites ------------------------------------------------------------------------------------


def test_there_are_at_least_three_sites_and_a_dozen_queues(site: glue.Glue) -> None:
    queues = site.computing_elements()
    sites = {queue.eval("GlueSiteUniqueID") for queue in queues} - {UNDEFINED}
    assert len(sites) >= 3
    assert len({queue.eval("GlueCEUniqueID") for queue in queues}) >= 12
    assert len({queue.eval("LRMSType") for queue in queues}) >= 3


def test_the_sites_have_the_usual_defects(site: glue.Glue) -> None:
    rules = Counter(issue.rule.split(".")[0] for issue in site.issues)
    assert {"ldif", "clean", "typed", "link"} <= set(rules)
    assert len({issue.rule for issue in site.issues}) >= 8
    text = (EXAMPLES / "site.ldif").read_bytes()
    for defect in (b"444444", b"2146660842", b"999999", b"UNDEFINEDVALUE", b":: ", b"\r\n", b"\n "):
        assert defect in text, defect


def test_queues_are_in_several_states(site: glue.Glue) -> None:
    states = Counter(str(q.eval("GlueCEStateStatus")) for q in site.computing_elements())
    assert set(states) >= {"Production", "Closed", "Draining", "Queueing"}


# --- the job and the nodes ------------------------------------------------------------------------


def test_the_job_has_the_talks_ternary_requirement() -> None:
    job = parse_ad((EXAMPLES / "job.jdl").read_text("utf-8"))
    assert str(job["Requirements"]).startswith(TERNARY)
    assert "Rank" in job


def test_there_are_at_least_forty_nodes_of_several_kinds(nodes: list[ClassAd]) -> None:
    assert len(nodes) >= 40
    assert len({node.eval("Name") for node in nodes}) == len(nodes)
    kinds = {
        tuple(sorted((name, str(e)) for name, e in node.items() if name not in ("Name", "Machine")))
        for node in nodes
    }
    assert 4 <= len(kinds) <= 20


def test_some_nodes_have_no_benchmark_and_some_a_text(nodes: list[ClassAd]) -> None:
    kinds = Counter(type(node.eval("GlueHostBenchmarkSI00")).__name__ for node in nodes)
    assert kinds["int"] >= 30
    assert kinds["UndefinedType"] >= 1
    assert kinds["str"] >= 1


# --- the files around them ------------------------------------------------------------------------


def test_every_file_is_read_by_the_library() -> None:
    for path in EXAMPLES.glob("*.ad"):
        assert list(read_ads(path))


def test_the_readme_names_every_file() -> None:
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    for path in EXAMPLES.rglob("*"):
        if path.is_file() and path.name != "README.md" and path.suffix != ".pyc":
            folder = path.relative_to(EXAMPLES).parts[0]
            assert path.name in readme or f"`{folder}/`" in readme, path


def test_the_makefiles_demo_uses_the_examples() -> None:
    makefile = (EXAMPLES.parent / "Makefile").read_text("utf-8")
    demo = re.search(r"^DEMO := ((?:.*\\\n)*.*)", makefile, re.MULTILINE)
    assert demo is not None
    for word in ("job.jdl", "--ldif", "--ce", "atlfarm006.ad", "--nodes", "--lrms slurm"):
        assert word in demo[1]


# --- a broker of one's own ------------------------------------------------------------------------


def test_a_broker_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_broker.py"), run_name="__main__")
    chosen, refused, flags, later = capsys.readouterr().out.split("\n\n")
    free = {"short": 55, "long": 40, "main": 70}
    gone = re.findall(r"(\d+) go to \S+-(\w+)", chosen)
    assert {name: int(count) for count, name in gone} == free
    assert re.findall(r"(\d+) wait at \S+-(\w+)", chosen) == [(str(200 - 165), "main")]
    assert "-silent: the job's rank of it is undefined, not a number: GlueCEState" in refused
    assert "-atlas: it refuses the job: no rule of access covers the job" in refused
    assert '-drain: the job refuses: other.GlueCEStateStatus == "Production" is false' in refused
    assert "-long: sbatch --mem=4000M --partition=long --exclude=a2 (exact)" in flags
    assert flags.count("(exact)") == 3
    assert [line.rpartition("-")[2] for line in later.splitlines()[1:4]] == [
        "gpu", "short", "silent",
    ]  # fmt: skip
    assert later.splitlines()[4].strip() == f"{200 - 3 - 40 - 8 - 70} of 200 jobs would wait"
