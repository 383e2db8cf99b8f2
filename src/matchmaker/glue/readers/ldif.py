"""A tolerant, streaming reader of LDIF as information systems really dump it.

A file is cut into blocks between empty lines, whatever its size, and blocks become entries of text.
Folding, base64, CRLF, comments and the version line are RFC 2849; the mended faults are those seen
in dumps of real BDIIs: a newline missing between two attributes, several pairs on a line, a comma
too many in a name, unpadded base64, Latin-1, stray lines. Each fault is reported as an `Issue`; no
entry and no value is made up, and no URL (``:<``) is followed. `clean` gives values their types.

Most of a dump is sound: lines of ``name: value``. Such an entry is taken apart in one go, any other
line by line, with mending. A property holds both ways to the same entries.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, TypeAlias, cast

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad.errors import shorten
from matchmaker.glue.entries import Attributes, Entry, write_entries
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.readers import CHUNK, BoundedFile, Readable, ReadBudget, UnpackedFile
from matchmaker.glue.schema import attribute, decides_access, name_within

__all__ = ["Attributes", "Entry", "Lines", "Source", "read_entries", "write_entries"]

Lines: TypeAlias = Readable | IO[bytes] | IO[str] | Iterable[str] | Iterable[bytes]
Source: TypeAlias = str | os.PathLike[str] | Lines
"""A path, a file opened either way, or lines."""

# An unreadable one of these may make an entry another's.
_NAMING = {
    *("gluevoviewlocalid", "glueceuniqueid", "glue2policyid", "glue2shareid"),
    *("glue2computingsharemappingqueue", "glue2entityname"),
}
_IDENTIFYING = {"objectclass", *_NAMING}
_OF_LDAPSEARCH = {"version", "search", "result", "control", "pagedresults"}
"""The words that ldapsearch prints around entries: of the result 0 is success."""
_CHANGES = {"delete", "modify", "modrdn", "moddn"}
# Windows begins a file of UTF-8 with it.
_MARK = b"\xef\xbb\xbf"
_RAW_LIMIT = 200  # characters of the published text that an issue repeats


@attrs.frozen(slots=True)
class _Line:
    """An unfolded line; `text` is None if it was too long."""

    number: int
    text: bytes | None


def read_entries(source: Source, report: Report, max_size: int | None = None) -> Iterator[Entry]:
    """Read the entries of an LDIF source, one at a time, in constant memory.

    Args:
        source: a path, an open file (bytes or text), or an iterable of lines. A file of bytes may
            be packed by gzip.
        report: called with an `Issue` for each line that was mended or skipped.
        max_size: bytes that are read at most, counted after unpacking; 256 MB if not given.

    Yields:
        Each entry that has a name, in the order of the source.

    Raises:
        OSError: the file cannot be read.
        ValueError: the source is packed by gzip and damaged, or too large.

    >>> issues = []
    >>> lines = ["dn: GlueCEUniqueID=a,o=grid,", "GlueCEName: qGlueCEStateFreeCPUs: 7", "stray"]
    >>> for entry in read_entries(lines, issues.append):
    ...     print(entry.dn, dict(entry.attributes))
    GlueCEUniqueID=a,o=grid {'GlueCEName': ('q',), 'GlueCEStateFreeCPUs': ('7',)}
    >>> [issue.rule for issue in issues]
    ['ldif.dn-comma', 'ldif.missing-newline', 'ldif.no-colon']
    """
    return (entry for entry in read_all(source, report, max_size) if entry.dn)


def read_all(source: Source, report: Report, max_size: int | None = None) -> Iterator[Entry]:
    """Read entries as `read_entries` does, and also those that lost their names.

    An entry is ``damaged`` if a line in it or right behind it could not be read.
    """
    if isinstance(source, (bytes, bytearray)):
        raise TypeError("bytes are neither a path nor lines; pass io.BytesIO(them)")
    if not isinstance(source, (str, os.PathLike, Iterable)) and not hasattr(source, "read"):
        raise TypeError(f"a path, a file or lines were expected, not {type(source).__name__}")
    room = ReadBudget(max_size if max_size is not None else LIMITS.file)
    if isinstance(source, (str, os.PathLike)):
        with Path(source).open("rb") as file:
            blocks = LdifBlocks(BoundedFile(UnpackedFile(file), room).read)
            yield from _whole(_read(blocks, room, report), report)
    elif not isinstance(source, Iterable) or hasattr(source, "read"):
        file_read = BoundedFile(UnpackedFile(cast("Readable", source)), room).read
        yield from _whole(_read(LdifBlocks(file_read), room, report), report)
    else:
        lines = room.objects(lines_of(source, room))
        yield from _whole(_entries(_unfolded(enumerate(lines, 1), report), report), report)


def read_dump(source: Source, report: Report, max_size: int | None = None) -> Iterator[Entry]:
    """Read as `read_all`; report a file whose last line has no end, as every tool writes one."""
    if isinstance(source, (str, os.PathLike)):
        with Path(source).open("rb") as file:
            yield from read_dump(file, report, max_size)
    elif not hasattr(source, "read"):
        yield from read_all(source, report, max_size)
    else:
        ending = _Ending(UnpackedFile(cast("Readable", source)))
        yield from read_all(cast("Source", ending), report, max_size)
        if ending.last not in {"", "\n", b"\n"}:
            report(issue("ldif.no-end", "the last line has no end: the file may have been cut"))


class _Ending:
    """A file that remembers the last character that was read of it."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.last: str | bytes = ""

    def read(self, size: int = -1, /) -> bytes:
        piece = self._file.read(size)
        self.last = piece[-1:] or self.last
        return piece


