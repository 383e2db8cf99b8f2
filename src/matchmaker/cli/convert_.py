"""``classad convert``: ads of one format as another."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path

import click

from matchmaker import write_ads
from matchmaker.classad.formats import FORMATS
from matchmaker.cli import sources


@click.command()
@click.argument("source", metavar="FILE")
@click.argument("target", metavar="[OUT]", required=False)
@click.option("--to", "format_", type=click.Choice(FORMATS), default="new", show_default=True)
def command(source: str, target: str | None, format_: str) -> int:
    """Read the ads of FILE, in any format, and write them in another, to OUT or standard output.

    OUT is written only when all of FILE has been read without an error.
    """
    ads = sources.ads(source)
    text = io.StringIO()
    write_ads(ads, text, format_)
    if target is None or target == "-":
        sys.stdout.write(text.getvalue())
        return 0
    # Through a link to what it names, and into a device or a pipe as it is.
    out = Path(target).resolve()
    if out.exists() and not out.is_file():
        out.write_text(text.getvalue(), encoding="utf-8")
        return 0
    mode = out.stat().st_mode & 0o7777 if out.exists() else 0o666 & ~_umask()
    if not out.parent.is_dir():
        raise click.UsageError(f"{target}: there is no folder {out.parent}")
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text.getvalue())
        Path(name).chmod(mode)
        Path(name).replace(out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return 0


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
