"""The fast half of reading LDIF: a file in blocks between empty lines, clean ones taken in one go.

Most of a dump is clean: ASCII lines of ``name: value``. A regular expression says so of a whole
block at once, and its values are taken apart when they are asked for; any other block goes line by
line through `ldif`, which mends and reports. Both give equal entries, to which a property holds
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeAlias

LINE_LIMIT: Final = 1 << 20
"""Bytes of an unfolded line; a longer one is skipped. Real ones stay below a few kB."""

_CHUNK: Final = 1 << 20
_START: Final = b"\n\ndn: "
# Possessive quantifiers: a block is walked once, whatever it holds.
_FOLDS = rb"(?:\n [^\n]*+)*+"
_NAME = rb"\n(?:G[A-Za-z0-9-]*+|objectClass|o|Mds[A-Za-z0-9-]*+): "  # those of these directories
_CLEAN = re.compile(rb"dn: ([^ \n][^\n]*+%s)(?:%s[^ \n][^\n]*+%s)*+\n*" % (_FOLDS, _NAME, _FOLDS))
# What may be an attribute behind a lost newline; `ldif` asks the schema whether it is. Each begins
# with plain letters, which are searched for fast.
_SUSPECTS = (
    re.compile(rb"Glue(?<=[^\n]Glue)[A-Z]\w{0,80}:"),
    re.compile(rb"GLUE2(?<=[^\n]GLUE2)[A-Z]\w{0,80}:"),
    re.compile(rb"objectClass(?<=[^\n]objectClass):"),
)
_BAD_ENDS: Final = frozenset((b"", b",", b" ", b"\\"))


class Readable(Protocol):
    """What gives bytes, at most so many, and none at its end."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""


Line: TypeAlias = bytes | None
"""A line without its end; None for one that is too long to hold."""


def clean_block(block: bytes) -> tuple[str, int] | None:
    r"""The name of the entry that a block is where it is clean, and the number of its newlines.

    None for anything else. `gathered` gives the attributes of a clean one.

    >>> clean_block(b"dn: o=gr\n id\nobjectClass: organization\no: grid")
    ('o=grid', 3)
    >>> clean_block(b"dn: o=grid\no:: Z3JpZA==") is None
    True
    """
    if not block.isascii() or len(block) > LINE_LIMIT:
        return None
    found = _CLEAN.fullmatch(block)
    if found is None:
        return None
    newlines = block.count(b"\n")
    dn, folds = found[1], 0
    if b"\n" in dn:
        folds = dn.count(b"\n")
        dn = dn.replace(b"\n ", b"")
    colons = block.count(b":")
    if colons != newlines + 1 - folds and colons != newlines + 1 - block.count(b"\n "):
        unfolded = block.replace(b"\n ", b"")  # a value has a colon: which may stand behind a name
        for suspect in _SUSPECTS:
            if suspect.search(unfolded):
                return None
    return None if dn[-1:] in _BAD_ENDS else (dn.decode("ascii"), newlines)


def gathered(block: bytes) -> dict[str, list[str]]:
    r"""The values of a clean block by name, as each is spelt where it comes first.

    >>> gathered(b"dn: o=grid\no: a\nx: b\nO: c")
    {'o': ['a', 'c'], 'x': ['b']}
    """
    text = block.decode("ascii").rstrip("\n")
    lines = (text.replace("\n ", "") if "\n " in text else text).split("\n")
    found: dict[str, list[str]] = {}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        if name in found:
            found[name].append(value)
        else:
            found[name] = [value]
    if len({name.lower() for name in found}) == len(found):
        return found
    spelt: dict[str, str] = {}
    merged: dict[str, list[str]] = {}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        merged.setdefault(spelt.setdefault(name.lower(), name), []).append(value)
    return merged


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
