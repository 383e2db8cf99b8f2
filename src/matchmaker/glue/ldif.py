"""A tolerant, streaming reader of LDIF as information systems really dump it.

Here lines become entries of text. Folding, base64, CRLF, comments and the version line are RFC
2849; the mended faults are those seen in dumps of real BDIIs: a newline missing between two
attributes, several pairs on a line, a comma too many in a name, unpadded base64, Latin-1, stray
lines. Each fault is reported as an `Issue`; no entry and no value is made up, and no URL (``:<``)
is followed. What the values mean, and their types, is for `clean` and `typed`.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

import attrs

from matchmaker.glue.blocks import LINE_LIMIT, Blocks, Readable, clean_block, gathered, lines_of
from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.schema import attribute

ENTRY_LIMIT = 1 << 24
"""Bytes of the attributes of one entry; what exceeds it is skipped."""

Lines: TypeAlias = Readable | IO[bytes] | IO[str] | Iterable[str] | Iterable[bytes]
Source: TypeAlias = str | os.PathLike[str] | Lines
"""A path, a file opened either way, or lines."""

_NAME = re.compile(r"(?:[A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)*)(?:;[A-Za-z0-9-]+)*\Z")
# The longest name of either schema has 57 letters. The bound keeps the search linear.
_INNER = re.compile(r"(?=((?:Glue[A-Z]|GLUE2[A-Z]|objectClass)\w{0,80}):)")
_MARK = b"\xef\xbb\xbf"
_PAIRS_LIMIT = 64  # on one line: a whole entry that lost its newlines has some forty
_RAW_LIMIT = 200  # characters of the published text that an issue repeats


class Attributes(Mapping[str, tuple[str, ...]]):
    """The values of an entry by attribute name, in any case; the first spelling seen is kept.

    >>> found = Attributes([("GlueCEName", "long"), ("glueCEName", "short")])
    >>> found["GLUECENAME"], list(found)
    (('long', 'short'), ['GlueCEName'])
    """

    __slots__ = ("_block", "_lower", "_values")

    def __init__(self, pairs: Iterable[tuple[str, str]] = (), block: bytes | None = None) -> None:
        """Of pairs, or of a clean block of LDIF, which is taken apart when it is asked for."""
        self._values: Mapping[str, Sequence[str]] | None = None
        self._lower: Mapping[str, str] | None = None
        self._block = block
        if block is None:
            spelt: dict[str, str] = {}
            values: dict[str, list[str]] = {}
            for name, value in pairs:
                values.setdefault(spelt.setdefault(name.lower(), name), []).append(value)
            self._values, self._lower = values, spelt

    @property
    def values_by_name(self) -> Mapping[str, Sequence[str]]:
        """The values by the name as it is spelt; faster than the mapping itself for all of them."""
        if self._values is None:
            self._values = gathered(self._block or b"")
            self._block = None
        return self._values

    def __getitem__(self, name: str) -> tuple[str, ...]:
        values = self.values_by_name
        found = values.get(name)
        if found is None:
            if self._lower is None:
                self._lower = {spelt.lower(): spelt for spelt in values}
            found = values[self._lower[name.lower()]]
        return tuple(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attributes):
            return NotImplemented
        return {k.lower(): v for k, v in self.items()} == {k.lower(): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Attributes({dict(self)!r})"


@attrs.frozen(slots=True)
class Entry:
    """One entry: its name, its attributes as text, and the line it began on (0: no lines)."""

    dn: str
    attributes: Attributes
    line: int = 0


@attrs.frozen(slots=True)
class _Line:
    """An unfolded line; `text` is None where it was too long."""

    number: int
    text: bytes | None


def read_entries(source: Source, report: Report) -> Iterator[Entry]:
    """Read the entries of an LDIF source, one at a time, in constant memory.

    Args:
        source: a path, an open file (bytes or text), or an iterable of lines.
        report: called with an `Issue` for each line that was mended or skipped.

    Yields:
        Each entry that has a name, in the order of the source.

    >>> issues = []
    >>> lines = ["dn: GlueCEUniqueID=a,o=grid,", "GlueCEName: qGlueCEStateFreeCPUs: 7", "stray"]
    >>> for entry in read_entries(lines, issues.append):
    ...     print(entry.dn, dict(entry.attributes))
    GlueCEUniqueID=a,o=grid {'GlueCEName': ('q',), 'GlueCEStateFreeCPUs': ('7',)}
    >>> [issue.rule for issue in issues]
    ['ldif.dn-comma', 'ldif.missing-newline', 'ldif.no-colon']
    """
    if isinstance(source, (bytes, bytearray)):
        raise TypeError("bytes are neither a path nor lines; pass io.BytesIO(them)")
    if isinstance(source, (str, os.PathLike)):
        with Path(source).open("rb") as file:
            yield from _read(Blocks(file.read), report)
    elif not isinstance(source, Iterable) or hasattr(source, "read"):
        yield from _read(Blocks(source.read), report)
    else:
        yield from _entries(_unfolded(enumerate(lines_of(source), 1), report), report)


def _read(blocks: Blocks, report: Report) -> Iterator[Entry]:
    """The entries of blocks: of a clean one in one go, of another line by line."""
    number = 1
    for block in blocks:
        if isinstance(block, bytes):
            if (clean := clean_block(block)) is not None:
                dn, newlines = clean
                yield Entry(dn, Attributes(block=block), number)
                number += newlines + 2
                continue
            lines: Iterable[bytes | None] = [*block.split(b"\n"), b""]
        else:
            lines = block
        counted = _Counted(lines, number)
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
            elif (size := size + len(line)) <= LINE_LIMIT:
                parts.append(line[1:])
            continue
        if size >= 0:
            yield from _joined(start, parts, size, report)
        start = number
        if line is None:
            parts, size = [], LINE_LIMIT + 1
        elif line:
            # A byte order mark may begin the file.
            parts, size = [line.removeprefix(_MARK) if number == 1 else line], len(line)
        else:
            size = -1
            yield _Line(number, b"")
    if size >= 0:
        yield from _joined(start, parts, size, report)


def _joined(number: int, parts: list[bytes], size: int, report: Report) -> Iterator[_Line]:
    if size > LINE_LIMIT:
        report(Issue("ldif.line-limit", f"longer than {LINE_LIMIT} bytes, skipped", number))
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
            continue
        for name, value in _pairs(line, group.dn, report):
            if name.lower() != "dn":
                group.add(line.number, name, value)
                continue
            if group.started:
                said = "no empty line before it"
                report(_issue("ldif.missing-blank", said, line.number, value, ""))
                yield from group.finish()
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
            self.report(Issue("ldif.no-dn", "an empty name, entry skipped", number))

    def add(self, number: int, name: str, value: str) -> None:
        if not self.started:
            if name.lower() != "version":
                said = "belongs to no entry, skipped"
                self.report(_issue("ldif.no-dn", said, number, "", name, value))
            return
        if name.lower() == "changetype":
            self.changes = value.strip().lower() != "add"
            return
        self.size += len(name) + len(value)
        if self.size <= ENTRY_LIMIT:
            self.pairs.append((name, value))
        elif self.size - len(name) - len(value) <= ENTRY_LIMIT:
            said = f"attributes beyond {ENTRY_LIMIT} bytes skipped"
            self.report(Issue("ldif.entry-limit", said, number, self.dn))

    def finish(self) -> Iterator[Entry]:
        if self.changes:
            said = "a change, not an entry, skipped"
            self.report(Issue("ldif.change", said, self.line, self.dn))
        elif self.started and self.dn:
            yield Entry(self.dn, Attributes(self.pairs), self.line)
        self.dn, self.line, self.size, self.started, self.changes = "", 0, 0, False, False
        self.pairs = []


def _pairs(line: _Line, dn: str, report: Report) -> Iterator[tuple[str, str]]:
    """The attributes and values on one line: one, unless newlines went missing."""
    text = _decoded(line.text or b"", line.number, dn, "", report)
    for count in range(_PAIRS_LIMIT + 1):
        if not text:
            return
        name, colon, rest = text.partition(":")
        if not colon or not _NAME.match(name.strip(" \t")):
            rule = "ldif.no-colon" if not colon else "ldif.bad-name"
            said = "no colon, skipped" if not colon else "no name before the colon, skipped"
            report(_issue(rule, said, line.number, dn, text))
            return
        if count == _PAIRS_LIMIT:
            said = f"more than {_PAIRS_LIMIT} attributes on a line, the rest skipped"
            report(_issue("ldif.line-limit", said, line.number, dn, text))
            return
        name, text = name.strip(" \t"), ""
        if (split := _inner_name(rest)) is not None:
            said = "a newline is missing before the next attribute"
            report(_issue("ldif.missing-newline", said, line.number, dn, name, rest))
            rest, text = rest[:split].rstrip(), rest[split:]
        value = _value(rest, name, line.number, dn, report)
        if value is not None:
            yield name, value
            dn = value if count == 0 and name.lower() == "dn" else dn


def _inner_name(rest: str) -> int | None:
    """Where in a value an attribute's name and a colon begin; only names the schema has count."""
    if "Glue" not in rest and "GLUE2" not in rest and "objectClass" not in rest:
        return None
    for found in _INNER.finditer(rest):
        if found[1] == "objectClass" or attribute(found[1]) is not None:
            return found.start()
    return None


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
    return _decoded(data, number, dn, name, report)


