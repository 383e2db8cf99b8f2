"""Count the slots of a pool by clause: those of a job, and the slots' own; note what is amiss.

Clauses are followed through names, such as ``MY.Fits`` of a job and ``START`` of slots. Many slots
usually hold the same few requirements: each clause of these is evaluated once for all slots that
hold it. All is counted once, row by row, for all that an explanation reports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker._limits import PoolLimits
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.errors import closest, shorten
from matchmaker.classad.evaluate import Allowance, evaluate_counted
from matchmaker.classad.nodes import Attr, Binary, Expr, Literal
from matchmaker.classad.operators import ORDER, truth
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import brief, unparse
from matchmaker.classad.values import Value, is_error
from matchmaker.classad.walks import SPECIAL, conjuncts, postorder, replaced
from matchmaker.matching.columns.column import (
    ERROR_KIND,
    MISSING,
    UNDEFINED_KIND,
    Coded,
    Column,
    Rows,
)
from matchmaker.matching.columns.dependencies import Reach, Side
from matchmaker.matching.columns.evaluator import Evaluator, OverworkError, WorkBudget, stopped
from matchmaker.matching.columns.store import View
from matchmaker.matching.columns.vectors import Mask, is_true, truths
from matchmaker.matching.explanation.report import AdClause, ClauseCount, Conflict, counted
from matchmaker.matching.pair import FOLDED_REQUIREMENTS, REQUIREMENTS
from matchmaker.matching.snapshot import Snapshot
from matchmaker.matching.states import SlotState, SlotStates

if TYPE_CHECKING:
    import numpy.typing as npt


@attrs.frozen(slots=True)
class JobClause:
    """A clause of a job.

    ``via`` are the names that lead to it from ``Requirements``, ``attribute`` the one of the job
    that it stands in, folded.
    """

    node: Expr
    via: tuple[str, ...]
    attribute: str


def wanted(evaluator: Evaluator) -> list[JobClause]:
    """Return the clauses in order. A name that leads in a circle is a clause itself."""
    job = evaluator.job
    if REQUIREMENTS not in job:
        return []
    pending = _clauses(job.expr(REQUIREMENTS), (), FOLDED_REQUIREMENTS)
    found: list[JobClause] = []
    while pending:
        clause = pending.pop()
        node = clause.node
        if isinstance(node, Attr) and evaluator.reaches.holder(node, Side.JOB) is Side.JOB:
            content = job._held.get(node.folded)
            if isinstance(content, Expr) and not evaluator.reaches.of(node, Side.JOB).opaque:
                parts = _clauses(content, (*clause.via, node.name), node.folded)
                if len(parts) + len(pending) + len(found) <= LIMITS.clauses:
                    pending += parts
                    continue
        found.append(clause)
    return found


def _clauses(node: Expr, via: tuple[str, ...], attribute: str) -> list[JobClause]:
    """The clauses of an expression, the last first."""
    return [JobClause(clause, via, attribute) for clause in reversed(conjuncts(node))]


_WHOLE: Final = Attr(Attr(None, "MY", False), REQUIREMENTS, False)


@attrs.frozen(slots=True, eq=False)
class SlotClause:
    """A clause of some slots' requirements.

    ``via`` are the names that lead to it, ``rows`` the slots that hold it, and ``accepts`` says for
    each of them whether it is true of the job. ``reach`` is what it rests on. If it is ``lumped``,
    it is a name that stands for another clause in many of the rows.
    """

    node: Expr
    via: tuple[str, ...]
    rows: Rows
    accepts: Mask
    reach: Reach
    lumped: bool


class SlotClauses:
    """Find the clauses that the living rows of a view hold, and their values for a job.

    The requirements of a row are true of the job exactly if all of its clauses are.
    """

    def __init__(self, view: View, job: ClassAd, limits: PoolLimits) -> None:
        self._view = view
        work = WorkBudget(len(view), limits)
        self.evaluator = Evaluator(view, job, (Side.ROW, FOLDED_REQUIREMENTS), work)
        # Requirements as a whole are asked for by their name, which would else lead in a circle.
        self._outside = Evaluator(view, job, (Side.ROW, ""), work)
        self.problem: str | None = None
        """Why a clause is ERROR for some slots, where an evaluation took too much."""
        self._leaves: dict[tuple[Expr, tuple[str, ...], bool], list[Rows]] = {}

    def held(self) -> list[SlotClause]:
        """The clauses, in no particular order. Raise OverworkError."""
        self._leaves = {}
        pending = self._named(FOLDED_REQUIREMENTS, _WHOLE, self._view.rows(), ())
        while pending:
            further: dict[tuple[Expr, tuple[str, ...]], list[Rows]] = {}
            for (node, via), parts in pending.items():
                rows = _joined(parts)
                for clause in conjuncts(node):
                    for key, some in self._followed(clause, rows, via):
                        further.setdefault(key, []).append(some)
            pending = further
        return [self._held(*key, _joined(rows)) for key, rows in self._leaves.items()]

    def lumped(self, accepting: Mask) -> SlotClause:
        """Make one clause of the requirements of all slots, given which accept the job."""
        rows = self._view.rows()
        return SlotClause(_WHOLE, (), rows, accepting[rows], Reach(opaque=True), lumped=True)

    def _held(self, node: Expr, via: tuple[str, ...], lumped: bool, rows: Rows) -> SlotClause:
        evaluator = self._outside if node is _WHOLE else self.evaluator
        accepts = is_true(evaluator.attempt(node, Side.ROW, rows), len(rows))
        self.problem = self.problem or evaluator.problem
        return SlotClause(node, via, rows, accepts, evaluator.reaches.of(node, Side.ROW), lumped)

    def _followed(
        self, clause: Expr, rows: Rows, via: tuple[str, ...]
    ) -> Iterator[tuple[tuple[Expr, tuple[str, ...]], Rows]]:
        """Follow a clause that is a name to its definition; any other clause is a leaf."""
        reaches = self.evaluator.reaches
        if (
            isinstance(clause, Attr)
            and reaches.holder(clause, Side.ROW) is Side.ROW
            and self._view.has(clause.folded)
            and not reaches.of(clause, Side.ROW).opaque
        ):
            for key, parts in self._named(clause.folded, clause, rows, via).items():
                yield from ((key, part) for part in parts)
        else:
            self._leaf(clause, rows, via)

    def _leaf(self, node: Expr, rows: Rows, via: tuple[str, ...], lumped: bool = False) -> None:
        self._leaves.setdefault((node, via, lumped), []).append(rows)

    def _named(
        self, folded: str, name: Attr, rows: Rows, via: tuple[str, ...]
    ) -> dict[tuple[Expr, tuple[str, ...]], list[Rows]]:
        """The expressions that rows hold under a name; values and the rest become leaves."""
        column = self._view.columns.get(folded)
        found: dict[tuple[Expr, tuple[str, ...]], list[Rows]] = {}
        if column is None:
            return found
        path = via if name is _WHOLE else (*via, name.name)
        for content, some in _groups(column, rows):
            if isinstance(content, Expr):
                found.setdefault((content, path), []).append(some)
            elif content is MISSING:
                # A slot without requirements accepts the job.
                if name is not _WHOLE:
                    self._leaf(name, some, via)
            elif content is _MANY:
                self._leaf(name, some, via, lumped=True)
            else:
                self._leaf(literal(content), some, path)
        return found


_MANY: Final = object()


def _groups(column: Column, rows: Rows) -> Iterator[tuple[Any, Rows]]:
    """The rows by content, the most frequent first; beyond a number, the others under _MANY."""
    if not isinstance(column, Coded):
        missing = column.missing(int(rows[-1]) + 1 if len(rows) else 0)[rows]
        if missing.any():
            yield MISSING, rows[missing]
        if not missing.all():
            yield _MANY, rows[~missing]
        return
    codes = column.codes[rows]
    table = column.table[:]
    counts = np.bincount(codes, minlength=len(table))
    present = np.flatnonzero(counts)
    if len(present) == 1:
        yield table[present[0]], rows
        return
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(counts)
    missing_first = np.lexsort((-counts[present], present != 0))
    ordered = present[missing_first].tolist()
    for code in ordered[: LIMITS.groups]:
        yield table[code], rows[order[ends[code] - counts[code] : ends[code]]]
    others = ordered[LIMITS.groups :]
    if others:
        yield _MANY, rows[np.isin(codes, others)]


def _joined(parts: list[Rows]) -> Rows:
    """The rows of all parts, each once, in ascending order."""
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))


_DEAD: Final = 1 << 30
_MOST_CONDITIONS: Final = 64
"""The bits of a signature."""


@attrs.frozen(slots=True)
class Gain:
    """How many slots more a changed job matches, how many it matches, how many free ones more.

    The last is None if it is unknown. ``sooner`` of the slots match the job as it is too, when
    their jobs end.
    """

    gain: int
    matched: int
    free: int | None
    job: ClassAd
    sooner: int = 0


class Counts:
    """The clauses of a job and of the rows of a pool, and how many of them each row fails.

    Raise OverworkError if the job's clauses take too much on all rows together.

    ``failing`` is how many clauses of the job are not true of a row, ``objecting`` how many of the
    row's own are not true of the job; both are huge for removed slots.
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
        self.states = SlotStates.of(pool._view, names)
        self.work = WorkBudget(self.total, pool._cache.limits)
        """What may be done for the clauses of the job, and then for suggestions."""
        self.masks = pool._masks(job, self.work)
        root = Side.JOB, FOLDED_REQUIREMENTS
        self.evaluator = Evaluator(self.view, job, root, self.work)
        self.policies = SlotClauses(self.view, job, pool._cache.limits)
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
        """The value of an expression of two ads. Raise OverworkError."""
        value, used = evaluate_counted(node, my, target, "", self.work.within(1))
        self.work.count(self.work.note(used))
        return value

    @staticmethod
    def _object(objecting: npt.NDArray[np.int32], held: Iterable[SlotClause], times: int) -> None:
        """Count the objections of some of the slots' clauses, or with -1 take them back."""
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
        """The clauses of the job with their counts."""
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
        """The smallest sets of clauses that exclude everything, if nothing matches."""
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

    def open_but_for(self, clauses: Iterable[Expr], held: Iterable[SlotClause]) -> Rows:
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
        """Count the slots a changed job gains; None if it gains none. Raise OverworkError."""
        # Rows evaluated alone are charged without a check: stop here if they took all.
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
            if more[SlotState.FREE] or not more[SlotState.UNSAID]:
                free = more[SlotState.FREE]
        sooner = 0 if self.later is None else self._count_of(self.later[rows])
        return Gain(gain, len(rows), free, job, sooner)


