"""Merge the queues of several descriptions: each under its name, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.classad.ad import first_text, some_ads
from matchmaker.classad.evaluate import charged
from matchmaker.classad.values import is_integer
from matchmaker.glue import Glue, GlueRecords, Issue, read_osg, unwrap
from matchmaker.glue.access import UNKNOWN, all_of, conflict, differ, of_ad, required, restricted
from matchmaker.glue.flatten import unmatched_downtimes, with_downtimes
from matchmaker.glue.issues import issue as made
from matchmaker.glue.records import Downtime
from matchmaker.glue.snapshot import joined
from matchmaker.glue.systems.merging import merge_by_trust, with_registered
from matchmaker.nodes import policies_of, queues_of, with_policy

_NOTHING: Final = GlueRecords((), (), (), ())

NAMES: Final = ("CEid", "GlueCEUniqueID", "id", "Name")
"""The attributes that may name a computing element, the first that it has."""


@attrs.frozen(slots=True)
class Queue:
    """A computing element with the name that it goes by, and the source that described it."""

    name: str
    ad: ClassAd
    source: str = ""


@attrs.frozen(slots=True)
class Queues:
    """The computing elements of several sources. Iterate over them for their ads.

    Attributes:
        all: the queues, in the order of the sources; of several with one name the first.
        issues: values that were mended and entries left out, each with its source.
        records: the records of the sources that are not ads, each once.
    """

    all: tuple[Queue, ...]
    issues: tuple[tuple[str, Issue], ...]
    records: GlueRecords

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[ClassAd]:
        return (queue.ad for queue in self.all)

    @property
    def ads(self) -> list[ClassAd]:
        """The ads alone."""
        return [queue.ad for queue in self.all]

    @property
    def whole(self) -> bool:
        """Whether all sources were read to their ends."""
        return not any(issue.partial for _, issue in self.issues)


@charged
def merged(
    sources: Iterable[tuple[str, Iterable[ClassAd]]] | Mapping[str, Iterable[ClassAd]],
    *,
    accept_partial: bool = False,
) -> Queues:
    """Merge the queues of several sources; of several queues with one name the first is kept.

    A job is admitted by a queue that several sources describe if each of them that publishes rules
    of access for the queue admits it, by some view (:mod:`matchmaker.glue.access`). Several
    information systems about one queue are merged by their order of trust
    (:mod:`matchmaker.glue.systems.merging`). A source that was not read to its end is left out
    whole (``source.partial``).

    Args:
        sources: pairs, or a mapping, of the name of each source and its description or its ads. Ads
            of OSG's resource catalog are translated.
        accept_partial: whether a source that was not read to its end counts as far as it goes.

    Raises:
        ValueError: a description has no entry of GLUE, a source has no ad, or no source was read to
            its end.
        TypeError: a source has no name, or is not an iterable of ads.

    >>> from matchmaker import parse_ad
    >>> one, two = parse_ad('[ CEid = "a"; Cpus = 2 ]'), parse_ad('[ CEid = "a"; Cpus = 4 ]')
    >>> found = merged([("first", [one]), ("second", [two])])
    >>> [(queue.name, queue.source) for queue in found.all], found.issues[0][0]
    ([('a', 'first')], 'second')
    """
    found: list[_Described] = []
    issues: list[tuple[str, Issue]] = []
    records: list[GlueRecords] = []
    announced: list[tuple[str, Sequence[Downtime]]] = []
    described = [(source, *_described(given)) for source, given in _pairs(sources)]
    whole = described if accept_partial else [*_whole(described, issues)]
    for number, (source, description, given) in enumerate(whole):
        ads = given
        if description is not None:
            parts = description.snapshot
            known = parts.sites or parts.clusters or parts.computing_elements or parts.downtimes
            if not known and all(i.rule != "link.no-queue" for i in description.issues):
                raise ValueError(f"{source}: no entry of a GLUE information system was found")
            records.append(parts)
            announced.append((source, parts.downtimes))
            issues.extend((source, issue) for issue in description.issues)
            ads = [*description.computing_elements(), *ads]
        elif not ads:
            raise ValueError(f"{source}: no ad of a queue was found")
        times = Counter[str]()
        for name, ad in named(ads, len(found)):
            found.append(_Described((number, times[name]), Queue(name, ad, source)))
            times[name] += 1
    kept: dict[str, Queue] = {}
    for queue in _agreed(_united(found, issues), issues):
        if queue.name in kept:
            said = "a queue of this name came before; this one is left out"
            issues.append((queue.source, made("source.duplicate", said, raw=queue.name)))
        else:
            kept[queue.name] = queue
    while len(records) > 1:
        pairs = zip_longest(records[::2], records[1::2], fillvalue=_NOTHING)
        records = [joined(*pair, agree=lambda _: None) for pair in pairs]  # said of the ads
    whole_grid = records[0] if records else _NOTHING
    described_ads = with_registered([queue.ad for queue in kept.values()])
    queues = [q for q, ad in zip(kept.values(), described_ads, strict=True) if ad is not None]
    ads = [ad for ad in described_ads if ad is not None]
    issues.extend(_closing_nothing(ads, announced))
    ads = with_downtimes(ads, whole_grid.downtimes)
    all_queues = (attrs.evolve(queue, ad=ad) for queue, ad in zip(queues, ads, strict=True))
    return Queues(tuple(all_queues), tuple(issues), whole_grid)


def _united(found: Sequence[_Described], issues: list[tuple[str, Issue]]) -> Sequence[_Described]:
    """Merge the queues that several systems describe by the order of trust."""
    if len({one.place[0] for one in found}) < 2:
        return found
    united = merge_by_trust([(one.place[0], one.queue.ad) for one in found])
    kept = []
    for one, result in zip(found, united, strict=True):
        if result.refused:
            said = "a more trusted source does not admit these VOs to the queue, so they are not"
            raw = f"{one.queue.name}: {', '.join(result.refused)}"
            issues.append((one.queue.source, made("access.conflict", said, raw=raw)))
        if result.ad is None:
            continue
        place = one.place if result.view is None else found[result.view].place
        name = own_name(result.ad)[0] or one.queue.name
        kept.append(_Described(place, Queue(name, result.ad, one.queue.source)))
    return kept


def _closing_nothing(
    ads: Sequence[ClassAd], announced: Iterable[tuple[str, Sequence[Downtime]]]
) -> Iterator[tuple[str, Issue]]:
    """Yield for each source the finding that downtimes are of no queue that is described."""
    said = "downtimes of places that no queue here has as its host, endpoint, id or OSG_Resource"
    for source, downtimes in announced:
        places = unmatched_downtimes(ads, downtimes) if downtimes else []
        if places:
            shown = ", ".join(places[:3]) + (", …" if len(places) > 3 else "")
            yield source, made("source.downtime", said, raw=shown, count=len(places))


def _pairs(sources: Any) -> Iterator[tuple[str, Iterable[ClassAd]]]:
    for pair in sources.items() if isinstance(sources, Mapping) else sources:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(
                "a source is a name with a description or ads, such as ('site.ldif', read_ldif("
                f"'site.ldif')), not {type(pair).__name__}"
            )
        yield pair


@charged
def of_nodes(worker_nodes: Iterable[ClassAd]) -> list[ClassAd]:
    """Make an ad of each queue that worker nodes list in ``Queues``, for want of a description.

    Each has the queue's name, its batch system, its processors (all, and the free ones of nodes
    that take jobs), and the limits and the state that ``QueueAds`` of its nodes tell. It sets no
    rule of access, as nobody told of any.

    >>> from matchmaker import parse_ads
    >>> nodes = parse_ads('[ Queues = { "gpu", "up" }; Cpus = 4 ] [ Queues = { "up" }; Cpus = 8 ]')
    >>> [(str(ad.eval("QueueName")), ad.eval("GlueCEInfoTotalCPUs")) for ad in of_nodes(nodes)]
    [('gpu', 4), ('up', 12)]
    """
    behind: dict[str, list[ClassAd]] = {}
    given = list(worker_nodes)
    for node in given:
        for name in dict.fromkeys(queues_of(node) or ()):
            behind.setdefault(name, []).append(node)

    def total(nodes: Iterable[ClassAd], attribute: str) -> int:
        return sum(n for ad in nodes if is_integer(n := ad.eval(attribute)))

    made = []
    policies = policies_of(given)
    for name, nodes in sorted(behind.items()):
        ad = ClassAd({"Name": name, "QueueName": name})
        systems = {text for node in nodes if isinstance(text := node.eval("LRMSType"), str)}
        if len(systems) == 1:
            ad["LRMSType"] = systems.pop()
        ad["GlueCEInfoTotalCPUs"] = total(nodes, "Cpus")
        takes = [node for node in nodes if node.eval("Available") is not False]
        if any("FreeCpus" in node for node in takes):
            ad["GlueCEStateFreeCPUs"] = total(takes, "FreeCpus")
        made.append(with_policy(ad, policies.get(name)))
    return made


def _whole(
    given: Sequence[tuple[str, Glue | None, list[ClassAd]]], issues: list[tuple[str, Issue]]
) -> Iterator[tuple[str, Glue | None, list[ClassAd]]]:
    """Yield the sources that were read to their ends, and report the others.

    Raises ValueError if no source is left.
    """
    said = (
        "it broke off, so it is left out whole: read it again, or take what came of it"
        " (accept_partial, --accept-partial)"
    )
    none = bool(given)
    for source, description, ads in given:
        broken = [i for i in description.issues if i.partial] if description is not None else []
        if broken:
            issues.extend((source, issue) for issue in broken)
            issues.append((source, made("source.partial", said)))
        else:
            none = False
            yield source, description, ads
    if none:
        source, issue = issues[0]
        raise ValueError(f"{source}: {issue}; {said}")


@attrs.frozen(slots=True)
class _Described:
    """A queue as a source describes it; `place` numbers the source and the description."""

    place: tuple[int, int]
    queue: Queue

    @property
    def id(self) -> str:
        """The id that the queue shares with its views, in lower case."""
        return (first_text(self.queue.ad, ("GlueCEUniqueID",)) or self.queue.name).lower()


def _agreed(found: Sequence[_Described], issues: list[tuple[str, Issue]]) -> Iterator[Queue]:
    """Yield the queues, each of which admits only whom all sources that describe it admit."""
    by_id: dict[str, dict[tuple[int, int], list[_Described]]] = {}
    for one in found:
        by_id.setdefault(one.id, {}).setdefault(one.place, []).append(one)
    changed: dict[int, Queue] = {}
    for places in by_id.values():
        if len(places) == 1:
            continue
        access = {place: [of_ad(one.queue.ad) for one in its] for place, its in places.items()}
        ways = {place: [*map(required, own)] for place, own in access.items()}
        first = None
        for place, its in places.items():
            if (rules := all_of(access[place])) or any(ways[place]):
                if first is not None and differ(first, rules):
                    issues.append((its[0].queue.source, conflict(its[0].queue.name)))
                first = rules if first is None else first
            for one, own in zip(its, access[place], strict=True):
                made = own
                for other, its_ways in ways.items():
                    if other != place:
                        made = restricted(made, its_ways)
                if made is not own:
                    ad = one.queue.ad.copy()
                    ad.pop(UNKNOWN, None)
                    ad.update(made)
                    changed[id(one)] = attrs.evolve(one.queue, ad=ad)
    for one in found:
        yield changed.get(id(one), one.queue)


def _described(given: Iterable[ClassAd]) -> tuple[Glue | None, list[ClassAd]]:
    """Return a source's GLUE description, if it has one, and its ads of queues."""
    if isinstance(given, Glue):
        return given, []
    ads = list(some_ads(given))
    catalogs = [ad for ad in ads if "OSG_ResourceCatalog" in ad]
    if not catalogs:
        return None, ads
    queues = [ad for ad in ads if "OSG_ResourceCatalog" not in ad]
    return read_osg(catalogs), queues


