"""``classad broker`` and ``submit``: choose a queue for a job, and hand the job over."""

from __future__ import annotations

import os
import random
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import click

from matchmaker import ClassAd, batch, broker, glue
from matchmaker.batch import NoFlagsError, Submission
from matchmaker.batch.flags.submission import lacking
from matchmaker.batch.policy import required_policy
from matchmaker.broker.routing import unnamed
from matchmaker.classad.nodes import TRUE
from matchmaker.cli import inputs, queues, reports, transfers
from matchmaker.cli.options import FiniteRange, flag_options, gathered, submitter
from matchmaker.cli.output import complaint, count, print_json, show, table, warn
from matchmaker.cli.queues import NoMatchError
from matchmaker.cli.reports import rank_text
from matchmaker.glue.issues import total

if TYPE_CHECKING:
    from matchmaker.delegation import Record
    from matchmaker.delegation.control import Control, OwnOptions
    from matchmaker.delegation.delegate import Order
    from matchmaker.delegation.record import Invocation
    from matchmaker.reduction import Reduction


@attrs.frozen(slots=True)
class HandoverOptions:
    """How a job is to be handed over: its key, its lease in seconds, how long to wait."""

    key: str | None
    lease: float | None
    lease_from: Literal["start", "submit"]
    wait: float


handover_options = gathered(
    HandoverOptions, "wish",
    click.option("--wait", metavar="SECONDS", type=FiniteRange(min=0, max=10**6),
                 default=60.0, show_default=True,
                 help="How long to wait until the job may start; classad reconcile goes on."),
    click.option("--lease", metavar="SECONDS",
                 type=FiniteRange(min=0, min_open=True, max=10**9),
                 help="How long the job lives without a renewal; by default two days."),
    click.option("--lease-from", type=click.Choice(["start", "submit"]), default="start",
                 show_default=True, help="When the lease begins."),
    click.option("--key", metavar="KEY",
                 help="The job's name in the ledger; the same again submits nothing."),
)  # fmt: skip
"""``--key``, ``--lease`` and ``--wait``; the command gets them as ``wish``."""


@attrs.frozen(slots=True, kw_only=True)
class OrderedJob:
    """A job as its owner orders it; its queue and flags are found later.

    Attributes:
        job: the job's ad.
        script: the content of its script.
        control: the table of the batch system.
        invocation: how the script is called.
        given: the owner's options on the command line.
        left_out: attributes of the ad that have no effect, each with the reason.
        source: the file that the script is from, or the job's.
    """

    job: ClassAd
    script: bytes = attrs.field(repr=False)
    control: Control
    invocation: Invocation
    given: Sequence[str] = ()
    left_out: tuple[str, ...] = ()
    source: str = ""

    def options(self, found: Sequence[str] = ()) -> OwnOptions:
        """The owner's options, beside the flags that were found for the job."""
        from matchmaker.delegation.control import own_options

        return own_options(self.control, self.script, os.environ, self.given, found)


def ordered(
    job: ClassAd, job_file: str, lrms: str, *, script: str | None, arguments: str | None = None,
    given: Sequence[str] = (),
) -> OrderedJob:  # fmt: skip
    """Read an order: the job, its script, and how it is called.

    Args:
        job: the job's ad.
        job_file: the file that it is from; ``-`` for standard input.
        lrms: the batch system.
        script: the path of the script; None for the job's own ``Executable``.
        arguments: the script's arguments in one text; None for the job's own.
        given: the owner's options for the batch system.

    Raises OSError, ValueError, and RefusedError as :func:`invocation_of` does.
    """
    from matchmaker.delegation.control import invocation_of, load_control, own_options
    from matchmaker.delegation.effects import script_at

    control = load_control(lrms)
    folder = Path.cwd() if job_file == "-" else Path(job_file).absolute().parent
    words = None if arguments is None else shlex.split(arguments)
    described = invocation_of(job, folder, str(Path.cwd()), script, words)
    if described.script is None:
        raise click.UsageError("the job names no Executable: give --script FILE, the job's script")
    content = described.script
    source = job_file if isinstance(content, bytes) else str(content)
    if not isinstance(content, bytes):
        content = script_at(Path(content))
    options = own_options(control, content, {}, given).words
    if control.sets_directory(options):
        described = invocation_of(job, folder, "", script, words)
    return OrderedJob(
        job=job, script=content, control=control, invocation=described.invocation, given=given,
        left_out=described.left_out, source=source,
    )  # fmt: skip


