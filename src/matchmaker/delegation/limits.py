"""The limits of ``delegation``: what a job that is handed over may weigh in the ledger."""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker.classad.limits import limit


@attrs.frozen(slots=True, kw_only=True)
class Limits:
    """What bounds a row of the ledger, and what is read for one."""

    script: int = limit(16 << 20, "bytes of the script of a job that is handed over")
    ad: int = limit(1 << 20, "characters of its ad")
    environment: int = limit(1 << 20, "characters of its environment")
    words: int = limit(120_000, "characters of all words for the batch system's command")
    seconds: int = limit(10**9, "seconds of its lease, and of each deadline")
    reason: int = limit(1000, "characters of a reason in the ledger")


LIMITS: Final = Limits()
