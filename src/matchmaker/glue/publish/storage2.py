"""Publishing storage as entries of GLUE 2.0: its services, its shares, and whom it is close to."""

from __future__ import annotations

from collections.abc import Iterator

from matchmaker.glue.entries import Entry
from matchmaker.glue.publish.glue1_to_glue2 import left, renamed, serving
from matchmaker.glue.publish.values import made_id
from matchmaker.glue.publish.writer import Pairs, Writer
from matchmaker.glue.records import ComputingElement, StorageElement, texts
from matchmaker.glue.v2.glue2_to_glue1 import CE_ID


def storage(writer: Writer, element: StorageElement, home: str, site: Pairs) -> Iterator[Entry]:
    """The entries of a storage element, under a name, with the pairs that say its site."""
    values = renamed(element.values, "GLUE2Service", "GLUE2Entity")
    more = [("GLUE2ServiceType", "org.ogf.glue.StorageService"), *site]
    other = left(element.values, values, "GlueSE")
    service = writer.below(home, "GLUE2StorageService", element.id, values, more, other=other)
    yield service
    for area in element.areas:
        ident = f"{element.id}/{area.id}"
        shown = renamed(area.values, "GLUE2StorageShare", "GLUE2Share", "GLUE2Entity")
        more = [("GLUE2ShareServiceForeignKey", element.id)]
        if state := serving(element.values.get("GlueSEStatus")):
            more.append(("GLUE2StorageShareServingState", state))
        other = left(area.values, shown, "GlueSA")
        share = writer.below(service.dn, "GLUE2StorageShare", ident, shown, more, other=other)
        yield share
        rules = texts(area.values.get("GlueSAAccessControlBaseRule")) or [f"VO:{area.id}"]
        yield from policy(writer, share.dn, ident, rules)


def policy(
    writer: Writer, dn: str, of: str, rules: list[str], kind: str = "Mapping"
) -> Iterator[Entry]:
    """The entry of the rules of access of a share, or of an endpoint, where it has any."""
    if rules:
        what = {"Mapping": "Share", "Access": "Endpoint"}[kind]
        more = [(f"GLUE2{kind}Policy{what}ForeignKey", of)]
        values = {"GLUE2PolicyRule": [*rules]}
        yield writer.below(dn, f"GLUE2{kind}Policy", made_id(f"{of}_policy"), values, more)


def close(writer: Writer, ce: ComputingElement, service_id: str, service: str) -> Iterator[Entry]:
    """The entries that tie a queue's service to the storage that is close to the queue."""
    for bind in ce.binds:
        ident = made_id(f"{ce.id}_{bind.se_id}")
        more = [
            ("GLUE2ToStorageServiceComputingServiceForeignKey", service_id),
            ("GLUE2ToStorageServiceStorageServiceForeignKey", bind.se_id),
            ("GLUE2EntityOtherInfo", f"{CE_ID}={ce.id}"),
        ]
        values = {"GLUE2ToStorageServiceLocalPath": bind.mount} if bind.mount else {}
        yield writer.below(service, "GLUE2ToStorageService", ident, values, more)
