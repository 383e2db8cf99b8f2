"""``classad nodes``: lists the worker nodes of a batch system, or chooses those for a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
import click

from matchmaker import ClassAd, Expr, batch, broker, glue, nodes, write_ads
from matchmaker.batch.description import formats
from matchmaker.broker.choosing import policy_refusal
from matchmaker.broker.routing import local_name
from matchmaker.cli import described, inputs, picking, queues, reports, submission
from matchmaker.cli.output import count, print_json, show, table, warn


@click.command()
@click.argument("job_file", metavar="[JOB]", required=False)
@click.option("--nodes", "nodes_file", metavar="FILE", help="Ads of worker nodes.")
@click.option("--lrms", metavar="NAME", help="Ask the batch system of this name for its nodes.")
@click.option("--saved", multiple=True, metavar="FILE",
              help="What its commands printed, in place of asking them.")  # fmt: skip
@submission.mapping
@submission.host_attributes
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
@picking.constraint
@click.option("--write", "output", metavar="FILE", help="Write the ads to FILE.")
@click.option("--watch", "every", metavar="SECONDS", type=click.FloatRange(min=0.1),
              help="Ask again after so long, and print what changed.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    job_file: str | None,
    nodes_file: str | None,
    lrms: str | None,
    saved: tuple[str, ...],
    mapping: str | None,
    host_attributes: tuple[str, ...],
    places: queues.Sources,
    queue: str | None,
    of_queues: bool,
    vos: tuple[str, ...],
    local: tuple[str, ...],
    of_formats: bool,
    constraint: Expr | None,
    output: str | None,
    every: float | None,
    as_json: bool,
) -> int:
    """List the worker nodes of a batch system, or choose those that JOB may run on.

    Without JOB, the batch system named with --lrms describes its nodes, those of --queue alone if
    it is given, or with --queues its queues. --write keeps the ads in a file, and --watch the file
    up to date, until interrupted. --formats lists what the reader of the batch system was tested
    with, and asks nobody.

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
            inventory = list(described.description(lrms or "", saved, mapping).nodes)
        inventory = list(picking.satisfying(inventory, constraint))
        known = batch.load_mapping(lrms, mapping).attributes if lrms and mapping else ()
        hosts = broker.Hosts(attributes=(*host_attributes, *known))
        return _choose(job_file, inventory, places, hosts, queue=queue, as_json=as_json)
    if lrms is None:
        raise click.UsageError("without a job, only --lrms describes nodes; name the job first")
    if places.any or places.at:
        raise click.UsageError("--ldif, --ce, --ldap and --at are for a job's queue: name the job")
    names = described.local_names(local)

    def look() -> tuple[ClassAd, ...]:
        found = described.description(lrms, saved, mapping)
        ads = glue.admit(found.queues, vos, names) if of_queues else found.nodes
        if queue is not None:
            ads = _the_queue(ads, queue) if of_queues else _of_queue(ads, queue)
        return tuple(picking.satisfying(ads, constraint))

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
    lrms: str,
    look: Callable[[], tuple[ClassAd, ...]],
    *,
    of_queues: bool,
    output: str | None,
    every: float | None,
    as_json: bool,
) -> int:
    if every is not None:
        described.watch(look, every, output, as_json=as_json)
    ads = look()
    if output is not None:
        write_ads(ads, output)
    if of_queues:
        described.report_closed(ads)
    if not ads:
        warn(described.nothing(lrms, "queues" if of_queues else "worker nodes"))
    columns = described.QUEUE_COLUMNS if of_queues else described.NODE_COLUMNS
    described.print_ads(ads, "queue" if of_queues else "worker node", columns, as_json)
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
    job_file: str,
    inventory: list[ClassAd],
    places: queues.Sources,
    hosts: broker.Hosts,
    *,
    queue: str | None,
    as_json: bool,
) -> int:
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
