"""A file that gives little at a time."""

from __future__ import annotations

import io


class Trickle(io.StringIO):
    """A file that gives one character at a time, whatever is asked for."""

    def read(self, size: int | None = -1, /) -> str:
        return super().read(1 if size != 0 else 0)
