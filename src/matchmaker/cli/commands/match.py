"""``classad match``: the ads of a pool that match a job, best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from matchmaker.cli import picking, pools, spread
from matchmaker.cli.output import number, plain, print_json, table, warn

# What matches and reports is loaded where it does so: NumPy takes longer than the help.
if TYPE_CHECKING:
    from matchmaker import ClassAd, Expr, Pool, Shards
    from matchmaker.cli.reports import Page
    from matchmaker.matching.snapshot import Matches
    from matchmaker.matching.states import State

MANY = 1000
"""More ads than this are matched as a pool, without a reason for each refusal."""

SHOWN = 20
"""How many of the best are then shown by default."""


@click.command()
@click.argument("job_file", metavar="JOB")
@click.argument("pool_files", metavar="POOL…", nargs=-1, required=True)
@click.option("--top", type=click.IntRange(min=0), metavar="N", help="Show the best N only.")
@pools.options
@pools.states
@picking.constraint
@picking.job_option
@spread.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    job_file: str,
    pool_files: tuple[str, ...],
    top: int | None,
    key: str | None,
    names: dict[str, str],
    constraint: Expr | None,
    job_id: str | None,
    shards: int | None,
    scheduler: str | None,
    as_json: bool,
) -> int:
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
    from matchmaker.matching.states import State, state_of

    job = picking.only_job(job_file, job_id)
    if spread.asked(shards, scheduler):
        with spread.in_shards(pool_files, key, constraint, shards, scheduler) as apart:
            return _in_shards(job, apart, top, names, as_json)
    held = pools.held(pool_files, key, constraint)
    files = [("", list(held))] if isinstance(held, Pool) and len(held) <= MANY else held
    if isinstance(files, Pool) or sum(len(ads) for _, ads in files) > MANY:
        pool = files if isinstance(files, Pool) else pools.made(files, key)
        return _among_many(job, pool, top, names, as_json)
    ads = [ad for _, some in files for ad in some]
    keys = None if key is None else pools.made(files, key).keys()
    found = select(
        job, nodes.named(ads) if keys is None else zip(keys, ads, strict=True), default_rank=0.0
    )
    states = [state_of(job, candidate.ad, names) for candidate in found.ranked]
    counts = {state.value: states.count(state) for state in State if state in states}
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
        page.selection(shown, "ad", states=None if set(counts) <= {State.UNSAID} else states)
        page.print()
    _warn(error)
    return 0 if found.chosen else 1


def _warn(error: str | None) -> None:
    """Warns on standard error that the pool, not the job, may cause refusals."""
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
    """Shows the best without a state for each: the slots are elsewhere."""
    shown = SHOWN if top is None else top
    matched = pool.match(job) if as_json and top is None else pool.top(job, max(shown, 1))
    best = matched.best(len(matched))
    rows = [(name, rank, None) for name, rank in zip(best.keys, best.ranks, strict=True)]
    rows = rows if as_json and top is None else rows[:shown]
    return _print(best, rows, pool.states(job, names), len(pool), as_json)


def _among_many(
    job: ClassAd, pool: Pool, top: int | None, names: dict[str, str], as_json: bool
) -> int:
    from matchmaker.matching.states import State, States

    snapshot = pool.snapshot()
    found = snapshot.match(job)
    states = States.of(snapshot._view, names)
    if top is None:
        top = len(found) if as_json else SHOWN
    best = found.best(max(top, 1))
    order = list(State)
    each = [order[code] for code in states.codes(job, best._row_array).tolist()]
    rows = list(zip(best.keys[:top], best.ranks, each, strict=False))
    return _print(best, rows, states.counts(job, found._row_array), len(pool), as_json)


def _print(
    best: Matches, rows: Sequence[tuple[str, float, State | None]], counts: dict[str, int],
    total: int, as_json: bool,
) -> int:  # fmt: skip
    """Prints the best matches; why others were refused is not sought among many."""
    from matchmaker.matching.states import State

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
        said = not set(counts) <= {State.UNSAID} and all(state for _, _, state in rows)
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
