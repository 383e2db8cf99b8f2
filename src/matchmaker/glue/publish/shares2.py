"""Publishing queues as GLUE 2.0: the endpoints, the shares and the policies of a service.

`tree2` decides which queues a service has, and publishes the rest of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import attrs

from matchmaker.classad import Value
from matchmaker.glue.access import ALSO, CLOSED, RULES, denies, views
from matchmaker.glue.entries import Entry, rdn
from matchmaker.glue.publish.glue1_to_glue2 import left, nested, renamed, state
from matchmaker.glue.publish.storage2 import policy
from matchmaker.glue.publish.values import flat, key, made_id
from matchmaker.glue.publish.writer import Writer
from matchmaker.glue.records import ComputingElement, Values, split_id, texts
from matchmaker.glue.v2.glue2_to_glue1 import CE_ID, VO_VIEW

ENDPOINT: Final = "GLUE2ComputingEndpoint"
INTERFACES: Final[Mapping[str, tuple[str, str]]] = {
    "cream": ("org.glite.ce.CREAM", "org.glite.ce.CREAM"),
    "jobmanager": ("org.edg.gatekeeper", "org.edg.gatekeeper"),
    "nordugrid": ("org.nordugrid.arex", "org.nordugrid.gridftpjob"),
    "emies": ("org.nordugrid.arex", "org.ogf.glue.emies.activitycreation"),
    "arex": ("org.nordugrid.arex", "org.nordugrid.arex"),
    "arcrest": ("org.nordugrid.arex", "org.nordugrid.arcrest"),
    "gridftpjob": ("org.nordugrid.arex", "org.nordugrid.gridftpjob"),
    "htcondorce": ("org.opensciencegrid.htcondorce", "org.opensciencegrid.htcondorce"),
    "condorce": ("org.opensciencegrid.htcondorce", "org.opensciencegrid.htcondorce"),
}
"""The service's type and the interface's name, in the vocabularies of GLUE 2.0, by the word that an
id of GLUE 1.3 has for them."""

_QUEUE: Final = ("GlueCE", "GlueCEInfo", "GlueCEState", "GlueCEPolicy")


@attrs.frozen(slots=True)
class Place:
    """Where the parts of a service are: their names and the ids that keys are made of."""

    home: str
    service_id: str
    manager_id: str

    @property
    def service(self) -> str:
        """The name of the service's entry."""
        return f"{rdn('GLUE2ServiceID', self.service_id)},{self.home}"

    @property
    def manager(self) -> str:
        """The name of the manager's entry."""
        return f"{rdn('GLUE2ManagerID', self.manager_id)},{self.service}"


def or_else(value: Value | None, other: str) -> str:
    """A text that can be an id, or else another."""
    return value if isinstance(value, str) and key(value) else other


def shares(writer: Writer, queues: Sequence[ComputingElement], place: Place) -> Iterator[Entry]:
    """The endpoints of the queues of a service, their shares, and the policies of both."""
    states = _states(queues, place)
    for ce in queues:
        yield from _queue(writer, ce, place, states)
    yield from _mapping_policies(writer, queues, place)
    yield from _access_policies(writer, queues, place)


def _levels(ce: ComputingElement) -> Iterator[tuple[str, Values]]:
    """What a queue is published as: itself, unless it is but its views, and each of its views."""
    common = {name: value for name, value in ce.values.items() if name != "GLUE2"}
    for view, access in views(ce):
        values = dict(ce.values) if view is None else {**common, **view.values}
        values.pop(RULES, None)
        values.update(access)
        yield view.id if view is not None else "", values


def _states(queues: Sequence[ComputingElement], place: Place) -> Mapping[str, str]:
    """The states of endpoints: in production where one of the queues is, else what all are."""
    found: dict[str, set[str]] = {}
    for ce in queues:
        ident = str(_endpoint(ce, place)["GLUE2EndpointID"])
        found.setdefault(ident, set()).update(state(values) for _, values in _levels(ce))
    made = {}
    for ident, states in found.items():
        one = "production" if "production" in states else states.pop() if len(states) == 1 else ""
        if one:
            made[ident] = one
    return made


def _queue(
    writer: Writer, ce: ComputingElement, place: Place, states: Mapping[str, str]
) -> Iterator[Entry]:
    """The endpoint of a queue, and its shares: for itself and for each of its views."""
    for view, values in _levels(ce):
        endpoint = nested(values, ENDPOINT) or _endpoint(ce, place)
        ident = or_else(endpoint.get("GLUE2EndpointID"), ce.id)
        if ident in states:
            endpoint.setdefault("GLUE2EndpointServingState", states[ident])
        more = [("GLUE2EndpointServiceForeignKey", place.service_id)]
        yield writer.below(place.service, ENDPOINT, ident, endpoint, more)
        yield from _share(writer, (ce, view), values, ident, place)


