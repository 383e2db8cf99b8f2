"""Pools that subcommands read, the choice of ads, jobs and slots in them, and pools in shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

import matchmaker as mm
from matchmaker import ClassAd, Expr, ParseError, parse_expr
from matchmaker.classad.errors import shorten
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.printer import brief
from matchmaker.cli import inputs
from matchmaker.cli.options import together
from matchmaker.cli.output import count, warn
from matchmaker.matching.pair import value_text

if TYPE_CHECKING:
    from matchmaker import Expr, Pool, Shards


OFFERED = 8
"""How many ids or slots are offered where several will do."""

NAMES = ("GlobalJobId", "JobId", "Name", "Id")
"""The attributes that a job may go by, beside its ClusterId and ProcId."""


# --- constraints ----------------------------------------------------------------------------------


def _parsed(_context: object, _option: object, text: str | None) -> Expr | None:
    if text is None:
        return None
    try:
        return parse_expr(text)
    except ParseError as error:
        raise click.UsageError(f"--constraint: {error.summary()}") from None


constraint = click.option(
    "--constraint", metavar="EXPR", callback=_parsed,
    help="Only ads for which this is true, as of condor_status.",
)  # fmt: skip
"""The option for a constraint on the ads that are read."""


def holds(wanted: Expr, ad: ClassAd) -> bool:
    """Whether a constraint is true of an ad: not undefined, and no error."""
    return truth(Allowance().value(wanted, ad, None)) is True


def satisfying(ads: Iterable[ClassAd], wanted: Expr | None) -> Iterator[ClassAd]:
    """The ads for which a constraint is true; all without one.

    Undefined and error do not count as true. If no ad is left, a warning says so.
    """
    if wanted is None:
        yield from ads
        return
    total = kept = 0
    for ad in ads:
        total += 1
        if holds(wanted, ad):
            kept += 1
            yield ad
    if total and not kept:
        warn(f"--constraint {brief(wanted)} leaves none of {count(total, 'ad')}")


# --- jobs -----------------------------------------------------------------------------------------


job_option = click.option(
    "--job", "job_id", metavar="ID",
    help="Of many jobs the one with this ClusterId.ProcId, GlobalJobId or Name, or NAME=VALUE.",
)  # fmt: skip
"""The option for one job of many."""


def id_of(job: ClassAd) -> str | None:
    """Return a job's name: ``12.0`` for HTCondor's, or its first naming attribute.

    >>> id_of(ClassAd(ClusterId=12, ProcId=0)), id_of(ClassAd(Name="a")), id_of(ClassAd())
    ('12.0', 'a', None)
    """
    cluster, process = job.eval("ClusterId"), job.eval("ProcId")
    if type(cluster) is int and type(process) is int:
        return f"{cluster}.{process}"
    return next(filter(None, (_text(job, name) for name in NAMES)), None)


def _text(job: ClassAd, name: str) -> str | None:
    value = job.eval(name)
    plain = isinstance(value, (str, int)) and not isinstance(value, bool)
    return str(value) if plain else None


def labels(jobs: Sequence[ClassAd]) -> list[str]:
    """Return the id of each job, or its number, from 1, if it has none."""
    return [id_of(job) or str(number) for number, job in enumerate(jobs, 1)]


def only_job(path: str, wanted: str | None) -> ClassAd:
    """The job of a file: of several the one with an id."""
    jobs = inputs.ads(path)
    if wanted is not None:
        return the_job(jobs, wanted, path)
    if len(jobs) > 1:
        raise ParseError(
            f"{len(jobs)} ads were found", source=path, expected=("exactly one",),
            hint=f"--job ID takes one of them, such as {shorten(labels(jobs)[0], 60)}",
        )  # fmt: skip
    return inputs.the_one(path, jobs)


def the_job(jobs: Sequence[ClassAd], wanted: str, path: str) -> ClassAd:
    """The job with an id. Raises UsageError, with the ids that there are, for none or several."""
    name, equals, value = wanted.partition("=")

    def asked(job: ClassAd) -> bool:
        if equals:
            return _text(job, name) == value.strip('"')
        known = (id_of(job), *(_text(job, name) for name in (*NAMES, "ClusterId")))
        return wanted in known

    found = [job for job in jobs if asked(job)]
    if len(found) == 1:
        return found[0]
    ids = labels(found or jobs)
    offered = f"{', '.join(shorten(one, 60) for one in ids[:OFFERED])}"
    more = f" and {len(ids) - OFFERED} more" if len(ids) > OFFERED else ""
    which = f"{len(found)} jobs are {wanted}: " if found else f"no job is {wanted}; there are "
    raise click.UsageError(f"{path}: {which}{offered}{more}")


# --- slots ----------------------------------------------------------------------------------------


def the_slot(pool: mm.Pool | Shards, wanted: str) -> str:
    """The key of an ad, or of the only slot of a machine.

    Raises UsageError for neither, and offers the slots of a machine that has several.
    """
    if wanted in pool:
        return wanted
    host = ascii_fold(wanted)
    # Slots in shards are not looked through one by one: those are named by their keys only.
    named = pool.snapshot().named() if isinstance(pool, mm.Pool) else []
    found = [key for key, ad in named if _on(host, key, ad)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise click.UsageError(f"no ad of the pool has {pool.key} = {wanted}, nor is on a machine"
                               " of that name")  # fmt: skip
    more = f" and {len(found) - OFFERED} more" if len(found) > OFFERED else ""
    offered = ", ".join(shorten(key, 60) for key in found[:OFFERED])
    raise click.UsageError(f"{wanted} has {count(len(found), 'slot')}, which one? {offered}{more}")


def _on(host: str, key: str, ad: ClassAd) -> bool:
    names = (ascii_fold(value_text(ad.eval("Machine")).strip('"')), ascii_fold(key).rpartition("@"))
    machine, (_, at, after) = names
    return host in {machine, machine.partition(".")[0], *((after,) if at else ()),
                    *((after.partition(".")[0],) if at else ())}  # fmt: skip


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
    Without a key it is Name, or the key of the pool that the only file is. Raises ValueError, with
    files and places, if two ads have the same key.
    """
    found = pool_or_ads(paths, key, wanted)
    return found if isinstance(found, mm.Pool) else pool_from(found, key)


