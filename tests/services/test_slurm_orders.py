"""Orders as their owners write them, on a real Slurm: the job runs as it was ordered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.services.breakable import BreakableSlurm, two_nodes, until

pytestmark = [pytest.mark.service, pytest.mark.slow]

cluster = pytest.fixture(scope="module")(two_nodes)

QUEUE = '[ CEid = "ce:1/x-slurm-main"; QueueName = "main" ]'
SHOWS = """\
#!/bin/sh
{lines}
echo "$# $1|$2|$PWD|$OF_CALLER|$OF_JOB|$LANG|$SLURM_NTASKS|$SLURM_JOB_ACCOUNT"
echo trouble >&2
cat
"""


@attrs.define
class Desk:
    """Where orders are written: a ledger and its spool beside them."""

    slurm: BreakableSlurm
    folder: Path

    def classad(self, *words: object, cwd: Path | None = None, **variables: str) -> Any:
        home = {"XDG_STATE_HOME": str(self.folder), "CLASSAD_LEDGER": str(self.folder / "jobs.db")}
        return subprocess.run(
            [Path(sys.executable).with_name("classad"), *map(str, words)],
            env={**self.slurm.environment, **home, **variables}, cwd=cwd or self.folder,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def end(self, *keys: str) -> dict[str, Any]:
        """Reconciles, from another directory and environment, until the jobs have ended."""
        found: dict[str, Any] = {}

        def ended() -> bool:
            self.classad("reconcile", cwd=Path("/"), OF_CALLER="somebody else")
            for key in keys:
                found[key] = json.loads(self.classad("jobs", key, "--json").stdout)
            return all(each["state"] in {"done", "failed"} for each in found.values())

        until(ended, f"an end of {keys}", 90.0)
        return found


@pytest.fixture
def desk(cluster: BreakableSlurm, tmp_path: Path) -> Desk:
    folder = tmp_path / "a desk"
    folder.mkdir()
    (folder / "queue.ad").write_text(QUEUE)
    return Desk(cluster, folder)


def test_a_job_runs_as_it_was_ordered(desk: Desk) -> None:
    folder = desk.folder
    (folder / "in.txt").write_text("from input\n")
    (folder / "run.sh").write_text(SHOWS.format(lines="#SBATCH --ntasks=2 -J mine"))
    (folder / "job.jdl").write_text(
        '[ Executable = "run.sh"; Arguments = "1 \'a  b$x\'"; StdInput = "in.txt";\n'
        '  StdOutput = "out.txt"; StdError = "err.txt"; Environment = { "OF_JOB=\'x\' y" };\n'
        '  InputSandbox = { "run.sh", "data" } ]'
    )
    other = folder / "elsewhere"
    other.mkdir()
    at = ("--lrms", "slurm", "--ce", folder / "queue.ad", "--wait", 0)
    os.link(folder / "in.txt", other / "in.txt")
    done = desk.classad(
        "submit", folder / "job.jdl", *at, "--key", "jdl", "--json", cwd=other,
        OF_CALLER="yes", LANG="C.UTF-8", SBATCH_ACCOUNT="physics",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("classad: key jdl\n")
    options = json.loads(done.stdout)["options"]
    assert options["words"] == ["--account=physics", "--ntasks=2"]
    assert [line.partition(": ")[0] for line in options["left_out"]] == ["InputSandbox", "line 2"]
    (folder / "plain.sh").write_text(SHOWS.format(lines="#SBATCH -o plain-%j.out -e plain.err"))
    (folder / "job.ad").write_text("[]")
    done = desk.classad(
        "submit", folder / "job.ad", *at, "--key", "plain", "--script", folder / "plain.sh",
        "--args", "'' two", "--", "--chdir", other, OF_CALLER="again",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for path in (folder / "run.sh", folder / "plain.sh", folder / "job.jdl"):
        path.unlink()
    found = desk.end("jdl", "plain")
    assert {each["state"] for each in found.values()} == {"done"}, found
    text = (other / "out.txt").read_text()
    assert text == f"2 1|a  b$x|{other}|yes|'x' y|C.UTF-8|2|physics\nfrom input\n"
    assert (other / "err.txt").read_text() == "trouble\n"
    (plain,) = other.glob("plain-*.out")
    assert plain.read_text() == f"2 |two|{other}|again||||\n"
    assert (other / "plain.err").read_text() == "trouble\n"


def test_what_cannot_be_is_refused_before_anything_is_written_down(desk: Desk) -> None:
    folder = desk.folder
    (folder / "job.ad").write_text("[]")
    (folder / "job.sh").write_text("#!/bin/sh\n#SBATCH --array=1-3\n")
    words = ("submit", folder / "job.ad", "--lrms", "slurm", "--ce", folder / "queue.ad")
    done = desk.classad(*words, "--script", folder / "job.sh", "--key", "k")
    assert done.returncode == 2
    assert "line 2: --array=1-3: a key is one job" in done.stderr
    assert desk.classad("jobs", "k").returncode == 2


def test_an_order_whose_directory_is_gone_on_the_node_says_so(desk: Desk) -> None:
    folder = desk.folder
    (folder / "job.ad").write_text('[ StdOutput = "no/such/folder/out" ]')
    (folder / "job.sh").write_text("#!/bin/sh\n")
    words = ("--lrms", "slurm", "--ce", folder / "queue.ad", "--script", folder / "job.sh")
    done = desk.classad("submit", folder / "job.ad", *words, "--key", "k", "--wait", 0)
    assert done.returncode == 0, done.stderr
    (record,) = desk.end("k").values()
    assert (record["state"], record["exit"]) == ("failed", 78)