def _endpoint(ce: ComputingElement, place: Place) -> dict[str, Value]:
    """The endpoint that a queue's id begins with: ``host:port/interface``."""
    host, word = ce.id.partition("/")[0], interface(ce)
    listed = [*texts(ce.values.get("GlueCEInfoContactString")), f"https://{host}/{word}"]
    found: dict[str, Value] = {"GLUE2EndpointID": f"{host or place.service_id}_{word or 'jobs'}"}
    if (url := next((text for text in listed if _is_at(text, host)), None)) is not None:
        found["GLUE2EndpointURL"] = url
    if word:
        name = INTERFACES[word][1] if word in INTERFACES else word
        found["GLUE2EndpointInterfaceName"] = found["GLUE2EndpointImplementationName"] = name
        found["GLUE2EndpointCapability"] = ["executionmanagement.jobexecution"]
    return found


def interface(ce: ComputingElement) -> str:
    """The word for the interface in a queue's id: ``cream`` in ``host:port/cream-pbs-long``."""
    return ce.id.partition("/")[2].partition("-")[0]


def _mapping_policies(
    writer: Writer, queues: Sequence[ComputingElement], place: Place
) -> Iterator[Entry]:
    """The policy of each share: of one that is several queues, what all of them agree on."""
    found: dict[str, Values] = {}
    for ce in queues:
        for view, values in _levels(ce):
            ident = _share_id(ce, view, values)
            if RULES in values:
                own: Values = {RULES: values[RULES]}
                found[ident] = flat({**own, ALSO: [found[ident][RULES]]}) if ident in found else own
    for ident, known in found.items():
        if rules := texts(known[RULES]) or [CLOSED]:
            dn = f"{rdn('GLUE2ShareID', ident)},{place.service}"
            yield from policy(writer, dn, ident, rules)


def _share_id(ce: ComputingElement, view: str, values: Values) -> str:
    known = nested(values, "GLUE2ComputingShare").get("GLUE2ShareID")
    return or_else(known, made_id(f"{ce.id}/{view}" if view else ce.id))


def _access_policies(
    writer: Writer, queues: Sequence[ComputingElement], place: Place
) -> Iterator[Entry]:
    """The policy of each endpoint: it admits all whom a share at it admits, which decides itself.

    An endpoint with a share of which it is not known whom it admits has none.
    """
    found: dict[str, dict[str, None]] = {}
    unknown: set[str] = set()
    for ce in queues:
        for _, values in _levels(ce):
            own = nested(values, ENDPOINT) or _endpoint(ce, place)
            ident = or_else(own.get("GLUE2EndpointID"), ce.id)
            rules = found.setdefault(ident, {})
            rules |= {r: None for r in texts(values.get(RULES)) if not denies(r)}
            if RULES not in values:
                unknown.add(ident)
    for ident, admitting in found.items():
        if admitting and ident not in unknown:
            dn = f"{rdn('GLUE2EndpointID', ident)},{place.service}"
            yield from policy(writer, dn, ident, list(admitting), "Access")


def _is_at(url: str, address: str) -> bool:
    """Whether a URL is of the host of an address; of another's the reader would not believe it."""
    try:
        return "://" in url and urlsplit(url).hostname == address.partition(":")[0].lower()
    except ValueError:
        return False


def _share(
    writer: Writer, of: tuple[ComputingElement, str], values: Values, endpoint: str, place: Place
) -> Iterator[Entry]:
    ce, view = of
    shown = nested(values, "GLUE2ComputingShare")
    ident = _share_id(ce, view, values)
    more = [("GLUE2ShareServiceForeignKey", place.service_id)]
    other: Values = {}
    if not shown:
        shown = renamed(values, "GLUE2ComputingShare", "GLUE2Share")
        parts = split_id(ce.id)
        if parts is not None:
            shown["GLUE2ComputingShareMappingQueue"] = parts[2]
        more += [("GLUE2EntityOtherInfo", f"{CE_ID}={ce.id}")]
        more += [("GLUE2EntityOtherInfo", f"{VO_VIEW}={view}")] if view else []
        other = left(values, shown, *_QUEUE)
        if served := state(values):
            shown["GLUE2ComputingShareServingState"] = served
    if "GLUE2ShareEndpointForeignKey" not in shown:
        more.append(("GLUE2ShareEndpointForeignKey", endpoint))
    if "GLUE2ShareResourceForeignKey" not in shown and ce.cluster is not None:
        more += [("GLUE2ShareResourceForeignKey", sub.id) for sub in ce.cluster.subclusters]
    share = writer.below(place.service, "GLUE2ComputingShare", ident, shown, more, other=other)
    yield share
    if RULES in values:
        writer.access(share.dn, values[RULES])
