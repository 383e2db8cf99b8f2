"""Batch systems: descriptions of their nodes and queues, and submit flags for jobs."""

from matchmaker.batch.description import (
    Change,
    Description,
    DescriptionError,
    changes,
    describable,
    describe,
    read_description,
)
from matchmaker.batch.errors import MappingError, NoFlagsError, NoHostError, NotTakenError
from matchmaker.batch.flags.choose import Dropped
from matchmaker.batch.flags.inventory import Certificate
from matchmaker.batch.flags.requests import QueueLimits, Resources, Submitter
from matchmaker.batch.flags.submission import Fit, Strictness, Submission, flags
from matchmaker.batch.mapping import Mapping, known_lrms, load_mapping, same_system
from matchmaker.batch.rules import Rule
from matchmaker.batch.site_code import Constraint

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
    "NotTakenError",
    "QueueLimits",
    "Resources",
    "Rule",
    "Strictness",
    "Submission",
    "Submitter",
    "changes",
    "describable",
    "describe",
    "flags",
    "known_lrms",
    "load_mapping",
    "read_description",
    "same_system",
]
