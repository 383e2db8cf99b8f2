"""Questions to all shards together, at one epoch that never changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from copy import copy
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd, an_ad, some_ads
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import unparse_name
from matchmaker.matching.assignment import Assignment, Cycle
from matchmaker.matching.columns.clusters import Clusters
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.store import Store
from matchmaker.matching.columns.views import View
from matchmaker.matching.explanation import Explanation, PairExplanation, explain, explain_pair
from matchmaker.matching.explanation.whole import columns_of_machines
from matchmaker.matching.snapshot import Matches, Snapshot, checked
from matchmaker.matching.states import own_names
from matchmaker.matching.terms import Policy
from matchmaker.shards import merge, questions, wire
from matchmaker.shards.cluster import Cluster, Future
from matchmaker.shards.supply import Spread

if TYPE_CHECKING:
    import numpy.typing as npt

BATCH: Final = 64
"""How many jobs of ``match_many`` are asked for at once."""


@attrs.frozen(eq=False, repr=False)
class Across:
    """The slots of all shards at one epoch, with the interface of a ``Snapshot``.

    ``shards`` are the names of the shards with their futures, in the order of their rows;
    ``outline`` and ``firsts`` are as in ``merge``. ``total`` is how many slots there are.
    """

    key: str
    epoch: int
    total: int
    workers: Cluster
    shards: tuple[tuple[str, Future], ...]
    outline: View
    firsts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return self.total

    def __repr__(self) -> str:
        return f"<{self.total:,} ads by {self.key} in {len(self.shards)} shards>"

    def __getitem__(self, key: str) -> ClassAd:
        for data in self._ask(questions.ads, [key]):
            for ad in wire.ads_from_bytes(data):
                return ad
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and any(any(has) for has in self._ask(questions.holds, [key]))

    def _ask(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        return self.workers.ask(self.shards, question, [args] * len(self.shards))

    @cached_property
    def _clusters(self) -> Clusters:
        return Clusters(self.outline.columns)

    def cluster(self, job: ClassAd) -> Hashable:
        """The autocluster of a job: equal for jobs that match these slots alike."""
        return self._clusters.of(job)

    def match(self, job: ClassAd) -> Matches:
        """See :meth:`Pool.match`."""
        return next(self.match_many([job]))

    def top(
        self,
        job: ClassAd,
        count: int,
        tie: random.Random | None = None,
        fuzzy: float | None = None,
    ) -> Matches:
        """See :meth:`Pool.top`."""
        checked(count, fuzzy)
        if tie is not None or fuzzy is not None:
            return self.match(job).drawn(count, tie, fuzzy)
        found = self._ask(questions.best, wire.ads_to_bytes([an_ad(job)]), count)
        return merge.best([each[0] for each in found], self.firsts, count)

    def match_many(self, jobs: Iterable[ClassAd]) -> Iterator[Matches]:
        """See :meth:`Pool.match_many`."""
        pending = iter(some_ads(jobs))
        while some := list(islice(pending, BATCH)):
            clusters = [self.cluster(job) for job in some]
            kinds = dict(zip(reversed(clusters), reversed(some), strict=True))
            answers = self._ask(questions.matches, wire.ads_to_bytes(kinds.values()))
            found = {
                cluster: merge.matches([each[place] for each in answers], self.firsts)
                for place, cluster in enumerate(kinds)
            }
            yield from (copy(found[cluster]) for cluster in clusters)

    def states(self, job: ClassAd, names: Mapping[str, str] | None = None) -> dict[str, int]:
        """How many of the slots that match a job are in which state, as ``States`` has it."""
        data = wire.ads_to_bytes([an_ad(job)])
        return merge.states(self._ask(questions.states, data, dict(names or {})))

    def assign(self, jobs: Iterable[ClassAd], policy: Policy | None = None) -> Assignment:
        """See :meth:`Pool.assign`: fair share and quotas are in one place, for all shards."""
        policy = policy if policy is not None else Policy()
        if not isinstance(policy, Policy):
            raise TypeError(f"a Policy was expected, not {type(policy).__name__}")
        supply = Spread(self.workers, self.shards, self.outline, self.total, policy)
        return Cycle(supply, list(some_ads(jobs)), policy).run()

    def explain_pair(
        self, job: ClassAd, key: str, *, names: Mapping[str, str] | None = None
    ) -> PairExplanation:
        """See :meth:`Pool.explain_pair`."""
        return explain_pair(key, an_ad(job), self[key], names)

    def explain(self, job: ClassAd, *, names: Mapping[str, str] | None = None) -> Explanation:
        """See :meth:`Pool.explain`.

        The attributes that the answer needs are collected from all shards into one pool.
        """
        job = an_ad(job)
        own = [parse_expr(f"MY.{unparse_name(name)}") for name in own_names(names or {})]
        wanted = Clusters(self.outline.columns, own).significant(job)
        if wanted is not None:
            wanted = {*wanted, *columns_of_machines(self.outline.columns)}
        found = self._ask(questions.columns, None if wanted is None else frozenset(wanted))
        view = wire.view_from_bytes([each.slots for each in found])
        order = np.argsort(np.concatenate([each.numbers for each in found]), kind="stable")
        store = Store.restored(ascii_fold(self.key), view.parts(order))
        known: dict[str, str] = {}
        for each in found:
            known = each.names | known
        return explain(Snapshot(store.view(), Cache()), job, names, known)
