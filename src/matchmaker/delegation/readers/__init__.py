"""Read the answers of batch systems' commands, by the name of the reader in their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from matchmaker.delegation.readers import gridengine, htcondor, lsf, pbs, slurm
from matchmaker.delegation.readers.reading import Reader

READERS: Final[Mapping[str, Reader]] = {
    "slurm": slurm.READER, "gridengine": gridengine.READER, "htcondor": htcondor.READER,
    "pbs": pbs.PBSPRO, "torque": pbs.TORQUE, "lsf": lsf.READER,
}  # fmt: skip
