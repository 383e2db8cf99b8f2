"""Demand and supply: kinds of jobs from their ads, and states of pilots from their records.

Pure: the ads of jobs give demand by kind; the factory's rows, the ledger's records and the pilots'
reports give the rows as they should be written, the pilots of a snapshot, and the
records that estimates rest on. The ads and reports are read in
:mod:`matchmaker.pilots.factory.sources`.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.delegation.record import JobState, ReasonCode, Record
from matchmaker.pilots.policy.estimates import PilotRecord
from matchmaker.pilots.policy.snapshot import Demand, Pilot, PilotState

if TYPE_CHECKING:
    from matchmaker.pilots.factory.services import PilotRow, SeenJob

# --- demand ---------------------------------------------------------------------------------------

IDS = ("GlobalJobId", "Id", "Key", "Name")
"""The attributes that may name a job, the first that it has; ``ClusterId`` with ``ProcId`` too."""


@attrs.frozen(slots=True)
class DemandJob:
    """A job that waits or runs.

    Attributes:
        id: names it; empty if its ad does not.
        ad: its ad.
        runs: whether it runs; else it waits and can start.
        wall: how long it runs at most, in seconds.
        group: its owner or VO.
        queued: when it came, in seconds since 1970; None if its ad does not say.
        silent: whether its source gives no answer now: the job is as it was.
    """

    id: str
    ad: ClassAd
    runs: bool = False
    wall: float = 0.0
    group: str = ""
    queued: float | None = None
    silent: bool = False


def job_of(ad: ClassAd, wall: Expr, group: Expr) -> DemandJob | None:
    """Make a job of its ad; None for one that neither waits to start nor runs.

    Its ``JobStatus`` is HTCondor's: 1 waits, 2 runs, others (held, ended) are no demand; without it
    the job waits. If ``wall`` is not a number the job takes any time, and fits no pilot that ends.

    >>> from matchmaker.classad import parse_ad, parse_expr
    >>> none, owner = parse_expr("0"), parse_expr("Owner")
    >>> job_of(parse_ad('[ JobStatus = 2; Owner = "ann"; ClusterId = 7 ]'), none, owner).runs
    True
    >>> job_of(parse_ad("[ JobStatus = 5 ]"), none, owner) is None
    True
    """
    status = ad.eval("JobStatus") if "JobStatus" in ad else 1
    if status not in (1, 2):
        return None
    length = wall.eval(my=ad)
    if isinstance(length, bool) or not isinstance(length, int | float) or not length >= 0:
        length = float("inf")
    whose = group.eval(my=ad)
    since = ad.eval("QDate") if "QDate" in ad else None
    return DemandJob(
        _id(ad), ad, status == 2, float(length),
        whose if isinstance(whose, str) else "",
        float(since) if isinstance(since, int | float) and since > 0 else None,
    )  # fmt: skip


def _id(ad: ClassAd) -> str:
    for name in IDS:
        value = ad.eval(name) if name in ad else None
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
    if "ClusterId" in ad:
        return f"{ad.eval('ClusterId')}.{ad.eval('ProcId') if 'ProcId' in ad else 0}"
    return ""


def needed(pilots: Iterable[ClassAd]) -> frozenset[str]:
    """Return the folded names that the ads of pilots may refer to in a job."""
    found: set[str] = set()
    for ad in pilots:
        for expression in ad.expressions().values():
            names = expression.references()
            found.update(map(ascii_fold, (*names.target, *names.unscoped)))
    return frozenset(found)


def significant(ad: ClassAd, names: Collection[str]) -> str:
    """Return a job's significant attributes as text: equal for jobs that match pilots alike."""
    seen: dict[str, str] = {}
    left = ["requirements", "rank", *sorted(names)]
    while left:
        name = left.pop()
        if name in seen or name not in ad:
            continue
        seen[name] = str(ad.expr(name))
        inner = ad.expr(name).references()
        left.extend(ascii_fold(each) for each in (*inner.my, *inner.unscoped))
    return "\n".join(f"{name}={seen[name]}" for name in sorted(seen))


