"""``classad eval``: the value of expressions, in an ad and against another."""

from __future__ import annotations

import click

from matchmaker import ClassAd, parse_expr
from matchmaker.cli import sources
from matchmaker.cli.output import plain, print_json, printable
from matchmaker.matching.pair import describe


@click.command()
@click.argument("expressions", metavar="EXPR…", nargs=-1, required=True)
@click.option("--ad", "ad_file", metavar="FILE", help="The ad in which they stand: MY.")
@click.option("--target", "target_file", metavar="FILE", help="The other ad: TARGET.")
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(
    expressions: tuple[str, ...], ad_file: str | None, target_file: str | None, as_json: bool
) -> int:
    """Print the value of each EXPR, one a line."""
    parsed = [parse_expr(text) for text in expressions]
    my = sources.one_ad(ad_file) if ad_file else ClassAd()
    target = sources.one_ad(target_file) if target_file else None
    values = [expression.eval(my, target) for expression in parsed]
    if as_json:
        print_json([plain(value) for value in values])
    else:
        for value in values:
            print(printable(describe(value)))
    return 0
