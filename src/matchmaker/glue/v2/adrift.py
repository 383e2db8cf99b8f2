"""Shares of GLUE 2.0 without an id, a whole service or an endpoint, and what they say of queues.

`link` makes no queues of them. `agreement` closes the queues that they may be of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from matchmaker.classad import ClassAd, Value
from matchmaker.glue.access import CLOSED, RULES
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.linking import Record, keys_of, rdns
from matchmaker.glue.records import ComputingElement
from matchmaker.glue.v2.glue2_to_glue1 import CE_ID, address, marks, queue_name
from matchmaker.glue.v2.pairs import takes_jobs
from matchmaker.glue.v2.policies import SERVICES

ENDPOINTS: Final = (
    "GLUE2ShareEndpointForeignKey",
    "GLUE2ComputingShareComputingEndpointForeignKey",
)
"""The attributes by which a share names its endpoints."""


def adrift(
    kinds: Mapping[str, list[Record]],
    others: Iterable[tuple[str, str]] = (),
    unclassed: Collection[str] = frozenset(),
    short: Collection[str] = frozenset(),
) -> Iterator[ComputingElement]:
    """Shares that lost their id, service or endpoint, or that a bound left out: they admit nobody.

    They are no queues, but say of which queue, host and site the access is not known. The hosts are
    those of the endpoints of its service, where all of these are known; of a lost endpoint any. An
    endpoint that lost its id or its service may be that of each queue of its host; without a host,
    of each share of its service, or of any, that names no endpoint.

    Args:
        kinds: the records, as `link` takes them.
        others: shares and endpoints of none of these classes: service and id in lower case.
        unclassed: the services, in lower case, of endpoints of other classes that may take jobs.
        short: the services, in lower case, whose shares are not all linked.
    """
    services = {service.id.lower() for service in kinds["glue2computingservice"]}
    anywhere = set(unclassed)
    for endpoint in kinds["glue2computingendpoint"]:
        host, _ = address(endpoint)
        its = services.intersection(keys_of(endpoint, SERVICES, "GLUE2ServiceID"))
        if (endpoint.id and its) or not takes_jobs(endpoint):
            continue
        if host:
            yield ComputingElement("", {**_closed(endpoint), "GlueCEInfoHostName": host})
        else:
            anywhere |= its or services
    known = services.difference(short)
    offered = {
        (service, endpoint.id.lower())
        for endpoint in kinds["glue2computingendpoint"]
        for service in keys_of(endpoint, SERVICES, "GLUE2ServiceID")
    }
    hosts: dict[str, set[str]] = {}
    placed = ((s, address(e)[0]) for e in kinds["glue2computingendpoint"] for s in _services(e))
    for service, host in (*placed, *((service, "") for service, _ in others)):
        its = hosts.setdefault(service, set())
        if len(its) <= LIMITS.repeated:
            its.add(host)
    for share in kinds["glue2computingshare"]:
        its = set(chain.from_iterable(hosts.get(s, ()) for s in _services(share)))
        of = keys_of(share, SERVICES, "GLUE2ServiceID")
        wanted = keys_of(share, ENDPOINTS, "")
        held = all(any((service, key) in offered for service in of) for key in wanted)
        whole = share.id and not known.isdisjoint(of)
        if whole and held and (wanted or anywhere.isdisjoint(of)):
            continue
        # A lost endpoint may be at any host.
        if whole or not held or "" in its or not 0 < len(its) <= LIMITS.repeated:
            its = {""}
        values = {**_closed(share), "GlueCEName": queue_name(share)}
        for said in marks(share, CE_ID):
            yield ComputingElement(said, values)
        for host in its:
            yield ComputingElement("", {**values, "GlueCEInfoHostName": host})


def _closed(record: Record) -> dict[str, Value]:
    """What closes queues of the site that a share or an endpoint is named under."""
    domain = rdns(record.entry.dn).get("glue2domainid", "")
    inner = {"Service": ClassAd({"AdminDomainForeignKey": domain})}
    return {"GLUE2": ClassAd({"Computing": ClassAd(inner)}), RULES: [CLOSED]}


def _services(record: Record) -> set[str]:
    """The services that a share or an endpoint is of, by its keys and by its name."""
    return {*keys_of(record, SERVICES, ""), *keys_of(record, (), "GLUE2ServiceID")}
