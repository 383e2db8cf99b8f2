"""``classad jobs``, ``reconcile``, ``renew``, ``resume``, ``cancel``, ``acknowledge``."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs
import click

from matchmaker.cli import transfers
from matchmaker.cli.options import FiniteRange, logs
from matchmaker.cli.output import count, facts, print_json, printable, show, table, waiting, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matchmaker.delegation import Delegator, Ledger, Reconciliation, Record
    from matchmaker.delegation.contact import Spool


_LOG: Final = logging.getLogger(__name__)
_UNITS: Final = {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86_400}


def _age(value: str) -> float:
    """A length of time in seconds; raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,9})(s|min|h|d|)", value)
    if match is None:
        raise ValueError(f"{value!r} is no age: give a number with s, min, h or d, such as 30d")
    return float(match[1]) * _UNITS[match[2]]


@click.command("jobs")
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
def jobs_command(
    *, key: str | None, place: transfers.LedgerOptions, everything: bool, most: int, stuck: bool,
    check: bool, rebuild: str | None, prune: float | None, dry_run: bool, as_json: bool,
) -> int:  # fmt: skip
    """List the jobs that were handed over and have not ended, or show the history of KEY.

    Exit status 1 if there are none; with --check, if something is wrong; with --prune, if some
    could not be removed.
    """
    if rebuild is not None:
        return _rebuild(place, rebuild, as_json=as_json)
    if dry_run and prune is None:
        raise click.UsageError("--dry-run needs --prune AGE")
    from matchmaker.delegation.record import Unreadable

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
    from matchmaker.delegation.reconcile import prune

    before = time.time() - age
    gone, troubles = (ledger.count_ended(before), []) if dry_run else prune(ledger, before)
    if as_json:
        print_json({"removed": 0 if dry_run else gone, "ended": gone, "troubles": dict(troubles)})
    else:
        print(f"{'to remove' if dry_run else 'removed'}: {count(gone, 'job')}")
    for key, why in troubles:
        warn(f"{key}: {why}")
    return 1 if troubles else 0


def _rebuild(place: transfers.LedgerOptions, system: str, *, as_json: bool) -> int:
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


@click.command("reconcile")
@logs
@transfers.options
@click.option("--lrms", metavar="NAME",
              help="Only this batch system, such as slurm, though no job is live.")  # fmt: skip
@click.option("--every", metavar="SECONDS", type=FiniteRange(min=0.1, max=86_400),
              help="Go on, with this pause between looks, until interrupted.")  # fmt: skip
@click.option(
    "--until-done", is_flag=True, help="With --every: end when no job is left but paused ones."
)
@click.option("--renew", is_flag=True, help="Renew the leases of your own live jobs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for each look on a line.")
def reconcile_command(
    *, place: transfers.LedgerOptions, lrms: str | None, every: float | None, until_done: bool,
    renew: bool, as_json: bool,
) -> int:  # fmt: skip
    """Look at the batch systems, and take each job its next step.

    Exit status 1 if a batch system did not answer, or something could not be done; with
    --until-done also if jobs are paused.
    """
    if until_done and every is None:
        raise click.UsageError("--until-done needs --every SECONDS")
    while True:
        reports = _look(place, lrms, goes_on=every is not None, renew=renew)
        for system, report in reports or ():
            _print_look(system, report, as_json=as_json)
        if not reports and every is None:
            print("[]" if as_json else "no live jobs")
        live = sum(report.live for _, report in reports or ())
        paused = sum(report.paused for _, report in reports or ())
        if every is None or (until_done and reports is not None and live == paused):
            ill = any(r.silence or r.troubles for _, r in reports or ())
            return 1 if ill or (until_done and paused) else 0
        with waiting(f"{count(live, 'live job')}; next look in {every:g} s"):
            time.sleep(every)


