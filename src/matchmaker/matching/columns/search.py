"""Which expressions look for strings in a column: comparisons with one, and members of a list."""

from __future__ import annotations

from typing import Any, Final

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.functions import FUNCTIONS
from matchmaker.classad.nodes import Attr, Binary, Call, Expr, ListExpr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import Value
from matchmaker.matching.columns.dependencies import Reaches, Side

_COMPARISONS: Final = {"==": (False, False), "!=": (False, True), "is": (True, False),
                       "isnt": (True, True)}  # fmt: skip
"""Operators that compare strings: whether by letter case too, and whether they are negated."""

_FUNCTIONS: Final = {"member": False, "identicalmember": True}


@attrs.frozen(slots=True)
class Members:
    """Strings among which a function looks for a value, exactly or without regard to case."""

    texts: tuple[str, ...]
    exact: bool
    _wanted: frozenset[str]
    _function: str

    def holds(self, value: Value) -> Value:
        """What the function says of a value."""
        if value.__class__ is str:
            return (value if self.exact else ascii_fold(value)) in self._wanted
        return FUNCTIONS[self._function].call(value, list(self.texts))


@attrs.frozen(slots=True)
class Search:
    """Strings that are looked for in a column, exactly or without regard to case.

    ``negated`` where it is what has none of them that is wanted.
    """

    column: str
    texts: tuple[str, ...]
    exact: bool
    negated: bool


def searched(node: Expr, side: Side, reaches: Reaches, job: ClassAd) -> Search | None:
    """What an expression looks for in a column, if that is all that it does."""
    if isinstance(node, Binary) and node.operator in _COMPARISONS:
        exact, negated = _COMPARISONS[node.operator]
        for one, other in ((node.left, node.right), (node.right, node.left)):
            text = _plain(other, side, reaches, job)
            column = _column(one, side, reaches)
            if column is not None and isinstance(text, str):
                return Search(column, (text,), exact, negated)
    if isinstance(node, Call) and len(node.arguments) == 2:
        column = _column(node.arguments[0], side, reaches)
        listed = members(node, side, reaches, job) if column is not None else None
        if column is not None and listed is not None:
            return Search(column, listed.texts, listed.exact, False)
    return None


def members(node: Call, side: Side, reaches: Reaches, job: ClassAd) -> Members | None:
    """The strings among which ``member`` or ``identicalMember`` looks, if they are all strings."""
    function = node.function.lower()
    if function not in _FUNCTIONS or len(node.arguments) != 2:
        return None
    held = _plain(node.arguments[1], side, reaches, job)
    if not isinstance(held, list) or not all(item.__class__ is str for item in held):
        return None
    exact = _FUNCTIONS[function]
    wanted = frozenset(held if exact else map(ascii_fold, held))
    return Members(tuple(held), exact, wanted, function)


def _column(node: Expr, side: Side, reaches: Reaches) -> str | None:
    """The column that a name is of."""
    if isinstance(node, Attr) and reaches.holder(node, side) is Side.ROW:
        return node.folded if reaches.strings(node.folded) else None
    return None


def _plain(node: Expr, side: Side, reaches: Reaches, job: ClassAd) -> Any:
    """A constant, or what the job holds under a name; lists of constants too. Else None."""
    held: Any = node
    if isinstance(node, Attr):
        if reaches.holder(node, side) is not Side.JOB:
            return None
        held = job._held.get(node.folded)
    if isinstance(held, Literal):
        return held.value
    if isinstance(held, ListExpr):
        items = [item.value for item in held.items if isinstance(item, Literal)]
        return items if len(items) == len(held.items) else None
    return None if isinstance(held, Expr) else held
