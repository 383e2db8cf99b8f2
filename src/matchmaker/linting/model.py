"""What the rules of the linter work on and what they give.

A text is cut into *pieces*, each read by the parser as one. Every node of every piece becomes a
*site*: its place, what stands around it, and the ads whose attributes it can see, its *scopes*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from matchmaker.classad.formats.old import Marks, offset
from matchmaker.classad.nodes import MY_SCOPES, TARGET_SCOPES, Attr, scope_of
from matchmaker.classad.references import SPECIAL
from matchmaker.classad.spans import Name, Place


@attrs.frozen(slots=True, eq=False)
class Piece:
    """A text that is parsed as one, and where it came from.

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
    """What a rule found: a span of a piece, what is wrong, and what to put there instead.

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
    value: Place
    piece: Piece
    # Where the name stands: in the old format outside of the piece.
    name_piece: Piece

    @property
    def folded(self) -> str:
        """The name in lower case."""
        return self.name.text.lower()


@attrs.frozen(slots=True, eq=False)
class Scope:
    """An ad, with the one around it. Of duplicates the last one counts."""

    definitions: tuple[Definition, ...] = ()
    above: Scope | None = None
    last: Mapping[str, Definition] = attrs.field(init=False)

    @last.default
    def _last(self) -> Mapping[str, Definition]:
        return {definition.folded: definition for definition in self.definitions}

    def find(self, folded: str) -> Definition | None:
        """The definition that a bare name stands for here."""
        scope: Scope | None = self
        while scope is not None:
            if folded in scope.last:
                return scope.last[folded]
            scope = scope.above
        return None

    def names(self) -> Iterator[str]:
        """All names that can be seen from here."""
        scope: Scope | None = self
        while scope is not None:
            yield from (definition.name.text for definition in scope.last.values())
            scope = scope.above


@attrs.frozen(slots=True, eq=False)
class Site:
    """A node at its place.

    Attributes:
        place: the node and its span.
        piece: the text in which it stands.
        above: the site of which it is a part; None for a whole expression.
        scope: the ad around it.
        guards: the names, in lower case, that the expression around it tests for being there.
        elsewhere: whether it is evaluated in other ads than the one around it.
    """

    place: Place
    piece: Piece
    above: Site | None
    scope: Scope
    guards: set[str]
    elsewhere: bool = False

    def report(
        self, message: str, fix: str = "", severity: str = "", at: Place | Name | None = None
    ) -> Report:
        """A report about the whole of it, or about a part."""
        span = at or self.place
        return Report(self.piece, span.start, span.end, message, fix, severity)


@attrs.frozen(slots=True, eq=False)
class Unit:
    """Expressions that are checked together: an ad, or one expression."""

    sites: tuple[Site, ...]
    scopes: tuple[Scope, ...]


def role_of(site: Site) -> str:
    """Whose attribute a name is: ``bare``, ``my`` or ``target``, or empty where it is no matter.

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
class Rule:
    """A rule: its stable code, how grave what it finds is, what it is about, and what finds it.

    A rule of the syntax has no function: its findings come from the parser.
    """

    code: str
    severity: str
    title: str
    check: Callable[..., Iterable[Report]] | None = None
    of_scope: bool = False
