"""Combine the answers of shards: matches, states, and the supply of slots in a negotiation cycle.

In a round, each shard offers its best free slots for all kinds of jobs at once. The client makes a
small pool of the offers, a part. So the code of one pool does fair share and placing there. A shard
also says for each kind how good its best slot is that it did not offer: before a job takes a worse
one, the client asks the shard again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from matchmaker._limits import UNCACHED_POOL
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import shorten
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.values import Value
from matchmaker.matching.assignment import (
    IdleReason,
    JobKind,
    PartReason,
    Policy,
    PoolSupply,
    combined_reason,
)
from matchmaker.matching.candidates import Amounts, CandidateSlot, CycleSlots, JobRequests
from matchmaker.matching.columns.dependencies import Clusters
from matchmaker.matching.columns.forms import Sparse, ViewColumns
from matchmaker.matching.columns.masks import MaskCache
from matchmaker.matching.columns.store import Layout, RowKeys, View
from matchmaker.matching.snapshot import Matches
from matchmaker.matching.states import SlotState
from matchmaker.shards import questions
from matchmaker.shards.cluster import DaskCluster, Future, ShardError
from matchmaker.shards.questions import OfferedSlots
from matchmaker.shards.shard import NUMBERS, ads_to_bytes, policy_to_bytes, view_from_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from matchmaker.shards.questions import ShardMatches, ShardSummary


@attrs.frozen(eq=False)
class NumberedKeys:
    """Keys that came with their numbers, which rise."""

    numbers: npt.NDArray[np.int64]
    keys: Sequence[str]

    def of(self, rows: Iterable[int], /) -> list[str]:
        """The keys of many numbers."""
        places = np.searchsorted(self.numbers, np.fromiter(rows, np.int64))
        return [self.keys[place] for place in places.tolist()]


def merged_matches(answers: Sequence[ShardMatches], firsts: npt.NDArray[np.int64]) -> Matches:
    """Merge the matches of some shards, in the order of the rows.

    `firsts` are the numbers that the first rows of the shards, and of later entries, have in one
    pool of all.
    """
    numbers = np.concatenate([answer.numbers for answer in answers])
    numbers = firsts[numbers >> NUMBERS] + (numbers & ((1 << NUMBERS) - 1))
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    keys = [key for answer in answers for key in answer.keys]
    errors = dict.fromkeys(answer.error for answer in answers if answer.error is not None)
    return Matches(
        numbers,
        np.concatenate([answer.ranks for answer in answers])[order],
        NumberedKeys(numbers, [keys[place] for place in order.tolist()]),
        np.concatenate([answer.unranked for answer in answers])[order],
        "; ".join(errors) or None,
    )


def merged_best(
    answers: Sequence[ShardMatches], firsts: npt.NDArray[np.int64], count: int
) -> Matches:
    """The best of the shards' best slots, as one pool would rank them."""
    return merged_matches(answers, firsts).best(count)


