"""The new format: ads in brackets, one after the other, or in a list ``{ [..], [..] }``.

An assignment that was met before is one look-up in a bounded table. Any other is cut at its sign:
an integer, a plain string or a real is read as it stands, anything else by ``parser``. Any other
text raises MissError: the reader of the format decides, with the grammar. The old format reads its
lines in the same way, with strings of its own.

A job description may lack the brackets, and have comments with ``#``: see ``stream``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from matchmaker._cache import ENTRY, BoundedCache
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, spelling_of
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats.stream import (
    BARE,
    AdText,
    BracketSyntax,
    Report,
    ads_of,
    beginning,
    cut,
    detect,
    in_brackets,
    placed,
    strict,
    text_of,
    without_comments,
)
from matchmaker.classad.nodes import Literal
from matchmaker.classad.parser import (
    NAME,
    ONE_STRING,
    REAL,
    SPACES,
    MissError,
    assignments_in,
    by_grammar,
    inside_of,
    parsed,
    parsed_ad,
)
from matchmaker.classad.printer import unescape, unparse_ad

NameAndValue: TypeAlias = "tuple[str, Any] | tuple[str, Any, str]"
"""A folded name and what an ad holds for it; third a spelling that is not the name's first one."""


class AssignmentTable(BoundedCache[str, NameAndValue]):
    """Map the texts of assignments to names and values, in a format with strings of its own.

    `unescape` gives the string of a text that begins with a quote and may have escapes, or None if
    it is more than a string; `convert` makes an expression's text one of the syntax.

    >>> BRACKETED["Cpus = 4"]
    ('cpus', 4)
    """

    __slots__ = ("_convert", "_unescape")

    def __init__(
        self,
        name: str,
        most: int,
        unescape: Callable[[str], str | None],
        convert: Callable[[str], str],
    ) -> None:
        super().__init__(name, most)
        self._unescape = unescape
        self._convert = convert

    def __missing__(self, text: str) -> NameAndValue:
        """Read an assignment that is not in the table. Raises MissError."""
        head, _, rest = text.partition("=")
        rest = rest.strip(SPACES)
        name = _names.get(head) or _name(head)
        size = ENTRY + len(text)
        value: Any = None
        # Most values are of these kinds. This takes half the time of one pattern for all of them.
        if rest.isdecimal() and rest[0] != "0" and len(rest) < _DIGITS and rest.isascii():
            value = int(rest)
        elif rest[:1] == '"':
            if rest.find('"', 1) != len(rest) - 1 or "\\" in rest or "\0" in rest:
                value = self._unescape(rest)
            else:
                value = rest[1:-1]
        elif REAL(rest):
            value = float(rest)
        if value is None:
            node = parsed(self._convert(rest))
            # What stands in an ad is one deeper.
            if node is None or node.depth >= LIMITS.nesting:
                raise MissError
            value = node.value if type(node) is Literal else node
            size += _EXPRESSION * len(rest)
        found: NameAndValue = (name, value) if isinstance(name, str) else (name[0], value, name[1])
        if len(text) <= _LONG and text.isascii():
            # As `put` does, at a third of its time.
            self.size += size
            if self.size > self.most:
                self.clear()
                self.size = size
            self[text] = found
        return found


_LONG: Final = 2000
_EXPRESSION: Final = 16
"""The size of an expression for each character: its nodes take that much more than a string."""
_DIGITS: Final = 19
"""Integers of fewer digits fit 64 bits."""

_names: Final[BoundedCache[str, str | tuple[str, str]]] = BoundedCache(
    "names before signs", 1 << 18
)
"""Of the texts before the signs of assignments: the folded name, and an unusual spelling of it."""


def _name(head: str) -> str | tuple[str, str]:
    name = head.strip(SPACES)
    found = _names.get(name)
    if found is None:
        if NAME(name) is None:
            raise MissError
        found = _names.put(name, spelling_of(name), len(name))
    # With one space behind it, as most are written; of all other ways there would be no end.
    if len(head) == len(name) + 1 and head[-1] == " ":
        _names.put(head, found, len(head))
    return found


