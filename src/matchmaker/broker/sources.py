"""Queues from several descriptions together: each under its name, once, with what was mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.classad.ad import first_text
from matchmaker.glue import Glue, GlueRecords, Issue, read_osg, unwrap
from matchmaker.glue.issues import issue as made
from matchmaker.glue.snapshot import joined

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
    """The computing elements of several sources.

    Attributes:
        all: the queues, in the order of the sources; of several with one name the first.
        issues: what was mended or left out, each with its source.
        records: the records of the sources that are no ads, each once.
    """

    all: tuple[Queue, ...]
    issues: tuple[tuple[str, Issue], ...]
    records: GlueRecords

    @property
    def ads(self) -> list[ClassAd]:
        """The ads alone."""
        return [queue.ad for queue in self.all]

    @property
    def whole(self) -> bool:
        """Whether all sources were read to their ends."""
        return not any(issue.partial for _, issue in self.issues)


def merged(
    sources: Iterable[tuple[str, Glue | Iterable[ClassAd]]], *, open_without_rules: bool = False
) -> Queues:
    """Merges the queues of several sources; of several queues with one name the first is kept.

    Args:
        sources: the name of each source, and its description or its ads. Ads of OSG's resource
            catalog are translated.
        open_without_rules: whether a catalog without rules of access admits everybody.

    Raises:
        ValueError: a description has no entry of GLUE, or a source has no ad.

    >>> from matchmaker import parse_ad
    >>> one, two = parse_ad('[ CEid = "a"; Cpus = 2 ]'), parse_ad('[ CEid = "a"; Cpus = 4 ]')
    >>> found = merged([("first", [one]), ("second", [two])])
    >>> [(queue.name, queue.source) for queue in found.all], found.issues[0][0]
    ([('a', 'first')], 'second')
    """
    found: list[tuple[str, ClassAd]] = []
    issues: list[tuple[str, Issue]] = []
    records = GlueRecords((), (), (), ())
    for source, given in sources:
        description, ads = _described(given, open_without_rules)
        if description is not None:
            parts = description.snapshot
            known = parts.sites or parts.clusters or parts.computing_elements
            if not known and all(i.rule != "link.no-queue" for i in description.issues):
                raise ValueError(f"{source}: no entry of a GLUE information system was found")
            records = joined(records, parts)
            issues.extend((source, issue) for issue in description.issues)
            found.extend((source, ad) for ad in description.computing_elements())
        elif not ads:
            raise ValueError(f"{source}: no ad of a queue was found")
        found.extend((source, ad) for ad in ads)
    kept: dict[str, Queue] = {}
    for (source, _), (name, ad) in zip(found, named(ad for _, ad in found), strict=True):
        if name in kept:
            said = "a queue of this name came before; this one is left out"
            issues.append((source, made("source.duplicate", said, raw=name)))
        else:
            kept[name] = Queue(name, ad, source)
    return Queues(tuple(kept.values()), tuple(issues), records)


def _described(
    given: Glue | Iterable[ClassAd], open_without_rules: bool
) -> tuple[Glue | None, list[ClassAd]]:
    """What a source describes in GLUE's terms, if anything, and its ads of queues."""
    if isinstance(given, Glue):
        return given, []
    ads = list(given)
    catalogs = [ad for ad in ads if "OSG_ResourceCatalog" in ad]
    if not catalogs:
        return None, ads
    queues = [ad for ad in ads if "OSG_ResourceCatalog" not in ad]
    return read_osg(catalogs, open_without_rules=open_without_rules), queues


def named(ads: Iterable[ClassAd]) -> Iterator[tuple[str, ClassAd]]:
    """Each computing element, out of its wrapping, with the name that it goes by."""
    for number, wrapped in enumerate(ads, 1):
        ad = unwrap(wrapped)
        yield first_text(ad, NAMES) or f"CE {number}", ad
