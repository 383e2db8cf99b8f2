"""Decide which of many ads may take a job, how the job ranks them, and who refuses.

Requirements are masks over the rows, clause by clause. A clause has the same mask for two jobs
whose attributes agree as far as it depends on them, until a column that it depends on changes; so
has a rank. So masks and ranks are kept between jobs, with the steps that they took: these count
each time, and an answer does not depend on earlier questions. ``decide`` is the procedure of
``pair.match`` by columns; why one ad is refused, clause by clause, is in ``selection``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker._cache import BoundedCache
from matchmaker._limits import POOL_LIMITS as LIMITS
from matchmaker._limits import PoolLimits
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Attr, Binary, Expr
from matchmaker.classad.operators import truth
from matchmaker.classad.values import UNDEFINED
from matchmaker.classad.walks import conjuncts, key_size
from matchmaker.matching.columns.column import Coded, Column, Rows, identity
from matchmaker.matching.columns.dependencies import Reach, Side
from matchmaker.matching.columns.evaluator import Evaluator, OverworkError, WorkBudget
from matchmaker.matching.columns.store import View
from matchmaker.matching.columns.vectors import (
    ConstantVector,
    Mask,
    ObjectVector,
    Vector,
    is_true,
    numbers,
)
from matchmaker.matching.pair import FOLDED_RANK, FOLDED_REQUIREMENTS, with_scopes

Stamps: TypeAlias = "tuple[tuple[str, int], ...]"
"""The names and versions of columns; where rows are gone also how many live, without a name."""

_OBJECTS: Final = 500
"""Bytes of a ``CachedMask`` with its arrays, without the elements of the arrays."""

_STAMP: Final = 200
"""Bytes of the name and version of a column."""


@attrs.frozen(slots=True, eq=False)
class CachedMask:
    """A mask or ranks, the versions of the columns that it depends on, and the steps that it took.

    ``problem`` is the reason why it is ERROR for some rows, if something took too much.
    """

    stamps: Stamps
    array: npt.NDArray[Any]
    work: int
    problem: str | None

    @property
    def bytes(self) -> int:
        """The bytes with those of the arrays."""
        return _OBJECTS + self.array.nbytes + _STAMP * len(self.stamps)


class MaskCache:
    """The masks and ranks of one pool, bounded in bytes: ``limits.kept``, and more for each row.

    With 0 bytes it keeps nothing. ``limits`` also bound the work of a question.
    """

    def __init__(self, limits: PoolLimits = LIMITS) -> None:
        self.limits = limits
        self._entries: BoundedCache[Hashable, CachedMask] = BoundedCache(
            "masks and ranks of a pool", limits.kept
        )

    def get(self, key: Hashable, stamps: Stamps, size: int) -> CachedMask | None:
        """Return the entry of a key, or None if there is none or a column has changed."""
        kept = self._entries.get(key)
        if kept is not None and kept.stamps == stamps and len(kept.array) == size:
            return kept
        return None

    def put(self, key: Hashable, kept: CachedMask) -> None:
        """Keep a mask or ranks; all go when they take too much."""
        flat, each = self.limits.kept, self.limits.kept_each
        self._entries.most = flat and flat + each * len(kept.array)
        # A clause may be a thousand times as large as its mask of a few rows.
        self._entries.put(key, kept, kept.bytes + key_size(key))

    def __len__(self) -> int:
        return len(self._entries)


MOST_GROUPS: Final = 16
"""With more distinct requirements than this among the rows, each group is evaluated by itself."""

_Some: TypeAlias = "tuple[str, Coded, Mask]"
"""Rows that hold a content in a column: its name, itself, and which."""


MOST_NAMED: Final = 64
"""How many names are followed clause by clause for one job: each may stand twice in the next."""

_SHARE: Final = 8
"""A rank wanted for more than one row in 8 is evaluated for all rows, and kept. Requirements that
fewer rows have are evaluated for these rows alone."""


class Masks:
    """The masks of one job's requirements, and of the rows' requirements of it, over one view."""

    def __init__(
        self,
        view: View,
        job: ClassAd,
        cache: MaskCache,
        work: WorkBudget | None = None,
    ) -> None:
        self.view = view
        self.job = job
        self.work = work if work is not None else WorkBudget(len(view), cache.limits)
        self._cache = cache
        self._mine = Evaluator(view, job, (Side.JOB, FOLDED_REQUIREMENTS), self.work)
        self._theirs = Evaluator(view, job, (Side.ROW, FOLDED_REQUIREMENTS), self.work)
        self._problems: dict[str, None] = {}
        self._named_yet = 0

    @property
    def problem(self) -> str | None:
        """Why requirements are ERROR for rows whose evaluation took too much."""
        return "; ".join(self._problems) or None

    def clause(self, node: Expr) -> Mask:
        """Mask the rows for which a clause of the job is true. Raise OverworkError."""
        return self._mask(self._mine, node, Side.JOB)

    def condition(self, node: Expr) -> Mask:
        """Return the rows for which another's expression is true, with the job as MY."""
        evaluator = Evaluator(self.view, with_scopes(self.job), (Side.JOB, ""), self.work)

        def alone(rows: Rows) -> Mask:
            return is_true(ObjectVector(evaluator.alone(node, Side.JOB, rows)), len(rows))

        return self._together(
            evaluator, lambda: self._mask(evaluator, node, Side.JOB), alone, self.view.alive
        )

    def mine(self) -> Mask:
        """Return the rows for which the job's requirements are true; all if it has none."""
        content = self.job._held.get(FOLDED_REQUIREMENTS, True)
        return self._together(
            self._mine, lambda: self._content(self._mine, content, Side.JOB), self._mine.whole
        )

    def theirs(self, among: Mask | None = None) -> Mask:
        """Return the rows whose requirements are true of the job, and those without any.

        Entries outside of `among` are unspecified.
        """
        column = self.view.columns.get(FOLDED_REQUIREMENTS)
        if column is None:
            return self._all(True)
        if not isinstance(column, Coded) or len(column.table) > MOST_GROUPS:
            rows = self._rows(among)
            mask = np.zeros(self.view.size, np.bool_)
            mask[rows] = self._accepting(column, rows)
            return mask
        return self._together(
            self._theirs,
            lambda: self._groups(self._theirs, FOLDED_REQUIREMENTS, column, self._all(True)),
            self._theirs.whole,
            among,
        )

    def _rows(self, among: Mask | None) -> Rows:
        return self.view.rows() if among is None else np.flatnonzero(among)

    def _together(
        self,
        evaluator: Evaluator,
        by_columns: Callable[[], Mask],
        alone: Callable[[Rows], Mask],
        among: Mask | None = None,
    ) -> Mask:
        """The mask of a condition; entries outside of `among` are unspecified.

        Clause by clause; row by row if columns take too much.
        """
        before = dict(self._problems)
        try:
            return by_columns()
        except OverworkError:
            # What went wrong by columns need not go wrong for a row by itself.
            self._problems, evaluator.problem = before, None
        mask = np.zeros(self.view.size, np.bool_)
        rows = self._rows(among)
        mask[rows] = alone(rows)
        self._note(evaluator)
        return mask

    def _note(self, evaluator: Evaluator, problem: str | None = None) -> None:
        """Note why something is ERROR."""
        problem = problem or evaluator.problem
        if problem is not None:
            self._problems[f"{evaluator.whose}: {problem}"] = None

    def at(self, rows: Rows) -> Mask:
        """Which of some rows match, both ways. Nothing is kept, and nothing kept is used."""
        self.work.renew()
        content = self.job._held.get(FOLDED_REQUIREMENTS, True)
        if isinstance(content, Expr):
            mask = is_true(self._mine.vector(content, Side.JOB, rows), len(rows)).copy()
        else:
            mask = np.full(len(rows), truth(content) is True)
        column = self.view.columns.get(FOLDED_REQUIREMENTS)
        if column is not None:
            left = np.flatnonzero(mask)
            mask[left] = self._accepting(column, rows[left])
        return mask

    def alone(self, rows: Rows) -> Mask:
        """Decide as ``at`` does, but row by row, which is quicker for one or two."""
        self.work.renew()
        mask = self._mine.whole(rows)
        mask[mask] = self._theirs.whole(rows[mask])
        return mask

    def _accepting(self, column: Column, rows: Rows) -> Mask:
        """Which of some rows have requirements that are true of the job, or none."""
        evaluator = self._theirs
        evaluator.begin()
        try:
            found = evaluator.follow(column, True, rows)
        except OverworkError:
            evaluator.problem, found = None, None
        if found is None:
            # Too many distinct requirements to group, or too much work: each row by itself.
            accepting = evaluator.whole(rows, narrow=True)
        else:
            accepting = is_true(found, len(rows))
            if evaluator.exhausted is not None:
                again = np.flatnonzero(accepting & evaluator.exhausted[rows])
                accepting = accepting.copy()
                accepting[again] = evaluator.whole(rows[again])
        self._note(evaluator)
        return accepting

    def _all(self, value: bool) -> Mask:
        return np.broadcast_to(np.bool_(value), (self.view.size,))

    def _content(self, evaluator: Evaluator, content: Any, side: Side) -> Mask:
        if isinstance(content, Expr):
            return self._mask(evaluator, content, side)
        return self._all(truth(content) is True)

    def _groups(self, evaluator: Evaluator, name: str, column: Coded, absent: Mask) -> Mask:
        """Mask the rows whose content in a column is true, once for each distinct one."""
        codes = column.codes[: self.view.size]
        table = column.table[:]
        used = column.used(self.view.size).tolist()
        masks = []
        for code in used:
            content = table[code]
            if len(used) == 1:
                return self._content(evaluator, content, Side.ROW) if code else absent
            held = np.equal(codes, code)
            if not code or not isinstance(content, Expr):
                part = absent if not code else self._content(evaluator, content, Side.ROW)
                masks.append(np.logical_and(part, held))
                continue
            if _SHARE * int(np.count_nonzero(held)) < self.view.size:
                # What a stranger's few ads ask is not asked for all the others.
                masks.append(self._cached(evaluator, content, Side.ROW, (name, column, held)))
            else:
                masks.append(np.logical_and(self._mask(evaluator, content, Side.ROW), held))
        return _combined(np.logical_or, masks) if masks else self._all(False)

    def _mask(self, evaluator: Evaluator, node: Expr, side: Side) -> Mask:
        reach = evaluator.reaches.of(node, side)
        if reach.opaque:
            return self._evaluated(evaluator, node, side)
        if isinstance(node, Binary) and node.operator == "&&":
            # True exactly where both sides are.
            masks = [self._mask(evaluator, clause, side) for clause in conjuncts(node)]
            return _combined(np.logical_and, masks)
        if isinstance(node, Attr) and self._named_yet < MOST_NAMED:
            self._named_yet += 1
            named = self._named(evaluator, node, side)
            if named is not None:
                return named
        return self._cached(evaluator, node, side)

    def _cached(
        self, evaluator: Evaluator, node: Expr, side: Side, some: _Some | None = None
    ) -> Mask:
        """The mask of an expression, which is kept; of some rows only, if they are given."""
        reach = evaluator.reaches.of(node, side)
        rows = np.flatnonzero(some[2]) if some is not None else None
        if reach.opaque or reach.volatile:
            return self._evaluated(evaluator, node, side, rows)
        key, stamps = _key(evaluator, node, side, reach)
        if some is not None:
            key, stamps = (some[0], key), ((some[0], some[1].version), *stamps)
        kept = self._cache.get(key, stamps, self.view.size)
        if kept is not None:
            self.work.count(kept.work)
            self._note(evaluator, kept.problem)
            return kept.array
        before = self.work.left
        mask = self._evaluated(evaluator, node, side, rows)
        work = before - self.work.left
        self._cache.put(key, CachedMask(stamps, mask, work, evaluator.problem))
        return mask

    def _named(self, evaluator: Evaluator, node: Attr, side: Side) -> Mask | None:
        """Return the rows for which a name of few expressions, such as START, is true; else None.

        So the clauses of its definition are kept one by one.
        """
        holder = evaluator.reaches.holder(node, side)
        if holder is None:
            return None
        if holder is Side.JOB:
            content = self.job._held.get(node.folded)
            return self._mask(evaluator, content, holder) if isinstance(content, Expr) else None
        column = self.view.columns.get(node.folded)
        if not isinstance(column, Coded) or not 1 < len(column.table) <= MOST_GROUPS:
            return None
        if not column.expressions():
            return None
        absent = self._all(False)
        if evaluator.reaches.falls_through(node, side) and column.lacks(self.view.size):
            absent = self._content(evaluator, self.job._held[node.folded], Side.JOB)
        return self._groups(evaluator, node.folded, column, absent)

    def _evaluated(
        self, evaluator: Evaluator, node: Expr, side: Side, rows: Rows | None = None
    ) -> Mask:
        vector = evaluator.attempt(node, side, rows)
        self._note(evaluator)
        if rows is not None:
            mask = np.zeros(self.view.size, np.bool_)
            mask[rows] = is_true(vector, len(rows))
            return mask
        if isinstance(vector, ConstantVector):
            return self._all(truth(vector.value) is True)
        return is_true(vector, self.view.size)


