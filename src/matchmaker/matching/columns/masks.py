"""Which rows a requirement is true of, clause by clause, and how a job ranks them.

A clause that says the same of a job's attributes as one before it has the same mask, as long as no
column that it reaches has changed; and so has a rank. Both are kept between jobs: a mask is a byte
a row, a rank eight.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Attr, Binary, Expr, conjuncts
from matchmaker.classad.operators import truth
from matchmaker.classad.values import UNDEFINED
from matchmaker.matching.columns.column import Coded, Column, Rows
from matchmaker.matching.columns.contents import MISSING, identity
from matchmaker.matching.columns.evaluator import Evaluator, Step
from matchmaker.matching.columns.reach import Reach, Side
from matchmaker.matching.columns.store import View
from matchmaker.matching.columns.vectors import Mask, Same, Vector, is_true, numbers
from matchmaker.matching.names import FOLDED_RANK, FOLDED_REQUIREMENTS, REQUIREMENTS

MOST_GROUPS: Final = 16
"""With more distinct requirements than this among the rows, each group is evaluated by itself."""

Stamps: TypeAlias = "tuple[tuple[str, int], ...]"


_SHARE: Final = 8
"""A rank of more than one row in so many is found for all rows, to be kept."""


@attrs.frozen(slots=True, eq=False)
class _Kept:
    stamps: Stamps
    array: npt.NDArray[Any]


class Cache:
    """Masks of clauses and ranks of rows, those used last, up to a number of bytes together."""

    def __init__(self, most: int = 1 << 28) -> None:
        self._most = most
        self._bytes = 0
        self._kept: OrderedDict[Any, _Kept] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Any, stamps: Stamps, size: int) -> Any:
        """The array under a key, if its columns have not changed, else None."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            if kept.stamps != stamps or len(kept.array) != size:
                self._drop(key)
                return None
            self._kept.move_to_end(key)
            return kept.array

    def put(self, key: Any, stamps: Stamps, array: npt.NDArray[Any]) -> None:
        """Keeps an array, in the place of what has not been used for longest."""
        with self._lock:
            if key in self._kept:
                self._drop(key)
            self._kept[key] = _Kept(stamps, array)
            self._bytes += array.nbytes
            while self._bytes > self._most and len(self._kept) > 1:
                self._drop(next(iter(self._kept)))

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, key: Any) -> None:
        self._bytes -= self._kept.pop(key).array.nbytes


