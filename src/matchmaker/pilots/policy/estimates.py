"""Estimate from records how fast a queue starts pilots, and how often it loses them.

An :class:`Estimate` is made of a queue's :class:`PilotRecord` values. A wait that has not ended
counts as a wait of at least that length (the product-limit estimate of Kaplan and Meier), so that a
queue which keeps pilots waiting does not look quick.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Final

import attrs

RECENT: Final = 200
"""How many starts and losses of a queue count, the latest: a queue's load changes within days."""
MOST: Final = 6
"""How many times as many records count in all, with those of pilots that wait or were cancelled."""


@attrs.frozen(slots=True, kw_only=True)
class Estimate:
    """The response and the losses of a queue by its history; all may be unknown.

    Attributes:
        median: half of the pilots start within these seconds; None if that is unknown.
        late: nine of ten pilots start within these seconds; None if that is unknown.
        at_least: the longest wait that was seen, in seconds; an unknown median is no less.
        started: how many pilots the figures rest on.
        failures: the share of pilots that failed to start or died early, 0 to 1; None if
            that is unknown.
        streak: how many pilots failed in a row, up to now.
        probing: whether pilots are held back until one that was sent as a probe comes back.
    """

    median: float | None = None
    late: float | None = None
    at_least: float = 0.0
    started: int = 0
    failures: float | None = None
    streak: int = 0
    probing: bool = False


@attrs.frozen(slots=True, kw_only=True)
class PilotRecord:
    """The fate of one pilot of a queue. Times are seconds from any one origin.

    Attributes:
        submitted: when it was submitted.
        started: when it started; None if it has not.
        ended: when it ended or was cancelled; None if it has not.
        failed: whether the queue lost it: it was refused, ended without having started, or died
            without having asked for work. A pilot that was cancelled, or that ended for lack of
            work, did not fail.
    """

    submitted: float
    started: float | None = None
    ended: float | None = None
    failed: bool = False


def estimate(
    records: Iterable[PilotRecord], now: float, *, recent: int = RECENT, streak: int = 3
) -> Estimate:
    """Estimate the response and the losses of a queue from its records at a time.

    Args:
        records: the queue's pilots, in the order of their submission.
        now: the time, by the clock of the records.
        recent: how many starts and losses count; see :func:`latest`.
        streak: after how many failures in a row pilots are held back but for a probe.

    Waits below 0, of clocks that were set back, count as 0. A quantile that the waits do not
    reach is None: it is unknown, and not the longest wait that was seen. The pilot that comes back
    from a queue that is being probed ends the probing.

    >>> started = [PilotRecord(submitted=0, started=60.0 * n) for n in (1, 2, 3)]
    >>> waiting = PilotRecord(submitted=0)
    >>> estimate(started, 600).median, estimate([*started, waiting, waiting], 600).median
    (120.0, 180.0)
    >>> estimate([waiting, waiting], 600).median is None
    True
    """
    last = latest(list(records), recent)
    waits = [_wait(record, now) for record in last]
    median, late = quantiles(waits, (0.5, 0.9))
    settled = [record for record in last if record.failed or record.started is not None]
    settled.sort(key=_settled_at)
    lost = sum(record.failed for record in settled)
    row = 0
    for record in reversed(settled):
        if not record.failed:
            break
        row += 1
    return Estimate(
        median=median,
        late=late,
        at_least=max((length for length, _ in waits), default=0.0),
        started=sum(started for _, started in waits),
        failures=lost / len(settled) if settled else None,
        streak=row,
        probing=row >= streak,
    )


def latest(records: Sequence[PilotRecord], recent: int = RECENT) -> Sequence[PilotRecord]:
    """Return the last records that hold `recent` starts and losses, at most ``MOST`` times that.

    Pilots that are queued at once, in any number, do not displace the starts that are known.

    >>> records = [PilotRecord(submitted=0, started=60), *9 * [PilotRecord(submitted=100)]]
    >>> len(latest(records, 2)), len(latest(5 * records, 2))
    (10, 12)
    """
    known, first = 0, max(len(records) - MOST * recent, 0)
    for place in range(len(records) - 1, first - 1, -1):
        known += records[place].started is not None or records[place].failed
        if known >= recent:
            return records[place:]
    return records[first:]


def _wait(record: PilotRecord, now: float) -> tuple[float, bool]:
    """Return the seconds that a pilot waited, and whether it started then or waited longer."""
    if record.started is not None:
        return max(record.started - record.submitted, 0.0), True
    until = record.ended if record.ended is not None else now
    return max(until - record.submitted, 0.0), False


def _settled_at(record: PilotRecord) -> float:
    """Return when a pilot was known to have failed, or to have started."""
    if record.failed and record.ended is not None:
        return record.ended
    return record.started if record.started is not None else record.submitted


def quantiles(
    waits: Iterable[tuple[float, bool]], levels: tuple[float, ...]
) -> tuple[float | None, ...]:
    """Estimate quantiles of waits of which some have not ended, by the product limit.

    Args:
        waits: for each its length in seconds, and whether it ended then; else it was longer.
        levels: which quantiles, each above 0 and below 1, rising.

    The estimate ends where fewer waits than the square root of all are as long: the steps beyond
    are chance. Quantiles beyond its end are those of the log-normal wait with a sigma of ``SIGMA``
    that has the same share there: if most waits are cut short, as those of pilots that are
    cancelled when another one starts, their beginning still tells which queue is quick. None if no
    wait has ended. Source: E. L. Kaplan, P. Meier, Nonparametric Estimation from
    Incomplete Observations, 1958.

    >>> quantiles([(1, True), (2, False), (3, True), (4, True)], (0.2, 0.5))
    (1, 3)
    >>> [round(each) for each in quantiles([(60, True), *9 * [(90, False)]], (0.5, 0.9))]
    [268, 795]
    """
    ended, all_ = Counter[float](), Counter[float]()
    for length, has_ended in waits:
        if math.isfinite(length):
            all_[length] += 1
            ended[length] += has_ended
    left, at_risk, least = 1.0, all_.total(), math.sqrt(all_.total())
    found: list[float | None] = []
    wanted = list(levels)
    end = 0.0
    for length in sorted(all_):
        if at_risk < least:
            break
        if ended[length]:
            left *= 1 - ended[length] / at_risk
        # Rounding must not move a quantile to the next wait.
        while wanted and left <= 1 - wanted[0] + 1e-9:
            found.append(length)
            wanted.pop(0)
        at_risk -= all_[length]
        end = length
    if left == 1:
        return (*found, *(None for _ in wanted))
    normal = NormalDist()
    return (
        *found,
        *(
            end * math.exp(SIGMA * (normal.inv_cdf(level) - normal.inv_cdf(1 - left)))
            for level in wanted
        ),
    )


SIGMA: Final = 0.85
"""The deviation of the logarithm of waits if more is not known: nine of ten end within three
medians."""
