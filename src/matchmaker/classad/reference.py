"""The reference form of evaluation: the total operators applied to the tree of an expression.

Here are scopes and laziness. Operators are in ``operators``; an evaluation begins and ends
in ``evaluate``. A reference to an attribute that is being evaluated is UNDEFINED, as in HTCondor
25. An expression that is evaluated often gets a function, the fast form (``compile``).

An evaluation can be watched: ``EvaluationState.table`` has a function for each kind of node, and
``trace`` has a table of its own, whose functions call these and note the values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad import nodes
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.compile import Surroundings, compile_expression
from matchmaker.classad.functions import (  # noqa: F401 - each module enters its functions
    FUNCTIONS,
    STEPS,
    control,
    conversions,
    environments,
    lists,
    patterns,
    strings,
    times,
    unknown,
)
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import BINARY, CONNECTIVES, UNARY, ascii_fold, subscript, truth
from matchmaker.classad.state import (
    LONG,
    CallScope,
    EvaluationState,
    OutOfBoundsError,
    Table,
    bulk,
    cost,
)
from matchmaker.classad.values import (
    UNDEFINED,
    ErrorType,
    Value,
    is_error,
    is_exceptional,
    type_name,
)
from matchmaker.classad.walks import spine, weight

COMPILE_AFTER: Final = 32
"""How often an expression is evaluated before a function is made of it.

Making it takes as long as some 70 evaluations by the reference form.
"""


def admit(node: Expr, state: EvaluationState) -> None:
    """Counts an expression that is about to be evaluated; OutOfBoundsError for one too large."""
    if node.depth > LIMITS.depth:
        raise OutOfBoundsError(f"the expression nests more than {LIMITS.depth} levels deep")
    state.steps += node.weight or weight(node)
    if state.steps > state.limit:
        state.spend(0)


def run(node: Expr, ad: ClassAd | None, other: ClassAd | None, state: EvaluationState) -> Value:
    """The value of an expression in an ad, by its function if it has one."""
    nested = other is not None and other.parent is not None
    if ad is None or ad.parent is not None or nested or state.watched:
        return state.table[type(node)](node, state, ad)
    compiled = node.run
    if compiled is not None:
        return compiled(ad, other, state)
    uses = node.uses + 1
    object.__setattr__(node, "uses", uses)
    made = compile_expression(node, _AROUND, ad._held) if uses >= COMPILE_AFTER else None
    object.__setattr__(node, "run", made)
    return REFERENCE[type(node)](node, state, ad)


def _follow(
    node: nodes.Expr, folded: str, ad: ClassAd, other: ClassAd | None, state: EvaluationState
) -> Value:
    """The value of an attribute that holds an expression; UNDEFINED if it is being evaluated."""
    key = (id(ad), folded)
    active = state.active
    if active is None:
        active = state.active = {(id(state.ad), state.folded)} if state.folded else set()
    if key in active:
        state.circular()
        return UNDEFINED
    state.steps += node.weight or weight(node)
    state.depth += node.depth
    if state.depth > LIMITS.depth:
        raise OutOfBoundsError(f"attributes lead more than {LIMITS.depth} levels deep")
    if state.steps > state.limit:
        state.spend(0)
    active.add(key)
    value = run(node, ad, other, state)
    active.discard(key)
    state.depth -= node.depth
    return value


def _attribute_of(ad: ClassAd, folded: str, state: EvaluationState) -> Value:
    """The value of an ad's own attribute, in that ad."""
    held: Any = ad._held.get(folded, UNDEFINED)
    if type(held) in REFERENCE:
        return _follow(held, folded, ad, state.opposite(ad), state)
    return held  # type: ignore[no-any-return]


def _attribute(node: nodes.Attr, state: EvaluationState, ad: ClassAd | None) -> Value:
    folded = node.folded
    if node.base is not None:
        return _select(state.table[type(node.base)](node.base, state, ad), folded, state)
    if node.absolute:
        return _absolute(folded, state, ad)
    scope = _defining(ad, folded)
    if scope is not None:
        return _attribute_of(scope, folded, state)
    if folded in _SPECIAL:
        return _special(folded, state, ad)
    if ad is None or ad.parent is None or ad is state.context:
        # A bare name that the ad lacks is looked up in the other one (old ClassAd semantics).
        other = state.opposite(ad)
        if other is not None:
            return _attribute_of(other, folded, state)
    return UNDEFINED


def _absolute(folded: str, state: EvaluationState, ad: ClassAd | None) -> Value:
    """The value of an attribute of the root, or of a special name in the root itself."""
    if ad is None:
        return UNDEFINED
    root = ad.root
    if ad is root and folded in _SPECIAL and folded not in root._held:
        return _special(folded, state, root)
    return _attribute_of(root, folded, state)


def _defining(ad: ClassAd | None, folded: str) -> ClassAd | None:
    """The innermost ad, outwards from `ad`, that has the attribute."""
    while ad is not None and folded not in ad._held:
        ad = ad.parent
    return ad


