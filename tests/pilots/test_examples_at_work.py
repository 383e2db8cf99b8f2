"""The examples of pilots at work run as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("interactive.py", r"from pilots that wait: [\d.]+ ms"),
        ("foreground.py", r"the long job stood still for [\d.]+ s, and counted to 40"),
    ],
)
def test_an_example_runs(name: str, said: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(said, done.stdout)
