"""``classad assign``: a negotiation cycle, each job to its best free slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from matchmaker import Expr, ParseError, parse_expr
from matchmaker.cli import inputs, picking, pools, spread
from matchmaker.cli.output import count, number, plain, print_json, table

if TYPE_CHECKING:
    from matchmaker import Assignment, Placement
    from matchmaker.cli.reports import Page

_T = TypeVar("_T")


@click.command()
@click.argument("job_files", metavar="JOBS…", nargs=-1, required=True)
@click.option(
    "--pool",
    "pool_files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Slots. May be given several times; all files are one pool.",
)
@pools.options
@pools.states
@click.option("--priority", metavar="EXPR", help="Of a job; the highest first. [default: JobPrio]")
@click.option(
    "--group",
    metavar="EXPR",
    help="Of a job. [default: AcctGroup, AccountingGroup up to its last dot, or Owner]",
)
@click.option(
    "--share",
    "shares",
    multiple=True,
    metavar="GROUP=NUMBER",
    help="The share of a group. May be given several times. [default: 1]",
)
@click.option(
    "--usage",
    "usages",
    multiple=True,
    metavar="GROUP=NUMBER",
    help="Earlier use by a group. May be given several times. [default: 0]",
)
@click.option(
    "--resources",
    multiple=True,
    metavar="NAME=EXPR",
    help="What a job takes of a partitionable slot's attribute NAME. May be given again; then only"
    " those given are taken. [default: Cpus=MY.RequestCpus ?: 1, Memory, Disk, GPUs]",
)
@spread.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    job_files: tuple[str, ...],
    pool_files: tuple[str, ...],
    key: str | None,
    names: dict[str, str],
    priority: str | None,
    group: str | None,
    shares: tuple[str, ...],
    usages: tuple[str, ...],
    resources: tuple[str, ...],
    shards: int | None,
    scheduler: str | None,
    as_json: bool,
) -> int:
    """Give each of the JOBS its best free slot, in an order that is fair to accounting groups.

    Partitionable slots give each job the part that it asks for. Jobs go by their ids, such as
    ClusterId.ProcId; those without one are counted from 1, as they
    stand in the files; the library counts them from 0. Exit status 0 where a job got a slot, 1
    where none did.
    """
    from matchmaker import Policy

    terms: dict[str, Any] = {
        "names": names,
        "share": _by_name("--share", shares, _number),
        "usage": _by_name("--usage", usages, _number),
    }
    if resources:
        terms["resources"] = _by_name("--resources", resources, _expression)
    for name, text in (("priority", priority), ("group", group)):
        if text is not None:
            terms[name] = _expression(f"--{name}", text)
    policy = Policy(**terms)
    jobs = [ad for path in job_files for ad in inputs.ads(path)]
    with spread.pool(pool_files, key, None, shards, scheduler) as pool:
        found = pool.assign(jobs, policy)
    if as_json:
        print_json(_data(found, [picking.id_of(job) for job in jobs]))
    else:
        _page(found, picking.labels(jobs)).print()
    return 0 if found.placed else 1


def _by_name(option: str, given: tuple[str, ...], read: Callable[[str, str], _T]) -> dict[str, _T]:
    """Parses NAME=VALUE options; each name may occur once."""
    found: dict[str, _T] = {}
    for text in given:
        # A group may have a = in its name, an expression too.
        name, equals, value = text.rpartition("=") if read is _number else text.partition("=")
        if not equals or not name:
            like = "physics=2" if read is _number else "Cpus=MY.RequestCpus"
            raise click.UsageError(f"{option} {text}: not like {like}")
        if name in found:
            raise click.UsageError(f"{option} {text}: {name} was given before")
        found[name] = read(f"{option} {text}", value)
    return found


def _number(where: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"{where}: {text or 'nothing'} is not a number") from None


def _expression(where: str, text: str) -> Expr:
    try:
        return parse_expr(text)
    except ParseError as error:
        raise click.UsageError(f"{where}: {error.summary()}") from None


def _data(found: Assignment, ids: Sequence[str | None]) -> dict[str, Any]:
    return {
        "placements": [_placement(p, ids[p.number]) for p in found.placements],
        "order": [n + 1 for n in found.order],
        "usage": {group: plain(usage) for group, usage in found.usage.items()},
        "notes": list(found.notes),
        "left": {key: _amounts(left) for key, left in found.left.items()},
    }


def _placement(placement: Placement, name: str | None) -> dict[str, Any]:
    """Describes a job. Jobs are counted from 1, in the order of the files."""
    data = {
        "job": placement.number + 1,
        "id": name,
        "group": placement.group,
        "outcome": str(placement.outcome),
        "slot": placement.slot,
    }
    if placement.rank is None:
        return {**data, "reason": placement.reason, "counts": dict(placement.counts)}
    more = {"rank": plain(placement.rank), "ranked": placement.ranked}
    return {**data, **more, "taken": _amounts(placement.taken)}


def _amounts(amounts: Mapping[str, float]) -> dict[str, Any]:
    return {name: plain(amount) for name, amount in amounts.items()}


def _page(found: Assignment, ids: Sequence[str]) -> Page:
    from matchmaker.cli.reports import Page

    total = len(found.placements)
    page = Page(f"{len(found.placed)} of {count(total, 'job')} placed")
    if found.placed:
        rows = [
            [ids[p.number], p.group, p.slot, number(p.rank or 0.0), _part(p)] for p in found.placed
        ]
        page.show(table(["job", "group", "slot", "rank", "gets"], rows, right=(0, 3), whole=(2,)))
    if found.unranked:
        page.say("no rank", f"{count(len(found.unranked), 'job')}: a rank that is no number is 0")
    if found.idle:
        reasons: dict[tuple[str, str], list[str]] = {}
        for p in found.idle:
            reasons.setdefault((p.outcome, p.reason), []).append(ids[p.number])
        rows = [[_numbers(jobs), *why] for why, jobs in reasons.items()]
        page.show(table(["idle", "", "why"], rows, whole=(1,)))
    if found.notes:
        page.lines(found.notes)
    return page


def _part(placement: Placement) -> str:
    return ", ".join(f"{number(float(n))} {name}" for name, n in placement.taken.items())


def _numbers(jobs: list[str]) -> str:
    """Lists the first few jobs."""
    shown = ", ".join(jobs[:8])
    return shown if len(jobs) <= 8 else f"{shown} and {len(jobs) - 8} more"
