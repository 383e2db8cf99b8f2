"""Autoclusters: jobs that agree on all that a match with these rows can rest on are one job.

Which attributes are significant is found from the expressions themselves: the job's requirements
and rank, the rows' requirements, and what these lead to on both sides.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.classad.references import names_of
from matchmaker.matching.columns.column import Column
from matchmaker.matching.columns.contents import identity
from matchmaker.matching.columns.dependencies import MANY_EXPRESSIONS, hides
from matchmaker.matching.names import FOLDED_RANK, FOLDED_REQUIREMENTS

_BEGIN: Final = (FOLDED_REQUIREMENTS, FOLDED_RANK)


@attrs.frozen(slots=True)
class _Leads:
    """What an attribute of the rows leads to; ``anything`` if that is not known."""

    names: frozenset[str]
    anything: bool


class Clusters:
    """Puts jobs into clusters that one set of columns matches alike.

    By their requirements and rank, and by the values of any other expressions of the job that are
    given as ``also``.
    """

    def __init__(self, columns: Mapping[str, Column], also: Iterable[Expr] = ()) -> None:
        self._columns = columns
        self._also = [names_of(expression) for expression in also]
        self._hidden = hides(columns)
        self._leads: dict[str, _Leads] = {}

    def of(self, job: ClassAd) -> Hashable:
        """The cluster of a job: equal for jobs that match the same rows with the same ranks."""
        significant = self.significant(job)
        content = job.content
        chosen = content if significant is None else sorted(significant & content.keys())
        return tuple(
            (name, content[name].__class__, identity(content[name])) for name in sorted(chosen)
        )

    def significant(self, job: ClassAd) -> set[str] | None:
        """The folded names that matter, of which the job may lack some; None for all it has."""
        if hides(job.content) or self._hidden:
            return None
        found = set(_BEGIN)
        pending: list[str] = []
        theirs = self._lead(FOLDED_REQUIREMENTS)
        anything = theirs.anything
        pending += theirs.names
        for names in self._also:
            anything |= names.opaque
            pending += names.attributes
        for name in _BEGIN:
            anything |= self._expand(job.content.get(name), pending)
        while pending and not anything:
            name = pending.pop()
            if name in found:
                continue
            found.add(name)
            anything = self._expand(job.content.get(name), pending)
            leads = self._lead(name)
            anything |= leads.anything
            pending += leads.names
        return None if anything else found

    def _expand(self, content: Any, pending: list[str]) -> bool:
        """Adds what an attribute of the job leads to; true if that is not known."""
        if not isinstance(content, Expr):
            return False
        names = names_of(content)
        pending += names.attributes
        return names.opaque

    def _lead(self, name: str) -> _Leads:
        known = self._leads.get(name)
        if known is None:
            column = self._columns.get(name)
            held = column.leading() if column is not None else []
            if len(held) > MANY_EXPRESSIONS:
                known = _Leads(frozenset(), True)
            else:
                names = [names_of(expression) for expression in held]
                known = _Leads(
                    frozenset().union(*(n.attributes for n in names)),
                    any(n.opaque for n in names),
                )
            self._leads[name] = known
        return known
