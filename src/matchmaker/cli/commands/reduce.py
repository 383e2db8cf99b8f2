"""``classad reduce``: reduces a job's requirement by the facts of its queue."""

from __future__ import annotations

import click

from matchmaker import Verdict
from matchmaker.broker import Hosts
from matchmaker.cli import inputs, queues, reports, submission
from matchmaker.cli.output import print_json, printable


@click.command()
@click.argument("job_file", metavar="JOB")
@queues.options
@click.option("--queue", metavar="NAME", help="The queue to take; by default the broker's choice.")
@submission.host_attributes
@click.option("--explain", is_flag=True, help="Show every step.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    job_file: str,
    places: queues.Sources,
    queue: str | None,
    host_attributes: tuple[str, ...],
    explain: bool,
    as_json: bool,
) -> int:
    """Take the facts of a queue out of JOB's requirements; what is left is a condition on hosts."""
    job = inputs.one_job(job_file)
    chosen, reduction, _ = queues.routed(
        job, queues.read(places), queue, places.at, Hosts(attributes=host_attributes)
    )
    if as_json:
        print_json({"queue": chosen.name, **reports.reduction_data(reduction)})
    else:
        for line in (f"queue: {chosen.name}", *reduction.explain(steps=explain).split("\n")):
            print(printable(line))
    return 1 if reduction.verdict is Verdict.NEVER else 0
