"""What subcommands read: jobs, pools and descriptions of queues, with progress on large files.

What reads queues is imported only by those who ask for them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import attrs
import click

from matchmaker import ClassAd, read_ads
from matchmaker.classad.errors import ParseError
from matchmaker.cli.output import printable

if TYPE_CHECKING:
    from matchmaker.glue import Glue, Issue, Snapshot

EXPRESSIONS: Final = "expressions"
"""Where a context notes the columns of Parquet files whose text is expressions."""

_PARQUET_WAS_READ: Final = "parquet was read"

LARGE = 4 << 20
"""The size in bytes from which reading a file shows its progress on a terminal."""


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A file for reading, or standard input for ``-``; a large one shows progress on a terminal."""
    if path == "-":
        once = click.get_current_context().meta
        if sys.stdin is None or "stdin" in once:
            state = "closed" if sys.stdin is None else "read twice"
            raise click.UsageError(f"standard input is {state}; give a file instead of -")
        once["stdin"] = True
        yield sys.stdin.buffer
    elif sys.stderr is not None and sys.stderr.isatty() and Path(path).stat().st_size >= LARGE:
        from rich.console import Console
        from rich.progress import open as open_with_progress

        with open_with_progress(
            path, "rb", description=Path(path).name, console=Console(stderr=True),
            transient=True,
        ) as file:  # fmt: skip
            yield file
    else:
        with Path(path).open("rb") as file:
            yield file


def ads(path: str, key: str | None = None) -> list[ClassAd]:
    """All ads of a file: in any format of ads, of a saved pool, or of Parquet."""
    with opened(path) as file:
        return list(held(path, file, key))


def held(path: str, file: IO[bytes], key: str | None = None) -> Iterable[ClassAd]:
    """The ads of a file, or the pool that it is, by how it begins; that of Parquet by a key."""
    beginning = _beginning(file)
    if beginning.startswith(_ARCHIVE):
        from matchmaker import Pool

        return Pool.load(file)
    if beginning.startswith(_PARQUET):
        from matchmaker import Pool

        context = click.get_current_context().meta
        context[_PARQUET_WAS_READ] = True
        names = context.get(EXPRESSIONS, ())
        try:
            return Pool.read_parquet(BytesIO(file.read()), key, names)
        except ImportError as error:
            raise click.ClickException(f"{path}: {error}") from None
        except (ValueError, OSError) as error:
            raise ValueError(f"{path}: {error}") from None
    refuse_ldif(path, file)
    return read_ads(file)


def check_expressions() -> None:
    """Raises UsageError where columns of Parquet are said to be expressions and none was read."""
    context = click.get_current_context().meta
    if context.get(EXPRESSIONS) and _PARQUET_WAS_READ not in context:
        raise click.UsageError(
            "--expressions names columns of Parquet files, and none of the files is one"
        )


def refuse_ldif(path: str, file: IO[bytes]) -> None:
    """Raises ParseError, which says what reads it, for a file that begins as LDIF does."""
    if _LDIF.match(_beginning(file)):
        raise ParseError(
            "this is LDIF, the tree of an information system, and no ads",
            source=path,
            hint="classad ces --ldif makes ads of it, and classad broker --ldif matches them",
        )


# How a dump begins, past comments: with its version or the name of an entry.
_LDIF: Final = re.compile(rb"(?:\s*+#[^\n]*+\n)*+\s*+(?:version:\s*+\d|dn::?\s)", re.IGNORECASE)
_ARCHIVE: Final = b"PK\x03\x04"
_PARQUET: Final = b"PAR1"
_FIRST: Final = 4096


def _beginning(file: IO[bytes]) -> bytes:
    """The first bytes of a file, which are then still to be read."""
    if isinstance(file, BufferedReader):
        return file.peek(_FIRST)
    if not file.seekable():
        return b""
    place = file.tell()
    beginning = file.read(_FIRST)
    file.seek(place)
    return beginning


def one_ad(path: str) -> ClassAd:
    """The one ad of a file. Raises ParseError where there is another number of them."""
    return the_one(path, ads(path))


def the_one(path: str, found: list[ClassAd]) -> ClassAd:
    """The one of the ads that a file has. Raises ParseError where there is another number."""
    if len(found) != 1:
        raise ParseError(
            f"{len(found) or 'no'} ads were found", source=path, expected=("exactly one",)
        )
    return found[0]


class NoMatchError(Exception):
    """No queue matches the job, where a subcommand needs one; exit status 1."""


@attrs.frozen(slots=True)
class Queue:
    """A computing element under the name that it goes by, and where its ad was read."""

    name: str
    ad: ClassAd
    source: str = ""


@attrs.frozen(slots=True)
class Queues:
    """Computing elements from all sources together, and what was mended on the way, by source.

    ``records`` are those of the sources that are not ads, each once.
    """

    all: tuple[Queue, ...]
    issues: tuple[tuple[str, Issue], ...]
    records: Snapshot

    @property
    def ads(self) -> list[ClassAd]:
        """The ads alone, for the broker."""
        return [queue.ad for queue in self.all]

    @property
    def whole(self) -> bool:
        """Whether all sources were read to their ends."""
        return not any(issue.partial for _, issue in self.issues)


