"""``classad submit``: chooses a queue for a job, and hands it over to the batch system."""

from __future__ import annotations

import random

import click

from matchmaker import batch, broker
from matchmaker.cli import handing, queues, reports, sources, submission, transfers


@click.command()
@click.argument("job_file", metavar="JOB")
@click.argument("words", metavar="[-- FLAGS...]", nargs=-1)
@click.option("--script", metavar="FILE",
              help="The job's script; by default the Executable of its description.")  # fmt: skip
@click.option("--args", "arguments", metavar="TEXT",
              help="Its arguments, as a shell separates them; by default the job's.")  # fmt: skip
@click.option("--lrms", required=True, metavar="NAME", help="The batch system, such as slurm.")
@transfers.options
@handing.options
@queues.options
@click.option("--queue", metavar="NAME", help="The queue to take; by default the broker's choice.")
@queues.choice_options
@submission.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    job_file: str,
    words: tuple[str, ...],
    script: str | None,
    arguments: str | None,
    lrms: str,
    place: transfers.Place,
    wish: handing.Wish,
    places: queues.Sources,
    queue: str | None,
    rules: broker.Rules,
    tie: random.Random | None,
    nodes_file: str | None,
    mapping: str | None,
    host_attributes: tuple[str, ...],
    want: str,
    as_json: bool,
) -> int:
    """Choose a queue for JOB, and hand it over: record, submit and release it, each once.

    It is submitted so that it cannot start, and let go once the batch system surely has it. The
    same --key with the same order submits nothing again, and chooses no queue: the job goes on.

    FLAGS after -- are your own options for the batch system; lines such as #SBATCH of the script
    and variables such as SBATCH_ACCOUNT count as well, and what cannot count is named.
    """
    table = batch.load_mapping(lrms, mapping)
    job = sources.one_ad(job_file)
    order = handing.ordered(job, job_file, lrms, script=script, arguments=arguments, given=words)
    page = reports.Page("handed over before")

    def choose() -> batch.Submission:
        nonlocal page
        inventory = sources.ads(nodes_file) if nodes_file else None
        hosts = broker.Hosts(
            nodes=inventory, mapping=table, want=batch.Fit(want), attributes=host_attributes,
            submitter=submission.submitter(),
        )  # fmt: skip
        known = queues.read(places, nodes=inventory)
        chosen, reduction, made = queues.routed(
            job, known, queue, places.at, hosts, tie=tie, rules=rules
        )
        assert made is not None  # noqa: S101 - there is a mapping, so there are flags or an error
        submission.warn_of_lines(script or job_file, order.script, made)
        page = reports.Page(f"queue {chosen.name}")
        page.data = {"queue": chosen.name, "submission": reports.submission_data(made)}
        page.reduction(reduction)
        page.submission(made)
        return made

    found = handing.over(order, place, wish, choose)
    assert found is not None  # noqa: S101 - there are flags or an error
    record, options = found
    handing.explain(page, order, options)
    done = handing.say(page, record)
    page.print(as_json=as_json)
    return 0 if done else 1
