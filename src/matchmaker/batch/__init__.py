"""Batch systems: what they say of their nodes and queues, and what they can be told of a job."""

from matchmaker.batch.clauses import Dropped
from matchmaker.batch.constraints import Constraint
from matchmaker.batch.description import (
    Description,
    DescriptionError,
    describable,
    describe,
    read_description,
)
from matchmaker.batch.description.changes import Change, changes
from matchmaker.batch.errors import MappingError, NoFlagsError, NoHostError
from matchmaker.batch.flags import Fit, Policy, Submission, flags
from matchmaker.batch.inventory import Certificate
from matchmaker.batch.mapping import Mapping, known_lrms, load_mapping
from matchmaker.batch.names import same_system
from matchmaker.batch.request import Resources
from matchmaker.batch.rules import Rule

__all__ = [
    "Certificate",
    "Change",
    "Constraint",
    "Description",
    "DescriptionError",
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
    "changes",
    "describable",
    "describe",
    "flags",
    "known_lrms",
    "load_mapping",
    "read_description",
    "same_system",
]
