"""The questions to a shard, as functions that run on its worker.

Jobs arrive as bytes of text, slots are sent as saved pools. ``merge`` combines the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from matchmaker.matching.assignment import PartReason, part_reason
from matchmaker.matching.candidates import (
    Amounts,
    CycleSlots,
    JobRequests,
    SlotOrders,
    UndividedSlots,
)
from matchmaker.matching.columns.dependencies import MANY_EXPRESSIONS
from matchmaker.matching.snapshot import Matches
from matchmaker.matching.states import SlotStates
from matchmaker.shards.shard import (
    Shard,
    ads_from_bytes,
    ads_to_bytes,
    columns_to_bytes,
    hashes,
    policy_from_bytes,
    slots_to_bytes,
)

if TYPE_CHECKING:
    import numpy.typing as npt


@attrs.frozen(slots=True, eq=False)
class ShardSummary:
    """The facts of a shard that a cycle needs beforehand.

    ``dynamic`` has, for each column, the expressions other than constants, as text; ``keys`` a
    number for each key.
    """

    name: str
    key: str
    total: int
    dynamic: dict[str, tuple[str, ...]]
    keys: npt.NDArray[np.uint64]


@attrs.frozen(slots=True, eq=False)
class ShardMatches:
    """Some of the slots of a shard that match a job: numbers, keys and ranks, in step."""

    numbers: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.float64]
    unranked: npt.NDArray[np.bool_]
    keys: list[str]
    error: str | None


@attrs.frozen(slots=True, eq=False)
class OfferedSlots:
    """The best free slots of a shard for some kinds of jobs.

    ``slots`` is a saved pool of them, in the order of ``numbers``. ``ahead`` has, for
    each kind, the rank with its sign changed and the key of the best slot that is not among them
    or those before; None if there is no such slot.
    """

    slots: bytes
    numbers: npt.NDArray[np.int64]
    ahead: list[tuple[float, str] | None]


@attrs.frozen(slots=True, eq=False)
class ShardColumns:
    """Some attributes of slots, the numbers of the slots, and all names that they have."""

    slots: bytes
    numbers: npt.NDArray[np.int64]
    names: dict[str, str]


def summary(shard: Shard) -> ShardSummary:
    """The facts of a shard that are needed beforehand."""
    return ShardSummary(shard.name, shard.key, len(shard), dynamic(shard), hashes(shard))


def dynamic(shard: Shard) -> dict[str, tuple[str, ...]]:
    """Return, by folded name, each column's expressions other than constants, as text."""
    return {
        name: tuple(map(str, column.dynamic()[: MANY_EXPRESSIONS + 1]))
        for name, column in shard.slots._view.columns.items()
    }


def stamp(shard: Shard) -> str:
    """Which updates a shard has."""
    return shard.stamp


def keys_of(shard: Shard, wanted: npt.NDArray[np.uint64]) -> list[str]:
    """The keys whose numbers are among some."""
    rows = shard.rows[np.isin(hashes(shard), wanted)]
    return shard.slots._view.keys.of(rows.tolist())


def holds(shard: Shard, keys: Sequence[str]) -> list[bool]:
    """Which of some keys are in a shard."""
    return [key in shard for key in keys]


def ads(shard: Shard, keys: Sequence[str]) -> bytes:
    """The ads of those of some keys that are in a shard."""
    return ads_to_bytes(shard.slots[key] for key in keys if key in shard.slots)


def matches(shard: Shard, jobs: bytes) -> list[ShardMatches]:
    """All slots that match each job."""
    found = [shard.slots.match(job) for job in ads_from_bytes(jobs)]
    return [_answer(shard, one) for one in found]


def best(shard: Shard, jobs: bytes, count: int) -> list[ShardMatches]:
    """The best slots that match each job."""
    found = [shard.slots.top(job, count) for job in ads_from_bytes(jobs)]
    return [_answer(shard, one) for one in found]


