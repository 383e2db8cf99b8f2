"""Count the slots of a pool by clause: those of a job, and the slots' own.

This is counted once, row by row, for all that an explanation reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.nodes import Expr
from matchmaker.classad.printer import unparse
from matchmaker.classad.values import Value
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.contents import ERROR_KIND, UNDEFINED_KIND
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import Evaluator
from matchmaker.matching.columns.step_budget import OverworkError, Work, stopped
from matchmaker.matching.columns.vectors import Mask, truths
from matchmaker.matching.explanation.policies import Held, Policies
from matchmaker.matching.explanation.report import AdClause, ClauseCount, Conflict
from matchmaker.matching.explanation.wanted import wanted
from matchmaker.matching.names import FOLDED_REQUIREMENTS
from matchmaker.matching.snapshot import Snapshot
from matchmaker.matching.states import State, States

if TYPE_CHECKING:
    import numpy.typing as npt

_DEAD: Final = 1 << 30
_MOST_CONDITIONS: Final = 64
"""The bits of a signature."""


@attrs.frozen(slots=True)
class Gain:
    """How many slots more a changed job matches, how many it matches, how many free ones more.

    The last is None where that is not known. ``sooner`` of the slots match the job as it is too,
    when their jobs end.
    """

    gain: int
    matched: int
    free: int | None
    job: ClassAd
    sooner: int = 0


class Counts:
    """The clauses of a job and of the rows of a pool, and how many of them each row fails.

    Raises OverworkError where the job's clauses take too much on all rows together.

    ``failing`` is how many clauses of the job are not true of a row, ``objecting`` how many of the
    row's own are not true of the job; both are huge where there is no slot any more.
    """

    def __init__(
        self, pool: Snapshot, job: ClassAd, names: Mapping[str, str] | None = None
    ) -> None:
        self.pool = pool
        self.job = job
        self.own_names = names
        self.later: Mask | None = None
        """Slots that do not match now, and do when their jobs end."""
        self.view = pool._view
        self.states = States.of(pool._view, names)
        self.work = Work(self.total, pool._cache.limits)
        """What may be done for the clauses of the job, and then for suggestions."""
        self.masks = pool._masks(job, self.work)
        root = Side.JOB, FOLDED_REQUIREMENTS
        self.evaluator = Evaluator(self.view, job, root, self.work)
        self.policies = Policies(self.view, job, pool._cache.limits)
        self.wanted = wanted(self.evaluator)
        self.clauses: list[Expr] = [clause.node for clause in self.wanted]
        self._fates: list[tuple[int, int, int]] = []
        self._failed: dict[Expr, npt.NDArray[np.uint8]] = {}
        self._alone: list[int] = []
        self._cumulative: list[int] = []
        # Which clause a row fails, where it fails only one.
        self._culprit = np.zeros(self.view.size, np.int32)
        self._signatures = np.zeros(self.view.size, np.uint64)
        self._bits: list[int] = []
        self.failing = self._none_failing()
        self._count()
        self.stopped = False
        """Whether the search for suggestions has taken too much."""
        self._lumped = False
        try:
            self.held = self.policies.held()
        except OverworkError:
            self._lumped = True
            self.held = [self.policies.lumped(pool._masks(job).theirs())]
        self.work.renew()
        self.objecting = self._none_failing()
        self._object(self.objecting, self.held, 1)

    def by(self, side: Side) -> Evaluator:
        """Return the evaluator of the clauses of one side."""
        return self.evaluator if side is Side.JOB else self.policies.evaluator

    def _none_failing(self) -> npt.NDArray[np.int32]:
        failing = np.zeros(self.view.size, np.int32)
        if self.view.alive is not None:
            failing[~self.view.alive] = _DEAD
        return failing

    def _count(self) -> None:
        for number, clause in enumerate(self.clauses):
            fails = self.fails(clause)
            alone = self.total - int(np.count_nonzero(fails))
            self._alone.append(alone)
            self._fates.append(self._fate(clause, fails, self.total - alone))
            if alone < self.total:
                self.failing += fails
                self._culprit += np.multiply(fails, number, dtype=np.int32)
            self._cumulative.append(self._count_of(self.failing == 0))
            # What all satisfy is in no conflict, and what none does is one by itself.
            if 0 < alone < self.total and len(self._bits) < _MOST_CONDITIONS - 1:
                self._signatures |= np.left_shift(
                    ~fails, np.uint64(len(self._bits)), dtype=np.uint64
                )
                self._bits.append(number)

    def _fate(self, clause: Expr, fails: Mask, failing: int) -> tuple[int, int, int]:
        """Of how many of the slots that fail a clause it is false, undefined and an error."""
        if not failing:
            return 0, 0, 0
        rows = np.flatnonzero(fails)
        kinds = np.broadcast_to(truths(self.evaluator.attempt(clause, Side.JOB, rows)), rows.shape)
        undefined = self._count_of(kinds == UNDEFINED_KIND)
        error = self._count_of(kinds == ERROR_KIND)
        return failing - undefined - error, undefined, error

    @property
    def error(self) -> str | None:
        """Why something is ERROR that took too long to evaluate, if something is."""
        if self._lumped:
            why = stopped(self.total, self.pool._cache.limits)
            return f"the clauses of the slots' requirements: {why}"
        return self.masks.problem or self.evaluator.problem or self.policies.problem

    @staticmethod
    def _count_of(mask: Mask) -> int:
        return int(np.count_nonzero(mask))

    @property
    def total(self) -> int:
        """How many slots there are."""
        return len(self.view)

    def fails(self, clause: Expr) -> Mask:
        """Which slots a clause of the job is not true of."""
        # Asked for each attribute that the clause names, so it is evaluated once.
        packed = self._failed.get(clause)
        if packed is None:
            holds = self.masks.clause(clause)
            fails: Mask = ~holds if self.view.alive is None else self.view.alive & ~holds
            self._failed[clause] = np.packbits(fails)
            return fails
        return np.unpackbits(packed, count=self.view.size).view(np.bool_)

    def value(self, node: Expr, my: ClassAd, target: ClassAd) -> Value:
        """The value of an expression of two ads. Raises OverworkError."""
        value, used = evaluate_counted(node, my, target, "", self.work.within(1))
        self.work.count(self.work.note(used))
        return value

    @staticmethod
    def _object(objecting: npt.NDArray[np.int32], held: Iterable[Held], times: int) -> None:
        """Counts the objections of some of the slots' clauses, or with -1 takes them back."""
        for one in held:
            objecting[one.rows[~one.accepts]] += times

    @cached_property
    def suitable(self) -> Mask:
        """The slots that satisfy all that the job requires."""
        return np.equal(self.failing, 0)

    @cached_property
    def matching(self) -> Mask:
        """The slots that match."""
        return self.suitable & np.equal(self.objecting, 0)

    @cached_property
    def matched(self) -> int:
        """How many slots match."""
        return self._count_of(self.matching)

    @cached_property
    def of_states(self) -> dict[str, int]:
        """How many of the slots that match are in which state."""
        return self.states.counts(self.job, np.flatnonzero(self.matching))

    def of_clauses(self) -> tuple[ClauseCount, ...]:
        """The clauses of the job with what they leave."""
        near = np.bincount(
            self._culprit[(self.failing == 1) & (self.objecting == 0)], minlength=len(self.clauses)
        )
        return tuple(
            ClauseCount(unparse(clause.node), alone, cumulative, misses, *fate, clause.via)
            for clause, alone, cumulative, misses, fate in zip(
                self.wanted, self._alone, self._cumulative, near.tolist(), self._fates, strict=False
            )
        )

    def ad_clauses(self) -> tuple[AdClause, ...]:
        """The clauses of the slots, those first that refuse most slots that the job could use."""
        found = []
        for one in self.held:
            refusing = one.rows[~one.accepts]
            suitable = self._count_of(self.suitable[refusing])
            text, held = unparse(one.node), len(one.rows)
            found.append(AdClause(text, one.via, held, len(refusing), suitable, one.lumped))
        found.sort(key=lambda c: (-c.suitable, -c.refused, -c.held, c.via, c.text))
        return tuple(found)

    def conflicts(self) -> tuple[Conflict, ...]:
        """The smallest sets of clauses that exclude everything, where nothing matches."""
        if self.matched or not self.total:
            return ()
        alone: list[tuple[int, ...]] = [(n,) for n, count in enumerate(self._alone) if not count]
        accepting = self.objecting == 0
        signatures, bits = self._signatures, list(self._bits)
        ads = len(bits)
        if not accepting.any():
            alone.append(())
        elif not accepting.all():
            signatures = signatures | np.left_shift(accepting, np.uint64(ads), dtype=np.uint64)
            bits.append(-1)
        found = minimal_conflicts(signatures[self.view.rows()], len(bits))
        conflicts = [Conflict(tuple(n + 1 for n in one), not one) for one in alone]
        for places in found:
            numbers = tuple(bits[place] + 1 for place in places if place != ads)
            conflicts.append(Conflict(numbers, ads in places))
        return tuple(sorted(conflicts, key=lambda c: (len(c.clauses) + c.ads, c.ads, c.clauses)))

    def open_but_for(self, clauses: Iterable[Expr], held: Iterable[Held]) -> Rows:
        """The rows that some clauses of the job, and some of their own, alone keep from matching.

        Those that match are among them.
        """
        failing, objecting = self.failing, self.objecting
        for clause in clauses:
            failing = failing - self.fails(clause)
        held = list(held)
        if held:
            objecting = objecting.copy()
            self._object(objecting, held, -1)
        return np.flatnonzero((failing == 0) & (objecting == 0))

    def gained(self, job: ClassAd) -> Gain | None:
        """Count the slots a changed job gains; None if it gains none. Raises OverworkError."""
        self.work.count(0)
        masks = self.pool._masks(job, self.work)
        mask = masks.mine()
        if self.view.alive is not None:
            mask = mask & self.view.alive
        rows = np.flatnonzero(mask & masks.theirs(mask))
        gain = len(rows) - self.matched
        if gain <= 0:
            return None
        free = None
        if self.states.said:
            more = Counter(self.states.counts(job, rows)) - Counter(self.of_states)
            if more[State.FREE] or not more[State.UNSAID]:
                free = more[State.FREE]
        sooner = 0 if self.later is None else self._count_of(self.later[rows])
        return Gain(gain, len(rows), free, job, sooner)


