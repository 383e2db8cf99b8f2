"""Hold what an explanation found, and write it as text.

HTML is written by ``matching.page``; tables on a terminal, and JSON, by ``cli``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import printable, shorten
from matchmaker.matching.states import SlotState, free_of, in_words, matching

if TYPE_CHECKING:
    from matchmaker.matching.page import Cell, PagePart

Counted: TypeAlias = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""A table: titles, and rows of numbers with a text at the end."""


@attrs.frozen(slots=True)
class ClauseCount:
    """A clause of the job's requirements, and how many slots satisfy it.

    ``matched`` satisfy it alone, ``cumulative`` it and all before it. ``near`` are refused by it
    and by nothing else: without this clause they would match. For the others it is ``false``,
    ``undefined`` or an ``error``. ``via`` are the names of
    the job that lead to it from ``Requirements``.
    """

    text: str
    matched: int
    cumulative: int
    near: int = 0
    false: int = 0
    undefined: int = 0
    error: int = 0
    via: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ": ".join((*self.via, self.text))


@attrs.frozen(slots=True)
class ElementClause:
    """A condition that a clause of the job asks the elements of lists for.

    ``matched`` elements satisfy it alone, ``cumulative`` it and all before it, ``near`` fail it
    alone. ``nearest`` is what comes nearest of the numbers that miss it: ``Capability = 7.5, 0.5
    too low``.
    """

    text: str
    matched: int
    cumulative: int
    near: int
    nearest: str = ""

    def __str__(self) -> str:
        return f"{self.text} (nearest: {self.nearest})" if self.nearest else self.text


@attrs.frozen(slots=True)
class ElementCount:
    """The elements that a clause of the job asks, of all slots that do not satisfy the clause.

    ``clause`` is its number, ``listed`` the list of ads, ``holder`` the attribute of the job that
    holds the conditions, if one does. ``slots`` have such a list, with ``elements`` together, of
    which ``satisfying`` satisfy all conditions.
    """

    clause: int
    listed: str
    holder: str
    slots: int
    elements: int
    satisfying: int
    conditions: tuple[ElementClause, ...]

    def __str__(self) -> str:
        """In words.

        >>> print(ElementCount(3, "TARGET.GPUs", "RequireGPUs", 20, 40, 7, ()))
        clause 3 refuses 20 slots: 7 of their 40 elements of TARGET.GPUs satisfy RequireGPUs
        """
        whose = "its" if self.slots == 1 else "their"
        of = f"{self.satisfying:,} of {whose} {self.elements:,} elements of {self.listed} satisfy"
        return f"clause {self.clause} refuses {counted(self.slots)}: {of} {self.holder or 'it'}"

    def table(self) -> Counted:
        """The conditions with their counts."""
        rows: list[tuple[Any, ...]] = [
            (number, c.matched, c.cumulative, c.near, str(c))
            for number, c in enumerate(self.conditions, 1)
        ]
        return ("", "alone", "so far", "near misses", "condition of an element"), rows


@attrs.frozen(slots=True)
class AdClause:
    """A clause of the slots' own requirements, and how many it refuses.

    ``via`` are the names that lead to it from ``Requirements``, such as ``START``. ``held`` slots
    have it; for ``refused`` of them it is not true of the job, and ``suitable`` of these satisfy
    all that the job requires. If it is ``lumped``, it stands for all other requirements together:
    there are too many distinct ones.
    """

    text: str
    via: tuple[str, ...]
    held: int
    refused: int
    suitable: int
    lumped: bool = False

    def __str__(self) -> str:
        more = f" (others than the {LIMITS.groups} most frequent, together)" if self.lumped else ""
        return ": ".join((*self.via, self.text)) + more


@attrs.frozen(slots=True)
class Conflict:
    """Clauses of the job, by number, that no slot satisfies together, though it may any fewer.

    With ``ads`` the slots' own requirements are one of them: they refuse the rest.
    """

    clauses: tuple[int, ...]
    ads: bool = False

    def __str__(self) -> str:
        r"""In words.

        >>> print(Conflict((2, 5, 7)), Conflict((2,), True), Conflict((), True), sep="\n")
        no slot satisfies clauses 2, 5 and 7 together
        every slot that satisfies clause 2 refuses the job
        every slot refuses the job
        """
        *most, last = map(str, self.clauses or ("",))
        numbers = f"{', '.join(most)} and {last}" if most else last
        words = f"clause{'s' if most else ''} {numbers}"
        if not self.ads:
            return f"no slot satisfies {words}{' together' if most else ''}"
        return f"every slot {f'that satisfies {words} ' if self.clauses else ''}refuses the job"


