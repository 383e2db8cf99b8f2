"""Handing a routed job over, for ``classad submit`` and ``classad broker --submit``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from matchmaker import ClassAd, glue
from matchmaker.batch import Submission
from matchmaker.batch.policy import required_policy
from matchmaker.classad.nodes import TRUE
from matchmaker.cli import reports, transfers
from matchmaker.cli.options import gathered

if TYPE_CHECKING:
    from matchmaker.delegation import Record


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


def over(
    job: ClassAd, submission: Submission, script: str, place: transfers.Place, wish: Wish
) -> Record:
    """Hands a job over with its flags, and waits until it may start.

    Raises OSError, LedgerError, KeyTakenError and ValueError as :meth:`Delegator.submit` does.
    """
    policy = required_policy(job, glue.scope)
    with transfers.opened(place) as ledger:
        made = transfers.delegator(place, ledger, submission.lrms)
        record = made.submit(
            job, script, submission, key=wish.key, lease=wish.lease,
            policy=None if policy is TRUE else policy,
        )  # fmt: skip
        return transfers.until_committed(made, record, wish.wait)


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
