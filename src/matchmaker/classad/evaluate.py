"""The value of an expression: scopes, laziness and bounds. What operators do is in ``operators``.

This is the reference form: the total operators applied to the tree. A reference to an attribute
that is being evaluated is UNDEFINED, as in HTCondor 25. Depth and work are bounded; past a bound
the value is ERROR with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.functions import FUNCTIONS
from matchmaker.classad.nodes import (
    AdExpr,
    Attr,
    Binary,
    Call,
    Expr,
    ListExpr,
    Literal,
    Subscript,
    Ternary,
    Unary,
)
from matchmaker.classad.operators import BINARY, UNARY, subscript, truth
from matchmaker.classad.values import (
    UNDEFINED,
    ErrorType,
    Value,
    is_error,
    is_exceptional,
    type_name,
)

MAX_DEPTH: Final = 300
"""How deep attributes may lead into each other, counting the nesting of each expression."""

MAX_STEPS: Final = 200_000
"""How many attributes, calls and list elements one evaluation may visit."""


class _OutOfBoundsError(Exception):
    """Ends an evaluation that went past a bound. Never leaves this module."""


@attrs.define(slots=True, eq=False)
class _State:
    """One evaluation: the two ads of the match, and what has been used up."""

    left: ClassAd | None
    right: ClassAd | None
    depth: int = 0
    steps: int = 0
    active: set[tuple[int, str]] = attrs.Factory(set)
    nested: dict[tuple[int, Expr], ClassAd] = attrs.Factory(dict)

    def opposite(self, ad: ClassAd | None) -> ClassAd | None:
        """The ad that is TARGET for an expression in `ad`."""
        if ad is None:
            return self.right
        root = ad.root
        if root is self.left:
            return self.right
        return self.left if root is self.right else None

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise _OutOfBoundsError(f"evaluation took more than {MAX_STEPS} steps")


@attrs.frozen(slots=True, eq=False)
class Scope:
    """Where an expression stands: what functions that evaluate their own arguments are given."""

    _state: _State
    ad: ClassAd | None

    def eval(self, node: Expr) -> Value:
        """The value of an expression here."""
        return _EVAL[type(node)](node, self._state, self.ad)

    def within(self, ad: ClassAd) -> Scope:
        """The scope of an expression that stands in another ad of the same evaluation."""
        return Scope(self._state, ad)

    def spend(self, steps: int) -> None:
        """Counts work against the bound of the evaluation."""
        self._state.spend(steps)


def evaluate(node: Expr, my: ClassAd | None = None, target: ClassAd | None = None) -> Value:
    """The value of `node` as an expression of the ad `my` matched with `target`. Never raises.

    >>> from matchmaker import parse_expr
    >>> evaluate(parse_expr("[a = 1; b = [c = a]].b.c"))
    1
    """
    return _bounded(lambda state: _EVAL[type(node)](node, state, my), my, target)


def evaluate_attribute(ad: ClassAd, name: str, target: ClassAd | None = None) -> Value:
    """The value of an attribute of `ad` matched with `target`; UNDEFINED where it is missing."""
    return _bounded(lambda state: _attribute_of(ad, name.lower(), state), ad, target)


def _bounded(run: Callable[[_State], Value], my: ClassAd | None, target: ClassAd | None) -> Value:
    try:
        return run(_State(my.root if my is not None else None, target))
    except _OutOfBoundsError as bound:
        return ErrorType(str(bound))
    except RecursionError:
        return ErrorType("evaluation nested too deep for the caller's stack")


def _attribute_of(ad: ClassAd, folded: str, state: _State) -> Value:
    """The value of an ad's own attribute, in that ad."""
    node = ad.lookup(folded)
    if node is None:
        return UNDEFINED
    if type(node) is Literal:
        return node.value
    key = (id(ad), folded)
    if key in state.active:
        return UNDEFINED
    state.spend(1)
    state.depth += node.depth
    if state.depth > MAX_DEPTH:
        raise _OutOfBoundsError(f"attributes lead more than {MAX_DEPTH} levels deep")
    state.active.add(key)
    value = _EVAL[type(node)](node, state, ad)
    state.active.discard(key)
    state.depth -= node.depth
    return value


def _attribute(node: Attr, state: _State, ad: ClassAd | None) -> Value:
    folded = node.folded
    if node.base is not None:
        return _select(_EVAL[type(node.base)](node.base, state, ad), folded, state)
    if node.absolute:
        return _attribute_of(ad.root, folded, state) if ad is not None else UNDEFINED
    scope = _defining(ad, folded)
    if scope is not None:
        return _attribute_of(scope, folded, state)
    if folded in _SPECIAL:
        return _special(folded, state, ad)
    if ad is None or ad.parent is None:
        # A bare name that the ad lacks is looked up in the other one (old ClassAd semantics).
        other = state.opposite(ad)
        if other is not None:
            return _attribute_of(other, folded, state)
    return UNDEFINED


