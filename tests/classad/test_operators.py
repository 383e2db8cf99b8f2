"""The operators as functions on values."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from matchmaker import ERROR, UNDEFINED, ClassAd
from matchmaker.classad.operators import (
    BINARY,
    UNARY,
    ascii_fold,
    choose,
    elvis,
    identical,
    subscript,
    truth,
)
from matchmaker.classad.values import MAX_INT, MIN_INT, ErrorType, Value, is_error
from tests.classad.results import assert_gives

T, F, U, E = True, False, UNDEFINED, ERROR
FOUR: tuple[Value, ...] = (T, F, U, E)
HOUR = timedelta(hours=1)
NOON = datetime(2004, 1, 1, 12, tzinfo=UTC)
NOON_ELSEWHERE = NOON.astimezone(timezone(HOUR))

# Rows: the left operand; columns: the right one.
AND = {T: (T, F, U, E), F: (F, F, F, F), U: (U, F, U, E), E: (E, E, E, E)}
OR = {T: (T, T, T, T), F: (T, F, U, E), U: (T, U, U, E), E: (E, E, E, E)}


@pytest.mark.parametrize(("symbol", "table"), [("&&", AND), ("||", OR)])
def test_truth_table(symbol: str, table: dict[Any, tuple[Any, ...]]) -> None:
    for left, row in table.items():
        for right, expected in zip(FOUR, row, strict=True):
            given = BINARY[symbol](left, right)
            assert type(given) is type(expected), (left, symbol, right)
            assert given == expected, (left, symbol, right)


@pytest.mark.parametrize("value", ["a", "", [1], ClassAd(), NOON, HOUR])
def test_no_condition(value: Any) -> None:
    assert is_error(truth(value))
    assert is_error(BINARY["&&"](value, F))
    assert is_error(BINARY["||"](value, T))
    assert BINARY["&&"](F, value) is F
    assert BINARY["||"](T, value) is T
    assert is_error(choose(value, 1, 2))
    assert is_error(UNARY["!"](value))


@pytest.mark.parametrize(
    ("value", "expected"), [(0, F), (1, T), (-1, T), (0.0, F), (0.1, T), (math.nan, T), (T, T)]
)
def test_numbers_are_conditions(value: Any, expected: bool) -> None:
    assert truth(value) is expected
    assert choose(value, "yes", "no") == ("yes" if expected else "no")
    assert UNARY["!"](value) is not expected


def test_elvis_replaces_undefined_only() -> None:
    assert elvis(U, 1) == 1
    assert elvis(F, 1) is F
    assert is_error(elvis(E, 1))


VALUES: tuple[Any, ...] = (
    T, F, 0, 1, -1, 64, MAX_INT, MIN_INT, 0.0, -0.0, 2.5, math.inf, -math.inf, math.nan, "", "a",
    "A", [], [1], ClassAd(), ClassAd(a=1), NOON, NOON_ELSEWHERE, HOUR, -HOUR, timedelta.max,
    datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC), U, E,
)  # fmt: skip
KINDS = (bool, int, float, str, list, ClassAd, datetime, timedelta, type(UNDEFINED), ErrorType)


@pytest.mark.parametrize("symbol", sorted(BINARY))
def test_binary_operator_is_total(symbol: str) -> None:
    for left, right in itertools.product(VALUES, repeat=2):
        result = BINARY[symbol](left, right)
        assert isinstance(result, KINDS), (left, symbol, right)
        if isinstance(result, int) and not isinstance(result, bool):
            assert MIN_INT <= result <= MAX_INT, (left, symbol, right)


@pytest.mark.parametrize("symbol", sorted(UNARY))
def test_unary_operator_is_total(symbol: str) -> None:
    for value in VALUES:
        assert isinstance(UNARY[symbol](value), KINDS), (symbol, value)


@pytest.mark.parametrize("symbol", sorted(set(BINARY) - {"&&", "||", "?:", "is", "isnt"}))
def test_strict_operator_passes_exceptional_values_on(symbol: str) -> None:
    strict = BINARY[symbol]
    for value in VALUES:
        assert is_error(strict(E, value)), value
        assert is_error(strict(value, E)), value
        if not is_error(value):
            assert strict(U, value) is U, value
            assert strict(value, U) is U, value


def test_error_keeps_its_reason() -> None:
    reason = ErrorType("integer division by zero")
    for symbol in ("+", "==", "<", "&", "&&", "||"):
        assert repr(BINARY[symbol](reason, 1)) == repr(reason), symbol
    assert repr(BINARY["+"](1, reason)) == repr(reason)
    assert repr(BINARY["/"](1, 0)) == repr(reason)


@pytest.mark.parametrize(("left", "right"), [(7.0, 0), (7, 0.0), (-7.0, -0.0), (math.inf, 0)])
def test_a_real_that_is_divided_by_zero_says_so(left: float, right: float) -> None:
    assert repr(BINARY["/"](left, right)) == "ERROR(real division by zero)"
    assert BINARY["/"](-left, right) == -math.inf
    assert repr(BINARY["*"](1e308, 10)) == "ERROR(real overflow)"


def test_is_never_undefined() -> None:
    for left, right in itertools.product(VALUES, repeat=2):
        assert identical(left, right) is not U


def test_is_tells_offsets_apart() -> None:
    assert identical(NOON, NOON) is T
    assert identical(NOON, NOON_ELSEWHERE) is F
    assert BINARY["=="](NOON, NOON_ELSEWHERE) is T


@pytest.mark.parametrize(
    ("left", "symbol", "right", "expected"),
    [
        (NOON, "-", NOON - HOUR, HOUR),
        (NOON, "+", HOUR, NOON + HOUR),
        (HOUR, "+", NOON, NOON + HOUR),
        (NOON, "-", HOUR, NOON - HOUR),
        (HOUR, "-", NOON, E),
        (NOON, "+", NOON, E),
        (HOUR, "*", 2, 2 * HOUR),
        (1.5, "*", HOUR, 1.5 * HOUR),
        (HOUR, "*", True, E),
        (HOUR, "/", 2, HOUR / 2),
        (HOUR, "/", True, E),
        (HOUR, "/", 0, E),
        (HOUR, "/", HOUR, E),
        (HOUR, "+", 1, E),
        (HOUR, "==", 3600, E),
        (HOUR, "<", 2 * HOUR, T),
        (NOON, "<", HOUR, E),
        (datetime.max.replace(tzinfo=UTC), "+", HOUR, E),
        (timedelta.max, "*", 2, E),
        (HOUR, "*", math.nan, E),
    ],
)
def test_times(left: Any, symbol: str, right: Any, expected: Any) -> None:
    given = BINARY[symbol](left, right)
    assert type(given) is type(expected)
    assert given == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 / -2", -3),
        ("7 / 2.0", 3.5),
        ("1 / 0.0", E),
        ("-1 / 0.0", -math.inf),
        ("9223372036854775807 * 2", -2),
        ("-9223372036854775808 - 1", MAX_INT),
        ("-(-9223372036854775808)", MIN_INT),
        ("7 & 3", 3),
        ("4 | 1", 5),
        ("6 ^ 3", 5),
        ("~0", -1),
        ("true & 1", E),
        ("1.0 & 1", E),
        ("1 << 63", MIN_INT),
        ("-8 >> 1", -4),
        ("-8 >>> 60", 15),
        ("-1 >>> 0", -1),
        ("true < 2", T),
        ("1 == 1.0", T),
        ('"abc" < "ABD"', T),
        ('"é" == "É"', F),
        ("{1} == {1}", E),
        ("[a=1] == [a=1]", E),
        ("undefined is undefined", T),
        ("error is error", T),
        ("error isnt 1", T),
        ("1 is 1", T),
        ('"a" isnt "A"', T),
        ("+1.5", 1.5),
        ("+true", E),
        ('-"a"', E),
        ("!undefined", U),
        ("!5", F),
    ],
)
def test_operator(text: str, expected: Any) -> None:
    assert_gives(text, expected)


def test_subscript_of_a_list() -> None:
    assert subscript([1, "a"], 1) == "a"
    assert is_error(subscript([1], 1))
    assert is_error(subscript([1], 0.0))
    assert is_error(subscript("abc", 0))
    assert subscript(U, 0) is U
    assert subscript([1], U) is U


def test_case_folding_is_ascii_only() -> None:
    assert ascii_fold("AbZ[À") == "abz[À"
