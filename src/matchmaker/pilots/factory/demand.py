"""From the ads of jobs to demand: the kinds of jobs, and how many of each wait and run.

Jobs whose significant attributes are equal are of one kind: their requirements and rank, what the
ads of pilots refer to, and what these refer to in turn. Pure; ads are read in
:mod:`matchmaker.pilots.factory.sources`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

import attrs

from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.pilots.policy.snapshot import Demand

IDS = ("GlobalJobId", "Id", "Key", "Name")
"""The attributes that may name a job, the first that it has; ``ClusterId`` with ``ProcId`` too."""


@attrs.frozen(slots=True)
class Job:
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


def job_of(ad: ClassAd, wall: Expr, group: Expr) -> Job | None:
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
    return Job(
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
    jobs: Iterable[Job], names: Collection[str], first_seen: Mapping[str, float], now: float,
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
    found: dict[tuple[str, float, str], list[Job]] = {}
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
