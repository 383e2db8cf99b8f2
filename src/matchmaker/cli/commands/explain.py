"""``classad explain``: why a job matches so few ads of a pool, and what would help."""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from rich.console import RenderableType
from rich.text import Text

from matchmaker import ClassAd, Expr
from matchmaker._files import replacing
from matchmaker.classad.errors import shorten
from matchmaker.classad.printer import brief
from matchmaker.cli import inputs, pools
from matchmaker.cli.output import (
    console,
    count,
    plain,
    print_json,
    printable,
    show,
    table,
    warn,
    wrapped,
)
from matchmaker.matching.pair import value_text

if TYPE_CHECKING:
    from matchmaker import Pool, Shards
    from matchmaker.matching.explanation import Explanation, PairClause, PairExplanation, Suggestion
    from matchmaker.matching.explanation.report import Counted, Paged, QueueExplanation

# With eighths of a character, 20 characters show differences below one percent.
BAR = 20


@click.command("explain")
@click.argument("job_file", metavar="JOB")
@click.argument("pool_files", metavar="POOL…", nargs=-1, required=True)
@pools.options
@pools.states
@pools.constraint
@pools.job_option
@click.option(
    "--with", "name", metavar="KEY",
    help="Explain one ad of the pool, or the slot of a machine, with values.",
)  # fmt: skip
@pools.shard_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--html", "html_file", metavar="FILE", help="Write a page with a picture.")
def explain_command(
    *, job_file: str, pool_files: tuple[str, ...], key: str | None, names: dict[str, str],
    constraint: Expr | None, job_id: str | None, name: str | None, shards: int | None,
    scheduler: str | None, as_json: bool, html_file: str | None,
) -> int:  # fmt: skip
    """Show why JOB matches so few ads of the POOL files.

    For each clause of its requirements: how many ads satisfy it alone, how many satisfy it and all
    before it, and how many it alone keeps from matching (near misses). Then the smallest sets of
    clauses that exclude everything, the changes that gain most, and which clauses of the ads' own
    requirements refuse the job.

    Of many jobs, those that match alike are explained once, those first that match least; the exit
    status is 0 if each matches something. --job ID takes one; --html shows them all. --with takes
    the key of an ad, or the name of a machine with one slot.

    Of the ads that match it says how many are free now, and why the others are not: claimed,
    draining, kept by their owners, reserved. --names gives the attributes that say so.
    """
    if html_file == "":
        raise click.UsageError("--html names no file; - is standard output")
    if html_file == "-" and as_json:
        raise click.UsageError("--json and --html - cannot both have standard output")
    jobs = inputs.ads(job_file)
    if job_id is not None:
        jobs = [pools.the_job(jobs, job_id, job_file)]
    if len(jobs) > 1 and name is not None:
        raise click.UsageError(
            f"--with explains one job, and {job_file} has {len(jobs)}: give --job ID"
        )
    job = inputs.the_one(job_file, jobs) if len(jobs) < 2 else None
    with pools.opened(pool_files, key, constraint, shards, scheduler) as pool:
        if job is None:
            found = _many(jobs, pool, names)
            if html_file is not None:
                _paged(found, f"jobs {_file(job_file)}", pool_files, html_file)
            return _printed_many(found, as_json=as_json, quiet=html_file is not None)
        explained = (
            pool.explain(job, names=names)
            if name is None
            else pool.explain_pair(job, pools.the_slot(pool, name), names=names)
        )
    return _printed(explained, job, job_file, pool_files, html_file, as_json=as_json)


def _printed(
    explained: Explanation | PairExplanation, job: ClassAd, job_file: str,
    pool_files: tuple[str, ...], html_file: str | None, *, as_json: bool,
) -> int:  # fmt: skip
    """Print an explanation and write its page; the exit status."""
    from matchmaker.matching.explanation import PairExplanation

    if html_file is not None:
        _paged(explained, f"job {pools.id_of(job) or _file(job_file)}", pool_files, html_file)
    if as_json:
        print_json(_data(explained))
    elif html_file is None:
        parts = _pair(explained) if isinstance(explained, PairExplanation) else _page(explained)
        for part in parts:
            show(part)
    return 0 if explained.matched else 1


MOST = 100
"""How many autoclusters are explained."""


