"""A pool as it was at one moment: who matches a job, who is best, and which way that was found.

A snapshot never changes; ``Pool`` is what changes, and asks a snapshot of itself. How expressions
are evaluated on many rows is in ``columns``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, SupportsIndex, TypeVar

import attrs
import numpy as np

from matchmaker._cache import BoundedCache
from matchmaker._limits import POOL_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, an_ad, an_expression, some_ads
from matchmaker.classad.errors import printable, shorten
from matchmaker.classad.nodes import Expr
from matchmaker.classad.values import Value
from matchmaker.classad.walks import key_size
from matchmaker.matching.assignment import Assignment, Policy, assign
from matchmaker.matching.columns.dependencies import Clusters, Side
from matchmaker.matching.columns.evaluator import Evaluator, PlanStep, WorkBudget
from matchmaker.matching.columns.masks import MaskCache, Masks, MatchDecision, decide
from matchmaker.matching.columns.store import KeyIndex, Store, View
from matchmaker.matching.columns.vectors import Mask, values
from matchmaker.matching.pair import FOLDED_RANK
from matchmaker.matching.ranking import best_of_many
from matchmaker.matching.ranking import fuzzy as drawn
from matchmaker.matching.results import SHOWN, arrow_table, data_frame, html_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from matchmaker.matching.columns.arrow import ArrowTable


class Named(Protocol):
    """A source of the keys of rows."""

    def of(self, rows: Iterable[int], /) -> list[str]:
        """The keys of many rows."""


@attrs.frozen(eq=False, repr=False)
class Matches:
    """The ads that matched: keys, ranks and row numbers, one entry an ad, in step with each other.

    A rank that is not a number counts as 0.0, as in HTCondor; ``unranked`` names those keys. Row
    numbers grow in the order in which ads were entered; if ads were removed, some are missing.

    ``rank_array`` and ``is_unranked`` are NumPy arrays of shape (n,), of reals and booleans.
    ``keys``, ``ranks`` and ``rows`` are made when they are first asked for.
    """

    _row_array: npt.NDArray[np.intp]
    rank_array: npt.NDArray[np.float64]
    _names: Named
    is_unranked: npt.NDArray[np.bool_]
    error: str | None = None
    """Why requirements or ranks are ERROR where an ad took too much to evaluate, else None."""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of what matched."""
        return tuple(self._names.of(self._row_array.tolist()))

    @cached_property
    def ranks(self) -> tuple[float, ...]:
        """The job's rank of each."""
        return tuple(self.rank_array.tolist())

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The number of each one's row."""
        return tuple(self._row_array.tolist())

    @property
    def unranked(self) -> tuple[str, ...]:
        """The keys of those whose rank is not a number."""
        return tuple(self._names.of(self._row_array[self.is_unranked].tolist()))

    def __len__(self) -> int:
        return len(self._row_array)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Matches):
            return NotImplemented
        return (self.keys, self.ranks, self.unranked) == (other.keys, other.ranks, other.unranked)

    __hash__ = None  # type: ignore[assignment]

    def __sizeof__(self) -> int:
        """The bytes of the arrays, for caches."""
        arrays = (self._row_array, self.rank_array, self.is_unranked)
        return 500 + sum(array.nbytes for array in arrays)

    def __repr__(self) -> str:
        first = zip(self._names.of(self._row_array[:5].tolist()), self.rank_array, strict=False)
        shown = ", ".join(f"{printable(shorten(key, 60))}: {rank:g}" for key, rank in first)
        return f"<Matches of {len(self)}: {shown}{', ...' if len(self) > 5 else ''}>"

    def __iter__(self) -> Iterator[tuple[str, float]]:
        """The key and the rank of each."""
        return zip(self.keys, self.ranks, strict=True)

    def _repr_html_(self) -> str:
        first = self.chosen(range(min(SHOWN, len(self))))
        return html_table(("key", "rank"), first, len(self))

    def to_arrow(self) -> ArrowTable:
        """A ``pyarrow.Table`` with the columns ``key``, ``rank`` (a real) and ``unranked``."""
        columns = {"key": self.keys, "rank": self.rank_array, "unranked": self.is_unranked}
        return arrow_table(columns)

    def to_pandas(self) -> Any:
        """Return a pandas ``DataFrame``."""
        return data_frame(self.to_arrow())

    def best(self, count: int, tie: random.Random | None = None) -> Matches:
        """The best of them, best first; equal ranks by key, or by chance with `tie`."""

        def keys(places: list[int]) -> list[str]:
            return self._names.of(self._row_array[places].tolist())

        return self.chosen(best_of_many(self.rank_array, keys, count, tie))

    def drawn(
        self, count: int, tie: random.Random | None = None, fuzzy: float | None = None
    ) -> Matches:
        """The best of them, or with `fuzzy` some drawn by lot: see ``Pool.top``."""
        if fuzzy is None:
            return self.best(count, tie)
        chance = tie if tie is not None else random.Random()  # noqa: S311 - spreads jobs only
        return self.chosen(drawn(self.rank_array, count, chance, fuzzy))

    def chosen(self, places: Sequence[int]) -> Matches:
        """Some of the matches, in the order of their places."""
        index = np.array(places, np.intp)
        return Matches(
            self._row_array[index], self.rank_array[index], self._names, self.is_unranked[index],
            self.error,
        )  # fmt: skip