def pool_or_ads(
    paths: tuple[str, ...], key: str | None, wanted: Expr | None = None
) -> mm.Pool | list[tuple[str, list[ClassAd]]]:
    """The ads of each file, or the pool of a single file if it has the wanted key.

    With `wanted`, a constraint, only those for which it is true.
    """
    if len(paths) != 1:
        several = [(path, inputs.ads(path, key)) for path in paths]
        inputs.check_expressions()
        return filtered(several, wanted)
    with inputs.opened(paths[0]) as file:
        filled = _filled(paths[0], file, key) if wanted is None else None
        if filled is not None:
            inputs.check_expressions()
            return filled
        found = inputs.ads_in(paths[0], file, key)
        inputs.check_expressions()
        whole = isinstance(found, mm.Pool) and key in (None, found.key)
        if isinstance(found, mm.Pool) and whole:
            if wanted is None:
                return found
            return mm.Pool(satisfying(found, wanted), found.key)
        return filtered([(paths[0], list(found))], wanted)


def _filled(path: str, file: IO[bytes], key: str | None) -> mm.Pool | None:
    """Read a large file of ads into columns; None if two ads have the same key, or one has none.

    The ads are then read one by one, for a message with the place.
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


def filtered(
    files: list[tuple[str, list[ClassAd]]], wanted: Expr | None
) -> list[tuple[str, list[ClassAd]]]:
    """The ads for which a constraint is true, by file."""
    if wanted is None:
        return files
    # All files together are one pool, so that none is left only where no file has any.
    kept = set(map(id, satisfying((ad for _, ads in files for ad in ads), wanted)))
    return [(path, [ad for ad in ads if id(ad) in kept]) for path, ads in files]


def pool_from(files: Iterable[tuple[str, list[ClassAd]]], key: str | None) -> mm.Pool:
    """The pool of the ads of some files. Raises ValueError as ``read`` does."""
    files = list(files)
    key = key or "Name"
    try:
        return mm.Pool((ad for _, ads in files for ad in ads), key)
    except ValueError as error:
        said = _placed(files, key) or str(error)
        raise ValueError(f"{said} (--key NAME says which attribute tells ads apart)") from None


def _placed(files: list[tuple[str, list[ClassAd]]], key: str) -> str:
    """Name the first ad, by file and number, without a key or with a duplicate one."""
    from matchmaker.matching.columns.store import key_from

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


shard_options = together(
    click.option(
        "--scheduler", metavar="ADDRESS",
        help="A scheduler of Dask, such as tcp://host:8786, whose workers hold the pool. Each"
        " file is a shard, unless --shards says how many.",
    ),
    click.option(
        "--shards", type=click.IntRange(min=1, max=1000), metavar="N",
        help="Divide the pool into N shards in processes of this machine or of --scheduler.",
    ),
)  # fmt: skip
"""``--shards`` and ``--scheduler``."""


def sharded(shards: int | None, scheduler: str | None) -> bool:
    """Whether the options ask for shards."""
    return shards is not None or scheduler is not None


@contextmanager
def opened(
    paths: tuple[str, ...], key: str | None, constraint: Expr | None, shards: int | None,
    scheduler: str | None,
) -> Iterator[Pool | Shards]:  # fmt: skip
    """The pool of some files, of the ads for which a constraint is true, in shards if asked for."""
    if sharded(shards, scheduler):
        with in_shards(paths, key, constraint, shards, scheduler) as found:
            yield found
    else:
        yield read(paths, key, constraint)


@contextmanager
def in_shards(
    paths: tuple[str, ...], key: str | None, constraint: Expr | None, shards: int | None,
    scheduler: str | None,
) -> Iterator[Shards]:  # fmt: skip
    """Yield the shards of some files.

    For a number of shards or a constraint, the ads are read here first.
    """
    from matchmaker.shards import Shards
    from matchmaker.shards.cluster import DaskCluster, cores

    by_file = shards is None and constraint is None
    given = list(paths) if by_file else read(paths, key, constraint)
    if scheduler is None:
        workers = min(shards or 1, cores())
        with Shards(given, key=key, shards=shards, workers=workers) as found:
            yield found
        return
    cluster = DaskCluster.at(scheduler, 600.0)
    try:
        with Shards(given, cluster.client, key=key, shards=shards) as found:
            yield found
    finally:
        cluster.close(with_client=True)
