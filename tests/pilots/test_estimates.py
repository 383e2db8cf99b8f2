"""Estimates of a queue's response from waits, most of which may have been cut short."""

from __future__ import annotations

import math
from random import Random

import pytest

from matchmaker.pilots.policy.estimates import PilotRecord, estimate, quantiles


@pytest.mark.parametrize("median", [90.0, 600.0, 5400.0])
def test_a_queue_whose_pilots_are_cancelled_early_is_known(median: float) -> None:
    chance = Random(3)
    records = []
    for _ in range(200):
        wait = chance.lognormvariate(math.log(median), 0.85)
        cut = chance.uniform(0, 0.8 * median)
        started, ended = (None, cut) if cut < wait else (wait, None)
        records.append(PilotRecord(submitted=0.0, started=started, ended=ended))
    assert sum(one.started is not None for one in records) < 60
    found = estimate(records, 1e6)
    assert found.median == pytest.approx(median, rel=0.35)
    assert found.late == pytest.approx(3 * median, rel=0.35)


def test_a_queue_that_keeps_pilots_waiting_grows_slow() -> None:
    records = [PilotRecord(submitted=0.0, started=60.0), *9 * [PilotRecord(submitted=0.0)]]
    seen = [estimate(records, now).median or 0.0 for now in (120.0, 600.0, 6000.0)]
    assert seen == sorted(set(seen))


def test_a_queue_that_started_nothing_is_unknown() -> None:
    waiting = 5 * [PilotRecord(submitted=0.0, ended=100.0)]
    assert estimate(waiting, 200.0).median is None
    assert quantiles([], (0.5,)) == (None,)


def test_a_quantile_that_is_reached_is_a_wait_that_was_seen() -> None:
    waits = [(float(length), True) for length in range(1, 10)]
    assert quantiles(waits, (0.1, 0.5)) == (1.0, 5.0)


def test_pilots_that_are_queued_at_once_displace_no_start() -> None:
    """As many as a queue takes: what is known of it stays known."""
    started = [PilotRecord(submitted=float(n), started=n + 60.0) for n in range(200)]
    flood = 900 * [PilotRecord(submitted=1000.0)]
    assert estimate([*started, *flood], 1010.0).median == 60.0
    assert estimate([*started, *flood], 1010.0).started == 200
