"""The scalar form of evaluation applied to what rows hold, once for each distinct content.

It is applied to ads of just the columns that are reached, and its work is counted. ``evaluator``
chooses the strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.nodes import Attr, Expr
from matchmaker.classad.operators import truth
from matchmaker.classad.state import Budget, exhausted
from matchmaker.classad.values import Value
from matchmaker.matching.columns.column import Coded, Rows, used_codes
from matchmaker.matching.columns.contents import FALSE, MISSING, TRUE, encoded
from matchmaker.matching.columns.dependencies import Reach, Reaches, Side
from matchmaker.matching.columns.groups import table_by_code
from matchmaker.matching.columns.lookup import of_rows, of_table
from matchmaker.matching.columns.search import Search
from matchmaker.matching.columns.step_budget import Work
from matchmaker.matching.columns.vectors import (
    Chosen,
    Mask,
    Objects,
    Scalars,
    Vector,
    merged,
    values,
)
from matchmaker.matching.columns.views import View

FEW: Final = 256
"""Up to this many distinct contents or combinations are evaluated one by one at once."""


KEPT: Final = 16
"""How many ads of rows are kept for the next expression."""

MADE: Final = 3
"""The shift that makes the steps of making an ad of its attributes."""


class Scalar:
    """One attribute of a job or of the rows' ads, matched with each other, by content."""

    def __init__(
        self,
        view: View,
        job: ClassAd,
        root: tuple[Side, str],
        work: Work | None,
        shares: Callable[[], Any] | None,
    ) -> None:
        """`shares` gives how many rows of a pool each row stands for; without it, one."""
        self.view = view
        self.job = job
        self.reaches = Reaches(job, view.columns, view.size, root)
        self._root = root
        self.work = work if work is not None else Work(len(view))
        self._shares = shares
        self._ads: dict[int, ClassAd] = {}
        self.begin()

    def begin(self) -> None:
        """Forgets what the last expression took."""
        self.exhausted: Mask | None = None
        """Rows for which a part of it took more than their allowance; None for no row."""
        self.problem: str | None = None
        """Why it is ERROR for some rows, where an evaluation took too much."""

    def alone(self, node: Expr, side: Side, rows: Rows) -> list[Value]:
        """The values of an expression, each row by itself within its allowance."""
        found = []
        for row in rows.tolist():
            value, budget = self._applied(node, side, self._ad(row))
            # Counted, but never refused: each row has its allowance.
            self.work.left -= self.work.note(budget)
            found.append(value)
        return found

    def whole(self, rows: Rows, *, narrow: bool = False) -> Mask:
        """Where the attribute is true, each row by itself; `narrow` with what it reaches only.

        It is true where an ad lacks the attribute.
        """
        side, name = self._root
        names = None
        if narrow:
            # From outside, since what leads to the attribute itself leads in a circle.
            reaches = Reaches(self.job, self.view.columns, self.view.size, (side, ""))
            reach = reaches.of(Attr(Attr(None, "MY", False), name, False), side)
            names = None if reach.opaque else self._names(reach)
        found = np.zeros(len(rows), np.bool_)
        for place, row in enumerate(rows.tolist()):
            ad = self._ad(row) if names is None else ClassAd._of(self._content(row, names))
            value = (self.job if side is Side.JOB else ad)._held.get(name, True)
            if isinstance(value, Expr):
                value, _ = self._applied(value, side, ad)
            found[place] = truth(value) is True
        return found

    def _ad(self, row: int) -> ClassAd:
        """The ad of a row. A few are kept, since each clause of a requirement may ask for them."""
        ad = self._ads.get(row)
        if ad is None:
            ad = self.view.ad(row)
            # Counted, but never refused: what evaluates it counts next.
            self.work.left -= len(ad) >> MADE
            if len(self._ads) < KEPT and not self.view.changing:
                self._ads[row] = ad
        return ad

    def _content(self, row: int, names: Sequence[str]) -> dict[str, Any]:
        """What a row holds in some columns."""
        content = {name: self.view.columns[name].get(row) for name in names}
        return {name: held for name, held in content.items() if held is not MISSING}

    @property
    def whose(self) -> str:
        """What is evaluated, in words: the job's requirements."""
        side, name = self._root
        return f"the {'job' if side is Side.JOB else 'slot'}'s {name or 'expressions'}"

    def _names(self, reach: Reach) -> tuple[str, ...]:
        """The columns that are reached and there, in a fixed order."""
        return tuple(sorted(name for name in reach.columns if name in self.view.columns))

    def _value(self, node: Expr, side: Side, ad: ClassAd, *shared: Any) -> Value:
        """The value with an ad; ``_sharing`` says which rows have it."""
        before = self.problem
        value, budget = self._applied(node, side, ad)
        self.work.count(self.work.note(budget))
        if (
            exhausted(value)
            and budget.limit < Budget.limit
            and (rows := self._sharing(*shared)) > 1
        ):
            self.problem = before
            value, budget = self._applied(node, side, ad, rows)
            self.work.count(self.work.note(budget))
        return value

    def _applied(self, node: Expr, side: Side, row: ClassAd, rows: int = 1) -> tuple[Value, Budget]:
        """The value for a row, within the allowance of a number of rows, and the budget it used."""
        inside = self._root[1] if side is self._root[0] else ""
        my, target = (self.job, row) if side is Side.JOB else (row, self.job)
        value, budget = evaluate_counted(node, my, target, inside, self.work.within(rows))
        if exhausted(value):
            self.problem = value.reason
        return value, budget

    def _sharing(self, rows: Rows | None, codes: Any = None, code: int = 0) -> int:
        """How many rows of the pool some rows stand for: all, or those with a code."""
        if self._shares is not None:
            shares = self._shares() if rows is None else self._shares()[rows]
            return int(shares.sum() if codes is None else shares[codes == code].sum())
        if codes is not None:
            return int(np.count_nonzero(codes == code))
        return self.view.size if rows is None else len(rows)

    def exhaust(self, rows: Rows | None, some: Mask | bool) -> None:
        """Notes for which of some rows, or of all, a part took more than their allowance."""
        if np.any(some):
            if self.exhausted is None:
                self.exhausted = np.zeros(self.view.size, np.bool_)
            self.exhausted[slice(None) if rows is None else rows] |= some

    def _exhaust_by_code(self, rows: Rows | None, codes: Any, found: dict[int, Value]) -> None:
        if self.problem is not None:
            much = [code for code, value in found.items() if exhausted(value)]
            self.exhaust(rows, np.isin(codes, much))

    def _by_value(
        self, node: Expr, side: Side, rows: Rows | None, size: int, name: str
    ) -> tuple[str, int, Vector]:
        column = self._coded(name)
        codes = self._codes(column, rows)
        table = column.table[:]
        used = column.used(size) if rows is None else used_codes(codes, len(table))
        found = {
            code: self._value(
                node, side, ClassAd._of(column.content(name, code)), rows, codes, code
            )
            for code in used.tolist()
        }
        self._exhaust_by_code(rows, codes, found)
        return "by value", len(used), Chosen(codes, table_by_code(found, len(table)))

    def _by_combination(
        self, node: Expr, side: Side, rows: Rows | None, names: tuple[str, ...], combinations: int
    ) -> tuple[str, int, Vector]:
        columns = [self._coded(name) for name in names]
        tables = [column.table[:] for column in columns]
        kind = np.uint32 if combinations <= 1 << 31 else np.int64
        key: Any = 0
        for column, table in zip(columns, tables, strict=True):
            key = key * len(table) + self._codes(column, rows).astype(kind)
        if combinations <= max(FEW, len(key)):
            used = used_codes(key, combinations)
            codes = key
            places: Sequence[int] = used.tolist()
        else:
            used, codes = np.unique(key, return_inverse=True)
            places = range(len(used))
        found = {}
        for place, combination in zip(places, used.tolist(), strict=True):
            content = {}
            rest = combination
            for name, table in zip(reversed(names), reversed(tables), strict=True):
                rest, code = divmod(rest, len(table))
                if code:
                    content[name] = table[code]
            found[place] = self._value(node, side, ClassAd._of(content), rows, codes, place)
        self._exhaust_by_code(rows, codes, found)
        length = combinations if codes is key else len(used)
        return "by combination", len(used), Chosen(codes, table_by_code(found, length))

    def _by_row(
        self, node: Expr, side: Side, rows: Rows | None, names: tuple[str, ...] | None
    ) -> Vector:
        """With the columns `names` of each row, or with its whole ad where that is None."""
        living = self.view.rows() if rows is None else rows
        found: list[Value] = []
        for place, row in enumerate(living.tolist()):
            ad = self._ad(row) if names is None else ClassAd._of(self._content(row, names))
            found.append(self._value(node, side, ad, living[place : place + 1]))
        if self.problem is not None:
            self.exhaust(living, np.fromiter(map(exhausted, found), np.bool_, len(found)))
        if rows is None and self.view.alive is not None:
            return merged([(living, Objects(found))], self.view.size)
        return Objects(found)

    def _by_lookup(
        self, node: Expr, side: Side, rows: Rows | None, search: Search, alone: bool
    ) -> Vector | None:
        """By the places of some strings in a column; None where it holds too much else.

        `alone` if only this column is reached.
        """
        column = self.view.columns[search.column]
        codes: Any = None
        default = TRUE if search.negated else FALSE
        if isinstance(column, Coded):
            table, codes = column.table, self._codes(column, rows)
            lookup = of_table(table)
            used = column.used(self.view.size) if rows is None else used_codes(codes, len(table))
            others = np.intersect1d(lookup.others, used, assume_unique=True).tolist()
            if not alone or len(others) > FEW:
                return None
            kinds = np.full(len(table), default, np.uint8)
            found = {
                code: self._value(
                    node,
                    side,
                    ClassAd._of(column.content(search.column, code)),
                    rows,
                    codes,
                    code,
                )
                for code in others
            }
            kinds[others] = encoded(list(found.values()))[0]
            self._exhaust_by_code(rows, codes, found)
            at = lookup.find(search.texts, search.exact, lambda some: [table[n] for n in some])
        else:
            lookup = of_rows(column, self.view.size)
            odd = np.zeros(self.view.size, np.bool_)
            odd[lookup.others] = True
            if self.view.alive is not None:
                odd &= self.view.alive
            some = np.flatnonzero(odd) if rows is None else rows[odd[rows]]
            if len(some) > self.view.size >> 3:
                return None
            kinds = np.full(self.view.size, default, np.uint8)
            if len(some):
                names = self._names(self.reaches.of(node, side))
                each = values(self._by_row(node, side, some, names), len(some))
                kinds[some] = encoded(each)[0]
            at = lookup.find(search.texts, search.exact, column.contents)
        kinds[at] = FALSE if search.negated else TRUE
        if codes is not None:
            return Chosen(codes, Scalars(kinds, None))
        return Scalars(kinds if rows is None else kinds[rows], None)

    def _coded(self, name: str) -> Coded:
        column = self.view.columns[name]
        if not isinstance(column, Coded):
            raise TypeError(f"{name} is not a coded column")
        return column

    def _codes(self, column: Coded, rows: Rows | None) -> Any:
        return column.codes[: self.view.size] if rows is None else column.codes[rows]
