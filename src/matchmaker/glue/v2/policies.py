"""The rules of access of shares and endpoints in GLUE 2.0, which policies publish.

The id of a policy is its own only within its parent: ARC repeats one under every endpoint. What a
policy is of is said by its key and by its place in the tree; where these differ, or where it is of
nothing that the source has, its denials count all the same. What the rules mean is in `access`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from matchmaker.glue.access import CLOSED, POLICY_RULE, both, denies
from matchmaker.glue.admission import agreeing, closed, without_policy
from matchmaker.glue.issues import Report
from matchmaker.glue.linking import Children, Record, duplicate, finding, home, keys_of, rdns
from matchmaker.glue.v2.pairs import takes_jobs

_KINDS: Final = {
    "Mapping": ("glue2mappingpolicy", "GLUE2MappingPolicyShareForeignKey", "GLUE2ShareID"),
    "Access": ("glue2accesspolicy", "GLUE2AccessPolicyEndpointForeignKey", "GLUE2EndpointID"),
}

SERVICES: Final = tuple(
    name
    for kind in ("Share", "Endpoint", "Manager")
    for name in (
        f"GLUE2{kind}ServiceForeignKey",
        f"GLUE2Computing{kind}ComputingServiceForeignKey",
    )
)
"""The keys of shares, endpoints and managers to their services."""


@attrs.frozen(slots=True)
class _Side:
    """The policies of shares, or those of endpoints.

    Attributes:
        of: the policies by what they are of.
        lost: those that are of nothing in the source.
        publishing: the services some of whose shares, or endpoints for jobs, have a policy.
        aside: the services some of whose endpoints for other ends have one.
    """

    of: Children
    lost: Sequence[Record]
    publishing: frozenset[str]
    aside: frozenset[str]


@attrs.frozen(slots=True)
class Policies:
    """Who may use which share through which endpoint.

    Attributes:
        report: called with an `Issue` for what has no rule of access.
        open: whether what has no policy is open to all.
        broken_off: whether the source ended too early, so that any policy may be missing.
    """

    report: Report
    open: bool
    broken_off: bool
    _sides: Mapping[str, _Side]
    _services: frozenset[str]
    _told: set[int] = attrs.field(factory=set, init=False)

    @classmethod
    def of(
        cls,
        kinds: Mapping[str, list[Record]],
        others: Iterable[tuple[str, str]],
        report: Report,
        *,
        broken_off: bool = False,
        open_: bool = False,
    ) -> Policies:
        """From records by class.

        `others` are shares and endpoints of none of these classes: service and id in lower case.
        """
        services = frozenset(
            r.id.lower()
            for n in ("computing", "storage")
            for r in kinds[f"glue2{n}service"]
            if r.id
        )
        computing = {r.id.lower() for r in kinds["glue2computingservice"]}
        # In a service of computing it may be a share or an endpoint that lost its class.
        stored = _placed(kinds["glue2storageshare"], services)
        elsewhere = [place for place in (*others, *stored) if place[0] not in computing]
        shares = kinds["glue2computingshare"]
        endpoints = [e for e in kinds["glue2computingendpoint"] if takes_jobs(e)]
        idle = [e for e in kinds["glue2computingendpoint"] if not takes_jobs(e)]
        # A share or an endpoint of no service may be of any: its policies are lost.
        apart = [*_placed(idle, services), *elsewhere]
        sides = {
            name: _side(
                kinds[_KINDS[name][0]],
                name,
                _Known(_by_id(_placed(targets, services)), _by_id(apart)),
                report,
            )
            for name, targets in (("Mapping", shares), ("Access", endpoints))
        }
        return cls(report, open_, broken_off, sides, services)

    def records(self, kind: str, target: Record | None, service: str) -> list[Record]:
        """The policies of a share (``Mapping``) or an endpoint (``Access``) of a service."""
        if target is None:
            return []
        return self._sides[kind].of.of(target, service)

    def rules(
        self,
        share: Record,
        endpoint: Record | None,
        service: str,
        mapped: Sequence[Record],
        admitted: Sequence[Record],
    ) -> list[str]:
        """The rules of access of the queue that a share at an endpoint is.

        `mapped` and `admitted` are the policies of the two, from `records`.
        """
        ours = self._one("Mapping", share, service, mapped)
        theirs = self._one("Access", endpoint, service, admitted)
        if ours is None and theirs is None:
            if self.open:
                ours = ["ALL"]
            else:
                self._tell(share, "")
        damaged = (CLOSED for part in (share, endpoint) if part and POLICY_RULE in part.values)
        denied = [*damaged, *self._lost_denials(service)]
        if endpoint is None and service in self._sides["Access"].aside:
            # One of these endpoints may be that of the share, and have lost what says so.
            self._tell(share, " of an endpoint for jobs, and others of its service have some")
            denied.append(CLOSED)
        if self.broken_off:
            denied.append(CLOSED)
        return list(dict.fromkeys([*both(ours, theirs), *denied]))

    def _one(
        self, kind: str, target: Record | None, service: str, policies: Sequence[Record]
    ) -> list[str] | None:
        """The rules of one side; None where it publishes none, and leaves it to the other."""
        known = [policy for policy in policies if POLICY_RULE in policy.values]
        if known:
            rules = [rule for policy in known for rule in policy.texts(POLICY_RULE)]
            # One without a rule beside others that have some may have lost a denial.
            return rules if len(known) == len(policies) else [*rules, CLOSED]
        side = self._sides[kind]
        if any(self._covers(policy, service) for policy in side.lost):
            self._tell(target, ", and a policy of its service is of nothing")
            return []
        if policies or (target is not None and not self.open and service in side.publishing):
            self._tell(target, ", as others of its service have")
            return []
        return None

    def _tell(self, target: Record | None, more: str) -> None:
        """Reports once that a share or an endpoint admits nobody."""
        if target is not None and id(target) not in self._told:
            self._told.add(id(target))
            self.report(without_policy(target, more))

    def _covers(self, policy: Record, service: str) -> bool:
        """Whether a lost policy may have been of something in a service."""
        placed = home(policy)
        return placed == service or placed not in self._services

    def _lost_denials(self, service: str) -> Iterator[str]:
        for side in self._sides.values():
            for policy in side.lost:
                if self._covers(policy, service):
                    yield from filter(denies, policy.texts(POLICY_RULE))


@attrs.frozen(slots=True)
class _Known:
    """The shares or endpoints of a source, as the services that have one, by id in lower case.

    Attributes:
        targets: those of computing.
        apart: others.
    """

    targets: Mapping[str, frozenset[str]]
    apart: Mapping[str, frozenset[str]]

    def home(self, service: str, ident: str) -> str | None:
        """The service that has what a policy is of by an id; None for no such, and for several.

        Args:
            service: that the policy stands in; empty for none. A policy in none must not join
                those of two: ids repeat in services.
            ident: of a share or an endpoint.
        """
        found = self.targets.get(ident, _NOWHERE) | self.apart.get(ident, _NOWHERE)
        if service:
            return service if service in found else None
        return next(iter(found)) or None if len(found) == 1 else None


_NOWHERE: Final = frozenset[str]()


def _placed(records: Iterable[Record], services: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The services that records are of, empty for one that is not known, with the records' ids."""
    for record in records:
        for service in keys_of(record, SERVICES, "GLUE2ServiceID") or [""]:
            yield service if service in services else "", record.id.lower()


