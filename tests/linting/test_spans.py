from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given

from matchmaker import Expr, ParseError, parse_ad, parse_expr
from matchmaker.classad.nodes import AdExpr, Literal
from matchmaker.classad.walks import children
from matchmaker.linting.model import NodePlace, place_ad, place_expr
from tests import strategies


def places(root: NodePlace) -> Iterator[NodePlace]:
    stack = [root]
    while stack:
        place = stack.pop()
        yield place
        stack.extend(place.parts)


def assert_spans_read_back(text: str, root: NodePlace) -> None:
    for place in places(root):
        assert parse_expr(text[place.start : place.end]) is place.node
        assert parse_expr(text[place.outer_start : place.outer_end]) is place.node
        for name in place.names:
            assert name.text.lower() in text[name.start : name.end].lower() or "'" in text
        if place.operator is not None:
            assert place.start <= place.operator[0] < place.operator[1] < place.end


@given(strategies.expressions())
def test_span_of_every_part_reads_back_as_its_node(expression: Expr) -> None:
    text = str(expression)
    root = place_expr(text)
    assert root.node is parse_expr(text)
    assert_spans_read_back(text, root)


@pytest.mark.parametrize(
    "text",
    [
        '  ( (a)\n + f(1 , "x"  "y")) [ 3 ] ?: -5 // end',
        "- 5 -5 - -5",
        "((((a))))",
        "/* c */ x . y . z [ 'q r' ] ",
        "a ? b : c ? (d) : !e",
        "a is b =?= c isnt d",
        "{ 1, { }, [ x = { 2 } ; ; y = x ] }",
        "'f'(1) + real(\"INF\") + .5 + 1e3",
        ".x.y",
        "a ? : b",
        "\"é\" == \"ü\" && 'ä' < 3",
    ],
)  # fmt: skip
def test_text_with_space_comments_and_parentheses(text: str) -> None:
    root = place_expr(text)
    assert root.node is parse_expr(text)
    assert_spans_read_back(text, root)


def test_children_are_those_of_the_node() -> None:
    root = place_expr("f(a.b, -c[1] + 2 ? {3} : [d = 4])")
    for place in places(root):
        assert tuple(part.node for part in place.parts) == children(place.node)


def test_same_node_has_two_places() -> None:
    left, right = place_expr("x + x").parts
    assert left.node is right.node
    assert (left.start, right.start) == (0, 4)


def test_replaced_duplicates_of_an_ad_are_kept() -> None:
    root = place_ad("[ a = 1; b = 2; A = 3 ]")
    assert isinstance(root.node, AdExpr)
    pairs = zip(root.names, root.parts, strict=True)
    assert [(name.text, str(part.node)) for name, part in pairs] == [
        ("a", "1"), ("b", "2"), ("A", "3"),
    ]  # fmt: skip
    assert parse_ad("[ a = 1; b = 2; A = 3 ]").eval("a") == 3


def test_constant_calls_are_literals() -> None:
    root = place_expr(' real("INF") ')
    assert isinstance(root.node, Literal)
    assert (root.start, root.end) == (1, 12)


def test_long_chains_do_not_nest() -> None:
    text = " || ".join(f"x == {number}" for number in range(3000))
    assert sum(1 for _ in places(place_expr(text))) == 3000 * 4 - 1


@pytest.mark.parametrize("text", ["", "1 +", "a = b", "(" * 300 + ")" * 300, "1" * 30])
def test_errors_are_the_parsers(text: str) -> None:
    with pytest.raises(ParseError) as expected:
        parse_expr(text)
    with pytest.raises(ParseError) as found:
        place_expr(text)
    assert str(found.value) == str(expected.value)


def test_a_byte_order_mark_is_passed_over() -> None:
    place = place_expr("\ufeffCpus + 1")
    assert (str(place.node), place.start, place.end) == ("Cpus + 1", 1, 9)
