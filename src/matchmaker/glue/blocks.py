"""The fast half of reading LDIF: a file in blocks between empty lines, clean ones taken in one go.

Most of a dump is clean: ASCII lines of ``name: value``. Such a block is split at C speed, with a
few exact checks that it is what it seems; any other goes line by line through `ldif`, which mends
and reports. Both give equal entries, which a property test holds them to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeAlias

import attrs

LINE_LIMIT: Final = 1 << 20
"""Bytes of an unfolded line; a longer one is skipped. Real ones stay below a few kB."""

_CHUNK: Final = 1 << 20
_START: Final = b"\n\ndn: "
_NAME: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)*)(?:;[A-Za-z0-9-]+)*\Z")
# What may be an attribute behind a lost newline; `ldif` asks the schema whether it is.
_SUSPECT: Final = (re.compile(r"Glue[A-Z]\w{0,80}:"), re.compile(r"GLUE2[A-Z]\w{0,80}:"))
_APART: Final = frozenset({"changetype", "dn", "version"})
_MOST_NAMES: Final = 4096
_BAD_ENDS: Final = frozenset(("", ",", " ", "\\"))
_marked: set[str] = set()  # names with their marks, see `clean_block`
_spellings: dict[str, str] = {}  # the one spelling of each that is taken here, by lower case


class Readable(Protocol):
    """What gives bytes, at most so many, and none at its end."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""


Line: TypeAlias = bytes | None
"""A line without its end; None for one that is too long to hold."""


@attrs.frozen(slots=True)
class Clean:
    """A clean entry: its name, its names and values in turn, and how many lines it took.

    A name has a mark behind it, which `name_of` takes away. The first pair is the entry's own name.
    """

    dn: str
    parts: list[str]
    lines: int


def clean_block(block: bytes) -> Clean | None:
    r"""The entry that a block is where it is clean; None for anything else.

    >>> clean_block(b"dn: o=grid\nobjectClass: organization\no: gr\n id").parts[2:]
    ['objectClass\x00', 'organization', 'o\x00', 'grid']
    >>> clean_block(b"dn: o=grid\no:: Z3JpZA==") is None
    True
    """
    if not block.isascii() or b"\0" in block or len(block) > LINE_LIMIT:
        return None
    text = block.decode("ascii")
    folds = 0
    end = text.find("\n")
    while text[end + 1 : end + 2] == " " and end > 0:  # names of entries are long
        text = text[:end] + text[end + 2 :]
        folds += 1
        end = text.find("\n", end)
    # A mark and a newline for each ": ". With as many marks as lines, and all marks on names, each
    # line was one name, ": ", and a value without another.
    marked = text.replace(": ", "\0\n")
    if "\n " in marked:
        pieces = text.split("\n ")
        folds += len(pieces) - 1
        text = "".join(pieces)
        marked = text.replace(": ", "\0\n")
        if "\n " in marked:  # a value begins with a space
            return None
    parts = marked.split("\n")
    count = marked.count("\0")
    if len(parts) != 2 * count or parts[0] != "dn\0":
        return None
    if not (_marked.issuperset(parts[2::2]) or _learn(parts[2::2])):
        return None
    if parts[1][-1:] in _BAD_ENDS:
        return None
    if text.count(":") != count and _suspect("\n".join(parts[1::2])):
        return None
    return Clean(parts[1], parts, count + folds)


def name_of(marked: str) -> str:
    """The name of an attribute, as `clean_block` gives it."""
    return marked[:-1]


def _suspect(joined: str) -> bool:
    """Whether a value may hold another attribute, whose newline was lost."""
    return "objectClass:" in joined or any(pattern.search(joined) for pattern in _SUSPECT)


def _learn(marked: Iterable[str]) -> bool:
    """Whether all are names of attributes with a mark behind; those are kept, up to a number.

    One spelling of a name is kept, so that an entry with two is left to the slower half, which
    gathers their values.
    """
    for key in set(marked) - _marked:
        name, lower = key[:-1], key[:-1].lower()
        if (
            key[-1:] != "\0"
            or not _NAME.match(name)
            or lower in _APART
            or len(_marked) > _MOST_NAMES
        ):
            return False
        if _spellings.setdefault(lower, name) != name:
            return False
        _marked.add(key)
    return True


