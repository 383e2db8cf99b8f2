"""The rules of other systems, as policies of the interface of :mod:`matchmaker.pilots.policy`.

Each module has one rule beside what its system's sources and documentation say of it, simplified to
what a :class:`~matchmaker.pilots.snapshot.Snapshot` shows. A rule is a function of a snapshot and a
seed; how long a pilot without work stays before it ends by itself belongs to it.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from matchmaker.pilots.snapshot import Decision, Snapshot

Decide = Callable[[Snapshot, int], Decision]


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
