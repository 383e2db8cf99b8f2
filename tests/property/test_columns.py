"""What columns make of an expression on many rows is what the scalar form makes of it on each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr, Match, match, parse_ad, parse_expr
from matchmaker.classad.ad import literal
from matchmaker.classad.evaluate import evaluate
from matchmaker.classad.nodes import Binary, Ternary, Unary
from matchmaker.classad.operators import BINARY, UNARY
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED, Value
from matchmaker.matching.columns import evaluator, forms, vectors
from matchmaker.matching.columns import store as stores
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import Evaluator
from matchmaker.matching.columns.masks import MaskCache, Masks, ranks
from matchmaker.matching.columns.store import Store, View
from matchmaker.matching.columns.vectors import ObjectVector, Vector, scalars, values
from matchmaker.matching.ranking import rank_number
from matchmaker.testing import integers
from matchmaker.testing.trees import ARITHMETIC
from tests import strategies
from tests.canonical import canonical
from tests.cases import cases

FORMS = ["as it comes", "one by one forbidden", "not coded", "texts", "sparse"]
"""How columns are held and how readily the scalar form is taken: each way must be right."""


def in_each_form() -> Iterator[None]:
    """Has columns held in one form after the other; a failure tells which."""
    for form in FORMS:
        note(form)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(evaluator, "FEW_ROWS", 0)
            if form != FORMS[0]:
                patched.setattr(evaluator, "FEW", 0)
                patched.setattr(evaluator, "FEW", 0)
            if form in ("not coded", "texts"):
                patched.setattr(forms, "MANY", 0)
                patched.setattr(stores, "SETTLE_EVERY", 0)
            if form == "texts":
                # Whatever does not repeat, not only strings.
                patched.setattr(forms, "_recoded", lambda column, size, many: forms._texts(column))
            if form == "sparse":
                patched.setattr(stores, "DENSE", 0)
                patched.setattr(forms, "SPARSE", 0)
            yield


EDGES = [0, 1, -1, 2, 3, 63, 64, 2**53, 2**53 + 1, MAX_INT, MIN_INT, True, False, 0.0, -0.0, 0.5,
         2.0, -1.5, 2.0**53, 1e308, math.inf, -math.inf, math.nan, UNDEFINED, ERROR]  # fmt: skip


def leaves() -> st.SearchStrategy[Expr]:
    plain = st.sampled_from([*EDGES, "a", "A", "10"]).map(literal)
    return strategies.attributes() | strategies.attributes() | plain


def conditions() -> st.SearchStrategy[Expr]:
    """What policies look like: the shapes that are evaluated by column."""
    relations = st.sampled_from([*strategies.RELATIONS, *ARITHMETIC])
    atoms = st.builds(Binary, relations, leaves(), leaves()) | leaves()
    return st.recursive(
        atoms,
        lambda inner: (
            st.builds(Binary, st.sampled_from(["&&", "||", "?:", "==", "is", "+"]), inner, inner)
            | st.builds(Unary, st.sampled_from("!-+~"), inner)
            | st.builds(Ternary, inner, inner, inner)
        ),
        max_leaves=8,
    )


anything = conditions() | strategies.expressions(max_leaves=6)
contents = st.sampled_from(EDGES) | strategies.plain_values() | conditions() | strategies.values()
jobs = st.dictionaries(
    st.sampled_from([*strategies.NAMES, "Requirements", "Rank"]), contents, max_size=5
).map(ClassAd)


@st.composite
def pools(draw: st.DrawFn) -> list[ClassAd]:
    """Ads that have much in common, as those of machines do."""
    stock = draw(st.lists(contents, min_size=1, max_size=5))
    names = [*strategies.NAMES, "Requirements", "START"]
    cells = st.dictionaries(st.sampled_from(names), st.sampled_from(stock), max_size=6)
    return draw(st.lists(cells.map(ClassAd), min_size=1, max_size=8))


def viewed(ads: list[ClassAd]) -> View:
    store = Store()
    store.extend((str(number), ad) for number, ad in enumerate(ads))
    return store.view()


@given(jobs, pools(), anything, st.sampled_from(Side))
@settings(max_examples=cases(350))
def test_each_row_has_the_value_of_the_scalar_form(
    job: ClassAd, ads: list[ClassAd], node: Expr, side: Side
) -> None:
    expected = [canonical(scalar(node, side, job, ad)) for ad in ads]
    for _ in in_each_form():
        vector = Evaluator(viewed(ads), job, (side, "requirements")).vector(node, side)
        assert [canonical(value) for value in values(vector, len(ads))] == expected


def scalar(node: Expr, side: Side, job: ClassAd, ad: ClassAd) -> Value:
    if side is Side.JOB:
        return evaluate(node, job, ad, "requirements")
    return evaluate(node, ad, job, "requirements")


@given(jobs, pools())
@settings(max_examples=cases(350))
def test_masks_and_ranks_are_those_of_each_match(job: ClassAd, ads: list[ClassAd]) -> None:
    outcomes = [match(job, ad) for ad in ads]
    for _ in in_each_form():
        compare(viewed(ads), job, outcomes)


def compare(view: View, job: ClassAd, outcomes: list[Match]) -> None:
    """Asks twice, since what was found is kept."""
    cache = MaskCache()
    among = np.array([bool(number % 2) for number in range(len(outcomes))])
    for _ in range(2):
        masks = Masks(view, job, cache)
        assert masks.mine().tolist() == [outcome.left is True for outcome in outcomes]
        assert masks.theirs().tolist() == [outcome.right is True for outcome in outcomes]
        some = masks.theirs(among) & among
        assert some.tolist() == [
            bool(number % 2) and o.right is True for number, o in enumerate(outcomes)
        ]
        for rows in (view.rows(), view.rows()[::2]):
            found = ranks(view, job, rows, cache)[0].tolist()
            expected = [rank_number(outcomes[row].rank) for row in rows.tolist()]
            assert [None if math.isnan(r) else r for r in found] == expected


Change: TypeAlias = tuple[ClassAd, int, bool, bool]
"""An ad and its number; whether one of that number is removed instead, and a view taken then."""

changes = st.lists(
    st.tuples(pools().map(lambda ads: ads[0]), st.integers(0, 9), st.booleans(), st.booleans()),
    max_size=8,
)


@given(pools(), changes)
@settings(max_examples=cases(200))
def test_views_stay_and_stores_change(ads: list[ClassAd], steps: list[Change]) -> None:
    for _ in in_each_form():
        change_and_look(ads, steps)


def change_and_look(ads: list[ClassAd], steps: list[Change]) -> None:
    store = Store()
    store.extend((str(number), ad) for number, ad in enumerate(ads))
    expected = {str(number): ad for number, ad in enumerate(ads)}
    views = [(store.view(), dict(expected))]
    for ad, number, remove, look in steps:
        key = str(number)
        if key in expected and remove:
            store.remove(key)
            del expected[key]
        else:
            store.put(key, ad)
            expected[key] = ad
        if look:
            views.append((store.view(), dict(expected)))
    views.append((store.view(), dict(expected)))
    for view, held in views:
        shown = {view.keys[row]: view.ad(row) for row in view.rows().tolist()}
        assert {key: exact(ad) for key, ad in shown.items()} == {
            key: exact(ad) for key, ad in held.items()
        }
        assert len(view) == len(held)


def exact(ad: ClassAd) -> list[tuple[str, str]]:
    return [(name, repr(content)) for name, content in zip(ad, ad._held.values(), strict=True)]


numbers = st.lists(
    st.tuples(st.sampled_from(EDGES) | integers() | st.floats(), st.sampled_from(EDGES)),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("symbol", sorted(vectors.BINARY_KERNELS))
@given(numbers, st.booleans())
@settings(max_examples=60)
def test_each_kernel_is_its_operator(
    symbol: str, pairs: list[tuple[Value, Value]], one_right: bool
) -> None:
    if one_right:
        pairs = [(left, pairs[0][1]) for left, _ in pairs]
    left = scalars(ObjectVector([a for a, _ in pairs]))
    right = scalars(ObjectVector([b for _, b in pairs][: 1 if one_right else None]))
    assert left is not None
    assert right is not None
    found = values(vectors.BINARY_KERNELS[symbol](left, right), len(pairs))
    assert [canonical(v) for v in found] == [canonical(BINARY[symbol](a, b)) for a, b in pairs]


@pytest.mark.parametrize("symbol", sorted(vectors.UNARY_KERNELS))
@given(st.lists(st.sampled_from(EDGES), min_size=1))
def test_each_kernel_of_one_operand_is_its_operator(symbol: str, operands: list[Value]) -> None:
    plain = scalars(ObjectVector(operands))
    assert plain is not None
    found = values(vectors.UNARY_KERNELS[symbol](plain), len(operands))
    assert [canonical(v) for v in found] == [canonical(UNARY[symbol](v)) for v in operands]


def test_masks_are_kept_until_a_column_they_rest_on_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store()
    store.extend((str(n), ClassAd({"Memory": n, "Cpus": 1, "Load": n / 64})) for n in range(64))
    job = parse_ad("[ Want = 60; Requirements = TARGET.Memory >= MY.Want && TARGET.Cpus == 1 ]")
    cache = MaskCache()
    assert Masks(store.view(), job, cache).mine().sum() == 4
    store.put("3", ClassAd({"Memory": 99, "Cpus": 1, "Load": 0.5}))
    assert Masks(store.view(), job, cache).mine().sum() == 5
    asked: list[str] = []
    attempt = Evaluator.attempt

    def watched(self: Evaluator, node: Expr, *where: Any) -> Vector:
        asked.append(str(node))
        return attempt(self, node, *where)

    monkeypatch.setattr(Evaluator, "attempt", watched)
    store.put("4", ClassAd({"Memory": 4, "Cpus": 1, "Load": 0.5}))
    assert Masks(store.view(), job, cache).mine().sum() == 5
    assert asked == []
    job["Want"] = 61
    assert Masks(store.view(), job, cache).mine().sum() == 4
    assert asked == ["TARGET.Memory >= MY.Want"]


def test_an_attribute_of_the_job_named_like_a_scope_hides_it() -> None:
    view = viewed([ClassAd({"a": n}) for n in range(40)])
    job = parse_ad("[ target = [ a = 3 ]; Requirements = TARGET.a == 3 ]")
    expected = [match(job, view.ad(row)).left is True for row in range(40)]
    assert Masks(view, job, MaskCache()).mine().tolist() == expected == [True] * 40


def test_long_chains_and_deep_trees_are_evaluated() -> None:
    view = viewed([ClassAd({"a": n, "b": str(n)}) for n in range(40)])
    chain = parse_expr(" + ".join(["TARGET.a + size(TARGET.b)"] * 700))
    vector = Evaluator(view, ClassAd(), (Side.JOB, "rank")).vector(chain, Side.JOB)
    assert values(vector, 40) == [chain.eval(ClassAd(), view.ad(row)) for row in range(40)]


def test_a_value_that_is_one_for_all_entries_of_a_table_is_one_for_all_rows() -> None:
    view = viewed([ClassAd({"a": n % 300, "b": n}) for n in range(1000)])
    job = parse_ad("[ Requirements = other.b == -(MY.a ? other.a : 0) ]")
    expected = [match(job, view.ad(row)).left is True for row in range(1000)]
    assert Masks(view, job, MaskCache()).mine().tolist() == expected
