"""The first tier of reading: plain assignments, each looked up by its text.

Most of what stands in ads is ``name = literal``, and most assignments come again and again. Here a
flat ad is cut at its semicolons, an ad of the old format at its lines, and what each part assigns
is taken from a table or, the first time, found by patterns. What the patterns do not cover gives
None or goes to the grammar, which decides and which alone tells errors: both tiers give equal ads,
by a property.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Final, cast

from matchmaker.classad.ad import ClassAd, canonical_names
from matchmaker.classad.cache import Cache
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import Expr, ListExpr, Literal
from matchmaker.classad.parser import MAX_TEXT, parse_expr

_LONG: Final = 500
"""Longer texts are not remembered: they do not come again."""

_SPACES: Final = " \t\r\n\f\v"

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_REAL: Final = re.compile(r"-?[0-9]+\.[0-9]+")
_STRING: Final = re.compile(r'"[^"\\\0]*"')
_WORDS: Final = {"true": True, "false": False}


def read_value(text: str) -> Any:
    """What an ad holds for an expression's text: a plain value, or the expression.

    Raises ParseError as the grammar does.

    >>> read_value(" 42 "), read_value('"x"'), read_value("TRUE"), read_value("a+1")
    (42, 'x', True, Expr('a + 1'))
    >>> read_value("{1, -2.5, true}")
    Expr('{1, -2.5, true}')
    """
    text = text.strip(_SPACES)
    if _INTEGER.fullmatch(text):
        return int(text)
    if _STRING.fullmatch(text):
        return text[1:-1]
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    if _REAL.fullmatch(text):
        return float(text)
    node = (_plain_list(text) if text[:1] == "{" else None) or parse_expr(text)
    return node.value if isinstance(node, Literal) else node


_ITEM: Final = re.compile(
    rf"\s*+({_INTEGER.pattern}|{_REAL.pattern}|{_STRING.pattern}|(?i:true|false))\s*+(,|\Z)",
    re.ASCII,
)
"""An element of a list that is plain, and what follows it."""


def _plain_list(text: str) -> ListExpr | None:
    """The list of a text that begins with a brace, None for one that is not of plain values."""
    if text[-1] != "}" or len(text) > MAX_TEXT:
        return None
    items = []
    at, end, more = 1, len(text) - 1, ","
    while more:
        item = _ITEM.match(text, at, end)
        if item is None:
            return None
        items.append(Literal(read_value(item[1])))
        at, more = item.end(), item[2]
    return ListExpr(tuple(items))


_values: Final[Cache[str, Any]] = Cache("values by text", 1 << 23)
"""What expressions' texts are."""


def _value(text: str) -> Any:
    found = _values[text]
    if found is None:
        found = read_value(text)
        if len(text) <= _LONG:
            _values.put(text, found)
    return found


class _Assignments(Cache[str, tuple[str, Any]]):
    """What texts of assignments say: a name in small letters and what an ad holds under it.

    Filled as they are asked for, by a pattern of a name and the text of an expression. Raises
    ParseError for a text that the pattern does not take, and for a name of another spelling than
    the first: ads made of these need no table of their spellings.
    """

    __slots__ = ("_folded", "_pattern", "_spelled", "read")

    def __init__(self, name: str, pattern: re.Pattern[str]) -> None:
        super().__init__(f"{name} by text", 1 << 23)
        self._pattern = pattern
        self.read = cast("Callable[[str], tuple[str, Any]]", self.__getitem__)
        self._folded: Cache[str, str] = Cache(f"names in {name}", 1 << 20)
        self._spelled: Cache[str, tuple[str, Any]] = Cache(f"spelled {name} by text", 1 << 22)

    def __missing__(self, text: str) -> tuple[str, Any]:
        known = super().__missing__(text)
        if known is not None:
            return known
        # Most of what is new is a string or a number, plain at a glance, under a known name.
        before, _, value = text.partition(" = ")
        folded = self._folded[before]
        held: Any
        if folded is None or not value:
            name, held = self._read(text)
            folded = self._fold(name, before)
        elif value[0] == '"':
            held = value[1:-1]
            if value[-1] != '"' or len(value) < 2 or '"' in held or "\\" in held or "\0" in held:
                held = self._read(text)[1]
        elif value.isdecimal() and value.isascii() and len(value) < 19 and value[0] != "0":
            held = int(value)
        else:
            held = self._read(text)[1]
        return self._remember(self, text, (folded, held))

    def spelled(self, text: str) -> tuple[str, Any]:
        """The same with the name as it is written, in any spelling."""
        return self._spelled[text] or self._remember(self._spelled, text, self._read(text))

    def _remember(
        self, table: Cache[str, tuple[str, Any]], text: str, found: tuple[str, Any]
    ) -> tuple[str, Any]:
        if len(text) <= _LONG:
            # Plain values take no more than their text, and an object or two beside it.
            table.put(text, found, 0 if isinstance(found[1], Expr) else 200 + 8 * len(text))
        return found

    def _read(self, text: str) -> tuple[str, Any]:
        match = self._pattern.fullmatch(text)
        if match is None:
            raise ParseError("not a plain assignment")
        return match[1], _value(match[2])

    def _fold(self, name: str, before: str) -> str:
        """A name in small letters, one string for all ads; what stands before ` = ` is noted."""
        folded = sys.intern(name.lower())
        if canonical_names({folded: name}) is not None:
            raise ParseError("not the first spelling")
        if before.strip(_SPACES) == name:
            self._folded.put(before, folded)
        return folded


