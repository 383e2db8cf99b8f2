"""Batch systems: what they can be told about the hosts that a job needs."""

from matchmaker.batch.flags import Dropped, Fit, NoFlagsError, NoHostError, Submission, flags
from matchmaker.batch.mapping import Mapping, MappingError, Rule, known_lrms, load_mapping

__all__ = [
    "Dropped",
    "Fit",
    "Mapping",
    "MappingError",
    "NoFlagsError",
    "NoHostError",
    "Rule",
    "Submission",
    "flags",
    "known_lrms",
    "load_mapping",
]
