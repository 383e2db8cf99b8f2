"""Pools that subcommands read: from files of ads, saved pools and Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO

import click

import matchmaker as mm
from matchmaker import ClassAd, Expr
from matchmaker.classad.errors import ParseError
from matchmaker.classad.quoting import shorten
from matchmaker.cli import inputs, picking
from matchmaker.cli.options import together
from matchmaker.matching.pair import value_text


def _own_names(_context: object, _option: object, given: tuple[str, ...]) -> dict[str, str]:
    from matchmaker.matching.states import NAMES

    found = {}
    for text in given:
        name, _, own = text.partition("=")
        if name not in NAMES or not own.strip() or name in found:
            raise click.UsageError(
                f"--names {text}: not like State=SlotState, once for each of {', '.join(NAMES)}"
            )
        found[name] = own
    return found


def _noted(context: click.Context, _option: object, names: tuple[str, ...]) -> None:
    context.meta[inputs.EXPRESSIONS] = names


def _named(_context: object, _option: object, name: str | None) -> str | None:
    if name is not None and not name.strip():
        raise click.UsageError("--key names no attribute")
    return name


options = together(
    click.option(
        "--expressions", metavar="NAME", multiple=True, callback=_noted, expose_value=False,
        help="A column of Parquet files with expressions. May be given several times.",
    ),
    click.option(
        "--key", metavar="NAME", callback=_named,
        help="The attribute that is the key. [default: Name, or that of a saved pool]",
    ),
)  # fmt: skip
"""The options for the key of a pool and for expressions in Parquet files."""

states = click.option(
    "--names", metavar="NAME=OWN", multiple=True, callback=_own_names,
    help="The pool's own name for State, Activity, Available, Draining or Start, which say"
    " whether a slot is free: State=SlotState. May be given several times.",
)  # fmt: skip
"""The option for the pool's own names of what says whether a slot is free."""


def read(paths: tuple[str, ...], key: str | None, wanted: Expr | None = None) -> mm.Pool:
    """The ads of some files together as a pool, by `key`.

    With `wanted`, a constraint, they are those for which it is true.
    Without a key it is Name, or the key of the pool that the only file is. Raises ValueError where
    two ads have the same key, with the files and the places of the ads there.
    """
    found = held(paths, key, wanted)
    return found if isinstance(found, mm.Pool) else made(found, key)


def held(
    paths: tuple[str, ...], key: str | None, wanted: Expr | None = None
) -> mm.Pool | list[tuple[str, list[ClassAd]]]:
    """The ads of each file, or the pool of a single file if it has the wanted key.

    With `wanted`, a constraint, only those for which it is true.
    """
    if len(paths) != 1:
        several = [(path, inputs.ads(path, key)) for path in paths]
        inputs.check_expressions()
        return constrained(several, wanted)
    with inputs.opened(paths[0]) as file:
        filled = _filled(paths[0], file, key) if wanted is None else None
        if filled is not None:
            inputs.check_expressions()
            return filled
        found = inputs.held(paths[0], file, key)
        inputs.check_expressions()
        whole = isinstance(found, mm.Pool) and key in (None, found.key)
        if isinstance(found, mm.Pool) and whole:
            if wanted is None:
                return found
            return mm.Pool(picking.satisfying(found, wanted), found.key)
        return constrained([(paths[0], list(found))], wanted)


def _filled(path: str, file: IO[bytes], key: str | None) -> mm.Pool | None:
    """The pool of a large file of ads, read into columns; None where each ad is to be looked at.

    That is where two have the same key, or one has none: then the message has its place.
    """
    if path == "-" or Path(path).stat().st_size < inputs.LARGE or not inputs.is_text(path, file):
        return None
    try:
        return mm.Pool.read(file, key or "Name")
    except ParseError:
        raise
    except ValueError:
        file.seek(0)
        return None


def constrained(
    files: list[tuple[str, list[ClassAd]]], wanted: Expr | None
) -> list[tuple[str, list[ClassAd]]]:
    """The ads for which a constraint is true, by file."""
    if wanted is None:
        return files
    # All files together are one pool, so that none is left only where no file has any.
    kept = set(map(id, picking.satisfying((ad for _, ads in files for ad in ads), wanted)))
    return [(path, [ad for ad in ads if id(ad) in kept]) for path, ads in files]


def made(files: Iterable[tuple[str, list[ClassAd]]], key: str | None) -> mm.Pool:
    """The pool of the ads of some files. Raises ValueError as ``read`` does."""
    files = list(files)
    key = key or "Name"
    try:
        return mm.Pool((ad for _, ads in files for ad in ads), key)
    except ValueError as error:
        said = _placed(files, key) or str(error)
        raise ValueError(f"{said} (--key NAME says which attribute tells ads apart)") from None


def _placed(files: list[tuple[str, list[ClassAd]]], key: str) -> str:
    """Names the first ad, by file and number, without a key or with a duplicate one."""
    from matchmaker.matching.columns.keys import key_from

    places: dict[str, str] = {}
    again: list[str] = []
    for path, ads in files:
        for number, ad in enumerate(ads, 1):
            value, place = ad.eval(key), f"{path}, ad {number}"
            text = key_from(value)
            if text is None:
                what = f"{key} = {shorten(value_text(value), 60)}" if key in ad else f"no {key}"
                return f"{place}: an ad has {what}: {shorten(str(ad), 60)}"
            before = places.setdefault(text, place)
            if before is not place:
                again.append(f"{place}: {key} = {shorten(repr(text), 60)}, as {before} has")
    more = f"; and so {len(again) - 1} more" if len(again) > 1 else ""
    return f"{again[0]}{more}" if again else ""
