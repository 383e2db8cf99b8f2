"""Functions on times: now, the parts of a time, and conversion. Times as text are in ``times``.

Parts of an absolute time are those on a local clock, except in splitTime and formatTime, which
keep the time's own offset. (HTCondor manual.)
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Any, Final

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.functions import NUMBER, Trait, function, wrong
from matchmaker.classad.functions.conversions import (
    EPOCH,
    _relative_text,
    saturated,
    to_integer,
    whole_seconds,
)
from matchmaker.classad.nodes import Attr, Expr
from matchmaker.classad.state import Budget, CallScope
from matchmaker.classad.values import (
    UNDEFINED,
    ErrorType,
    Value,
    is_error,
    is_number,
    parse_absolute,
    parse_relative,
    type_name,
)

_OUT_OF_RANGE: Final = ErrorType("time out of range")

_PARTS: Final = 20
"""The steps of taking a time apart into an ad, or of writing one."""

_PARTS_OF_AD: Final = (
    ("Year", 1900), ("Month", 1), ("Day", 0), ("Hours", 0), ("Minutes", 0), ("Seconds", 0)
)  # fmt: skip
_LONGEST_TIME: Final = 1 << 16


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0).astimezone()


@function("time", 0, traits={Trait.VOLATILE}, result=NUMBER)
def time() -> Value:
    """time(): the seconds since 1970 as an integer (HTCondor manual).

    >>> time() > 1_700_000_000
    True
    """
    return int(clock.time())


@function("currentTime", 0, traits={Trait.VOLATILE})
def current_time() -> Value:
    """currentTime(): the present as an absolute time with the local offset (HTCondor manual).

    >>> isinstance(current_time(), datetime)
    True
    """
    return _now()


@function("timeZoneOffset", 0, traits={Trait.LOCAL})
def time_zone_offset() -> Value:
    """timeZoneOffset(): how far local clocks are ahead of UTC, as a relative time.

    (HTCondor manual.)

    >>> isinstance(time_zone_offset(), timedelta)
    True
    """
    return _now().utcoffset() or timedelta()


@function("dayTime", 0, traits={Trait.VOLATILE})
def day_time() -> Value:
    """dayTime(): the time since midnight on a local clock, as a relative time (HTCondor manual).

    >>> timedelta() <= day_time() < timedelta(days=1)
    True
    """
    now = _now()
    return timedelta(hours=now.hour, minutes=now.minute, seconds=now.second)


def _part(
    name: str,
    what: str,
    example: int,
    absolute: Callable[[datetime], int] | None,
    relative: Callable[[int], int] | None = None,
) -> Callable[[Value], Value]:
    """Enters a function that gives one part of a time.

    The example is the part of 09:30:10 on Thursday 15 January 2004, or of as many days and hours.
    """
    kinds = [kind for kind, of in (("an absolute", absolute), ("a relative", relative)) if of]
    wanted = f"{' or '.join(kinds)} time"

    @function(name, 1, traits={Trait.ZONE})
    def part(value: Value) -> Value:
        if isinstance(value, datetime) and absolute is not None:
            try:
                return absolute(value.astimezone())
            except (OverflowError, ValueError, OSError):
                return _OUT_OF_RANGE
        if isinstance(value, timedelta) and relative is not None:
            seconds = whole_seconds(value)
            return relative(abs(seconds)) * (-1 if seconds < 0 else 1)
        return wrong(name, wanted, value)

    shown = 'absTime("2004-01-15T09:30:10")' if absolute else 'relTime("15d 9h 30m 10s")'
    part.__doc__ = f"""{name}(t): {what}, of {wanted}, as an integer.

    Of an absolute time it is that on a local clock. Anything else, undefined too, is an error.
    (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> parse_expr('{name}({shown})').eval()
    {example}
    """
    return part


get_year = _part("getYear", "the year", 2004, lambda t: t.year)
get_month = _part("getMonth", "the month, from 1", 1, lambda t: t.month)
get_day_of_year = _part(
    "getDayOfYear", "the day of the year, from 0", 14, lambda t: t.timetuple().tm_yday - 1
)
get_day_of_month = _part("getDayOfMonth", "the day of the month, from 1", 15, lambda t: t.day)
get_day_of_week = _part(
    "getDayOfWeek", "the day of the week, Sunday is 0", 4, lambda t: t.isoweekday() % 7
)
get_days = _part("getDays", "the whole days", 15, None, lambda s: s // 86400)
get_hours = _part("getHours", "the hours", 9, lambda t: t.hour, lambda s: s % 86400 // 3600)
get_minutes = _part("getMinutes", "the minutes", 30, lambda t: t.minute, lambda s: s % 3600 // 60)
get_seconds = _part("getSeconds", "the seconds", 10, lambda t: t.second, lambda s: s % 60)


def _at(seconds: int, offset: int | None = None) -> datetime | None:
    """The absolute time of a count of seconds since 1970, by default with the local offset."""
    try:
        moment = EPOCH + timedelta(seconds=seconds)
        if offset is None:
            return moment.astimezone()
        return moment.astimezone(timezone(timedelta(seconds=offset)))
    except (OverflowError, ValueError, OSError):
        return None


def _as_absolute(value: Value) -> datetime | None:
    """A time or a count of seconds since 1970 as an absolute time."""
    if isinstance(value, datetime):
        return value
    if is_number(value):
        return _at(value if isinstance(value, int) else saturated(value))
    return None


@function("splitTime", 1, budgeted=True, traits={Trait.ZONE})
def split_time(value: Value, *, budget: Budget | None = None) -> Value:
    """splitTime(t): the parts of a time as an ad, of Type AbsoluteTime or RelativeTime.

    A number counts as seconds since 1970. Undefined stays; anything else is an error. (HTCondor
    manual.)

    >>> print(split_time(timedelta(days=1, seconds=2)))
    [ Type = "RelativeTime"; Days = 1; Hours = 0; Minutes = 0; Seconds = 2.0 ]
    """
    if value is UNDEFINED:
        return UNDEFINED
    if budget is not None:
        budget.spend(_PARTS)
    if isinstance(value, timedelta):
        return _split_relative(value)
    moment = _as_absolute(value)
    if moment is None:
        return _no_time("splitTime", value)
    return ClassAd(
        Type="AbsoluteTime",
        Year=moment.year,
        Month=moment.month,
        Day=moment.day,
        Hours=moment.hour,
        Minutes=moment.minute,
        Seconds=moment.second,
        Offset=int((moment.utcoffset() or timedelta()).total_seconds()),
    )


def _no_time(name: str, value: Value) -> Value:
    if is_number(value):
        return _OUT_OF_RANGE
    return wrong(name, "a time or a number", value)


def _split_relative(span: timedelta) -> Value:
    seconds = abs(span).seconds
    parts: dict[str, int | float] = {
        "Days": abs(span).days,
        "Hours": seconds // 3600,
        "Minutes": seconds % 3600 // 60,
        "Seconds": seconds % 60 + abs(span).microseconds / 1e6,
    }
    if span < timedelta():
        # Only the first part that is not 0 carries the sign.
        first = next((name for name in parts if parts[name]), "Seconds")
        parts[first] = -parts[first]
    return ClassAd({"Type": "RelativeTime"} | parts)


@function("formatTime", 0, 2, traits={Trait.NOW, Trait.ZONE}, lazy=True)
def format_time(arguments: tuple[Expr, ...], scope: CallScope) -> Value:
    """formatTime([t[, format]]): a time as text, by strftime's format, by default "%c".

    t is an absolute time, a number of seconds since 1970, or an ad such as splitTime gives; by
    default now. The clock is the time's own, the zone always UTC. Anything else, undefined too, is
    an error. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> parse_expr('formatTime(absTime("2004-01-15T10:00:00Z"), "%Y-%m-%d %H h")').eval()
    '2004-01-15 10 h'
    """
    scope.spend(_PARTS)
    value = scope.eval(arguments[0]) if arguments else _now()
    template = scope.eval(arguments[1]) if len(arguments) > 1 else "%c"
    moment = _as_absolute(value)
    parts = _parts_of(value, scope) if isinstance(value, ClassAd) else []
    if moment is None and not parts:
        return _no_time("formatTime", value)
    if not isinstance(template, str):
        return wrong("formatTime", "a format as a string", template)
    if len(template) > LIMITS.time_format:
        return ErrorType(f"formatTime() takes a format of at most {LIMITS.time_format} characters")
    try:
        if moment is None:
            return _by_c(template, *parts)
        return clock.strftime(template, (*moment.timetuple()[:8], 0))
    except (ValueError, OverflowError):
        return ErrorType("formatTime() cannot write such a time")


def _parts_of(ad: ClassAd, scope: CallScope) -> list[int]:
    """The parts that an ad gives, as integers of C; day 0 of January 1900 for missing ones."""
    inside = scope.within(ad)

    def part(name: str, missing: int) -> int:
        value = inside.eval(Attr(None, name, False)) if name in ad else None
        if not isinstance(value, int) or isinstance(value, bool):
            return missing
        return _int32(value)

    return [part(*each) for each in _PARTS_OF_AD]


def _day_number(year: int, month: int, day: int) -> int:
    """The number of a day of the Gregorian calendar, as C divides; months and days may be any."""
    leap = year % 4 == 0 and year - 400 * _quotient(year, 400) not in (100, 200, 300)
    before = _int32(year - 1)
    shortened = 0 if month <= 2 else 1 if leap else 2
    return _int32(
        365 * before + _quotient(before, 4) - _quotient(before, 100) + _quotient(before, 400)
        + _quotient(_int32(367 * month - 362), 12) - shortened + day
    )  # fmt: skip


def _quotient(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


def _int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _by_c(  # noqa: PLR0917 - the parts in their order
    template: str, year: int, month: int, day: int, hours: int, minutes: int, seconds: int
) -> str:
    """Parts of a time by the C library's strftime, because Python's refuses a month 13.

    The library writes the number of such a month, and ``?`` for its name.
    """
    import ctypes

    number = _day_number(year, month, day)
    weekday = number - 7 * _quotient(number, 7)
    year_day = _int32(number - _day_number(year, 1, 1))
    strftime, moment_of = _strftime()
    text = ctypes.create_string_buffer(_LONGEST_TIME)
    moment = moment_of(
        seconds, minutes, hours, day, month - 1, year - 1900, weekday, year_day, 0, 0, b"UTC"
    )
    size = strftime(text, len(text), template.encode(), ctypes.byref(moment))
    return text.raw[:size].decode()


@cache
def _strftime() -> tuple[Any, Any]:
    """The function of the C library, and the structure that it takes."""
    import ctypes

    names = ("sec", "min", "hour", "mday", "mon", "year", "wday", "yday", "isdst")
    numbers: list[tuple[str, Any]] = [(name, ctypes.c_int) for name in names]
    fields = [*numbers, ("gmtoff", ctypes.c_long), ("zone", ctypes.c_char_p)]
    return ctypes.CDLL(None).strftime, type("tm", (ctypes.Structure,), {"_fields_": fields})


@function("absTime", 0, 2, traits={Trait.NOW, Trait.ZONE})
def abs_time(*values: Value) -> Value:
    """absTime([x[, offset]]): x as an absolute time; without x, now.

    x is a string such as "2004-01-01T00:00:00+00:00", a number of seconds since 1970, or a time;
    the offset from UTC is a number of seconds or a relative time, by default the local one, and is
    ignored if x is a string or a time. Numbers lose their fractions. Undefined stays as x;
    anything else is an error. (HTCondor manual.)

    >>> abs_time(0, 3600).isoformat()
    '1970-01-01T01:00:00+01:00'
    """
    if not values:
        return _now()
    value, *more = values
    offset = to_integer(more[0]) if more and _is_span(more[0]) else None
    if more and offset is None:
        if is_error(more[0]):
            return more[0]
        return ErrorType(f"absTime() takes an offset in seconds, not {type_name(more[0])}")
    if value is UNDEFINED:
        return UNDEFINED
    if isinstance(value, str):
        read = parse_absolute(value)
        return read or ErrorType(f"absTime() cannot read {value[:40]!r}")
    if isinstance(value, datetime):
        return value
    if not _is_span(value):
        return wrong("absTime", "a string, a number or a time", value)
    return _at(to_integer(value) or 0, offset) or _OUT_OF_RANGE


def _is_span(value: Value) -> bool:
    return is_number(value) or isinstance(value, timedelta)


@function("relTime", 1)
def rel_time(value: Value) -> Value:
    """relTime(x): x as a relative time.

    x is a string such as "1+02:03:04" or "1d 2h", a number of seconds, a relative time, or an
    absolute one, taken since 1970. Undefined stays; anything else is an error. (HTCondor manual.)

    >>> rel_time("1+00:00:10"), rel_time(1.5)
    (datetime.timedelta(days=1, seconds=10), datetime.timedelta(seconds=1, microseconds=500000))
    """
    if value is UNDEFINED or isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        read = parse_relative(value)
        return read if read is not None else ErrorType(f"relTime() cannot read {value[:40]!r}")
    if isinstance(value, datetime):
        return value - EPOCH
    if not is_number(value):
        return wrong("relTime", "a string, a number or a time", value)
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        return _OUT_OF_RANGE


@function("interval", 1)
def interval(value: Value) -> Value:
    """interval(seconds): a number of seconds as "d+hh:mm:ss", without leading parts that are 0.

    Read as int() reads it; undefined is an error. (HTCondor manual.)

    >>> interval(100), interval(-3700), interval(93784)
    ('1:40', '-1:01:40', '1+02:03:04')
    """
    seconds = to_integer(value)
    if seconds is None:
        return wrong("interval", "a number of seconds", value)
    text = _relative_text(abs(seconds))
    # Unlike string() of a time, without a zero before the first part.
    return ("-" if seconds < 0 else "") + (text[1:] if text[0] == "0" else text)
