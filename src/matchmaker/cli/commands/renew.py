"""``classad renew``: a word of the owner, so that a job's lease begins again."""

from __future__ import annotations

import click

from matchmaker.cli import owner, transfers


@click.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@transfers.options
@click.option("--for", "seconds", metavar="SECONDS", help="The length of the lease from now on.",
              type=click.FloatRange(min=0, min_open=True, max=10**9))  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *, keys: tuple[str, ...], place: transfers.Place, seconds: float | None, as_json: bool
) -> int:
    """Begin the leases of jobs again; a job whose lease runs out is ended."""
    return owner.act(place, keys, lambda made, key: made.renew(key, seconds), as_json=as_json)
