"""The man pages are made of the help that the command prints, and man takes them without a word."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.outputs import subcommands

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, str(ROOT / "tools" / "man_pages.py"), str(folder)], check=True)
    return folder


@pytest.mark.slow
def test_every_subcommand_has_a_page_with_all_its_options(pages: Path) -> None:
    for name, command in subcommands():
        text = (pages / f"classad-{name.replace(' ', '-')}.1").read_text().replace("\\-", "-")
        assert ".SH EXIT STATUS" in text
        for parameter in command.params:
            for word in parameter.opts:
                assert not word.startswith("--") or word in text, (name, word)
    assert "classad-match" in (pages / "classad.1").read_text().replace("\\-", "-")


@pytest.mark.service
def test_man_complains_of_nothing(pages: Path) -> None:
    man = shutil.which("man")
    if man is None:
        pytest.skip("man is not installed (`make test` does it where it may)")
    for page in pages.iterdir():
        done = subprocess.run(
            [man, "--warnings", "-E", "UTF-8", "-l", "-Tutf8", str(page)], capture_output=True,
            text=True, check=False, env={"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), page.name
        assert done.stdout.startswith("CLASSAD")