@attrs.frozen(slots=True)
class Suggestion:
    """A change of the job, and what it gains.

    ``what`` is the attribute of the job, or the comparison in its requirements up to the constant,
    that goes from ``before`` to ``after``; or a clause that is dropped, if ``after`` is None.
    ``job`` is the job so changed, which matches ``matched`` slots, ``gain`` more than the job does.
    ``free`` is how many more free slots it matches, which may be more than it gains, or None if no
    slot says whether it is free. ``sooner`` of the slots match the job as it is too, when the jobs
    on their machines end: the change only helps now.
    """

    what: str
    before: str
    after: str | None
    gain: int
    matched: int
    job: ClassAd = attrs.field(eq=False, repr=False)
    free: int | None = None
    sooner: int = 0

    def __str__(self) -> str:
        gains = f"gains {_gained(self)}"
        if self.after is None:
            return f"dropping {self.what}, {shorten(self.before)}, {gains}"
        return f"{shorten(self.what)} {shorten(self.before)} -> {shorten(self.after)} {gains}"


@attrs.frozen(slots=True)
class JobChange:
    """One change of several: as in ``Suggestion``, with the number of the clause, or 0."""

    what: str
    before: str
    after: str | None
    clause: int = 0

    def __str__(self) -> str:
        if self.after is None:
            return f"drop {self.what}, {shorten(self.before)}"
        where = f" in clause {self.clause}" if self.clause else ""
        return f"change {shorten(self.what)} {shorten(self.before)} -> {self.after}{where}"


@attrs.frozen(slots=True)
class Joint:
    """The smallest set of changes that gains slots, if no change alone does.

    ``job`` is the job so changed, which matches ``matched`` slots, ``gain`` more than the job does;
    ``free`` and ``sooner`` are as in ``Suggestion``. ``exact`` says that all smaller sets were
    looked at.
    """

    changes: tuple[JobChange, ...]
    gain: int
    matched: int
    job: ClassAd = attrs.field(eq=False, repr=False)
    free: int | None = None
    exact: bool = True
    sooner: int = 0

    def __str__(self) -> str:
        gains = f"gain {_gained(self)}"
        number = len(self.changes)
        which = "fewer changes gain nothing" if self.exact else "fewer may do: not all were tried"
        all_ = f"{number} changes together {gains} ({which})"
        return f"{all_}: {'; '.join(map(str, self.changes))}"


def _gained(change: Suggestion | Joint) -> str:
    """Say how many slots a change gains, how many are free, and how many come anyway."""
    words = counted(change.gain)
    if change.free is not None and change.free > change.gain:
        words += f", and {change.free:,} free ones more"
    elif change.free is not None:
        words += f", {free_of(change.free, change.gain)}"
    if change.sooner >= change.gain:
        they = "they match when their" if change.gain > 1 else "it matches when its"
        words += f"; only for now: without the change {they} jobs end"
    elif change.sooner:
        match = "match" if change.sooner > 1 else "matches"
        words += f"; {change.sooner:,} of them {match} without the change when jobs end"
    return words


@attrs.frozen(slots=True)
class Later:
    """How many slots match now, when their jobs end, and never, if some are partitionable.

    A partitionable slot then has all that its machine gives, and dynamic slots are part of it.
    ``now`` are free, or match if no slot says whether it is free (``said``). ``never`` match no
    more when all jobs have ended; ``other`` match, and are kept by their owners or closed.
    ``suggestions`` are the changes that gain slots of ``never``. Of ``perhaps`` it is not known:
    their ads do not describe the GPUs that are in use.
    """

    now: int
    later: int
    never: int
    other: int
    said: bool
    suggestions: tuple[Suggestion, ...] = ()
    perhaps: int = 0

    def __str__(self) -> str:
        """In words.

        >>> print(Later(0, 12, 31, 0, True))
        0 free now, 12 when their jobs end, 31 never
        """
        first = f"{self.now:,} {'free' if self.said else 'match'} now"
        last = f", {self.other:,} when their owners let them" if self.other else ""
        if self.perhaps:
            last += f", {self.perhaps:,} perhaps: their ads do not describe the GPUs in use"
        return f"{first}, {self.later:,} when their jobs end, {self.never:,} never{last}"


class Paged:
    """A report that can also be shown as HTML, in a notebook or by itself."""

    __slots__ = ()

    def summary(self) -> str:
        """One line, the title of the page."""
        raise NotImplementedError

    def _parts(self) -> Iterable[PagePart]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        from matchmaker.matching.page import fragment

        return fragment(self.summary(), self._parts())

    def html(self, of: str = "") -> str:
        """A page that needs nothing else: style and picture are in it, and all texts escaped.

        `of` names the job, the pool and the time in its title.
        """
        from matchmaker.matching.page import page

        return page(self.summary(), self._parts(), of)


