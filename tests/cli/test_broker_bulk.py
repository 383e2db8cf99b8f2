from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run

POOL = """
[ CEid = "big"; FreeCPUs = 9 ]
[ CEid = "small"; FreeCPUs = 3; Requirements = other.Size < 5 ]
"""
JOBS = """
[ Size = 1; Requirements = other.FreeCPUs > 0; Rank = other.FreeCPUs ]
[ Size = 9; Requirements = other.FreeCPUs < 5; Rank = 1 ]
"""


def test_many_jobs_at_once(classad: Run, pool: Path) -> None:
    done = classad("broker", "-", "--ce", pool, "--json", stdin=JOBS)
    assert (done.status, done.err) == (1, "")
    first, second = json.loads(done.out)
    assert first["chosen"] == "big"
    assert [one["name"] for one in first["ranked"]] == ["big", "small"]
    assert (second["job"], second["chosen"], second["ranked"]) == (2, None, [])
    table = classad("broker", "-", "--ce", pool, "--one-way", stdin=JOBS)
    assert table.status == 0
    assert [line.split() for line in table.out.splitlines()[1:]] == [
        ["1", "big", "9", "2"],
        ["2", "small", "1", "1"],
    ]


def test_what_goes_with_one_job_alone(classad: Run, pool: Path) -> None:
    done = classad("broker", "-", "--ce", pool, "--lrms", "slurm", stdin=JOBS)
    assert done.status == 2
    assert "holds 2 jobs" in done.err


def test_order(classad: Run, pool: Path) -> None:
    job = JOBS.strip().split("\n")[0]

    def chosen(*words: object) -> str:
        done = classad("broker", "-", "--ce", pool, "--json", *words, stdin=job)
        name = json.loads(done.out)["queues"]["chosen"]
        assert isinstance(name, str)
        return name

    assert chosen() == "big"
    assert chosen("--tried", "big") == "small"
    drawn = [chosen("--fuzzy", "0.0001", "--seed", seed) for seed in range(30)]
    assert drawn == [chosen("--fuzzy", "0.0001", "--seed", seed) for seed in range(30)]
    assert set(drawn) == {"big", "small"}
    assert classad("broker", "-", "--ce", pool, "--fuzzy", "0", stdin=job).status == 2
