"""Subcommands on a pool in shards print what they print on one pool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from distributed import LocalCluster

JOB = "[ Id = 1; RequestCpus = 2; Requirements = TARGET.Cpus > 2; Rank = TARGET.Cpus ]"


def classad(*arguments: str) -> tuple[int, str, str]:
    command = [str(Path(sys.executable).with_name("classad")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    job, pool = tmp_path / "job.ad", tmp_path / "pool.ads"
    job.write_text(JOB)
    slots = (f'[ Name = "s{n}"; Cpus = {n}; State = "Unclaimed" ]' for n in range(8))
    pool.write_text("\n".join(slots))
    return str(job), str(pool)


def test_a_pool_in_shards_is_assigned_as_one_pool(files: tuple[str, str]) -> None:
    job, pool = files
    apart = classad("assign", job, "--pool", pool, "--shards", "2", "--json")
    assert apart == classad("assign", job, "--pool", pool, "--json")


def test_a_pool_on_a_scheduler_is_matched_and_explained(files: tuple[str, str]) -> None:
    job, pool = files
    with LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        there = ("--scheduler", cluster.scheduler_address)
        status, out, err = classad("match", job, pool, *there)
        assert (status, err) == (0, "")
        assert "5 of 8 match, all of them free now" in out
        assert "s7" in out
        status, out, err = classad("explain", job, pool, *there, "--with", "s1")
        assert (status, err) == (1, "")
        assert (status, out) == classad("explain", job, pool, "--with", "s1")[:2]
        chosen = ("--constraint", "Cpus > 3")
        assert classad("explain", job, pool, *chosen, *there) == classad(
            "explain", job, pool, *chosen
        )
        assert "4 of 4 match" in classad("match", job, pool, *chosen, *there)[1]
        several = f"{job}s"
        Path(several).write_text(JOB + JOB.replace("Id = 1", "Id = 2"))
        assert classad("explain", several, pool, *there) == classad("explain", several, pool)
        assert (
            "no ad of the pool has Name = s9"
            in classad("explain", job, pool, "--with", "s9", *there)[2]
        )
        status, out, err = classad("match", job, f"{pool}.gone", *there)
        assert (status, out) == (2, "")
        assert f"{pool}.gone" in err
        assert "Traceback" not in err


def test_a_pool_in_one_piece_imports_no_shards(files: tuple[str, str]) -> None:
    code = (
        "import sys; from matchmaker.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if 'matchmaker.shards' in name])"
    )
    for subcommand in ("match", "explain"):
        done = subprocess.run(
            [sys.executable, "-c", code, subcommand, *files],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.endswith("\n[]\n")
