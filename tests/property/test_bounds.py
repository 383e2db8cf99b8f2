"""Bounds say the same as the condition; the hull says less, and one alternative more."""

from __future__ import annotations

import sys
from functools import reduce as fold

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr, parse_expr
from matchmaker._limits import REDUCTION_LIMITS as LIMITS
from matchmaker.classad.nodes import Attr, Binary, Call, Literal, Ternary, Unary
from matchmaker.classad.operators import truth
from matchmaker.classad.values import ERROR, UNDEFINED, Value
from matchmaker.reduction.boxes import bounds, comes_to
from matchmaker.reduction.domains import ANY, NOTHING, NUMBERS, Box, Domain, numbers, widened
from tests.cases import cases

NAMES = ("HostA", "HostB", "HostC")

scalars = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -1.5, 2.0, float("nan"), float("inf"), 2**53, 2.0**53, 2**53 + 1]),
    st.booleans(),
    st.sampled_from(["a", "A", "b", ""]),
    st.just(UNDEFINED),
    st.just(ERROR),
)
values = scalars | st.lists(scalars, max_size=3)
hosts = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, values)).map(ClassAd)


def host(name: str) -> Expr:
    return Attr(Attr(None, "other", False), name, False)


attributes = st.sampled_from(NAMES).map(host)
relations = st.sampled_from(["<", "<=", ">", ">=", "==", "!=", "is", "isnt"])
conditions = st.one_of(
    st.builds(Binary, relations, attributes, scalars.map(Literal)),
    st.builds(Binary, relations, attributes, scalars.map(Literal)),
    st.builds(Binary, relations, attributes, attributes),
    st.builds(lambda t, a: Call("member", (Literal(t), a)), st.sampled_from("aAb"), attributes),
    st.builds(
        lambda f, a: Call(f, (a,)),
        st.sampled_from(["isUndefined", "isString", "isList", "isError", "isInteger"]),
        attributes,
    ),
    attributes,
    scalars.map(Literal),
    st.sampled_from(NAMES).map(
        lambda n: parse_expr(f"isInteger(other.{n}) || isReal(other.{n}) || isBoolean(other.{n})")
    ),
)


def joined(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Binary, st.sampled_from(["&&", "||"]), inner, inner),
        st.builds(Binary, st.sampled_from(["&&", "||"]), inner, inner),
        st.builds(Unary, st.just("!"), inner),
        st.builds(Ternary, inner, inner, inner),
    )


trees = st.recursive(conditions, joined, max_leaves=10)


@settings(max_examples=cases(800))
@given(condition=trees, several=st.lists(hosts, min_size=1, max_size=6))
def test_necessary_holds_exact_holds_sufficient(condition: Expr, several: list[ClassAd]) -> None:
    found = bounds(condition)
    for each in several:
        wanted = truth(condition.eval(target=each)) is True
        assert found.accepts(each) == wanted, (found, each)
        if wanted:
            assert found.necessary is not None
            assert found.necessary.accepts(each), (found, each)
        if found.sufficient is not None and found.sufficient.accepts(each):
            assert wanted, (found, each)
        if found.necessary is None:
            assert not wanted


@settings(max_examples=cases(250))
@given(condition=trees, several=st.lists(hosts, min_size=1, max_size=6))
def test_what_is_known_of_hosts_changes_nothing_for_those_hosts(
    condition: Expr, several: list[ClassAd]
) -> None:
    found = bounds(condition, lambda name: NUMBERS if name == "hosta" else ANY)
    for each in several:
        if each.eval("HostA") in NUMBERS:
            assert found.accepts(each) == (truth(condition.eval(target=each)) is True)


@given(condition=trees, outcomes=st.sets(st.sampled_from("TFUE"), min_size=1), each=hosts)
def test_an_outcome_can_be_asked_for(condition: Expr, outcomes: set[str], each: ClassAd) -> None:
    value = truth(condition.eval(target=each))
    outcome = (
        "T" if value is True else "F" if value is False else "U" if value is UNDEFINED else "E"
    )
    asked = truth(comes_to(condition, outcomes).eval(target=each)) is True
    assert asked == (outcome in outcomes)


domains = st.recursive(
    st.one_of(
        st.builds(
            numbers,
            st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
            st.integers(-3, 3) | st.sampled_from([0.5, -1.5]),
        ),
        st.sets(st.sampled_from(["a", "b", ""])).map(lambda t: Domain(texts=frozenset(t))),
        st.builds(
            Domain,
            nan=st.booleans(), missing=st.booleans(), lists=st.booleans(), other=st.booleans(),
        ),
    ),
    lambda inner: inner.map(lambda d: ~d)
    | st.builds(lambda a, b: a & b, inner, inner)
    | st.builds(lambda a, b: a | b, inner, inner),
)  # fmt: skip


@given(a=domains, b=domains, value=values)
@example(a=numbers("<", 3), b=~numbers("<", 3), value=float("nan"))
def test_domains_are_sets(a: Domain, b: Domain, value: Value) -> None:
    assert (value in a & b) == (value in a and value in b)
    assert (value in a | b) == (value in a or value in b)
    assert (value in ~a) != (value in a)
    assert value in ANY
    assert value not in NOTHING
    assert ~~a == a
    assert a & ~a == NOTHING
    assert a <= a | b
    if a <= b and value in a:
        assert value in b


def test_an_explosion_of_alternatives_stays_within_its_bound_and_true(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []

    def counted(box: Box, other: Box) -> Box:
        compared.append(len(box.domains))
        return widened(box, other)

    monkeypatch.setattr(sys.modules["matchmaker.reduction.boxes"], "widened", counted)
    text = " && ".join(f"(other.A{n} > {n} || other.B{n} > {n})" for n in range(40))
    condition = parse_expr(text)
    found = bounds(condition)
    assert 0 < len(found.boxes) <= LIMITS.boxes
    good = ClassAd({f"A{n}": n + 1 for n in range(40)})
    assert found.accepts(good)
    good["A7"] = 7
    assert not found.accepts(good)
    assert sum(compared) < LIMITS.united / 4


def test_chains_of_thousands_are_bounded_too() -> None:
    for operator in ("&&", "||"):
        parts: list[Expr] = [parse_expr(f"other.A{n % 7} > {n}") for n in range(3000)]
        chain = fold(lambda left, right: Binary(operator, left, right), parts)  # noqa: B023
        assert len(bounds(chain).boxes) <= LIMITS.boxes
