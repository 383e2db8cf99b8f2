"""Find what would help a job: one change, several together, or to wait until other jobs end.

Comparisons say which values to try: for each slot that nothing else keeps from matching, those for
which they would hold. That is only a guess: each change that is reported has been made, and the
changed job matched with the pool again.

The smallest set of changes is searched for if no change alone gains slots. A change drops a clause
of the job, or gives an attribute of the job another value, which may please several clauses at
once, those of slots too. Which clauses each slot fails is a pattern of bits, and few patterns
occur. For every choice of attributes the price of a pattern is the number of these attributes and
of the clauses that it still fails; the least price is that of the smallest set. A set that was
found is then made gentler, with another constant in place of a clause dropped.

The ad of a partitionable slot has in ``Cpus`` and ``Memory`` what its jobs leave, and in
``TotalSlotCpus`` and ``TotalSlotMemory`` the size of the whole machine. A job for which the rest is
too small matches when others end; one for which the whole is too small never does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from heapq import nsmallest
from itertools import chain, combinations, islice
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.nodes import AdExpr, Attr, Binary, Expr, ListExpr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import symbol_of, unparse, unparse_value
from matchmaker.classad.values import MAX_INT, MIN_INT, UNDEFINED, Value, is_number
from matchmaker.classad.walks import conjunction, names_of, replaced
from matchmaker.matching.columns.column import MISSING, Coded, Column, ContentTable, Rows, narrowest
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import OverworkError, own_values
from matchmaker.matching.columns.forms import ViewColumns, settled
from matchmaker.matching.columns.masks import MaskCache
from matchmaker.matching.columns.store import Layout, View
from matchmaker.matching.columns.vectors import (
    CodedVector,
    ConstantVector,
    Mask,
    ScalarVector,
    Vector,
    is_true,
    numbers,
    values,
)
from matchmaker.matching.explanation.conditions import (
    EQUALITIES,
    FACTS,
    Comparison,
    Elements,
    LinearMap,
    PromisedChange,
    comparisons,
    job_attributes,
    limits,
    line,
    listings,
    other_choices,
    rounded,
)
from matchmaker.matching.explanation.counts import Counts, Gain, SlotClause
from matchmaker.matching.explanation.report import JobChange, Joint, Later, Suggestion
from matchmaker.matching.pair import REQUIREMENTS, value_text
from matchmaker.matching.snapshot import Snapshot
from matchmaker.matching.states import SlotState

_NOBODY: Final = ClassAd()

_AT_LEAST_ONE: Final = frozenset({"requestcpus", "cpunumber"})


@attrs.frozen(slots=True, eq=False)
class TunableUse:
    """A comparison that a change bears on, and the clause it is in: the job's or the slots' own."""

    comparison: Comparison
    clause: Expr | SlotClause
    linear: LinearMap


@attrs.define(slots=True, eq=False)
class Tunable:
    """Something to change: an attribute of the job by its name, or a comparison's constant."""

    name: str
    folded: str
    now: Value
    constant: Comparison | None
    uses: list[TunableUse] = attrs.field(factory=list)

    @property
    def number(self) -> float | None:
        """The present value, if it is a number."""
        plain = is_number(self.now)
        return float(self.now) if plain else None  # type: ignore[arg-type]

    @property
    def integer(self) -> bool:
        """Whether whole numbers are wanted of it."""
        return not isinstance(self.now, float)

    def changed(self, job: ClassAd, value: Value) -> ClassAd:
        """The job with another value."""
        changed = job.copy()
        if self.constant is None:
            changed[self.name] = value
        else:
            holder = self.constant.attribute
            fresh = self.constant.with_constant(value)
            changed[holder] = replaced(job.expr(holder), self.constant.node, fresh)
        return changed

    def named(self) -> tuple[str, str]:
        """Name the thing to change, and its present value."""
        what, before = self.name, value_text(self.now)
        if self.constant is not None:
            what = f"{unparse(self.constant.slot)} {symbol_of(self.constant.operator)}"
            before = unparse(self.constant.job)
        return what, before


def find_suggestions(counts: Counts, elements: Elements) -> tuple[Suggestion, ...]:
    """Find the changes that gain slots, the best first; each has been tried out.

    If that takes too much on all slots together, ``counts.stopped`` is set.
    """
    found: list[Suggestion] = []
    try:
        for suggestion in _tried(counts, elements):
            found.append(suggestion)  # noqa: PERF402 - what is found before it is too much counts
    except OverworkError:
        counts.stopped = True
    found.sort(key=lambda one: -one.gain)
    return tuple(found[: LIMITS.suggestions])


