"""Readers of LDIF, LDAP and documents, and the files that they read: unpacked, and bounded.

`ldif`, `ldap` and `documents` make entries.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Final, Protocol, TypeVar, cast

from matchmaker._limits import GLUE_LIMITS as LIMITS

# Many blocks of LDIF at a time, in little more memory than one large entry takes.
CHUNK: Final = 1 << 18
# A comment at the top of a file may be a page long.
_BEGINNING: Final = 4096
_T = TypeVar("_T")

_EACH: Final = 128  # bytes to an object: a dump of a whole grid has some 1,500 to an entry


class ReadBudget:
    """Counts how much of a source may still be read: bytes, and objects, one to each 128 bytes.

    Args:
        size: bytes that may be read. Raises TypeError for anything but an integer.

    >>> ReadBudget(1000).take(8)
    Traceback (most recent call last):
    ...
    ValueError: more than 7 entries, lines or objects: raise max_size (--max-size), now 1000 bytes
    """

    __slots__ = ("_bytes", "_most", "_objects", "_size")

    def __init__(self, size: int) -> None:
        if not isinstance(size, int):
            raise TypeError(f"max_size is a number of bytes, such as 2 << 30, not {size!r}")
        self._size = self._bytes = size
        self._most = self._objects = size // _EACH

    def take_bytes(self, count: int) -> None:
        """Take bytes. Raises ValueError if there are too many."""
        self._bytes -= count
        if self._bytes < 0:
            raise ValueError(f"more than {self._size} bytes: raise max_size (--max-size)")

    def take(self, count: int = 1) -> None:
        """Take objects. Raises ValueError if there are too many."""
        self._objects -= count
        if self._objects < 0:
            raise ValueError(
                f"more than {self._most} entries, lines or objects: raise max_size (--max-size), "
                f"now {self._size} bytes"
            )

    def objects(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield items, and take each as an object."""
        for item in items:
            self.take()
            yield item


class Readable(Protocol):
    """A file open for bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most a number of the next bytes, and none at the end."""


class PeekedFile:
    """A file whose beginning was looked at, and is still to be read.

    >>> import io
    >>> file = PeekedFile(io.BytesIO(b"  <a/>"))
    >>> file.first(), file.read(100)
    (b'<', b'  <a/>')
    """

    def __init__(self, file: Readable, seen: bytes = b"") -> None:
        self._file = file
        self._seen = seen

    def first(self) -> bytes:
        """Return the first byte that is not a space; empty if there is none in the first few."""
        return self.beginning().removeprefix(b"\xef\xbb\xbf").lstrip()[:1]

    def beginning(self) -> bytes:
        """Return the first few bytes, with more than spaces unless there is nothing else."""
        # A file may give less than it is asked for: one that may be packed begins with two bytes.
        while len(self._seen) < _BEGINNING or (not self._seen.strip() and len(self._seen) < CHUNK):
            piece = self._file.read(_BEGINNING)
            if not piece:
                break
            self._seen += piece
        return self._seen

    def read(self, size: int = -1, /) -> bytes:
        """Return at most a number of the next bytes."""
        seen, self._seen = self._seen, b""
        if 0 <= size <= len(seen):
            seen, self._seen = seen[:size], seen[size:]
            return seen
        return seen + self._file.read(size - len(seen) if size >= 0 else -1)


def read_whole(
    file: Readable, max_size: int | None, signs: bytes = b",[{<", to_an_object: int = 8
) -> bytes:
    """Read a document to its end, at most `max_size` bytes; 64 MB if None.

    Values are counted by the signs before them, several to an object of the budget. Raises
    ValueError if there is more, or more values than there is room for.
    """
    room = ReadBudget(max_size if max_size is not None else LIMITS.document)
    pieces: list[bytes] = []
    while piece := file.read(CHUNK):
        room.take_bytes(len(piece))
        # Each value but the first comes behind a sign; catalogues are dense.
        room.take(sum(map(piece.count, signs)) // to_an_object)
        pieces.append(piece)
    return b"".join(pieces)


class BoundedFile:
    """A file that is read only as far as there is room."""

    def __init__(self, file: Readable, room: ReadBudget) -> None:
        self._file = file
        self._room = room

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes. Raises ValueError if they are too many."""
        piece = self._file.read(size)
        self._room.take_bytes(len(piece))
        return piece


class UnpackedFile:
    """A file that may be packed by gzip, unpacked; any other as it is.

    Reading raises ValueError if packed data are damaged or break off.

    >>> import gzip, io
    >>> UnpackedFile(io.BytesIO(gzip.compress(b"dn: o=grid"))).read(100)
    b'dn: o=grid'
    """

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._begun = False

    def read(self, size: int = -1, /) -> bytes:
        """Return at most a number of the next bytes."""
        if not self._begun:
            self._begun = True
            first = self._file.read(2)
            if len(first) == 1:
                first += self._file.read(1)
            if first != b"\x1f\x8b":
                return first
            packed = cast("IO[bytes]", PeekedFile(self._file, first))
            self._file = gzip.GzipFile(fileobj=packed, mode="rb")
        try:
            return self._file.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"packed by gzip, and damaged: {error}") from None
