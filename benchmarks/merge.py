"""A cycle over more shards than a machine has cores: the merge by its real code, shards by a model.

    python benchmarks/py [--slots 10000000] [--kinds 1000] [--each 100]

What happens in one place (fair share, placing, asking again) is done and timed here. The shards are
replaced: what they offer comes from sorted arrays, and takes no time here; what it would take is
counted by the measured times of docs/scale.md, one shard a core, with the bytes on the network. A
row for 16, 64 and 256 cores: ``shards`` and ``network`` are modelled, ``place`` is measured,
``rounds`` is how often shards were asked, ``MB`` what they sent, ``memory`` the most that this
process had.
"""

from __future__ import annotations

import argparse
import resource
import runpy
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

import matchmaker as mm
from matchmaker.matching.assignment import NegotiationCycle, PartReason
from matchmaker.matching.candidates import Amounts
from matchmaker.matching.columns.store import View
from matchmaker.shards import questions
from matchmaker.shards.shard import NUMBERS, slots_to_bytes
from matchmaker.shards.supply import ShardedSupply, outline_of

KIND = 1.0e-3
"""Seconds for a kind of jobs in a shard."""
PAIR = 14e-9
"""Seconds for a slot and a kind."""
ROUND = 2e-3
"""Seconds for a question to all shards and back, without what they send."""
NETWORK = 1.25e9
"""Bytes a second that one place receives: 10 gigabit."""
LOOKED = 4096
"""How many of the best slots are looked through at once."""

Ints = npt.NDArray[np.int64]


@attrs.define(eq=False)
class Modelled:
    """The slots of a shard: a pool, and what jobs of the example ask for, the best first."""

    number: int
    pool: mm.Pool
    order: Ints
    memory: Ints
    kflops: Ints
    cpus: Ints
    keys: list[str]

    @classmethod
    def of(cls, number: int, pool: mm.Pool) -> Modelled:
        """The shard of a pool of the example's slots."""
        table = pool.to_arrow()

        def column(name: str) -> npt.NDArray[Any]:
            found: npt.NDArray[Any] = table[name].to_numpy()
            return found

        free = (column("Arch") == "X86_64") & (column("State") == "Unclaimed")
        rows = np.flatnonzero(free)
        keys = column("Name")
        best = np.lexsort((keys[rows].astype(str), -column("KFlops")[rows]))
        order = rows[best]
        return cls(
            number, pool, order, column("Memory")[order], column("KFlops")[order],
            column("Cpus")[order], keys[order].tolist(),
        )  # fmt: skip

    def offers(
        self, wanted: Sequence[tuple[mm.ClassAd, int]], clean: npt.NDArray[np.bool_]
    ) -> questions.Part:
        """See ``questions.offers``; `clean` says which places of the order were never offered."""
        chosen: list[int] = []
        ahead: list[tuple[float, str] | None] = []
        for job, count in wanted:
            took = self._walk(job, count, clean)
            clean[took] = False
            chosen += took
        for job, _ in wanted:
            first = self._walk(job, 1, clean)
            ahead.append((-float(self.kflops[first[0]]), self.keys[first[0]]) if first else None)
        rows = np.sort(self.order[chosen])
        data = slots_to_bytes(self.pool.snapshot()._view, "Name", rows)
        return questions.Part(data, (self.number << NUMBERS) + rows, ahead)

    def _walk(self, job: mm.ClassAd, count: int, clean: npt.NDArray[np.bool_]) -> list[int]:
        memory, cpus = (int(str(job.eval(name))) for name in ("RequestMemory", "RequestCpus"))
        least = 500_000 + 1000 * ((memory - 512) % 97)
        found: list[int] = []
        for start in range(0, len(self.order), LOOKED):
            some = slice(start, start + LOOKED)
            fits = clean[some] & (self.memory[some] >= memory) & (self.cpus[some] >= cpus)
            found += (start + np.flatnonzero(fits)[: count - len(found)]).tolist()
            if len(found) == count or self.kflops[some][-1] < least:
                break
        return [place for place in found if self.kflops[place] >= least]


class Times:
    """The shards of a cycle, as ``Asked`` has them, and what they would take."""

    def __init__(self, shards: list[Modelled]) -> None:
        self._shards = shards
        self._jobs: Sequence[mm.ClassAd] = ()
        self._clean = [np.ones(len(shard.order), np.bool_) for shard in shards]
        self.aside = self.own = self.network = 0.0
        self.sent = 0

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._shards)

    def begin(self, jobs: Sequence[mm.ClassAd]) -> None:
        """See ``Asked``."""
        self._jobs = jobs

    def offers(
        self, kinds: dict[int, list[tuple[int, int]]], before: dict[int, Ints]
    ) -> dict[int, questions.Part]:
        """See ``Asked``."""
        del before  # Those are the places that are no longer clean.
        began = time.perf_counter()
        found = {}
        for shard, wanted in kinds.items():
            jobs = [(self._jobs[place], count) for place, count in wanted]
            found[shard] = self._shards[shard].offers(jobs, self._clean[shard])
        self.own += max(
            len(wanted) * (KIND + PAIR * len(self._shards[shard].pool))
            for shard, wanted in kinds.items()
        )
        sent = sum(len(part.slots) + 8 * len(part.numbers) for part in found.values())
        self.sent += sent
        self.network += ROUND + sent / NETWORK
        self.aside += time.perf_counter() - began
        return found

    def standings(
        self,
        jobs: Sequence[mm.ClassAd],
        moments: Sequence[Sequence[int]],
        taken: Sequence[Sequence[tuple[int, Amounts]]],
    ) -> list[list[PartReason]]:
        """See ``Asked``: for jobs that nothing is left for."""
        raise RuntimeError(f"{len(jobs)} jobs are left idle; give more slots or fewer jobs")


def row(cores: int, slots: int, jobs: list[mm.ClassAd], made: Callable[..., mm.Pool]) -> str:
    """A cycle on one shard a core."""
    each = slots // cores
    shards = [Modelled.of(number, made(number * each, each)) for number in range(cores)]
    dynamic = [
        {name: tuple(map(str, column.dynamic())) for name, column in view.columns.items()}
        for view in (shard.pool.snapshot()._view for shard in shards)
    ]
    outline: View = outline_of(dynamic)
    asked = Times(shards)
    policy = mm.Policy()
    began = time.perf_counter()
    supply = ShardedSupply(asked, outline, each * cores, policy)  # type: ignore[arg-type]
    found = NegotiationCycle(supply, jobs, policy).run()
    place = time.perf_counter() - began - asked.aside
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return (
        f"{cores:5} {asked.own:8.1f} {asked.network:8.1f} {place:8.1f} {supply.rounds:7}"
        f" {asked.sent / 1e6:7.1f} {memory:7.1f} {len(found.placed):8,}"
    )


def main() -> None:
    """Prints a row for each number of cores."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--slots", type=int, default=10_000_000)
    asked.add_argument("--kinds", type=int, default=1000)
    asked.add_argument("--each", type=int, default=100)
    given = asked.parse_args()
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "ten_million.py"))
    jobs = list(example["jobs"](given.kinds, given.each))
    print(f"{given.slots:,} slots, {len(jobs):,} jobs of {given.kinds:,} kinds; seconds")
    print("cores   shards  network    place  rounds      MB  GB here   placed")
    for cores in (16, 64, 256):
        print(row(cores, given.slots, jobs, example["slots"]), flush=True)


if __name__ == "__main__":
    main()
