"""How many pilots, and where: a decision, its estimates, a simulator and a factory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from matchmaker._renamed import renamed
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
_RENAMED: Final = {
    "Policy": "PolicyAd",
    "Queue": "PilotQueue",
    "Report": "SimulationReport",
    "Snapshot": "PilotSnapshot",
    "Submission": "PilotSubmission",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"matchmaker.pilots.{_LATER[name]}"), name)
    new = renamed("matchmaker.pilots", _RENAMED, name)
    return __getattr__(new) if new in _LATER else globals()[new]
