"""A few cases of each attack, the same ones in every run, and the runner itself."""

from __future__ import annotations

import importlib
import random

import pytest

from tests.attack.run import Attack, main, modules, search


@pytest.mark.parametrize("name", modules())
def test_a_few_cases_of_each_attack(name: str) -> None:
    attack = importlib.import_module(f"tests.attack.{name}").ATTACK
    assert attack.name == name
    tried, found = search(attack, 0, range(attack.smoke))
    assert not found
    assert tried == attack.smoke


def digits(chance: random.Random) -> str:
    return "".join(chance.choices("0123456789", k=8))


def judge(case: str) -> str | None:
    if "9" in case:
        raise ValueError(case)
    return "an odd last digit" if case[-1:] in tuple("13579") else None


def smaller(case: str) -> list[str]:
    return [case[:place] + case[place + 1 :] for place in range(len(case))]


SAMPLE = Attack("sample", digits, judge, smaller, nightly=100)


def test_findings_are_made_small_and_can_be_repeated() -> None:
    _, found = search(SAMPLE, 3, range(100))
    assert len(found) == 5
    assert all(len(finding.case) == 1 for finding in found)
    _, again = search(SAMPLE, 3, [found[2].number])
    assert again == [found[2]]


def test_an_attack_with_findings_fails_and_says_how_to_repeat_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(SAMPLE, ["--seed", "3", "--cases", "50"]) == 1
    assert "--seed 3 --only" in capsys.readouterr().out
    harmless = Attack("harmless", digits, lambda case: None)
    assert main(harmless, ["--cases", "20"]) == 0
    assert "20 cases, 0 finding(s)" in capsys.readouterr().out
