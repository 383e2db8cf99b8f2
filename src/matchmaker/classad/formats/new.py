"""The new format: ads in brackets, one after the other, or in a list ``{ [..], [..] }``.

Cuts a stream into ads without holding more than one of them; the parser reads each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.parser import MAX_TEXT, parse_ad_expr
from matchmaker.classad.scanner import read_flat_ad
from matchmaker.classad.unparse import unparse

# What can hide a bracket comes first; `open` begins something whose end is not here yet.
_TOKEN: Final = re.compile(
    r"""(?P<skip>"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|//[^\n]*\n|/\*.*?\*/)"""
    r"""|(?P<open>["']|/\*|//|/\Z)|(?P<bracket>[\[\]])""",
    re.DOTALL,
)
_BETWEEN: Final = re.compile(r"(?:[\s,{};]|//[^\n]*\n|/\*.*?\*/)*", re.DOTALL)


def read(pieces: Iterator[str]) -> Iterator[ClassAd]:
    """The ads of a stream of text. Raises ParseError with the line in the stream."""
    for text, line in _cut(pieces):
        ad = read_flat_ad(text)
        if ad is not None:
            yield ad
            continue
        try:
            node = parse_ad_expr(text)
        except ParseError as error:
            raise error.at("", line) from None
        yield ClassAd.from_expression(node)


def write(ad: ClassAd) -> str:
    """An ad on one line."""
    return unparse(ad.expression())


def _cut(pieces: Iterator[str]) -> Iterator[tuple[str, int]]:
    """The text of each ad, indented to its column, and the line on which it begins.

    Text that is not an ad is given too: the parser says best what is wrong with it.
    """
    buffer, line, column, wanted = "", 1, 0, 0
    pending: list[str] = []
    # The empty piece at the end lets what is pending through.
    for piece in chain(pieces, ("",)):
        pending.append(piece)
        if piece and sum(map(len, pending)) < wanted:
            continue
        buffer += "".join(pending)
        pending.clear()
        start = 0
        while True:
            begin = _skip(buffer, start)
            end = _end(buffer, begin)
            if end is None:
                break
            line, column = _moved(buffer, start, begin, line, column)
            yield " " * column + buffer[begin:end], line
            line, column = _moved(buffer, begin, end, line, column)
            start = end
        buffer = buffer[start:]
        # Until as much again has come there is no use in looking for the end once more.
        wanted = len(buffer)
        if wanted > MAX_TEXT:
            raise ParseError(f"an ad goes on for over {MAX_TEXT} characters", line=line)
    begin = _skip(buffer + "\n", 0)
    if begin < len(buffer):
        line, column = _moved(buffer, 0, begin, line, column)
        yield " " * column + buffer[begin:], line


def _moved(buffer: str, start: int, end: int, line: int, column: int) -> tuple[int, int]:
    """The line and the column (from 0) of `end`, where those of `start` are known."""
    lines = buffer.count("\n", start, end)
    if lines:
        return line + lines, end - buffer.rfind("\n", start, end) - 1
    return line, column + end - start


def _skip(buffer: str, start: int) -> int:
    """Where the next ad begins: past space, comments and what separates ads."""
    match = _BETWEEN.match(buffer, start)
    return match.end() if match else start


def _end(buffer: str, start: int) -> int | None:
    """Where the ad that begins at `start` ends, or None while its end is not there yet."""
    if start == len(buffer) or (buffer[start] == "/" and start + 1 == len(buffer)):
        return None
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
