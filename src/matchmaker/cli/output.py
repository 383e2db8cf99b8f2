"""Printing: tables and paragraphs for people, JSON for ``--json``.

Text from ads is printed as it is, never as markup, and without escape sequences. Rich is imported
when something is drawn: it takes as long as a short command does.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from matchmaker import ClassAd
from matchmaker.classad.errors import printable as printable  # noqa: PLC0414 - given on
from matchmaker.classad.values import UNDEFINED, is_error

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from matchmaker import Trace, Value


def in_colour() -> bool:
    """Whether escape sequences may be written: not with NO_COLOR (no-color.org), bold neither."""
    return not os.environ.get("NO_COLOR")


def raw_stream(stream: Any) -> IO[str]:
    """The stream that passes escape sequences on, for those of our own: see ``cli.Screen``."""
    found: IO[str] = getattr(stream, "terminal", stream)
    return found


def error_console() -> Console:
    """Standard error, for progress."""
    from rich.console import Console

    return Console(file=raw_stream(sys.stderr), color_system="auto" if in_colour() else None)


def console() -> Console:
    """Standard output. In a file lines have no limit, so that each row is one line."""
    from rich.console import Console

    class _OutputConsole(Console):
        def on_broken_pipe(self) -> None:
            """Leave the error to the command; rich would end the process with status 1."""
            raise  # noqa: PLE0704 - rich calls it where it caught the error

    wide = None if sys.stdout.isatty() else 100_000
    return _OutputConsole(
        file=raw_stream(sys.stdout), markup=False, highlight=False, emoji=False, width=wide,
        color_system="auto" if in_colour() else None,
    )  # fmt: skip


def show(part: RenderableType) -> None:
    """Print a table, or a text without escape sequences."""
    part = printable(part) if isinstance(part, str) else part
    out = console()
    if out.is_terminal:
        # If columns that never fold have no room, the terminal breaks the lines.
        out.width = max(out.width, _least(part))
        out.print(part)
        return
    from rich.table import Table

    if isinstance(part, Table):
        print("\n".join(_lines(part)))
        return
    with out.capture() as captured:
        out.print(part)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _lines(part: Table) -> Iterator[str]:
    """Return the lines of a table in a file, where no cell folds."""
    # Rich takes a second for a thousand rows.
    from rich.cells import cell_len

    columns = [
        [*((column.header,) if part.show_header else ()), *column.cells] for column in part.columns
    ]
    texts = [[str(cell) for cell in cells] for cells in columns]
    widths = [max(map(cell_len, cells), default=0) for cells in texts]
    for row in zip(*texts, strict=True):
        filled = [
            " " * (width - cell_len(cell.rstrip())) + cell.rstrip()
            if column.justify == "right"
            else cell + " " * (width - cell_len(cell))
            for column, width, cell in zip(part.columns, widths, row, strict=True)
        ]
        yield "  ".join(filled).rstrip()


_LEAST = 20
"""The least width of a column of long texts that may fold."""


def _least(part: RenderableType) -> int:
    """The least width of a readable table; 0 for anything else."""
    from rich.cells import cell_len
    from rich.table import Table

    if not isinstance(part, Table):
        return 0
    longest = (
        (max(cell_len(str(cell)) for cell in (column.header, *column.cells)), column.no_wrap)
        for column in part.columns
    )
    return sum((wide if whole else min(wide, _LEAST)) + 2 for wide, whole in longest)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> Table:  # fmt: skip
    """A table of texts; columns in `right` are aligned right, those in `whole` never fold."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(columns):
        justify: Literal["right", "left"] = "right" if number in right else "left"
        made.add_column(name, justify=justify, overflow="fold", no_wrap=number in whole)
    for row in rows:
        made.add_row(*(Text(printable(str(cell))) for cell in row))
    return made


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names with their values, one on each line."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(name, Text(printable(str(value))))
    return made


def wrapped(text: str, width: int) -> list[str]:
    """Break an expression into lines: before operators if possible, and after commas.

    >>> wrapped("TARGET.Memory >= MY.RequestMemory && f(TARGET.Arch, 1)", 30)
    ['TARGET.Memory', '>= MY.RequestMemory', '&& f(TARGET.Arch, 1)']
    >>> wrapped("a" * 12, 5)
    ['aaaaa', 'aaaaa', 'aa']
    """
    lines = [""]
    for piece in _PIECES.split(text):
        joined = f"{lines[-1]} {piece}" if lines[-1] else piece
        if len(joined) <= width:
            lines[-1] = joined
            continue
        parts = textwrap.wrap(piece, width, break_on_hyphens=False)
        lines[-1:] = [lines[-1], *parts] if lines[-1] else parts
    return lines


_PIECES: Final = re.compile(r"(?<=,) | (?=(?:&&|\|\||[=!<>]=?|=[?!]=|[-+*/%?:]|is|isnt) )")


def complaint(error: Exception) -> str:
    """The message of an error, for a file with its name."""
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or error}"
    return str(error)


def warn(text: str) -> None:
    """Print a line for people on standard error."""
    print(f"classad: {printable(text)}", file=sys.stderr, flush=True)


def count(number: int, noun: str) -> str:
    """A number with its noun: ``1 queue``, ``2 queues``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def number(value: float) -> str:
    """A rank as text; a whole number has no fraction."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:g}"


def print_json(data: Any) -> None:
    """Print data as JSON in ASCII, so that it cannot steer a terminal."""
    import json

    text = json.dumps(data, indent=2, allow_nan=False)
    if "/Expr(" in text:
        from matchmaker.classad.formats.json import marked

        text = marked(text)
    print(text)


def print_trace(whole: Trace) -> None:
    """Print a trace: as a tree on a terminal, as indented lines elsewhere."""
    if not sys.stdout.isatty():
        for depth, part in whole.walk():
            print("  " * depth + printable(part.line()))
        return
    from rich.text import Text
    from rich.tree import Tree

    trees: dict[int, Tree] = {}
    for depth, part in whole.walk():
        label = Text(printable(part.line()), style="dim" if part.value is None else "")
        trees[depth] = trees[depth - 1].add(label) if depth else Tree(label)
    console().print(trees[0])


@contextmanager
def waiting(what: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal a text while the command waits; yield the function that changes it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.text import Text

    with error_console().status(Text(printable(what))) as status:
        yield lambda words: status.update(Text(printable(words)))


def plain(value: Value) -> Any:
    r"""A value for JSON. What JSON lacks becomes its expression, ``\/Expr(…)\/``."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, ClassAd):
        return {name: plain(value.eval(name)) for name in value}
    if value is UNDEFINED:
        return None
    if is_error(value):
        return {"error": value.reason}
    if isinstance(value, (bool, int)) or (isinstance(value, str) and value[:1] != "/"):
        return value
    from matchmaker.classad.formats.json import encode

    return encode(value)
