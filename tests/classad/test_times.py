"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from matchmaker import parse_expr
from matchmaker.classad.nodes import Literal
from matchmaker.classad.values import format_time, parse_absolute, parse_relative

pytestmark = pytest.mark.usefixtures("zone")

# Two hours ahead of UTC.
ZONE = "XYZ-2"


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2004-01-01T00:00:00+00:00", "2004-01-01T00:00:00+00:00"),
        ("2004-01-01T10:20:30Z", "2004-01-01T10:20:30+00:00"),
        ("2004-01-01T10:20:30-0530", "2004-01-01T10:20:30-05:30"),
        ("2004-01-01 10:20:30 +05:30", "2004-01-01T10:20:30+05:30"),
        ("20040101T102030Z", "2004-01-01T10:20:30+00:00"),
        ("2004/01/01 10:20Z", "2004-01-01T10:20:00+00:00"),
        ("2004-01-01T10", "2004-01-01T10:00:00+02:00"),
        ("2004-01-01", "2004-01-01T00:00:00+02:00"),
        (" 2004-01-01t10:20:30z ", "2004-01-01T10:20:30+00:00"),
        ("2004-01-01T00:00:00.25Z", "2004-01-01T00:00:00.250000+00:00"),
        ("2004-02-30T00:00:00Z", "2004-03-01T00:00:00+00:00"),
        ("2004-13-01T00:00:00Z", "2005-01-01T00:00:00+00:00"),
        ("2004-01-01T25:61:61Z", "2004-01-02T02:02:01+00:00"),
        ("2004-01-01T00:00:00+01:00:01", "2004-01-01T00:00:00+01:00:01"),
        ("on 2004.01.02 at 03h04m05s", "2004-01-02T03:04:05+02:00"),
        ("2004-01-01T030405 z ", "2004-01-01T03:04:05+00:00"),
        ("2004-01-01-03:04", "2004-01-01T00:00:00-03:04"),
        ("2004-01-01-03:04:05", "2004-01-01T03:04:05+02:00"),
        ("2004-01-01x", "2004-01-01T00:00:00+02:00"),
    ],
)
def test_absolute(text: str, iso: str) -> None:
    read = parse_absolute(text)
    assert read is not None
    assert read.isoformat() == iso


@pytest.mark.parametrize(
    "text",
    ["", "now", "2004", "2004-01", "04-01-01", "01/02/2004", "2004-1-2T03",
     "2004-01-01T10:20:30+5", "2004-01-01T10:20:30+1:00",
     "2004-01-01T00:00:00+25:00", "0000-01-01", "9999-12-31T24:00:00Z", "2004-01-01T3:4:5",
     "2004-01-01T00:00:00+01:00 ", "2004-01-01 10:20:30 40"],
)  # fmt: skip
def test_no_absolute_time(text: str) -> None:
    assert parse_absolute(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("+90", 90),
        ("-90", -90),
        ("1.5", 1.5),
        ("3:04", 184),
        ("2:03:04", 7384),
        ("1+02:03:04", 93784),
        ("-1+02:03:04.25", -93784.25),
        ("1+5", 86405),
        ("1d", 86400),
        ("1d2h3m4s", 93784),
        ("1d 2h", 93600),
        ("-1D 2H", -93600),
        ("2h 5", 7205),
        ("5s", 5),
        (" 12 ", 12),
        ("1 + 2 : 3 : 4", 93784),
        ("5m", 300),
        ("1h:5", 3605),
        (":5", 5),
        ("-\t.5 s", -0.5),
    ],
)
def test_relative(text: str, seconds: float) -> None:
    assert parse_relative(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "-", "soon", "1x", "1:2:3:4", "1d1d", "1++2", "9" * 12 + "d", "-999999999+00:00:01"],
)
def test_no_relative_time(text: str) -> None:
    assert parse_relative(text) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(days=1), 'relTime("1+00:00:00")'),
        (timedelta(), 'relTime("0+00:00:00")'),
        (timedelta(seconds=-90), 'relTime("-0+00:01:30")'),
        (timedelta(days=-1, seconds=1), 'relTime("-0+23:59:59")'),
        (timedelta(microseconds=1), 'relTime("0+00:00:00.000001")'),
        (timedelta(seconds=1.5), 'relTime("0+00:00:01.5")'),
        (timedelta.max, 'relTime("999999999+23:59:59.999999")'),
        (timedelta.min, 'relTime("-999999999+00:00:00")'),
        (datetime(2004, 1, 1, tzinfo=UTC), 'absTime("2004-01-01T00:00:00+00:00")'),
        (
            datetime(2004, 1, 1, 1, 2, 3, 5, tzinfo=timezone(timedelta(hours=-1))),
            'absTime("2004-01-01T01:02:03.000005-01:00")',
        ),
    ],
)
def test_writing(value: datetime | timedelta, text: str) -> None:
    assert format_time(value) == text
    assert parse_expr(text) is Literal(value)


@pytest.mark.parametrize("text", ['absTime("soon")', 'relTime("soon")', "relTime(5)", "absTime()"])
def test_what_is_no_constant_stays_a_call(text: str) -> None:
    assert str(parse_expr(text)) == text
    assert not isinstance(parse_expr(text), Literal)
