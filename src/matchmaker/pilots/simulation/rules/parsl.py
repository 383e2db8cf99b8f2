"""Parsl's scaling strategy: tasks times the parallelism, less the slots.

As its source has it (``parsl/jobs/strategy.py``): an executor has active tasks, waiting and
running, and slots, pending and running. If slots over tasks is below ``parallelism``, 1 by default,
it scales out by the difference, rounded up. With ``htex_auto_scale`` it ends idle blocks if there
are more slots than tasks, once they have been idle for ``max_idletime``, two minutes by default. An
executor has one provider; here it has all sites, and a missing slot goes to one at random that fits
a waiting job drawn at random, which is how Parsl gives tasks to executors. ``max_blocks`` is left
out.
"""

from __future__ import annotations

from random import Random

import numpy as np

from matchmaker.pilots.policy.snapshot import Decision, End, PilotState
from matchmaker.pilots.simulation.rules.view import View

MAX_IDLE = 120.0
"""Seconds."""


def simple(view: View, seed: int) -> Decision:
    """Scales out by tasks less slots, and in by slots less tasks."""
    excess = int(view.waiting.sum() + view.running.sum() - view.pilots.sum())
    if excess < 0:
        return Decision(ends=_scale_in(view, -excess))
    random = Random(seed)  # noqa: S311 - a simulation
    kinds = [int(k) for k in np.flatnonzero((view.waiting > 0) & view.fits.any(axis=1))]
    counts = [0] * len(view.queues)
    if kinds:
        where = {kind: np.flatnonzero(view.fits[kind]).tolist() for kind in kinds}
        weights = [int(view.waiting[kind]) for kind in kinds]
        for kind in random.choices(kinds, weights, k=excess):
            counts[random.choice(where[kind])] += 1
    return Decision(submissions=view.submitting(counts, "more tasks than slots"))


def _scale_in(view: View, most: int) -> tuple[End, ...]:
    now = view.snapshot.now
    idle = [
        pilot
        for pilot in view.snapshot.pilots
        if pilot.state is PilotState.IDLE and now - pilot.since >= MAX_IDLE
    ]
    idle.sort(key=lambda pilot: pilot.since)
    return tuple(End(p.key, "idle, with more slots than tasks") for p in idle[:most])
