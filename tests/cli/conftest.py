"""Running the command: in this process where that will do, as a process of its own where not."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from matchmaker.cli import main, transfers
from matchmaker.delegation import Delegator
from tests.cli.outputs import check_output
from tests.delegation.world import World

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# The command as the installed script calls it, from this interpreter whatever is on the path.
COMMAND = (sys.executable, "-c", "from matchmaker.cli import main; main()")


@attrs.frozen
class Done:
    """What a run came to."""

    status: int
    out: str
    err: str


Run = Callable[..., Done]


class StandardInput(io.BytesIO):
    """Bytes under the name that the real one has."""

    name = "<stdin>"


def run_here(*words: object, given: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the command in this process, as if it were one of its own: a start takes a second."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["classad", *map(str, words)])
        patched.setattr(sys, "stdin", io.TextIOWrapper(StandardInput(given.encode())))
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as ended:
            main()
    status = ended.value.code
    assert isinstance(status, int)
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    check_output(words, status, texts[0])
    return subprocess.CompletedProcess([], status, *texts)


@pytest.fixture
def classad(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process, with text as its standard input."""

    def run(*words: object, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["classad", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(StandardInput(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        status = ended.value.code
        assert isinstance(status, int)
        check_output(words, status, captured.out)
        return Done(status, captured.out, captured.err)

    return run


@pytest.fixture
def classad_process() -> Run:
    """Runs the command as a process of its own."""

    def run(*words: object, stdin: str = "") -> Done:
        done = subprocess.run(
            [*COMMAND, *map(str, words)], input=stdin, capture_output=True, text=True, check=False
        )
        check_output(words, done.returncode, done.stdout)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def examples() -> Path:
    return EXAMPLES


@pytest.fixture
def site(examples: Path) -> list[object]:
    """The options that describe the example's queues, at the time of the founding talk."""
    return ["--ldif", examples / "site.ldif", "--ce", examples / "atlfarm006.ad",
            "--at", "2005-10-03T15:05:00Z"]  # fmt: skip


@pytest.fixture
def pool(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The module's ``POOL`` in a file."""
    path = tmp_path / "pool.ad"
    path.write_text(request.module.POOL)
    return path


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A batch system and a spool that the command meets; its time passes while we would sleep."""
    made = World(length=500.0)
    made.now = time.time()

    def delegator(
        place: transfers.LedgerOptions, ledger: Any, system: str, *, parallel: int = 1
    ) -> Delegator:
        made.name = system
        return Delegator(
            ledger, made, made, owner="ana@ui", cluster=place.cluster, clock=lambda: made.now,
            deadlines=transfers.deadlines_of(place),
        )  # fmt: skip

    monkeypatch.setattr(transfers, "delegator", delegator)
    monkeypatch.setattr(time, "sleep", made.pass_time)
    monkeypatch.setattr(time, "time", lambda: made.now)
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    return made


@pytest.fixture
def here(tmp_path: Path) -> list[object]:
    return ["--ledger", tmp_path / "jobs.db"]


@pytest.fixture
def job(tmp_path: Path) -> list[object]:
    """A job with a script, and the queue that it goes to."""
    (tmp_path / "job.ad").write_text("[ Requirements = other.MaxWall >= 60 ]")
    (tmp_path / "ce.ad").write_text('[ CEid = "ce:1/x-slurm-short"; MaxWall = 100 ]')
    (tmp_path / "job.sh").write_text("#!/bin/sh\nexit 0\n")
    return [tmp_path / "job.ad", "--ce", tmp_path / "ce.ad", "--lrms", "slurm",
            "--script", tmp_path / "job.sh"]  # fmt: skip
