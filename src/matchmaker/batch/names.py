"""The names of batch systems: ours, which are those of the tables of flags, and published ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PUBLISHED: Final[Mapping[str, tuple[str, ...]]] = {
    "pbs": ("pbspro", "torque"),
    "openpbs": ("pbspro",),
    "condor": ("htcondor",),
    "gridengine": ("sge",),
    "ge": ("sge",),
    "uge": ("sge",),
    "ogs": ("sge",),
}
"""By which other names information systems publish batch systems."""


def same_system(published: str, lrms: str) -> bool:
    """Whether a queue's published type may be a batch system that there is a table for.

    >>> same_system("PBS", "torque"), same_system("slurm", "slurm"), same_system("lsf", "slurm")
    (True, True, False)
    """
    told, ours = published.lower(), lrms.lower()
    return told == ours or ours in PUBLISHED.get(told, ())