def hand_over(
    order: OrderedJob, place: transfers.LedgerOptions, wish: HandoverOptions,
    choose: Callable[[], Submission | None],
) -> tuple[Record, OwnOptions] | None:  # fmt: skip
    """Hand a job over, and wait until it may start; the job and its owner's options.

    The key is looked up before anything is chosen: an order that is known goes on as it is. It is
    printed before the job is on record, so that nobody who repeats the order needs another one.

    Args:
        order: the job.
        place: the ledger and the spool.
        wish: the key, the lease, how long to wait.
        choose: finds a queue and the flags for it; None if there are none, and nothing is handed
            over.

    Raises OSError, LedgerError, KeyTakenError and ValueError as :meth:`Delegator.submit` does.
    """
    asked = order.options()
    with transfers.opened(place) as ledger:
        made = transfers.delegator(place, ledger, order.control.lrms)
        from matchmaker.delegation.delegate import new_key

        record = None
        if wish.key is not None:
            record = made.known(
                wish.key, order.job, order.script, words=order.given, invocation=order.invocation
            )
        if record is not None:
            warn(f"key {record.key}: handed over before, and not submitted again")
        else:
            submission = choose()
            if submission is None:
                return None
            key = wish.key if wish.key is not None else new_key()
            warn(f"key {key}")
            _warn_of_lines([(order, submission)])
            wanted, asked = _with_flags(order, submission, key, wish)
            (handed,) = made.submit_all([wanted])
            if isinstance(handed, Exception):
                raise handed
            record = handed
        return transfers.until_committed(made, record, wish.wait), asked


ENDED_BADLY: Final = frozenset({"failed", "lost", "cancelled"})
_AT_ONCE: Final = 8
"""How many commands of the batch system run at a time."""


@attrs.frozen(slots=True)
class OrderOutcome:
    """The result of one of many orders: its record, or the reason for none; status 1 or 2.

    A job that is handed over now also has its owner's options and the ones left out.
    """

    key: str
    record: Record | None
    why: str = ""
    status: int = 0
    options: Mapping[str, list[str]] | None = None


def hand_over_all(
    orders: Mapping[str, OrderedJob], place: transfers.LedgerOptions, wish: HandoverOptions,
    choose: Callable[[ClassAd], Submission],
) -> list[OrderOutcome]:  # fmt: skip
    """Hand many jobs over by their keys, in one process, and wait until they may start.

    A key that is known goes on as it is. Jobs that differ in nothing but how they are called share
    a choice of queue.

    Args:
        orders: the jobs by key; all are for one batch system.
        place: the ledger and the spool.
        wish: the lease, and how long to wait.
        choose: finds a queue and the flags for a job; raises NoFlagsError or NoMatchError.

    Raises LedgerError if the ledger cannot be opened or read.
    """
    first = next(iter(orders.values()))
    chosen: dict[str, Submission | Exception] = {}
    with transfers.opened(place) as ledger:
        made = transfers.delegator(place, ledger, first.control.lrms, parallel=_AT_ONCE)
        known = {record.key for record in ledger.records(orders)}
        for key, order in orders.items():
            kind = _kind(order.job)
            if key not in known and kind not in chosen:
                try:
                    chosen[kind] = choose(order.job)
                except (NoFlagsError, NoMatchError) as error:
                    chosen[kind] = error

        fresh = [
            (order, chosen.get(_kind(order.job))) for k, order in orders.items() if k not in known
        ]
        _warn_of_lines([(order, made) for order, made in fresh if isinstance(made, Submission)])
        outcomes: dict[str, OrderOutcome] = {}
        wanted: list[Order] = []
        options: dict[str, Mapping[str, list[str]]] = {}
        for key, order in orders.items():
            found = chosen.get(_kind(order.job))
            try:
                if key in known:
                    outcomes[key] = OrderOutcome(key, made.known(
                        key, order.job, order.script, words=order.given,
                        invocation=order.invocation,
                    ))  # fmt: skip
                elif found is None or isinstance(found, Exception):
                    outcomes[key] = OrderOutcome(key, None, str(found), 1)
                else:
                    made_of, own = _with_flags(order, found, key, wish)
                    wanted.append(made_of)
                    options[key] = _options_data(order, own)
            except (ValueError, OSError) as error:
                outcomes[key] = OrderOutcome(key, None, complaint(error), 2)
        for each, record in zip(wanted, made.submit_all(wanted), strict=True):
            outcomes[each.key] = (
                OrderOutcome(each.key, None, complaint(record), 2)
                if isinstance(record, Exception)
                else OrderOutcome(each.key, record, options=options[each.key])
            )
        there = [each.record for each in outcomes.values() if each.record]
        now = transfers.all_committed(made, ledger, there, wish.wait)
        return [attrs.evolve(outcomes[k], record=now.get(k, outcomes[k].record)) for k in orders]


