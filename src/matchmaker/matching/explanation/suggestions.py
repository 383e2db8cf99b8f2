"""Which change of a job gains most slots: of an attribute, of a constant, or one clause less.

Comparisons say which values to try: for each slot that nothing else keeps from matching, those for
which they would hold. What that promises is only a guess at what is worth trying: each suggestion
has been made, and the changed job matched with the pool again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Attr, Expr
from matchmaker.classad.printer import symbol_of, unparse, unparse_value
from matchmaker.classad.values import MAX_INT, MIN_INT, Value, is_number
from matchmaker.classad.walks import conjunction, replaced
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.step_budget import OverworkError
from matchmaker.matching.columns.vectors import Chosen, Same, Scalars, Vector, numbers, values
from matchmaker.matching.explanation.comparisons import (
    EQUALITIES,
    FACTS,
    Comparison,
    Line,
    comparisons,
    job_attributes,
    limits,
    line,
    other_choices,
    rounded,
)
from matchmaker.matching.explanation.counts import Counts
from matchmaker.matching.explanation.elements import Elements, Promise
from matchmaker.matching.explanation.policies import Held
from matchmaker.matching.explanation.report import Suggestion
from matchmaker.matching.names import REQUIREMENTS
from matchmaker.matching.pair import value_text

if TYPE_CHECKING:
    import numpy.typing as npt

_NOBODY: Final = ClassAd()

_AT_LEAST_ONE: Final = frozenset({"requestcpus", "cpunumber"})


@attrs.frozen(slots=True, eq=False)
class Use:
    """A comparison that a change bears on, and the clause it is in: the job's or the slots' own."""

    comparison: Comparison
    clause: Expr | Held
    along: Line


@attrs.define(slots=True, eq=False)
class Lever:
    """Something to change: an attribute of the job by its name, or a comparison's constant."""

    name: str
    folded: str
    now: Value
    constant: Comparison | None
    uses: list[Use] = attrs.field(factory=list)

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