def merged_states(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """How many slots are in which state."""
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return {state.value: found[state.value] for state in SlotState if found[state.value]}


def outline_of(dynamic: Iterable[Mapping[str, Sequence[str]]]) -> View:
    """Rows that have every column of all shards, with the expressions that lead further.

    They represent the slots if only the names of the slots' attributes matter, not their values.
    `dynamic` has those expressions of each shard, by folded name.
    """
    texts: dict[str, dict[str, None]] = {}
    for each in dynamic:
        for name, expressions in each.items():
            texts.setdefault(name, {}).update(dict.fromkeys(expressions))
    size = max(map(len, texts.values()), default=0)
    columns = {
        name: Sparse(size, dict(enumerate(map(parse_expr, each)))) for name, each in texts.items()
    }
    layout = np.zeros(size, np.uint8)
    return View(size, ViewColumns(dict(columns)), RowKeys(size), None, [Layout.of(())], layout)


def key_of_shards(summaries: Sequence[ShardSummary]) -> str:
    """Return the attribute that tells slots apart. Raises ShardError if shards have several."""
    first = summaries[0]
    for other in summaries:
        if other.key.lower() != first.key.lower():
            raise ShardError(
                f"shard {first.name} has its slots by {first.key}, shard {other.name} by"
                f" {other.key}: name one attribute as the key of all"
            )
    return first.key


def keys_met_twice(summaries: Sequence[ShardSummary]) -> npt.NDArray[np.uint64]:
    """The numbers of keys that come twice, or seem to."""
    numbers = np.sort(np.concatenate([each.keys for each in summaries]))
    return np.unique(numbers[1:][numbers[1:] == numbers[:-1]])


def check_distinct(key: str, names: Sequence[str], keys: Sequence[Sequence[str]]) -> None:
    """Raises ShardError for the first of some keys that two shards have."""
    seen: dict[str, str] = {}
    for name, each in zip(names, keys, strict=True):
        for one in each:
            before = seen.setdefault(one, name)
            if before != name:
                raise ShardError(
                    f"shards {before} and {name} both have {key} = {shorten(repr(one), 60)};"
                    " the key must tell slots apart"
                )


SMALL: Final = 1 << 14
"""Bytes of jobs that go with each question; more are scattered to the workers once."""

MORE: Final = 2
"""How many times its fair part of the jobs a shard offers slots for at first."""


@attrs.frozen(slots=True)
class PartOffer(CandidateSlot):
    """An offer of one of the parts."""

    key: str
    part: int

    @property
    def place(self) -> tuple[float, str]:
        """The sorting key of an offer: the rank with its sign changed, and the slot's key."""
        return -self.rank, self.key


@attrs.frozen(slots=True, eq=False)
class _Here:
    """The slots of one round, each with its shard and its number."""

    whole: PoolSupply
    shards: npt.NDArray[np.intp]
    numbers: npt.NDArray[np.int64]

    @classmethod
    def of(cls, found: Mapping[int, OfferedSlots], policy: Policy) -> _Here:
        """One pool of the offers of some shards; each kind of job is matched with it once."""
        order = sorted(found)
        view = view_from_bytes([found[shard].slots for shard in order])
        return cls(
            PoolSupply(view, MaskCache(), policy),
            np.repeat(order, [len(found[shard].numbers) for shard in order]),
            np.concatenate([found[shard].numbers for shard in order]),
        )


class ShardedSupply:
    """The slots of shards, as a ``Supply``."""

    def __init__(
        self, cluster: DaskCluster, shards: Sequence[tuple[str, Future]], outline: View, total: int,
        policy: Policy,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._shards = shards
        self._terms = policy_to_bytes(policy)
        self._jobs: Any = b""
        """The first job of each kind, which questions name by its place."""
        self._policy = policy
        self.columns: Collection[str] = outline.columns if total else ()
        self._clusters = Clusters(outline.columns, policy.resources.values())
        self._outline = CycleSlots(
            outline, MaskCache(UNCACHED_POOL), policy.resources, policy.free, policy.names
        )
        self._kinds: Sequence[JobKind] = ()
        self._numbers: dict[JobKind, int] = {}
        self._ahead: list[dict[JobKind, tuple[float, str]]] = [{} for _ in shards]
        """For each shard, the best slot that it kept back, by kind."""
        self._parts: list[_Here] = []
        self._takes: list[int] = []
        self._known: dict[JobKind, list[tuple[int, PartOffer | None]]] = {}
        """What each part offers to a kind, and how many takes it had seen by then."""
        self._taken: list[list[tuple[int, Amounts]]] = [[] for _ in shards]
        self._idle: list[tuple[ClassAd, list[int]]] = []
        self._part_reasons: list[list[PartReason]] = []
        self.rounds = 0
        """How often shards were asked for slots."""

    def cluster(self, job: ClassAd) -> Hashable:
        """See :meth:`Supply.cluster`."""
        return self._clusters.of(job)

    def begin(self, kinds: Sequence[JobKind]) -> None:
        """See :meth:`Supply.begin`: asks all shards for their best slots."""
        self._kinds = kinds
        self._numbers = {kind: number for number, kind in enumerate(kinds)}
        some = [
            (number, min(kind.waiting, math.ceil(MORE * kind.waiting / len(self._shards)) + MORE))
            for number, kind in enumerate(kinds)
        ]
        if some:
            self._jobs = self._spread([kind.job for kind in kinds])
            self._receive(dict.fromkeys(range(len(self._shards)), some))

    def _spread(self, jobs: Sequence[ClassAd]) -> Any:
        data = ads_to_bytes(jobs)
        return data if len(data) <= SMALL else self._cluster.scatter(data)

    def best(self, kind: JobKind) -> CandidateSlot | None:
        """See :meth:`Supply.best`."""
        while True:
            found = self._first(kind)
            missing = [
                shard
                for shard, ahead in enumerate(self._ahead)
                if kind in ahead and (found is None or ahead[kind] < found.place)
            ]
            if not missing:
                return found
            self._more(missing)

    def _first(self, kind: JobKind) -> PartOffer | None:
        known = self._known.setdefault(kind, [])
        known += [(-1, None)] * (len(self._parts) - len(known))
        best = None
        for number, takes in enumerate(self._takes):
            seen, offer = known[number]
            if seen != takes:
                offer = self._offer(kind, number)
                known[number] = takes, offer
            if offer is not None and (best is None or offer.place < best.place):
                best = offer
        return best

    def _offer(self, kind: JobKind, number: int) -> PartOffer | None:
        whole = self._parts[number].whole
        found = whole.best(kind)
        if found is None:
            return None
        key = whole.slots.now.keys[found.row]
        return PartOffer(found.row, found.rank, found.taken, key, number)

    def _more(self, shards: Sequence[int]) -> None:
        """Asks some shards again, for all waiting jobs."""
        asked = {}
        for shard in shards:
            ahead = self._ahead[shard]
            asked[shard] = [
                (self._numbers[kind], max(kind.waiting, 1)) for kind in self._kinds
                if kind in ahead and kind.waiting
            ]  # fmt: skip
        self._receive(asked)

    def _receive(self, asked: dict[int, list[tuple[int, int]]]) -> None:
        self.rounds += 1
        each = [
            (self._jobs, kinds, self._terms, np.concatenate(
                [np.zeros(0, np.int64), *(p.numbers[p.shards == shard] for p in self._parts)]
            ))
            for shard, kinds in asked.items()
        ]  # fmt: skip
        some = [self._shards[shard] for shard in asked]
        found = dict(zip(asked, self._cluster.ask(some, questions.offers, each), strict=True))
        for shard in sorted(found):
            part, ahead = found[shard], self._ahead[shard]
            for (number, _), place in zip(asked[shard], part.ahead, strict=True):
                kind = self._kinds[number]
                if place is None:
                    ahead.pop(kind, None)
                else:
                    ahead[kind] = place
        offered = {shard: part for shard, part in found.items() if len(part.numbers)}
        if offered:
            self._parts.append(_Here.of(offered, self._policy))
            self._takes.append(0)

    def give(self, job: ClassAd, offer: CandidateSlot) -> tuple[str, Value]:
        """See :meth:`Supply.give`."""
        if not isinstance(offer, PartOffer):
            raise TypeError("an offer of one of the parts was expected")
        part = self._parts[offer.part]
        self._takes[offer.part] += 1
        shard = int(part.shards[offer.row])
        self._taken[shard].append((int(part.numbers[offer.row]), offer.taken))
        return part.whole.give(job, offer)

    def idle(self, job: ClassAd) -> Callable[[], IdleReason]:
        """See :meth:`Supply.idle`: all shards are asked for all these jobs when the cycle ends."""
        place = len(self._idle)
        nonsense = JobRequests(self._outline, job).nonsense
        moments = [len(taken) for taken in self._taken]
        self._idle.append((job, moments))
        return lambda: combined_reason(nonsense, [each[place] for each in self._part_reasons])

    def remains(self) -> dict[str, Amounts]:
        """See :meth:`Supply.remains`."""
        if self._idle:
            jobs = self._spread([job for job, _ in self._idle])
            each = [
                (jobs, [moments[shard] for _, moments in self._idle], self._terms, taken)
                for shard, taken in enumerate(self._taken)
            ]
            self._part_reasons = self._cluster.ask(self._shards, questions.part_reasons, each)
        left: list[tuple[int, tuple[str, Amounts]]] = []
        for part in self._parts:
            slots = part.whole.slots
            numbers = part.numbers[sorted(set(slots.log))].tolist()
            left += zip(numbers, slots.remains().items(), strict=True)
        return dict(item for _, item in sorted(left, key=lambda each: each[0]))
