"""The smallest set of changes that gains slots, where no change alone does.

A change drops a clause of the job, or gives an attribute of the job another value, which may please
several clauses at once, those of slots too. Which clauses each slot fails is a pattern of bits, and
few patterns occur. For every choice of attributes the price of a pattern is the number of these
attributes and of the clauses that it still fails; the least price is that of the smallest set. What
is found is then made gentler, with another constant in place of a clause dropped, and each set that
is reported has been tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import chain, combinations
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import literal
from matchmaker.classad.nodes import Binary, Expr
from matchmaker.classad.printer import unparse, unparse_value
from matchmaker.classad.values import MAX_INT, MIN_INT, UNDEFINED, Value
from matchmaker.classad.walks import conjunction, replaced
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.step_budget import OverworkError
from matchmaker.matching.columns.vectors import Mask, is_true
from matchmaker.matching.explanation.comparisons import EQUALITIES
from matchmaker.matching.explanation.counts import Counts, Gain
from matchmaker.matching.explanation.policies import Held
from matchmaker.matching.explanation.report import Change, Joint
from matchmaker.matching.explanation.suggestions import (
    Lever,
    Use,
    acceptable,
    best_number,
    held_at,
    levers,
)
from matchmaker.matching.names import REQUIREMENTS

if TYPE_CHECKING:
    import numpy.typing as npt

EXACT: Final = 12
"""Up to this many clauses every set is looked at."""


def joint(counts: Counts) -> Joint | None:
    """The smallest set of changes that gains slots, and of those of its size one that gains most.

    None if nothing gains any. Where the search takes too much, ``counts.stopped`` is set.
    """
    try:
        return _Search(counts).found()
    except OverworkError:
        counts.stopped = True
        return None


@attrs.frozen(slots=True, eq=False)
class _Option:
    """Another value of an attribute: the given one if there is one, or else some number.

    It pleases the clauses that ``uses`` stand in, at those rows where it is possible. The
    ``dropped`` clauses, by place, would else be in the way.
    """

    lever: Lever
    value: Value | None
    uses: tuple[Use, ...]
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
        self.all_levers = levers(counts)
        attributes = [lever for lever in self.all_levers if lever.constant is None]
        self.exact &= len(attributes) <= LIMITS.levers
        self.levers = attributes[: LIMITS.levers]
        used = {id(use.clause) for lever in self.levers for use in lever.uses}
        self.held = [held for held in counts.held if id(held) in used]
        rows = counts.view.rows()
        objecting = counts.objecting[rows].copy()
        for held in self.held:
            objecting -= self._refusing(held, rows)
        self.rows: Rows = rows[(objecting == 0) & ~counts.matching[rows]]
        counts.work.count(len(self.rows) * (len(self.clauses) + len(self.held)) >> 5)
        self.fails = [counts.fails(clause)[self.rows] for clause in self.clauses]
        self.refusing = [self._refusing(held, self.rows) for held in self.held]
        self.options = [option for lever in self.levers for option in self._options(lever)]

    @staticmethod
    def _refusing(held: Held, rows: Rows) -> Mask:
        return np.isin(rows, held.rows[~held.accepts], assume_unique=True)

    # --- what may be changed ----------------------------------------------------------------------

    def _options(self, lever: Lever) -> Iterator[_Option]:
        places: dict[int, list[int]] = {}
        for use in lever.uses:
            if not isinstance(use.clause, Held):
                found = [n for n, clause in enumerate(self.clauses) if clause is use.clause]
                places[id(use.clause)] = found
        clauses = sorted(set(chain.from_iterable(places.values())))
        if len(clauses) > LIMITS.shared:
            self.exact = False
        for size in range(len(clauses) + 1 if len(clauses) <= LIMITS.shared else 1):
            for dropped in map(frozenset, combinations(clauses, size)):
                uses = tuple(
                    use
                    for use in lever.uses
                    if isinstance(use.clause, Held) or not dropped & {*places[id(use.clause)]}
                )
                yield from self._valued(lever, uses, dropped)

    def _valued(
        self, lever: Lever, uses: tuple[Use, ...], dropped: frozenset[int]
    ) -> Iterator[_Option]:
        counts = self.counts
        found = acceptable(counts, lever, uses, self.rows)
        if not isinstance(lever.now, (bool, str)):
            possible = (found.low <= found.high) & self._linear(uses)
            if possible.any():
                yield _Option(lever, None, uses, dropped, possible)
        for (kind, choice), _ in found.choices.most_common(LIMITS.choices):
            if choice == lever.now or not (lever.now is UNDEFINED or isinstance(lever.now, kind)):
                continue
            possible = np.ones(len(self.rows), np.bool_)
            for use in uses:
                possible &= self._equal(use, choice)
            if possible.any():
                yield _Option(lever, choice, uses, dropped, possible)

    def _linear(self, uses: Sequence[Use]) -> Mask:
        """Where all that hold a use say how it follows from the number."""
        able = np.ones(len(self.rows), np.bool_)
        for use in uses:
            if not use.along.slope:
                able &= self._holding(use)
        return able

    def _holding(self, use: Use) -> Mask:
        """Where a clause holds as the job is, or does not stand."""
        if isinstance(use.clause, Held):
            return ~self._refusing(use.clause, self.rows)
        return ~self.counts.fails(use.clause)[self.rows]

    def _equal(self, use: Use, choice: Value) -> Mask:
        """Where a comparison is true with a string or a truth, or its clause does not stand."""
        comparison, counts = use.comparison, self.counts
        able = self._holding(use) if not comparison.whole else np.zeros(len(self.rows), np.bool_)
        places = held_at(use, self.rows)
        outside = np.ones(len(self.rows), np.bool_)
        outside[places] = False
        able = able | outside
        if comparison.operator in EQUALITIES and use.along.slope:
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
        """Options of different attributes, the fewest first."""
        room = min(LIMITS.joint, 1 + LIMITS.joint_work // (patterns * (len(self.clauses) + 1)))
        for size in range(len(self.levers) + 1):
            for options in combinations(range(len(self.options)), size):
                if len({id(self.options[place].lever) for place in options}) < size:
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
        """The changes of a plan, tried out, with constants for clauses where these do as well."""
        places = self._reached(plan)
        changes: list[tuple[Lever, Value]] = []
        for option in plan.options:
            value = option.value
            if value is None:
                rows = self.rows[places]
                found = acceptable(self.counts, option.lever, option.uses, rows)
                value = best_number(found.low, found.high, option.lever)
                if value is None:
                    return None
                places = places[(found.low <= value) & (found.high >= value)]  # type: ignore[operator]
            changes.append((option.lever, value))
        gain = self._tried(plan.dropped, changes, {})
        if gain is None:
            return None
        constants: dict[int, tuple[Lever, Value]] = {}
        for place in sorted(plan.dropped):
            lever, value = self._gentler(place, self.rows[places])
            if lever is None or value is None:
                continue
            trial = {**constants, place: (lever, value)}
            again = self._tried(plan.dropped, changes, trial)
            if again is not None and again.gain >= gain.gain:
                constants, gain = trial, again
        shown = [Change(*lever.named(), unparse_value(value)) for lever, value in changes]
        for place in sorted(plan.dropped):
            if place in constants:
                lever, value = constants[place]
                shown.append(Change(*lever.named(), unparse_value(value), place + 1))
            else:
                text = unparse(self.clauses[place])
                shown.append(Change(f"clause {place + 1}", text, None, place + 1))
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

    def _gentler(self, place: int, rows: Rows) -> tuple[Lever | None, Value | None]:
        """Another constant with which a clause accepts all of some rows, if there is one."""
        for lever in self.all_levers:
            if lever.constant is None or not lever.constant.whole:
                continue
            if lever.constant.node is not self.clauses[place] or lever.number is None:
                continue
            found = acceptable(self.counts, lever, lever.uses, rows)
            low, high = float(found.low.max()), float(found.high.min())
            value = min(max(lever.number, low), high)
            if low <= high and MIN_INT <= value < MAX_INT:
                return lever, int(value) if lever.integer else value
        return None, None

    def _tried(
        self,
        dropped: frozenset[int],
        changes: Sequence[tuple[Lever, Value]],
        constants: dict[int, tuple[Lever, Value]],
    ) -> Gain | None:
        changed = self.counts.job.copy()
        for lever, value in changes:
            changed[lever.name] = value
        if dropped:
            kept: list[Expr] = []
            for place, clause in enumerate(self.clauses):
                if place in constants:
                    lever, value = constants[place]
                    assert lever.constant is not None  # noqa: S101 - only those are gentler
                    fresh = lever.constant.with_constant(value)
                    kept.append(replaced(clause, lever.constant.node, fresh))
                elif place not in dropped:
                    kept.append(clause)
            changed[REQUIREMENTS] = conjunction(kept)
        return self.counts.gained(changed)
