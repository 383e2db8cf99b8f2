"""What a reader was tested with: its outputs, and the versions whose shapes they have."""

from __future__ import annotations

import attrs


@attrs.frozen(slots=True)
class Format:
    """An output of a batch system.

    Attributes:
        output: the command, or what the output holds.
        versions: those of the batch system, or of the form, whose shapes are among the tests.
        running: those of them that the tests take from a daemon.
    """

    output: str
    versions: tuple[str, ...]
    running: tuple[str, ...] = attrs.field(default=(), kw_only=True)
