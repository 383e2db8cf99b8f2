"""The new format: ads in brackets, one after the other, or in a list ``{ [..], [..] }``.

A job description may lack the brackets, and have comments with ``#``: see ``jdl``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats.assignments import ad_in
from matchmaker.classad.formats.stream import (
    BARE,
    Part,
    Report,
    Syntax,
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
from matchmaker.classad.parser import by_grammar
from matchmaker.classad.printer import unparse_ad

SYNTAX: Final = Syntax(
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
    yield from read_parts(iter([Part(in_brackets(text), 0, 0)]), report)


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


def read_parts(parts: Iterator[Part], report: Report) -> Iterator[ClassAd]:
    """The ads of texts that are already cut."""
    return ads_of(parts, report, _ad)


def _ad(part: Part) -> ClassAd:
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