def kind_of(job: DemandJob, names: Collection[str]) -> str:
    """Return the key of a job's kind; `names` are those of :func:`needed`."""
    text = f"{job.group}\n{job.wall}\n{significant(job.ad, names)}"
    return f"{job.group or 'jobs'}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def kinds(
    jobs: Sequence[DemandJob], keys: Sequence[str], seen: Mapping[str, SeenJob], now: float,
    *, before: Collection[str] | None = None,
) -> tuple[Demand, ...]:  # fmt: skip
    """Count jobs by kind, in the order of the kinds' keys.

    Args:
        jobs: those that wait or run.
        keys: the kind of each.
        seen: by its id, since when a job has been seen; one that is not there came just now.
        now: the time, in seconds since 1970.
        before: the ids of the cycle before, by which it is known which jobs came since; None for
            the first, when none counts as arrived.
    """
    found: dict[str, list[DemandJob]] = {}
    for job, key in zip(jobs, keys, strict=True):
        found.setdefault(key, []).append(job)
    made = []
    for key, those in sorted(found.items()):
        waiting = [job for job in those if not job.runs]
        since = [seen[job.id].since if job.id in seen else now for job in waiting]
        made.append(
            Demand(
                key=key, ad=those[0].ad, waiting=len(waiting), running=len(those) - len(waiting),
                group=those[0].group, wall=those[0].wall,
                oldest=max(0.0, now - min(since)) if since else 0.0,
                arrived=sum(
                    before is not None and bool(job.id) and job.id not in before for job in those
                ),
                silent=sum(job.silent for job in waiting),
            )
        )  # fmt: skip
    return tuple(made)


# --- supply ---------------------------------------------------------------------------------------

_QUEUED: Final = frozenset(
    {JobState.INTENT, JobState.UNKNOWN, JobState.PREPARED, JobState.COMMITTED}
)
_NOT_TAKEN: Final = frozenset({JobState.INTENT, JobState.UNKNOWN})
_LOST: Final = frozenset({JobState.FAILED, JobState.LOST})

REFUSED_FIRST, REFUSED_MOST = 60.0, 3600.0
"""Seconds for which a queue is left alone after a first refusal, and at most: a full queue or a
partition that is drained for a moment is tried again soon, a wrong option costs a try an hour."""


@attrs.frozen(slots=True)
class PilotReport:
    """A pilot's own report.

    Attributes:
        state: starting, idle, busy or draining.
        since: when it was written, in seconds since 1970 by the storage's clock.
        ad: the pilot's ad; None if it gives none.
        asked_to_end: whether the pilot has been asked to end.
    """

    state: PilotState
    since: float
    ad: ClassAd | None = None
    asked_to_end: bool = False


@attrs.frozen(slots=True)
class PilotReports:
    """The reports of pilots by key; ``kept`` tells whether their directory can be read."""

    of: Mapping[str, PilotReport] = attrs.Factory(dict)
    kept: bool = False


def settled(
    row: PilotRow, record: Record | None, report: PilotReport | None, early: float, *, kept: bool
) -> PilotRow:
    """Return the row of a pilot after a look at the ledger.

    A pilot that its batch system refused, or that never started however often it was submitted, is
    refused. A pilot has failed if it ended without a start, or with an error within ``early``
    seconds of it, and nobody had cancelled it; or, if pilots report (``kept``), without a report.
    If a start was missed between two looks, the end stands for it.
    """
    if record is None or not row.live:
        return row
    if record.state is JobState.RUNNING and row.started is None:
        return attrs.evolve(row, started=max(record.since, row.submitted))
    if record.state.live and record.state is not JobState.PAUSED:
        return row
    ended = max(record.since, row.submitted)
    started = row.started
    if started is None and (record.exit is not None or report is not None):
        started = ended
    refused = started is None and (
        record.state is JobState.PAUSED or record.code is ReasonCode.REFUSED
    )
    bad = record.state in _LOST or record.exit not in {None, 0}
    ended_by_us = record.state is JobState.CANCELLED or record.cancel_wanted
    early_end = started is None or ended - started <= early
    silent = kept and report is None and started is not None
    return attrs.evolve(
        row, started=started, ended=ended, live=False, refused=refused,
        failed=not ended_by_us and not refused and ((bad and early_end) or silent),
        reason=record.reason[:300],
    )  # fmt: skip