def _tried(counts: Counts, elements: Elements) -> Iterator[Suggestion]:
    promises = [*elements.promises()]
    for tunable in tunables(counts):
        what, before = tunable.named()
        promises += (
            PromisedChange(
                gain,
                what,
                before,
                unparse_value(value),
                partial(tunable.changed, counts.job, value),
            )
            for gain, value in promising_values(counts, tunable)
        )
    promises.sort(key=lambda promise: -promise.gain)
    reaches = counts.evaluator.reaches
    opaque = any(reaches.of(clause, Side.JOB).opaque for clause in counts.clauses)
    for one in promises[: LIMITS.tried_anywhere if opaque else LIMITS.tried]:
        found = tried(counts, one.what, one.before, one.after, one.job())
        if found is not None:
            yield found
    dropped = _best_without_a_clause(counts)
    if dropped is not None:
        yield dropped


def tried(
    counts: Counts, what: str, before: str, after: str | None, job: ClassAd
) -> Suggestion | None:
    """Return a suggestion if the changed job matches more slots. Raise OverworkError."""
    found = counts.gained(job)
    if found is None:
        return None
    return Suggestion(what, before, after, found.gain, found.matched, job, found.free, found.sooner)


def _best_without_a_clause(counts: Counts) -> Suggestion | None:
    near = [count.near for count in counts.of_clauses()]
    if not any(near):
        return None
    place = near.index(max(near))
    return tried(
        counts, f"clause {place + 1}", unparse(counts.clauses[place]), None,
        without(counts, {place}),
    )  # fmt: skip


def without(counts: Counts, places: Container[int]) -> ClassAd:
    """The job without some of its clauses, by their places."""
    kept = [clause for place, clause in enumerate(counts.clauses) if place not in places]
    changed = counts.job.copy()
    changed[REQUIREMENTS] = conjunction(kept)
    return changed


# --- what may be changed --------------------------------------------------------------------------


def tunables(counts: Counts) -> list[Tunable]:
    """The attributes and constants that comparisons of the job and of the slots rest on."""
    found: dict[object, Tunable] = {}
    for comparison, clause in islice(_comparisons(counts), LIMITS.comparisons):
        names = job_attributes(counts.evaluator, comparison.job, comparison.side)
        changeable = [(folded, name) for folded, name in names.items() if folded not in FACTS]
        # A sum of a thousand attributes is no advice, and each is asked for the whole sum.
        for folded, name in changeable[: LIMITS.attributes]:
            tunable = found.get(folded)
            if tunable is None:
                spelled = counts.job.spelling(name) if name in counts.job else name
                now = counts.value(Attr(None, name, False), counts.job, _NOBODY)
                tunable = found[folded] = Tunable(spelled, folded, now, None)
            counts.work.count(2 * len(counts.job))
            linear = line(comparison, counts.job, folded, tunable.now, counts.value)
            tunable.uses.append(TunableUse(comparison, clause, linear or LinearMap(0)))
        if not names and comparison.side is Side.JOB:
            now = counts.value(comparison.job, counts.job, _NOBODY)
            tunable = found.setdefault(comparison.node, Tunable("", "", now, comparison))
            tunable.uses.append(TunableUse(comparison, clause, LinearMap()))
    return [tunable for tunable in found.values() if any(use.linear.slope for use in tunable.uses)]


def _comparisons(counts: Counts) -> Iterator[tuple[Comparison, Expr | SlotClause]]:
    asked: list[tuple[Expr, Side, str, Expr | SlotClause]] = [
        (one.node, Side.JOB, one.attribute, one.node) for one in counts.wanted
    ]
    most_held = sorted(counts.held, key=_frequent)
    asked += [(one.node, Side.ROW, "", one) for one in most_held]
    for node, side, attribute, clause in asked:
        for comparison in comparisons(counts.by(side), node, side, attribute):
            yield comparison, clause


def _frequent(held: SlotClause) -> tuple[int, int]:
    """Return a key to sort clauses: those of most slots first, of equal ones by their first slot.

    Without the first slot, the order would depend on earlier changes of the pool.
    """
    return -len(held.rows), int(held.rows.min(initial=MAX_INT))


# --- which values ---------------------------------------------------------------------------------


