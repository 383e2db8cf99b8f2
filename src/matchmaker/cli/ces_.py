"""``classad ces``: what queues there are, and what is wrong with their data."""

from __future__ import annotations

import click

from matchmaker.cli import sources
from matchmaker.cli.output import count, plain, print_json, printable, show, table
from matchmaker.matching.pair import describe

ATTRIBUTES = (
    "LRMSType,GlueCEStateStatus,GlueCEStateFreeCPUs,GlueCEInfoTotalCPUs,GlueCEStateWaitingJobs,"
    "GlueCEPolicyMaxCPUTime,GlueHostMainMemoryRAMSize,GlueHostBenchmarkSI00"
)


@click.command()
@sources.queue_options
@click.option("--attrs", default=ATTRIBUTES, metavar="A,B,…", help="The attributes to show.")
@click.option("--check", is_flag=True, help="Show what was mended or doubted in the data instead.")
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(
    *,
    ldifs: tuple[str, ...],
    ce_files: tuple[str, ...],
    ldaps: tuple[str, ...],
    at: str | None,
    attrs: str,
    check: bool,
    as_json: bool,
) -> int:
    """Describe computing elements: batch queues, from LDIF, LDAP or ads.

    With --check, the exit status is 1 where there are findings.
    """
    sources.moment(at)
    known = sources.queues(ldifs, ce_files, ldaps)
    if check:
        if as_json:
            print_json(
                [
                    {"source": source, "rule": i.rule, "line": i.line, "text": str(i)}
                    for source, i in known.issues
                ]
            )
        else:
            for source, issue in known.issues:
                print(printable(f"{source}: {issue}"))
            print(count(len(known.issues), "finding"))
        return 1 if known.issues else 0
    names = [name.strip() for name in attrs.split(",") if name.strip()]
    rows = [(queue.name, [queue.ad.eval(attribute) for attribute in names]) for queue in known.all]
    if as_json:
        print_json(
            [
                {"name": name, **dict(zip(names, map(plain, values), strict=True))}
                for name, values in rows
            ]
        )
    else:
        shown = [[name, *map(describe, values)] for name, values in rows]
        show(table(["computing element", *map(_short, names)], shown, whole=(0,)))
    return 0 if rows else 1


def _short(attribute: str) -> str:
    """A column's heading: the attribute without the words that all of its class share."""
    for prefix in ("GlueCEState", "GlueCEInfo", "GlueCEPolicy", "GlueHost"):
        if attribute.startswith(prefix):
            return attribute[len(prefix) :]
    return attribute
