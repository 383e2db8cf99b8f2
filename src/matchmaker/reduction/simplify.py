"""Simplification: a shorter expression that comes out the same wherever it matters.

What matters is told by a *demand*, the set of outcomes that must be kept apart: T (true), F (false)
and E (error); what is none of these is undefined. A match asks only where an expression is true, so
its demand is {T}; under ``!``, or on the left of ``||``, more is asked. ``VALUE`` demands the value
itself. The demands of the parts follow from these sets (T, F and E of the whole, by the parts'):

    a && b   T = Ta Tb              F = Fa + Fb -Ea             E = Ea + Eb -Fa
    a || b   T = Ta + Tb -Ea        F = Fa Fb                   E = Ea + Eb -Ta
    !a       T = Fa                 F = Ta                      E = Ea
    c?x:y    T = Tc Tx + Fc Ty      F = Tc Fx + Fc Fy           E = Ec + Tc Ex + Fc Ey

Each law below is one small function whose docstring is the algebra. A law returns a simpler node or
None. Nothing here knows what a host is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from matchmaker.classad.evaluate import evaluate
from matchmaker.classad.nodes import (
    FALSE,
    TRUE,
    AdExpr,
    Attr,
    Binary,
    Call,
    Expr,
    ListExpr,
    Literal,
    Ternary,
    Unary,
    children,
    conjunction,
    conjuncts,
    literal,
    rebuild,
)
from matchmaker.classad.operators import truth
from matchmaker.classad.values import UNDEFINED, Value, is_error
from matchmaker.reduction.facts import (
    IDENTITY,
    RELATIONS,
    TYPE_TESTS,
    is_boolean,
    is_scalar,
    may_fail,
)

Demand: TypeAlias = frozenset[str]

MATCH: Final[Demand] = frozenset("T")
REFUSAL: Final[Demand] = frozenset("F")
OUTCOME: Final[Demand] = frozenset("TFE")
VALUE: Final[Demand] = frozenset({"T", "F", "E", "value"})

# Their value is another one at another time, so that a call is never a constant.
VOLATILE: Final = frozenset(
    {"time", "currenttime", "daytime", "formattime", "abstime", "random", "debug"}
)

# They look at expressions or at whole ads: nothing may be put into their arguments, or taken out.
REFLECTIVE: Final = frozenset(
    {"eval", "unparse", "unresolved", "evalineachcontext", "countmatches",
     "anymatch", "allmatch", "whichmatch"}
)  # fmt: skip
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_LAZY: Final = frozenset({"&&", "||", "?:", "is", "isnt"})
_OPPOSITE: Final = {"==": "!=", "!=": "==", "is": "isnt", "isnt": "is"}


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
    if _watchers and simpler is not node:
        for watcher in _watchers:
            watcher(node, demand, simpler)
    return simpler


Watcher: TypeAlias = Callable[[Expr, Demand, Expr], None]
"""Is told of each rewrite: an expression, what is demanded of it, and what became of it."""

_watchers: Final[list[Watcher]] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Within it, `watcher` is told of every rewrite, parts before the whole.

    >>> from matchmaker import parse_expr
    >>> with watched(lambda before, demand, after: print(before, "=>", after)):
    ...     simplified = simplify(parse_expr("x > 5 && 1 < 2"))
    1 < 2 => true
    x > 5 && 1 < 2 => x > 5
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def _parts(node: Expr, demand: Demand) -> Expr:
    """What is strict in its parts needs their values."""
    return fold_constant(rebuild(node, tuple(simplify(part, VALUE) for part in children(node))))


def _same(node: Expr, demand: Demand) -> Expr:
    return node


def _attribute(node: Attr, demand: Demand) -> Expr:
    base = node.base
    # Most are `other.name`, of which nothing can be made.
    plain = base is None or (isinstance(base, Attr) and base.base is None)
    return node if plain else _parts(node, demand)


def fold_constant(node: Expr) -> Expr:
    """An expression of constants alone is its value."""
    if isinstance(node, Attr) or not all(map(_is_constant, children(node))):
        return node
    if isinstance(node, Call) and node.function.lower() in VOLATILE | REFLECTIVE:
        return node
    value = evaluate(node)
    # A nested ad has no value outside its surroundings.
    return literal(value) if _is_plain(value) else node


def _is_constant(node: Expr) -> bool:
    # Not a walk of the whole tree: a chain asks this of its left side once for each link.
    if isinstance(node, ListExpr):
        return all(map(_is_constant, node.items))
    return isinstance(node, Literal)


def _is_plain(value: Value) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return isinstance(literal(value), Literal)


# --- operators ------------------------------------------------------------------------------------


def _binary(node: Binary, demand: Demand) -> Expr:
    combine = _CHAINS.get(node.operator)
    if combine is None:
        return _strict(node, demand)
    # A chain is taken apart in a loop, however long; what is demanded of the left grows to a limit.
    links: list[tuple[Expr, Demand]] = []
    rest: Expr = node
    below = demand
    while isinstance(rest, Binary) and rest.operator == node.operator:
        links.append((rest.right, below))
        below = _left_demand(node.operator, below)
        rest = rest.left
    result = simplify(rest, below)
    for right, wanted in reversed(links):
        result = combine(result, simplify(right, wanted - {"value"}), wanted)
    if demand == MATCH and node.operator == "&&":
        return _without_repetitions(result)
    return result


def _left_demand(operator: str, demand: Demand) -> Demand:
    """What must be kept of the left side, by the table in this module's docstring."""
    decisive, other = ("F", "T") if operator == "&&" else ("T", "F")
    left = demand & {other}
    return left | {decisive, "E"} if demand & {decisive, "E"} else left


