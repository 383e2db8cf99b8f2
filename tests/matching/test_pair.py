from __future__ import annotations

import pytest

from matchmaker import ClassAd, clauses, is_error, match, parse_ad, refusal
from matchmaker.classad.errors import shorten
from matchmaker.classad.values import UNDEFINED
from matchmaker.matching.pair import value_text


def test_both_sides_must_agree() -> None:
    job = parse_ad("[ Cpus = 2; Requirements = TARGET.Cpus >= 4 ]")
    large = parse_ad("[ Cpus = 8; Requirements = TARGET.Cpus <= 2 ]")
    picky = parse_ad("[ Cpus = 8; Requirements = TARGET.Cpus <= 1 ]")
    small = parse_ad("[ Cpus = 1; Requirements = TARGET.Cpus <= 2 ]")
    assert match(job, large).matched
    assert (match(job, picky).left, match(job, picky).right) == (True, False)
    assert not match(job, picky).matched
    assert (match(job, small).left, match(job, small).right) == (False, True)
    assert not match(job, small).matched


def test_a_match_is_as_true_as_what_it_says() -> None:
    job = parse_ad("[ Requirements = TARGET.Cpus >= 4 ]")
    assert [bool(match(job, ClassAd(Cpus=n))) for n in (2, 4)] == [False, True]
    assert not match(job, ClassAd())


def test_sides_are_named_from_the_left() -> None:
    job = parse_ad('[ Requirements = TARGET.Kind == "host"; Rank = 7 ]')
    host = parse_ad('[ Kind = "host"; Requirements = false; Rank = 9 ]')
    there, back = match(job, host), match(host, job)
    assert (there.left, there.right, there.rank) == (True, False, 7)
    assert (back.left, back.right, back.rank) == (False, True, 9)


def test_an_ad_without_requirements_accepts_everything() -> None:
    assert match(ClassAd(), ClassAd()).matched
    assert match(ClassAd(), parse_ad("[ Requirements = false ]")).left is True


@pytest.mark.parametrize("text", ["true", "1", "-3", "0.5", "!false", "2 > 1"])
def test_true_requirements(text: str) -> None:
    assert match(parse_ad(f"[ Requirements = {text} ]"), ClassAd()).matched


@pytest.mark.parametrize(
    "text",
    [
        "false",
        "0",
        "0.0",
        "undefined",
        "error",
        '"true"',
        "{ true }",
        "[ a = 1 ]",
        "nothing",
        "1/0",
    ],
)
def test_requirements_that_are_not_true_refuse(text: str) -> None:
    outcome = match(parse_ad(f"[ Requirements = {text} ]"), ClassAd())
    assert outcome.left is not True
    assert outcome.right is True
    assert not outcome.matched


def test_undefined_and_error_are_told_apart() -> None:
    assert match(parse_ad("[ Requirements = other.x ]"), ClassAd()).left is UNDEFINED
    assert is_error(match(parse_ad('[ Requirements = "a" + 1 ]'), ClassAd()).left)


def test_requirements_are_case_insensitive_in_name() -> None:
    assert not match(parse_ad("[ REQUIREMENTS = false ]"), ClassAd()).matched
    assert match(parse_ad("[ rAnK = 3 ]"), ClassAd()).rank == 3


def test_rank_is_the_left_ads_of_the_right() -> None:
    job = parse_ad("[ Rank = other.Speed * 2; Speed = 100 ]")
    assert match(job, parse_ad("[ Speed = 5; Rank = 1 ]")).rank == 10
    assert match(job, ClassAd()).rank is UNDEFINED
    assert match(ClassAd(), job).rank is UNDEFINED


def test_circular_requirements_do_not_hang() -> None:
    job = parse_ad("[ Requirements = other.Requirements ]")
    outcome = match(job, parse_ad("[ Requirements = other.Requirements ]"))
    assert not outcome.matched


def test_a_requirement_of_thousands_of_clauses_is_matched() -> None:
    names = " || ".join(f'other.Name == "wn{i}"' for i in range(3000))
    job = parse_ad(f"[ Requirements = {names} ]")
    assert match(job, parse_ad('[ Name = "wn2999" ]')).matched
    assert not match(job, parse_ad('[ Name = "wn3000" ]')).matched