def _whole(entries: Iterable[Entry], report: Report) -> Iterator[Entry]:
    """Mark an entry as damaged if lines without a name follow, which may have been its own."""
    before: Entry | None = None
    for entry in entries:
        if not entry.dn and before is not None:
            before = attrs.evolve(before, damaged=True)
        if entry.dn or entry.attributes:
            if before is not None:
                yield before
            before = entry
    if before is not None:
        # An entry of GLUE has at least its class.
        if not before.attributes and before.dn[:4].lower() == "glue"[: len(before.dn)]:
            said = "the source ends within an entry, of which only the name is there"
            report(issue("ldif.partial", said, before.line, before.dn))
        yield before


def _read(blocks: LdifBlocks, room: ReadBudget, report: Report) -> Iterator[Entry]:
    """Read the entries of blocks: a sound block in one go, another line by line."""
    number = 1
    names = AttributeNames()
    for block in blocks:
        number += blocks.skipped()
        room.take()
        if isinstance(block, bytes):
            if (found := sound_entry(block, number, names)) is not None:
                entry, number = found
                if entry is not None:
                    yield entry
                continue
            lines: Iterable[bytes | None] = [*block.split(b"\n"), b""]
        else:
            lines = block
        counted = _Counted(room.objects(lines), number)
        yield from _entries(_unfolded(counted, report), report)
        number = counted.number


class _Counted:
    """Lines with their numbers; afterwards `number` is that of the next."""

    def __init__(self, lines: Iterable[bytes | None], number: int) -> None:
        self._lines = lines
        self.number = number

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        for line in self._lines:
            self.number += 1
            yield self.number - 1, line


def _unfolded(lines: Iterable[tuple[int, bytes | None]], report: Report) -> Iterator[_Line]:
    """Join folded lines (RFC 2849: the next begins with one space) and drop comments."""
    start, parts, size = 0, list[bytes](), -1  # size -1: there is no line to continue
    for number, line in lines:
        if line is not None and line[:1] in (b" ", b"\t"):
            if size < 0:
                text = line.decode("utf-8", "backslashreplace")
                said = "a continuation of nothing, skipped"
                report(_issue("ldif.folding", said, number, "", text))
                yield _Line(number, None)
            elif (size := size + len(line)) <= LIMITS.line:
                parts.append(line[1:])
            continue
        if size >= 0:
            yield from _joined(start, parts, size, report)
        start = number
        if line is None:
            parts, size = [], LIMITS.line + 1
        elif line:
            # A byte order mark may begin the file.
            parts, size = [line.removeprefix(_MARK) if number == 1 else line], len(line)
        else:
            size = -1
            yield _Line(number, b"")
    if size >= 0:
        yield from _joined(start, parts, size, report)