def _warn_of_lines(pairs: Iterable[tuple[OrderedJob, Submission]]) -> None:
    """Print, once each, the lines that scripts lack, such as ``module load`` for a feature."""
    for text in dict.fromkeys(
        f"{order.source}: {said}"
        for order, submission in pairs
        for said in lacking(order.script.decode("utf-8", "replace"), submission)
    ):
        warn(text)


def _kind(job: ClassAd) -> str:
    """The job without what says only how it is called: jobs of one kind have one queue."""
    from matchmaker.delegation.control import CALL

    plain = job.copy()
    for name in CALL:
        plain.pop(name, None)
    return str(plain)


def _with_flags(
    order: OrderedJob, submission: Submission, key: str, wish: HandoverOptions
) -> tuple[Order, OwnOptions]:
    """The order of a job that is not known yet, with the flags that were found for it."""
    from matchmaker.delegation.delegate import Order

    options = order.options(submission.argv)
    policy = required_policy(order.job, glue.scope)
    return Order(
        job=order.job, script=order.script, submission=submission, key=key, lease=wish.lease,
        lease_from=wish.lease_from,
        policy=None if policy is TRUE else policy, words=order.given,
        invocation=order.invocation,
    ), options  # fmt: skip


def _options_data(order: OrderedJob, options: OwnOptions) -> Mapping[str, list[str]]:
    """Return the owner's options, and attributes without effect, for printing."""
    return {
        "words": [*options.passing, *options.words],
        "left_out": [*order.left_out, *options.left_out],
    }


def say_options(page: reports.Page, order: OrderedJob, options: OwnOptions) -> None:
    """Add the owner's options, and attributes without effect, to a page."""
    made = _options_data(order, options)
    page.data["options"] = made
    if made["words"]:
        page.say("your options", shlex.join(made["words"]))
    for each in made["left_out"]:
        page.say("left out", each)


def say_handed(page: reports.Page, record: Record) -> bool:
    """Add the job to a page; return whether it was handed over."""
    page.data["transfer"] = transfers.record_data(record)
    page.say("key", record.key)
    ended = str(record.state) in ENDED_BADLY
    why = f": {record.reason}" if record.reason else ""
    page.say("state", f"{record.state}{why}")
    if record.remote_id:
        page.say("id", record.remote_id)
    if record.state == "paused":
        page.say("next", f"classad resume {record.key} submits it again")
    if record.state in transfers.EARLY:
        page.say("next", "classad reconcile finds out where it is, and lets it start")
    return not ended


