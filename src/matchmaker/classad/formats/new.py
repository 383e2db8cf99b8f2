"""The new format: ads in brackets, one after the other, or in a list ``{ [..], [..] }``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.assignments import ad_in
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats.stream import Part, Report, Syntax, check_text, cut, placed, strict
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.parser import parse_ad_expr
from matchmaker.classad.unparse import unparse

SYNTAX: Final = Syntax(
    around="[]",
    lists="{}",
    nesting="[]",
    hiding=r""""[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'|//[^\n]*\n|/\*.*?\*/""",
    begun=r"""["']|/\*|//|/\Z""",
)


def read(pieces: Iterator[str], report: Report = strict) -> Iterator[ClassAd]:
    """The ads of a stream of text. Reports ParseErrors with the line in the stream."""
    for part in cut(pieces, SYNTAX, report, LIMITS.text):
        try:
            check_text(part.text, part.line)
            ad = ad_in(part.text)
            if ad is None:
                ad = _by_grammar(part)
        except ParseError as error:
            report(error)
            continue
        yield ad


def _by_grammar(part: Part) -> ClassAd:
    try:
        return ClassAd.from_expression(parse_ad_expr(part.text))
    except ParseError as error:
        raise placed(error, part.line, part.column) from None


def write(ad: ClassAd) -> str:
    """An ad on one line."""
    return unparse(ad.expression())
