"""A condition on hosts as clauses, each with its bounds; and a clause that flags do not carry.

Flags read bounds of a requirement here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from matchmaker.classad import Expr
from matchmaker.classad.nodes import TRUE, conjuncts
from matchmaker.classad.unparse import unparse
from matchmaker.reduction.bounds import bounds, everything
from matchmaker.reduction.domains import Box, Domain


@attrs.frozen(slots=True)
class Clause:
    """A clause of a condition with its bounds: it is true where one of ``boxes`` holds.

    ``names`` are the attributes as the clause spells them, by folded name.
    """

    expression: Expr
    boxes: tuple[Box, ...]
    names: Mapping[str, str]


def clauses_of(
    condition: Expr, universe: Callable[[str], Domain] = everything
) -> tuple[Clause, ...]:
    """The clauses of a condition, each with its bounds among the values that hosts may have.

    >>> from matchmaker import parse_expr
    >>> [str(clause.expression) for clause in clauses_of(parse_expr("other.A > 5 && other.B"))]
    ['other.A > 5', 'other.B']
    """
    found = []
    for expression in conjuncts(condition):
        if expression is not TRUE:
            known = bounds(expression, universe)
            found.append(Clause(expression, known.boxes, known.names))
    return tuple(found)


@attrs.frozen(slots=True)
class Dropped:
    """A clause that the flags do not carry, or not whole, and why."""

    clause: Expr
    reason: str


def shown(clause: Expr) -> str:
    """A clause within a message."""
    text = unparse(clause)
    return text if len(text) <= 200 else f"{text[:200]} ..."