# What a name means that no ad around it defines: an ad, or for CurrentTime the seconds since 1970.
_SPECIAL: Final[Mapping[str, Callable[[EvaluationState, ClassAd | None], ClassAd | int | None]]] = {
    "currenttime": lambda state, ad: int(time.time()) if ad is not None else None,
    "my": lambda state, ad: ad,
    "self": lambda state, ad: ad,
    "target": lambda state, ad: state.opposite(ad),
    "other": lambda state, ad: state.opposite(ad),
    "parent": lambda state, ad: ad.parent if ad is not None else None,
    "root": lambda state, ad: ad.root if ad is not None else None,
    "toplevel": lambda state, ad: ad.root if ad is not None else None,
}


def _special(folded: str, state: EvaluationState, ad: ClassAd | None) -> Value:
    found = _SPECIAL[folded](state, ad)
    return found if found is not None else UNDEFINED


def _select(base: Value, folded: str, state: EvaluationState) -> Value:
    if isinstance(base, ClassAd):
        scope = _defining(base, folded)
        if scope is not None:
            return _attribute_of(scope, folded, state)
        return _special(folded, state, base) if folded in _SPECIAL else UNDEFINED
    if isinstance(base, list):
        state.spend(len(base))
        items: Value = [_select(item, folded, state) for item in base]
        state.spend(bulk(items))
        return items
    return base if is_exceptional(base) else ErrorType(f"{type_name(base)} has no attributes")


def _binary(node: nodes.Binary, state: EvaluationState, ad: ClassAd | None) -> Value:
    first, links = spine(node)
    value = state.table[type(first)](first, state, ad)
    while links:
        value = apply_link(links.pop(), value, state, ad)
    return value


def apply_link(
    link: nodes.Binary, value: Value, state: EvaluationState, ad: ClassAd | None
) -> Value:
    """The value of an operator whose left side has a value; the right one may not be needed."""
    operator = link.operator
    if operator in CONNECTIVES:
        value = truth(value)
        if value is (operator == "||") or is_error(value):
            return value
    elif operator == "?:" and value is not UNDEFINED:
        return value
    right = link.right
    other = state.table[type(right)](right, state, ad)
    if isinstance(value, str) and isinstance(other, str) and len(value) + len(other) > LONG:
        state.spend((len(value) + len(other)) >> 4)
    return BINARY[operator](value, other)


def _ternary(node: nodes.Ternary, state: EvaluationState, ad: ClassAd | None) -> Value:
    condition = truth(state.table[type(node.condition)](node.condition, state, ad))
    if not isinstance(condition, bool):
        return condition
    branch = node.then if condition else node.otherwise
    return state.table[type(branch)](branch, state, ad)


def _subscript(node: nodes.Subscript, state: EvaluationState, ad: ClassAd | None) -> Value:
    base = state.table[type(node.base)](node.base, state, ad)
    index = state.table[type(node.index)](node.index, state, ad)
    if isinstance(base, ClassAd) and isinstance(index, str):
        if len(index) > LONG:
            state.spend(len(index) >> 4)
        return _attribute_of(base, ascii_fold(index), state)
    return subscript(base, index)


def _list(node: nodes.ListExpr, state: EvaluationState, ad: ClassAd | None) -> Value:
    items: Value = [state.table[type(item)](item, state, ad) for item in node.items]
    state.spend(bulk(items))
    return items


def _ad(node: nodes.AdExpr, state: EvaluationState, ad: ClassAd | None) -> Value:
    # One object for one nested ad, so that a circle through it is noticed.
    if state.nested is None:
        state.nested = {}
    key = (id(ad), node)
    nested = state.nested.get(key)
    if nested is None:
        nested = state.nested[key] = ClassAd.from_expression(node, ad)
    return nested


def _call(node: nodes.Call, state: EvaluationState, ad: ClassAd | None) -> Value:
    function = FUNCTIONS.get(node.function.lower())
    if function is None:
        state.spend(STEPS)
        return ErrorType(unknown(node.function))
    if not function.accepts(len(node.arguments)):
        return ErrorType(f"{function.name}() takes {function.arity}, not {len(node.arguments)}")
    value: Value
    if function.lazy:
        state.spend(1)
        value = function.call(node.arguments, CallScope(state, ad))
    else:
        values = [state.table[type(item)](item, state, ad) for item in node.arguments]
        state.spend(cost(values))
        more = {"budget": state} if function.budgeted else {}
        value = function.call(*values, **more)
    if isinstance(value, (str, list)):
        state.spend(bulk(value))
    return value


REFERENCE: Final[Table] = {
    nodes.Literal: lambda node, state, ad: node.value,
    nodes.Attr: _attribute,
    nodes.Unary: lambda node, state, ad: UNARY[node.operator](
        state.table[type(node.operand)](node.operand, state, ad)
    ),
    nodes.Binary: _binary,
    nodes.Ternary: _ternary,
    nodes.Call: _call,
    nodes.Subscript: _subscript,
    nodes.ListExpr: _list,
    nodes.AdExpr: _ad,
}
EvaluationState.table = REFERENCE


def _begin(ad: ClassAd, other: ClassAd | None, inside: str, node: Expr) -> EvaluationState:
    """The state of an evaluation that the function of `node` has begun, once it needs one."""
    state = EvaluationState(ad, other, ad, inside)
    state.steps = node.weight or weight(node)
    if inside:
        state.depth = node.depth
    return state


_AROUND: Final = Surroundings(_begin, _follow, REFERENCE, frozenset(_SPECIAL))