def _combined(connective: np.ufunc, masks: list[Mask]) -> Mask:
    """Join masks by `and` or by `or`, without changing them."""
    if len(masks) == 1:
        return masks[0]
    joined: Mask = connective(masks[0], masks[1])
    for mask in masks[2:]:
        connective(joined, mask, out=joined)
    return joined


def _key(evaluator: Evaluator, node: Expr, side: Side, reach: Reach) -> tuple[Hashable, Stamps]:
    """Return the key and column versions that the value of an expression for all rows depends on.

    The allowance of a row is part of the key, since a row beyond it is an error.
    """
    said = [(name, evaluator.job._held.get(name)) for name in sorted(reach.job)]
    held = tuple((name, c.__class__, identity(c)) for name, c in said)
    key = node, side, evaluator.work.each, held
    columns = evaluator.view.columns
    stamps = tuple(
        (name, columns[name].version if name in columns else 0) for name in sorted(reach.columns)
    )
    view = evaluator.view
    if view.alive is not None:
        # Of rows that are gone nothing is known, and an older snapshot still has them.
        stamps += (("", len(view)),)
    return key, stamps


def rank_key(view: View, job: ClassAd) -> Hashable | None:
    """Return a key, equal for jobs that rank each row alike; None if a rank may change."""
    content = job._held.get(FOLDED_RANK, UNDEFINED)
    if not isinstance(content, Expr):
        return content.__class__, identity(content)
    evaluator = Evaluator(view, job, (Side.JOB, FOLDED_RANK))
    reach = evaluator.reaches.of(content, Side.JOB)
    return None if reach.volatile else _key(evaluator, content, Side.JOB, reach)[0]


