"""A file that several processes read is the pool that one reads, and ends in the same error."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest

from matchmaker import ParseError, Pool
from matchmaker.matching.columns import reading
from matchmaker.matching.columns.reading import FilePart
from matchmaker.matching.columns.store import Store

pytestmark = pytest.mark.slow


def ads(count: int, more: str = "") -> str:
    return "\n".join(
        f'Name = "slot{number}"\nCpus = {number % 7}\nStart = TARGET.Cpus > {number}\n'
        + ("note = undefined\n" if number % 3 else "")
        + (f"{more}\n" if more and number == count - 2 else "")
        for number in range(count)
    )


NEW = [f'[ Name = "slot{n}"; Cpus = {n % 7}; Start = TARGET.Cpus > {n}; ]' for n in range(60)]
JSON = [
    rf'{{"Name": "slot{n}", "Cpus": {n % 7}, "Start": "\/Expr(TARGET.Cpus > {n})\/"}}'
    for n in range(60)
]


def listed(some: list[str], brackets: str, between: str = "\n,\n") -> str:
    """The ads in a list, as HTCondor's tools write it."""
    return f"{brackets[0]}\n{between.join(some)}\n{brackets[1]}\n"


def outcome(path: Path, count: int) -> Any:
    try:
        pool = Pool.read(path, processes=count)
    except (ParseError, ValueError) as error:
        return type(error), str(error)
    return [(key, list(ad), ad) for key, ad in zip(pool.keys(), pool, strict=True)]


@attrs.frozen
class Here:
    """The part of a process, read in this one: a start takes longer than all else."""

    argv: list[str]

    def wait(self) -> int:
        try:
            reading._main(*self.argv[self.argv.index("-m") + 2 :])
        except Exception:  # noqa: BLE001 - whatever fails ends a process
            return 1
        return 0

    def kill(self) -> None:
        """Does nothing: it has ended."""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (ads(60), 3),
        ("\ufeff" + ads(60).replace("\n", "\r\n"), 3),
        (ads(60, "Cpus = 1 +"), 3),
        (ads(60) + '\nName = "slot1"\n', 3),
        (ads(60) + "\nCpus = 1\n", 3),
        (ads(60, 'Name = strcat("a", "b")'), 3),
        (ads(60).replace("\n\n", "\n \n"), 0),
        ('[ Name = "a" ]' * 60, 0),
        ("\n".join(NEW), 3),
        ("\ufeff" + listed(NEW, "{}"), 3),
        (listed(NEW, "{}", ",\n"), 3),
        (listed(NEW, "{}") + listed(NEW[:1], "{}"), 3),
        (listed(NEW, "{}")[:-2], 3),
        (listed(NEW[:30], "{}") + "\n".join(NEW[30:]), 3),
        ("\n".join(NEW) + "}", 3),
        (NEW[0] + "\n/*\n" + "\n".join(NEW[1:]) + "\n*/", 3),
        ("\n".join(NEW).replace("> 7", '> "]\n[ a = 1'), 3),
        ('[ Name = "x"; a = "\n' + "\n".join(NEW).replace('"', "'") + '" ]', 3),
        ("\n".join(JSON), 3),
        ("\ufeff" + listed(JSON, "[]").replace("\n", "\r\n"), 3),
        (listed(JSON, "[]", ",\n"), 3),
        (listed(JSON, "[]")[:-2], 3),
        (listed(JSON, "[]") + "]", 3),
        (listed([*JSON, JSON[3]], "[]"), 3),
        (listed(JSON, "[]").replace(": 5", ": 5 5"), 3),
        ("\n".join(JSON[:3]) + '\n{"Name": "x", "a": ' + listed(JSON, "[]") + "}", 3),
        (" ".join(JSON), 0),
    ],
    ids=[
        "good",
        "CRLF",
        "broken",
        "same key",
        "no key",
        "evaluated key",
        "spaces",
        "new, one line",
        "new",
        "new, a list",
        "new, commas",
        "two lists",
        "open list",
        "list and ads",
        "closed once more",
        "comment",
        "bracket in a string",
        "all in a string",
        "json",
        "json, a list",
        "json, commas",
        "json, open list",
        "json, closed once more",
        "json, same key",
        "json, broken",
        "json, nested",
        "json, one line",
    ],
)
def test_processes_give_what_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, parts: int
) -> None:
    monkeypatch.setattr(reading, "LEAST", 100)
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **_: Here(argv))
    path = tmp_path / "slots"
    path.write_bytes(text.encode())
    assert len(reading.parts_of_file(path, "auto", 3)) == parts
    assert outcome(path, 3) == outcome(path, 1)


def test_the_parts_are_read_by_processes_and_a_failure_enters_nothing(tmp_path: Path) -> None:
    path = tmp_path / "slots"
    path.write_text(ads(60))
    size = path.stat().st_size
    middle = path.read_text().index("\n\n", size // 2) + 2
    one, cut = FilePart("old", 0, middle), FilePart("old", 0, middle + 9)
    store = Store("name")
    assert reading.fill_from_parts(store, path, "Name", [one, FilePart("old", middle, size)])
    assert list(store) == [f"slot{number}" for number in range(60)]
    store = Store("name")
    assert not reading.fill_from_parts(store, path, "Name", [cut, FilePart("old", middle, size)])
    assert len(store) == 0


@pytest.mark.parametrize(
    "text", ["\n".join(NEW), listed(NEW, "{}"), "\n".join(JSON), listed(JSON, "[]")]
)
def test_ads_in_brackets_are_read_by_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(reading, "LEAST", 100)
    path = tmp_path / "slots"
    path.write_text(text)
    store = Store("name")
    parts = reading.parts_of_file(path, "auto", 3)
    assert reading.fill_from_parts(store, path, "Name", parts)
    assert list(store) == [f"slot{number}" for number in range(60)]


def test_two_parts_and_a_byte_order_mark_are_read_by_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LEAST", 100)
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **_: Here(argv))
    path = tmp_path / "slots"
    path.write_text("\ufeff" + ads(60))
    parts = reading.parts_of_file(path, "auto", 2)
    assert len(parts) == 2
    store = Store("name")
    assert reading.fill_from_parts(store, path, "Name", parts)
    assert len(store) == 60
