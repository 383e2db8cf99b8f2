"""What a negotiation cycle asks of slots: the best for a kind of jobs, and why there is none.

``Whole`` answers for the slots of one pool. Those of several parts answer together in the room
``shards``. In which order jobs ask is in ``assignment``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Protocol

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import evaluate_attribute
from matchmaker.classad.values import Value
from matchmaker.matching.candidates import Candidates, Offer
from matchmaker.matching.columns.clusters import Clusters
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.views import View
from matchmaker.matching.idle import Idle, why_idle
from matchmaker.matching.names import FOLDED_RANK
from matchmaker.matching.orders import Orders
from matchmaker.matching.slots import Amounts, Slots
from matchmaker.matching.terms import Policy


@attrs.define(slots=True, eq=False)
class Kind:
    """Equivalent jobs: the first of them, and how many have not had their turn."""

    job: ClassAd
    waiting: int = 0


class Supply(Protocol):
    """The slots of a cycle, which jobs take one after the other."""

    @property
    def columns(self) -> Collection[str]:
        """The folded names of the attributes that slots have; nothing where there are no slots."""
        ...

    def cluster(self, job: ClassAd) -> Hashable:
        """The autocluster of a job."""
        ...

    def begin(self, kinds: Sequence[Kind]) -> None:
        """Takes note of the jobs that are going to ask."""
        ...

    def best(self, kind: Kind) -> Offer | None:
        """The best slot that a job of a kind can have by now."""
        ...

    def give(self, job: ClassAd, offer: Offer) -> tuple[str, Value]:
        """Gives a job what was offered: the key of the slot, and the job's rank of it before."""
        ...

    def idle(self, job: ClassAd) -> Callable[[], Idle]:
        """Why there is no slot for a job by now, to be asked when the cycle is over."""
        ...

    def remains(self) -> dict[str, Amounts]:
        """What the slots that have given a part still have, by key. Ends the cycle."""
        ...


class Whole:
    """The slots of one pool."""

    def __init__(self, view: View, cache: Cache, policy: Policy) -> None:
        self.slots = Slots(view, cache, policy.resources, policy.free, policy.names)
        self.columns: Collection[str] = view.columns if len(view) else ()
        self._orders = Orders(self.slots)
        self._clusters = Clusters(view.columns, policy.resources.values())
        self._candidates: dict[Kind, Candidates] = {}

    def cluster(self, job: ClassAd) -> Hashable:
        """See :meth:`Supply.cluster`."""
        return self._clusters.of(job)

    def begin(self, kinds: Sequence[Kind]) -> None:
        """See :meth:`Supply.begin`: the slots are here already."""

    def best(self, kind: Kind) -> Offer | None:
        """See :meth:`Supply.best`."""
        candidates = self._candidates.get(kind)
        if candidates is None:
            candidates = Candidates(self.slots, self._orders, kind.job, kind.waiting)
            self._candidates[kind] = candidates
        return candidates.best()

    def give(self, job: ClassAd, offer: Offer) -> tuple[str, Value]:
        """See :meth:`Supply.give`."""
        now = self.slots.now
        rank = evaluate_attribute(job, FOLDED_RANK, now.ad(offer.row))
        self.slots.take(offer.row, offer.taken)
        return now.keys[offer.row], rank

    def idle(self, job: ClassAd) -> Callable[[], Idle]:
        """See :meth:`Supply.idle`."""
        idle = why_idle(self.slots, job)
        return lambda: idle

    def remains(self) -> dict[str, Amounts]:
        """See :meth:`Supply.remains`."""
        return self.slots.remains()
