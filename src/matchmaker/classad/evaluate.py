"""The value of an expression: how an evaluation begins, and how it ends within its bounds.

Depth and work are bounded (``bounds``); past a bound the value is ERROR with its reason. Where the
caller's stack is too short for what the bounds allow, the evaluation is done once more with room
for it (``stack``). What each kind of node comes to is in ``reference``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.deferred import Deferred
from matchmaker.classad.limits import Budget, OutOfBoundsError
from matchmaker.classad.nodes import Expr
from matchmaker.classad.reference import NODES, admit, run
from matchmaker.classad.stack import room
from matchmaker.classad.state import State
from matchmaker.classad.values import UNDEFINED, ErrorType, Value

TOO_DEEP: Final = "evaluation nested too deep for Python's stack"


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
    compiled = node.run
    # Functions of expressions are not for ads that stand in others.
    if (
        compiled is None
        or my is None
        or my.parent is not None
        or (target is not None and target.parent is not None)
    ):
        return _evaluate(node, my, target, inside)
    try:
        return compiled(my, target, None, inside)
    except OutOfBoundsError as end:
        return ErrorType(str(end))
    except RecursionError:
        return _with_room(compiled, my, target, None, inside)


def evaluate_attribute(
    ad: ClassAd, folded: str, target: ClassAd | None = None, missing: Value = UNDEFINED
) -> Value:
    """The value of an attribute of `ad` matched with `target`; `missing` where there is none."""
    held: Any = ad.held.get(folded, missing)
    if type(held) not in NODES:
        return held  # type: ignore[no-any-return]
    if type(held) is Deferred:
        held = ad.held[folded] = held.held
        if type(held) not in NODES:
            return held  # type: ignore[no-any-return]
    compiled = held.run
    # As evaluate() does, whose call is saved here: this is most of what a match does.
    if (
        compiled is None
        or ad.parent is not None
        or (target is not None and target.parent is not None)
    ):
        return _evaluate(held, ad, target, folded)
    try:
        return compiled(ad, target, None, folded)  # type: ignore[no-any-return]
    except OutOfBoundsError as end:
        return ErrorType(str(end))
    except RecursionError:
        return _with_room(compiled, ad, target, None, folded)


def _with_room(work: Callable[..., Value], *arguments: Any) -> Value:
    """The value of an evaluation for which the stack was too short."""
    with room():
        try:
            return work(*arguments)
        except OutOfBoundsError as end:
            return ErrorType(str(end))
        except RecursionError:
            return ErrorType(TOO_DEEP)


def _evaluate(node: Expr, my: ClassAd | None, target: ClassAd | None, inside: str) -> Value:
    """The value of an expression that has no function, or none that serves here."""
    return evaluate_counted(node, my, target, inside)[0]


def evaluate_counted(
    node: Expr,
    my: ClassAd | None,
    target: ClassAd | None,
    inside: str = "",
    within: Budget | None = None,
) -> tuple[Value, Budget]:
    """As ``evaluate``, with what the evaluation has used up, and perhaps other limits `within`.

    >>> from matchmaker import parse_expr
    >>> value, used = evaluate_counted(parse_expr("1 + 2"), None, None)
    >>> value, used.steps
    (3, 3)
    """
    state = _state(node, my, target, inside, within)
    try:
        return _begun(node, my, target, state), state
    except OutOfBoundsError as end:
        return ErrorType(str(end)), state
    except RecursionError:
        state = _state(node, my, target, inside, within)
        return _with_room(_begun, node, my, target, state), state


def _state(
    node: Expr,
    my: ClassAd | None,
    target: ClassAd | None,
    inside: str,
    within: Budget | None,
) -> State:
    state = State(my.root if my is not None else None, target, my, inside)
    if within is not None:
        state.limit, state.seconds = within.limit, within.seconds
    if inside:
        state.depth = node.depth
    return state


def _begun(node: Expr, my: ClassAd | None, target: ClassAd | None, state: State) -> Value:
    admit(node, state)
    return run(node, my, target, state)
