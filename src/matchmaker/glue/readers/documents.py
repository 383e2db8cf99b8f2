"""GLUE 2.0 documents, XML as ARC and JSON as ipf publish them, as entries like a directory's.

An object is named after its class (``ComputingShare``) and has its attributes under short names
(``MaxWallTime``), other objects within, and associations with the ids of others
(``ComputingEndpointID``). Other elements around them (``Domains``, ``Services``) are passed
through. (GFD.209 for XML.) The entries mean the same as those of LDIF.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue.access import HOLDERS
from matchmaker.glue.entries import Attributes, Entry, rdn
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.readers import Readable, ReadBudget, read_whole
from matchmaker.glue.schema import GLUE2_IDS, ancestry, classes, short_names

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

_CHUNK = 1 << 16
_ASSOCIATIONS = "associations"
_NAMING = {
    *HOLDERS, "glue2computingservice", "glue2computingshare", "glue2computingendpoint",
}  # fmt: skip
"""The classes, in lower case, whose names stand for an object or a list of them."""


def read_xml(file: Readable, report: Report, max_size: int | None = None) -> Iterator[Entry]:
    """Read the entries of an XML document. Entities are refused and nothing is fetched.

    `max_size` is the number of bytes that are read at most; 64 MB if not given.

    Raises:
        ValueError: the document is not XML from its beginning, declares entities or is too large.
            One that breaks off gives what came before, and an issue.
    """
    from xml.parsers.expat import ExpatError, ParserCreate

    parser = ParserCreate(namespace_separator=" ")
    room = ReadBudget(max_size if max_size is not None else LIMITS.document)
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
        report(_too_many())
    yield from _object_entries(walker.found, size, report)


@attrs.define(slots=True)
class _Walker:
    """Follows the elements of a document."""

    parser: XMLParserType
    room: ReadBudget
    found: list[DocumentObject] = attrs.Factory(list)
    open: list[tuple[str, DocumentObject | None]] = attrs.Factory(list)
    pieces: list[str] = attrs.Factory(list)
    length: int = 0
    cut: bool = False

    def start(self, tag: str, marks: Mapping[str, str]) -> None:
        """Begin an element."""
        self.room.take(1 + len(marks))
        if len(self.open) >= LIMITS.depth:
            raise ValueError(f"elements nested more than {LIMITS.depth} deep")
        name = tag.rpartition(" ")[2]
        above = self.open[-1][1] if self.open else None
        if above is not None and "".join(self.pieces).strip():
            above.damaged = True  # text before an element is lost, such as DENY:<b/>VO:cms
        kind = _kind_of(name)
        if kind is not None and len(self.found) >= LIMITS.objects:
            self.cut, above = True, None
        elif kind is not None:
            above = DocumentObject(kind, self.parser.CurrentLineNumber, above)
            above.fields += [(n.rpartition(" ")[2], text) for n, text in marks.items()]
            self.found.append(above)
        self.open.append((name, above))
        self.pieces, self.length = [], 0

    def text(self, piece: str) -> None:
        """Add a piece of text; beyond the limit of a value it is dropped."""
        self.length += len(piece)
        if self.length <= LIMITS.text:
            self.pieces.append(piece)

    def end(self, _: str) -> None:
        """End an element: a field of the object that it is in, unless it is one itself."""
        name, inside = self.open.pop()
        text = "".join(self.pieces).strip()
        self.pieces = []
        if self.length > LIMITS.text:
            text = ""
        linked = bool(self.open) and self.open[-1][0].lower() == _ASSOCIATIONS
        _add(inside, name, [text], linked=linked)

    def refuse(self, *_: object) -> None:
        """Refuse a declared entity: no document may swell, and none reads files."""
        raise ValueError("a document that declares entities is not read")


def read_json(file: Readable, report: Report, max_size: int | None = None) -> Iterator[Entry]:
    """Read the entries of a JSON document: objects by their classes' names, alone or in lists.

    `max_size` is the number of bytes that are read at most; 64 MB if not given.

    Raises:
        ValueError: the document is not JSON, or too large.
    """
    data = read_whole(file, max_size, b",[{", 1)
    try:
        whole = json.loads(data, object_pairs_hook=_Fields)
    except RecursionError:
        raise ValueError("not a GLUE 2.0 document: nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not a GLUE 2.0 document: {error}") from None
    found: list[DocumentObject] = []
    _gather(whole, None, _Objects(found, report), 0)
    if len(found) > LIMITS.objects:
        del found[LIMITS.objects :]
        report(_too_many())
    yield from _object_entries(found, len(data), report)


class _Fields(list[tuple[str, Any]]):
    """The fields of a JSON object, also those whose name comes twice."""

    __slots__ = ()


@attrs.frozen(slots=True)
class _Objects:
    """The objects found so far, and the report of each value that is none."""

    found: list[DocumentObject]
    report: Report


def _gather(value: Any, inside: DocumentObject | None, into: _Objects, depth: int) -> None:
    """Gather the objects in a value, and the fields of the object that it is in."""
    if depth > LIMITS.depth:
        raise ValueError(f"objects nested more than {LIMITS.depth} deep")
    for item in _items(value):
        fields = item if isinstance(item, _Fields) else ()
        twice = _twice(fields)
        if inside is not None and twice:
            inside.damaged = True
        for name, content in fields:
            kind = _kind_of(name)
            if kind is not None and (isinstance(content, list) or kind.lower() in _NAMING):
                again = name.lower() in twice
                _objects(kind, content, inside, into, depth, damaged=again)
            elif inside is not None and name.lower() == _ASSOCIATIONS:
                for part in _items(content):
                    for other, ids in part if isinstance(part, _Fields) else ():
                        _add(inside, other, _each(ids), linked=True)
            elif name.lower() == _RULE:
                _add(inside, name, _each(content) or [""])
            elif inside is not None and _names_others(inside.kind, name):
                _add(inside, name, _each(content))
            elif inside is not None and (texts := _texts(content)):
                _add(inside, name, texts)
            else:
                _gather(content, inside, into, depth + 1)


def _twice(fields: Sequence[tuple[str, Any]]) -> set[str]:
    """Return the names, in lower case, that an object has twice with different values."""
    names = [name.lower() for name, _ in fields]
    if len(set(names)) == len(names):
        return set()
    values: dict[str, Any] = {}
    return {n for n, (_, v) in zip(names, fields, strict=True) if values.setdefault(n, v) != v}


def _objects(
    kind: str,
    content: Any,
    inside: DocumentObject | None,
    into: _Objects,
    depth: int,
    *,
    damaged: bool,
) -> None:
    """Gather the objects of a class, with those in them."""
    for one in _items(content):
        if len(into.found) > LIMITS.objects:
            break
        if isinstance(one, _Fields):
            made = DocumentObject(kind, 0, inside, damaged=damaged)
            into.found.append(made)
            _gather(one, made, into, depth + 1)
        else:
            said = f"no object, where one of class {kind} was expected, skipped"
            raw = "" if isinstance(one, list) else str(one)
            into.report(issue("document.no-object", said, raw=raw))
            if kind.lower() in HOLDERS:
                into.found.append(DocumentObject(kind, 0, inside, damaged=True))


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) and not isinstance(value, _Fields) else [value]


def _texts(value: Any) -> list[str]:
    """Return plain values as a directory has them; none of anything else."""
    made = []
    for item in _items(value):
        if isinstance(item, bool):
            made.append("true" if item else "false")
        elif isinstance(item, (str, int, float)):
            text = str(item)
            made.append(text if len(text) <= LIMITS.text else "")
    return made


def _each(value: Any) -> list[str]:
    """Return the values of a list as texts, empty for each that is no text or number."""
    return ["".join(_texts(item)) if not isinstance(item, list) else "" for item in _items(value)]


_RULE = "rule"
_NAMED_BY = {
    **GLUE2_IDS,
    "glue2endpoint": "GLUE2EndpointID",
    "glue2storageendpoint": "GLUE2EndpointID",
}
"""The classes that become entries, and the attribute that names each. The last are not linked."""
# Associations name this one class by its last word.
_SHORT = {"environment": "executionenvironment"}

_Field = tuple[str, str]


@attrs.define(slots=True)
class DocumentObject:
    """An object of a document: its class, its fields and associations, its place and its line."""

    kind: str
    line: int
    above: DocumentObject | None
    fields: list[_Field] = attrs.Factory(list)
    associations: list[_Field] = attrs.Factory(list)
    ident: str = ""
    damaged: bool = False

    @property
    def dn(self) -> str:
        """The name that the LDAP rendering of GLUE 2.0 would give it."""
        own = rdn(_NAMED_BY[self.kind.lower()], self.ident)
        return f"{own},{self.above.dn}" if self.above is not None else f"{own},o=glue"


def _kind_of(name: str) -> str | None:
    """Return the class that an object's name means; None if none is read by that name."""
    known = classes().get(f"glue2{name.lower()}")
    return known.name if known is not None and known.name.lower() in _NAMED_BY else None


