"""Autoclusters: jobs that agree on all that a match with these rows can rest on are one job.

Which attributes are significant is found from the expressions themselves: the job's requirements
and rank, the rows' requirements, and what these lead to on both sides.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.classad.walks import names_of
from matchmaker.matching.columns.column import Column
from matchmaker.matching.columns.contents import identity
from matchmaker.matching.columns.dependencies import MANY_EXPRESSIONS, hides
from matchmaker.matching.names import FOLDED_RANK, FOLDED_REQUIREMENTS

_BEGIN: Final = (FOLDED_REQUIREMENTS, FOLDED_RANK)


def _names_in(content: Any) -> frozenset[str] | None:
    """The attributes that a content names; None if it may rest on anything."""
    if not isinstance(content, Expr):
        return frozenset()
    names = names_of(content)
    return None if names.opaque else names.attributes


class Clusters:
    """Puts jobs into clusters that one set of columns matches alike.

    By their requirements and rank, and by the values of any other expressions of the job that are
    given as ``also``.
    """

    def __init__(self, columns: Mapping[str, Column], also: Iterable[Expr] = ()) -> None:
        self._columns = columns
        self._also = list(map(_names_in, also))
        self._hidden = hides(columns)
        self._leads: dict[str, frozenset[str] | None] = {}

    def of(self, job: ClassAd) -> Hashable:
        """The cluster of a job: equal for jobs that match the same rows with the same ranks."""
        significant = self.significant(job)
        content = job._held
        chosen = content if significant is None else sorted(significant & content.keys())
        return tuple(
            (name, content[name].__class__, identity(content[name])) for name in sorted(chosen)
        )

    def significant(self, job: ClassAd) -> set[str] | None:
        """The folded names that matter, of which the job may lack some; None for all it has."""
        if hides(job._held) or self._hidden:
            return None
        found = set(_BEGIN)
        reached = [
            self._lead(FOLDED_REQUIREMENTS),
            *self._also,
            *(_names_in(job._held.get(name)) for name in _BEGIN),
        ]
        while reached:
            names = reached.pop()
            if names is None:
                return None
            for name in names - found:
                found.add(name)
                reached += (_names_in(job._held.get(name)), self._lead(name))
        return found

    def _lead(self, name: str) -> frozenset[str] | None:
        """What an attribute of the rows leads to; None if that is not known."""
        if name not in self._leads:
            column = self._columns.get(name)
            held = column.leading() if column is not None else []
            each = list(map(_names_in, held)) if len(held) <= MANY_EXPRESSIONS else [None]
            known = [names for names in each if names is not None]
            whole = len(known) == len(each)
            self._leads[name] = frozenset().union(*known) if whole else None
        return self._leads[name]