@attrs.frozen(slots=True)
class Explanation(Paged):
    """Why a job matches as few slots of a pool as it does.

    ``clauses`` are those of the job's requirements, in order: their numbers begin with 1.
    ``states`` says how many of the slots that match are in which state, as ``states.State`` calls
    them: ``{"free": 4, "claimed": 6}``. ``refused_by_ads`` slots satisfy them all, but refuse the
    job; ``ad_clauses`` says by what, the worst first. ``conflicts`` are the smallest sets of
    clauses that exclude everything, if nothing matches. ``suggestions`` are changes that gain
    slots, the best first. ``notes`` report plain mistakes, such as a name that no slot has.
    ``joint`` is the smallest set of changes that gains slots, if no suggestion does. ``error`` is
    the reason if something took too much to evaluate: for some slots, which count as an error, or
    for all of them together, and then nothing else is known. ``elements`` are what lists of ads say
    to the clauses that ask for conditions of each element, such as those of the GPUs of a slot.
    ``later`` says of a pool with partitionable slots how many match when the jobs on their machines
    end, and how many never.
    """

    total: int
    clauses: tuple[ClauseCount, ...]
    refused_by_ads: int
    matched: int
    states: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    suggestions: tuple[Suggestion, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    ad_clauses: tuple[AdClause, ...] = ()
    notes: tuple[str, ...] = ()
    joint: Joint | None = None
    error: str | None = None
    elements: tuple[ElementCount, ...] = ()
    later: Later | None = None

    def exceptional(self) -> dict[str, list[int]]:
        """For how many slots each clause is undefined or an error; without what none is."""
        counts = {
            "undefined": [clause.undefined for clause in self.clauses],
            "error": [clause.error for clause in self.clauses],
        }
        return {title: numbers for title, numbers in counts.items() if any(numbers)}

    def summary(self) -> str:
        """How many match, and how many of these are free, on one line."""
        text = matching(self.matched, self.total, self.states)
        if self.refused_by_ads:
            text += f"; {self.refused_by_ads:,} satisfy it, but refuse the job"
        if self.error is not None:
            text += f"; not all could be evaluated: {self.error}"
        return text

    def standing(self) -> tuple[str, ...]:
        """How many of the slots that match are not free and why, and how many match later."""
        words = in_words(self.states) if self.states else ""
        return (*((words,) if words else ()), *((str(self.later),) if self.later else ()))

    def advice(self) -> tuple[object, ...]:
        """Return the suggestions, or else several changes together; then the lasting ones."""
        now = self.suggestions or (() if self.joint is None else (self.joint,))
        if self.later is None:
            return now
        return (*now, *(f"when their jobs end: {one}" for one in self.later.suggestions))

    def worst(self) -> tuple[AdClause, ...]:
        """The clauses of the slots' requirements that are shown: those that refuse most."""
        return tuple(clause for clause in self.ad_clauses[: LIMITS.shown] if clause.refused)

    def unseen(self) -> str:
        """How many of them are not shown, on one line; nothing if all are."""
        others = self.ad_clauses[len(self.worst()) :]
        refusing = sum(1 for clause in others if clause.refused)
        parts = ((refusing, "that refuse some"), (len(others) - refusing, "that refuse none"))
        said = [f"{number:,} {which}" for number, which in parts if number]
        return f"clauses not shown: {', '.join(said)}" if said else ""

    def __str__(self) -> str:
        return "\n".join(map(printable, self._lines()))

    def _lines(self) -> Iterator[str]:
        if self.clauses:
            yield from _aligned(*clause_table(self))
        yield self.summary()
        yield from self.standing()
        for some in self.elements:
            yield from ("", str(some), *_aligned(*some.table()))
        for part in (self.notes, self.conflicts, self.advice()):
            if part:
                yield from ("", *map(str, part))
        if self.ad_clauses:
            yield ""
            if self.worst():
                yield from _aligned(*ad_table(self))
            if self.unseen():
                yield self.unseen()

    def _parts(self) -> Iterator[PagePart]:
        """The parts of the page."""
        from matchmaker.matching.page import BarCell, CodeCell, Funnel, PageList, PageTable

        def barred(heading: str, counted: Counted, of: int, note: str = "") -> PageTable:
            titles, rows = counted
            cells: list[tuple[Cell, ...]] = [
                (*(f"{n:,}" for n in numbers), BarCell(numbers[1] / (of or 1)), CodeCell((text,)))
                for *numbers, text in rows
            ]
            last = len(titles) - 1
            return PageTable(heading, (*titles[:last], "", "clause"), cells, last, note)

        # On a phone only the first lines are seen, so what to do comes first.
        yield PageList("What would help", self.advice())
        yield PageList("What is amiss", self.notes)
        yield Funnel(self.total, self._stages())
        yield PageList("What is free, and when", self.standing())
        if self.clauses:
            yield barred("What the job requires", clause_table(self), self.total)
        for some in self.elements:
            yield barred(str(some), some.table(), some.elements)
        yield PageList("What excludes everything", self.conflicts)
        if self.ad_clauses:
            yield barred("What the slots require", ad_table(self), self.total, self.unseen())

    def _stages(self) -> list[tuple[int, str]]:
        """All slots, what each clause of the job leaves of them, and what accepts the job."""
        found = [(self.total, "all slots")]
        for number, clause in enumerate(self.clauses, 1):
            some = len(self.clauses) <= LIMITS.stages
            if some or (clause.cumulative < found[-1][0] and len(found) <= LIMITS.stages):
                found.append((clause.cumulative, f"{number}  {clause}"))
        found.append((self.matched, "accept the job"))
        if not set(self.states) <= {SlotState.UNSAID}:
            found.append((self.states.get(SlotState.FREE, 0), "are free now"))
        return found


@attrs.frozen(slots=True)
class QueueExplanation(Paged):
    """The explanations of the autoclusters of some jobs, the worst first.

    ``clusters`` has the ids of the jobs of each with their common explanation. Of ``count``
    autoclusters the smaller ones may be left out.
    """

    jobs: int
    count: int
    clusters: tuple[tuple[tuple[str, ...], Explanation], ...]

    @classmethod
    def of(
        cls, jobs: int, count: int, found: Iterable[tuple[Sequence[str], Explanation]]
    ) -> QueueExplanation:
        """The explanations, those first of jobs that match least."""
        clusters = [(tuple(ids), one) for ids, one in found]
        clusters.sort(
            key=lambda one: (one[1].matched, one[1].states.get(SlotState.FREE, 0), -len(one[0]))
        )
        return cls(jobs, count, tuple(clusters))

    def summary(self) -> str:
        """How many jobs there are, and of how many kinds, on one line."""
        jobs, kinds = ("" if n == 1 else "s" for n in (self.jobs, self.count))
        return f"{self.jobs} job{jobs} in {self.count} autocluster{kinds}, the worst first"

    def rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """A table of the autoclusters: titles and rows."""
        rows: list[tuple[str, ...]] = []
        for ids, one in self.clusters:
            free = one.states.get(SlotState.FREE, 0)
            known = not set(one.states) <= {SlotState.UNSAID} or not one.matched
            rows.append((f"{len(ids):,}", f"{one.matched:,}", f"{free:,}" if known else "?",
                         named(ids)))  # fmt: skip
        return ("jobs", "match", "free now", "ids"), rows

    def _parts(self) -> Iterator[PagePart]:
        from matchmaker.matching.page import PageSection

        for place, (ids, one) in enumerate(self.clusters):
            jobs = f"{len(ids):,} job{'' if len(ids) == 1 else 's'}"
            title = f"{jobs}, {named(ids)}: {one.summary()}"
            yield PageSection(title, tuple(one._parts()), opened=not place)  # noqa: SLF001 - a page in a page


def named(ids: Sequence[str]) -> str:
    """The first few ids of jobs, and how many more there are."""
    shown = ", ".join(shorten(one, 60) for one in ids[:3])
    return shown + (f" and {len(ids) - 3:,} more" if len(ids) > 3 else "")


def clause_table(explained: Explanation) -> Counted:
    """The clauses of the job with their numbers and counts."""
    more = explained.exceptional()
    rows = [
        (number, c.matched, c.cumulative, c.near, *others, str(c))
        for number, (c, *others) in enumerate(
            zip(explained.clauses, *more.values(), strict=True), 1
        )
    ]
    return ("", "alone", "so far", "near misses", *more, "clause"), rows


def ad_table(explained: Explanation) -> Counted:
    """The clauses of the slots that are shown to people, with their counts."""
    rows = [(c.held, c.refused, c.suitable, str(c)) for c in explained.worst()]
    return ("held by", "refuses", "suitable", "clause of the slots"), rows


def counted(slots: int) -> str:
    """A number of slots: ``1 slot``, ``1,204 slots``."""
    return f"{slots:,} slot{'' if slots == 1 else 's'}"


def _aligned(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Return rows of numbers with a text at the end as aligned lines."""
    cells = [list(titles), *([*(f"{n:,}" for n in some), shorten(text)] for *some, text in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    for *numbers, text in cells:
        padded = [cell.rjust(width) for cell, width in zip(numbers, widths, strict=True)]
        yield "  ".join([*padded, text]).rstrip()