def each_named(ces: Iterable[ClassAd]) -> Iterator[tuple[str, ClassAd]]:
    """Return computing elements with their names, which those merged have already.

    Raises TypeError unless they are an iterable of ads, and ValueError for a description that was
    not read to its end.
    """
    if isinstance(ces, Queues):
        return ((queue.name, queue.ad) for queue in ces.all)
    if isinstance(ces, Glue) and any(issue.partial for issue in ces.issues):
        return each_named(merged([("the description", ces)]))
    return named(some_ads(ces))


def own_name(ad: ClassAd) -> tuple[str | None, ClassAd]:
    """Return the name that a computing element's ad gives itself, and the ad out of its wrapping.

    >>> own_name(ClassAd(CEid="a", FreeCPUs=3))[0], own_name(ClassAd(FreeCPUs=3))[0]
    ('a', None)
    """
    ad = unwrap(ad)
    return first_text(ad, NAMES), ad


def named(ads: Iterable[ClassAd], offset: int = 0) -> Iterator[tuple[str, ClassAd]]:
    """Yield each computing element, out of its wrapping, with its name.

    One without a name is numbered, from the first after ``offset``.
    """
    for number, wrapped in enumerate(ads, offset + 1):
        name, ad = own_name(wrapped)
        yield name or f"CE {number}", ad
