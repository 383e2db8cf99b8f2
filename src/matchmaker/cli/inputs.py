"""Reading files of ads: jobs and pools, in any format. Large files show progress.

Descriptions of queues are read by `matchmaker.cli.queues`.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, BytesIO
from typing import IO, TYPE_CHECKING, Final, TypeVar

import click

import matchmaker as mm
from matchmaker import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.cli.output import complaint, error_console, warn

if TYPE_CHECKING:
    from matchmaker import Pool

_T = TypeVar("_T")

EXPRESSIONS: Final = "expressions"
"""The key in a context for the columns of Parquet files that hold expressions."""

_PARQUET_WAS_READ: Final = "parquet was read"

LARGE = 4 << 20
"""The size in bytes from which reading a file shows its progress on a terminal."""


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A file for reading, or standard input for ``-``; a large one shows progress on a terminal."""
    from pathlib import Path  # With urllib a tenth of the shortest commands' time.

    if path == "-":
        once = click.get_current_context().meta
        if sys.stdin is None or "stdin" in once:
            state = "closed" if sys.stdin is None else "read twice"
            raise click.UsageError(f"standard input is {state}; give a file instead of -")
        once["stdin"] = True
        yield sys.stdin.buffer
    elif sys.stderr is not None and sys.stderr.isatty() and Path(path).stat().st_size >= LARGE:
        from rich.progress import open as open_with_progress

        with open_with_progress(
            path, "rb", description=Path(path).name, console=error_console(),
            transient=True,
        ) as file:  # fmt: skip
            yield file
    else:
        with Path(path).open("rb") as file:
            yield file


def ads(path: str, key: str | None = None) -> list[ClassAd]:
    """Read all ads of a file: any format of ads, a saved pool, or Parquet."""
    with opened(path) as file:
        return list(ads_in(path, file, key))


def jobs(path: str) -> list[ClassAd]:
    """Read the jobs of a file: any format of ads, or a submit description of HTCondor."""
    with opened(path) as file:
        # A description ends in its first lines; the broker is imported only for one.
        if _SUBMIT.search(beginning(file)) is None:
            return list(ads_in(path, file))
        from matchmaker.broker.submit_file import is_submit_file, read_submit_file

        data = file.read()
        text = data.decode("utf-8-sig", "replace")
        if not is_submit_file(text):
            return list(ads_in(path, NamedBytes(data, path)))
        try:
            return [read_submit_file(text)]
        except ParseError as error:
            raise error.at(path) from None


def one_job(path: str) -> ClassAd:
    """Read a file of one job. Raises ParseError for another number of jobs."""
    return the_one(path, jobs(path))


