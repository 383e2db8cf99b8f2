"""``classad broker``: from a job and descriptions of sites to a queue, nodes and submit flags."""

from __future__ import annotations

import random

import attrs
import click

from matchmaker import batch, broker
from matchmaker.broker.routing import unnamed
from matchmaker.classad import ClassAd
from matchmaker.cli import handing, inputs, queues, reports, submission, transfers
from matchmaker.cli.output import count, print_json, show, table, warn
from matchmaker.cli.reports import rank_text
from matchmaker.glue.issues import total


@click.command()
@click.argument("job_file", metavar="JOB")
@queues.options
@queues.choice_options
@click.option("--lrms", metavar="NAME", help="The batch system to write flags for, such as slurm.")
@submission.options
@click.option("--submit", "script", metavar="FILE", help="Hand the job over, with this script.")
@transfers.options
@handing.options
@click.option(
    "--ignore-free-slots",
    is_flag=True,
    help="With several jobs: choose for each as if no other came.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    job_file: str,
    places: queues.Sources,
    rules: broker.Rules,
    tie: random.Random | None,
    nodes_file: str | None,
    lrms: str | None,
    mapping: str | None,
    host_attributes: tuple[str, ...],
    want: str,
    script: str | None,
    place: transfers.Place,
    wish: handing.Wish,
    ignore_free_slots: bool,
    as_json: bool,
) -> int:
    """Choose a queue for JOB, the worker nodes that satisfy it, and the submit flags.

    Queues come from --ldif, --ce and --ldap together, each any number of times. If JOB
    holds several ads, only the queue of each is chosen, and no free slot is given away twice.
    """
    if mapping and not lrms:
        raise click.UsageError("--mapping needs --lrms: the mapping is for that batch system")
    if script is not None and not lrms:
        raise click.UsageError("--submit needs --lrms: the batch system to hand the job over to")
    table = batch.load_mapping(lrms, mapping) if lrms else None
    jobs = inputs.jobs(job_file)
    inventory = inputs.ads(nodes_file) if nodes_file else None
    if len(jobs) > 1:
        if nodes_file or lrms or script:
            raise click.UsageError(f"{job_file} holds {len(jobs)} jobs: nodes and flags are of one")
        if ignore_free_slots:
            rules = attrs.evolve(rules, free_slots=None)
        found = queues.read(places)
        return _bulk(broker.choose_many(jobs, found, at=places.at, tie=tie, rules=rules), as_json)
    job = inputs.the_one(job_file, jobs)
    hosts = broker.Hosts(
        nodes=inventory, mapping=table, want=batch.Fit(want),
        attributes=host_attributes, submitter=submission.submitter(),
    )  # fmt: skip
    page, done = reports.Page("handed over before"), False
    page.data = {"job": job_file}

    def choose() -> batch.Submission | None:
        nonlocal page, done
        known = queues.read(places, nodes=inventory)
        route = broker.route(job, known.ads, hosts, at=places.at, tie=tie, rules=rules)
        found = total(issue for _, issue in known.issues)
        findings = f"{count(found, 'finding')} in their data"
        page = reports.Page(f"{count(len(known.all), 'queue')}, {findings}")
        page.data = {"job": job_file, "issues": found}
        done = _show(page, route, hosts)
        if route.queue is not None and route.submission is None:
            _show_grid(page, job, route.queue.ad, lrms)
        if route.queue is not None and (said := unnamed(route.queue, route.submission, table)):
            warn(f"warning: {said}")
        if not known.all:
            page.say("hint", "no source describes a queue; classad ces --check lists the findings")
        elif route.queue is None and (hint := queues.no_match_hint(job, known, hosts)):
            page.say("hint", hint)
        return route.submission if done else None

    if script is None or lrms is None:
        choose()
    else:
        order = handing.ordered(job, job_file, lrms, script=script)
        handed = handing.over(order, place, wish, choose)
        if handed is not None:
            record, options = handed
            handing.explain(page, order, options)
            done = handing.say(page, record)
    page.print(as_json=as_json)
    return 0 if done else 1


def _show_grid(page: reports.Page, job: ClassAd, queue: ClassAd, lrms: str | None) -> None:
    """Adds the lines of a submit description that send the job to the queue through a grid."""
    lines = broker.grid_lines(job, queue)
    if lines:
        page.data["grid"] = list(lines)
    elif lrms is None and ("InformationSystem" in queue or "GLUE2" in queue):
        said = "no lines: neither HTCondor-CE nor ARC is known to take its jobs"
        page.say("grid", f"{said}; with --lrms NAME come the flags for its batch system")
    for line in lines:
        page.say("grid", line)


def _bulk(choices: list[broker.Choice], as_json: bool) -> int:
    """Prints the queue of each of many jobs, numbered from 1. Returns the exit status."""
    if as_json:
        print_json([
            {"job": number, "chosen": choice.chosen, "waits": choice.waits,
             "unranked": list(choice.unranked),
             "ranked": [{"name": name, "rank": reports.rank_data(rank)}
                        for name, rank in zip(choice.names, choice.ranks, strict=True)]}
            for number, choice in enumerate(choices, 1)
        ])  # fmt: skip
    else:
        rows = [
            [number, choice.chosen or "none",
             "-" if choice.rank is None else rank_text(choice.rank), len(choice.names)]
            for number, choice in enumerate(choices, 1)
        ]  # fmt: skip
        show(table(["job", "computing element", "rank", "match"], rows, right=(0, 2, 3)))
        if waiting := sum(choice.waits for choice in choices):
            verb = "waits" if waiting == 1 else "wait"
            show(f"{count(waiting, 'job')} {verb}: no queue that matches has free slots left")
    return 0 if all(choice.chosen for choice in choices) else 1


def _show(page: reports.Page, route: broker.Route, hosts: broker.Hosts) -> bool:
    """Adds the answers to the page. Returns whether each question that was asked has one."""
    data = page.data
    assert route.selection is not None  # noqa: S101 - no queue was named
    data["queues"] = reports.selection_data(route.selection)
    page.selection(route.selection, "computing element", "free CPUs", "GlueCEStateFreeCPUs")
    if route.queue is None:
        page.say("chosen", "none: no queue matches the job")
        return False
    if route.passed_over:
        data["passed_over"] = [{"name": name, "reason": why} for name, why in route.passed_over]
    for name, why in route.passed_over:
        page.say("passed over", f"{name}: {why}")
    page.say("chosen", route.queue.name)
    if route.reduction is None:
        data["reduction"] = {"error": str(route.failure)}
        page.say("residual", f"none: {route.failure}")
        return hosts.nodes is None and hosts.mapping is None
    data["reduction"] = reports.reduction_data(route.reduction)
    page.reduction(route.reduction)
    if route.nodes is not None:
        data["nodes"] = reports.selection_data(route.nodes)
        page.nodes(route.nodes)
    if route.submission is not None:
        data["submission"] = reports.submission_data(route.submission)
        page.submission(route.submission)
    elif hosts.mapping is not None:
        data["submission"] = {"error": str(route.failure)}
        page.say(hosts.mapping.lrms, f"no flags: {route.failure}")
    return route.failure is None and (route.nodes is None or route.nodes.chosen is not None)
