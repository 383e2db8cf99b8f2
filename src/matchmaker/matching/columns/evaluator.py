"""The value of an expression on many rows: which way each of its parts is best evaluated.

What a part can reach decides. One value for all rows where it reaches no column; the scalar form
once for each distinct content where it reaches one coded column, or once for each combination where
it reaches a few; truth tables and kernels for operators on what remains; and the scalar form row by
row for the rest. The scalar form is applied to ads of just the columns that are reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Attr, Binary, Call, Expr, Ternary, Unary
from matchmaker.classad.operators import BINARY, UNARY
from matchmaker.classad.state import LONG, exhausted
from matchmaker.classad.values import ERROR, UNDEFINED, Value
from matchmaker.classad.walks import operands, spine
from matchmaker.matching.columns import kernels
from matchmaker.matching.columns.column import Coded, Column, Numeric, Rows, narrowest, used_codes
from matchmaker.matching.columns.contents import ERROR_KIND, FALSE, MISSING, TRUE, UNDEFINED_KIND
from matchmaker.matching.columns.dependencies import Reach, Side
from matchmaker.matching.columns.groups import (
    Groups,
    grouped_codes,
    grouped_numbers,
)
from matchmaker.matching.columns.keys import Keys
from matchmaker.matching.columns.plan import Step
from matchmaker.matching.columns.scalar import FEW, Scalar
from matchmaker.matching.columns.search import members, searched
from matchmaker.matching.columns.step_budget import CALL, SHIFT, OverworkError, Work
from matchmaker.matching.columns.vectors import (
    Chosen,
    Objects,
    Same,
    Vector,
    applied,
    connect,
    largest,
    merged,
    negate,
    paired,
    pairs,
    part,
    scalars,
    table_of,
    truths,
    uniform,
    where_is,
)
from matchmaker.matching.columns.views import View

FEW_ROWS: Final = 16
_CONNECTIVES: Final = ("&&", "||")
_LAZY: Final = (*_CONNECTIVES, "?:")


class Evaluator(Scalar):
    """Evaluates parts of one attribute of a job or of the rows' ads, matched with each other."""

    def __init__(
        self,
        view: View,
        job: ClassAd,
        root: tuple[Side, str],
        work: Work | None = None,
        *,
        steps: list[Step] | None = None,
        shares: Callable[[], Any] | None = None,
    ) -> None:
        """`root` is the attribute, by side and folded name; `steps` collects what is done.

        `work` is what may be done, for this and for others together.
        """
        super().__init__(view, job, root, work, shares)
        self._steps = steps
        self._depth = 0

    def vector(self, node: Expr, side: Side, rows: Rows | None = None) -> Vector:
        """The values of an expression that stands on a side, on some rows or on all.

        They are those of the scalar form; those of a row that takes more than its allowance may be
        ERROR instead.
        """
        before = len(self._steps) if self._steps is not None else 0
        try:
            return self.attempt(node, side, rows)
        except OverworkError:
            self.exhausted = None
        living = self.view.rows() if rows is None else rows
        if self._steps is not None:
            names = self._names(self.reaches.of(node, side))
            step = Step(0, str(node), side.value, "by row", names, len(living), len(living))
            self._steps[before:] = [step]
        values = Objects(self.alone(node, side, living))
        if rows is not None or self.view.alive is None:
            return values
        return merged([(living, values)], self.view.size)

    def attempt(self, node: Expr, side: Side, rows: Rows | None = None) -> Vector:
        """As ``vector``, but raises OverworkError where columns take too much for all rows."""
        self.begin()
        vector = self._part(node, side, rows)
        return vector if self.exhausted is None else self._exact(node, side, rows, vector)

    def _exact(self, node: Expr, side: Side, rows: Rows | None, vector: Vector) -> Vector:
        """With the rows evaluated by themselves for which a part took too much.

        Where that part counts, its ERROR has become that of the whole, unless an operator made
        another value of it.
        """
        assert self.exhausted is not None  # noqa: S101 - asked before
        size = self.view.size if rows is None else len(rows)
        suspects = self.exhausted if rows is None else self.exhausted[rows]
        suspects = suspects & ~where_is(ERROR_KIND, vector, size)
        if rows is None and self.view.alive is not None:
            suspects &= self.view.alive
        changed = np.flatnonzero(suspects)
        if not len(changed):
            return vector
        found = self.alone(node, side, changed if rows is None else rows[changed])
        kept = np.flatnonzero(~suspects)
        return merged([(kept, part(vector, kept)), (changed, Objects(found))], size)

    def _part(self, node: Expr, side: Side, rows: Rows | None) -> Vector:
        reach = self.reaches.of(node, side)
        size = self.view.size if rows is None else len(rows)
        if rows is not None and not size:
            return Same(UNDEFINED)
        place = len(self._steps) if self._steps is not None else 0
        depth = self._depth
        self._depth = depth + 1
        self.work.count(CALL + (size >> SHIFT))
        try:
            way, count, vector = self._best(node, side, rows, reach)
        except RecursionError:
            way, count = "by row", size
            vector = self._by_row(node, side, rows, self._names(reach))
        finally:
            self._depth = depth
        if self._steps is not None:
            names = self._names(reach)
            step = Step(depth, str(node), side.value, way, names, size, count)
            self._steps.insert(place, step)
        return vector

    def _best(
        self, node: Expr, side: Side, rows: Rows | None, reach: Reach
    ) -> tuple[str, int, Vector]:
        size = self.view.size if rows is None else len(rows)
        names = self._names(reach)
        if reach.opaque:
            return "by row", size, self._by_row(node, side, rows, None)
        if not names:
            value = self._value(node, side, ClassAd(), rows)
            self.exhaust(rows, exhausted(value))
            return "once", 1, Same(value)
        if size <= FEW_ROWS:
            return "by row", size, self._by_row(node, side, rows, names)
        columns = [self.view.columns[name] for name in names]
        coded = [column for column in columns if isinstance(column, Coded)]
        all_coded = len(coded) == len(columns)
        combinations = 1
        for column in coded:
            combinations *= len(column.table)
        cheap = all_coded and combinations <= FEW
        if len(names) == 1 and coded:
            if cheap:
                return self._by_value(node, side, rows, size, names[0])
            if size > 2 * combinations:
                return self._by_table(node, side, rows, names[0])
        connective = isinstance(node, Binary) and node.operator in _CONNECTIVES
        if cheap and not connective:
            return self._by_combination(node, side, rows, names, combinations)
        search = searched(node, side, self.reaches, self.job)
        if search is not None:
            vector = self._by_lookup(node, side, rows, search, len(names) == 1)
            if vector is not None:
                return "by lookup", 0, vector
        vector = self._by_column(node, side, rows)
        if vector is not None:
            return "by column", 0, vector
        if all_coded and len(names) == 1:
            return self._by_value(node, side, rows, size, names[0])
        if all_coded and combinations < 1 << 62:
            return self._by_combination(node, side, rows, names, combinations)
        return "by row", size, self._by_row(node, side, rows, names)

    def _by_table(
        self, node: Expr, side: Side, rows: Rows | None, name: str
    ) -> tuple[str, int, Vector]:
        """By the column's table, as if its entries were rows: each distinct content once."""
        column = self._coded(name)
        codes = self._codes(column, rows)
        length = len(column.table)
        used = column.used(self.view.size) if rows is None else used_codes(codes, length)
        size = len(used)
        entries = Coded(used.astype(narrowest(length)), column.table)
        view = View(size, {name: entries}, Keys(), None, [], np.zeros(0, np.uint8))
        shares = partial(np.bincount, codes, None, length)
        inner = Evaluator(
            view, self.job, self._root, self.work, steps=self._steps, shares=lambda: shares()[used]
        )
        inner._depth = self._depth
        vector = inner._part(node, side, None)
        self.problem = inner.problem or self.problem
        places = np.zeros(length, np.intp)
        places[used] = np.arange(size)
        if inner.exhausted is not None:
            self.exhaust(rows, inner.exhausted[places[codes]])
        if isinstance(vector, Same):
            return "by table", 0, vector
        held = vector if size == length else part(vector, places)
        return "by table", 0, Chosen(codes, table_of(held, length))

    # --- by column --------------------------------------------------------------------------------

    def _by_column(self, node: Expr, side: Side, rows: Rows | None) -> Vector | None:
        """By the vectors of the parts, or None where their values or the node do not allow it."""
        if isinstance(node, Binary):
            return self._binary(node, side, rows)
        if isinstance(node, Attr):
            return self._attribute(node, side, rows)
        if isinstance(node, Unary):
            return self._unary(node, side, rows)
        if isinstance(node, Ternary):
            return self._choice(node.condition, node.then, node.otherwise, side, rows)
        return self._call(node, side, rows) if isinstance(node, Call) else None

    def _call(self, node: Call, side: Side, rows: Rows | None) -> Vector | None:
        if node.function.lower() == "ifthenelse" and len(node.arguments) == 3:
            return self._choice(*node.arguments, side, rows)
        listed = members(node, side, self.reaches, self.job)
        if listed is None:
            return None
        return applied(listed.holds, self._part(node.arguments[0], side, rows))

    def _unary(self, node: Unary, side: Side, rows: Rows | None) -> Vector:
        operand = self._part(node.operand, side, rows)
        if node.operator == "!":
            return negate(operand)
        plain = scalars(operand)
        if plain is None:
            return applied(UNARY[node.operator], operand)
        return kernels.UNARY[node.operator](plain)

    def _binary(self, node: Binary, side: Side, rows: Rows | None) -> Vector:
        if node.operator in _CONNECTIVES:
            return self._chain(node, side, rows)
        if node.operator == "?:":
            return self._first_defined(operands(node), side, rows)
        first, links = spine(node, lambda link: link.operator not in _LAZY)
        vector = self._part(first, side, rows)
        for link in reversed(links):
            vector = self._operation(
                link.operator, vector, self._part(link.right, side, rows), rows
            )
        return vector

    def _operation(self, operator: str, left: Vector, right: Vector, rows: Rows | None) -> Vector:
        """By a kernel, or where that cannot be, by the total operator: strings and the like."""
        plain, other = scalars(left), scalars(right)
        if plain is not None and other is not None:
            return kernels.BINARY[operator](plain, other)
        size = self.view.size if rows is None else len(rows)
        length = largest(_length, left) + largest(_length, right)
        if length > LONG:
            self.work.count((length >> 4) * pairs(left, right, size))
        return paired(BINARY[operator], left, right, size, FEW)

    def _chain(self, node: Binary, side: Side, rows: Rows | None) -> Vector:
        first, *others = operands(node)
        vector = self._part(first, side, rows)
        for operand in others:
            vector = connect(node.operator, vector, self._part(operand, side, rows))
        return vector

    def _first_defined(self, alternatives: list[Expr], side: Side, rows: Rows | None) -> Vector:
        """The first value that is not undefined: of a chain of ``?:``, which may be long.

        Each alternative is evaluated on the rows alone that the ones before it left undefined.
        """
        size = self.view.size if rows is None else len(rows)
        parts: list[tuple[Rows, Vector]] = []
        places: Rows | None = None
        for alternative in alternatives:
            chosen = rows if places is None else places if rows is None else rows[places]
            vector = self._part(alternative, side, chosen)
            left = size if places is None else len(places)
            if alternative is not alternatives[-1]:
                if isinstance(vector, Same) and vector.value is UNDEFINED:
                    continue
                # Rows that some alternative leaves are copied out once more for the next.
                self.work.count(left >> 2)
                undefined = where_is(UNDEFINED_KIND, vector, left)
                some = np.flatnonzero(undefined)
                if len(some) == left:
                    continue
                if len(some):
                    kept = np.flatnonzero(~undefined)
                    parts.append((kept if places is None else places[kept], part(vector, kept)))
                    places = some if places is None else places[some]
                    continue
            if places is None:
                return vector
            parts.append((places, vector))
            break
        return merged(parts, size)

    def _choice(
        self, condition: Expr, then: Expr, otherwise: Expr, side: Side, rows: Rows | None
    ) -> Vector:
        size = self.view.size if rows is None else len(rows)
        kinds = uniform(truths(self._part(condition, side, rows)))
        if len(kinds) == 1 and kinds[0] <= TRUE:
            return self._part(then if kinds[0] else otherwise, side, rows)
        kinds = np.broadcast_to(kinds, (size,))
        outcomes: tuple[tuple[int, Any], ...] = (
            (TRUE, then), (FALSE, otherwise), (UNDEFINED_KIND, UNDEFINED), (ERROR_KIND, ERROR),
        )  # fmt: skip
        groups = ((np.flatnonzero(kinds == kind), held, side) for kind, held in outcomes)
        return self._grouped(groups, [], rows, size)

    def _grouped(
        self,
        groups: Iterable[tuple[Rows, Any, Side]],
        parts: list[tuple[Rows, Vector]],
        rows: Rows | None,
        size: int,
    ) -> Vector:
        """The values of contents, each at some places among the rows, and of the parts so far."""
        for places, content, side in groups:
            if not len(places):
                continue
            whole = len(places) == size
            chosen = rows if whole else places if rows is None else rows[places]
            vector = self._held(content, side, chosen)
            if whole:
                return vector
            parts.append((places, vector))
        return merged(parts, size)

    def _attribute(self, node: Attr, side: Side, rows: Rows | None) -> Vector | None:
        holder = self.reaches.holder(node, side)
        if holder is None:
            return None
        if holder is Side.JOB:
            content = self.job._held.get(node.folded, UNDEFINED)
            return self._held(content, Side.JOB, rows)
        column = self.view.columns.get(node.folded)
        absent: Any = UNDEFINED
        if self.reaches.falls_through(node, side):
            absent = self.job._held[node.folded]
        if column is None:
            return self._held(absent, Side.JOB, rows)
        return self.follow(column, absent, rows)

    def _held(self, content: Any, side: Side, rows: Rows | None) -> Vector:
        return self._part(content, side, rows) if isinstance(content, Expr) else Same(content)

    def follow(self, column: Column, absent: Any, rows: Rows | None) -> Vector | None:
        """The values of what the rows hold in a column; `absent` is the job's content instead.

        None if the column holds too many expressions: each row is better evaluated by itself.
        """
        size = self.view.size if rows is None else len(rows)
        if isinstance(column, Coded):
            found = grouped_codes(column, absent, self._codes(column, rows))
        elif isinstance(column, Numeric):
            some = slice(self.view.size) if rows is None else rows
            found = grouped_numbers(column, column.kinds[some], column.bits[some])
        else:
            return self._loose(column, absent, rows)
        if not isinstance(found, Groups):
            return found
        groups = (
            (places, absent, Side.JOB) if content is MISSING else (places, content, Side.ROW)
            for places, content in found.groups
        )
        parts = [(found.plain, found.values)] if len(found.plain) else []
        return self._grouped(groups, parts, rows, size)

    def _loose(self, column: Column, absent: Any, rows: Rows | None) -> Vector | None:
        found = column.contents(range(self.view.size) if rows is None else rows.tolist())
        if any(isinstance(content, Expr) for content in found):
            return None
        if isinstance(absent, Expr):
            return None if MISSING in found else Objects(found)
        return Objects([absent if content is MISSING else content for content in found])


def own_values(
    view: View, node: Expr, rows: Rows | None = None, target: ClassAd | None = None
) -> Vector:
    """The values of an expression of the rows' ads themselves, on some rows or on all."""
    ask = Evaluator(view, ClassAd() if target is None else target, (Side.ROW, ""))
    return ask.vector(node, Side.ROW, rows)


def _length(value: Value) -> int:
    return len(value) if isinstance(value, str) else 0