def _by_id(placed: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for service, ident in placed:
        found.setdefault(ident, set()).add(service)
    return {ident: frozenset(services) for ident, services in found.items()}


def _side(policies: Iterable[Record], name: str, known: _Known, report: Report) -> _Side:
    kind, key, ancestor = _KINDS[name]
    of: dict[tuple[str, str, str], Record] = {}
    lost: list[Record] = []
    for record in policies:
        policy = record
        placed = rdns(policy.entry.dn).get(ancestor.lower(), "").lower()
        named = keys_of(policy, (key,), "")
        if placed and named and named != [placed]:
            said = "its key and its place in the tree differ; it admits nobody"
            report(finding(policy, "access.conflict", said, "; ".join(named)))
            policy = closed(policy, POLICY_RULE)
        of_what = dict.fromkeys([*named, *([placed] if placed else [])])
        found = [(i, known.home(home(policy), i)) for i in of_what]
        if all(service is None for _, service in found):
            lost.append(policy)
        for ident, service in found:
            if service is None:
                continue
            # Where two of one id are of one thing and differ, what they agree on stays.
            at = ident, service, policy.id.lower()
            if (first := of.get(at)) is not None:
                report(duplicate(policy, first, "a policy of its id came before"))
                policy = agreeing(first, policy, kind, report)
            of[at] = policy
    children = Children((ident, service, policy) for (ident, service, _), policy in of.items())

    def with_policy(placed: Mapping[str, frozenset[str]]) -> frozenset[str]:
        pairs = ((ident, s) for ident, services in placed.items() for s in services if s)
        return frozenset(s for ident, s in pairs if children.at(s, ident))

    return _Side(children, lost, with_policy(known.targets), with_policy(known.apart))