def _look(
    place: transfers.LedgerOptions, lrms: str | None, *, goes_on: bool, renew: bool
) -> list[tuple[str, Reconciliation]] | None:
    """Look once at each batch system with live jobs, or at one; None without a ledger now.

    The ledger is opened anew for each round, so that one that was rebuilt does no harm.
    """
    from matchmaker.delegation import LedgerError

    def look(made: Delegator) -> Reconciliation:
        troubles = made.renew_all() if renew else []
        report = made.reconcile()
        return attrs.evolve(report, troubles=(*troubles, *report.troubles))

    try:
        with transfers.opened(place) as ledger:
            clusters = {record.cluster for record in ledger.live()}
            live = {cluster.partition("@")[0] for cluster in clusters}
            systems = sorted(system for system in live if place.name_of(system) in clusters)
            return [
                (system, look(transfers.delegator(place, ledger, system)))
                for system in (systems if lrms is None else [lrms])
            ]
    except LedgerError as error:
        if not goes_on:
            raise
        warn(str(error))
        _LOG.error("ledger not read", extra={"reason": str(error)})
        return None


def _print_look(system: str, report: Reconciliation, *, as_json: bool) -> None:
    if as_json:
        print_json({"lrms": system, **transfers.report_data(report)})
        return
    for old, new in report.moved:
        why = f": {transfers.short(new.reason)}" if new.reason else ""
        print(printable(f"{new.key}: {old.state} -> {new.state}{why}"))
    for key, trouble in report.troubles:
        print(printable(f"{key}: {transfers.short(trouble)}"))
    if report.silence:
        print(printable(f"{system}: no answer: {transfers.short(report.silence)}"))
    line = f"{system}: {count(report.live, 'job')}, {len(report.moved)} moved"
    if report.paused:
        line += f", {report.paused} paused (classad resume KEY)"
    if report.strangers:
        line += f"; {report.strangers} in its queue that this ledger does not know"
    print(printable(line))


@click.command("renew")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@transfers.options
@click.option("--for", "seconds", metavar="SECONDS", help="The length of the lease from now on.",
              type=FiniteRange(min=0, min_open=True, max=10**9))  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def renew_command(
    *, keys: tuple[str, ...], place: transfers.LedgerOptions, seconds: float | None, as_json: bool
) -> int:
    """Begin the leases of jobs again; a job whose lease runs out is ended."""
    return _act(place, keys, lambda made, key: made.renew(key, seconds), as_json=as_json)


@click.command("resume")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@transfers.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def resume_command(*, keys: tuple[str, ...], place: transfers.LedgerOptions, as_json: bool) -> int:
    """Submit paused jobs again: those that were submitted as often as they may be, unstarted."""
    return _act(place, keys, lambda made, key: made.resume(key), as_json=as_json)


@click.command("cancel")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@transfers.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cancel_command(*, keys: tuple[str, ...], place: transfers.LedgerOptions, as_json: bool) -> int:
    """End jobs. The wish is kept: classad reconcile repeats it until nothing can run any more."""
    return _act(place, keys, lambda made, key: made.cancel(key), as_json=as_json)


@click.command("acknowledge")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@transfers.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def acknowledge_command(
    *, keys: tuple[str, ...], place: transfers.LedgerOptions, as_json: bool
) -> int:
    """Take the results of jobs that have ended; their records of starts and ends are removed."""
    return _act(place, keys, lambda made, key: made.acknowledge(key), as_json=as_json)


def _act(
    place: transfers.LedgerOptions, keys: tuple[str, ...], do: Callable[[Delegator, str], Record],
    *, as_json: bool,
) -> int:  # fmt: skip
    """Do something for each job, and print what became of it.

    Exit status 1, with the reason on standard error, if the state of a job does not allow it, or
    the job may not know of it; the others are done.
    """
    from matchmaker.delegation import NotPossibleError, UnansweredError

    rows: list[tuple[Record, str]] = []
    with transfers.opened(place) as ledger:
        # A mistyped key is found before anything is done.
        made = {key: transfers.delegator_of(place, ledger, key) for key in keys}
        for key, delegator in made.items():
            try:
                rows.append((do(delegator, key), ""))
            except (NotPossibleError, UnansweredError) as error:
                rows.append((delegator.job(key), str(error)))
                warn(str(error))
    if as_json:
        print_json([
            {**transfers.record_data(record), "refused": why or None} for record, why in rows
        ])  # fmt: skip
    else:
        cells = [
            [record.key, record.state, "" if record.exit is None else record.exit,
             transfers.short(record.reason)]
            for record, _ in rows
        ]  # fmt: skip
        show(table(["key", "state", "exit", "why"], cells, right=(2,), whole=(0,)))
    return 1 if any(why for _, why in rows) else 0