def _many(jobs: list[ClassAd], pool: Pool | Shards, names: dict[str, str]) -> QueueExplanation:
    """Explains each autocluster of the jobs once."""
    from matchmaker.matching.explanation.report import QueueExplanation

    then = pool.snapshot()
    ids = pools.labels(jobs)
    members: dict[Hashable, list[int]] = {}
    for number, job in enumerate(jobs):
        members.setdefault(then.cluster(job), []).append(number)
    groups = sorted(members.values(), key=len, reverse=True)
    return QueueExplanation.of(len(jobs), len(groups), (
        ([ids[n] for n in numbers], pool.explain(jobs[numbers[0]], names=names))
        for numbers in groups[:MOST]
    ))  # fmt: skip


def _printed_many(found: QueueExplanation, *, as_json: bool, quiet: bool) -> int:
    """Print the explanations of several jobs, unless a page has them; return the exit status."""
    left = found.count - len(found.clusters)
    if left:
        warn(f"{count(left, 'smaller cluster')} of jobs not explained: --job ID explains one job")
    if as_json:
        print_json({
            "jobs": found.jobs,
            "clusters": [{"jobs": list(ids), **_data(one)} for ids, one in found.clusters],
            "unexplained": left,
        })  # fmt: skip
    elif not quiet:
        print(f"{found.summary()}\n")
        show(table(*found.rows(), right=(0, 1, 2), whole=(0, 1)))
        ids, worst = found.clusters[0]
        print(f"\nThe first, such as {printable(shorten(ids[0], 60))}:\n")
        for part in _page(worst):
            show(part)
    return 0 if all(one.matched for _, one in found.clusters) else 1


def _paged(explained: Paged, job: str, pool_files: tuple[str, ...], path: str) -> None:
    """Write the page of an explanation; `job` says of what."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    files = ", ".join(_file(path) for path in pool_files)
    _write(path, explained.html(f"{job}, pool {shorten(files, 200)}, {when}"))


def _file(path: str) -> str:
    return "of standard input" if path == "-" else Path(path).name


def _write(path: str, page: str) -> None:
    if path == "-" and sys.stdout.isatty():
        print(page, end="")
    elif path == "-":
        # UTF-8, as the page declares, whatever the terminal's encoding.
        sys.stdout.flush()
        sys.stdout.buffer.write(page.encode())
        sys.stdout.buffer.flush()
    else:
        with replacing(path) as file:
            file.write(page)


# --- for people -----------------------------------------------------------------------------------


def _page(explained: Explanation) -> list[RenderableType]:
    from matchmaker.matching.explanation.report import ad_table, clause_table

    parts: list[RenderableType] = []
    if explained.clauses:
        parts.append(_barred(explained.total, clause_table(explained), 2))
    parts += [explained.summary(), *explained.standing()]
    for counted in explained.elements:
        bars = _barred(counted.elements, counted.table(), 1)
        parts += ["", str(counted), bars]
    for some in (explained.notes, explained.conflicts, explained.advice()):
        parts += ["", *map(str, some)] if some else []
    if explained.worst():
        parts += ["", _barred(explained.total, ad_table(explained), 1)]
    if explained.unseen():
        parts += [*([] if explained.worst() else [""]), explained.unseen()]
    return parts


def _barred(total: int, counted: Counted, place: int) -> RenderableType:
    """A table with a bar of the numbers in one place before the text, of a total."""
    titles, rows = counted
    encoding = sys.stdout.encoding or "ascii"
    out = console()
    if out.is_terminal:
        cells = [(numbers, numbers[place], text) for *numbers, text in rows]
        return Text("\n").join(_narrow(titles, cells, total, out.width, encoding))
    lines = [
        (*(f"{n:,}" for n in numbers), bar(numbers[place], total, encoding),
         shorten(text))
        for *numbers, text in rows
    ]  # fmt: skip
    heads = (*titles[:-1], "", titles[-1])
    whole = [n for n, head in enumerate(heads[:-1]) if head != "near misses"]
    return table(heads, lines, right=range(len(titles) - 1), whole=whole)


LEAST = 40
"""The least width of a terminal's column of clauses; with less they stand below their numbers."""


