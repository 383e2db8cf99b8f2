"""ueues from a grid's information system: read a dump or a server, clean it, and make ads of it.

The functions that users call are here. `readers` make entries, `clean` gives their values types,
`linking` ties entries to `records`, `flatten` makes ads of the records, and `publish` writes
records as entries. `access` predicts who may use a queue.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import attrs

from matchmaker._files import replacing
from matchmaker.classad import ClassAd
from matchmaker.glue.clean import ALL_RULES, DEFAULT_RULES, VALIDATORS
from matchmaker.glue.clean.rules import UNLIMITED
from matchmaker.glue.flatten import (
    SubClusterChoice,
    ads,
    expires,
    first,
    lowest_memory,
    provenance,
    unwrap,
)
from matchmaker.glue.issues import Issue, Issues, Report, total
from matchmaker.glue.publish.site import admit, describe_site, place
from matchmaker.glue.readers import PeekedFile, Readable, UnpackedFile, read_whole
from matchmaker.glue.readers.ldif import (
    Attributes,
    Entry,
    Source,
    read_all,
    read_dump,
    read_entries,
    write_entries,
)
from matchmaker.glue.records import GlueRecords
from matchmaker.glue.schema import Attribute, attribute, scope
from matchmaker.glue.snapshot import build

if TYPE_CHECKING:
    from matchmaker.glue.readers.ldap import LdapBounds

__all__ = [
    "ALL_RULES",
    "DEFAULT_RULES",
    "UNLIMITED",
    "VALIDATORS",
    "Attribute",
    "Attributes",
    "Entry",
    "Glue",
    "GlueRecords",
    "Issue",
    "SubClusterChoice",
    "admit",
    "attribute",
    "describe_site",
    "expires",
    "first",
    "lowest_memory",
    "place",
    "read",
    "read_entries",
    "read_ldap",
    "read_ldif",
    "read_osg",
    "scope",
    "unwrap",
    "write_entries",
    "write_ldif",
]


@attrs.frozen(slots=True, repr=False)
class Glue:
    """A snapshot of an information system. Iterate over it for the ads of its queues.

    Attributes:
        issues: values that were mended, dropped or doubted, in order; of a rule 10,000 at most, and
            then an issue whose ``count`` is the number of the others.
    """

    snapshot: GlueRecords
    issues: tuple[Issue, ...]

    def __repr__(self) -> str:
        return f"<Glue: {self.snapshot.summary}; {total(self.issues)} findings>"

    def __iter__(self) -> Iterator[ClassAd]:
        return iter(self.computing_elements())

    def computing_elements(self, choose: SubClusterChoice = first) -> list[ClassAd]:
        """Return the ads of the queues, one for each VO view, as a broker matches them.

        Args:
            choose: chooses the SubCluster that speaks for the hosts of a cluster: `first`,
                `lowest_memory`, or a function of your own.

        Returns:
            Ads with a ``CEid`` of their own each; times in minutes (policies) or seconds (states)
                and memory in MB, as published.
        """
        return list(ads(self.snapshot, choose))

    def provenance(self, ce_id: str, choose: SubClusterChoice = first) -> dict[str, Issue]:
        """Return the changes and doubts of cleaning in one ad, by attribute.

        Raises:
            KeyError: no queue has that id.
        """
        for ce in self.snapshot.computing_elements:
            if ce.id == ce_id:
                return provenance(ce, None, choose)
            for view in ce.views:
                if f"{ce.id}/{view.id}" == ce_id:
                    return provenance(ce, view, choose)
        raise KeyError(f"no queue has the CEid {ce_id!r}")


def read_ldif(
    source: Source,
    *,
    rules: Iterable[str] = DEFAULT_RULES,
    at: datetime | None = None,
    max_size: int | None = None,
) -> Glue:
    """Read a dump of an information system: GLUE 1.3, GLUE 2.0 or both.

    If a queue publishes no rule of access, nobody knows whom it admits: its ad has no rules, and
    ``AccessUnknown``. A rule that cannot be read makes its policy admit nobody; an issue says so.

    Args:
        source: a path, an open file or lines of LDIF; broken parts are mended or skipped.
        rules: ids of the cleaning rules to use, from `ALL_RULES`, and tools of `VALIDATORS`.
        at: the time by which entries are fresh or stale, now if not given.
        max_size: bytes that are read at most, counted after unpacking; 256 MB if not given.

    Raises:
        OSError: the file cannot be read.
        ValueError: no rule has an id, or the source is too large.

    >>> glue = read_ldif(["dn: GlueCEUniqueID=h:1/jm-pbs-q,o=grid", "objectClass: GlueCE",
    ...                   "GlueCEUniqueID: h:1/jm-pbs-q", "GlueCEStateFreeCPUs: 7",
    ...                   "GlueCEStateWaitingJobs: 444444", "GlueCEInfoHostName: h"])
    >>> [ad] = glue.computing_elements()
    >>> ad.eval("GlueCEStateFreeCPUs"), ad.eval("GlueCEStateWaitingJobs"), ad.eval("QueueName")
    (7, UNDEFINED, 'q')
    >>> [issue.rule for issue in glue.issues]
    ['clean.default-number', 'link.no-cluster', 'access.none']
    """
    return _gather(lambda report: read_dump(source, report, max_size), rules, at)


def read(
    source: str | os.PathLike[str] | Readable,
    *,
    rules: Iterable[str] = DEFAULT_RULES,
    at: datetime | None = None,
    max_size: int | None = None,
) -> Glue:
    """Read a file of LDIF, of GLUE 2.0 as XML or JSON, or of another information system.

    The beginning decides between XML, JSON, TOML, YAML, ads and LDIF, and the content whose
    document it is (`systems`). Each may be packed by gzip.

    Args:
        source: a path, or a file open for bytes.
        rules: as for `read_ldif`.
        at: as for `read_ldif`.
        max_size: bytes that are read at most, counted after unpacking; 256 MB of LDIF and 64 MB of
            a document if not given.

    Raises:
        OSError: the file cannot be read.
        ValueError: a document is not what it began as, is in an unknown form, is packed and
            damaged, or is too large.

    >>> import io
    >>> text = b'''{ "ComputingShare": [ { "ID": "urn:s", "MaxWallTime": 7200 } ],
    ...   "ComputingService": { "ID": "urn:c",
    ...     "Associations": { "ComputingShareID": "urn:s" } } }'''
    >>> [ad] = read(io.BytesIO(text)).computing_elements()
    >>> ad.eval("CEid"), ad.eval("GlueCEPolicyMaxWallClockTime")
    ('urn:s', 120)
    """
    if isinstance(source, (str, os.PathLike)):
        with Path(source).open("rb") as file:
            return read(file, rules=rules, at=at, max_size=max_size)
    from matchmaker.glue import systems
    from matchmaker.glue.readers import documents

    begun = PeekedFile(UnpackedFile(source))
    form = systems.form_of(begun.beginning())
    if form == "other":
        return _gather(lambda report: read_dump(begun, report, max_size), rules, at)
    data = read_whole(begun, max_size)
    issues = Issues()
    snapshot = systems.read_document(systems.parse(data, form), issues.report)
    if snapshot is not None:
        now = at or datetime.now(UTC)
        found = attrs.evolve(snapshot, downtimes=systems.pending(snapshot.downtimes, now))
        return Glue(found, issues.all())
    glue = None
    if form not in ("toml", "yaml"):
        makers = {"xml": documents.read_xml, "json": documents.read_json}
        make = makers.get(form, read_all)
        glue = _gather(lambda report: make(BytesIO(data), report, max_size), rules, at)
    if glue is None or any(issue.rule == "document.empty" for issue in glue.issues):
        forms = systems.known_forms()
        raise ValueError(f"{form.upper()} of no form that is known; known are {forms}")
    return glue


def read_osg(ads: Iterable[ClassAd]) -> Glue:
    """Read the queues of the OSG's CEs from the ads of its collector.

    Args:
        ads: with an ``OSG_ResourceCatalog`` each, in whatever format they were read from.

    >>> from matchmaker import parse_ad
    >>> ce = parse_ad('''[ Name = "ce.t2.edu"; OSG_ResourceGroup = "T2"; OSG_ResourceCatalog = {
    ...     [ Name = "whole"; Memory = 64000; CPUs = 16; MaxWallTime = 2880 ]
    ... } ]''')
    >>> [ad] = read_osg([ce]).computing_elements()
    >>> ad.eval("CEid"), ad.eval("GlueHostMainMemoryRAMSize")
    ('ce.t2.edu:9619/condorce-condor-whole', 64000)
    """
    from matchmaker.glue.systems import osg

    issues = Issues()
    snapshot = osg.records_of_ads(ads, issues.report)
    return Glue(snapshot, issues.all())


def read_ldap(
    url: str | Sequence[str] | None = None,
    base: str | None = None,
    *,
    timeout: float = 30.0,
    page_size: int = 500,
    start_tls: bool = False,
    ca_file: str | None = None,
    bounds: LdapBounds | None = None,
    rules: Iterable[str] = DEFAULT_RULES,
    at: datetime | None = None,
    progress: Callable[[int], None] | None = None,
) -> Glue:
    """Read a live information system, such as a BDII at ``ldap://host:2170``.

    The search is anonymous and paged; referrals are not followed. Of several servers the first that
    answers is read. If the last one fails half-way, what came before is the snapshot, and an issue
    ``ldap.partial`` says so.

    Args:
        url: of the server, ``ldap://`` or ``ldaps://``, or several, in a sequence or between
            commas; None for those that the environment variable ``LCG_GFAL_INFOSYS`` names.
        base: a name to search under, such as ``mds-vo-name=SITE,o=grid``. Without it the one that
            the URL ends in; without that too, GLUE 1.3 under ``o=grid`` (or below, as a resource or
            an old top publishes it) and GLUE 2.0 under ``o=glue``.
        timeout: seconds to connect, and to wait for each piece of an answer.
        page_size: entries asked for at a time.
        start_tls: whether to ask an ``ldap://`` server for TLS before anything else.
        ca_file: certificates to trust in place of the system's. TLS is always verified.
        bounds: on time and size, in place of those and of the usual ones.
        rules: as for `read_ldif`.
        at: as for `read_ldif`.
        progress: called after each page with the number of entries that have come.

    Raises:
        ConnectionError: no server can be reached, or none gives an answer.
        ValueError: a URL is of another kind or missing, a file has no certificates, a time is not
            above 0, or no rule has an id.
    """
    from matchmaker.glue.readers.ldap import LdapBounds, search

    limits = bounds or LdapBounds(timeout=timeout, page_size=page_size)
    return _gather(
        lambda report: search(
            url,
            base,
            report,
            bounds=limits,
            start_tls=start_tls,
            ca_file=ca_file,
            progress=progress,
        ),
        rules,
        at,
    )


def write_ldif(
    source: Glue | GlueRecords | Iterable[ClassAd],
    file: str | os.PathLike[str] | IO[str],
    *,
    version: Literal["1.3", "2.0", "both"] = "both",
) -> tuple[Issue, ...]:
    """Write queues as LDIF that an LDAP server with the schemas of GLUE takes, entry by entry.

    Args:
        source: a snapshot, records from `describe_site`, or ads of computing elements.
        file: a path, replaced when all is written, or a file open for text.
        version: of GLUE; ``both`` gives the trees ``o=grid`` and ``o=glue`` one after the other.

    Returns:
        An issue for each thing that could not be published.

    Raises:
        ValueError: an ad has no ``CEid``, or the version is another.
        OSError: the file cannot be written.

    >>> from matchmaker import parse_ad
    >>> import io
    >>> text = io.StringIO()
    >>> queue = '[ CEid = "ce.s.grid:8443/cream-slurm-long"; GlueSiteUniqueID = "S" ]'
    >>> write_ldif([parse_ad(queue)], text)
    ()
    >>> "GLUE2ComputingShareMappingQueue: long" in text.getvalue()
    True
    """
    from matchmaker.glue.publish import publishable_entries
    from matchmaker.glue.publish.trees import entries13, entries20

    makers = {"1.3": [entries13], "2.0": [entries20], "both": [entries13, entries20]}
    if version not in makers:
        raise ValueError(f"GLUE has the versions 1.3 and 2.0, or both, not {version!r}")
    found = source.snapshot if isinstance(source, Glue) else source
    snapshot = found if isinstance(found, GlueRecords) else describe_site(found)
    issues: list[Issue] = []
    entries = (entry for maker in makers[version] for entry in maker(snapshot, issues.append))
    made = list(publishable_entries(entries, issues.append))
    with replacing(file) if isinstance(file, (str, os.PathLike)) else nullcontext(file) as opened:
        write_entries(made, opened)
    return tuple(dict.fromkeys(issues))  # both versions find the same fault in the same thing


def _gather(
    entries: Callable[[Report], Iterator[Entry]], rules: Iterable[str], at: datetime | None
) -> Glue:
    issues = Issues()
    snapshot = build(entries(issues.report), issues.report, frozenset(rules), at)
    return Glue(snapshot, issues.all())
