"""Handing a routed job over, for ``classad submit`` and ``classad broker --submit``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import attrs
import click

from matchmaker import ClassAd, glue
from matchmaker.batch import NoFlagsError, Submission
from matchmaker.batch.flags.submission import lacking
from matchmaker.batch.policy import required_policy
from matchmaker.classad.nodes import TRUE
from matchmaker.cli import reports, transfers
from matchmaker.cli.options import gathered
from matchmaker.cli.output import complaint, warn
from matchmaker.cli.queues import NoMatchError

if TYPE_CHECKING:
    from matchmaker.delegation import Record
    from matchmaker.delegation.control import Control
    from matchmaker.delegation.delegate import Order
    from matchmaker.delegation.orders import OwnOptions
    from matchmaker.delegation.record import Invocation


@attrs.frozen(slots=True)
class Wish:
    """How a job is to be handed over: its key, its lease in seconds, how long to wait."""

    key: str | None
    lease: float | None
    lease_from: Literal["start", "submit"]
    wait: float


options = gathered(
    Wish, "wish",
    click.option("--wait", metavar="SECONDS", type=click.FloatRange(min=0, max=10**6),
                 default=60.0, show_default=True,
                 help="How long to wait until the job may start; classad reconcile goes on."),
    click.option("--lease", metavar="SECONDS",
                 type=click.FloatRange(min=0, min_open=True, max=10**9),
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
        from matchmaker.delegation.orders import own_options

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
    from matchmaker.delegation.control import load_control
    from matchmaker.delegation.effects import script_at
    from matchmaker.delegation.orders import invocation_of, own_options

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


def over(
    order: OrderedJob, place: transfers.Place, wish: Wish, choose: Callable[[], Submission | None]
) -> tuple[Record, OwnOptions] | None:
    """Hands a job over, and waits until it may start; the job and its owner's options.

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
class Outcome:
    """The result of one of many orders: its record, or the reason for none; status 1 or 2.

    Of one that is handed over now, also the owner's options, and what was left out.
    """

    key: str
    record: Record | None
    why: str = ""
    status: int = 0
    options: Mapping[str, list[str]] | None = None


def many(
    orders: Mapping[str, OrderedJob], place: transfers.Place, wish: Wish,
    choose: Callable[[ClassAd], Submission],
) -> list[Outcome]:  # fmt: skip
    """Hands many jobs over by their keys, in one process, and waits until they may start.

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
        outcomes: dict[str, Outcome] = {}
        wanted: list[Order] = []
        options: dict[str, Mapping[str, list[str]]] = {}
        for key, order in orders.items():
            found = chosen.get(_kind(order.job))
            try:
                if key in known:
                    outcomes[key] = Outcome(key, made.known(
                        key, order.job, order.script, words=order.given,
                        invocation=order.invocation,
                    ))  # fmt: skip
                elif found is None or isinstance(found, Exception):
                    outcomes[key] = Outcome(key, None, str(found), 1)
                else:
                    made_of, own = _with_flags(order, found, key, wish)
                    wanted.append(made_of)
                    options[key] = _options_data(order, own)
            except (ValueError, OSError) as error:
                outcomes[key] = Outcome(key, None, complaint(error), 2)
        for each, record in zip(wanted, made.submit_all(wanted), strict=True):
            outcomes[each.key] = (
                Outcome(each.key, None, complaint(record), 2)
                if isinstance(record, Exception)
                else Outcome(each.key, record, options=options[each.key])
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
    from matchmaker.delegation.orders import CALL

    plain = job.copy()
    for name in CALL:
        plain.pop(name, None)
    return str(plain)


def _with_flags(
    order: OrderedJob, submission: Submission, key: str, wish: Wish
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
    """The owner's options, and what has no effect, as they are printed."""
    return {
        "words": [*options.passing, *options.words],
        "left_out": [*order.left_out, *options.left_out],
    }


def explain(page: reports.Page, order: OrderedJob, options: OwnOptions) -> None:
    """Adds to a page the owner's options, and what has no effect."""
    made = _options_data(order, options)
    page.data["options"] = made
    if made["words"]:
        page.say("your options", shlex.join(made["words"]))
    for each in made["left_out"]:
        page.say("left out", each)


def say(page: reports.Page, record: Record) -> bool:
    """Adds the job to a page; returns whether it was handed over."""
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
