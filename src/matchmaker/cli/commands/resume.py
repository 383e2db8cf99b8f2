"""``classad resume``: submits paused jobs again."""

from __future__ import annotations

import click

from matchmaker.cli import owner, transfers


@click.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@transfers.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, keys: tuple[str, ...], place: transfers.Place, as_json: bool) -> int:
    """Submit paused jobs again: those that were submitted as often as they may be, unstarted."""
    return owner.act(place, keys, lambda made, key: made.resume(key), as_json=as_json)
