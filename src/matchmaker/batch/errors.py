"""The errors of flags and mappings; reading a batch system's output has those of ``description``.

Every module of ``batch`` may import this one, and it imports none of them.
"""

from __future__ import annotations


class MappingError(ValueError):
    """An invalid mapping file; the message names the file, the entry and the expected values."""


class NoFlagsError(ValueError):
    """No flags of the wanted kind exist; the message names the clause that prevents them."""


class NoHostError(NoFlagsError):
    """No host can satisfy the requirement, so there is nothing to submit."""


class NotTakenError(NoHostError):
    """The queue takes no such job, on any host; another queue may."""


class TooManyError(NoFlagsError):
    """The alternatives cannot be written: too many, too long, or nested too deep."""


class NoTermError(Exception):
    """No term of a mapping stands for a condition; the message says why."""
