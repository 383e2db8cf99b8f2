"""Files cut into what can be held: LDIF in blocks between empty lines, whatever its size.

`ldif` makes entries of the blocks.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Final, Protocol, TypeAlias, TypeVar, cast

from matchmaker._limits import GLUE_LIMITS as LIMITS

_CHUNK: Final = 1 << 18
_BEGINNING: Final = 4096
_GAP = re.compile(rb"(?<!\n)\n\n")
_T = TypeVar("_T")

_EACH: Final = 128  # bytes to an object: a dump of a whole grid has some 1,500 to an entry


class Room:
    """How much of a source may still be read: bytes, and objects, one to each 128 bytes.

    Args:
        size: bytes that may be read. Raises TypeError for anything but an integer.

    >>> Room(1000).take(8)
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
        """Takes bytes. Raises ValueError where there is no room for them."""
        self._bytes -= count
        if self._bytes < 0:
            raise ValueError(f"more than {self._size} bytes: raise max_size (--max-size)")

    def take(self, count: int = 1) -> None:
        """Takes objects. Raises ValueError where there is no room for them."""
        self._objects -= count
        if self._objects < 0:
            raise ValueError(
                f"more than {self._most} entries, lines or objects: raise max_size (--max-size), "
                f"now {self._size} bytes"
            )

    def objects(self, items: Iterable[_T]) -> Iterator[_T]:
        """Gives items, and takes each as an object."""
        for item in items:
            self.take()
            yield item


