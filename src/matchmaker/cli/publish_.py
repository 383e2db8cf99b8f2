"""``classad publish``: queues and worker nodes as LDIF for an LDAP server with GLUE's schemas."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import click

from matchmaker import ClassAd, glue
from matchmaker.broker import Queues
from matchmaker.classad.ad import first_text
from matchmaker.cli import described, queues, sources, submission
from matchmaker.cli.output import print_json, warn
from matchmaker.glue.access import all_rules, denies
from matchmaker.glue.snapshot import joined


@click.command()
@click.option("--lrms", metavar="NAME", help="Ask the batch system of this name for its queues.")
@click.option("--saved", multiple=True, metavar="FILE",
              help="What its commands printed, in place of asking them.")  # fmt: skip
@submission.mapping
@click.option("--endpoint", metavar="HOST:PORT/INTERFACE",
              help="Where jobs are submitted to a batch system's queues.")  # fmt: skip
@click.option("--site", metavar="NAME", help="The site of queues that do not name theirs.")
@click.option("--site-file", metavar="FILE",
              help="What the site says of itself: place, contacts, … (TOML).")  # fmt: skip
@click.option("--vo", "vos", multiple=True, metavar="VO",
              help="A VO or /vo/group/Role=role that queues without rules admit.")  # fmt: skip
@click.option("--local", "local", multiple=True, metavar="VO=NAME",
              help="The local group or account that jobs of a VO run as.")  # fmt: skip
@queues.options
@click.option("--nodes", "nodes_file", metavar="FILE", help="Ads of the worker nodes of --ce.")
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
@click.option(
    "--json", "as_json", is_flag=True,
    help="Print JSON: the LDIF, if --output is not given, and what is left out.",
)  # fmt: skip
def command(
    *,
    lrms: str | None,
    saved: tuple[str, ...],
    mapping: str | None,
    endpoint: str | None,
    site: str | None,
    site_file: str | None,
    vos: tuple[str, ...],
    local: tuple[str, ...],
    places: queues.Sources,
    nodes_file: str | None,
    split: bool,
    version: str,
    output: str | None,
    as_json: bool,
) -> int:
    """Describe queues as LDIF of GLUE, as a site publishes them.

    With --lrms a batch system describes its queues and worker nodes itself; --endpoint, --site and
    --vo say what it does not know. With --ce queues are described from their ads, and with --nodes
    the hosts behind them: what all have in common, or with --split each class of equal ones. What
    --ldif and --ldap say is published beside that as it is, cleaned.

    A queue that the batch system keeps for some groups or accounts admits the VOs of --vo whose
    name, or whose name given with --local, is among them.

    What the schema cannot hold, and queues that are left out, are reported on standard error; then
    the exit status is 1. A source that could not be read to its end is not published. Queues that
    admit nobody, as without --vo, are named in a warning.
    """
    if saved and lrms is None:
        raise click.UsageError("--saved needs --lrms: the outputs of which batch system are they?")
    if mapping and lrms is None:
        raise click.UsageError("--mapping needs --lrms: the mapping is for that batch system")
    if nodes_file and not places.ce_files:
        raise click.UsageError(
            "--nodes needs --ce: they are the hosts behind its queues; dumps and batch systems tell"
            " of their own"
        )
    if split and not (nodes_file or lrms):
        raise click.UsageError("--split needs --nodes or --lrms: it divides nodes into classes")
    if (endpoint or site or vos or local) and not (places.ce_files or lrms):
        raise click.UsageError(
            "--endpoint, --site, --vo and --local are about the queues of --lrms or --ce"
        )
    if lrms is not None and endpoint is None:
        raise click.UsageError(
            "--lrms needs --endpoint HOST:PORT/INTERFACE, such as ce.site.org:8443/cream: a batch"
            " system does not know where a grid submits its jobs"
        )
    if lrms is None and not places.any:
        raise click.UsageError(
            "nothing to publish: give --lrms NAME, --ce FILE, --ldif FILE or --ldap URL"
        )
    offer = _Offer(endpoint, site, vos, described.local_names(local), split)
    issues: list[glue.Issue] = []
    records = glue.GlueRecords((), (), (), ())
    left_out = False
    if places.any:
        known = queues.read(places)
        if not known.whole:
            warn("nothing is published: the sources are not whole")
            return 1
        issues += [issue for _, issue in known.issues if issue.rule == "source.duplicate"]
        records = known.records
        if places.ce_files:
            hosts = sources.ads(nodes_file) if nodes_file else []
            own = offer.describe(_own(known, places.ce_files), hosts)
            records = joined(records, own, issues.append)
    if lrms is not None:
        found = described.description(lrms, saved, mapping)
        if not found.queues:
            warn(f"nothing is published: {described.nothing(lrms)}")
            return 1
        left_out = bool(found.issues)
        records = joined(records, offer.describe(found.queues, found.nodes), issues.append)
    _warn(records)
    records = _with_site_file(records, site_file)
    issues = _write(records, output, version, issues, as_json=as_json)
    for issue in issues:
        warn(str(issue))
    return 1 if issues or left_out else 0


def _write(
    records: glue.GlueRecords, output: str | None, version: str, before: Iterable[glue.Issue],
    *, as_json: bool,
) -> list[glue.Issue]:  # fmt: skip
    """Writes LDIF; gives the issues before, and what the schema could not hold."""
    path = output if output and output != "-" else None
    text = io.StringIO() if as_json else sys.stdout
    found = glue.write_ldif(records, path or text, version=version)  # type: ignore[arg-type]
    issues = [*before, *found]
    if isinstance(text, io.StringIO):
        ldif = None if path else text.getvalue()
        print_json({"output": path, "ldif": ldif, "issues": [str(issue) for issue in issues]})
    return issues


def _warn(records: glue.GlueRecords) -> None:
    """Names queues that no rule of access opens to anybody."""
    names = [ce.id for ce in records.computing_elements if all(map(denies, all_rules(ce)))]
    if not names:
        return
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    many = f"{len(names)} queues admit" if len(names) > 1 else "1 queue admits"
    warn(f"warning: {many} nobody, as no rule of access says whom ({shown}); name a VO with --vo")


def _with_site_file(records: glue.GlueRecords, path: str | None) -> glue.GlueRecords:
    """Adds what a site file says to the one site of the records."""
    if path is None:
        return records
    from matchmaker.glue.publish.site_file import site_values, with_site

    if len(records.sites) != 1:
        raise click.UsageError(f"--site-file is about one site; published are {len(records.sites)}")
    with sources.opened(path) as file:
        try:
            return with_site(records, site_values(file.read(1 << 20).decode("utf-8")))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


@attrs.frozen(slots=True)
class _Offer:
    """What the options add to described queues and their hosts."""

    endpoint: str | None
    site: str | None
    vos: tuple[str, ...]
    local: Mapping[str, Sequence[str]]
    split: bool

    def describe(self, queues: Iterable[ClassAd], hosts: Iterable[ClassAd]) -> glue.GlueRecords:
        placed = glue.place(queues, self.endpoint, site=self.site, vos=self.vos, local=self.local)
        described.report_closed(placed)
        return glue.describe_site(placed, hosts, split=self.split)


def _own(known: Queues, ce_files: tuple[str, ...]) -> Iterator[ClassAd]:
    """The ads of files that have no record; ads of the OSG have one."""
    made = {ad.eval("CEid") for ad in glue.Glue(known.records, ()).computing_elements()}
    for queue in known.all:
        if queue.source in ce_files and first_text(queue.ad, ("CEid",)) not in made:
            yield queue.ad
