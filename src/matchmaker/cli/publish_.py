"""``classad publish``: queues and worker nodes as LDIF for an LDAP server with GLUE's schemas."""

from __future__ import annotations

import sys

import click

from matchmaker import glue
from matchmaker.cli import sources
from matchmaker.cli.output import printable


@click.command()
@sources.queue_options
@click.option("--nodes", "nodes_file", metavar="FILE", help="Ads of the queues' worker nodes.")
@click.option("--split", is_flag=True, help="A SubCluster for each class of equal nodes.")
@click.option(
    "--glue",
    "version",
    type=click.Choice(["1.3", "2.0", "both"]),
    default="both",
    show_default=True,
    help="The version of GLUE.",
)
@click.option("-o", "--output", metavar="FILE", help="Where to write, in place of the terminal.")
def command(
    *,
    places: sources.Sources,
    nodes_file: str | None,
    split: bool,
    version: str,
    output: str | None,
) -> int:
    """Describe queues as LDIF of GLUE, as a site publishes them.

    What --ldif and --ldap say is published as it is, cleaned. With --ce too, queues are described
    from their ads alone, and with --nodes the hosts behind them from the nodes themselves: what all
    have in common, or with --split each class of equal ones.

    What the schema has no room for, and queues that are left out, are told on standard error; then
    the exit status is 1. A source that could not be read to its end is not published.
    """
    if split and not nodes_file:
        raise click.UsageError("--split needs --nodes: it is about classes of worker nodes")
    known = sources.queues(places)
    if not known.whole:
        print("classad: nothing is published: the sources are not whole", file=sys.stderr)
        return 1
    hosts = sources.ads(nodes_file) if nodes_file else []
    told = known.records
    if places.ce_files or nodes_file:
        told = glue.describe(known.ads, hosts, split=split)
    file = output if output and output != "-" else sys.stdout
    twice = [issue for _, issue in known.issues if issue.rule == "source.duplicate"]
    issues = (*twice, *glue.write_ldif(told, file, version=version))  # type: ignore[arg-type]
    for issue in issues:
        print(printable(f"classad: {issue}"), file=sys.stderr)
    return 1 if issues else 0