class Readable(Protocol):
    """Gives at most a number of bytes, and none at its end."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""


Line: TypeAlias = bytes | None
"""A line without its end; None for one that is too long to hold."""


class Blocks:
    r"""A file in blocks, which are what stands between empty lines.

    A block is bytes without the two newlines behind it; it may begin with one more. One that is too
    large to hold is an iterator of its lines up to an empty one, that with it.

    Args:
        read: takes a size and gives as much of the file, bytes or text, at most; empty at the end.

    >>> import io
    >>> list(Blocks(io.BytesIO(b"dn: a\nb: 2\n\n\n# c\n\ndn: d\n").read))
    [b'dn: a\nb: 2', b'\n# c', b'dn: d']
    """

    def __init__(self, read: Callable[[int], bytes | str]) -> None:
        self._read = read
        self._rest = b""  # what was read and is not yet given
        self._half = b""  # a carriage return that may belong to a newline
        self._skipped = 0

    def skipped(self) -> int:
        """How many empty lines were left out before the present block."""
        found, self._skipped = self._skipped, 0
        return found

    def _more(self) -> bytes:
        """The next piece of the file with plain newlines; empty at its end."""
        pieces, size = [self._half], 0
        while size < _CHUNK and (piece := self._read(_CHUNK - size)):
            pieces.append(_as_bytes(piece))
            size += len(pieces[-1])
        if not size:
            return b""  # a carriage return that ends the file is the end of a line
        data = b"".join(pieces)
        self._half = b""
        if b"\r" in data:
            if data.endswith(b"\r"):
                data, self._half = data[:-1], b"\r"
                if not data:
                    return self._more()
            data = data.replace(b"\r\n", b"\n")
        return data

    def __iter__(self) -> Iterator[bytes | Iterator[Line]]:
        """The blocks, in order."""
        data = self._more()
        while data:
            data = self._rest + data
            *whole, self._rest = data.split(b"\n\n")
            if b"" in whole:  # a run of empty lines, which stays in one piece
                *whole, self._rest = _GAP.split(data)
            yield from whole
            if self._rest.startswith(b"\n\n\n") and not self._rest.strip(b"\n"):
                self._skipped += len(self._rest) - 2
                self._rest = self._rest[:2]
            if len(self._rest) > LIMITS.line:
                lines = self._large()
                yield lines
                for _ in lines:  # those that were not asked for
                    pass
            data = self._more()
        yield from self._rest.removesuffix(b"\n").split(b"\n\n")

    def _large(self) -> Iterator[Line]:
        """The lines up to an empty one, without holding more than one and a chunk."""
        skipping = False
        while True:
            *lines, last = self._rest.split(b"\n")
            for index, line in enumerate(lines):
                if skipping or len(line) > LIMITS.line:
                    skipping = False
                    yield None
                else:
                    yield line
                    if not line:
                        self._rest = b"\n".join([*lines[index + 1 :], last])
                        return
            skipping = skipping or len(last) > LIMITS.line
            self._rest = b"" if skipping else last
            more = self._more()
            if not more:
                if skipping or self._rest:
                    yield None if skipping else self._rest
                self._rest = b""
                return
            self._rest += more


def lines_of(lines: Iterable[str] | Iterable[bytes], room: Room) -> Iterator[Line]:
    """The lines of an iterable, without their ends."""
    for item in lines:
        room.take_bytes(len(item))
        for line in _as_bytes(item).removesuffix(b"\n").split(b"\n"):
            yield line.removesuffix(b"\r") if len(line) <= LIMITS.line else None


def _as_bytes(piece: str | bytes) -> bytes:
    return piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece


class Begun:
    """A file of which the beginning was looked at, and is still to be read.

    >>> import io
    >>> file = Begun(io.BytesIO(b"  <a/>"))
    >>> file.first(), file.read(100)
    (b'<', b'  <a/>')
    """

    def __init__(self, file: Readable, seen: bytes = b"") -> None:
        self._file = file
        self._seen = seen

    def first(self) -> bytes:
        """The first byte that is no space; empty where there is none in the first few."""
        return self.beginning().removeprefix(b"\xef\xbb\xbf").lstrip()[:1]

    def beginning(self) -> bytes:
        """The first few bytes, which are more than spaces unless there is nothing else."""
        # A file may give less than it is asked for: one that may be packed begins with two bytes.
        while len(self._seen) < _BEGINNING or (not self._seen.strip() and len(self._seen) < _CHUNK):
            piece = self._file.read(_BEGINNING)
            if not piece:
                break
            self._seen += piece
        return self._seen

    def read(self, size: int = -1, /) -> bytes:
        """At most a number of the next bytes."""
        seen, self._seen = self._seen, b""
        if 0 <= size <= len(seen):
            seen, self._seen = seen[:size], seen[size:]
            return seen
        return seen + self._file.read(size - len(seen) if size >= 0 else -1)


def whole(file: Readable, max_size: int | None) -> bytes:
    """Read a document to its end.

    Args:
        file: open for bytes.
        max_size: the number of bytes that are read at most; 64 MB if None.

    Raises:
        ValueError: there is more, or more values than there is room for.
    """
    room = Room(max_size if max_size is not None else LIMITS.document)
    pieces: list[bytes] = []
    while piece := file.read(_CHUNK):
        room.take_bytes(len(piece))
        # Each value but the first comes behind one of these; catalogues are dense.
        room.take(sum(map(piece.count, (b",", b"[", b"{", b"<"))) // 8)
        pieces.append(piece)
    return b"".join(pieces)


class Bounded:
    """A file of which no more is read than there is room for."""

    def __init__(self, file: Readable, room: Room) -> None:
        self._file = file
        self._room = room

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes. Raises ValueError where they are too many."""
        piece = self._file.read(size)
        self._room.take_bytes(len(piece))
        return piece


class Unpacked:
    """A file that may be packed by gzip, read as what is in it; any other as it is.

    Reading raises ValueError where what is packed is damaged or breaks off.

    >>> import gzip, io
    >>> Unpacked(io.BytesIO(gzip.compress(b"dn: o=grid"))).read(100)
    b'dn: o=grid'
    """

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._begun = False

    def read(self, size: int = -1, /) -> bytes:
        """At most a number of the next bytes."""
        if not self._begun:
            self._begun = True
            first = self._file.read(2)
            if len(first) == 1:
                first += self._file.read(1)
            if first != b"\x1f\x8b":
                return first
            packed = cast("IO[bytes]", Begun(self._file, first))
            self._file = gzip.GzipFile(fileobj=packed, mode="rb")
        try:
            return self._file.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"packed by gzip, and damaged: {error}") from None
