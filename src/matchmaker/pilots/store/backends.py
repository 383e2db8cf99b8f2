"""The storage of a URL, and a store in a directory, on a local disk or on NFS.

A claim is created with ``O_EXCL``, a result with a link to a file that was synced. So both exist
once and whole, also on NFS. The server sets the times: a renewal names no time. One rename moves a
finished input. No operation creates an input's folder again, so a late write of a slow pilot fails
and does no harm.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import attrs

from matchmaker._files import plain
from matchmaker.pilots.store.plan import ABANDONED, CLAIM, FINISHED, PILOTS, WORK, Kind, StoreEntry
from matchmaker.pilots.store.protocol import MOST_SMALL, SharedStore, StoreError, UnsureError

_PASSING: Final = {
    errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ENOSPC,
    errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOLCK, errno.EREMOTEIO, errno.ECONNRESET,
}  # fmt: skip
"""Errors that pass: a server that is away, a disk that is full for a while."""
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_EXTRAS: Final = {
    "s3": "objects", "gs": "objects", "az": "objects", "sftp": "sftp", "dav": "webdav",
    "davs": "webdav",
}  # fmt: skip
"""The extra that each scheme needs."""


@contextmanager
def _system_errors(path: Path) -> Iterator[None]:
    """Translate errors of the system into the protocol's."""
    try:
        yield
    except OSError as error:
        said = f"{path}: {error.strerror or error}"
        raise (UnsureError if error.errno in _PASSING else StoreError)(said) from None


