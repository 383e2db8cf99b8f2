"""A trace has the value of the evaluation that it shows, and so has each of its parts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import matchmaker as mm
from matchmaker import ClassAd, Expr, testing
from tests import strategies
from tests.canonical import canonical
from tests.cases import cases
from tests.property.test_compile import ads, conditions


@settings(max_examples=cases(300))
@given(testing.expressions() | strategies.expressions() | conditions(), ads, ads | st.none())
def test_the_whole_has_the_value_of_the_evaluation(
    node: Expr, my: ClassAd, target: ClassAd | None
) -> None:
    whole = mm.trace(node, my, target)
    assert whole.expression is node
    assert canonical(whole.value) == canonical(node.eval(my, target))


@settings(max_examples=cases(300))
@given(conditions(), ads, ads)
def test_every_operand_has_the_value_it_has_alone(node: Expr, my: ClassAd, target: ClassAd) -> None:
    whole = mm.trace(node, my, target)
    for part in whole.children:
        if part.value is not None and not whole.note:
            assert canonical(part.value) == canonical(part.expression.eval(my, target))


@settings(max_examples=cases(200))
@given(strategies.expressions(), ads)
def test_every_part_has_a_value_or_a_note(node: Expr, my: ClassAd) -> None:
    text = str(mm.trace(node, my))
    whole = mm.trace(node, my)
    parts = [part for _, part in whole.walk()]
    assert len(parts) == len(text.split("\n"))
    assert all(part.value is not None or part.note for part in parts)
