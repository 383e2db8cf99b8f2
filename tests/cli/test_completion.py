"""A shell completes the command's words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Run

pytestmark = pytest.mark.slow

SLOTS = '[ Name = "a"; Cpus = 4; CpuModel = "x"; Memory = 1 ]'


def offered(*words: str, cwd: Path) -> list[str]:
    """What is offered for the last word, as bash asks for it."""
    asked = {
        **os.environ, "_CLASSAD_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["classad", *words]), "COMP_CWORD": str(len(words)),
    }  # fmt: skip
    done = subprocess.run(COMMAND, env=asked, cwd=cwd, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_what_is_offered_for_a_word(tmp_path: Path) -> None:
    (tmp_path / "slots.ad").write_text(SLOTS)
    (tmp_path / "broken.ad").write_text("[ Cpus = ")
    assert "plain,match" in offered("ma", cwd=tmp_path)
    assert "plain,simulate" in offered("pilots", "si", cwd=tmp_path)
    assert offered("nodes", "--lrms", "s", cwd=tmp_path) == ["plain,sge", "plain,slurm"]
    assert offered("match", "job", cwd=tmp_path) == ["file,job"]
    assert offered("submit", "--script", "run", cwd=tmp_path) == ["file,run"]
    assert offered("jobs", "--spool", "d", cwd=tmp_path) == ["dir,d"]
    assert offered("convert", "slots.ad", "--to", "j", cwd=tmp_path) == ["plain,json"]
    assert offered("convert", "slots.ad", "--constraint", "cp", cwd=tmp_path) == [
        "plain,CpuModel", "plain,Cpus",
    ]  # fmt: skip
    assert offered(
        "match", "j", "slots.ad", "--constraint", "TARGET.Cpus>1&&Mem", cwd=tmp_path
    ) == ["plain,TARGET.Cpus>1&&Memory"]
    assert offered("convert", "broken.ad", "none.ad", "--constraint", "cp", cwd=tmp_path) == [""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_lines(classad: Run, shell: str) -> None:
    done = classad("completion", shell)
    assert done.status == 0
    assert f"_CLASSAD_COMPLETE={shell}_complete" in done.out


def test_bash_itself_completes(classad: Run, tmp_path: Path) -> None:
    tool = tmp_path / "classad"
    tool.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in COMMAND) + ' "$@"\n')
    tool.chmod(0o755)
    lines = tmp_path / "lines"
    lines.write_text(classad("completion", "bash").out)
    asked = f"""
source {lines}
COMP_WORDS=(classad expl); COMP_CWORD=1
_classad_completion classad
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", asked], capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.stdout == "explain\n"
