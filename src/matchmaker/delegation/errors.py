"""The errors of delegation that reach a person; none of them says that a job failed."""

from __future__ import annotations


class LedgerError(ValueError):
    """The ledger cannot be read or written; the message says why and what to do."""


class DamagedError(LedgerError):
    """The ledger's file is damaged, or holds something else."""


class KeyTakenError(ValueError):
    """A key stands for another job already, so that nothing was submitted."""


class RefusedError(ValueError):
    """A job cannot be submitted from here as it is, so that nothing was written down."""


class NoJobError(ValueError):
    """No job has the key."""


class UnansweredError(ValueError):
    """The batch system or the spool gives no answer; the message says what was not done."""
