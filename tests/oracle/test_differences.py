"""Each deliberate difference is one: both sides answer as the list says, and only so is it one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from matchmaker.classad.operators import BINARY
from matchmaker.classad.values import ERROR, UNDEFINED, is_error
from tests.oracle.answers import Compared, agree, ours
from tests.oracle.difference import Difference
from tests.oracle.differences import DIFFERENCES, account
from tests.oracle.emulation import Rules, answer_by, replaced
from tests.oracle.oracle import Answer, Case, Oracle

each = pytest.mark.parametrize("known", DIFFERENCES, ids=lambda known: known.name)


@each
def test_what_we_do(known: Difference) -> None:
    assert known.examples
    for example in known.examples:
        assert ours(example.case) == (example.ours, example.ours), example.text


@pytest.mark.oracle
@each
def test_reference_does_otherwise(oracle: Oracle, known: Difference) -> None:
    for example in known.examples:
        one = Compared(example.case, example.ours, example.ours, oracle.ask(example.case))
        assert not agree(one), str(one)
        assert account(one) == (known.name,), str(one)
        assert example.theirs in (None, one.theirs), str(one)


def altered(answer: Answer) -> list[Answer]:
    """Answers of all kinds that are not the given one, and some that nearly are."""
    others: list[Answer] = [
        ["error"], ["undefined"], ["boolean", True], ["boolean", False], ["integer", "0"],
        ["integer", "17"], ["real", "0.5"], ["string", ""], ["string", "x"], ["list", []],
        ["classad", []], ["relative time", "1.0"], ["unreadable"],
        ["absolute time", "1999-12-31T00:00:00-00:00"], ["raises", "KeyError: 'x'"],
    ]  # fmt: skip
    return [other for other in (*others, near(answer)) if other != answer]


def near(answer: Answer) -> Answer:
    """An answer that is nearly the given one."""
    if answer[0] == "integer":
        return ["integer", str(int(answer[1]) + 1)]
    if answer[0] == "real":
        return ["real", repr(math.nextafter(float(answer[1]), 0.0))]
    if answer[0] == "relative time":
        return ["relative time", repr(float(answer[1]) + 1)]
    if answer[0] in ("string", "absolute time"):
        return [answer[0], answer[1] + "0"]
    if answer[0] == "list":
        return ["list", [*answer[1], ["error"]]]
    return ["error"] if answer == ["undefined"] else ["undefined"]


@pytest.mark.oracle
@each
def test_nothing_else_is_accounted_for(oracle: Oracle, known: Difference) -> None:
    """A wrong answer of ours is a fault, and so is one of theirs that the rules don't give."""
    for example in known.examples:
        case, right, theirs = example.case, example.ours, oracle.ask(example.case)
        for wrong in altered(right):
            assert not known.accounts_for(Compared(case, wrong, wrong, theirs)), wrong
            assert account(Compared(case, wrong, right, theirs)) == (), wrong
            assert account(Compared(case, right, wrong, theirs)) == (), wrong
        for wrong in (near(right), ["raises", "KeyError: 'x'"]):
            one = Compared(case, wrong, wrong, theirs)
            assert agree(one) or account(one) == (), str(one)
        for answer in altered(theirs):
            one = Compared(case, right, right, answer)
            assert agree(one) or not known.accounts_for(one), str(one)


def broken(rules: Rules) -> Rules:
    """Rules by which all that other rules replace goes wrong."""

    def wrong(inner: Any, *values: Any, **more: Any) -> Any:
        value = inner(*values, **more)
        return value + 1 if type(value) is int else UNDEFINED if is_error(value) else ERROR

    return Rules(
        operators=dict.fromkeys(rules.operators, wrong),
        functions=dict.fromkeys(rules.functions, wrong),
        places=dict.fromkeys(rules.places, wrong),
    )


@pytest.mark.oracle
@pytest.mark.parametrize(
    "known",
    [known for known in DIFFERENCES if known.ours.operators or known.ours.functions],
    ids=lambda known: known.name,
)
def test_a_defect_of_ours_is_found_in_spite_of_a_difference(
    oracle: Oracle, known: Difference
) -> None:
    """Where our way is told in other words than the code, code that goes wrong is not believed."""
    found = 0
    for example in known.examples:
        theirs = oracle.ask(example.case)
        with replaced([broken(known.ours)]):
            mistaken = ours(example.case)[0]
            one = Compared(example.case, mistaken, mistaken, theirs)
            if mistaken != example.ours:
                assert agree(one) or not known.accounts_for(one), str(one)
                found += 1
    assert found


@pytest.mark.oracle
def test_several_differences_in_one_expression(oracle: Oracle) -> None:
    case = Case('{-1 >>> 0, pow(-2, 3), size("é")}')
    one = Compared(case, *ours(case), oracle.ask(case))
    assert account(one) == ("characters", "powers", "shifts")


def test_rules_are_put_back() -> None:
    shifts = next(known for known in DIFFERENCES if known.name == "shifts")
    before = BINARY[">>"]
    assert isinstance(shifts.theirs, Rules)
    assert answer_by(Case("-1 >>> 0"), [shifts.theirs]) == ["integer", "0"]
    assert BINARY[">>"] is before
    assert ours(Case("-1 >>> 0"))[0] == ["integer", "-1"]
