"""The value of an expression on many rows: which way each of its parts is best evaluated.

What a part can reach decides. One value for all rows where it reaches no column; the scalar form
once for each distinct content where it reaches one coded column, or once for each combination where
it reaches a few; truth tables and kernels for operators on what remains; and the scalar form row by
row for the rest. The scalar form is applied to ads of just the columns that are reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time
from typing import Any, Final

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.bounds import exhausted
from matchmaker.classad.evaluate import evaluate
from matchmaker.classad.nodes import Attr, Binary, Expr, Ternary, Unary
from matchmaker.classad.operators import BINARY
from matchmaker.classad.values import ERROR, UNDEFINED, ErrorType, Value, is_error
from matchmaker.matching.columns import kernels
from matchmaker.matching.columns.column import Coded, Column, Numeric, Rows
from matchmaker.matching.columns.contents import ERROR_KIND, FALSE, MISSING, TRUE, UNDEFINED_KIND
from matchmaker.matching.columns.groups import (
    Groups,
    grouped_codes,
    grouped_numbers,
    table_by_code,
)
from matchmaker.matching.columns.keys import Keys
from matchmaker.matching.columns.reach import Reach, Reaches, Side
from matchmaker.matching.columns.store import View
from matchmaker.matching.columns.vectors import (
    Chosen,
    Objects,
    Same,
    Vector,
    connect,
    merged,
    negate,
    part,
    scalars,
    table_of,
    truths,
    uniform,
    values,
    where_undefined,
)

FEW: Final = 256
"""Up to so many distinct contents or combinations, each is evaluated without further thought."""

FEW_ROWS: Final = 16
SECONDS: Final = 5.0
EACH: Final = 0.0001
"""How long the scalar form may take for all rows together, and more for each row: ads come from
strangers, and what is within the bounds of one evaluation may be too much a thousand times."""

TOO_LONG: Final = "evaluation on all ads together took too long"
TRIES: Final = 3
"""After so many evaluations of a part that used up their steps, it is ERROR for all other rows."""

_CONNECTIVES: Final = ("&&", "||")


@attrs.frozen(slots=True)
class Step:
    """How a part of an expression was evaluated.

    ``way`` is ``once``, ``by value``, ``by combination``, ``by table`` (of a column's contents, as
    if they were rows), ``by column`` or ``by row``; ``count`` is how often the scalar form was
    applied. ``side`` says in whose ad the part stands.
    """

    depth: int
    text: str
    side: str
    way: str
    columns: tuple[str, ...]
    rows: int
    count: int

    def __str__(self) -> str:
        times = f", {self.count} evaluations" if self.count else ""
        of = f" of {', '.join(self.columns)}" if self.columns else ""
        return f"{'  ' * self.depth}{self.text}: {self.way}{of} ({self.rows} rows{times})"


class Evaluator:
    """Evaluates parts of one attribute of a job or of the rows' ads, matched with each other."""

    def __init__(
        self, view: View, job: ClassAd, root: tuple[Side, str], steps: list[Step] | None = None
    ) -> None:
        """`root` is the attribute, by side and folded name; `steps` collects what is done."""
        self.view = view
        self.job = job
        self.reaches = Reaches(job, view.columns, view.size, root)
        self._root = root
        self._steps = steps
        self._depth = 0
        self._exhausted: dict[Expr, int] = {}
        self._seconds = 0.0
        # Why a part is ERROR that used up what an evaluation may, if one did.
        self.problem: str | None = None

    def vector(self, node: Expr, side: Side, rows: Rows | None = None) -> Vector:
        """The values of an expression that stands on a side, on some rows or on all."""
        reach = self.reaches.of(node, side)
        names = self._names(reach)
        size = self.view.size if rows is None else len(rows)
        place = len(self._steps) if self._steps is not None else 0
        self._depth += 1
        try:
            way, count, vector = self._best(node, side, rows, reach)
        except RecursionError:
            way, count, vector = "by row", size, self._by_row(node, side, rows, names)
        self._depth -= 1
        if self._steps is not None:
            step = Step(self._depth, str(node), side.value, way, names, size, count)
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
            return "once", 1, Same(self._value(node, side, {}))
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
        vector = self._by_column(node, side, rows)
        if vector is not None:
            return "by column", 0, vector
        if all_coded and len(names) == 1:
            return self._by_value(node, side, rows, size, names[0])
        if all_coded and combinations < 1 << 62:
            return self._by_combination(node, side, rows, names, combinations)
        if isinstance(node, Binary):
            return "by column", 0, self._elementwise(node, side, rows)
        return "by row", size, self._by_row(node, side, rows, names)

    def _names(self, reach: Reach) -> tuple[str, ...]:
        """The columns that are reached and there, in a fixed order."""
        return tuple(sorted(name for name in reach.columns if name in self.view.columns))

    # --- by the scalar form -----------------------------------------------------------------------

    def _value(self, node: Expr, side: Side, content: dict[str, Any]) -> Value:
        """The value with a row that has this content."""
        return self._scalar(node, side, ClassAd.of(content))

    def _scalar(self, node: Expr, side: Side, row: ClassAd) -> Value:
        tried = self._exhausted.get(node, 0)
        if tried == TRIES or self._seconds > SECONDS + EACH * self.view.size:
            self.problem = self.problem or TOO_LONG
            return ErrorType(self.problem)
        begin = thread_time()
        inside = self._root[1] if side is self._root[0] else ""
        if side is Side.JOB:
            value = evaluate(node, self.job, row, inside)
        else:
            value = evaluate(node, row, self.job, inside)
        self._seconds += thread_time() - begin
        if is_error(value) and exhausted(value):
            self._exhausted[node] = tried + 1
            self.problem = value.reason
        return value

    def _by_value(
        self, node: Expr, side: Side, rows: Rows | None, size: int, name: str
    ) -> tuple[str, int, Vector]:
        column = self._coded(name)
        codes = self._codes(column, rows)
        table = column.table[:]
        used: Sequence[int] = range(0 if self.reaches.lacks(name) else 1, len(table))
        if size < len(table):
            used = np.unique(codes).tolist()
        found = {}
        for code in used:
            content = table[code]
            found[code] = self._value(node, side, {} if content is MISSING else {name: content})
        return "by value", len(used), Chosen(codes, table_by_code(found, len(table)))

    def _by_table(
        self, node: Expr, side: Side, rows: Rows | None, name: str
    ) -> tuple[str, int, Vector]:
        """By the column's table, as if its entries were rows: each distinct content once."""
        column = self._coded(name)
        entries = column.entries()
        size = len(entries.codes)
        view = View(size, {name: entries}, Keys(), None, [], np.zeros(0, np.uint8))
        inner = Evaluator(view, self.job, self._root, self._steps)
        inner._depth = self._depth
        vector = inner.vector(node, side)
        codes = self._codes(column, rows)
        if isinstance(vector, Same):
            return "by table", 0, vector
        return "by table", 0, Chosen(codes, table_of(vector, size))

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
            seen = np.zeros(combinations, np.bool_)
            seen[key] = True
            used = np.flatnonzero(seen)
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
            found[place] = self._value(node, side, content)
        length = combinations if codes is key else len(used)
        return "by combination", len(used), Chosen(codes, table_by_code(found, length))

    def _by_row(
        self, node: Expr, side: Side, rows: Rows | None, names: tuple[str, ...] | None
    ) -> Vector:
        """With the columns `names` of each row, or with its whole ad where that is None."""
        numbers = (self.view.rows() if rows is None else rows).tolist()
        if names is None:
            found = [self._scalar(node, side, self.view.ad(row)) for row in numbers]
        else:
            columns = [(name, self.view.columns[name]) for name in names]
            found = []
            for row in numbers:
                content = {name: column.get(row) for name, column in columns}
                held = {name: c for name, c in content.items() if c is not MISSING}
                found.append(self._value(node, side, held))
        if rows is None and self.view.alive is not None:
            return merged([(self.view.rows(), Objects(found))], self.view.size)
        return Objects(found)

    def _coded(self, name: str) -> Coded:
        column = self.view.columns[name]
        if not isinstance(column, Coded):
            raise TypeError(f"{name} is not a coded column")
        return column

    def _codes(self, column: Coded, rows: Rows | None) -> Any:
        return column.codes[: self.view.size] if rows is None else column.codes[rows]

    # --- by column --------------------------------------------------------------------------------

    def _by_column(self, node: Expr, side: Side, rows: Rows | None) -> Vector | None:
        """By the vectors of the parts, or None where their values or the node do not allow it."""
        if isinstance(node, Binary):
            return self._binary(node, side, rows)
        if isinstance(node, Attr):
            return self._attribute(node, side, rows)
        if isinstance(node, Unary):
            return self._unary(node, side, rows)
        return self._ternary(node, side, rows) if isinstance(node, Ternary) else None

    def _unary(self, node: Unary, side: Side, rows: Rows | None) -> Vector | None:
        operand = self.vector(node.operand, side, rows)
        if node.operator == "!":
            return negate(operand)
        plain = scalars(operand)
        return kernels.UNARY[node.operator](plain) if plain is not None else None

    def _binary(self, node: Binary, side: Side, rows: Rows | None) -> Vector | None:
        if node.operator in _CONNECTIVES:
            return self._chain(node, side, rows)
        if node.operator == "?:":
            return self._elvis(self.vector(node.left, side, rows), node.right, side, rows)
        # The left spine is taken in a loop, so that a long sum is no deeper than a short one.
        links = [node]
        left = node.left
        while isinstance(left, Binary) and left.operator in kernels.BINARY:
            links.append(left)
            left = left.left
        value = scalars(self.vector(left, side, rows))
        for link in reversed(links):
            right = scalars(self.vector(link.right, side, rows)) if value is not None else None
            if value is not None and right is not None:
                value = kernels.BINARY[link.operator](value, right)
            elif link is node:
                return None
            else:
                # Strings and the like: by the scalar form, and on from there.
                value = scalars(self.vector(link, side, rows))
        return value

    def _elementwise(self, node: Binary, side: Side, rows: Rows | None) -> Vector:
        """By the total operator on the values of both sides, row by row: strings and the like."""
        size = self.view.size if rows is None else len(rows)
        left = values(self.vector(node.left, side, rows), size)
        right = self.vector(node.right, side, rows)
        operator = BINARY[node.operator]
        if isinstance(right, Same):
            other = right.value
            return Objects([operator(value, other) for value in left])
        return Objects(list(map(operator, left, values(right, size))))

    def _chain(self, node: Binary, side: Side, rows: Rows | None) -> Vector:
        operands = [node.right]
        left = node.left
        while isinstance(left, Binary) and left.operator == node.operator:
            operands.append(left.right)
            left = left.left
        vector = self.vector(left, side, rows)
        for operand in reversed(operands):
            vector = connect(node.operator, vector, self.vector(operand, side, rows))
        return vector

    def _elvis(self, left: Vector, right: Expr, side: Side, rows: Rows | None) -> Vector:
        size = self.view.size if rows is None else len(rows)
        undefined = where_undefined(left, size)
        if not undefined.any():
            return left
        if undefined.all():
            return self.vector(right, side, rows)
        kept, others = np.flatnonzero(~undefined), np.flatnonzero(undefined)
        chosen = others if rows is None else rows[others]
        return merged([(kept, part(left, kept)), (others, self.vector(right, side, chosen))], size)

    def _ternary(self, node: Ternary, side: Side, rows: Rows | None) -> Vector:
        size = self.view.size if rows is None else len(rows)
        condition = uniform(truths(self.vector(node.condition, side, rows)))
        if len(condition) == 1 and condition[0] <= TRUE:
            return self.vector(node.then if condition[0] else node.otherwise, side, rows)
        condition = np.broadcast_to(condition, (size,))
        parts: list[tuple[Rows, Vector]] = []
        for kind, outcome in (
            (TRUE, node.then), (FALSE, node.otherwise),
            (UNDEFINED_KIND, Same(UNDEFINED)), (ERROR_KIND, Same(ERROR)),
        ):  # fmt: skip
            places = np.flatnonzero(condition == kind)
            if not len(places):
                continue
            whole = len(places) == size
            chosen = rows if whole else places if rows is None else rows[places]
            vector = self.vector(outcome, side, chosen) if isinstance(outcome, Expr) else outcome
            if whole:
                return vector
            parts.append((places, vector))
        return merged(parts, size)

    def _attribute(self, node: Attr, side: Side, rows: Rows | None) -> Vector | None:
        holder = self.reaches.holder(node, side)
        if holder is None:
            return None
        if holder is Side.JOB:
            content = self.job.content.get(node.folded, UNDEFINED)
            return self._held(content, Side.JOB, rows)
        column = self.view.columns.get(node.folded)
        absent: Any = UNDEFINED
        if self.reaches.falls_through(node, side):
            absent = self.job.content[node.folded]
        if column is None:
            return self._held(absent, Side.JOB, rows)
        return self.follow(column, absent, rows)

    def _held(self, content: Any, side: Side, rows: Rows | None) -> Vector:
        return self.vector(content, side, rows) if isinstance(content, Expr) else Same(content)

    def follow(self, column: Column, absent: Any, rows: Rows | None) -> Vector | None:
        """The values of what the rows hold in a column; `absent` is the job's content instead.

        None where the column holds so many expressions that each row is better taken by itself.
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
        parts: list[tuple[Rows, Vector]] = [(found.plain, found.values)] if len(found.plain) else []
        for places, content in found.groups:
            whole = len(places) == size
            chosen = rows if whole else places if rows is None else rows[places]
            if content is MISSING:
                vector = self._held(absent, Side.JOB, chosen)
            else:
                vector = self._held(content, Side.ROW, chosen)
            if whole:
                return vector
            if len(places):
                parts.append((places, vector))
        return merged(parts, size)

    def _loose(self, column: Column, absent: Any, rows: Rows | None) -> Vector | None:
        found = column.contents(range(self.view.size) if rows is None else rows.tolist())
        if any(isinstance(content, Expr) for content in found):
            return None
        if isinstance(absent, Expr):
            return None if MISSING in found else Objects(found)
        return Objects([absent if content is MISSING else content for content in found])
