"""Pools that were saved, and Parquet, wherever the command takes ads."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from matchmaker import Pool, parse_ads, write_ads
from matchmaker.cli import inputs
from matchmaker.cli.commands.convert import POOLS
from tests.cli.conftest import COMMAND, Run

pytestmark = pytest.mark.slow

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
    again = f"{files['saved']}, ad 1: Name = 'a', as {files['ads']}, ad 1 has; and so 5 more"
    assert again in done.err


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
    for size in (9, 60, len(data) // 2, len(data) - 3):
        files[kind].write_bytes(data[:size])
        done = classad("explain", "-", files[kind], stdin=JOB)
        assert done.status == 2
        assert done.err.startswith(f"classad: {files[kind]}: ")
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["saved", "parquet"])
def test_without_pyarrow_it_is_said_what_to_install(
    classad: Run, files: dict[str, Path], hide_pyarrow: Callable[[], None], kind: str
) -> None:
    hide_pyarrow()
    done = classad("explain", "-", files[kind], stdin=JOB)
    assert done.status == 2
    assert "pip install 'classad-matchmaker[arrow]'" in done.err


# --- made by the command --------------------------------------------------------------------------


READERS = {"pool": Pool.load, "parquet": Pool.read_parquet}


@pytest.mark.parametrize("to", POOLS)
def test_ads_are_converted_to_a_pool_and_back(
    classad: Run, files: dict[str, Path], to: str
) -> None:
    out = files["ads"].parent / "out"
    done = classad("convert", files["ads"], "--to", to, "--key", "Id", out)
    assert (done.status, done.out, done.err) == (0, "", "")
    pool = READERS[to](out)
    assert (pool.key, pool.keys()) == ("Id", ["1", "2", "3"])
    assert list(pool) == list(parse_ads(ADS))
    assert list(parse_ads(classad("convert", out).out)) == list(parse_ads(ADS))
    more = files["ads"].parent / "more"
    more.write_text('[ Name = "z" ]')
    assert classad("convert", out, more, "--to", to, "--output", out).status == 0
    assert "2 of 4 match" in classad("match", "-", out, stdin=JOB).out


def test_a_pool_that_cannot_be_made_leaves_what_was_there(
    classad: Run, files: dict[str, Path]
) -> None:
    out = files["ads"].parent / "out"
    out.write_text("as it was")
    for words, said in (
        (["--key", "Cups"], f"{files['ads']}, ad 1: an ad has no Cups"),
        (["-o", out, files["ads"]], f"{files['ads']}, ad 1: Name = 'a', as {files['ads']}, ad 1"),
        (["-o", "-"], "--to pool is no text: say where to with --output OUT"),
    ):
        place = [] if "-o" in words else ["-o", out]
        done = classad("convert", files["ads"], "--to", "pool", *place, *words)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"classad: {said}")
    assert out.read_text() == "as it was"


def test_bad_ads_are_left_out_of_a_pool_on_request(classad: Run, tmp_path: Path) -> None:
    ads, out = tmp_path / "ads", tmp_path / "out"
    ads.write_text('Name = "a"\nCpus = (\n\nName = "b"\nCpus = 2\n')
    done = classad("convert", ads, "--to", "pool", "--report", out)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert Pool.load(out).keys() == ["a", "b"]


def test_text_of_a_parquet_file_that_is_expressions(classad: Run, tmp_path: Path) -> None:
    path = tmp_path / "pool"
    ads = parse_ads('[ Name = "a"; Requirements = "other.Cpus > 1"; START = "1 +" ] [ Name = "b" ]')
    Pool(ads).write_parquet(path)
    job = "[ Cpus = 1 ]"
    assert "1 of 2 match" in classad("match", "-", path, stdin="[ Cpus = 2 ]").out
    words = ["--expressions", "Requirements"]
    assert "2 of 2 match" in classad("match", "-", path, *words, stdin="[ Cpus = 2 ]").out
    assert "1 of 2 match" in classad("explain", "-", path, *words, stdin=job).out
    assert classad("assign", "-", "--pool", path, *words, stdin=job).status == 0
    done = classad("match", "-", path, *words, "--expressions", "START", stdin=job)
    said = f"classad: {path}: START: row 1: line 1, column 4: the text ends too early"
    assert (done.status, done.err[: len(said)]) == (2, said)
    assert "other.Cpus > 1;" in classad("convert", path, *words).out
    pyarrow.parquet.write_table(pa.table({"Name": ["a"], "Requirements": ["other.Cpus > 1"]}), path)
    done = classad("match", "-", path, stdin="[ Cpus = 2 ]")
    assert done.err.startswith(f"classad: {path}: Requirements is text in this table")
    assert classad("match", "-", path, *words, stdin="[ Cpus = 2 ]").err == ""


@pytest.mark.parametrize("to", [*POOLS, "new"])
def test_expressions_of_no_parquet_file_are_refused(classad: Run, tmp_path: Path, to: str) -> None:
    ads, out = tmp_path / "ads", tmp_path / "out"
    ads.write_text('[ Name = "a"; START = "1 + 1" ]')
    done = classad("convert", ads, "--to", to, "--expressions", "START", out)
    assert (done.status, out.exists()) == (2, False)
    assert "--expressions names columns of Parquet files, and none of the files is one" in done.err
    for words in (["match", "-", ads], ["explain", "-", ads], ["assign", "-", "--pool", ads]):
        done = classad(*words, "--expressions", "START", stdin="[ ]")
        assert (done.status, done.out) == (2, "")
        assert "none of the files is one" in done.err


def test_a_key_without_a_pool_is_refused(classad: Run, tmp_path: Path) -> None:
    ads = tmp_path / "ads"
    ads.write_text('[ Name = "a"; Id = 1 ]')
    done = classad("convert", ads, "--key", "Id")
    assert (done.status, done.out) == (2, "")
    assert "--key is of a pool, and --to new writes none" in done.err


def test_a_parquet_file_without_names_is_taken_by_another_key(classad: Run, tmp_path: Path) -> None:
    path, out = tmp_path / "pool", tmp_path / "out"
    pyarrow.parquet.write_table(pa.table({"Id": [1, 2], "Cpus": [4, 8]}), path)
    assert classad("convert", path, "--to", "pool", "--key", "Id", out).status == 0
    assert Pool.load(out).keys() == ["1", "2"]
    assert "2 of 2 match" in classad("match", "-", path, "--key", "Id", stdin="[ ]").out


def test_a_key_that_is_no_text_is_told_with_its_place(classad: Run, tmp_path: Path) -> None:
    ads = tmp_path / "ads"
    ads.write_text('[ Name = "a" ]\n[ Name = true ]')
    done = classad("convert", ads, "--to", "pool", tmp_path / "out")
    assert (done.status, f"{ads}, ad 2: an ad has Name = true" in done.err) == (2, True), done.err


@pytest.mark.parametrize("command", ["explain", "match", "assign"])
@pytest.mark.parametrize(
    "text",
    [
        'Name = "a"\nCpus = 4\n\nName = "b"\nCpus = 2\n',
        'Name = "a"\nCpus = 4\n\nName = "a"\nCpus = 2\n',
        'Name = "a"\nCpus = 4\n\nCpus = 2\n',
        'Name = "a"\nCpus = 4\n\nName = "b"\nCpus = 2 x\n',
        '[ Name = "a"; Cpus = 4 ]',
        "dn: o=grid\n",
    ],
    ids=["good", "same key", "no key", "broken", "new", "LDIF"],
)
def test_a_large_file_gives_what_a_small_one_does(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, command: str
) -> None:
    path = tmp_path / "ads"
    path.write_text(text)
    small = classad(command, "-", path, stdin=JOB)
    monkeypatch.setattr(inputs, "LARGE", 0)
    assert classad(command, "-", path, stdin=JOB) == small
