"""Choosing among resources for one job: who matches, in what order, and why the others do not.

The one procedure for both scales; what is particular to queues is in ``broker``, to worker nodes in
``nodes``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.classad.values import UNDEFINED, Value, type_name
from matchmaker.matching.names import RANK
from matchmaker.matching.pair import Clause, clauses_of, refusal
from matchmaker.matching.ranking import best_first, rank_number


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
    of the broker's own, ``rank`` where the job's rank of it is no number, ``expiry`` where its ad
    is out of date.
    """

    name: str
    ad: ClassAd
    by: str
    reason: str
    clause: Clause | None = None


@attrs.frozen(slots=True)
class Selection:
    """What a job may run on, best first, and what refused it, in the order of the resources."""

    ranked: tuple[Candidate, ...]
    refused: tuple[Refusal, ...]

    @property
    def chosen(self) -> Candidate | None:
        """The best, or None where nothing matches."""
        return self.ranked[0] if self.ranked else None


def select(
    job: ClassAd,
    resources: Iterable[tuple[str, ClassAd]],
    default_rank: Value = UNDEFINED,
    tie: random.Random | None = None,
    *,
    both_ways: bool = True,
    admission: Sequence[Expr] = (),
) -> Selection:
    """Matches a job with named resources, both ways, and puts them in order of rank.

    ``default_rank`` stands for a rank that is not a number; where that is UNDEFINED, such a
    resource is refused. Equal ranks go by name, or by chance where ``tie`` is given. With
    ``both_ways`` false the requirements of resources do not count. ``admission`` are conditions
    of a broker, with the job as MY, that must hold besides.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[Requirements = TARGET.Cpus > 1; Rank = TARGET.Cpus]")
    >>> found = select(job, [(n, parse_ad(f"[Cpus = {n}]")) for n in ("1", "2", "4")])
    >>> [c.name for c in found.ranked], [r.reason for r in found.refused]
    (['4', '2'], ['the job refuses: TARGET.Cpus > 1 is false (Cpus = 1)'])
    """
    ranked: list[Candidate] = []
    refused: list[Refusal] = []
    for name, ad in resources:
        outcome = _refused(job, name, ad, both_ways, admission) or _rank(
            job, name, ad, default_rank
        )
        if isinstance(outcome, Candidate):
            ranked.append(outcome)
        else:
            refused.append(outcome)
    by_rank: Callable[[Candidate], float] = lambda candidate: candidate.rank  # noqa: E731
    ordered = best_first(ranked, by_rank, lambda candidate: candidate.name, tie)
    return Selection(tuple(ordered), tuple(refused))


def _refused(
    job: ClassAd, name: str, ad: ClassAd, both_ways: bool, admission: Sequence[Expr]
) -> Refusal | None:
    clause = refusal(job, ad)
    if clause is not None:
        return Refusal(name, ad, "job", f"the job refuses: {clause}", clause)
    clause = refusal(ad, job) if both_ways else None
    if clause is not None:
        return Refusal(name, ad, "resource", f"it refuses the job: {clause}", clause)
    for condition in admission:
        for clause in clauses_of(condition, job, ad):
            if clause.value is not True:
                return Refusal(name, ad, "broker", f"the broker refuses: {clause}", clause)
    return None


def _rank(job: ClassAd, name: str, ad: ClassAd, default_rank: Value) -> Candidate | Refusal:
    value = job.eval(RANK, ad)
    rank = rank_number(value)
    if rank is None:
        rank = rank_number(default_rank)
    if rank is None:
        return Refusal(
            name, ad, "rank", f"the job's rank of it is {type_name(value)}, not a number"
        )
    return Candidate(name, ad, rank)
