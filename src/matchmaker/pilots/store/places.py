"""What a storage must do for pilots."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from matchmaker.pilots.store.standing import Entry

MOST_SMALL: Final = 1 << 20
"""Bytes of a claim, a note or a plan at most."""


class Store(Protocol):
    """A place that pilots share. Paths are relative to it, with ``/``.

    Each method may raise Unsure where it was broken off, and StoreError where it is refused.
    """

    @property
    def url(self) -> str:
        """As it was given."""

    def now(self, nonce: str) -> float:
        """The storage's time, in seconds since 1970."""

    def inputs(self, *, finished: bool = False) -> list[str]:
        """The inputs' names: those that are not finished, or those that are."""

    def listing(self, input_: str, *, finished: bool = False) -> Iterable[Entry] | None:
        """The files of an input; None where it is not there."""

    def read(self, path: str) -> bytes | None:
        """A small file; None where it is not there."""

    def needed(self, input_: str, path: str) -> bool:
        """Whether a result is not there yet, and its input was not moved aside."""

    def create(self, path: str, data: bytes) -> bool:
        """Makes a small file where there is none."""

    def publish(self, path: str, source: Path) -> bool:
        """Stores a file whole, where there is none."""

    def renew(self, path: str, data: bytes) -> None:
        """Sets the time of a claim that this pilot has made."""

    def remove(self, path: str) -> None:
        """Removes a file."""

    def fetch(self, path: str, target: Path) -> bool:
        """Copies a file from the storage to the node; whether it was there."""

    def finish(self, input_: str) -> None:
        """Moves an input aside, or marks it as finished."""

    def leave(self, nonce: str) -> None:
        """Removes what ``now`` has made."""
