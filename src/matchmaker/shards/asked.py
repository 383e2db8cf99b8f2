"""The shards of one epoch during one negotiation cycle: each job is sent to them once.

``supply`` decides when to ask, and uses the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from matchmaker.classad.ad import ClassAd
from matchmaker.matching.idle import Standing
from matchmaker.matching.slots import Amounts
from matchmaker.matching.terms import Policy
from matchmaker.shards import questions, wire
from matchmaker.shards.cluster import Cluster, Future

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SMALL: Final = 1 << 14
"""Bytes of jobs that go with each question; more are scattered to the workers once."""


class Asked:
    """Shards by number, with what all questions of a cycle share."""

    def __init__(
        self, cluster: Cluster, shards: Sequence[tuple[str, Future]], policy: Policy
    ) -> None:
        self._cluster = cluster
        self._shards = shards
        self._terms = wire.policy_to_bytes(policy)
        self._jobs: Any = b""

    @property
    def count(self) -> int:
        """How many shards there are."""
        return len(self._shards)

    def begin(self, jobs: Sequence[ClassAd]) -> None:
        """Takes the first job of each kind, which ``offers`` names by its place."""
        self._jobs = self._spread(jobs)

    def _spread(self, jobs: Sequence[ClassAd]) -> Any:
        data = wire.ads_to_bytes(jobs)
        return data if len(data) <= SMALL else self._cluster.scatter(data)

    def offers(
        self, kinds: dict[int, list[tuple[int, int]]], before: dict[int, npt.NDArray[np.int64]]
    ) -> dict[int, questions.Part]:
        """The offers of some shards for some kinds: see ``questions.offers``."""
        some = [self._shards[number] for number in kinds]
        each = [
            (self._jobs, wanted, self._terms, before[number]) for number, wanted in kinds.items()
        ]
        found = self._cluster.ask(some, questions.offers, each)
        return dict(zip(kinds, found, strict=True))

    def standings(
        self,
        jobs: Sequence[ClassAd],
        moments: Sequence[Sequence[int]],
        taken: Sequence[Sequence[tuple[int, Amounts]]],
    ) -> list[list[Standing]]:
        """How all shards stand to jobs that are left idle: see ``questions.standings``."""
        data = self._spread(jobs)
        each = [
            (data, [moment[number] for moment in moments], self._terms, taken[number])
            for number in range(self.count)
        ]
        return self._cluster.ask(self._shards, questions.standings, each)
