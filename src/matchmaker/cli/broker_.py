"""``classad broker``: from a job and descriptions of sites to a queue, nodes and submit flags."""

from __future__ import annotations

import random

import attrs
import click

from matchmaker import ClassAd, ReductionError, batch, broker, glue, nodes, reduce
from matchmaker.cli import queues, reports, sources, submission
from matchmaker.cli.output import count, plain, print_json, show, table
from matchmaker.cli.output import number as number_of
from matchmaker.glue.issues import total


@click.command()
@click.argument("job_file", metavar="JOB")
@queues.options
@click.option("--one-way", is_flag=True, help="Let the requirements of queues not count.")
@click.option("--tried", multiple=True, metavar="CE", help="Had this job before: comes last.")
@click.option("--fuzzy", metavar="FACTOR", type=click.FloatRange(min=0, min_open=True),
              help="Draw queues by lot, better ranks sooner; the larger, the sooner.")  # fmt: skip
@click.option("--seed", metavar="NUMBER", type=int,
              help="Break ties by chance; the same number gives the same order.")  # fmt: skip
@click.option("--lrms", metavar="NAME", help="The batch system to be told, such as slurm.")
@submission.options
@click.option("--json", "as_json", is_flag=True, help="All of it as data.")
def command(
    *,
    job_file: str,
    places: queues.Sources,
    one_way: bool,
    tried: tuple[str, ...],
    fuzzy: float | None,
    seed: int | None,
    nodes_file: str | None,
    lrms: str | None,
    mapping: str | None,
    want: str,
    as_json: bool,
) -> int:
    """Choose a queue for JOB, the worker nodes that will do, and the flags that say so.

    Queues come from --ldif, --ce and --ldap together, each given as often as you like. Where JOB
    holds several ads, only the queue of each is chosen.
    """
    if mapping and not lrms:
        raise click.UsageError("--mapping needs --lrms: it says how that batch system is told")
    table = batch.load_mapping(lrms, mapping) if lrms else None
    jobs = sources.ads(job_file)
    known = queues.read(places)
    rules = broker.Rules(both_ways=not one_way, tried=tried, fuzzy=fuzzy)
    tie = None if seed is None else random.Random(seed)  # noqa: S311 - spreads jobs only
    if len(jobs) > 1:
        if nodes_file or lrms:
            raise click.UsageError(f"{job_file} holds {len(jobs)} jobs: nodes and flags are of one")
        pool = broker.pool(known.ads)
        return _bulk(list(broker.choose_many(jobs, pool, tie, rules, places.at)), as_json)
    job = sources.the_one(job_file, jobs)
    inventory = sources.ads(nodes_file) if nodes_file else None
    decision = broker.choose(job, known.ads, places.at, tie, rules)
    found = total(issue for _, issue in known.issues)
    findings = f"{count(found, 'finding')} in their data"
    page = reports.Page(f"{count(len(known.all), 'queue')}, {findings}")
    page.data = {
        "job": job_file,
        "queues": reports.selection_data(decision),
        "issues": found,
    }
    page.selection(decision, "computing element", "free CPUs", "GlueCEStateFreeCPUs")
    if decision.chosen is None:
        page.say("chosen", "none: no queue matches the job")
        done = False
    else:
        queue = queues.Queue(decision.chosen.name, decision.chosen.ad)
        page.say("chosen", queue.name)
        hosts = _Hosts(inventory, table, batch.Fit(want))
        done = _tell(page, job, queue, hosts)
    if as_json:
        print_json(page.data)
    else:
        page.print()
    return 0 if done else 1


def _bulk(choices: list[broker.Choice], as_json: bool) -> int:
    """The queue of each of many jobs, numbered from 1; whether each has one."""
    if as_json:
        print_json([
            {"job": number, "chosen": choice.chosen, "unranked": list(choice.unranked),
             "ranked": [{"name": name, "rank": plain(rank)}
                        for name, rank in zip(choice.names, choice.ranks, strict=True)]}
            for number, choice in enumerate(choices, 1)
        ])  # fmt: skip
    else:
        rows = [
            [number, choice.chosen or "none", number_of(choice.ranks[0]) if choice.ranks else "-",
             len(choice.names)]
            for number, choice in enumerate(choices, 1)
        ]  # fmt: skip
        show(table(["job", "computing element", "rank", "match"], rows, right=(0, 2, 3)))
    return 0 if all(choice.chosen for choice in choices) else 1


@attrs.frozen(slots=True)
class _Hosts:
    """What is known of a queue's hosts, and in which terms its batch system is told."""

    inventory: list[ClassAd] | None
    table: batch.Mapping | None
    want: batch.Fit


def _tell(page: reports.Page, job: ClassAd, queue: queues.Queue, hosts: _Hosts) -> bool:
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
        queues.check_lrms(queue, table.lrms)
        told = batch.flags(reduction, table.lrms, table, inventory, hosts.want)
    except batch.NoFlagsError as error:
        data["submission"] = {"error": str(error)}
        page.say(table.lrms, f"no flags: {error}")
        return False
    data["submission"] = reports.submission_data(told)
    page.submission(told)
    return True
