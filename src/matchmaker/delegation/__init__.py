"""Hands jobs over to a batch system: no job is lost, and none starts twice.

A :class:`Delegator` writes a job into a :class:`Ledger`, submits it so that it cannot start, and
releases it once that is sure. docs/delegation.md explains the contract. The modules are loaded on
first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matchmaker.delegation.asynchronous import AsyncDelegator
    from matchmaker.delegation.delegate import Delegator, Order
    from matchmaker.delegation.errors import (
        DamagedError,
        KeyTakenError,
        LedgerError,
        NoJobError,
        RefusedError,
        UnansweredError,
        UnfinishedError,
    )
    from matchmaker.delegation.findings import check
    from matchmaker.delegation.ledger import Ledger, set_aside
    from matchmaker.delegation.observation import ReasonCode
    from matchmaker.delegation.reconcile import Reconciliation
    from matchmaker.delegation.record import Deadlines, Invocation, Record, State, Transition
    from matchmaker.delegation.states import NotPossibleError, stuck

__all__ = [
    "AsyncDelegator",
    "DamagedError",
    "Deadlines",
    "Delegator",
    "Invocation",
    "KeyTakenError",
    "Ledger",
    "LedgerError",
    "NoJobError",
    "NotPossibleError",
    "Order",
    "ReasonCode",
    "Reconciliation",
    "Record",
    "RefusedError",
    "State",
    "Transition",
    "UnansweredError",
    "UnfinishedError",
    "check",
    "set_aside",
    "stuck",
]

_MODULES: Final = {
    "AsyncDelegator": "asynchronous",
    "DamagedError": "errors",
    "Deadlines": "record",
    "Delegator": "delegate",
    "Transition": "record",
    "KeyTakenError": "errors",
    "Ledger": "ledger",
    "LedgerError": "errors",
    "NoJobError": "errors",
    "NotPossibleError": "states",
    "Order": "delegate",
    "Record": "record",
    "RefusedError": "errors",
    "ReasonCode": "observation",
    "Reconciliation": "reconcile",
    "State": "record",
    "UnansweredError": "errors",
    "UnfinishedError": "errors",
    "Invocation": "record",
    "check": "findings",
    "set_aside": "ledger",
    "stuck": "states",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        raise ModuleNotFoundError(
            "the ledger needs SQLAlchemy: pip install 'classad-matchmaker[delegation]'",
            name="sqlalchemy",
        ) from None
