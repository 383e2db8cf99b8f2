"""What the bindings have beside evaluation: simplify and flatten, quote and unquote."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchmaker as mm
from matchmaker import ERROR, UNDEFINED, ClassAd, Expr, parse_ad, parse_expr
from tests import strategies
from tests.canonical import canonical

JOB = parse_ad(
    '[ a = 1; b = a * 2; c = TARGET.x; s = "t"; l = {a, x}; k = {a, b}; u = undefined; t = true;'
    " now = time(); first = second; second = first + 1; n = [ z = a ] ]"
)


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("a + 1", 2),
        ("x + a", "x + 1"),
        ("a * 1024 * x", "1024 * x"),
        ("TARGET.x >= MY.b", "TARGET.x >= 2"),
        ("b + c", "2 + c"),
        ("k[1] + x", "2 + x"),
        ("k", [1, 2]),
        ("l", "l"),
        ("member(x, k)", "member(x, k)"),
        ("MY.n.z + x", "1 + x"),
        ("MY.missing", "MY.missing"),
        ("first", UNDEFINED),
        ("now + a", "now + 1"),
        ("time() > a", "time() > 1"),
        ("random(b) > 5", "random(2) > 5"),
        ('getYear(x) > a && s == "t"', "getYear(x) > 1"),
        ("countMatches(a > 1, x)", "countMatches(a > 1, x)"),
        ("[ q = a ]", "[ q = a ]"),
        ('eval("a") + b', 'eval("a") + 2'),
        ("t && x > 1", "x > 1"),
        ("x > 1 && a == 1", "x > 1"),
        ("t && x", "true && x"),
        ("t || x", True),
        ("x || t", "x || true"),
        ("t ? x : y", "x"),
        ("u ?: x", "x"),
        ("a ?: x", 1),
        ("1 / 0", ERROR),
        ("f(a)", ERROR),
    ],
)
def test_flatten(text: str, flat: Any) -> None:
    found = JOB.flatten(parse_expr(text))
    assert found is parse_expr(text).flatten(JOB) or not isinstance(found, Expr)
    assert (str(found) if isinstance(found, Expr) else found) == flat


def test_flatten_without_an_ad_leaves_names() -> None:
    assert str(parse_expr("1 + 1 + x").flatten()) == "2 + x"
    assert parse_expr("2 * 3").flatten() == 6


def test_an_attribute_that_hides_a_scope_is_no_scope() -> None:
    ad = parse_ad("[ target = [ x = 5 ]; my = [ x = 6 ] ]")
    assert ad.flatten(parse_expr("target.x + my.x")) == 11


@given(strategies.expressions(), strategies.ads(), strategies.ads())
def test_what_is_flat_has_the_same_value_in_every_match(
    expression: Expr, my: ClassAd, target: ClassAd
) -> None:
    flat = my.flatten(expression)
    value = flat.eval(my, target) if isinstance(flat, Expr) else flat
    assert canonical(value) == canonical(expression.eval(my, target))


@given(strategies.expressions(), strategies.ads(), strategies.ads())
def test_what_is_simplified_has_the_same_value_alone(
    expression: Expr, my: ClassAd, target: ClassAd
) -> None:
    value = expression.eval(my, target)
    if not isinstance(value, (list, ClassAd)):
        assert canonical(expression.simplify(my, target).eval()) == canonical(value)


def test_a_long_chain_is_flattened_in_a_loop() -> None:
    text = " + ".join(["a", "x"] * 2500)
    assert str(JOB.flatten(parse_expr(text))).startswith("1 + x + 1 + x")


def test_an_unknown_attribute_of_an_expression_is_named() -> None:
    for node in ("a", "1 + a", "f(a)"):
        with pytest.raises(AttributeError, match="no attribute 'evaluate'"):
            parse_expr(node).evaluate  # type: ignore[attr-defined] # noqa: B018


@given(st.text())
def test_a_quoted_text_is_a_literal_of_it(text: str) -> None:
    try:
        quoted = mm.quote(text)
    except ValueError:
        assert "\0" in text or any("\ud800" <= char <= "\udfff" for char in text)
        return
    assert quoted.isascii()
    assert quoted.isprintable()
    assert mm.unquote(quoted) == text
    assert parse_expr(quoted).eval() == text


@pytest.mark.parametrize("text", ["a", "1", "", '"a', '"a" + "b"', '("a")', "'a'", '"\\0"', '"a"b'])
def test_what_is_no_quoted_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - some are a ParseError
        mm.unquote(text)


@pytest.mark.parametrize("text", [1, None, b"a"])
def test_quoting_takes_text(text: Any) -> None:
    with pytest.raises(TypeError):
        mm.quote(text)
    with pytest.raises(TypeError):
        mm.unquote(text)
