"""Queues that one source describes several times admit whom all their descriptions admit.

Descriptions are of one queue where they have one id. What is left of a share of GLUE 2.0 that lost
its service, endpoint or manager has no such id: it may be of every queue of its name whose host and
site do not differ from its own. Descriptions in several sources are `joined` without this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Final, TypeAlias

import attrs

from matchmaker.classad import ClassAd, parse_expr
from matchmaker.glue.access import CLOSED, agreed, denies, differ, folded
from matchmaker.glue.admission import all_rules, restricted
from matchmaker.glue.issues import Report, excerpt, issue
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.records import ComputingElement, GlueRecords, split_id, texts

_Place: TypeAlias = tuple[str, str, str]
"""A host, a queue and a site in lower case; host and site are empty where they are not known."""

_Key: TypeAlias = tuple[str | None, ...]
"""A place, with None for any host and any site."""

_DOMAIN: Final = parse_expr("Computing.Service.AdminDomainForeignKey")


def agreeing_queues(
    first: GlueRecords,
    second: GlueRecords,
    adrift: Sequence[ComputingElement],
    report: Report,
) -> tuple[list[ComputingElement], list[ComputingElement]]:
    """The queues of both, each of which admits only whom all its descriptions admit.

    Args:
        first: of GLUE 1.3.
        second: of GLUE 2.0.
        adrift: shares of GLUE 2.0 that are no queues any more, as their service is lost.
        report: called with ``access.conflict`` for each queue whose descriptions differ.
    """
    queues = (*first.computing_elements, *second.computing_elements)
    found: dict[str, list[str]] = {}
    conflicts: dict[str, str] = {}

    for ce in queues:
        key, rules = ce.id.lower(), all_rules(ce)
        first_rules = found.setdefault(key, rules)
        if first_rules is not rules and differ(first_rules, rules):
            conflicts.setdefault(key, ce.id)
            found[key] = agreed(first_rules, rules)
    nameless = [ce for ce in queues if _nameless(ce)]
    if nameless or adrift:
        # A site of GLUE 1.3 is another than one of GLUE 2.0 only where both trees use one id.
        new = {site.id.lower() for site in second.sites}
        both = new & {site.id.lower() for site in first.sites}
        named = [(ce, _place(ce, both)) for ce in first.computing_elements if split_id(ce.id)]
        named += [(ce, _place(ce, new)) for ce in second.computing_elements if split_id(ce.id)]
        unnamed = [(ce, _place(ce, new)) for ce in nameless]
        ours = _by_place((place, found[ce.id.lower()]) for ce, place in named)
        theirs = _by_place((place, found[ce.id.lower()]) for ce, place in unnamed)
        lost = _by_place((_place(ce, new), all_rules(ce)) for ce in adrift)
        for ce, place, known in (
            *((ce, place, known) for ce, place in named for known in (theirs, lost)),
            *((ce, place, known) for ce, place in unnamed for known in (ours, lost)),
        ):
            for common in (known[key] for key in _meeting(place) if key in known):
                ident = ce.id.lower()
                if (rules := common.of(found[ident])) != found[ident]:
                    conflicts.setdefault(ident, ce.id)
                    found[ident] = rules
    for ident in conflicts.values():
        said = "it is described twice with different rules of access; what only one admits is"
        report(issue("access.conflict", f"{said} refused", raw=excerpt(ident)))
    made = [
        restricted(ce, found[ce.id.lower()]) if ce.id.lower() in conflicts else ce for ce in queues
    ]
    count = len(first.computing_elements)
    return made[:count], made[count:]


def _nameless(ce: ComputingElement) -> bool:
    """Whether a queue of GLUE 2.0 goes by the id of its share."""
    return "GLUE2" in ce.values and split_id(ce.id) is None


def _place(ce: ComputingElement, sites: set[str]) -> _Place:
    """Where a queue is; its site only as one of those given, as another id may be damaged."""
    contact, _, name = split_id(ce.id) or (_text(ce, "GlueCEInfoHostName"), "", "")
    host = contact.partition("/")[0].partition(":")[0]
    site = ce.cluster.site_id if ce.cluster is not None else ""
    inner = ce.values.get("GLUE2")
    if not site and isinstance(inner, ClassAd):
        site = next(iter(texts(_DOMAIN.eval(my=inner))), "")
    known = site.lower() if site.lower() in sites else ""
    return host.lower(), (name or _text(ce, "GlueCEName")).strip().lower(), known


def _text(ce: ComputingElement, name: str) -> str:
    found = ce.values.get(name)
    return found if isinstance(found, str) else ""


@attrs.frozen(slots=True)
class _Common:
    """What several lists of rules agree on, whatever their number.

    Attributes:
        admitting: the rules that admit and are in all lists, folded.
        denying: those that deny and are in any; all, where they are too many to repeat.
    """

    admitting: frozenset[str]
    denying: tuple[str, ...]

    @classmethod
    def among(cls, lists: Sequence[list[str]]) -> _Common:
        counted = Counter(chain.from_iterable({folded(rule) for rule in its} for its in lists))
        denying = tuple(dict.fromkeys(filter(denies, chain.from_iterable(lists))))
        return cls(
            frozenset(rule for rule, number in counted.items() if number == len(lists)),
            denying if len(denying) <= LIMITS.repeated else (CLOSED,),
        )

    def of(self, rules: list[str]) -> list[str]:
        """What a list agrees on with these; the same list where it has nothing else."""
        kept = [rule for rule in rules if denies(rule) or folded(rule) in self.admitting]
        own = set(map(folded, kept))
        return [*kept, *(rule for rule in self.denying if folded(rule) not in own)]


def _by_place(placed: Iterable[tuple[_Place, list[str]]]) -> dict[_Key, _Common]:
    """What all agree on of a place, and of every wider one."""
    made: dict[_Key, list[list[str]]] = {}
    for (host, name, site), rules in placed:
        for key in product((host, None), (name,), (site, None)) if name else ():
            made.setdefault(key, []).append(rules)
    return {key: _Common.among(lists) for key, lists in made.items()}


def _meeting(place: _Place) -> Iterator[_Key]:
    """The keys of all places that may be one place."""
    host, name, site = place
    return product((host, "") if host else (None,), (name,), (site, "") if site else (None,))
