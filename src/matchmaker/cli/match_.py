"""``classad match``: the ads of a pool that match a job, best first."""

from __future__ import annotations

import click

from matchmaker import nodes
from matchmaker.cli import reports, sources
from matchmaker.cli.output import print_json
from matchmaker.matching.selection import select


@click.command()
@click.argument("job_file", metavar="JOB")
@click.argument("pool_files", metavar="POOL…", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(job_file: str, pool_files: tuple[str, ...], as_json: bool) -> int:
    """Match JOB with each ad of the POOL files, both ways; best rank first."""
    job = sources.one_ad(job_file)
    pool = [ad for path in pool_files for ad in sources.ads(path)]
    found = select(job, nodes.named(pool), default_rank=0.0)
    if as_json:
        print_json(reports.selection_data(found))
    else:
        page = reports.Page(f"{len(found.ranked)} of {len(pool)} match")
        page.selection(found, "ad")
        page.print()
    return 0 if found.chosen else 1
