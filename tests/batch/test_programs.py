from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from matchmaker.batch.programs import NoProgramError, ProgramError, run


def test_output_and_complaint_are_apart() -> None:
    ended = run(["sh", "-c", "echo a; echo b >&2; exit 3"], seconds=10, most=100)
    assert (ended.status, ended.output, ended.complaint) == (3, b"a\n", b"b\n")


def test_there_is_no_input_and_no_other_environment(tmp_path: Path) -> None:
    script = "cat; pwd; echo ${HOME-none}"
    ended = run(["/bin/sh", "-c", script], seconds=10, most=1000, env={}, cwd=tmp_path)
    assert ended.output.decode().split() == [str(tmp_path), "none"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo $$ > pid; exec sleep 60", "did not end within 0.2"),
        # It ends, and what it has started does not.
        ("sleep 60 & echo $! > pid", "did not end within 0.2"),
        ("echo $$ > pid; exec >&- 2>&-; exec sleep 60", "did not end within 0.2"),
        ("echo $$ > pid; yes", "too much output: more than 1 KiB"),
        ("echo $$ > pid; yes >&2", "too much output: more than 1 KiB"),
    ],
)
def test_what_does_not_end_is_ended(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        run(["sh", "-c", script], seconds=0.2, most=1 << 10, cwd=tmp_path)
    gone = int((tmp_path / "pid").read_text())
    give_up = time.monotonic() + 10
    while runs(gone) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert not runs(gone)


def runs(pid: int) -> bool:
    """Whether a process is there and is more than an entry that nobody has read yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_is_not_there_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NoProgramError):
        run(["no-such-program"], seconds=1, most=1)
    text = tmp_path / "text"
    text.write_text("no program")
    with pytest.raises(ProgramError) as caught:
        run([os.fspath(text)], seconds=1, most=1)
    assert not isinstance(caught.value, NoProgramError)
