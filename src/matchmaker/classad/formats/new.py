"""The new format: ads in brackets, one after the other, or in a list ``{ [..], [..] }``.

Cuts a stream into ads without holding more than one of them; the parser reads each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.parser import MAX_TEXT, parse_ad_expr
from matchmaker.classad.unparse import unparse

# What can hide a bracket comes first; `open` begins something whose end is not here yet.
_TOKEN: Final = re.compile(
    r"""(?P<skip>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|//[^\n]*\n|/\*.*?\*/)"""
    r"""|(?P<open>["']|/\*|//|/\Z)|(?P<bracket>[\[\]])""",
    re.DOTALL,
)
_BETWEEN: Final = re.compile(r"(?:[\s,{};]|//[^\n]*\n|/\*.*?\*/)*", re.DOTALL)


def read(pieces: Iterator[str]) -> Iterator[ClassAd]:
    """The ads of a stream of text. Raises ParseError with the line in the stream."""
    for text, line in _cut(pieces):
        try:
            node = parse_ad_expr(text)
        except ParseError as error:
            raise error.at("", line) from None
        yield ClassAd.from_expression(node)


def write(ad: ClassAd) -> str:
    """An ad on one line."""
    return unparse(ad.expression())


def _cut(pieces: Iterator[str]) -> Iterator[tuple[str, int]]:
    """The text of each ad, indented to its column, and the line on which it begins."""
    buffer, line, indent = "", 1, 0
    for piece in pieces:
        buffer += piece
        while True:
            start = _BETWEEN.match(buffer).end()  # type: ignore[union-attr]
            if start == len(buffer) or (buffer[start] == "/" and start + 1 == len(buffer)):
                break
            end = _end(buffer, start)
            if end is None:
                break
            lines = buffer.count("\n", 0, start)
            column = start - buffer.rfind("\n", 0, start) - 1 + (0 if lines else indent)
            yield " " * column + buffer[start:end], line + lines
            lines = buffer.count("\n", 0, end)
            line += lines
            indent = end - buffer.rfind("\n", 0, end) - 1 + (0 if lines else indent)
            buffer = buffer[end:]
        if len(buffer) > MAX_TEXT:
            raise ParseError(f"an ad goes on for over {MAX_TEXT} characters", line=line)
    start = _BETWEEN.match(buffer + "\n").end()  # type: ignore[union-attr]
    if start < len(buffer):
        lines = buffer.count("\n", 0, start)
        column = start - buffer.rfind("\n", 0, start) - 1 + (0 if lines else indent)
        # The end is missing: the parser says best what is wrong.
        yield " " * column + buffer[start:], line + lines


def _end(buffer: str, start: int) -> int | None:
    """Where the ad that begins at `start` ends, or None while its end is not there yet."""
    if buffer[start] != "[":
        return len(buffer)
    depth = 0
    for token in _TOKEN.finditer(buffer, start):
        if token.lastgroup == "open":
            return None
        if token.lastgroup == "bracket":
            depth += 1 if token[0] == "[" else -1
            if depth == 0:
                return token.end()
    return None