def ad_of(texts: Sequence[str], read: AssignmentTable) -> ClassAd:
    """Make an ad of the texts of assignments. Raises MissError.

    >>> print(ad_of(["a = 1", "b=a+1"], BRACKETED))
    [ a = 1; b = a + 1 ]
    """
    found: list[Any] = list(map(read.__getitem__, texts))
    try:
        return ClassAd._of(dict(found))
    except ValueError:
        # One of three: a name that other ads spell otherwise.
        held: dict[str, Any] = {}
        names: dict[str, str] = {}
        for folded, value, *unusual in found:
            # Of a name that comes twice the first spelling counts.
            if unusual and folded not in held:
                names[folded] = unusual[0]
            held[folded] = value
        return ClassAd._of(held, names or None)


def _split(inside: str) -> list[str]:
    """Cut at each semicolon: right if each part is an assignment, and none a comment."""
    if not inside:
        return []
    return inside.split(";") if "//" not in inside and "/*" not in inside else [""]


_CUTS: Final = (_split, assignments_in)
"""Ways to cut assignments, the fastest first: it serves if no string or inner ad has semicolons."""


def ad_in(text: str) -> ClassAd | None:
    """Read an ad in brackets; None if only the grammar may take the text."""
    if len(text) > LIMITS.text:
        return None
    inside = inside_of(text)
    if inside is not None:
        for cut in _CUTS:
            try:
                return ad_of(cut(inside), BRACKETED)
            except MissError:
                pass
    node = parsed_ad(text)
    return ClassAd.from_expression(node) if node is not None else None


def _unescaped(text: str) -> str | None:
    try:
        return unescape(text[1:-1]) if ONE_STRING(text) else None
    except ValueError:
        return None


BRACKETED: Final = AssignmentTable("assignments in brackets", 1 << 19, _unescaped, str)


SYNTAX: Final = BracketSyntax(
    around="[]",
    lists="{}",
    nesting="[]",
    hiding=r""""[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'|(?://|\#)[^\n]*\n|/\*.*?\*/""",
    begun=r"""["'#]|/\*|//|/\Z""",
)


def read(pieces: Iterator[str], report: Report = strict) -> Iterator[ClassAd]:
    """The ads of a stream of text. Reports ParseErrors with the line in the stream."""
    return read_parts(cut(pieces, SYNTAX, report), report)


def read_bare(pieces: Iterator[str], report: Report = strict) -> Iterator[ClassAd]:
    """The one ad of a text without brackets. Reports a ParseError with its line."""
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > LIMITS.text:
            report(ParseError(f"an ad goes on for over {LIMITS.text} characters", line=1))
            return
    yield from read_parts(iter([AdText(in_brackets(text), 0, 0)]), report)


def remark(text: str) -> str:
    """Describe a job description without brackets or with # comments; empty for other texts.

    >>> remark("a = 1; # one")
    'a job description without brackets and with # comments, which HTCondor does not read'
    """
    found, _ = detect(iter([text]))
    body = text[beginning(text) :]
    loose = ["without brackets"] if found == BARE else []
    if found in (BARE, "new") and without_comments(body) != body:
        loose.append("with # comments")
    what = " and ".join(loose)
    return f"a job description {what}, which HTCondor does not read" if loose else ""


def read_parts(parts: Iterator[AdText], report: Report) -> Iterator[ClassAd]:
    """The ads of texts that are already cut."""
    return ads_of(parts, report, _ad)


def _ad(part: AdText) -> ClassAd:
    text = without_comments(part.text)
    ad = ad_in(text)
    if ad is not None:
        return ad
    try:
        return ClassAd.from_expression(by_grammar(text, "ad"))
    except ParseError as error:
        raise placed(error, part.line, part.column) from None


def write(ad: ClassAd) -> str:
    """An ad on one line."""
    return unparse_ad(ad, ad._held.values(), text_of)
