"""Requirements that are made to take long: the work is bounded, and the answer or refusal clear."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from matchmaker import ClassAd, Reduction, ReductionError, Verdict, parse_ad, parse_expr, reduce
from matchmaker._limits import REDUCTION_LIMITS as LIMITS
from matchmaker.classad.nodes import Binary, Expr, Unary
from matchmaker.classad.walks import Names, conjuncts, names_of
from matchmaker.reduction import bind, bounds
from matchmaker.reduction.reduce import contradict
from tests.limits import fields


def reduced(attributes: str) -> Reduction:
    return reduce(parse_ad(f"[ {attributes} ]"), ClassAd(), scope)


def scope(name: str) -> str:
    return "host" if name.lower().startswith("host") else "policy"


@pytest.mark.parametrize("operator", ["+", "==", "|", "<"])
def test_a_chain_of_thousands_is_no_deeper_than_one_link(operator: str) -> None:
    text = f" {operator} ".join(["other.HostA"] * 3000)
    assert reduced(f"Requirements = ({text}) is 5").residual is parse_expr(f"({text}) is 5")


DOUBLED = ("a{0} || a{0}", "a{0} ? other.HostB > {0} : !a{0}", "a{0} + a{0}")


@pytest.mark.parametrize("inner", DOUBLED)
def test_names_that_double_each_other_are_refused(inner: str) -> None:
    chain = "; ".join(f"a{n + 1} = {inner.format(n)}" for n in range(50))
    with pytest.raises(ReductionError, match="more than 100000 steps"):
        reduced(f"a0 = other.HostA > 1; {chain}; Requirements = a50")


def test_a_long_way_from_name_to_name_is_refused() -> None:
    chain = "; ".join(f"a{n + 1} = a{n}" for n in range(3000))
    with pytest.raises(ReductionError, match="too deep"):
        reduced(f"a0 = other.HostA > 1; {chain}; Requirements = a3000")


def test_every_name_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = []

    def noted(node: Expr) -> Names:
        followed.append(node)
        return names_of(node)

    monkeypatch.setattr(bind, "names_of", noted)
    chain = "; ".join(f"a{n + 1} = a{n}" for n in range(100))
    names = " && ".join(f"a{n}" for n in range(101))
    assert reduced(f"a0 = true; {chain}; Requirements = {names}").verdict is Verdict.ALWAYS
    assert len(followed) < 100 * 6


def test_facts_that_take_long_are_not_evaluated_for_each_clause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = "; ".join(f"a{n + 1} = a{n} + a{n}" for n in range(8))
    clauses = " && ".join(f"a8 > {n}" for n in range(300))
    wanted = f"a0 = 1; {chain}; Requirements = {clauses}"
    assert reduced(wanted).verdict is Verdict.NEVER
    monkeypatch.setitem(fields(LIMITS), "evaluated", 100_000)
    with pytest.raises(ReductionError, match="take too long"):
        reduced(wanted)


def test_nesting_that_no_text_has_is_refused() -> None:
    node: Expr = parse_expr("other.HostA")
    for _ in range(20_000):
        node = Binary("is", parse_expr("other.HostB"), Unary("-", node))
    with pytest.raises(ReductionError, match="too deep"):
        reduce(ClassAd({"Requirements": node}), ClassAd(), scope)


def calls(work: Callable[[], object]) -> int:
    """How many functions are called for some work: its cost, the same on every machine."""
    made = 0

    def count(*_: object) -> None:
        nonlocal made
        made += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return made


CLAUSES = {
    "one attribute ruled out of values": "other.HostA != {0}",
    "one attribute ruled out of texts": 'other.HostA != "x{0}"',
    "an attribute each": "other.HostA{0} > {0}",
    "a text of a list each": 'member("x{0}", other.HostA)',
    "alternatives of attributes": "(other.HostA{0} > 1 || other.HostB == {0})",
}


@pytest.mark.parametrize("clause", CLAUSES.values(), ids=CLAUSES)
def test_twice_the_clauses_take_twice_the_work(clause: str) -> None:
    def work(count: int, first: int) -> int:
        wanted = " && ".join(clause.format(n) for n in range(first, first + count))
        condition = parse_expr(wanted)
        return calls(lambda: (bounds(condition), contradict(conjuncts(condition))))

    assert work(400, 1000) < 3 * work(200, 2000)


def test_deeply_nested_ternaries_are_bounded() -> None:
    text = "other.HostZ == 1"
    for number in range(60):
        text = f"(other.HostA{number} > 1 ? {text} : other.HostB{number} < 1)"
    condition = parse_expr(text)
    assert calls(lambda: bounds(condition)) < 3_000_000
    good = ClassAd({f"HostA{n}": 2 for n in range(60)} | {"HostZ": 1})
    bad = ClassAd({f"HostA{n}": 2 for n in range(60)} | {"HostZ": 0})
    assert bounds(condition).accepts(good)
    assert not bounds(condition).accepts(bad)


@pytest.mark.parametrize("count", [60, 800])
@pytest.mark.parametrize(("outer", "inner"), [("&&", "||"), ("||", "&&")])
def test_alternations_have_bounded_bounds(outer: str, inner: str, count: int) -> None:
    parts = [f'(other.HostA > {n} {inner} other.HostB == "x{n}")' for n in range(count)]
    made = reduced(f"Requirements = {f' {outer} '.join(parts)}")
    found = bounds(made.residual)
    assert 0 < len(found.boxes) <= LIMITS.boxes
    good, bad = ClassAd({"HostA": count, "HostB": "x0"}), ClassAd({"HostA": -1, "HostB": "y"})
    assert found.accepts(good)
    assert not found.accepts(bad)
    assert found.necessary is not None
    assert found.necessary.accepts(good)


def test_all_clauses_together_take_no_more_than_some_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each of them alone takes all that a clause may take.
    def clause(number: int) -> str:
        inner = "".join(f" ? other.HostA > {n} : other.HostB < {n + number})" for n in range(40))
        return f"{'(' * 40}other.HostB > {number}{inner}"

    monkeypatch.setitem(fields(LIMITS), "clause_steps", 400)
    condition = parse_expr(" && ".join(clause(n) for n in range(12)))
    found = bounds(condition)
    assert len(found.boxes) <= LIMITS.boxes
    for high in (-1, 5, 50, 100):
        host = ClassAd({"HostA": high, "HostB": 50})
        assert found.accepts(host) is (condition.eval(target=host) is True)