def suggestions(counts: Counts, elements: Elements) -> tuple[Suggestion, ...]:
    """The changes that gain slots, the best first; each has been tried out.

    Where that takes too much on all slots together, ``counts.stopped`` is set.
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
    for lever in levers(counts):
        what, before = lever.named()
        promises += (
            Promise(
                gain, what, before, unparse_value(value), partial(lever.changed, counts.job, value)
            )
            for gain, value in promising(counts, lever)
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
    """A change, where the changed job matches more slots. Raises OverworkError."""
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


def levers(counts: Counts) -> list[Lever]:
    """The attributes and constants that comparisons of the job and of the slots rest on."""
    found: dict[object, Lever] = {}
    for comparison, clause in islice(_comparisons(counts), LIMITS.comparisons):
        names = job_attributes(counts.evaluator, comparison.job, comparison.side)
        changeable = [(folded, name) for folded, name in names.items() if folded not in FACTS]
        # A sum of a thousand attributes is no advice, and each is asked for the whole sum.
        for folded, name in changeable[: LIMITS.attributes]:
            lever = found.get(folded)
            if lever is None:
                spelled = counts.job.spelling(name) if name in counts.job else name
                now = counts.value(Attr(None, name, False), counts.job, _NOBODY)
                lever = found[folded] = Lever(spelled, folded, now, None)
            counts.work.count(2 * len(counts.job))
            along = line(comparison, counts.job, folded, lever.now, counts.value)
            lever.uses.append(Use(comparison, clause, along or Line(0)))
        if not names and comparison.side is Side.JOB:
            now = counts.value(comparison.job, counts.job, _NOBODY)
            lever = found.setdefault(comparison.node, Lever("", "", now, comparison))
            lever.uses.append(Use(comparison, clause, Line()))
    return [lever for lever in found.values() if any(use.along.slope for use in lever.uses)]


def _comparisons(counts: Counts) -> Iterator[tuple[Comparison, Expr | Held]]:
    asked: list[tuple[Expr, Side, str, Expr | Held]] = [
        (one.node, Side.JOB, one.attribute, one.node) for one in counts.wanted
    ]
    most_held = sorted(counts.held, key=_frequent)
    asked += [(one.node, Side.ROW, "", one) for one in most_held]
    for node, side, attribute, clause in asked:
        for comparison in comparisons(counts.by(side), node, side, attribute):
            yield comparison, clause


def _frequent(held: Held) -> tuple[int, int]:
    """Sorts what many slots hold first; then by the first slot, whatever the pool held before."""
    return -len(held.rows), int(held.rows.min(initial=MAX_INT))


# --- which values ---------------------------------------------------------------------------------


def promising(counts: Counts, lever: Lever) -> Iterator[tuple[int, Value]]:
    """Values to try, each with what it promises to gain.

    Of numbers, the one that gains most, and the nearest that gains at least half of that; of
    strings and truths, the one that most slots have, and one that differs only in its case.
    """
    rows = _concerned(counts, lever)
    if len(rows) <= counts.matched:
        return
    found = acceptable(counts, lever, lever.uses, rows)
    yield from _numbers(found.low, found.high, lever, counts.matched)
    for choice, count in other_choices(found.choices, lever.now):
        # Who does not ask for it accepts it as well.
        yield count + int(np.count_nonzero(~found.asked)) - counts.matched, choice


@attrs.frozen(slots=True, eq=False)
class Acceptable:
    """Which values of a lever some rows accept.

    A number from ``low`` to ``high`` of the row; or the string or truth that the row compares it
    with: ``choices`` counts them, and ``asked`` are the rows that compare at all.
    """

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    choices: Counter[tuple[type, Value]]
    asked: npt.NDArray[np.bool_]


def acceptable(counts: Counts, lever: Lever, uses: Iterable[Use], rows: Rows) -> Acceptable:
    """The values for which all of some uses of a lever hold, row by row."""
    low = np.full(len(rows), -np.inf)
    high = np.full(len(rows), np.inf)
    choices: Counter[tuple[type, Value]] = Counter()
    asked = np.zeros(len(rows), np.bool_)
    now = lever.number
    for use in uses:
        comparison, places = use.comparison, held_at(use, rows)
        vector = counts.by(comparison.side).attempt(comparison.slot, comparison.side, rows[places])
        if comparison.operator in EQUALITIES:
            choices.update(_choices(vector, len(places)))
            asked[places] = True
        if not use.along.slope or isinstance(lever.now, (bool, str)):
            continue
        reals, none = numbers(vector, len(places))
        some_low, some_high = limits(comparison.operator, reals, use.along, lever.integer)
        some_low[none], some_high[none] = np.inf, -np.inf
        if not comparison.whole and now is not None:
            # Another part of the clause may hold: where it does now, the present value will do.
            holds = _holds(counts, use, rows[places])
            some_low[holds] = np.minimum(some_low[holds], now)
            some_high[holds] = np.maximum(some_high[holds], now)
        low[places] = np.maximum(low[places], some_low)
        high[places] = np.minimum(high[places], some_high)
    return Acceptable(low, high, choices, asked)


def _concerned(counts: Counts, lever: Lever) -> Rows:
    """The slots that match but for the clauses that the change may turn."""
    if lever.constant is not None:
        used = {use.clause for use in lever.uses}
        return counts.open_but_for([c for c in counts.clauses if c in used], ())
    folded = lever.folded
    reaches = counts.evaluator.reaches
    clauses = [c for c in counts.clauses if folded in reaches.of(c, Side.JOB).job]
    held = [one for one in counts.held if folded in one.reach.job]
    if len(clauses) + len(held) > LIMITS.changed:
        return np.zeros(0, np.intp)
    return counts.open_but_for(clauses, held)


def held_at(use: Use, rows: Rows) -> Rows:
    """Which of the rows hold the clause."""
    if not isinstance(use.clause, Held):
        return np.arange(len(rows))
    return np.flatnonzero(np.isin(rows, use.clause.rows, assume_unique=True))


def _holds(counts: Counts, use: Use, rows: Rows) -> npt.NDArray[np.bool_]:
    if not isinstance(use.clause, Held):
        return ~counts.fails(use.clause)[rows]
    return np.isin(rows, use.clause.rows[use.clause.accepts], assume_unique=True)


def _choices(vector: Vector, size: int) -> Counter[tuple[type, Value]]:
    """The strings and truths among values, and how often each occurs."""
    found: Counter[tuple[type, Value]] = Counter()
    pairs: Iterable[tuple[Value, int]]
    if isinstance(vector, Chosen):
        counts = np.bincount(vector.codes)
        present = np.flatnonzero(counts).astype(np.uint32)
        pairs = zip(
            values(Chosen(present, vector.table), len(present)),
            counts[present].tolist(),
            strict=True,
        )
    elif isinstance(vector, Same):
        pairs = ((vector.value, size),)
    elif isinstance(vector, Scalars):
        kinds = np.broadcast_to(vector.kinds, (size,))
        pairs = ((truth, int(np.count_nonzero(kinds == truth))) for truth in (False, True))
    else:
        pairs = ((value, 1) for value in vector.values)
    for value, count in pairs:
        if isinstance(value, (str, bool)) and count:
            found[type(value), value] += count
    return found


def _numbers(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], lever: Lever, matched: int
) -> Iterator[tuple[int, Value]]:
    now = lever.number
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
    least = 1 if lever.folded in _AT_LEAST_ONE else MIN_INT
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
        if not lever.integer:
            value = rounded(float(worth[best]), partial(as_good, gains[best]))
        if value not in tried and value != now:
            tried.add(value)
            yield int(gains[best]), value


def best_number(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], lever: Lever
) -> Value | None:
    """The number from the least to the greatest of most rows, and of such the nearest to now."""
    return next((value for _, value in _numbers(low, high, lever, 0)), None)
