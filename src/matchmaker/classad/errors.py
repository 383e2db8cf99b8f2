"""The one exception of the language: text that is not a ClassAd. Evaluation never raises."""

from __future__ import annotations

from matchmaker.classad.quoting import printable, shorten

_WINDOW = 72


class ParseError(ValueError):
    r"""Text that cannot be read as an expression or an ad.

    ``source`` names where the text came from (a file), ``line`` and ``column`` count from 1,
    ``expected`` lists what could have stood there, ``hint`` says what is probably meant.
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
        """The error in one line: place, what was found, what was expected, what to do."""
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
    """What was found, what was expected and what to do, without the place."""
    text = error.message
    if error.expected:
        text += f"; expected {' or '.join(error.expected)}"
    if error.hint:
        text += f" ({error.hint})"
    return text
