"""GLUE 2.0 documents, XML as ARC and JSON as ipf publish them, as entries like a directory's.

In both an object is named after its class (``ComputingShare``) and has its attributes under short
names (``MaxWallTime``), other objects within, and ``Associations`` with the ids of others
(``ComputingEndpointID``). Whatever else is around them (``Domains``, ``Services``) is passed
through. (GFD.209 for XML.) What the entries mean is the same as for LDIF.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs

from matchmaker.glue.access import like_a_rule
from matchmaker.glue.admission import APART, HOLDERS, like_a_capability
from matchmaker.glue.entries import Attributes, Entry
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.linking import rdn
from matchmaker.glue.readers.blocks import Readable, Room
from matchmaker.glue.schema import ObjectClass, ancestry, attributes, classes
from matchmaker.glue.v2 import link as glue20

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

_CHUNK = 1 << 16
_ASSOCIATIONS = "associations"
_RULE = "rule"
_CAPABILITY = "capability"
_KEPT = {_RULE, _CAPABILITY}
_SHORT = {"environment": "executionenvironment"}

Field = tuple[str, str]


@attrs.define(slots=True)
class _Object:
    """An object of a document: its class, its fields and associations, its place and its line."""

    kind: str
    line: int
    above: _Object | None
    fields: list[Field] = attrs.Factory(list)
    associations: list[Field] = attrs.Factory(list)
    ident: str = ""
    damaged: bool = False

    @property
    def dn(self) -> str:
        """A name as the LDAP rendering of GLUE 2.0 would have it."""
        own = rdn(glue20.IDS[self.kind.lower()], self.ident)
        return f"{own},{self.above.dn}" if self.above is not None else f"{own},o=glue"


def _kind(name: str) -> str | None:
    """The class that an object's name means; None where it means none that is read."""
    known = classes().get(f"glue2{name.lower()}")
    return known.name if known is not None and known.name.lower() in glue20.IDS else None


@cache  # of each class of the schema
def _attributes(owners: tuple[ObjectClass, ...]) -> Mapping[str, str]:
    """The attributes of some classes by short name in lower case: ``GLUE2EntityName`` by ``name``.

    Where two classes have one, that of the last counts.
    """
    found = {}
    for owner in owners:
        for name, known in attributes().items():
            if known.owner == owner.name and name.startswith(owner.name.lower()):
                found[name.removeprefix(owner.name.lower())] = known.name
    return found


def _attribute(kind: str, short: str) -> str | None:
    """The attribute of a class that a short name means; None for an unknown class or name."""
    return _attributes(ancestry(kind)).get(short.lower())


def _association(name: str) -> str | None:
    """The class whose ids an association or a field has by its name; None where it has no such."""
    stem = name[:-2].lower() if name[-2:].lower() == "id" else ""
    known = classes().get(f"glue2{_SHORT.get(stem, stem)}") if stem else None
    return known.name.removeprefix("GLUE2") if known is not None else None


@cache
def _key(kind: str, other: str) -> str | None:
    """The attribute of a class that holds the id of another: a share's of its endpoint."""
    names = [name.name.removeprefix("GLUE2") for name in reversed(ancestry(f"GLUE2{other}"))]
    for name in names or [other]:
        if (found := _attribute(kind, f"{name}ForeignKey")) is not None:
            return found
    return None


def read_xml(file: Readable, report: Report, max_size: int | None = None) -> Iterator[Entry]:
    """The entries of an XML document. Entities are refused and nothing is fetched.

    Args:
        file: the document, unpacked.
        report: called with an `Issue` for what is left out.
        max_size: bytes that are read at most; 64 MB if not given.

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
        report(_too_many())
    yield from _entries(walker.found, _Room(size), report)


@attrs.define(slots=True)
class _Walker:
    """Follows the elements of a document."""

    parser: XMLParserType
    room: Room
    found: list[_Object] = attrs.Factory(list)
    open: list[tuple[str, _Object | None]] = attrs.Factory(list)
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
        kind = _kind(name)
        if kind is not None and len(self.found) >= LIMITS.objects:
            self.cut, above = True, None
        elif kind is not None:
            above = _Object(kind, self.parser.CurrentLineNumber, above)
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
        _add(inside, name, [text], self.found, linked=linked)

    def refuse(self, *_: object) -> None:
        """An entity is declared: no document may swell, and none reads files."""
        raise ValueError("a document that declares entities is not read")


def _add(
    inside: _Object | None,
    name: str,
    texts: Iterable[str],
    found: list[_Object],
    *,
    linked: bool = False,
) -> None:
    """Adds the texts of a field to the object that it is in.

    A rule and the id of another object count also where they are empty or stand in a wrong place:
    whatever held them may restrict.

    Args:
        inside: the object, or None.
        name: of the field.
        texts: of the field, empty where they cannot be read.
        found: the objects so far. A rule that stands in no policy becomes a damaged one.
        linked: whether the field stands in ``Associations``.
    """
    if name.lower() == _RULE and (inside is None or not inside.kind.endswith("Policy")):
        found.append(_Object("GLUE2AccessPolicy", 0, inside, damaged=True))
        return
    if inside is None:
        return
    other = _association(name)
    if linked and other is None:
        inside.damaged = True
    elif other is not None and (linked or _attribute(inside.kind, name) is None):
        inside.associations += [(other, text.strip()) for text in texts]
    else:
        kept = name.lower() in _KEPT
        inside.fields += [(name, text) for text in texts if text or kept]


def _holds(kind: str) -> bool:
    """Whether objects of a class decide on access."""
    return kind.lower() in HOLDERS


def read_json(file: Readable, report: Report, max_size: int | None = None) -> Iterator[Entry]:
    """The entries of a JSON document: objects by their classes' names, alone or in lists.

    Args:
        file: the document, unpacked.
        report: called with an `Issue` for what is left out.
        max_size: bytes that are read at most; 64 MB if not given.

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
    found: list[_Object] = []
    _gather(whole, None, found, 0)
    if len(found) > LIMITS.objects:
        del found[LIMITS.objects :]
        report(_too_many())
    yield from _entries(found, _Room(len(data)), report)