@click.command("broker")
@click.argument("job_file", metavar="JOB")
@queues.options
@queues.choice_options
@click.option("--lrms", metavar="NAME", help="The batch system to write flags for, such as slurm.")
@flag_options
@click.option("--submit", "script", metavar="FILE", help="Hand the job over, with this script.")
@transfers.options
@handover_options
@click.option(
    "--ignore-free-slots",
    is_flag=True,
    help="With several jobs: choose for each as if no other came.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def broker_command(
    *, job_file: str, places: queues.Sources, rules: broker.Rules, tie: random.Random | None,
    nodes_file: str | None, lrms: str | None, mapping: str | None, host_attributes: tuple[str, ...],
    want: str, script: str | None, place: transfers.LedgerOptions, wish: HandoverOptions,
    ignore_free_slots: bool, as_json: bool,
) -> int:  # fmt: skip
    """Choose a queue for JOB, the worker nodes that satisfy it, and the submit flags.

    Queues come from --ldif, --ce and --ldap together, each any number of times. If JOB
    holds several ads, only the queue of each is chosen, and no free slot is given away twice.
    """
    if mapping and not lrms:
        raise click.UsageError("--mapping needs --lrms: the mapping is for that batch system")
    if script is not None and not lrms:
        raise click.UsageError("--submit needs --lrms: the batch system to hand the job over to")
    table = batch.load_mapping(lrms, mapping) if lrms else None
    jobs = inputs.jobs(job_file)
    inventory = inputs.ads(nodes_file) if nodes_file else None
    if len(jobs) > 1:
        if nodes_file or lrms or script:
            raise click.UsageError(f"{job_file} holds {len(jobs)} jobs: nodes and flags are of one")
        if ignore_free_slots:
            rules = attrs.evolve(rules, free_slots=None)
        found = queues.read(places)
        return _bulk(broker.choose_many(jobs, found, at=places.at, tie=tie, rules=rules), as_json)
    job = inputs.the_one(job_file, jobs)
    hosts = broker.Hosts(
        nodes=inventory, mapping=table, want=batch.Fit(want),
        attributes=host_attributes, submitter=submitter(),
    )  # fmt: skip
    page, done = reports.Page("handed over before"), False
    page.data = {"job": job_file}

    def choose() -> batch.Submission | None:
        nonlocal page, done
        known = queues.read(places, nodes=inventory)
        route = broker.route(job, known.ads, hosts, at=places.at, tie=tie, rules=rules)
        found = total(issue for _, issue in known.issues)
        findings = f"{count(found, 'finding')} in their data"
        page = reports.Page(f"{count(len(known.all), 'queue')}, {findings}")
        page.data = {"job": job_file, "issues": found}
        done = _show(page, route, hosts)
        if route.queue is not None and route.submission is None:
            _show_grid(page, job, route.queue.ad, lrms)
        if route.queue is not None and (said := unnamed(route.queue, route.submission, table)):
            warn(f"warning: {said}")
        if not known.all:
            page.say("hint", "no source describes a queue; classad ces --check lists the findings")
        elif route.queue is None and (hint := queues.no_match_hint(job, known, hosts)):
            page.say("hint", hint)
        return route.submission if done else None

    if script is None or lrms is None:
        choose()
    else:
        order = ordered(job, job_file, lrms, script=script)
        handed = hand_over(order, place, wish, choose)
        if handed is not None:
            record, options = handed
            say_options(page, order, options)
            done = say_handed(page, record)
    page.print(as_json=as_json)
    return 0 if done else 1


def _show_grid(page: reports.Page, job: ClassAd, queue: ClassAd, lrms: str | None) -> None:
    """Add the lines of a submit description that send the job to the queue through a grid."""
    lines = broker.grid_lines(job, queue)
    if lines:
        page.data["grid"] = list(lines)
    elif lrms is None and ("InformationSystem" in queue or "GLUE2" in queue):
        said = "no lines: neither HTCondor-CE nor ARC is known to take its jobs"
        page.say("grid", f"{said}; with --lrms NAME come the flags for its batch system")
    for line in lines:
        page.say("grid", line)


