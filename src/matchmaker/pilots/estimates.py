"""How fast a queue starts pilots, and how often it loses them, from what was recorded.

A :class:`Estimate` is made of a queue's recorded events; a wait that has not ended counts too
(censored), so that a queue which eats pilots does not look quick. What is decided from it is in
:mod:`matchmaker.pilots.policy`.
"""

from __future__ import annotations

import attrs


@attrs.frozen(slots=True, kw_only=True)
class Estimate:
    """What a queue's history says; all of it may be unknown.

    Attributes:
        median: half of the pilots start within these seconds; None where it is unknown.
        late: nine of ten pilots start within these seconds; None where it is unknown.
        started: how many pilots the figures rest on.
        failures: the share of pilots that failed to start or died early, 0 to 1; None where it is
            unknown.
        probing: whether pilots are held back until one that was sent as a probe comes back.
    """

    median: float | None = None
    late: float | None = None
    started: int = 0
    failures: float | None = None
    probing: bool = False
