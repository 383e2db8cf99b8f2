"""The objects of a GLUE 2.0 document, whatever its form, and the entries that they are.

An object is named after its class (``ComputingShare``) and has its attributes under short names
(``MaxWallTime``), other objects within, and associations with the ids of others
(``ComputingEndpointID``). `documents` reads the forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter

import attrs

from matchmaker.glue.access import like_a_rule
from matchmaker.glue.admission import APART, HOLDERS, like_a_capability
from matchmaker.glue.entries import Attributes, Entry
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.linking import rdn
from matchmaker.glue.schema import ancestry, classes, short_names
from matchmaker.glue.v2 import link as glue20

RULE = "rule"
CAPABILITY = "capability"
_ALONE = {"mappingqueue": "GLUE2ComputingShare", "interfacename": "GLUE2ComputingEndpoint"}
"""The fields, in lower case, that are of a share or an endpoint wherever they stand."""
KEPT = {CAPABILITY, "url", "otherinfo", *_ALONE}
"""Fields, in lower case, of which a text that cannot be read counts."""
_NAMED_BY = {
    **glue20.IDS,
    "glue2endpoint": "GLUE2EndpointID",
    "glue2storageendpoint": "GLUE2EndpointID",
}
"""The classes that become entries, and the attribute that names each. The last are not linked."""
_SHORT = {"environment": "executionenvironment"}

_NEVER_EMPTY = ("Endpoint", "Policy")
"""The ends of classes whose ids are left out where there are none: ipf has ``ShareID: []``, but no
empty list of endpoints or policies."""

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
    named: bool = False
    damaged: bool = False

    @property
    def nameless(self) -> bool:
        """Whether it is a share or an endpoint that lost its id."""
        return not self.named and self.kind.lower() in APART

    @property
    def dn(self) -> str:
        """A name as the LDAP rendering of GLUE 2.0 would have it."""
        own = rdn("object" if self.nameless else _NAMED_BY[self.kind.lower()], self.ident)
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


def add(
    inside: Object | None,
    name: str,
    texts: Iterable[str],
    found: list[Object],
    *,
    linked: bool = False,
) -> None:
    """Adds the texts of a field to the object that it is in.

    A rule and the id of another object count also where they are empty or stand in a wrong place:
    whatever held them may restrict. So does what says where a share or an endpoint is.

    Args:
        inside: the object, or None.
        name: of the field.
        texts: of the field, empty where they cannot be read.
        found: the objects so far. A rule that stands in no policy becomes a damaged one, and what
            stands in no share or endpoint becomes one without an id.
        linked: whether the field stands in ``Associations``.
    """
    if name.lower() == RULE and (inside is None or not inside.kind.endswith("Policy")):
        found.append(Object("GLUE2AccessPolicy", 0, inside, damaged=True))
        return
    if (kind := _ALONE.get(name.lower())) and (
        inside is None or name.lower() not in short_names(inside.kind)
    ):
        found.append(Object(kind, 0, inside, [(name, text) for text in texts]))
    if inside is None:
        return
    other = _association(name)
    if linked and other is None:
        inside.damaged = True
    elif other is not None and (linked or names_others(inside.kind, name)):
        ids = [text.strip() for text in texts]
        inside.damaged |= not all(ids) or (not ids and other.endswith(_NEVER_EMPTY))
        inside.associations += [(other, ident) for ident in ids]
    else:
        kept = name.lower() in (RULE, *KEPT)
        inside.fields += [(name, text) for text in texts if text or kept]


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
        made.named = bool(known_by)
    for made in filter(attrgetter("nameless"), known[:]):
        made.damaged = True
        # Its policies are lost with its id. One of nothing closes what they could restrict.
        ident = f"{made.ident}-policy"
        known.append(Object("GLUE2AccessPolicy", 0, made.above, ident=ident, damaged=True))
    policies = Counter(place for made in known for place in _governed(made))
    idents = {made.ident.lower() for made in known}
    keys = _keys(known, room)
    for made in known:
        dn = made.dn
        if made.above is not None and (made.above.kind.endswith("Policy") or not made.above.named):
            made.damaged = True
        if sum(name.lower() == "id" for name, _ in made.fields) > 1:
            made.damaged = True
        if not made.named and any(policies[place] > 1 for place in _governed(made)):
            made.damaged = True  # it may be another of the same thing
        if not room.take(dn):
            break
        pairs = [("objectClass", kind.name) for kind in ancestry(made.kind)]
        named_by = _NAMED_BY[made.kind.lower()]
        pairs += [(named_by, made.ident)] if not made.nameless else []
        for name, text in made.fields:
            found = short_names(made.kind).get(name.lower())
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


def _governed(made: Object) -> set[str]:
    """The ids, in lower case, of what a policy is of; nothing for an object of another class."""
    if not made.kind.endswith("Policy"):
        return set()
    above = {made.above.ident.lower()} if made.above is not None else set()
    return above | {ident.lower() for _, ident in made.associations}


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
