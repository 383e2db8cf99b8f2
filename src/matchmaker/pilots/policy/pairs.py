"""Which kinds of jobs and which pilots' ads match, both ways: a table that grows with new ads.

Ads are the same objects from cycle to cycle mostly, and what they match does not change while they
do not. They are used in ``decision``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from matchmaker.classad import ClassAd
from matchmaker.matching.pool import Pool

if TYPE_CHECKING:
    import numpy.typing as npt

Bools: TypeAlias = "npt.NDArray[np.bool_]"

MOST: Final = 20_000_000
"""How many pairs are kept; beyond that the table begins anew."""


class Pairs:
    """Remembers which ads match, by the ads themselves: they must not be changed afterwards.

    What is remembered never changes an answer, but for ads that were changed in spite of that.

    >>> job = ClassAd(Requirements=True)
    >>> Pairs().table([job], [ClassAd(), ClassAd(Requirements=False)]).tolist()
    [[True, False]]
    """

    def __init__(self) -> None:
        self._kinds = _Numbered()
        self._pilots = _Numbered()
        self._table: Bools = np.zeros((0, 0), np.bool_)

    def table(self, kinds: Sequence[ClassAd], pilots: Sequence[ClassAd]) -> Bools:
        """Whether each kind's ad (a row) and each pilot's ad (a column) accept each other."""
        if self._kinds.more(kinds) * self._pilots.more(pilots) > MOST:
            self.__init__()  # type: ignore[misc]
        old_kinds, old_pilots = len(self._kinds.ads), len(self._pilots.ads)
        rows, columns = self._kinds.numbers(kinds), self._pilots.numbers(pilots)
        if len(self._kinds.ads) > old_kinds or len(self._pilots.ads) > old_pilots:
            grown = np.zeros((len(self._kinds.ads), len(self._pilots.ads)), np.bool_)
            grown[:old_kinds, :old_pilots] = self._table
            new_kinds, new_pilots = self._kinds.ads[old_kinds:], self._pilots.ads[old_pilots:]
            grown[old_kinds:, :old_pilots] = matched(new_kinds, self._pilots.ads[:old_pilots])
            grown[:, old_pilots:] = matched(self._kinds.ads, new_pilots)
            self._table = grown
        if rows == list(range(len(self._table))) and columns == list(range(self._table.shape[1])):
            return self._table
        return self._table[np.ix_(rows, columns)]


class _Numbered:
    """Ads by identity, numbered as they come; they are held, so that no identity comes again."""

    def __init__(self) -> None:
        self.ads: list[ClassAd] = []
        self._numbers: dict[int, int] = {}

    def more(self, ads: Sequence[ClassAd]) -> int:
        """How many ads there will be with these."""
        known = self._numbers
        return len(known) + len({id(ad) for ad in ads if id(ad) not in known})

    def numbers(self, ads: Sequence[ClassAd]) -> list[int]:
        known = self._numbers
        for ad in ads:
            if id(ad) not in known:
                known[id(ad)] = len(self.ads)
                self.ads.append(ad)
        return [known[id(ad)] for ad in ads]


def matched(kinds: Sequence[ClassAd], pilots: Sequence[ClassAd]) -> Bools:
    """Whether each kind and each pilot match. Kinds are many and alike: they make the pool."""
    found = np.zeros((len(kinds), len(pilots)), np.bool_)
    if kinds and pilots:
        pool = Pool.of_named((str(number), ad) for number, ad in enumerate(kinds))
        for column, matches in enumerate(pool.match_many(pilots)):
            found[matches._row_array, column] = True
    return found
