"""``classad flags``: how the batch system is told what a job needs of its hosts."""

from __future__ import annotations

import click

from matchmaker import batch, glue, reduce
from matchmaker.cli import reports, sources, submission
from matchmaker.cli.output import print_json


@click.command()
@click.argument("job_file", metavar="JOB")
@click.option("--lrms", required=True, metavar="NAME", help="The batch system, such as slurm.")
@sources.queue_options
@click.option("--queue", metavar="NAME", help="The queue, where not the broker's choice.")
@submission.options
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(
    *,
    job_file: str,
    lrms: str,
    ldifs: tuple[str, ...],
    ce_files: tuple[str, ...],
    ldaps: tuple[str, ...],
    at: str | None,
    queue: str | None,
    nodes_file: str | None,
    mapping: str | None,
    want: str,
    as_json: bool,
) -> int:
    """Print the submit flags for JOB on its queue, with a verdict and what they leave out."""
    table = batch.load_mapping(lrms, mapping)
    job = sources.one_ad(job_file)
    known = sources.queues(ldifs, ce_files, ldaps, sources.moment(at))
    inventory = sources.ads(nodes_file) if nodes_file else None
    chosen = sources.the_queue(job, known, queue, sources.moment(at))
    sources.check_lrms(chosen, lrms)
    reduction = reduce(job, chosen.ad, glue.scope)
    told = batch.flags(reduction, lrms, table, inventory, batch.Fit(want))
    if as_json:
        print_json(
            {
                "queue": chosen.name,
                "residual": str(reduction.residual),
                **reports.submission_data(told),
            }
        )
    else:
        page = reports.Page(f"queue {chosen.name}")
        page.reduction(reduction)
        page.submission(told)
        page.print()
    return 0
