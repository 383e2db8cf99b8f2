"""What definitions of functions say of them: the type of the result, and what it rests on."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from matchmaker import ClassAd, Value, parse_expr
from matchmaker.classad.ad import literal
from matchmaker.classad.functions import FUNCTIONS, UNFOLDABLE, Function, Trait, traits_of
from matchmaker.classad.nodes import Call, Expr
from matchmaker.classad.values import ERROR, UNDEFINED, is_error
from tests.canonical import canonical

TIME = datetime(2004, 7, 1, 23, 30, tzinfo=UTC)
PLAIN: tuple[Value, ...] = (
    UNDEFINED, ERROR, True, False, 0, 1, -2, 7, 2.5, -0.0, float("nan"), 1e300, 2**62,
    "", "a", "A", "a,b,C", "8.10.2", "5", "2004-01-15T09:30:10", "12:00", "root", "^a", "x=1", "%H",
    TIME, TIME.astimezone(timezone(timedelta(hours=9))), timedelta(days=1, seconds=2),
    timedelta(seconds=-1), [], [1, 2], ["a", "B"], [1, "a", UNDEFINED], [[1], ["x"]],
    ClassAd(x=1), [ClassAd(x=1), ClassAd(x="a")], ClassAd(Type="AbsoluteTime", Year=2000),
    ["ALL"], ["VO:a", "DENY:VO:root"],
)  # fmt: skip
OPERATORS = ("<", "<=", "==", "is", "!=")
KINDS: dict[str, type | tuple[type, ...]] = {"boolean": bool, "number": (int, float), "string": str}
ALL = list(FUNCTIONS.values())


def calls(function: Function, chance: random.Random, many: int) -> Iterator[Call]:
    for _ in range(many):
        most = function.most if function.most is not None else function.least + 2
        count = chance.randint(function.least, most)
        yield Call(function.name, tuple(argument(chance) for _ in range(count)))


def argument(chance: random.Random) -> Expr:
    kind = chance.random()
    if kind < 0.1:
        return parse_expr(chance.choice(("x > 0", "x", "TARGET.x", "Me")))
    return literal(chance.choice(OPERATORS if kind < 0.15 else PLAIN))


@pytest.mark.parametrize(
    "function", [each for each in ALL if each.result], ids=lambda function: function.name
)
def test_a_result_has_the_type_that_the_definition_says(function: Function) -> None:
    ad, other = ClassAd(x=3, Me="x + y"), ClassAd(x="text")
    found = set()
    for call in calls(function, random.Random(function.name), 800):
        value = call.eval(ad, other)
        if value is UNDEFINED or is_error(value):
            continue
        assert isinstance(value, KINDS[function.result]), str(call)
        assert function.result == "boolean" or not isinstance(value, bool), str(call)
        found.add(type(value))
        if Trait.TYPE_TEST in function.traits:
            assert value is not UNDEFINED
    assert found


@pytest.fixture
def zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    yield "UTC", "Asia/Tokyo"
    monkeypatch.undo()
    time.tzset()


def values(several: list[Call], zone: str, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    ad, other = ClassAd(x=3, Me="x + y"), ClassAd(x="text")
    return [canonical(call.eval(ad, other)) for call in several]


def test_what_may_be_folded_rests_on_its_arguments_alone(
    zones: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    for function in ALL:
        if function.traits & UNFOLDABLE:
            continue
        several = list(calls(function, chance, 60))
        here, there = (values(several, zone, monkeypatch) for zone in zones)
        assert here == there, function.name


@pytest.mark.parametrize(
    "text",
    ["splitTime(0).Hours", 'getHours(absTime("2004-07-01T23:30:00Z"))', "string(absTime(0))",
     "string(timeZoneOffset())", 'formatTime(0, "%H")', "dayTime()"],
)  # fmt: skip
def test_what_uses_the_zone_says_so(
    text: str, zones: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = parse_expr(text)
    found = set()
    for zone in zones:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        found.add(repr(node.eval()))
    assert len(found) == 2


@pytest.mark.parametrize(
    ("call", "is_volatile"),
    [("absTime()", True), ("absTime(1)", False), ("FormatTime()", True), ("time()", True),
     ("RANDOM(2)", True), ("debug(1)", True), ("size(1)", False), ("noSuch()", False)],
)  # fmt: skip
def test_a_call_without_arguments_may_mean_now(call: str, is_volatile: bool) -> None:
    node = parse_expr(call)
    assert isinstance(node, Call)
    assert (Trait.VOLATILE in traits_of(node.function, len(node.arguments))) is is_volatile
