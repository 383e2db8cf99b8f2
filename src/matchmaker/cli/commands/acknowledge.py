"""``classad acknowledge``: takes the results of jobs that have ended."""

from __future__ import annotations

import click

from matchmaker.cli import owner, transfers


@click.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@transfers.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, keys: tuple[str, ...], place: transfers.Place, as_json: bool) -> int:
    """Take the results of jobs that have ended; their records of starts and ends are removed."""
    return owner.act(place, keys, lambda made, key: made.acknowledge(key), as_json=as_json)
