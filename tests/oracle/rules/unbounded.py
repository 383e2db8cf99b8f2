"""A time that ours cannot be, as HTCondor has it: what stands in for one in an emulation."""

from __future__ import annotations

from datetime import timedelta

import attrs

from matchmaker.classad.functions import conversions
from tests.oracle.oracle import Answer


@attrs.frozen(slots=True)
class Unbounded:
    """A time that ours cannot be: relative without an offset, else absolute, since 1970."""

    seconds: float
    offset: int | None = None

    def encoded(self) -> Answer:
        """The answer that it is."""
        if self.offset is None:
            return ["relative time", repr(self.seconds)]
        return ["absolute time", self.text()]

    def text(self) -> str:
        """An absolute time as HTCondor writes it."""
        assert self.offset is not None
        try:
            local = conversions.EPOCH + timedelta(seconds=self.seconds + self.offset)
        except OverflowError:
            return "beyond the years that Python knows"
        hours, minutes = divmod(abs(self.offset) // 60, 60)
        sign = "+" if self.offset > 0 else "-"
        return f"{local.year}{local:-%m-%dT%H:%M:%S}{sign}{hours:02}:{minutes:02}"
