"""Functions on numbers and on times."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from matchmaker.classad.values import MAX_INT, MIN_INT
from tests.classad.results import ERROR, UNDEFINED, assert_gives, value

pytestmark = pytest.mark.usefixtures("zone")

# Two hours ahead of UTC.
ZONE = "XYZ-2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("floor(-2.5)", -3),
        ("ceil(-2.5)", -2),
        ("ceiling(2.1)", 3),
        ("round(2.5)", 2),
        ("round(-3.5)", -4),
        ("round(9007199254740993)", 9007199254740993),
        ("floor(true)", 1),
        ('floor("1.9x")', 1),
        ("floor(undefined)", ERROR),
        ("floor(1e30)", MAX_INT),
        ('ceil(real("-INF"))', MIN_INT),
        ('round(real("NaN"))', 0),
        ("pow(2, 10)", 1024),
        ("pow(-2, 3)", -8),
        ("pow(2, -1)", 0.5),
        ("pow(2.0, 3)", 8.0),
        ("pow(2, 100)", MAX_INT),
        ("pow(-2, 101)", MIN_INT),
        ("pow(-1, 9223372036854775807)", -1),
        ("pow(0, 0)", 1),
        ("pow(0, -1)", math.inf),
        ("pow(-8, 0.5)", math.nan),
        ("pow(10.0, 400)", math.inf),
        ("pow(-10.0, 401)", -math.inf),
        ('pow("2", 2)', 4.0),
        ("pow(undefined, 2)", ERROR),
        ("quantize(7, 4)", 8),
        ("quantize(8, 4)", 8),
        ("quantize(-5, 3)", -3),
        ("quantize(7.5, 2)", 8.0),
        ("quantize(7, 2.5)", 7.5),
        ("quantize(7, 0)", 7),
        ("quantize(7, 1e-9)", 7),
        ("quantize(3, {1, 4, 8})", 4),
        ("quantize(10, {})", 10),
        ('quantize(10, {"16"})', "16"),
        ("quantize(10, {4, undefined})", ERROR),
        ("quantize(undefined, 2)", ERROR),
        ("random(0)", ERROR),
        ('random("a")', ERROR),
        ("random(true)", ERROR),
        ("random(1)", 0),
        ("interval(0)", "0"),
        ("interval(100)", "1:40"),
        ("interval(-3700)", "-1:01:40"),
        ("interval(93784)", "1+02:03:04"),
        ("interval(10000000000)", "115740+17:46:40"),
        ("interval(undefined)", ERROR),
    ],
)
def test_number_function(text: str, expected: Any) -> None:
    assert_gives(text, expected)


def test_random_stays_below_its_limit() -> None:
    for _ in range(200):
        assert value("random(3)") in {0, 1, 2}
        assert 0 <= value("random(0.5)") < 0.5
        assert 0 <= value("random()") < 1


MOMENT = 'absTime("2004-02-29T22:30:15+00:00")'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Local clocks are two hours ahead: it is the first of March there.
        (f"getYear({MOMENT})", 2004),
        (f"getMonth({MOMENT})", 3),
        (f"getDayOfMonth({MOMENT})", 1),
        (f"getDayOfYear({MOMENT})", 60),
        (f"getDayOfWeek({MOMENT})", 1),
        (f"getHours({MOMENT})", 0),
        (f"getMinutes({MOMENT})", 30),
        (f"getSeconds({MOMENT})", 15),
        (f"getDays({MOMENT})", ERROR),
        ("getDays(relTime(93784))", 1),
        ("getHours(relTime(93784))", 2),
        ("getMinutes(relTime(-93784))", -3),
        ("getSeconds(relTime(-5.5))", -5),
        ("getYear(relTime(1))", ERROR),
        ("getYear(1)", ERROR),
        ("getHours(undefined)", ERROR),
        (f"splitTime({MOMENT}).Day", 29),
        (f"splitTime({MOMENT}).Offset", 0),
        (f"splitTime({MOMENT}).Type", "AbsoluteTime"),
        ("splitTime(0).Hours", 2),
        ("splitTime(0).Offset", 7200),
        ("splitTime(relTime(-93784.5)).Days", -1),
        ("splitTime(relTime(-93784.5)).Seconds", 4.5),
        ("splitTime(relTime(-5)).Seconds", -5.0),
        ("splitTime(relTime(-3605)).Hours", -1),
        ("splitTime(undefined)", UNDEFINED),
        ("splitTime([a = 1])", ERROR),
        ("splitTime(true)", ERROR),
        (f'formatTime({MOMENT}, "%Y-%m-%d %H:%M:%S %j %a")', "2004-02-29 22:30:15 060 Sun"),
        ('formatTime(0, "%H")', "02"),
        ('formatTime([Year = 2004; Month = 2; Day = 3], "%F %a")', "2004-02-03 Tue"),
        ("formatTime([Year = 2024; Month = 13; Day = 5; Hours = 25])", "Sun ?  5 25:00:00 2024"),
        ('formatTime([Year = 2024; Month = 13; Day = 5], "%F %j")', "2024-13-05 371"),
        ('formatTime([Year = 2004; Month = 5; Day = 99], "%F %b %a")', "2004-05-99 May Sat"),
        ('formatTime([Year = 2004; Month = 77], "%F")', "2004-77-00"),
        ('formatTime([], "%F %T %Z")', "1900-01-00 00:00:00 UTC"),
        ('formatTime([Year = 0; Month = -1; Minutes = -9], "%c")', "? ?  0 00:-9:00 0"),
        ("formatTime(relTime(1))", ERROR),
        ("formatTime(undefined)", ERROR),
        ("formatTime(0, 1)", ERROR),
        ("absTime(0, 3600)", datetime(1970, 1, 1, tzinfo=UTC)),
        ("absTime(0)", datetime(1970, 1, 1, tzinfo=UTC)),
        ("absTime(relTime(90), 0)", datetime(1970, 1, 1, 0, 1, 30, tzinfo=UTC)),
        ("absTime(undefined)", UNDEFINED),
        ("absTime(undefined, true)", ERROR),
        ("absTime(true)", ERROR),
        ("absTime(0, 100000)", ERROR),
        ("absTime(1e18)", ERROR),
        ("string(absTime(0))", "1970-01-01T02:00:00+02:00"),
        ('absTime(strcat("2004-01-01", "T00:00:00Z"))', datetime(2004, 1, 1, tzinfo=UTC)),
        ('absTime("soon")', ERROR),
        ("relTime(1.5)", timedelta(seconds=1.5)),
        ('relTime(strcat("1", "d"))', timedelta(days=1)),
        ("relTime(absTime(90))", timedelta(seconds=90)),
        ("relTime(undefined)", UNDEFINED),
        ("relTime(true)", ERROR),
        ('relTime(real("INF"))', ERROR),
        ('relTime(real("NaN"))', ERROR),
        ("relTime(9223372036854775807)", ERROR),
        ("timeZoneOffset()", timedelta(hours=2)),
    ],
)
def test_time_function(text: str, expected: Any) -> None:
    assert_gives(text, expected)


def test_present() -> None:
    before = int(time.time())
    assert before <= value("time()") <= time.time() + 1
    assert before <= value("int(currentTime())") <= time.time() + 1
    assert before <= value("int(absTime())") <= time.time() + 1
    assert value("isRelTime(dayTime())") is True
    assert value("isString(formatTime())") is True
    assert value("getYear(currentTime())") >= 2024


def test_long_format_is_refused() -> None:
    assert_gives(f'formatTime(0, "{"%c" * 600}")', ERROR)
