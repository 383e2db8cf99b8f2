"""Simplification: a shorter expression with the same outcomes, as far as they matter.

A *demand* says which outcomes must stay distinct, of T (true), F (false) and E (error); all others
count as undefined. A match only needs to know where an expression is true, so its demand is {T};
under ``!``, or on the left of ``||``, the demand is larger. ``VALUE`` demands the value itself. The
demands of the parts follow from these equations (T, F and E of the whole, by those of the parts):

    a && b   T = Ta Tb              F = Fa + Fb -Ea             E = Ea + Eb -Fa
    a || b   T = Ta + Tb -Ea        F = Fa Fb                   E = Ea + Eb -Ta
    !a       T = Fa                 F = Ta                      E = Ea
    c?x:y    T = Tc Tx + Fc Ty      F = Tc Fx + Fc Fy           E = Ec + Tc Ex + Fc Ey

The laws themselves are in ``laws``. Nothing here knows what a host is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from matchmaker.classad import nodes
from matchmaker.classad.ad import literal
from matchmaker.classad.functions import INSIDE
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import CONNECTIVES, truth
from matchmaker.classad.walks import children, conjunction, conjuncts, operands, rebuild, spine
from matchmaker.reduction.facts import is_volatile, traits
from matchmaker.reduction.laws import (
    MATCH,
    VALUE,
    Demand,
    absorb_exceptional,
    choose,
    constant_to_the_right,
    elvis_of_constant,
    fold_constant,
    join,
    not_,
)


def simplify(node: Expr, demand: Demand = MATCH) -> Expr:
    """A simpler expression with the same outcomes as `node` in every context, as far as demanded.

    With ``MATCH`` (the default) it is true exactly where `node` is true.

    >>> from matchmaker import parse_expr
    >>> for text in ("x > 5 ? true : false", "x > 5 ? 1 > 2 : y == 3", "(x > 5 || false) && 1 < 2"):
    ...     print(simplify(parse_expr(text)))
    x > 5
    !(x > 5) && y == 3
    x > 5
    """
    simpler = _SIMPLIFY.get(type(node), _parts)(node, demand)
    if watchers:
        report(node, demand, simpler)
    return simpler


def report(before: Expr, demand: Demand, after: Expr) -> None:
    """Reports a rewrite to all watchers, if anything changed."""
    if after is not before:
        for watcher in watchers:
            watcher(before, demand, after)


Watcher: TypeAlias = Callable[[Expr, Demand, Expr], None]
"""Receives each rewrite: the expression, the demand, and the result."""

watchers: Final[list[Watcher]] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Within it, `watcher` receives every rewrite, parts before the whole.

    >>> from matchmaker import parse_expr
    >>> with watched(lambda before, demand, after: print(before, "=>", after)):
    ...     simplified = simplify(parse_expr("x > 5 && 1 < 2"))
    1 < 2 => true
    x > 5 && 1 < 2 => x > 5
    """
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.remove(watcher)


def _parts(node: Expr, demand: Demand) -> Expr:
    """Simplifies an operation that needs the values of all its parts."""
    return fold_constant(rebuild(node, tuple(simplify(part, VALUE) for part in children(node))))


def _same(node: Expr, demand: Demand) -> Expr:
    return node


def _attribute(node: nodes.Attr, demand: Demand) -> Expr:
    base = node.base
    # Most are `other.name`, of which nothing can be made.
    plain = base is None or (isinstance(base, nodes.Attr) and base.base is None)
    return node if plain else _parts(node, demand)


# --- operators ------------------------------------------------------------------------------------


def _binary(node: nodes.Binary, demand: Demand) -> Expr:
    if node.operator not in CONNECTIVES:
        return _strict(node, demand)
    # The demand of the left side stops growing.
    first, *others = operands(node)
    demands = [demand]
    for _ in others:
        demands.append(_left_demand(node.operator, demands[-1]))
    result = simplify(first, demands.pop())
    for right, wanted in zip(others, reversed(demands), strict=True):
        result = join(node.operator, result, simplify(right, wanted - {"value"}), wanted)
    if demand == MATCH and node.operator == "&&":
        return _without_repetitions(result)
    return result


def _left_demand(operator: str, demand: Demand) -> Demand:
    """The demand of the left side, by the equations in this module's docstring."""
    decisive, other = ("F", "T") if operator == "&&" else ("T", "F")
    left = demand & {other}
    return left | {decisive, "E"} if demand & {decisive, "E"} else left


def _without_repetitions(node: Expr) -> Expr:
    """``a && b && a = a && b`` where only truth counts."""
    return conjunction(distinct(conjuncts(node)))


def distinct(clauses: Iterable[Expr]) -> list[Expr]:
    """Drops repeated clauses, but for volatile ones.

    >>> from matchmaker import parse_expr
    >>> print(*distinct(map(parse_expr, ["a", "random(2)", "b", "a", "random(2)"])))
    a random(2) b random(2)
    """
    seen: set[Expr] = set()
    kept = []
    for clause in clauses:
        if clause not in seen or is_volatile(clause):
            kept.append(clause)
        seen.add(clause)
    return kept


def _strict(node: nodes.Binary, demand: Demand) -> Expr:
    first, links = spine(node, lambda link: link.operator not in CONNECTIVES)
    result = simplify(first, VALUE)
    while links:
        link = links.pop()
        wanted = VALUE if links else demand
        result = _strict_link(rebuild(link, (result, simplify(link.right, VALUE))), wanted)
        if links and watchers:
            report(link, wanted, result)
    return result


def _strict_link(node: Expr, demand: Demand) -> Expr:
    folded = fold_constant(node)
    if not isinstance(folded, nodes.Binary):
        return folded
    for law in (absorb_exceptional, elvis_of_constant, constant_to_the_right):
        simpler = law(folded, demand)
        if simpler is not None:
            return simpler
    return folded


def _call(node: nodes.Call, demand: Demand) -> Expr:
    """``ifThenElse(c, a, b)`` is ``c ? a : b``; any other function is strict in its arguments."""
    if node.function.lower() == "ifthenelse" and len(node.arguments) == 3:
        return _ternary(nodes.Ternary(*node.arguments), demand)
    if traits(node) & INSIDE:
        return node
    return _parts(node, demand)


def _unary(node: nodes.Unary, demand: Demand) -> Expr:
    if node.operator != "!":
        return _parts(node, demand)
    swapped = frozenset({"T": "F", "F": "T"}.get(outcome, outcome) for outcome in demand)
    return not_(simplify(node.operand, swapped - {"value"}), demand)


def _ternary(node: nodes.Ternary, demand: Demand) -> Expr:
    wanted = frozenset("TF") | (demand & {"E"})
    condition = simplify(node.condition, wanted)
    if isinstance(condition, nodes.Literal):
        value = truth(condition.value)
        if isinstance(value, bool):
            return simplify(node.then if value else node.otherwise, demand)
        return literal(value)
    return choose(condition, simplify(node.then, demand), simplify(node.otherwise, demand), demand)


_SIMPLIFY: Final[Mapping[type, Callable[[Any, Demand], Expr]]] = {
    nodes.Literal: _same,
    nodes.Attr: _attribute,
    nodes.Binary: _binary,
    nodes.Unary: _unary,
    nodes.Ternary: _ternary,
    nodes.Call: _call,
    nodes.AdExpr: _same,
}
