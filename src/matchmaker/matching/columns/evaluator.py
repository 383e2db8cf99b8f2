"""Evaluate an expression on many rows: which way each of its parts is best evaluated.

The reach of a part decides. One value for all rows if it reaches no column; the scalar form once
for each distinct content if it reaches one coded column, or once for each combination if it reaches
a few; truth tables and kernels for operators on what remains; and the scalar form row by row for
the rest. The scalar form is applied to ads of just the columns that are reached.

Ads come from strangers, and what is within the bounds of one evaluation may be too much a thousand
times. Work is counted in the steps of ``classad.state``, not in seconds, so that the answer does
not depend on the machine. Each row has the same allowance, whatever the others take. What is
evaluated once for several rows may take the allowances of all of them. If columns take too much all
the same, each row is evaluated by itself within its allowance. So a row whose evaluation takes no
more than that always has its value, and one that takes more is ERROR at worst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs
import numpy as np

from matchmaker._limits import POOL_LIMITS as LIMITS
from matchmaker._limits import PoolLimits
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.nodes import Attr, Binary, Call, Expr, Ternary, Unary
from matchmaker.classad.operators import BINARY, UNARY, ascii_fold, truth
from matchmaker.classad.state import LONG, Budget, exhausted
from matchmaker.classad.values import ERROR, UNDEFINED, Value
from matchmaker.classad.walks import operands, spine
from matchmaker.matching.columns.column import (
    ABSENT,
    ERROR_KIND,
    FALSE,
    INTEGER,
    MISSING,
    OTHER,
    REAL,
    TRUE,
    UNDEFINED_KIND,
    Bits,
    Coded,
    Codes,
    Column,
    ContentTable,
    Kinds,
    Numeric,
    Rows,
    encoded,
    used_codes,
    zeros,
)
from matchmaker.matching.columns.dependencies import Reach, Reaches, Search, Side, members, searched
from matchmaker.matching.columns.store import LOWER, Entries, View, entries_of, rows_of
from matchmaker.matching.columns.vectors import (
    BINARY_KERNELS,
    UNARY_KERNELS,
    CodedVector,
    ConstantVector,
    Mask,
    ObjectVector,
    ScalarVector,
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
    tabled,
    truths,
    uniform,
    values,
    where_is,
)

# The budget is in steps of the scalar form. The charges below are rough prices of other work in
# these steps, in powers of two; they bound the time of a question and need not be exact.
CALL: Final = 16
"""The steps charged for each use of the scalar form, beside those that it counts itself."""

SHIFT: Final = 5
"""An operation on whole columns is charged one step for 32 rows, as NumPy is much quicker."""


class OverworkError(Exception):
    """Report that columns take too much: each row must be evaluated by itself."""


def allowance(size: int, limits: PoolLimits = LIMITS) -> int:
    """How many steps may be taken for each row, by the number of rows.

    The rows are rounded up to a power of two, so that one more rarely changes it.

    >>> allowance(4), allowance(1000), allowance(100_000)
    (1000000, 6882, 2038)
    """
    return min(Budget.limit, limits.each + limits.flat // (1 << max(size - 1, 0).bit_length()))


class WorkBudget:
    """What one question about `size` rows may take. ``each`` is the allowance of a row."""

    __slots__ = ("_limits", "_row", "each", "left", "most", "seconds", "size")

    def __init__(self, size: int, limits: PoolLimits = LIMITS) -> None:
        self.size = size
        self._limits = limits
        self.each = allowance(size, limits)
        self.most = limits.flat + limits.each * size
        self.renew()

    def renew(self) -> None:
        """Begin anew, for another question about the same job."""
        self.left = self.most
        self.seconds = self._limits.seconds
        self._row: Budget | None = None

    def within(self, rows: int) -> Budget:
        """Return the budget of an evaluation whose value a number of rows share."""
        if rows == 1:
            # The same for nearly all evaluations, until patterns take time.
            self._row = self._row or self._of(1)
            return self._row
        return self._of(rows)

    def _of(self, rows: int) -> Budget:
        budget = Budget()
        budget.limit = min(Budget.limit, self.each * rows)
        budget.seconds = max(self._limits.least, min(Budget.seconds, self.seconds / 4))
        return budget

    def note(self, budget: Budget) -> int:
        """Return the steps of an evaluation, with those for the time of its patterns."""
        if budget.searched <= self._limits.least:
            return CALL + budget.steps
        self.seconds -= budget.searched
        self._row = None
        return CALL + budget.steps + int(budget.searched * self._limits.second)

    def count(self, steps: int) -> None:
        """Count steps. Raise OverworkError if they are too many."""
        self.left -= steps
        if self.left < 0:
            raise OverworkError


def stopped(size: int, limits: PoolLimits) -> str:
    """The message for work that was stopped."""
    return f"stopped after {limits.flat + limits.each * size:,} steps on all {size:,} ads together"


@attrs.frozen(slots=True)
class PlanStep:
    """One part of an expression, and the way in which it was evaluated.

    ``way`` is ``once``, ``by value``, ``by combination``, ``by lookup`` (of a string in a column),
    ``by column`` or ``by row``. ``count`` is the number of evaluations by the scalar form; ``side``
    is the ad, of the job or of the row, that holds the part.
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


