"""Simplification: a shorter expression with the same outcomes, as far as they matter.

A *demand* says which outcomes must stay distinct, of T (true), F (false) and E (error); all others
count as undefined. A match only needs the truth of an expression, so its demand is {T};
under ``!``, or on the left of ``||``, the demand is larger. ``VALUE`` demands the value itself. The
demands of the parts follow from these equations (T, F and E of the whole, by those of the parts):

    a && b   T = Ta Tb              F = Fa + Fb -Ea             E = Ea + Eb -Fa
    a || b   T = Ta + Tb -Ea        F = Fa Fb                   E = Ea + Eb -Ta
    !a       T = Fa                 F = Ta                      E = Ea
    c?x:y    T = Tc Tx + Fc Ty      F = Tc Fx + Fc Fy           E = Ec + Tc Ex + Fc Ey

Nothing here knows of hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from matchmaker.classad import nodes
from matchmaker.classad.ad import literal
from matchmaker.classad.evaluate import evaluate
from matchmaker.classad.functions import INSIDE, UNFOLDABLE
from matchmaker.classad.nodes import FALSE, TRUE, Expr
from matchmaker.classad.operators import CONNECTIVES, IDENTITY, MIRRORED, RELATIONS, truth
from matchmaker.classad.values import UNDEFINED, Value, is_error, is_exceptional
from matchmaker.classad.walks import (
    children,
    conjunction,
    conjuncts,
    disjunction,
    operands,
    rebuild,
    spine,
)
from matchmaker.reduction.facts import (
    is_boolean,
    is_scalar,
    is_type_test,
    is_volatile,
    may_fail,
    traits,
)

Demand: TypeAlias = frozenset[str]

MATCH: Final[Demand] = frozenset("T")
REFUSAL: Final[Demand] = frozenset("F")
OUTCOME: Final[Demand] = frozenset("TFE")
VALUE: Final[Demand] = frozenset({"T", "F", "E", "value"})

_LAZY: Final = frozenset({"&&", "||", "?:", "is", "isnt"})
_OPPOSITE: Final = {"==": "!=", "!=": "==", "is": "isnt", "isnt": "is"}


def fold_constant(node: Expr) -> Expr:
    """Replaces an expression of constants by its value."""
    if isinstance(node, nodes.Attr) or not all(map(_is_constant, children(node))):
        return node
    if traits(node) & UNFOLDABLE:
        return node
    value = evaluate(node)
    # A nested ad has no value outside its surroundings.
    return literal(value) if _is_plain(value) else node


def _is_constant(node: Expr) -> bool:
    # Not a walk of the whole tree: a chain asks this of its left side once for each link.
    if isinstance(node, nodes.ListExpr):
        return all(map(_is_constant, node.items))
    return isinstance(node, nodes.Literal)


def _is_plain(value: Value) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return isinstance(literal(value), nodes.Literal)


# --- connectives ----------------------------------------------------------------------------------


def join(operator: str, left: Expr, right: Expr, demand: Demand) -> Expr:
    """Laws of ``&&``, and of ``||`` with true and false exchanged.

    ``true && b = b``, ``false && b = false``, ``error && b = error``, ``a && true = a``,
    ``a && a = a``; ``a && false = false`` unless a may be an error. If only truth counts, a
    constant that is not true makes the whole never true; if only falsehood counts,
    ``undefined && b = b`` and ``a && c = a`` for any c but false.
    """
    idle = operator == "&&"
    end = FALSE if idle else TRUE
    # Where only one outcome counts: that of all sides, or that of any.
    of_all, of_any = (MATCH, REFUSAL) if idle else (REFUSAL, MATCH)
    if isinstance(left, nodes.Literal):
        value = truth(left.value)
        if value is idle and (is_boolean(right) or "value" not in demand):
            return right
        if value is (not idle) or is_error(value):
            return literal(value)
        if value is UNDEFINED and demand in (MATCH, REFUSAL):
            return end if demand == of_all else right
    if isinstance(right, nodes.Literal):
        value = truth(right.value)
        if value is idle and (is_boolean(left) or "value" not in demand):
            return left
        if value is not idle and demand == of_all:
            return end
        if value is not (not idle) and demand == of_any:
            return left
        if value is (not idle) and not may_fail(left):
            return end
    if left is right and (is_boolean(left) or "value" not in demand) and not is_volatile(left):
        return left
    return fold_constant(nodes.Binary(operator, left, right))


def not_(operand: Expr, demand: Demand) -> Expr:
    """``!!a = a`` (as a condition); ``!(a == b) = a != b`` and ``!(a is b) = a isnt b``.

    ``!(a < b)`` stays: ``a >= b`` is not the same for NaN.
    """
    if isinstance(operand, nodes.Unary) and operand.operator == "!":
        inner = operand.operand
        if is_boolean(inner) or "value" not in demand:
            return inner
    if isinstance(operand, nodes.Binary) and operand.operator in _OPPOSITE:
        return nodes.Binary(_OPPOSITE[operand.operator], operand.left, operand.right)
    return fold_constant(nodes.Unary("!", operand))


# --- the ternary ----------------------------------------------------------------------------------


def choose(condition: Expr, then: Expr, otherwise: Expr, demand: Demand) -> Expr:
    """Laws of the ternary: ``c ? true : false = c`` and ``c ? false : true = !c``.

    If only truth counts, with *never* for a constant that is not true:
    ``c ? x : x`` is x if c is true or false, ``c ? x : never = c && x``,
    ``c ? never : y = !c && y``.
    """
    if demand in (MATCH, REFUSAL):
        simpler = _choose_one_outcome(condition, then, otherwise, demand)
        if simpler is not None:
            return simpler
    plain = is_boolean(condition) or "value" not in demand
    if then is TRUE and otherwise is FALSE and plain:
        return condition
    if then is FALSE and otherwise is TRUE:
        return not_(condition, demand)
    return nodes.Ternary(condition, then, otherwise)


def _choose_one_outcome(
    condition: Expr, then: Expr, otherwise: Expr, demand: Demand
) -> Expr | None:
    """The ternary if only truth counts, or only falsehood, with all the other way round.

    There *never* is a constant that is not false, ``c ? x : x`` is ``!(c is known) || x``,
    ``c ? x : never = !c || x``, and ``c ? never : y = c || y``.
    """
    matching = demand == MATCH
    never_then, never_otherwise = _never(then, matching), _never(otherwise, matching)
    both = "&&" if matching else "||"
    if never_then and never_otherwise:
        return FALSE if matching else TRUE
    if then is otherwise and not is_volatile(condition):
        sure = known(condition)
        return join(both, sure if matching else not_(sure, OUTCOME), then, demand)
    if never_otherwise:
        return join(both, condition if matching else not_(condition, OUTCOME), then, demand)
    if never_then:
        return join(both, not_(condition, OUTCOME) if matching else condition, otherwise, demand)
    return None


def _never(node: Expr, outcome: bool) -> bool:
    """Whether an expression is a constant other than true (or than false)."""
    return isinstance(node, nodes.Literal) and truth(node.value) is not outcome


def known(condition: Expr) -> Expr:
    """An expression that is true exactly if a condition is true or false.

    A comparison of x with a number is known if x is a number (a boolean counts as one), with a
    string if x is a string; any other condition c if ``c || !c`` is true.

    >>> from matchmaker import parse_expr
    >>> print(known(parse_expr("x > 500")))
    isInteger(x) || isReal(x) || isBoolean(x)
    """
    if isinstance(condition, nodes.Binary):
        if condition.operator in RELATIONS and isinstance(condition.right, nodes.Literal):
            value = condition.right.value
            if isinstance(value, (bool, int, float)):
                return is_number(condition.left)
            if isinstance(value, str):
                return nodes.Call("isString", (condition.left,))
        if condition.operator in IDENTITY and is_scalar(condition.left, condition.right):
            return TRUE
    if isinstance(condition, nodes.Call) and is_type_test(condition):
        return TRUE if len(condition.arguments) == 1 else FALSE
    return nodes.Binary("||", condition, not_(condition, MATCH))


def is_number(node: Expr) -> Expr:
    """The expression that is true if `node` is an integer, a real or a boolean."""
    return disjunction([nodes.Call(test, (node,)) for test in ("isInteger", "isReal", "isBoolean")])


def numeric_subject(node: Expr) -> Expr | None:
    """The x of "x is a number", as ``is_number`` writes it; None for any other expression."""
    if (
        isinstance(node, nodes.Binary)
        and isinstance(node.right, nodes.Call)
        and len(node.right.arguments) == 1
    ):
        subject = node.right.arguments[0]
        return subject if node is is_number(subject) else None
    return None


# --- strict operators -----------------------------------------------------------------------------


def absorb_exceptional(node: nodes.Binary, demand: Demand) -> Expr | None:
    """``a + error = error``; ``a + undefined = undefined`` unless a may be an error that counts.

    So for every strict operator, on either side.
    """
    if node.operator in _LAZY:
        return None
    if "E" not in demand and _is_exceptional(node):
        return nodes.Literal(UNDEFINED)
    for side, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(side, nodes.Literal) and is_error(side.value):
            return side
        if isinstance(side, nodes.Literal) and side.value is UNDEFINED:
            return side if "E" not in demand or not may_fail(other) else None
    return None


def _is_exceptional(node: Expr) -> bool:
    """Whether an expression is always undefined or an error."""
    first, links = spine(node, lambda link: link.operator not in _LAZY)
    if any(_is_exceptional(link.right) for link in links):
        return True
    if isinstance(first, nodes.Literal):
        return is_exceptional(first.value)
    return isinstance(first, nodes.Unary) and _is_exceptional(first.operand)


def elvis_of_constant(node: nodes.Binary, demand: Demand) -> Expr | None:
    """``undefined ?: b = b`` and ``k ?: b = k`` for any other constant."""
    if node.operator != "?:" or not isinstance(node.left, nodes.Literal):
        return None
    return node.right if node.left.value is UNDEFINED else node.left


def constant_to_the_right(node: nodes.Binary, demand: Demand) -> Expr | None:
    """``500 < x = x > 500``, and so for all six relations."""
    if node.operator in RELATIONS and isinstance(node.left, nodes.Literal):
        return nodes.Binary(MIRRORED[node.operator], node.right, node.left)
    return None


def simplify(node: Expr, demand: Demand = MATCH) -> Expr:
    """A simpler expression with the same outcomes as `node` in every context, as far as demanded.

    With ``MATCH`` (the default) it is true exactly if `node` is true.

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
    """``a && b && a = a && b`` if only truth counts."""
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
