"""The smallest sets of conditions that nothing satisfies together, found exactly.

The conditions that a row satisfies are the bits of its signature. A set conflicts if no signature
has all of its bits, and is minimal if each of its proper subsets is in some signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from matchmaker.matching.explanation.limits import LIMITS

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_CONDITIONS: Final = 64


def minimal_conflicts(signatures: npt.NDArray[np.uint64], conditions: int) -> list[tuple[int, ...]]:
    """The minimal sets, as places of bits, the smaller first.

    All those of up to ``LIMITS.conflict`` conditions are found, unless that is more work than the
    limits allow; what is found is minimal even then. `signatures` are those of the rows, in any
    order and number; `conditions` is how many bits they have, 64 at most.

    >>> rows = np.array([0b0011, 0b0101, 0b0110], np.uint64)
    >>> minimal_conflicts(rows, 4)
    [(3,), (0, 1, 2)]
    """
    rows = np.unique(signatures)
    if not len(rows) or int(rows[-1]) == (1 << conditions) - 1:
        return []
    found: list[tuple[int, ...]] = []
    known: list[int] = []
    work = 0
    # Sets that some row satisfies, as places and as bits.
    level: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for size in range(1, LIMITS.conflict + 1):
        larger = []
        for members, bits in level:
            work += len(rows) + conditions
            if work > LIMITS.conflict_work or len(found) >= LIMITS.conflicts:
                return found
            having = rows[rows & np.uint64(bits) == np.uint64(bits)]
            together = int(np.bitwise_or.reduce(having))
            for place in range(members[-1] + 1 if members else 0, conditions):
                joined = bits | 1 << place
                if together >> place & 1:
                    larger.append(((*members, place), joined))
                elif not any(one & joined == one for one in known):
                    found.append((*members, place))
                    known.append(joined)
        level = larger if size < LIMITS.conflict else []
    return found
