"""How many pilots, and where: a decision, its estimates, a simulator and a factory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from matchmaker.pilots.metrics import Report
    from matchmaker.pilots.simulation import simulate

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
    "Report",
    "Snapshot",
    "Submission",
    "Wait",
    "estimate",
    "simulate",
]

_LATER: Final = {"Report": "metrics", "simulate": "simulation"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"matchmaker.pilots.{_LATER[name]}"), name)
    raise AttributeError(f"module 'matchmaker.pilots' has no attribute {name!r}")