def _association(name: str) -> str | None:
    stem = name[:-2].lower() if name[-2:].lower() == "id" else ""
    known = classes().get(f"glue2{_SHORT.get(stem, stem)}") if stem else None
    return known.name.removeprefix("GLUE2") if known is not None else None


def _names_others(kind: str, name: str) -> bool:
    """Whether a field of a class that is no attribute of it has the ids of other objects."""
    return _association(name) is not None and name.lower() not in short_names(kind)


@cache
def _key(kind: str, other: str) -> str | None:
    """Return the attribute of a class that holds the id of another: a share's of its endpoint."""
    names = [name.name.removeprefix("GLUE2") for name in reversed(ancestry(f"GLUE2{other}"))]
    for name in names or [other]:
        if (found := short_names(kind).get(f"{name}ForeignKey".lower())) is not None:
            return found
    return None


def _add(
    inside: DocumentObject | None, name: str, texts: Iterable[str], *, linked: bool = False
) -> None:
    """Add the texts of a field to the object that it is in.

    A rule that cannot be read counts, as an empty text. A field of ``Associations`` is `linked`.
    """
    if inside is None:
        return
    other = _association(name)
    if other is not None and (linked or _names_others(inside.kind, name)):
        inside.associations += [(other, text.strip()) for text in texts if text.strip()]
    elif not linked:
        rule = name.lower() == _RULE and inside.kind.endswith("Policy")
        inside.fields += [(name, text) for text in texts if text or rule]


