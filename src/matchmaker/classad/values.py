"""The values of expressions: Python's own, UNDEFINED and ERROR; and times as text.

Operators on values are in ``operators``.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard, TypeVar

import attrs

_T = TypeVar("_T")

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1


@attrs.frozen(slots=True, eq=False, repr=False)
class UndefinedType:
    """The type of UNDEFINED, the value of an attribute that is not there.

    >>> UNDEFINED
    UNDEFINED
    >>> bool(UNDEFINED)
    Traceback (most recent call last):
    ...
    TypeError: UNDEFINED is neither true nor false; compare it with `is`
    """

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> NoReturn:
        raise TypeError("UNDEFINED is neither true nor false; compare it with `is`")

    def __reduce__(self) -> str:
        return "UNDEFINED"


@attrs.frozen(slots=True, eq=False, repr=False)
class ErrorType:
    """The type of ERROR, the value of an expression that cannot be computed.

    All errors are equal, whatever their reason; test for one with ``is_error(value)``.

    >>> ErrorType("integer division by zero") == ERROR
    True
    >>> ErrorType("integer division by zero")
    ERROR(integer division by zero)
    """

    reason: str = ""

    def __repr__(self) -> str:
        return f"ERROR({self.reason})" if self.reason else "ERROR"

    def __bool__(self) -> NoReturn:
        raise TypeError("ERROR is neither true nor false; test it with is_error(value)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ErrorType)

    def __hash__(self) -> int:
        return hash(ErrorType)


class Ad(MutableMapping[str, _T]):
    """The type of an ad among the values. ``ClassAd`` is the only kind."""

    __slots__ = ()


UNDEFINED: Final = UndefinedType()
ERROR: Final = ErrorType()

Value: TypeAlias = (
    bool
    | int
    | float
    | str
    | list[Any]
    | Ad[Any]
    | datetime
    | timedelta
    | UndefinedType
    | ErrorType
)


def is_error(value: object) -> TypeGuard[ErrorType]:
    """Whether a value is ERROR, whatever its reason."""
    return isinstance(value, ErrorType)


def is_exceptional(value: object) -> TypeGuard[UndefinedType | ErrorType]:
    """Whether a value is UNDEFINED or ERROR."""
    return value is UNDEFINED or isinstance(value, ErrorType)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is an integer or a real, and no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, and no boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def wrap(number: int) -> int:
    """Brings an integer into 64 bits as two's complement does (C++ ClassAds, long long).

    >>> wrap(2**63)
    -9223372036854775808
    """
    if MIN_INT <= number <= MAX_INT:
        return number
    return (number + 2**63) % 2**64 - 2**63


def type_name(value: Value) -> str:
    """The field's name of a value's type, for messages.

    >>> type_name("x"), type_name(1.5), type_name(UNDEFINED)
    ('string', 'real', 'undefined')
    """
    for python, name in _TYPE_NAMES.items():
        if isinstance(value, python):
            return name
    return "classad"


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "real",
    str: "string",
    list: "list",
    datetime: "absolute time",
    timedelta: "relative time",
    UndefinedType: "undefined",
    ErrorType: "error",
}


_SPACE: Final = " \t\n\r\v\f"
_TWO: Final = r"\D*+(\d\d)"
_ABSOLUTE: Final = re.compile(
    rf"\D*+(\d{{4}}){_TWO}{_TWO}(?:{_TWO})?+(?:{_TWO})?+(?:{_TWO}(?:\.(\d{{1,6}}+)\d*+)?)?+\D*+",
    re.ASCII,
)
_ZONE: Final = re.compile(r"([+-])(\d\d):?(\d\d)()\Z", re.ASCII)
_LONG_ZONE: Final = re.compile(r"([+-])(\d\d):(\d\d):(\d\d)\Z", re.ASCII)

# A relative time is read from its end, where one colon means minutes and the next one hours.
_RELATIVE: Final = re.compile(
    r"\s*+(?:s\s*+(\d*+(?:\.\d*+)?+)|(\d++(?:\.\d*+)?+))?+\s*+(?:[m:]\s*+(\d*+))?+\s*+"
    r"(?:[h:]\s*+(\d*+))?+\s*+(?:[d+]\s*+(\d*+))?+\s*+(-)?+\s*+",
    re.IGNORECASE | re.ASCII,
)


def parse_absolute(text: str) -> datetime | None:
    """Reads ``2004-01-01T00:00:00+00:00``, or None.

    Anything but digits may separate the fields. The parts of the time may be missing from the
    right, and the offset; without an offset the time is local. Numbers too large carry over, as C's
    mktime does.

    >>> parse_absolute("2004/02/30 at 12h00 Z").isoformat()
    '2004-03-01T12:00:00+00:00'
    """
    plain = text.rstrip(_SPACE)
    if plain[-1:] in ("z", "Z"):
        return _absolute(plain[:-1], timedelta())
    # An offset with seconds could as well be a time, behind what is no whole one.
    zone = _ZONE.search(text) or (not _ABSOLUTE.fullmatch(text) and _LONG_ZONE.search(text))
    if not zone:
        return _absolute(text, None)
    hours, minutes, seconds = (int(digits or 0) for digits in zone.groups()[1:])
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return _absolute(text[: zone.start()], -offset if zone[1] == "-" else offset)


def _absolute(text: str, offset: timedelta | None) -> datetime | None:
    """The time of a text without its offset from UTC, by default the local one."""
    match = _ABSOLUTE.fullmatch(text)
    if match is None:
        return None
    *fields, fraction = match.groups("0")
    year, month, day, hour, minute, second = map(int, fields)
    years, month = divmod(month - 1, 12)
    try:
        time = datetime(year + years, month + 1, 1) + timedelta(  # noqa: DTZ001 - see below
            day - 1, second, int(fraction.ljust(6, "0")), minutes=minute, hours=hour
        )
        if offset is not None:
            return time.replace(tzinfo=timezone(offset))
        # For the offset Python looks a day back, which the first of all days does not have.
        later = timedelta(days=2 * (time.year == 1))
        return (time + later).astimezone() - later
    except (ValueError, OverflowError, OSError):
        return None


def parse_relative(text: str) -> timedelta | None:
    """Reads ``1+02:03:04.5``, ``03:04``, ``90`` or ``1d 2h 3m 4s``, each with or without a minus.

    Any part may be missing, but there is a digit.

    >>> parse_relative("-1+00:00:10") == -parse_relative("1d 10s")
    True
    >>> parse_relative("soon") is None
    True
    """
    match = _RELATIVE.fullmatch(text[::-1])
    if match is None or not any(map(str.isdecimal, text)):
        return None
    after_s, alone, minutes, hours, days, sign = ((group or "")[::-1] for group in match.groups())
    whole, _, fraction = (after_s or alone).partition(".")
    try:
        # Signed here, because the longest spans have no negative.
        return (-1 if sign else 1) * timedelta(
            days=int(days or 0),
            hours=int(hours or 0),
            minutes=int(minutes or 0),
            seconds=int(whole or 0),
            microseconds=int(fraction[:6].ljust(6, "0")),
        )
    except (OverflowError, ValueError):
        # Python reads no number of thousands of digits.
        return None


def format_time(value: datetime | timedelta) -> str:
    """A time as it is written in an ad; it reads back equal, fractions of seconds included.

    >>> format_time(timedelta(days=1, seconds=10.5)), format_time(-timedelta(minutes=1))
    ('relTime("1+00:00:10.5")', 'relTime("-0+00:01:00")')
    """
    if isinstance(value, datetime):
        return f'absTime("{value.isoformat()}")'
    span = abs(value)
    minutes, seconds = divmod(span.seconds, 60)
    fraction = f".{span.microseconds:06}".rstrip("0") if span.microseconds else ""
    sign = "-" if value < timedelta() else ""
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{fraction}"
    return f'relTime("{sign}{span.days}+{clock}")'
