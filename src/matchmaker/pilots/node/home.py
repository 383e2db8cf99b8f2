"""A pilot's own directory, in which those of its tasks are; nothing of it outlasts the pilot.

The pilot and the keepers of its jobs hold a lock on it (``keeper``). What a pilot left that was
killed together with its keepers, as when the node lost power, the next pilot here removes.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matchmaker.pilots.node.keeper import OWN, lock, remove, remove_dead


@contextmanager
def own_directory(given: str | None) -> Iterator[Path]:
    """A new directory for a pilot, for as long as the block lasts.

    Args:
        given: where it is made; else in what the batch system names (``TMPDIR``), or in ``/tmp``.

    Raises OSError.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     with own_directory(place) as mine:
    ...         (mine / "left").touch()
    ...     os.listdir(place)
    []
    """
    place = Path(given or os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - its own one is below
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    for each in place.glob(f"{OWN}*"):
        remove_dead(each)
    # The name of one that waits for its lock is another, so that nobody takes it for a dead one's.
    new = place / f".{secrets.token_hex(8)}"
    new.mkdir(mode=0o700)
    held = lock(new, fcntl.LOCK_SH)
    mine = new.rename(place / f"{OWN}{secrets.token_hex(8)}")
    try:
        yield mine
    finally:
        remove(mine)
        if held is not None:
            os.close(held)
