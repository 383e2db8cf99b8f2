"""Functions on numbers: rounding, powers, multiples and chance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from matchmaker.classad.functions.conversions import saturated, to_real
from matchmaker.classad.registry import NUMBER, Trait, function, wrong
from matchmaker.classad.values import (
    MAX_INT,
    MIN_INT,
    ErrorType,
    Value,
    is_integer,
    is_number,
    wrap,
)

_NOTHING: Final = 1e-8
_A_NUMBER: Final = "a number or text that begins with one"


def _rounding(
    name: str, what: str, examples: str, integral: Callable[[float], int], called: str = ""
) -> Callable[[Value], Value]:
    """Enter a function; the examples are what it makes of -2.5 and "1.9"."""

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
    that does. What is no number, undefined too, is an error. (HTCondor manual.)

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
    list leave x as it is. What is no number, undefined too, is an error. (HTCondor manual.)

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
