from __future__ import annotations

import pytest

from matchmaker import ClassAd, parse_expr, reduce
from matchmaker.reduction import simplify as laws
from matchmaker.reduction.paranoid import UnsoundError, check, paranoid


@pytest.mark.parametrize(
    ("before", "demand", "after"),
    [
        ("x > 5", laws.MATCH, "x >= 5"),
        ("!(x > 5)", laws.OUTCOME, "x <= 5"),  # not the same for NaN
        ("x > 5 || true", laws.MATCH, "true"),  # not true where x is a text
        ("x && undefined", laws.OUTCOME, "undefined"),
        ('x == "a"', laws.VALUE, 'x is "a"'),
    ],
)
def test_an_unsound_rewrite_is_found(before: str, demand: frozenset[str], after: str) -> None:
    with pytest.raises(UnsoundError, match=r"became .* for"):
        check(parse_expr(before), demand, parse_expr(after))


def test_a_wrong_law_fails_in_paranoid_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    # The law that BLAH follows: a negation is as good as what it negates.
    monkeypatch.setattr(laws, "not_", lambda operand, demand: operand)
    job = ClassAd({"Requirements": parse_expr("!(other.x > 5) && 1 < 2")})
    with pytest.raises(UnsoundError), paranoid():
        reduce(job, ClassAd(), lambda name: "host")


def test_the_mode_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "_watchers", [])
    with paranoid():
        assert laws._watchers
    assert not laws._watchers


def test_the_steps_of_a_clause_are_told() -> None:
    wanted = parse_expr("other.x > 5 ? other.q > 1 : other.q > 2")
    job = ClassAd({"Requirements": wanted})
    made = reduce(job, ClassAd({"q": 2}), lambda name: "host" if name == "x" else "queue")
    (fate,) = made.fates
    assert str(fate.bound) == "other.x > 5 ? true : false"
    assert [(str(a), str(b)) for a, b in fate.steps()] == [(str(fate.bound), "other.x > 5")]
    assert "with the facts: other.x > 5 ? true : false" in made.explain(steps=True)
