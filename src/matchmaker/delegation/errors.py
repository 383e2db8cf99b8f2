"""The errors of delegation that reach a person; none of them says that a job failed."""

from __future__ import annotations


class LedgerError(ValueError):
    """The ledger cannot be read or written; the message says why and what to do."""


class DamagedError(LedgerError):
    """The ledger's file is damaged, or holds something else."""


class UnfinishedError(LedgerError):
    """A job may be on record, and what came of its submission is not.

    Whoever hands it over again must use the same key: then it still starts once.

    Attributes:
        key: the job's key.
        state: the state in which the ledger has the job; None if it is not known whether it has it.
    """

    def __init__(self, message: str, key: str, state: str | None) -> None:
        super().__init__(message)
        self.key = key
        self.state = state


class KeyTakenError(ValueError):
    """A key stands for another job already, so that nothing was submitted."""


class RefusedError(ValueError):
    """A job cannot be submitted from here as it is, so that nothing was written down."""


class NoJobError(ValueError):
    """No job has the key."""


class UnansweredError(ValueError):
    """The batch system or the spool gives no answer; the message says what was not done."""
