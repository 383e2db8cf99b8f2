"""What cannot be submitted from here is refused before anything is written down."""

from __future__ import annotations

from pathlib import Path

import pytest

import matchmaker as mm
from matchmaker.delegation.commands import Commands
from matchmaker.delegation.control import load_control
from matchmaker.delegation.ledger import Ledger
from tests.delegation.test_commands import REPLIES, Site

AD = mm.parse_ad("[]")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "bin").mkdir()
    return Site(tmp_path / "bin")


def submit(  # noqa: PLR0917
    ledger: Ledger, site: Site, lrms: str, script: Path, words: list[str],
    spool: Path | None = None,
) -> str:  # fmt: skip
    """The state of a job that was handed over."""
    place = spool if spool is not None else script.parent / "spool"
    made = mm.delegation.Delegator(ledger, site.commands(lrms), place)
    return str(made.submit(AD, script, words, key="k").state)


WRONG = [
    ("slurm", ["other.sh"]), ("slurm", ["--mem=5M", "other.sh"]), ("slurm", ["--wrap=true"]),
    ("slurm", ["--wra", "true"]), ("slurm", ["--"]), ("slurm", ["-"]), ("slurm", ["--mem"]),
    ("slurm", [""]), ("slurm", ["--mem", "5M", "x"]), ("slurm", ["--array=1-3"]),
    ("slurm", ["--exclusive", "user"]), ("slurm", ["--no-such"]),
    ("slurm", ["--exclusive", "--", "x.sh"]),
    ("sge", ["other.sh"]), ("sge", ["-l"]), ("sge", ["-@", "file"]), ("sge", ["-t", "1-3"]),
    ("sge", ["-pe", "mpi", "4", "other.sh"]), ("sge", ["-pe", "mpi"]), ("sge", ["-b", "y"]),
    ("htcondor", ["other.sub"]), ("htcondor", ["-append", "executable = /bin/sh"]),
    ("htcondor", ["-append", "queue 3"]), ("htcondor", ["-append", "Hold = false"]),
    ("htcondor", ["-append", "request_memory = 5 \\"]), ("htcondor", ["-a", "universe = local"]),
    ("htcondor", ["-append"]), ("htcondor", ["-append", "include : x"]),
    ("htcondor", ["executable=/bin/sh"]), ("htcondor", ["-append", '+JobBatchName = "x"']),
    ("pbspro", ["other.sh"]), ("pbspro", ["--", "/bin/true"]), ("pbspro", ["-I"]),
    ("torque", ["other.sh"]), ("torque", ["-t", "1-3"]),
    ("lsf", ["sleep", "5"]), ("lsf", ["-K"]), ("lsf", ["-q"]),
]  # fmt: skip

REFUSED = "option|a key is one job|the job's script is what is submitted|the command waits"


@pytest.mark.parametrize(("lrms", "words"), WRONG)
def test_a_word_that_is_no_option_submits_nothing(
    site: Site, ledger: Ledger, script: Path, lrms: str, words: list[str]
) -> None:
    command, reply, _ = REPLIES[lrms]
    site.answer(command, reply)
    with pytest.raises(ValueError, match=REFUSED):
        submit(ledger, site, lrms, script, words)
    assert ledger.find("k") is None
    assert not (site.folder / "asked").exists()


RIGHT = [
    ("slurm", ["--mem=5M", "--mem", "5M", "-N", "1", "--exclusive", "--exclusive=user",
               "--comment=classad1:AA", "--output=/dev/null"]),
    ("slurm", ["--mem", "other.sh"]),
    ("sge", ["-l", "mem=5M", "-pe", "mpi", "4", "-cwd", "-ac", "classad_policy=classad1:AA"]),
    ("htcondor", ["-append", "request_memory = 5", "-append", '+Mine = "a"',
                  "-append", "Requirements = (Memory > 5)"]),
    ("pbspro", ["-l", "select=1:mem=5mb", "-q", "long", "-V"]),
    ("torque", ["-l", "nodes=1", "-q", "long"]), ("lsf", ["-R", "rusage[mem=5]", "-q", "x", "-x"]),
]  # fmt: skip


@pytest.mark.parametrize(("lrms", "words"), RIGHT)
def test_options_go_through(
    site: Site, ledger: Ledger, script: Path, lrms: str, words: list[str]
) -> None:
    command, reply, _ = REPLIES[lrms]
    site.answer(command, reply)
    assert submit(ledger, site, lrms, script, words) == "prepared"


@pytest.mark.parametrize("lrms", REPLIES)
def test_every_flag_of_the_tables_is_an_option(site: Site, lrms: str) -> None:
    """What ``matchmaker.batch`` writes for a job must go through."""
    job = mm.parse_ad("""[
        Requirements = other.GlueHostMainMemoryRAMSize >= 512
            && other.GlueHostArchitectureSMPSize >= 2;
        CpuNumber = 4; SMPGranularity = 2; WallTime = 3600 ]""")
    queue = mm.parse_ad('[ GlueCEUniqueID = "ce:2119/x-long"; GlueCEName = "long" ]')
    made = mm.batch.flags(mm.reduce(job, queue, scope=mm.glue.scope), lrms=lrms)
    command, *_ = REPLIES[lrms]
    site.answer(command)
    assert made.argv
    assert site.commands(lrms).refusal(made.argv, site.folder) == ""


def test_a_command_that_is_not_here_submits_nothing(ledger: Ledger, script: Path) -> None:
    commands = Commands(load_control("slurm"), environment={"PATH": str(script.parent)})
    made = mm.delegation.Delegator(ledger, commands, script.parent / "spool")
    with pytest.raises(ValueError, match="sbatch: no such command here"):
        made.submit(AD, script, key="k")
    assert ledger.find("k") is None


def test_a_spool_that_is_a_file_submits_nothing(site: Site, ledger: Ledger, script: Path) -> None:
    site.answer("sbatch", "17\n")
    with pytest.raises(ValueError, match=r"job\.sh: it is a file, not a directory"):
        submit(ledger, site, "slurm", script, [], script)
    (script.parent / "home").mkdir()
    (script.parent / "home" / "letter").write_text("dear")
    with pytest.raises(ValueError, match="name another directory"):
        submit(ledger, site, "slurm", script, [], script.parent / "home")
    assert ledger.find("k") is None
    assert not (site.folder / "asked").exists()


@pytest.mark.parametrize(
    ("lrms", "name", "good"),
    [("slurm", "my spool", True), ("sge", "my spool", True), ("htcondor", "my spool", True),
     ("lsf", "my spool", False), ("slurm", "a$(id)", False), ("htcondor", "a\nqueue 9", False)],
)  # fmt: skip
def test_a_path_that_a_command_may_take_otherwise_submits_nothing(
    site: Site, ledger: Ledger, script: Path, lrms: str, name: str, *, good: bool
) -> None:
    command, reply, _ = REPLIES[lrms]
    site.answer(command, reply)
    place = script.parent / name
    if good:
        assert submit(ledger, site, lrms, script, [], place) == "prepared"
        return
    with pytest.raises(ValueError, match=r"a path that .* may take otherwise"):
        submit(ledger, site, lrms, script, [], place)
    assert ledger.find("k") is None
    assert not (site.folder / "asked").exists()
