"""Masks of clauses and ranks of rows that one job leaves for the next.

A clause has the same mask for two jobs whose attributes agree as far as it depends on them, until a
column that it depends on changes; so has a rank. A mask takes one byte a row, ranks take eight.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeAlias

import attrs
import numpy.typing as npt

from matchmaker._limits import POOL_LIMITS as LIMITS
from matchmaker._limits import PoolLimits
from matchmaker.classad.cache import BoundedCache

Stamps: TypeAlias = "tuple[tuple[str, int], ...]"
"""The names and versions of columns; where rows are gone also how many live, without a name."""

_OBJECTS: Final = 500
"""Bytes of a ``Kept`` with its arrays, without the elements of the arrays."""

_STAMP: Final = 200
"""Bytes of the name and version of a column."""


@attrs.frozen(slots=True, eq=False)
class Kept:
    """A mask or ranks, the versions of the columns that it depends on, and the steps that it took.

    ``problem`` is the reason why it is ERROR for some rows, if something took too much.
    """

    stamps: Stamps
    array: npt.NDArray[Any]
    work: int
    problem: str | None

    @property
    def bytes(self) -> int:
        """The bytes with those of the arrays."""
        return _OBJECTS + self.array.nbytes + _STAMP * len(self.stamps)


class Cache:
    """The masks and ranks of one pool, bounded in bytes: ``limits.kept``, and more for each row.

    With 0 bytes it keeps nothing. ``limits`` also bound what a question of the pool may take.
    """

    def __init__(self, limits: PoolLimits = LIMITS) -> None:
        self.limits = limits
        self._kept: BoundedCache[Hashable, Kept] = BoundedCache(
            "masks and ranks of a pool", limits.kept
        )

    def get(self, key: Hashable, stamps: Stamps, size: int) -> Kept | None:
        """What is kept under a key, or None if there is nothing or a column has changed."""
        kept = self._kept.get(key)
        if kept is not None and kept.stamps == stamps and len(kept.array) == size:
            return kept
        return None

    def put(self, key: Hashable, kept: Kept) -> None:
        """Keep a mask or ranks; all go when they take too much."""
        flat, each = self.limits.kept, self.limits.kept_each
        self._kept.most = flat and flat + each * len(kept.array)
        self._kept.put(key, kept, kept.bytes)

    def __len__(self) -> int:
        return len(self._kept)
