"""From entries of GLUE 2.0 to storage elements, and which queues are close to them.

`link` links the queues, and `glue2_to_glue1` gives the values their names of GLUE 1.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import attrs

from matchmaker.glue.issues import Report
from matchmaker.glue.linking import Quota, Record, dangling, grouped, keys_of
from matchmaker.glue.records import Bind, StorageArea, StorageElement
from matchmaker.glue.v2 import glue2_to_glue1 as translate
from matchmaker.glue.v2.glue2_to_glue1 import CE_ID, marks

Kinds: TypeAlias = Mapping[str, list[Record]]


def storage_elements(kinds: Kinds, links: Quota) -> Iterator[StorageElement]:
    """The storage elements of a source: services of storage, an area for each VO of a share."""

    def of(ident: str, kind: str, *keys: str) -> dict[str, list[Record]]:
        names = tuple(f"GLUE2{key}ForeignKey" for key in keys)
        return grouped(kinds[f"glue2{kind}"], names, ident)

    service_id, share_id = "GLUE2ServiceID", "GLUE2ShareID"
    shares = of(service_id, "storageshare", "ShareService", "StorageShareStorageService")
    mapping = of(share_id, "mappingpolicy", "MappingPolicyShare")
    sizes = of(share_id, "storagesharecapacity", "StorageShareCapacityStorageShare")
    totals = of(service_id, "storageservicecapacity", "StorageServiceCapacityStorageService")
    for service in kinds["glue2storageservice"]:
        areas: list[StorageArea] = []
        for share in links.take(shares.get(service.id.lower(), []), service):
            key = share.id.lower()
            found = translate.areas(
                share,
                links.take(mapping.get(key, []), share),
                links.take(sizes.get(key, []), share),
            )
            areas += links.take((StorageArea(name, its) for name, its in found), share)
        values = translate.storage(service, totals.get(service.id.lower(), []))
        areas.sort(key=lambda area: (area.id.lower(), area.id))
        yield StorageElement(service.id, values, tuple(areas))


@attrs.frozen(slots=True)
class Close:
    """Where a queue finds the storage that is close to it."""

    of_services: Mapping[str, list[Record]]
    of_queues: Mapping[tuple[str, str], list[Record]]
    elements: Mapping[str, StorageElement]
    report: Report

    @classmethod
    def of(cls, kinds: Kinds, elements: Mapping[str, StorageElement], report: Report) -> Close:
        """From records by class, and storage elements by id."""
        names = ("GLUE2ToStorageServiceComputingServiceForeignKey",)
        general: dict[str, list[Record]] = {}
        of_queues: dict[tuple[str, str], list[Record]] = {}
        by_service = grouped(kinds["glue2tostorageservice"], names, "GLUE2ServiceID")
        for service, records in by_service.items():
            for record in records:
                only = marks(record, CE_ID)
                if not only:
                    general.setdefault(service, []).append(record)
                for ce in only:
                    of_queues.setdefault((service, ce.lower()), []).append(record)
        return cls(general, of_queues, elements, report)

    def to(self, service_id: str, ce_id: str) -> Iterator[Record]:
        """What says that storage is close to a queue of a service."""
        yield from self.of_services.get(service_id.lower(), [])
        yield from self.of_queues.get((service_id.lower(), ce_id.lower()), [])

    def bind(self, record: Record) -> Bind:
        """The link that a record says there is."""
        names = keys_of(record, ("GLUE2ToStorageServiceStorageServiceForeignKey",), "")
        se_id = record.text("GLUE2ToStorageServiceStorageServiceForeignKey")
        se = self.elements.get(names[0]) if names else None
        if se is None:
            self.report(dangling(record, f"GLUE2ServiceID={se_id}"))
        mount = record.text("GLUE2ToStorageServiceLocalPath")
        return Bind(se_id, mount, translate.bind(record), se)
