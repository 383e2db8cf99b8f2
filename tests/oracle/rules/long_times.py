"""HTCondor's times without bounds: of any length and with any offset, where ours end."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any, Final

from matchmaker import ClassAd, Expr
from matchmaker.classad.functions import FUNCTIONS, conversions
from matchmaker.classad.operators import BINARY
from matchmaker.classad.values import ERROR, UNDEFINED, is_error
from tests.oracle.emulation import Rules, Wrapper
from tests.oracle.rules.numbers import cast, is_integer, is_real, parts_of_least
from tests.oracle.rules.times import formatted
from tests.oracle.rules.unbounded import Unbounded


def _parts(value: Any) -> tuple[float, int | None] | None:
    """The seconds of a time, and the offset of an absolute one."""
    if isinstance(value, Unbounded):
        return value.seconds, value.offset
    if isinstance(value, timedelta):
        return value / timedelta(seconds=1), None
    if isinstance(value, datetime):
        offset = value.utcoffset() or timedelta()
        return (value - conversions.EPOCH) / timedelta(seconds=1), int(offset.total_seconds())
    return None


def _made(seconds: float, offset: int | None) -> Any:
    """A time, as one of ours where it can be one."""
    if offset is not None:
        return Unbounded(seconds, offset)
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return Unbounded(seconds)


def _combined(symbol: str) -> Wrapper:
    def wrapper(inner: Wrapper, left: Any, right: Any) -> Any:
        value = inner(left, right)
        odd = isinstance(left, Unbounded) or isinstance(right, Unbounded)
        if not (odd or is_error(value)) or is_error(left) or is_error(right):
            return value
        if left is UNDEFINED or right is UNDEFINED:
            return UNDEFINED
        calculated = _calculated(symbol, left, right)
        return ERROR if calculated is None else calculated

    return wrapper


def _calculated(symbol: str, left: Any, right: Any) -> Any:
    one, other = _parts(left), _parts(right)
    if symbol in "*/":
        return _scaled(symbol, left, right)
    if one is None or other is None:
        return None
    (seconds, offset), (more, other_offset) = one, other
    sign = 1 if symbol == "+" else -1
    if offset is not None and other_offset is not None:
        return _made(seconds - more, None) if symbol == "-" else None
    if offset is None and other_offset is not None:
        return _made(cast(seconds) + more, other_offset) if symbol == "+" else None
    return _made(seconds + sign * (more if offset is None else cast(more)), offset)


def _scaled(symbol: str, left: Any, right: Any) -> Any:
    if symbol == "*" and (is_integer(left) or is_real(left)):
        left, right = right, left
    time = _parts(left)
    if time is None or time[1] is not None or not (is_integer(right) or is_real(right)):
        return None
    factor = float(right)
    if symbol == "*":
        return _made(time[0] * factor, None)
    if factor:
        return _made(time[0] / factor, None)
    if not time[0] or math.isnan(time[0]):
        return _made(math.nan, None)
    return _made(math.copysign(math.inf, time[0]) * math.copysign(1, factor), None)


def _compared(symbol: str) -> Wrapper:
    relation = BINARY["==" if symbol == "is" else "!=" if symbol == "isnt" else symbol]

    def wrapper(inner: Wrapper, left: Any, right: Any) -> Any:
        if not (isinstance(left, Unbounded) or isinstance(right, Unbounded)):
            return inner(left, right)
        one, other = _parts(left), _parts(right)
        if one is None or other is None or (one[1] is None) != (other[1] is None):
            # Of two kinds: as one that is bounded compares.
            stand_in = [timedelta() if isinstance(side, Unbounded) and side.offset is None
                        else conversions.EPOCH if isinstance(side, Unbounded) else side
                        for side in (left, right)]  # fmt: skip
            return inner(*stand_in)
        if symbol in ("is", "isnt") and one[1] != other[1]:
            return symbol == "isnt"
        return relation(one[0], other[0])

    return wrapper


def _absolute(inner: Wrapper, *values: Any) -> Any:
    if len(values) == 2 and isinstance(values[1], Unbounded) and values[1].offset is None:
        values = (values[0], -(2**31))
    if values and isinstance(values[0], Unbounded):
        if values[0].offset is not None:
            return values[0] if _seconds_of(values[-1]) is not None or len(values) == 1 else ERROR
        values = (_bounded(values[0]), *values[1:])
    value = inner(*values)
    if isinstance(value, datetime) or not values or isinstance(values[0], str):
        return value
    offset = _seconds_of(values[1]) if len(values) == 2 else 0
    seconds = _seconds_of(values[0])
    return value if offset is None or seconds is None else Unbounded(seconds, offset)


def _seconds_of(value: Any) -> int | None:
    known = is_integer(value) or is_real(value) or isinstance(value, timedelta)
    return conversions.to_integer(value) if known else None


def _relative(inner: Wrapper, value: Any) -> Any:
    if isinstance(value, Unbounded):
        return value if value.offset is None else _made(value.seconds, None)
    return Unbounded(value) if is_real(value) and is_error(inner(value)) else inner(value)


def _text(inner: Wrapper, value: Any, budget: object = None) -> Any:
    if not isinstance(value, Unbounded):
        return inner(value)
    return inner(_bounded(value)) if value.offset is None else value.text()


def _bounded(value: Any) -> Any:
    """What functions take for a time: of a relative one only 32 bits count, which are the least."""
    if isinstance(value, list):
        items = list(value)
        odd = any(isinstance(item, Unbounded) for item in items)
        return list(map(_bounded, items)) if odd else value
    if not isinstance(value, Unbounded):
        return value
    if value.offset is None:
        return timedelta(seconds=-(2**31))
    return conversions.EPOCH + timedelta(seconds=value.seconds)


def _of_bounded(inner: Wrapper, *values: Any, **more: Any) -> Any:
    return inner(*map(_bounded, values), **more)


def _signed(sign: int) -> Wrapper:
    def wrapper(inner: Wrapper, value: Any) -> Any:
        if not isinstance(value, Unbounded):
            return inner(value)
        return _made(sign * value.seconds, None) if value.offset is None else ERROR

    return wrapper


def _split(inner: Wrapper, value: Any) -> Any:
    """The parts of a time in a year that Python does not know, or of one that is none of ours."""
    if isinstance(value, Unbounded):
        if value.offset is None:
            return parts_of_least(value.seconds)
        parts = _civil(int(value.seconds) + value.offset)
        return ClassAd({"Type": "AbsoluteTime", "Offset": value.offset} | parts)
    given = inner(value)
    if is_error(given) and (is_integer(value) or is_real(value)):
        return ClassAd({"Type": "AbsoluteTime", "Offset": 0} | _civil(int(_seconds_of(value) or 0)))
    return given


def _civil(seconds: int) -> dict[str, int]:
    """The parts of a count of seconds since 1970, by the calendar of today in all years."""
    days, second = divmod(seconds, 86400)
    # 400 years are always as many days.
    cycles, days = divmod(days, 146097)
    day = conversions.EPOCH + timedelta(days=days)
    return {
        "Year": day.year + 400 * cycles, "Month": day.month, "Day": day.day,
        "Hours": second // 3600, "Minutes": second % 3600 // 60, "Seconds": second % 60,
    }  # fmt: skip


def _format(inner: Wrapper, arguments: tuple[Expr, ...], scope: Any) -> Any:
    given = inner(arguments, scope)
    value = scope.eval(arguments[0]) if arguments else None
    form = scope.eval(arguments[1]) if len(arguments) > 1 else "%c"
    if not is_error(given) or not isinstance(form, str):
        return given
    if isinstance(value, Unbounded) and value.offset is not None:
        return formatted(_civil(int(value.seconds) + value.offset), form)
    if is_integer(value) or is_real(value):
        return formatted(_civil(int(_seconds_of(value) or 0)), form)
    return given


_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=", "is", "isnt")
_WHOLE: Final = {
    "strcat", "join", "string", "member", "identicalmember", "anycompare", "allcompare",
}  # fmt: skip
"""Functions that take times as they are: as text, or to compare them."""
_STRICT: Final = [name for name, function in FUNCTIONS.items() if not function.lazy]

LONG: Final = Rules(
    operators={symbol: _combined(symbol) for symbol in ("+", "-", "*", "/")}
    | {symbol: _compared(symbol) for symbol in _COMPARISONS},
    unary={"-": _signed(-1), "+": _signed(1)},
    functions=dict.fromkeys(set(_STRICT) - _WHOLE, _of_bounded)
    | {"abstime": _absolute, "reltime": _relative, "splittime": _split, "formattime": _format},
    places={
        f"matchmaker.classad.functions.{module}:to_text": _text
        for module in ("conversions", "strings", "versions", "control")
    },
)

# --- what we do: what is unbounded is an error ----------------------------------------------------


def _within_bounds(symbol: str) -> Wrapper:
    def wrapper(inner: Wrapper, left: Any, right: Any) -> Any:
        if _parts(left) is None and _parts(right) is None:
            return inner(left, right)
        calculated = _calculated(symbol, left, right)
        long = isinstance(calculated, Unbounded) and calculated.offset is None
        return ERROR if long else inner(left, right)

    return wrapper


def _bounded_offset(inner: Wrapper, *values: Any) -> Any:
    offset = _seconds_of(values[1]) if len(values) == 2 else None
    return ERROR if offset is not None and abs(offset) >= 86400 else inner(*values)


def _bounded_span(inner: Wrapper, value: Any) -> Any:
    return ERROR if is_real(value) and not abs(value) < 86400e9 else inner(value)


OUR_LONG: Final = Rules(
    operators={symbol: _within_bounds(symbol) for symbol in ("+", "-", "*", "/")},
    functions={"abstime": _bounded_offset, "reltime": _bounded_span},
)
