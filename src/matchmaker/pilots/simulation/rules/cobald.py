"""COBalD's linear controller: the demand of a pool goes up and down at two thresholds.

As its source has it (``cobald/controller/linear.py``): if the utilisation of a pool is below one
threshold, its demand decreases by a rate times the interval; otherwise, if its allocation is above
another, it increases by as much. It looks at no queue of jobs. A pool without resources has an
utilisation and an allocation of 1. Here each site is a pool; utilisation and allocation are busy
pilots over those that run; both thresholds are 0.9, as in the examples of TARDIS, which executes
the demand; the rate is one pilot in two minutes, and the demand stays within ten of the pilots that
run (the backlog of COBalD's Standardiser), both choices of ours. Pilots beyond the demand are
ended, queued ones first.
"""

from __future__ import annotations

from collections.abc import Mapping

from matchmaker.pilots.policy.snapshot import Decision, End, PilotState
from matchmaker.pilots.simulation.rules.view import View

LOW_UTILISATION = HIGH_ALLOCATION = 0.9
RATE = 1 / 120
"""Pilots a second."""
BACKLOG = 10
"""How far the demand may be above the pilots that run."""


def linear(view: View, seed: int) -> Decision:
    """Steps the demand of each site up or down, and follows it."""
    snapshot = view.snapshot
    past = snapshot.memory.get("demand")
    demand: Mapping[str, float] = past if isinstance(past, Mapping) else {}
    then = snapshot.memory.get("now")
    step = RATE * (snapshot.now - then) if isinstance(then, (int, float)) else 1.0
    now: dict[str, float] = {}
    missing: list[int] = []
    beyond: dict[str, int] = {}
    running = (view.starting + view.idle + view.busy).tolist()
    for queue, busy, supply, pilots in zip(
        view.queues, view.busy.tolist(), running, view.pilots.tolist(), strict=True
    ):
        use = busy / supply if supply else 1.0
        wanted = demand.get(queue.key, 0.0)
        if use < LOW_UTILISATION:
            wanted = max(wanted - step, 0.0)
        elif use > HIGH_ALLOCATION:
            wanted = min(wanted + step, supply + BACKLOG)
        now[queue.key] = wanted
        missing.append(int(wanted) - pilots)
        if missing[-1] < 0:
            beyond[queue.key] = -missing[-1]
    return Decision(
        submissions=view.submitting(missing, "the demand rose"),
        ends=_ends(view, beyond),
        memory={"now": snapshot.now, "demand": now},
    )


def _ends(view: View, beyond: dict[str, int]) -> tuple[End, ...]:
    """Ends of pilots beyond the demand of their queues, queued ones first, then idle ones."""
    found = []
    for state in (PilotState.QUEUED, PilotState.IDLE):
        for pilot in view.snapshot.pilots if beyond else ():
            if pilot.state is state and beyond.get(pilot.queue, 0) > 0:
                beyond[pilot.queue] -= 1
                found.append(End(pilot.key, "beyond the demand"))
    return tuple(found)
