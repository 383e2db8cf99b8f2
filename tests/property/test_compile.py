"""The compiled form of an expression has the value of the reference form, wherever it stands."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Expr
from matchmaker.classad import evaluate as module
from matchmaker.classad.compile import compile_expression
from matchmaker.classad.nodes import Attr, Binary, Literal, Ternary, Unary
from matchmaker.classad.values import is_error
from tests import strategies

NAMES = (*strategies.NAMES, "target", "Requirements")


def canonical(value: Any) -> Any:
    """A value as something that `==` compares exactly: type, bits of reals, parts of lists and ads."""
    if is_error(value):
        return "error"
    if isinstance(value, float):
        return "real", "nan" if math.isnan(value) else value.hex()
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, ClassAd):
        return {name.lower(): str(value[name]) for name in value}
    return type(value), value


def plain_leaves() -> st.SearchStrategy[Expr]:
    numbers = st.sampled_from([0, 1, 2, -1, 2**53 + 1, 2**63 - 1, 0.5, 2.0, 9007199254740992.0, "a", "A", True])
    return strategies.attributes() | numbers.map(Literal)


def conditions() -> st.SearchStrategy[Expr]:
    """What requirements look like: the shapes for which there are fast paths."""
    relations = st.sampled_from([*strategies.RELATIONS, "+", "-", "*", "/"])
    atoms = st.builds(Binary, relations, plain_leaves(), plain_leaves()) | plain_leaves()
    return st.recursive(
        atoms,
        lambda inner: (
            st.builds(Binary, st.sampled_from(["&&", "||", "?:", "==", "is"]), inner, inner)
            | st.builds(Unary, st.sampled_from("!-"), inner)
            | st.builds(Ternary, inner, inner, inner)
        ),
        max_leaves=10,
    )


contents = st.one_of(
    strategies.plain_values(), strategies.plain_values(), conditions(), strategies.values()
)
ads = st.dictionaries(st.sampled_from(NAMES), contents, max_size=6).map(ClassAd)


def reference(node: Expr, my: ClassAd, target: ClassAd | None) -> Any:
    state = module._State(my, target)
    return module._EVAL[type(node)](node, state, my)


def compiled(node: Expr, my: ClassAd, target: ClassAd | None) -> Any:
    run = compile_expression(node, module._AROUND)
    assert run is not None or isinstance(node, Literal)
    if run is None:
        return reference(node, my, target)
    return run(my, target, module._State(my, target))


@settings(max_examples=1500)
@given(strategies.expressions() | conditions(), ads, ads | st.none())
def test_compiled_is_reference(node: Expr, my: ClassAd, target: ClassAd | None) -> None:
    assert canonical(compiled(node, my, target)) == canonical(reference(node, my, target))


@settings(max_examples=300)
@given(conditions(), ads, ads)
def test_an_expression_keeps_its_value_when_it_becomes_a_function(
    node: Expr, my: ClassAd, target: ClassAd
) -> None:
    before = canonical(reference(node, my, target))
    for _ in range(module.COMPILE_AFTER + 2):
        assert canonical(node.eval(my, target)) == before
    assert isinstance(node, Literal) or node.run is not None


def test_generated_source_holds_no_text_of_the_expression() -> None:
    evil = Binary("==", Attr(None, "__import__('os').system('x')\n", False), Literal("'; import os\n"))
    run = compile_expression(evil, module._AROUND)
    assert run is not None
    assert all("os" not in name and "import" not in name for name in run.__code__.co_names)