class Masks:
    """The masks of one job's requirements, and of the rows' requirements of it, over one view."""

    def __init__(
        self, view: View, job: ClassAd, cache: Cache, steps: list[Step] | None = None
    ) -> None:
        self.view = view
        self.job = job
        self._cache = cache
        self._steps = steps
        self._mine = Evaluator(view, job, (Side.JOB, FOLDED_REQUIREMENTS), steps)
        self._theirs = Evaluator(view, job, (Side.ROW, FOLDED_REQUIREMENTS), steps)

    @property
    def problem(self) -> str | None:
        """Why a part of the job's requirements is ERROR that used up its steps, if one did."""
        return self._mine.problem

    def clause(self, node: Expr) -> Mask:
        """Where a part of the job's requirements is true."""
        return self._mask(self._mine, node, Side.JOB)

    def mine(self) -> Mask:
        """Where the job's requirements are true; everywhere if it has none."""
        if FOLDED_REQUIREMENTS not in self.job.content:
            return self._all(True)
        return self._content(self._mine, self.job.content[FOLDED_REQUIREMENTS], Side.JOB)

    def theirs(self, among: Mask | None = None) -> Mask:
        """Where the requirements of the rows are true of the job, and those without any.

        Rows outside of `among` need not be looked at; what is said of them is anything.
        """
        column = self.view.columns.get(FOLDED_REQUIREMENTS)
        if column is None:
            return self._all(True)
        if isinstance(column, Coded) and len(column.table) <= MOST_GROUPS:
            return self._groups(self._theirs, column, self._all(True))
        rows = np.arange(self.view.size) if among is None else np.flatnonzero(among)
        mask = np.zeros(self.view.size, np.bool_)
        mask[rows] = self._accepting(column, rows)
        return mask

    def at(self, rows: Rows) -> Mask:
        """Which of some rows match, both ways. Nothing is kept, and nothing kept is used."""
        content = self.job.content.get(FOLDED_REQUIREMENTS, True)
        if isinstance(content, Expr):
            mask = is_true(self._mine.vector(content, Side.JOB, rows), len(rows)).copy()
        else:
            mask = np.full(len(rows), truth(content) is True)
        column = self.view.columns.get(FOLDED_REQUIREMENTS)
        if column is not None:
            left = np.flatnonzero(mask)
            mask[left] = self._accepting(column, rows[left])
        return mask

    def _accepting(self, column: Column, rows: Rows) -> Mask:
        """Which of some rows have requirements that are true of the job, or none."""
        found = self._theirs.follow(column, True, rows)
        if found is not None:
            return is_true(found, len(rows))
        # Too many distinct requirements to group: each row by itself.
        whole = Evaluator(self.view, self.job, (Side.ROW, ""), self._steps)
        node = Attr(Attr(None, "MY", False), REQUIREMENTS, False)
        found = whole.vector(node, Side.ROW, rows)
        return is_true(found, len(rows)) | column.missing(self.view.size)[rows]

    def _all(self, value: bool) -> Mask:
        return np.broadcast_to(np.bool_(value), (self.view.size,))

    def _content(self, evaluator: Evaluator, content: Any, side: Side) -> Mask:
        if isinstance(content, Expr):
            return self._mask(evaluator, content, side)
        return self._all(truth(content) is True)

    def _groups(self, evaluator: Evaluator, column: Coded, absent: Mask) -> Mask:
        """Where what the rows hold in a column is true, once for each distinct content."""
        codes = column.codes[: self.view.size]
        table = column.table[:]
        present = np.bincount(codes, minlength=len(table)).tolist()
        masks = []
        for code, (content, rows) in enumerate(zip(table, present, strict=True)):
            if not rows:
                continue
            part = absent if content is MISSING else self._content(evaluator, content, Side.ROW)
            if rows == self.view.size:
                return part
            masks.append(np.logical_and(part, codes == code))
        return _combined(np.logical_or, masks) if masks else self._all(False)

    def _mask(self, evaluator: Evaluator, node: Expr, side: Side) -> Mask:
        reach = evaluator.reaches.of(node, side)
        if reach.opaque:
            return self._evaluated(evaluator, node, side)
        if isinstance(node, Binary) and node.operator == "&&":
            # True exactly where both sides are.
            masks = [self._mask(evaluator, clause, side) for clause in conjuncts(node)]
            return _combined(np.logical_and, masks)
        if isinstance(node, Attr):
            named = self._named(evaluator, node, side)
            if named is not None:
                return named
        if reach.volatile:
            return self._evaluated(evaluator, node, side)
        key, stamps = _key(self.view, self.job, node, side, reach)
        mask: Mask | None = self._cache.get(key, stamps, self.view.size)
        if mask is None:
            mask = self._evaluated(evaluator, node, side)
            # What ran out of steps is to say so the next time too.
            if evaluator.problem is None:
                self._cache.put(key, stamps, mask)
        return mask

    def _named(self, evaluator: Evaluator, node: Attr, side: Side) -> Mask | None:
        """Where a name is true that stands for a few expressions, such as START; else None.

        So the clauses of what it stands for are kept one by one.
        """
        holder = evaluator.reaches.holder(node, side)
        if holder is None:
            return None
        if holder is Side.JOB:
            content = self.job.content.get(node.folded)
            return self._mask(evaluator, content, holder) if isinstance(content, Expr) else None
        column = self.view.columns.get(node.folded)
        if not isinstance(column, Coded) or not 1 < len(column.table) <= MOST_GROUPS:
            return None
        if not column.expressions():
            return None
        absent = self._all(False)
        if evaluator.reaches.falls_through(node, side) and column.lacks(self.view.size):
            absent = self._content(evaluator, self.job.content[node.folded], Side.JOB)
        return self._groups(evaluator, column, absent)

    def _evaluated(self, evaluator: Evaluator, node: Expr, side: Side) -> Mask:
        vector: Vector = evaluator.vector(node, side)
        if isinstance(vector, Same):
            return self._all(truth(vector.value) is True)
        return is_true(vector, self.view.size)


def _combined(connective: np.ufunc, masks: list[Mask]) -> Mask:
    """Masks joined by `and` or by `or`; those given stay as they are."""
    if len(masks) == 1:
        return masks[0]
    joined: Mask = connective(masks[0], masks[1])
    for mask in masks[2:]:
        connective(joined, mask, out=joined)
    return joined


def _key(view: View, job: ClassAd, node: Expr, side: Side, reach: Reach) -> tuple[Hashable, Stamps]:
    """What the value of an expression for all rows rests on: the job's part, and the columns'."""
    said = [(name, job.content.get(name)) for name in sorted(reach.job)]
    key = node, side, tuple((name, c.__class__, identity(c)) for name, c in said)
    columns = view.columns
    stamps = tuple(
        (name, columns[name].version if name in columns else 0) for name in sorted(reach.columns)
    )
    return key, stamps


def ranks(view: View, job: ClassAd, rows: Rows, cache: Cache) -> npt.NDArray[np.float64]:
    """How a job ranks some of the rows: a real each, NaN where its rank is not a number."""
    content = job.content.get(FOLDED_RANK, UNDEFINED)
    if not isinstance(content, Expr):
        return _marked(Same(content), len(rows))
    evaluator = Evaluator(view, job, (Side.JOB, FOLDED_RANK))
    reach = evaluator.reaches.of(content, Side.JOB)
    if reach.volatile:
        return _marked(evaluator.vector(content, Side.JOB, rows), len(rows))
    key, stamps = _key(view, job, content, Side.JOB, reach)
    key = FOLDED_RANK, key
    known = cache.get(key, stamps, view.size)
    if known is None and _SHARE * len(rows) < view.size:
        return _marked(evaluator.vector(content, Side.JOB, rows), len(rows))
    if known is None:
        known = _marked(evaluator.vector(content, Side.JOB), view.size)
        cache.put(key, stamps, known)
    found: npt.NDArray[np.float64] = known[rows]
    return found


def _marked(vector: Vector, size: int) -> npt.NDArray[np.float64]:
    found, none = numbers(vector, size)
    # Always a copy: what is kept must not be a piece of a column.
    return np.where(none, np.nan, found)
