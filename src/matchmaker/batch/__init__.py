"""Batch systems: what they say of their nodes and queues, and what they can be told of a job."""

from matchmaker.batch.description import (
    Description,
    DescriptionError,
    describable,
    describe,
    read_description,
)
from matchmaker.batch.description.changes import Change, changes
from matchmaker.batch.flags import Dropped, Fit, NoFlagsError, NoHostError, Submission, flags
from matchmaker.batch.mapping import Mapping, MappingError, Rule, known_lrms, load_mapping

__all__ = [
    "Change",
    "Description",
    "DescriptionError",
    "Dropped",
    "Fit",
    "Mapping",
    "MappingError",
    "NoFlagsError",
    "NoHostError",
    "Rule",
    "Submission",
    "changes",
    "describable",
    "describe",
    "flags",
    "known_lrms",
    "load_mapping",
    "read_description",
]
