"""What comes back of a job: its output, its errors and the files that its ad names.

A short text is in the ad of its result. All else is in parts, which the pilot sends in pieces
before it reports the job's end (``works``). All of it is bounded by the job's ``MaxOutput``; a note
says what does not come back. Nothing a job leaves in its directory leads to other people's files.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from matchmaker.pilots.wire.frames import MOST_PIECE

OUT: Final = "out"
ERR: Final = "err"
FILE: Final = "file:"
"""What the name of a part that is a file begins with; then comes the file's name."""
MOST_SHOWN: Final = 8192
"""How many bytes of the output, and of the errors, the ad of a result holds."""
MOST_NAME: Final = 200
"""How many characters the name of a file may have."""
MOST_MARK: Final = 80
"""How many bytes the words in the place of those that were left out take at most."""
_READ: Final = 1 << 16
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""A pipe that nobody writes to is opened at once, too."""


@attrs.frozen(slots=True, eq=False)
class Part:
    """Bytes that come back in pieces.

    Attributes:
        name: ``out``, ``err``, or ``file:`` and the file's name.
        size: how many bytes it has.
        data: the bytes, if there is no file.
        file: an open file that has them; -1 for none.
        large: whether it is a file that is too large for the binder, and goes to another store.
    """

    name: str
    size: int
    data: bytes = attrs.field(default=b"", repr=False)
    file: int = -1
    large: bool = False

    def piece(self, offset: int) -> bytes:
        """The bytes from an offset, at most as many as a frame carries."""
        most = min(MOST_PIECE, self.size - offset)
        if self.file < 0:
            return self.data[offset : offset + most]
        return os.pread(self.file, most, offset)

    def close(self) -> None:
        """Closes the file."""
        if self.file >= 0:
            with suppress(OSError):
                os.close(self.file)


class Printed:
    """Reads a stream, and keeps it whole up to a limit, beyond it its beginning and its end.

    A short text stays in memory; a long one is in a file without a name, which goes with the pilot.
    """

    def __init__(self, name: str, most: int, folder: Path) -> None:
        """Args: the part's name, how many bytes are kept at most, and where its file is made."""
        self.name = name
        self.length = 0
        self._folder = folder
        shown = min(MOST_SHOWN, most)
        self._half = shown // 2
        self._rest = shown - self._half
        self._first, self._last = bytearray(), bytearray()
        # How many bytes the file takes; the end, which is in memory, comes behind them.
        self._room = most - self._rest if most > MOST_SHOWN else 0
        self._file = -1
        self._problem = ""

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Reads a stream to its end."""
        while data := await reader.read(_READ):
            if self._room > 0 and self.length + len(data) > self._half + self._rest:
                # A disk may not answer, and other jobs have their own.
                await asyncio.to_thread(self._write, bytes(data))
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        self.length += len(data)
        if (room := self._half - len(self._first)) > 0:
            self._first += data[:room]
            data = data[room:]
        self._last += data
        del self._last[: max(0, len(self._last) - self._rest)]

    def _write(self, data: bytes) -> None:
        if self._problem:
            return
        try:
            if self._file < 0:
                with tempfile.TemporaryFile(dir=self._folder) as made:
                    self._file = os.dup(made.fileno())
                data = bytes(self._first + self._last) + data
                done = 0
            else:
                done = self.length
            _written(self._file, data[: max(0, self._room - done)], done)
        except OSError as error:
            self._problem = error.strerror or str(error)

    def shown(self) -> bytes:
        """The beginning and the end, for the ad."""
        missing = self.length - len(self._first) - len(self._last)
        return bytes(self._first) + (left_out(missing) if missing else b"") + bytes(self._last)

    def close(self) -> None:
        """Closes the file, if no part has it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def part(self) -> tuple[Part | None, str]:
        """What the ad cannot hold, and a note if it is not whole. Raises OSError."""
        whole = self.length - len(self._first) - len(self._last)
        if self._problem:
            return None, f"{self.name}: only its ends are here: {self._problem}"
        if self._file < 0:
            data = self.shown()
            note = f"{self.name}: {whole} bytes are over MaxOutput" if whole else ""
            same = shown(data).encode() == data
            return (None if same else Part(self.name, len(data), data)), note
        beyond = self.length - self._room
        if beyond <= 0:
            return self._given(self.length), ""
        last = bytes(self._last)
        note, mark = "", b""
        if beyond > len(last):
            missing = beyond - len(last)
            mark, note = left_out(missing), f"{self.name}: {missing} bytes are over MaxOutput"
        else:
            last = last[len(last) - beyond :]
        _written(self._file, mark + last, self._room)
        return self._given(self._room + len(mark) + len(last)), note

    def _given(self, size: int) -> Part:
        part = Part(self.name, size, file=self._file)
        self._file = -1
        return part


def is_path(name: str) -> bool:
    """Whether a name is a relative path that stays below the directory that it is in.

    >>> [is_path(name) for name in ("a/b.dat", "/etc/shadow", "a/../../b", "", "a//b", ".")]
    [True, False, False, False, False, False]
    """
    parts = name.split("/")
    return name.isprintable() and len(name) <= MOST_NAME and not {"", ".", ".."} & set(parts)


def _written(file: int, data: bytes, offset: int) -> None:
    while data:
        count = os.pwrite(file, data, offset)
        data, offset = data[count:], offset + count


def left_out(number: int) -> bytes:
    """The words in the place of bytes."""
    return f"\n[{number} bytes are left out]\n".encode()


def shown(data: bytes) -> str:
    """Bytes as a text that an ad can hold."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def collected(
    directory: Path, names: Iterable[str], most: int, owner: int, *, large: bool = False
) -> tuple[list[Part], list[str]]:
    """The files of a job that has ended, open, and why others do not come back.

    No link is followed, and a file of another account does not come: a job can make a hard link to
    one.

    Args:
        directory: the job's.
        names: relative paths in it.
        most: how many bytes they may have together.
        owner: the number of the account that the job ran under.
        large: whether there is a store for those that have more.
    """
    parts: list[Part] = []
    notes: list[str] = []
    for name in names:
        try:
            file, size = _opened(directory, name, owner)
        except OSError as error:
            notes.append(f"{name}: {_WORDS.get(error.errno or 0, error.strerror or str(error))}")
            continue
        part = Part(f"{FILE}{name}", size, file=file, large=size > most)
        if part.large and large:
            parts.append(part)
            continue
        if part.large:
            notes.append(f"{name}: it has {size} bytes; {most} are left of MaxOutput")
            part.close()
            continue
        most -= size
        parts.append(part)
    return parts, notes


_WORDS: Final = {
    errno.ENOENT: "there is no such file",
    errno.ELOOP: "it is a link, and links are not followed",
    errno.ENOTDIR: "a folder of its path is a link, or no folder",
    errno.ENXIO: "it is no plain file",
}


def _opened(directory: Path, name: str, owner: int) -> tuple[int, int]:
    """A file below a directory, and its size. Raises OSError."""
    *folders, last = name.split("/")
    at = os.open(directory, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        file = os.open(last, _PLAIN, dir_fd=at)
    finally:
        os.close(at)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
        os.close(file)
        why = "it is another account's" if stat.S_ISREG(found.st_mode) else "it is no plain file"
        raise OSError(0, why)
    return file, found.st_size
