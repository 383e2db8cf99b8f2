"""The clauses of the slots' own requirements, followed through names such as START.

Many slots usually hold the same few requirements. Each
clause of them is evaluated once for all the slots that hold it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
import numpy as np

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker._limits import PoolLimits
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.nodes import Attr, Expr
from matchmaker.classad.walks import conjuncts
from matchmaker.matching.columns.column import Coded, Column, Rows
from matchmaker.matching.columns.contents import MISSING
from matchmaker.matching.columns.dependencies import Reach, Side
from matchmaker.matching.columns.evaluator import Evaluator
from matchmaker.matching.columns.step_budget import Work
from matchmaker.matching.columns.vectors import Mask, is_true
from matchmaker.matching.columns.views import View
from matchmaker.matching.names import FOLDED_REQUIREMENTS, REQUIREMENTS

_WHOLE: Final = Attr(Attr(None, "MY", False), REQUIREMENTS, False)


@attrs.frozen(slots=True, eq=False)
class Held:
    """A clause of some slots' requirements.

    ``via`` are the names that lead to it, ``rows`` the slots that hold it, and ``accepts`` says for
    each of them whether it is true of the job. ``reach`` is what it rests on. Where it is
    ``lumped``, it is a name that stands for another clause in many of the rows.
    """

    node: Expr
    via: tuple[str, ...]
    rows: Rows
    accepts: Mask
    reach: Reach
    lumped: bool


class Policies:
    """Finds the clauses that the living rows of a view hold, and what they say of a job.

    The requirements of a row are true of the job exactly where all clauses are that it holds.
    """

    def __init__(self, view: View, job: ClassAd, limits: PoolLimits) -> None:
        self._view = view
        work = Work(len(view), limits)
        self.evaluator = Evaluator(view, job, (Side.ROW, FOLDED_REQUIREMENTS), work)
        # Requirements as a whole are asked for by their name, which would else lead in a circle.
        self._outside = Evaluator(view, job, (Side.ROW, ""), work)
        self.problem: str | None = None
        """Why a clause is ERROR for some slots, where an evaluation took too much."""
        self._leaves: dict[tuple[Expr, tuple[str, ...], bool], list[Rows]] = {}

    def held(self) -> list[Held]:
        """The clauses, in no particular order. Raises OverworkError."""
        self._leaves = {}
        pending = self._named(FOLDED_REQUIREMENTS, _WHOLE, self._view.rows(), ())
        while pending:
            further: dict[tuple[Expr, tuple[str, ...]], list[Rows]] = {}
            for (node, via), parts in pending.items():
                rows = _joined(parts)
                for clause in conjuncts(node):
                    for key, some in self._followed(clause, rows, via):
                        further.setdefault(key, []).append(some)
            pending = further
        return [self._held(*key, _joined(rows)) for key, rows in self._leaves.items()]

    def lumped(self, accepting: Mask) -> Held:
        """The requirements of all slots as one clause, where it is known which accept the job."""
        rows = self._view.rows()
        return Held(_WHOLE, (), rows, accepting[rows], Reach(opaque=True), lumped=True)

    def _held(self, node: Expr, via: tuple[str, ...], lumped: bool, rows: Rows) -> Held:
        evaluator = self._outside if node is _WHOLE else self.evaluator
        accepts = is_true(evaluator.attempt(node, Side.ROW, rows), len(rows))
        self.problem = self.problem or evaluator.problem
        return Held(node, via, rows, accepts, evaluator.reaches.of(node, Side.ROW), lumped)

    def _followed(
        self, clause: Expr, rows: Rows, via: tuple[str, ...]
    ) -> Iterator[tuple[tuple[Expr, tuple[str, ...]], Rows]]:
        """Follow a clause that is a name to its definition; any other clause is a leaf."""
        reaches = self.evaluator.reaches
        if (
            isinstance(clause, Attr)
            and reaches.holder(clause, Side.ROW) is Side.ROW
            and self._view.has(clause.folded)
            and not reaches.of(clause, Side.ROW).opaque
        ):
            for key, parts in self._named(clause.folded, clause, rows, via).items():
                yield from ((key, part) for part in parts)
        else:
            self._leaf(clause, rows, via)

    def _leaf(self, node: Expr, rows: Rows, via: tuple[str, ...], lumped: bool = False) -> None:
        self._leaves.setdefault((node, via, lumped), []).append(rows)

    def _named(
        self, folded: str, name: Attr, rows: Rows, via: tuple[str, ...]
    ) -> dict[tuple[Expr, tuple[str, ...]], list[Rows]]:
        """The expressions that rows hold under a name; values and the rest become leaves."""
        column = self._view.columns.get(folded)
        found: dict[tuple[Expr, tuple[str, ...]], list[Rows]] = {}
        if column is None:
            return found
        path = via if name is _WHOLE else (*via, name.name)
        for content, some in _groups(column, rows):
            if isinstance(content, Expr):
                found.setdefault((content, path), []).append(some)
            elif content is MISSING:
                # A slot without requirements accepts the job.
                if name is not _WHOLE:
                    self._leaf(name, some, via)
            elif content is _MANY:
                self._leaf(name, some, via, lumped=True)
            else:
                self._leaf(literal(content), some, path)
        return found


_MANY: Final = object()


def _groups(column: Column, rows: Rows) -> Iterator[tuple[Any, Rows]]:
    """The rows by content, the most frequent first; beyond a number, the others under _MANY."""
    if not isinstance(column, Coded):
        missing = column.missing(int(rows[-1]) + 1 if len(rows) else 0)[rows]
        if missing.any():
            yield MISSING, rows[missing]
        if not missing.all():
            yield _MANY, rows[~missing]
        return
    codes = column.codes[rows]
    table = column.table[:]
    counts = np.bincount(codes, minlength=len(table))
    present = np.flatnonzero(counts)
    if len(present) == 1:
        yield table[present[0]], rows
        return
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(counts)
    missing_first = np.lexsort((-counts[present], present != 0))
    ordered = present[missing_first].tolist()
    for code in ordered[: LIMITS.groups]:
        yield table[code], rows[order[ends[code] - counts[code] : ends[code]]]
    others = ordered[LIMITS.groups :]
    if others:
        yield _MANY, rows[np.isin(codes, others)]


def _joined(parts: list[Rows]) -> Rows:
    """The rows of all parts, each once, in ascending order."""
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
