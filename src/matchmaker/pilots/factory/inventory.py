"""Demand and supply: kinds of jobs from their ads, and the state of pilots from what is on record.

Pure: the ads of jobs give demand by kind; the factory's rows, the ledger's records and what pilots
report of themselves give the rows as they should be written, the pilots of a snapshot, and the
records that estimates rest on. The ads and reports are read in
:mod:`matchmaker.pilots.factory.sources`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.delegation.record import Record, State
from matchmaker.pilots.policy.estimates import PilotRecord
from matchmaker.pilots.policy.snapshot import Demand, Pilot, PilotState

if TYPE_CHECKING:
    from matchmaker.pilots.factory.services import PilotRow

# --- demand ---------------------------------------------------------------------------------------

IDS = ("GlobalJobId", "Id", "Key", "Name")
"""The attributes that may name a job, the first that it has; ``ClusterId`` with ``ProcId`` too."""


@attrs.frozen(slots=True)
class DemandJob:
    """A job that waits or runs.

    Attributes:
        id: names it; empty where its ad does not.
        ad: its ad.
        runs: whether it runs; else it waits and can start.
        wall: how long it runs at most, in seconds.
        group: whose it is.
        queued: when it came, in seconds since 1970; None where its ad does not say.
    """

    id: str
    ad: ClassAd
    runs: bool = False
    wall: float = 0.0
    group: str = ""
    queued: float | None = None


def job_of(ad: ClassAd, wall: Expr, group: Expr) -> DemandJob | None:
    """The job of an ad; None for one that neither waits to start nor runs.

    Its ``JobStatus`` is HTCondor's: 1 waits, 2 runs, others (held, ended) are no demand; without it
    the job waits. Where ``wall`` is no number the job takes any time, and fits no pilot that ends.

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
    """The folded names that the ads of pilots may refer to in a job."""
    found: set[str] = set()
    for ad in pilots:
        for expression in ad.expressions().values():
            names = expression.references()
            found.update(map(ascii_fold, (*names.target, *names.unscoped)))
    return frozenset(found)


def significant(ad: ClassAd, names: Collection[str]) -> str:
    """The significant attributes of a job, as text: equal for jobs that match pilots alike."""
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


def kinds(
    jobs: Iterable[DemandJob], names: Collection[str], first_seen: Mapping[str, float], now: float,
    *, before: Collection[str] | None = None,
) -> tuple[Demand, ...]:  # fmt: skip
    """Demand by kind, in the order of the kinds' keys.

    Args:
        jobs: those that wait or run.
        names: what the ads of pilots refer to; see :func:`needed`.
        first_seen: when each job was first seen, by its id; one that is not there came just now.
        now: the time, in the seconds of ``first_seen``.
        before: the ids of the cycle before, by which it is known which jobs came since; None for
            the first, when none counts as arrived.
    """
    found: dict[tuple[str, float, str], list[DemandJob]] = {}
    for job in jobs:
        found.setdefault((job.group, job.wall, significant(job.ad, names)), []).append(job)
    made = []
    for (group, wall, text), those in found.items():
        waiting = [job for job in those if not job.runs]
        since = [first_seen.get(job.id, now) for job in waiting]
        digest = hashlib.sha256(f"{group}\n{wall}\n{text}".encode()).hexdigest()[:10]
        made.append(
            Demand(
                key=f"{group or 'jobs'}-{digest}", ad=those[0].ad, waiting=len(waiting),
                running=len(those) - len(waiting), group=group, wall=wall,
                oldest=max(0.0, now - min(since)) if since else 0.0,
                arrived=sum(
                    before is not None and bool(job.id) and job.id not in before for job in those
                ),
            )
        )  # fmt: skip
    return tuple(sorted(made, key=lambda kind: kind.key))


# --- supply ---------------------------------------------------------------------------------------

_QUEUED: Final = frozenset({State.INTENT, State.UNKNOWN, State.PREPARED, State.COMMITTED})
_LOST: Final = frozenset({State.FAILED, State.LOST, State.PAUSED})


@attrs.frozen(slots=True)
class PilotReport:
    """What a pilot says of itself.

    Attributes:
        state: starting, idle, busy or draining.
        since: when it said so, in seconds since 1970 by the storage's clock.
        ad: its ad; None where it gives none.
        asked_to_end: whether it has been asked to end.
    """

    state: PilotState
    since: float
    ad: ClassAd | None = None
    asked_to_end: bool = False


@attrs.frozen(slots=True)
class PilotReports:
    """The words of pilots by key; ``kept`` is whether there is a place for them that was read."""

    words: Mapping[str, PilotReport] = attrs.Factory(dict)
    kept: bool = False


def settled(
    row: PilotRow, record: Record | None, word: PilotReport | None, early: float, *, kept: bool
) -> PilotRow:
    """The row of a pilot after a look at the ledger.

    A pilot has failed if it ended or was paused without a start, or with an error within ``early``
    seconds of it, and nobody had cancelled it; or, where pilots report (``kept``), without having
    asked for work.
    Where a start was missed between two looks, the end stands for it.
    """
    if record is None or not row.live:
        return row
    if record.state is State.RUNNING and row.started is None:
        return attrs.evolve(row, started=max(record.since, row.submitted))
    if record.state.live and record.state is not State.PAUSED:
        return row
    ended = max(record.since, row.submitted)
    started = row.started
    if started is None and (record.exit is not None or word is not None):
        started = ended
    bad = record.state in _LOST or record.exit not in {None, 0}
    ended_by_us = record.state is State.CANCELLED or record.cancel_wanted
    early_end = started is None or ended - started <= early
    silent = kept and word is None and started is not None
    return attrs.evolve(
        row, started=started, ended=ended, live=False,
        failed=not ended_by_us and ((bad and early_end) or silent), reason=record.reason[:300],
    )  # fmt: skip


def pilot(row: PilotRow, record: Record | None, reports: PilotReports, wall: float) -> Pilot:
    """A live row as a pilot of a snapshot.

    A pilot that runs and cannot say more is busy: what is not known to be idle is not ended, and
    no supply.
    """
    word = reports.words.get(row.key)
    if record is None or (record.state in _QUEUED and word is None):
        return Pilot(key=row.key, queue=row.queue, state=PilotState.QUEUED, since=row.submitted)
    started = row.started if row.started is not None else (word.since if word else row.submitted)
    since = started if word is None else word.since
    if record.state is State.CANCELLING:
        state = PilotState.DRAINING
    elif word is None:
        state = PilotState.STARTING if reports.kept else PilotState.BUSY
    elif word.asked_to_end and word.state is not PilotState.BUSY:
        state = PilotState.DRAINING
    else:
        state = word.state
    return Pilot(
        key=row.key, queue=row.queue, state=state, since=since,
        ends=started + wall if math.isfinite(wall) else None,
        ad=word.ad if word is not None else None,
    )  # fmt: skip


def histories(rows: Iterable[PilotRow]) -> dict[str, list[PilotRecord]]:
    """The records of each queue, in the order of submission."""
    found: dict[str, list[PilotRecord]] = {}
    for row in rows:
        found.setdefault(row.queue, []).append(
            PilotRecord(
                submitted=row.submitted, started=row.started, ended=row.ended, failed=row.failed
            )
        )
    return found
