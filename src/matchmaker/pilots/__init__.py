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
    from matchmaker.pilots.policy import decide, rule
    from matchmaker.pilots.policy_ad import Policy
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
    "Policy",
    "Queue",
    "Report",
    "Snapshot",
    "Submission",
    "Wait",
    "decide",
    "estimate",
    "rule",
    "simulate",
]

_LATER: Final = {
    "Policy": "policy_ad",
    "Report": "metrics",
    "decide": "policy",
    "rule": "policy",
    "simulate": "simulation",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"matchmaker.pilots.{_LATER[name]}"), name)
    raise AttributeError(f"module 'matchmaker.pilots' has no attribute {name!r}")
