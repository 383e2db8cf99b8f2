"""The policy's terms on the facts of one snapshot: numbers by kind and by queue, and what is wrong.

A term that has no sound value on a kind counts as 0 there, on the pool as its default; a queue on
which one has none is left out. Each is said. The terms are in :mod:`matchmaker.pilots.policy_ad`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np

from matchmaker.classad import ClassAd
from matchmaker.classad.operators import ascii_fold
from matchmaker.pilots.arrays import Reals
from matchmaker.pilots.policy_ad import TERMS, PolicyAd
from matchmaker.pilots.rates import Rate
from matchmaker.pilots.scene import STATES, Scene

_DEFAULT: Final = PolicyAd()


@attrs.frozen(eq=False)
class Facts:
    """The facts of each kind, or of each queue: a column for each name, a row for each of them.

    Attributes:
        columns: the values by name; all as long.
        folded: the columns by folded name, with the identity of an ad in its place.
    """

    columns: Mapping[str, Sequence[Any]]
    folded: Mapping[str, Sequence[Any]] = attrs.field(init=False)

    @folded.default
    def _folded(self) -> Mapping[str, Sequence[Any]]:
        return {
            ascii_fold(name): [*map(id, column)] if isinstance(column[0], ClassAd) else column
            for name, column in self.columns.items()
            if column
        }

    def __getitem__(self, row: int) -> ClassAd:
        return ClassAd({name: column[row] for name, column in self.columns.items()})


@attrs.frozen(eq=False)
class Values:
    """Evaluates a policy on facts, and notes what went wrong.

    Attributes:
        policy: the policy.
        notes: sentences, each once, in the order in which they came up.
    """

    policy: PolicyAd
    notes: dict[str, None] = attrs.field(factory=dict)

    def pool(self, name: str, facts: ClassAd) -> float:
        """A term of the pool; its default where the policy's has no sound value."""
        term = TERMS[ascii_fold(name)]
        try:
            return self.policy.value(term, facts)
        except ValueError as problem:
            self.notes[f"{problem}; the default counts"] = None
            return _DEFAULT.value(term, facts)

    def each(
        self,
        name: str,
        facts: Facts,
        size: int,
        rows: Iterable[int],
        unsound: Callable[[int, str], object],
    ) -> Reals:
        """A term on some of `size` rows of facts; 0 on others, and where it has no sound value.

        It is evaluated once for all rows on which the facts that it refers to are equal.
        ``unsound`` is called with each row of the latter, and what is wrong there.
        """
        term = TERMS[ascii_fold(name)]
        found = np.zeros(size)
        names = self.policy.reach(term.name)
        columns = [facts.folded[name] for name in facts.folded if names is None or name in names]
        values: dict[tuple[Any, ...] | int, float | str] = {}
        for row in rows:
            key = tuple(column[row] for column in columns) if names is not None else row
            value = values.get(key)
            if value is None:
                try:
                    value = self.policy.value(term, facts[row])
                except ValueError as problem:
                    value = str(problem)
                values[key] = value
            if isinstance(value, str):
                unsound(row, value)
            else:
                found[row] = value
        return found

    def note(self, _: int, problem: str) -> None:
        """Notes that a term counts as 0 for a kind, with the reason; for ``each``."""
        if len(self.notes) < MOST_NOTES:
            self.notes[f"{problem}; it counts as 0"] = None


MOST_NOTES: Final = 100
"""Ten thousand kinds may have as many ways of being undefined."""


def pool_facts(scene: Scene, rates: Mapping[str, Rate]) -> dict[str, Any]:
    """The facts of the pool."""
    counts = np.bincount(scene.pilots.state, minlength=len(STATES)).tolist()
    demand = scene.demand
    return {
        "Waiting": sum(kind.waiting for kind in demand),
        "Running": sum(kind.running for kind in demand),
        "Arrived": sum(kind.arrived for kind in demand),
        "Arrivals": float(sum(rates[kind.key].arrivals for kind in demand)),
        "Pilots": len(scene.pilots.given),
        "Free": sum(counts[:3]),
        "Unmet": 0,
        "Surplus": 0,
        **dict(zip(STATES, counts, strict=True)),
    }


def kind_facts(
    policy: PolicyAd,
    scene: Scene,
    rates: Mapping[str, Rate],
    *,
    response: Sequence[float],
    known: Sequence[bool],
    pool: ClassAd,
) -> Facts:
    """The facts of each kind; ads within them only where the policy refers to them."""
    demand, classes = scene.demand, scene.classes.of.tolist()
    found = [rates[kind.key] for kind in demand]
    columns: dict[str, Sequence[Any]] = {
        "Kind": [kind.key for kind in demand],
        "Group": [kind.group for kind in demand],
        "Waiting": [kind.waiting for kind in demand],
        "Running": [kind.running for kind in demand],
        "Arrived": [kind.arrived for kind in demand],
        "Arrivals": [rate.arrivals for rate in found],
        "Bursts": [rate.bursts for rate in found],
        "Oldest": [float(kind.oldest) for kind in demand],
        "Wall": [float(kind.wall) for kind in demand],
        "Response": [response[number] for number in classes],
        "Known": [known[number] for number in classes],
    }
    if "job" in policy.uses:
        columns["Job"] = [kind.ad for kind in demand]
    if "pool" in policy.uses:
        columns["Pool"] = [pool] * len(demand)
    return Facts(columns)


def queue_facts(policy: PolicyAd, scene: Scene, slots: Reals, pool: ClassAd) -> Facts:
    """The facts of each queue; ads within them only where the policy refers to them."""
    queues = scene.queues
    given, known = queues.given, [queue.estimate for queue in queues.given]
    columns: dict[str, Sequence[Any]] = {
        "Queue": [queue.key for queue in given],
        "Slots": slots.tolist(),
        "Response": queues.response.tolist(),
        "Late": queues.late.tolist(),
        "Wall": [float(queue.wall) for queue in given],
        "Known": [one.median is not None for one in known],
        "Failures": [0.0 if one.failures is None else one.failures for one in known],
        "Streak": [one.streak for one in known],
        "Probing": [one.probing for one in known],
        "Started": [one.started for one in known],
        "Pilots": queues.counts.sum(axis=0).tolist(),
        **dict(zip(STATES, queues.counts.tolist(), strict=True)),
    }
    if "pilot" in policy.uses:
        columns["Pilot"] = [queue.pilot for queue in given]
    if "pool" in policy.uses:
        columns["Pool"] = [pool] * len(given)
    return Facts(columns)
