"""The value of an expression: scopes, laziness and bounds. What operators do is in ``operators``.

This is the reference form: the total operators applied to the tree. A reference to an attribute
that is being evaluated is UNDEFINED, as in HTCondor 25. Depth and work are bounded; past a bound
the value is ERROR with its reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.compile import Surroundings, compile_expression
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
from matchmaker.classad.operators import BINARY, UNARY, ascii_fold, subscript, truth
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


COMPILE_AFTER: Final = 16
"""How often an expression is evaluated before a function is made of it."""


class _State:
    """One evaluation: the two ads of the match, and what has been used up."""

    __slots__ = ("active", "ad", "depth", "folded", "left", "nested", "right", "steps")

    def __init__(
        self,
        left: ClassAd | None,
        right: ClassAd | None,
        ad: ClassAd | None = None,
        folded: str = "",
    ) -> None:
        self.left = left
        self.right = right
        # The attribute with which the evaluation began, and those that it has led to since.
        self.ad = ad
        self.folded = folded
        self.active: set[tuple[int, str]] | None = None
        self.depth = 0
        self.steps = 0
        self.nested: dict[tuple[int, Expr], ClassAd] | None = None

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


def evaluate(
    node: Expr,
    my: ClassAd | None = None,
    target: ClassAd | None = None,
    inside: str = "",
) -> Value:
    """The value of `node` as an expression of the ad `my` matched with `target`. Never raises.

    ``inside`` is the folded name of the attribute of `my` that the expression is a part of, if any:
    a reference to that one leads in a circle.

    >>> from matchmaker import parse_expr
    >>> evaluate(parse_expr("[a = 1; b = [c = a]].b.c"))
    1
    """
    state = _State(my.root if my is not None else None, target, my if inside else None, inside)
    try:
        return _run(node, my, target, state)
    except _OutOfBoundsError as bound:
        return ErrorType(str(bound))
    except RecursionError:
        return ErrorType("evaluation nested too deep for the caller's stack")


def evaluate_attribute(ad: ClassAd, folded: str, target: ClassAd | None = None) -> Value:
    """The value of an attribute of `ad` matched with `target`; UNDEFINED where it is missing."""
    held: Any = ad.content.get(folded, UNDEFINED)
    if held.__class__ not in _NODES:
        return held  # type: ignore[no-any-return]
    node: Expr = held
    parent = ad.parent
    state = _State(ad if parent is None else ad.root, target, ad, folded)
    try:
        state.depth = node.depth
        run = node.run
        if run is not None and parent is None and (target is None or target.parent is None):
            return run(ad, target, state)
        return _run(node, ad, target, state)
    except _OutOfBoundsError as bound:
        return ErrorType(str(bound))
    except RecursionError:
        return ErrorType("evaluation nested too deep for the caller's stack")


def _run(node: Expr, ad: ClassAd | None, other: ClassAd | None, state: _State) -> Value:
    """The value of an expression in an ad, by its function if it has one."""
    if ad is None or ad.parent is not None or (other is not None and other.parent is not None):
        return _EVAL[type(node)](node, state, ad)
    run = node.run
    if run is None:
        if node.uses > COMPILE_AFTER:
            return _EVAL[type(node)](node, state, ad)
        object.__setattr__(node, "uses", node.uses + 1)
        if node.uses >= COMPILE_AFTER:
            object.__setattr__(node, "run", compile_expression(node, _AROUND))
        return _EVAL[type(node)](node, state, ad)
    return run(ad, other, state)


def _follow(node: Expr, folded: str, ad: ClassAd, other: ClassAd | None, state: _State) -> Value:
    """The value of an attribute that holds an expression; UNDEFINED if it is being evaluated."""
    if folded == state.folded and ad is state.ad:
        return UNDEFINED
    key = (id(ad), folded)
    active = state.active
    if active is None:
        active = state.active = set()
    elif key in active:
        return UNDEFINED
    state.steps += 1
    state.depth += node.depth
    if state.depth > MAX_DEPTH:
        raise _OutOfBoundsError(f"attributes lead more than {MAX_DEPTH} levels deep")
    if state.steps > MAX_STEPS:
        raise _OutOfBoundsError(f"evaluation took more than {MAX_STEPS} steps")
    active.add(key)
    value = _run(node, ad, other, state)
    active.discard(key)
    state.depth -= node.depth
    return value


def _attribute_of(ad: ClassAd, folded: str, state: _State) -> Value:
    """The value of an ad's own attribute, in that ad."""
    held: Any = ad.content.get(folded, UNDEFINED)
    if held.__class__ in _NODES:
        return _follow(held, folded, ad, state.opposite(ad), state)
    return held  # type: ignore[no-any-return]


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
    while ad is not None and folded not in ad.content:
        ad = ad.parent
    return ad


# What a name means that no ad around it defines: an ad, or for CurrentTime the seconds since 1970.
_SPECIAL: Final[Mapping[str, Callable[[_State, ClassAd | None], ClassAd | int | None]]] = {
    "currenttime": lambda state, ad: int(time.time()),
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
        return _attribute_of(base, ascii_fold(index), state)
    return subscript(base, index)


def _list(node: ListExpr, state: _State, ad: ClassAd | None) -> Value:
    state.spend(len(node.items))
    return [_EVAL[type(item)](item, state, ad) for item in node.items]


def _ad(node: AdExpr, state: _State, ad: ClassAd | None) -> Value:
    # One object for one nested ad, so that a circle through it is noticed.
    if state.nested is None:
        state.nested = {}
    key = (id(ad), node)
    nested = state.nested.get(key)
    if nested is None:
        nested = state.nested[key] = ClassAd.from_expression(node, ad)
    return nested


def _call(node: Call, state: _State, ad: ClassAd | None) -> Value:
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


class _Missing:
    """The class of what an ad holds under a name that it does not have."""


_MISSING: Final = _Missing()
_NODES: Final[frozenset[Any]] = frozenset(_EVAL)


def _own(held: Any, folded: str, ad: ClassAd, other: ClassAd | None, state: _State) -> Value:
    """What a bare name means to an ad in no other: its own attribute, else the other ad's."""
    if held is not _MISSING:
        return _follow(held, folded, ad, other, state)
    return (
        _theirs(other.content.get(folded, _MISSING), folded, ad, other, state)
        if other is not None
        else UNDEFINED
    )


def _mine(held: Any, folded: str, ad: ClassAd, other: ClassAd | None, state: _State) -> Value:
    """What a name after MY means."""
    return UNDEFINED if held is _MISSING else _follow(held, folded, ad, other, state)


def _theirs(held: Any, folded: str, ad: ClassAd, other: ClassAd | None, state: _State) -> Value:
    """What a name after TARGET means."""
    if held is _MISSING or other is None:
        return UNDEFINED
    return _follow(held, folded, other, ad, state) if held.__class__ in _NODES else held


_AROUND: Final = Surroundings(
    missing=_MISSING,
    slow=_NODES | {_Missing},
    own=_own,
    mine=_mine,
    theirs=_theirs,
    reference=_EVAL,
    special=frozenset(_SPECIAL),
)
