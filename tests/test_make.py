"""The Makefile works with GNU make 3.81 and the tools of BSD, which macOS has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# What came with 3.82 and later, by make's NEWS.
NEWER = (
    r"\.SHELLFLAGS", r"\.ONESHELL", r"\.RECIPEPREFIX", r"\bundefine\b", r"\bprivate\b", r"^\w+ *!=",
    r"::=", r"\$\((file|guile|let|intcmp)\b", r"\.EXTRA_PREREQS", r"\.NOTINTERMEDIATE", r"\.WAIT\b",
)  # fmt: skip
# Options that GNU's tools have and those of BSD have not, and a tab that BSD's sed does not know.
GNU = (r"sed -i ", r"sed [^|]*\\t", r"readlink -f", r"cp -[a-z]*[adp]", r"grep -[a-z]*P",
       r"sort -[a-z]*V", r"date -d", r"stat -c", r"xargs -[a-z]*r", r"\bnproc\b")  # fmt: skip


def lines() -> list[str]:
    text = (ROOT / "Makefile").read_text()
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


@pytest.mark.parametrize("newer", [*NEWER, *GNU])
def test_nothing_newer_or_gnu_alone_is_used(newer: str) -> None:
    assert [line for line in lines() if re.search(newer, line)] == []


def test_a_recipe_stops_at_its_first_failure(tmp_path: Path) -> None:
    for recipe in ("false; echo went on", "false | cat; echo went on", "echo $$NOT_SET went on"):
        (tmp_path / "Makefile").write_text(
            f"include {ROOT}/Makefile\n.PHONY: trial\ntrial:\n\t@{recipe}\n"
        )
        done = subprocess.run(
            ["make", "-C", str(tmp_path), "trial"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "went on" not in done.stdout


def test_help_by_another_awk_is_the_same(tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no busybox here")
    (tmp_path / "awk").symlink_to(busybox)
    path = f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"
    printed = [
        subprocess.run(
            ["make", "-C", str(ROOT), "--no-print-directory", "help"], capture_output=True,
            text=True, check=True, env={"PATH": one},
        ).stdout
        for one in (path, path.partition(":")[2])
    ]  # fmt: skip
    assert printed[0] == printed[1]
    assert re.search("^test +Run all tests", printed[0], re.MULTILINE)


def test_each_test_is_in_one_of_the_two_passes() -> None:
    def commands(*given: str) -> str:
        # Without what a make around this one hands on.
        return subprocess.run(
            ["make", "-C", str(ROOT), "-n", "test", "JOBS=3", *given], capture_output=True,
            text=True, check=True, env={"PATH": os.environ["PATH"]},
        ).stdout  # fmt: skip

    first, second = re.findall(r"-m pytest ((?:.|\\\n)*?) \|\| status=1", commands())
    left_out = re.findall(r"--ignore=(\S+)", first)
    assert left_out == re.findall(r"\btests/\S+", second)
    assert all((ROOT / path).exists() for path in left_out)
    assert len(left_out) > 20
    # With arguments of one's own there is one pass.
    one = commands("PYTEST_ARGS=-k lint")
    assert re.findall(r"-m pytest (.*)", one) == ["-n 3 --dist worksteal -k lint"]
