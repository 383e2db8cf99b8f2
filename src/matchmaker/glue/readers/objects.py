"""The objects of a GLUE 2.0 document, whatever its form, and the entries that they are.

An object is named after its class (``ComputingShare``) and has its attributes under short names
(``MaxWallTime``), other objects within, and associations with the ids of others
(``ComputingEndpointID``). `documents` reads the forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue.access import HOLDERS
from matchmaker.glue.entries import Attributes, Entry, rdn
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.schema import GLUE2_IDS, ancestry, classes, short_names

RULE = "rule"
_NAMED_BY = {
    **GLUE2_IDS,
    "glue2endpoint": "GLUE2EndpointID",
    "glue2storageendpoint": "GLUE2EndpointID",
}
"""The classes that become entries, and the attribute that names each. The last are not linked."""
_SHORT = {"environment": "executionenvironment"}

Field = tuple[str, str]


@attrs.define(slots=True)
class Object:
    """An object of a document: its class, its fields and associations, its place and its line."""

    kind: str
    line: int
    above: Object | None
    fields: list[Field] = attrs.Factory(list)
    associations: list[Field] = attrs.Factory(list)
    ident: str = ""
    damaged: bool = False

    @property
    def dn(self) -> str:
        """A name as the LDAP rendering of GLUE 2.0 would have it."""
        own = rdn(_NAMED_BY[self.kind.lower()], self.ident)
        return f"{own},{self.above.dn}" if self.above is not None else f"{own},o=glue"


def kind_of(name: str) -> str | None:
    """The class that an object's name means; None where it means none that is read."""
    known = classes().get(f"glue2{name.lower()}")
    return known.name if known is not None and known.name.lower() in _NAMED_BY else None


def _association(name: str) -> str | None:
    """The class whose ids an association or a field has by its name; None where it has no such."""
    stem = name[:-2].lower() if name[-2:].lower() == "id" else ""
    known = classes().get(f"glue2{_SHORT.get(stem, stem)}") if stem else None
    return known.name.removeprefix("GLUE2") if known is not None else None


def names_others(kind: str, name: str) -> bool:
    """Whether a field of a class that is no attribute of it has the ids of other objects."""
    return _association(name) is not None and name.lower() not in short_names(kind)


@cache
def _key(kind: str, other: str) -> str | None:
    """The attribute of a class that holds the id of another: a share's of its endpoint."""
    names = [name.name.removeprefix("GLUE2") for name in reversed(ancestry(f"GLUE2{other}"))]
    for name in names or [other]:
        if (found := short_names(kind).get(f"{name}ForeignKey".lower())) is not None:
            return found
    return None


def add(inside: Object | None, name: str, texts: Iterable[str], *, linked: bool = False) -> None:
    """Add the texts of a field to the object that it is in.

    Args:
        inside: the object, or None.
        name: of the field.
        texts: of the field, empty where they cannot be read, which counts for a rule.
        linked: whether the field stands in ``Associations``.
    """
    if inside is None:
        return
    other = _association(name)
    if other is not None and (linked or names_others(inside.kind, name)):
        inside.associations += [(other, text.strip()) for text in texts if text.strip()]
    elif not linked:
        rule = name.lower() == RULE and inside.kind.endswith("Policy")
        inside.fields += [(name, text) for text in texts if text or rule]


def holds(kind: str) -> bool:
    """Whether objects of a class decide on access."""
    return kind.lower() in HOLDERS


def too_many() -> Issue:
    """The issue of a document with more objects than are read."""
    return issue("document.partial", f"more than {LIMITS.objects} objects, the rest is skipped")


class _Room:
    """How much larger than a document its entries may be: those within others repeat their ids."""

    def __init__(self, size: int) -> None:
        self.all = self.left = LIMITS.swell * size + LIMITS.text

    def take(self, *texts: str) -> bool:
        """Whether there is still room for these, which are then taken."""
        self.left -= sum(map(len, texts))
        return self.left >= 0


def entries(objects: Iterable[Object], size: int, report: Report) -> Iterator[Entry]:
    """Objects as entries, with keys both ways: each association is one of the two's attribute.

    `size` is that of their document.
    """
    known, room = list(objects), _Room(size)
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


def _keys(known: Iterable[Object], room: _Room) -> dict[int, list[Field]]:
    """The attributes that associations are, by the object that has them."""
    by_id: dict[tuple[str, str], list[Object]] = {}
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
