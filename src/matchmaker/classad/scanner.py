"""The first tier of reading: plain assignments at the speed of one regular expression.

Most of what stands in ads is ``name = literal``, and most literals and expressions come again and
again. Here a flat ad, or a line of the old format, is taken apart by a pattern, and each value is
looked up by its text. What the patterns do not cover gives None or goes to the grammar, which
decides and which alone tells errors: both tiers give equal ads, by a property.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from matchmaker.classad.ad import ClassAd, canonical_names
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import Literal
from matchmaker.classad.parser import parse_expr

_KEEP: Final = 1 << 14
"""How many texts each table remembers before it starts anew: what comes often is soon back."""

_LONG: Final = 500
"""Longer texts are not remembered: they do not come again."""

# One assignment of a flat ad, or (second alternative) a character that belongs to none. The text of
# an expression has no brackets, comments or quoted names; its strings may hold anything. What was
# taken is not given back (`+` after a quantifier), so that the time is linear in the text.
_ASSIGNMENT: Final = re.compile(
    r"""(?<!\w)([A-Za-z_]\w*+)\s*+="""
    r"""((?:[^;"'\[\]/]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|/(?![/*]))*+)(?:;\s*+)?|(.)""",
    re.DOTALL | re.ASCII,
)
_FLAT: Final = re.compile(r"\s*\[(.*)\]\s*", re.DOTALL)

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_REAL: Final = re.compile(r"-?[0-9]+\.[0-9]+")
_STRING: Final = re.compile(r'"[^"\\\0]*"')
_WORDS: Final = {"true": True, "false": False}
_RESERVED: Final = frozenset({"true", "false", "undefined", "error", "is", "isnt"})


def read_value(text: str) -> Any:
    """What an ad holds for an expression's text: a plain value, or the expression.

    Raises ParseError as the grammar does.

    >>> read_value(" 42 "), read_value('"x"'), read_value("TRUE"), read_value("a+1")
    (42, 'x', True, Expr('a + 1'))
    """
    text = text.strip(" \t\r\n\f\v")
    if _INTEGER.fullmatch(text):
        return int(text)
    if _STRING.fullmatch(text):
        return text[1:-1]
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    if _REAL.fullmatch(text):
        return float(text)
    node = parse_expr(text)
    return node.value if isinstance(node, Literal) else node


class _Values(dict[str, Any]):
    """What expressions' texts are, filled as they are asked for."""

    def __missing__(self, text: str) -> Any:
        value = read_value(text)
        if len(self) >= _KEEP:
            self.clear()
        if len(text) <= _LONG:
            self[text] = value
        return value


_values: Final = _Values()
_Shape: TypeAlias = "tuple[tuple[str, ...], dict[str, str] | None] | None"
_UNKNOWN: Final[Any] = object()
_shapes: Final[dict[tuple[str, ...], _Shape]] = {}


def read_flat_ad(text: str) -> ClassAd | None:
    """The ad of a text ``[ a = 1; b = 2 ]``, or None where this tier cannot be sure of it."""
    flat = _FLAT.fullmatch(text)
    if flat is None:
        return None
    found = _ASSIGNMENT.findall(flat[1].lstrip())
    if not found:
        return ClassAd()
    names, texts, strays = zip(*found, strict=True)
    # Other threads may empty the table at any time.
    shape = _shapes.get(names, _UNKNOWN)
    if shape is _UNKNOWN:
        shape = _shape(names)
    if shape is None or any(strays):
        return None
    try:
        return ClassAd.of(
            dict(zip(shape[0], map(_values.__getitem__, texts), strict=True)), shape[1]
        )
    except ParseError:
        # The grammar finds the place in the whole text.
        return None


def _shape(names: tuple[str, ...]) -> _Shape:
    """The folded names of an ad and their spelling; None for names that need the grammar."""
    folded = tuple(name.lower() for name in names)
    shape = None
    if len(set(folded)) == len(folded) and not _RESERVED.intersection(folded) and "" not in folded:
        shape = (folded, canonical_names(names))
    if len(_shapes) >= _KEEP:
        _shapes.clear()
    if len(names) <= _LONG:
        _shapes[names] = shape
    return shape


# A line of the old format whose text the new format reads alike: no backslash, no quoted name. The
# plainest values are taken apart by the same match.
_LINE: Final = re.compile(
    r"""[ \t]*+([A-Za-z_]\w*+)[ \t]*+=[ \t]*+
    (?: (-?(?:0|[1-9][0-9]{0,17})) | "([^"\\\n\r\0]*+)" | ([^\\'\n\r]*+) )[ \t]*+""",
    re.ASCII | re.VERBOSE,
)


def read_old_line(line: str) -> tuple[str, Any] | None:
    r"""What a line of the old format assigns to which name; None for a line that is not plain.

    >>> read_old_line('Cpus = 4'), read_old_line('Name = "wn1"'), read_old_line('x = "a\\b"')
    (('Cpus', 4), ('Name', 'wn1'), None)
    """
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name, number, string, other = match.groups()
    if number is not None:
        return name, int(number)
    if string is not None:
        return name, string
    try:
        return name, read_value(other)
    except ParseError:
        return None


class _Lines(dict[str, tuple[str, Any]]):
    """What lines of the old format assign, filled as they are asked for.

    Raises ParseError for a line that this tier does not read.
    """

    def __missing__(self, line: str) -> tuple[str, Any]:
        read = read_old_line(line)
        folded = _folded[read[0]] if read is not None else None
        if read is None or folded is None:
            raise ParseError("not a plain line")
        assignment = folded, read[1]
        if len(self) >= _KEEP:
            self.clear()
        if len(line) <= _LONG:
            self[line] = assignment
        return assignment


class _Folded(dict[str, str | None]):
    """Names in small letters; None for a name of another spelling than the first."""

    def __missing__(self, name: str) -> str | None:
        folded = name.lower() if canonical_names((name,)) is None else None
        if len(self) >= _KEEP:
            self.clear()
        if len(name) <= _LONG:
            self[name] = folded
        return folded


_lines: Final = _Lines()
_folded: Final = _Folded()
_line: Final = _lines.__getitem__


def read_old_block(text: str) -> ClassAd | None:
    """The ad of lines ``name = value``, or None where this tier cannot be sure of it."""
    try:
        return ClassAd.of(dict(map(_line, text.split("\n"))), None)
    except ParseError:
        return None
