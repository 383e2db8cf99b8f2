"""A text cut into the pieces that are parsed as one: expressions, ads, lines of the old format.

Text that cannot be read is reported and skipped, so that the rest is still checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad.errors import ParseError, shorten, wording
from matchmaker.classad.formats import new, stream
from matchmaker.classad.formats.new import ad_in
from matchmaker.classad.formats.old import BANNER, LINE, rewritten
from matchmaker.classad.formats.stream import beginning, in_brackets, without_comments
from matchmaker.classad.functions import FUNCTIONS, Trait, traits_of
from matchmaker.classad.nodes import AdExpr, Attr, Binary, Call, Expr, ListExpr, Literal
from matchmaker.classad.parser import assignments_in, inside_of, parse_ad_expr, parse_expr, parsed
from matchmaker.classad.printer import unescape
from matchmaker.linting.model import (
    AdScope,
    Definition,
    LintSite,
    Name,
    NodePlace,
    Piece,
    Report,
    Unit,
    place_ad,
    place_expr,
)


@attrs.frozen(slots=True)
class Problem:
    """A text that cannot be read: the code of its rule, and the report."""

    code: str
    report: Report

    @property
    def mended(self) -> Piece | None:
        """The piece with the fix in it, so that the rest can be looked at, or None without one."""
        found = self.report
        piece, start, end = found.piece, found.start, found.end
        if not found.fix:
            return None
        more = len(found.fix) - (end - start)
        marks = (
            *(mark for mark in piece.marks if mark[0] <= start),
            (end + more, piece.offset(end)),
            *((here + more, there) for here, there in piece.marks if here > end),
        )
        text = piece.text[:start] + found.fix + piece.text[end:]
        return attrs.evolve(piece, text=text, marks=marks)


@attrs.frozen(slots=True)
class _Mend:
    """A span of a text and its replacement."""

    code: str
    start: int
    end: int
    fix: str


# A comment up to the end of its line, and what else may hold two slashes.
_COMMENT: Final = re.compile(
    r"""//(?P<rest>[^\n]*+)|/\*.*?\*/|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL
)
_OPERAND_END: Final = re.compile(r"[\w)\]}\"']\Z")


def swallowed(piece: Piece) -> Iterator[Report]:
    """``Cpus // 2 > 1 && x``: a comment that holds the rest of an expression."""
    text = piece.text
    for found in _COMMENT.finditer(text):
        rest = (found["rest"] or "").split(";")[0].rstrip(" \t\r]")
        start = found.start()
        line = text[text.rfind("\n", 0, start) + 1 : start].rstrip()
        if not rest or not _OPERAND_END.search(line[-1:]) or not _is_code(rest):
            continue
        message = f"// begins a comment, so that {shorten(rest.strip(), 60)} is no part of this"
        divided = parsed(f"1 /{rest}") is not None
        yield Report(
            piece, start, start + 2 + len(rest), message + ": to divide, use /" * divided,
            f"/{rest}" if divided else "",
        )  # fmt: skip


def _is_code(text: str) -> bool:
    """Whether a comment is more likely a part of an expression than a note in words."""
    if not text.strip().isdecimal() and not _TELLING.search(text):
        return False
    return parsed(f"1 {text}") is not None or parsed(text) is not None


_TELLING: Final = re.compile(r"&&|\|\||[<>=!]=|[<>]|\?.*:")
"""Operators that neither words nor the names of things have."""

_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|\w+|[=!<>&|?]+|.', re.DOTALL)

# By the parser's hint: the code, what stands at the place of the error, and what replaces it.
_MENDS: Final = {
    "use >=": ("CA002", re.compile(r"=>"), r">="),
    "use <=": ("CA002", re.compile(r"=<"), r"<="),
    "use =!=": ("CA004", re.compile(r"(?:isnot|is_not|isn't)\b", re.IGNORECASE), r"=!="),
    "put a plain space": ("CA001", re.compile(r"\s"), " "),
    "no ; at the end of an expression": ("CA001", re.compile(r";\s*"), " "),
    "use == to compare": ("CA002", re.compile(r"="), r"=="),
    "use &&": ("CA004", re.compile(r"and\b", re.IGNORECASE), r"&&"),
    "use ||": ("CA004", re.compile(r"or\b", re.IGNORECASE), r"||"),
    "use !": ("CA004", re.compile(r"not\b\s*", re.IGNORECASE), r"!"),
    "a real needs a digit after the dot": ("CA001", re.compile(r"-?\d+\."), r"\g<0>0"),
    "write it as a real": ("CA001", re.compile(r"-?\d+"), r"\g<0>.0"),
}


