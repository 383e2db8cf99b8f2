"""Pools that were saved, and Parquet, wherever the command takes ads."""

from __future__ import annotations

import builtins
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from matchmaker import Pool, parse_ads, write_ads
from tests.cli.conftest import COMMAND, Run

ADS = (
    '[ Name = "a"; Cpus = 4; Id = 1 ] [ Name = "b"; Cpus = 16; Id = 2 ]'
    ' [ Name = "c"; Cpus = 1; Id = 3; Requirements = other.Owner == "ana" ]'
)
JOB = "[ Requirements = other.Cpus >= 4; Rank = other.Cpus ]"
KINDS = ("ads", "saved", "parquet")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The same pool in each kind of file; no name tells the kind."""
    paths = {kind: tmp_path / f"{kind}.x" for kind in KINDS}
    pool = Pool(parse_ads(ADS), key="Id")
    write_ads(parse_ads(ADS), paths["ads"])
    pool.save(paths["saved"])
    pool.write_parquet(paths["parquet"])
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_pool_is_explained(classad: Run, files: dict[str, Path], kind: str) -> None:
    done = classad("explain", "-", files[kind], stdin=JOB)
    assert (done.status, done.err) == (0, "")
    assert "2 of 3 match" in done.out


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_pool_is_matched(classad: Run, files: dict[str, Path], kind: str) -> None:
    data = json.loads(classad("match", "-", files[kind], "--json", stdin=JOB).out)
    assert [(found["name"], found["rank"]) for found in data["ranked"]] == [("b", 16), ("a", 4)]
    assert classad("nodes", "-", "--nodes", files[kind], stdin=JOB).status == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_pool_is_read_from_standard_input(files: dict[str, Path], kind: str) -> None:
    job = files["ads"].parent / "job"
    job.write_text(JOB)
    done = subprocess.run(
        [*COMMAND, "explain", str(job), "-"],
        input=files[kind].read_bytes(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    with files[kind].open("rb") as file:
        again = subprocess.run(
            [*COMMAND, "explain", str(job), "-"], stdin=file, capture_output=True, check=False
        )
    assert again.stdout == done.stdout


def test_pools_of_different_kinds_are_one(classad: Run, files: dict[str, Path]) -> None:
    more = files["ads"].parent / "more"
    more.write_text('[ Name = "z"; Cpus = 8 ]')
    done = classad("explain", "-", files["saved"], more, stdin=JOB)
    assert "3 of 4 match" in done.out
    done = classad("explain", "-", *files.values(), stdin=JOB)
    assert done.status == 2
    assert "several ads have the same Name: 'a', 'b', 'c'" in done.err


def test_a_saved_pool_may_be_taken_by_another_key(classad: Run, files: dict[str, Path]) -> None:
    assert classad("explain", "-", files["saved"], "--key", "Name", stdin=JOB).status == 0
    done = classad("explain", "-", files["saved"], "--key", "Nick", stdin=JOB)
    assert done.status == 2
    assert "an ad has no Nick" in done.err
    assert "--key NAME says which attribute tells ads apart" in done.err
    assert "--key NAME" in classad("match", "-", files["saved"], "--key", "Nick", stdin=JOB).err


@pytest.mark.parametrize("kind", ["saved", "parquet"])
def test_a_damaged_pool_is_told(classad: Run, files: dict[str, Path], kind: str) -> None:
    data = files[kind].read_bytes()
    for size in (5, 60, len(data) // 2, len(data) - 3):
        files[kind].write_bytes(data[:size])
        done = classad("explain", "-", files[kind], stdin=JOB)
        assert done.status == 2
        assert done.err.startswith(f"classad: {files[kind]}: ")
        assert done.err.count("\n") == 1


def test_without_pyarrow_parquet_is_told(
    classad: Run, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    done = classad("explain", "-", files["parquet"], stdin=JOB)
    assert done.status == 2
    assert "pip install 'classad-matchmaker[arrow]'" in done.err
