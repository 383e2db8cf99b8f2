"""A pilot's own directory, with those of its tasks; it is removed with the pilot.

The pilot and the keepers of its jobs hold a lock on it (``keeper``). If a pilot was killed together
with its keepers, as when the node lost power, the next pilot on the node removes its directory.
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
def own_directory(given: str | None, *, passable: bool = False) -> Iterator[Path]:
    """A new directory for a pilot, for as long as the block lasts.

    Args:
        given: where it is made; by default in ``TMPDIR``, as the batch system sets it, or ``/tmp``.
        passable: whether other accounts may pass through it, to directories of their own. They
            cannot list it.

    Raises OSError.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     with own_directory(place) as mine:
    ...         (mine / "left").touch()
    ...     os.listdir(place)
    []
    """
    place = Path(given or os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - its own one is below
    if not place.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o711 if passable else 0o700)
    for each in place.glob(f"{OWN}*"):
        remove_dead(each)
    # The name of one that waits for its lock is another, so that nobody takes it for a dead one's.
    new = place / f".{secrets.token_hex(8)}"
    new.mkdir(mode=0o700)
    if passable:
        new.chmod(0o711)
    held = lock(new, fcntl.LOCK_SH)
    mine = new.rename(place / f"{OWN}{secrets.token_hex(8)}")
    try:
        yield mine
    finally:
        remove(mine)
        if held is not None:
            os.close(held)
