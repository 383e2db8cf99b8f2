"""Clauses: a condition as the operands of its ``&&`` or ``||``, and comparisons with a constant."""

from __future__ import annotations

from functools import partial, reduce

from matchmaker.classad.nodes import FALSE, TRUE, Binary, Expr, Literal
from matchmaker.classad.operators import MIRRORED
from matchmaker.classad.values import Value


def conjuncts(root: Expr) -> list[Expr]:
    """The clauses of a requirement: the operands of its outermost ``&&`` chain, in order.

    >>> from matchmaker import parse_expr
    >>> [str(c) for c in conjuncts(parse_expr("a > 1 && (b || c) && d"))]
    ['a > 1', 'b || c', 'd']
    """
    return _flattened(root, "&&")


def disjuncts(root: Expr) -> list[Expr]:
    """The alternatives of a condition: the operands of its outermost ``||`` chain, in order.

    >>> from matchmaker import parse_expr
    >>> [str(c) for c in disjuncts(parse_expr("a > 1 || b && c || d"))]
    ['a > 1', 'b && c', 'd']
    """
    return _flattened(root, "||")


def _flattened(root: Expr, operator: str) -> list[Expr]:
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Binary) and node.operator == operator:
            stack += (node.right, node.left)
        else:
            found.append(node)
    return found


def conjunction(clauses: list[Expr]) -> Expr:
    """The clauses joined with ``&&``; no clause at all is ``true``."""
    return _joined("&&", clauses) if clauses else TRUE


def disjunction(alternatives: list[Expr]) -> Expr:
    """The alternatives joined with ``||``; no alternative at all is ``false``.

    >>> from matchmaker import parse_expr
    >>> print(disjunction(disjuncts(parse_expr("a > 1 || (b || c)"))))
    a > 1 || b || c
    """
    return _joined("||", alternatives) if alternatives else FALSE


def _joined(operator: str, operands: list[Expr]) -> Expr:
    joined: Expr = reduce(partial(Binary, operator), operands)
    return joined


def compared(node: Expr) -> tuple[Expr, str, Value] | None:
    """The subject, the relation and the constant of a comparison with a constant.

    The constant may stand on either side: ``5 < x`` is ``x > 5``. None for any other expression.

    >>> from matchmaker import parse_expr
    >>> compared(parse_expr("5 < x")), compared(parse_expr("x is undefined")), compared(TRUE)
    ((Expr('x'), '>', 5), (Expr('x'), 'is', UNDEFINED), None)
    """
    if not isinstance(node, Binary) or node.operator not in MIRRORED:
        return None
    if isinstance(node.right, Literal):
        return node.left, node.operator, node.right.value
    if isinstance(node.left, Literal):
        return node.right, MIRRORED[node.operator], node.left.value
    return None
