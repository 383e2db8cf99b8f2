"""HTCondor-CE: its schedds and their routes to the batch system behind it; it has no nodes."""

from __future__ import annotations

from typing import Final

from matchmaker.batch.description import htcondor
from matchmaker.batch.description.htcondor import read
from matchmaker.batch.description.texts import Format

__all__ = ["COMMANDS", "FORMATS", "LRMS", "read"]

LRMS: Final = "htcondor-ce"

COMMANDS: Final = (
    ("condor_ce_status", "-schedd", "-json"),
    ("condor_ce_job_router_info", "-config"),
)
FORMATS: Final[tuple[Format, ...]] = htcondor.FORMATS[2:]