def ranks(
    view: View, job: ClassAd, rows: Rows, cache: MaskCache
) -> tuple[npt.NDArray[np.float64], str | None]:
    """Rank some of the rows by a job: a real each, NaN if the rank is not a number.

    Return also the reason why it is ERROR for rows whose evaluation took too much.
    """
    content = job._held.get(FOLDED_RANK, UNDEFINED)
    if not isinstance(content, Expr):
        return _marked(ConstantVector(content), len(rows)), None
    evaluator = Evaluator(view, job, (Side.JOB, FOLDED_RANK), WorkBudget(len(view), cache.limits))
    reach = evaluator.reaches.of(content, Side.JOB)

    def found(some: Rows | None = None) -> npt.NDArray[np.float64]:
        vector = evaluator.vector(content, Side.JOB, some)
        return _marked(vector, view.size if some is None else len(some))

    def reason(problem: str | None) -> str | None:
        return f"{evaluator.whose}: {problem}" if problem is not None else None

    if reach.volatile:
        return found(rows), reason(evaluator.problem)
    key, stamps = _key(evaluator, content, Side.JOB, reach)
    key = FOLDED_RANK, key
    kept = cache.get(key, stamps, view.size)
    if kept is None and _SHARE * len(rows) < view.size:
        return found(rows), reason(evaluator.problem)
    if kept is None:
        kept = CachedMask(stamps, found(), 0, evaluator.problem)
        cache.put(key, kept)
    some: npt.NDArray[np.float64] = kept.array[rows]
    return some, reason(kept.problem)


