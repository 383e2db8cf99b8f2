"""Strategies for requirements and ranks of jobs and machines.

They are made for given attributes: compared with values that they may hold, and true or false, or a
number, for every ad whose attributes are of the kinds that are given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from hypothesis import strategies as st

from matchmaker.classad import nodes
from matchmaker.classad.ad import literal
from matchmaker.classad.nodes import TRUE, Expr
from matchmaker.classad.values import UNDEFINED, is_number
from matchmaker.classad.walks import conjunction
from matchmaker.testing.trees import (
    Attributes,
    is_text,
    leaves_of_kind,
    reference,
    strategy_of,
)

# What people write most comes more often.
_ORDER: Final = (">=", ">=", "<=", ">", "<", "==", "!=")
_SAME: Final = ("==", "!=", "is", "isnt")


def requirements(
    attributes: Attributes,
    own: Attributes | None = None,
    *,
    scope: str = "TARGET",
    max_clauses: int = 4,
) -> st.SearchStrategy[Expr]:
    """Requirements of the other ad, well-typed, as people write them.

    Each is a chain of ``&&`` between clauses such as ``TARGET.Memory >= 2048``,
    ``TARGET.Memory >= MY.RequestMemory``, ``member("el9", TARGET.Tags)``, ``!TARGET.Draining``, and
    of ``||``, ``!`` and ``? :`` between these. It is true or false for every ad whose attributes
    are there and of the kinds that their strategies give, and for most is sometimes the one and
    sometimes the other, since constants come from the same strategies.

    Args:
        attributes: those of the other ad. Each should be of one kind.
        own: those of the ad that requires, for comparisons between the two.
        scope: the word before the names of the other ad: ``other`` is gLite's.
        max_clauses: how many clauses there are at most, at least 1.

    >>> from hypothesis import find
    >>> from matchmaker import ClassAd
    >>> memory, ad = st.integers(0, 4096), ClassAd({"Memory": 100})
    >>> find(requirements({"Memory": memory}), lambda e: e.eval(target=ad) is False).references()
    References(my=(), target=('Memory',), unscoped=())
    >>> find(requirements({"Memory": memory}, {"Want": memory}), lambda e: e.references().my)
    Expr('TARGET.Memory >= MY.Want')
    """
    if not attributes:
        return st.just(TRUE)
    return st.lists(conditions(attributes, own, scope), min_size=1, max_size=max_clauses).map(
        conjunction
    )


@st.composite
def conditions(
    draw: st.DrawFn, attributes: Attributes, own: Attributes | None = None, scope: str = "TARGET"
) -> Expr:
    """Single clauses, now and then some joined by ``||``, ``&&``, ``!`` and ``? :``."""
    return draw_condition(draw, attributes, own or {}, scope)


# Most conditions are a clause.
_SHAPES: Final = st.sampled_from(("clause",) * 6 + ("||", "||", "!", "&&", "?:"))


def draw_condition(
    draw: st.DrawFn, attributes: Attributes, own: Attributes, scope: str, depth: int = 2
) -> Expr:
    """A condition drawn at once: for attributes that are drawn too, a strategy costs too much."""
    shape = draw(_SHAPES) if depth else "clause"
    if shape == "clause":
        return _draw_clause(draw, attributes, own, scope)
    count = {"!": 1, "?:": 3}.get(shape, 2)
    parts = [draw_condition(draw, attributes, own, scope, depth - 1) for _ in range(count)]
    if shape == "!":
        return nodes.Unary("!", *parts)
    return nodes.Ternary(*parts) if shape == "?:" else nodes.Binary(shape, *parts)


def _draw_clause(draw: st.DrawFn, attributes: Attributes, own: Attributes, scope: str) -> Expr:
    name = draw(st.sampled_from(tuple(attributes)))
    value: object = draw(strategy_of(attributes[name]))
    theirs = reference(scope, name)
    between = bool(own) and draw(st.booleans())
    if between:
        mine = draw(st.sampled_from(tuple(own)))
        held = draw(strategy_of(own[mine]))
        if _are_alike(value, held):
            relation = draw(st.sampled_from(_SAME if is_text(value) else _ORDER))
            return nodes.Binary(relation, theirs, reference("MY", mine))
    return _clause(draw, theirs, value)


def _are_alike(one: object, other: object) -> bool:
    return (is_number(one) and is_number(other)) or (is_text(one) and is_text(other))


def _clause(draw: st.DrawFn, attribute: Expr, value: Any) -> Expr:
    """A comparison of an attribute with a value that it may hold."""
    if isinstance(value, bool):
        return draw(st.sampled_from((attribute, nodes.Unary("!", attribute))))
    if is_number(value) or isinstance(value, (datetime, timedelta)):
        return nodes.Binary(draw(st.sampled_from(_ORDER)), attribute, nodes.Literal(value))
    if is_text(value):
        return draw(st.sampled_from(_of_text(attribute, value)))
    if isinstance(value, (list, tuple)):
        return draw(st.sampled_from(_of_list(attribute, value)))
    # Of what has no value here, or an ad, all that can be asked is whether it is there.
    return nodes.Binary(draw(st.sampled_from(("isnt", "is"))), attribute, nodes.Literal(UNDEFINED))


def _of_text(attribute: Expr, text: str) -> list[Expr]:
    found: list[Expr] = [
        nodes.Binary(relation, attribute, nodes.Literal(text)) for relation in _SAME
    ]
    found.append(nodes.Call("member", (attribute, nodes.ListExpr((nodes.Literal(text),)))))
    beginning = re.match(r"[A-Za-z0-9_]+", text, re.ASCII)
    if beginning is not None:
        found.append(nodes.Call("regexp", (nodes.Literal(f"^{beginning[0]}"), attribute)))
    return found


def _of_list(attribute: Expr, items: Sequence[Any]) -> list[Expr]:
    found: list[Expr] = [
        nodes.Call("member", (literal(item), attribute))
        for item in items
        if is_number(item) or is_text(item)
    ]
    found.append(nodes.Binary(">=", nodes.Call("size", (attribute,)), nodes.Literal(len(items))))
    return found


def ranks(
    attributes: Attributes, *, scope: str = "TARGET", max_terms: int = 3
) -> st.SearchStrategy[Expr]:
    """Ranks of the other ad: sums of its numbers, some weighted, some chosen by a condition.

    Each is a number for every ad whose attributes are there and of the kinds that their strategies
    give, as long as no real among them is so large that a sum of them is infinite.

    Args:
        attributes: those of the other ad. Each should be of one kind.
        scope: the word before their names: ``other`` is gLite's.
        max_terms: how many terms the sum has at most, at least 1.

    >>> from hypothesis import find
    >>> find(ranks({"Memory": st.integers(0, 4096)}), lambda rank: rank.references().target)
    Expr('TARGET.Memory')
    """
    numbers = leaves_of_kind(attributes, scope, is_number, _NUMBERS)
    return _sums(numbers, attributes, scope, max_terms)


_NUMBERS: Final = st.sampled_from((0, 1, 10, -1, 0.5, 1000))
_TERMS: Final = st.sampled_from(("number", "number", "weighted", "?:", "ifThenElse"))


@st.composite
def _sums(
    draw: st.DrawFn,
    numbers: st.SearchStrategy[Expr],
    attributes: Attributes,
    scope: str,
    max_terms: int,
) -> Expr:
    total: Expr | None = None
    for _ in range(draw(st.integers(1, max_terms))):
        kind = draw(_TERMS) if attributes else "number"
        term = draw(numbers)
        if kind == "weighted":
            term = nodes.Binary("*", literal(draw(_NUMBERS)), term)
        elif kind != "number":
            parts = draw_condition(draw, attributes, {}, scope), term, draw(numbers)
            term = nodes.Ternary(*parts) if kind == "?:" else nodes.Call(kind, parts)
        total = term if total is None else nodes.Binary(draw(st.sampled_from("+-")), total, term)
    assert total is not None  # noqa: S101 - there is at least one term
    return total


def opposite(condition: Expr) -> Expr:
    """Negate a condition: true becomes false and false true; others stay.

    >>> from matchmaker import parse_expr
    >>> [str(opposite(parse_expr(text))) for text in ("a > 1", "!a", "a && b", "1 < real(x)")]
    ['a <= 1', 'a', '!(a && b)', '1 >= real(x)']
    """
    if isinstance(condition, nodes.Unary) and condition.operator == "!":
        return condition.operand
    if isinstance(condition, nodes.Binary) and condition.operator in _OPPOSITES:
        return nodes.Binary(_OPPOSITES[condition.operator], condition.left, condition.right)
    return nodes.Unary("!", condition)


_OPPOSITES: Final = {
    "<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "==", "is": "isnt", "isnt": "is"
}  # fmt: skip
