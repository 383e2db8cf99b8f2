"""Explain why a job matches as few slots of a pool as it does, and what would help.

``explain`` counts for a pool, ``explain_pair`` shows one slot in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import printable
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.printer import unparse
from matchmaker.classad.walks import conjunction
from matchmaker.matching.columns.evaluator import OverworkError, stopped
from matchmaker.matching.explanation.conditions import (
    ElementAnswer,
    Elements,
    ListQuestion,
    facts,
    of_pair,
    shortfall,
)
from matchmaker.matching.explanation.counts import Counts, notes
from matchmaker.matching.explanation.report import (
    AdClause,
    ClauseCount,
    Conflict,
    ElementClause,
    ElementCount,
    Explanation,
    JobChange,
    Joint,
    Later,
    Paged,
    Suggestion,
)
from matchmaker.matching.explanation.suggestions import (
    find_suggestions,
    joint,
    later,
    suggestions_when_free,
)
from matchmaker.matching.pair import Clause, Match, clauses, clauses_of, match, value_text
from matchmaker.matching.snapshot import Snapshot
from matchmaker.matching.states import SlotState, SlotStates, state_of

if TYPE_CHECKING:
    from matchmaker.matching.page import PageTable


@attrs.frozen(slots=True)
class PairClause:
    """A clause with its number: ``2.1`` is the first in the definition of the second, a name.

    If a clause asks the ads of a list for conditions, ``3.2`` is the answer of the second
    ``element`` of the list to one of them, and ``short`` by how much it misses.
    """

    number: str
    clause: Clause
    element: str = ""
    short: str = ""

    def __str__(self) -> str:
        whose = f"{self.element}: " if self.element else ""
        short = f", {self.short}" if self.short else ""
        return f"{self.number:<5} {whose}{self.clause}{short}"


@attrs.frozen(slots=True)
class PairExplanation(Paged):
    """Why one job and one slot match or do not.

    ``job_clauses`` are those of the job's requirements with their values for the slot,
    ``ad_clauses`` those of the slot's for the job, in order, each followed by the clauses of the
    attribute that it names, if it names one. ``state`` says whether the slot is free.
    """

    key: str
    match: Match
    state: SlotState
    job_clauses: tuple[PairClause, ...]
    ad_clauses: tuple[PairClause, ...]

    @property
    def matched(self) -> bool:
        """Whether they match."""
        return self.match.matched

    def summary(self) -> str:
        """Whether they match, and who refuses, on one line."""
        if self.matched:
            text = f"{self.key} matches; the job's rank of it is {value_text(self.match.rank)}"
            return text if self.state is SlotState.UNSAID else f"{text}; {self.state.sentence}"
        refusals = (
            (self.match.left, f"the job refuses {self.key}"),
            (self.match.right, f"{self.key} refuses the job"),
        )
        return ", and ".join(words for value, words in refusals if value is not True)

    def sides(self) -> Iterator[tuple[str, tuple[PairClause, ...]]]:
        """The two sides, each with a title."""
        yield "the job requires", self.job_clauses
        yield "the slot requires", self.ad_clauses

    def __str__(self) -> str:
        lines = [self.summary()]
        for title, found in self.sides():
            lines += ["", title, *(map(str, found) if found else ("nothing",))]
        return "\n".join(map(printable, lines))

    def _parts(self) -> Iterator[PageTable]:
        """The parts of the page."""
        from matchmaker.matching.page import CodeCell, FactsCell, MarkCell, PageTable

        for title, found in self.sides():
            rows = []
            for one in found:
                clause = one.clause
                meant = () if clause.definition is None else (unparse(clause.definition),)
                facts = tuple((name, value_text(value)) for name, value in clause.facts)
                value = MarkCell(value_text(clause.value), clause.value is True)
                whose = (one.element,) if one.element else ()
                text = CodeCell((*whose, unparse(clause.expression), *meant))
                more = f"{clause.more:,} more" if clause.more else ""
                facts += tuple(("", text) for text in (more, one.short) if text)
                rows.append((one.number, value, text, FactsCell(facts)))
            heading = title[0].upper() + title[1:]
            yield PageTable(
                heading, ("", "is", "clause", "with"), rows, note="" if rows else "nothing"
            )


def explain_pair(
    key: str, job: ClassAd, ad: ClassAd, names: Mapping[str, str] | None = None
) -> PairExplanation:
    """Every clause of a job and of the ad of a slot, with values.

    `names` are the slot's own names for what says whether it is free: see ``states``.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[ Want = 4; Requirements = TARGET.Cpus > 10 ]")
    >>> slot = parse_ad("[Requirements = START; START = TARGET.Want < 3 && Cpus > 9; Cpus = 50]")
    >>> print(explain_pair("a", job, slot))
    a refuses the job
    <BLANKLINE>
    the job requires
    1     TARGET.Cpus > 10 is true (Cpus = 50)
    <BLANKLINE>
    the slot requires
    1     START is false: TARGET.Want < 3 && Cpus > 9 (Want = 4, Cpus = 50)
    1.1   TARGET.Want < 3 is false (Want = 4)
    1.2   Cpus > 9 is true (Cpus = 50)
    """
    return PairExplanation(
        key,
        match(job, ad),
        state_of(job, ad, names),
        tuple(_numbered(clauses(job, ad), job, ad, (), Allowance())),
        tuple(_numbered(clauses(ad, job), ad, job, (), Allowance())),
    )


def _numbered(
    found: list[Clause],
    ad: ClassAd,
    other: ClassAd,
    above: tuple[int, ...],
    allowance: Allowance,
) -> Iterator[PairClause]:
    for place, clause in enumerate(found, 1):
        number = (*above, place)
        yield PairClause(".".join(map(str, number)), clause)
        if clause.definition is not None and len(number) < LIMITS.deep:
            parts = list(clauses_of(clause.definition, ad, other, allowance))
            # A single clause would repeat the definition.
            if len(parts) > 1 or parts[0].definition is not None:
                yield from _numbered(parts, ad, other, number, allowance)
                continue
        node = clause.definition if clause.definition is not None else clause.expression
        for listing, asked in of_pair(node, ad, other, allowance):
            yield from _of_elements(listing, asked, number)


def _of_elements(
    listing: ListQuestion, found: list[ElementAnswer], above: tuple[int, ...]
) -> Iterator[PairClause]:
    """List the conditions that each element of a list fails, or that it fails none."""
    for place, asked in enumerate(found[: LIMITS.elements]):
        number, name = ".".join(map(str, (*above, place + 1))), asked.name(place)
        if not asked.failing:
            yield PairClause(number, Clause(conjunction(list(listing.conditions)), True), name)
        for failing in asked.failing:
            condition, sides = listing.conditions[failing], asked.sides[failing]
            clause = Clause(condition, asked.truths[failing], facts(condition, sides))
            yield PairClause(number, clause, name, shortfall(condition, sides))


__all__ = [
    "AdClause",
    "ClauseCount",
    "Conflict",
    "ElementClause",
    "ElementCount",
    "Explanation",
    "JobChange",
    "Joint",
    "Later",
    "PairClause",
    "PairExplanation",
    "Suggestion",
    "explain",
    "explain_pair",
]


def explain(
    pool: Snapshot,
    job: ClassAd,
    names: Mapping[str, str] | None = None,
    known: Mapping[str, str] | None = None,
) -> Explanation:
    """Count what each clause of a job leaves of a pool, find conflicts, and suggest changes.

    Nothing raises on ads: a clause that is undefined or an error for a slot is one that the slot
    does not satisfy. If the clauses of the job take too much on all slots together, only the slots
    that match are counted, and ``error`` says so. `names` are the pool's own names for the
    attributes that say whether a slot is free: see ``states``. `known` are the names that the slots
    have, by their folded forms, if the pool has not all of them.
    """
    pool = Snapshot(pool._view.in_use(), pool._cache)
    try:
        counts = Counts(pool, job, names)
    except OverworkError:
        matched = pool.match(job)
        states = SlotStates.of(pool._view, names).counts(job, matched._row_array)
        error = f"the clauses of the job's requirements: {stopped(len(pool), pool._cache.limits)}"
        return Explanation(len(pool), (), 0, len(matched), states, error=error)
    when_free = later(counts)
    elements = Elements(counts)
    found = find_suggestions(counts, elements)
    several = joint(counts) if not found else None
    when = None
    if when_free is not None:
        when, then = when_free
        when = attrs.evolve(
            when, suggestions=suggestions_when_free(then, found) if when.never else ()
        )
    return Explanation(
        total=counts.total,
        clauses=counts.of_clauses(),
        refused_by_ads=int(counts.suitable.sum()) - counts.matched,
        matched=counts.matched,
        states=counts.of_states,
        suggestions=found,
        conflicts=counts.conflicts(),
        ad_clauses=counts.ad_clauses(),
        notes=notes(counts, known, islice(elements.notes(), LIMITS.notes + 1)),
        joint=several,
        error=counts.error,
        elements=elements.counts(),
        later=when,
    )
