"""What nests as deep as the bounds allow has one value, however deep its caller stands."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from matchmaker import ClassAd, parse_ad, parse_expr
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker._stack import room, with_room
from matchmaker.classad import reference as module
from matchmaker.classad.ad import literal
from matchmaker.classad.functions import patterns
from matchmaker.classad.nodes import Attr, Unary
from matchmaker.classad.trace import trace
from matchmaker.classad.values import is_error
from tests.classad.test_bounds import chain


def below(frames: int, call: Callable[[], Any]) -> Any:
    """What a call gives that many frames further down Python's stack."""
    return below(frames - 1, call) if frames else call()


def nearly_full(call: Callable[[], Any]) -> Any:
    """What a call gives where hardly anything is left of the stack."""
    depth = 0
    frame = sys._getframe()
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return below(sys.getrecursionlimit() - depth - 60, call)


def fresh(form: str, length: int) -> ClassAd:
    """A chain of attributes whose expressions have never been evaluated: of its own numbers."""
    fresh.count += 1  # type: ignore[attr-defined]
    return parse_ad(chain(form, str(10_000_000 + fresh.count), length))  # type: ignore[attr-defined]


fresh.count = 0  # type: ignore[attr-defined]

LINKS = {
    "{0}": 299,
    "MY.{0}": 149,
    "1 + {0}": 149,
    "debug({0})": 149,
    "ifThenElse(true, {0}, 1)": 149,
    "evalInEachContext({0}, {{[]}})": 140,
    'eval("{0}")': 99,
    "[x = {0}].x": 70,
    "({0} ?: 1) > 0 || x": 70,
}


@pytest.mark.parametrize(("form", "length"), LINKS.items(), ids=LINKS.keys())
def test_deep_has_one_value(form: str, length: int) -> None:
    ad = fresh(form, length)
    limit = sys.getrecursionlimit()
    cold = nearly_full(lambda: ad.eval("a0"))
    assert not is_error(cold)
    assert ad.eval("a0") == cold
    for _ in range(module.COMPILE_AFTER + 1):
        ad.eval("a0")
    assert ad.eval("a0") == cold
    assert nearly_full(lambda: ad.eval("a0")) == cold
    assert nearly_full(lambda: parse_expr("a0").eval(ad)) == cold
    assert nearly_full(lambda: trace("a0", ad).value) == cold
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("warm", [False, True])
def test_too_deep_has_one_reason(warm: bool) -> None:
    ad = fresh("{0}", 400)
    if warm:
        for i in range(400, 0, -1):
            for _ in range(module.COMPILE_AFTER + 1):
                parse_ad(f"[ a{i} = 1; x = a{i} ]").eval("x")
    reasons = {
        run(lambda: ad.eval("a0")).reason
        for run in (lambda call: call(), nearly_full)
        for _ in "ab"
    }
    assert reasons == {f"attributes lead more than {LIMITS.depth} levels deep"}


def test_a_pattern_of_many_groups_is_one_wherever_it_is_first_used() -> None:
    pattern = "(" * 250 + "b" + ")" * 250
    patterns._patterns.forget()
    search = parse_expr(f'regexp("{pattern}", "abc")')
    assert nearly_full(search.eval) is True
    assert search.eval() is True


def test_an_expression_made_by_hand_may_not_nest_deeper() -> None:
    node: Any = Attr(None, "x", False)
    for _ in range(LIMITS.depth - 1):
        node = Unary("-", node)
    ad = ClassAd({"x": 1})
    assert nearly_full(lambda: node.eval(ad)) == node.eval(ad) == -1
    deeper = Unary("-", node)
    asked: list[Callable[[], Any]] = [lambda: deeper.eval(ad), lambda: trace(deeper, ad).value]
    for call in asked:
        reason = "the expression nests more than 300 levels deep"
        assert call().reason == nearly_full(call).reason == reason


def test_the_limit_is_as_before_when_the_last_one_has_left() -> None:
    limit = sys.getrecursionlimit()
    inside = threading.Barrier(4)

    def work(number: int) -> int:
        def call() -> int:
            assert below(2000, lambda: number) == number
            inside.wait(30)
            return int(below(2000, lambda: number))

        with room():
            return call()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]
    assert sys.getrecursionlimit() == limit


def test_another_limit_that_was_set_meanwhile_stays() -> None:
    limit = sys.getrecursionlimit()
    try:
        with room():
            sys.setrecursionlimit(limit + 77)
        assert sys.getrecursionlimit() == limit + 77
    finally:
        sys.setrecursionlimit(limit)


def test_without_end_is_without_end_with_room_too() -> None:
    def endless() -> int:
        return 1 + endless()

    limit = sys.getrecursionlimit()
    with pytest.raises(RecursionError):
        with_room(endless)
    assert sys.getrecursionlimit() == limit


def test_values_of_literals_need_no_room() -> None:
    assert nearly_full(lambda: literal(1).eval()) == 1
