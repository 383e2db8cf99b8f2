"""``classad convert``: converts ads to another format."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

import click

import matchmaker as mm
from matchmaker import ClassAd, Expr, ParseError, read_ads, write_ads
from matchmaker.classad.formats import FORMATS
from matchmaker.cli import inputs, pools
from matchmaker.cli.output import warn

POOLS: Final[Mapping[str, Callable[[mm.Pool, str], None]]] = {
    "pool": lambda pool, path: pool.save(path),
    "parquet": lambda pool, path: pool.write_parquet(path),
}
"""The formats that hold all ads as one pool, and what writes each."""


@click.command("convert")
@click.argument("files", metavar="FILE... [OUT]", nargs=-1, required=True)
@click.option("--from", "from_", type=click.Choice(("auto", *FORMATS)), default="auto",
              show_default=True, help="The format of the files.")  # fmt: skip
@click.option("--to", type=click.Choice((*FORMATS, *POOLS)), default="new", show_default=True,
              help="The format to write; a saved pool is read fastest.")  # fmt: skip
@click.option("-o", "--output", metavar="OUT", help="Where to write; then every FILE is read.")
@click.option("--json", "to", flag_value="json", help="The same as --to json.")
@click.option("--report", is_flag=True,
              help="Leave out what cannot be read, a line on standard error for each.")  # fmt: skip
@pools.options
@pools.constraint
def convert_command(
    *, files: tuple[str, ...], from_: str, to: str, output: str | None, report: bool,
    key: str | None, constraint: Expr | None,
) -> int:  # fmt: skip
    """Read the ads of FILE, in any format, and write them in another, to OUT or standard output.

    Several files are written one after the other; --output OUT then names the target. Files of any
    size take the same little memory; a pool is held as a whole. Saved pools and Parquet are read
    too. A job description without brackets, or with # comments, is noted on standard error.

    OUT is written only when all has been read without an error, and standard output too. With
    --report bad lines of the old format and bad ads of the others are left out instead; the exit
    status is then 1.
    """
    if output is None:
        if len(files) > 2:
            raise click.UsageError("several files: say where to write with --output OUT")
        output = files[1] if len(files) == 2 else "-"
        files = files[:1]
    left_out = 0

    def note(error: ParseError) -> None:
        nonlocal left_out
        left_out += 1
        warn(error.summary())

    if to in POOLS and output == "-":
        raise click.UsageError(f"--to {to} is no text: say where to with --output OUT")
    if to not in POOLS and key is not None:
        raise click.UsageError(f"--key is of a pool, and --to {to} writes none")
    heed = note if report else None
    if to in POOLS:
        held = [(path, list(_ads(path, from_, heed, key))) for path in files]
        inputs.check_expressions()
        held = pools.filtered(held, constraint)
        POOLS[to](pools.pool_from(held, key), output)
        return 1 if left_out else 0
    ads = pools.satisfying(_all(files, from_, heed), constraint)
    if output != "-":
        write_ads(ads, output, to)
    else:
        # Kept on disk until all ads were read: a bad last ad then leaves no output.
        with tempfile.SpooledTemporaryFile(1 << 20, "w+", encoding="utf-8", newline="\n") as spool:
            write_ads(ads, spool, to)
            spool.seek(0)
            shutil.copyfileobj(spool, sys.stdout)
    return 1 if left_out else 0


def _all(
    files: tuple[str, ...], format_: str, report: Callable[[ParseError], object] | None
) -> Iterator[ClassAd]:
    """Read the ads of all files, then checks what concerns all of them together."""
    for path in files:
        yield from _ads(path, format_, report)
    inputs.check_expressions()


def _ads(
    path: str, format_: str, report: Callable[[ParseError], object] | None, key: str | None = None
) -> Iterator[ClassAd]:
    with inputs.opened(path) as file:
        inputs.refuse_ldif(path, file)
        if format_ in ("auto", "new"):
            inputs.remark(path, file)
        found = inputs.ads_in(path, file, key) if format_ == "auto" else None
        if found is not None and not isinstance(found, Iterator):  # A pool.
            yield from found
            return
        errors: Literal["report", "strict"] = "report" if report else "strict"
        yield from read_ads(file, format_, errors=errors, report=report)
