"""``classad broker``: from a job and descriptions of sites to a queue, nodes and submit flags."""

from __future__ import annotations

import attrs
import click

from matchmaker import ClassAd, ReductionError, batch, broker, glue, nodes, reduce
from matchmaker.cli import reports, sources
from matchmaker.cli.output import count, print_json


@click.command()
@click.argument("job_file", metavar="JOB")
@sources.queue_options
@click.option("--nodes", "nodes_file", metavar="FILE", help="Ads of the queue's worker nodes.")
@click.option("--lrms", metavar="NAME", help="The batch system to be told, such as slurm.")
@click.option("--mapping", metavar="FILE", help="The site's own mapping to submit flags (TOML).")
@click.option(
    "--want",
    type=click.Choice(["necessary", "sufficient", "exact"]),
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
    if mapping and not lrms:
        raise click.UsageError("--mapping needs --lrms: it says how that batch system is told")
    table = batch.load_mapping(lrms, mapping) if lrms else None
    job = sources.one_ad(job_file)
    known = sources.queues(ldifs, ce_files, ldaps, sources.moment(at))
    inventory = sources.ads(nodes_file) if nodes_file else None
    decision = broker.choose(job, known.ads, at=sources.moment(at))
    findings = f"{count(len(known.issues), 'finding')} in their data"
    page = reports.Page(f"{count(len(known.all), 'queue')}, {findings}")
    page.data = {
        "job": job_file,
        "queues": reports.selection_data(decision),
        "issues": len(known.issues),
    }
    page.selection(decision, "computing element", "free CPUs", "GlueCEStateFreeCPUs")
    if decision.chosen is None:
        page.say("chosen", "none: no queue matches the job")
        done = False
    else:
        queue = sources.Queue(decision.chosen.name, decision.chosen.ad)
        page.say("chosen", queue.name)
        hosts = _Hosts(inventory, table, batch.Fit(want))
        done = _tell(page, job, queue, hosts)
    if as_json:
        print_json(page.data)
    else:
        page.print()
    return 0 if done else 1


@attrs.frozen(slots=True)
class _Hosts:
    """What is known of a queue's hosts, and in which terms its batch system is told."""

    inventory: list[ClassAd] | None
    table: batch.Mapping | None
    want: batch.Fit


def _tell(page: reports.Page, job: ClassAd, queue: sources.Queue, hosts: _Hosts) -> bool:
    """The second half, on the hosts of the chosen queue; whether nothing was left undone."""
    data, inventory, table = page.data, hosts.inventory, hosts.table
    try:
        reduction = reduce(job, queue.ad, glue.scope)
    except ReductionError as error:
        data["reduction"] = {"error": str(error)}
        page.say("residual", f"none: {error}")
        return inventory is None and table is None
    data["reduction"] = reports.reduction_data(reduction)
    page.reduction(reduction)
    if inventory is not None:
        selection = nodes.choose(job, inventory, reduction.residual)
        data["nodes"] = reports.selection_data(selection)
        page.nodes(selection)
        if selection.chosen is None:
            return False
    if table is None:
        return True
    try:
        sources.check_lrms(queue, table.lrms)
        submission = batch.flags(reduction, table.lrms, table, inventory, hosts.want)
    except batch.NoFlagsError as error:
        data["submission"] = {"error": str(error)}
        page.say(table.lrms, f"no flags: {error}")
        return False
    data["submission"] = reports.submission_data(submission)
    page.submission(submission)
    return True
