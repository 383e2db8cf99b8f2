"""Laws of the language: what holds for every expression, every ad and every value."""

from __future__ import annotations

import copy
import math
import pickle
from collections import OrderedDict
from datetime import datetime, timedelta
from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr, ParseError, parse_ad, parse_expr, testing
from matchmaker.classad import nodes
from matchmaker.classad.ad import literal
from matchmaker.classad.functions import FUNCTIONS
from matchmaker.classad.operators import BINARY, UNARY, choose, logical_and, logical_not, logical_or
from matchmaker.classad.values import (
    MAX_INT,
    MIN_INT,
    UNDEFINED,
    ErrorType,
    UndefinedType,
    Value,
    format_time,
    is_error,
    parse_absolute,
    parse_relative,
)
from matchmaker.classad.walks import children, conjunction, conjuncts, fold, postorder, rebuild
from tests.canonical import fields_of
from tests.strategies import (
    ads,
    boolean_expressions,
    expressions,
    number_expressions,
    plain_values,
    text_expressions,
    texts,
    times,
    values,
)

KINDS = (bool, int, float, str, list, ClassAd, datetime, timedelta, UndefinedType, ErrorType)

any_trees = st.one_of(
    testing.expressions(),
    expressions(),
    number_expressions(),
    text_expressions(),
    boolean_expressions(),
)


