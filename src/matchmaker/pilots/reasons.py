"""Why pilots are submitted or ended, queues left out and jobs kept waiting, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

from matchmaker.pilots.placing import Places
from matchmaker.pilots.scene import IDLE, Pilots, Queues, Scene
from matchmaker.pilots.snapshot import Held, Submission, Wait

if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.intp]
    Reals = npt.NDArray[np.float64]


def jobs(count: int) -> str:
    """How many waiting jobs.

    >>> jobs(1), jobs(3)
    ('1 waiting job has', '3 waiting jobs have')
    """
    return f"{count} waiting job has" if count == 1 else f"{count} waiting jobs have"


@attrs.frozen(eq=False)
class Outcome:
    """What was decided on submissions.

    Attributes:
        scene: the snapshot's columns.
        unmet: for each class of kinds the jobs that found no free pilot.
        places: the queues, with what was placed there.
        unplaced: for each class the pilots that found no place.
        left_out: the queues that were left out, by number, with the reason.
        failing: which queues lose pilots.
    """

    scene: Scene
    unmet: Reals
    places: Places
    unplaced: Ints
    left_out: Mapping[int, str]
    failing: Bools

    def submissions(self) -> tuple[Submission, ...]:
        """The submissions, each with the jobs that its queue serves and that have no pilot."""
        found = []
        placed = self.places.placed
        for row in np.flatnonzero(placed).tolist():
            served = int(np.ceil(self.unmet[self.scene.able[:, row]].sum() - 1e-6))
            reason = f"{jobs(served)} no pilot" if served else "kept ready for jobs to come"
            if self.failing[row]:
                reason = f"a probe, after failures; {reason}"
            queue = self.scene.queues.given[row].key
            found.append(Submission(queue, int(placed[row]), reason))
        return tuple(found)

    def held(self) -> tuple[Held, ...]:
        """The queues that take no pilot, each with its reason."""
        reasons = ((queue.key, self._held(n)) for n, queue in enumerate(self._queues.given))
        return tuple(Held(key, reason) for key, reason in reasons if reason)

    @property
    def _queues(self) -> Queues:
        return self.scene.queues

    def _held(self, row: int) -> str:
        if row in self.left_out:
            return self.left_out[row]
        if self.places.placed[row]:
            return ""
        if not self.places.room[row]:
            there = int(self._queues.counts[:, row].sum())
            return f"a limit is reached: {there} pilots are there"
        if self._queues.slow[row]:
            return (
                f"a pilot waits there for {self._queues.response[row]:.0f} s, and nine of ten"
                f" started within {self._queues.late[row]:.0f} s"
            )
        return ""

    def waits(self) -> tuple[Wait, ...]:
        """For each kind with waiting jobs, what they wait for."""
        texts: dict[int, str] = {}
        found = []
        for row, number in enumerate(self.scene.classes.of.tolist()):
            kind = self.scene.demand[row]
            if kind.waiting > 0:
                if number not in texts:
                    texts[number] = self._why(number)
                found.append(Wait(kind.key, kind.waiting, texts[number]))
        return tuple(found)

    def _why(self, number: int) -> str:
        scene, size = self.scene, len(self._queues.given)
        able = scene.able[number]
        if self.unmet[number] < 1e-6:
            return "pilots that are idle, starting or queued"
        if not size:
            return "there is no queue"
        if not scene.classes.fits[number, :size].any():
            return f"none of the {size} queues matches"
        if not able.any():
            needs = scene.classes.steps[scene.classes.step[number]]
            return f"no queue that matches lets a pilot run for {needs:.0f} s"
        open_ = [row for row in np.flatnonzero(able).tolist() if row not in self.left_out]
        if not open_:
            row = int(np.flatnonzero(able)[0])
            return (
                f"all queues that match are left out, {int(able.sum())} in number;"
                f" {self._queues.given[row].key}: {self.left_out[row]}"
            )
        if self.unplaced[number]:
            return "the queues that match, or the pool, are at their limits"
        if self.places.placed[open_].any():
            return (
                f"pilots that are submitted now, {int(self.places.placed[open_].sum())} in number"
            )
        return "pilots that are queued for long, or busy and free soon"


def ended(pilots: Pilots, row: int) -> str:
    """Why a pilot is ended or lent."""
    what = "idle" if pilots.state[row] == IDLE else "queued"
    return f"{what} for {pilots.age[row]:.0f} s, and no job needs it"
