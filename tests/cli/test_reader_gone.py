"""Nobody reads standard output: every subcommand ends without a word, with exit status 0."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker import parse_ad, parse_expr
from matchmaker.cli import main
from matchmaker.cli.commands import flags
from matchmaker.pilots.wire import connect
from tests.cli.conftest import EXAMPLES, Run
from tests.cli.outputs import subcommands
from tests.delegation.world import World
from tests.pilots.real import Grid, grid

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

# Words for a subcommand, with which it prints something. {} is the test's folder. Any other
# subcommand prints its help.
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
    "store retry": ("{}/failed",),
    "store status": (EXAMPLES / "store",),
    "submit": ("{}/job.ad", "--ce", "{}/ce.ad", "--lrms", "slurm", "--script", "{}/job.sh",
               "--key", "run-7", "--ledger", "{}/jobs.db"),
    "jobs": ("--ledger", "{}/jobs.db"),
    "renew": ("run-7", "--ledger", "{}/jobs.db"),
    "cancel": ("run-7", "--ledger", "{}/jobs.db"),
    "reconcile": ("--ledger", "{}/jobs.db"),
    "resume": ("run-7", "--ledger", "{}/jobs.db"),
    "acknowledge": ("run-7", "--ledger", "{}/jobs.db"),
    "binder run": ("--folder", "{}", "--listen", "127.0.0.1:0"),
    "binder token": ("client", "ana", "--folder", "{}"),
    "binder submit": ("{}/job.ad",),
    "binder jobs": (),
    "binder cancel": ("{id}",),
    "binder output": ("{id}",),
    "binder status": (),
    "binder revoke": ("t1",),
    "binder connect": ("{}/job.ad",),
}  # fmt: skip

# What belongs on standard error whoever reads.
SAID = {
    # Where the pilot is slower than the client.
    "binder connect": "classad: no pilot is connected\n",
    "factory run": "classad: grid: it made as many cycles as it should\n",
    "submit": "classad: key run-7\n",
    "resume": "classad: run-7 is committed: only a paused job is resumed\n",
}


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


TRIED = tuple(name for name, _ in subcommands())


def test_words_are_of_subcommands_that_exist() -> None:
    assert LINES.keys() <= set(TRIED)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", TRIED)
def test_no_subcommand_minds_that_nobody_reads(
    *, name: str, as_json: bool, classad: Run, tmp_path: Path, world: World, job: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ledger = ("--ledger", tmp_path / "jobs.db")
    monkeypatch.setattr(flags, "of_queued", lambda lrms, job_id: parse_expr("true"))
    (tmp_path / "grid.toml").write_text(FACTORY)
    (tmp_path / "store" / "work").mkdir(parents=True)
    (tmp_path / "store" / "plan.toml").write_text('command = ["true"]\nparameters = "1"\n')
    (tmp_path / "failed" / "work" / "a").mkdir(parents=True)
    (tmp_path / "failed" / "work" / "a" / "failed1.a.b").touch()
    (tmp_path / "failed" / "plan.toml").write_text('command = ["true"]\nparameters = "1"\n')
    if name in ("factory status", "factory stop"):
        assert classad("factory", "run", tmp_path / "grid.toml", "--cycles", "1").status == 0
    if name in ("jobs", "renew", "resume", "cancel", "reconcile", "acknowledge"):
        assert classad("submit", *job, *ledger, "--key", "run-7").status == 0
    if name == "acknowledge":
        world.pass_time(1000)
        assert classad("reconcile", *ledger).status == 0
    with contextlib.ExitStack() as ends:
        place = ends.enter_context(bound(name, tmp_path, monkeypatch))
        words = [
            *name.split(),
            *(str(word).format(tmp_path, **place) for word in LINES.get(name, ("--help",))),
        ]
        tried(name, [*words, *["--json"] * as_json])


@contextlib.contextmanager
def bound(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A binder with a pilot and a job, for its own subcommands; gives the job's id."""
    (folder / "job.ad").write_text('[ Cmd = "/bin/echo"; Arguments = {"x"}; Requirements = true ]')
    if name in {"binder run", "binder token"} or name.split(maxsplit=1)[0] not in {
        "binder",
        "pilot",
    }:
        yield {}
        return
    with grid(folder) as made:
        made.binder()
        if name in {"binder connect", "binder output"}:
            made.pilot("p", "--cpus", 1)
        scope = {"binder status": "admin", "binder revoke": "admin"}
        monkeypatch.setenv("CLASSAD_BINDER", made.address)
        monkeypatch.setenv(
            "CLASSAD_BINDER_TOKEN", str(folder / f"{scope.get(name, 'client')}.token")
        )
        yield {"id": asyncio.run(submitted(made, name)) if name != "binder connect" else ""}


async def submitted(made: Grid, name: str) -> str:
    """The id of a job that waits, or that has ended where its output is asked for."""
    ends = name == "binder output"
    text = f'[ Cmd = "/bin/echo"; Arguments = {{"x"}}; Requirements = {str(ends).lower()} ]'
    async with connect.binder(made.place()) as binder:
        job = await binder.submit(parse_ad(text), "k")
        # The clock stands still here: the binder waits, by its own.
        found = await binder.job(job.id, seconds=30.0 if ends else 0.0)
        assert found.over == ends
        return job.id


def tried(name: str, words: list[str]) -> None:
    """Runs a command for nobody, which is no failure."""
    given = 'declare -- GlueHostMainMemoryRAMSize_Min="2000"\n'
    status, said, met = unread(words, given)
    assert (status, met) == (0, True)
    assert said in ("", SAID.get(name))
