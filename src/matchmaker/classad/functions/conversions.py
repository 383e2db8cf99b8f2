"""Functions that convert values, and functions on numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.functions import BOOLEAN, NUMBER, STRING, Trait, function, wrong
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.printer import unparse_value
from matchmaker.classad.state import Budget
from matchmaker.classad.values import (
    MAX_INT,
    MIN_INT,
    UNDEFINED,
    Ad,
    ErrorType,
    UndefinedType,
    Value,
    is_error,
    is_exceptional,
    is_integer,
    is_number,
    wrap,
)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_NUMBER: Final = re.compile(
    r"\s*([+-]?)(?:(0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?)"
    r"|(inf(?:inity)?|nan)|((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))",
    re.IGNORECASE | re.ASCII,
)


def leading_number(text: str) -> float | None:
    """The number that a text begins with, as C's strtod reads it, or None.

    >>> leading_number("12abc"), leading_number("0x10"), leading_number("abc")
    (12.0, 16.0, None)
    """
    match = _NUMBER.match(text)
    if match is None:
        return None
    sign, hexadecimal, special, decimal = match.groups()
    try:
        number = float.fromhex(hexadecimal) if hexadecimal else float(special or decimal)
    except OverflowError:
        number = math.inf
    return -number if sign == "-" else number


def saturated(number: float) -> int:
    """A real as an integer of 64 bits: the fraction dropped, the nearest one if it is too large.

    >>> saturated(-2.9), saturated(1e30), saturated(float("nan"))
    (-2, 9223372036854775807, 0)
    """
    if math.isnan(number):
        return 0
    if number >= 2.0**63:
        return MAX_INT
    return int(number) if number > -(2.0**63) else MIN_INT


def whole_seconds(time: datetime | timedelta) -> int:
    """The seconds of a relative time, or since 1970, without their fraction."""
    span = time - EPOCH if isinstance(time, datetime) else time
    return int(span / timedelta(seconds=1))


def to_real(value: Value) -> float | None:
    """A value as a real; None for other kinds, and for text that does not begin with a number."""
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        return leading_number(value)
    if isinstance(value, (datetime, timedelta)):
        return float(whole_seconds(value))
    return None


def to_integer(value: Value) -> int | None:
    """A value as an integer; None as in :func:`to_real`."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (datetime, timedelta)):
        return whole_seconds(value)
    number = to_real(value)
    return saturated(number) if number is not None else None


