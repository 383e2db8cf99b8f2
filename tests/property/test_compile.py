"""The compiled form of an expression has the value of the reference form, wherever it stands."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr, parse_ad, parse_expr, testing
from matchmaker.classad import reference as module
from matchmaker.classad.ad import literal
from matchmaker.classad.compile import compile_expression
from matchmaker.classad.evaluate import evaluate, evaluate_attribute
from matchmaker.classad.nodes import Attr, Binary, Literal, Ternary, Unary
from matchmaker.classad.operators import BINARY, ascii_fold
from matchmaker.classad.state import EvaluationState
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED, is_error
from tests import strategies
from tests.canonical import canonical
from tests.cases import cases
from tests.classad.test_bounds import HOSTILE

NAMES = (*strategies.NAMES, "target", "Requirements")


def plain_leaves() -> st.SearchStrategy[Expr]:
    numbers = st.sampled_from([0, 1, 2, -1, 2**53 + 1, MAX_INT, 0.5, 2.0, 2.0**53, "a", "A", True])
    return strategies.attributes() | numbers.map(literal)


def conditions() -> st.SearchStrategy[Expr]:
    """What requirements look like: the shapes for which there are fast paths."""
    relations = st.sampled_from([*strategies.RELATIONS, "+", "-", "*", "/"])
    atoms = st.builds(Binary, relations, plain_leaves(), plain_leaves()) | plain_leaves()
    return st.recursive(
        atoms,
        lambda inner: (
            st.builds(Binary, st.sampled_from(["&&", "||", "?:", "==", "is"]), inner, inner)
            | st.builds(Unary, st.sampled_from("!-"), inner)
            | st.builds(Ternary, inner, inner, inner)
        ),
        max_leaves=10,
    )


contents = st.one_of(
    strategies.plain_values(), strategies.plain_values(), conditions(), strategies.values()
)
ads = st.dictionaries(st.sampled_from(NAMES), contents, max_size=6).map(ClassAd)


def reference(node: Expr, my: ClassAd, target: ClassAd | None, inside: str = "") -> Any:
    """The value by the reference form alone: a watched evaluation runs no functions."""
    state = EvaluationState(my, target, my, inside)
    state.watched = True
    return module.REFERENCE[type(node)](node, state, my)


@cache
def function_of(node: Expr) -> Callable[..., Any] | None:
    return compile_expression(node, module._AROUND)


def compiled(node: Expr, my: ClassAd, target: ClassAd | None) -> Any:
    run = function_of(node)
    assert run is not None or isinstance(node, Literal)
    if run is None:
        return reference(node, my, target)
    return run(my, target)


def with_functions(*ads: ClassAd | None) -> None:
    """Makes functions of all that the ads hold."""
    for ad in ads:
        for held in ad._held.values() if ad is not None else ():
            if isinstance(held, Expr):
                object.__setattr__(held, "run", function_of(held))


@settings(max_examples=cases(800))
@given(testing.expressions() | strategies.expressions() | conditions(), ads, ads | st.none())
def test_compiled_is_reference(node: Expr, my: ClassAd, target: ClassAd | None) -> None:
    assert canonical(compiled(node, my, target)) == canonical(reference(node, my, target))


@settings(max_examples=cases(600))
@given(ads, ads | st.none())
def test_compiled_attributes_are_reference(my: ClassAd, target: ClassAd | None) -> None:
    """Attributes that lead to each other, in circles too."""
    with_functions(my, target)
    for name in my:
        node, folded = my.expr(name), ascii_fold(name)
        expected = canonical(reference(node, my, target, folded))
        assert canonical(evaluate_attribute(my, folded, target)) == expected


@settings(max_examples=cases(600))
@given(ads, ads, st.lists(st.tuples(st.sampled_from(NAMES), contents), max_size=2))
def test_what_an_ad_refers_to_may_be_part_of_a_function(
    my: ClassAd, target: ClassAd, others: list[tuple[str, Any]]
) -> None:
    """Functions made for one ad, in that ad and in one that differs from it."""
    for held in my._held.values():
        if isinstance(held, Expr):
            object.__setattr__(held, "run", compile_expression(held, module._AROUND, my._held))
    differing = ClassAd({**my, **dict(others)})
    for ad in (my, differing):
        for name in ad:
            node, folded = ad.expr(name), ascii_fold(name)
            expected = canonical(reference(node, ad, target, folded))
            assert canonical(evaluate_attribute(ad, folded, target)) == expected
            for inside in map(ascii_fold, ad):
                expected = canonical(reference(node, ad, target, inside))
                assert canonical(evaluate(node, ad, target, inside)) == expected


def test_what_is_part_of_a_function_is_not_for_what_stands_in_it() -> None:
    ad = parse_ad("[ part = whole > 1; whole = 2 ]")
    node = parse_expr("part || false")
    run = compile_expression(node, module._AROUND, ad._held)
    assert run is not None
    assert run(ad, None) is True
    assert run(ad, None, None, "part") is UNDEFINED
    circle = parse_ad("[ part = whole > 1; whole = part ]")
    assert run(circle, None) is UNDEFINED
    state = EvaluationState(ad, None, ad)
    assert run(ad, None, state) is True
    assert state.steps == 3, "where work is counted, that of the part is"


@pytest.mark.parametrize(("text", "ad"), HOSTILE.values(), ids=HOSTILE.keys())
def test_too_much_is_an_error_in_functions_too(text: str, ad: str) -> None:
    expression, my = parse_expr(text), parse_ad(ad)
    with_functions(my, ClassAd({"expression": expression}))
    start = time.thread_time()
    assert is_error(expression.eval(my))
    assert time.thread_time() - start < 20, "seconds, where without bounds it would be hours"


@settings(max_examples=cases(300))
@given(conditions(), ads, ads)
def test_an_expression_keeps_its_value_when_it_becomes_a_function(
    node: Expr, my: ClassAd, target: ClassAd
) -> None:
    before = canonical(reference(node, my, target))
    for _ in range(module.COMPILE_AFTER + 2):
        assert canonical(node.eval(my, target)) == before
    assert isinstance(node, Literal) or node.run is not None


def test_a_threshold_that_was_passed_before_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    node = parse_expr("used_often + 1")
    with monkeypatch.context() as patched:
        patched.setattr(module, "COMPILE_AFTER", 1 << 60)
        for _ in range(100):
            node.eval(ClassAd())
    node.eval(ClassAd())
    assert node.run is not None


EDGES: tuple[Any, ...] = (
    MIN_INT, MIN_INT + 1, -(2**53) - 1, -7, -1, 0, 1, 2, 7, 2**53, 2**53 + 1, MAX_INT - 1, MAX_INT,
    -0.0, 0.0, 0.5, -2.5, 9007199254740992.0, 9.3e18, float("inf"), float("-inf"), float("nan"),
    True, False, "", "a", "A", "10", UNDEFINED, ERROR, [1],
)  # fmt: skip


@pytest.mark.parametrize("operator", sorted(BINARY))
def test_every_operator_on_every_pair_of_edges(operator: str) -> None:
    """Both operands in the ad, and the right one as a constant: both ways to reach them."""
    x, y = Attr(None, "x", False), Attr(None, "y", False)
    both = Binary(operator, x, y)
    for second in EDGES:
        constant = Binary(operator, x, literal(second))
        for first in EDGES:
            my = ClassAd({"x": first, "y": second})
            expected = canonical(reference(both, my, None))
            assert canonical(compiled(both, my, None)) == expected, (first, operator, second)
            assert canonical(compiled(constant, my, None)) == expected, (first, operator, second)


def test_generated_source_holds_no_text_of_the_expression() -> None:
    evil = Binary(
        "==", Attr(None, "__import__('os').system('x')\n", False), Literal("'; import os\n")
    )
    run = compile_expression(evil, module._AROUND)
    assert run is not None
    assert all("os" not in name and "import" not in name for name in run.__code__.co_names)


@pytest.mark.parametrize(
    "text",
    [
        "member(5, l)", "size(split(s))", 'strcat("a", s)', 'join(",", l)', "sum(l)",
        'stringListMember("x", s)', "member(size(l), l) && size(s) > 3",
    ],
)  # fmt: skip
def test_both_forms_count_the_same_steps(text: str) -> None:
    ad = ClassAd({"s": "a " * 4000, "l": list(range(1000))})
    node = parse_expr(text)
    run = compile_expression(node, module._AROUND)
    assert run is not None
    slow, fast = EvaluationState(ad, None), EvaluationState(ad, None)
    module.REFERENCE[type(node)](node, slow, ad)
    run(ad, None, fast)
    assert slow.steps == fast.steps > 0


def test_expressions_of_one_shape_share_their_code() -> None:
    ad = parse_ad("[ Memory = 5; Disk = 7 ]")
    codes = []
    for text, expected in (
        ("Memory >= 5", True),
        ("Disk >= 6", True),
        ("Disk >= 8", False),
        ("Disk < 8", True),
    ):
        run = compile_expression(parse_expr(text), module._AROUND)
        assert run is not None
        assert run(ad, None) is expected
        codes.append(getattr(run, "__code__", None))
    assert codes[0] is codes[1] is codes[2]
    assert codes[0] is not codes[3]