def _decoded(data: bytes, number: int, dn: str, name: str, report: Report) -> str:
    """UTF-8, else Latin-1, which loses no byte."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        said = "not UTF-8, read as Latin-1"
        report(_issue("ldif.encoding", said, number, dn, name, text))
        return text


def _issue(rule: str, message: str, line: int, dn: str, /, *about: str) -> Issue:
    """An issue about an attribute and its text, or a text alone, cut where it is long."""
    *attribute_name, raw = about
    raw = raw.strip()
    shown = raw if len(raw) <= _RAW_LIMIT else raw[:_RAW_LIMIT] + "…"
    return Issue(rule, message, line, dn, "".join(attribute_name), shown)


def write_entries(entries: Iterable[Entry], file: IO[str]) -> int:
    """Write entries as LDIF (RFC 2849): folded at 76 columns, in base64 what is not plain ASCII.

    Args:
        entries: in the order they are written; parents come first if a server is to take them.
        file: open for text.

    Returns:
        How many there were.

    >>> import sys
    >>> write_entries([Entry("o=grid", Attributes([("o", "grid"), ("o", " x")]))], sys.stdout)
    dn: o=grid
    o: grid
    o:: IHg=
    <BLANKLINE>
    1
    """
    count = 0
    for entry in entries:
        lines = [_line("dn", entry.dn)]
        for name, values in entry.attributes.values_by_name.items():
            lines += [_line(name, value) for value in values]
        file.write("\n".join(lines) + "\n\n")
        count += 1
    return count


_SAFE = re.compile(r"(?![ :<])[\x01-\x09\x0b\x0c\x0e-\x7f]*(?<! )\Z")


def _line(name: str, value: str) -> str:
    # What looks like a lost line to a reader that mends is kept from it.
    if _SAFE.match(value) and not _INNER.search(value):
        text = f"{name}: {value}"
    else:
        encoded = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
        text = f"{name}:: {encoded}"
    return "\n ".join([text[:76], *(text[i : i + 75] for i in range(76, len(text), 75))])
