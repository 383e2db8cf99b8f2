"""Strings and names between quotes: how they are escaped, and read back.

The escapes are C's, with octal numbers for other control characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

RESERVED: Final = frozenset({"true", "false", "undefined", "error", "is", "isnt"})
"""The words that are no names, in small letters."""

_SPECIAL: Final = re.compile(r"[\x00-\x1f\x7f\\\"']")
_WRITTEN: Final = {
    "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r",
    "\\": "\\\\",
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"(?:\\[23][0-7]{2})++|\\([0-3][0-7]{0,2}|[4-7][0-7]?|[^0-7])", re.DOTALL
)
_ESCAPES: Final = {"a": "\a", "b": "\b", "v": "\v", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}

LONGEST: Final = 64
"""Of longer names the likeness is not sought: it takes its time."""


def unparse_name(name: str) -> str:
    r"""An attribute name as it is written: in single quotes where it is no plain word.

    >>> unparse_name("Cpus"), unparse_name("true"), unparse_name("it's")
    ('Cpus', "'true'", "'it\\'s'")
    """
    plain = name.isidentifier() and name.isascii() and name.lower() not in RESERVED
    return name if plain else quote(name, "'")


def quote(text: str, mark: str) -> str:
    """Text between two quotation marks, escaped so that it reads back equal."""

    def escaped(match: re.Match[str]) -> str:
        char = match[0]
        if char in "\"'":
            return "\\" + char if char == mark else char
        return _WRITTEN.get(char) or f"\\{ord(char):03o}"

    if text.isprintable() and "\\" not in text and mark not in text:
        return mark + text + mark
    return mark + _SPECIAL.sub(escaped, text) + mark


def printable(text: str) -> str:
    r"""Text with every character that shows nothing as ``?``, so that no ad steers who reads it.

    >>> printable("a\x1b[31m\u202eb\n")
    'a?[31m?b?'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def shorten(text: str, width: int = 160) -> str:
    """Text cut to a width for a message, with an ellipsis where something was cut.

    >>> shorten("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= width else text[: width - 3] + "..."


def unescape(body: str) -> str:
    r"""A string's text from what stands between its quotes.

    An unknown escape stands for its character. Octal numbers above 127 are bytes of UTF-8, as
    HTCondor writes them, and characters where they are no UTF-8. Raises ValueError for a NUL, which
    no string holds.

    >>> unescape(r"a\tb\101\q caf\303\251 \351")
    'a\tbAq café é'
    """
    plain = body.replace('\\"', '"')
    return _ESCAPE.sub(_character, body) if "\\" in plain else plain


def _character(match: re.Match[str]) -> str:
    escape = match[1]
    if escape is None:
        codes = bytes(int(code, 8) for code in match[0][1:].split("\\"))
        try:
            return codes.decode()
        except UnicodeDecodeError:
            return codes.decode("latin-1")
    if escape[0] in "01234567":
        code = int(escape, 8)
        if code == 0:
            raise ValueError("a string cannot hold the character \\0")
        return chr(code)
    return _ESCAPES.get(escape, escape)


def closest(name: str, candidates: Mapping[str, str], likeness: float = 0.8) -> str:
    """The spelling whose key, in small letters, is most like a name, or empty.

    `likeness` is the least that counts, from 0 to 1, which is the same name.

    >>> closest("Memroy", {"memory": "Memory", "cpus": "Cpus"}), closest("x", {"memory": "Memory"})
    ('Memory', '')
    """
    from difflib import get_close_matches

    short = [folded for folded in candidates if len(folded) <= LONGEST]
    found = get_close_matches(name.lower()[:LONGEST], short, n=1, cutoff=likeness)
    return candidates[found[0]] if found else ""