def problem(piece: Piece, error: ParseError, length: int = 0) -> Problem:
    """The finding for an error of the parser in a piece; `length` is that of its span if known."""
    text = piece.text
    at = _offset(text, error)
    mend = _mend(text, at, error.hint)
    if mend is not None and not _helps(piece, mend):
        mend = attrs.evolve(mend, fix="")
    if mend is None:
        word = _WORD.match(text, at)
        mend = _Mend("CA001", at, at + length if length else word.end() if word else at, "")
    message = wording(error)
    if mend.code == "CA003":
        message = f"the right side of ?: is no place for {text[at]!r}: put it in parentheses"
    return Problem(mend.code, Report(piece, mend.start, mend.end, message, mend.fix))


def _offset(text: str, error: ParseError) -> int:
    if not error.line:
        return 0
    start = 0
    for _ in range(error.line - 1):
        start = text.find("\n", start) + 1
    return min(len(text), start + max(0, error.column - 1))


def _mend(text: str, at: int, hint: str) -> _Mend | None:
    before = text[max(0, at - 100) : at]
    if text[at : at + 1] in ("-", "+", "!", "~") and re.search(r"\?\s*:\s*\Z", before):
        end = operand_end(text, at)
        return _Mend("CA003", at, end, f"({text[at:end]})")
    word = re.search(r"(?<![\w.])(is\s+)?not\s+\Z|<\Z", before, re.IGNORECASE)
    if word is not None and word[0] != "<":
        return _Mend("CA004", at - len(word[0]), at, "=!= " if word[1] else "!")
    if word is not None and hint == "use !=":
        return _Mend("CA002", at - 1, at + 1, "!=")
    if hint in _MENDS:
        code, pattern, replacement = _MENDS[hint]
        match = pattern.match(text, at)
        if match is not None:
            return _Mend(code, match.start(), match.end(), match.expand(replacement))
    return None


def _helps(piece: Piece, mend: _Mend) -> bool:
    """Whether with the fix the text can be read, or at least further on."""
    mended = piece.text[: mend.start] + mend.fix + piece.text[mend.end :]
    try:
        (parse_ad_expr if piece.is_ad else parse_expr)(mended)
    except ParseError as error:
        return _offset(mended, error) > mend.start + len(mend.fix)
    return True


_SIGNS: Final = re.compile(r"[-+!~\s]*")
_PRIMARY: Final = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"\s*)+|'(?:[^'\\]|\\.)+'|[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?|\w+""",
    re.IGNORECASE | re.DOTALL,
)
_SELECTION: Final = re.compile(r"\s*\.\s*(?:\w+|'(?:[^'\\]|\\.)+')", re.DOTALL)
_GROUP: Final = re.compile(
    r"""(?P<open>[(\[{])|(?P<close>[)\]}])|"(?:[^"\\]|\\.)*"|[^"]""", re.DOTALL
)


def operand_end(text: str, start: int) -> int:
    """End offset of an operand with its signs: ``-x.y``, ``!f(a)[0]``, ``-(a + b)``.

    >>> operand_end("-f(a, (b)) + 1", 0)
    10
    """
    match = _SIGNS.match(text, start)
    at = first = match.end() if match else start
    primary = _PRIMARY.match(text, at)
    at = primary.end() if primary else at
    while at < len(text):
        selection = _SELECTION.match(text, at)
        if selection is not None:
            at = selection.end()
        elif text[at] in "([" or (text[at] == "{" and at == first):
            at = _group_end(text, at)
        else:
            break
    return at


