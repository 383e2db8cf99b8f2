"""A store on a file server; ``sftp`` and ``webdav`` talk to the server.

A claim or a result is written under another name and then renamed; a server refuses to rename over
a file that exists. One rename moves a finished input. No operation creates an input's folder again,
so a late write of a slow pilot fails and does no harm.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import attrs

from matchmaker.pilots.store.places import MOST_SMALL
from matchmaker.pilots.store.plan import ABANDONED, FINISHED, PILOTS, WORK
from matchmaker.pilots.store.protocol import StoreError
from matchmaker.pilots.store.standing import Entry, Kind


@attrs.frozen(slots=True)
class Found:
    """What a server says of a file or a folder: its name, and its time in seconds since 1970."""

    name: str
    kind: Kind
    modified: float


class Files(Protocol):
    """A server of files. Paths are relative to the store, with ``/``.

    Each method may raise Unsure if it was interrupted, StoreError if it was refused, and
    FileNotFoundError if a file does not exist, or the folder of a file to be written.
    """

    def about(self, path: str) -> Found:
        """A file or a folder."""

    def folder(self, path: str) -> Iterable[Found]:
        """What is in a folder."""

    def get(self, path: str, most: int) -> bytes:
        """The first bytes of a file."""

    def download(self, path: str, target: Path) -> None:
        """Copies a file to the node."""

    def put(self, path: str, data: bytes | Path) -> None:
        """Writes a file, new or over another; never creates a folder."""

    def rename(self, path: str, target: str) -> None:
        """Moves a file or a folder. Raises FileExistsError where something is there."""

    def remove(self, path: str) -> None:
        """Removes a file."""

    def make(self, path: str) -> None:
        """Creates a folder, unless it exists."""


@attrs.frozen(slots=True)
class Remote:
    """A store on a server of files."""

    url: str
    files: Files

    def now(self, nonce: str) -> float:
        path = f"{PILOTS}/{nonce}"
        try:
            self.files.put(path, b"\n")
        except FileNotFoundError:
            self.files.make(PILOTS)
            self.files.put(path, b"\n")
        return self.files.about(path).modified

    def leave(self, nonce: str, age: float = ABANDONED) -> None:
        with suppress(StoreError, FileNotFoundError):
            there = {each.name: each.modified for each in self.files.folder(PILOTS)}
            before = there.get(nonce, 0.0) - age
            for name, at in there.items():
                if name == nonce or at < before:
                    self.remove(f"{PILOTS}/{name}")

    def inputs(self, *, finished: bool = False) -> list[Entry] | None:
        return self._entries(FINISHED if finished else WORK)

    def prepare(self, input_: str) -> None:
        self.files.make(WORK)
        self.files.make(f"{WORK}/{input_}")

    def listing(self, input_: str, *, finished: bool = False) -> list[Entry] | None:
        return self._entries(f"{FINISHED if finished else WORK}/{input_}")

    def _entries(self, folder: str) -> list[Entry] | None:
        try:
            return [
                Entry(each.name, each.modified, each.kind) for each in self.files.folder(folder)
            ]
        except FileNotFoundError:
            return None

    def read(self, path: str) -> bytes | None:
        try:
            return self.files.get(path, MOST_SMALL)
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        try:
            self.files.about(path)
        except FileNotFoundError:
            return False
        return True

    def needed(self, input_: str, path: str) -> bool:
        """Whether a result does not exist yet; a folder that was moved is never created again."""
        return not self.exists(path) and self.exists(f"{WORK}/{input_}")

    def publish(self, path: str, source: Path) -> bool:
        return self.create(path, source)

    def create(self, path: str, data: bytes | Path) -> bool:
        """Creates a file, whole, if there is none; False also if the folder was moved."""
        folder, slash, name = path.rpartition("/")
        beside = f"{folder}{slash}.{name}.{secrets.token_hex(6)}"
        try:
            self.files.put(beside, data)
            self.files.rename(beside, path)
        except (FileNotFoundError, FileExistsError, StoreError) as error:
            with suppress(StoreError):
                self.remove(beside)
            if isinstance(error, StoreError):
                raise
            return False
        return True

    def renew(self, path: str, data: bytes) -> None:
        """Writes a claim again, so that the server gives it a new time."""
        with suppress(FileNotFoundError):
            self.files.put(path, data)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self.files.remove(path)

    def fetch(self, path: str, target: Path) -> bool:
        try:
            self.files.download(path, target)
        except FileNotFoundError:
            return False
        return True

    def finish(self, input_: str) -> None:
        """Moves an input's folder aside; where another did, nothing is left to do."""
        source, target = f"{WORK}/{input_}", f"{FINISHED}/{input_}"
        self.files.make(FINISHED)
        try:
            self.files.rename(source, target)
        except FileNotFoundError:
            return
        except FileExistsError:
            raise StoreError(
                f"{target} is there already: move it away, so that {source} can go there"
            ) from None
