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
    PilotQueue,
    PilotSnapshot,
    PilotState,
    PilotSubmission,
    Wait,
)

if TYPE_CHECKING:
    from matchmaker.pilots.metrics import SimulationReport
    from matchmaker.pilots.policy import decide, rule
    from matchmaker.pilots.policy_ad import PolicyAd
    from matchmaker.pilots.simulation import simulate

__all__ = [
    "Decision",
    "Demand",
    "End",
    "Estimate",
    "Held",
    "Lend",
    "Pilot",
    "PilotQueue",
    "PilotRecord",
    "PilotSnapshot",
    "PilotState",
    "PilotSubmission",
    "PolicyAd",
    "SimulationReport",
    "Wait",
    "decide",
    "estimate",
    "rule",
    "simulate",
]

_LATER: Final = {
    "PolicyAd": "policy_ad",
    "SimulationReport": "metrics",
    "decide": "policy",
    "rule": "policy",
    "simulate": "simulation",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"matchmaker.pilots.{_LATER[name]}"), name)