# One pass over the codes for each expression: beyond some tens, sorting them once is cheaper.
MOST_EXPRESSIONS: Final = 32
SHARED: Final = 64
"""More distinct expressions than that are grouped only if 64 rows share each of them."""


@attrs.frozen(slots=True)
class Groups:
    """Rows that hold values, and those that hold the same expression, or nothing."""

    plain: Rows
    values: Vector
    groups: list[tuple[Rows, Any]]


def grouped_codes(column: Coded, absent: Any, codes: Any) -> Vector | Groups | None:
    """Group the rows of a coded column by content; None if it has too many expressions."""
    kinds, bits = column.plain()
    if kinds[1:].max(initial=0) <= REAL and (absent is UNDEFINED or codes.all()):
        return _numbers(kinds, bits, codes)
    table = column.table[:]
    special = [i for i, content in enumerate(table) if isinstance(content, Expr) or not i]
    if len(special) > max(MOST_EXPRESSIONS, len(codes) // SHARED):
        return None
    if len(special) <= MOST_EXPRESSIONS:
        groups = [(np.flatnonzero(codes == code), table[code]) for code in special]
    else:
        ends = np.cumsum(np.bincount(codes, minlength=len(table)))
        each = np.split(np.argsort(codes, kind="stable"), ends[:-1])
        groups = [(each[code], table[code]) for code in special]
    held = (UNDEFINED if c is MISSING or isinstance(c, Expr) else c for c in table)
    known = table_by_code({i: c for i, c in enumerate(held) if i}, len(table))
    other = np.ones(len(codes), np.bool_)
    for places, _ in groups:
        other[places] = False
    if other.all():
        return CodedVector(codes, known)
    plain = np.flatnonzero(other)
    return Groups(plain, CodedVector(codes[plain], known), groups)


def grouped_numbers(column: Numeric, kinds: Kinds, bits: Bits) -> Vector | Groups | None:
    """Group the rows of a numeric column by content; None if it has too many expressions."""
    if kinds.max(initial=0) <= REAL:
        return ScalarVector(uniform(kinds), bits)
    codes = np.where(kinds == OTHER, bits, -1)
    found = [code for code in np.unique(codes).tolist() if code >= 0]
    if len(found) > MOST_EXPRESSIONS:
        return None
    plain = np.flatnonzero(kinds <= REAL)
    groups = [(np.flatnonzero(codes == code), column.table[code]) for code in found]
    groups.append((np.flatnonzero(kinds == ABSENT), MISSING))
    return Groups(plain, ScalarVector(kinds[plain], bits[plain]), groups)


def table_by_code(found: dict[int, Value], size: int) -> ScalarVector | ObjectVector:
    """The values by code. A code that no row has gets one of the others, so that they agree."""
    filler = next(iter(found.values()), UNDEFINED)
    return tabled([found.get(code, filler) for code in range(size)])


def _numbers(kinds: Kinds, bits: Bits, codes: Codes) -> ScalarVector:
    """Return scalars by code, of a table of plain values after a first entry of UNDEFINED."""
    present = uniform(kinds[1:])
    if len(present) == 1 and present[0] >= INTEGER and codes.all():
        return ScalarVector(present, bits[codes])
    kinds = kinds.copy()
    kinds[0] = UNDEFINED_KIND
    return ScalarVector(kinds[codes], bits[codes])


# A part of the rows at a time: Python's strings for all of a large column would fill the memory.
_AT_ONCE: Final = 1 << 16


class StringIndex:
    """An index of strings among contents, by a hash of the text in small letters.

    Entries are made as in ``store.KeyIndex``, of the text in small letters and a place. ``others``
    are the places of other contents.
    """

    __slots__ = ("_entries", "others")

    def __init__(self, size: int, contents: Callable[[range], Sequence[Any]]) -> None:
        """`contents` gives those of a range of places."""
        entries, others = [], []
        for first in range(0, size, _AT_ONCE):
            held = contents(range(first, min(size, first + _AT_ONCE)))
            odd = [n for n, content in enumerate(held) if content.__class__ is not str]
            texts = [c if c.__class__ is str else "" for c in held]
            entries.append(np.delete(_entries(texts, range(first, first + len(held))), odd))
            others.append(np.array(odd, np.intp) + first)
        self.others: Rows = np.concatenate(others) if others else np.zeros(0, np.intp)
        self._entries = zeros(size - len(self.others), np.uint64)
        if entries:
            np.concatenate(entries, out=self._entries)
        self._entries.sort()

    def find(
        self, texts: Sequence[str], exact: bool, contents: Callable[[list[int]], Sequence[Any]]
    ) -> Rows:
        """The places of the strings that are one of some texts."""
        least = _entries(texts, 0)
        first = np.searchsorted(self._entries, least)
        last = np.searchsorted(self._entries, least | np.uint64(LOWER), side="right")
        some = [self._entries[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        places = rows_of(np.unique(np.concatenate(some))) if some else self.others
        wanted = set(texts) if exact else set(map(ascii_fold, texts))
        held = contents(places.tolist())
        return places[[(c if exact else ascii_fold(c)) in wanted for c in held]]


def _entries(texts: Sequence[str], places: Sequence[int] | int) -> Entries:
    return entries_of(map(ascii_fold, texts), places)


def of_table(table: ContentTable) -> StringIndex:
    """The lookup of a table of contents, which it keeps until it grows."""
    size = len(table)
    if table.lookup is None or table.lookup[0] != size:
        table.lookup = size, StringIndex(size, lambda some: table[some.start : some.stop])
    return table.lookup[1]


def of_rows(column: Column, size: int) -> StringIndex:
    """The lookup of the first rows of a column, which it keeps until it changes."""
    now = column.version, size
    if column.lookup is None or column.lookup[0] != now:
        column.lookup = now, StringIndex(size, column.contents)
    return column.lookup[1]


FEW: Final = 256
"""Up to this many distinct contents or combinations are evaluated one by one at once."""


# As many as `FEW_ROWS`: a question about few rows evaluates each part of an expression on the same
# ads. With many rows, copies of all of their ads would take too much memory.
KEPT: Final = 16
"""How many ads of rows are kept for the next expression."""

# To copy an attribute is much cheaper than to evaluate a node, but a row may have hundreds.
MADE: Final = 3
"""To make the ad of a row is charged one step for 8 attributes."""


# A NumPy call costs as much as some compiled evaluations.
FEW_ROWS: Final = 16
_CONNECTIVES: Final = ("&&", "||")
_LAZY: Final = (*_CONNECTIVES, "?:")


class Evaluator:
    """Evaluate parts of one attribute of a job or of the rows' ads, matched with each other."""

    def __init__(
        self,
        view: View,
        job: ClassAd,
        root: tuple[Side, str],
        work: WorkBudget | None = None,
        *,
        steps: list[PlanStep] | None = None,
    ) -> None:
        """`root` is the attribute, by side and folded name; `steps` collects the plan.

        `work` is the budget of this and other evaluations together.
        """
        self.view = view
        self.job = job
        self.reaches = Reaches(job, view.columns, view.size, root)
        self._root = root
        self.work = work if work is not None else WorkBudget(len(view))
        self._ads: dict[int, ClassAd] = {}
        self._steps = steps
        self._depth = 0
        self.begin()

    def begin(self) -> None:
        """Forget the problems of the last expression."""
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
        """Return where the attribute is true, each row by itself; `narrow` reads only its reach.

        It is true for an ad without the attribute.
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
        """Return the contents of a row in some columns."""
        content = {name: self.view.columns[name].get(row) for name in names}
        return {name: held for name, held in content.items() if held is not MISSING}

    @property
    def whose(self) -> str:
        """The evaluated attribute, in words: the job's requirements."""
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
        """Count the rows that share the contents of some rows: all, or those with a code."""
        if codes is not None:
            return int(np.count_nonzero(codes == code))
        return self.view.size if rows is None else len(rows)

    def exhaust(self, rows: Rows | None, some: Mask | bool) -> None:
        """Mark the rows for which a part took more than their allowance."""
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
        return "by value", len(used), CodedVector(codes, table_by_code(found, len(table)))

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
        return "by combination", len(used), CodedVector(codes, table_by_code(found, length))

    def _by_row(
        self, node: Expr, side: Side, rows: Rows | None, names: tuple[str, ...] | None
    ) -> Vector:
        """Evaluate with the columns `names` of each row, or with its whole ad if that is None."""
        living = self.view.rows() if rows is None else rows
        found: list[Value] = []
        for place, row in enumerate(living.tolist()):
            ad = self._ad(row) if names is None else ClassAd._of(self._content(row, names))
            found.append(self._value(node, side, ad, living[place : place + 1]))
        if self.problem is not None:
            self.exhaust(living, np.fromiter(map(exhausted, found), np.bool_, len(found)))
        if rows is None and self.view.alive is not None:
            return merged([(living, ObjectVector(found))], self.view.size)
        return ObjectVector(found)

    def _by_lookup(
        self, node: Expr, side: Side, rows: Rows | None, search: Search, alone: bool
    ) -> Vector | None:
        """Find strings by the index of a column; None if it has too many other contents.

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
            return CodedVector(codes, ScalarVector(kinds, None))
        return ScalarVector(kinds if rows is None else kinds[rows], None)

    def _coded(self, name: str) -> Coded:
        column = self.view.columns[name]
        if not isinstance(column, Coded):
            raise TypeError(f"{name} is not a coded column")
        return column

    def _codes(self, column: Coded, rows: Rows | None) -> Any:
        return column.codes[: self.view.size] if rows is None else column.codes[rows]

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
            step = PlanStep(0, str(node), side.value, "by row", names, len(living), len(living))
            self._steps[before:] = [step]
        values = ObjectVector(self.alone(node, side, living))
        if rows is not None or self.view.alive is None:
            return values
        return merged([(living, values)], self.view.size)

    def attempt(self, node: Expr, side: Side, rows: Rows | None = None) -> Vector:
        """Evaluate as ``vector``, but raise OverworkError if columns take too much for all rows."""
        self.begin()
        vector = self._part(node, side, rows)
        return vector if self.exhausted is None else self._exact(node, side, rows, vector)

    def _exact(self, node: Expr, side: Side, rows: Rows | None, vector: Vector) -> Vector:
        """Evaluate the rows by themselves for which a part took too much.

        If that part counts, its ERROR has become that of the whole, unless an operator made another
        value of it.
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
        return merged([(kept, part(vector, kept)), (changed, ObjectVector(found))], size)

    def _part(self, node: Expr, side: Side, rows: Rows | None) -> Vector:
        reach = self.reaches.of(node, side)
        size = self.view.size if rows is None else len(rows)
        if rows is not None and not size:
            return ConstantVector(UNDEFINED)
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
            step = PlanStep(depth, str(node), side.value, way, names, size, count)
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
            return "once", 1, ConstantVector(value)
        if size <= FEW_ROWS:
            return "by row", size, self._by_row(node, side, rows, names)
        columns = [self.view.columns[name] for name in names]
        coded = [column for column in columns if isinstance(column, Coded)]
        all_coded = len(coded) == len(columns)
        combinations = 1
        for column in coded:
            combinations *= len(column.table)
        cheap = all_coded and combinations <= FEW
        if len(names) == 1 and cheap:
            return self._by_value(node, side, rows, size, names[0])
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

    # --- by column --------------------------------------------------------------------------------

    def _by_column(self, node: Expr, side: Side, rows: Rows | None) -> Vector | None:
        """Combine the vectors of the parts, or return None for other nodes or values."""
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
        return UNARY_KERNELS[node.operator](plain)

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
        """Apply a kernel, or the total operator to strings and the like."""
        plain, other = scalars(left), scalars(right)
        if plain is not None and other is not None:
            return BINARY_KERNELS[operator](plain, other)
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
                if isinstance(vector, ConstantVector) and vector.value is UNDEFINED:
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
        return (
            self._part(content, side, rows)
            if isinstance(content, Expr)
            else ConstantVector(content)
        )

    def follow(self, column: Column, absent: Any, rows: Rows | None) -> Vector | None:
        """Evaluate the contents of a column; `absent` is the job's content for rows without.

        Return None if the column has too many expressions: each row is better evaluated by itself.
        """
        size = self.view.size if rows is None else len(rows)
        if isinstance(column, Coded):
            found = grouped_codes(column, absent, self._codes(column, rows))
        elif isinstance(column, Numeric):
            some = slice(self.view.size) if rows is None else rows
            found = grouped_numbers(column, column.kinds[some], column.bits[some])
        else:
            return self._follow_objects(column, absent, rows)
        if not isinstance(found, Groups):
            return found
        groups = (
            (places, absent, Side.JOB) if content is MISSING else (places, content, Side.ROW)
            for places, content in found.groups
        )
        parts = [(found.plain, found.values)] if len(found.plain) else []
        return self._grouped(groups, parts, rows, size)

    def _follow_objects(self, column: Column, absent: Any, rows: Rows | None) -> Vector | None:
        found = column.contents(range(self.view.size) if rows is None else rows.tolist())
        if any(isinstance(content, Expr) for content in found):
            return None
        if isinstance(absent, Expr):
            return None if MISSING in found else ObjectVector(found)
        return ObjectVector([absent if content is MISSING else content for content in found])


def own_values(
    view: View, node: Expr, rows: Rows | None = None, target: ClassAd | None = None
) -> Vector:
    """The values of an expression of the rows' ads themselves, on some rows or on all."""
    ask = Evaluator(view, ClassAd() if target is None else target, (Side.ROW, ""))
    return ask.vector(node, Side.ROW, rows)


def _length(value: Value) -> int:
    return len(value) if isinstance(value, str) else 0
