"""Tests of a value's type. All are total: true or false for any value, errors included."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from matchmaker.classad.functions.registry import function
from matchmaker.classad.values import UNDEFINED, Value, is_error, type_name


@function("isUndefined", 1)
def is_undefined(value: Value) -> Value:
    """isUndefined(x): whether x is undefined. isUndefined(error) is false.

    >>> is_undefined(UNDEFINED), is_undefined(1)
    (True, False)
    """
    return value is UNDEFINED


@function("isError", 1)
def is_error_(value: Value) -> Value:
    """isError(x): whether x is error.

    >>> is_error_(UNDEFINED)
    False
    """
    return is_error(value)


def _test(name: str, kind: type, but: type | None = None) -> Callable[[Value], Value]:
    @function(name, 1)
    def test(value: Value) -> Value:
        return isinstance(value, kind) and not (but is not None and isinstance(value, but))

    return test


is_string = _test("isString", str)
is_integer = _test("isInteger", int, but=bool)
is_real = _test("isReal", float)
is_boolean = _test("isBoolean", bool)
is_list = _test("isList", list)
is_abs_time = _test("isAbsTime", datetime)
is_rel_time = _test("isRelTime", timedelta)


@function("isClassAd", 1)
def is_class_ad(value: Value) -> Value:
    """isClassAd(x): whether x is an ad."""
    return type_name(value) == "classad"
