"""Where in its text each part of an expression stands.

Nodes are interned: one object may stand in many places, and so carries none. Here a text is read
once more, by the same grammar with positions, and beside each node goes its span. What a text means
is decided by ``grammar`` alone, whose own functions make the nodes here too.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
from lark import Token, Tree

from matchmaker.classad.grammar import NODES, lark, without_mark
from matchmaker.classad.nodes import Expr
from matchmaker.classad.parser import parse_ad_expr, parse_expr


@attrs.frozen(slots=True, eq=False)
class Name:
    """A name as it is written: of an attribute or of a function."""

    text: str
    start: int
    end: int


@attrs.frozen(slots=True, eq=False)
class Place:
    """A node and its span in the text, ``text[start:end]``.

    Attributes:
        node: the interned node.
        start: the offset of its first character, parentheses around it not counted.
        end: the offset after its last one.
        outer_start: as `start`, with the parentheses around it.
        outer_end: as `end`, with the parentheses around it.
        parts: its children as they are written; of an ad those too that a later one replaces.
        names: the names that the node itself writes: an ad's are those of its `parts`.
        operator: the span of the operator between or before its parts.
    """

    node: Expr
    start: int
    end: int
    outer_start: int
    outer_end: int
    parts: tuple[Place, ...] = ()
    names: tuple[Name, ...] = ()
    operator: tuple[int, int] | None = None

    @property
    def bracketed(self) -> bool:
        """Whether there are parentheses around it."""
        return self.start != self.outer_start


@attrs.frozen(slots=True, eq=False)
class _Assigned:
    """An assignment in an ad."""

    name: Name
    value: Place


_Made: TypeAlias = "Place | Name | _Assigned | Token"


def place_expr(text: str) -> Place:
    """The places of an expression's parts. Raises ParseError as ``parse_expr`` does.

    >>> place = place_expr("a + (b * 2)")
    >>> [(str(part.node), part.start, part.end, part.outer_end) for part in place.parts]
    [('a', 0, 1, 1), ('b * 2', 5, 10, 11)]
    """
    return _placed(text, "expression", parse_expr(text))


def place_ad(text: str) -> Place:
    """The places of the parts of an ad in brackets. Raises ParseError as ``parse_ad`` does.

    >>> [name.text for name in place_ad("[ a = 1; A = 2 ]").names]
    ['a', 'A']
    """
    return _placed(text, "ad", parse_ad_expr(text))


def _placed(text: str, start: str, node: Expr) -> Place:
    # The text has been read before, so that bounds and errors are the parser's.
    place = _converted(lark().parse(without_mark(text), start=start))
    if not isinstance(place, Place) or place.node is not node:
        raise AssertionError("both ways to read a text give the same node")
    return place


def _converted(root: Tree[Token]) -> _Made:
    """A tree of Lark's from its leaves up, without recursion: chains may be thousands long."""
    made: dict[int, _Made] = {}
    stack: list[tuple[Tree[Token], bool]] = [(root, False)]
    while stack:
        tree, ready = stack.pop()
        if ready:
            made[id(tree)] = _made(
                tree, [made.pop(id(c)) if isinstance(c, Tree) else c for c in tree.children]
            )
        else:
            stack.append((tree, True))
            stack.extend((c, False) for c in tree.children if isinstance(c, Tree))
    return made[id(root)]


def _made(tree: Tree[Token], children: list[_Made]) -> _Made:
    meta: Any = tree.meta
    value = getattr(NODES, str(tree.data))(*map(_argument, children))
    if isinstance(value, str):
        return Name(value, meta.start_pos, meta.end_pos)
    if isinstance(value, tuple):
        name, place = children
        assert isinstance(name, Name)  # noqa: S101 - for the type checker: the grammar says so
        assert isinstance(place, Place)  # noqa: S101
        return _Assigned(name, place)
    parts = [child.value if isinstance(child, _Assigned) else child for child in children]
    names = [child.name if isinstance(child, _Assigned) else child for child in children]
    # The one token beside the parts of a node is its operator.
    tokens = [child for child in children if isinstance(child, Token)]
    return Place(
        value,
        meta.start_pos,
        meta.end_pos,
        meta.container_start_pos,
        meta.container_end_pos,
        tuple(part for part in parts if isinstance(part, Place)),
        tuple(name for name in names if isinstance(name, Name)),
        (tokens[0].start_pos or 0, tokens[0].end_pos or 0)
        if tokens and len(children) > 1
        else None,
    )


def _argument(child: _Made) -> Any:
    """What the function that makes a node is given for a child."""
    if isinstance(child, Place):
        return child.node
    if isinstance(child, Name):
        return child.text
    if isinstance(child, _Assigned):
        return child.name.text, child.value.node
    return child