def to_text(value: Value, budget: Budget | None = None) -> str | UndefinedType | ErrorType:
    """A value as strcat and string() write it: strings bare, reals with 16 digits.

    The text of lists and ads counts against the budget, since it may be much longer than they cost.

    >>> to_text(1.5), to_text([1, "a"]), to_text(timedelta(seconds=100))
    ('1.500000000000000E+00', '{ 1,"a" }', '01:40')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (UndefinedType, ErrorType)):
        return value
    if not isinstance(value, list):
        text = _plain_text(value)
        if budget is not None and isinstance(value, Ad):
            budget.spend(len(text))
        return text
    parts: list[str] = []
    length = 0
    for part in _list_text(value):
        length += len(part)
        if length > LIMITS.result:
            return ErrorType(f"a list takes over {LIMITS.result} characters as text")
        parts.append(part)
    if budget is not None:
        budget.spend(length)
    return "".join(parts)


def _list_text(items: list[Value]) -> Iterator[str]:
    yield "{ "
    for index, item in enumerate(items):
        if index:
            yield ","
        if isinstance(item, list):
            yield from _list_text(item)
        elif isinstance(item, float):
            yield _plain_text(item)
        else:
            yield str(item) if isinstance(item, Ad) else unparse_value(item)
    yield " }"


def _plain_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value == 0 or not math.isfinite(value):
            return unparse_value(value)
        return f"{value:.15E}"
    if isinstance(value, datetime):
        return _absolute_text(value)
    if isinstance(value, timedelta):
        return _relative_text(whole_seconds(value))
    return str(value)


def _absolute_text(time: datetime) -> str:
    offset = time.utcoffset() or timedelta()
    sign = "+" if offset > timedelta() else "-"
    hours, minutes = divmod(int(abs(offset).total_seconds()) // 60, 60)
    day = f"{time.year}-{time.month:02}-{time.day:02}"
    return f"{day}T{time:%H:%M:%S}{sign}{hours:02}:{minutes:02}"


def _relative_text(seconds: int) -> str:
    """Seconds as "d+hh:mm:ss", without leading parts that are 0."""
    sign = "-" if seconds < 0 else ""
    minutes, second = divmod(abs(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{sign}{days}+{hour:02}:{minute:02}:{second:02}"
    if hour:
        return f"{sign}{hour:02}:{minute:02}:{second:02}"
    return f"{sign}{minute:02}:{second:02}" if minute else f"{sign}{second:02}"


@function("int", 1, result=NUMBER)
def int_(value: Value) -> Value:
    """int(x): a number, a boolean, a time or a string that begins with a number, as an integer.

    The fraction is dropped. Undefined stays undefined; a string without a number, a list and an ad
    give error. (HTCondor manual.)

    >>> int_(2.9), int_("12abc"), int_("0x10"), int_("")
    (2, 12, 16, ERROR(int() takes a number or text that begins with one, not string))
    """
    return _number("int", value, to_integer)


@function("real", 1, result=NUMBER)
def real(value: Value) -> Value:
    """real(x): a number, a boolean, a time or a string that begins with a number, as a real.

    Undefined and error as in int(). ``real("INF")``, ``real("-INF")`` and ``real("NaN")`` are how
    such numbers are written. (HTCondor manual.)

    >>> real("1e3"), real(True)
    (1000.0, 1.0)
    """
    return _number("real", value, to_real)


def _number(name: str, value: Value, convert: Callable[[Value], int | float | None]) -> Value:
    number = UNDEFINED if value is UNDEFINED else convert(value)
    return wrong(name, "a number or text that begins with one", value) if number is None else number


@function("string", 1, budgeted=True, result=STRING)
def string(value: Value, *, budget: Budget | None = None) -> Value:
    """string(x): any value as text; undefined and error stay (HTCondor manual).

    >>> string(1.5), string(True), string("a")
    ('1.500000000000000E+00', 'true', 'a')
    """
    return to_text(value, budget)


@function("bool", 1, result=BOOLEAN)
def bool_(value: Value) -> Value:
    """bool(x): numbers other than 0 are true; the strings "true" and "false" in any case are too.

    Any other string gives undefined; absolute times, lists and ads give error. (HTCondor manual.)

    >>> bool_(0.5), bool_("FALSE"), bool_("yes")
    (True, False, UNDEFINED)
    """
    if isinstance(value, (int, float)):
        return value != 0
    if isinstance(value, timedelta):
        return whole_seconds(value) != 0
    if isinstance(value, str):
        return {"true": True, "false": False}.get(ascii_fold(value), UNDEFINED)
    if is_exceptional(value):
        return value
    return wrong("bool", "a number, a relative time or a string", value)


@function("isUndefined", 1, traits={Trait.TYPE_TEST, Trait.ASKING}, result=BOOLEAN)
def is_undefined(value: Value) -> Value:
    """isUndefined(x): whether x is undefined; error is not. x is of any type (HTCondor manual).

    >>> is_undefined(UNDEFINED), is_undefined(1)
    (True, False)
    """
    return value is UNDEFINED


@function("isError", 1, traits={Trait.TYPE_TEST, Trait.ASKING}, result=BOOLEAN)
def is_error_(value: Value) -> Value:
    """isError(x): whether x is error; undefined is not. x is of any type (HTCondor manual).

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f"isError({x})").eval() for x in ("1 / 0", "undefined")]
    [True, False]
    """
    return is_error(value)


def _test(
    name: str, what: str, example: str, kind: type, but: type | None = None
) -> Callable[[Value], Value]:
    """Enters a test; the two values of the example are one that passes and one that does not."""

    @function(name, 1, traits={Trait.TYPE_TEST}, result=BOOLEAN)
    def test(value: Value) -> Value:
        return isinstance(value, kind) and not (but is not None and isinstance(value, but))

    test.__doc__ = f"""{name}(x): whether x is {what}; undefined and error are not.

    x is of any type. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f"{name}({{x}})").eval() for x in {example}]
    [True, False]
    """
    return test


is_string = _test("isString", "a string", """('"5"', "5")""", str)
is_an_integer = _test("isInteger", "an integer, no boolean", '("5", "true")', int, but=bool)
is_real = _test("isReal", "a real", '("5.0", "5")', float)
is_boolean = _test("isBoolean", "true or false", '("1 > 2", "1")', bool)
is_list = _test("isList", "a list", """("{1}", '"1, 2"')""", list)
is_abs_time = _test("isAbsTime", "an absolute time", '("absTime(0)", "time()")', datetime)
is_rel_time = _test("isRelTime", "a relative time", '("relTime(90)", "90")', timedelta)
is_class_ad = _test("isClassAd", "an ad", '("[a = 1]", "{1}")', Ad)


_NOTHING: Final = 1e-8
_A_NUMBER: Final = "a number or text that begins with one"


def _rounding(
    name: str, what: str, examples: str, integral: Callable[[float], int], called: str = ""
) -> Callable[[Value], Value]:
    """Enter a function; the examples are its values of -2.5 and "1.9"."""

    @function(name, 1, result=NUMBER)
    def rounded(value: Value) -> Value:
        if isinstance(value, int):
            return int(value)
        number = to_real(value)
        if number is None:
            return wrong(name, _A_NUMBER, value)
        return saturated(integral(number) if math.isfinite(number) else number)

    rounded.__doc__ = f"""{called or f"{name}(x)"}: {what}. x is read as real() reads it.

    Undefined is an error here, as all that is no number. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f'{name}({{x}})').eval() for x in ("-2.5", '"1.9"')]
    {examples}
    """
    return rounded


floor = _rounding("floor", "the largest integer that is not above x", "[-3, 1]", math.floor)
ceiling = function("ceil", 1, result=NUMBER)(
    _rounding(
        "ceiling", "the smallest integer that is not below x", "[-2, 2]", math.ceil,
        "ceiling(x), ceil(x)",
    )
)  # fmt: skip
round_ = _rounding("round", "the nearest integer, of two the even one", "[-2, 2]", round)


@function("pow", 2)
def pow_(base: Value, exponent: Value) -> Value:
    """pow(a, b): a to the power of b; of integers an integer, unless b is negative.

    Both are read as real() reads them. An integer that does not fit 64 bits becomes the nearest one
    that does. Anything but a number, undefined too, is an error. (HTCondor manual.)

    >>> pow_(2, 10), pow_(2, -1), pow_("2", 2), pow_(2, 100)
    (1024, 0.5, 4.0, 9223372036854775807)
    """
    if is_integer(base) and is_integer(exponent) and exponent >= 0:
        # From 64 on only 0, 1 and -1 stay within bounds, and they repeat every second power.
        power: int = base ** (exponent if exponent < 64 else 64 + exponent % 2)
        return max(MIN_INT, min(MAX_INT, power))
    left, right = to_real(base), to_real(exponent)
    if left is None or right is None:
        return wrong("pow", _A_NUMBER, base if left is None else exponent)
    try:
        return math.pow(left, right)
    except OverflowError:
        return -math.inf if left < 0 and right % 2 == 1 else math.inf
    except ValueError:
        if left:
            return math.nan
        return math.copysign(math.inf, left) if right % 2 == 1 else math.inf


@function("quantize", 2)
def quantize(value: Value, step: Value) -> Value:
    """quantize(x, n), quantize(x, L): the next multiple of n that is not below x.

    Of a list, its first element that is not below x, or a multiple of the last one. 0 and an empty
    list leave x as it is. Anything but a number, undefined too, is an error. (HTCondor manual.)

    >>> quantize(7, 4), quantize(7.5, 2), quantize(3, [1, 4, 8]), quantize(20, [1, 4, 8])
    (8, 8.0, 4, 24)
    """
    number = to_real(value)
    if number is None:
        return wrong("quantize", _A_NUMBER, value)
    if isinstance(step, list):
        last: Value = 0.0
        for last in step:
            bound = to_real(last)
            if bound is None:
                return wrong("quantize", _A_NUMBER, last)
            if bound >= number:
                return last
        step = last
    if is_integer(step) and is_integer(value):
        return wrap(_multiple(value, step))
    unit = to_real(step)
    if unit is None:
        return wrong("quantize", _A_NUMBER, step)
    if abs(unit) <= _NOTHING:
        return value
    count = number / unit
    # A count just below zero becomes -0.0, as with C's ceil.
    return (math.copysign(math.ceil(count), count) if math.isfinite(count) else count) * unit


def _multiple(value: int, step: int) -> int:
    """The multiple by the arithmetic of C, which drops the fraction of a negative quotient too."""
    if step == 0:
        return value
    above = wrap(value + step - 1)
    count = abs(above) // abs(step)
    return (count if (above < 0) == (step < 0) else -count) * step


@function("random", 0, 1, traits={Trait.VOLATILE, Trait.CHANCE})
def random_(most: Value = 1.0) -> Value:
    """random([max]): a random number from 0 up to but not including max, of the type of max.

    Without an argument a real below 1. max is an integer or a real above 0; anything else,
    undefined too, is an error. (HTCondor manual.)

    >>> random_(1), 0 <= random_() < 1
    (0, True)
    """
    if not is_number(most):
        return wrong("random", "a number", most)
    if not most > 0:
        return ErrorType("random() takes a number above 0")
    if isinstance(most, int):
        from random import randrange  # Loaded on call: few policies ask for chance.

        return randrange(most)  # noqa: S311 - spreads jobs, keeps no secret
    from random import random

    return random() * most  # noqa: S311 - spreads jobs, keeps no secret
