"""How many pilots, and where: a decision, its estimates, a simulator and a factory."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from matchmaker.pilots.policy.estimates import Estimate, PilotRecord, estimate
from matchmaker.pilots.policy.snapshot import (
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
    from matchmaker.pilots.policy.decision import decide, rule
    from matchmaker.pilots.policy.policy_ad import PolicyAd
    from matchmaker.pilots.simulation.report import SimulationReport
    from matchmaker.pilots.simulation.simulation import simulate

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
    "PolicyAd": "policy.policy_ad",
    "SimulationReport": "simulation.report",
    "connect": "wire.connect",
    "decide": "policy.decision",
    "rule": "policy.decision",
    "simulate": "simulation.simulation",
}

# A library logs nothing unless its program asks for it (``classad binder run --log-level``).
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"matchmaker.pilots.{_LATER[name]}")
    return module if name == "connect" else getattr(module, name)
