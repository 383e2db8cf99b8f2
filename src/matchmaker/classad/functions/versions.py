"""Comparison of version numbers: digits by value, everything else by character."""

# ruff: noqa: D402 - a docstring begins with the signature that the function has in an ad.

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from matchmaker.classad.functions.conversions import to_text
from matchmaker.classad.functions.results import wrong
from matchmaker.classad.functions.strings import two_texts
from matchmaker.classad.limits import Budget
from matchmaker.classad.registry import BOOLEAN, NUMBER, function
from matchmaker.classad.values import UNDEFINED, Value

_DIGITS: Final = re.compile(r"[0-9]*")


def natural_order(left: str, right: str) -> int:
    """Below 0, 0 or above 0 as the one version comes before the other, as strverscmp orders them.

    Numbers are compared by value; one that begins with more zeros comes first.

    >>> natural_order("1.9", "1.10") < 0, natural_order("1.02", "1.2") < 0
    (True, True)
    """
    start = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if start is None:
        start = min(len(left), len(right))
        if len(left) == len(right):
            return 0
    difference = _code(left, start) - _code(right, start)
    first = start
    while first and left[first - 1] in "0123456789":
        first -= 1
    if first == start and not (_is_digit(left, start) and _is_digit(right, start)):
        return difference
    one, other = _digits(left, first), _digits(right, first)
    zeros, other_zeros = _leading_zeros(one), _leading_zeros(other)
    if zeros != other_zeros:
        return other_zeros - zeros
    return difference if zeros or len(one) == len(other) else len(one) - len(other)


def _code(text: str, index: int) -> int:
    return ord(text[index]) if index < len(text) else 0


def _is_digit(text: str, index: int) -> bool:
    return index < len(text) and text[index] in "0123456789"


def _digits(text: str, index: int) -> str:
    match = _DIGITS.match(text, index)
    return match[0] if match else ""


def _leading_zeros(digits: str) -> int:
    zeros = len(digits) - len(digits.lstrip("0"))
    # The zero of the number 0 is no leading one.
    return zeros - 1 if zeros and zeros == len(digits) else zeros


@function("versioncmp", 2, budgeted=True, result=NUMBER)
def versioncmp(left: Value, right: Value, *, budget: Budget | None = None) -> Value:
    """versioncmp(a, b): below 0, 0 or above 0 as version a is older than, equal to or newer than b.

    Digits are compared by their value, all else by character. Undefined where an argument is, else
    error where one is; other values are compared as text. (HTCondor manual, ClassAd functions.)

    >>> versioncmp("1.9", "1.10"), versioncmp("1.2", "1.2"), versioncmp("1", UNDEFINED)
    (-1, 0, UNDEFINED)
    """
    texts = two_texts(left, right, budget)
    return natural_order(*texts) if isinstance(texts, tuple) else texts


def _relation(
    name: str, sign: str, holds: Callable[[int], bool], results: str
) -> Callable[..., Value]:
    """Enters a relation; the results are those for an older, the same and a newer version."""

    @function(name, 2, budgeted=True, result=BOOLEAN)
    def compare(left: Value, right: Value, *, budget: Budget | None = None) -> Value:
        order = versioncmp(left, right, budget=budget)
        return holds(order) if isinstance(order, int) else order

    compare.__doc__ = f"""{name}(a, b): whether version a {sign} b, by the order of versioncmp().

    Undefined where an argument is, else error where one is. (HTCondor manual, ClassAd functions.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f'{name}("{{v}}", "1.10")').eval() for v in ("1.9", "1.10", "1.11")]
    {results}
    """
    return compare


version_le = _relation("versionLE", "<=", lambda order: order <= 0, "[True, True, False]")
version_lt = _relation("versionLT", "<", lambda order: order < 0, "[True, False, False]")
version_ge = _relation("versionGE", ">=", lambda order: order >= 0, "[False, True, True]")
version_gt = _relation("versionGT", ">", lambda order: order > 0, "[False, False, True]")
version_eq = _relation("versionEQ", "==", lambda order: order == 0, "[False, True, False]")


@function("version_in_range", 3, budgeted=True, result=BOOLEAN)
def version_in_range(
    version: Value, least: Value, most: Value, *, budget: Budget | None = None
) -> Value:
    """version_in_range(v, lo, hi): whether version v is neither older than lo nor newer than hi.

    Undefined where lo or hi is; an undefined v is an error. (HTCondor manual, ClassAd functions.)

    >>> version_in_range("1.10", "1.9", "1.11")
    True
    """
    if least is UNDEFINED or most is UNDEFINED:
        return UNDEFINED
    texts = [to_text(value, budget) for value in (version, least, most)]
    for text in texts:
        if not isinstance(text, str):
            return wrong("version_in_range", "versions", text)
    version, least, most = texts
    lowest = versioncmp(least, version, budget=budget)
    highest = versioncmp(version, most, budget=budget)
    return isinstance(lowest, int) and isinstance(highest, int) and lowest <= 0 and highest <= 0