def minimal_conflicts(signatures: npt.NDArray[np.uint64], conditions: int) -> list[tuple[int, ...]]:
    """Find the smallest sets of conditions that no row satisfies, as places of bits.

    The conditions that a row satisfies are the bits of its signature. A set conflicts if no
    signature has all of its bits, and is minimal if each of its proper subsets is in some one.

    All those of up to ``LIMITS.conflict`` conditions are found, unless that is more work than the
    limits allow; what is found is minimal even then. `signatures` are those of the rows, in any
    order and number; `conditions` is how many bits they have, 64 at most.

    >>> rows = np.array([0b0011, 0b0101, 0b0110], np.uint64)
    >>> minimal_conflicts(rows, 4)
    [(3,), (0, 1, 2)]
    """
    rows = np.unique(signatures)
    if not len(rows) or int(rows[-1]) == (1 << conditions) - 1:
        return []
    found: list[tuple[int, ...]] = []
    known: list[int] = []
    work = 0
    # Sets that some row satisfies, as places and as bits.
    level: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for size in range(1, LIMITS.conflict + 1):
        larger = []
        for members, bits in level:
            work += len(rows) + conditions
            if work > LIMITS.conflict_work or len(found) >= LIMITS.conflicts:
                return found
            having = rows[rows & np.uint64(bits) == np.uint64(bits)]
            together = int(np.bitwise_or.reduce(having))
            for place in range(members[-1] + 1 if members else 0, conditions):
                joined = bits | 1 << place
                if together >> place & 1:
                    larger.append(((*members, place), joined))
                elif not any(one & joined == one for one in known):
                    found.append((*members, place))
                    known.append(joined)
        level = larger if size < LIMITS.conflict else []
    return found
