"""The steps of a plan: which way each part of an expression was evaluated on many rows."""

from __future__ import annotations

import attrs


@attrs.frozen(slots=True)
class Step:
    """One part of an expression, and the way in which it was evaluated.

    ``way`` is ``once``, ``by value``, ``by combination``, ``by table`` (the contents of a column,
    as if they were rows), ``by lookup`` (of a string in a column), ``by column`` or ``by row``.
    ``count`` is the number of evaluations by the scalar form; ``side`` is the ad, of the job or of
    the row, that holds the part.
    """

    depth: int
    text: str
    side: str
    way: str
    columns: tuple[str, ...]
    rows: int
    count: int

    def __str__(self) -> str:
        times = f", {self.count} evaluations" if self.count else ""
        of = f" of {', '.join(self.columns)}" if self.columns else ""
        return f"{'  ' * self.depth}{self.text}: {self.way}{of} ({self.rows} rows{times})"
