"""``classad match`` and ``assign``: the ads of a pool for one job, and slots for many jobs.

What matches and reports is imported by functions: NumPy takes longer than the help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from matchmaker import Expr, ParseError, parse_expr
from matchmaker.cli import inputs, pools
from matchmaker.cli.output import count, number, plain, print_json, table, warn

if TYPE_CHECKING:
    from matchmaker import Assignment, ClassAd, Expr, Placement, Pool, Shards
    from matchmaker.cli.reports import Page
    from matchmaker.matching.snapshot import Matches
    from matchmaker.matching.states import SlotState


MANY = 1000
"""More ads than this are matched as a pool, without a reason for each refusal."""

SHOWN = 20
"""How many of the best are then shown by default."""


@click.command("match")
@click.argument("job_file", metavar="JOB")
@click.argument("pool_files", metavar="POOL…", nargs=-1, required=True)
@click.option("--top", type=click.IntRange(min=0), metavar="N", help="Show the best N only.")
@pools.options
@pools.states
@pools.constraint
@pools.job_option
@pools.shard_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def match_command(
    *, job_file: str, pool_files: tuple[str, ...], top: int | None, key: str | None,
    names: dict[str, str], constraint: Expr | None, job_id: str | None, shards: int | None,
    scheduler: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Match JOB with each ad of the POOL files, both ways; best rank first.

    Of a small pool each ad that is refused is shown too, with the reason. Of more than 1000 ads the
    best 20 are shown, unless --top or --json asks for others; classad explain says what refuses
    the rest.

    Of the ads that match it says which are free now, and why the others are not: claimed,
    draining, kept by their owners, reserved. --names gives the attributes that say so.
    """
    from matchmaker import Pool, nodes
    from matchmaker.cli import reports
    from matchmaker.matching.selection import Selection, select
    from matchmaker.matching.states import SlotState, state_of

    job = pools.only_job(job_file, job_id)
    if pools.sharded(shards, scheduler):
        with pools.in_shards(pool_files, key, constraint, shards, scheduler) as apart:
            return _in_shards(job, apart, top, names, as_json)
    held = pools.pool_or_ads(pool_files, key, constraint)
    files = [("", list(held))] if isinstance(held, Pool) and len(held) <= MANY else held
    if isinstance(files, Pool) or sum(len(ads) for _, ads in files) > MANY:
        pool = files if isinstance(files, Pool) else pools.pool_from(files, key)
        return _among_many(job, pool, top, names, as_json)
    ads = [ad for _, some in files for ad in some]
    keys = None if key is None else pools.pool_from(files, key).keys()
    found = select(
        job, nodes.named(ads) if keys is None else zip(keys, ads, strict=True), default_rank=0.0
    )
    states = [state_of(job, candidate.ad, names) for candidate in found.ranked]
    counts = {state.value: states.count(state) for state in SlotState if state in states}
    shown = Selection(found.ranked[:top], found.refused)
    error = found.error
    if as_json:
        chosen = found.chosen.name if found.chosen else None
        data = reports.selection_data(shown)
        for one, state in zip(data["ranked"], states, strict=False):
            one["state"] = str(state)
        print_json({
            **data, "chosen": chosen, "matched": len(states), "total": len(ads),
            "states": counts, "error": error,
        })  # fmt: skip
    else:
        page = _page(len(states), len(ads), counts)
        page.selection(shown, "ad", states=None if set(counts) <= {SlotState.UNSAID} else states)
        page.print()
    _warn(error)
    return 0 if found.chosen else 1


def _warn(error: str | None) -> None:
    if error is not None:
        warn(f"not all could be evaluated: {error}")


def _page(matched: int, total: int, states: dict[str, int]) -> Page:
    from matchmaker.cli.reports import Page
    from matchmaker.matching.states import in_words, matching

    page = Page(matching(matched, total, states))
    if states and (words := in_words(states)):
        page.lines([words], apart=False)
    if not matched and total:
        page.show("classad explain says which clauses exclude them, and what would help")
    return page


def _in_shards(
    job: ClassAd, pool: Shards, top: int | None, names: dict[str, str], as_json: bool
) -> int:
    """Show the best without a state for each: the slots are elsewhere."""
    shown = SHOWN if top is None else top
    matched = pool.match(job) if as_json and top is None else pool.top(job, max(shown, 1))
    best = matched.best(len(matched))
    rows = [(name, rank, None) for name, rank in zip(best.keys, best.ranks, strict=True)]
    rows = rows if as_json and top is None else rows[:shown]
    return _print(best, rows, pool.states(job, names), len(pool), as_json)


def _among_many(
    job: ClassAd, pool: Pool, top: int | None, names: dict[str, str], as_json: bool
) -> int:
    from matchmaker.matching.states import SlotState, SlotStates

    snapshot = pool.snapshot()
    found = snapshot.match(job)
    states = SlotStates.of(snapshot._view, names)
    if top is None:
        top = len(found) if as_json else SHOWN
    best = found.best(max(top, 1))
    order = list(SlotState)
    each = [order[code] for code in states.codes(job, best._row_array).tolist()]
    rows = list(zip(best.keys[:top], best.ranks, each, strict=False))
    return _print(best, rows, states.counts(job, found._row_array), len(pool), as_json)


