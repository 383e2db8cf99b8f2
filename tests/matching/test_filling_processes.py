"""A file that several processes read is the pool that one reads, and ends in the same error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from matchmaker import ParseError, Pool
from matchmaker.matching.columns.store import Store
from matchmaker.matching.filling import processes

pytestmark = pytest.mark.slow


def ads(count: int, more: str = "") -> str:
    return "\n".join(
        f'Name = "slot{number}"\nCpus = {number % 7}\nStart = TARGET.Cpus > {number}\n'
        + ("note = undefined\n" if number % 3 else "")
        + (f"{more}\n" if more and number == count - 2 else "")
        for number in range(count)
    )


def outcome(path: Path, count: int) -> Any:
    try:
        pool = Pool.read(path, processes=count)
    except (ParseError, ValueError) as error:
        return type(error), str(error)
    return [(key, list(ad), ad) for key, ad in zip(pool.keys(), pool, strict=True)]


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
    ],
    ids=["good", "CRLF", "broken", "same key", "no key", "evaluated key", "spaces", "new"],
)
def test_processes_give_what_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, parts: int
) -> None:
    monkeypatch.setattr(processes, "LEAST", 100)
    path = tmp_path / "slots"
    path.write_bytes(text.encode())
    assert len(processes.parts_of_file(path, "auto", 3)) == parts
    assert outcome(path, 3) == outcome(path, 1)


def test_the_parts_are_read_by_processes_and_a_failure_enters_nothing(tmp_path: Path) -> None:
    path = tmp_path / "slots"
    path.write_text(ads(60))
    size = path.stat().st_size
    middle = path.read_text().index("\n\n", size // 2) + 2
    store = Store("name")
    assert processes.fill_from_parts(store, path, "Name", [(0, middle), (middle, size)])
    assert list(store) == [f"slot{number}" for number in range(60)]
    store = Store("name")
    assert not processes.fill_from_parts(store, path, "Name", [(0, middle + 9), (middle, size)])
    assert len(store) == 0
