"""``classad nodes``: the worker nodes that a job may run on, once its queue is known."""

from __future__ import annotations

from typing import Any

import click

from matchmaker import glue, nodes, reduce
from matchmaker.cli import reports, sources
from matchmaker.cli.output import count, print_json


@click.command()
@click.argument("job_file", metavar="JOB")
@click.option("--nodes", "nodes_file", required=True, metavar="FILE", help="Ads of worker nodes.")
@sources.queue_options
@click.option("--queue", metavar="NAME", help="The queue, where not the broker's choice.")
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(
    *,
    job_file: str,
    nodes_file: str,
    ldifs: tuple[str, ...],
    ce_files: tuple[str, ...],
    ldaps: tuple[str, ...],
    at: str | None,
    queue: str | None,
    as_json: bool,
) -> int:
    """Choose the worker nodes that JOB may run on.

    With descriptions of queues, JOB's requirements are first reduced against its queue; without
    them, they are held against the nodes as they stand.
    """
    job = sources.one_ad(job_file)
    inventory = sources.ads(nodes_file)
    requirements = None
    data: dict[str, Any] = {}
    page = reports.Page(count(len(inventory), "worker node"))
    if ldifs or ce_files or ldaps:
        known = sources.queues(ldifs, ce_files, ldaps, sources.moment(at))
        chosen = sources.the_queue(job, known, queue, sources.moment(at))
        reduction = reduce(job, chosen.ad, glue.scope)
        requirements = reduction.residual
        data = {"queue": chosen.name, "residual": str(requirements)}
        page.say("queue", chosen.name)
        page.reduction(reduction)
    elif queue or at:
        raise click.UsageError(
            "--queue and --at need descriptions of queues: --ldif, --ce or --ldap"
        )
    found = nodes.choose(job, inventory, requirements)
    if as_json:
        print_json({**data, **reports.selection_data(found)})
    else:
        page.nodes(found)
        page.print()
    return 0 if found.chosen else 1
