from __future__ import annotations

import pytest

from matchmaker import ClassAd, is_error, parse_expr
from matchmaker.classad.nodes import Literal
from matchmaker.classad.operators import truth
from matchmaker.classad.values import ERROR, UNDEFINED, Value
from matchmaker.reduction.simplify import MATCH, OUTCOME, VALUE, is_number, known, simplify

# Every kind of value that an attribute can have, as a condition or beside a number or a text.
VALUES: list[Value] = [
    True, False, 0, 1, 7, -2.5, float("nan"), float("inf"), "", "a", "A", [], [1], UNDEFINED, ERROR,
]  # fmt: skip


def match_form(text: str) -> str:
    return str(simplify(parse_expr(text), MATCH))


@pytest.mark.parametrize(
    ("text", "simpler"),
    [
        # constants
        ("1 + 2 * 3", "7"),
        ("1 < 2", "true"),
        ("a > 1 + 1", "a > 2"),
        ('strcat("a", "b") == x', 'x == "ab"'),
        ("member(2, { 1, 2 })", "true"),
        # and
        ("true && a > 1", "a > 1"),
        ("a > 1 && true", "a > 1"),
        ("false && a > 1", "false"),
        ("a > 1 && false", "false"),
        ("undefined && a > 1", "false"),
        ("a > 1 && undefined", "false"),
        ('a > 1 && "x"', "false"),
        ("a > 1 && a > 1", "a > 1"),
        ("a > 1 && b > 1 && a > 1", "a > 1 && b > 1"),
        ("a > 1 && 7 && b > 1", "a > 1 && b > 1"),
        # or
        ("false || a > 1", "a > 1"),
        ("a > 1 || false", "a > 1"),
        ("true || a > 1", "true"),
        ("undefined || a > 1", "a > 1"),
        ("a > 1 || undefined", "a > 1"),
        ("a > 1 || error", "a > 1"),
        ("a > 1 || a > 1", "a > 1"),
        ("isUndefined(a) || true", "true"),
        # not
        ("!!(a > 1)", "a > 1"),
        ("!(a == 1)", "a != 1"),
        ("!(a is undefined)", "a =!= undefined"),
        ("!(a =!= 1)", "a =?= 1"),
        # the ternary
        ("true ? a > 1 : b > 1", "a > 1"),
        ("0 ? a > 1 : b > 1", "b > 1"),
        ("a > 1 ? true : false", "a > 1"),
        ("a > 1 ? b > 1 : false", "a > 1 && b > 1"),
        ("a > 1 ? false : b > 1", "!(a > 1) && b > 1"),
        ("a == 1 ? undefined : b > 1", "a != 1 && b > 1"),
        ("a > 1 ? false : error", "false"),
        ("a > 1 ? b > 1 : b > 1", "(isInteger(a) || isReal(a) || isBoolean(a)) && b > 1"),
        ('a == "x" ? b > 1 : b > 1', "isString(a) && b > 1"),
        ("a is 1 ? b > 1 : b > 1", "b > 1"),
        ("ifThenElse(a > 1, true, false)", "a > 1"),
        # the rest
        ("5 < a", "a > 5"),
        ("5 >= a", "a <= 5"),
        ("5 != a", "a != 5"),
        ("undefined ?: a > 1", "a > 1"),
        ("1 ?: (a > 1)", "1"),
    ],
)
def test_where_only_truth_counts(text: str, simpler: str) -> None:
    assert match_form(text) == simpler


@pytest.mark.parametrize(
    "text",
    ["1 / 0 > a", "error && a > 1", "error || a > 1", "undefined ? a > 1 : b > 1", "a > undefined"],
)
def test_what_is_true_nowhere_is_a_constant_that_is_not_true(text: str) -> None:
    after = simplify(parse_expr(text), MATCH)
    assert isinstance(after, Literal)
    assert truth(after.value) is not True


@pytest.mark.parametrize(
    "text",
    [
        # `a || true` is an error where a is one; NaN is neither below 5 nor not below it.
        "a > 1 || true",
        "!(a < 5)",
        "a < 5 || b > 1",
        "random() < 0.5",
        "time() > 100",
        "a > 1 || !(a > 1)",
    ],
)
def test_what_looks_foldable_and_is_not(text: str) -> None:
    assert match_form(text) == str(parse_expr(text))


