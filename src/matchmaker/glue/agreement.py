"""Queues that are described several times admit whom all their descriptions admit.

Descriptions are of one queue where they have one id. What is left of a share of GLUE 2.0 that lost
its service, endpoint or manager has no such id: it may be of every queue of its name whose host and
site do not differ from its own. The descriptions of one source are compared here; `broker.sources`
compares those of several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Final, TypeAlias

import attrs

from matchmaker.classad import ClassAd, Value, parse_expr
from matchmaker.glue.access import CLOSED, RULES, agreed, denies, differ, folded
from matchmaker.glue.admission import all_rules, partly_closed, restricted
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.records import ComputingElement, GlueRecords, split_id, texts

_Place: TypeAlias = tuple[str, str, str]
"""A host, a queue and a site in lower case; host and site are empty where they are not known."""

_Key: TypeAlias = tuple[str | None, ...]
"""A place, with None for any host and any site."""

_DOMAIN: Final = parse_expr("Computing.Service.AdminDomainForeignKey")
_SERVICE: Final = parse_expr("Computing.Service.ID")
_ENDPOINT: Final = parse_expr("Computing.Endpoint.ID")


def agreeing_queues(
    first: GlueRecords, second: GlueRecords, report: Report
) -> tuple[list[ComputingElement], list[ComputingElement]]:
    """The queues of GLUE 1.3 and of 2.0, each admitting only whom all its descriptions admit."""
    queues = (*first.computing_elements, *second.computing_elements)
    found: dict[str, list[str]] = {}
    conflicts: dict[str, str] = {}
    partly = {ce.id.lower() for ce in queues if partly_closed(ce)}

    for ce in queues:
        key, rules = ce.id.lower(), all_rules(ce)
        first_rules = found.setdefault(key, rules)
        # Damage may make two descriptions alike that differed, and then closes a part of one.
        if first_rules is not rules and (key in partly or differ(first_rules, rules)):
            conflicts.setdefault(key, ce.id)
            found[key] = agreed(first_rules, rules)
    count = len(first.computing_elements)
    # A site of GLUE 1.3 is another than one of GLUE 2.0 only where both trees use one id.
    new = {site.id.lower() for site in second.sites}
    both = new & {site.id.lower() for site in first.sites}
    described = [
        [*_descriptions(ce, found[ce.id.lower()], both if number < count else new)]
        for number, ce in enumerate(queues)
    ]
    lost = [
        Description.of(ce.id, ce.values.get, all_rules(ce), _site(ce, new))
        for ce in (*first.adrift, *second.adrift)
    ]
    every = [*chain.from_iterable(described)]
    if lost or any(one.nameless for one in every):
        places = Places.among([(every, lost)])
        for ce, ones in zip(queues, described, strict=True):
            ident = ce.id.lower()
            narrower = found[ident]
            for one in ones:
                narrower = places.narrowed(one, narrower) or []
            if narrower != found[ident]:
                conflicts.setdefault(ident, ce.id)
                found[ident] = narrower
    for ident in conflicts.values():
        said = "it is described twice with different rules of access; what only one admits is"
        report(issue("access.conflict", f"{said} refused", raw=ident))
    made = [
        restricted(ce, found[ce.id.lower()]) if ce.id.lower() in conflicts else ce for ce in queues
    ]
    return made[:count], made[count:]


def _descriptions(ce: ComputingElement, rules: list[str], sites: set[str]) -> Iterator[Description]:
    """A queue, or each of its views where it goes by the id of a share at several endpoints."""
    whole = Description.of(ce.id, ce.values.get, rules, _site(ce, sites))
    if split_id(ce.id) is not None or whole.place[0] or not ce.views:
        yield whole
        return
    for view in ce.views:
        known = {**ce.values, **view.values}
        own = [*filter(denies, rules), *texts(view.values.get(RULES))]
        yield Description.of(ce.id, known.get, agreed(own, rules), whole.place[2])


def _site(ce: ComputingElement, sites: set[str]) -> str:
    """The site of a queue, as one of those given; another id may be damaged."""
    site = ce.cluster.site_id if ce.cluster is not None else ""
    inner = ce.values.get("GLUE2")
    if not site and isinstance(inner, ClassAd):
        site = next(iter(texts(_DOMAIN.eval(my=inner))), "")
    return site.lower() if site.lower() in sites else ""


@attrs.frozen(slots=True)
class Description:
    """What a source says of a queue and its views.

    Attributes:
        place: where the queue is; without a name where nothing says so.
        rules: of access; None where the author of an ad set none.
        at: the service, or else the id, of a share of GLUE 2.0, and its endpoint. Shares of one
            place at one endpoint are of one queue, as its views are.
        nameless: whether it is a share of GLUE 2.0 that goes by its id.
    """

    place: _Place
    rules: list[str] | None
    at: tuple[str, ...] = ()
    nameless: bool = False

    @classmethod
    def of(
        cls,
        ident: str,
        value: Callable[[str], Value | None],
        rules: list[str] | None,
        site: str = "",
    ) -> Description:
        """That of a queue by its id and its values, and the site where it is known."""
        parts, inner = split_id(ident), value("GLUE2")
        at: tuple[str, ...] = ()
        if isinstance(inner, ClassAd):
            service, endpoint = (_text(part.eval(my=inner)) for part in (_SERVICE, _ENDPOINT))
            at = (service or ident, endpoint)
        elif parts is None:
            return cls(("", "", ""), rules)
        contact, _, name = parts or (_text(value("GlueCEInfoHostName")), "", "")
        host = contact.partition("/")[0].partition(":")[0]
        name = (name or _text(value("GlueCEName"))).strip().lower()
        return cls((host.lower(), name, site), rules, at, parts is None)


def _text(value: Value | None) -> str:
    return value if isinstance(value, str) else ""


_Said: TypeAlias = dict[_Key, list[tuple[int, "_Common"]]]
"""By place the sources, each with what all that it says of the place, and within it, agree on."""


@attrs.frozen(slots=True)
class Places:
    """What each source says of queues by their places, as far as these distinguish them."""

    named: _Said
    nameless: _Said
    lost: _Said

    @classmethod
    def among(
        cls, sources: Iterable[tuple[Iterable[Description], Iterable[Description]]]
    ) -> Places:
        """The queues of each source, and what is left of others."""
        made = cls({}, {}, {})
        for number, (described, lost) in enumerate(sources):
            named: list[tuple[_Place, list[str] | None]] = []
            shares: dict[tuple[_Place, tuple[str, ...]], list[str]] = {}
            nameless: set[tuple[_Place, tuple[str, ...]]] = set()
            for one in described:
                if one.at:
                    shares.setdefault((one.place, one.at), []).extend(one.rules or ())
                if one.nameless:
                    nameless.add((one.place, one.at))
                else:
                    named.append((one.place, one.rules))
            for said, placed in (
                (made.named, named),
                (made.nameless, ((key[0], shares[key]) for key in nameless)),
                (made.lost, ((one.place, one.rules) for one in lost)),
            ):
                for key, common in _by_place(placed).items():
                    said.setdefault(key, []).append((number, common))
        return made

    def narrowed(
        self, one: Description, rules: list[str] | None, known: Container[int] | None = None
    ) -> list[str] | None:
        """The rules of a description's queue, less those of what may be the same queue.

        Args:
            one: the description.
            rules: of its queue.
            known: the sources that describe the queue by its id; others may call it otherwise.
                None where there is one source.
        """
        named = self.named if one.nameless else {}
        nameless = self.nameless if known is not None or not one.nameless else {}
        for said in (named, nameless, self.lost):
            for key in _meeting(one.place):
                for number, common in said.get(key, ()):
                    if known is None or number not in known:
                        rules = common.of(rules)
        return rules


@attrs.frozen(slots=True)
class _Common:
    """What several lists of rules agree on, whatever their number.

    Attributes:
        admitting: the rules that admit and are in all lists, by what they are folded to.
        denying: those that deny and are in any; all, where they are too many to repeat.
    """

    admitting: Mapping[str, str]
    denying: tuple[str, ...]

    @classmethod
    def among(cls, lists: Sequence[list[str]]) -> _Common:
        spelt = {folded(rule): rule for rule in chain.from_iterable(lists)}
        counted = Counter(chain.from_iterable({folded(rule) for rule in its} for its in lists))
        denying = tuple(dict.fromkeys(filter(denies, chain.from_iterable(lists))))
        return cls(
            {known: spelt[known] for known, number in counted.items() if number == len(lists)},
            denying if len(denying) <= LIMITS.repeated else (CLOSED,),
        )

    def of(self, rules: list[str] | None) -> list[str]:
        """What a list agrees on with these; the same list where it has nothing else.

        These alone for None, as who set no rule leaves it to the others.
        """
        if rules is None:
            return [*(rule for rule in self.admitting.values() if not denies(rule)), *self.denying]
        kept = [rule for rule in rules if denies(rule) or folded(rule) in self.admitting]
        own = set(map(folded, kept))
        return [*kept, *(rule for rule in self.denying if folded(rule) not in own)]


def _by_place(placed: Iterable[tuple[_Place, list[str] | None]]) -> dict[_Key, _Common]:
    """What all agree on of a place, and of every wider one."""
    made: dict[_Key, list[list[str]]] = {}
    for (host, name, site), rules in placed:
        # What is damaged and has no name may be of any queue.
        if rules is not None and (name or CLOSED in rules):
            for key in product((host, None), (name,), (site, None)):
                made.setdefault(key, []).append(rules)
    return {key: _Common.among(lists) for key, lists in made.items()}


def _meeting(place: _Place) -> Iterator[_Key]:
    """The keys of all places that may be one place."""
    host, name, site = place
    hosts, sites = ((known, "") if known else (None,) for known in (host, site))
    return product(hosts, (name, ""), sites) if name else iter(())
