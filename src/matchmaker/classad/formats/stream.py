"""Streams of text: pieces of files, telling formats apart, cutting a stream into its ads.

Nothing here holds more of a stream than one ad and one piece of a file.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import attrs

from matchmaker._cache import BoundedCache
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError, under
from matchmaker.classad.nodes import Expr
from matchmaker.classad.printer import unparse

# What has no end goes up to the end of the text, so that it is looked at once.
_STRINGS: Final = r'"(?:[^"\\]|\\.)*+(?:"|\Z)' + r"|'(?:[^'\\]|\\.)*+(?:'|\Z)"
_COMMENT: Final = re.compile(rf"{_STRINGS}|//[^\n]*|/\*.*?(?:\*/|\Z)|(\#[^\n]*)", re.DOTALL)

_ASSIGNMENT: Final = r"(?:'[^'\n]+'|[A-Za-z_]\w*)\s*=(?![=?!])"
_BEGIN: Final = re.compile(_ASSIGNMENT)
_MAYBE: Final = re.compile(r"(?:'[^'\n]*'?|[A-Za-z_]\w*)\s*=?\Z")
# Names of the old format may hold almost anything, if there is space around the sign.
_NEXT_LINE: Final = re.compile(rf"""[ \t\r]*(?:\n|\#|//|{_ASSIGNMENT}|[^\s='"]++[ \t]+=[ \t])""")
_TOKEN: Final = re.compile(
    r"""(?P<hides>"(?:[^"\\\n]|\\[^\n])*+"|'(?:[^'\\\n]|\\[^\n])*+'|\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))"""
    r"""|[\[{(]|[\]})]|[;\n"']""",
    re.DOTALL,
)
_FAR: Final = 1 << 14
"""How many characters the first assignment may have."""


def is_bare(text: str, begin: int) -> bool | None:
    r"""Whether an ad without brackets begins there: its first assignment ends with a semicolon.

    In the old format it ends with its line. None if more of the text is needed.

    >>> is_bare('Executable = "/bin/ls"; ', 0), is_bare("a = [ b = 1; c = 2 ]\nd = 3", 0)
    (True, False)
    """
    match = _BEGIN.match(text, begin)
    if match is None:
        return None if _MAYBE.match(text, begin) else False
    depth = 0
    for token in _TOKEN.finditer(text, match.end(), begin + _FAR):
        if token["hides"]:
            continue
        mark = token[0]
        if mark in "[{(":
            depth += 1
        elif mark in "]})":
            depth -= 1
        elif mark in "\"'":
            # Not closed on its line: only the old format has such strings.
            return False if "\n" in text[token.end() :] else None
        elif depth <= 0 and mark == ";":
            return True
        elif depth <= 0 and _NEXT_LINE.match(text, token.end()):
            return False
    return False if len(text) - begin > _FAR else None


def in_brackets(text: str) -> str:
    """A bare text as an ad of the new format, which begins on the line before."""
    return f"[\n{without_comments(text)}\n]"


def without_comments(text: str) -> str:
    """The same text with spaces in place of the comments that begin with ``#``.

    >>> without_comments('a = "#1" # one')
    'a = "#1"      '
    """
    if "#" not in text:
        return text
    return _COMMENT.sub(lambda match: " " * len(match[0]) if match[1] else match[0], text)


Report: TypeAlias = "Callable[[ParseError], object]"
"""Treatment of an error by readers: raise it, or note it and go on behind it."""

CHUNK: Final = 1 << 16


def strict(error: ParseError) -> None:
    """The report of a reader that stops at the first error."""
    raise error


# --- pieces ---------------------------------------------------------------------------------------


def pieces_of(file: IO[str] | IO[bytes], chunk: int = CHUNK) -> Iterator[str]:
    """The text of a file, piece by piece. Bytes that are not UTF-8 stay in it as surrogates."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while True:
        data = file.read(chunk)
        text = decoder.decode(data, final=not data) if isinstance(data, bytes) else data
        if text:
            yield text
        if not data:
            return


def pieces_at(path: str | os.PathLike[str], chunk: int = CHUNK) -> Iterator[str]:
    """The text of the file at a path, which is open while its pieces are asked for."""
    if "\0" in os.fsdecode(path):
        raise ValueError(f"a path has no null byte: {str(path)[:60]!r}; parse_ads() reads a text")
    with Path(path).open("rb") as file:
        yield from pieces_of(file, chunk)


def pieces_in(text: str) -> Iterator[str]:
    """A text, piece by piece."""
    return (text[at : at + CHUNK] for at in range(0, len(text), CHUNK))


def without_mark(pieces: Iterator[str]) -> Iterator[str]:
    """The same text without a byte order mark at its beginning."""
    for piece in pieces:
        # A piece of nothing would count as the end.
        if piece != "\ufeff":
            yield piece.removeprefix("\ufeff")
        break
    yield from pieces


def check_text(text: str, line: int) -> None:
    """Raises ParseError, with its line, for bytes that were no UTF-8 and for lone surrogates."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        what = f"byte {code - 0xDC00:#04x}" if 0xDC80 <= code <= 0xDCFF else f"U+{code:04X}"
        raise ParseError(
            f"{what} is not UTF-8 text", line=line + text.count("\n", 0, error.start)
        ) from None


def placed(error: ParseError, line: int, column: int) -> ParseError:
    """An error in a text that begins on a line of a stream, after `column` characters."""
    moved = error.at("", line)
    if error.line <= 1 and error.column:
        moved.column += column
        # Without the true text before it; far to the right an excerpt would be nothing but spaces.
        moved.text = " " * column + moved.text if column < _EXCERPT else ""
    return moved


_EXCERPT: Final = 1000


def bounded(ad: ClassAd, line: int) -> ClassAd:
    """The same ad. Raises ParseError if it nests deeper than the grammar would let it."""
    for name, held in ad._held.items():
        try:
            check_depth(held)
        except ParseError as error:
            raise under(name, error, line) from None
    return ad


def check_depth(held: object) -> None:
    """Raises ParseError for an expression that nests deeper than the grammar would let it."""
    if isinstance(held, Expr) and held.depth > LIMITS.nesting:
        raise ParseError(f"nested {held.depth} deep, at most {LIMITS.nesting} is allowed")


_texts: Final[BoundedCache[Expr, str]] = BoundedCache("texts of expressions", 1 << 15)


def text_of(node: Expr) -> str:
    """Return the text of an expression. It is kept, as the ads of a stream share most of them."""
    text = _texts.get(node)
    if text is None:
        text = unparse(node)
        _texts.put(node, text, len(text))
    return text


# --- telling formats apart ------------------------------------------------------------------------

COMMENT: Final = r"//[^\n]*\n|/\*.*?\*/|\#[^\n]*\n"
_LEADING: Final = re.compile(rf"\s*+(?:(?:{COMMENT})\s*+)*+", re.DOTALL)
_SIGNS: Final = (
    (re.compile(r"<"), "xml"),
    (re.compile(rf'\{{\s*["}}]|\[(?:\s|{COMMENT})*+\{{', re.DOTALL), "json"),
    (re.compile(r"[\[{]"), "new"),
)
# What may turn out to be the one or the other when more of it has come.
_UNDECIDED: Final = re.compile(rf"(?:[/#].*|[\[{{](?:\s|{COMMENT})*+(?:[/#].*)?)?\Z", re.DOTALL)


BARE: Final = "bare"
"""What `detect` says of an ad of the new format without brackets."""


def detect(pieces: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The format that a text seems to be in, from its first words, and the whole text again."""
    head = ""
    begin = 0
    bare: bool | None = None
    wanted = 0
    for piece in pieces:
        head += piece
        if len(head) < wanted:
            continue
        # Looked at again when there is half as much again: the time stays linear.
        wanted = len(head) * 3 // 2
        begin = beginning(head)
        if not _UNDECIDED.match(head, begin) or len(head) > LIMITS.text:
            bare = is_bare(head, begin)
            if bare is not None or len(head) > LIMITS.text:
                break
    else:
        begin = beginning(head + "\n")
        bare = is_bare(head, begin)
    for pattern, name in _SIGNS:
        if pattern.match(head, begin):
            return name, _again(head, pieces)
    return BARE if bare else "old", _again(head, pieces)


def beginning(head: str) -> int:
    """Offset of the first character that is neither space nor comment."""
    match = _LEADING.match(head)
    return match.end() if match else 0


def _again(head: str, pieces: Iterator[str]) -> Iterator[str]:
    yield head
    yield from pieces


# --- cutting --------------------------------------------------------------------------------------

_BEGUN_COMMENT: Final = re.compile(r"//|/\*|\#|/\Z")
_RESTARTS: Final = 8
"""How many lines may begin with an ad's bracket within it, where a bracket was left open before."""
_NESTED: Final = 3
"""As deep as brackets nest in nearly every ad; deeper ones are counted one by one."""


class BracketSyntax:
    """Patterns of the brackets of a format.

    ``around`` are the brackets of an ad, ``lists`` those of a list of ads, ``nesting`` all that
    nest within an ad. ``hiding`` is a pattern of strings and comments, which can hide a bracket,
    ``begun`` of one that has no end in sight yet, ``broken`` of one that will have none: it too
    hides brackets, so that its text is looked at once. ``decode`` gives the content of the ad at a
    place, and its end, if a compiled decoder can find both.
    """

    def __init__(
        self,
        around: str,
        lists: str,
        nesting: str,
        *,
        hiding: str,
        begun: str,
        broken: str = "(?!)",
        decode: Callable[[str, int], tuple[Any, int] | None] = lambda text, start: None,
    ) -> None:
        self.decode = decode
        opening, closing = map(re.escape, around)
        self.opening = around[0]
        self.lists = lists
        self.deeper = nesting[::2]
        nest = re.escape(nesting)
        # An ad with little nested in it, at the speed of one match.
        plain = rf"""[^{nest}"'/#]++|{hiding}|/(?![/*])"""
        inside = rf"(?:{plain})*+"
        opens, closes = re.escape(self.deeper), re.escape(nesting[1::2])
        for _ in range(_NESTED):
            inside = rf"(?:{plain}|[{opens}]{inside}[{closes}])*+"
        self.shallow = re.compile(rf"{opening}{inside}{closing}", re.DOTALL)
        self.token = re.compile(
            rf"{hiding}|(?P<begun>{begun})|{broken}|(?P<bracket>[{nest}])", re.DOTALL
        )
        # Brackets of lists, and what stands around them: comments and the ends of lines.
        self.listed = re.compile(rf"{COMMENT}|\n|[{re.escape(lists)}]", re.DOTALL)
        self.between = re.compile(rf"(?:[\s,;{re.escape(lists)}]++|{COMMENT})*+", re.DOTALL)
        self.junk = re.compile(rf"[^{opening}\n]*+(?=[{opening}\n])")
        self.restart = re.compile(rf"\n([ \t]*+)(?:,[ \t]*+)?{opening}")


@attrs.frozen(slots=True)
class AdText:
    """The text of an ad, or text between ads, and its place: a line from 1, a column from 0.

    ``decoded`` is its content, if the cutter has decoded it.
    """

    text: str
    line: int
    column: int
    decoded: Any = None


def ads_of(
    parts: Iterator[AdText], report: Report, read: Callable[[AdText], ClassAd]
) -> Iterator[ClassAd]:
    """The ads of texts that are already cut, as `read` gives each; its errors are reported."""
    for part in parts:
        try:
            check_text(part.text, part.line)
            ad = read(part)
        except ParseError as error:
            report(error)
            continue
        yield ad


@attrs.define(slots=True)
class _Window:
    """The part of a stream in memory: its text from `start` on, and the place of `start`."""

    pieces: Iterator[str]
    text: str = ""
    start: int = 0
    line: int = 1
    column: int = 0
    ended: bool = False
    lists: int = 0
    opened: int = 0
    """How many lists are open, and the line on which the first of them began."""
    stray: int = 0
    """The last line on which a list was closed that was not open."""

    def more(self) -> bool:
        """Brings as much again into sight; False at the end of the stream.

        There a newline is added, so that a comment on the last line is like any other.
        """
        if self.ended:
            return False
        gained = [self.text[self.start :]]
        wanted = len(gained[0])
        while wanted >= 0 and not self.ended:
            piece = next(self.pieces, "")
            self.ended = not piece
            gained.append(piece or "\n")
            wanted -= len(piece)
        self.text = "".join(gained)
        self.start = 0
        return True

    def advance(self, end: int) -> None:
        """Goes on to a position."""
        lines = self.text.count("\n", self.start, end)
        if lines:
            self.line += lines
            self.column = end - self.text.rfind("\n", self.start, end) - 1
        else:
            self.column += end - self.start
        self.start = end

    def part(self, end: int, decoded: Any = None) -> AdText:
        """The text before a position."""
        if self.ended and end == len(self.text):
            end -= 1
        return AdText(self.text[self.start : end], self.line, self.column, decoded)


def cut(pieces: Iterator[str], syntax: BracketSyntax, report: Report) -> Iterator[AdText]:
    """The text of each ad of a stream.

    Text that is not an ad is given too: its parser words the error best. If `report`
    does not raise, the next part follows behind the bracket that closes the bad ad or, if none
    does, on the next line that begins with such a bracket, as far left.
    """
    window = _Window(pieces)
    resume = report is not strict
    # Text in which a bracket has been left open goes up to here: looking far ahead is no use in it.
    doubtful = 0
    while True:
        _pass_between(window, syntax, report)
        unread = len(window.text) - window.start
        if window.start >= doubtful and window.text.startswith(syntax.opening, window.start):
            taken = syntax.decode(window.text, window.start)
            if taken is not None:
                yield window.part(taken[1], taken[0])
                window.advance(taken[1])
                continue
        begun = unread == 0 or _BEGUN_COMMENT.match(window.text, window.start)
        end = None if begun else _end(window, syntax, doubtful)
        if end is None and (begun or window.start >= doubtful):
            if unread > LIMITS.text:
                report(
                    ParseError(f"an ad goes on for over {LIMITS.text} characters", line=window.line)
                )
                doubtful = len(window.text)
                window.advance(_restart(window, syntax, 1))
                continue
            if window.more():
                doubtful = 0
                continue
            if unread == 0:
                break
            doubtful = len(window.text)
        if end is None:
            end = _restart(window, syntax, 1) if resume else len(window.text)
        yield window.part(end)
        window.advance(end)
    if window.lists:
        report(ParseError("the list of ads is not closed", line=window.opened))


def _pass_between(window: _Window, syntax: BracketSyntax, report: Report) -> None:
    """Goes on to the next ad, over the brackets of lists."""
    match = syntax.between.match(window.text, window.start)
    if match is None or match.end() == window.start:
        return
    line = window.line
    window.advance(match.end())
    opening, closing = syntax.lists[0], syntax.lists[1]
    passed = match[0]
    if opening not in passed and closing not in passed:
        return
    for found in syntax.listed.finditer(passed):
        if found[0] == opening:
            window.opened = window.opened if window.lists else line
            window.lists += 1
        elif found[0] != closing:
            line += found[0].count("\n")
        elif window.lists:
            window.lists -= 1
        elif window.stray < line:
            window.stray = line
            report(ParseError(f"a list is closed that was not opened: {closing}", line=line))


def _end(window: _Window, syntax: BracketSyntax, doubtful: int) -> int | None:
    """End offset of the ad, or of text between ads; None if more input is needed."""
    text, start = window.text, window.start
    if text[start] != syntax.opening:
        found = syntax.junk.match(text, start + 1)
        return found.end() if found else None
    stop = _restart(window, syntax, _RESTARTS) if start < doubtful else len(text)
    shallow = syntax.shallow.match(text, start, stop)
    if shallow is not None:
        return shallow.end()
    depth = 0
    for token in syntax.token.finditer(text, start, stop):
        if token.lastgroup == "begun":
            return None
        if token.lastgroup == "bracket":
            depth += 1 if token[0] in syntax.deeper else -1
            if depth == 0:
                return token.end()
    return None


def _restart(window: _Window, syntax: BracketSyntax, count: int) -> int:
    """The position of the bracket that begins the next line but `count`, as far left as here."""
    position = window.start
    while count:
        match = syntax.restart.search(window.text, position)
        if match is None:
            return len(window.text)
        position = match.end() - 1
        count -= len(match[1]) <= window.column
    return position