def _joined(number: int, parts: list[bytes], size: int, report: Report) -> Iterator[_Line]:
    if size > LIMITS.line:
        report(issue("ldif.line-limit", f"longer than {LIMITS.line} bytes, skipped", number))
        yield _Line(number, None)
    elif not parts[0].startswith(b"#"):
        yield _Line(number, b"".join(parts))


def _entries(lines: Iterator[_Line], report: Report) -> Iterator[Entry]:
    """Group lines between empty ones; those of a group without a name are skipped."""
    group = _Group(report)
    for line in lines:
        if line.text == b"":
            yield from group.finish()
            continue
        if line.text is None:
            group.damaged = True
            continue
        for name, value in _pairs(line, group.dn, report):
            if value is None:
                group.lose(line.number, name)
                continue
            if name.lower() != "dn":
                group.add(line.number, name, value)
                continue
            if group.started:
                group.damaged = group.damaged or not group.classed
                said = "no empty line before it"
                report(_issue("ldif.missing-blank", said, line.number, value, ""))
                yield from group.finish()
                group.unparted = True
            elif group.pairs or group.damaged:
                yield from group.finish()  # lines that the entry before has lost
                group.damaged = True
            group.begin(line.number, value)
    yield from group.finish()


@attrs.define(slots=True)
class _Group:
    """The lines gathered since the last empty one."""

    report: Report
    dn: str = ""
    line: int = 0
    size: int = 0
    started: bool = False
    changes: bool = False
    cut: bool = False
    damaged: bool = False
    unparted: bool = False
    pairs: list[tuple[str, str]] = attrs.Factory(list)

    def begin(self, number: int, dn: str) -> None:
        self.started, self.line = True, number
        self.dn = dn.strip()
        mended = self.dn.rstrip(", \t")
        if mended.endswith("\\"):  # an escaped comma belongs to the name
            mended = self.dn[: len(mended) + 1]
        if mended != self.dn:
            self.report(_issue("ldif.dn-comma", "the name ends in a comma", number, mended, dn))
            self.dn = mended
        if not self.dn:
            self.report(issue("ldif.no-dn", "an empty name, entry skipped", number))

    def add(self, number: int, name: str, value: str) -> None:
        if not self.started:
            if name.lower() == "result" and not value.startswith("0"):
                self.report(issue("ldif.partial", f"the server did not send all: {value}", number))
            elif name.lower() not in _OF_LDAPSEARCH:
                said = "belongs to no entry, skipped"
                self.report(_issue("ldif.no-dn", said, number, "", name, value))
            self.line = self.line or number
            self.damaged = self.damaged or name[:4].lower() == "glue"
            if not decides_access(name) and name.lower() not in _IDENTIFYING:
                return
        if name.lower() == "changetype":
            change = value.strip().lower()
            self.changes = change in _CHANGES
            self.damaged = self.damaged or not (self.changes or change == "add")
            return
        self.size += len(name) + len(value)
        if self.size <= LIMITS.entry and len(self.pairs) < LIMITS.values:
            self.pairs.append((name, value))
        elif not self.cut:
            self.cut = self.damaged = True
            said = f"attributes beyond {LIMITS.entry} bytes or {LIMITS.values} values skipped"
            self.report(issue("ldif.entry-limit", said, number, self.dn))

    @property
    def classed(self) -> bool:
        """Whether it has an objectClass; without one it may be a part of an entry."""
        return any(name.lower() == "objectclass" for name, _ in self.pairs)

    def lose(self, number: int, name: str) -> None:
        """Note a value that cannot be read, or a whole line if its name is empty."""
        if decides_access(name):
            self.add(number, name, "")
        elif not name or name.lower() in _IDENTIFYING or attribute(name) is None:
            self.damaged = True

    def finish(self) -> Iterator[Entry]:
        if self.changes:
            said = "a change, not an entry, skipped"
            self.report(issue("ldif.change", said, self.line, self.dn))
            names = {name.lower() for name, _ in self.pairs}
            if self.damaged or names & _NAMING or any(map(decides_access, names)):
                yield Entry(self.dn, Attributes(self.pairs), self.line, damaged=True)
        elif self.dn:
            if self.unparted and not self.classed:
                yield Entry("", Attributes(), self.line, damaged=True)  # these were the last one's
            yield Entry(self.dn, Attributes(self.pairs), self.line, self.damaged)
        elif self.pairs or self.damaged:
            yield Entry("", Attributes(self.pairs), self.line, damaged=True)
        self.dn, self.line, self.size, self.pairs = "", 0, 0, []
        self.started = self.changes = self.cut = self.damaged = self.unparted = False