def _too_many() -> Issue:
    return issue("document.partial", f"more than {LIMITS.objects} objects, the rest is skipped")


class _Growth:
    """How much larger than a document its entries may be: those within others repeat their ids."""

    def __init__(self, size: int) -> None:
        self.all = self.left = LIMITS.swell * size + LIMITS.text

    def take(self, *texts: str) -> bool:
        """Take texts, and tell whether there was still room for them."""
        self.left -= sum(map(len, texts))
        return self.left >= 0


def _object_entries(
    objects: Iterable[DocumentObject], size: int, report: Report
) -> Iterator[Entry]:
    """Yield objects as entries, with keys both ways: an association is an attribute of one.

    `size` is that of their document.
    """
    known, room = list(objects), _Growth(size)
    for number, made in enumerate(known, 1):
        named = {name.lower(): text for name, text in reversed(made.fields)}
        known_by = named.get("id") or named.get("localid")
        made.ident = known_by or f"{made.kind}-{number}"
    keys = _keys(known, room)
    for made in known:
        dn = made.dn
        if not room.take(dn):
            break
        pairs = [("objectClass", kind.name) for kind in ancestry(made.kind)]
        named_by = _NAMED_BY[made.kind.lower()]
        pairs.append((named_by, made.ident))
        for name, text in made.fields:
            found = short_names(made.kind).get(name.lower())
            if found is not None and found != named_by and name.lower() != "id":
                pairs.append((found, text))
        pairs += list(dict.fromkeys(keys.get(id(made), ())))
        yield Entry(dn, Attributes(pairs), made.line, made.damaged)
    if room.left < 0:
        said = f"ids within ids and links take more than {room.all} characters, the rest is skipped"
        report(issue("document.partial", said))
    if not known:
        report(issue("document.empty", "the document holds no object of GLUE 2.0"))


def _keys(known: Iterable[DocumentObject], room: _Growth) -> dict[int, list[_Field]]:
    """Return the attributes that associations are, by the object that has them."""
    by_id: dict[tuple[str, str], list[DocumentObject]] = {}
    for made in known:
        for kind in ancestry(made.kind):  # an association may say ShareID for ComputingShareID
            by_id.setdefault((kind.name.lower(), made.ident.lower()), []).append(made)
    keys: dict[int, list[_Field]] = {}
    for made in known:
        for other, ident in made.associations:
            if (key := _key(made.kind, other)) is not None:
                keys.setdefault(id(made), []).append((key, ident))
                continue
            if (back := _key(f"GLUE2{other}", made.kind.removeprefix("GLUE2"))) is None:
                continue
            for target in by_id.get((f"glue2{other}".lower(), ident.lower()), ()):
                if not room.take(back, made.ident):
                    return keys
                keys.setdefault(id(target), []).append((back, made.ident))
    return keys
