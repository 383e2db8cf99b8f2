"""DIRAC's SiteDirector: each queue counts all jobs that it could run, less its waiting pilots."""

from __future__ import annotations

from collections import Counter

from matchmaker.pilots.rules.pairs import Pairs
from matchmaker.pilots.snapshot import Decision, PilotState, Snapshot, Submission


def site_director(pairs: Pairs, snapshot: Snapshot) -> Decision:
    """A queue at a time, jobs that match it less pilots that wait there; no other queue counts."""
    waiting = Counter(p.queue for p in snapshot.pilots if p.state is PilotState.QUEUED)
    wanted = [kind for kind in snapshot.demand or () if kind.waiting]
    found = []
    for queue in snapshot.queues:
        jobs = sum(kind.waiting for kind in wanted if pairs.fits(kind, queue))
        missing = jobs - waiting[queue.key]
        if missing > 0:
            found.append(Submission(queue.key, missing, f"{jobs} waiting jobs match"))
    return Decision(submissions=tuple(found))