def _marked(vector: Vector, size: int) -> npt.NDArray[np.float64]:
    found, none = numbers(vector, size)
    # Always a copy: what is kept must not be a piece of a column.
    return np.where(none, np.nan, found)


class RefusedBy(IntEnum):
    """The first to refuse: the job, the ad, the broker, or a rank that is not a number.

    Ads that have expired are not asked.
    """

    NOBODY = 0
    JOB = 1
    RESOURCE = 2
    BROKER = 3
    RANK = 4
    EXPIRY = 5


@attrs.frozen(eq=False)
class MatchDecision:
    """The rows that may take a job, with their ranks, and who refuses.

    ``unranked`` marks the rows whose rank is not a number, so that the default counts. ``error``
    says why something is ERROR for some ads that took too much to evaluate.
    """

    rows: Rows
    ranks: npt.NDArray[np.float64]
    unranked: Mask
    error: str | None
    _refusals: tuple[tuple[RefusedBy, Mask], ...]
    """Which rows have come so far, in the order of asking: who would refuse them there."""

    @cached_property
    def by(self) -> npt.NDArray[np.uint8]:
        """A ``RefusedBy`` for each row; entries for deleted rows are unspecified."""
        found = np.full(len(self._refusals[0][1]), RefusedBy.EXPIRY, np.uint8)
        for by, asked in self._refusals:
            found[asked] = by
        found[self.rows] = RefusedBy.NOBODY
        return found

    def __len__(self) -> int:
        return len(self._refusals[0][1])

    def __sizeof__(self) -> int:
        """The bytes of the arrays, for caches."""
        masks = sum(mask.nbytes for _, mask in self._refusals)
        return 500 + self.rows.nbytes + self.ranks.nbytes + self.unranked.nbytes + 2 * masks


