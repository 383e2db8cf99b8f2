"""How long rounds of jobs take with pilots that run one job, and with pilots that run many.

The model is that of the plan of the PilotFactory (AtlasSoftware, December 2006): a generic pilot
takes one job and ends, so each round of jobs waits for the batch system anew; a startd pilot stays
on its worker node and asks for the next. All times have one unit, whichever; the times of the pilot
script and of fetching the first job are part of the switch. The simulator agrees with the model
if the model's conditions hold: one kind of job, slots that are free, and pilots that outlive
their jobs.
"""

from __future__ import annotations

import math


def generic(rounds: int, switch: float, job: float) -> float:
    """Return the time that rounds of jobs take if each job needs a pilot: k (Tsw + Tj).

    Args:
        rounds: how many jobs each slot runs, one after the other (k); at least 1.
        switch: from a pilot's submission to the start of its job (Tsw).
        job: how long a job runs (Tj).

    Raises:
        ValueError: no round, or a time that is negative or no number.

    >>> generic(3, switch=10, job=60)
    210
    """
    _check(rounds, switch, job)
    return rounds * (switch + job)


def startd(rounds: int, switch: float, job: float, script: float = 0, fetch: float = 0) -> float:
    """Return the time of rounds if pilots stay: Tsw + Tj + (k - 1)(tp' + tpw' + Tj).

    Args:
        rounds: how many jobs each slot runs, one after the other (k); at least 1.
        switch: from a pilot's submission to the start of its first job (Tsw).
        job: how long a job runs (Tj).
        script: how long the pilot script runs for each further job (tp').
        fetch: how long it takes to fetch a further job (tpw').

    Raises:
        ValueError: no round, or a time that is negative or no number.

    >>> startd(3, switch=10, job=60, script=1, fetch=1)
    194
    """
    _check(rounds, switch, job, script, fetch)
    return switch + job + (rounds - 1) * (script + fetch + job)


def gain(rounds: int, switch: float, job: float, script: float = 0, fetch: float = 0) -> float:
    """Return the ratio of both times; 1 for one round, and if nothing takes time.

    Raises:
        ValueError: as :func:`startd`.

    >>> gain(1, switch=10, job=60), gain(1000, switch=60, job=60)
    (1.0, 1.998...)
    """
    less = startd(rounds, switch, job, script, fetch)
    return generic(rounds, switch, job) / less if less else 1.0


def _check(rounds: int, *times: float) -> None:
    if rounds < 1:
        raise ValueError(f"{rounds} rounds; at least 1 is expected")
    for time in times:
        if not 0 <= time < math.inf:
            raise ValueError(f"a time of {time}; a number from 0 is expected")