@attrs.frozen(slots=True)
class Directory:
    """A store in a directory."""

    url: str
    root: Path

    def now(self, nonce: str) -> float:
        """Return the time that the server gives a file that is written now."""
        path = self.root / PILOTS / nonce
        with _system_errors(path):
            path.parent.mkdir(exist_ok=True)
            with path.open("ab"):
                os.utime(path)
            return path.stat().st_mtime

    def leave(self, nonce: str, age: float = ABANDONED) -> None:
        mine = self.root / PILOTS / nonce
        with suppress(OSError):
            before = mine.stat().st_mtime - age
            mine.unlink()
            for other in mine.parent.iterdir():
                if other.lstat().st_mtime < before:
                    other.unlink(missing_ok=True)

    def inputs(self, *, finished: bool = False) -> list[StoreEntry] | None:
        return self._entries(self.root / (FINISHED if finished else WORK))

    def prepare(self, input_: str) -> None:
        at = self.root / WORK / input_
        with _system_errors(at):
            at.mkdir(parents=True, exist_ok=True)

    def listing(self, input_: str, *, finished: bool = False) -> list[StoreEntry] | None:
        return self._entries(self.root / (FINISHED if finished else WORK) / input_)

    @staticmethod
    def _entries(folder: Path) -> list[StoreEntry] | None:
        """List a folder in one pass, without files that vanish meanwhile.

        Only claims are asked for their time: on NFS each is a request.
        """
        made: list[StoreEntry] = []
        with _system_errors(folder):
            try:
                found = os.scandir(folder)
            except FileNotFoundError:
                return None
            with found:
                for each in found:
                    with suppress(FileNotFoundError):
                        claim = each.name.startswith(CLAIM)
                        time = each.stat(follow_symlinks=False).st_mtime if claim else 0.0
                        made.append(StoreEntry(each.name, time, _kind(each)))
        return made

    def read(self, path: str) -> bytes | None:
        at = self.root / path
        with _system_errors(at):
            try:
                with plain(at) as file:
                    return file.read(MOST_SMALL)
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        at = self.root / path
        with _system_errors(at):
            try:
                at.stat()
            except FileNotFoundError:
                return False
            return True

    def needed(self, input_: str, path: str) -> bool:
        """Whether a result does not exist yet; a moved folder is never created again."""
        return not self.exists(path) and self.exists(f"{WORK}/{input_}")

    def create(self, path: str, data: bytes) -> bool:
        """Create a small file if there is none; False also if the folder was moved aside."""
        at = self.root / path
        with _system_errors(at):
            try:
                file = os.open(at, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
            except (FileExistsError, FileNotFoundError):
                return False
            # A claim need not outlive a crash of this node: then nobody works on it any more.
            try:
                try:
                    os.write(file, data)
                finally:
                    os.close(file)
            except OSError:
                # It is this pilot's alone, and nobody could see whose.
                with suppress(OSError):
                    at.unlink()
                raise
            return True

    def publish(self, path: str, source: Path) -> bool:
        """Copy, sync, and link a file; False if there is one, or no folder."""
        at = self.root / path
        beside = at.with_name(f".{at.name}.{secrets.token_hex(6)}")
        with _system_errors(at):
            try:
                with source.open("rb") as given, beside.open("xb") as file:
                    shutil.copyfileobj(given, file)
                    file.flush()
                    os.fsync(file.fileno())
                return _link(beside, at)
            except FileNotFoundError:
                if at.parent.is_dir():
                    raise
                return False
            finally:
                with suppress(OSError):
                    beside.unlink()

    def renew(self, path: str, data: bytes) -> None:
        """Set the time of a claim, by the server's clock."""
        at = self.root / path
        with _system_errors(at), suppress(FileNotFoundError):
            os.utime(at)

    def remove(self, path: str) -> None:
        at = self.root / path
        with _system_errors(at), suppress(FileNotFoundError):
            at.unlink()

    def fetch(self, path: str, target: Path) -> bool:
        """Copy a file to the node, with its rights."""
        at = self.root / path
        with _system_errors(at):
            try:
                shutil.copy(at, target)
            except FileNotFoundError:
                return False
            return True

    def finish(self, input_: str) -> None:
        """Move an input's folder aside, unless another pilot did."""
        source, target = self.root / WORK / input_, self.root / FINISHED / input_
        with _system_errors(source):
            target.parent.mkdir(exist_ok=True)
            try:
                source.rename(target)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise StoreError(
                        f"{target} is there already: move it away, so that {source} can go there"
                    ) from None
                raise


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_symlink():
        return "link"
    return "folder" if entry.is_dir(follow_symlinks=False) else "other"


def _link(beside: Path, at: Path) -> bool:
    """Give a file its name if there is none."""
    try:
        os.link(beside, at)
    except FileExistsError:
        # A server that answered late has made the link all the same.
        return beside.stat().st_nlink > 1
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if at.exists():
            return False
        beside.replace(at)
    folder = os.open(at.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


def open_store(url: str) -> SharedStore:
    """Return the storage of a URL: a path, ``file:///…``, ``s3://bucket/…``, gs, az, sftp, davs.

    Raises StoreError if it is unknown, or needs a package that is not installed.
    """
    scheme = re.match(r"([a-z][a-z0-9+.-]*)://", url)
    if scheme is None or scheme[1] == "file":
        path = Path(unquote(urlsplit(url).path)) if scheme else Path(url)
        if not path.is_dir():
            raise StoreError(f"{path}: no such directory; a store is one with plan.toml in it")
        return Directory(url, path)
    if scheme[1] not in _EXTRAS:
        raise StoreError(
            f"{scheme[1]}:// is no storage that pilots know; there are directories, s3://, gs://,"
            " az://, sftp://, davs://"
        )
    from matchmaker.pilots.store import remote

    extra = _EXTRAS[scheme[1]]
    openers: dict[str, Callable[[str], SharedStore]] = {
        "objects": remote.bucket, "sftp": remote.sftp, "webdav": remote.webdav,
    }  # fmt: skip
    try:
        return openers[extra](url)
    except ModuleNotFoundError:
        raise StoreError(
            f"{url} needs the extra {extra}: pip install 'classad-matchmaker[{extra}]'"
        ) from None
