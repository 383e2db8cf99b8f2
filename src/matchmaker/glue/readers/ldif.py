"""A tolerant, streaming reader of LDIF as information systems really dump it.

Here lines become entries of text. Folding, base64, CRLF, comments and the version line are RFC
2849; the mended faults are those seen in dumps of real BDIIs: a newline missing between two
attributes, several pairs on a line, a comma too many in a name, unpadded base64, Latin-1, stray
lines. Each fault is reported as an `Issue`; no entry and no value is made up, and no URL (``:<``)
is followed. What the values mean, and their types, is for `clean` and `typed`.

Most of a dump is sound: lines of ``name: value``. An entry of such is taken apart in one go, any
other line by line, with mending. A property holds both ways to the same entries.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TypeAlias, cast

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad.quoting import shorten
from matchmaker.glue.entries import Attributes, Entry, write_entries
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.readers.blocks import (
    Blocks,
    Bounded,
    Readable,
    Room,
    Unpacked,
    lines_of,
)
from matchmaker.glue.readers.sound import NAME, Names, taken
from matchmaker.glue.schema import attribute, decides_access, name_within

__all__ = ["Attributes", "Entry", "Lines", "Source", "read_entries", "write_entries"]

Lines: TypeAlias = Readable | IO[bytes] | IO[str] | Iterable[str] | Iterable[bytes]
Source: TypeAlias = str | os.PathLike[str] | Lines
"""A path, a file opened either way, or lines."""

_NAMING = {
    *("gluevoviewlocalid", "glueceuniqueid", "glue2policyid", "glue2shareid"),
    *("glue2computingsharemappingqueue", "glue2entityname"),
}
_IDENTIFYING = {"objectclass", *_NAMING}
_OF_LDAPSEARCH = {"version", "search", "result", "control", "pagedresults"}
"""The words that ldapsearch prints around entries: of the result 0 is success."""
_CHANGES = {"delete", "modify", "modrdn", "moddn"}
_MARK = b"\xef\xbb\xbf"
_RAW_LIMIT = 200  # characters of the published text that an issue repeats


@attrs.frozen(slots=True)
class _Line:
    """An unfolded line; `text` is None where it was too long."""

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
        OSError: where the file cannot be read.
        ValueError: where it is packed by gzip, and damaged, and for a source that is too large.

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
    """Reads entries as `read_entries` does, and also those that lost their names.

    An entry is ``damaged`` where a line in it or right behind it could not be read.
    """
    if isinstance(source, (bytes, bytearray)):
        raise TypeError("bytes are neither a path nor lines; pass io.BytesIO(them)")
    if not isinstance(source, (str, os.PathLike, Iterable)) and not hasattr(source, "read"):
        raise TypeError(f"a path, a file or lines were expected, not {type(source).__name__}")
    room = Room(max_size if max_size is not None else LIMITS.file)
    if isinstance(source, (str, os.PathLike)):
        with Path(source).open("rb") as file:
            blocks = Blocks(Bounded(Unpacked(file), room).read)
            yield from _whole(_read(blocks, room, report), report)
    elif not isinstance(source, Iterable) or hasattr(source, "read"):
        file_read = Bounded(Unpacked(cast("Readable", source)), room).read
        yield from _whole(_read(Blocks(file_read), room, report), report)
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
        ending = _Ending(Unpacked(cast("Readable", source)))
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
    """Entries; one is damaged where lines without a name follow, which may have been its own."""
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


def _read(blocks: Blocks, room: Room, report: Report) -> Iterator[Entry]:
    """The entries of blocks: of a sound one in one go, of another line by line."""
    number = 1
    names = Names()
    for block in blocks:
        number += blocks.skipped()
        room.take()
        if isinstance(block, bytes):
            if (found := taken(block, number, names)) is not None:
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
    """Lines with their numbers, and then the number of the next."""

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
        """Notes a value that cannot be read, or a whole line where its name is empty."""
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
    """The attributes and values on one line: one, unless newlines went missing.

    A value is None where it cannot be read, and its name is empty where that cannot be either.
    """
    text, sound = _decoded(line.text or b"", line.number, dn, "", report)
    for count in range(LIMITS.pairs + 1):
        if not text:
            return
        name, colon, rest = text.partition(":")
        if not colon or not NAME.match(name.strip(" \t")):
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
    """The value after the first colon; None where it is skipped."""
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
    """Whether a value that may be another one counts as lost."""
    return name.lower() in _NAMING or decides_access(name)


def _decoded(data: bytes, number: int, dn: str, name: str, report: Report) -> tuple[str, bool]:
    """UTF-8, else Latin-1, which loses no byte; and whether it was UTF-8."""
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        said = "not UTF-8, read as Latin-1"
        report(_issue("ldif.encoding", said, number, dn, name, text))
        return text, False


def _issue(rule: str, message: str, line: int, dn: str, /, *about: str) -> Issue:
    """An issue about an attribute and its text, or a text alone, cut where it is long."""
    *attribute_name, raw = about
    shown = shorten(raw.strip(), _RAW_LIMIT)
    return issue(rule, message, line, dn, attribute="".join(attribute_name), raw=shown)
