"""Chooses the ad that is matched next: one of the owner whose ads have taken least time so far.

So an owner whose ads take long to match slows nobody else. The ads of one owner are matched in the
order of their arrival, new ones before those that are matched again. ``pairing`` chooses the slot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import Final

import attrs

from matchmaker.classad import ClassAd

_MOST_SPENT: Final = 1000
"""How many owners whose turn has passed are remembered at least."""


@attrs.define(slots=True, eq=False)
class _Owner:
    waiting: dict[str, ClassAd] = attrs.field(factory=dict)
    new: deque[str] = attrs.field(factory=deque)
    again: deque[str] = attrs.field(factory=deque)
    # Slots have come since they were begun to be looked at again.
    more: bool = False

    def take(self) -> str | None:
        """The next id that still waits; None if there is none."""
        for ids in (self.new, self.again):
            while ids:
                id_ = ids.popleft()
                if id_ in self.waiting:
                    return id_
        if self.more:
            self.more = False
            self.again.extend(self.waiting)
            return self.take()
        return None


class Turns:
    """The waiting ads, by owner.

    >>> turns, now = Turns(), iter(range(9))
    >>> for owner, id_ in [("bad", "1"), ("bad", "2"), ("good", "3")]:
    ...     turns.enter(owner, id_, ClassAd())
    >>> [id_ for id_, _ in turns.turn(lambda: next(now), 5)]
    ['1', '3', '2']
    """

    def __init__(self) -> None:
        self._owners: dict[str, _Owner] = {}
        self._due: list[tuple[float, int, str]] = []
        self._listed: set[str] = set()
        self._spent: dict[str, float] = {}
        self._number = 0
        # What the last owner in turn had spent by then: who comes begins there.
        self._now = 0.0

    def enter(self, owner: str, id_: str, ad: ClassAd) -> None:
        """Enters an ad, which is matched when it is its owner's turn."""
        mine = self._owners.setdefault(owner, _Owner())
        mine.waiting[id_] = ad
        mine.new.append(id_)
        self._list(owner)

    def leave(self, owner: str, id_: str) -> None:
        """Removes an ad, if it is there."""
        mine = self._owners.get(owner)
        if mine is not None:
            mine.waiting.pop(id_, None)
            if not mine.waiting:
                del self._owners[owner]

    def ad(self, owner: str, id_: str) -> ClassAd | None:
        """A waiting ad; None if it does not wait."""
        mine = self._owners.get(owner)
        return None if mine is None else mine.waiting.get(id_)

    @property
    def due(self) -> bool:
        """Whether an ad is to be matched."""
        while self._due and not self._wants(self._due[0][2]):
            self._unlist()
        return bool(self._due)

    def all_again(self) -> None:
        """All ads are to be matched again, because slots have come."""
        for owner, mine in self._owners.items():
            mine.more = True
            self._list(owner)

    def none(self) -> None:
        """No ad is to be matched before ``all_again``, because no slot is left."""
        for mine in self._owners.values():
            mine.new.clear()
            mine.again.clear()
            mine.more = False

    def turn(self, clock: Callable[[], float], seconds: float) -> Generator[tuple[str, ClassAd]]:
        """The ads that are matched now, each with its id, until a number of seconds is over.

        The time until the next ad is taken is charged to the owner of the ad.

        Args:
            clock: the processor time of who looks.
            seconds: how much of it this turn may take; one ad may take more.
        """
        begun = last = clock()
        while self.due and last - begun < seconds:
            owner = self._unlist()
            mine = self._owners[owner]
            self._now = max(self._now, self._spent[owner])
            id_ = mine.take()
            if id_ is None:
                continue
            try:
                yield id_, mine.waiting[id_]
            finally:
                now = clock()
                self._spent[owner] += now - last
                last = now
                self._list(owner)

    def _wants(self, owner: str) -> bool:
        mine = self._owners.get(owner)
        return mine is not None and bool(mine.new or mine.again or mine.more)

    def _unlist(self) -> str:
        owner = heappop(self._due)[2]
        self._listed.discard(owner)
        return owner

    def _list(self, owner: str) -> None:
        if owner in self._listed or not self._wants(owner):
            return
        self._listed.add(owner)
        if len(self._spent) > _MOST_SPENT + 2 * len(self._listed):
            self._spent = {
                name: amount for name, amount in self._spent.items()
                if amount > self._now or name in self._listed
            }  # fmt: skip
        self._spent[owner] = max(self._spent.get(owner, 0.0), self._now)
        self._number += 1
        heappush(self._due, (self._spent[owner], self._number, owner))
