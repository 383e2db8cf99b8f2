"""What reduction and the bounds of a residual may take. Ads come from strangers.

What evaluating a fact may take is in ``classad.limits``.
"""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker.classad.limits import limit


@attrs.frozen(slots=True)
class Limits:
    """What one reduction, or the bounds of one condition, may take at most."""

    steps: int = limit(100_000, "steps of a reduction: parts that facts are put into")
    evaluated: int = limit(2_000_000, "steps of evaluating all facts of a reduction; of one fact,"
                           " half of them")  # fmt: skip
    boxes: int = limit(32, "alternatives that bounds keep; beyond them, the hull and the"
                       " condition itself")  # fmt: skip
    clause_steps: int = limit(50_000, "comparisons of alternatives for one clause; for all"
                              " clauses, twice as many")  # fmt: skip
    united: int = limit(200_000, "comparisons of alternatives of different clauses; beyond them,"
                        " the hull and the clause itself")  # fmt: skip


LIMITS: Final = Limits()