def _group_end(text: str, start: int) -> int:
    depth = 0
    for token in _GROUP.finditer(text, start):
        if token["open"]:
            depth += 1
        elif token["close"]:
            depth -= 1
            if depth == 0:
                return token.end()
    return len(text)


@attrs.frozen(slots=True, eq=False)
class ParsedText:
    """An ad or an expression that could be read: its places, and the scope that it makes."""

    scope: AdScope
    roots: tuple[tuple[Piece, NodePlace], ...]


Read: TypeAlias = "ParsedText | Problem"

_ASSIGNMENT: Final = re.compile(r"""[ \t]*(?:'(?:[^'\\\n]|\\.)+'|[^\s='"]+)[ \t]*=(?![=?!])""")
_LIST: Final = re.compile(
    rf'\{{(?!(?:\s|{stream.COMMENT})*+(?:\[|"(?:[^"\\]|\\.)*+"\s*+:))', re.DOTALL
)
_NO_ASSIGNMENT: Final = "there is no assignment on this line: name = expression"

FORMATS: Final = ("new", "old", "expression")


def detect(text: str) -> str:
    """Guess the format of a text: ``new``, ``old``, ``expression``, ``json`` or ``xml``.

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
    """Cut a text into its ads or expression, in order; `format` is one of FORMATS."""
    if format == "expression":
        yield from _expression(text)
    elif format == "new":
        yield from _ads(text)
    else:
        yield from _lines(text)


def _expression(text: str) -> Iterator[Read]:
    if text.strip():
        for found in _mended(Piece(text, 0), place_expr):
            yield found if isinstance(found, Problem) else ParsedText(AdScope(), (found,))


def _mended(
    piece: Piece, place: Callable[[str], NodePlace]
) -> Iterator[Problem | tuple[Piece, NodePlace]]:
    """A piece that could be read, and before it the errors that could be mended."""
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
            yield found if isinstance(found, Problem) else ParsedText(AdScope(), (found,))


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


def _old_ad(definitions: list[Definition]) -> ParsedText:
    return ParsedText(
        AdScope(tuple(definitions)),
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


def unit_of(whole: ParsedText) -> Unit:
    """Every node of an ad or expression, each before its parts, without recursion."""
    sites: list[LintSite] = []
    scopes = [whole.scope]
    stack = [
        LintSite(place, piece, None, whole.scope, set()) for piece, place in reversed(whole.roots)
    ]
    while stack:
        site = stack.pop()
        sites.append(site)
        node, place = site.place.node, site.place
        site.guards.update(_guarded(node))
        if isinstance(node, Literal):
            continue
        parts: list[LintSite] = []
        if isinstance(node, AdExpr):
            scope = AdScope(
                tuple(
                    Definition(name, part, site.piece, site.piece)
                    for name, part in zip(place.names, place.parts, strict=True)
                ),
                site.scope,
            )
            scopes.append(scope)
            for part in place.parts:
                parts.append(LintSite(part, site.piece, site, scope, set(), site.elsewhere))  # noqa: PERF401
        else:
            function = FUNCTIONS.get(node.function.lower()) if isinstance(node, Call) else None
            elsewhere = function.elsewhere if function is not None else -1
            for index, part in enumerate(place.parts):
                parts.append(
                    LintSite(part, site.piece, site, site.scope, site.guards,
                         site.elsewhere or index == elsewhere)
                )  # fmt: skip
        stack.extend(reversed(parts))
    return Unit(tuple(sites), tuple(scopes))


def _guarded(node: Expr) -> Iterator[str]:
    """The names that a node tests for being there, in lower case."""
    asked: tuple[Expr, ...] = ()
    if isinstance(node, Call) and Trait.ASKING in traits_of(node.function, len(node.arguments)):
        asked = node.arguments
    elif isinstance(node, Binary) and node.operator in ("is", "isnt"):
        asked = (node.left, node.right)
    elif isinstance(node, Binary) and node.operator == "?:":
        asked = (node.left,)
    for part in asked:
        if isinstance(part, Attr):
            yield part.folded
