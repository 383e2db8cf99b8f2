"""Walks over expressions: parts, rebuilding, folding, left chains, clauses.

No walk recurses, since chains may be thousands long. The kinds of nodes are in ``nodes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import attrgetter
from typing import Any, Final, TypeVar

from matchmaker.classad import nodes
from matchmaker.classad.nodes import FALSE, TRUE, Attr, Binary, Call, Expr, Literal
from matchmaker.classad.operators import MIRRORED
from matchmaker.classad.values import Value

_R = TypeVar("_R")
_weight: Final = attrgetter("weight")


def children(node: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside a node, in the order in which they are written."""
    return _CHILDREN[type(node)](node)


_CHILDREN: Final[Mapping[type, Callable[[Any], tuple[Expr, ...]]]] = {
    Literal: lambda n: (),
    Attr: lambda n: (n.base,) if n.base is not None else (),
    nodes.Unary: lambda n: (n.operand,),
    Binary: attrgetter("left", "right"),
    nodes.Ternary: attrgetter("condition", "then", "otherwise"),
    Call: attrgetter("arguments"),
    nodes.Subscript: attrgetter("base", "index"),
    nodes.ListExpr: attrgetter("items"),
    nodes.AdExpr: attrgetter("expressions"),
}


def rebuild(node: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The same kind of node around other children."""
    if parts == children(node):
        return node
    return _REBUILD[type(node)](node, parts)


_REBUILD: Final[Mapping[type, Callable[[Any, tuple[Expr, ...]], Expr]]] = {
    Attr: lambda n, p: Attr(p[0], n.name, n.absolute),
    nodes.Unary: lambda n, p: nodes.Unary(n.operator, *p),
    Binary: lambda n, p: Binary(n.operator, *p),
    nodes.Ternary: lambda n, p: nodes.Ternary(*p),
    Call: lambda n, p: Call(n.function, p),
    nodes.Subscript: lambda n, p: nodes.Subscript(*p),
    nodes.ListExpr: lambda n, p: nodes.ListExpr(p),
    nodes.AdExpr: lambda n, p: nodes.AdExpr(n.names, p),
}


def postorder(root: Expr) -> Iterator[Expr]:
    """Every distinct node, children before parents, left to right, without recursion."""
    seen: set[Expr] = set()
    # None stands above a node whose children are done.
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if node is None:
            yield stack.pop()
        elif node not in seen:
            seen.add(node)
            stack += (node, None)
            stack += reversed(_CHILDREN[type(node)](node))


def fold(root: Expr, step: Callable[[Expr, tuple[_R, ...]], _R]) -> _R:
    """Computes something bottom-up: ``step(node, results of its children)``, once a distinct node.

    >>> from matchmaker import parse_expr
    >>> fold(parse_expr("1 + 2 * 3"), lambda node, parts: 1 + sum(parts))
    5
    """
    results: dict[Expr, _R] = {}
    for node in postorder(root):
        results[node] = step(node, tuple(results[child] for child in children(node)))
    return results[root]


def replaced(root: Expr, old: Expr, new: Expr) -> Expr:
    """An expression with each occurrence of one part replaced by another.

    >>> from matchmaker import parse_expr
    >>> replaced(parse_expr("a > 1 && (b || a > 1)"), parse_expr("a > 1"), parse_expr("c"))
    Expr('c && (b || c)')
    """
    return fold(root, lambda node, parts: new if node is old else rebuild(node, parts))


def weight(root: Expr) -> int:
    """How many nodes the tree has, what occurs twice counted twice; kept on each node of it.

    >>> from matchmaker import parse_expr
    >>> weight(parse_expr("a + 1 > a + 1"))
    7
    """
    # What has its weight is not walked: around a chain there may be another one link longer.
    pending = [] if root.weight else [root]
    while pending:
        node = pending[-1]
        inner = children(node)
        lacking = [child for child in inner if not child.weight]
        if lacking:
            pending += lacking
        else:
            object.__setattr__(pending.pop(), "weight", 1 + sum(map(_weight, inner)))
    return root.weight


def spine(node: Expr, belongs: Callable[[Binary], bool] | None = None) -> tuple[Expr, list[Binary]]:
    """The first operand of a left chain of operators, and its links from the last to the first.

    Chains may be thousands long: hence a loop. `belongs` refuses the link where a chain ends.
    """
    links: list[Binary] = []
    while type(node) is Binary and (belongs is None or belongs(node)):
        links.append(node)
        node = node.left
    return node, links


def operands(node: Binary) -> list[Expr]:
    """The operands of a left chain of one operator, in order."""
    first, links = spine(node, lambda link: link.operator == node.operator)
    return [first, *(link.right for link in reversed(links))]


def conjuncts(root: Expr) -> list[Expr]:
    """The clauses of a requirement: the operands of its outermost ``&&`` chain, in order.

    >>> from matchmaker import parse_expr
    >>> [str(c) for c in conjuncts(parse_expr("a > 1 && (b || c) && d"))]
    ['a > 1', 'b || c', 'd']
    """
    return _flattened(root, "&&")


def disjuncts(root: Expr) -> list[Expr]:
    """The alternatives of a condition: the operands of its outermost ``||`` chain, in order."""
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
    return reduce(lambda left, right: Binary("&&", left, right), clauses or [TRUE])


def disjunction(alternatives: list[Expr]) -> Expr:
    """The alternatives joined with ``||``; no alternative at all is ``false``.

    >>> from matchmaker import parse_expr
    >>> print(disjunction(disjuncts(parse_expr("a > 1 || (b || c)"))))
    a > 1 || b || c
    """
    return reduce(lambda left, right: Binary("||", left, right), alternatives or [FALSE])


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
