"""What is broken is found out: no difference accounts for a wrong answer of ours.

The rules of a difference replace parts of our evaluation. Each such part is broken here in two
ways, and plain cases, where both sides agree as long as it is whole, must show it in spite of all
differences, and so must the examples of the differences.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, Final, TypeAlias
from unittest.mock import patch

import pytest

from matchmaker import ClassAd, Expr, parse_expr
from matchmaker.classad.ad import literal
from matchmaker.classad.reference import REFERENCE
from matchmaker.classad.values import ERROR
from tests.oracle import cases, scopes
from tests.oracle.answers import UNREADABLE, Compared, agree
from tests.oracle.difference import Difference
from tests.oracle.differences import DIFFERENCES, account
from tests.oracle.emulation import Rules, Wrapper, answer_by, replaced
from tests.oracle.oracle import Answer, Case, Oracle

SUCCESSES: Final = 3
FAILURES: Final = 1
"""In about how many cases a broken part is looked for, by whether they have a value."""

NO_SUCCESS: Final = ("error", "undefined")
NO_ANSWER: Final = ("crashes", "hangs", "unreadable", "exception")

Change: TypeAlias = Callable[[Any], Any]

# --- what is broken -------------------------------------------------------------------------------


def near(value: Any) -> Any:
    """A value that is nearly the given one, most often of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return ~value
    if isinstance(value, float):
        return math.nextafter(value, 0.0) if value else 1.0
    if isinstance(value, str):
        return value + "0"
    if isinstance(value, (datetime, timedelta)):
        return value + timedelta(seconds=1)
    if isinstance(value, list):
        return [*value, 17]
    if isinstance(value, ClassAd):
        return ClassAd(value, wrong=17)
    return literal(17) if isinstance(value, Expr) else 17


def failing(value: Any) -> Any:
    """An error; of what is read from a text, one that is an error."""
    return literal(ERROR) if isinstance(value, Expr) else ERROR


def _broken(change: Change) -> Wrapper:
    return lambda inner, *values, **more: change(inner(*values, **more))


@contextmanager
def mutant(part: str, key: Any, change: Change) -> Iterator[None]:
    """Breaks one part of our evaluation: a function, an operator, a place or a kind of node."""
    if part == "nodes":
        with patch.dict(REFERENCE, {key: partial(_broken(change), REFERENCE[key])}):
            yield
    else:
        broken: Any = {part: {key: _broken(change)}}
        with replaced([Rules(**broken)]):
            yield


# The last counts the work of an evaluation, which no value shows.
NEVER_COMPARED: Final = {
    *(("functions", name) for name in cases.UNREPEATABLE),
    ("places", "matchmaker.classad.reference:bulk"),
}


def rules_of(known: Difference) -> list[Rules]:
    """All rules of a difference."""
    return [known.ours] if known.theirs is None else [known.theirs, known.ours]


def parts() -> list[tuple[str, Any]]:
    """All that the rules of any difference replace."""
    found: dict[tuple[str, Any], None] = {}
    for known in DIFFERENCES:
        for rules in rules_of(known):
            for part in ("operators", "unary", "functions", "places", "nodes"):
                found |= dict.fromkeys((part, key) for key in getattr(rules, part))
    # In one order: rules are made of sets, too.
    return sorted((part for part in found if part not in NEVER_COMPARED), key=str)


# --- in what it is looked for ---------------------------------------------------------------------


def examples(part: str, key: Any) -> list[Case]:
    """The examples of the differences that replace a function, an operator or a place.

    What evaluates a kind of node may be broken where HTCondor never comes to.
    """
    return [
        example.case
        for known in DIFFERENCES
        for example in known.examples
        if part != "nodes" and any(key in getattr(rules, part) for rules in rules_of(known))
    ]


@cache
def mixed() -> tuple[Case, ...]:
    """Some cases of every operator, function and scope."""
    sources = [
        *map(cases.operator_cases, cases.operators()),
        *map(cases.function_cases, cases.functions()),
    ]
    chosen = [itertools.islice(source, 2, None, 7) for source in sources]
    found = [*itertools.chain(*chosen), *itertools.islice(scopes.scope_cases(), 1, None, 11)]
    random.Random(1).shuffle(found)
    return tuple(found)


@cache
def plain_cases(part: str, key: Any) -> tuple[Case, ...]:
    """Cases that need a part of our evaluation."""
    if part == "operators":
        found = list(cases.operator_cases(f"({{0}}) {key} ({{1}})"))
    elif part == "unary":
        found = list(cases.operator_cases(f"{key}({{0}})"))
    elif part == "functions" or (part == "places" and ".functions." in key):
        # Of a place all functions of its module.
        inside = key.partition(":")[0]
        found = [
            case
            for function in cases.functions()
            if key == function.name.lower() or function.call.__module__ == inside
            for case in cases.function_cases(function)
        ]
    else:
        return mixed()
    random.Random(1).shuffle(found)
    return tuple(found)


@cache
def right(case: Case) -> Answer:
    """Our answer as long as all is whole."""
    return answer_by(case, [])


def showing(oracle: Oracle, part: str, key: Any, change: Change) -> Iterator[Compared]:
    """Some cases that a broken part shows in, with the wrong answers, most of them of successes."""
    own = examples(part, key)
    wanted = {False: SUCCESSES, True: FAILURES}
    for index, case in enumerate((*own, *plain_cases(part, key))):
        expected = right(case)
        failed = expected[0] in NO_SUCCESS
        if index >= len(own) and not wanted[failed]:
            continue
        with mutant(part, key, change):
            mistaken = answer_by(case, [])
        if mistaken == expected:
            continue
        theirs = oracle.ask(case)
        if index < len(own):
            # Where HTCondor has no value, test_what_we_do alone says what ours is.
            plain = theirs[0] not in NO_ANSWER
        else:
            plain = agree(Compared(case, expected, expected, theirs))
            wanted[failed] -= plain
        if plain:
            yield Compared(case, mistaken, mistaken, theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("change", [near, failing])
@pytest.mark.parametrize(("part", "key"), parts(), ids=str)
def test_what_is_broken_is_found(oracle: Oracle, part: str, key: Any, change: Change) -> None:
    found = 0
    for one in showing(oracle, part, key, change):
        found += 1
        with mutant(part, key, change):
            assert agree(one) or account(one) == (), str(one)
    assert found


def unreadable() -> list[Case]:
    """The examples of what HTCondor reads and we don't."""
    return [
        example.case
        for known in DIFFERENCES
        for example in known.examples
        if example.ours == UNREADABLE
    ]


@pytest.mark.oracle
@pytest.mark.parametrize("case", unreadable(), ids=str)
def test_a_parser_that_reads_too_much_is_found(oracle: Oracle, case: Case) -> None:
    def lenient(text: str) -> Expr:
        return literal(17) if text == case.text else parse_expr(text)

    mistaken = ["integer", "17"]
    with patch("tests.oracle.emulation.parse_expr", lenient):
        assert answer_by(case, []) == mistaken
        assert account(Compared(case, mistaken, mistaken, oracle.ask(case))) == ()
