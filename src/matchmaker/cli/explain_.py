"""``classad explain``: which clause of a job's requirements leaves how many ads."""

from __future__ import annotations

import attrs
import click

from matchmaker.cli import sources
from matchmaker.cli.output import print_json, printable


@click.command()
@click.argument("job_file", metavar="JOB")
@click.argument("pool_files", metavar="POOL…", nargs=-1, required=True)
@click.option(
    "--key", help="The attribute that tells ads apart; Name, or a saved pool's own, if not given."
)
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(job_file: str, pool_files: tuple[str, ...], key: str | None, as_json: bool) -> int:
    """Show for each clause of JOB's requirements how many ads of the POOL files satisfy it."""
    job = sources.one_ad(job_file)
    pool = sources.pool(pool_files, key)
    explanation = pool.explain(job)
    if as_json:
        print_json(attrs.asdict(explanation))
    else:
        for line in str(explanation).split("\n"):
            print(printable(line))
    return 0 if explanation.matched else 1
