"""``classad reconcile``: looks at the batch systems, and takes each job its next step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs
import click

from matchmaker.cli import transfers
from matchmaker.cli.output import count, print_json, printable, waiting, warn

if TYPE_CHECKING:
    from matchmaker.delegation import Delegator, Reconciliation


@click.command()
@transfers.options
@click.option("--lrms", metavar="NAME",
              help="Only this batch system, such as slurm, though no job is live.")  # fmt: skip
@click.option("--every", metavar="SECONDS", type=click.FloatRange(min=0.1, max=86_400),
              help="Go on, with this pause between looks, until interrupted.")  # fmt: skip
@click.option(
    "--until-done", is_flag=True, help="With --every: end when no job is left but paused ones."
)
@click.option("--renew", is_flag=True, help="Renew the leases of your own live jobs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for each look on a line.")
def command(
    *,
    place: transfers.Place,
    lrms: str | None,
    every: float | None,
    until_done: bool,
    renew: bool,
    as_json: bool,
) -> int:
    """Look at the batch systems, and take each job its next step.

    Exit status 1 if a batch system did not answer, or something could not be done; with
    --until-done also if jobs are paused.
    """
    if until_done and every is None:
        raise click.UsageError("--until-done needs --every SECONDS")
    while True:
        reports = _look(place, lrms, goes_on=every is not None, renew=renew)
        for system, report in reports or ():
            _print(system, report, as_json=as_json)
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
    place: transfers.Place, lrms: str | None, *, goes_on: bool, renew: bool
) -> list[tuple[str, Reconciliation]] | None:
    """One look at each batch system with live jobs, or at one; None where there is no ledger now.

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
        return None


def _print(system: str, report: Reconciliation, *, as_json: bool) -> None:
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