# --- the new format -------------------------------------------------------------------------------

# An assignment of a flat ad. The text of an expression has no brackets, comments or quoted names;
# its strings may hold anything. What was taken is not given back (`+` after a quantifier), so that
# the time is linear in the text.
_new: Final = _Assignments(
    "assignments",
    re.compile(
        r"""\s*+(?!(?i:true|false|undefined|error|is|isnt)\b)([A-Za-z_]\w*+)\s*+="""
        r"""((?:[^;"'\[\]/]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|/(?![/*]))*+)""",
        re.ASCII | re.DOTALL,
    ),
)
# What stands before a semicolon that is in no string, or (second group) a quote without its end.
_PART: Final = re.compile(r"""((?:[^;"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")++);?|(")""", re.DOTALL)


def read_flat_ad(text: str) -> ClassAd | None:
    """The ad of a text ``[ a = 1; b = 2 ]``, or None where this tier cannot be sure of it."""
    text = text.strip(_SPACES)
    if text[:1] != "[" or text[1:][-1:] != "]":
        return None
    body = text[1:-1].strip(_SPACES)
    if not body:
        return ClassAd()
    body = body.removesuffix(";")
    parts = body.split(";")
    try:
        # A semicolon in a string leaves quotes without their ends, which are not plain.
        content = dict(map(_new.read, parts))
    except ParseError:
        return _spelled_ad(_new, parts) or _spelled_ad(_new, _cut(body))
    return ClassAd.of(content) if len(content) == len(parts) else None


def _cut(body: str) -> list[str]:
    """The parts between semicolons that are in no string; nothing where a string has no end."""
    found = _PART.findall(body)
    return [] if any(stray for _, stray in found) else [part for part, _ in found]


def _spelled_ad(table: _Assignments, texts: list[str]) -> ClassAd | None:
    """The ad of plain assignments, names in any spelling; None where this tier cannot be sure."""
    try:
        ad = ClassAd.of_assignments(list(map(table.spelled, texts)))
    except ParseError:
        # The grammar finds the place in the whole text.
        return None
    return ad if len(ad.content) == len(texts) > 0 else None


# --- the old format -------------------------------------------------------------------------------

PLAIN_LINES: Final = _Assignments(
    "lines", re.compile(r"""[ \t]*+([A-Za-z_]\w*+)[ \t]*+=([^\\'\n\r]*+)""", re.ASCII)
)
"""Lines of the old format whose text the new format reads alike: no backslash, no quoted name."""


def read_old_line(line: str) -> tuple[str, Any] | None:
    r"""What a line of the old format assigns to which name; None for a line that is not plain.

    >>> read_old_line('Cpus = 4'), read_old_line('Name = "wn1"'), read_old_line('x = "a\\b"')
    (('Cpus', 4), ('Name', 'wn1'), None)
    """
    try:
        return PLAIN_LINES.spelled(line)
    except ParseError:
        return None


def read_old_lines(lines: list[str]) -> ClassAd | None:
    """The ad of plain lines, names in any spelling; None where this tier cannot be sure of it."""
    return _spelled_ad(PLAIN_LINES, lines)
