"""Queues from several descriptions together: each under its name, once, with what was mended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.classad.evaluate import charged
from matchmaker.classad.given import some_ads
from matchmaker.classad.values import is_integer
from matchmaker.glue import Glue, GlueRecords, Issue, read_osg, unwrap
from matchmaker.glue.access import CLOSED, RULES, agreed, differ
from matchmaker.glue.admission import with_denials
from matchmaker.glue.agreement import Description, Places
from matchmaker.glue.issues import issue as made
from matchmaker.glue.linking import site_of
from matchmaker.glue.records import ComputingElement, texts
from matchmaker.glue.snapshot import joined
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
        issues: what was mended or left out, each with its source.
        records: the records of the sources that are no ads, each once.
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
    open_without_rules: bool = False,
    accept_partial: bool = False,
) -> Queues:
    """Merges the queues of several sources; of several queues with one name the first is kept.

    A queue that sources describe with different rules of access admits whom all of them admit, and
    denies whom one denies, so that no further source opens it. What a source that was not read to
    its end lost may deny a queue of another one. So the queues of the others admit nobody either
    (``source.partial``); where only one site of a server was asked for, those of other sites do.

    Args:
        sources: pairs, or a mapping, of the name of each source and its description or its ads.
            Ads of OSG's resource catalog are translated.
        open_without_rules: whether a catalog without rules of access admits everybody.
        accept_partial: whether queues are what their sources say, though others lost a part.

    Raises:
        ValueError: a description has no entry of GLUE, or a source has no ad.
        TypeError: a source has no name, or is no iterable of ads.

    >>> from matchmaker import parse_ad
    >>> one, two = parse_ad('[ CEid = "a"; Cpus = 2 ]'), parse_ad('[ CEid = "a"; Cpus = 4 ]')
    >>> found = merged([("first", [one]), ("second", [two])])
    >>> [(queue.name, queue.source) for queue in found.all], found.issues[0][0]
    ([('a', 'first')], 'second')
    """
    found: list[_Described] = []
    issues: list[tuple[str, Issue]] = []
    records: list[GlueRecords] = []
    adrift: dict[int, tuple[ComputingElement, ...]] = {}
    all_given = [
        (source, *_described(given, open_without_rules)) for source, given in _pairs(sources)
    ]
    lost = {} if accept_partial or len(all_given) == 1 else _lost(all_given, issues)
    for number, (source, whole, whole_ads) in enumerate(all_given):
        over = [sites for other, sites in lost.items() if other != number]
        description, ads = _closed(whole, whole_ads, over) if over else (whole, whole_ads)
        if description is not None:
            parts = description.snapshot
            adrift[number] = parts.adrift
            known = parts.sites or parts.clusters or parts.computing_elements or parts.adrift
            if not known and all(i.rule != "link.no-queue" for i in description.issues):
                raise ValueError(f"{source}: no entry of a GLUE information system was found")
            records.append(parts)
            issues.extend((source, issue) for issue in description.issues)
            ads = [*description.computing_elements(), *ads]
        elif not ads:
            raise ValueError(f"{source}: no ad of a queue was found")
        times = Counter[str]()
        for name, ad in named(ads, len(found)):
            found.append(_Described((number, times[name]), Queue(name, ad, source)))
            times[name] += 1
    kept: dict[str, Queue] = {}
    for queue in _agreed(found, adrift, issues):
        if queue.name in kept:
            said = "a queue of this name came before; this one is left out"
            issues.append((queue.source, made("source.duplicate", said, raw=queue.name)))
        else:
            kept[queue.name] = queue
    while len(records) > 1:
        pairs = zip_longest(records[::2], records[1::2], fillvalue=_NOTHING)
        records = [joined(*pair, agree=lambda _: None) for pair in pairs]  # said of the ads
    return Queues(tuple(kept.values()), tuple(issues), records[0] if records else _NOTHING)


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


def _lost(
    given: Iterable[tuple[str, Glue | None, list[ClassAd]]], issues: list[tuple[str, Issue]]
) -> dict[int, frozenset[str]]:
    """The sources, by number, that are not whole, with the sites that their rest may describe.

    No sites stand for any. Each such source is reported.
    """
    lost: dict[int, frozenset[str]] = {}
    for number, (source, description, _) in enumerate(given):
        partial = [i for i in description.issues if i.partial] if description is not None else []
        if description is None or not partial:
            continue
        bases = {site_of(i.dn) if i.rule.startswith("ldap.") else "" for i in partial}
        own = {site.id.lower() for site in description.snapshot.sites}
        lost[number] = frozenset() if "" in bases else frozenset(bases | own)
        whose = f"queues of {', '.join(sorted(bases))} in other sources" if all(bases) else "queues"
        said = (
            f"a part is missing that may deny, so {whose} admit nobody: read it again, leave it"
            " out, or accept the others as they are (accept_partial, --accept-partial)"
        )
        issues.append((source, made("source.partial", said)))
    return lost


def _closed(
    description: Glue | None, ads: list[ClassAd], over: Sequence[frozenset[str]]
) -> tuple[Glue | None, list[ClassAd]]:
    """A source whose queues deny all where they may be of what other sources lost."""

    def denied(site: str) -> bool:
        return any(not sites or not site or site.lower() in sites for sites in over)

    def ad_of(ad: ClassAd) -> ClassAd:
        changed = unwrap(ad).copy()
        changed[RULES] = list[Value]([*(_rules(changed) or ()), CLOSED])
        return changed

    if description is not None:
        snapshot = description.snapshot
        queues = tuple(
            with_denials(ce, [CLOSED]) if denied(ce.cluster.site_id if ce.cluster else "") else ce
            for ce in snapshot.computing_elements
        )
        snapshot = attrs.evolve(snapshot, computing_elements=queues)
        description = attrs.evolve(description, snapshot=snapshot)
    return description, [
        ad_of(ad) if denied(first_text(unwrap(ad), ("GlueSiteUniqueID",)) or "") else ad
        for ad in ads
    ]


@attrs.frozen(slots=True)
class _Described:
    """A queue as a source describes it.

    Attributes:
        place: the number of the source, and how often it described the queue before.
        queue: what it says.
    """

    place: tuple[int, int]
    queue: Queue

    @property
    def id(self) -> str:
        """Return the id that the queue shares with its views, in lower case."""
        return (first_text(self.queue.ad, ("GlueCEUniqueID",)) or self.queue.name).lower()


def _agreed(
    found: Sequence[_Described],
    adrift: Mapping[int, Sequence[ComputingElement]],
    issues: list[tuple[str, Issue]],
) -> Iterator[Queue]:
    """The queues, each of which admits only whom all sources that describe it admit."""
    rules: dict[str, dict[tuple[int, int], list[str] | None]] = {}
    for one in found:
        known = rules.setdefault(one.id, {})
        before, own = known.get(one.place, []), _rules(one.queue.ad)
        known[one.place] = None if before is None or own is None else [*before, *own]
    for number, left in adrift.items():
        for ce in left:
            if ce.id.lower() in rules:
                rules[ce.id.lower()][number, -1] = [CLOSED]
    common: dict[str, list[str] | None] = {}
    changed: set[str] = set()
    partly: set[str] = set()
    for ident, by_source in rules.items():
        lists = [each for each in by_source.values() if each is not None]
        common[ident] = reduce(agreed, lists) if lists else None
        some = 0 < len(lists) < len(by_source)
        if some or any(differ(lists[0], other) for other in lists[1:]):
            changed.add(ident)
        elif len(lists) > 1 and CLOSED in lists[0]:
            partly.add(ident)  # damage may make two sources alike that differed
    narrowed = _narrowed(found, adrift, common)
    common |= narrowed
    own_rules: dict[str, list[str] | None] = {}
    for one in found:
        name, own = one.queue.name, _rules(one.queue.ad)
        known_own = own_rules.setdefault(name, own)
        if own is not None and known_own is not None and differ(own, known_own):
            changed.add(one.id)
            own_rules[name] = agreed(known_own, own)
    reported: set[tuple[str, tuple[int, int]]] = set()
    for one in found:
        queue = one.queue
        own, shared = own_rules[queue.name], common[one.id]
        part = one.id in partly and own is not None and CLOSED not in own
        if (part or one.id in changed | narrowed.keys()) and shared is not None:
            ad = queue.ad.copy()
            ad[RULES] = list[Value](agreed(shared if own is None else own, shared))
            queue = attrs.evolve(queue, ad=ad)
            first = one.place == next(iter(rules[one.id])) and one.id not in narrowed
            if not first and (one.id, one.place) not in reported:
                reported.add((one.id, one.place))
                said = (
                    "it is described twice with different rules of access; what only one admits is"
                )
                issues.append(
                    (queue.source, made("access.conflict", f"{said} refused", raw=queue.name))
                )
        yield queue


def _narrowed(
    found: Sequence[_Described],
    adrift: Mapping[int, Sequence[ComputingElement]],
    common: Mapping[str, list[str] | None],
) -> dict[str, list[str] | None]:
    """The rules of queues that may be what goes without a name in another source.

    Args:
        found: the queues.
        adrift: what is left of others, by the number of the source.
        common: the rules of each queue, by its id.
    """
    count = max((one.place[0] for one in found), default=-1) + 1
    described: list[list[Description]] = [[] for _ in range(max([count, *(n + 1 for n in adrift)]))]
    known: dict[str, set[int]] = {}
    ones: list[tuple[str, Description]] = []
    for queue in found:
        own, shared = _rules(queue.queue.ad), common[queue.id]
        # A share that goes by its id may be at several hosts, or be any view of a queue.
        rules = agreed(own, shared) if own is not None and shared is not None else shared
        one = Description.of(queue.id, queue.queue.ad.eval, rules)
        described[queue.place[0]].append(one)
        known.setdefault(queue.id, set()).add(queue.place[0])
        ones.append((queue.id, one))
    if not any(adrift.values()) and not any(one.nameless for _, one in ones):
        return {}
    left = (
        [Description.of(r.id, r.values.get, [CLOSED]) for r in adrift.get(number, ())]
        for number in range(len(described))
    )
    places = Places.among(zip(described, left, strict=True))
    narrower = dict(common)
    for ident, one in ones:
        narrower[ident] = places.narrowed(one, narrower[ident], known[ident])
    return {ident: rules for ident, rules in narrower.items() if rules != common[ident]}


def _rules(ad: ClassAd) -> list[str] | None:
    """The rules of access of a queue; None where its author set none."""
    return texts(ad.eval(RULES)) if RULES in ad else None


def _described(
    given: Iterable[ClassAd], open_without_rules: bool
) -> tuple[Glue | None, list[ClassAd]]:
    """Return a source's GLUE description, if it has one, and its ads of queues."""
    if isinstance(given, Glue):
        return given, []
    ads = list(some_ads(given))
    catalogs = [ad for ad in ads if "OSG_ResourceCatalog" in ad]
    if not catalogs:
        return None, ads
    queues = [ad for ad in ads if "OSG_ResourceCatalog" not in ad]
    return read_osg(catalogs, open_without_rules=open_without_rules), queues


def each_named(ces: Iterable[ClassAd]) -> Iterator[tuple[str, ClassAd]]:
    """Return computing elements with the names that they go by, which those merged have already.

    Raises TypeError for what is no iterable of ads, such as one ad.
    """
    if isinstance(ces, Queues):
        return ((queue.name, queue.ad) for queue in ces.all)
    return named(some_ads(ces))


def own_name(ad: ClassAd) -> tuple[str | None, ClassAd]:
    """Return the name that a computing element's ad gives itself, and the ad out of its wrapping.

    >>> own_name(ClassAd(CEid="a", FreeCPUs=3))[0], own_name(ClassAd(FreeCPUs=3))[0]
    ('a', None)
    """
    ad = unwrap(ad)
    return first_text(ad, NAMES), ad


def named(ads: Iterable[ClassAd], offset: int = 0) -> Iterator[tuple[str, ClassAd]]:
    """Each computing element, out of its wrapping, with the name that it goes by.

    One without a name is numbered, from the first after ``offset``.
    """
    for number, wrapped in enumerate(ads, offset + 1):
        name, ad = own_name(wrapped)
        yield name or f"CE {number}", ad
