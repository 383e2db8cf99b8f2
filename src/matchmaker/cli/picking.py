"""Some ads of many: those that a constraint leaves, the job of an id, the slots of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

import matchmaker as mm
from matchmaker import ClassAd, Expr, ParseError, parse_expr
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.quoting import shorten
from matchmaker.classad.unparse import brief
from matchmaker.cli import inputs
from matchmaker.cli.output import count, warn
from matchmaker.matching.pair import value_text

if TYPE_CHECKING:
    from matchmaker import Shards

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

    What is undefined or an error is not true. Where none is left, a line on standard error says so.
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
    """Each job by its id, or by its number among those given, from 1, where it has none."""
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