def promising_values(counts: Counts, tunable: Tunable) -> Iterator[tuple[int, Value]]:
    """Yield values to try, each with its promised gain.

    Of numbers, the one that gains most, and the nearest that gains at least half of that; of
    strings and truths, the one that most slots have, and one that differs only in its case.
    """
    rows = _concerned(counts, tunable)
    if len(rows) <= counts.matched:
        return
    found = acceptable(counts, tunable, tunable.uses, rows)
    yield from _numbers(found.low, found.high, tunable, counts.matched)
    for choice, count in other_choices(found.choices, tunable.now):
        # Who does not ask for it accepts it as well.
        yield count + int(np.count_nonzero(~found.asked)) - counts.matched, choice


@attrs.frozen(slots=True, eq=False)
class AcceptableValues:
    """Which values of a tunable some rows accept.

    A number from ``low`` to ``high`` of the row; or the string or truth that the row compares it
    with: ``choices`` counts them, and ``asked`` are the rows that compare at all.
    """

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    choices: Counter[tuple[type, Value]]
    asked: npt.NDArray[np.bool_]


def acceptable(
    counts: Counts, tunable: Tunable, uses: Iterable[TunableUse], rows: Rows
) -> AcceptableValues:
    """Return the values with which all of some uses of a tunable hold, row by row."""
    low = np.full(len(rows), -np.inf)
    high = np.full(len(rows), np.inf)
    choices: Counter[tuple[type, Value]] = Counter()
    asked = np.zeros(len(rows), np.bool_)
    now = tunable.number
    for use in uses:
        comparison, places = use.comparison, held_at(use, rows)
        vector = counts.by(comparison.side).attempt(comparison.slot, comparison.side, rows[places])
        if comparison.operator in EQUALITIES:
            choices.update(_choices(vector, len(places)))
            asked[places] = True
        if not use.linear.slope or isinstance(tunable.now, (bool, str)):
            continue
        reals, none = numbers(vector, len(places))
        some_low, some_high = limits(comparison.operator, reals, use.linear, tunable.integer)
        some_low[none], some_high[none] = np.inf, -np.inf
        if not comparison.whole and now is not None:
            # Another part of the clause may hold: where it does now, the present value will do.
            holds = _holds(counts, use, rows[places])
            some_low[holds] = np.minimum(some_low[holds], now)
            some_high[holds] = np.maximum(some_high[holds], now)
        low[places] = np.maximum(low[places], some_low)
        high[places] = np.minimum(high[places], some_high)
    return AcceptableValues(low, high, choices, asked)


def _concerned(counts: Counts, tunable: Tunable) -> Rows:
    """The slots that match but for the clauses that the change may turn."""
    if tunable.constant is not None:
        used = {use.clause for use in tunable.uses}
        return counts.open_but_for([c for c in counts.clauses if c in used], ())
    folded = tunable.folded
    reaches = counts.evaluator.reaches
    clauses = [c for c in counts.clauses if folded in reaches.of(c, Side.JOB).job]
    held = [one for one in counts.held if folded in one.reach.job]
    if len(clauses) + len(held) > LIMITS.changed:
        return np.zeros(0, np.intp)
    return counts.open_but_for(clauses, held)


def held_at(use: TunableUse, rows: Rows) -> Rows:
    """Which of the rows hold the clause."""
    if not isinstance(use.clause, SlotClause):
        return np.arange(len(rows))
    return np.flatnonzero(np.isin(rows, use.clause.rows, assume_unique=True))


def _holds(counts: Counts, use: TunableUse, rows: Rows) -> npt.NDArray[np.bool_]:
    if not isinstance(use.clause, SlotClause):
        return ~counts.fails(use.clause)[rows]
    return np.isin(rows, use.clause.rows[use.clause.accepts], assume_unique=True)


def _choices(vector: Vector, size: int) -> Counter[tuple[type, Value]]:
    """The strings and truths among values, and how often each occurs."""
    found: Counter[tuple[type, Value]] = Counter()
    pairs: Iterable[tuple[Value, int]]
    if isinstance(vector, CodedVector):
        counts = np.bincount(vector.codes)
        present = np.flatnonzero(counts).astype(np.uint32)
        pairs = zip(
            values(CodedVector(present, vector.table), len(present)),
            counts[present].tolist(),
            strict=True,
        )
    elif isinstance(vector, ConstantVector):
        pairs = ((vector.value, size),)
    elif isinstance(vector, ScalarVector):
        kinds = np.broadcast_to(vector.kinds, (size,))
        pairs = ((truth, int(np.count_nonzero(kinds == truth))) for truth in (False, True))
    else:
        pairs = ((value, 1) for value in vector.values)
    for value, count in pairs:
        if isinstance(value, (str, bool)) and count:
            found[type(value), value] += count
    return found


