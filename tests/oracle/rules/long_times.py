"""HTCondor's times without bounds: of any length and with any offset, where ours end."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from matchmaker import ClassAd, Expr
from matchmaker.classad.functions import FUNCTIONS, conversions
from matchmaker.classad.operators import BINARY
from matchmaker.classad.values import ERROR, UNDEFINED, is_error
from tests.oracle.emulation import ANYTHING, NoValueError, Rules, Wrapper
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


def _is_long(value: Any) -> bool:
    """Whether a time is beyond the bounds of ours."""
    if not isinstance(value, Unbounded) or value.offset is None:
        return isinstance(value, Unbounded)
    try:
        utc = conversions.EPOCH + timedelta(seconds=value.seconds)
        utc.astimezone(timezone(timedelta(seconds=value.offset)))
    except (OverflowError, ValueError):
        return True
    return False


def _combined(symbol: str) -> Wrapper:
    def wrapper(inner: Wrapper, left: Any, right: Any) -> Any:
        if not (isinstance(left, Unbounded) or isinstance(right, Unbounded)):
            calculated = _calculated(symbol, left, right)
            return calculated if _is_long(calculated) else inner(left, right)
        if is_error(left) or is_error(right):
            return ERROR
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
    made = Unbounded(seconds, offset) if offset is not None and seconds is not None else None
    return made if _is_long(made) else value


def _seconds_of(value: Any) -> int | None:
    known = is_integer(value) or is_real(value) or isinstance(value, timedelta)
    return conversions.to_integer(value) if known else None


def _relative(inner: Wrapper, value: Any) -> Any:
    if isinstance(value, Unbounded):
        return value if value.offset is None else _made(value.seconds, None)
    return inner(value) if _is_span(value) else Unbounded(value)


def _is_span(value: Any) -> bool:
    """Whether a number is none, or within the bounds of relative times."""
    return not is_real(value) or abs(value) < 86400e9


def _is_date(value: Any) -> bool:
    """Whether a number is none, or the seconds of a time within our calendar."""
    seconds = _seconds_of(value) if is_integer(value) or is_real(value) else None
    return seconds is None or not _is_long(Unbounded(seconds, 0))


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
    if _is_date(value):
        return inner(value)
    return ClassAd({"Type": "AbsoluteTime", "Offset": 0} | _civil(int(_seconds_of(value) or 0)))


_LAST: Final = 2**31 * 365 * 86400
"""About the last second of the years that C has numbers for; beyond them its parts are chance."""


def _civil(seconds: int) -> dict[str, int]:
    """The parts of a count of seconds since 1970, by the calendar of today in all years."""
    if abs(seconds) > _LAST:
        raise NoValueError(ANYTHING)
    days, second = divmod(seconds, 86400)
    # 400 years are always as many days.
    cycles, days = divmod(days, 146097)
    day = conversions.EPOCH + timedelta(days=days)
    return {
        "Year": day.year + 400 * cycles, "Month": day.month, "Day": day.day,
        "Hours": second // 3600, "Minutes": second % 3600 // 60, "Seconds": second % 60,
    }  # fmt: skip


def _format(inner: Wrapper, arguments: tuple[Expr, ...], scope: Any) -> Any:
    value, form = _format_given(arguments, scope)
    if isinstance(form, str) and isinstance(value, Unbounded) and value.offset is not None:
        return formatted(_civil(int(value.seconds) + value.offset), form)
    if isinstance(form, str) and not _is_date(value):
        return formatted(_civil(int(_seconds_of(value) or 0)), form)
    return inner(arguments, scope)


def _format_given(arguments: tuple[Expr, ...], scope: Any) -> tuple[Any, Any]:
    form = scope.eval(arguments[1]) if len(arguments) > 1 else "%c"
    return scope.eval(arguments[0]) if arguments else None, form


_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=", "is", "isnt")
_WHOLE: Final = {name for name in FUNCTIONS if name.startswith("version")} | {
    "tolower", "toupper", "strcat", "join", "string", "stricmp", "strcmp",
    "member", "identicalmember", "anycompare", "allcompare",
}  # fmt: skip
"""Functions that take times as they are: as text, or to compare them."""
_STRICT: Final = [name for name, function in FUNCTIONS.items() if not function.lazy]
_TO_TEXT: Final = [
    f"matchmaker.classad.functions.{module}:to_text"
    for module in ("conversions", "strings", "control")
]

LONG: Final = Rules(
    operators={symbol: _combined(symbol) for symbol in ("+", "-", "*", "/")}
    | {symbol: _compared(symbol) for symbol in _COMPARISONS},
    unary={"-": _signed(-1), "+": _signed(1)},
    functions=dict.fromkeys(set(_STRICT) - _WHOLE, _of_bounded)
    | {"abstime": _absolute, "reltime": _relative, "splittime": _split, "formattime": _format},
    places=dict.fromkeys(_TO_TEXT, _text),
)

# --- what we do: what is unbounded is an error ----------------------------------------------------


def _within_bounds(symbol: str) -> Wrapper:
    def wrapper(inner: Wrapper, left: Any, right: Any) -> Any:
        wrong = is_error(left) or is_error(right) or _is_long(_calculated(symbol, left, right))
        return ERROR if wrong else inner(left, right)

    return wrapper


def _unlike_errors(symbol: str) -> Wrapper:
    def wrapper(inner: Wrapper, left: Any, right: Any) -> Any:
        if not (is_error(left) or is_error(right)):
            return inner(left, right)
        if symbol not in ("is", "isnt"):
            return ERROR
        return (is_error(left) and is_error(right)) == (symbol == "is")

    return wrapper


def _bounded_time(inner: Wrapper, *values: Any) -> Any:
    parts = [None if is_error(value) else _seconds_of(value) for value in values]
    seconds, offset = [*parts, 0, 0][:2]
    long = seconds is not None and offset is not None and _is_long(Unbounded(seconds, offset))
    return ERROR if long or any(map(is_error, values)) else inner(*values)


def _bounded_span(inner: Wrapper, value: Any) -> Any:
    return ERROR if is_error(value) or not _is_span(value) else inner(value)


def _bounded_date(inner: Wrapper, value: Any) -> Any:
    return ERROR if is_error(value) or not _is_date(value) else inner(value)


def _bounded_format(inner: Wrapper, arguments: tuple[Expr, ...], scope: Any) -> Any:
    value, form = _format_given(arguments, scope)
    wrong = isinstance(form, str) and (is_error(value) or not _is_date(value))
    return ERROR if wrong else inner(arguments, scope)


def _error_stays(inner: Wrapper, value: Any, *more: Any) -> Any:
    return value if is_error(value) else inner(value, *more)


OUR_LONG: Final = Rules(
    operators={symbol: _within_bounds(symbol) for symbol in ("+", "-", "*", "/")}
    | {symbol: _unlike_errors(symbol) for symbol in _COMPARISONS},
    unary={"-": _error_stays, "+": _error_stays},
    functions={
        "abstime": _bounded_time, "reltime": _bounded_span, "splittime": _bounded_date,
        "formattime": _bounded_format,
    },
    places=dict.fromkeys(_TO_TEXT, _error_stays),
)  # fmt: skip
