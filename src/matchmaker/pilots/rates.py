"""How fast jobs of each kind come and end, remembered from decision to decision.

The memory is plain JSON values: it goes out with a decision and comes back with the next snapshot.
What is read of it is checked, since a file lies between. How rates are used is in
:mod:`matchmaker.pilots.policy`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from matchmaker.classad.values import is_number
from matchmaker.pilots.snapshot import Demand

FORGOTTEN: Final = 1e-7
"""A rate below this many jobs a second, one in four months, is none."""


@attrs.frozen(slots=True)
class Rate:
    """What one kind's past says.

    Attributes:
        arrivals: jobs that come, a second.
        bursts: the jobs that come together, on average over jobs: 1 where each comes alone.
        ends: the share of the running jobs that end, a second.
        jobs: how many waited or ran at the decision before.
        running: how many of these ran.
    """

    arrivals: float = 0.0
    bursts: float = 1.0
    ends: float = 0.0
    jobs: int = 0
    running: int = 0


@attrs.frozen(slots=True)
class Clock:
    """The time since the decision before.

    Attributes:
        elapsed: seconds, at least 0; None for a first decision and where the clock jumped.
        jumped: why nothing is concluded from the time; empty for a sound clock.
    """

    elapsed: float | None
    jumped: str = ""


def clock(now: float, before: object, most: float) -> Clock:
    """Compares the time with that of the decision before.

    >>> clock(100, 40, 3600), clock(100, None, 3600)
    (Clock(elapsed=60.0, jumped=''), Clock(elapsed=None, jumped=''))
    >>> clock(40, 100, 3600).jumped
    'the clock went back by 60 s'
    """
    last = number(before)
    if last is None:
        return Clock(None)
    elapsed = now - last
    if not math.isfinite(now):
        return Clock(None, f"the time is {now}")
    if elapsed < 0:
        return Clock(None, f"the clock went back by {-elapsed:g} s")
    if elapsed > most:
        return Clock(None, f"{elapsed:g} s went by since the last cycle, more than {most:g}")
    return Clock(elapsed)


def number(held: object) -> float | None:
    """A finite number from the memory; None for anything else."""
    return float(held) if is_number(held) and math.isfinite(held) else None


def remembered(held: object) -> dict[str, Rate]:
    """The rates in a memory, by kind; what is not as ``kept`` writes it is left out."""
    found = {}
    for kind, values in held.items() if isinstance(held, Mapping) else ():
        if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 5:
            continue
        numbers = [each for value in values if (each := number(value)) is not None]
        if len(numbers) == len(values) and min(numbers) >= 0:
            arrivals, bursts, ends, jobs, running = numbers
            found[str(kind)] = Rate(arrivals, bursts, ends, int(jobs), int(running))
    return found


def kept(rates: Mapping[str, Rate]) -> dict[str, list[float]]:
    """Rates as JSON values."""
    return {kind: list(attrs.astuple(rate)) for kind, rate in rates.items()}


def updated(
    before: Mapping[str, Rate], demand: Sequence[Demand], elapsed: float | None, half: float
) -> dict[str, Rate]:
    """The rates after a cycle.

    Args:
        before: the rates at the decision before.
        demand: the kinds of jobs now.
        elapsed: seconds since then; None leaves the rates as they are.
        half: seconds after which what was seen weighs half.

    A job ended if it neither waits nor runs any more: of those that there were, and that came, the
    ones that are missing. Kinds that are no longer in the demand are forgotten as they fade.
    """
    if not elapsed:
        rates = {
            one.key: attrs.evolve(
                before.get(one.key, Rate()), jobs=one.waiting + one.running, running=one.running
            )
            for one in demand
        }
        gone = {
            kind: rate
            for kind, rate in before.items()
            if kind not in rates and rate.arrivals > FORGOTTEN
        }
        return {**gone, **rates}
    weight = 0.5 ** (elapsed / half) if half > 0 else 0.0
    rates = {}
    for one in demand:
        rate = before.get(one.key, Rate())
        jobs, came = one.waiting + one.running, max(one.arrived, 0)
        ended = max(rate.jobs + came - jobs, 0)
        hazard = ended / (rate.running * elapsed) if rate.running else None
        # What these arrivals weigh in the mean burst: by their number, as each job counts.
        share = came / (came + rate.arrivals / max(1 - weight, 1e-9)) if came else 0.0
        rates[one.key] = Rate(
            weight * rate.arrivals + (1 - weight) * came / elapsed,
            share * came + (1 - share) * rate.bursts,
            rate.ends if hazard is None else weight * rate.ends + (1 - weight) * hazard,
            jobs,
            one.running,
        )
    for kind, rate in before.items():
        if kind not in rates and weight * rate.arrivals > FORGOTTEN:
            rates[kind] = Rate(weight * rate.arrivals, rate.bursts, rate.ends)
    return rates