def pilot(row: PilotRow, record: Record | None, reports: PilotReports, wall: float) -> Pilot:
    """Make a pilot of a snapshot from a live row.

    A pilot that runs and does not report is busy: unless it is known to be idle, it is not ended,
    and is no supply.
    """
    report = reports.of.get(row.key)
    if record is None or (record.state in _QUEUED and report is None):
        return Pilot(key=row.key, queue=row.queue, state=PilotState.QUEUED, since=row.submitted)
    started = (
        row.started if row.started is not None else (report.since if report else row.submitted)
    )
    since = started if report is None else report.since
    if record.state is JobState.CANCELLING:
        state = PilotState.DRAINING
    elif report is None:
        state = PilotState.STARTING if reports.kept else PilotState.BUSY
    elif report.asked_to_end and report.state is not PilotState.BUSY:
        state = PilotState.DRAINING
    else:
        state = report.state
    return Pilot(
        key=row.key, queue=row.queue, state=state, since=since,
        ends=started + wall if math.isfinite(wall) else None,
        ad=report.ad if report is not None else None,
    )  # fmt: skip


def histories(rows: Iterable[PilotRow]) -> dict[str, list[PilotRecord]]:
    """Return the records of each queue, in the order of submission, as if each pilot were alone.

    A batch system starts the pilots of one owner nearly in their order. So a pilot that waits
    behind others would, without them, have started when the first of them started after its
    submission: that is its wait, and the rest is the factory's own doing. A pilot
    that was overtaken in this sense and has not started tells nothing more, and is left out. So is
    one that was never taken by its batch system.

    >>> from matchmaker.pilots.factory.services import PilotRow
    >>> rows = [
    ...     PilotRow(key=f"p{n}", service="s", queue="q", cluster="slurm", submitted=0.0,
    ...              handed=True, started=60.0 * n if n < 3 else None)
    ...     for n in range(1, 6)
    ... ]
    >>> [one.started - one.submitted for one in histories(rows)["q"]]
    [60.0, 60.0]
    """
    by_queue: dict[str, list[PilotRow]] = {}
    for row in rows:
        if row.handed and not row.refused:
            by_queue.setdefault(row.queue, []).append(row)
    found: dict[str, list[PilotRecord]] = {}
    for queue, those in by_queue.items():
        starts = sorted(row.started for row in those if row.started is not None)
        records = found[queue] = []
        for row in those:
            place = bisect_left(starts, row.submitted)
            first = starts[place] if place < len(starts) else None
            submitted = row.submitted
            if row.started is not None and first is not None:
                submitted = row.started - (min(first, row.started) - row.submitted)
            elif first is not None and not row.failed and first <= (row.ended or math.inf):
                continue
            records.append(
                PilotRecord(
                    submitted=submitted, started=row.started, ended=row.ended, failed=row.failed
                )
            )
    return found


def refusal(rows: Iterable[PilotRow], records: Mapping[str, Record], now: float) -> dict[str, str]:
    """Say why queues are left alone because they refuse pilots, by the queue's key.

    After a refusal a queue is left alone for a minute, after each further one in a row for twice as
    long, at most an hour. While it is not known whether its batch system took a pilot, the
    delegator submits that one again; the queue gets no other before it is there.

    Args:
        rows: the pilots on record, in the order of submission.
        records: the ledger's records of the live ones.
        now: the time, in seconds since 1970.
    """
    last: dict[str, PilotRow] = {}
    streak: dict[str, int] = {}
    found: dict[str, str] = {}
    for row in rows:
        if row.refused:
            streak[row.queue] = streak.get(row.queue, 0) + 1
            last[row.queue] = row
        elif row.handed:
            record = records.get(row.key)
            if row.live and record is not None and record.state in _NOT_TAKEN and record.reason:
                again = max(record.retry_at - now, 0.0)
                found[row.queue] = (
                    f"it did not take pilot {row.key}: {record.reason}; that is submitted again in"
                    f" {again:.0f} s, and no other before it is there"
                )
            elif not row.live or record is None or record.state not in _NOT_TAKEN:
                streak.pop(row.queue, None)
    for queue, number in streak.items():
        row = last[queue]
        pause = min(REFUSED_FIRST * 2.0 ** (number - 1), REFUSED_MOST)
        left = (row.ended if row.ended is not None else row.submitted) + pause - now
        if 0 < left <= pause:
            times = "once" if number == 1 else f"{number} times in a row"
            found.setdefault(
                queue,
                f"it refused a pilot {times}: {row.reason or 'no reason was given'}; the next is"
                f" tried in {left:.0f} s",
            )
    return found
