"""``classad cancel``: ends jobs that were handed over."""

from __future__ import annotations

import click

from matchmaker.cli import owner, transfers


@click.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@transfers.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, keys: tuple[str, ...], place: transfers.Place, as_json: bool) -> int:
    """End jobs. The wish is kept: classad reconcile repeats it until nothing can run any more."""
    return owner.act(place, keys, lambda made, key: made.cancel(key), as_json=as_json)
