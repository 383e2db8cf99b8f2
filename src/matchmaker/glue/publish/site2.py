"""A site in GLUE 2.0: its domain, where it is, and whom to write to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from matchmaker.classad import Value
from matchmaker.glue.entries import Entry
from matchmaker.glue.publish.glue1_to_glue2 import renamed
from matchmaker.glue.publish.values import made_id
from matchmaker.glue.publish.writer import Writer
from matchmaker.glue.records import Site, Values
from matchmaker.glue.v2.glue2_to_glue1 import CONTACTS

_DEGREES: Final = (
    ("GlueSiteLatitude", "GLUE2LocationLatitude", 90),
    ("GlueSiteLongitude", "GLUE2LocationLongitude", 180),
)


def site_entries(writer: Writer, dn: str, site_id: str, site: Site | None) -> Iterator[Entry]:
    """The entries of a site: a domain, and below it a location and a contact of each type."""
    known = site.values if site is not None else {}
    values = renamed(known, "GLUE2Domain", "GLUE2AdminDomain")
    if "GlueSiteName" in known:
        values["GLUE2EntityName"] = known["GlueSiteName"]
    yield writer.entry(dn, "GLUE2AdminDomain", values, [("GLUE2DomainID", site_id)])
    if place := _location(known):
        ident, more = made_id(f"{site_id}_location"), [("GLUE2LocationDomainForeignKey", site_id)]
        yield writer.below(dn, "GLUE2Location", ident, place, more)
    for kind, name in CONTACTS.items():
        address = known.get(name)
        if not isinstance(address, str) or not address.strip():
            continue
        ident, more = made_id(f"{site_id}_{kind}"), [("GLUE2ContactDomainForeignKey", site_id)]
        contact: dict[str, Value] = {"GLUE2ContactType": kind, "GLUE2ContactDetail": address}
        yield writer.below(dn, "GLUE2Contact", ident, contact, more)


def _location(known: Values) -> dict[str, Value]:
    """Where a site is: its place, with the country behind the last comma, and its coordinates."""
    found: dict[str, Value] = {}
    place = known.get("GlueSiteLocation")
    if isinstance(place, str) and place.strip():
        found["GLUE2LocationPlace"] = place
        if country := place.rpartition(",")[2].strip():
            found["GLUE2LocationCountry"] = country
    for name, other, most in _DEGREES:
        try:
            degrees = float(str(known.get(name)))
        except ValueError:
            continue
        if -most <= degrees <= most:
            found[other] = degrees
    return found
