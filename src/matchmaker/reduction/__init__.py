"""Partial evaluation: a job's requirement, met with one queue, as a condition on hosts alone."""

from matchmaker.reduction.bind import Binding, ReductionError
from matchmaker.reduction.boxes import Bounds, bounds
from matchmaker.reduction.domains import Box, Domain, Tag
from matchmaker.reduction.reduce import Fate, Reduction, Verdict, phrase, reduce, reduce_many

__all__ = [
    "Binding",
    "Bounds",
    "Box",
    "Domain",
    "Fate",
    "Reduction",
    "ReductionError",
    "Tag",
    "Verdict",
    "bounds",
    "phrase",
    "reduce",
    "reduce_many",
]
