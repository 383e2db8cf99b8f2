r"""The old format: ``name = expression``, one a line; a blank line ends an ad; ``#`` is a comment.

Strings of this format know only the escape ``\"``. A line's strings are rewritten as the new
format's and the one parser reads it; a bad line is an error with its number, never skipped in
silence. In HTCondor's files of job histories a line ``*** …`` ends an ad, too.

Two things that the format has no way to say are written in another. A string with a line break, or
with a backslash at its end in the middle of a line, is ``eval( "\"…\"" )`` with the escapes of the
new format: HTCondor evaluates it to the string, and here it is read as the string. The spaces,
which no other expression is written with, distinguish it from a call of the function. An ad without
attributes is the comment ``# [ ]``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats.new import AssignmentTable, ad_of
from matchmaker.classad.formats.stream import Report, check_text, strict, text_of
from matchmaker.classad.parser import MissError, parse_value
from matchmaker.classad.printer import unescape, unparse_held, unparse_name

LINE: Final = re.compile(r"""\s*('(?:[^'\\\0]++|\\[^\0])++'|[^\s='"\0]+)\s*=(.*)""", re.DOTALL)

# A quote after a backslash is part of the string, but for one at the end of the line. What has no
# end goes up to the end of the line, so that it is looked at once.
_STRING: Final = re.compile(
    r"""'(?:[^'\\]++|\\.)*+(?:'|\Z)|//[^\n]*"""
    r"""|(?<![\w.])eval\( "\\"(?P<escaped>(?:[^"\\]++|\\[^"])*+)\\"" \)"""
    r"""|"(?P<plain>(?:[^"\\]++|\\"(?!\s*+\Z)|\\)*+)(?:"|\Z)"""
)
_LONE_BACKSLASH: Final = re.compile(r'\\(?!")')
_EMPTY: Final = "# [ ]"


BANNER: Final = "*** "
"""How the line begins that follows each ad in a file of job histories, in place of an empty one."""
_BANNERS: Final = re.compile(r"^\*\*\* [^\n]*(?=\n)", re.MULTILINE)
_BLANK: Final = re.compile(r"\n[^\S\n]+\n")
_LARGE: Final = 1 << 18


def read(pieces: Iterator[str], report: Report = strict) -> Iterator[ClassAd]:
    """The ads of a stream of text. Reports ParseErrors, each with its line."""
    for text, number in whole_ads(pieces, report):
        yield from ads_within(text, number, report)


def ads_within(text: str, number: int, report: Report) -> Iterator[ClassAd]:
    """The ads of a text of whole ads, whose first line has a number."""
    plain = is_text(text)
    start = counted = 0
    while start < len(text):
        if text[start] == "\n":
            start += 1
            continue
        # -1, if there is no other empty line, becomes the end.
        end = text.find("\n\n", start) % (len(text) + 1)
        lines = text[start:end].rstrip("\n").split("\n")
        try:
            ad = ad_of(lines, LINES) if plain else None
        except MissError:
            ad = None
        if ad is not None:
            yield ad
        else:
            number += text.count("\n", counted, start)
            counted = start
            yield from _read_lines(lines, number, report)
        start = end


def is_text(text: str) -> bool:
    """Whether all of a text is UTF-8."""
    try:
        check_text(text, 1)
    except ParseError:
        return False
    return True


def whole_ads(pieces: Iterator[str], report: Report) -> Iterator[tuple[str, int]]:
    """The text up to an empty line, as far as it has come, with the number of its first line."""
    rest = ""
    number = 1
    wanted = _LARGE
    # Within an ad that is too long, up to the empty line that ends it.
    endless = False
    for piece in pieces:
        text = rest + piece
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        if BANNER in text:
            text = _BANNERS.sub("", text)
        if endless:
            passed, empty, text = text.partition("\n\n")
            if not empty:
                # The last character may be half of the end, or of a line's.
                number += passed.count("\n", 0, -1)
                rest = passed[-1:]
                continue
            number += passed.count("\n") + 2
            endless = False
        whole, empty, rest = text.rpartition("\n\n")
        if empty:
            yield whole, number
            number += whole.count("\n") + 2
        if len(rest) > wanted:
            blanks = list(_BLANK.finditer(rest))
            if blanks:
                start, end = blanks[-1].span()
                whole = rest[:start]
                yield whole, number
                number += rest.count("\n", 0, end)
                rest = rest[end:]
            wanted = max(_LARGE, 2 * len(rest))
            if len(rest) > LIMITS.text:
                report(too_long(number))
                endless = True
                number += rest.count("\n", 0, -1)
                rest = rest[-1:]
                wanted = _LARGE
    if len(rest) > LIMITS.text:
        report(too_long(number))
    elif not endless:
        last = rest.rfind("\n") + 1
        yield rest[:last] if rest.startswith(BANNER, last) else rest, number


def too_long(number: int) -> ParseError:
    """The error of an ad, from a line on, that is longer than an ad may be."""
    return ParseError(f"an ad goes on for over {LIMITS.text} characters", line=number)


def _read_lines(lines: list[str], number: int, report: Report = strict) -> Iterator[ClassAd]:
    """Read the ads of lines of any kind; `number` is that of the first line."""
    assignments: list[tuple[str, Any]] = []
    empty = False
    for at, line in enumerate(lines, number):
        if not line or line.isspace():
            if assignments or empty:
                yield ClassAd(assignments)
            assignments = []
            empty = False
        elif line.lstrip().startswith("#"):
            empty = empty or line.strip() == _EMPTY
        else:
            try:
                check_text(line, at)
                assignments.append(_assignment(line, at))
            except ParseError as error:
                report(error)
    if assignments or empty:
        yield ClassAd(assignments)


