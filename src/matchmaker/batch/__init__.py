"""Batch systems: what they can be told about the hosts that a job needs."""

from matchmaker.batch.constraints import Constraint
from matchmaker.batch.flags import Fit, Policy, Submission, flags
from matchmaker.batch.inventory import Certificate
from matchmaker.batch.mapping import Mapping, MappingError, Rule, known_lrms, load_mapping
from matchmaker.batch.request import Resources
from matchmaker.batch.told import Dropped, NoFlagsError, NoHostError

__all__ = [
    "Certificate",
    "Constraint",
    "Dropped",
    "Fit",
    "Mapping",
    "MappingError",
    "NoFlagsError",
    "NoHostError",
    "Policy",
    "Resources",
    "Rule",
    "Submission",
    "flags",
    "known_lrms",
    "load_mapping",
]