class NamedBytes(BytesIO):
    """The content of a file that was read, with its name for messages."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self.name = name


def _parquet(path: str, file: IO[bytes], key: str | None, expressions: Sequence[str]) -> Pool:
    """The pool of a Parquet file; what reading it warns of is one line each."""
    from matchmaker import Pool

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        pool = Pool.read_parquet(BytesIO(file.read()), key, expressions)
    for each in caught:
        warn(f"{path}: {each.message}")
    return pool


def ads_in(path: str, file: IO[bytes], key: str | None = None) -> Iterable[ClassAd]:
    """The ads of a file, or its pool, as the first bytes say; `key` is the key for Parquet."""
    first = beginning(file)
    if first.startswith((*_SAVED, _PARQUET)):
        from matchmaker import Pool

        try:
            if first.startswith(_SAVED):
                return Pool.load(file)
            context = click.get_current_context().meta
            context[_PARQUET_WAS_READ] = True
            return _parquet(path, file, key, context.get(EXPRESSIONS, ()))
        except ImportError as error:
            raise click.ClickException(f"{path}: {error}") from None
        except (ValueError, OSError) as error:
            if first.startswith(_SAVED):
                raise
            raise ValueError(f"{path}: {error}") from None
    refuse_ldif(path, file)
    return mm.read_ads(file)


def is_text(path: str, file: IO[bytes]) -> bool:
    """Whether a file holds ads as text. Raises ParseError for LDIF."""
    refuse_ldif(path, file)
    return not beginning(file).startswith((*_SAVED, _PARQUET))


def remark(path: str, file: IO[bytes]) -> None:
    """Say on standard error that a file is a job description which others may not read."""
    from matchmaker.classad.formats import new

    found = new.remark(beginning(file).decode("utf-8-sig", "replace"))
    if found:
        warn(f"{path}: {found}")


def check_expressions() -> None:
    """Raises UsageError if --expressions is given and no Parquet file was read."""
    context = click.get_current_context().meta
    if context.get(EXPRESSIONS) and _PARQUET_WAS_READ not in context:
        raise click.UsageError(
            "--expressions names columns of Parquet files, and none of the files is one"
        )


def refuse_ldif(path: str, file: IO[bytes]) -> None:
    """Raises ParseError, with the command that reads it, for a file that begins like LDIF."""
    if _LDIF.match(beginning(file)):
        raise ParseError(
            "this is LDIF, the tree of an information system, and no ads",
            source=path,
            hint="classad ces --ldif makes ads of it, and classad broker --ldif matches them",
        )


# After comments a dump begins with its version or the name of an entry.
_LDIF: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s*+#[^\n]*+\n)*+\s*+(?:version:\s*+\d|dn::?\s)", re.IGNORECASE
)
# Arrow's files, and the archives that pools were saved in before.
_SAVED: Final = (b"ARROW1\0\0", b"PK\x03\x04")
_PARQUET: Final = b"PAR1"
# Enough for comments before the first word; a pipe may give no more at once.
_FIRST: Final = 4096
_SUBMIT: Final = re.compile(rb"^[ \t]*queue\b", re.IGNORECASE | re.MULTILINE)


def beginning(file: IO[bytes]) -> bytes:
    """The first bytes of a file, without reading past them."""
    if isinstance(file, BufferedReader):
        return file.peek(_FIRST)
    if not file.seekable():
        return b""
    place = file.tell()
    beginning = file.read(_FIRST)
    file.seek(place)
    return beginning


def keyed(
    path: str, jobs: Iterable[tuple[int, ClassAd]], prefix: str | None,
    check: Callable[[str], object], make: Callable[[ClassAd], _T], *, word: str = "job",
) -> dict[str, _T]:  # fmt: skip
    """Make something of each job of a file, by key: its Key, or a prefix and its number.

    Args:
        path: the file, for messages.
        jobs: the jobs with their numbers.
        prefix: the start of numbered keys; None for a random one, which is told.
        check: raises ValueError for a text that cannot be a key.
        make: raises ValueError or OSError for a job that cannot be handed on.
        word: the noun for a job in messages.

    Raises ValueError, with the number, for the first job that has no key of its own or is refused.
    """
    found: dict[str, _T] = {}
    start = prefix
    for number, job in jobs:
        key = job.eval("Key")
        if not isinstance(key, str):
            start = start if start is not None else os.urandom(5).hex()
            key = f"{start}.{number}"
        try:
            check(key)
            made = make(job)
        except (ValueError, OSError) as error:
            raise ValueError(f"{path}: {word} {number}: {complaint(error)}") from None
        if key in found:
            raise ValueError(
                f"{path}: {word} {number}: the key {key} is that of a {word} before it"
            )
        found[key] = made
    if not found:
        raise ValueError(f"{path}: no job was found")
    if start is not None:
        # Told at once: who repeats the file without it would hand the jobs on anew.
        warn(f"keys {start}.N, N the number of a {word}: repeat the same file with --key {start}")
    return found


def one_ad(path: str) -> ClassAd:
    """Read a file of one ad. Raises ParseError for another number of ads."""
    return the_one(path, ads(path))


def the_one(path: str, found: list[ClassAd]) -> ClassAd:
    """The only ad of a file. Raises ParseError for another number of ads."""
    if len(found) != 1:
        raise ParseError(
            f"{len(found) or 'no'} ads were found", source=path, expected=("exactly one",)
        )
    return found[0]