def _bulk(choices: list[broker.Choice], as_json: bool) -> int:
    """Print the queue of each of many jobs, numbered from 1. Returns the exit status."""
    if as_json:
        print_json([
            {"job": number, "chosen": choice.chosen, "waits": choice.waits,
             "unranked": list(choice.unranked),
             "ranked": [{"name": name, "rank": reports.rank_data(rank)}
                        for name, rank in zip(choice.names, choice.ranks, strict=True)]}
            for number, choice in enumerate(choices, 1)
        ])  # fmt: skip
    else:
        rows = [
            [number, choice.chosen or "none",
             "-" if choice.rank is None else rank_text(choice.rank), len(choice.names)]
            for number, choice in enumerate(choices, 1)
        ]  # fmt: skip
        show(table(["job", "computing element", "rank", "match"], rows, right=(0, 2, 3)))
        if waiting := sum(choice.waits for choice in choices):
            verb = "waits" if waiting == 1 else "wait"
            show(f"{count(waiting, 'job')} {verb}: no queue that matches has free slots left")
    return 0 if all(choice.chosen for choice in choices) else 1


def _show(page: reports.Page, route: broker.Route, hosts: broker.Hosts) -> bool:
    """Add the answers to the page. Returns whether each question that was asked has one."""
    data = page.data
    assert route.selection is not None  # noqa: S101 - no queue was named
    data["queues"] = reports.selection_data(route.selection)
    page.selection(route.selection, "computing element", "free CPUs", "GlueCEStateFreeCPUs")
    if route.queue is None:
        page.say("chosen", "none: no queue matches the job")
        return False
    if route.passed_over:
        data["passed_over"] = [{"name": name, "reason": why} for name, why in route.passed_over]
    for name, why in route.passed_over:
        page.say("passed over", f"{name}: {why}")
    page.say("chosen", route.queue.name)
    if route.reduction is None:
        data["reduction"] = {"error": str(route.failure)}
        page.say("residual", f"none: {route.failure}")
        return hosts.nodes is None and hosts.mapping is None
    data["reduction"] = reports.reduction_data(route.reduction)
    page.reduction(route.reduction)
    if route.nodes is not None:
        data["nodes"] = reports.selection_data(route.nodes)
        page.nodes(route.nodes)
    if route.submission is not None:
        data["submission"] = reports.submission_data(route.submission)
        page.submission(route.submission)
    elif hosts.mapping is not None:
        data["submission"] = {"error": str(route.failure)}
        page.say(hosts.mapping.lrms, f"no flags: {route.failure}")
    return route.failure is None and (route.nodes is None or route.nodes.chosen is not None)


@click.command("submit")
@click.argument("job_file", metavar="[JOB]", required=False)
@click.argument("words", metavar="[-- FLAGS...]", nargs=-1)
@click.option("--jobs", "jobs_file", metavar="FILE",
              help="Many jobs in one file, in place of JOB; each by its Key, or by --key and its"
              " number.")  # fmt: skip
@click.option("--script", metavar="FILE",
              help="The job's script; by default the Executable of its description.")  # fmt: skip
@click.option("--args", "arguments", metavar="TEXT",
              help="Its arguments, as a shell separates them; by default the job's.")  # fmt: skip
