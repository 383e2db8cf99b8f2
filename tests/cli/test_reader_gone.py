"""Nobody reads standard output: every subcommand ends without a word, with exit status 0."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from matchmaker import parse_expr
from matchmaker.cli import main, policy_
from tests.cli.conftest import EXAMPLES, Run
from tests.cli.outputs import subcommands
from tests.delegation.world import World

JOB, NODES, SITE = EXAMPLES / "job.jdl", EXAMPLES / "nodes.ad", EXAMPLES / "site.ldif"
QUEUES = ("--ldif", SITE, "--ce", EXAMPLES / "atlfarm006.ad", "--at", "2005-10-03T15:05:00Z")
FACTORY = """
ledger = "jobs.db"
cycle = 1
[pilot]
script = "job.sh"
[[demand]]
file = "job.ad"
[[queue]]
name = "main"
site = "here"
lrms = "slurm"
"""

# A line of words for each subcommand, which prints something. {} is the test's folder.
LINES: dict[str, tuple[object, ...]] = {
    "assign": (JOB, "--pool", NODES),
    "blah-local-submit-attributes": ("--lrms", "slurm"),
    "broker": (JOB, *QUEUES, "--nodes", NODES, "--lrms", "slurm"),
    "ces": QUEUES,
    "completion": ("bash",),
    "convert": (NODES,),
    "eval": ("1 + 1",),
    "explain": (JOB, NODES),
    "factory run": ("{}/grid.toml", "--cycles", "1"),
    "factory list-queues": ("{}/grid.toml",),
    "factory status": ("--ledger", "{}/jobs.db"),
    "factory stop": ("--ledger", "{}/jobs.db"),
    "flags": (JOB, "--lrms", "slurm", *QUEUES),
    "lint": (JOB,),
    "match": (JOB, NODES),
    "nodes": (JOB, "--nodes", NODES, *QUEUES),
    "pilot": ("--store", "{}/store", "--dir", "{}/node"),
    "pilots simulate": ("--load", "jobs=9,hours=1", "--policy", "dirac"),
    "policy": ("slurm", "7"),
    "publish": ("--ce", EXAMPLES / "atlfarm006.ad", "--site", "S"),
    "reduce": (JOB, *QUEUES),
    "store demand": (EXAMPLES / "store",),
    "store status": (EXAMPLES / "store",),
    "submit": ("{}/job.ad", "--ce", "{}/ce.ad", "--lrms", "slurm", "--script", "{}/job.sh",
               "--key", "run-7", "--ledger", "{}/jobs.db"),
    "jobs": ("--ledger", "{}/jobs.db"),
    "renew": ("run-7", "--ledger", "{}/jobs.db"),
    "cancel": ("run-7", "--ledger", "{}/jobs.db"),
    "reconcile": ("--ledger", "{}/jobs.db"),
    "acknowledge": ("run-7", "--ledger", "{}/jobs.db"),
}  # fmt: skip

# What belongs on standard error whoever reads.
SAID = {"factory run": "classad: grid: it made as many cycles as it should\n"}


def unread(words: list[str], given: str) -> tuple[int | str | None, str, bool]:
    """Runs the command with a pipe that nobody reads as its standard output.

    Gives the exit status, what is on standard error, and whether it met that nobody reads: then
    standard output is the null device, where Python may flush what is left.
    """
    reading, writing = os.pipe()
    os.close(reading)
    out, err = io.TextIOWrapper(io.FileIO(writing, "w"), "utf-8"), io.StringIO()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["classad", *words])
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as ended:
            main()
    met = os.fstat(writing).st_rdev == Path(os.devnull).stat().st_rdev
    out.close()
    return ended.value.code, err.getvalue(), met


def test_every_subcommand_is_tried() -> None:
    assert LINES.keys() == {name for name, _ in subcommands()}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", LINES)
def test_no_subcommand_minds_that_nobody_reads(
    *, name: str, as_json: bool, classad: Run, tmp_path: Path, world: World, job: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ledger = ("--ledger", tmp_path / "jobs.db")
    monkeypatch.setattr(policy_, "of_queued", lambda lrms, job_id: parse_expr("true"))
    (tmp_path / "grid.toml").write_text(FACTORY)
    (tmp_path / "store" / "work").mkdir(parents=True)
    (tmp_path / "store" / "plan.toml").write_text('command = ["true"]\nparameters = "1"\n')
    if name in ("factory status", "factory stop"):
        assert classad("factory", "run", tmp_path / "grid.toml", "--cycles", "1").status == 0
    if name in ("jobs", "renew", "cancel", "reconcile", "acknowledge"):
        assert classad("submit", *job, *ledger, "--key", "run-7").status == 0
    if name == "acknowledge":
        world.pass_time(1000)
        assert classad("reconcile", *ledger).status == 0
    words = [*name.split(), *(str(word).format(tmp_path) for word in LINES[name])]
    given = 'declare -- GlueHostMainMemoryRAMSize_Min="2000"\n'
    status, said, met = unread([*words, *["--json"] * as_json], given)
    assert (status, met) == (0, True)
    assert said in ("", SAID.get(name))
