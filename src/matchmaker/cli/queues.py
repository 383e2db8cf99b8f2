"""The options that name and choose queues, and the reading of their sources.

The library that reads and merges them is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import wraps
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

import attrs
import click

from matchmaker import ClassAd
from matchmaker.cli.inputs import NamedBytes, ads_in, beginning, opened
from matchmaker.cli.options import FiniteRange, gathered, together
from matchmaker.cli.output import waiting, warn

if TYPE_CHECKING:
    from matchmaker.batch import Submission
    from matchmaker.broker import Hosts, Queue, Queues
    from matchmaker.glue import Glue
    from matchmaker.glue.access import Access
    from matchmaker.reduction import Reduction


class NoMatchError(Exception):
    """A subcommand needs a queue and none matches the job; exit status 1."""


@attrs.frozen(slots=True)
class Sources:
    """The descriptions of queues that the command line names.

    Attributes:
        ldifs: files of dumps.
        ce_files: files of ads.
        ldaps: URLs of servers; `ENVIRONMENT` stands for those that it names.
        at: the time by which what they say is fresh or stale; None for now.
        start_tls: whether to ask ``ldap://`` servers for TLS first.
        ca_file: certificates to trust in place of the system's.
        timeout: seconds to wait for a server to connect, and for each piece of its answer.
        accept_partial: whether an incomplete source counts as far as it goes.
        max_size: bytes of a dump that are read at most; None for the usual bound.
    """

    ldifs: tuple[str, ...]
    ce_files: tuple[str, ...]
    ldaps: tuple[str, ...]
    at: datetime | None
    start_tls: bool
    ca_file: str | None
    timeout: float
    accept_partial: bool
    max_size: int | None

    @property
    def any(self) -> bool:
        """Whether a source is named."""
        return bool(self.ldifs or self.ce_files or self.ldaps)


def _read_ldap(places: Sources, url: str, rules: frozenset[str]) -> Glue:
    from matchmaker.glue import read_ldap
    from matchmaker.glue.readers.ldap import ENVIRONMENT

    with waiting(f"reading {url}") as say:
        return read_ldap(
            None if url == ENVIRONMENT else url, timeout=places.timeout, start_tls=places.start_tls,
            ca_file=places.ca_file, rules=rules, at=places.at,
            progress=lambda entries: say(f"reading {url}, entries so far: {entries}"),
        )  # fmt: skip


def _size(_context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """Parse a number of bytes: digits, and optionally k, M or G."""
    if text is None:
        return None
    digits, unit = text.rstrip("kMG"), text[len(text.rstrip("kMG")) :]
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 15 or len(unit) > 1:
        raise click.UsageError(f"{option.opts[0]} {text}: not a number of bytes such as 500M")
    return int(digits) << {"": 0, "k": 10, "M": 20, "G": 30}[unit]


def _moment(_context: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    """Parse a time; without a zone it is UTC."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"{option.opts[0]} {text}: not a time such as 2005-10-03T15:05:00Z"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


options = gathered(
    Sources, "places",
    click.option(
        "--max-size", metavar="BYTES", callback=_size,
        help="The most to read of a dump, such as 500M; by default 256M of LDIF, 64M of XML"
        " or JSON.",
    ),
    click.option(
        "--accept-partial", is_flag=True,
        help="Use what came of a source that was not read to its end, instead of leaving it out.",
    ),
    click.option(
        "--at", metavar="TIME", callback=_moment,
        help="Decide as of this time, such as 2005-10-03T15:05:00Z.",
    ),
    click.option(
        "--timeout", metavar="SECONDS", type=FiniteRange(min=0, min_open=True),
        default=30.0, show_default=True,
        help="How long to wait for a server of --ldap, and for each piece of its answer.",
    ),
    click.option("--start-tls", is_flag=True, help="Ask ldap:// servers for TLS first."),
    click.option(
        "--ldap-ca", "ca_file", metavar="FILE",
        help="Certificates to trust in place of the system's.",
    ),
    click.option(
        "--ldap", "ldaps", multiple=True, metavar="URL",
        help="A server, or several between commas, or LCG_GFAL_INFOSYS for those it names.",
    ),
    click.option(
        "--ce", "ce_files", multiple=True, metavar="FILE",
        help="Ads of queues, or what an information system says: CRIC, CRR, OSG, GOCDB,"
        " glideinWMS.",
    ),
    click.option(
        "--ldif", "--dump", "ldifs", multiple=True, metavar="FILE",
        help="A dump of GLUE: LDIF, or GLUE 2.0 as XML or JSON; or as for --ce, but no ads.",
    ),
)  # fmt: skip
"""The options for descriptions of queues; the command gets them as ``places``."""


