"""An ad is a mapping: the laws of MutableMapping, held to a dictionary of Python values."""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import UTC, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import matchmaker as mm
from matchmaker import ERROR, UNDEFINED, ClassAd, Expr, parse_expr
from matchmaker.classad.ad import literal
from tests import strategies

NAMES = ("Cpus", "Memory", "Name", "Own Name", "a.b")

plain = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
    | st.datetimes(timezones=st.just(UTC))
    | st.timedeltas(timedelta(-(10**6)), timedelta(10**6))
    | st.sampled_from([UNDEFINED, ERROR])
)
nested = st.dictionaries(st.sampled_from(NAMES[:3]), plain, max_size=3).map(ClassAd)
values = st.recursive(plain | nested, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
formulas = st.sampled_from(
    [parse_expr(text) for text in ("Cpus * 2", "{1, x}", "-(5)", "TARGET.a", "f()", "{{x}}")]
)
contents: st.SearchStrategy[Any] = values | formulas


def alike(one: Any, other: Any) -> bool:
    """Equality that tells true from 1 and 1 from 1.0, as ads do."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and bool(one == other)


class Mapping(RuleBasedStateMachine):
    """An ad beside a dictionary of spellings and values under folded names."""

    def __init__(self) -> None:
        super().__init__()
        self.ad: MutableMapping[str, Any] = ClassAd()
        self.model: dict[str, tuple[str, Any]] = {}

    spelled = st.sampled_from(NAMES).flatmap(lambda n: st.sampled_from([n, n.upper(), n.lower()]))

    @staticmethod
    def folded(name: str) -> str:
        return "".join(c.lower() if c.isascii() else c for c in name)

    def _set(self, name: str, value: Any) -> None:
        kept = self.model.get(self.folded(name), (name, None))[0]
        self.model[self.folded(name)] = (kept, value)

    @rule(name=spelled, value=contents)
    def is_set(self, name: str, value: Any) -> None:
        self.ad[name] = value
        self._set(name, value)
        assert alike(self.ad[name], value)

    @rule(name=spelled, value=contents)
    def is_set_by_default(self, name: str, value: Any) -> None:
        found = self.ad.setdefault(name, value)
        if self.folded(name) not in self.model:
            self._set(name, value)
        assert alike(found, self.model[self.folded(name)][1])

    @rule(given=st.dictionaries(spelled, contents, max_size=3))
    def is_updated(self, given: dict[str, Any]) -> None:
        self.ad.update(given)
        for name, value in given.items():
            self._set(name, value)

    @rule(name=spelled)
    def is_popped(self, name: str) -> None:
        _, wanted = self.model.pop(self.folded(name), ("", UNDEFINED))
        assert alike(self.ad.pop(name, UNDEFINED), wanted)

    @rule(name=spelled)
    def is_deleted(self, name: str) -> None:
        if self.model.pop(self.folded(name), None) is None:
            with pytest.raises(KeyError):
                del self.ad[name]
            return
        del self.ad[name]

    @precondition(lambda self: self.model)
    @rule()
    def an_item_is_popped(self) -> None:
        name, value = self.ad.popitem()
        kept, wanted = self.model.pop(self.folded(name))
        assert (name, alike(value, wanted)) == (kept, True)

    @rule()
    def is_made_anew(self) -> None:
        self.ad = ClassAd(dict(self.ad))

    @rule()
    def is_cleared(self) -> None:
        self.ad.clear()
        self.model.clear()

    @invariant()
    def they_agree(self) -> None:
        same = dict(self.model.values())
        assert (self.ad == same, same == self.ad) == (True, True)
        assert self.ad != {**same, "one more": 1}
        assert self.ad != {**same, "no value": object()}
        assert len(self.ad) == len(self.model)
        assert list(self.ad) == [kept for kept, _ in self.model.values()]
        wanted = [value for _, value in self.model.values()]
        assert all(map(alike, self.ad.values(), wanted))
        assert all(map(alike, [value for _, value in self.ad.items()], wanted))
        assert all(alike(self.ad.get(name.upper()), self.ad[name]) for name in self.ad)
        assert self.ad.get("nowhere") is None
        assert "nowhere" not in self.ad


TestMapping = Mapping.TestCase
TestMapping.settings = settings(max_examples=60, stateful_step_count=20)


@given(strategies.ads())
def test_values_and_expressions_are_of_one_ad(ad: ClassAd) -> None:
    assert ClassAd(dict(ad)) == ClassAd(ad.expressions()) == ad
    for name, value in ad.items():
        expression = ad.expr(name)
        assert isinstance(expression, Expr)
        if not isinstance(value, Expr):
            assert literal(value) is expression
        else:
            assert value is expression


@given(strategies.ads())
def test_a_value_is_the_value_of_the_attribute(ad: ClassAd) -> None:
    for name, value in ad.items():
        if not isinstance(value, Expr):
            evaluated = ad.eval(name)
            assert literal(evaluated) is literal(value) or isinstance(value, list | ClassAd)


@pytest.fixture(scope="module")
def classad2() -> Any:
    """The bindings, with the semantics that their users see."""
    pytest.importorskip("htcondor2")
    return pytest.importorskip("classad2")


@pytest.mark.oracle
@given(ad=strategies.ads())
def test_the_bindings_give_an_expression_for_the_same_attributes(
    ad: ClassAd, classad2: Any
) -> None:
    theirs = classad2.ClassAd(str(ad))
    for name, value in ad.items():
        held = theirs[name]
        # Theirs may be a list with expressions in it, which is an expression here; and they read a
        # real without a literal, real("INF"), as a call.
        if not isinstance(held, list) and not str(ad.expr(name)).startswith("real("):
            assert isinstance(value, Expr) == (type(held).__name__ == "ExprTree"), (name, value)


def test_an_expression_has_no_truth_value() -> None:
    ad = mm.parse_ad("[ Flag = x && false ]")
    with pytest.raises(
        TypeError, match=r"x && false is neither true nor false: .* ad\.eval\(name\)"
    ):
        bool(ad["Flag"])
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(parse_expr("1"))


def test_what_is_got_is_a_copy() -> None:
    ad = mm.parse_ad("[ L = {1, 2}; N = [ a = 1; b = a ] ]")
    ad["L"].append(3)  # type: ignore[union-attr]
    ad["N"]["a"] = 2  # type: ignore[index,call-overload]
    assert str(ad) == "[ L = {1, 2}; N = [ a = 1; b = a ] ]"
    inner = ad["N"]
    assert isinstance(inner, ClassAd)
    assert inner.eval("b") == 1
    assert inner.parent is ad


def test_the_second_argument_of_eval_is_a_type() -> None:
    ad = mm.parse_ad("[ Twice = TARGET.Cpus * 2 ]")
    other = mm.parse_ad("[ Cpus = 2 ]")
    assert ad.eval("Twice", target=other) == ad.eval("Twice", int, target=other) == 4
    with pytest.raises(TypeError, match="the other ad is given as target="):
        ad.eval("Twice", other)  # type: ignore[call-overload]
