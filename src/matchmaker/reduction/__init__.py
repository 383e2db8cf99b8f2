"""Partial evaluation: a job's requirement, met with one queue, as a condition on hosts alone."""

from matchmaker.reduction.bind import Binding, ReductionError
from matchmaker.reduction.reduce import Fate, Reduction, Verdict, phrase, reduce

__all__ = ["Binding", "Fate", "Reduction", "ReductionError", "Verdict", "phrase", "reduce"]
