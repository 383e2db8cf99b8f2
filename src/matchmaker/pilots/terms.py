"""The policy's terms on the facts of one snapshot: numbers by kind and by queue, and what is wrong.

A term that has no sound value on a kind counts as 0 there, on the pool as its default; a queue on
which one has none is left out. Each is said. The terms are in :mod:`matchmaker.pilots.policy_ad`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from matchmaker.classad import ClassAd
from matchmaker.classad.operators import ascii_fold
from matchmaker.pilots.policy_ad import TERMS, Policy
from matchmaker.pilots.rates import Rate
from matchmaker.pilots.scene import Scene

if TYPE_CHECKING:
    import numpy.typing as npt

    Reals = npt.NDArray[np.float64]

STATES: Final = ("Idle", "Starting", "Queued", "Busy", "Draining")
"""The facts that count pilots, by the number of the state."""

_DEFAULT: Final = Policy()


@attrs.frozen(eq=False)
class Facts:
    """The facts of each kind, or of each queue, as ads that are made when they are first used."""

    make: Callable[[int], ClassAd]
    made: dict[int, ClassAd] = attrs.field(factory=dict)

    def __getitem__(self, row: int) -> ClassAd:
        found = self.made.get(row)
        if found is None:
            found = self.made[row] = self.make(row)
        return found


@attrs.frozen(eq=False)
class Values:
    """Evaluates a policy on facts, and notes what went wrong.

    Attributes:
        policy: the policy.
        notes: sentences, each once, in the order in which they came up.
    """

    policy: Policy
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

        ``unsound`` is called with each row of the latter, and what is wrong there.
        """
        term = TERMS[ascii_fold(name)]
        found = np.zeros(size)
        constant = ascii_fold(name) in self.policy.constants
        value: float | str | None = None
        for row in rows:
            if value is None or not constant:
                try:
                    value = self.policy.value(term, facts[row])
                except ValueError as problem:
                    value = str(problem)
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
    policy: Policy,
    scene: Scene,
    rates: Mapping[str, Rate],
    *,
    response: Sequence[float],
    known: Sequence[bool],
    pool: ClassAd,
) -> Facts:
    """The facts of each kind; ads within them only where the policy refers to them."""
    classes = scene.classes.of.tolist()

    def make(row: int) -> ClassAd:
        kind, number = scene.demand[row], classes[row]
        rate = rates[kind.key]
        facts: dict[str, Any] = {
            "Kind": kind.key,
            "Group": kind.group,
            "Waiting": kind.waiting,
            "Running": kind.running,
            "Arrived": kind.arrived,
            "Arrivals": rate.arrivals,
            "Bursts": rate.bursts,
            "Oldest": float(kind.oldest),
            "Wall": float(kind.wall),
            "Response": response[number],
            "Known": known[number],
        }
        if "job" in policy.uses:
            facts["Job"] = kind.ad
        if "pool" in policy.uses:
            facts["Pool"] = pool
        return ClassAd(facts)

    return Facts(make)


def queue_facts(policy: Policy, scene: Scene, slots: Reals, pool: ClassAd) -> Facts:
    """The facts of each queue; ads within them only where the policy refers to them."""

    def make(row: int) -> ClassAd:
        queues = scene.queues
        queue, counts = queues.given[row], queues.counts[:, row].tolist()
        known = queue.estimate
        facts: dict[str, Any] = {
            "Queue": queue.key,
            "Slots": float(slots[row]),
            "Response": float(queues.response[row]),
            "Late": float(queues.late[row]),
            "Wall": float(queue.wall),
            "Known": known.median is not None,
            "Failures": 0.0 if known.failures is None else known.failures,
            "Streak": known.streak,
            "Probing": known.probing,
            "Started": known.started,
            "Pilots": sum(counts),
            **dict(zip(STATES, counts, strict=True)),
        }
        if "pilot" in policy.uses:
            facts["Pilot"] = queue.pilot
        if "pool" in policy.uses:
            facts["Pool"] = pool
        return ClassAd(facts)

    return Facts(make)
