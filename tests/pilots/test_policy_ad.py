"""The policy ad: its defaults, what is wrong in one, and that the guide lists every term."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import ParseError
from matchmaker.pilots import PolicyAd
from matchmaker.pilots.policy.policy_ad import FACTS, TERMS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "pilots.md"


def test_the_defaults_have_sound_values_on_typical_facts_and_no_problem() -> None:
    policy = PolicyAd()
    for term in TERMS.values():
        assert policy.value(term, FACTS[term.of]) >= 0
    assert PolicyAd(policy.whole).problems() == []


def test_a_policy_has_at_most_eight_numbers_each_with_a_unit() -> None:
    assert sum(not term.truth for term in TERMS.values()) <= 8
    assert all(term.unit and term.reason for term in TERMS.values())


@pytest.mark.parametrize("name", list(TERMS))
def test_the_guide_has_each_term_with_its_default_and_reason(name: str) -> None:
    term = TERMS[name]
    cells = (
        f"`{term.name}`", term.of, term.unit, f"`{term.default}`", term.meaning, term.reason,
    )  # fmt: skip
    line = "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
    assert line in GUIDE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[ Copiess = 3 ]", "perhaps Copies is meant"),
        ("[ Ready = TARGET.Arivals ]", "Arivals"),
        ("[ Minimum = -3 ]", "Minimum = -3 is -3"),
        ('[ Minimum = real("NaN") ]', "a number of at least 0 was expected"),
        ("[ Use = 5 ]", "true or false was expected"),
        ('[ Limit = "many" ]', "Limit"),
        ('[ Lend = TARGET.Cpus > "9" ]', "Lend: "),
        ('[ Lend = "batch" ]', "a condition on a job was expected"),
    ],
)
def test_mistakes_in_a_policy_are_found(text: str, found: str) -> None:
    assert any(found in problem for problem in PolicyAd(text).problems())


def test_an_attribute_that_terms_use_is_no_problem() -> None:
    assert PolicyAd("[ Each = 2; Ready = MY.Each * TARGET.Arrivals ]").problems() == []


def test_what_may_be_lent_is_a_condition_on_jobs_that_are_not_known() -> None:
    assert PolicyAd("[ Lend = TARGET.Batch && TARGET.Cpus <= 2 ]").problems() == []
    assert PolicyAd("[ Lend = false ]").problems() == []


def test_a_policy_that_is_no_ad_is_refused() -> None:
    with pytest.raises(ParseError):
        PolicyAd("[ Minimum = ")
    with pytest.raises(TypeError):
        PolicyAd(3)  # type: ignore[arg-type]
