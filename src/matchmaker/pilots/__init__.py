"""How many pilots, and where: a decision, its estimates, a simulator and a factory."""

from matchmaker.pilots.estimates import Estimate, PilotRecord, estimate
from matchmaker.pilots.snapshot import (
    Decision,
    Demand,
    End,
    Held,
    Lend,
    Pilot,
    PilotState,
    Queue,
    Snapshot,
    Submission,
    Wait,
)

__all__ = [
    "Decision",
    "Demand",
    "End",
    "Estimate",
    "Held",
    "Lend",
    "Pilot",
    "PilotRecord",
    "PilotState",
    "Queue",
    "Snapshot",
    "Submission",
    "Wait",
    "estimate",
]
