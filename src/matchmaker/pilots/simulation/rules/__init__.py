"""The rules of other systems, as policies of the interface of our own.

Each module has one rule beside what its system's sources and documentation say of it, simplified to
what a ``PilotSnapshot`` shows: one pilot runs one job at a time,
and a queue has no limits but those that it states. What no rule here has: an account with several
groups, submission that fails, and the limits that administrators set by experience.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

import attrs

from matchmaker.pilots.policy.snapshot import Decision, PilotSnapshot

Decide = Callable[[PilotSnapshot, int], Decision]


@attrs.frozen(slots=True)
class Rule:
    """A policy with its name.

    Attributes:
        name: what tables call it.
        decide: makes a decision of a snapshot and a seed.
        idle: how long a pilot without work stays before it ends by itself, in seconds.
    """

    name: str
    decide: Decide
    idle: float = 300.0


_RULES: Final = {
    "dirac": "site_director", "glideinwms": "frontend", "hyperqueue": "backlog",
    "taskvine": "factory", "parsl": "simple", "cobald": "linear",
}  # fmt: skip
"""The function of each rule, in the module of its name."""

NAMES: Final = tuple(_RULES)
"""The names of the rules."""


def rule(name: str) -> Rule:
    """One of the rules, with a memory of matched pairs that is its own.

    Raises:
        KeyError: there is no rule of this name.

    >>> rule("dirac").idle
    300.0
    """
    # They need NumPy, their names do not.
    from matchmaker.pilots.policy.pairs import Pairs
    from matchmaker.pilots.simulation.rules.view import view

    decide = getattr(import_module(f"{__name__}.{name}"), _RULES[name])
    pairs = Pairs()
    return Rule(name, lambda snapshot, seed: decide(view(snapshot, pairs), seed))
