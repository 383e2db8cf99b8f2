"""What tests of handing over begin with: a job's script, and a ledger in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker.delegation import Ledger


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/sh\n")
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path / "jobs.db")
    yield made
    made.close()
