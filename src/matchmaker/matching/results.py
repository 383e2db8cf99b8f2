"""Show results in notebooks and as tables: HTML, Arrow and pandas.

Texts come from strangers' ads: each is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from matchmaker.classad.errors import shorten

if TYPE_CHECKING:
    from matchmaker.matching.columns.arrow import ArrowTable

SHOWN: Final = 20
"""How many rows a notebook shows."""

LONG: Final = 200
"""The most characters of a cell that it shows."""


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]], count: int) -> str:
    """The first rows of `count` as a table, in which nothing of a row is markup.

    >>> html_table(["key"], [["<a>"]], 1)
    '<table><tr><th>key</th></tr><tr><td>&lt;a&gt;</td></tr></table>'
    """
    # Imported on call: few results are shown in a notebook.
    import html

    lines = ["".join(f"<th>{html.escape(name)}</th>" for name in head)]
    lines += (
        "".join(f"<td>{html.escape(_cell_text(each))}</td>" for each in row)
        for row in islice(rows, SHOWN)
    )
    table = f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
    return table if count <= SHOWN else f"{table}<p>and {count - SHOWN:,} more</p>"


def _cell_text(value: object) -> str:
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return shorten(text, LONG)


def arrow_table(columns: Mapping[str, Any]) -> ArrowTable:
    """Make a ``pyarrow.Table`` of columns by name. Raise ImportError without pyarrow."""
    from matchmaker.matching.columns.arrow import pyarrow

    return pyarrow().table(dict(columns))


def data_frame(table: ArrowTable) -> Any:
    """Convert a table to a pandas ``DataFrame``. Raise ImportError without pandas."""
    try:
        return table.to_pandas()
    except ModuleNotFoundError as error:
        raise ImportError("to_pandas() needs pandas: pip install pandas") from error
