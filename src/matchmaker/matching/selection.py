"""Choose among named ads for one job: who matches, in what order, and why the others do not.

``columns.masks`` decides which ads match. The rules for queues are in ``broker``, those for
worker nodes in ``nodes``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import Allowance, charged
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import truth
from matchmaker.classad.values import UNDEFINED, is_error, type_name
from matchmaker.matching.pair import (
    RANK,
    REQUIREMENTS,
    Clause,
    clauses_of,
    rank_clause,
    refusal,
    value_text,
    with_scopes,
)
from matchmaker.matching.ranking import best_first, rank_number
from matchmaker.matching.results import arrow_table, data_frame, html_table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from matchmaker.matching.columns.arrow import ArrowTable
    from matchmaker.matching.columns.masks import MatchDecision
    from matchmaker.matching.snapshot import Snapshot


@attrs.frozen(slots=True)
class Candidate:
    """A resource that matches, under the name it goes by, with its rank."""

    name: str
    ad: ClassAd
    rank: float


@attrs.frozen(slots=True)
class Refusal:
    """A resource that does not match: who refuses, by which clause, in words.

    ``by`` is ``job`` or ``resource`` for a clause of its requirements, ``broker`` for a condition
    of the broker's own, ``rank`` if the job's rank of it is not a number, ``expiry`` if its ad is
    out of date.
    """

    name: str
    ad: ClassAd
    by: str
    reason: str
    clause: Clause | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


_T = TypeVar("_T")


class LazySequence(Sequence[_T]):
    """A sequence whose elements are made when they are asked for.

    >>> squares = LazySequence(1000, lambda place: place * place)
    >>> len(squares), squares[-1], squares[:3]
    (1000, 998001, (0, 1, 4))
    """

    __slots__ = ("_make", "_places")

    def __init__(self, count: int, make: Callable[[int], _T]) -> None:
        self._places = range(count)
        self._make = make

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> _T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[_T, ...]: ...
    def __getitem__(self, place: int | slice) -> _T | tuple[_T, ...]:
        if isinstance(place, slice):
            return tuple(map(self._make, self._places[place]))
        return self._make(self._places[place])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (tuple, LazySequence)):
            return NotImplemented
        return len(self) == len(other) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[tuple[_T, ...]], tuple[tuple[_T, ...]]]:
        # Pickled as a tuple: how the things are made stays in this process.
        return tuple, (tuple(self),)

    def __repr__(self) -> str:
        # Not the things themselves: to make them all may take long.
        return f"<{len(self)}, each made when it is asked for>"


@attrs.frozen(slots=True)
class Selection:
    """The resources a job may run on, best first, and those that refuse it, in their order.

    Elements are made when they are asked for: to say why one refuses takes longer than to decide
    it. ``error`` says why requirements or ranks are ERROR if they took too much to evaluate.
    """

    ranked: Sequence[Candidate]
    refused: Sequence[Refusal]
    error: str | None = None

    @property
    def chosen(self) -> Candidate | None:
        """The best, or None if nothing matches."""
        return self.ranked[0] if self.ranked else None

    def __iter__(self) -> Iterator[Candidate]:
        """Iterate over the resources that the job may run on, best first."""
        return iter(self.ranked)

    def _repr_html_(self) -> str:
        cells = ((each.name, each.rank) for each in self.ranked)
        ranked = html_table(("name", "rank"), cells, len(self.ranked))
        return f"{ranked}<p>{len(self.refused):,} refused</p>"

    def to_arrow(self) -> ArrowTable:
        """A ``pyarrow.Table`` with the columns ``name`` and ``rank``, best first."""
        return arrow_table(
            {
                "name": [each.name for each in self.ranked],
                "rank": [each.rank for each in self.ranked],
            }
        )

    def to_pandas(self) -> Any:
        """Return a pandas ``DataFrame``."""
        return data_frame(self.to_arrow())


@attrs.frozen(slots=True, eq=False)
class NamedAds:
    """Ads as columns, with the name and the ad of each row. Several may have one name."""

    snapshot: Snapshot
    names: Sequence[str]
    ad: Callable[[int], ClassAd]

    @classmethod
    def of(cls, named: Iterable[tuple[str, ClassAd]]) -> NamedAds:
        """The ads with their names, in order."""
        from matchmaker.matching.pool import Pool

        pairs = list(named)
        ads = [ad for _, ad in pairs]
        placed = Pool.of_named((str(place), ad) for place, ad in enumerate(ads))
        return cls(placed.snapshot(), [name for name, _ in pairs], ads.__getitem__)

    def rows(self, mask: npt.NDArray[np.bool_]) -> list[int]:
        """The rows of a mask that are not deleted, in order."""
        rows = self.snapshot._view.rows()
        chosen: list[int] = rows[mask[rows]].tolist()
        return chosen

    def ordered(self, decision: MatchDecision, tie: random.Random | None = None) -> list[int]:
        """The places in ``decision.rows`` of those that may take the job, best first.

        Equal ranks go by name, or by chance if ``tie`` is given.
        """
        names = [self.names[row] for row in decision.rows.tolist()]
        ranks = decision.ranks.tolist()
        return best_first(range(len(names)), ranks.__getitem__, names.__getitem__, tie)

    def selection(
        self, decision: MatchDecision, order: Sequence[int], refuse: Callable[[int], Refusal]
    ) -> Selection:
        """Build the selection of a decision in a given order; ``refuse`` explains a refused row."""
        rows, ranks = decision.rows.tolist(), decision.ranks.tolist()
        others = self.rows(decision.by != 0)
        # A reason is found when it is asked for; all of them are one question.
        reasons = Allowance.of_question()

        def candidate(place: int) -> Candidate:
            row = rows[order[place]]
            return Candidate(self.names[row], self.ad(row), ranks[order[place]])

        return Selection(
            LazySequence(len(order), candidate),
            LazySequence(len(others), charged(lambda place: refuse(others[place]), reasons)),
            decision.error,
        )


@charged
def select(
    job: ClassAd,
    resources: Iterable[tuple[str, ClassAd]],
    default_rank: float | None = None,
    tie: random.Random | None = None,
    conditions: Sequence[Expr] = (),
) -> Selection:
    """Match a job with named resources, both ways, and put them in order of rank.

    ``conditions`` must be true too, with the job as MY, whatever its attributes are called.
    ``default_rank`` stands for a rank that is not a number; without it such a resource is refused.
    Equal ranks go by name, or by chance if ``tie`` is given.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[Requirements = TARGET.Cpus > 1; Rank = TARGET.Cpus]")
    >>> found = select(job, [(n, parse_ad(f"[Cpus = {n}]")) for n in ("1", "2", "4")])
    >>> [c.name for c in found.ranked], [r.reason for r in found.refused]
    (['4', '2'], ['the job refuses: TARGET.Cpus > 1 is false (Cpus = 1)'])
    """
    from matchmaker.matching.columns.masks import RefusedBy

    among = NamedAds.of(resources)
    decision = among.snapshot.decide(job, conditions, default_rank=default_rank)

    def refuse(row: int) -> Refusal:
        by = RefusedBy(int(decision.by[row])).name.lower()
        return refused_by(
            by, job, among.names[row], among.ad(row), conditions, error=decision.error
        )

    return among.selection(decision, among.ordered(decision, tie), refuse)


def refused_by(
    by: str,
    job: ClassAd,
    name: str,
    ad: ClassAd,
    conditions: Sequence[Expr] = (),
    *,
    error: str | None = None,
) -> Refusal:
    """Explain why a resource is refused, given who refuses: the first clause that does.

    ``by`` is as in ``Refusal``, and not ``expiry``; ``conditions`` are the broker's own. ``error``
    is the reason if no clause refuses: an evaluation that took too much among many resources need
    not by itself.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[ Requirements = other.Cpus > 1 && other.Memory > 1 ]")
    >>> refused_by("job", job, "wn1", parse_ad("[ Cpus = 2 ]")).reason
    'the job refuses: other.Memory > 1 is undefined (Memory = undefined)'
    >>> refused_by("rank", parse_ad("[ Rank = 2 * other.Memory ]"), "wn1", parse_ad("[]")).reason
    "the job's rank of it is undefined, not a number: Memory is undefined"
    """
    if by == "rank":
        return _unranked(job, name, ad, error)
    if by == "broker":
        allowance, asking = Allowance(), with_scopes(job)
        each = (c for condition in conditions for c in clauses_of(condition, asking, ad, allowance))
        clause = next((clause for clause in each if clause.value is not True), None)
    else:
        mine, other = (job, ad) if by == "job" else (ad, job)
        clause = refusal(mine, other)
        if clause is None and REQUIREMENTS in mine:
            # Its clauses are true one by one, but name the whole.
            whole = Clause(mine.expr(REQUIREMENTS), truth(mine.eval(REQUIREMENTS, target=other)))
            clause = whole if whole.value is not True or error is None else None
    why = str(clause) if clause is not None else error
    return Refusal(name, ad, by, f"{_WORDS[by]}: {why}" if why else _WORDS[by], clause)


def _unranked(job: ClassAd, name: str, ad: ClassAd, error: str | None) -> Refusal:
    """Explain why a rank is not a number: by attributes that are undefined or an error."""
    if RANK not in job:
        return Refusal(name, ad, "rank", "the job has no rank")
    clause = rank_clause(job, ad)
    if rank_number(clause.value) is not None:
        # What took too much among many resources need not by itself.
        return Refusal(name, ad, "rank", f"the job's rank of it is an error: {error}")
    said = f"the job's rank of it is {type_name(clause.value)}, not a number"
    at_fault = [f for f in clause.facts if f[1] is UNDEFINED or is_error(f[1])] or clause.facts
    why = ", ".join(f"{fact} is {value_text(value)}" for fact, value in at_fault)
    return Refusal(name, ad, "rank", f"{said}: {why or value_text(clause.value)}", clause)


_WORDS = {
    "job": "the job refuses",
    "resource": "it refuses the job",
    "broker": "the broker refuses",
}
