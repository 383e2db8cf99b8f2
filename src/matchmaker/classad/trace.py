"""How an expression came to its value: the value of each part, as a tree.

Nothing is evaluated here. The reference evaluation looks up a function for each kind of node; those
of this module call the reference's own and note the values. So a trace is a record: operands that
short-circuiting skipped have no value, and an attribute's definition stands below the attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final

import attrs

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker._stack import with_room
from matchmaker.classad.ad import ClassAd, an_expression, literal
from matchmaker.classad.evaluate import evaluate
from matchmaker.classad.nodes import (
    MY_SCOPES,
    TARGET_SCOPES,
    TRUE,
    AdExpr,
    Attr,
    Binary,
    Expr,
    Literal,
    scope_of,
)
from matchmaker.classad.printer import brief
from matchmaker.classad.reference import REFERENCE, admit, apply_link
from matchmaker.classad.state import EvaluationState, OutOfBoundsError, exhausted
from matchmaker.classad.values import Value, is_error
from matchmaker.classad.walks import children, operands, spine

NOT_EVALUATED: Final = "not evaluated"
CIRCULAR: Final = "leads back to itself"
NOT_SHOWN: Final = "not shown"


@attrs.frozen(slots=True)
class Trace:
    """An expression, its value, and below it the same for each part that it was made of.

    ``children`` are the operands in their order, constants left out; below an attribute stands its
    definition; the clauses of a chain such as ``a && b && c`` stand side by side. ``value`` is None
    for parts that were not evaluated; ``note`` says that, and other remarks.

    ``str()`` gives one line for each part, indented.
    """

    expression: Expr
    value: Value | None
    children: tuple[Trace, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        return "\n".join("  " * depth + part.line() for depth, part in self.walk())

    def line(self) -> str:
        """The expression, its value and the note, without the parts."""
        text = brief(self.expression)
        if self.value is None:
            return f"{text}: {self.note}"
        said = f"{text} is {_described(self.value)}"
        return f"{said} ({self.note})" if self.note else said

    def walk(self) -> Iterator[tuple[int, Trace]]:
        """This part and all below it, each with its depth, from the top."""
        pending = [(0, self)]
        while pending:
            depth, part = pending.pop()
            yield depth, part
            pending += [(depth + 1, child) for child in reversed(part.children)]


def trace(
    expression: Expr | str, my: ClassAd | None = None, target: ClassAd | None = None
) -> Trace:
    """Evaluates an expression and gives the value of each part. Text is read as an expression.

    The value of the whole is that of ``expression.eval(my, target)``. Raises ParseError for other
    text, and TypeError for other objects.

    >>> from matchmaker import parse_ad
    >>> machine = parse_ad("[ START = Load < 0.5 && Idle > 900; Load = 0.7; Idle = 1000 ]")
    >>> print(trace("MY.START", my=machine))
    MY.START is false
      Load < 0.5 && Idle > 900 is false
        Load < 0.5 is false
          Load is 0.7
        Idle > 900: not evaluated
    """
    node = an_expression(expression)
    return with_room(lambda: _traced(node, my, target))


def _traced(expression: Expr, my: ClassAd | None, target: ClassAd | None) -> Trace:
    state = _Watched(my.root if my is not None else None, target)
    note = ""
    value: Value
    try:
        admit(expression, state)
        value = state.table[type(expression)](expression, state, my)
    except OutOfBoundsError:
        value = evaluate(expression, my, target)
        note = f"stopped after {state.limit:,} steps: later parts are not shown"
        if exhausted(value) or state.steps <= state.limit:
            note = "the evaluation was given up where the parts end"
        # A part that the evaluation of the whole gets through has a value, which is not known.
        while len(state.open) > 1:
            state.close(value if exhausted(value) else None)
    if state.seen >= LIMITS.trace_parts and not note:
        note = f"only the first {LIMITS.trace_parts} parts are shown"
    # An expression that is too large to begin with has no parts.
    [whole] = state.open[0].parts or [Trace(expression, value)]
    return attrs.evolve(whole, value=value, note=note)


def _described(value: Value) -> str:
    if is_error(value) and value.reason:
        return f"error: {value.reason}"
    # Of a longer list or text, no more would be seen.
    shown = value[:_WIDTH] if isinstance(value, (str, list)) else value
    return brief(literal(shown))


_WIDTH: Final = 160


@attrs.define(slots=True)
class _Open:
    """A part that is being evaluated."""

    node: Expr
    parts: list[Trace] = attrs.Factory(list)
    note: str = ""


class _Watched(EvaluationState):
    """An evaluation that notes the value of each part."""

    watched = True

    def __init__(self, left: ClassAd | None, right: ClassAd | None) -> None:
        super().__init__(left, right)
        self.table = _TABLE
        self.limit = LIMITS.trace_steps
        # The innermost last. The first one is no part: the whole will stand below it.
        self.open: list[_Open] = [_Open(TRUE)]
        self.seen = 0

    def shows(self) -> bool:
        """Whether a part of the innermost one can still be shown."""
        return self.seen < LIMITS.trace_parts and len(self.open) <= LIMITS.trace_depth

    def circular(self) -> None:
        if self.seen < LIMITS.trace_parts:
            self.open[-1].note = CIRCULAR

    def close(self, value: Value | None) -> None:
        """Notes the value of the part that was opened last."""
        missing = NOT_EVALUATED if self.shows() and value is not None else NOT_SHOWN
        part = self.open.pop()
        if value is None:
            part.note = NOT_SHOWN
        found = [p for p in _in_order(part, missing) if not _is_noise(part.node, p)]
        self.open[-1].parts.append(Trace(part.node, value, tuple(found), part.note))


def _in_order(part: _Open, missing: str) -> list[Trace]:
    """Order parts as the operands are written, those not evaluated too; definitions last."""
    if isinstance(part.node, AdExpr):
        # A nested ad is a value whose attributes are evaluated when they are asked for.
        return part.parts
    rest = list(part.parts)
    found: list[Trace] = []
    for operand in _operands(part.node):
        place = next((i for i, known in enumerate(rest) if known.expression is operand), None)
        found.append(Trace(operand, None, (), missing) if place is None else rest.pop(place))
    return found + rest


def _operands(node: Expr) -> list[Expr]:
    return operands(node) if isinstance(node, Binary) else list(children(node))


def _is_noise(node: Expr, part: Trace) -> bool:
    """Whether a part says nothing: a constant, or the ad that a scope word before a name means."""
    if isinstance(part.expression, (Literal, AdExpr)):
        return not part.children
    scope = scope_of(node) if isinstance(node, Attr) and node.base is part.expression else None
    return (scope in MY_SCOPES or scope in TARGET_SCOPES) and isinstance(part.value, ClassAd)


def _binary(node: Binary, state: _Watched, ad: ClassAd | None) -> Value:
    """A chain of operators; links of one kind that follow each other are one part."""
    first, links = spine(node)
    for outer, link in pairwise(links):
        if outer.operator != link.operator and state.shows():
            state.open.append(_Open(link))
            state.seen += 1
    value = state.table[type(first)](first, state, ad)
    while links:
        link = links.pop()
        value = apply_link(link, value, state, ad)
        if links and state.open[-1].node is link:
            state.close(value)
    return value


def _watching(kind: type) -> Callable[..., Value]:
    """Make the function that evaluates a kind of node and notes the value."""
    unseen = REFERENCE[kind]
    seen: Callable[..., Value] = _binary if kind is Binary else unseen

    def watch(node: Expr, state: _Watched, ad: ClassAd | None) -> Value:
        if not state.shows():
            return unseen(node, state, ad)
        state.seen += 1
        state.open.append(_Open(node))
        value = seen(node, state, ad)
        state.close(value)
        return value

    return watch


_TABLE: Final[Mapping[type, Callable[..., Value]]] = {kind: _watching(kind) for kind in REFERENCE}