def test_a_negated_ternary_keeps_false_apart_from_undefined() -> None:
    # !(c ? x : undefined) must not come out true where the ternary is undefined.
    for text in ("!(a > 1 ? b > 1 : undefined)", "!(a > 1 && undefined)", "!(undefined || a > 1)"):
        before, after = parse_expr(text), simplify(parse_expr(text), MATCH)
        for a in VALUES:
            for b in VALUES:
                host = ClassAd({"a": a, "b": b})
                assert (truth(before.eval(host)) is True) == (truth(after.eval(host)) is True)


LAWS = [
    f"{left} {operator} {right}"
    for operator in ("&&", "||", "==", "<", "is", "+", "?:")
    for left, right in (("a", "b"), ("a", "true"), ("a", "0"), ("a", "undefined"), ("a", "error"),
                        ("true", "a"), ("0", "a"), ("undefined", "a"), ("error", "a"), ("a", "a"),
                        ('"x"', "a"), ("a", '"x"'), ("a", "1.0"))
] + [
    f"{c} ? {x} : {y}"
    for c in ("a", "a > 0", "!a", "a is 1", "isString(a)", 'a == "a"')
    for x in ("b", "true", "false", "undefined", "error", "7")
    for y in ("b", "true", "false", "undefined", "error", "7")
] + ["!a", "!!a", "!(a == 1)", "!(a < 1)", "!(a && b)", "!(a || b)", "!(a ? b : true)"]  # fmt: skip


@pytest.mark.parametrize("demand", [MATCH, OUTCOME, VALUE], ids=["match", "outcome", "value"])
def test_every_law_holds_for_every_kind_of_value(demand: frozenset[str]) -> None:
    for text in LAWS:
        before = parse_expr(text)
        after = simplify(before, demand)
        for a in VALUES:
            for b in VALUES:
                host = ClassAd({"a": a, "b": b})
                was, now = before.eval(host), after.eval(host)
                assert same(was, now, demand), (text, str(after), a, b, was, now)


def same(was: Value, now: Value, demand: frozenset[str]) -> bool:
    if demand == MATCH:
        return (truth(was) is True) == (truth(now) is True)
    if demand == OUTCOME:
        was, now = truth(was), truth(now)
    if is_error(was) or is_error(now):
        return is_error(was) and is_error(now)
    return type(was) is type(now) and repr(was) == repr(now)


@pytest.mark.parametrize(
    "text",
    ["a > 1", "a == 1.5", "a <= true", 'a == "x"', 'a < "x"', "a is 1", "a isnt 1", "a is b",
     "a > b", "isString(a)", "isUndefined(a, b)", "a && b", "!a", "a"],
)  # fmt: skip
def test_known_is_true_exactly_where_a_condition_is_true_or_false(text: str) -> None:
    condition = parse_expr(text)
    when = known(condition)
    for a in VALUES:
        for b in VALUES:
            host = ClassAd({"a": a, "b": b})
            decided = isinstance(truth(condition.eval(host)), bool)
            assert (truth(when.eval(host)) is True) == decided, (text, a, b)


@pytest.mark.parametrize("value", VALUES)
def test_a_number_is_an_integer_a_real_or_a_boolean(value: Value) -> None:
    # A boolean host value compares with a number, a text does not.
    number = is_number(parse_expr("a")).eval(ClassAd({"a": value}))
    assert number is isinstance(value, (bool, int, float))


def test_long_chains_are_simplified_without_deep_recursion() -> None:
    for operator in ("&&", "||"):
        text = f" {operator} ".join(f"a == {i}" for i in range(1000))
        assert simplify(parse_expr(text)) is parse_expr(text)


@pytest.mark.parametrize("text", ["eval(a)", 'unparse(a) == "1 + 1"', "unresolved(b)"])
def test_functions_that_look_at_code_are_left_alone(text: str) -> None:
    assert match_form(text) == str(parse_expr(text))


@pytest.mark.slow
def test_very_long_chains_are_simplified_in_linear_time() -> None:
    text = " || ".join(f"a{i} > {i} && true" for i in range(8000))
    assert str(simplify(parse_expr(text))) == text.replace(" && true", "")
