"""Hand jobs over to a batch system: no job is lost, and none starts twice.

A :class:`Delegator` writes a job into a :class:`Ledger`, submits it so that it cannot start, and
releases it once that is sure. docs/delegation.md explains the contract. The modules are loaded on
first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matchmaker.delegation.database import DamagedError, LedgerError, UnfinishedError
    from matchmaker.delegation.delegate import AsyncDelegator, Delegator, Order
    from matchmaker.delegation.ledger import Ledger, set_aside
    from matchmaker.delegation.reconcile import Reconciliation, check
    from matchmaker.delegation.record import (
        Deadlines,
        Invocation,
        KeyTakenError,
        NoJobError,
        ReasonCode,
        Record,
        RefusedError,
        Transition,
        UnansweredError,
    )
    from matchmaker.delegation.record import (
        JobState as State,
    )
    from matchmaker.delegation.states import NotPossibleError, stuck

__all__ = [
    "AsyncDelegator", "DamagedError", "Deadlines", "Delegator", "Invocation", "KeyTakenError",
    "Ledger", "LedgerError", "NoJobError", "NotPossibleError", "Order", "ReasonCode",
    "Reconciliation", "Record", "RefusedError", "State", "Transition", "UnansweredError",
    "UnfinishedError", "check", "set_aside", "stuck",
]  # fmt: skip

_MODULES: Final = {
    "AsyncDelegator": "delegate", "DamagedError": "database", "Deadlines": "record",
    "Delegator": "delegate", "Transition": "record", "KeyTakenError": "record", "Ledger": "ledger",
    "LedgerError": "database", "NoJobError": "record", "NotPossibleError": "states",
    "Order": "delegate", "Record": "record", "RefusedError": "record", "ReasonCode": "record",
    "Reconciliation": "reconcile", "State": "record", "UnansweredError": "record",
    "UnfinishedError": "database", "Invocation": "record", "check": "reconcile",
    "set_aside": "ledger", "stuck": "states",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_MODULES[name]}")
        # Other parts have states too: inside the package the class says whose it is.
        return getattr(module, "JobState" if name == "State" else name)
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        raise ModuleNotFoundError(
            "the ledger needs SQLAlchemy: pip install 'classad-matchmaker[delegation]'",
            name="sqlalchemy",
        ) from None
