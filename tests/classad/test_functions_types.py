"""Types and conversions: isX, int, real, string, bool; how functions are called at all."""

from __future__ import annotations

import math
from typing import Any

import pytest

from matchmaker.classad.functions import FUNCTIONS
from matchmaker.classad.values import MAX_INT, MIN_INT, is_error
from tests.classad.results import ERROR, UNDEFINED, assert_gives, value

OF_EACH_TYPE = {
    "Undefined": "undefined",
    "Error": "error",
    "Boolean": "true",
    "Integer": "1",
    "Real": "1.5",
    "String": '"a"',
    "List": "{1}",
    "ClassAd": "[a = 1]",
    "AbsTime": "absTime(0)",
    "RelTime": "relTime(0)",
}


@pytest.mark.parametrize("name", OF_EACH_TYPE)
def test_type_is_told(name: str) -> None:
    for other, text in OF_EACH_TYPE.items():
        assert_gives(f"is{name}({text})", name == other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int(2.9)", 2),
        ("int(-2.9)", -2),
        ("int(true)", 1),
        ('int(" 12")', 12),
        ('int("-0x1F")', -31),
        ('int("1.9e1x")', 19),
        ('int("abc")', ERROR),
        ("int(1e30)", MAX_INT),
        ("int(-1e30)", MIN_INT),
        ('int(real("NaN"))', 0),
        ("int(undefined)", UNDEFINED),
        ("int({1})", ERROR),
        ("int([a = 1])", ERROR),
        ("int(absTime(5.5))", 5),
        ("int(relTime(-5.5))", -5),
        ("real(1)", 1.0),
        ('real("1.5K")', 1.5),
        ('real("infinity")', math.inf),
        ('real("-INF")', -math.inf),
        ('real("1e400")', math.inf),
        ('real("nan")', math.nan),
        ('real(".")', ERROR),
        ("real(error)", ERROR),
        ("string(1)", "1"),
        ("string(0.0)", "0.0"),
        ("string(-0.0)", "-0.0"),
        ("string(2.5)", "2.500000000000000E+00"),
        ("string(1e300)", "1.000000000000000E+300"),
        ('string(real("-INF"))', 'real("-INF")'),
        ("string(true)", "true"),
        ("string(undefined)", UNDEFINED),
        ("string({})", "{  }"),
        ('string({1,"a",{2.5},undefined})', '{ 1,"a",{ 2.500000000000000E+00 },undefined }'),
        ("string([a = 1; b = {2}])", "[ a = 1; b = {2} ]"),
        ("string(absTime(0, 3600))", "1970-01-01T01:00:00+01:00"),
        ("string(absTime(0, 0))", "1970-01-01T00:00:00-00:00"),
        ("string(relTime(0))", "00"),
        ("string(relTime(100))", "01:40"),
        ("string(relTime(-93784))", "-1+02:03:04"),
        ("string(relTime(3600))", "01:00:00"),
        ('bool("TRUE")', True),
        ('bool("false")', False),
        ('bool("1")', UNDEFINED),
        ("bool(0.5)", True),
        ('bool(real("NaN"))', True),
        ("bool(relTime(0.5))", False),
        ("bool(absTime(0))", ERROR),
        ("bool({})", ERROR),
    ],
)
def test_conversion(text: str, expected: Any) -> None:
    assert_gives(text, expected)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda function: function.name)
def test_every_function_is_described(function: Any) -> None:
    assert function.call.__doc__ or function.name.startswith("is"), function.name


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda function: function.name)
def test_wrong_number_of_arguments_is_an_error(function: Any) -> None:
    for count in range(8):
        given = value(f"{function.name}({', '.join(['1'] * count)})")
        if not function.accepts(count):
            assert is_error(given)
            assert function.arity in given.reason


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda function: function.name)
def test_names_have_no_case(function: Any) -> None:
    assert FUNCTIONS[function.name.lower()] is not None
    given = value(f"{function.name.upper()}(1, 1, 1, 1, 1, 1, 1, 1)")
    if is_error(given):
        assert "there is no function" not in given.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("substr(1, 2)", "substr() takes a string, not integer"),
        ("member(1, 2)", "member() takes a list as its second argument, not integer"),
        ('sum({"a"})', "sum() takes a list of numbers, not string"),
        ('absTime("soon")', "absTime() cannot read 'soon'"),
        ('eval("1 +")', "eval(): line 1, column 4: the text ends too early; expected a value"),
        ('regexp("(", "a")', "'(' is no regular expression"),
        ("size(1 / 0)", "integer division by zero"),
    ],
)
def test_error_has_a_reason(text: str, reason: str) -> None:
    given = value(text)
    assert is_error(given)
    assert reason in given.reason