def _pairs(line: _Line, dn: str, report: Report) -> Iterator[tuple[str, str | None]]:
    """Yield the attributes and values on one line: one, unless newlines went missing.

    A value that cannot be read is None, and the name is empty if that cannot be read either.
    """
    text, sound = _decoded(line.text or b"", line.number, dn, "", report)
    for count in range(LIMITS.pairs + 1):
        if not text:
            return
        name, colon, rest = text.partition(":")
        if not colon or not ATTRIBUTE_NAME.match(name.strip(" \t")):
            rule = "ldif.no-colon" if not colon else "ldif.bad-name"
            said = "no colon, skipped" if not colon else "no name before the colon, skipped"
            report(_issue(rule, said, line.number, dn, text))
            yield "", None
            return
        if count == LIMITS.pairs:
            said = f"more than {LIMITS.pairs} attributes on a line, the rest skipped"
            report(_issue("ldif.line-limit", said, line.number, dn, text))
            yield "", None
            return
        name, text = name.strip(" \t"), ""
        if (split := name_within(rest)) is not None:
            said = "a newline is missing before the next attribute"
            report(_issue("ldif.missing-newline", said, line.number, dn, name, rest))
            rest, text = rest[:split].rstrip(), rest[split:]
        value = _value(rest, name, line.number, dn, report)
        yield name, value if sound or not _must_be_sound(name) else None
        if not sound and attribute(name) is None:
            yield "", None  # its name may be damaged too
        dn = value if value and count == 0 and name.lower() == "dn" else dn


def _value(rest: str, name: str, number: int, dn: str, report: Report) -> str | None:
    """Return the value after the first colon; None if it is skipped."""
    if rest.startswith("<"):
        said = "values are not fetched from URLs, skipped"
        report(_issue("ldif.url", said, number, dn, name, rest[1:]))
        return None
    if not rest.startswith(":"):
        return rest.lstrip(" ")
    text = "".join(rest[1:].split())
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        bare = text.rstrip("=")
        try:
            data = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
        except (binascii.Error, ValueError):
            report(_issue("ldif.base64", "not base64, skipped", number, dn, name, text))
            return None
        said = "base64 with wrong padding, mended"
        report(_issue("ldif.base64", said, number, dn, name, text))
    value, sound = _decoded(data, number, dn, name, report)
    return value if sound or not _must_be_sound(name) else None


def _must_be_sound(name: str) -> bool:
    return name.lower() in _NAMING or decides_access(name)


def _decoded(data: bytes, number: int, dn: str, name: str, report: Report) -> tuple[str, bool]:
    """Decode UTF-8, else Latin-1, which loses no byte; and tell whether it was UTF-8."""
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        said = "not UTF-8, read as Latin-1"
        report(_issue("ldif.encoding", said, number, dn, name, text))
        return text, False


def _issue(rule: str, message: str, line: int, dn: str, /, *about: str) -> Issue:
    """Make an issue about an attribute and its text, or a text alone, cut if it is long."""
    *attribute_name, raw = about
    shown = shorten(raw.strip(), _RAW_LIMIT)
    return issue(rule, message, line, dn, attribute="".join(attribute_name), raw=shown)


ATTRIBUTE_NAME = re.compile(r"(?:[A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)*)(?:;[A-Za-z0-9-]+)*\Z")
"""The name of an attribute."""

# Comments and empty lines.
_BEFORE = re.compile(rb"(?:#[^\n]*+(?:\n [^\n]*+)*+(?:\n|\Z)|\n)*+")
# Both schemas have 595 names; a file of other names is read line by line.
_KEPT_NAMES = 10_000


