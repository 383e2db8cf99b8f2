"""``classad match``: small pools with reasons, large ones by column; both with the same answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from matchmaker import ClassAd
from matchmaker.classad import state
from matchmaker.cli.commands import match as match_
from matchmaker.matching.snapshot import Matches, Snapshot
from tests.cli.conftest import Run

JOB = '[ Owner = "ben"; Requirements = other.Cpus >= 2; Rank = other.Score ]'


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Ads with ranks that tie, that are no number, and that refuse the job."""
    path = tmp_path / "pool.ad"
    refusing = '; Requirements = other.Owner != "ben"'
    path.write_text(
        "\n".join(
            f'[ Name = "n{n:03}"; Id = {n}; Cpus = {n % 5};'
            f" Score = {(n * 7) % 11 if n % 9 else 'undefined'}{refusing if not n % 4 else ''} ]"
            for n in range(60)
        )
    )
    return path


def as_data(done: Any) -> dict[str, Any]:
    assert (done.status, done.err) == (0, "")
    data: dict[str, Any] = json.loads(done.out)
    return data


@pytest.mark.parametrize("key", [[], ["--key", "Name"], ["--key", "Id"]])
def test_many_are_matched_as_few_are(
    classad: Run, pool: Path, monkeypatch: pytest.MonkeyPatch, key: list[str]
) -> None:
    few = as_data(classad("match", "-", pool, "--json", *key, stdin=JOB))
    monkeypatch.setattr(match_, "MANY", 10)
    many = as_data(classad("match", "-", pool, "--json", *key, stdin=JOB))
    assert len(few["ranked"]) + len(few.pop("refused")) == 60
    assert many.pop("refused") is None
    assert many == few
    assert few["matched"] == len(few["ranked"]) == 27
    ranks = [found["rank"] for found in few["ranked"]]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("many", [10, 1000])
