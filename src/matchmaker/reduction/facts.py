"""What can be said of an expression without evaluating it, whatever the host."""

from __future__ import annotations

from typing import Final

from matchmaker.classad.nodes import Binary, Call, Expr, Literal, Ternary, Unary
from matchmaker.classad.operators import truth
from matchmaker.classad.values import UNDEFINED, is_error

RELATIONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
IDENTITY: Final = frozenset({"is", "isnt"})
CHAINS: Final = frozenset({"&&", "||"})

TYPE_TESTS: Final = frozenset(
    {"isundefined", "iserror", "isstring", "isinteger", "isreal", "isboolean", "islist",
     "isclassad", "isabstime", "isreltime"}
)  # fmt: skip


# Their value is another one at another time, so that a call is never a constant.
VOLATILE: Final = frozenset(
    {"time", "currenttime", "daytime", "formattime", "abstime", "random", "debug"}
)

# They look at expressions or at whole ads: nothing may be put into their arguments, or taken out.
REFLECTIVE: Final = frozenset(
    {"eval", "unparse", "unresolved", "evalineachcontext", "countmatches",
     "anymatch", "allmatch", "whichmatch"}
)  # fmt: skip


def is_boolean(node: Expr) -> bool:
    """Whether an expression has no values but true, false, undefined and error."""
    if isinstance(node, Literal):
        return isinstance(node.value, bool) or node.value is UNDEFINED or is_error(node.value)
    if isinstance(node, Binary):
        return node.operator in RELATIONS or node.operator in IDENTITY or node.operator in CHAINS
    if isinstance(node, Unary):
        return node.operator == "!"
    if isinstance(node, Ternary):
        return is_boolean(node.then) and is_boolean(node.otherwise)
    return isinstance(node, Call) and node.function.lower() in TYPE_TESTS


def may_fail(node: Expr) -> bool:
    """Whether an expression, as a condition, could be an error for some host."""
    if isinstance(node, Literal):
        return is_error(truth(node.value))
    if isinstance(node, Call):
        return node.function.lower() not in TYPE_TESTS or len(node.arguments) != 1
    if isinstance(node, Unary):
        return node.operator != "!" or may_fail(node.operand)
    if isinstance(node, Binary):
        if node.operator in CHAINS:
            return any(may_fail(part) for part in _links(node))
        if node.operator in IDENTITY:
            return not is_scalar(node.left, node.right)
    return True


def _links(node: Binary) -> list[Expr]:
    parts: list[Expr] = []
    rest: Expr = node
    while isinstance(rest, Binary) and rest.operator == node.operator:
        parts.append(rest.right)
        rest = rest.left
    return [*parts, rest]


def is_scalar(left: Expr, right: Expr) -> bool:
    """Whether ``is`` between the two cannot meet two lists or two ads, for which it is an error."""
    return isinstance(left, Literal) or isinstance(right, Literal)
