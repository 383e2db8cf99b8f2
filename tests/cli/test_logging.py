"""``--log-level``, ``--log-file`` and ``--log-json``: each event a line, and nothing unasked."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click
import pytest

from matchmaker.cli.options import LEVELS, logs

LOG = logging.getLogger("matchmaker.pilots.factory.test")


def log(*words: str) -> int:
    """Runs a command that logs an event of each level."""

    @click.command()
    @logs
    def command() -> int:
        for level in LEVELS:
            LOG.log(getattr(logging, level.upper()), "%s event", level, extra={"pilot": "p 7"})
        return 3

    status = command.main([*words], standalone_mode=False)
    assert isinstance(status, int)
    return status


def test_nothing_is_logged_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    assert log() == 3
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "levels"),
    [(["--log-level", "warning"], LEVELS[2:]), (["--log-level", "DEBUG"], LEVELS)],
)
def test_events_of_a_level_go_to_standard_error(
    words: list[str], levels: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    log(*words)
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(" ", 1)[1] for line in err.splitlines()] == [
        f'{level} pilots.factory.test: {level} event pilot="p 7"' for level in levels
    ]
    log()
    assert capsys.readouterr() == ("", "")


def test_a_file_is_appended_to_and_may_be_rotated(tmp_path: Path) -> None:
    file = tmp_path / "log"
    for _ in range(2):
        log("--log-file", str(file))
    assert file.read_text().count("Z info ") == 2
    assert "Z debug " not in file.read_text()
    with pytest.raises(OSError, match="No such file"):
        log("--log-file", str(tmp_path / "none" / "log"))


def test_lines_of_json_have_the_keys_of_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    log("--log-json", "--log-level", "error")
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert found.pop("at").endswith("Z")
    assert found == {
        "level": "error", "module": "pilots.factory.test", "event": "error event", "pilot": "p 7",
    }  # fmt: skip


def test_text_from_outside_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    @logs
    def command() -> int:
        try:
            int("a\nb")
        except ValueError:
            LOG.exception("it failed", extra={"job": "a\n2026-01-01 info x"})
        return 0

    command.main(["--log-level", "info"], standalone_mode=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert 'job="a\\n2026-01-01 info x"' in line
    assert "ValueError: invalid" in line
