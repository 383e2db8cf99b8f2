"""``classad jobs``: the jobs that were handed over, and what they wait for."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

import attrs
import click

from matchmaker.cli import transfers
from matchmaker.cli.output import count, facts, print_json, printable, show, table, warn
from matchmaker.delegation.record import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matchmaker.delegation import Ledger, Record
    from matchmaker.delegation.contact import Spool


_UNITS: Final = {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86_400}


def _age(value: str) -> float:
    """A length of time in seconds; raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,9})(s|min|h|d|)", value)
    if match is None:
        raise ValueError(f"{value!r} is no age: give a number with s, min, h or d, such as 30d")
    return float(match[1]) * _UNITS[match[2]]


@click.command()
@click.argument("key", required=False)
@transfers.options
@click.option("--all", "everything", is_flag=True, help="Jobs that have ended too.")
@click.option("--most", metavar="NUMBER", type=click.IntRange(1, 1_000_000), default=1000,
              show_default=True, help="With --all: how many at most, the youngest.")  # fmt: skip
@click.option("--stuck", is_flag=True, help="Only jobs that do not get on, and why.")
@click.option("--check", is_flag=True, help="Look for damage, and for jobs that are missing.")
@click.option("--prune", metavar="AGE", type=_age,
              help="Remove jobs that ended longer ago than this, such as 30d or 12h.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="With --prune: only count them.")
@click.option("--rebuild", metavar="LRMS",
              help="Make the ledger anew from this batch system and the spool.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    key: str | None,
    place: transfers.Place,
    everything: bool,
    most: int,
    stuck: bool,
    check: bool,
    rebuild: str | None,
    prune: float | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """List the jobs that were handed over and have not ended, or show the history of KEY.

    Exit status 1 if there are none; with --check, if something is wrong; with --prune, if some
    could not be removed.
    """
    if rebuild is not None:
        return _rebuild(place, rebuild, as_json=as_json)
    if dry_run and prune is None:
        raise click.UsageError("--dry-run needs --prune AGE")
    with transfers.opened(place) as ledger:
        if prune is not None:
            return _prune(ledger, prune, dry_run=dry_run, as_json=as_json)
        if check:
            return _check(ledger, transfers.spool_of(place, ledger), as_json=as_json)
        if key is not None:
            return _history(ledger, key, as_json=as_json)
        rows: Sequence[Record | Unreadable]
        rows = ledger.recent(most) if everything else ledger.live_rows()
    records = [row for row in rows if not isinstance(row, Unreadable)]
    for row in rows:
        if isinstance(row, Unreadable):
            warn(f"{row.key}: {row.why}")
    return _list(records, stuck=stuck, as_json=as_json)


def _list(records: list[Record], *, stuck: bool, as_json: bool) -> int:
    from matchmaker.delegation import stuck as why_stuck

    now = time.time()
    pairs = [(record, why_stuck(record, now)) for record in records]
    if stuck:
        pairs = [(record, why) for record, why in pairs if why is not None]
    if as_json:
        print_json([{**transfers.record_data(r), "stuck": why} for r, why in pairs])
    elif pairs:
        waits = [why or transfers.short(record.reason) for record, why in pairs]
        show(transfers.jobs_table([record for record, _ in pairs], now, waits))
    else:
        print("no job is stuck" if stuck else "no jobs")
    return 0 if pairs else 1


def _history(ledger: Ledger, key: str, *, as_json: bool) -> int:
    from matchmaker.delegation import stuck

    record = ledger.get(key)
    entries, now = ledger.history(key), time.time()
    if as_json:
        print_json({
            **transfers.record_data(record), "stuck": stuck(record, now),
            "history": [attrs.asdict(entry) for entry in entries],
        })  # fmt: skip
        return 0
    lines: list[tuple[str, object]] = [
        ("key", record.key), ("state", record.state), ("why", stuck(record, now) or record.reason),
        ("batch system", record.cluster), ("id", record.remote_id), ("name", record.name),
        ("owner", record.owner),
        ("lease", transfers.span(record.lease_until - now) if record.state.live else ""),
        ("exit status", "" if record.exit is None else record.exit),
    ]  # fmt: skip
    show(facts((name, value) for name, value in lines if value != "" and value is not None))
    print()
    rows = [
        [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(e.at)), e.attempt, e.source, e.target,
         e.by, e.reason]
        for e in entries
    ]  # fmt: skip
    show(table(["when", "attempt", "from", "to", "by", "why"], rows, right=(1,), whole=(0,)))
    return 0


def _check(ledger: Ledger, spool: Spool | None, *, as_json: bool) -> int:
    from matchmaker.delegation import check

    found = check(ledger, spool)
    if as_json:
        print_json(found)
    else:
        for line in found or ["the ledger is sound"]:
            print(printable(line))
    return 1 if found else 0


def _prune(ledger: Ledger, age: float, *, dry_run: bool, as_json: bool) -> int:
    from matchmaker.delegation.findings import prune

    before = time.time() - age
    gone, troubles = (ledger.count_ended(before), []) if dry_run else prune(ledger, before)
    if as_json:
        print_json({"removed": 0 if dry_run else gone, "ended": gone, "troubles": dict(troubles)})
    else:
        print(f"{'to remove' if dry_run else 'removed'}: {count(gone, 'job')}")
    for key, why in troubles:
        warn(f"{key}: {why}")
    return 1 if troubles else 0


def _rebuild(place: transfers.Place, system: str, *, as_json: bool) -> int:
    from matchmaker.delegation import set_aside

    aside = set_aside(transfers.ledger_at(place))
    with transfers.opened(place) as ledger:
        report = transfers.delegator(place, ledger, system).rebuild()
    if as_json:
        print_json({**transfers.report_data(report), "damaged": aside})
    else:
        if aside is not None:
            print(printable(f"the damaged ledger is now {aside}"))
        print(f"rebuilt: {count(report.live, 'live job')}")
    return 0
