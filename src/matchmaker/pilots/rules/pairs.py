"""Which queues can run which kinds of jobs, each pair of ads matched once.

The ads of kinds and queues stay the same objects from cycle to cycle, so what was matched is
remembered by object; what a pair gives never depends on what was asked before.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from matchmaker.classad import ClassAd
from matchmaker.matching import match
from matchmaker.pilots.snapshot import Demand, Queue

MAX_PAIRS = 1_000_000


@attrs.define(slots=True, eq=False)
class Pairs:
    """Pairs of ads that were matched. They hold the ads, so that no other gets their identity."""

    _matched: dict[tuple[int, int], tuple[bool, ClassAd, ClassAd]] = attrs.field(factory=dict)

    def fits(self, kind: Demand, queue: Queue) -> bool:
        """Whether a pilot that starts in a queue could run a job of a kind."""
        if queue.closed or queue.wall < kind.wall:
            return False
        pair = id(kind.ad), id(queue.pilot)
        found = self._matched.get(pair)
        if found is None:
            if len(self._matched) >= MAX_PAIRS:
                self._matched.clear()
            found = match(kind.ad, queue.pilot).matched, kind.ad, queue.pilot
            self._matched[pair] = found
        return found[0]

    def queues(self, kind: Demand, queues: Iterable[Queue]) -> list[Queue]:
        """The queues that a kind of job can run in."""
        return [queue for queue in queues if self.fits(kind, queue)]
