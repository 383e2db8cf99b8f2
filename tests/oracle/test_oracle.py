"""The same answer as HTCondor's own library, to thousands of expressions.

What disagrees must be excused by ``differences``. Nothing is compared that depends on the moment.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr
from matchmaker.classad.functions import Function
from tests.oracle import cases, scopes
from tests.oracle.differences import reason
from tests.oracle.oracle import Case, Oracle, agree, compared
from tests.strategies import ads, boolean_expressions, expressions, number_expressions

pytestmark = pytest.mark.oracle


def assert_agreement(oracle: Oracle, asked: Iterable[Case]) -> None:
    """Fails with the disagreements that nothing excuses."""
    answers = compared(oracle, asked)
    assert answers
    faults = [one for one in answers if not agree(one) and reason(one) is None]
    shown = "\n".join(map(str, faults[:20]))
    assert not faults, f"{len(faults)} of {len(answers)} disagree:\n{shown}"


@pytest.mark.parametrize("pattern", cases.operators())
def test_operator(oracle: Oracle, pattern: str) -> None:
    assert_agreement(oracle, cases.operator_cases(pattern))


@pytest.mark.parametrize("function", cases.functions(), ids=lambda function: function.name)
def test_function(oracle: Oracle, function: Function) -> None:
    assert_agreement(oracle, cases.function_cases(function))


def test_written_expressions(oracle: Oracle) -> None:
    assert_agreement(oracle, cases.written_cases())


def test_scopes(oracle: Oracle) -> None:
    assert_agreement(oracle, scopes.scope_cases())


def test_process_is_started_again(oracle: Oracle) -> None:
    oracle._running().kill()
    assert oracle.ask(Case("1 + 1")) == ["crashes"]
    assert oracle.ask(Case("1 + 1")) == ["integer", "2"]


@seed(25)
@settings(max_examples=100, database=None)
@given(trees=st.lists(boolean_expressions() | number_expressions(), min_size=10, max_size=15))
def test_typed_trees(oracle: Oracle, trees: list[Expr]) -> None:
    assert_agreement(oracle, [Case(str(tree)) for tree in trees])


@seed(14)
@settings(max_examples=100, database=None)
@given(trees=st.lists(expressions(), min_size=10, max_size=15), my=ads(), target=ads())
def test_any_trees_in_ads(oracle: Oracle, trees: list[Expr], my: ClassAd, target: ClassAd) -> None:
    one, other = str(my), str(target)
    assert_agreement(oracle, [Case(str(tree), one) for tree in trees])
    assert_agreement(oracle, [Case(str(tree), one, other) for tree in trees])