@click.option("--lrms", required=True, metavar="NAME", help="The batch system, such as slurm.")
@transfers.options
@handover_options
@queues.options
@click.option("--queue", metavar="NAME", help="The queue to take; by default the broker's choice.")
@queues.choice_options
@flag_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def submit_command(
    *, job_file: str | None, jobs_file: str | None, words: tuple[str, ...], script: str | None,
    arguments: str | None, lrms: str, place: transfers.LedgerOptions, wish: HandoverOptions,
    places: queues.Sources, queue: str | None, rules: broker.Rules, tie: random.Random | None,
    nodes_file: str | None, mapping: str | None, host_attributes: tuple[str, ...], want: str,
    as_json: bool,
) -> int:  # fmt: skip
    """Choose a queue for JOB, and hand it over: record, submit and release it, each once.

    It is submitted so that it cannot start, and let go once the batch system surely has it. The
    same --key with the same order submits nothing again, and chooses no queue: the job goes on.

    FLAGS after -- are your own options for the batch system; lines such as #SBATCH of the script
    and variables such as SBATCH_ACCOUNT count as well, and what cannot count is named.
    """
    site = batch.load_mapping(lrms, mapping)
    if jobs_file is not None:
        # What stands after -- is all flags then.
        words = (*((job_file,) if job_file is not None else ()), *words)
    elif job_file is None:
        raise click.UsageError("Missing argument 'JOB'; or give --jobs FILE.")

    def order_of(job: ClassAd, path: str) -> OrderedJob:
        return ordered(job, path, lrms, script=script, arguments=arguments, given=words)

    @cache
    def described() -> tuple[broker.Queues, broker.Hosts]:
        inventory = inputs.ads(nodes_file) if nodes_file else None
        hosts = broker.Hosts(
            nodes=inventory, mapping=site, want=batch.Fit(want), attributes=host_attributes,
            submitter=submitter(),
        )  # fmt: skip
        return queues.read(places, nodes=inventory), hosts

    def routed(job: ClassAd) -> tuple[broker.Queue, Reduction, batch.Submission]:
        known, hosts = described()
        chosen, reduction, made = queues.routed(
            job, known, queue, places.at, hosts, tie=tie, rules=rules
        )
        assert made is not None  # noqa: S101 - there is a mapping, so there are flags or an error
        return chosen, reduction, made

    if jobs_file is not None:
        from matchmaker.delegation.record import check_key

        jobs = enumerate(inputs.ads(jobs_file), 1)
        orders = inputs.keyed(
            jobs_file, jobs, wish.key, check_key, lambda job: order_of(job, jobs_file)
        )
        outcomes = hand_over_all(orders, place, wish, lambda job: routed(job)[2])
        return _report(outcomes, as_json=as_json)
    assert job_file is not None  # noqa: S101 - checked above
    job = inputs.one_ad(job_file)
    order = order_of(job, job_file)
    page = reports.Page("handed over before")

    def choose() -> batch.Submission:
        nonlocal page
        chosen, reduction, made = routed(job)
        page = reports.Page(f"queue {chosen.name}")
        page.data = {"queue": chosen.name, "submission": reports.submission_data(made)}
        page.reduction(reduction)
        page.submission(made)
        return made

    found = hand_over(order, place, wish, choose)
    assert found is not None  # noqa: S101 - there are flags or an error
    record, options = found
    say_options(page, order, options)
    done = say_handed(page, record)
    page.print(as_json=as_json)
    return 0 if done else 1


def _report(outcomes: list[OrderOutcome], *, as_json: bool) -> int:
    """Print what became of many jobs. Returns the exit status."""
    rows: list[dict[str, Any]] = []
    for each in outcomes:
        record = each.record
        row: dict[str, Any] = {"key": each.key, "refused": each.why or None}
        if record is not None:
            row["transfer"] = transfers.record_data(record)
        if each.options is not None:
            row["options"] = each.options
        rows.append(row)
    if as_json:
        print_json(rows)
    else:
        states = Counter(str(o.record.state) if o.record else "refused" for o in outcomes)
        print(f"{count(len(outcomes), 'job')}: ", end="")
        print(", ".join(f"{number} {state}" for state, number in sorted(states.items())))
        left = Counter(text for o in outcomes if o.options for text in o.options["left_out"])
        for text, number in left.items():
            print(f"left out of {count(number, 'job')}: {text}")
        if any(o.record and o.record.state in transfers.EARLY for o in outcomes):
            print("next: classad reconcile finds out where they are, and lets them start")
    bad = [o for o in outcomes if o.record is None or str(o.record.state) in ENDED_BADLY]
    # Those that wait for their start have a reason only if something is in their way.
    told = [o for o in outcomes if o in bad or (o.record and o.record.reason)]
    if not as_json and told:
        whys = [[o.key, o.why or (transfers.short(o.record.reason) if o.record else "")]
                for o in told]  # fmt: skip
        show(table(["key", "why"], whys, whole=(0,)))
    if any(o.status == 2 for o in outcomes):
        return 2
    return 1 if bad else 0
