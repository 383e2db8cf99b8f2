"""Every operator as a total function on values: the one definition of their meaning.

Each function takes values and gives a value; none raises. ``&&``, ``||``, ``?:`` and the ternary
are given here on values too; that their right side may stay unevaluated is the evaluator's affair
and changes no result. The rules are HTCondor's (reference implementation, classad/operators.cpp).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from matchmaker.classad.values import (
    MAX_INT,
    MIN_INT,
    UNDEFINED,
    ErrorType,
    Value,
    is_error,
    is_exceptional,
    is_integer,
    is_number,
    type_name,
    wrap,
)

ORDER: Final = frozenset({"<", "<=", ">", ">="})
RELATIONS: Final = ORDER | {"==", "!="}
IDENTITY: Final = frozenset({"is", "isnt"})
CONNECTIVES: Final = frozenset({"&&", "||"})

MIRRORED: Final[Mapping[str, str]] = {
    "==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "is": "is", "isnt": "isnt",
}  # fmt: skip
"""The relation of ``b`` to ``a`` by that of ``a`` to ``b``."""


def ascii_fold(text: str) -> str:
    """Text with A-Z made small and nothing else: how names and ``==`` compare strings.

    >>> ascii_fold("ÀBC")
    'Àbc'
    """
    if text.isascii():
        return text.lower()
    # Of bytes, only those of ASCII letters have a case; much faster than a table of characters.
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def truth(value: Value) -> Value:
    """A value as a condition: true, false, UNDEFINED or ERROR. Numbers count, strings do not.

    >>> truth(0.5), truth(0), truth("true")
    (True, False, ERROR(string is not a condition))
    """
    if value is True or value is False or value is UNDEFINED or is_error(value):
        return value
    if isinstance(value, (int, float)):
        return value != 0
    return ErrorType(f"{type_name(value)} is not a condition")


def logical_and(left: Value, right: Value) -> Value:
    """``left && right``. False decides; an error on the left wins over all.

    >>> from matchmaker import ERROR
    >>> logical_and(False, ERROR), logical_and(ERROR, False), logical_and(UNDEFINED, False)
    (False, ERROR, False)
    """
    left = truth(left)
    if left is False or is_error(left):
        return left
    right = truth(right)
    return left if right is True else right


def logical_or(left: Value, right: Value) -> Value:
    """``left || right``. True decides; an error on the left wins over all.

    >>> from matchmaker import ERROR
    >>> logical_or(UNDEFINED, True), logical_or(ERROR, True)
    (True, ERROR)
    """
    left = truth(left)
    if left is True or is_error(left):
        return left
    right = truth(right)
    return left if right is False else right


def logical_not(value: Value) -> Value:
    """``!value``."""
    value = truth(value)
    return (not value) if isinstance(value, bool) else value


def elvis(left: Value, right: Value) -> Value:
    """``left ?: right``: the right side if the left one is UNDEFINED. An error stays one."""
    return right if left is UNDEFINED else left


def choose(condition: Value, then: Value, otherwise: Value) -> Value:
    """``condition ? then : otherwise``; UNDEFINED and ERROR pass through the condition."""
    condition = truth(condition)
    if isinstance(condition, bool):
        return then if condition else otherwise
    return condition


def identical(left: Value, right: Value) -> Value:
    """``left is right`` (``=?=``): same type and same value; letter case counts.

    Never UNDEFINED. Two lists or two ads give ERROR, as the reference implementation does.

    >>> identical(1, 1.0), identical(UNDEFINED, UNDEFINED), identical("a", "A")
    (False, True, False)
    """
    if is_exceptional(left) or is_exceptional(right):
        return type(left) is type(right)
    kind = _kind(left)
    if kind is not _kind(right):
        return False
    if kind is list or kind is object:
        return ErrorType(f"two {type_name(left)}s cannot be compared")
    if isinstance(left, datetime) and isinstance(right, datetime):
        return left == right and left.utcoffset() == right.utcoffset()
    return left == right


def _kind(value: Value) -> type:
    for kind in (bool, int, float, str, list, datetime, timedelta):
        if isinstance(value, kind):
            return kind
    return object


def _exceptional(left: Value, right: Value) -> Value:
    """The result of a strict operator with an UNDEFINED or ERROR operand: an error wins."""
    if is_error(left):
        return left
    if is_error(right):
        return right
    return UNDEFINED


def _mismatch(symbol: str, left: Value, right: Value) -> ErrorType:
    return ErrorType(f"{type_name(left)} {symbol} {type_name(right)} has no meaning")


def _comparison(
    symbol: str, relation: Callable[[Any, Any], bool]
) -> Callable[[Value, Value], Value]:
    def compare(left: Value, right: Value) -> Value:
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            if isinstance(left, float) != isinstance(right, float):
                # Integers are promoted to reals, with a real's precision.
                return relation(float(left), float(right))
            return relation(left, right)
        if isinstance(left, str) and isinstance(right, str):
            return relation(ascii_fold(left), ascii_fold(right))
        if is_exceptional(left) or is_exceptional(right):
            return _exceptional(left, right)
        if isinstance(left, datetime) and isinstance(right, datetime):
            return relation(left, right)
        if isinstance(left, timedelta) and isinstance(right, timedelta):
            return relation(left, right)
        return _mismatch(symbol, left, right)

    return compare


def _arithmetic(
    symbol: str,
    integers: Callable[[int, int], Value],
    reals: Callable[[float, float], Value],
    times: Callable[[Any, Any], Value | None],
) -> Callable[[Value, Value], Value]:
    def calculate(left: Value, right: Value) -> Value:
        if isinstance(left, int) and isinstance(right, int):
            return integers(int(left), int(right))
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            result = reals(float(left), float(right))
            return ErrorType("real overflow") if result == math.inf else result
        if is_exceptional(left) or is_exceptional(right):
            return _exceptional(left, right)
        if isinstance(left, (datetime, timedelta)) or isinstance(right, (datetime, timedelta)):
            try:
                moved = times(left, right)
            except (OverflowError, ValueError):
                return ErrorType("time out of range")
            if moved is not None:
                return moved
        return _mismatch(symbol, left, right)

    return calculate


def _divide_integers(left: int, right: int) -> Value:
    if right == 0:
        return ErrorType("integer division by zero")
    if left == MIN_INT and right == -1:
        return MAX_INT
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divide_reals(left: float, right: float) -> Value:
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        # As in HTCondor only one of the two infinities is an error.
        below = math.copysign(1, left) != math.copysign(1, right)
        return -math.inf if below else ErrorType("real division by zero")
    return left / right


def _remainder(left: int, right: int) -> Value:
    if right == 0:
        return ErrorType("integer division by zero")
    return int(math.copysign(1, left)) * (abs(left) % abs(right))


def _add_times(left: Any, right: Any) -> Value | None:
    if isinstance(left, datetime) and isinstance(right, datetime):
        return None
    return _times(operator.add, left, right)


def _subtract_times(left: Any, right: Any) -> Value | None:
    if isinstance(left, timedelta) and isinstance(right, datetime):
        return None
    return _times(operator.sub, left, right)


def _times(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Value | None:
    if isinstance(left, (datetime, timedelta)) and isinstance(right, (datetime, timedelta)):
        result: Value = operation(left, right)
        return result
    return None


def _scale_time(left: Any, right: Any) -> Value | None:
    if isinstance(left, timedelta) and is_number(right):
        return left * right
    return right * left if isinstance(right, timedelta) and is_number(left) else None


def _shrink_time(left: Any, right: Any) -> Value | None:
    if isinstance(left, timedelta) and is_number(right):
        if not right:
            return ErrorType("division by zero")
        return timedelta() if math.isinf(right) else left / right
    return None


def _bitwise(symbol: str, operation: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    def combine(left: Value, right: Value) -> Value:
        if is_exceptional(left) or is_exceptional(right):
            return _exceptional(left, right)
        if not (isinstance(left, int) and isinstance(right, int)) or (
            isinstance(left, bool) or isinstance(right, bool)
        ):
            return _mismatch(symbol, left, right)
        return wrap(operation(left, right))

    return combine


def minus(value: Value) -> Value:
    """``-value``: numbers and relative times; booleans are an error."""
    if is_number(value):
        return wrap(-value) if isinstance(value, int) else -value
    if isinstance(value, timedelta):
        # The longest time has no negative counterpart.
        return -value if value <= -timedelta.min else ErrorType("time out of range")
    return value if is_exceptional(value) else ErrorType(f"-{type_name(value)} has no meaning")


def plus(value: Value) -> Value:
    """``+value``: the same value if ``-value`` has one."""
    if is_number(value) or isinstance(value, timedelta) or is_exceptional(value):
        return value
    return ErrorType(f"+{type_name(value)} has no meaning")


def invert(value: Value) -> Value:
    """``~value``: the bits of an integer turned over."""
    if is_integer(value):
        return ~value
    return value if is_exceptional(value) else ErrorType(f"~{type_name(value)} has no meaning")


def subscript(base: Value, index: Value) -> Value:
    """``base[index]`` of a list; an ad's ``ad["name"]`` needs evaluation and is done there.

    >>> subscript([1, 2], 1), subscript([1, 2], -1)
    (2, ERROR(index -1 is outside a list of 2))
    """
    if is_exceptional(base) or is_exceptional(index):
        return _exceptional(base, index)
    if not isinstance(base, list):
        return ErrorType(f"{type_name(base)} has no elements")
    if not is_integer(index):
        return ErrorType(f"a list is indexed by integer, not by {type_name(index)}")
    if not 0 <= index < len(base):
        return ErrorType(f"index {index} is outside a list of {len(base)}")
    item: Value = base[index]
    return item


BINARY: Final[Mapping[str, Callable[[Value, Value], Value]]] = {
    "&&": logical_and,
    "||": logical_or,
    "?:": elvis,
    "is": identical,
    "isnt": lambda a, b: logical_not(identical(a, b)),
    "==": _comparison("==", operator.eq),
    "!=": _comparison("!=", operator.ne),
    "<": _comparison("<", operator.lt),
    "<=": _comparison("<=", operator.le),
    ">": _comparison(">", operator.gt),
    ">=": _comparison(">=", operator.ge),
    "+": _arithmetic("+", lambda a, b: wrap(a + b), lambda a, b: a + b, _add_times),
    "-": _arithmetic("-", lambda a, b: wrap(a - b), lambda a, b: a - b, _subtract_times),
    "*": _arithmetic("*", lambda a, b: wrap(a * b), lambda a, b: a * b, _scale_time),
    "/": _arithmetic("/", _divide_integers, _divide_reals, _shrink_time),
    "%": _arithmetic(
        "%", _remainder, lambda a, b: ErrorType("% takes integers"), lambda a, b: None
    ),
    "&": _bitwise("&", operator.and_),
    "|": _bitwise("|", operator.or_),
    "^": _bitwise("^", operator.xor),
    "<<": _bitwise("<<", lambda a, b: a << (b & 63)),
    ">>": _bitwise(">>", lambda a, b: a >> (b & 63)),
    ">>>": _bitwise(">>>", lambda a, b: (a & (2**64 - 1)) >> (b & 63)),
}

UNARY: Final[Mapping[str, Callable[[Value], Value]]] = {
    "-": minus,
    "+": plus,
    "!": logical_not,
    "~": invert,
}
