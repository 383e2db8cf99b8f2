"""A snapshot as the peers' rules count it: jobs by kind, pilots by queue and state, what fits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from matchmaker.pilots.policy.pairs import Pairs
from matchmaker.pilots.policy.snapshot import PilotQueue, PilotSnapshot, PilotState, PilotSubmission

if TYPE_CHECKING:
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]


@attrs.frozen(slots=True, eq=False)
class View:
    """The counts of a snapshot; kinds of jobs are rows, queues are columns.

    Attributes:
        queues: the queues.
        fits: which kinds a new pilot of a queue could run; none for a queue that is closed.
        waiting: how many jobs of each kind wait.
        running: how many jobs of each kind run.
        queued: how many pilots of each queue are queued.
        starting: how many start.
        idle: how many are idle.
        busy: how many are busy or draining.
        snapshot: what was counted.
    """

    queues: tuple[PilotQueue, ...]
    fits: npt.NDArray[np.bool_]
    waiting: Counts
    running: Counts
    queued: Counts
    starting: Counts
    idle: Counts
    busy: Counts
    snapshot: PilotSnapshot

    @property
    def pilots(self) -> Counts:
        """How many pilots of each queue have not ended."""
        return self.queued + self.starting + self.idle + self.busy

    def submitting(self, counts: Iterable[float], reason: str) -> tuple[PilotSubmission, ...]:
        """Submissions of a number of pilots a queue; fewer by its limits, none if it is closed."""
        found = []
        for queue, count, queued, pilots in zip(
            self.queues, counts, self.queued.tolist(), self.pilots.tolist(), strict=True
        ):
            room = 0 if queue.closed else int(count)
            if room > 0 and queue.max_queued is not None:
                room = min(room, queue.max_queued - queued)
            if room > 0 and queue.max_pilots is not None:
                room = min(room, queue.max_pilots - pilots)
            if room > 0:
                found.append(PilotSubmission(queue.key, room, reason))
        return tuple(found)


def view(snapshot: PilotSnapshot, pairs: Pairs) -> View:
    """Counts a snapshot. Demand that is unknown counts as none, as with the peers."""
    queues = snapshot.queues
    places = {queue.key: number for number, queue in enumerate(queues)}
    kinds = snapshot.demand or ()
    fits = pairs.table([kind.ad for kind in kinds], [queue.pilot for queue in queues])
    walls = np.array([-1.0 if queue.closed else queue.wall for queue in queues])
    needs = np.array([kind.wall for kind in kinds])
    counts = {state.value: [0] * len(queues) for state in PilotState}
    for pilot in snapshot.pilots:
        counts[pilot.state._value_][places[pilot.queue]] += 1
    in_state = {state: np.array(counts[state.value], np.int64) for state in PilotState}
    return View(
        queues=queues,
        fits=fits & (walls[None, :] >= needs[:, None]),
        waiting=np.array([kind.waiting for kind in kinds], np.int64),
        running=np.array([kind.running for kind in kinds], np.int64),
        queued=in_state[PilotState.QUEUED],
        starting=in_state[PilotState.STARTING],
        idle=in_state[PilotState.IDLE],
        busy=in_state[PilotState.BUSY] + in_state[PilotState.DRAINING],
        snapshot=snapshot,
    )
