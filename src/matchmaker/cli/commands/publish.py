"""``classad publish``: queues and worker nodes as LDIF for an LDAP server with GLUE's schemas."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import click

from matchmaker import ClassAd, Value, glue
from matchmaker._diagnostics import NOTE
from matchmaker.broker import Queues
from matchmaker.classad.ad import first_text
from matchmaker.cli import described, inputs, queues, submission
from matchmaker.cli.output import count, print_json, warn
from matchmaker.glue.access import nobody
from matchmaker.glue.issues import lines
from matchmaker.glue.publish.describe import is_empty, os_release_values, with_system
from matchmaker.glue.publish.site_file import site_values, with_site
from matchmaker.glue.records import ComputingElement
from matchmaker.glue.snapshot import joined

OS_RELEASE = Path("/etc/os-release")
_LEAST_MB = 100
"""The least memory of a node by EGI's glue-validator. Slurm's default is 1."""


@click.command()
@click.option("--lrms", metavar="NAME", help="Ask the batch system of this name for its queues.")
@click.option("--saved", multiple=True, metavar="FILE",
              help="What its commands printed, in place of asking them.")  # fmt: skip
@submission.mapping
@click.option("--endpoint", metavar="HOST:PORT/INTERFACE",
              help="Where jobs are submitted, such as ce.s.org:9619/htcondorce.")  # fmt: skip
@click.option(
    "--site",
    metavar="NAME",
    help="The site of queues that do not name theirs; without it `name` in --site-file.",
)
@click.option("--site-file", metavar="FILE",
              help="What the site says of itself: place, contacts, … (TOML).")  # fmt: skip
@click.option("--vo", "vos", multiple=True, metavar="VO",
              help="A VO or /vo/group/Role=role that queues without rules admit.")  # fmt: skip
@click.option("--local", "local", multiple=True, metavar="VO=NAME",
              help="The local group or account that jobs of a VO run as.")  # fmt: skip
@queues.options
@click.option("--nodes", "nodes_file", metavar="FILE", help="Ads of the worker nodes of --ce.")
@click.option("--os-release", metavar="FILE",
              help="/etc/os-release of nodes of which only the kernel is known.")  # fmt: skip
@click.option(
    "--split/--together",
    default=None,
    help="A SubCluster for each group of like nodes of a queue (the default), or one for all.",
)
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
    os_release: str | None,
    split: bool | None,
    version: str,
    output: str | None,
    as_json: bool,
) -> int:
    """Describe queues as LDIF of GLUE, as a site publishes them.

    With --lrms a batch system describes its queues and worker nodes itself; --endpoint, --site and
    --vo say what it does not know. With --ce queues are described from their ads, and with --nodes
    the hosts behind them. Each queue has the hosts of its own. What --ldif and --ldap say is
    published beside that as it is, cleaned.

    A queue that the batch system keeps for some groups or accounts admits the VOs of --vo whose
    name, or whose name given with --local, is among them.

    What the schema cannot hold, and queues that are left out, are reported on standard error; then
    the exit status is 1. A source that could not be read to its end is not published. A warning
    names queues of which nobody knows whom they admit, as without --vo, and queues without nodes.
    """
    of_queues = bool(endpoint or site or vos or local)
    for wrong, said in (
        (saved and lrms is None,
         "--saved needs --lrms: the outputs of which batch system are they?"),
        (mapping and lrms is None, "--mapping needs --lrms: the mapping is for that batch system"),
        (nodes_file and not places.ce_files,
         "--nodes needs --ce: they are the hosts behind its queues; others tell of their own"),
        ((os_release or split is not None) and not (nodes_file or lrms),
         "--split, --together and --os-release need --nodes or --lrms: they are about nodes"),
        (of_queues and not (places.ce_files or lrms),
         "--endpoint, --site, --vo and --local are about the queues of --lrms or --ce"),
        (lrms is not None and endpoint is None,
         "--lrms needs --endpoint HOST:PORT/INTERFACE, where jobs go, such as ce.s.org:443/arex"),
        (lrms is None and not places.any,
         "nothing to publish: give --lrms NAME, --ce FILE, --ldif FILE or --ldap URL"),
    ):  # fmt: skip
        if wrong:
            raise click.UsageError(said)
    of_site = _site_file(site_file)
    if site is None and isinstance(named := of_site.get("GlueSiteName"), str):
        site = named
    system = _system(os_release)
    offer = _Offer(endpoint, site, vos, described.local_names(local), split is not False, system)
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
            hosts = inputs.ads(nodes_file) if nodes_file else []
            own = offer.describe(_own(known, places.ce_files), hosts)
            records = joined(records, own, issues.append)
    if lrms is not None:
        found = described.description(lrms, saved, mapping)
        if not found.queues:
            warn(f"nothing is published: {described.nothing(lrms)}")
            return 1
        left_out = any(issue.severity != NOTE for issue in found.issues)
        own = offer.describe(found.queues, found.nodes)
        if small := [str(ad.eval("Name")) for ad in found.nodes if _is_small(ad.eval("Memory"))]:
            warn(
                f"warning: {lrms} gives {_named(small, 'node')} less than {_LEAST_MB} MB of memory,"
                " so that hardly a job goes there: tell it their memory (Slurm: RealMemory in"
                " slurm.conf)"
            )
        if empty := [ce.id for ce in own.computing_elements if is_empty(ce) and _is_closed(ce)]:
            warn(f"warning: closed, as the batch system has no nodes for them: {_named(empty)}")
        records = joined(records, own, issues.append)
    _warn(records)
    if site_file is not None:
        records = _with_site(records, of_site, site_file)
    issues = _write(records, output, version, issues, as_json=as_json)
    for line in lines(issues):
        warn(line)
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
    if closed := [ce.id for ce in records.computing_elements if nobody(ce)]:
        warn(
            f"warning: no rule of access admits anybody at {_named(closed)}, so that brokers may"
            " pass over them; name a VO with --vo"
        )


def _named(names: Sequence[str], noun: str = "queue") -> str:
    return f"{count(len(names), noun)} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"


def _is_closed(ce: ComputingElement) -> bool:
    return ce.values.get("GlueCEStateStatus") == "Closed"


def _is_small(memory: Value) -> bool:
    return isinstance(memory, (int, float)) and memory < _LEAST_MB


def _site_file(path: str | None) -> dict[str, Value]:
    """Return the values of a site file; none without one."""
    if path is None:
        return {}
    with inputs.opened(path) as file:
        try:
            return site_values(file.read(1 << 20).decode("utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _with_site(
    records: glue.GlueRecords, values: Mapping[str, Value], path: str
) -> glue.GlueRecords:
    """Adds what a site file says to the one site of the records."""
    if not records.sites:
        raise click.UsageError(
            f"--site-file {path} tells of a site, and no queue is of one: name it with --site, or"
            " as `name` in the file"
        )
    if len(records.sites) > 1:
        names = ", ".join(site.id for site in records.sites[:3])
        raise click.UsageError(
            f"--site-file {path} tells of one site; published are {len(records.sites)}: {names}…"
        )
    return with_site(records, values)


@attrs.frozen(slots=True)
class _Offer:
    """What the options add to described queues and their hosts."""

    endpoint: str | None
    site: str | None
    vos: tuple[str, ...]
    local: Mapping[str, Sequence[str]]
    split: bool
    system: tuple[Mapping[str, Value], str | None]

    def describe(self, queues: Iterable[ClassAd], hosts: Iterable[ClassAd]) -> glue.GlueRecords:
        placed = glue.place(queues, self.endpoint, site=self.site, vos=self.vos, local=self.local)
        described.report_closed(placed)
        return glue.describe_site(placed, with_system(hosts, *self.system), split=self.split)


def _system(path: str | None) -> tuple[Mapping[str, Value], str | None]:
    """The operating system of nodes that tell only their kernel, and of which kernel they are.

    Without a file it is this machine's, for nodes that run its kernel; a file is believed for all.
    """
    if path is None:
        try:
            here = os_release_values(OS_RELEASE.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            here = {}
        machine = os.uname()
        return here, f"{machine.sysname} {machine.release} {machine.version}"
    with inputs.opened(path) as file:
        try:
            return os_release_values(file.read(1 << 16).decode("utf-8")), None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _own(known: Queues, ce_files: tuple[str, ...]) -> Iterator[ClassAd]:
    """The ads of files that have no record; ads of the OSG have one."""
    made = {ad.eval("CEid") for ad in glue.Glue(known.records, ()).computing_elements()}
    for queue in known.all:
        if queue.source in ce_files and first_text(queue.ad, ("CEid",)) not in made:
            yield queue.ad
