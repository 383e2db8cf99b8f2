"""Renders the script that a batch system starts: it guards the payload with records in a directory.

The script is ``start.sh`` beside this module, in POSIX sh. It starts the payload only with a record
of the commit and a lease that lasts, and only if it wins the exclusive record of the start; it
passes signals on, ends the payload when the lease is over, and leaves a record of the end. The
records themselves are those of :mod:`matchmaker.delegation.spool`.
"""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Final

REFUSED: Final = 75
"""Exit status of a job that found no commit, a lease that is over, or another start."""

NO_SPOOL: Final = 78
"""Exit status of a job that cannot use the directory with the records."""


def render(room: Path, *, grace: int = 10) -> str:
    """The script that starts the payload in a directory of records.

    Args:
        room: the directory, by the path that nodes know it by.
        grace: seconds between the first signal and the last when the lease is over.

    >>> "room='/shared/my spool/k7/1'" in render(Path("/shared/my spool/k7/1"))
    True
    """
    text = files("matchmaker.delegation").joinpath("start.sh").read_text("utf-8")
    return text.replace("@ROOM@", shlex.quote(str(room))).replace("@GRACE@", str(int(grace)))
