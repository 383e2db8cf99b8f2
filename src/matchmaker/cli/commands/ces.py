"""``classad ces``: list queues, and the faults of their data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import click

from matchmaker import ClassAd, Expr
from matchmaker.broker import Queues
from matchmaker.cli import pools, queues
from matchmaker.cli.output import complaint, count, plain, print_json, printable, show, table, warn
from matchmaker.glue.access import Access, of_ad, required
from matchmaker.glue.clean import VALIDATORS, doubts
from matchmaker.glue.issues import LEVELS, Issue, lines, tally, total
from matchmaker.glue.query import admits, check_name, parse_query, short_name, short_names, value_of
from matchmaker.glue.schema import attribute
from matchmaker.matching.pair import value_text

ATTRIBUTES = (
    "LRMSType,GlueCEStateStatus,GlueCEStateFreeCPUs,GlueCEInfoTotalCPUs,GlueCEStateWaitingJobs,"
    "GlueCEPolicyMaxCPUTime,GlueCEPolicyMaxWallClockTime,GlueHostMainMemoryRAMSize,"
    "GlueHostBenchmarkSI00"
)


@click.command("ces")
@queues.options
@click.option("--query", metavar="A=B,C>=D", help="Only queues for which all of this holds.")
@pools.constraint
@click.option(
    "--vo", metavar="VO", help="Only queues that admit this VO, or publish no rule of access."
)
@queues.access_option
@click.option(
    "--attrs", default=ATTRIBUTES, metavar="A,B,…",
    help="The attributes to show, by full or short names.",
)  # fmt: skip
@click.option("--list-attrs", is_flag=True, help="Show the short names, what they mean, and units.")
@click.option("--check", is_flag=True, help="Show what was mended or doubted in the data instead.")
@click.option("--nagios", is_flag=True, help="With --check: one line and a status for Nagios.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ces_command(
    *, places: queues.Sources, query: str | None, constraint: Expr | None, vo: str | None,
    access: Access, attrs: str, list_attrs: bool, check: bool, nagios: bool, as_json: bool,
) -> int:  # fmt: skip
    """Describe computing elements: batch queues, from LDIF, LDAP or ads.

    Attributes go by their names or by short ones, as in lcg-info: FreeCPUs, Tag, OS. A query
    compares them with =, !=, <, <=, > and >=; * in a text stands for any. If no queue is left the
    exit status is 1.

    With --check, the exit status is 1 if there are errors or warnings; ads of --ce are held
    against the same rules as dumps, but otherwise used as they are. Dumps and servers are also
    tested as EGI's glue-validator and gstat-validation do. The same finding on several entries is
    one line, which names three of them; --json has each by itself. With --nagios too, the exit
    status is 0 for notes, 1 for warnings, 2 for errors, and 3 if nothing could be read.
    """
    if nagios and not check:
        raise click.UsageError("--nagios needs --check: it is a form of its findings")
    if list_attrs:
        show(table(["name", "attribute", "type", "unit"], _names(), whole=(0, 1)))
        return 0
    conditions = parse_query(query) if query is not None else ()
    if vo is not None and re.fullmatch(r"[\w.-]+", vo, re.ASCII) is None:
        raise click.UsageError(f"--vo takes the name of a virtual organisation: found {vo!r}")
    if nagios:
        return _nagios(places)
    known = queues.read(places, VALIDATORS if check else frozenset())
    if check:
        found = _findings(known, places)
        if as_json:
            facts = ("level", "rule", "line", "dn", "attribute", "raw", "count")
            print_json([
                {"source": source, **{name: getattr(i, name) for name in facts}, "text": str(i)}
                for source, i in found
            ])  # fmt: skip
        else:
            for (source, level), its in _by_source(found).items():
                for line in lines(its):
                    print(printable(f"{level} {source}: {line}"))
            for level, rule, times in tally(issue for _, issue in found):
                print(f"{times:>7} {LEVELS[level]}{'' if times == 1 else 's'} of {rule}")
            print(count(total(issue for _, issue in found), "finding"))
        return 1 if any(issue.level != "I" for _, issue in found) else 0
    names = [name.strip() for name in attrs.split(",") if name.strip()]
    for name in (*names, *(condition.name for condition in conditions)):
        check_name(name, known.ads)
    tests: dict[str, Callable[[ClassAd], bool]] = {str(each): each.holds for each in conditions}
    tests |= _narrowed(constraint, vo, access)
    rows = [
        (queue.name, [value_of(queue.ad, name) for name in names])
        for queue in known.all
        if all(test(queue.ad) for test in tests.values())
    ]
    if as_json:
        print_json(
            [
                {"name": name, **dict(zip(names, map(plain, values), strict=True))}
                for name, values in rows
            ]
        )
    elif not rows:
        kept = [f"{text} leaves {sum(map(test, known.ads))}" for text, test in tests.items()]
        said = f"none of {count(len(known.all), 'queue')} is left: "
        nothing = [i.message for _, i in known.issues if i.rule == "link.no-queue"]
        said += ", ".join(kept or nothing) or "no source describes one"
        warn(said)
    else:
        shown = [[name, *map(value_text, values)] for name, values in rows]
        # Only lists may be folded over several lines.
        lists = {place for _, values in rows for place, value in enumerate(values, 1)
                 if isinstance(value, (list, ClassAd))}  # fmt: skip
        whole = [place for place in range(len(names) + 1) if place not in lists]
        show(table(["computing element", *map(short_name, names)], shown, whole=whole))
    return 0 if rows else 1


def _narrowed(
    wanted: Expr | None, vo: str | None, access: Access
) -> dict[str, Callable[[ClassAd], bool]]:
    """The tests of --constraint, --vo and --access, by how they are written."""
    tests: dict[str, Callable[[ClassAd], bool]] = {}
    if wanted is not None:
        tests[f"--constraint {wanted}"] = lambda ad: pools.holds(wanted, ad)
    if vo is not None and access != "any":
        tests[f"--vo {vo}"] = lambda ad: admits(ad, vo)
    if access == "known":
        tests["--access known"] = lambda ad: bool(required(of_ad(ad)))
    return tests


def _names() -> Iterator[tuple[str, str, str, str]]:
    """List short names, their attributes and units."""
    for short, name in short_names().items():
        known = attribute(name)
        kind, unit = ("string", "none") if known is None else (known.classad, known.unit)
        several = known is not None and known.multi
        yield short, name, f"list of {kind}s" if several else kind, unit if unit != "none" else ""


def _findings(known: Queues, places: queues.Sources) -> list[tuple[str, Issue]]:
    """List the findings by source: those of reading, and those on ads, which stay unchanged."""
    written = [queue for queue in known.all if queue.source in places.ce_files]
    return [
        *known.issues,
        *((q.source, issue) for q in written for issue in doubts(q.ad, q.name, places.at)),
    ]


def _by_source(found: Iterable[tuple[str, Issue]]) -> dict[tuple[str, str], list[Issue]]:
    """The findings of each source and level, errors first."""
    made: dict[tuple[str, str], list[Issue]] = {}
    for source, issue in found:
        made.setdefault((source, issue.level), []).append(issue)
    return dict(sorted(made.items(), key=lambda item: list(LEVELS).index(item[0][1])))


def _nagios(places: queues.Sources) -> int:
    """Print one line for Nagios, with the counts behind the bar. Returns the exit status."""
    try:
        known = queues.read(places, VALIDATORS)
    except (OSError, ValueError) as error:
        text = " ".join(printable(complaint(error)).replace("|", "/").split())
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
