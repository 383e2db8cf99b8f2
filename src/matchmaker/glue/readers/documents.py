"""GLUE 2.0 documents, XML as ARC and JSON as ipf publish them, as entries like a directory's.

What the objects in them are, and what their entries, is in `objects`. Whatever else is around them
(``Domains``, ``Services``) is passed through. (GFD.209 for XML.) What the entries mean is the same
as for LDIF.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue.access import HOLDERS
from matchmaker.glue.entries import Entry
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.readers.blocks import Readable, Room
from matchmaker.glue.readers.objects import (
    RULE,
    Object,
    add,
    entries,
    holds,
    kind_of,
    names_others,
    too_many,
)

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

_CHUNK = 1 << 16
_ASSOCIATIONS = "associations"
_NAMING = {
    *HOLDERS, "glue2computingservice", "glue2computingshare", "glue2computingendpoint",
}  # fmt: skip
"""The classes, in lower case, by whose names there is an object or a list of them."""


def read_xml(file: Readable, report: Report, max_size: int | None = None) -> Iterator[Entry]:
    """The entries of an XML document. Entities are refused and nothing is fetched.

    `max_size` is the number of bytes that are read at most; 64 MB if not given.

    Raises:
        ValueError: where the document is not XML from its beginning, declares entities or is too
            large. One that breaks off gives what came before, and an issue.
    """
    from xml.parsers.expat import ExpatError, ParserCreate

    parser = ParserCreate(namespace_separator=" ")
    room = Room(max_size if max_size is not None else LIMITS.document)
    walker = _Walker(parser, room)
    parser.StartElementHandler = walker.start
    parser.EndElementHandler = walker.end
    parser.CharacterDataHandler = walker.text
    parser.EntityDeclHandler = walker.refuse
    size = 0
    try:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            room.take_bytes(len(chunk))
            parser.Parse(chunk, False)
        parser.Parse(b"", True)
    except LookupError as error:
        raise ValueError(f"not a GLUE 2.0 document: {error}") from None
    except ExpatError as error:
        if not walker.found:
            raise ValueError(f"not a GLUE 2.0 document: {error}") from None
        said = f"the document breaks off: {error}"
        report(issue("document.partial", said, getattr(error, "lineno", 0)))
    if walker.cut:
        report(too_many())
    yield from entries(walker.found, size, report)


@attrs.define(slots=True)
class _Walker:
    """Follows the elements of a document."""

    parser: XMLParserType
    room: Room
    found: list[Object] = attrs.Factory(list)
    open: list[tuple[str, Object | None]] = attrs.Factory(list)
    pieces: list[str] = attrs.Factory(list)
    length: int = 0
    cut: bool = False

    def start(self, tag: str, marks: Mapping[str, str]) -> None:
        """An element begins."""
        self.room.take(1 + len(marks))
        if len(self.open) >= LIMITS.depth:
            raise ValueError(f"elements nested more than {LIMITS.depth} deep")
        name = tag.rpartition(" ")[2]
        above = self.open[-1][1] if self.open else None
        if above is not None and "".join(self.pieces).strip():
            above.damaged = True  # text before an element is lost, such as DENY:<b/>VO:cms
        kind = kind_of(name)
        if kind is not None and len(self.found) >= LIMITS.objects:
            self.cut, above = True, None
        elif kind is not None:
            above = Object(kind, self.parser.CurrentLineNumber, above)
            above.fields += [(n.rpartition(" ")[2], text) for n, text in marks.items()]
            self.found.append(above)
        self.open.append((name, above))
        self.pieces, self.length = [], 0

    def text(self, piece: str) -> None:
        """A piece of text; beyond the limit of a value it is dropped."""
        self.length += len(piece)
        if self.length <= LIMITS.text:
            self.pieces.append(piece)

    def end(self, _: str) -> None:
        """An element ends: a field of the object that it is in, unless it is one itself."""
        name, inside = self.open.pop()
        text = "".join(self.pieces).strip()
        self.pieces = []
        if self.length > LIMITS.text:
            text = ""
        linked = bool(self.open) and self.open[-1][0].lower() == _ASSOCIATIONS
        add(inside, name, [text], linked=linked)

    def refuse(self, *_: object) -> None:
        """An entity is declared: no document may swell, and none reads files."""
        raise ValueError("a document that declares entities is not read")


def read_json(file: Readable, report: Report, max_size: int | None = None) -> Iterator[Entry]:
    """The entries of a JSON document: objects by their classes' names, alone or in lists.

    `max_size` is the number of bytes that are read at most; 64 MB if not given.

    Raises:
        ValueError: where the document is not JSON, or too large.
    """
    room = Room(max_size if max_size is not None else LIMITS.document)
    pieces: list[bytes] = []
    while piece := file.read(_CHUNK):
        room.take_bytes(len(piece))
        # Each value but the first comes behind one of these.
        room.take(piece.count(b",") + piece.count(b"[") + piece.count(b"{"))
        pieces.append(piece)
    data = b"".join(pieces)
    pieces.clear()
    try:
        whole = json.loads(data, object_pairs_hook=_Fields)
    except RecursionError:
        raise ValueError("not a GLUE 2.0 document: nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not a GLUE 2.0 document: {error}") from None
    found: list[Object] = []
    _gather(whole, None, _Objects(found, report), 0)
    if len(found) > LIMITS.objects:
        del found[LIMITS.objects :]
        report(too_many())
    yield from entries(found, len(data), report)


class _Fields(list[tuple[str, Any]]):
    """The fields of a JSON object, also those of which the name comes twice."""

    __slots__ = ()


@attrs.frozen(slots=True)
class _Objects:
    """The objects found so far, and what is called with an `Issue` for each that is none."""

    found: list[Object]
    report: Report


def _gather(value: Any, inside: Object | None, into: _Objects, depth: int) -> None:
    """The objects in a value, and the fields of the object that it is in."""
    if depth > LIMITS.depth:
        raise ValueError(f"objects nested more than {LIMITS.depth} deep")
    for item in _items(value):
        fields = item if isinstance(item, _Fields) else ()
        twice = _twice(fields)
        if inside is not None and twice:
            inside.damaged = True
        for name, content in fields:
            kind = kind_of(name)
            if kind is not None and (isinstance(content, list) or kind.lower() in _NAMING):
                again = name.lower() in twice
                _objects(kind, content, inside, into, depth, damaged=again)
            elif inside is not None and name.lower() == _ASSOCIATIONS:
                for part in _items(content):
                    for other, ids in part if isinstance(part, _Fields) else ():
                        add(inside, other, _each(ids), linked=True)
            elif name.lower() == RULE:
                add(inside, name, _each(content) or [""])
            elif inside is not None and names_others(inside.kind, name):
                add(inside, name, _each(content))
            elif inside is not None and (texts := _texts(content)):
                add(inside, name, texts)
            else:
                _gather(content, inside, into, depth + 1)


def _twice(fields: Sequence[tuple[str, Any]]) -> set[str]:
    """The names, in lower case, that an object has twice with different values."""
    names = [name.lower() for name, _ in fields]
    if len(set(names)) == len(names):
        return set()
    values: dict[str, Any] = {}
    return {n for n, (_, v) in zip(names, fields, strict=True) if values.setdefault(n, v) != v}


def _objects(
    kind: str, content: Any, inside: Object | None, into: _Objects, depth: int, *, damaged: bool
) -> None:
    """The objects of a class, each with what is in it."""
    for one in _items(content):
        if len(into.found) > LIMITS.objects:
            break
        if isinstance(one, _Fields):
            made = Object(kind, 0, inside, damaged=damaged)
            into.found.append(made)
            _gather(one, made, into, depth + 1)
        else:
            said = f"no object, where one of class {kind} was expected, skipped"
            raw = "" if isinstance(one, list) else str(one)
            into.report(issue("document.no-object", said, raw=raw))
            if holds(kind):
                into.found.append(Object(kind, 0, inside, damaged=True))


def _items(value: Any) -> list[Any]:
    """The values of a list; any other value alone."""
    return value if isinstance(value, list) and not isinstance(value, _Fields) else [value]


def _texts(value: Any) -> list[str]:
    """Plain values as a directory has them; none of anything else."""
    made = []
    for item in _items(value):
        if isinstance(item, bool):
            made.append("true" if item else "false")
        elif isinstance(item, (str, int, float)):
            text = str(item)
            made.append(text if len(text) <= LIMITS.text else "")
    return made


def _each(value: Any) -> list[str]:
    """The values of a list as texts, empty for each that is no text or number."""
    return ["".join(_texts(item)) if not isinstance(item, list) else "" for item in _items(value)]
