"""``classad convert``: several files, bad parts, formats by name, little memory."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import attrs
import pytest

from matchmaker import read_ads
from matchmaker.cli import inputs, main


@attrs.frozen
class Done:
    status: object
    out: str
    err: str


Convert = Callable[..., Done]


@pytest.fixture
def convert(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Convert:
    monkeypatch.chdir(tmp_path)

    def run(*words: str, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["classad", "convert", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Done(ended.value.code, captured.out, captured.err)

    return run


def test_several_files_of_several_formats(convert: Convert) -> None:
    Path("one").write_text("a = 1\n")
    Path("two").write_text('[{"a": 2}, {"a": 3}]')
    done = convert("one", "two", "-", "--output", "out", "--to", "old", stdin="[ a = 4 ]")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert Path("out").read_text() == "a = 1\n\na = 2\n\na = 3\n\na = 4\n"
    assert convert("one", "two", "-o", "-").out.count("[ a = ") == 3


def test_several_files_need_an_output(convert: Convert) -> None:
    for name in ("one", "two", "three"):
        Path(name).write_text("a = 1\n")
    done = convert("one", "two", "three")
    assert done.status == 2
    assert "--output" in done.err
    assert Path("three").read_text() == "a = 1\n"


def test_the_format_by_name(convert: Convert) -> None:
    assert convert("-", "--from", "old", stdin="a = 1").out == "[ a = 1 ]\n"
    done = convert("-", "--from", "json", stdin="a = 1")
    assert done.status == 2
    assert "not JSON" in done.err


def test_bad_parts_are_left_out_and_told(convert: Convert) -> None:
    Path("bad").write_text("a = 1\nb = 2 GB\n\nrubbish\n\na = 2\n")
    done = convert("bad", "out", "--report")
    assert done.status == 1
    assert done.out == ""
    first, second = done.err.splitlines()
    assert first.startswith("classad: bad, line 2, column 7: unexpected 'GB'")
    assert second.startswith("classad: bad, line 4, column 1: not an assignment")
    assert [ad.eval("a") for ad in read_ads("out")] == [1, 2]
    assert convert("bad", "--report").out == "{\n[ a = 1 ]\n,\n[ a = 2 ]\n}\n"


def test_without_report_nothing_is_written(convert: Convert) -> None:
    Path("bad").write_text("a = 1\nb = 2 GB\n")
    done = convert("bad", "out")
    assert (done.status, done.out) == (2, "")
    assert not Path("out").exists()
    done = convert("bad")
    assert (done.status, done.out) == (2, "")


def test_good_input_with_report(convert: Convert) -> None:
    done = convert("-", "--report", stdin="a = 1")
    assert (done.status, done.out, done.err) == (0, "[ a = 1 ]\n", "")


def test_a_large_file_shows_its_progress_on_a_terminal(
    convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    true = inputs.opened

    def noted(path: str) -> AbstractContextManager[IO[bytes]]:
        opened.append(path)
        return true(path)

    # Files are opened where progress is shown from a certain size on.
    monkeypatch.setattr(inputs, "opened", noted)
    Path("one").write_text("a = 1\n")
    convert("one", "-")
    assert opened == ["one"]