access_option = click.option(
    "--access", type=click.Choice(["known", "published", "any"]), default="published",
    show_default=True,
    help="Queues that are known to admit the job; those too that publish no rule of access, last;"
    " or any, whatever their rules.",
)  # fmt: skip
"""The option for whom queues must admit; the command gets it as ``access``."""


def choice_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options for how a queue is chosen; the command gets ``rules`` and ``tie``."""

    @wraps(command)
    def chosen(
        *, one_way: bool, access: Access, tried: tuple[str, ...], fuzzy: float | None,
        seed: int | None, **values: Any,
    ) -> int:  # fmt: skip
        import random

        from matchmaker.broker import Rules

        rules = Rules(both_ways=not one_way, access=access, tried=tried, fuzzy=fuzzy)
        tie = None if seed is None else random.Random(seed)  # noqa: S311 - spreads jobs only
        return command(rules=rules, tie=tie, **values)

    return together(
        click.option(
            "--seed", metavar="NUMBER", type=int,
            help="Break ties by chance; the same number gives the same order.",
        ),
        click.option(
            "--fuzzy", metavar="FACTOR", type=FiniteRange(min=0, min_open=True),
            help="Draw queues by lot, better ranks sooner; the larger, the sooner.",
        ),
        click.option(
            "--tried", multiple=True, metavar="CE",
            help="A queue that had this job before; it comes last.",
        ),
        access_option,
        click.option("--one-way", is_flag=True, help="Ignore the requirements of queues."),
    )(chosen)  # fmt: skip


def read(
    places: Sources, also: frozenset[str] = frozenset(), nodes: Sequence[ClassAd] | None = None
) -> Queues:
    """Read and merges the queues of all sources; cleaning rules are the usual ones and ``also``.

    Without a source, the queues are those that ``nodes`` list. Each source that was not read to its
    end is named on standard error. Raises UsageError without a queue, and ValueError for a source
    without GLUE.
    """
    from matchmaker import broker
    from matchmaker.glue.issues import Issue, lines

    listed = broker.of_nodes(nodes or ()) if not places.any else []
    if not places.any and not listed:
        raise click.UsageError(
            "no queues to choose from: give --ldif FILE, --ce FILE or --ldap URL, or nodes that"
            " list their queues, as classad nodes --write FILE keeps them"
        )
    found = broker.merged(
        _described(places, also) if places.any else [("--nodes", listed)],
        accept_partial=places.accept_partial,
    )
    partial: dict[str, list[Issue]] = {}
    for source, issue in found.issues:
        if issue.partial:
            partial.setdefault(source, []).append(issue)
    for source, issues in partial.items():
        for line in lines(issues):
            warn(f"{source}: {line}")
    return found


def _described(places: Sources, also: frozenset[str]) -> Iterator[tuple[str, Glue | list[ClassAd]]]:
    """Read the sources one after the other."""
    from matchmaker import glue

    rules = glue.DEFAULT_RULES | also
    for path in places.ldifs:
        with opened(path) as file:
            try:
                found = glue.read(file, rules=rules, at=places.at, max_size=places.max_size)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        yield path, found
    for url in places.ldaps:
        yield url, _read_ldap(places, url, rules)
    for path in places.ce_files:
        with opened(path) as file:
            yield path, _ads_or_system(places, path, file, rules)


def _ads_or_system(
    places: Sources, path: str, file: IO[bytes], rules: frozenset[str]
) -> Glue | list[ClassAd]:
    """Read a file of ads, or a document of an information system.

    Raises ValueError for JSON or XML that is neither.
    """
    from matchmaker import glue
    from matchmaker.glue import systems

    form = systems.form_of(beginning(file))
    if form in ("ads", "other"):
        return list(ads_in(path, file))
    data = file.read()
    try:
        document = systems.parse(data, form)
        if isinstance(document, list) and any(isinstance(ad, ClassAd) for ad in document):
            return document  # of a collector, and queues may be among them
        described = systems.recognised(document)
        if not described and not _holds_ads(document, form, data):
            described = True  # or refused, with the forms that are known
        if described:
            return glue.read(BytesIO(data), rules=rules, at=places.at, max_size=places.max_size)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return list(ads_in(path, NamedBytes(data, path)))


def _holds_ads(document: object, form: str, data: bytes) -> bool:
    """Whether a document may be ads of queues: those of JSON have a name, or an attribute of GLUE.

    Other text, and XML, is left to the reader of ads unless it is of GLUE.
    """
    from matchmaker.broker.sources import NAMES
    from matchmaker.glue.query import short_names

    if form == "xml":
        return b"<classads" in data[:4096] or b"<c>" in data[:4096] or b"<c " in data[:4096]
    if form in ("toml", "yaml") or not isinstance(document, (dict, list)):
        return form == "json"
    known = {name.lower() for name in (*NAMES, "info", *short_names(), *short_names().values())}
    listed = document if isinstance(document, list) else [document]
    return any(
        isinstance(ad, dict)
        and any(name.lower() in known or name.lower().startswith("glue") for name in ad)
        for ad in listed
    )


def no_match_hint(job: ClassAd, found: Queues, hosts: Hosts) -> str:
    """Advise on names of the job that no queue has and no schema gives to hosts."""
    from matchmaker.batch.flags.choose import as_host_attribute

    requirements = job.expr("Requirements", None)
    named = () if requirements is None else requirements.references().target
    unknown = [
        name for name in named
        if hosts.scope(name) == "unknown" and not any(name in queue.ad for queue in found.all)
    ]  # fmt: skip
    return "; ".join(f"no queue has {name}: {as_host_attribute(name)}" for name in unknown)


def routed(
    job: ClassAd, found: Queues, name: str | None, at: datetime | None, hosts: Hosts | None = None,
    **how: Any,
) -> tuple[Queue, Reduction, Submission | None]:  # fmt: skip
    """Take the named queue or else the broker's choice; return it, its reduction and the flags.

    How the broker decides, ``tie`` and ``rules``, is given on.

    Raises UsageError for an unknown name, NoMatchError if no queue matches, ReductionError, and
    NoFlagsError.
    """
    from matchmaker import broker
    from matchmaker.broker.routing import unnamed

    if name is not None and all(queue.name != name for queue in found.all):
        raise click.UsageError(f"no queue is named {name}; classad ces lists them")
    route = broker.route(job, found.ads, hosts, queue=name, at=at, **how)
    if route.failure is not None:
        raise route.failure
    if route.queue is None or route.reduction is None:
        hint = no_match_hint(job, found, hosts or broker.Hosts())
        raise NoMatchError(
            "no queue matches the job; classad broker says why, --queue NAME takes one as it is"
            f"{hint and f'; {hint}'}"
        )
    mapping = hosts.mapping if hosts is not None else None
    if said := unnamed(route.queue, route.submission, mapping):
        warn(f"warning: {said}")
    return route.queue, route.reduction, route.submission