def _defining(ad: ClassAd | None, folded: str) -> ClassAd | None:
    """The innermost ad, outwards from `ad`, that has the attribute."""
    while ad is not None and ad.lookup(folded) is None:
        ad = ad.parent
    return ad


_SPECIAL: Final[Mapping[str, Callable[[_State, ClassAd | None], ClassAd | None]]] = {
    "my": lambda state, ad: ad,
    "self": lambda state, ad: ad,
    "target": lambda state, ad: state.opposite(ad),
    "other": lambda state, ad: state.opposite(ad),
    "parent": lambda state, ad: ad.parent if ad is not None else None,
    "root": lambda state, ad: ad.root if ad is not None else None,
    "toplevel": lambda state, ad: ad.root if ad is not None else None,
}


def _special(folded: str, state: _State, ad: ClassAd | None) -> Value:
    found = _SPECIAL[folded](state, ad)
    return found if found is not None else UNDEFINED


def _select(base: Value, folded: str, state: _State) -> Value:
    if isinstance(base, ClassAd):
        scope = _defining(base, folded)
        if scope is not None:
            return _attribute_of(scope, folded, state)
        return _special(folded, state, base) if folded in _SPECIAL else UNDEFINED
    if isinstance(base, list):
        state.spend(len(base))
        return [_select(item, folded, state) for item in base]
    return base if is_exceptional(base) else ErrorType(f"{type_name(base)} has no attributes")


def _binary(node: Binary, state: _State, ad: ClassAd | None) -> Value:
    # The left spine is taken in a loop: a chain of thousands is no deeper than one link.
    spine = [node]
    left = node.left
    while type(left) is Binary:
        spine.append(left)
        left = left.left
    value = _EVAL[type(left)](left, state, ad)
    while spine:
        link = spine.pop()
        operator = link.operator
        if operator in _DECIDED and _DECIDED[operator](value):
            value = value if operator == "?:" else truth(value)
            continue
        right = link.right
        value = BINARY[operator](value, _EVAL[type(right)](right, state, ad))
    return value


def _no_and(left: Value) -> bool:
    left = truth(left)
    return left is False or is_error(left)


def _no_or(left: Value) -> bool:
    left = truth(left)
    return left is True or is_error(left)


# Whether the left value alone decides, so that the right side is not evaluated at all.
_DECIDED: Final[Mapping[str, Callable[[Value], bool]]] = {
    "&&": _no_and,
    "||": _no_or,
    "?:": lambda left: left is not UNDEFINED,
}


def _ternary(node: Ternary, state: _State, ad: ClassAd | None) -> Value:
    condition = truth(_EVAL[type(node.condition)](node.condition, state, ad))
    if not isinstance(condition, bool):
        return condition
    branch = node.then if condition else node.otherwise
    return _EVAL[type(branch)](branch, state, ad)


def _subscript(node: Subscript, state: _State, ad: ClassAd | None) -> Value:
    base = _EVAL[type(node.base)](node.base, state, ad)
    index = _EVAL[type(node.index)](node.index, state, ad)
    if isinstance(base, ClassAd) and isinstance(index, str):
        return _attribute_of(base, index.lower(), state)
    return subscript(base, index)


def _list(node: ListExpr, state: _State, ad: ClassAd | None) -> Value:
    state.spend(len(node.items))
    return [_EVAL[type(item)](item, state, ad) for item in node.items]


def _ad(node: AdExpr, state: _State, ad: ClassAd | None) -> Value:
    # One object for one nested ad, so that a circle through it is noticed.
    key = (id(ad), node)
    nested = state.nested.get(key)
    if nested is None:
        nested = state.nested[key] = ClassAd.from_expression(node, ad)
    return nested


def _call(node: Call, state: _State, ad: ClassAd | None) -> Value:
    state.spend(1)
    function = FUNCTIONS.get(node.function.lower())
    if function is None:
        return ErrorType(f"there is no function {node.function[:60]}()")
    if not function.accepts(len(node.arguments)):
        return ErrorType(f"{function.name}() takes {function.arity}, not {len(node.arguments)}")
    if function.lazy:
        return function.call(node.arguments, Scope(state, ad))
    return function.call(*[_EVAL[type(item)](item, state, ad) for item in node.arguments])


_EVAL: Final[Mapping[type, Callable[[Any, _State, ClassAd | None], Value]]] = {
    Literal: lambda node, state, ad: node.value,
    Attr: _attribute,
    Unary: lambda node, state, ad: UNARY[node.operator](
        _EVAL[type(node.operand)](node.operand, state, ad)
    ),
    Binary: _binary,
    Ternary: _ternary,
    Call: _call,
    Subscript: _subscript,
    ListExpr: _list,
    AdExpr: _ad,
}
