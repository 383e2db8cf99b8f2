"""Syntax errors as findings: which rule an error of the parser falls under, and what mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from matchmaker.classad.errors import ParseError, shorten, wording
from matchmaker.classad.parser import parse_ad_expr, parse_expr, parsed
from matchmaker.linting.model import Piece, Report


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
    """What a span of a text would better be."""

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
    """Where an operand with its signs ends: ``-x.y``, ``!f(a)[0]``, ``-(a + b)``.

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
