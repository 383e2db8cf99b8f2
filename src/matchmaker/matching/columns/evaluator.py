"""The value of an expression on many rows: which way each of its parts is best evaluated.

What a part can reach decides. One value for all rows where it reaches no column; the scalar form
once for each distinct content where it reaches one coded column, or once for each combination where
it reaches a few; truth tables and kernels for operators on what remains; and the scalar form row by
row for the rest. The scalar form is applied to ads of just the columns that are reached.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np

from matchmaker.classad import bounds
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.bounds import bulk, exhausted
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.nodes import Attr, Binary, Call, Expr, Ternary, Unary, weight
from matchmaker.classad.operators import BINARY, UNARY, truth
from matchmaker.classad.unparse import unparse
from matchmaker.classad.values import ERROR, UNDEFINED, Value, is_error
from matchmaker.matching.columns import kernels
from matchmaker.matching.columns.column import (
    ERROR_KIND,
    FALSE,
    MISSING,
    TRUE,
    UNDEFINED_KIND,
    Coded,
    Column,
    Numeric,
    Rows,
    encoded,
    identity,
    narrowest,
    used_codes,
)
from matchmaker.matching.columns.groups import (
    Groups,
    grouped_codes,
    grouped_numbers,
    table_by_code,
)
from matchmaker.matching.columns.keys import Keys
from matchmaker.matching.columns.lookup import of_rows, of_table
from matchmaker.matching.columns.reach import Reach, Reaches, Side
from matchmaker.matching.columns.search import Search, members, searched
from matchmaker.matching.columns.store import View
from matchmaker.matching.columns.vectors import (
    Chosen,
    Mask,
    Objects,
    Same,
    Scalars,
    Vector,
    applied,
    connect,
    largest,
    merged,
    negate,
    paired,
    part,
    scalars,
    table_of,
    truths,
    uniform,
    values,
    where_error,
    where_undefined,
)
from matchmaker.matching.columns.work import (
    CALL,
    MOST_COSTLY,
    SHIFT,
    OverworkError,
    Spent,
    Work,
    taken,
)

FEW: Final = 256
"""Up to so many distinct contents or combinations, each is evaluated without further thought."""

FEW_ROWS: Final = 16
COSTLY: Final = 10_000
"""What an expression that took more steps came to is kept, if it does not rest on the job."""

_CONNECTIVES: Final = ("&&", "||")
_ARITHMETIC: Final = kernels.BINARY.keys() - {"==", "!=", "<", "<=", ">", ">=", "is", "isnt"}


@attrs.frozen(slots=True)
class Step:
    """How a part of an expression was evaluated.

    ``way`` is ``once``, ``by value``, ``by combination``, ``by table`` (of a column's contents, as
    if they were rows), ``by lookup`` (of a string among a column's), ``by column`` or ``by row``;
    ``count`` is how often the scalar form was applied. ``side`` says in whose ad the part stands.
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
        self,
        view: View,
        job: ClassAd,
        root: tuple[Side, str],
        steps: list[Step] | None = None,
        work: Work | None = None,
    ) -> None:
        """`root` is the attribute, by side and folded name; `steps` collects what is done.

        `work` is what may be done, for this and for others together.
        """
        self.view = view
        self.job = job
        self.reaches = Reaches(job, view.columns, view.size, root)
        self._root = root
        self._steps = steps
        self._depth = 0
        self._work = work if work is not None else Work(view.size)
        self.spent = Spent(view.size)
        """What the expression asked for last took of each row."""
        self.problem: str | None = None
        """Why it is ERROR for some rows, where one evaluation took too much."""

    def vector(self, node: Expr, side: Side, rows: Rows | None = None) -> Vector:
        """The values of an expression that stands on a side, on some rows or on all.

        They are those of the scalar form, also where the steps of an evaluation are used up. Raises
        OverworkError where it takes too much on all rows together.
        """
        if self._depth:
            return self._part(node, side, rows)
        self.spent, self.problem = Spent(self.view.size), None
        self.spent.all = weight(node)
        vector = self._part(node, side, rows)
        return self._exact(node, side, rows, vector) if self.spent.much else vector

    def _exact(self, node: Expr, side: Side, rows: Rows | None, vector: Vector) -> Vector:
        """With the rows evaluated by themselves for which the parts took too much together.

        Where a part took too much by itself and counts, its ERROR has become that of the whole,
        unless an operator made another value of it.
        """
        numbers = self.view.rows() if rows is None else rows
        size = self.view.size if rows is None else len(rows)
        much = self.spent.beyond(numbers)
        places = numbers[much] if rows is None else np.flatnonzero(much)
        suspects = ~where_error(vector, size)[places]
        changed = places[suspects]
        if not len(changed):
            return vector
        again = numbers[much][suspects].tolist()
        found = [self._scalar(node, side, self.view.ad(row))[0] for row in again]
        kept = np.delete(np.arange(size), changed)
        return merged([(kept, part(vector, kept)), (changed, Objects(found))], size)

    def _part(self, node: Expr, side: Side, rows: Rows | None) -> Vector:
        reach = self.reaches.of(node, side)
        size = self.view.size if rows is None else len(rows)
        if rows is not None and not size:
            return Same(UNDEFINED)
        place = len(self._steps) if self._steps is not None else 0
        depth = self._depth
        self._depth = depth + 1
        self.count(node, CALL + (size >> SHIFT))
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

    def _best(
        self, node: Expr, side: Side, rows: Rows | None, reach: Reach
    ) -> tuple[str, int, Vector]:
        size = self.view.size if rows is None else len(rows)
        names = self._names(reach)
        if reach.opaque:
            return "by row", size, self._by_row(node, side, rows, None)
        if not names:
            value, steps = self._value(node, side, {})
            self._spend(rows, steps, steps)
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

    def _names(self, reach: Reach) -> tuple[str, ...]:
        """The columns that are reached and there, in a fixed order."""
        return tuple(sorted(name for name in reach.columns if name in self.view.columns))

    # --- by the scalar form -----------------------------------------------------------------------

    def _value(self, node: Expr, side: Side, content: dict[str, Any]) -> tuple[Value, int]:
        """The value with a row that has this content, and its steps.

        What took much before, with whatever job, is not evaluated again, but counts as if it were.
        """
        more = 0
        if self._work.costly:
            if side is Side.ROW:
                known = self._work.costly.get(self._alone(node, content))
                if known is not None:
                    self.count(node, known[1])
                    return known
            content, more = self._shortened(content)
        before = self._work.left
        value, steps = self._scalar(node, side, ClassAd.of(content))
        if steps > COSTLY and not more and self._learn(node, side, content):
            # Counted as it will be the next time, so that it makes no difference which this is.
            self._work.left = before
            return self._value(node, side, content)
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
                known = self._work.costly.get(self._alone(held, content))
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
            if key is None or len(self._work.costly) >= MOST_COSTLY:
                continue
            value, budget = evaluate_counted(one, ClassAd.of(content), self.job)
            steps = budget.steps + weight(one)
            if is_error(value) and exhausted(value):
                steps = bounds.MAX_STEPS + 1
            # Long text costs more than its making, and has no place in a table of values.
            plain = isinstance(value, (bool, int, float)) or value is UNDEFINED or is_error(value)
            if plain and steps > COSTLY:
                self._work.costly[key] = value, steps
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
        inner = Evaluator(view, self.job, self._root, self._steps, self._work)
        inner._depth = self._depth
        vector = inner.vector(node, side)
        self.problem = inner.problem or self.problem
        places = np.zeros(length, np.intp)
        places[used] = np.arange(size)
        self.spent.all += inner.spent.all
        each = inner.spent.each
        if each is not None:
            self._spend(rows, each[places[codes]], int(each.max(initial=0)))
        if isinstance(vector, Same):
            return "by table", 0, vector
        held = vector if size == length else part(vector, places)
        return "by table", 0, Chosen(codes, table_of(held, length))

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

    def _coded(self, name: str) -> Coded:
        column = self.view.columns[name]
        if not isinstance(column, Coded):
            raise TypeError(f"{name} is not a coded column")
        return column

    def _codes(self, column: Coded, rows: Rows | None) -> Any:
        return column.codes[: self.view.size] if rows is None else column.codes[rows]

    # --- by column --------------------------------------------------------------------------------

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
            vector = self._choice(*node.arguments, side, rows)
            self.spent.all += 1 + largest(bulk, vector)
            return vector
        listed = members(node, side, self.reaches, self.job)
        if listed is None:
            return None
        vector = self.vector(node.arguments[0], side, rows)
        self.spent.all += listed.steps(largest(_length, vector))
        return applied(listed.holds, vector)

    def _unary(self, node: Unary, side: Side, rows: Rows | None) -> Vector:
        operand = self.vector(node.operand, side, rows)
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
            return self._elvis(self.vector(node.left, side, rows), node.right, side, rows)
        # The left spine is taken in a loop, so that a long sum is no deeper than a short one.
        links = [node]
        left = node.left
        while isinstance(left, Binary) and left.operator in _ARITHMETIC:
            links.append(left)
            left = left.left
        vector = self.vector(left, side, rows)
        for link in reversed(links):
            vector = self._operation(
                link.operator, vector, self.vector(link.right, side, rows), rows
            )
        return vector

    def _operation(self, operator: str, left: Vector, right: Vector, rows: Rows | None) -> Vector:
        """By a kernel, or where that cannot be, by the total operator: strings and the like."""
        plain, other = scalars(left), scalars(right)
        if plain is not None and other is not None:
            return kernels.BINARY[operator](plain, other)
        size = self.view.size if rows is None else len(rows)
        length = largest(_length, left) + largest(_length, right)
        self.spent.all += length >> 4 if length > bounds.LONG else 0
        return paired(BINARY[operator], left, right, size, FEW)

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

    def _choice(
        self, condition: Expr, then: Expr, otherwise: Expr, side: Side, rows: Rows | None
    ) -> Vector:
        size = self.view.size if rows is None else len(rows)
        kinds = uniform(truths(self.vector(condition, side, rows)))
        if len(kinds) == 1 and kinds[0] <= TRUE:
            return self.vector(then if kinds[0] else otherwise, side, rows)
        kinds = np.broadcast_to(kinds, (size,))
        parts: list[tuple[Rows, Vector]] = []
        for kind, outcome in (
            (TRUE, then), (FALSE, otherwise),
            (UNDEFINED_KIND, Same(UNDEFINED)), (ERROR_KIND, Same(ERROR)),
        ):  # fmt: skip
            places = np.flatnonzero(kinds == kind)
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
        if not isinstance(content, Expr):
            return Same(content)
        self.spent.all += weight(content)
        return self.vector(content, side, rows)

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
            if not len(places):
                continue
            whole = len(places) == size
            chosen = rows if whole else places if rows is None else rows[places]
            if content is MISSING:
                vector = self._held(absent, Side.JOB, chosen)
            else:
                vector = self._held(content, Side.ROW, chosen)
            if whole:
                return vector
            parts.append((places, vector))
        return merged(parts, size)

    def _loose(self, column: Column, absent: Any, rows: Rows | None) -> Vector | None:
        found = column.contents(range(self.view.size) if rows is None else rows.tolist())
        if any(isinstance(content, Expr) for content in found):
            return None
        if isinstance(absent, Expr):
            return None if MISSING in found else Objects(found)
        return Objects([absent if content is MISSING else content for content in found])


def _held(content: Mapping[str, Any], names: frozenset[str]) -> Hashable:
    """What an ad holds under some names, as something that can be compared."""
    held = [(name, content[name]) for name in sorted(names) if name in content]
    return tuple((name, one.__class__, identity(one)) for name, one in held)


def _length(value: Value) -> int:
    return len(value) if isinstance(value, str) else 0