def minimal_conflicts(signatures: npt.NDArray[np.uint64], conditions: int) -> list[tuple[int, ...]]:
    """Find the smallest sets of conditions that no row satisfies, as places of bits.

    The conditions that a row satisfies are the bits of its signature. A set conflicts if no
    signature has all of its bits, and is minimal if each of its proper subsets is in some one.

    All those of up to ``LIMITS.conflict`` conditions are found, unless that is more work than the
    limits allow; the sets returned are minimal even then. `signatures` are those of the rows, in
    any order and number; `conditions` is how many bits they have, 64 at most.

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


def notes(
    counts: Counts, known: Mapping[str, str] | None = None, of_lists: Iterable[str] = ()
) -> tuple[str, ...]:
    """Sentences, the first few. `known` are the names of the slots, if these have more.

    `of_lists` are those on the conditions of elements.
    """
    found = [
        *_strings(counts),
        *_errors(counts),
        *_names(counts, known),
        *of_lists,
        *_strings_of_slots(counts),
    ]
    more = len(found) - LIMITS.notes
    last = [f"and {more} more of the kind"] if more > 0 else []
    if counts.stopped:
        why = stopped(counts.total, counts.pool._cache.limits)
        last.append(f"not all changes of the job were tried: {why}")
    return (*found[: LIMITS.notes], *last)


# --- strings --------------------------------------------------------------------------------------


def _strings(counts: Counts) -> Iterator[str]:
    content = counts.job._held
    for number, clause in enumerate(counts.clauses, 1):
        if isinstance(content.get(FOLDED_REQUIREMENTS), str):
            yield f"the job's {REQUIREMENTS} {_AMISS}"
        elif isinstance(clause, Literal) and isinstance(clause.value, str):
            yield f"clause {number} {_AMISS}"
        elif isinstance(clause, Attr):
            holder = counts.evaluator.reaches.holder(clause, Side.JOB)
            if holder is Side.JOB and isinstance(content.get(clause.folded), str):
                yield f"the job's {clause.name} (clause {number}) {_AMISS}"


_AMISS: Final = "is a string, which is true of no slot: write the expression without quotes"


def _strings_of_slots(counts: Counts) -> Iterator[str]:
    """Count the slots whose requirements are a string."""
    times: Counter[str] = Counter()
    for held in counts.held:
        if isinstance(held.node, Literal) and isinstance(held.node.value, str):
            times[held.via[-1] if held.via else REQUIREMENTS] += len(held.rows)
    for name, count in times.items():
        yield f"{counted(count)} refuse every job: {name} is a string there, and no expression"


# --- errors ---------------------------------------------------------------------------------------


def _errors(counts: Counts) -> Iterator[str]:
    """Why clauses are errors: the reason on the first such slot, and what to write instead."""
    allowance = Allowance()
    for number, count in enumerate(counts.of_clauses()):
        clause = counts.clauses[number]
        # What is said of strings is not said again.
        said = isinstance(clause, Literal) or isinstance(
            counts.job._held.get(clause.folded if isinstance(clause, Attr) else ""), str
        )
        if not count.error or counts.error is not None or said:
            continue
        try:
            rows = np.flatnonzero(counts.fails(clause))
            vector = counts.evaluator.attempt(clause, Side.JOB, rows)
        except OverworkError:
            return
        kinds = np.broadcast_to(truths(vector), rows.shape)
        wrong = rows[kinds == ERROR_KIND]
        if not len(wrong):
            continue
        ad = counts.view.ad(int(wrong[0]))
        value = truth(allowance.value(clause, counts.job, ad))
        if is_error(value) and value.reason:
            fix = _unquoted(clause, counts.job, ad, allowance)
            advice = f"; write {brief(fix)}" if fix is not None else ""
            slots = counted(count.error)
            yield f"clause {number + 1} is an error for {slots}: {value.reason}{advice}"


def _unquoted(clause: Expr, job: ClassAd, ad: ClassAd, allowance: Allowance) -> Expr | None:
    """A clause with a number for a number in quotes that is compared with a number."""
    for node in postorder(clause):
        if not isinstance(node, Binary) or node.operator not in ORDER | {"==", "!="}:
            continue
        for text, other in ((node.right, node.left), (node.left, node.right)):
            if not isinstance(text, Literal) or not isinstance(text.value, str):
                continue
            if not _NUMBER.fullmatch(text.value):
                continue
            if type(allowance.value(other, job, ad)) not in (int, float):
                continue
            plain = parse_expr(text.value)
            fresh = (other, plain) if text is node.right else (plain, other)
            return replaced(clause, node, Binary(node.operator, *fresh))
    return None


_NUMBER: Final = re.compile(r"\d{1,18}(?:\.\d{1,18})?", re.ASCII)


# --- names ----------------------------------------------------------------------------------------


def _names(counts: Counts, of_slots: Mapping[str, str] | None) -> Iterator[str]:
    """Find the attributes whose lack makes clauses undefined."""
    clauses: dict[tuple[str, str], list[int]] = {}
    names: dict[tuple[str, str], str] = {}
    for number, count in enumerate(counts.of_clauses()):
        if count.undefined or count.error:
            for node, who in _lacking(counts, counts.clauses[number]):
                names.setdefault((who, node.folded), node.name)
                numbers = clauses.setdefault((who, node.folded), [])
                if number + 1 not in numbers:
                    numbers.append(number + 1)
    spelled: dict[str, Mapping[str, str]] = {}
    for order, ((who, folded), name) in enumerate(names.items()):
        numbers = clauses[who, folded]
        shown = ", ".join(map(str, numbers[:3])) + (", ..." if len(numbers) > 3 else "")
        place = f"clause{'s' if len(numbers) > 1 else ''} {shown}"
        like = ""
        # Each name is compared with all others: only where it will be read.
        if order < LIMITS.notes:
            if who not in spelled:
                spelled[who] = _known(counts, who, of_slots)
            known = spelled[who]
            like = closest(name, known) if len(known) <= LIMITS.names else ""
        hint = f"; did you mean {shorten(like)}?" if like else ""
        yield f"{who} {shorten(name)} ({place}){hint}"


_SLOTS: Final = "no slot has"
_JOB: Final = "the job has no"
_EITHER: Final = "neither the job nor any slot has"


def _lacking(counts: Counts, clause: Expr) -> Iterator[tuple[Attr, str]]:
    """Find the names in a clause, and in the job's expressions that it names, without a value."""
    pending, seen = [clause], {clause}
    while pending and len(seen) <= LIMITS.followed:
        for node in postorder(pending.pop()):
            if not isinstance(node, Attr) or node.folded in SPECIAL:
                continue
            holder = counts.evaluator.reaches.holder(node, Side.JOB)
            content = counts.job._held.get(node.folded)
            if holder is Side.JOB and node.folded not in counts.job._held:
                yield node, _JOB
            elif holder is Side.JOB and isinstance(content, Expr) and content not in seen:
                seen.add(content)
                pending.append(content)
            elif holder is Side.ROW and not counts.view.has(node.folded):
                yield node, _SLOTS if node.base is not None else _EITHER


def _known(counts: Counts, who: str, of_slots: Mapping[str, str] | None) -> Mapping[str, str]:
    """The names that one may have meant, as spelled, by their folded forms."""
    found: dict[str, str] = {}
    if who != _JOB and of_slots is not None:
        found.update(of_slots)
    elif who != _JOB:
        view = counts.view
        for number in np.unique(view.layout[view.rows()])[: LIMITS.layouts].tolist():
            layout = view.layouts[number]
            for folded, name in zip(layout.folded, layout.names, strict=True):
                found.setdefault(folded, name)
    if who != _SLOTS:
        found = dict(zip(counts.job._held, counts.job, strict=True)) | found
    return found