@attrs.frozen(slots=True)
class Sources:
    """Where computing elements are described, as the options of `queue_options` name it.

    Attributes:
        ldifs: files of dumps.
        ce_files: files of ads.
        ldaps: URLs of servers; `ENVIRONMENT` stands for those that it names.
        at: the time by which what they say is fresh or stale; None for now.
        start_tls: whether to ask ``ldap://`` servers for TLS first.
        ca_file: certificates to trust in place of the system's.
        timeout: seconds to wait for a server to connect, and for each piece of its answer.
    """

    ldifs: tuple[str, ...]
    ce_files: tuple[str, ...]
    ldaps: tuple[str, ...]
    at: datetime | None
    start_tls: bool
    ca_file: str | None
    timeout: float

    @property
    def any(self) -> bool:
        """Whether there is a source at all."""
        return bool(self.ldifs or self.ce_files or self.ldaps)


def _read_ldap(places: Sources, url: str) -> Glue:
    from matchmaker.glue import read_ldap
    from matchmaker.glue.ldap import ENVIRONMENT

    with _counting(f"reading {url}") as count:
        return read_ldap(
            None if url == ENVIRONMENT else url,
            timeout=places.timeout,
            start_tls=places.start_tls,
            ca_file=places.ca_file,
            at=places.at,
            progress=count,
        )


@contextmanager
def _counting(what: str) -> Iterator[Callable[[int], None]]:
    """Shows on a terminal that something takes its time, and how many entries it has brought."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda entries: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(what)) as status:
        yield lambda entries: status.update(Text(f"{what}, entries so far: {entries}"))


def queue_options(command: Callable[..., int]) -> Callable[..., int]:
    """The options that say where computing elements are described: one `Sources`, ``places``."""
    names = [field.name for field in attrs.fields(Sources)]

    @wraps(command)
    def gathered(**values: Any) -> int:
        places = Sources(**{name: values.pop(name) for name in names})
        return command(places=places, **values)

    for option in (
        click.option(
            "--at", metavar="TIME", callback=_moment,
            help="Decide as of this time, such as 2005-10-03T15:05:00Z.",
        ),
        click.option(
            "--timeout", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True),
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
        click.option("--ce", "ce_files", multiple=True, metavar="FILE", help="Ads of queues."),
        click.option(
            "--ldif", "--dump", "ldifs", multiple=True, metavar="FILE",
            help="A dump of GLUE: LDIF, or GLUE 2.0 as XML or JSON.",
        ),
    ):  # fmt: skip
        gathered = option(gathered)
    return gathered


def _moment(_context: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    """A time of the command line; without a zone it is UTC."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"{option.opts[0]} {text}: not a time such as 2005-10-03T15:05:00Z"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def queues(places: Sources) -> Queues:
    """Reads the computing elements of all sources; of several with one name the first is kept.

    Standard error is told of each source that was not read to its end.

    Raises UsageError where there is no source, ValueError for a source that holds nothing of GLUE.
    """
    from matchmaker import broker
    from matchmaker.glue import Issue, Snapshot, read, read_osg
    from matchmaker.glue.snapshot import joined

    if not places.any:
        raise click.UsageError(
            "no queues to choose from: give --ldif FILE, --ce FILE or --ldap URL"
        )
    found: list[tuple[str, ClassAd]] = []
    issues: list[tuple[str, Issue]] = []
    records = Snapshot((), (), (), ())

    def take(source: str, snapshot: Glue) -> None:
        nonlocal records
        parts = snapshot.snapshot
        if not (parts.sites or parts.clusters or parts.computing_elements):
            raise ValueError(f"{source}: no entry of a GLUE information system was found")
        records = joined(records, parts)
        issues.extend((source, issue) for issue in snapshot.issues)
        for issue in snapshot.issues:
            if issue.partial:
                print(printable(f"classad: {source}: {issue}"), file=sys.stderr)
        found.extend((source, ad) for ad in snapshot.computing_elements())

    for path in places.ldifs:
        with opened(path) as file:
            try:
                found_there = read(file, at=places.at)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        take(path, found_there)
    for url in places.ldaps:
        take(url, _read_ldap(places, url))
    for path in places.ce_files:
        given = ads(path)
        catalogs = [ad for ad in given if "OSG_ResourceCatalog" in ad]
        if catalogs:
            take(path, read_osg(catalogs))
        found += ((path, ad) for ad in given if "OSG_ResourceCatalog" not in ad)
    kept: dict[str, Queue] = {}
    for (source, _), (name, ad) in zip(found, broker.named(ad for _, ad in found), strict=True):
        if name in kept:
            said = "a queue of this name came before; this one is left out"
            issues.append((source, Issue("source.duplicate", said, raw=name)))
        else:
            kept[name] = Queue(name, ad, source)
    return Queues(tuple(kept.values()), tuple(issues), records)


def the_queue(job: ClassAd, found: Queues, name: str | None, at: datetime | None) -> Queue:
    """The queue of a name, or without one the broker's choice.

    Raises UsageError for an unknown name and NoMatchError where the broker chooses none.
    """
    if name is None:
        from matchmaker import broker

        chosen = broker.choose(job, found.ads, at=at).chosen
        if chosen is None:
            raise NoMatchError(
                "no queue matches the job; classad broker says why, --queue NAME takes one as it is"
            )
        return Queue(chosen.name, chosen.ad)
    for queue in found.all:
        if queue.name == name:
            return queue
    raise click.UsageError(f"no queue is named {name}; classad ces lists them")


def check_lrms(queue: Queue, lrms: str) -> None:
    """Raises NoFlagsError where a queue is run by another batch system than the one to be told."""
    runs = queue.ad.eval("LRMSType")
    if isinstance(runs, str):
        from matchmaker.batch import NoFlagsError, same_system

        if same_system(runs, lrms):
            return
        raise NoFlagsError(
            f"{queue.name} is run by {runs}, not by {lrms}; --queue NAME takes another queue"
        )