def decide(
    view: View,
    job: ClassAd,
    cache: MaskCache,
    conditions: Sequence[Expr] = (),
    expired: Mask | None = None,
    *,
    both_ways: bool = True,
    default_rank: float | None = None,
) -> MatchDecision:
    """Decide on the rows of a view for a job.

    Args:
        view: the ads.
        job: the job, which is MY in the conditions too.
        cache: masks and ranks of jobs before.
        conditions: a broker's conditions beside the requirements.
        expired: rows that are not asked.
        both_ways: whether the requirements of the ads count.
        default_rank: stands for a rank that is not a number; without it such a row is refused.
    """
    masks = Masks(view, job, cache)
    asked: Mask = np.ones(view.size, np.bool_) if view.alive is None else view.alive
    if expired is not None:
        asked = asked & ~expired
    wanted = asked & masks.mine()
    accepting = wanted & masks.theirs(wanted) if both_ways else wanted
    admitted = accepting
    for condition in conditions:
        admitted = admitted & masks.condition(condition)
    rows = np.flatnonzero(admitted)
    found, problem = ranks(view, job, rows, cache)
    unranked = np.isnan(found)
    if default_rank is None:
        rows, found, unranked = rows[~unranked], found[~unranked], unranked[~unranked]
    else:
        found[unranked] = default_rank
    problems = [reason for reason in (masks.problem, problem) if reason is not None]
    stages = (
        (RefusedBy.JOB, asked),
        (RefusedBy.RESOURCE, wanted),
        (RefusedBy.BROKER, accepting),
        (RefusedBy.RANK, admitted),
    )
    return MatchDecision(rows, found, unranked, "; ".join(problems) or None, stages)
