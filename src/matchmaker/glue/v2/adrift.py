"""Shares of GLUE 2.0 without an id or a whole service, and what they say of queues.

`link` makes no queues of them. `agreement` closes the queues that they may be of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from matchmaker.classad import ClassAd, Value
from matchmaker.glue.access import CLOSED, RULES
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.linking import Record, keys_of, rdns
from matchmaker.glue.records import ComputingElement
from matchmaker.glue.v2.glue2_to_glue1 import CE_ID, address, marks, queue_name
from matchmaker.glue.v2.policies import SERVICES


def adrift(
    kinds: Mapping[str, list[Record]],
    others: Iterable[tuple[str, str]] = (),
    short: Collection[str] = frozenset(),
) -> Iterator[ComputingElement]:
    """Shares that lost their id or service, or that a bound left out of it: they admit nobody.

    They are no queues, but say of which queue, host and site the access is not known. The hosts are
    those of the endpoints of its service, where all of these are known.

    Args:
        kinds: the records, as `link` takes them.
        others: shares and endpoints of none of these classes: service and id in lower case.
        short: the services, in lower case, whose shares are not all linked.
    """
    known = {service.id.lower() for service in kinds["glue2computingservice"]}.difference(short)
    hosts: dict[str, set[str]] = {}
    placed = ((s, address(e)[0]) for e in kinds["glue2computingendpoint"] for s in _services(e))
    for service, host in (*placed, *((service, "") for service, _ in others)):
        its = hosts.setdefault(service, set())
        if len(its) <= LIMITS.repeated:
            its.add(host)
    for share in kinds["glue2computingshare"]:
        if share.id and not known.isdisjoint(keys_of(share, SERVICES, "GLUE2ServiceID")):
            continue
        its = set(chain.from_iterable(hosts.get(s, ()) for s in _services(share)))
        if "" in its or not 0 < len(its) <= LIMITS.repeated:
            its = {""}  # any
        domain = rdns(share.entry.dn).get("glue2domainid", "")
        inner = {"Service": ClassAd({"AdminDomainForeignKey": domain})}
        values: dict[str, Value] = {
            "GlueCEName": queue_name(share),
            "GLUE2": ClassAd({"Computing": ClassAd(inner)}),
            RULES: [CLOSED],
        }
        for said in marks(share, CE_ID):
            yield ComputingElement(said, values)
        for host in its:
            yield ComputingElement("", {**values, "GlueCEInfoHostName": host})


def _services(record: Record) -> set[str]:
    """The services that a share or an endpoint is of, by its keys and by its name."""
    return {*keys_of(record, SERVICES, ""), *keys_of(record, (), "GLUE2ServiceID")}
