"""What one decision rests on: what the policy says of the pool and of each queue, once a cycle.

The columns of a snapshot are in :mod:`~matchmaker.pilots.scene`; what is decided from all this is
in :mod:`~matchmaker.pilots.policy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from matchmaker.classad import ClassAd
from matchmaker.pilots.arrays import Bools, Ints, Reals
from matchmaker.pilots.placing import limited
from matchmaker.pilots.rates import Rate, number
from matchmaker.pilots.scene import QUEUED, Scene
from matchmaker.pilots.terms import Values, pool_facts, queue_facts


@attrs.frozen(eq=False, kw_only=True)
class Cycle:
    """What one decision rests on.

    Attributes:
        scene: the snapshot's columns.
        values: the policy.
        rates: arrivals and ends by kind.
        facts: the pool's facts.
        active: the mode.
        minimum: how many free pilots there shall be in either mode.
        left_out: the queues that nothing may be submitted to, by number, with the reason.
        failing: which queues lose pilots.
        probe_after: how many seconds after a probe each of these may be probed again.
        weight: the chance of each queue under regular selection.
        probes: by queue that there is, when it was last probed.
        room: how many more pilots each queue takes in this cycle.
        usable: whether each queue (a column) may be used for each class (a row).
        response: for each class that of the quickest queue, in seconds.
        youngest: for each class, how long a queued pilot may wait and count as supply, in seconds.
        known: for each class whether a queue that it may use has started a pilot.
    """

    scene: Scene
    values: Values
    rates: Mapping[str, Rate]
    facts: dict[str, Any]
    active: bool
    minimum: float
    left_out: dict[int, str]
    failing: Bools
    probe_after: Reals
    weight: Reals
    probes: dict[str, float]
    room: Ints
    usable: Bools
    response: Reals
    youngest: Reals
    known: Bools

    @classmethod
    def of(
        cls, scene: Scene, values: Values, rates: Mapping[str, Rate], memory: Mapping[str, object]
    ) -> Cycle:
        """Evaluates what the policy says of the pool and of each queue."""
        facts = pool_facts(scene, rates)
        pool = ClassAd(facts)
        minimum = facts["Minimum"] = values.pool("Minimum", pool)
        pool = ClassAd(facts)
        queues, size = scene.queues, len(scene.queues.given)
        left_out = {n: queue.closed for n, queue in enumerate(queues.given) if queue.closed}
        own = limited(_own_limits(scene), queues.counts.sum(axis=0))
        on = queue_facts(values.policy, scene, own.astype(np.float64), pool)

        def each(name: str) -> Reals:
            rows = [row for row in range(size) if row not in left_out]
            return values.each(name, on, size, rows, left_out.setdefault)

        for row in np.flatnonzero(each("Use") == 0).tolist():
            left_out.setdefault(row, "the policy's Use is false there")
        failing, probe_after, weight = each("Failing") > 0, each("ProbeAfter"), each("Weight")
        here, total = queues.counts[QUEUED], queues.counts.sum(axis=0)
        room = np.minimum(own, limited([each("MaxQueued")], here))
        room = np.minimum(room, limited([each("MaxPilots")], total))
        room = np.minimum(room, limited([each("QueueStep")], np.zeros(size, np.intp)))
        usable = scene.able & np.array([row not in left_out for row in range(size)], np.bool_)
        quick = usable & ~queues.slow
        some = quick.any(axis=1, keepdims=True)
        best = _least(np.where(some, quick, usable), queues.response)
        # Hedging must not hang on the median: the pilots that it adds hide that for a while.
        found = [queue.estimate for queue in queues.given]
        known = np.array([one.median is not None or one.started > 0 for one in found], np.bool_)
        known |= queues.counts.sum(axis=0) > queues.counts[QUEUED]
        held = memory.get("probes")
        probed = held if isinstance(held, Mapping) else {}
        # Queues that are gone are forgotten: the memory goes from cycle to cycle.
        probes = {
            queue.key: at
            for queue in queues.given
            if (at := number(probed.get(queue.key))) is not None
        }
        return cls(
            scene=scene, values=values, rates=rates, facts=facts,
            active=values.pool("Active", pool) > 0, minimum=minimum, left_out=left_out,
            failing=failing, probe_after=probe_after, weight=weight, probes=probes,
            room=room, usable=usable,
            response=np.where(np.isfinite(best), best, scene.guess),
            youngest=_least(quick, queues.late),
            known=np.asarray((usable & known).any(axis=1)),
        )  # fmt: skip


def _own_limits(scene: Scene) -> list[Reals]:
    """What queues take by their own limits, on pilots in all."""
    counts = scene.queues.counts
    waiting = counts.sum(axis=0) - counts[QUEUED]
    most = [np.inf if q.max_pilots is None else q.max_pilots for q in scene.queues.given]
    queued = [np.inf if q.max_queued is None else q.max_queued for q in scene.queues.given]
    return [np.array(most, np.float64), np.array(queued, np.float64) + waiting]


def _least(which: Bools, what: Reals) -> Reals:
    """For each row the least value of the columns that are marked; infinite for none."""
    found = np.where(which, what[None, :], np.inf)
    return np.asarray(found.min(axis=1, initial=np.inf))