def and_(left: Expr, right: Expr, demand: Demand) -> Expr:
    """Laws of ``&&``.

    ``true && b = b``, ``false && b = false``, ``error && b = error``, ``a && true = a``,
    ``a && a = a``. Where only truth counts, a constant that is not true makes the whole never true;
    where only falsehood counts, ``undefined && b = b`` and ``a && c = a`` for any c but false.
    """
    if isinstance(left, Literal):
        value = truth(left.value)
        if value is True and (is_boolean(right) or "value" not in demand):
            return right
        if value is False or is_error(value):
            return literal(value)
        if value is UNDEFINED and demand in (MATCH, REFUSAL):
            return FALSE if demand == MATCH else right
    if isinstance(right, Literal):
        value = truth(right.value)
        if value is True and (is_boolean(left) or "value" not in demand):
            return left
        if value is not True and demand == MATCH:
            return FALSE
        if value is not False and demand == REFUSAL:
            return left
        if value is False and not may_fail(left):
            return FALSE
    if left is right and (is_boolean(left) or "value" not in demand):
        return left
    return fold_constant(Binary("&&", left, right))


def or_(left: Expr, right: Expr, demand: Demand) -> Expr:
    """Laws of ``||``.

    ``false || b = b``, ``true || b = true``, ``error || b = error``, ``a || false = a``,
    ``a || a = a``; ``a || true = true`` unless a may be an error. Where only truth counts,
    ``undefined || b = b`` and ``a || undefined = a || error = a``; where only falsehood counts, a
    constant that is not false makes the whole never false.
    """
    if isinstance(left, Literal):
        value = truth(left.value)
        if value is False and (is_boolean(right) or "value" not in demand):
            return right
        if value is True or is_error(value):
            return literal(value)
        if value is UNDEFINED and demand in (MATCH, REFUSAL):
            return right if demand == MATCH else TRUE
    if isinstance(right, Literal):
        value = truth(right.value)
        if value is False and (is_boolean(left) or "value" not in demand):
            return left
        if value is not False and demand == REFUSAL:
            return TRUE
        if value is True and not may_fail(left):
            return TRUE
        if value is not True and demand == MATCH:
            return left
    if left is right and (is_boolean(left) or "value" not in demand):
        return left
    return fold_constant(Binary("||", left, right))


_CHAINS: Final[Mapping[str, Callable[[Expr, Expr, Demand], Expr]]] = {"&&": and_, "||": or_}


def _without_repetitions(node: Expr) -> Expr:
    """``a && b && a = a && b`` where only truth counts."""
    return conjunction(list(dict.fromkeys(conjuncts(node))))


def _strict(node: Binary, demand: Demand) -> Expr:
    left, right = simplify(node.left, VALUE), simplify(node.right, VALUE)
    folded = fold_constant(rebuild(node, (left, right)))
    if not isinstance(folded, Binary):
        return folded
    for law in (absorb_exceptional, elvis_of_constant, constant_to_the_right):
        simpler = law(folded, demand)
        if simpler is not None:
            return simpler
    return folded


def absorb_exceptional(node: Binary, demand: Demand) -> Expr | None:
    """``a + error = error``; ``a + undefined = undefined`` unless a may be an error that counts.

    So for every strict operator, on either side.
    """
    if node.operator in _LAZY:
        return None
    if "E" not in demand and _is_exceptional(node):
        return Literal(UNDEFINED)
    for side, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(side, Literal) and is_error(side.value):
            return side
        if isinstance(side, Literal) and side.value is UNDEFINED:
            return side if "E" not in demand or not may_fail(other) else None
    return None


def _is_exceptional(node: Expr) -> bool:
    """Whether an expression is undefined or an error wherever it stands."""
    if isinstance(node, Literal):
        return node.value is UNDEFINED or is_error(node.value)
    if isinstance(node, Binary) and node.operator not in _LAZY:
        return _is_exceptional(node.left) or _is_exceptional(node.right)
    return isinstance(node, Unary) and _is_exceptional(node.operand)


def elvis_of_constant(node: Binary, demand: Demand) -> Expr | None:
    """``undefined ?: b = b`` and ``k ?: b = k`` for any other constant."""
    if node.operator != "?:" or not isinstance(node.left, Literal):
        return None
    return node.right if node.left.value is UNDEFINED else node.left


