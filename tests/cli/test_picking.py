"""Some ads of many: by a constraint, by the id of a job, by a machine; and many jobs explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.slow

POOL = """
[ Name = "slot1@wn1.example.org"; Machine = "wn1.example.org"; Cpus = 4; State = "Unclaimed" ]
[ Name = "slot2@wn1.example.org"; Machine = "wn1.example.org"; Cpus = 8; State = "Claimed" ]
[ Name = "slot1@wn2.example.org"; Machine = "wn2.example.org"; Cpus = 8; State = "Claimed" ]
"""
JOBS = """
[ ClusterId = 12; ProcId = 0; Owner = "ana"; Requirements = TARGET.Cpus > 2 ]
[ ClusterId = 12; ProcId = 1; Owner = "ana"; Requirements = TARGET.Cpus > 2 ]
[ ClusterId = 13; ProcId = 0; Owner = "ben"; Requirements = TARGET.Cpus > 99 ]
[ GlobalJobId = "s#14.0"; Owner = "ben"; Requirements = TARGET.Cpus > 4 ]
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.ad"
    path.write_text(JOBS)
    return path


def test_a_constraint_leaves_some_ads(
    classad: Run, pool: Path, examples: Path, site: list[object], tmp_path: Path
) -> None:
    words = ["--constraint", "Cpus > 4 && NoSuch is undefined"]
    assert "2 of 2 match" in classad("match", "-", pool, *words, stdin="[ ]").out
    assert "2 of 2 match" in classad("explain", "-", pool, *words, stdin="[ ]").out
    assert classad("convert", pool, *words).out.count("Name") == 2
    out = tmp_path / "some.pool"
    classad("convert", pool, "-o", out, "--to", "pool", *words)
    assert "2 of 2 match" in classad("match", "-", out, stdin="[ ]").out
    assert (
        "1 of 1 match"
        in classad(
            "match", "-", out, "--constraint", 'Machine == "wn2.example.org"', stdin="[ ]"
        ).out
    )
    fast = ["--constraint", "GlueHostBenchmarkSI00 >= 900"]
    nodes = classad(
        "nodes", examples / "local.ad", "--nodes", examples / "nodes.ad", *fast, "--json"
    )
    data = json.loads(nodes.out)
    assert 0 < len(data["ranked"]) + len(data["refused"]) < 47
    every = json.loads(classad("ces", *site, "--json").out)
    some = classad("ces", *site, "--json", "--constraint", 'GlueCEStateStatus == "Production"')
    assert 0 < len(json.loads(some.out)) <= len(every)
    done = classad("ces", *site, "--constraint", "NoSuch > 1")
    assert (done.status, done.out) == (1, "")
    assert "--constraint NoSuch > 1 leaves 0" in done.err


def test_a_constraint_that_leaves_nothing_or_is_none(classad: Run, pool: Path) -> None:
    done = classad("match", "-", pool, "--constraint", "NoSuch > 1", stdin="[ ]")
    assert done.status == 1
    assert "--constraint NoSuch > 1 leaves none of 3 ads" in done.err
    done = classad("match", "-", pool, "--constraint", "Cpus >", stdin="[ ]")
    assert (done.status, done.out) == (2, "")
    assert "--constraint: " in done.err


@pytest.mark.parametrize(
    ("wanted", "matched"),
    [("12.0", 3), ("12.1", 3), ("13.0", 0), ("13", 0), ("s#14.0", 2), ("Owner=none", None),
     ("12", None), ("Owner=ben", None), ("ProcId=1", 3), ("99.0", None)],
)  # fmt: skip
def test_one_job_of_a_queue(
    classad: Run, pool: Path, jobs: Path, wanted: str, matched: int | None
) -> None:
    for command in ("match", "explain"):
        done = classad(command, jobs, pool, "--job", wanted, "--json")
        if matched is not None:
            assert json.loads(done.out)["matched"] == matched
            continue
        assert (done.status, done.out) == (2, "")
        several = {"12": "2 jobs are 12: 12.0, 12.1", "Owner=ben": "2 jobs are Owner=ben: 13.0, s#"}
        said = several.get(wanted, f"no job is {wanted}; there are 12.0, 12.1, 13.0, s#14.0")
        assert said in done.err


def test_many_jobs_are_explained_by_autocluster_the_worst_first(
    classad: Run, pool: Path, jobs: Path
) -> None:
    done = classad("explain", jobs, pool)
    assert done.status == 1
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["4", "jobs", "in", "3", "autoclusters,", "the", "worst", "first"]
    assert lines[2:6] == [
        ["jobs", "match", "free", "now", "ids"],
        ["1", "0", "0", "13.0"], ["1", "2", "0", "s#14.0"], ["2", "3", "1", "12.0,", "12.1"],
    ]  # fmt: skip
    assert "The first, such as 13.0:" in done.out.splitlines()
    assert "TARGET.Cpus > 99 -> 3 gains 3 slots, 1 of them free now" in done.out
    data = json.loads(classad("explain", jobs, pool, "--json").out)
    assert [(one["jobs"], one["matched"]) for one in data["clusters"]] == [
        (["13.0"], 0), (["s#14.0"], 2), (["12.0", "12.1"], 3),
    ]  # fmt: skip
    assert (data["jobs"], data["unexplained"]) == (4, 0)
    done = classad("explain", jobs, pool, "--html", "-")
    assert (done.status, done.out.count("<summary>")) == (1, 3)
    assert "--job ID takes one of them, such as 12.0" in classad("match", jobs, pool).err


def test_what_is_not_one_job_is_refused_before_the_pool_is_read(
    classad: Run, jobs: Path, tmp_path: Path
) -> None:
    nowhere = tmp_path / "nowhere"
    done = classad("explain", jobs, nowhere, "--shards", "2", "--with", "-")
    assert (done.status, done.out) == (2, "")
    assert "--with explains one job" in done.err
    done = classad("explain", "-", nowhere, "--shards", "2", "--with", "-", stdin="")
    assert (done.status, done.out) == (2, "")
    assert "no ads were found" in done.err


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("wn2", "slot1@wn2.example.org matches"),
        ("WN2.example.org", "slot1@wn2.example.org matches"),
        ("wn1", "wn1 has 2 slots, which one? slot1@wn1.example.org, slot2@wn1.example.org"),
        ("wn3", "no ad of the pool has Name = wn3, nor is on a machine of that name"),
    ],
)
def test_with_a_machine_offers_its_slots(classad: Run, pool: Path, host: str, said: str) -> None:
    done = classad("explain", "-", pool, "--with", host, stdin="[ ]")
    assert said in done.out + done.err
    assert done.status == (2 if "wn2" not in said else 0)


def test_jobs_have_their_ids_in_an_assignment(classad: Run, pool: Path, jobs: Path) -> None:
    done = classad("assign", jobs, "--pool", pool)
    assert "12.0  ana" in done.out
    assert "13.0" in done.out
    data = json.loads(classad("assign", jobs, "--pool", pool, "--json").out)
    assert [(one["job"], one["id"]) for one in data["placements"]] == [
        (1, "12.0"), (2, "12.1"), (3, "13.0"), (4, "s#14.0"),
    ]  # fmt: skip
