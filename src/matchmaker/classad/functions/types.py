"""Tests of a value's type. All are total: true or false for any value, errors included."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from matchmaker.classad.registry import BOOLEAN, Trait, function
from matchmaker.classad.values import UNDEFINED, Ad, Value, is_error


@function("isUndefined", 1, traits={Trait.TYPE_TEST, Trait.ASKING}, result=BOOLEAN)
def is_undefined(value: Value) -> Value:
    """isUndefined(x): whether x is undefined; error is not. x is of any type.

    (HTCondor manual, ClassAd functions.)

    >>> is_undefined(UNDEFINED), is_undefined(1)
    (True, False)
    """
    return value is UNDEFINED


@function("isError", 1, traits={Trait.TYPE_TEST, Trait.ASKING}, result=BOOLEAN)
def is_error_(value: Value) -> Value:
    """isError(x): whether x is error; undefined is not. x is of any type.

    (HTCondor manual, ClassAd functions.)

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

    x is of any type. (HTCondor manual, ClassAd functions.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f"{name}({{x}})").eval() for x in {example}]
    [True, False]
    """
    return test


is_string = _test("isString", "a string", """('"5"', "5")""", str)
is_integer = _test("isInteger", "an integer, no boolean", '("5", "true")', int, but=bool)
is_real = _test("isReal", "a real", '("5.0", "5")', float)
is_boolean = _test("isBoolean", "true or false", '("1 > 2", "1")', bool)
is_list = _test("isList", "a list", """("{1}", '"1, 2"')""", list)
is_abs_time = _test("isAbsTime", "an absolute time", '("absTime(0)", "time()")', datetime)
is_rel_time = _test("isRelTime", "a relative time", '("relTime(90)", "90")', timedelta)
is_class_ad = _test("isClassAd", "an ad", '("[a = 1]", "{1}")', Ad)