@attrs.frozen(slots=True)
class Plan:
    """The strategy by which each part of an expression was evaluated, as an indented tree."""

    steps: tuple[PlanStep, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


_Found = TypeVar("_Found")


def ads_in(view: View, of: str = "") -> str:
    """How many ads a view has, and the first keys, as a ``repr`` shows them."""
    rows = view.rows()
    first = [printable(shorten(repr(key), 60)) for key in view.keys.of(rows[:5].tolist())]
    if len(rows) > len(first):
        first.append("...")
    number = "1 ad" if len(rows) == 1 else f"{len(rows)} ads"
    return f"{number}{of}: {', '.join(first)}" if first else f"{number}{of}"


def _each_once(
    jobs: Iterable[ClassAd],
    cluster: Callable[[ClassAd], Hashable],
    find: Callable[[ClassAd], _Found],
    rows: int,
) -> Iterator[_Found]:
    """Find something for each job, in order; for jobs of one cluster once, while it is kept."""
    known: BoundedCache[Hashable, _Found] = BoundedCache(
        "matches of alike jobs", LIMITS.kept + LIMITS.kept_each * rows
    )
    for job in jobs:
        name = cluster(job)
        found = known.get(name)
        if found is None:
            found = find(job)
            known.put(name, found, getsizeof(found) + key_size(name))
        # What is derived of it later hangs on the copy.
        yield copy(found)


def checked(count: int, fuzzy: float | None = None) -> None:
    """Raise ValueError or TypeError for a wrong count of the best, or a wrong factor."""
    if not isinstance(count, SupportsIndex):
        raise TypeError(f"how many are wanted is an integer, not {type(count).__name__}")
    if count < 0:
        raise ValueError(f"the best {count} cannot be given")
    if fuzzy is not None and not isinstance(fuzzy, SupportsFloat):
        raise TypeError(f"fuzzy takes a number, not {type(fuzzy).__name__}")


class Snapshot:
    """Ads by key that do not change.

    >>> from matchmaker import Pool, parse_ad, parse_ads
    >>> pool = Pool(parse_ads('[ Name = "a"; Cpus = 2 ] [ Name = "b"; Cpus = 8 ]'))
    >>> then = pool.snapshot()
    >>> pool.remove("b")
    >>> job = parse_ad("[ Requirements = TARGET.Cpus > 1 ]")
    >>> len(then.match(job)), len(pool.match(job))
    (2, 1)
    """

    def __init__(self, view: View, cache: MaskCache) -> None:
        self._view = view
        self._cache = cache

    def __repr__(self) -> str:
        return f"<Snapshot of {ads_in(self._view)}>"

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[ClassAd]:
        return (self._view.ad(row) for row in self._view.rows().tolist())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._row(key) is not None

    def __getitem__(self, key: str) -> ClassAd:
        row = self._row(key)
        if row is None:
            raise KeyError(key)
        return self._view.ad(row)

    def __reduce__(self) -> tuple[Callable[..., Snapshot], tuple[object, ...]]:
        # Pickled as its ads: columns, masks and locks belong to this process.
        return _snapshot_of, (self.named(),)

    def named(self) -> list[tuple[str, ClassAd]]:
        """The ads with their keys."""
        return list(zip(self._view.keys.of(self._view.rows().tolist()), self, strict=True))

    def _row(self, key: str) -> int | None:
        """The number of the row with a key, or None if there is none."""
        return self._index.get(key, self._view.keys.__getitem__)

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex.of(self._view.keys, self._view.rows())

    @cached_property
    def _clusters(self) -> Clusters:
        return Clusters(self._view.columns)

    def _masks(self, job: ClassAd, work: WorkBudget | None = None) -> Masks:
        """The masks of a job's requirements over the rows."""
        return Masks(self._view, job, self._cache, work)

    def match(self, job: ClassAd) -> Matches:
        """See :meth:`Pool.match`."""
        job = an_ad(job)
        found = decide(self._view, job, self._cache, default_rank=0.0)
        unranked = found.unranked if FOLDED_RANK in job._held else np.zeros_like(found.unranked)
        return Matches(found.rows, found.ranks, self._view, unranked, found.error)

    def top(
        self,
        job: ClassAd,
        count: int,
        tie: random.Random | None = None,
        fuzzy: float | None = None,
    ) -> Matches:
        """See :meth:`Pool.top`."""
        checked(count, fuzzy)
        return self.match(job).drawn(count, tie, fuzzy)

    def cluster(self, job: ClassAd) -> Hashable:
        """The autocluster of a job: equal for jobs that match this pool alike."""
        return self._clusters.of(job)

    def match_many(self, jobs: Iterable[ClassAd]) -> Iterator[Matches]:
        """See :meth:`Pool.match_many`."""
        return _each_once(some_ads(jobs), self.cluster, self.match, self._view.size)

    def decide(
        self,
        job: ClassAd,
        conditions: Sequence[Expr] = (),
        expired: Mask | None = None,
        *,
        both_ways: bool = True,
        default_rank: float | None = None,
    ) -> MatchDecision:
        """Decide which ads may take a job, and who refuses: see ``columns.masks.decide``."""
        return decide(
            self._view, an_ad(job), self._cache, conditions, expired,
            both_ways=both_ways, default_rank=default_rank,
        )  # fmt: skip

    def clusters(self, conditions: Sequence[Expr] = ()) -> Clusters:
        """The autoclusters of jobs that conditions of a broker are asked of too."""
        return Clusters(self._view.columns, conditions)

    def assign(self, jobs: Iterable[ClassAd], policy: Policy | None = None) -> Assignment:
        """See :meth:`Pool.assign`."""
        return assign(self._view, self._cache, some_ads(jobs), policy)

    def plan(self, expression: Expr | str, job: ClassAd | None = None) -> Plan:
        """See :meth:`Pool.plan`."""
        node = an_expression(expression)
        steps: list[PlanStep] = []
        job = an_ad(job) if job is not None else ClassAd()
        work = WorkBudget(len(self), self._cache.limits)
        # The rows of removed ads stay in the columns for a while; the plan is of those that live.
        rows = None if self._view.alive is None else self._view.rows()
        Evaluator(self._view, job, (Side.JOB, ""), work, steps=steps).vector(node, Side.JOB, rows)
        return Plan(tuple(steps))

    def values(self, expression: Expr | str, job: ClassAd | None = None) -> list[object]:
        """The value of an expression of a job for each ad, in the order of the ads."""
        node = an_expression(expression)
        job = an_ad(job) if job is not None else ClassAd()
        rows = self._view.rows()
        work = WorkBudget(len(self), self._cache.limits)
        vector = Evaluator(self._view, job, (Side.JOB, ""), work).vector(node, Side.JOB, rows)
        return list(values(vector, len(rows)))

    def _own_values(self, expression: Expr | str) -> list[Value]:
        """The value of an expression of the ads themselves, for each, in their order."""
        rows = self._view.rows()
        ask = Evaluator(
            self._view, ClassAd(), (Side.ROW, ""), WorkBudget(len(self), self._cache.limits)
        )
        return list(values(ask.vector(an_expression(expression), Side.ROW, rows), len(rows)))


def _snapshot_of(ads: Iterable[tuple[str, ClassAd]]) -> Snapshot:
    store = Store()
    store.extend(ads)
    return Snapshot(store.view(), MaskCache())
