from __future__ import annotations

import pytest

from matchmaker import ClassAd, Expr, parse_expr, reduce
from matchmaker.classad.nodes import TRUE, Binary, Literal
from matchmaker.reduction import simplify
from matchmaker.reduction.simplify import Demand
from tests.paranoid import UnsoundError, check, paranoid


@pytest.mark.parametrize(
    ("before", "demand", "after"),
    [
        ("x > 5", simplify.MATCH, "x >= 5"),
        ("!(x > 5)", simplify.OUTCOME, "x <= 5"),  # not the same for NaN
        ("x > 5 || true", simplify.MATCH, "true"),  # not true where x is a text
        ("x && undefined", simplify.OUTCOME, "undefined"),
        ('x == "a"', simplify.VALUE, 'x is "a"'),
    ],
)
def test_an_unsound_rewrite_is_found(before: str, demand: frozenset[str], after: str) -> None:
    with pytest.raises(UnsoundError, match=r"became .* for"):
        check(parse_expr(before), demand, parse_expr(after))


def mirrored_wrongly(node: Binary, demand: Demand) -> Expr | None:
    if isinstance(node.left, Literal):
        return Binary(node.operator, node.right, node.left)
    return None


# Laws that others follow, each with a requirement that it makes another one of.
WRONG = {
    "a negation is as good as what it negates": (
        "not_", lambda operand, demand: operand, "!(other.x > 5) && 1 < 2"
    ),
    "a || true is true": (
        "join",
        lambda op, a, b, demand: (
            TRUE if b is TRUE and op == "||" else simplify.join(op, a, b, demand)
        ),
        "other.x > 5 || 1 < 2",
    ),
    "what is undefined is left out": (
        "join",
        lambda op, a, b, demand: a if isinstance(b, Literal) else simplify.join(op, a, b, demand),
        "other.x > 1 ? other.x > 5 && other.missing > 1 : false",
    ),
    "5 < x is x < 5": (
        "constant_to_the_right", mirrored_wrongly, "5 < other.x"
    ),
    "c ? true : true is true": (
        "choose", lambda c, a, b, demand: a if a is b else simplify.choose(c, a, b, demand),
        "other.x > 5 ? 1 < 2 : 2 < 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("law", WRONG)
def test_a_wrong_law_fails_in_paranoid_mode(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, text = WRONG[law]
    job = ClassAd({"Requirements": parse_expr(text)})
    with paranoid():
        right = reduce(job, ClassAd(), lambda name: "host" if name == "x" else "queue")
    monkeypatch.setattr(simplify, name, wrong)
    with pytest.raises(UnsoundError, match=r"became .* for"), paranoid():
        reduce(right.job, ClassAd(), lambda name: "host" if name == "x" else "queue")


def test_the_largest_integers_are_looked_at_too() -> None:
    node = parse_expr(f"x < {2**63 - 1} && x > -{2**63 - 1} - 1 && 1 < 2")
    with paranoid():
        assert str(simplify.simplify(node)) == f"x < {2**63 - 1} && x > -{2**63}"


def test_the_mode_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simplify, "watchers", [])
    with paranoid():
        assert simplify.watchers
    assert not simplify.watchers


def test_the_steps_of_a_clause_are_told() -> None:
    wanted = parse_expr("other.x > 5 ? other.q > 1 : other.q > 2")
    job = ClassAd({"Requirements": wanted})
    made = reduce(job, ClassAd({"q": 2}), lambda name: "host" if name == "x" else "queue")
    (fate,) = made.fates
    assert str(fate.bound) == "other.x > 5 ? true : false"
    assert [(str(a), str(b)) for a, b in fate.steps()] == [(str(fate.bound), "other.x > 5")]
    assert "with the facts: other.x > 5 ? true : false" in made.explain(steps=True)