def _narrow(
    titles: Sequence[str], rows: Sequence[tuple[Sequence[int], int, str]], total: int, width: int,
    encoding: str,
) -> Iterator[Text]:  # fmt: skip
    """The lines of such a table in a terminal: numbers in line, clauses wrapped at operators.

    Each row has its numbers, the one that its bar shows, and its text.
    """
    shown = [[f"{n:,}" for n in numbers] for numbers, _, _ in rows]
    widths = [max(map(len, column)) for column in zip(titles[:-1], *shown, strict=True)]
    used = sum(widths) + 2 * len(widths)
    size = min(BAR, width - used - LEAST - 2)
    below = size < BAR // 4
    if below:
        size = max(0, min(BAR, width - used))
    margin = widths[0] + 2 if below else used + size + 2

    def line(cells: Iterable[str], picture: str) -> str:
        return "  ".join([*(c.rjust(w) for c, w in zip(cells, widths, strict=True)), picture])

    head = line(titles[:-1], " " * size)
    yield Text(head.rstrip() if below else f"{head}  {titles[-1]}", style="bold")
    for cells, (_, number, text) in zip(shown, rows, strict=True):
        first = line(cells, bar(number, total, encoding, size))
        parts = wrapped(printable(shorten(text)), max(width - margin, LEAST // 2))
        if not below:
            first = f"{first.ljust(margin)}{parts.pop(0)}"
        yield Text(first.rstrip())
        yield from (Text(" " * margin + part) for part in parts)


def _pair(explained: PairExplanation) -> list[RenderableType]:
    parts: list[RenderableType] = [explained.summary()]
    for title, found in explained.sides():
        rows = []
        for one in found:
            clause = one.clause
            text = brief(clause.expression)
            if clause.definition is not None:
                text += f": {brief(clause.definition)}"
            if one.element:
                text = f"{one.element}: {text}"
            facts = ", ".join([*clause.found, *filter(None, [one.short])])
            rows.append((one.number, value_text(clause.value), text, facts))
        of_rows = table(("", "is", title, "with"), rows, whole=(0,))
        parts += ["", of_rows if rows else f"{title} nothing"]
    return parts


def bar(number: int, total: int, encoding: str = "utf-8", size: int = BAR) -> str:
    """A bar in proportion to the total, in eighths of a character if the encoding has them.

    The total has `size` characters.

    >>> bar(1, 2), bar(1, 10_000), bar(0, 5), bar(1, 2, "ascii")
    ('██████████', '▏', '', '##########')
    """
    if not encoding.lower().startswith("utf"):
        return "#" * -(-size * number // (total or 1))
    eighths = max(8 * size * number // (total or 1), 1 if number and size else 0)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


# --- as data --------------------------------------------------------------------------------------


def _data(explained: Explanation | PairExplanation) -> dict[str, Any]:
    from matchmaker.matching.explanation import PairExplanation

    if isinstance(explained, PairExplanation):
        return {
            "key": explained.key, "matched": explained.matched, "state": str(explained.state),
            "rank": plain(explained.match.rank),
            "job_clauses": [_clause_data(one) for one in explained.job_clauses],
            "ad_clauses": [_clause_data(one) for one in explained.ad_clauses],
        }  # fmt: skip
    together = explained.joint
    return {
        "total": explained.total,
        "matched": explained.matched,
        "states": dict(explained.states),
        "refused_by_ads": explained.refused_by_ads,
        "clauses": list(map(attrs.asdict, explained.clauses)),
        "elements": list(map(attrs.asdict, explained.elements)),
        "error": explained.error,
        "later": None if explained.later is None else {
            **attrs.asdict(explained.later, recurse=False),
            "suggestions": list(map(_suggestion, explained.later.suggestions)),
        },
        "notes": list(explained.notes),
        "conflicts": list(map(attrs.asdict, explained.conflicts)),
        "suggestions": list(map(_suggestion, explained.suggestions)),
        "joint": None if together is None else {
            "text": str(together), "changes": list(map(attrs.asdict, together.changes)),
            "gain": together.gain, "matched": together.matched, "free": together.free,
            "exact": together.exact, "sooner": together.sooner,
        },
        "ad_clauses": list(map(attrs.asdict, explained.ad_clauses)),
    }  # fmt: skip


def _suggestion(one: Suggestion) -> dict[str, Any]:
    return {
        "text": str(one), "what": one.what, "before": one.before, "after": one.after,
        "gain": one.gain, "matched": one.matched, "free": one.free, "sooner": one.sooner,
    }  # fmt: skip


def _clause_data(one: PairClause) -> dict[str, Any]:
    clause = one.clause
    return {
        "number": one.number, "clause": str(clause.expression),
        "definition": str(clause.definition) if clause.definition is not None else None,
        "value": plain(clause.value), "facts": {name: plain(value) for name, value in clause.facts},
        "more_facts": clause.more, "element": one.element or None, "short": one.short or None,
    }  # fmt: skip