def test_top_shows_the_best(
    classad: Run, pool: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(match_, "MANY", many)
    everything = as_data(classad("match", "-", pool, "--json", stdin=JOB))
    data = as_data(classad("match", "-", pool, "--json", "--top", "3", stdin=JOB))
    assert data["ranked"] == everything["ranked"][:3]
    assert (data["chosen"], data["matched"]) == (everything["chosen"], 27)
    assert as_data(classad("match", "-", pool, "--json", "--top", "0", stdin=JOB))["chosen"]
    lines = classad("match", "-", pool, "--top", "2", stdin=JOB).out.splitlines()
    assert lines[0] == "27 of 60 match"
    assert [line.split()[:2] for line in lines[4:6]] == [
        [str(place), found["name"]] for place, found in enumerate(data["ranked"][:2], 1)
    ]
    assert not any(line.startswith("3 ") for line in lines)


def test_of_many_some_are_shown_without_reasons(
    classad: Run, pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_, "MANY", 10)
    lines = classad("match", "-", pool, stdin=JOB).out.splitlines()
    assert len(lines) == 4 + match_.SHOWN
    assert "refuse" not in " ".join(lines)
    done = classad("match", "-", pool, stdin="[ Requirements = false ]")
    assert (done.status, done.out) == (1, f"0 of 60 match\n\n{HINT}\n")


HINT = "classad explain says which clauses exclude them, and what would help"


def test_where_nothing_matches_explain_is_named(classad: Run, pool: Path) -> None:
    few = classad("match", "-", pool, stdin="[ Requirements = false ]").out
    assert few.splitlines()[:3] == ["0 of 60 match", "", HINT]
    assert HINT not in classad("match", "-", pool, stdin=JOB).out


@pytest.mark.parametrize("many", [10, 1000])
def test_a_job_past_its_budget_is_told(
    classad: Run, pool: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(match_, "MANY", many)
    monkeypatch.setattr(state.Budget, "limit", 50)
    hungry = " + ".join(["size(TARGET.Name)"] * 100)
    job = f"[ Requirements = {hungry} > 0 ]"
    done = classad("match", "-", pool, stdin=job)
    said = "not all could be evaluated: "
    assert done.status == 1
    assert done.err.startswith(f"classad: {said}")
    assert done.err.endswith(f"{state.too_many_steps()}\n")
    data = json.loads(classad("match", "-", pool, "--json", stdin=job).out)
    assert data["matched"] == 0
    assert state.too_many_steps() in data["error"]
    done = classad("explain", "-", pool, stdin=job)
    assert f"0 of 60 match; {said}" in done.out
    data = json.loads(classad("explain", "-", pool, "--json", stdin=job).out)
    assert state.too_many_steps() in data["error"]
    assert data["clauses"][0]["error"] == 60
    assert said in classad("explain", "-", pool, "--html", "-", stdin=job).out
    data = json.loads(classad("assign", "-", "--pool", pool, "--json", stdin=job).out)
    assert data["placements"][0]["outcome"] == "error"
    assert state.too_many_steps() in data["placements"][0]["reason"]


def test_a_large_pool_is_matched_once(
    classad: Run, pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_, "MANY", 10)
    asked = []
    real = Snapshot.match

    def counted(self: Snapshot, job: ClassAd) -> Matches:
        asked.append(job)
        return real(self, job)

    monkeypatch.setattr(Snapshot, "match", counted)
    assert classad("match", "-", pool, stdin=JOB).status == 0
    assert len(asked) == 1


def test_a_key_that_does_not_tell_apart_is_bad_input(
    classad: Run, pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, said in (
        (["--key", "Cpus"], f"{pool}, ad 6: Cpus = '0', as {pool}, ad 1 has; and so 54 more ("),
        (["--key", "Nonesuch"], f"{pool}, ad 1: an ad has no Nonesuch"),
        (["--key", ""], "--key names no attribute"),
        (["--top", "-1"], "--top"),
    ):
        done = classad("match", "-", pool, *words, stdin=JOB)
        assert (done.status, done.out) == (2, "")
        assert said in done.err
    monkeypatch.setattr(match_, "MANY", 10)
    done = classad("match", "-", pool, pool, stdin=JOB)
    assert (done.status, done.out) == (2, "")
    assert f"{pool}, ad 1: Name = 'n000', as {pool}, ad 1 has; and so 59 more (" in done.err


SLOTS = """
[ Name = "a"; Cpus = 4; State = "Unclaimed" ] [ Name = "b"; Cpus = 8; State = "Claimed" ]
[ Name = "c"; Cpus = 8; State = "Drained" ] [ Name = "d"; Cpus = 8; Stand = "Unclaimed" ]
[ Name = "e"; Cpus = 1; State = "Unclaimed" ] [ Name = "f"; Cpus = 5; State = "Owner" ]
"""


@pytest.mark.parametrize("many", [2, 1000])
def test_free_slots_are_told_from_those_that_match(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(match_, "MANY", many)
    pool = tmp_path / "slots.ad"
    pool.write_text(SLOTS)
    job = "[ Requirements = other.Cpus > 3; Rank = other.Cpus ]"
    states = {"free": 1, "claimed": 1, "draining": 1, "owner": 1, "unsaid": 1}
    summary = "5 of 6 match, 1 of them free now"
    why = "not free: 1 claimed, 1 draining, 1 kept by their owners; "
    why += "1 does not say whether it is free"
    lines = classad("match", "-", pool, stdin=job).out.splitlines()
    assert lines[:2] == [summary, why]
    assert [line.split()[1:] for line in lines[4:9]] == [
        ["b", "8", "claimed"], ["c", "8", "draining"], ["d", "8", "unsaid"], ["f", "5", "owner"],
        ["a", "4", "free"],
    ]  # fmt: skip
    data = as_data(classad("match", "-", pool, "--json", stdin=job))
    assert (data["matched"], data["states"]) == (5, states)
    assert [one["state"] for one in data["ranked"]] == [line.split()[3] for line in lines[4:9]]
    # explain says the same, in each of its forms.
    lines = classad("explain", "-", pool, stdin=job).out.splitlines()
    assert [line for line in lines if "match" in line or "not free:" in line] == [summary, why]
    assert as_data(classad("explain", "-", pool, "--json", stdin=job))["states"] == states
    page = classad("explain", "-", pool, "--html", "-", stdin=job).out
    assert f"<title>{summary}" in page
    assert why in page
    named = classad("match", "-", pool, "--json", "--names", "State=Stand", stdin=job)
    assert as_data(named)["states"] == {"free": 1, "unsaid": 4}


@pytest.mark.parametrize("words", ["Stat=x", "State", "State="])
def test_names_are_of_what_says_whether_a_slot_is_free(
    classad: Run, pool: Path, words: str
) -> None:
    done = classad("match", "-", pool, "--names", words, stdin=JOB)
    assert (done.status, done.out) == (2, "")
    assert f"--names {words}: not like State=SlotState" in done.err
