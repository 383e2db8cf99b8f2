"""What subcommands read: jobs, pools and descriptions of queues, with progress on large files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeVar

import attrs
import click

from matchmaker import ClassAd, broker, read_ads
from matchmaker.classad.errors import ParseError
from matchmaker.glue import Glue, Issue, read_ldap, read_ldif

_F = TypeVar("_F", bound=Callable[..., object])

LARGE = 4 << 20
"""The size in bytes from which reading a file shows its progress on a terminal."""


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A file for reading, or standard input for ``-``; a large one shows progress on a terminal."""
    if path == "-":
        yield sys.stdin.buffer
    elif sys.stderr.isatty() and Path(path).stat().st_size >= LARGE:
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


def ads(path: str) -> list[ClassAd]:
    """All ads of a file, in any format."""
    with opened(path) as file:
        return list(read_ads(file))


def one_ad(path: str) -> ClassAd:
    """The one ad of a file. Raises ParseError where there is another number of them."""
    found = ads(path)
    if len(found) != 1:
        raise ParseError(
            f"{len(found) or 'no'} ads were found", source=path, expected=("exactly one",)
        )
    return found[0]


@attrs.frozen(slots=True)
class Queues:
    """Computing elements from all sources together, and what was mended on the way."""

    ads: tuple[ClassAd, ...]
    issues: tuple[Issue, ...]


def queue_options(command: _F) -> _F:
    """The options that say where computing elements are described."""
    for option in (
        click.option(
            "--at", metavar="TIME", help="Decide as of this time, such as 2005-10-03T15:05:00Z."
        ),
        click.option("--ldap", "ldaps", multiple=True, metavar="URL", help="A GLUE 1.3 server."),
        click.option("--ce", "ce_files", multiple=True, metavar="FILE", help="Ads of queues."),
        click.option("--ldif", "ldifs", multiple=True, metavar="FILE", help="A GLUE 1.3 dump."),
    ):
        command = option(command)
    return command


def queues(ldifs: tuple[str, ...], ce_files: tuple[str, ...], ldaps: tuple[str, ...]) -> Queues:
    """Reads the computing elements of all sources. Raises ValueError where there is none at all."""
    found: list[ClassAd] = []
    issues: list[Issue] = []

    def take(snapshot: Glue) -> None:
        found.extend(snapshot.computing_elements())
        issues.extend(snapshot.issues)

    for path in ldifs:
        with opened(path) as file:
            take(read_ldif(file))
    for url in ldaps:
        take(read_ldap(url))
    for path in ce_files:
        found += ads(path)
    if not (ldifs or ce_files or ldaps):
        raise click.UsageError(
            "no queues to choose from: give --ldif FILE, --ce FILE or --ldap URL"
        )
    return Queues(tuple(found), tuple(issues))


def moment(text: str | None) -> datetime | None:
    """A time of the command line; without a zone it is UTC. Raises UsageError for another text."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"--at {text}: not a time such as 2005-10-03T15:05:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def the_queue(job: ClassAd, found: Queues, name: str | None, at: datetime | None) -> ClassAd | None:
    """The queue of a name, or without one the broker's choice; None if it has none."""
    if name is None:
        chosen = broker.choose(job, found.ads, at=at).chosen
        return chosen.ad if chosen else None
    for known, ad in broker.named(found.ads):
        if known == name:
            return ad
    raise click.UsageError(f"no queue is named {name}; classad ces lists them")