class Blocks:
    r"""A file in blocks that begin where entries do: with a name behind an empty line.

    A block is bytes without that empty line, which is two newlines; it may have others within. One
    that is too large to hold is an iterator of its lines up to an empty one, that with it.

    Args:
        read: takes a size and gives as much of the file, bytes or text, at most; empty at the end.

    >>> import io
    >>> list(Blocks(io.BytesIO(b"dn: a\nb: 2\n\n\n# c\n\ndn: d\n").read))
    [b'dn: a\nb: 2\n\n\n# c', b'dn: d\n']
    """

    def __init__(self, read: Callable[[int], bytes | str]) -> None:
        self._read = read
        self._rest = b""  # what was read and is not yet given
        self._half = b""  # a carriage return that may belong to a newline

    def _more(self) -> bytes:
        """The next piece of the file with plain newlines; empty at its end."""
        piece = self._read(_CHUNK)
        if not piece:
            return b""  # a carriage return that ends the file is the end of a line
        data = self._half + _as_bytes(piece)
        self._half = b""
        if b"\r" in data:
            if data.endswith(b"\r"):
                data, self._half = data[:-1], b"\r"
                if not data:
                    return self._more()
            data = data.replace(b"\r\n", b"\n")
        return data

    def __iter__(self) -> Iterator[bytes | Iterator[Line]]:
        """The blocks, in order; only the first may begin otherwise than with a name."""
        while data := self._more():
            first, *others = (self._rest + data).split(_START)
            if others:
                yield first
                for block in others[:-1]:
                    yield b"dn: " + block
                self._rest = b"dn: " + others[-1]
            else:
                self._rest = first
            if len(self._rest) > LINE_LIMIT:
                lines = self._large()
                yield lines
                for _ in lines:  # those that were not asked for
                    pass
        if self._rest:
            yield self._rest

    def _large(self) -> Iterator[Line]:
        """The lines up to an empty one, without holding more than one and a chunk."""
        skipping = False
        while True:
            *lines, last = self._rest.split(b"\n")
            for index, line in enumerate(lines):
                if skipping or len(line) > LINE_LIMIT:
                    skipping = False
                    yield None
                else:
                    yield line
                    if not line:
                        self._rest = b"\n".join([*lines[index + 1 :], last])
                        return
            skipping = skipping or len(last) > LINE_LIMIT
            self._rest = b"" if skipping else last
            more = self._more()
            if not more:
                if skipping or self._rest:
                    yield None if skipping else self._rest
                self._rest = b""
                return
            self._rest += more


def lines_of(lines: Iterable[str] | Iterable[bytes]) -> Iterator[Line]:
    """The lines of an iterable, without their ends."""
    for item in lines:
        for line in _as_bytes(item).removesuffix(b"\n").split(b"\n"):
            yield line.removesuffix(b"\r") if len(line) <= LINE_LIMIT else None


def _as_bytes(piece: str | bytes) -> bytes:
    return piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece


class Begun:
    """A file of which the beginning was looked at, and is still to be read.

    >>> import io
    >>> file = Begun(io.BytesIO(b"  <a/>"))
    >>> file.first(), file.read(100)
    (b'<', b'  <a/>')
    """

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._seen = b""

    def first(self) -> bytes:
        """The first byte that is no space; empty where there is none in the first few."""
        while not self._seen.strip() and len(self._seen) < _CHUNK:
            piece = self._file.read(4096)
            if not piece:
                break
            self._seen += piece
        return self._seen.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most so many."""
        seen, self._seen = self._seen, b""
        if 0 <= size <= len(seen):
            seen, self._seen = seen[:size], seen[size:]
            return seen
        return seen + self._file.read(size - len(seen) if size >= 0 else -1)