class _Fields(list[tuple[str, Any]]):
    """The fields of a JSON object, also those of which the name comes twice."""

    __slots__ = ()


def _gather(value: Any, inside: _Object | None, found: list[_Object], depth: int) -> None:
    """The objects in a value, and the fields of the object that it is in."""
    if depth > LIMITS.depth:
        raise ValueError(f"objects nested more than {LIMITS.depth} deep")
    for item in _items(value):
        for name, content in item if isinstance(item, _Fields) else ():
            kind = _kind(name)
            if kind is not None and (isinstance(content, list) or _holds(kind)):
                _objects(kind, content, inside, found, depth)
            elif inside is not None and name.lower() == _ASSOCIATIONS:
                for part in _items(content):
                    if not isinstance(part, _Fields):
                        inside.damaged = True
                    for other, ids in part if isinstance(part, _Fields) else ():
                        _add(inside, other, _each(ids), found, linked=True)
            elif name.lower() == _RULE:
                _add(inside, name, _each(content) or [""], found)
            elif name.lower() == _CAPABILITY:
                _add(inside, name, _each(content), found)
            elif inside is not None and (texts := _texts(content)):
                _add(inside, name, texts, found)
            else:
                _gather(content, inside, found, depth + 1)


def _objects(
    kind: str, content: Any, inside: _Object | None, found: list[_Object], depth: int
) -> None:
    """The objects of a class, each with what is in it."""
    for one in _items(content):
        if len(found) > LIMITS.objects:
            break
        if isinstance(one, _Fields):
            made = _Object(kind, 0, inside)
            found.append(made)
            _gather(one, made, found, depth + 1)
        elif _holds(kind):
            found.append(_Object(kind, 0, inside, damaged=True))


def _too_many() -> Issue:
    return issue("document.partial", f"more than {LIMITS.objects} objects, the rest is skipped")


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


class _Room:
    """How much larger than a document its entries may be: those within others repeat their ids."""

    def __init__(self, size: int) -> None:
        self.all = self.left = LIMITS.swell * size + LIMITS.text

    def take(self, *texts: str) -> bool:
        """Whether there is still room for these, which are then taken."""
        self.left -= sum(map(len, texts))
        return self.left >= 0


def _entries(objects: Iterable[_Object], room: _Room, report: Report) -> Iterator[Entry]:
    """Objects as entries, with keys both ways: each association is one of the two's attribute."""
    known = list(objects)
    for number, made in enumerate(known, 1):
        named = {name.lower(): text for name, text in reversed(made.fields)}
        known_by = named.get("id") or named.get("localid")
        made.ident = known_by or f"{made.kind}-{number}"
        if not known_by and made.kind.lower() in APART:
            # What it was is lost with its id. A policy of nothing closes what it could restrict.
            made.kind, made.damaged = "GLUE2AccessPolicy", True
            made.associations.clear()
    idents = {made.ident.lower() for made in known}
    keys = _keys(known, room)
    for made in known:
        dn = made.dn
        if made.above is not None and made.above.kind.endswith("Policy"):
            made.damaged = True
        if sum(name.lower() == "id" for name, _ in made.fields) > 1:
            made.damaged = True
        if not room.take(dn):
            break
        pairs = [("objectClass", kind.name) for kind in ancestry(made.kind)]
        named_by = glue20.IDS[made.kind.lower()]
        pairs.append((named_by, made.ident))
        for name, text in made.fields:
            found = _attribute(made.kind, name)
            if found is None:
                linked = text.lower() in idents and text != made.ident
                made.damaged |= linked or like_a_rule(text) or like_a_capability(text)
            elif found != named_by and name.lower() != "id":
                pairs.append((found, text))
        pairs += list(dict.fromkeys(keys.get(id(made), ())))
        yield Entry(dn, Attributes(pairs), made.line, made.damaged)
    if room.left < 0:
        said = f"ids within ids and links take more than {room.all} characters, the rest is skipped"
        report(issue("document.partial", said))
    if not known:
        report(issue("document.empty", "the document holds no object of GLUE 2.0"))


def _keys(known: Iterable[_Object], room: _Room) -> dict[int, list[Field]]:
    """The attributes that associations are, by the object that has them."""
    by_id: dict[tuple[str, str], list[_Object]] = {}
    for made in known:
        for kind in ancestry(made.kind):  # an association may say ShareID for ComputingShareID
            by_id.setdefault((kind.name.lower(), made.ident.lower()), []).append(made)
    keys: dict[int, list[Field]] = {}
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
