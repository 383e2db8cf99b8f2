"""The data of the linter's rules: pieces, places, sites, scopes, reports and fixes.

A text is cut into *pieces*, each read by the parser as one. Every node of every piece becomes a
*site*: its place, the sites around it, and the ads whose attributes it can see, its *scopes*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs
from lark import Token, Tree

from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats.old import Marks, offset
from matchmaker.classad.grammar import NODES, lark, without_mark
from matchmaker.classad.nodes import (
    MY_SCOPES,
    TARGET_SCOPES,
    AdExpr,
    Attr,
    Binary,
    Call,
    Expr,
    ListExpr,
    scope_of,
)
from matchmaker.classad.parser import parse_ad_expr, parse_expr
from matchmaker.classad.walks import SPECIAL


@attrs.frozen(slots=True, eq=False)
class Name:
    """A name as it is written: of an attribute or of a function."""

    text: str
    start: int
    end: int


@attrs.frozen(slots=True, eq=False)
class NodePlace:
    """A node and its span in the text, ``text[start:end]``.

    Nodes are interned, so that one may stand in many places: the text is read once more, by the
    same grammar with positions. ``outer_start`` and ``outer_end`` include the parentheses around
    it; of an ad, ``parts`` are those too that a later one replaces, and ``names`` those of its
    parts; ``operator`` is the span of the operator between or before the parts.
    """

    node: Expr
    start: int
    end: int
    outer_start: int
    outer_end: int
    parts: tuple[NodePlace, ...] = ()
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
    value: NodePlace


_Made: TypeAlias = "NodePlace | Name | _Assigned | Token"


def place_expr(text: str) -> NodePlace:
    """The places of an expression's parts. Raises ParseError as ``parse_expr`` does.

    >>> place = place_expr("a + (b * 2)")
    >>> [(str(part.node), part.start, part.end, part.outer_end) for part in place.parts]
    [('a', 0, 1, 1), ('b * 2', 5, 10, 11)]
    """
    return _placed(text, "expression", parse_expr(text))


def place_ad(text: str) -> NodePlace:
    """The places of the parts of an ad in brackets. Raises ParseError as ``parse_ad`` does.

    >>> [name.text for name in place_ad("[ a = 1; A = 2 ]").names]
    ['a', 'A']
    """
    return _placed(text, "ad", parse_ad_expr(text))


def _placed(text: str, start: str, node: Expr) -> NodePlace:
    # The text has been read before, so that bounds and errors are the parser's.
    place = _converted(lark().parse(without_mark(text), start=start))
    if not isinstance(place, NodePlace) or place.node is not node:
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
        assert isinstance(place, NodePlace)  # noqa: S101
        return _Assigned(name, place)
    parts = [child.value if isinstance(child, _Assigned) else child for child in children]
    names = [child.name if isinstance(child, _Assigned) else child for child in children]
    # The one token beside the parts of a node is its operator.
    tokens = [child for child in children if isinstance(child, Token)]
    return NodePlace(
        value,
        meta.start_pos,
        meta.end_pos,
        meta.container_start_pos,
        meta.container_end_pos,
        tuple(part for part in parts if isinstance(part, NodePlace)),
        tuple(name for name in names if isinstance(name, Name)),
        (tokens[0].start_pos or 0, tokens[0].end_pos or 0)
        if tokens and len(children) > 1
        else None,
    )


def _argument(child: _Made) -> Any:
    """The argument that makes a child of a node."""
    if isinstance(child, NodePlace):
        return child.node
    if isinstance(child, Name):
        return child.text
    if isinstance(child, _Assigned):
        return child.name.text, child.value.node
    return child


@attrs.frozen(slots=True, eq=False)
class Piece:
    """A text that is parsed as one, and its origin.

    Strings of the old format are rewritten before they are parsed. `marks` are offsets in the piece
    from which on its characters are those of the whole text again, each with the offset there.
    """

    text: str
    base: int
    is_ad: bool = False
    old: bool = False
    marks: Marks = ()

    def offset(self, at: int) -> int:
        """The offset in the whole text for one in the piece."""
        return offset(at, self.marks, self.base)


@attrs.frozen(slots=True)
class Report:
    """A finding of a rule: a span of a piece, a message, and a replacement.

    An empty severity is the rule's own.
    """

    piece: Piece
    start: int
    end: int
    message: str
    fix: str = ""
    severity: str = ""


@attrs.frozen(slots=True, eq=False)
class Definition:
    """An attribute that an ad defines."""

    name: Name
    value: NodePlace
    piece: Piece
    # Where the name stands: in the old format outside of the piece.
    name_piece: Piece

    @property
    def folded(self) -> str:
        """The name in lower case."""
        return self.name.text.lower()


@attrs.frozen(slots=True, eq=False)
class AdScope:
    """An ad, with the one around it. Of duplicates the last one counts."""

    definitions: tuple[Definition, ...] = ()
    above: AdScope | None = None
    last: Mapping[str, Definition] = attrs.field(init=False)

    @last.default
    def _last(self) -> Mapping[str, Definition]:
        return {definition.folded: definition for definition in self.definitions}

    def find(self, folded: str) -> Definition | None:
        """The definition that a bare name stands for here."""
        scope: AdScope | None = self
        while scope is not None:
            if folded in scope.last:
                return scope.last[folded]
            scope = scope.above
        return None

    def names(self) -> Iterator[str]:
        """All names that can be seen from here."""
        scope: AdScope | None = self
        while scope is not None:
            yield from (definition.name.text for definition in scope.last.values())
            scope = scope.above


@attrs.frozen(slots=True, eq=False)
class LintSite:
    """A node at its place.

    Attributes:
        place: the node and its span.
        piece: the text in which it stands.
        above: the site around it; None for a whole expression.
        scope: the ad around it.
        guards: the names, in lower case, that the expression around it tests for being there.
        elsewhere: whether it is evaluated in other ads than the one around it.
    """

    place: NodePlace
    piece: Piece
    above: LintSite | None
    scope: AdScope
    guards: set[str]
    elsewhere: bool = False

    def report(
        self, message: str, fix: str = "", severity: str = "", at: NodePlace | Name | None = None
    ) -> Report:
        """A report about the whole of it, or about a part."""
        span = at or self.place
        return Report(self.piece, span.start, span.end, message, fix, severity)


@attrs.frozen(slots=True, eq=False)
class Unit:
    """Expressions that are checked together: an ad, or one expression."""

    sites: tuple[LintSite, ...]
    scopes: tuple[AdScope, ...]


def role_of(site: LintSite) -> str:
    """The role of a name: ``bare``, ``my`` or ``target``, or empty for other names.

    An attribute that is itself called ``target`` hides the word.
    """
    node = site.place.node
    if not isinstance(node, Attr) or node.absolute or site.elsewhere:
        return ""
    if node.base is None:
        return "" if node.folded in SPECIAL else "bare"
    scope = scope_of(node)
    if scope is None or site.scope.find(scope) is not None:
        return ""
    return "my" if scope in MY_SCOPES else "target" if scope in TARGET_SCOPES else ""


@attrs.frozen(slots=True)
class LintRule:
    """A rule: its stable code, severity, subject, and check.

    A rule of the syntax has no function: its findings come from the parser.
    """

    code: str
    severity: str
    title: str
    check: Callable[..., Iterable[Report]] | None = None
    of_scope: bool = False


# What stands in them is a whole expression.
_HOLDERS: Final = (AdExpr, ListExpr, Call)


def text_of(site: LintSite, place: NodePlace) -> str:
    """The text of a place with the parentheses around it."""
    return site.piece.text[place.outer_start : place.outer_end]


def with_operator(site: LintSite, operator: str) -> str:
    """The text of a binary operation with another operator."""
    place = site.place
    if place.operator is None:
        return ""
    text = site.piece.text
    start, end = place.operator
    before, after = text[place.start : start], text[end : place.end]
    if operator.isalpha():
        # A word needs space around it, which `a==b` has not.
        operator = " " * (not before[-1:].isspace()) + operator + " " * (not after[:1].isspace())
    return before + operator + after


def with_doubled(site: LintSite) -> str:
    """The text of a chain ``a & b & c`` or ``a | b | c`` with each operator doubled."""
    place, text = site.place, site.piece.text
    node = place.node
    end = place.end
    parts: list[str] = []
    while isinstance(place.node, Binary) and isinstance(node, Binary) and place.operator:
        if place.node.operator != node.operator or (parts and place.bracketed):
            break
        parts.append(node.operator + text[place.operator[0] : end])
        end = place.operator[0]
        place = place.parts[0]
    parts.append(text[site.place.start : end])
    return "".join(reversed(parts))


def whole(site: LintSite, fix: str) -> str:
    """A fix for the whole of a site, in parentheses if it would be torn apart without."""
    if site.place.bracketed:
        return fix
    wrapped = f"({fix})"
    if site.above is None or isinstance(site.above.place.node, _HOLDERS):
        return fix
    if len(site.piece.text) > LIMITS.fixed:
        return wrapped
    text, place = site.piece.text, site.place
    parse = parse_ad_expr if site.piece.is_ad else parse_expr
    try:
        same = parse(text[: place.start] + fix + text[place.end :]) is parse(
            text[: place.start] + wrapped + text[place.end :]
        )
    except ParseError:
        same = False
    return fix if same else wrapped


def commented_out(definition: Definition) -> tuple[int, int, str]:
    """The span of a definition, and its text as a comment; empty if that cannot be."""
    piece, start = definition.name_piece, definition.name.start
    if not piece.is_ad:
        # A line of the old format.
        end = len(piece.text.rstrip())
        return start, end, f"# {piece.text[start:end]}"
    end = definition.value.outer_end
    semicolon = _SEMICOLON.match(piece.text, end)
    end = semicolon.end() if semicolon else end
    text = piece.text[start:end]
    return start, end, "" if "*/" in text else f"/* {text} */"


_SEMICOLON: Final = re.compile(r"\s*;")
