"""Evaluation: scopes, laziness, circles and bounds."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from matchmaker import ClassAd, parse_ad, parse_expr
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad import reference
from matchmaker.classad.values import is_error
from matchmaker.classad.walks import SPECIAL
from tests.classad.results import ERROR, UNDEFINED, assert_gives, value

JOB = "[ both = 1; mine = 10; asks = TARGET.theirs; inner = [both = 2; up = mine; my_ = MY.both] ]"
HOST = "[ both = 5; theirs = 50; asks = TARGET.mine; bare = mine ]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("both", 1),
        ("MY.both", 1),
        ("my.BOTH", 1),
        ("TARGET.both", 5),
        ("other.both", 5),
        ("theirs", 50),
        ("MY.theirs", UNDEFINED),
        ("TARGET.mine", UNDEFINED),
        ("asks", 50),
        ("TARGET.asks", 10),
        ("TARGET.bare", 10),
        ("inner.both", 2),
        ("inner.up", 10),
        ("inner.my_", 2),
        ("inner.mine", 10),
        ('inner["mine"]', UNDEFINED),
        ("missing", UNDEFINED),
        ("MY.missing + 1", UNDEFINED),
        ("isUndefined(parent)", True),
        ("root.mine", 10),
        (".mine", 10),
        ("size(MY)", 4),
        ("TARGET.TARGET.mine", 10),
    ],
)
def test_scope_in_a_match(text: str, expected: Any) -> None:
    assert_gives(text, expected, JOB, HOST)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TARGET.both", UNDEFINED),
        ("theirs", UNDEFINED),
        ("asks", UNDEFINED),
        ("MY.mine", 10),
        ("isUndefined(TARGET)", True),
    ],
)
def test_scope_without_a_target(text: str, expected: Any) -> None:
    assert_gives(text, expected, JOB)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a = 1; b = [c = a]].b.c", 1),
        ("[a = 1; b = [a = 2; c = parent.a]].b.c", 1),
        ("[a = 1; b = [a = 2; c = self.a]].b.c", 2),
        ("[a = 1; b = [a = 2; c = toplevel.a]].b.c", 1),
        ("[a = 1; b = [a = 2; c = .a]].b.c", 1),
        ("[self = 5; a = self].a", 5),
        ("[a = 1; b = [c = 2]].b.a", 1),
        ('[a = 1; b = [c = 2]].b["a"]', UNDEFINED),
        ("{[a = 1], undefined, {[a = 2]}}.a", [1, UNDEFINED, [2]]),
        ("x", UNDEFINED),
        ("MY.x", UNDEFINED),
        (".x", UNDEFINED),
    ],
)
def test_nested_ads(text: str, expected: Any) -> None:
    assert_gives(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a = a].a", UNDEFINED),
        ("[a = b; b = a].a", UNDEFINED),
        ("[a = isUndefined(b); b = a].a", True),
        ("[a = b + 1; b = a + 1].a", UNDEFINED),
        ("[a = a ?: 5].a", 5),
        ("[a = {a}].a", [UNDEFINED]),
        ("[a = b; b = a; c = 1].c", 1),
        ("[a = true || a].a", True),
        ("[a = a ? 1 : 2].a", UNDEFINED),
        ('[a = eval("a")].a', UNDEFINED),
    ],
)
def test_circle_is_undefined(text: str, expected: Any) -> None:
    assert_gives(text, expected)


def test_circle_through_a_match() -> None:
    assert_gives("a", UNDEFINED, "[a = TARGET.b]", "[b = TARGET.a]")


def test_same_attribute_twice_is_no_circle() -> None:
    assert_gives("a + a", 2, "[a = b; b = 1]")


@pytest.mark.parametrize(
    "text",
    [
        "false && nothing()",
        "true || nothing()",
        "1 ?: nothing()",
        "true ? 1 : nothing()",
        "ifThenElse(true, 1, nothing())",
    ],
)
def test_what_is_not_needed_is_not_evaluated(text: str) -> None:
    assert not is_error(value(text))


def test_ad_as_a_value_keeps_its_surroundings() -> None:
    ad = value("[a = 1; b = [c = a]].b")
    assert ad.eval("c") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" || ".join(["false"] * 5000), False),
        (" || ".join([*["undefined"] * 4999, "true"]), True),
        (" && ".join(["true"] * 5000), True),
        (" + ".join(["1"] * 5000), 5000),
        (" || ".join(f"x == {i}" for i in range(5000)), UNDEFINED),
    ],
    ids=["or", "or undefined", "and", "plus", "machines"],
)
def test_long_chain(text: str, expected: Any) -> None:
    assert_gives(text, expected)


def chain(length: int) -> str:
    links = "; ".join(f"a{i} = a{i + 1} + 1" for i in range(length))
    return f"[ {links}; a{length} = 0 ]"


def test_attributes_may_lead_on() -> None:
    assert_gives("a0", 50, chain(50))


def test_depth_is_bounded() -> None:
    given = value("a0", chain(2000))
    assert is_error(given)
    assert "deep" in given.reason


def test_steps_are_bounded() -> None:
    doubling = "; ".join(f"a{i} = a{i + 1} + a{i + 1}" for i in range(40))
    given = value("a0", f"[ {doubling}; a40 = 1 + 0 ]")
    assert is_error(given)
    assert str(LIMITS.steps) in given.reason


@pytest.mark.slow
def test_lists_that_double_are_bounded() -> None:
    doubling = "; ".join(f"a{i} = {{a{i + 1}, a{i + 1}}}" for i in range(40))
    assert is_error(value("size(a0)", f"[ {doubling}; a40 = {{1, 1}} ]"))


def test_text_that_calls_itself_is_bounded() -> None:
    assert is_error(value("eval(b)", '[ b = "eval(b)" ]'))
    assert is_error(value("eval(b)", '[ b = "eval(b) + eval(b)" ]'))


def test_ads_that_format_each_other_are_bounded() -> None:
    parts = "; ".join(
        f'{name} = int(formatTime(t, "1"))' for name in ("Year", "Month", "Day", "Hours")
    )
    value("formatTime(t)", f"[ t = [ {parts} ] ]")


def test_evaluation_in_a_thread_with_a_small_stack() -> None:
    results: list[Any] = []
    size = threading.stack_size(512 * 1024)
    try:
        deep = "-" * 190 + "a"
        ad = parse_ad("[a = 1]")
        thread = threading.Thread(target=lambda: results.append(parse_expr(deep).eval(ad)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
    assert results == [1]


def test_unknown_function() -> None:
    given = value("strlen(1)")
    assert is_error(given)
    assert "no function strlen()" in given.reason


def test_wrong_number_of_arguments() -> None:
    given = value("size()")
    assert is_error(given)
    assert given.reason == "size() takes 1 argument(s), not 0"
    assert_gives("substr(1)", ERROR)


@pytest.mark.parametrize("text", ["CurrentTime", "MY.CurrentTime", "[a = [b = CurrentTime]].a.b"])
def test_current_time_is_known_to_every_ad(text: str) -> None:
    before = int(time.time())
    value = parse_expr(text).eval(ClassAd())
    assert isinstance(value, int)
    assert before <= value <= time.time()


def test_without_an_ad_there_is_no_current_time() -> None:
    assert parse_expr("CurrentTime + 1").eval() is UNDEFINED


def test_an_ads_own_current_time_goes_before() -> None:
    assert parse_expr("CurrentTime").eval(ClassAd({"CurrentTime": 5})) == 5


def test_a_list_belongs_to_who_got_it() -> None:
    ad = parse_ad('[ Tags = {"a", "b"}; Same = Tags ]')
    for _ in range(40):
        for name in ("Tags", "Same"):
            tags: Any = ad.eval(name)
            assert tags == ["a", "b"]
            tags.append("c")


def test_the_special_names_are_those_that_evaluation_knows() -> None:
    assert reference._AROUND.special == SPECIAL.keys()


@pytest.mark.parametrize("name", SPECIAL.values())
def test_a_special_name_means_something_until_an_ad_defines_it(name: str) -> None:
    inner = parse_expr(f"[ inner = [ x = {name} ] ].inner.x")
    assert inner.eval(ClassAd(), ClassAd()) is not UNDEFINED
    assert ClassAd({name: 7}).eval(parse_expr(name)) == 7


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('siez("x")', "there is no function siez(); did you mean size()?"),
        ("STRLEN(x)", "there is no function STRLEN(); did you mean size()?"),
        ("frobnicate(1)", "there is no function frobnicate()"),
    ],
)
def test_an_unknown_function_is_told_with_what_may_be_meant(text: str, reason: str) -> None:
    given = parse_expr(text).eval()
    assert is_error(given)
    assert given.reason == reason


def test_looking_for_what_is_meant_is_bounded() -> None:
    given = parse_expr("{" + ", ".join(f"fun{n}(1)" for n in range(5000)) + "}").eval()
    assert is_error(given)
    assert "steps" in given.reason
