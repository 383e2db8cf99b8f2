"""What matching with a pool may take: steps and seconds of a question, bytes that are kept.

How steps are counted is in ``columns.step_budget``. What a single evaluation may take is in
``classad.limits``; thresholds at which another way is taken are in the modules that take it.
"""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker.classad.limits import limit


@attrs.frozen(slots=True)
class Limits:
    """What a pool may take at most. Each field says what it bounds."""

    flat: int = limit(5_000_000, "steps by columns of a question about all ads")
    each: int = limit(2_000, "and more steps for each ad")
    seconds: float = limit(2.0, "seconds of processor time of all regular expressions of a"
                           " question, before each evaluation has only a little")  # fmt: skip
    least: float = limit(0.002, "seconds of regular expressions that each evaluation has then")
    second: int = limit(2_000_000, "steps that a second in regular expressions counts")
    kept: int = limit(1 << 24, "bytes of masks and ranks that are kept between jobs")
    kept_each: int = limit(1 << 8, "and more bytes for each ad")


LIMITS: Final = Limits()

UNKEPT: Final = attrs.evolve(LIMITS, kept=0)
"""The same, where nothing is kept for other jobs."""
