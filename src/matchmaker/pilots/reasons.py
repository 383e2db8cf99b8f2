"""Why pilots are submitted or ended, queues left out and jobs kept waiting, for people."""

from __future__ import annotations

import numpy as np

from matchmaker.pilots.arrays import Ints, Reals
from matchmaker.pilots.cycle import Cycle
from matchmaker.pilots.placing import Places
from matchmaker.pilots.scene import IDLE, Pilots
from matchmaker.pilots.snapshot import Held, PilotSubmission, Wait


def submissions(cycle: Cycle, places: Places, unmet: Reals) -> tuple[PilotSubmission, ...]:
    """The submissions, each with the jobs that its queue serves and that have no pilot.

    ``unmet`` is, for each class of kinds, the jobs that found no free pilot.
    """
    found = []
    for row in np.flatnonzero(places.placed).tolist():
        served = int(np.ceil(unmet[cycle.scene.able[:, row]].sum() - 1e-6))
        jobs = f"{served} waiting job{' has' if served == 1 else 's have'} no pilot"
        reason = jobs if served else "kept ready for jobs to come"
        if cycle.failing[row]:
            reason = f"a probe, after failures; {reason}"
        queue = cycle.scene.queues.given[row].key
        found.append(PilotSubmission(queue, int(places.placed[row]), reason))
    return tuple(found)


def held(cycle: Cycle, places: Places) -> tuple[Held, ...]:
    """The queues that take no pilot, each with its reason."""
    queues = enumerate(cycle.scene.queues.given)
    reasons = ((queue.key, _held(cycle, places, row)) for row, queue in queues)
    return tuple(Held(key, reason) for key, reason in reasons if reason)


def _held(cycle: Cycle, places: Places, row: int) -> str:
    queues = cycle.scene.queues
    if row in cycle.left_out:
        return cycle.left_out[row]
    if places.placed[row]:
        return ""
    if not places.room[row]:
        return f"a limit is reached: {int(queues.counts[:, row].sum())} pilots are there"
    if queues.slow[row]:
        return (
            f"a pilot waits there for {queues.response[row]:.0f} s, and nine of ten"
            f" started within {queues.late[row]:.0f} s"
        )
    return ""


def waits(cycle: Cycle, places: Places, unmet: Reals, unplaced: Ints) -> tuple[Wait, ...]:
    """For each kind with waiting jobs, what they wait for.

    ``unplaced`` is, for each class of kinds, the pilots that found no place.
    """
    found = []
    texts: dict[int, str] = {}
    for kind, number in zip(cycle.scene.demand, cycle.scene.classes.of.tolist(), strict=True):
        if kind.waiting > 0:
            if number not in texts:
                texts[number] = _why(cycle, places, number, unmet, unplaced)
            found.append(Wait(kind.key, kind.waiting, texts[number]))
    return tuple(found)


def _why(cycle: Cycle, places: Places, number: int, unmet: Reals, unplaced: Ints) -> str:
    scene, queues = cycle.scene, cycle.scene.queues.given
    able = np.flatnonzero(scene.able[number]).tolist()
    if unmet[number] < 1e-6:
        return "pilots that are idle, starting or queued"
    if not queues:
        return "there is no queue"
    if not scene.classes.fits[number, : len(queues)].any():
        return f"none of the {len(queues)} queues matches"
    if not able:
        needs = scene.classes.steps[scene.classes.step[number]]
        return f"no queue that matches lets a pilot run for {needs:.0f} s"
    open_ = [row for row in able if row not in cycle.left_out]
    if not open_:
        return (
            f"all queues that match are left out, {len(able)} in number;"
            f" {queues[able[0]].key}: {cycle.left_out[able[0]]}"
        )
    if unplaced[number]:
        return "the queues that match, or the pool, are at their limits"
    placed = int(places.placed[open_].sum())
    if placed:
        return f"pilots that are submitted now, {placed} in number"
    return "pilots that are queued for long, or busy and free soon"


def ended(pilots: Pilots, row: int) -> str:
    """Why a pilot is ended or lent."""
    what = "idle" if pilots.state[row] == IDLE else "queued"
    return f"{what} for {pilots.age[row]:.0f} s, and no job needs it"