def _answer(shard: Shard, found: Matches) -> ShardMatches:
    numbers = shard.numbers[found._row_array]
    return ShardMatches(numbers, found.rank_array, found.is_unranked, list(found.keys), found.error)


def states(shard: Shard, job: bytes, names: dict[str, str]) -> dict[str, int]:
    """How many of the slots that match a job are in which state."""
    (ad,) = ads_from_bytes(job)
    view = shard.slots._view
    return SlotStates.of(view, names).counts(ad, shard.slots.match(ad)._row_array)


def _slots(shard: Shard, terms: bytes) -> CycleSlots:
    policy = policy_from_bytes(terms)
    cache = shard.slots._cache
    return CycleSlots(shard.slots._view, cache, policy.resources, policy.free, policy.names)


def offers(
    shard: Shard,
    jobs: bytes,
    kinds: Sequence[tuple[int, int]],
    terms: bytes,
    before: npt.NDArray[np.int64],
) -> OfferedSlots:
    """The best free slots for some kinds of jobs, for as many jobs of each as there are.

    `kinds` are places among the jobs, with how many jobs each stands for; `before` are the numbers
    of the slots that were offered earlier. No slot counts for two jobs: the slots of one kind are
    not offered for the kinds that follow.
    """
    slots = _slots(shard, terms)
    slots.clean[shard.rows_of(before)] = False
    orders = SlotOrders(slots)
    all_jobs = ads_from_bytes(jobs)
    walks = []
    chosen: list[int] = []
    for place, count in kinds:
        job = all_jobs[place]
        walk = UndividedSlots(slots, job, count, orders.of(job), JobRequests(slots, job).room)
        walks.append(walk)
        for _ in range(count):
            found = walk.first()
            if found is None:
                break
            slots.clean[found[2]] = False
            chosen.append(found[2])
    rows = np.array(sorted(chosen), np.intp)
    keys = slots.view.keys
    after = [walk.first() for walk in walks]
    ahead = [None if one is None else (one[0], keys[one[2]]) for one in after]
    data = slots_to_bytes(slots.view, shard.key, rows)
    return OfferedSlots(data, shard.numbers[rows], ahead)


def part_reasons(
    shard: Shard,
    jobs: bytes,
    moments: Sequence[int],
    terms: bytes,
    taken: Sequence[tuple[int, Amounts]],
) -> list[PartReason]:
    """Why the slots leave some jobs idle, judged by the state of the slots at each job's turn.

    `taken` are the numbers of the slots that served a job, in order, with what each job took;
    `moments` says for each job how many had been taken by then.
    """
    slots = _slots(shard, terms)
    rows = shard.rows_of(np.array([number for number, _ in taken], np.int64)).tolist()
    found = []
    done = 0
    for job, moment in zip(ads_from_bytes(jobs), moments, strict=True):
        for row, (_, amounts) in zip(rows[done:moment], taken[done:moment], strict=True):
            slots.take(row, amounts)
        done = moment
        found.append(_numbered(shard, part_reason(slots, job)))
    return found


def _numbered(shard: Shard, found: PartReason) -> PartReason:
    """With the numbers of rows among those of all shards."""
    if found.last_refusal is not None:
        number = int(shard.numbers[found.last_refusal.row])
        return attrs.evolve(found, last_refusal=attrs.evolve(found.last_refusal, row=number))
    if found.bad_request is not None:
        resource, row, said = found.bad_request
        return attrs.evolve(found, bad_request=(resource, int(shard.numbers[row]), said))
    return found


def columns(shard: Shard, wanted: frozenset[str] | None) -> ShardColumns:
    """What all slots of a shard say in some attributes, by folded name, and their keys."""
    view = shard.slots._view
    names = {
        folded: name
        for layout in view.parts().layouts
        for folded, name in zip(layout.folded, layout.names, strict=True)
    }
    data = columns_to_bytes(view, shard.key, wanted)
    return ShardColumns(data, shard.numbers[view.rows()], names)
