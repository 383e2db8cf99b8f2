"""``classad policy``: what a queued job requires of its queue's policy."""

from __future__ import annotations

import click

from matchmaker.batch.policy import of_queued
from matchmaker.cli.output import print_json, printable


@click.command()
@click.argument("lrms")
@click.argument("job_id", metavar="JOBID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, lrms: str, job_id: str, as_json: bool) -> int:
    """Print the requirement on queue policy that a queued job carries, put there by classad flags.

    LRMS is the batch system, such as slurm, whose own command is asked for the job.
    """
    policy = of_queued(lrms, job_id)
    if as_json:
        print_json({"lrms": lrms, "job": job_id, "policy": str(policy)})
    else:
        print(printable(str(policy)))
    return 0