def test_clauses_are_the_conjuncts_in_order_with_their_values() -> None:
    job = parse_ad(
        "[ Want = 2; Requirements = other.a > Want && (other.b || other.c) && other.d == 1 ]"
    )
    host = parse_ad("[ a = 3; b = false; c = false ]")
    found = clauses(job, host)
    assert [str(c.expression) for c in found] == [
        "other.a > Want",
        "other.b || other.c",
        "other.d == 1",
    ]
    assert [c.value for c in found] == [True, False, UNDEFINED]
    assert found[0].facts == (("a", 3), ("Want", 2))
    assert clauses(ClassAd(), host) == []


def test_requirements_are_true_exactly_when_every_clause_is() -> None:
    for text in ("other.a && other.b", "other.a && (other.b && other.c)", "other.a || other.b"):
        job = parse_ad(f"[ Requirements = {text} ]")
        for a in ("true", "false", "undefined", "error"):
            for b in ("true", "0", "undefined", '"x"'):
                host = parse_ad(f"[ a = {a}; b = {b}; c = 1 ]")
                every = all(clause.value is True for clause in clauses(job, host))
                assert every == match(job, host).matched, (text, a, b)


def test_refusal_is_the_first_clause_that_is_not_true() -> None:
    job = parse_ad("[ Requirements = other.a == 1 && other.b == 1 && other.c == 1 ]")
    refused = refusal(job, parse_ad("[ a = 1; b = 2; c = 3 ]"))
    assert refused is not None
    assert str(refused) == "other.b == 1 is false (b = 2)"
    assert refusal(job, parse_ad("[ a = 1; b = 1; c = 1 ]")) is None


def test_a_clause_that_is_a_name_shows_its_definition_and_facts() -> None:
    host = parse_ad("[ Limit = 4; Fits = other.Cpus <= Limit; Requirements = Fits ]")
    clause = refusal(host, parse_ad("[ Cpus = 9 ]"))
    assert clause is not None
    assert str(clause) == "Fits is false: other.Cpus <= Limit (Cpus = 9, Limit = 4)"


def test_facts_name_each_attribute_once_in_any_case() -> None:
    job = parse_ad("[ Requirements = other.Cpus > 2 && other.x ]")
    clause = clauses(parse_ad("[ Requirements = other.Cpus < 2 || TARGET.cpus > 4 ]"), job)[0]
    assert [name for name, _ in clause.facts] == ["Cpus"]


def test_facts_of_one_name_in_both_ads_are_told_apart() -> None:
    job = parse_ad("[ Cpus = 4; Requirements = TARGET.Cpus >= MY.Cpus ]")
    [clause] = clauses(job, parse_ad("[ Cpus = 2 ]"))
    assert clause.facts == (("Cpus", 2), ("MY.Cpus", 4))
    [clause] = clauses(job, parse_ad("[ Cpus = 4 ]"))
    assert clause.facts == (("Cpus", 4),)


def test_facts_are_of_whole_paths() -> None:
    job = parse_ad("[ Requirements = other.Disk.Free > 10 ]")
    clause = clauses(job, parse_ad("[ Disk = [ Free = 5 ] ]"))[0]
    assert str(clause) == "other.Disk.Free > 10 is false (other.Disk.Free = 5)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("undefined", "undefined"),
        ("true", "true"),
        ('"a b"', '"a b"'),
        ("{ 1, undefined }", "{1, undefined}"),
        ("[ a = 1 ]", "[ a = 1 ]"),
        ("1/0", "error: integer division by zero"),
    ],
)
def test_values_in_words(text: str, words: str) -> None:
    assert value_text(parse_ad(f"[ v = {text} ]").eval("v")) == words


def test_long_texts_are_cut() -> None:
    assert shorten("a" * 10, 10) == "a" * 10
    assert shorten("a" * 11, 10) == "aaaaaaa..."
    job = parse_ad(f'[ Requirements = other.x == "{"y" * 5000}" ]')
    clause = refusal(job, ClassAd())
    assert clause is not None
    assert len(str(clause)) < 300
