"""A million random steps of delegators over a world that goes wrong, with a fresh seed.

``python -m tests.delegation.nightly [--steps N] [--seed N]``. Each schedule is made by its own
number alone, without Hypothesis, whose choices take most of the time in ``make test``: a failure
prints the number, and ``--seed NUMBER --steps 1`` repeats it. The search through every interleaving
follows, with longer leases than in each test run.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from random import Random

from tests.delegation.machine import FIGURES, Transfers

STEPS = 50
RULES = ("hand_over", "look", "look_undisturbed", "crash", "happens", "owner")


def schedule(number: int) -> None:
    """One schedule of up to 50 steps, and the way to the end of every job.

    Some kinds of steps are left out of each, so that others come more often.
    """
    chance = Random(number)
    kinds = chance.sample(RULES, chance.randint(2, len(RULES)))
    machine = Transfers()
    machine.begin(chance=Random(chance.getrandbits(24)))
    for _ in range(chance.randint(STEPS // 2, STEPS)):
        kind = chance.choice(kinds)
        if kind == "crash":
            machine.batch_system_crashes(clean=chance.random() < 0.5)
        else:
            getattr(machine, kind)(chance=Random(chance.getrandbits(24)))
        machine.counted()
    machine.teardown()


def main() -> int:
    """Runs schedules until there were as many steps as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    wanted = parser.parse_args()
    number = wanted.seed if wanted.seed is not None else secrets.randbelow(2**32)
    sys.stdout.write(f"delegation: seed {number}\n")
    begun = time.monotonic()
    while FIGURES["steps"] < wanted.steps:
        try:
            schedule(number)
        except BaseException:
            sys.stdout.write(f"schedule {number}: --seed {number} --steps 1 repeats it\n")
            raise
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
