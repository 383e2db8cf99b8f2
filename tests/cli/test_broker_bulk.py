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


def test_free_slots_are_shared_and_the_table_says_who_waits(classad: Run, pool: Path) -> None:
    pool.write_text(
        '[ CEid = "big"; P = 2; GlueCEStateFreeCPUs = 1 ] [ CEid = "b"; GlueCEStateFreeCPUs = 1 ]'
    )
    jobs = "[ Requirements = true; Rank = other.P ?: 0 ]" * 3
    done = classad("broker", "-", "--ce", pool, stdin=jobs)
    assert (done.status, done.err) == (0, "")
    *rows, said = done.out.splitlines()[1:]
    assert [line.split()[1:3] for line in rows] == [["big", "2"], ["b", "0"], ["big", "2"]]
    assert said == "1 job waits: no queue that matches has free slots left"
    answers = json.loads(classad("broker", "-", "--ce", pool, "--json", stdin=jobs).out)
    assert [one["waits"] for one in answers] == [False, False, True]
    done = classad("broker", "-", "--ce", pool, "--ignore-free-slots", stdin=jobs)
    assert [line.split()[1] for line in done.out.splitlines()[1:]] == ["big"] * 3


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
