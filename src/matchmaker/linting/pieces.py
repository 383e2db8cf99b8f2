"""A text cut into the pieces that are parsed as one: expressions, ads, lines of the old format.

What cannot be read is reported and skipped, so that the rest is still checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats import new, stream
from matchmaker.classad.formats.assignments import ad_in
from matchmaker.classad.formats.old import BANNER, LINE, rewritten
from matchmaker.classad.formats.stream import beginning, in_brackets, without_comments
from matchmaker.classad.nodes import Expr, ListExpr, Literal
from matchmaker.classad.parser import assignments_in, inside_of
from matchmaker.classad.printer import unescape
from matchmaker.linting.model import (
    Definition,
    Name,
    Piece,
    Place,
    Report,
    Scope,
    place_ad,
    place_expr,
)
from matchmaker.linting.syntax import Problem, problem


@attrs.frozen(slots=True, eq=False)
class Whole:
    """An ad or an expression that could be read: its places, and the scope that it makes."""

    scope: Scope
    roots: tuple[tuple[Piece, Place], ...]


Read: TypeAlias = "Whole | Problem"

_ASSIGNMENT: Final = re.compile(r"""[ \t]*(?:'(?:[^'\\\n]|\\.)+'|[^\s='"]+)[ \t]*=(?![=?!])""")
_LIST: Final = re.compile(
    rf'\{{(?!(?:\s|{stream.COMMENT})*+(?:\[|"(?:[^"\\]|\\.)*+"\s*+:))', re.DOTALL
)
_NO_ASSIGNMENT: Final = "there is no assignment on this line: name = expression"

FORMATS: Final = ("new", "old", "expression")


def detect(text: str) -> str:
    """What a text seems to be: ``new``, ``old``, ``expression``, ``json`` or ``xml``.

    Formats of ads are detected as their readers do it.

    >>> detect("[ a = 1 ]"), detect("a = 1"), detect("a =?= 1"), detect('[{"a": 1}]')
    ('new', 'old', 'expression', 'json')
    """
    rest = text[beginning(text + "\n") :]
    found, _ = stream.detect(iter([text]))
    if found == stream.BARE:
        return "new"
    if found != "old":
        # No reader of ads takes an expression: a list that holds no ads.
        return "expression" if _LIST.match(rest) else found
    if not rest or _ASSIGNMENT.match(rest):
        return "old"
    if "\n" in text.strip() and any(map(_ASSIGNMENT.match, text.split("\n"))):
        # Several lines that assign, below a first one that is spoiled; or an expression with an ad.
        try:
            place_expr(text)
        except ParseError:
            return "old"
    return "expression"


def read(text: str, format: str) -> Iterator[Read]:  # noqa: A002 - the word for it, as elsewhere
    """What a text holds, in order; `format` is one of FORMATS."""
    if format == "expression":
        yield from _expression(text)
    elif format == "new":
        yield from _ads(text)
    else:
        yield from _lines(text)


def _expression(text: str) -> Iterator[Read]:
    if text.strip():
        for found in _mended(Piece(text, 0), place_expr):
            yield found if isinstance(found, Problem) else Whole(Scope(), (found,))


def _mended(piece: Piece, place: Callable[[str], Place]) -> Iterator[Problem | tuple[Piece, Place]]:
    """A piece that could be read; before it what is wrong, as long as that can be mended."""
    for _ in range(LIMITS.mended):
        try:
            yield piece, place(piece.text)
        except ParseError as error:
            found = problem(piece, error)
            yield found
            mended = found.mended
            if mended is None:
                return
            piece = mended
        else:
            return


# --- the new format -------------------------------------------------------------------------------


def _ads(text: str) -> Iterator[Read]:
    found = new.remark(text)
    if found:
        begin = beginning(text)
        end = (text + "\n").index("\n", begin)
        yield Problem("CA005", Report(Piece(text, 0), begin, end, found))
    if stream.detect(iter([text]))[0] == stream.BARE:
        # What stands before the text has no place in it.
        yield from _ad(Piece(in_brackets(text), 0, is_ad=True, marks=((2, 0),)))
        return
    text = without_comments(text)
    starts = [0, *(newline.end() for newline in re.finditer("\n", text))]
    # Where the reader would report an error, it goes on behind it: the parser finds the mistake.
    for part in stream.cut(iter([text]), new.SYNTAX, lambda error: None):
        yield from _ad(Piece(part.text, starts[part.line - 1] + part.column, is_ad=True))


def _ad(piece: Piece) -> Iterator[Read]:
    """An ad; nothing for one of constants alone, which no rule is about."""
    flat = ad_in(piece.text)
    inside = inside_of(piece.text)
    if (
        flat is None
        or inside is None
        or len(flat) != len(assignments_in(inside))
        or not all(map(_is_constant, flat._held.values()))
    ):
        for found in _mended(piece, place_ad):
            yield found if isinstance(found, Problem) else Whole(Scope(), (found,))


def _is_constant(held: object) -> bool:
    if isinstance(held, ListExpr):
        return all(isinstance(item, Literal) for item in held.items)
    return not isinstance(held, Expr)


# --- the old format -------------------------------------------------------------------------------


def _lines(text: str) -> Iterator[Read]:
    definitions: list[Definition] = []
    start = 0
    for line in text.split("\n"):
        if not line or line.isspace() or line.startswith(BANNER):
            if definitions:
                yield _old_ad(definitions)
            definitions = []
        elif not line.lstrip().startswith("#"):
            for found in _assignment(line, start):
                if isinstance(found, Problem):
                    yield found
                else:
                    definitions.append(found)
        start += len(line) + 1
    if definitions:
        yield _old_ad(definitions)


"""How the line begins that ends a job in a history file."""


def _old_ad(definitions: list[Definition]) -> Whole:
    return Whole(
        Scope(tuple(definitions)),
        tuple((definition.piece, definition.value) for definition in definitions),
    )


def _assignment(line: str, start: int) -> Iterator[Definition | Problem]:
    match = LINE.match(line)
    # As it stands: what is put instead of a part of it is in the old format already.
    whole = Piece(line, start)
    if match is None:
        yield problem(whole, ParseError(_NO_ASSIGNMENT, line=1, column=1), len(line))
        return
    try:
        text = unescape(match[1][1:-1]) if match[1][0] == "'" else match[1]
    except ValueError as error:
        yield problem(whole, ParseError(str(error), line=1, column=match.start(1) + 1))
        return
    for found in _mended(_rewritten(match[2], start + match.start(2)), place_expr):
        if isinstance(found, Problem):
            yield found
        else:
            piece, value = found
            yield Definition(Name(text, match.start(1), match.end(1)), value, piece, whole)


def _rewritten(text: str, start: int) -> Piece:
    """The expression of a line, its strings as in the new format."""
    whole, marks = rewritten(text)
    # The parser's lines and columns begin with what is not space.
    space = len(whole) - len(whole.lstrip())
    return Piece(
        whole.strip(),
        start + space,
        old=True,
        marks=tuple((a - space, start + b) for a, b in marks),
    )
