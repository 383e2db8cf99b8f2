"""``classad ces``: what queues there are, and what is wrong with their data."""

from __future__ import annotations

from collections import Counter

import click

from matchmaker.cli import queues
from matchmaker.cli.output import count, plain, print_json, printable, show, table
from matchmaker.glue.access import RULES, admits
from matchmaker.glue.issues import LEVELS, Issue, tally, total
from matchmaker.glue.query import parse_query, short_names, value_of
from matchmaker.glue.typed import doubts
from matchmaker.matching.pair import describe

ATTRIBUTES = (
    "LRMSType,GlueCEStateStatus,GlueCEStateFreeCPUs,GlueCEInfoTotalCPUs,GlueCEStateWaitingJobs,"
    "GlueCEPolicyMaxCPUTime,GlueHostMainMemoryRAMSize,GlueHostBenchmarkSI00"
)


@click.command()
@queues.options
@click.option("--query", metavar="A=B,C>=D", help="Only queues for which all of this holds.")
@click.option(
    "--vo",
    metavar="VO",
    help="Only queues that are open to this VO.",
)
@click.option(
    "--attrs",
    default=ATTRIBUTES,
    metavar="A,B,…",
    help="The attributes to show, by full or short names.",
)
@click.option("--list-attrs", is_flag=True, help="Show the short names and what they mean.")
@click.option("--check", is_flag=True, help="Show what was mended or doubted in the data instead.")
@click.option("--nagios", is_flag=True, help="With --check: one line and a status for Nagios.")
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(
    *,
    places: queues.Sources,
    query: str | None,
    vo: str | None,
    attrs: str,
    list_attrs: bool,
    check: bool,
    nagios: bool,
    as_json: bool,
) -> int:
    """Describe computing elements: batch queues, from LDIF, LDAP or ads.

    Attributes go by their names or by short ones, as in lcg-info: FreeCPUs, Tag, OS. A query
    compares them with =, !=, <, <=, > and >=; * in a text stands for any. Where no queue is left
    the exit status is 1.

    With --check, the exit status is 1 where there are findings; ads of --ce are held against the
    same rules as dumps, but otherwise used as they are. With --nagios too, it is 0 where there are
    but notes, 1 for warnings, 2 for errors, and 3 where nothing could be read.
    """
    if nagios and not check:
        raise click.UsageError("--nagios needs --check: it is a form of its findings")
    if list_attrs:
        show(table(["name", "attribute"], short_names().items(), whole=(0, 1)))
        return 0
    conditions = parse_query(query) if query is not None else ()
    if nagios:
        return _nagios(places)
    known = queues.read(places)
    if check:
        found = _findings(known, places)
        if as_json:
            print_json(
                [
                    {
                        "source": source,
                        "level": i.level,
                        "rule": i.rule,
                        "line": i.line,
                        "dn": i.dn,
                        "attribute": i.attribute,
                        "raw": i.raw,
                        "count": i.count,
                        "text": str(i),
                    }
                    for source, i in found
                ]
            )
        else:
            for source, issue in found:
                print(printable(f"{issue.level} {source}: {issue}"))
            for level, rule, times in tally(issue for _, issue in found):
                print(f"{times:>7} {LEVELS[level]}{'' if times == 1 else 's'} of {rule}")
            print(count(total(issue for _, issue in found), "finding"))
        return 1 if found else 0
    names = [name.strip() for name in attrs.split(",") if name.strip()]
    rows = [
        (queue.name, [value_of(queue.ad, name) for name in names])
        for queue in known.all
        if all(condition.holds(queue.ad) for condition in conditions)
        and (vo is None or admits(queue.ad.eval(RULES), vo))
    ]
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


def _findings(known: queues.Queues, places: queues.Sources) -> list[tuple[str, Issue]]:
    """What is wrong with the data, by source: as it was read, and in ads, which stay so."""
    written = [queue for queue in known.all if queue.source in places.ce_files]
    return [
        *known.issues,
        *((q.source, issue) for q in written for issue in doubts(q.ad, q.name, places.at)),
    ]


def _nagios(places: queues.Sources) -> int:
    """One line as Nagios reads it, with the counts behind the bar, and its exit status."""
    try:
        known = queues.read(places)
    except (OSError, ValueError) as error:
        text = " ".join(printable(str(error)).replace("|", "/").split())
        print(f"GLUE UNKNOWN - {text}")
        return 3
    levels: Counter[str] = Counter()
    for _, issue in _findings(known, places):
        levels[issue.level] += issue.count
    status = 2 if levels["E"] else 1 if levels["W"] else 0
    counts = [(name, levels[level]) for level, name in LEVELS.items()]
    words = ", ".join(count(times, name) for name, times in counts)
    data = " ".join(f"{name}s={times}" for name, times in counts)
    word = ("OK", "WARNING", "CRITICAL")[status]
    print(f"GLUE {word} - {count(len(known.all), 'queue')}, {words} | {data}")
    return status


def _short(attribute: str) -> str:
    """A column's heading: the attribute without the words that all of its class share."""
    for prefix in ("GlueCEState", "GlueCEInfo", "GlueCEPolicy", "GlueHost"):
        if attribute.startswith(prefix):
            return attribute[len(prefix) :]
    return attribute
