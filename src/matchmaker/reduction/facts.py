"""Properties of expressions that hold for every host: type, failure, volatility."""

from __future__ import annotations

from typing import Final

from matchmaker.classad import nodes
from matchmaker.classad.functions import BOOLEAN, Trait, Traits, result_of, traits_of
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import CONNECTIVES, IDENTITY, RELATIONS, truth
from matchmaker.classad.values import is_error, is_exceptional
from matchmaker.classad.walks import CLOCK, Names, names_of, operands

MOVING: Final = frozenset({Trait.VOLATILE, Trait.LOCAL, Trait.ZONE, Trait.CODE})
"""With any of these the value of a call is no fact of the queue or the job."""


def traits(node: Expr) -> Traits:
    """The traits of the function that an expression calls; none for any other expression."""
    return (
        traits_of(node.function, len(node.arguments))
        if isinstance(node, nodes.Call)
        else frozenset()
    )


def is_type_test(node: Expr) -> bool:
    """Whether an expression calls a function such as ``isString``: true or false of any value."""
    return Trait.TYPE_TEST in traits(node)


def is_volatile(node: Expr) -> bool:
    """Whether another evaluation of an expression may give another value.

    Rewriting must neither repeat nor merge such expressions: two calls of ``random()`` differ.

    >>> from matchmaker import parse_expr
    >>> is_volatile(parse_expr("x + random(2) > 1")), is_volatile(parse_expr("x + 1 > 1"))
    (True, False)
    """
    names = names_of(node)
    return Trait.VOLATILE in names.traits or CLOCK in names.attributes


def is_moving(names: Names) -> bool:
    """Whether the value depends on more than attributes: the time, the machine, whole ads."""
    return names.whole or names.volatile or bool(names.traits & MOVING)


def is_boolean(node: Expr) -> bool:
    """Whether an expression gives only true, false, undefined or error."""
    if isinstance(node, nodes.Literal):
        return isinstance(node.value, bool) or is_exceptional(node.value)
    if isinstance(node, nodes.Binary):
        return node.operator in RELATIONS | IDENTITY | CONNECTIVES
    if isinstance(node, nodes.Unary):
        return node.operator == "!"
    if isinstance(node, nodes.Ternary):
        return is_boolean(node.then) and is_boolean(node.otherwise)
    return isinstance(node, nodes.Call) and result_of(node.function) == BOOLEAN


def may_fail(node: Expr) -> bool:
    """Whether an expression, as a condition, could be an error for some host."""
    if isinstance(node, nodes.Literal):
        return is_error(truth(node.value))
    if isinstance(node, nodes.Call):
        return not is_type_test(node) or len(node.arguments) != 1
    if isinstance(node, nodes.Unary):
        return node.operator != "!" or may_fail(node.operand)
    if isinstance(node, nodes.Binary):
        if node.operator in CONNECTIVES:
            return any(may_fail(part) for part in operands(node))
        if node.operator in IDENTITY:
            return not is_scalar(node.left, node.right)
    return True


def is_scalar(left: Expr, right: Expr) -> bool:
    """Whether ``is`` between the two cannot meet two lists or two ads, an error."""
    return isinstance(left, nodes.Literal) or isinstance(right, nodes.Literal)
