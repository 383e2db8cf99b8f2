"""The open jobs of each client, those that may still change, and about how many bytes they take.

A running job that submits others counts as a client too, besides the owner of those jobs.
"""

from __future__ import annotations

from collections.abc import Collection


class Holdings:
    """Open jobs with their bytes, by the name of the client.

    >>> held = Holdings()
    >>> held.enter("ana", "1", 700)
    >>> held.enter("ana", "2", 900, asker="job 1")
    >>> held.of("ana"), held.of("job 1")
    ((2, 1600), (1, 900))
    >>> held.leave("ana", "2")
    >>> held.of("ana"), held.of("job 1")
    ((1, 700), (0, 0))
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[str, int]] = {}
        self._bytes: dict[str, int] = {}
        self._askers: dict[str, str] = {}

    def enter(self, owner: str, id_: str, size: int, asker: str = "") -> None:
        """Enters a job, or its new size. ``asker`` names the running job that asked for it."""
        self._put(owner, id_, size)
        if asker:
            self._askers[id_] = asker
            self._put(asker, id_, size)

    def _put(self, name: str, id_: str, size: int) -> None:
        mine = self._of.setdefault(name, {})
        self._bytes[name] = self._bytes.get(name, 0) + size - mine.get(id_, 0)
        mine[id_] = size

    def leave(self, owner: str, id_: str) -> None:
        """Removes a job, if it is there."""
        for name in (owner, self._askers.pop(id_, "")):
            mine = self._of.get(name, {})
            self._bytes[name] = self._bytes.get(name, 0) - mine.pop(id_, 0)
            if not mine:
                self._of.pop(name, None)
                del self._bytes[name]

    def of(self, name: str) -> tuple[int, int]:
        """How many jobs somebody has open, and their bytes."""
        return len(self._of.get(name, ())), self._bytes.get(name, 0)

    def ids(self, name: str) -> Collection[str]:
        """The ids of the jobs that somebody has open."""
        return tuple(self._of.get(name, ()))

    def __len__(self) -> int:
        """How many have something open."""
        return len(self._of)
