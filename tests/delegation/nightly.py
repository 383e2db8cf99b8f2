"""A million random steps of delegators over a world that goes wrong, with a fresh seed.

``python -m tests.delegation.nightly [--steps N] [--seed N]``; a printed seed repeats a run.
The search through every interleaving follows, with longer leases than in each test run.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.delegation.machine import FIGURES, Transfers

AT_ONCE = 500


def main() -> int:
    """Runs schedules until there were as many steps as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    wanted = parser.parse_args()
    first = wanted.seed if wanted.seed is not None else secrets.randbelow(2**32)
    sys.stdout.write(f"delegation: seed {first}\n")
    begun = time.monotonic()
    many = settings(
        max_examples=AT_ONCE, stateful_step_count=50, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    number = first
    while FIGURES["steps"] < wanted.steps:
        run_state_machine_as_test(seed(number)(Transfers), settings=many)
        number += 1
    sys.stdout.write(
        f"{FIGURES['schedules']} schedules, 0 lost, 0 started twice: {FIGURES['jobs']} jobs,"
        f" {FIGURES['steps']} steps in {time.monotonic() - begun:.0f} s\n"
    )
    os.environ["MODEL_LEASE"] = "4"
    from tests.delegation.model import World, search

    found = search(World(kills=(1, 1)))
    sys.stdout.write(
        f"every interleaving of two delegators, each killed once: {found.states} states,"
        f" {found.transitions} transitions, {found.wrong or 'nothing'} wrong\n"
    )
    return 1 if found.wrong or found.endless else 0


if __name__ == "__main__":
    sys.exit(main())
