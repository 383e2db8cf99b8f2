"""The matchmaker for both scales: a pair of ads, a pool of them, their ranking and its reasons."""

from matchmaker.matching.pair import Clause, Match, clauses, match, refusal
from matchmaker.matching.pool import Explanation, Matches, Pool

__all__ = ["Clause", "Explanation", "Match", "Matches", "Pool", "clauses", "match", "refusal"]