def same(left: Value, right: Value) -> bool:
    """Whether two values are of one type and equal, NaN to itself too."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or repr(left) == repr(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@given(any_trees)
def test_text_reads_back_as_the_same_object(tree: Expr) -> None:
    assert parse_expr(str(tree)) is tree


@given(ads())
def test_ad_reads_back_equal(ad: ClassAd) -> None:
    assert parse_ad(str(ad)) == ad
    assert parse_ad(str(ad)).expression() is ad.expression()


class Kind(IntEnum):
    """An integer that is not of the type itself."""

    ONE = 1


held = st.one_of(
    values(),
    ads(),
    ads().map(lambda ad: ad.expression()),
    st.sampled_from([
        Kind.ONE, (1, (2,)), {"x": 1}, 2**63, -(2**63) - 1, datetime(2024, 1, 1),  # noqa: DTZ001 - refused
        b"x", None,
        ErrorType("why"),
    ]),
)  # fmt: skip
spellings = st.sampled_from(["a", "A", "b", "Requirements", "REQUIREMENTS", "\u212a", "k", "", 7])


@given(st.dictionaries(spellings, held, max_size=6), st.dictionaries(st.sampled_from("aAbc"), held))
def test_an_ad_of_a_mapping_is_that_of_its_items_one_by_one(
    given_: dict[str, Value], more: dict[str, Value]
) -> None:
    def state(ad: ClassAd) -> object:
        contents = [(n, type(c), repr(c)) for n, c in ad._held.items()]
        return list(ad), contents, [repr(e) for e in ad.expressions().values()]

    expected = ClassAd()
    try:
        for name, value in [*given_.items(), *more.items()]:
            expected[name] = value
    except (TypeError, ValueError):
        with pytest.raises((TypeError, ValueError)):
            ClassAd(given_, **more)
        return
    for made in (
        ClassAd(given_, **more),
        ClassAd(list(given_.items()), **more),
        ClassAd(OrderedDict(given_), **more),
    ):
        assert made == expected
        assert state(made) == state(expected)
        assert made.parent is None
    # Ads of one shape share nothing that one of them could change.
    one, other = ClassAd(given_, **more), ClassAd(given_, **more)
    one["Fresh"] = 1
    for name in list(expected):
        del one[name]
    assert other == expected
    assert state(other) == state(expected)


@given(values())
def test_value_reads_back_equal(value: Value) -> None:
    tree = literal(value)
    assert parse_expr(str(tree)) is tree
    if not isinstance(value, ClassAd):
        assert same(tree.eval(), value) or is_error(value) or "ClassAd" in repr(value)


@given(any_trees, ads(), ads())
def test_evaluation_never_raises(tree: Expr, my: ClassAd, target: ClassAd) -> None:
    for value in (tree.eval(), tree.eval(my), tree.eval(my, target)):
        assert isinstance(value, KINDS)
        if type(value) is int:
            assert MIN_INT <= value <= MAX_INT


@given(any_trees, ads(), ads())
def test_evaluation_is_repeatable(tree: Expr, my: ClassAd, target: ClassAd) -> None:
    assert same(tree.eval(my, target), tree.eval(my, target))


@given(ads(), ads())
def test_evaluation_leaves_ads_as_they_are(my: ClassAd, target: ClassAd) -> None:
    before = str(my), str(target)
    for name in my:
        my.eval(name, target=target)
    assert (str(my), str(target)) == before


@given(any_trees)
def test_copies_are_the_same_object(tree: Expr) -> None:
    assert copy.deepcopy(tree) is tree
    assert pickle.loads(pickle.dumps(tree)) is tree  # noqa: S301 - our own
    assert type(tree)(*fields_of(tree)) is tree


@given(any_trees)
def test_walks_visit_each_node_once(tree: Expr) -> None:
    walked = list(postorder(tree))
    assert len(walked) == len(set(walked))
    assert walked[-1] is tree
    place = {node: index for index, node in enumerate(walked)}
    visited: list[Expr] = []

    def step(node: Expr, parts: tuple[Expr, ...]) -> Expr:
        visited.append(node)
        assert parts == children(node)
        assert all(place[part] < place[node] for part in parts)
        return rebuild(node, parts)

    assert fold(tree, step) is tree
    assert visited == walked


@given(any_trees)
def test_references_are_names_of_the_tree(tree: Expr) -> None:
    found = tree.references()
    text = str(tree).lower()
    for name in (*found.my, *found.target, *found.unscoped):
        assert name.lower() in text


@given(st.lists(boolean_expressions(), min_size=1, max_size=6), ads())
def test_clauses_together_are_the_requirement(trees: list[Expr], my: ClassAd) -> None:
    whole = conjunction(trees)
    clauses = conjuncts(whole)
    assert conjunction(clauses).eval(my) is True or whole.eval(my) is not True
    if all(clause.eval(my) is True for clause in clauses):
        assert logical_and(True, whole.eval(my)) is True


@given(plain_values(), plain_values())
def test_binary_operators_are_total(left: Value, right: Value) -> None:
    for operator in BINARY.values():
        result = operator(left, right)
        assert isinstance(result, KINDS)
        if type(result) is int:
            assert MIN_INT <= result <= MAX_INT


@given(values())
def test_unary_operators_are_total(value: Value) -> None:
    for operator in UNARY.values():
        assert isinstance(operator(value), KINDS)


@given(values(), values())
def test_operators_on_literals_are_operators_on_values(left: Value, right: Value) -> None:
    if isinstance(left, (list, ClassAd)) or isinstance(right, (list, ClassAd)):
        return
    for symbol, operator in BINARY.items():
        tree = nodes.Binary(symbol, nodes.Literal(left), nodes.Literal(right))
        assert same(tree.eval(), operator(left, right)), tree


@given(plain_values(), plain_values())
def test_and_is_dual_to_or(left: Value, right: Value) -> None:
    assert same(
        logical_not(logical_and(left, right)), logical_or(logical_not(left), logical_not(right))
    )


@given(plain_values(), plain_values())
def test_comparisons_belong_together(left: Value, right: Value) -> None:
    assert same(BINARY["!="](left, right), logical_not(BINARY["=="](left, right)))
    assert same(BINARY[">"](left, right), BINARY["<"](right, left))
    assert same(BINARY[">="](left, right), BINARY["<="](right, left))
    assert same(BINARY["isnt"](left, right), logical_not(BINARY["is"](left, right)))
    assert same(BINARY["is"](left, right), BINARY["is"](right, left))


@given(plain_values(), values(), values())
def test_choice_takes_one_branch(condition: Value, one: Value, other: Value) -> None:
    chosen = choose(condition, one, other)
    assert chosen is one or chosen is other or chosen is UNDEFINED or is_error(chosen)


@given(st.sampled_from(sorted(set(FUNCTIONS) - {"random"})), st.lists(values(), max_size=4))
def test_strict_functions_never_raise(name: str, arguments: list[Value]) -> None:
    function = FUNCTIONS[name]
    if function.lazy or not function.accepts(len(arguments)):
        return
    result = function.call(*arguments)
    assert isinstance(result, KINDS)
    if type(result) is int:
        assert MIN_INT <= result <= MAX_INT


@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(expressions(3), max_size=4), ads())
def test_calls_never_raise(name: str, arguments: list[Expr], my: ClassAd) -> None:
    text = f"{name}({', '.join(map(str, arguments))})"
    assert isinstance(parse_expr(text).eval(my), KINDS)


@given(times())
def test_times_read_back_equal(value: datetime | timedelta) -> None:
    text = format_time(value)
    inner = text[text.index('"') + 1 : -2]
    read = parse_absolute(inner) if isinstance(value, datetime) else parse_relative(inner)
    assert read == value
    if isinstance(value, datetime) and isinstance(read, datetime):
        assert read.utcoffset() == value.utcoffset()
    assert parse_expr(text) is nodes.Literal(value)


@given(texts() | st.text(st.sampled_from("ab1 .,;:+-*/?\"'()[]{}=!&|<>\\\n"), max_size=30))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    fault: ParseError | None = None
    try:
        tree = parse_expr(text)
    except ParseError as error:
        fault = error
    else:
        assert parse_expr(str(tree)) is tree
    if fault is not None:
        assert fault.line >= 1
        assert fault.column >= 1
        assert str(fault)


@given(texts(), texts(), texts())
def test_pattern_functions_never_raise(pattern: str, text: str, substitute: str) -> None:
    for name in ("regexp", "regexps", "replace", "replaceall"):
        function = FUNCTIONS[name]
        given_ = (pattern, text, substitute)[: function.least]
        assert isinstance(function.call(*given_), (bool, str, ErrorType))
