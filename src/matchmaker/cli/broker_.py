"""``classad broker``: from a job and descriptions of sites to a queue, nodes and submit flags."""

from __future__ import annotations

from typing import Any

import click

from matchmaker import batch, broker, glue, nodes, reduce
from matchmaker.cli import reports, sources
from matchmaker.cli.output import count, print_json
from matchmaker.matching.selection import Selection


@click.command()
@click.argument("job_file", metavar="JOB")
@sources.queue_options
@click.option("--nodes", "nodes_file", metavar="FILE", help="Ads of the queue's worker nodes.")
@click.option("--lrms", metavar="NAME", help="The batch system to be told, such as slurm.")
@click.option("--mapping", metavar="FILE", help="The site's own mapping to submit flags (TOML).")
@click.option(
    "--want",
    type=click.Choice(["necessary", "sufficient"]),
    default="necessary",
    show_default=True,
    help="How flags that cannot be exact may err.",
)
@click.option("--json", "as_json", is_flag=True, help="All of it as data.")
def command(
    *,
    job_file: str,
    ldifs: tuple[str, ...],
    ce_files: tuple[str, ...],
    ldaps: tuple[str, ...],
    at: str | None,
    nodes_file: str | None,
    lrms: str | None,
    mapping: str | None,
    want: str,
    as_json: bool,
) -> int:
    """Choose a queue for JOB, the worker nodes that will do, and the flags that say so.

    Queues come from --ldif, --ce and --ldap together, each given as often as you like.
    """
    table = batch.load_mapping(lrms, mapping) if lrms else None
    job = sources.one_ad(job_file)
    known = sources.queues(ldifs, ce_files, ldaps)
    inventory = sources.ads(nodes_file) if nodes_file else None
    decision = broker.choose(job, known.ads, at=sources.moment(at))
    data: dict[str, Any] = {
        "job": job_file,
        "queues": reports.selection_data(decision),
        "issues": len(known.issues),
    }
    page = reports.Page(
        f"{count(len(known.ads), 'queue')}, {count(len(known.issues), 'finding')} in their data"
    )
    page.selection(decision, "computing element", "free CPUs", "GlueCEStateFreeCPUs")
    status = 0 if decision.chosen else 1
    if decision.chosen is None:
        page.say("chosen", "none: no queue matches the job")
    else:
        page.say("chosen", decision.chosen.name)
        reduction = reduce(job, decision.chosen.ad, glue.scope)
        data["reduction"] = reports.reduction_data(reduction)
        page.reduction(reduction)
        selection: Selection | None = None
        if inventory is not None:
            selection = nodes.choose(job, inventory, reduction.residual)
            data["nodes"] = reports.selection_data(selection)
            page.nodes(selection)
        if selection is not None and selection.chosen is None:
            status = 1
        elif table is not None:
            submission = batch.flags(reduction, table.lrms, table, inventory, batch.Fit(want))
            data["submission"] = reports.submission_data(submission)
            page.submission(submission)
    if as_json:
        print_json(data)
    else:
        page.print()
    return status
