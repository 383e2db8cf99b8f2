"""The scalar form of evaluation applied to what rows hold, once for each distinct content.

It is applied to ads of just the columns that are reached, what it takes is counted, and what takes
much is kept. When which way is taken is decided in ``evaluator``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from matchmaker.classad import bounds
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.bounds import exhausted
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.nodes import Attr, Expr, weight
from matchmaker.classad.operators import truth
from matchmaker.classad.unparse import unparse
from matchmaker.classad.values import UNDEFINED, Value, is_error
from matchmaker.matching.columns.column import Coded, Rows, used_codes
from matchmaker.matching.columns.contents import FALSE, MISSING, TRUE, encoded, identity
from matchmaker.matching.columns.groups import (
    table_by_code,
)
from matchmaker.matching.columns.lookup import of_rows, of_table
from matchmaker.matching.columns.reach import Reach, Reaches, Side
from matchmaker.matching.columns.search import Search
from matchmaker.matching.columns.store import View
from matchmaker.matching.columns.vectors import (
    Chosen,
    Mask,
    Objects,
    Scalars,
    Vector,
    merged,
    values,
)
from matchmaker.matching.columns.work import (
    OverworkError,
    Spent,
    Work,
    taken,
)

FEW: Final = 256
"""Up to so many distinct contents or combinations, each is evaluated without further thought."""

COSTLY: Final = 10_000
"""What an expression that took more steps came to is kept, if it can be told on what it rests."""


class Scalar:
    """One attribute of a job or of the rows' ads, matched with each other, by content."""

    def __init__(self, view: View, job: ClassAd, root: tuple[Side, str], work: Work | None) -> None:
        self.view = view
        self.job = job
        self.reaches = Reaches(job, view.columns, view.size, root)
        self._root = root
        self._work = work if work is not None else Work(view.size)
        self.spent = Spent(view.size)
        """What the expression asked for last took of each row."""
        self.problem: str | None = None
        """Why it is ERROR for some rows, where one evaluation took too much."""

    def whole(self, rows: Rows, *, narrow: bool = False) -> Mask:
        """Where the attribute is true, each row by itself; `narrow` with what it reaches only.

        It is true where there is none.
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
            ad = self.view.ad(row) if names is None else ClassAd.of(self._content(row, names))
            value = (self.job if side is Side.JOB else ad).content.get(name, True)
            if isinstance(value, Expr) and names is None:
                value, _ = self._scalar(value, side, ad)
            elif isinstance(value, Expr):
                value, _ = self._value(value, side, ad.content)
            found[place] = truth(value) is True
        return found

    def _content(self, row: int, names: Sequence[str]) -> dict[str, Any]:
        """What a row holds in some columns."""
        content = {name: self.view.columns[name].get(row) for name in names}
        return {name: held for name, held in content.items() if held is not MISSING}

    @property
    def whose(self) -> str:
        """What is evaluated, in words: the job's requirements."""
        side, name = self._root
        return f"the {'job' if side is Side.JOB else 'slot'}'s {name or 'expressions'}"

    def count(self, node: Expr, steps: int) -> None:
        """Counts work. Raises OverworkError where it is too much."""
        self._work.left -= steps
        if self._work.left < 0:
            raise OverworkError(self._told(node))

    def _told(self, node: Expr) -> str:
        most, size = self._work.most, self._work.size
        text = unparse(node)
        shown = text if len(text) <= 100 else text[:97] + "..."
        what = self.whose if self._root[0] is Side.JOB else f"the slots' {self._root[1]}"
        return f"{what} took more than {most:,} steps on all {size:,} ads together, at {shown}"

    def _names(self, reach: Reach) -> tuple[str, ...]:
        """The columns that are reached and there, in a fixed order."""
        return tuple(sorted(name for name in reach.columns if name in self.view.columns))

    def _value(
        self, node: Expr, side: Side, content: dict[str, Any], *, learn: bool = True
    ) -> tuple[Value, int]:
        """The value with a row that has this content, and its steps.

        What took much before, with whatever job, is not evaluated again, but counts as if it were.
        """
        more = 0
        if self._work.costly.bytes:
            if side is Side.ROW:
                known = self._work.costly[self._alone(node, content)]
                if known is not None:
                    self.count(node, known[1])
                    return known
            content, more = self._shortened(content)
        before = self._work.left
        value, steps = self._scalar(node, side, ClassAd.of(content))
        if learn and steps > COSTLY and not more and self._learn(node, side, content):
            # Counted as it will be the next time, so that it makes no difference which this is.
            self._work.left = before
            return self._value(node, side, content, learn=False)
        self.count(node, more)
        return value, steps + more

    def _scalar(self, node: Expr, side: Side, row: ClassAd) -> tuple[Value, int]:
        inside = self._root[1] if side is self._root[0] else ""
        if side is Side.JOB:
            value, budget = evaluate_counted(node, self.job, row, inside)
        else:
            value, budget = evaluate_counted(node, row, self.job, inside)
        self.count(node, taken(budget))
        if is_error(value) and exhausted(value):
            self.problem = value.reason
            return value, bounds.MAX_STEPS + 1
        return value, budget.steps

    def _alone(self, node: Expr, content: dict[str, Any]) -> Hashable:
        """What the value of an expression of the rows rests on; None if that cannot be said."""
        reach = self.reaches.of(node, Side.ROW)
        if reach.opaque or reach.volatile:
            return None
        job = self.job.content
        return node, _held(content, reach.columns), _held(job, reach.job)

    def _shortened(self, content: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """A content with the values that are known in the place of expressions, and their steps."""
        found, steps = {}, 0
        for name, held in content.items():
            if isinstance(held, Expr):
                known = self._work.costly[self._alone(held, content)]
                if known is not None:
                    found[name] = known[0]
                    steps += known[1]
        return {**content, **found}, steps

    def _learn(self, node: Expr, side: Side, content: dict[str, Any]) -> bool:
        """Keeps what the expressions of a content come to, those that take much; whether any do."""
        held = [one for one in content.values() if isinstance(one, Expr)]
        learnt = False
        for one in [node, *held] if side is Side.ROW else held:
            key = self._alone(one, content)
            if key is None:
                continue
            value, budget = evaluate_counted(one, ClassAd.of(content), self.job)
            steps = budget.steps + weight(one)
            if is_error(value) and exhausted(value):
                steps = bounds.MAX_STEPS + 1
            # Long text costs more than its making, and has no place in a table of values.
            plain = isinstance(value, (bool, int, float)) or value is UNDEFINED or is_error(value)
            if plain and steps > COSTLY:
                self._work.costly.put(key, (value, steps))
                learnt = True
        return learnt

    def _spend(self, rows: Rows | None, steps: Any, most: int) -> None:
        self.spent.at(slice(None) if rows is None else rows, steps, most)

    def _spend_by_code(self, rows: Rows | None, codes: Any, steps: dict[int, int]) -> None:
        """Notes the steps of rows by their code."""
        most = max(steps.values(), default=0)
        table = np.zeros(max(steps, default=0) + 1, np.int64)
        table[list(steps)] = list(steps.values())
        self._spend(rows, table[codes] if most > bounds.MAX_STEPS >> 6 else 0, most)

    def _by_value(
        self, node: Expr, side: Side, rows: Rows | None, size: int, name: str
    ) -> tuple[str, int, Vector]:
        column = self._coded(name)
        codes = self._codes(column, rows)
        table = column.table[:]
        used = column.used(size) if rows is None else used_codes(codes, len(table))
        found, steps = {}, {}
        for code in used.tolist():
            content = table[code]
            held = {} if content is MISSING else {name: content}
            found[code], steps[code] = self._value(node, side, held)
        self._spend_by_code(rows, codes, steps)
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
        found, steps = {}, {}
        for place, combination in zip(places, used.tolist(), strict=True):
            content = {}
            rest = combination
            for name, table in zip(reversed(names), reversed(tables), strict=True):
                rest, code = divmod(rest, len(table))
                if code:
                    content[name] = table[code]
            found[place], steps[place] = self._value(node, side, content)
        self._spend_by_code(rows, codes, steps)
        length = combinations if codes is key else len(used)
        return "by combination", len(used), Chosen(codes, table_by_code(found, length))

    def _by_row(
        self, node: Expr, side: Side, rows: Rows | None, names: tuple[str, ...] | None
    ) -> Vector:
        """With the columns `names` of each row, or with its whole ad where that is None."""
        living = self.view.rows() if rows is None else rows
        found: list[Value] = []
        steps: list[int] = []
        for row in living.tolist():
            if names is None:
                value, used = self._scalar(node, side, self.view.ad(row))
            else:
                value, used = self._value(node, side, self._content(row, names))
            found.append(value)
            steps.append(used)
        self.spent.at(living, steps, max(steps, default=0))
        if rows is None and self.view.alive is not None:
            return merged([(living, Objects(found))], self.view.size)
        return Objects(found)

    def _by_lookup(
        self, node: Expr, side: Side, rows: Rows | None, search: Search, alone: bool
    ) -> Vector | None:
        """By the places of some strings in a column; None where it holds too much else.

        `alone` tells that nothing but this column is reached.
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
            found = {code: self._value(node, side, column.content(search.column, code))
                     for code in others}  # fmt: skip
            kinds[others] = encoded([value for value, _ in found.values()])[0]
            self._spend_by_code(rows, codes, {code: steps for code, (_, steps) in found.items()})
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
        self.spent.all += search.steps(lookup.longest)
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


def _held(content: Mapping[str, Any], names: frozenset[str]) -> Hashable:
    """What an ad holds under some names, as something that can be compared."""
    held = [(name, content[name]) for name in sorted(names) if name in content]
    return tuple((name, one.__class__, identity(one)) for name, one in held)