def _numbers(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], tunable: Tunable, matched: int
) -> Iterator[tuple[int, Value]]:
    now = tunable.number
    possible = low <= high
    lows, highs = np.sort(low[possible]), np.sort(high[possible])

    def gain(value: Any) -> Any:
        """How many slots more accept each value than match."""
        within = np.searchsorted(lows, value, "right") - np.searchsorted(highs, value, "left")
        return within - matched

    def as_good(least: Any, near: float) -> Any:
        return gain(near) >= least

    worth = np.unique(np.concatenate([lows, highs]))
    # A job that requests no processor at all is none that anybody means.
    least = 1 if tunable.folded in _AT_LEAST_ONE else MIN_INT
    worth = worth[np.isfinite(worth) & (worth >= least) & (worth < MAX_INT)]
    if not len(worth):
        return
    gains = gain(worth)
    distance = np.abs(worth - (now if now is not None else 0.0))
    tried = set()
    for enough in (int(gains.max()), -(-int(gains.max()) // 2)):
        if enough <= 0:
            return
        good = np.flatnonzero(gains >= enough)
        best = good[distance[good].argmin()]
        value: Value = int(worth[best])
        if not tunable.integer:
            value = rounded(float(worth[best]), partial(as_good, gains[best]))
        if value not in tried and value != now:
            tried.add(value)
            yield int(gains[best]), value


def best_number(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], tunable: Tunable
) -> Value | None:
    """The number from the least to the greatest of most rows, and of such the nearest to now."""
    return next((value for _, value in _numbers(low, high, tunable, 0)), None)


# Only the most promising plans are tried, while the sets of clauses double with each clause: among
# more than 4,096 sets a smaller one that gains may have been passed over.
EXACT: Final = 12
"""With more clauses than this, a set of changes is not called the smallest."""


def joint(counts: Counts) -> Joint | None:
    """The smallest set of changes that gains slots, and of those of its size one that gains most.

    Return None if nothing gains any. If the search takes too much, ``counts.stopped`` is set.
    """
    try:
        return _Search(counts).found()
    except OverworkError:
        counts.stopped = True
        return None


@attrs.frozen(slots=True, eq=False)
class _Option:
    """Another value of an attribute: the given one if there is one, or else some number.

    It pleases the clauses that ``uses`` stand in, for the rows that are ``possible``. The
    ``dropped`` clauses, by place, would else be in the way.
    """

    tunable: Tunable
    value: Value | None
    uses: tuple[TunableUse, ...]
    dropped: frozenset[int]
    possible: Mask


@attrs.frozen(slots=True)
class _Plan:
    """Some options, and the clauses to drop besides; how many slots that promises."""

    price: int
    slots: int
    options: tuple[_Option, ...]
    dropped: frozenset[int]

    @property
    def order(self) -> tuple[int, int, int]:
        """The cheapest first, then those that promise most, then those that drop least."""
        return self.price, -self.slots, -len(self.options)


class _Search:
    """The search, for the rows that could match if the job were another."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.clauses = counts.clauses
        self.exact = len(self.clauses) <= EXACT
        self.all_tunables = tunables(counts)
        attributes = [tunable for tunable in self.all_tunables if tunable.constant is None]
        self.exact &= len(attributes) <= LIMITS.levers
        self.tunables = attributes[: LIMITS.levers]
        used = {id(use.clause) for tunable in self.tunables for use in tunable.uses}
        self.held = [held for held in counts.held if id(held) in used]
        rows = counts.view.rows()
        objecting = counts.objecting[rows].copy()
        for held in self.held:
            objecting -= self._refusing(held, rows)
        self.rows: Rows = rows[(objecting == 0) & ~counts.matching[rows]]
        counts.work.count(len(self.rows) * (len(self.clauses) + len(self.held)) >> 5)
        self.fails = [counts.fails(clause)[self.rows] for clause in self.clauses]
        self.refusing = [self._refusing(held, self.rows) for held in self.held]
        self.options = [option for tunable in self.tunables for option in self._options(tunable)]

    @staticmethod
    def _refusing(held: SlotClause, rows: Rows) -> Mask:
        return np.isin(rows, held.rows[~held.accepts], assume_unique=True)

    # --- what may be changed ----------------------------------------------------------------------

    def _options(self, tunable: Tunable) -> Iterator[_Option]:
        places: dict[int, list[int]] = {}
        for use in tunable.uses:
            if not isinstance(use.clause, SlotClause):
                found = [n for n, clause in enumerate(self.clauses) if clause is use.clause]
                places[id(use.clause)] = found
        clauses = sorted(set(chain.from_iterable(places.values())))
        if len(clauses) > LIMITS.shared:
            self.exact = False
        for size in range(len(clauses) + 1 if len(clauses) <= LIMITS.shared else 1):
            for dropped in map(frozenset, combinations(clauses, size)):
                uses = tuple(
                    use
                    for use in tunable.uses
                    if isinstance(use.clause, SlotClause) or not dropped & {*places[id(use.clause)]}
                )
                yield from self._valued(tunable, uses, dropped)

    def _valued(
        self, tunable: Tunable, uses: tuple[TunableUse, ...], dropped: frozenset[int]
    ) -> Iterator[_Option]:
        counts = self.counts
        found = acceptable(counts, tunable, uses, self.rows)
        if not isinstance(tunable.now, (bool, str)):
            possible = (found.low <= found.high) & self._linear(uses)
            if possible.any():
                yield _Option(tunable, None, uses, dropped, possible)
        for (kind, choice), _ in found.choices.most_common(LIMITS.choices):
            if choice == tunable.now or not (
                tunable.now is UNDEFINED or isinstance(tunable.now, kind)
            ):
                continue
            possible = np.ones(len(self.rows), np.bool_)
            for use in uses:
                possible &= self._equal(use, choice)
            if possible.any():
                yield _Option(tunable, choice, uses, dropped, possible)

    def _linear(self, uses: Sequence[TunableUse]) -> Mask:
        """Return the rows for which all uses depend on the number, or hold as they are."""
        able = np.ones(len(self.rows), np.bool_)
        for use in uses:
            if not use.linear.slope:
                able &= self._holding(use)
        return able

    def _holding(self, use: TunableUse) -> Mask:
        """Return the rows for which a clause holds with the job as it is, or is absent."""
        if isinstance(use.clause, SlotClause):
            return ~self._refusing(use.clause, self.rows)
        return ~self.counts.fails(use.clause)[self.rows]

    def _equal(self, use: TunableUse, choice: Value) -> Mask:
        """Return the rows for which a comparison is true with a string or a truth, or is absent."""
        comparison, counts = use.comparison, self.counts
        able = self._holding(use) if not comparison.whole else np.zeros(len(self.rows), np.bool_)
        places = held_at(use, self.rows)
        outside = np.ones(len(self.rows), np.bool_)
        outside[places] = False
        able = able | outside
        if comparison.operator in EQUALITIES and use.linear.slope:
            made = Binary(comparison.operator, comparison.slot, literal(choice))
            vector = counts.by(comparison.side).attempt(made, comparison.side, self.rows[places])
            able[places] |= is_true(vector, len(places))
        return able

    # --- which sets -------------------------------------------------------------------------------

    def found(self) -> Joint | None:
        """The best of the smallest sets that keep their promise."""
        best: Joint | None = None
        least = 0
        plans = nsmallest(LIMITS.tried, self._plans(), key=lambda plan: plan.order)
        for plan in plans:
            if best is not None and (plan.price > least or plan.slots <= best.gain):
                break
            made = self._made(plan)
            if made is not None and (best is None or made.gain > best.gain):
                best, least = made, plan.price
        return best

    def _plans(self) -> Iterator[_Plan]:
        if not len(self.rows):
            return
        bits = np.array(
            [*self.fails, *self.refusing, *(option.possible for option in self.options)], np.bool_
        )
        packed = np.ascontiguousarray(np.packbits(bits, axis=0).T)
        whole = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
        _, first, times = np.unique(whole, return_index=True, return_counts=True)
        patterns = bits[:, first]
        clauses, held = len(self.fails), len(self.held)
        for options in self._combinations(len(first)):
            numbers = [self.options[place] for place in options]
            pleased = {id(use.clause) for option in numbers for use in option.uses}
            dropped = frozenset().union(*(option.dropped for option in numbers))
            able = np.ones(len(first), np.bool_)
            for place in options:
                able &= patterns[clauses + held + place]
            for place, one in enumerate(self.held):
                if id(one) not in pleased:
                    able &= ~patterns[clauses + place]
            still = patterns[:clauses].copy()
            for place, clause in enumerate(self.clauses):
                if id(clause) in pleased or place in dropped:
                    still[place] = False
            yield from self._priced(numbers, dropped, still[:, able], times[able])

    def _combinations(self, patterns: int) -> Iterator[tuple[int, ...]]:
        """Yield sets of options of different attributes, the smallest sets first."""
        room = min(LIMITS.joint, 1 + LIMITS.joint_work // (patterns * (len(self.clauses) + 1)))
        for size in range(len(self.tunables) + 1):
            for options in combinations(range(len(self.options)), size):
                if len({id(self.options[place].tunable) for place in options}) < size:
                    continue
                if not room:
                    self.exact = False
                    return
                room -= 1
                yield options

    @staticmethod
    def _priced(
        options: list[_Option],
        dropped: frozenset[int],
        still: npt.NDArray[np.bool_],
        times: npt.NDArray[np.intp],
    ) -> Iterator[_Plan]:
        if not still.shape[1]:
            return
        more = still.sum(0)
        least = more.min()
        cheap = more == least
        sets: dict[frozenset[int], int] = {}
        for column, count in zip(still[:, cheap].T, times[cheap].tolist(), strict=True):
            one = frozenset(np.flatnonzero(column).tolist())
            sets[one] = sets.get(one, 0) + count
        price = len(options) + len(dropped) + int(least)
        for one, slots in sets.items():
            yield _Plan(price, slots, tuple(options), dropped | one)

    # --- what becomes of it -----------------------------------------------------------------------

    def _made(self, plan: _Plan) -> Joint | None:
        """Try the changes of a plan, with constants for dropped clauses if these do as well."""
        places = self._reached(plan)
        changes: list[tuple[Tunable, Value]] = []
        for option in plan.options:
            value = option.value
            if value is None:
                rows = self.rows[places]
                found = acceptable(self.counts, option.tunable, option.uses, rows)
                value = best_number(found.low, found.high, option.tunable)
                if value is None:
                    return None
                places = places[(found.low <= value) & (found.high >= value)]  # type: ignore[operator]
            changes.append((option.tunable, value))
        gain = self._tried(plan.dropped, changes, {})
        if gain is None:
            return None
        constants: dict[int, tuple[Tunable, Value]] = {}
        for place in sorted(plan.dropped):
            tunable, value = self._gentler(place, self.rows[places])
            if tunable is None or value is None:
                continue
            trial = {**constants, place: (tunable, value)}
            again = self._tried(plan.dropped, changes, trial)
            if again is not None and again.gain >= gain.gain:
                constants, gain = trial, again
        shown = [JobChange(*tunable.named(), unparse_value(value)) for tunable, value in changes]
        for place in sorted(plan.dropped):
            if place in constants:
                tunable, value = constants[place]
                shown.append(JobChange(*tunable.named(), unparse_value(value), place + 1))
            else:
                text = unparse(self.clauses[place])
                shown.append(JobChange(f"clause {place + 1}", text, None, place + 1))
        return Joint(
            tuple(shown), gain.gain, gain.matched, gain.job, gain.free, self.exact, gain.sooner
        )

    def _reached(self, plan: _Plan) -> npt.NDArray[np.intp]:
        """The places of the rows that a plan is made for."""
        able = np.ones(len(self.rows), np.bool_)
        pleased = {id(use.clause) for option in plan.options for use in option.uses}
        for option in plan.options:
            able &= option.possible
        for held, refusing in zip(self.held, self.refusing, strict=True):
            if id(held) not in pleased:
                able &= ~refusing
        for place, fails in enumerate(self.fails):
            if place not in plan.dropped and id(self.clauses[place]) not in pleased:
                able &= ~fails
        return np.flatnonzero(able)

    def _gentler(self, place: int, rows: Rows) -> tuple[Tunable | None, Value | None]:
        """Another constant with which a clause accepts all of some rows, if there is one."""
        for tunable in self.all_tunables:
            if tunable.constant is None or not tunable.constant.whole:
                continue
            if tunable.constant.node is not self.clauses[place] or tunable.number is None:
                continue
            found = acceptable(self.counts, tunable, tunable.uses, rows)
            low, high = float(found.low.max()), float(found.high.min())
            value = min(max(tunable.number, low), high)
            if low <= high and MIN_INT <= value < MAX_INT:
                return tunable, int(value) if tunable.integer else value
        return None, None

    def _tried(
        self,
        dropped: frozenset[int],
        changes: Sequence[tuple[Tunable, Value]],
        constants: dict[int, tuple[Tunable, Value]],
    ) -> Gain | None:
        changed = self.counts.job.copy()
        for tunable, value in changes:
            changed[tunable.name] = value
        if dropped:
            kept: list[Expr] = []
            for place, clause in enumerate(self.clauses):
                if place in constants:
                    tunable, value = constants[place]
                    assert tunable.constant is not None  # noqa: S101 - only those are gentler
                    fresh = tunable.constant.with_constant(value)
                    kept.append(replaced(clause, tunable.constant.node, fresh))
                elif place not in dropped:
                    kept.append(clause)
            changed[REQUIREMENTS] = conjunction(kept)
        return self.counts.gained(changed)


_TOTAL: Final = "totalslot"
_PARTITIONABLE: Final = "partitionableslot"
_DYNAMIC: Final = "dynamicslot"
_AVAILABLE: Final = "availablegpus"
_GPUS: Final = (_AVAILABLE, "assignedgpus", "offlinegpus", "totalslotgpus", "totalgpus")
_GPU: Final = "gpus_"
"""How the names begin of attributes that describe one GPU: of GPU-1a2b it is GPUs_GPU_1a2b."""

_ENDING: Final = frozenset(SlotState) - {
    SlotState.OWNER, SlotState.UNAVAILABLE, SlotState.SHUT, SlotState.OTHER,
}  # fmt: skip
"""Whether a slot takes jobs again when those that it has end."""


def columns_of_machines(names: Iterable[str]) -> set[str]:
    """Return the folded attributes for the size of a whole machine, and for its unused part."""
    known = set(names)
    totals = {name for name in known if _divided(name) in known}
    divided = {_divided(name) for name in totals}
    gpus = {name for name in known if name.startswith(_GPU)}
    return totals | divided | gpus | ({_PARTITIONABLE, _DYNAMIC, *_GPUS} & known)


def _divided(folded: str) -> str:
    """Return the attribute of the unused part: ``cpus`` for ``totalslotcpus``; else nothing."""
    # TotalSlots is the number of slots of a machine.
    return folded.removeprefix(_TOTAL) if folded.startswith(_TOTAL) and folded[9:] != "s" else ""


@attrs.frozen(slots=True, eq=False)
class WholeMachines:
    """A pool whose jobs have ended: partitionable slots are whole, dynamic ones are gone.

    ``gpus`` is how many GPUs each slot has then, if its ad does not describe all of them now; else
    0.
    """

    snapshot: Snapshot
    gpus: npt.NDArray[np.int64]

    @classmethod
    def of(cls, pool: Snapshot) -> WholeMachines | None:
        """Make the pool as it is then; None if no slot is partitionable."""
        view = pool._view
        parts = _where(view, _PARTITIONABLE)
        if not parts.any():
            return None
        rows = np.flatnonzero(parts)
        held = dict(view.held)
        for name in list(held):
            rest = _divided(name)
            if rest in held:
                held[rest] = _filled(
                    held[rest], view.size, rows, held[name].contents(rows.tolist())
                )
        numbers = np.zeros(view.size, np.int64)
        if _AVAILABLE in held:
            gpus = [_gpus(view, row) for row in rows.tolist()]
            numbers[rows] = [number for _, number in gpus]
            lists = [listed for listed, _ in gpus]
            held[_AVAILABLE] = _filled(held[_AVAILABLE], view.size, rows, lists)
        alive = ~_where(view, _DYNAMIC)
        if view.alive is not None:
            alive &= view.alive
        columns = ViewColumns(held) if isinstance(view.columns, ViewColumns) else held
        then = attrs.evolve(view, columns=columns, alive=None if alive.all() else alive)
        return cls(Snapshot(then, MaskCache(pool._cache.limits)), numbers)


def _where(view: View, folded: str) -> Mask:
    found = np.zeros(view.size, np.bool_)
    if folded in view.columns:
        rows = view.rows()
        found[rows] = is_true(own_values(view, parse_expr(f"MY.{folded} is true"), rows), len(rows))
    return found


def _filled(column: Column, size: int, rows: Rows, contents: list[Any]) -> Column:
    """Make a column with other contents in some rows, unless these are missing."""
    every = column.contents(range(size))
    for row, content in zip(rows.tolist(), contents, strict=True):
        if content is not MISSING:
            every[row] = content
    table = ContentTable((MISSING,))
    codes = np.array(table.codes(every), np.uint32)
    return settled(Coded(codes.astype(narrowest(len(table))), table), size)


def _gpus(view: View, row: int) -> tuple[Any, int]:
    """The list of all GPUs of a machine, and their number if its ad does not describe them all.

    MISSING if the list stays as it is.
    """
    available, assigned, offline, *totals = (
        view.columns[name].get(row) if name in view.columns else MISSING for name in _GPUS
    )
    if available is MISSING:
        return MISSING, 0
    layout: Layout = view.layouts[view.layout[row]]
    described = {
        folded: Attr(None, name, False)
        for folded, name in zip(layout.folded, layout.names, strict=True)
        if folded.startswith(_GPU) and isinstance(view.columns[folded].get(row), (AdExpr, ClassAd))
    }
    off, listed = _attributes(offline), _attributes(assigned)
    names = [name for name in listed or described if name not in off]
    whole = len(names) if listed else int(next(filter(is_number, totals), 0))
    found = [described[name] for name in names if name in described]
    if not found:
        # Where only the list itself describes them, what is in it now is all that is known.
        count = len(available.items) if isinstance(available, ListExpr) else 0
        return MISSING, whole if whole > count else 0
    return ListExpr(tuple(found)), whole if whole > len(found) else 0


def _attributes(ids: Any) -> list[str]:
    """Return the folded attributes of the GPUs whose ids a text lists."""
    words = ids.split(",") if isinstance(ids, str) else []
    return [_GPU + ascii_fold(one.strip().replace("-", "_")) for one in words if one.strip()]


def later(counts: Counts) -> tuple[Later, Counts] | None:
    """Count the slots that match now, when their jobs end, and never; return also the clauses then.

    None if no slot is partitionable, or if that takes too much. ``counts.later`` gets the slots
    that match then and not now.
    """
    machines = WholeMachines.of(counts.pool)
    if machines is None:
        return None
    try:
        then = Counts(machines.snapshot, counts.job, counts.own_names)
        hidden = _hidden(then, machines.gpus)
    except OverworkError:
        return None
    counts.later = then.matching & ~counts.matching
    alive = then.view.alive
    matching = counts.matching if alive is None else counts.matching & alive
    free = _of_states(counts, matching, (SlotState.FREE,)) if counts.states.said else matching
    ever = then.matching | matching
    ending = _of_states(then, ever, _ENDING) & ~free
    perhaps = int((hidden & ~ever).sum())
    never = then.total - int(ever.sum()) - perhaps
    now, soon = int(free.sum()), int(ending.sum())
    other = then.total - now - soon - never - perhaps
    return Later(now, soon, never, other, counts.states.said, perhaps=perhaps), then


def _hidden(then: Counts, gpus: npt.NDArray[np.int64]) -> Mask:
    """Return the slots decided only by GPUs that their ads do not describe."""
    found = np.zeros(then.view.size, np.bool_)
    about = [node for node in then.clauses if _AVAILABLE in names_of(node).attributes]
    own = [one for one in then.held if _AVAILABLE in names_of(one.node).attributes]
    if not gpus.any() or not (about or own):
        return found
    needed = [1.0]
    for listing in (listing for node in about for listing in listings(node, then.job)):
        if listing.needed is not None:
            value = then.value(listing.needed, then.job, ClassAd())
            needed += [value + listing.beyond] if is_number(value) else []
    rows = then.open_but_for(about, own)
    found[rows] = gpus[rows] >= max(needed)
    return found


def suggestions_when_free(then: Counts, found: Iterable[Suggestion]) -> tuple[Suggestion, ...]:
    """The changes that gain slots that would never match, however many jobs end."""
    known = {(one.what, one.after) for one in found}
    best = find_suggestions(then, Elements(then))
    fresh = [one for one in best if (one.what, one.after) not in known]
    return tuple(attrs.evolve(one, free=None) for one in fresh[: LIMITS.lasting])


def _of_states(counts: Counts, mask: Mask, states: Iterable[SlotState]) -> Mask:
    rows = np.flatnonzero(mask)
    codes = counts.states.codes(counts.job, rows)
    order = list(SlotState)
    found = np.zeros(len(mask), np.bool_)
    found[rows[np.isin(codes, [order.index(state) for state in states])]] = True
    return found
