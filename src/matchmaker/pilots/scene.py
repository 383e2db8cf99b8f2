"""A snapshot as columns: pilots, queues and kinds by number, and what to expect of each queue.

Nothing is decided here; :mod:`matchmaker.pilots.policy` does. Numbers that make no sense are put
right here: a time in the future is now, a length that is not a number is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from matchmaker.classad import ClassAd
from matchmaker.pilots.arrays import Bools, Ints, Reals
from matchmaker.pilots.pairs import Pairs
from matchmaker.pilots.snapshot import Demand, Pilot, PilotQueue, PilotSnapshot, PilotState
from matchmaker.pilots.supply import Classes, classes

IDLE, STARTING, QUEUED, BUSY, DRAINING = range(5)
STATES: Final = ("Idle", "Starting", "Queued", "Busy", "Draining")
"""The names of the states by their numbers, which the facts of a policy have too."""
_STATES: Final = {PilotState(name.lower()): number for number, name in enumerate(STATES)}


@attrs.frozen(eq=False)
class Pilots:
    """The pilots as columns, a row each.

    Attributes:
        given: the pilots.
        queue: the number of each one's queue; one more than the last for a queue that is unknown.
        state: its state, by number.
        ad: the number of its ad; a queue's number for a pilot that has none.
        age: how long it is in its state, in seconds.
        remaining: how long it may run still, in seconds.
        kind: the number of the kind that it runs; -1 for none that is known.
    """

    given: Sequence[Pilot]
    queue: Ints
    state: Ints
    ad: Ints
    age: Reals
    remaining: Reals
    kind: Ints


@attrs.frozen(eq=False)
class Queues:
    """The queues as columns, a row each.

    Attributes:
        given: the queues.
        counts: pilots by state (a row) and queue (a column).
        response: within how many seconds half of the pilots start, as far as is known.
        late: within how many seconds nine of ten start, as far as is known.
        slow: whether a pilot waits there for longer than that: there may be no free slot.
    """

    given: Sequence[PilotQueue]
    counts: Ints
    response: Reals
    late: Reals
    slow: Bools


@attrs.frozen(eq=False)
class Scene:
    """All columns of a snapshot.

    Attributes:
        demand: the kinds.
        pilots: the pilots.
        queues: the queues.
        classes: the kinds that are served alike.
        able: whether each queue (a column) can run the jobs of each class (a row).
        guess: the response of a queue that is not known, in seconds.
    """

    demand: Sequence[Demand]
    pilots: Pilots
    queues: Queues
    classes: Classes
    able: Bools
    guess: float


def scene(snapshot: PilotSnapshot, pairs: Pairs, unknown: float) -> Scene:
    """The columns of a snapshot; `unknown` seconds are guessed where no queue has a history."""
    demand = snapshot.demand or ()
    queues = snapshot.queues
    ads = [queue.pilot for queue in queues]
    # Pilots of a queue that is not in the snapshot have a wall clock of 0 and an ad that nothing
    # matches, unless they say otherwise.
    ads.append(_NOBODY)
    wall = np.array([queue.wall if queue.wall > 0 else 0.0 for queue in queues] + [0.0])
    pilots = _pilots(snapshot, demand, wall, ads)
    fits = pairs.table([kind.ad for kind in demand], ads)
    walls = np.array([math.inf if kind.wall != kind.wall else kind.wall for kind in demand])
    groups = classes(fits, walls)
    known = sorted(q.estimate.median for q in queues if q.estimate.median is not None)
    guess = known[len(known) // 2] if known else unknown
    columns = _queues(queues, pilots, guess)
    able = groups.fits[:, : len(queues)] & (groups.steps[groups.step][:, None] <= wall[None, :-1])
    return Scene(demand, pilots, columns, groups, able, guess)


_NOBODY: Final = ClassAd(Requirements=False)


def _pilots(
    snapshot: PilotSnapshot, demand: Sequence[Demand], wall: Reals, ads: list[ClassAd]
) -> Pilots:
    given = snapshot.pilots
    rows = len(given)
    numbers = {queue.key: number for number, queue in enumerate(snapshot.queues)}
    nowhere = len(snapshot.queues)
    queue = np.fromiter((numbers.get(pilot.queue, nowhere) for pilot in given), np.intp, rows)
    ad = queue.copy()
    own: dict[int, int] = {}
    for row, held in enumerate(pilot.ad for pilot in given):
        if held is not None:
            number = own.get(id(held))
            if number is None:
                number = own[id(held)] = len(ads)
                ads.append(held)
            ad[row] = number
    since = np.fromiter((pilot.since for pilot in given), np.float64, rows)
    ends = np.fromiter(
        (math.nan if pilot.ends is None else pilot.ends for pilot in given), np.float64, rows
    )
    kinds = {kind.key: number for number, kind in enumerate(demand)}
    return Pilots(
        given,
        queue,
        np.fromiter((_STATES[pilot.state] for pilot in given), np.intp, rows),
        ad,
        np.nan_to_num(np.maximum(snapshot.now - since, 0.0)),
        np.where(np.isnan(ends), wall[queue], np.maximum(ends - snapshot.now, 0.0)),
        np.fromiter((kinds.get(pilot.kind, -1) for pilot in given), np.intp, rows),
    )


def _queues(queues: Sequence[PilotQueue], pilots: Pilots, guess: float) -> Queues:
    size = len(queues)
    counts = np.bincount(pilots.state * (size + 1) + pilots.queue, minlength=5 * (size + 1))
    oldest = np.zeros(size + 1)
    waiting = pilots.state == QUEUED
    np.maximum.at(oldest, pilots.queue[waiting], pilots.age[waiting])
    median, late = np.zeros(size), np.zeros(size)
    for number, queue in enumerate(queues):
        known = queue.estimate
        middle = max(guess, known.at_least) if known.median is None else known.median
        median[number] = middle
        late[number] = LATE * middle if known.late is None else max(known.late, middle)
    return Queues(
        queues,
        counts.reshape(5, size + 1)[:, :size],
        np.maximum(median, oldest[:size]),
        late,
        oldest[:size] > late,
    )


LATE: Final = 3.0
"""Nine of ten pilots start within this many medians, where more is not known: those of a log-normal
wait with a sigma of 0.85."""
