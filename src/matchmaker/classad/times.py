"""Times as text: reading and writing absolute and relative times.

What functions do with times is in ``functions.times``.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Final

_ABSOLUTE: Final = re.compile(
    r"\s*(?P<year>\d{4})[-/]?(?P<month>\d\d)[-/]?(?P<day>\d\d)"
    r"(?:(?:\s*T\s*|\s+)(?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)"
    r"(?:\.(?P<fraction>\d{1,6}+)\d*+)?)?)?)?"
    r"\s*(?P<zone>Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)(?::?(?P<seconds>\d\d))?)?\s*",
    re.IGNORECASE | re.ASCII,
)
# White space counts as one space: without that, runs of it would be tried in every way.
_BLANKS: Final = re.compile(r"\s+", re.ASCII)
_CLOCK: Final = re.compile(
    r"\s*([+-])?\s*(?:(\d{1,10})\+)?(?:(?:(\d{1,10}):)?(\d{1,10}):)?(\d{1,15}(?:\.\d+)?)s?\s*",
    re.IGNORECASE | re.ASCII,
)
_UNITS: Final = re.compile(
    r"\s*([+-])?\s*(?=\d)(?:(\d{1,10})\s*d)?\s*(?:(\d{1,10})\s*h)?\s*(?:(\d{1,10})\s*m)?\s*"
    r"(?:(\d{1,15}(?:\.\d+)?)\s*s?)?\s*",
    re.IGNORECASE | re.ASCII,
)


def parse_absolute(text: str) -> datetime | None:
    """Reads ``2004-01-01T00:00:00+00:00``, or None.

    The separators, the parts of the time from the right, and the offset may be missing; without an
    offset the time is local. Numbers too large carry over, as C's mktime does.

    >>> parse_absolute("2004-02-30 12:00Z").isoformat()
    '2004-03-01T12:00:00+00:00'
    """
    match = _ABSOLUTE.fullmatch(_BLANKS.sub(" ", text))
    if match is None:
        return None
    part = {name: int(digits) for name, digits in match.groupdict("0").items() if digits.isdigit()}
    years, month = divmod(part["month"] - 1, 12)
    microseconds = int((match["fraction"] or "").ljust(6, "0"))
    try:
        time = datetime(part["year"] + years, month + 1, 1) + timedelta(  # noqa: DTZ001 - see below
            part["day"] - 1,
            part["second"],
            microseconds,
            minutes=part["minute"],
            hours=part["hour"],
        )
        if not match["zone"]:
            # For the offset Python looks a day back, which the first of all days does not have.
            later = timedelta(days=2 * (time.year == 1))
            return (time + later).astimezone() - later
        offset = timedelta(
            hours=part["hours"], minutes=part["minutes"], seconds=part["seconds"]
        ) * (-1 if match["sign"] == "-" else 1)
        return time.replace(tzinfo=timezone(offset))
    except (ValueError, OverflowError, OSError):
        return None


def parse_relative(text: str) -> timedelta | None:
    """Reads ``1+02:03:04.5``, ``03:04``, ``90`` or ``1d 2h 3m 4s``, each with or without a sign.

    >>> parse_relative("-1+00:00:10") == -parse_relative("1d 10s")
    True
    >>> parse_relative("soon") is None
    True
    """
    text = _BLANKS.sub(" ", text)
    match = _CLOCK.fullmatch(text) or _UNITS.fullmatch(text)
    if match is None:
        return None
    sign, days, hours, minutes, seconds = match.groups("0")
    whole, _, fraction = seconds.partition(".")
    try:
        # Signed here, because the longest spans have no negative.
        return (-1 if sign == "-" else 1) * timedelta(
            days=int(days),
            hours=int(hours),
            minutes=int(minutes),
            seconds=int(whole),
            microseconds=int(fraction[:6].ljust(6, "0")),
        )
    except OverflowError:
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
