"""The one exception of the language, and how messages show text and similar names.

Only reading raises: evaluation gives ERROR.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LONGEST: Final = 64
"""Of longer names the likeness is not sought: it takes its time."""


def printable(text: str) -> str:
    r"""Text with every character that shows nothing as ``?``, so that no ad steers who reads it.

    >>> printable("a\x1b[31m\u202eb\n")
    'a?[31m?b?'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def shorten(text: str, width: int = 160) -> str:
    """Text cut to a width for a message, with an ellipsis if something was cut.

    >>> shorten("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= width else text[: width - 3] + "..."


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


_WINDOW = 72


class ParseError(ValueError):
    r"""Text that cannot be read as an expression or an ad.

    ``source`` names where the text came from (a file), ``line`` and ``column`` count from 1,
    ``expected`` lists alternatives, ``hint`` suggests a remedy.
    ``str()`` gives all of it with the line and a caret.

    >>> print(ParseError("unexpected '*'", text="1 +\n  * 2", line=2, column=3,
    ...                  expected=("a value",)))
    line 2, column 3: unexpected '*'; expected a value
        * 2
        ^
    """

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        line: int = 0,
        column: int = 0,
        expected: tuple[str, ...] = (),
        hint: str = "",
        source: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.line = line
        self.column = column
        self.expected = expected
        self.hint = hint
        self.source = source

    def at(self, source: str, first_line: int = 1) -> ParseError:
        """The same error, placed in a file whose line `first_line` is the text's first."""
        line = self.line + first_line - 1 if self.line else first_line
        return ParseError(
            self.message,
            text=self._excerpt_line(),
            line=line,
            column=self.column,
            expected=self.expected,
            hint=self.hint,
            source=source or self.source,
        )

    def summary(self) -> str:
        """The error in one line: place, found, expected, hint."""
        place = f"line {self.line}, column {self.column}" if self.column else f"line {self.line}"
        parts = [self.source, place if self.line else ""]
        head = ", ".join(part for part in parts if part)
        said = wording(self)
        return f"{head}: {said}" if head else said

    def _excerpt_line(self) -> str:
        lines = self.text.split("\n")
        if len(lines) == 1:
            return lines[0]
        return lines[self.line - 1] if 0 < self.line <= len(lines) else ""

    def __str__(self) -> str:
        line = self._excerpt_line()
        if not line or not self.column:
            return self.summary()
        # A window of the line, so that the caret is seen however long the line is.
        start = max(0, self.column - 1 - _WINDOW // 2)
        shown = printable(line[start : start + _WINDOW].replace("\t", " "))
        pointer = " " * (self.column - 1 - start)
        return f"{self.summary()}\n  {shown}\n  {pointer}^"


def under(name: str, error: ParseError, line: int) -> ParseError:
    """The same error, in the value of an attribute of an ad that is on a line of a file."""
    where = f"{shorten(name, 60)}: " if name else ""
    return ParseError(where + error.message, line=line, expected=error.expected, hint=error.hint)


def wording(error: ParseError) -> str:
    """Word an error without its place: found, expected, hint."""
    text = error.message
    if error.expected:
        text += f"; expected {' or '.join(error.expected)}"
    if error.hint:
        text += f" ({error.hint})"
    return text
