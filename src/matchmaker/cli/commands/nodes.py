"""``classad nodes`` and ``publish``: a batch system's nodes and queues, and their LDIF of GLUE."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import click

from matchmaker import ClassAd, Expr, Value, batch, broker, glue, nodes, write_ads
from matchmaker._diagnostics import NOTE
from matchmaker.batch import Description, DescriptionError, describe, load_mapping, read_description
from matchmaker.batch.check import with_attributes
from matchmaker.batch.description import Change, changes, formats, shell_line
from matchmaker.broker import Queues
from matchmaker.broker.choosing import policy_refusal
from matchmaker.broker.routing import local_name
from matchmaker.classad.ad import first_text
from matchmaker.classad.values import UNDEFINED
from matchmaker.cli import inputs, pools, queues, reports
from matchmaker.cli.options import FiniteRange, host_attribute_option, mapping_option
from matchmaker.cli.output import count, plain, print_json, printable, show, table, warn
from matchmaker.glue import UNLIMITED
from matchmaker.glue.access import nobody
from matchmaker.glue.issues import lines
from matchmaker.glue.publish.site import (
    admits_nobody,
    is_empty,
    os_release_values,
    site_values,
    with_site,
    with_system,
)
from matchmaker.glue.records import ComputingElement
from matchmaker.glue.snapshot import joined
from matchmaker.matching.pair import value_text

NODE_COLUMNS = {
    "Name": "name", "NodeState": "state", "Available": "available", "FreeCpus": "free cpus",
    "Cpus": "cpus", "FreeMemory": "free MB", "Memory": "MB", "GPUs": "gpus",
}  # fmt: skip
QUEUE_COLUMNS = {
    "Name": "name", "GlueCEStateStatus": "status", "GlueCEStateFreeCPUs": "free cpus",
    "GlueCEInfoTotalCPUs": "cpus", "GlueCEStateRunningJobs": "running",
    "GlueCEStateWaitingJobs": "waiting", "GlueCEPolicyMaxWallClockTime": "wall minutes",
}  # fmt: skip
"""Main attributes, and the headings of their columns."""


def described(lrms: str, saved: tuple[str, ...], mapping: str | None = None) -> Description:
    """Ask the batch system, or reads saved outputs. Findings go to standard error.

    With a site's ``mapping``, nodes have the attributes that their features stand for.
    """
    table = None if mapping is None else load_mapping(lrms, mapping)
    if saved:
        found = read_description(lrms, [(path, _text_of(path)) for path in saved])
    else:
        found = describe(lrms)
    for issue in found.issues:
        warn(f"{issue.source}: {issue.message}")
    if table is not None:
        nodes, findings = with_attributes(found.nodes, table)
        found = attrs.evolve(found, nodes=tuple(nodes))
        for finding in findings:
            warn(f"{finding.attribute}: {finding.message}")
    return found


def local_names(words: Iterable[str]) -> dict[str, list[str]]:
    """The local names of ``--local VO=NAME``, by VO. Raises UsageError for another form."""
    found: dict[str, list[str]] = {}
    for word in words:
        vo, equals, name = word.rpartition("=")
        if not (vo.strip() and equals and name.strip()):
            raise click.UsageError(f"--local {word}: expected VO=NAME, such as cms=cmsgrp")
        found.setdefault(vo.strip(), []).append(name.strip())
    return found


def report_closed(queues: Iterable[ClassAd]) -> None:
    """Report queues that the batch system keeps for others than the VOs, on standard error."""
    for ad in queues:
        if admits_nobody(ad):
            name, lists = str(ad.eval("Name")), value_text(ad.eval("LocalAccess"))
            warn(
                f"{name} admits nobody: the batch system admits {lists}; say with --vo and --local"
                " VO=NAME which VOs run under these names"
            )


def nothing(lrms: str, what: str = "queues") -> str:
    """The message for a batch system that described no nodes or queues."""
    return f"{lrms} described no {what}; it was asked with {shell_line(lrms)}"


def _text_of(path: str) -> str:
    with inputs.opened(path) as file:
        return file.read().decode("utf-8-sig", "replace")


def print_ads(
    ads: tuple[ClassAd, ...], noun: str, columns: Mapping[str, str], as_json: bool
) -> None:
    """Print the main attributes of the ads as a table, or all attributes as JSON."""
    if as_json:
        print_json([{name: plain(ad.eval(name)) for name in ad} for ad in ads])
        return
    print(count(len(ads), noun))
    if not ads:
        return
    rows = [[_cell(ad, name) for name in columns] for ad in ads]
    show(table(tuple(columns.values()), rows, right=range(3, len(columns)), whole=(0,)))


def _cell(ad: ClassAd, name: str) -> object:
    value = ad.eval(name)
    if value == UNLIMITED and name.startswith("GlueCEPolicy"):
        return "unlimited"
    return "-" if value is UNDEFINED else value if isinstance(value, str) else value_text(value)


def watch(
    look: Callable[[], tuple[ClassAd, ...]], every: float, output: str | None, *,
    as_json: bool = False,
) -> None:  # fmt: skip
    """Ask repeatedly, print the changes, and keeps a file of the ads up to date.

    If the batch system does not answer, an error is printed and the last ads stay.
    """
    before: Iterable[ClassAd] = ()
    while True:
        try:
            now = look()
        except DescriptionError as error:
            warn(str(error))
        else:
            found = list(changes(before, now))
            if output is not None and (found or not before):
                write_ads(now, output)
            now_is = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            for change in found:
                said = (
                    json.dumps(_change_data(change, now_is))
                    if as_json
                    else f"{now_is} {_change_line(change)}"
                )
                print(said, flush=True)
            before = now
        time.sleep(every)


def _change_data(change: Change, moment: str) -> dict[str, Any]:
    """A change as a record for one line of JSON: the new ad, or null if it is gone."""
    after = None
    if change.after is not None:
        after = {name: plain(change.after.eval(name)) for name in change.after}
    changed = change.attributes()
    return {"time": moment, "name": change.name, "changed": changed, "ad": after}


def _change_line(change: Change) -> str:
    if change.after is None:
        return f"{printable(change.name)} is gone"
    if change.before is None:
        return f"{printable(change.name)} is here"
    parts = [
        f"{name} {value_text(change.before.eval(name))} -> {value_text(change.after.eval(name))}"
        for name in change.attributes()
    ]
    return printable(f"{change.name}: {', '.join(parts) or 'what it says of itself'}")


@click.command("nodes")
@click.argument("job_file", metavar="[JOB]", required=False)
@click.option("--nodes", "nodes_file", metavar="FILE", help="Ads of worker nodes.")
@click.option("--lrms", metavar="NAME", help="Ask the batch system of this name for its nodes.")
@click.option("--saved", multiple=True, metavar="FILE",
              help="What its commands printed, in place of asking them.")  # fmt: skip
@mapping_option
@host_attribute_option
@queues.options
@click.option("--queue", metavar="NAME",
              help="The queue to take; by default the broker's choice, or all.")  # fmt: skip
@click.option("--queues", "of_queues", is_flag=True, help="The queues instead of the nodes.")
@click.option("--vo", "vos", multiple=True, metavar="VO",
              help="With --queues: a VO, group or role that the queues admit.")  # fmt: skip
@click.option("--local", "local", multiple=True, metavar="VO=NAME",
              help="The local group or account that jobs of a VO run as.")  # fmt: skip
@click.option("--formats", "of_formats", is_flag=True,
              help="What the reader of --lrms was tested with: outputs and versions.")  # fmt: skip
@pools.constraint
@click.option("--write", "output", metavar="FILE", help="Write the ads to FILE.")
@click.option("--watch", "every", metavar="SECONDS", type=FiniteRange(min=0.1),
              help="Ask again after so long, and print what changed.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def nodes_command(
    *, job_file: str | None, nodes_file: str | None, lrms: str | None, saved: tuple[str, ...],
    mapping: str | None, host_attributes: tuple[str, ...], places: queues.Sources,
    queue: str | None, of_queues: bool, vos: tuple[str, ...], local: tuple[str, ...],
    of_formats: bool, constraint: Expr | None, output: str | None, every: float | None,
    as_json: bool,
) -> int:  # fmt: skip
    """List the worker nodes of a batch system, or choose those that JOB may run on.

    Without JOB, the batch system named with --lrms describes its nodes, those of --queue alone if
    it is given, or with --queues its queues. --write keeps the ads in a file, and --watch the file
    up to date, until interrupted. --formats lists the outputs that the reader of the batch system
    was tested with, and asks nobody.

    A queue that the batch system keeps for some groups or accounts admits the VOs of --vo whose
    name, or whose name given with --local, is among them.

    With JOB and descriptions of queues, JOB's requirements are first reduced against its queue;
    without them, they are compared with the nodes unreduced. Nodes that take no jobs at the
    moment are left out.
    """
    if mapping is not None and lrms is None:
        raise click.UsageError("--mapping needs --lrms: the mapping is for that batch system")
    if (nodes_file is None) == (lrms is None):
        raise click.UsageError("where are the nodes? give one of --nodes FILE and --lrms NAME")
    if saved and lrms is None:
        raise click.UsageError("--saved needs --lrms: the outputs of which batch system are they?")
    if (vos or local) and not of_queues:
        raise click.UsageError("--vo and --local go with --queues: whom do they admit?")
    if of_formats:
        return _formats(lrms, as_json=as_json)
    if job_file is not None:
        if of_queues or output or every is not None:
            raise click.UsageError("--queues, --write and --watch do not go with a job")
        if nodes_file is not None:
            inventory = inputs.ads(nodes_file)
        else:
            inventory = list(described(lrms or "", saved, mapping).nodes)
        inventory = list(pools.satisfying(inventory, constraint))
        known = batch.load_mapping(lrms, mapping).attributes if lrms and mapping else ()
        hosts = broker.Hosts(attributes=(*host_attributes, *known))
        return _choose(job_file, inventory, places, hosts, queue=queue, as_json=as_json)
    if lrms is None:
        raise click.UsageError("without a job, only --lrms describes nodes; name the job first")
    if places.any or places.at:
        raise click.UsageError("--ldif, --ce, --ldap and --at are for a job's queue: name the job")
    names = local_names(local)

    def look() -> tuple[ClassAd, ...]:
        found = described(lrms, saved, mapping)
        ads = glue.admit(found.queues, vos, names) if of_queues else found.nodes
        if queue is not None:
            ads = _the_queue(ads, queue) if of_queues else _of_queue(ads, queue)
        return tuple(pools.satisfying(ads, constraint))

    return _list(lrms, look, of_queues=of_queues, output=output, every=every, as_json=as_json)


def _formats(lrms: str | None, *, as_json: bool) -> int:
    if lrms is None:
        raise click.UsageError("--formats needs --lrms: the reader of which batch system?")
    known = formats(lrms)
    if as_json:
        print_json([attrs.asdict(one) for one in known])
        return 0
    rows = [[one.output, ", ".join(one.versions), ", ".join(one.running)] for one in known]
    print(f"{lrms}: {count(len(known), 'output')}")
    show(table(["output", "versions tested", "from a daemon"], rows, whole=(0, 1, 2)))
    return 0


def _list(
    lrms: str, look: Callable[[], tuple[ClassAd, ...]], *, of_queues: bool, output: str | None,
    every: float | None, as_json: bool,
) -> int:  # fmt: skip
    if every is not None:
        watch(look, every, output, as_json=as_json)
    ads = look()
    if output is not None:
        write_ads(ads, output)
    if of_queues:
        report_closed(ads)
    if not ads:
        warn(nothing(lrms, "queues" if of_queues else "worker nodes"))
    columns = QUEUE_COLUMNS if of_queues else NODE_COLUMNS
    print_ads(ads, "queue" if of_queues else "worker node", columns, as_json)
    return 0 if ads else 1


def _of_queue(inventory: Iterable[ClassAd], queue: str) -> list[ClassAd]:
    """The nodes of a queue. Raises UsageError, with the queues that nodes list, for none."""
    inventory = list(inventory)
    found = nodes.in_queue(inventory, queue)
    if not found:
        known = {name for node in inventory for name in nodes.queues_of(node) or ()}
        listed = ", ".join(sorted(known)[:8]) or "none"
        raise click.UsageError(f"no node is of the queue {queue}; by their Queues: {listed}")
    return found


def _the_queue(described: Iterable[ClassAd], queue: str) -> list[ClassAd]:
    """The ad of a queue alone. Raises UsageError, with the queues that there are, for none."""
    by_name = {local_name(ad): ad for ad in described}
    if queue not in by_name:
        listed = ", ".join(sorted(by_name)[:8]) or "none"
        raise click.UsageError(f"no queue is named {queue}; there are {listed}")
    return [by_name[queue]]


def _choose(
    job_file: str, inventory: list[ClassAd], places: queues.Sources, hosts: broker.Hosts, *,
    queue: str | None, as_json: bool,
) -> int:  # fmt: skip
    job = inputs.one_job(job_file)
    requirements: Expr | None = None
    page = reports.Page(count(len(inventory), "worker node"))
    policy = ClassAd()
    if places.any:
        chosen, reduction, _ = queues.routed(job, queues.read(places), queue, places.at, hosts)
        requirements = reduction.residual
        page.data = {"queue": chosen.name, "residual": str(requirements)}
        page.say("queue", chosen.name)
        page.reduction(reduction)
        policy = chosen.ad
        if name := local_name(policy):
            inventory = nodes.in_queue(inventory, name)
            policy = nodes.with_policy(policy, nodes.policies_of(inventory).get(name))
    elif places.at:
        raise click.UsageError("--at needs descriptions of queues: --ldif, --ce or --ldap")
    elif queue:
        inventory = _of_queue(inventory, queue)
        page.say("queue", f"{queue}, with {count(len(inventory), 'worker node')}")
        told = nodes.policies_of(inventory).get(queue)
        policy = nodes.with_policy(ClassAd({"QueueName": queue}), told)
    refusal = policy_refusal(job, policy)
    if refusal:
        page.data["refusal"] = refusal
        page.say("refused", refusal)
    found = nodes.choose(job, inventory, requirements)
    if as_json:
        page.data |= reports.selection_data(found)
    else:
        page.nodes(found)
    page.print(as_json=as_json)
    return 0 if found.chosen and not refusal else 1


OS_RELEASE = Path("/etc/os-release")
_LEAST_MB = 100
"""The least memory of a node by EGI's glue-validator. Slurm's default is 1."""


@click.command("publish")
@click.option("--lrms", metavar="NAME", help="Ask the batch system of this name for its queues.")
@click.option("--saved", multiple=True, metavar="FILE",
              help="What its commands printed, in place of asking them.")  # fmt: skip
@mapping_option
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
    "--glue", "version", type=click.Choice(["1.3", "2.0", "both"]), default="both",
    show_default=True, help="The version of GLUE.",
)  # fmt: skip
@click.option("-o", "--output", metavar="FILE", help="Where to write, in place of the terminal.")
@click.option(
    "--json", "as_json", is_flag=True,
    help="Print JSON: the LDIF, if --output is not given, and what is left out.",
)  # fmt: skip
def publish_command(
    *, lrms: str | None, saved: tuple[str, ...], mapping: str | None, endpoint: str | None,
    site: str | None, site_file: str | None, vos: tuple[str, ...], local: tuple[str, ...],
    places: queues.Sources, nodes_file: str | None, os_release: str | None, split: bool | None,
    version: str, output: str | None, as_json: bool,
) -> int:  # fmt: skip
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
    offer = _Offer(endpoint, site, vos, local_names(local), split is not False, system)
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
        found = described(lrms, saved, mapping)
        if not found.queues:
            warn(f"nothing is published: {nothing(lrms)}")
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
    _warn_of_closed(records)
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
    """Write LDIF; return the issues before, and those of values that the schema cannot hold."""
    path = output if output and output != "-" else None
    text = io.StringIO() if as_json else sys.stdout
    found = glue.write_ldif(records, path or text, version=version)  # type: ignore[arg-type]
    issues = [*before, *found]
    if isinstance(text, io.StringIO):
        ldif = None if path else text.getvalue()
        print_json({"output": path, "ldif": ldif, "issues": [str(issue) for issue in issues]})
    return issues


def _warn_of_closed(records: glue.GlueRecords) -> None:
    """Name queues that no rule of access opens to anybody."""
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
    """Add the values of a site file to the one site of the records."""
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
    """The options' additions to described queues and their hosts."""

    endpoint: str | None
    site: str | None
    vos: tuple[str, ...]
    local: Mapping[str, Sequence[str]]
    split: bool
    system: tuple[Mapping[str, Value], str | None]

    def describe(self, queues: Iterable[ClassAd], hosts: Iterable[ClassAd]) -> glue.GlueRecords:
        placed = glue.place(queues, self.endpoint, site=self.site, vos=self.vos, local=self.local)
        report_closed(placed)
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
