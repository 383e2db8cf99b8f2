"""Columns that stay in a file, and are read when something asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matchmaker.matching.columns.column import Column, Rows


class Stored(Column):
    """A column in a file, and its length. It never changes: the copies that are made do."""

    __slots__ = ("_found", "_read", "_size")

    def __init__(self, read: Callable[[], Column], size: int) -> None:
        super().__init__()
        self._read = read
        self._size = size
        self._found: Column | None = None

    def column(self) -> Column:
        """The column in memory, where it stays until it is released."""
        found = self._found
        if found is None:
            found = self._read()
            found.version = self.version
            found.shown = True
            self._found = found
        return found

    def release(self) -> None:
        """Gives up what is in memory."""
        self._found = None

    def __len__(self) -> int:
        return self._size

    def get(self, row: int) -> Any:
        """The content of a row."""
        return self.column().get(row)

    def take(self, rows: Rows) -> Column:
        """A column of some of the rows, in memory."""
        return self.column().take(rows)

    def copy(self, size: int, room: int) -> Column:
        """A column in memory, with room for more rows."""
        return self.column().copy(size, room)


def in_memory(column: Column) -> Column:
    """The column, read if need be."""
    return column.column() if isinstance(column, Stored) else column