def constant_to_the_right(node: Binary, demand: Demand) -> Expr | None:
    """``500 < x = x > 500``, and so for all six relations."""
    if node.operator in _MIRRORED and isinstance(node.left, Literal):
        return Binary(_MIRRORED[node.operator], node.right, node.left)
    return None


def _call(node: Call, demand: Demand) -> Expr:
    """``ifThenElse(c, a, b)`` is ``c ? a : b``; any other function is strict in its arguments."""
    if node.function.lower() == "ifthenelse" and len(node.arguments) == 3:
        return _ternary(Ternary(*node.arguments), demand)
    if node.function.lower() in REFLECTIVE:
        return node
    return _parts(node, demand)


def _unary(node: Unary, demand: Demand) -> Expr:
    if node.operator != "!":
        return _parts(node, demand)
    swapped = frozenset({"T": "F", "F": "T"}.get(outcome, outcome) for outcome in demand)
    return not_(simplify(node.operand, swapped - {"value"}), demand)


def not_(operand: Expr, demand: Demand) -> Expr:
    """``!!a = a`` (as a condition); ``!(a == b) = a != b`` and ``!(a is b) = a isnt b``.

    ``!(a < b)`` stays: ``a >= b`` is not the same for NaN.
    """
    if isinstance(operand, Unary) and operand.operator == "!":
        inner = operand.operand
        if is_boolean(inner) or "value" not in demand:
            return inner
    if isinstance(operand, Binary) and operand.operator in _OPPOSITE:
        return Binary(_OPPOSITE[operand.operator], operand.left, operand.right)
    return fold_constant(Unary("!", operand))


def _ternary(node: Ternary, demand: Demand) -> Expr:
    wanted = frozenset("TF") | (demand & {"E"})
    condition = simplify(node.condition, wanted)
    if isinstance(condition, Literal):
        value = truth(condition.value)
        if isinstance(value, bool):
            return simplify(node.then if value else node.otherwise, demand)
        return literal(value)
    return choose(condition, simplify(node.then, demand), simplify(node.otherwise, demand), demand)


def choose(condition: Expr, then: Expr, otherwise: Expr, demand: Demand) -> Expr:
    """Laws of the ternary: ``c ? true : false = c`` and ``c ? false : true = !c``.

    Where only truth counts, with *never* for a constant that is not true:
    ``c ? x : x`` is x where c is true or false, ``c ? x : never = c && x``,
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
    return Ternary(condition, then, otherwise)


def _choose_one_outcome(
    condition: Expr, then: Expr, otherwise: Expr, demand: Demand
) -> Expr | None:
    """The ternary where only truth counts, or only falsehood, for which all is the other way round.

    There *never* is a constant that is not false, ``c ? x : x`` is ``!(c is known) || x``,
    ``c ? x : never = !c || x``, and ``c ? never : y = c || y``.
    """
    matching = demand == MATCH
    never_then, never_otherwise = _never(then, matching), _never(otherwise, matching)
    join = and_ if matching else or_
    if never_then and never_otherwise:
        return FALSE if matching else TRUE
    if then is otherwise:
        sure = known(condition)
        return join(sure if matching else not_(sure, OUTCOME), then, demand)
    if never_otherwise:
        return join(condition if matching else not_(condition, OUTCOME), then, demand)
    if never_then:
        return join(not_(condition, OUTCOME) if matching else condition, otherwise, demand)
    return None


def _never(node: Expr, outcome: bool) -> bool:
    """Whether an expression is nowhere true (or false): a constant that is not."""
    return isinstance(node, Literal) and truth(node.value) is not outcome


def known(condition: Expr) -> Expr:
    """What is true exactly where a condition is true or false.

    A comparison of x with a number is known where x is a number (a boolean counts as one), with a
    string where x is a string; any other condition c where ``c || !c`` is true.

    >>> from matchmaker import parse_expr
    >>> print(known(parse_expr("x > 500")))
    isInteger(x) || isReal(x) || isBoolean(x)
    """
    if isinstance(condition, Binary):
        if condition.operator in RELATIONS and isinstance(condition.right, Literal):
            value = condition.right.value
            if isinstance(value, (bool, int, float)):
                return is_number(condition.left)
            if isinstance(value, str):
                return Call("isString", (condition.left,))
        if condition.operator in IDENTITY and is_scalar(condition.left, condition.right):
            return TRUE
    if isinstance(condition, Call) and condition.function.lower() in TYPE_TESTS:
        return TRUE if len(condition.arguments) == 1 else FALSE
    return Binary("||", condition, not_(condition, MATCH))


def is_number(node: Expr) -> Expr:
    """The expression that is true where `node` is an integer, a real or a boolean."""
    tests = [Call(test, (node,)) for test in ("isInteger", "isReal", "isBoolean")]
    return Binary("||", Binary("||", tests[0], tests[1]), tests[2])


_SIMPLIFY: Final[Mapping[type, Callable[[Any, Demand], Expr]]] = {
    Literal: _same,
    Attr: _attribute,
    Binary: _binary,
    Unary: _unary,
    Ternary: _ternary,
    Call: _call,
    AdExpr: _same,
}
