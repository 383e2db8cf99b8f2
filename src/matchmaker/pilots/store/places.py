"""The operations that a storage offers to pilots."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from matchmaker.pilots.store.plan import ABANDONED
from matchmaker.pilots.store.standing import Entry

MOST_SMALL: Final = 1 << 20
"""Bytes of a claim, a note or a plan at most."""


class Store(Protocol):
    """A place that pilots share. Paths are relative to it, with ``/``.

    Each method may raise Unsure if it was interrupted, and StoreError if it was refused.
    """

    @property
    def url(self) -> str:
        """As it was given."""

    def now(self, nonce: str) -> float:
        """The storage's time, in seconds since 1970."""

    def inputs(self, *, finished: bool = False) -> Iterable[Entry] | None:
        """What is in ``work/`` and not finished, or what is; None if there is no such folder."""

    def prepare(self, input_: str) -> None:
        """Makes an input's folder, unless it exists."""

    def listing(self, input_: str, *, finished: bool = False) -> Iterable[Entry] | None:
        """The files of an input; None if it does not exist."""

    def read(self, path: str) -> bytes | None:
        """A small file; None if it does not exist."""

    def needed(self, input_: str, path: str) -> bool:
        """Whether a result does not exist yet, and its input was not moved."""

    def create(self, path: str, data: bytes) -> bool:
        """Creates a small file, if there is none."""

    def publish(self, path: str, source: Path) -> bool:
        """Stores a file whole, if there is none."""

    def renew(self, path: str, data: bytes) -> None:
        """Sets the time of a claim that this pilot has made."""

    def remove(self, path: str) -> None:
        """Removes a file."""

    def fetch(self, path: str, target: Path) -> bool:
        """Copies a file from the storage to the node; whether it was there."""

    def finish(self, input_: str) -> None:
        """Moves an input to ``finished/``, or marks it as finished."""

    def leave(self, nonce: str, age: float = ABANDONED) -> None:
        """Removes the file that ``now`` has made, and those of pilots that were killed.

        Args:
            nonce: the pilot that leaves.
            age: how many seconds other pilots' files must be older, by the storage's clock.
        """
