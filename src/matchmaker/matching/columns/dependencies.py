"""Find what an expression can lead to: the columns and the job's attributes its value rests on.

An expression stands on one of two sides: in the job's ad, or in the ads of the rows. Names are
followed through the expressions that both sides hold, so that what is not reached cannot matter.
The result may name too much, never too little: whoever evaluates an expression once for all rows
that agree on what it reaches does right. So jobs that agree on all that a match can rest on are one
job (autoclusters), and an expression that only looks for strings in a column is a search.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from typing import Any, Final

import attrs

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.functions import FUNCTIONS, Trait
from matchmaker.classad.nodes import (
    MY_SCOPES,
    TARGET_SCOPES,
    Attr,
    Binary,
    Call,
    Expr,
    ListExpr,
    Literal,
    scope_of,
)
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import Value
from matchmaker.classad.walks import CLOCK, WORDS, Names, names_of
from matchmaker.matching.columns.column import Column, Numeric, identity
from matchmaker.matching.pair import FOLDED_RANK, FOLDED_REQUIREMENTS


class Side(Enum):
    """The ad that an expression belongs to: the job's or a row's."""

    JOB = "job"
    ROW = "row"

    # Sides are parts of keys everywhere; the hash of an enumeration is made in Python.
    __hash__ = object.__hash__

    @property
    def other(self) -> Side:
        """The side that TARGET refers to in an expression of this side."""
        return Side.ROW if self is Side.JOB else Side.JOB


def hides(names: Iterable[str]) -> bool:
    """Whether an attribute is named like a scope, which it hides."""
    return not WORDS.isdisjoint(names)


MANY_EXPRESSIONS: Final = 2000
"""Where an attribute has more distinct expressions than this, each row is taken by itself."""


@attrs.frozen(slots=True)
class Reach:
    """The columns and attributes of the job that a value depends on, by folded name.

    ``opaque`` if it may rest on anything, or if names lead in a circle or very deep: then only the
    whole ads give the value. ``volatile`` if it can be another one the next time.
    """

    columns: frozenset[str] = frozenset()
    job: frozenset[str] = frozenset()
    opaque: bool = False
    volatile: bool = False


OPAQUE: Final = Reach(opaque=True, volatile=True)


class Reaches:
    """Find the columns that expressions reach, for a job and a set of columns; keep the answers."""

    def __init__(
        self, job: ClassAd, columns: Mapping[str, Column], size: int, root: tuple[Side, str]
    ) -> None:
        """Start without answers.

        `root` is the attribute that is being evaluated: to refer to it is circular.
        """
        self._job = job
        self._root = root
        self._columns = columns
        self._size = size
        self._known: dict[tuple[Side, Expr], Reach] = {}
        self._attributes: dict[tuple[Side, str, bool], Reach] = {}
        self._hidden = hides(job._held) or hides(columns)
        self._clock = CLOCK in job._held or CLOCK in columns

    def of(self, node: Expr, side: Side) -> Reach:
        """Return the reach of an expression on a side."""
        if self._hidden:
            return OPAQUE
        key = (side, node)
        if key not in self._known:
            self._known[key] = self._of(node, side, {self._root: node.depth})
        return self._known[key]

    def lacks(self, folded: str) -> bool:
        """Whether a row may lack an attribute."""
        column = self._columns.get(folded)
        return column is None or column.lacks(self._size)

    def strings(self, folded: str) -> bool:
        """Whether an attribute of the rows may be a string, by the form of their column."""
        column = self._columns.get(folded)
        return column is not None and not isinstance(column, Numeric)

    def holder(self, node: Attr, side: Side) -> Side | None:
        """Return the side on which a name is looked up first, or None if its base is computed."""
        scope = scope_of(node)
        if scope in MY_SCOPES:
            return side
        if scope in TARGET_SCOPES:
            return side.other
        if node.base is not None or node.absolute:
            return None
        return side if side is Side.ROW or node.folded in self._job._held else Side.ROW

    def falls_through(self, node: Attr, side: Side) -> bool:
        """Whether a name that the rows lack is looked up in the job: a bare one in their ads."""
        return side is Side.ROW and node.base is None and node.folded in self._job._held

    def _of(
        self, node: Expr, side: Side, path: dict[tuple[Side, str], int], wide: bool = False
    ) -> Reach:
        """Compute a reach; `wide` if it is unknown which ad is on which side."""
        names = names_of(node)
        if names.opaque or (self._clock and CLOCK in names.attributes):
            return OPAQUE
        wide = wide or Trait.GANG in names.traits
        edges = self._edges(names, side)
        if wide:
            edges = {(one, name) for name in names.attributes for one in Side}
        reached = [Reach(volatile=names.volatile)]
        for edge in edges:
            reached.append(self._attribute(edge, path, wide))
            if reached[-1].opaque:
                return OPAQUE
        return _joined(reached)

    def _edges(self, names: Names, side: Side) -> set[tuple[Side, str]]:
        edges = {(side, name) for name in names.my}
        edges |= {(side.other, name) for name in names.target}
        edges |= {(one, name) for name in names.behind for one in Side}
        for name in names.bare:
            if side is Side.JOB:
                edges.add((Side.JOB if name in self._job._held else Side.ROW, name))
            else:
                edges.add((Side.ROW, name))
                if self.lacks(name):
                    edges.add((Side.JOB, name))
        return edges

    def _attribute(
        self, edge: tuple[Side, str], path: dict[tuple[Side, str], int], wide: bool
    ) -> Reach:
        if edge in path:
            return OPAQUE
        known = self._attributes.get((*edge, wide))
        if known is not None:
            return known
        side, name = edge
        held: list[Expr]
        dynamic: list[Expr]
        if side is Side.JOB:
            reached = Reach(job=frozenset({name}))
            content = self._job._held.get(name)
            held = dynamic = [content] if isinstance(content, Expr) else []
        else:
            reached = Reach(columns=frozenset({name}))
            column = self._columns.get(name)
            held = column.expressions() if column is not None else []
            dynamic = column.dynamic() if column is not None else []
        depth = sum(path.values()) + max((node.depth for node in held), default=0)
        if 2 * depth > LIMITS.depth or len(dynamic) > MANY_EXPRESSIONS:
            return OPAQUE
        all_reached = [reached]
        for node in dynamic:
            all_reached.append(self._of(node, side, {**path, edge: node.depth}, wide))
            if all_reached[-1].opaque:
                # What is part of a circle is not remembered: outside of it it may not matter.
                return OPAQUE
        self._attributes[*edge, wide] = joined = _joined(all_reached)
        return joined


def _joined(reached: list[Reach]) -> Reach:
    """Join the reaches of several expressions; none may be opaque."""
    if len(reached) == 1:
        return reached[0]
    return Reach(
        frozenset().union(*[one.columns for one in reached]),
        frozenset().union(*[one.job for one in reached]),
        volatile=True in [one.volatile for one in reached],
    )


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
        """Apply the function to a value."""
        if value.__class__ is str:
            return (value if self.exact else ascii_fold(value)) in self._wanted
        return FUNCTIONS[self._function].call(value, list(self.texts))


@attrs.frozen(slots=True)
class Search:
    """Strings that are looked for in a column, exactly or without regard to case.

    ``negated`` if contents other than these are wanted.
    """

    column: str
    texts: tuple[str, ...]
    exact: bool
    negated: bool


def searched(node: Expr, side: Side, reaches: Reaches, job: ClassAd) -> Search | None:
    """Return the search in a column that an expression is, or None."""
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
    """Return a constant or an attribute of the job, lists of constants too; else None."""
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


_BEGIN: Final = (FOLDED_REQUIREMENTS, FOLDED_RANK)


def _names_in(content: Any) -> frozenset[str] | None:
    """The attributes that a content names; None if it may rest on anything."""
    if not isinstance(content, Expr):
        return frozenset()
    names = names_of(content)
    return None if names.opaque else names.attributes


class Clusters:
    """Put jobs into clusters that one set of columns matches alike.

    By their requirements and rank, and by the values of any other expressions of the job that are
    given as ``also``.
    """

    def __init__(self, columns: Mapping[str, Column], also: Iterable[Expr] = ()) -> None:
        self._columns = columns
        self._also = list(map(_names_in, also))
        self._hidden = hides(columns)
        self._row_names: dict[str, frozenset[str] | None] = {}

    def of(self, job: ClassAd) -> Hashable:
        """The cluster of a job: equal for jobs that match the same rows with the same ranks."""
        significant = self.significant(job)
        content = job._held
        chosen = content if significant is None else sorted(significant & content.keys())
        return tuple(
            (name, content[name].__class__, identity(content[name])) for name in sorted(chosen)
        )

    def significant(self, job: ClassAd) -> set[str] | None:
        """Return the folded names that matter, present or not; None for all of the job's."""
        if hides(job._held) or self._hidden:
            return None
        found = set(_BEGIN)
        reached = [
            self._names_in_rows(FOLDED_REQUIREMENTS),
            *self._also,
            *(_names_in(job._held.get(name)) for name in _BEGIN),
        ]
        while reached:
            names = reached.pop()
            if names is None:
                return None
            for name in names - found:
                found.add(name)
                reached += (_names_in(job._held.get(name)), self._names_in_rows(name))
        return found

    def _names_in_rows(self, name: str) -> frozenset[str] | None:
        """Return the names in the rows' expressions of an attribute; None if unknown."""
        if name not in self._row_names:
            column = self._columns.get(name)
            held = column.dynamic() if column is not None else []
            each = list(map(_names_in, held)) if len(held) <= MANY_EXPRESSIONS else [None]
            known = [names for names in each if names is not None]
            whole = len(known) == len(each)
            self._row_names[name] = frozenset().union(*known) if whole else None
        return self._row_names[name]
