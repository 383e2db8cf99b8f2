"""What a newcomer meets: the first screen, help, extras that are missing, near misses."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker.cli.group import GROUPS, GUIDE, SUBCOMMANDS
from tests.cli.conftest import EXAMPLES, Run
from tests.cli.outputs import subcommands
from tests.cli.test_reader_gone import FACTORY, LINES

pytestmark = pytest.mark.slow

# --- the first screen -----------------------------------------------------------------------------

GIVEN = {
    "JOB": "job.jdl", "POOL": "nodes.ad", "FILE": "local.ad",
    "SITE": "site.ldif", "TRACE": "trace.swf", "TOML": "grid.toml",
}  # fmt: skip
"""What stands for each word in capitals."""


def shown() -> list[str]:
    """The commands of the first screen, as printed."""
    return re.findall(r"^  .*  (classad .+)$", GUIDE, re.MULTILINE)


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, a script, a trace and a factory of one cycle; a Slurm."""
    for path in EXAMPLES.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    for name in ("simulate.sh", "job.sh"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "geometry.dat").touch()
    (tmp_path / "job.ad").write_text("[ Requirements = true ]")
    (tmp_path / "grid.toml").write_text(FACTORY)
    line = "{} {} -1 600 1 -1 -1 1 3600 -1 1 1 1 1 1 -1 -1 -1\n"
    (tmp_path / "trace.swf").write_text("".join(line.format(n, 60 * n) for n in range(1, 9)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize("line", shown())
def test_each_line_of_the_first_screen_runs_as_printed(
    line: str, begun: Path, classad: Run, world: object, slurm_that_answers: None
) -> None:
    # A job for a pool asks for what machines have, one for a site what queues have.
    given = GIVEN | ({"JOB": "local.ad", "JOBS": "local.ad"} if "POOL" in line else {})
    words = [given.get(word, word) for word in shlex.split(line)[1:]]
    if words[:2] == ["factory", "run"]:
        words += ["--cycles", "1"]
    if words == ["jobs"]:
        submit = ("submit", "job.jdl", "--ldif", "site.ldif", "--lrms", "slurm")
        assert classad(*submit).status == 0
    done = classad(*words)
    assert done.status == 0, done.err
    assert done.out
    assert not {word for word in words if re.fullmatch("[A-Z]{3,}", word)}, "a word is not given"


@pytest.fixture
def slurm_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm of one node, for who asks what there is."""
    answer = "NodeName=wn1 CPUTot=4 RealMemory=8000 State=IDLE Partitions=egee\n"
    (tmp_path / "bin").mkdir()
    for name in ("scontrol", "sinfo", "sacctmgr", "squeue"):
        (tmp_path / "bin" / name).write_text(
            f'#!/bin/sh\ncase "$*" in *node*) echo "{answer.strip()}";; esac\n'
        )
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def test_the_first_screen_fits_a_terminal_and_has_the_groups_of_help(classad: Run) -> None:
    done = classad()
    assert (done.status, done.out) == (0, f"{GUIDE}\n")
    lines = GUIDE.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) < 80
    heading = ""
    for line in lines:
        if line.endswith(":") and line[:-1] in GROUPS:
            heading = line[:-1]
        elif found := re.match(r"  .*  classad (\S+) ", line + " "):
            assert found[1] in GROUPS[heading], line
    helped = classad("--help").out
    places = [helped.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert [title for title in GROUPS if f"{title}:\n" in GUIDE] == list(GROUPS)[:3]


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in LINES if " " in name}))
def test_a_group_alone_prints_help_that_fits(name: str, classad: Run) -> None:
    done = classad(name)
    assert (done.status, done.err) == (0, "")
    assert done.out == classad(name, "--help").out
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not re.search(r"\w\.\.\.$", done.out, re.MULTILINE), "a sentence is cut"
    inner = {full.split()[1] for full, _ in subcommands() if full.startswith(f"{name} ")}
    assert set(re.findall(r"^  (\S+)  ", done.out, re.MULTILINE)) >= inner


# --- extras ---------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "arrow": "pyarrow", "delegation": "sqlalchemy", "postgresql": "psycopg",
    "factory": "prometheus_client", "objects": "obstore", "sftp": "paramiko",
    "webdav": "requests", "shards": "distributed", "plots": "matplotlib", "testing": "hypothesis",
    "yaml": "yaml",
}  # fmt: skip
"""What each extra installs that no other part has."""

TOOLS = {"bench", "dev", "docs", "fuzz", "release"}
"""The extras for work on the project, which the command does not use."""

NEED = {
    "arrow": ["convert nodes.ad -o out --to pool", "convert nodes.ad -o out --to parquet"],
    "delegation": [
        "jobs", "submit job.jdl --ldif site.ldif --lrms slurm --ledger j.db", "reconcile",
        "binder run --folder b", "binder token client ana --folder b",
    ],
    "postgresql": ["jobs --ledger postgresql://h/d", "factory status --ledger postgresql://h/d"],
    "factory": ["factory run metrics.toml --cycles 1"],
    "objects": ["store status s3://b/p", "pilot --store s3://b/p --dir n"],
    "sftp": ["store demand sftp://h/p"],
    "webdav": ["store retry davs://h/p"],
    "shards": ["match job.jdl nodes.ad --shards 2", "assign job.jdl --pool nodes.ad --shards 2"],
    "plots": ["pilots simulate trace.swf --svg out.svg", "pilots simulate trace.swf --html o"],
    "testing": [],
    "yaml": ["broker job.jdl --ce group.yaml", "ces --dump group.yaml"],
}  # fmt: skip
"""Commands that need an extra, and what they say without it names the extra."""


def without(modules: Iterator[str] | list[str], words: list[str]) -> tuple[int, str]:
    """Runs the command where some modules cannot be imported. Gives its status and what it said."""
    code = (
        f"import sys\nsys.modules.update(dict.fromkeys({[*modules]!r}))\n"
        "from matchmaker.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_every_extra_is_taken_away() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert MODULES.keys() == NEED.keys() == extras["optional-dependencies"].keys() - TOOLS


@pytest.mark.parametrize(
    ("extra", "line"), [(extra, line) for extra, lines in NEED.items() for line in lines]
)
def test_a_command_without_its_extra_is_one_line_that_names_it(
    extra: str, line: str, begun: Path
) -> None:
    (begun / "metrics.toml").write_text(f"{FACTORY}\n[metrics]\nport = 9464\n")
    (begun / "group.yaml").write_text("GroupID: 1\nResources: {}\n")
    status, said = without([MODULES[extra]], line.split())
    assert status == 2, said
    assert said.count("\n") == 1
    assert f"pip install 'classad-matchmaker[{extra}]'" in said


@pytest.mark.parametrize("name", LINES)
def test_no_subcommand_without_any_extra_ends_in_a_traceback(name: str, begun: Path) -> None:
    (begun / "ce.ad").write_text('[ CEid = "ce:1/x-slurm-short" ]')
    (begun / "store" / "work").mkdir(parents=True)
    (begun / "store" / "plan.toml").write_text('command = ["true"]\nparameters = "1"\n')
    (begun / "failed" / "work" / "a").mkdir(parents=True)
    (begun / "failed" / "plan.toml").write_text('command = ["true"]\nparameters = "1"\n')
    words = [*name.split(), *(str(word).format(begun, id="1") for word in LINES[name])]
    if words[0] == "binder" and words[1] not in {"run", "token"}:
        (begun / "t").write_text("x")
        words += ["--token", "t", "--at", "127.0.0.1:9"]
    status, said = without(list(MODULES.values()), words)
    assert status in {0, 1, 2}
    assert "Traceback" not in said
    assert said.count("\n") <= 1 or name == "blah-local-submit-attributes", said
    needs = words[0] in {
        "submit", "jobs", "renew", "cancel", "reconcile", "resume", "acknowledge",
    } or name in {
        "binder run", "binder token", "factory run", "factory status", "factory stop",
    }  # fmt: skip
    assert ("pip install" in said) == needs, said
    extra = "factory" if words[0] == "factory" else "delegation"
    assert not needs or f"pip install 'classad-matchmaker[{extra}]'" in said


# --- near misses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("flags job.jdl --ldif site.ldif --lrms pbs", "'pbs': is it pbspro or torque? known: blah"),
        ("submit job.jdl --ldif site.ldif --lrms PBS", "'PBS': is it pbspro or torque? known: "),
        ("nodes --lrms openpbs", "'openpbs': is it pbspro? known: htcondor"),
        ("nodes --lrms gridengine", "'gridengine': is it sge? known: htcondor"),
        ("nodes --lrms slrum", "'slrum': is it slurm? known: htcondor"),
        ("nodes --lrms x", "'x'; known: htcondor"),
        ("ces --ldif site.ldif --query OS=x,slurm,FreeCPUs>3", "'slurm' is no condition"),
        ("ces --ldif site.ldif --query FreeCPUs", "'FreeCPUs' is no condition"),
    ],
)
def test_a_near_miss_is_named(words: str, said: str, begun: Path, classad: Run) -> None:
    done = classad(*words.split())
    assert (done.status, done.out) == (2, "")
    assert said in done.err


def test_a_token_over_a_file_that_exists_names_the_file(begun: Path, classad: Run) -> None:
    words = ("binder", "token", "client", "ana", "--folder", begun / "b", "--to", begun / "a.token")
    assert classad(*words).status == 0
    before = (begun / "a.token").read_text()
    done = classad(*words)
    assert (done.status, done.err) == (2, f"classad: {begun}/a.token: File exists\n")
    assert (begun / "a.token").read_text() == before
    assert [path.name for path in begun.iterdir() if "a.token" in path.name] == ["a.token"]


def test_help_lists_every_subcommand_once() -> None:
    assert len(SUBCOMMANDS) == sum(map(len, GROUPS.values()))