class AttributeNames:
    """The names of attributes met so far, in one spelling each."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._lower = {"dn", "version", "changetype"}  # which are no attributes

    def sound(self, names: Iterable[str]) -> bool:
        """Whether all are names of attributes, and none is spelt in a second way."""
        if self._known.issuperset(names):
            return True
        for name in names:
            if name in self._known:
                continue
            lower = name.lower()
            if (
                lower in self._lower
                or not ATTRIBUTE_NAME.match(name)
                or len(self._known) >= _KEPT_NAMES
            ):
                return False
            self._known.add(name)
            self._lower.add(lower)
        return True


def sound_entry(
    block: bytes, number: int, names: AttributeNames
) -> tuple[Entry | None, int] | None:
    """Take apart a sound block that begins on a line: its entry, and the next line; else None."""
    if len(block) > LIMITS.line:
        return None
    if not block.startswith(b"dn: "):
        before = _BEFORE.match(block)
        start = before.end() if before else 0
        number += block.count(b"\n", 0, start)
        block = block[start:]
        if not block:
            return None, number + 2
        if not block.startswith(b"dn: "):
            return None
    try:
        parts = block.decode("utf-8").split("\n ")
    except UnicodeDecodeError:
        return None
    first, *lines = "".join(parts).split("\n")
    if len(lines) > LIMITS.values:
        return None
    found: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if value < "!":  # there is none, or it begins with space
            return None
        if name in found:
            found[name].append(value)
        else:
            found[name] = [value]
    dn = first[4:]
    if not names.sound(found) or dn != dn.strip() or dn[-1:] in ("", ","):
        return None
    if block.count(b":") != len(lines) + 1:  # a value has a colon, maybe behind a name
        texts = "\n".join(chain((dn,), *found.values()))
        if name_within(texts) is not None:
            return None
    return Entry(dn, Attributes.of(found), number), number + len(lines) + len(parts) + 1


# The first two newlines of a run end a block; the others stay with the next.
_GAP = re.compile(rb"(?<!\n)\n\n")


RawLine: TypeAlias = bytes | None
"""A line without its end; None for one that is too long to hold."""


class LdifBlocks:
    r"""A file in blocks, which are the lines between empty ones.

    A block is bytes without the two newlines behind it; it may begin with one more. A block that is
    too large to hold is an iterator of its lines up to an empty one, that with it.

    Args:
        read: takes a size and gives as much of the file, bytes or text, at most; empty at the end.

    >>> import io
    >>> list(LdifBlocks(io.BytesIO(b"dn: a\nb: 2\n\n\n# c\n\ndn: d\n").read))
    [b'dn: a\nb: 2', b'\n# c', b'dn: d']
    """

    def __init__(self, read: Callable[[int], bytes | str]) -> None:
        self._read = read
        self._rest = b""  # what was read and is not yet given
        self._half = b""  # a carriage return that may belong to a newline
        self._skipped = 0

    def skipped(self) -> int:
        """Return how many empty lines were left out before the present block."""
        found, self._skipped = self._skipped, 0
        return found

    def _more(self) -> bytes:
        """Read the next piece of the file with plain newlines; empty at its end."""
        pieces, size = [self._half], 0
        while size < CHUNK and (piece := self._read(CHUNK - size)):
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

    def __iter__(self) -> Iterator[bytes | Iterator[RawLine]]:
        """Yield the blocks, in order."""
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

    def _large(self) -> Iterator[RawLine]:
        """Yield the lines up to an empty one, without holding more than one and a chunk."""
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


def lines_of(lines: Iterable[str] | Iterable[bytes], room: ReadBudget) -> Iterator[RawLine]:
    """Yield the lines of an iterable, without their ends."""
    for item in lines:
        room.take_bytes(len(item))
        for line in _as_bytes(item).removesuffix(b"\n").split(b"\n"):
            yield line.removesuffix(b"\r") if len(line) <= LIMITS.line else None


def _as_bytes(piece: str | bytes) -> bytes:
    return piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece
