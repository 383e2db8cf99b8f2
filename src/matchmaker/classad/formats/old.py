r"""The old format: ``name = expression``, one a line; a blank line ends an ad; ``#`` is a comment.

Strings of this format know only the escape ``\"``. A line's strings are rewritten as the new
format's and the one parser reads it; a bad line is an error with its number, never skipped in
silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import Expr
from matchmaker.classad.parser import MAX_TEXT, parse_expr
from matchmaker.classad.quoting import unescape, unparse_name
from matchmaker.classad.scanner import read_old_block
from matchmaker.classad.unparse import unparse

_LINE: Final = re.compile(r"""\s*('(?:[^'\\]|\\.)+'|[^\s='"]+)\s*=(.*)""", re.DOTALL)

# A quote after a backslash is part of the string, but for one at the end of the line.
_STRING: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|//[^\n]*|"((?:\\"(?!\s*\Z)|[^"])*)\"""")
_LONE_BACKSLASH: Final = re.compile(r'\\(?!")')


def read(pieces: Iterator[str]) -> Iterator[ClassAd]:
    """The ads of a stream of text. Raises ParseError with the line."""
    number = 1
    for block in _blocks(pieces):
        ad = read_old_block(block)
        if ad is not None:
            yield ad
        else:
            yield from _read_lines(block, number)
        number += block.count("\n") + 2


def _blocks(pieces: Iterator[str]) -> Iterator[str]:
    """What stands between empty lines: an ad, or several where a line of spaces parts them."""
    rest = ""
    for piece in pieces:
        *blocks, rest = (rest + piece).split("\n\n")
        yield from blocks
        if len(rest) > MAX_TEXT:
            raise ParseError(f"an ad goes on for over {MAX_TEXT} characters")
    yield rest


def _read_lines(block: str, number: int) -> Iterator[ClassAd]:
    ad = ClassAd()
    for at, line in enumerate(block.split("\n"), number):
        if not line or line.isspace():
            if ad:
                yield ad
                ad = ClassAd()
        elif not line.lstrip().startswith("#"):
            name, expression = _assignment(line, at)
            ad[name] = expression
    if ad:
        yield ad


def write(ad: ClassAd) -> str:
    """An ad, one attribute a line."""
    return "\n".join(f"{_name(name)} = {old_text(unparse(e))}" for name, e in ad.items())


def old_text(text: str) -> str:
    """An expression's text with its strings in this format.

    Raises ValueError for what the format cannot say: a newline in a string, and a backslash at a
    string's end unless the line ends there too.
    """
    return _NEW_STRING.sub(_old_string, text)


_NEW_STRING: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"((?:[^"\\]|\\.)*)\"""")


def _old_string(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    plain = unescape(match[1])
    if "\n" in plain or (plain.endswith("\\") and match.end() != len(match.string)):
        raise ValueError(f"the old format cannot hold the string {match[0][:60]}; write it as new")
    return '"' + plain.replace('"', '\\"') + '"'


def _name(name: str) -> str:
    return name if re.fullmatch(r"""[^\s='"#][^\s='"]*""", name) else unparse_name(name)


def _assignment(line: str, number: int) -> tuple[str, Expr]:
    match = _LINE.match(line)
    if match is None:
        raise ParseError(
            "not an assignment", text=line, line=number, column=1, expected=("name = expression",)
        )
    name = unescape(match[1][1:-1]) if match[1][0] == "'" else match[1]
    text = match[2]
    try:
        return name, parse_expr(_STRING.sub(_new_string, text).strip())
    except ParseError as error:
        shift = match.start(2) + len(text) - len(text.lstrip())
        column = _old_column(text.strip(), error.column)
        raise ParseError(
            error.message,
            text=line,
            line=number,
            column=shift + column if error.column else 1,
            expected=error.expected,
            hint=error.hint,
        ) from None


def _new_string(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return '"' + _LONE_BACKSLASH.sub(r"\\\\", match[1]) + '"'


def _old_column(text: str, column: int) -> int:
    """The column in the line for a column in its rewritten form, which has more backslashes."""
    added = 0
    for match in _STRING.finditer(text):
        if match[1] is not None and match.end() + added < column:
            added += len(_LONE_BACKSLASH.findall(match[1]))
    return column - added