def write(ad: ClassAd) -> str:
    """An ad, one attribute a line."""
    held = zip(ad, ad._held.values(), strict=True)
    lines = [f"{_name(name)} = {_written(each)}" for name, each in held]
    return "\n".join(lines) if lines else _EMPTY


def _written(held: Any) -> str:
    text = unparse_held(held, text_of)
    return old_text(text) if "\\" in text else text


def old_text(text: str) -> str:
    r"""An expression's text with its strings in this format.

    >>> print(old_text(r'f("C:\\new", "two\nlines")'))
    f("C:\new", eval( "\"two\nlines\"" ))
    """
    return _NEW_STRING.sub(_old_string, text)


_NEW_STRING: Final = re.compile(r"""'(?:[^'\\]++|\\.)*+'|"((?:[^"\\]++|\\.)*+)\"""", re.DOTALL)
_ESCAPED: Final = {"\n": "\\n", "\r": "\\r", '"': "\\042", "\\": "\\134"}


def _old_string(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    plain = unescape(match[1])
    within = plain.endswith("\\") and match.end() != len(match.string)
    if within or "\n" in plain or "\r" in plain:
        escaped = re.sub(r'[\n\r"\\]', lambda found: _ESCAPED[found[0]], plain)
        return f'eval( "\\"{escaped}\\"" )'
    return '"' + plain.replace('"', '\\"') + '"'


# The first character must not make the line a comment, nor the text look like another format.
_PLAIN_NAME: Final = re.compile(r"""(?![#<\[{/\ufeff])[^\s='"]+""")


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) and name.isprintable() else unparse_name(name)


# How a dump of an information system begins: with its version, or the name of an entry.
_OF_LDIF: Final = re.compile(r"version:\s*\d|dn::?\s", re.IGNORECASE)
_LDIF: Final = "this is LDIF, which glue.read_ldif and the option --ldif read"
# The last line of a job in a submit description of HTCondor.
_OF_SUBMIT: Final = re.compile(r"queue(?:\s|\Z)", re.IGNORECASE)
_SUBMIT: Final = (
    "this is a submit description; condor_submit -dry-run JOB.ad FILE writes the ad of its job"
)


def _other_form(line: str) -> str:
    return _LDIF if _OF_LDIF.match(line) else _SUBMIT if _OF_SUBMIT.match(line) else ""


def _assignment(line: str, number: int) -> tuple[str, Any]:
    match = LINE.match(line)
    if match is None:
        raise ParseError(
            "not an assignment", text=line, line=number, column=1,
            expected=("name = expression",), hint=_other_form(line),
        )  # fmt: skip
    text = match[2]
    try:
        name = _read_name(match[1])
        return name, parse_value(_new_text(text))
    except ParseError as error:
        shift = match.start(2) + len(text) - len(text.lstrip())
        marks = rewritten(text.strip())[1]
        raise ParseError(
            error.message,
            text=line,
            line=number,
            column=shift + offset(error.column - 1, marks) + 1 if error.column else 1,
            expected=error.expected,
            hint=error.hint,
        ) from None


def _new_text(text: str) -> str:
    return _STRING.sub(_new_string, text).strip() if "\\" in text else text.strip()


def _unescaped(text: str) -> str | None:
    """The string of a text that begins with a quote; None if it is more than a string."""
    plain = text[1:-1]
    if text[-1] != '"' or len(text) < 2 or "\0" in plain or '"' in plain.replace('\\"', ""):
        return None
    return plain.replace('\\"', '"')


LINES: Final = AssignmentTable("lines of ads", 1 << 19, _unescaped, _new_text)
"""Assignments of the old format that were met."""


def _read_name(text: str) -> str:
    try:
        return unescape(text[1:-1]) if text[0] == "'" else text
    except ValueError as error:
        raise ParseError(str(error)) from None


def _new_string(match: re.Match[str]) -> str:
    if match["plain"] is not None and match.end("plain") < match.end():
        return '"' + _LONE_BACKSLASH.sub(r"\\\\", match["plain"]) + '"'
    return match[0] if match["escaped"] is None else f'"{match["escaped"]}"'


Marks: TypeAlias = tuple[tuple[int, int], ...]
"""Offsets in a rewritten text from which on it is the line's again, each with the offset there."""


def rewritten(text: str) -> tuple[str, Marks]:
    r"""An expression's text with its strings in the new format, and the offsets of its parts.

    >>> rewritten(r'f("C:\n", x)')
    ('f("C:\\\\n", x)', ((7, 6), (9, 8)))
    """
    parts: list[str] = []
    marks: list[tuple[int, int]] = []
    length = end = 0
    for match in _STRING.finditer(text):
        before, string = text[end : match.start()], _new_string(match)
        parts += before, string
        length += len(before)
        marks += _marks(match[0], string, length, match.start())
        length += len(string)
        end = match.end()
        marks.append((length, end))
    return "".join(parts) + text[end:], tuple(marks)


def _marks(plain: str, string: str, here: int, there: int) -> list[tuple[int, int]]:
    """Offsets after each backslash that was inserted into a string."""
    found = []
    at = 0
    for index, char in enumerate(string):
        if at < len(plain) and char == plain[at]:
            at += 1
        else:
            found.append((here + index + 1, there + at))
    return found if at == len(plain) else []


def offset(at: int, marks: Marks, base: int = 0) -> int:
    """Map an offset in a rewritten text, which began at ``base``, to the original."""
    index = bisect_right(marks, (at, _FAR_OFF)) - 1
    here, there = marks[index] if index >= 0 else (0, base)
    found = there + at - here
    # Of what was put in, every character stands where the next of the line does.
    return min(found, marks[index + 1][1]) if index + 1 < len(marks) else found


_FAR_OFF: Final = 1 << 62
