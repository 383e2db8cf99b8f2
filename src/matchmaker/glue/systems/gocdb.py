"""GOCDB, the registry of EGI and of the WLCG: sites, service endpoints, and their downtimes.

Its programmatic interface gives XML, ``<results>`` of ``SITE`` (`get_site`), ``SERVICE_ENDPOINT``
(`get_service_endpoint`) or ``DOWNTIME`` (`get_downtime`, one for each service that is down, and
`get_downtime_nested_services`, with all of them in ``SERVICES``). A computing element is an
endpoint of one of the types in `FLAVOURS`. A downtime closes it if its severity is ``OUTAGE``; one
of ``WARNING`` is at risk, and stays open. (docs/sources.md has the sources.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree.ElementTree import Element

from matchmaker.classad import Value
from matchmaker.glue.issues import Report
from matchmaker.glue.records import GlueRecords
from matchmaker.glue.systems.building import Endpoint, text
from matchmaker.glue.systems.registry import Registry, children, inner

NAME: Final = "GOCDB"
ROOTS: Final = frozenset({"results"})

FLAVOURS: Final[Mapping[str, str]] = {
    "arc-ce": "arc-ce",
    "org.opensciencegrid.htcondorce": "htcondor-ce",
    "htcondor-ce": "htcondor-ce",
    "cream-ce": "cream-ce",
    "unicore6.targetsystemfactory": "unicore",
    "qcg.computing": "qcg",
}
"""The types of services, in lower case, that are computing elements, and their flavours."""

_ENTRIES: Final = ("SITE", "SERVICE_ENDPOINT", "DOWNTIME")


def recognises(document: object) -> bool:
    """Whether a document is GOCDB's: results that are sites, endpoints or downtimes, or none."""
    return (
        isinstance(document, Element)
        and document.tag == "results"
        and all(child.tag in (*_ENTRIES, "meta") for child in document)
    )


def records(document: object, report: Report) -> GlueRecords:
    """Make records of GOCDB's XML; what cannot be read is reported and left out."""
    registry = Registry(NAME, report)
    if isinstance(document, Element):
        _check_page(registry, document)
        certified: dict[str, bool] = {}
        for site in children(document, "SITE"):
            _add_site(registry, site, certified)
        for endpoint in children(document, "SERVICE_ENDPOINT"):
            _add_endpoint(registry, endpoint, certified)
        for downtime in children(document, "DOWNTIME"):
            _add_downtime(registry, downtime)
    return registry.records()


def _check_page(registry: Registry, document: Element) -> None:
    """Report a page that is full, behind which there may be another."""
    count = inner(document, "meta/count")
    following = [link for link in document.iterfind("meta/link") if link.get("rel") == "next"]
    if following and count and count == inner(document, "meta/max_page_size"):
        said = f"a page of {count} results; read the next one too"
        registry.leave("system.page", said, text(following[0].get("href")))


def _add_site(registry: Registry, site: Element, certified: dict[str, bool]) -> None:
    ident = text(site.get("NAME")) or inner(site, "SHORT_NAME")
    if not ident:
        registry.leave("system.entry", "a SITE without a NAME, skipped", text(site.get("ID")))
        return
    status = inner(site, "CERTIFICATION_STATUS")
    if status:
        certified[ident] = status.lower() == "certified"
    registry.add_site(
        ident,
        {
            "GlueSiteName": ident,
            "GlueSiteDescription": inner(site, "OFFICIAL_NAME"),
            "GlueSiteWeb": inner(site, "HOME_URL"),
            "CertificationStatus": status,
        },
    )


def _add_endpoint(registry: Registry, service: Element, certified: Mapping[str, bool]) -> None:
    kind = inner(service, "SERVICE_TYPE")
    flavour = FLAVOURS.get(kind.lower())
    if flavour is None:
        return  # storage, a BDII, a portal
    host = inner(service, "HOSTNAME")
    endpoint = Endpoint.of(host, flavour)
    if endpoint is None:
        said = f"a service of type {kind} without a HOSTNAME, left out"
        registry.leave("system.no-endpoint", said, host)
        return
    for url in (inner(service, "URL"), *(inner(e, "URL") for e in service.iter("ENDPOINT"))):
        # Many have the LDAP server of the information system here, or a page.
        told = Endpoint.of(url, flavour) if not url.startswith("ldap") else None
        if told is not None and told.host == endpoint.host:
            endpoint = told
            break
    site = inner(service, "SITENAME")
    values: dict[str, Value] = {"ServiceType": kind}
    scopes: list[Value] = [text(scope.text) for scope in service.iter("SCOPE")]
    if scopes:
        values["Scopes"] = scopes
    closed = inner(service, "IN_PRODUCTION").upper() == "N" or not certified.get(site, True)
    registry.add_ce(endpoint, site, values, closed=closed)


def _add_downtime(registry: Registry, downtime: Element) -> None:
    """Add a downtime for each computing element that it affects."""
    services = downtime.find("SERVICES")
    affected = [downtime] if services is None else list(children(services, "SERVICE"))
    for host, kind in _computing(affected):
        registry.add_downtime(
            host,
            kind,
            (inner(downtime, "START_DATE"), inner(downtime, "END_DATE")),
            severity=inner(downtime, "SEVERITY").upper(),
            why=(text(downtime.get("CLASSIFICATION")).lower(), inner(downtime, "DESCRIPTION")),
            url=inner(downtime, "GOCDB_PORTAL_URL"),
        )


def _computing(affected: list[Element]) -> Iterator[tuple[str, str]]:
    """Yield the host and the type of each service that is a computing element."""
    for service in affected:
        kind = inner(service, "SERVICE_TYPE")
        if kind.lower() in FLAVOURS:
            yield inner(service, "HOSTNAME"), kind