def _print(
    best: Matches, rows: Sequence[tuple[str, float, SlotState | None]], counts: dict[str, int],
    total: int, as_json: bool,
) -> int:  # fmt: skip
    """Print the best matches; why others were refused is not sought among many."""
    from matchmaker.matching.states import SlotState

    matched = sum(counts.values())
    if as_json:
        ranked = [
            {"name": name, "rank": plain(rank), **({} if state is None else {"state": str(state)})}
            for name, rank, state in rows
        ]
        print_json({
            "chosen": best.keys[0] if best else None, "ranked": ranked, "refused": None,
            "matched": matched, "total": total, "states": counts, "error": best.error,
        })  # fmt: skip
    else:
        page = _page(matched, total, counts)
        said = not set(counts) <= {SlotState.UNSAID} and all(state for _, _, state in rows)
        cells = [
            (place, name, number(rank), *([state] if said else []))
            for place, (name, rank, state) in enumerate(rows, 1)
        ]
        if cells:
            titles = ("", "ad", "rank", *(["state"] if said else []))
            page.show(table(titles, cells, right=(0, 2), whole=(1,)))
        page.print()
    _warn(best.error)
    return 0 if best else 1


_T = TypeVar("_T")


@click.command("assign")
@click.argument("job_files", metavar="JOBS…", nargs=-1, required=True)
@click.option(
    "--pool", "pool_files", multiple=True, required=True, metavar="FILE",
    help="Slots. May be given several times; all files are one pool.",
)  # fmt: skip
@pools.options
@pools.states
@click.option("--priority", metavar="EXPR", help="Of a job; the highest first. [default: JobPrio]")
@click.option(
    "--group",
    metavar="EXPR",
    help="Of a job. [default: AcctGroup, AccountingGroup up to its last dot, or Owner]",
)
@click.option(
    "--share", "shares", multiple=True, metavar="GROUP=NUMBER",
    help="The share of a group. May be given several times. [default: 1]",
)  # fmt: skip
@click.option(
    "--usage", "usages", multiple=True, metavar="GROUP=NUMBER",
    help="Earlier use by a group. May be given several times. [default: 0]",
)  # fmt: skip
@click.option(
    "--resources",
    multiple=True,
    metavar="NAME=EXPR",
    help="What a job takes of a partitionable slot's attribute NAME. May be given again; then only"
    " those given are taken. [default: Cpus=MY.RequestCpus ?: 1, Memory, Disk, GPUs]",
)
@pools.shard_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def assign_command(
    *, job_files: tuple[str, ...], pool_files: tuple[str, ...], key: str | None,
    names: dict[str, str], priority: str | None, group: str | None, shares: tuple[str, ...],
    usages: tuple[str, ...], resources: tuple[str, ...], shards: int | None, scheduler: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Give each of the JOBS its best free slot, in an order that is fair to accounting groups.

    Partitionable slots give each job the part that it asks for. Jobs go by their ids, such as
    ClusterId.ProcId; those without one are counted from 1, as they
    stand in the files; the library counts them from 0. Exit status 0 if a job got a slot, 1 if none
    did.
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
    with pools.opened(pool_files, key, None, shards, scheduler) as pool:
        found = pool.assign(jobs, policy)
    if as_json:
        print_json(_assignment_data(found, [pools.id_of(job) for job in jobs]))
    else:
        _assignment_page(found, pools.labels(jobs)).print()
    return 0 if found.placed else 1


def _by_name(option: str, given: tuple[str, ...], read: Callable[[str, str], _T]) -> dict[str, _T]:
    """Parse NAME=VALUE options; each name may occur once."""
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


def _assignment_data(found: Assignment, ids: Sequence[str | None]) -> dict[str, Any]:
    return {
        "placements": [_placement(p, ids[p.number]) for p in found.placements],
        "order": [n + 1 for n in found.order],
        "usage": {group: plain(usage) for group, usage in found.usage.items()},
        "notes": list(found.notes),
        "left": {key: _amounts(left) for key, left in found.left.items()},
    }


def _placement(placement: Placement, name: str | None) -> dict[str, Any]:
    """Describe a job. Jobs are counted from 1, in the order of the files."""
    data = {
        "job": placement.number + 1, "id": name, "group": placement.group,
        "outcome": str(placement.outcome), "slot": placement.slot,
    }  # fmt: skip
    if placement.rank is None:
        return {**data, "reason": placement.reason, "counts": dict(placement.counts)}
    more = {"rank": plain(placement.rank), "ranked": placement.ranked}
    return {**data, **more, "taken": _amounts(placement.taken)}


def _amounts(amounts: Mapping[str, float]) -> dict[str, Any]:
    return {name: plain(amount) for name, amount in amounts.items()}


def _assignment_page(found: Assignment, ids: Sequence[str]) -> Page:
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
    shown = ", ".join(jobs[:8])
    return shown if len(jobs) <= 8 else f"{shown} and {len(jobs) - 8} more"
