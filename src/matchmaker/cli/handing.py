"""Handing a routed job over, for ``classad submit`` and ``classad broker --submit``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import click

from matchmaker import ClassAd, glue
from matchmaker.batch.policy import required_policy
from matchmaker.classad.nodes import TRUE
from matchmaker.cli import reports, transfers
from matchmaker.cli.options import gathered
from matchmaker.cli.output import warn

if TYPE_CHECKING:
    from matchmaker.batch import Submission
    from matchmaker.delegation import Delegator, Record
    from matchmaker.delegation.record import Invocation


@attrs.frozen(slots=True)
class Wish:
    """How a job is to be handed over: its key, its lease in seconds, how long to wait."""

    key: str | None
    lease: float | None
    wait: float


options = gathered(
    Wish, "wish",
    click.option("--wait", metavar="SECONDS", type=click.FloatRange(min=0, max=10**6),
                 default=60.0, show_default=True,
                 help="How long to wait until the job may start; classad reconcile goes on."),
    click.option("--lease", metavar="SECONDS",
                 type=click.FloatRange(min=0, min_open=True, max=10**9),
                 help="How long the job lives without a renewal; by default two days."),
    click.option("--key", metavar="KEY",
                 help="The job's name in the ledger; the same again submits nothing."),
)  # fmt: skip
"""``--key``, ``--lease`` and ``--wait``; the command gets them as ``wish``."""


@attrs.frozen(slots=True, kw_only=True)
class Order:
    """A job as its owner orders it; its queue and flags are found later.

    Attributes:
        job: the job's ad.
        script: the job's script, by its path or as its content.
        words: the owner's own options for the batch system.
        invocation: how the script is called; None for the default.
    """

    job: ClassAd
    script: str | bytes
    words: Sequence[str] = ()
    invocation: Invocation | None = None


def over(
    order: Order, lrms: str, place: transfers.Place, wish: Wish,
    choose: Callable[[], Submission | None],
) -> Record | None:  # fmt: skip
    """Hands a job over, and waits until it may start.

    The key is looked up before anything is chosen: an order that is known goes on as it is. It is
    printed before the job is on record, so that nobody who repeats the order needs another one.

    Args:
        order: the job.
        lrms: the batch system.
        place: the ledger and the spool.
        wish: the key, the lease, how long to wait.
        choose: finds a queue and the flags for it; None if there are none, and nothing is handed
            over.

    Raises OSError, LedgerError, KeyTakenError and ValueError as :meth:`Delegator.submit` does.
    """
    with transfers.opened(place) as ledger:
        made = transfers.delegator(place, ledger, lrms)
        record = None
        if wish.key is not None:
            record = made.known(
                wish.key, order.job, order.script, words=order.words, invocation=order.invocation
            )
        if record is not None:
            warn(f"key {record.key}: handed over before, and not submitted again")
        else:
            submission = choose()
            if submission is None:
                return None
            record = _submitted(made, order, submission, wish)
        return transfers.until_committed(made, record, wish.wait)


def _submitted(made: Delegator, order: Order, submission: Submission, wish: Wish) -> Record:
    from matchmaker.delegation.delegate import new_key

    key = wish.key if wish.key is not None else new_key()
    warn(f"key {key}")
    policy = required_policy(order.job, glue.scope)
    return made.submit(
        order.job, order.script, submission, key=key, lease=wish.lease,
        policy=None if policy is TRUE else policy, words=order.words, invocation=order.invocation,
    )  # fmt: skip


def say(page: reports.Page, record: Record) -> bool:
    """Adds the job to a page; returns whether it was handed over."""
    page.data["transfer"] = transfers.record_data(record)
    page.say("key", record.key)
    ended = str(record.state) in {"failed", "lost", "cancelled"}
    why = f": {record.reason}" if record.reason else ""
    page.say("state", f"{record.state}{why}")
    if record.remote_id:
        page.say("id", record.remote_id)
    if record.state == "paused":
        page.say("next", f"classad resume {record.key} submits it again")
    if record.state in transfers.EARLY:
        page.say("next", "classad reconcile finds out where it is, and lets it start")
    return not ended
