"""Find for which values of a job the comparisons in clauses, and conditions on list elements, hold.

``TARGET.Memory >= 2 * MY.RequestMemory`` is a comparison: its one side rests on the slot, the other
on the job alone. ``countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= MY.RequestGPUs`` asks each
ad of a list for a condition. The condition has no value of its own, for the job or for the slot:
only for each element, by how much it is missed, and with which other constant enough elements would
satisfy it. What to make of these is in ``suggestions``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterator
from functools import partial
from itertools import takewhile
from operator import ge, le
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import numpy as np

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.errors import closest, shorten
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.nodes import (
    MY_SCOPES,
    TARGET_SCOPES,
    TRUE,
    Attr,
    Binary,
    Call,
    Expr,
    ListExpr,
    Literal,
    Ternary,
    Unary,
    scope_of,
)
from matchmaker.classad.operators import MIRRORED, ORDER, ascii_fold, truth
from matchmaker.classad.printer import brief, symbol_of, unparse, unparse_value
from matchmaker.classad.values import MAX_INT, UNDEFINED, Value, is_error, is_number
from matchmaker.classad.walks import (
    SPECIAL,
    children,
    conjunction,
    conjuncts,
    names_of,
    postorder,
    replaced,
    weight,
)
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import Evaluator, OverworkError
from matchmaker.matching.columns.vectors import values
from matchmaker.matching.explanation.counts import Counts, JobClause
from matchmaker.matching.explanation.report import ElementClause, ElementCount
from matchmaker.matching.pair import each_calls, value_text

if TYPE_CHECKING:
    import numpy.typing as npt


# Three digits are quickly read, and change a value by about a percent; more are used if those fail.
DIGITS: Final = 3
"""The least number of digits to which a suggested real is rounded."""

EQUALITIES: Final = frozenset({"==", "is"})
_COMPARING: Final = ORDER | EQUALITIES

_TO_COMPARE: Final = 16
"""The steps that it takes for each node of a comparison to see what it rests on."""

FACTS: Final = frozenset({
    "owner", "user", "ntdomain", "osuser", "clusterid", "procid", "globaljobid", "qdate",
    "jobstatus", "mytype", "targettype", "requirements", "rank", "virtualorganisation",
    "certificatesubject", "x509userproxysubject", "x509userproxyvoname", "x509userproxyfqan",
})  # fmt: skip
"""Attributes of a job that say what it is, and that nobody changes to please a slot."""


def other_choices(choices: Counter[tuple[type, Value]], now: Value) -> list[tuple[Value, int]]:
    """Return other constants for an equality: the commonest values, with their numbers.

    A value that differs only in the case of letters comes first: if the case counts, it was meant.
    """
    others = [
        (value, count)
        for (kind, value), count in choices.most_common()
        if value != now and (now is UNDEFINED or isinstance(now, kind))
    ]
    same = [one for one in others if _differ_in_case(one[0], now)]
    return list(dict.fromkeys([*same[:1], *others[:1]]))


def _differ_in_case(one: Value, other: Value) -> bool:
    both = isinstance(one, str) and isinstance(other, str)
    return both and ascii_fold(str(one)) == ascii_fold(str(other))


@attrs.frozen(slots=True)
class Comparison:
    """A comparison with the slot's side on its left, on whichever side that was written.

    Of sums whose terms rest on both, those that rest on the slot are brought to the left, the
    others to the right. ``side`` is the ad that it stands in and ``attribute`` the attribute of
    that ad, folded. ``whole`` says that its clause is true exactly if it is.
    """

    node: Binary
    side: Side
    attribute: str
    operator: str
    slot: Expr
    job: Expr
    whole: bool

    def with_constant(self, value: Value) -> Expr:
        """The comparison with a constant for the part that depends on the job."""
        constant = literal(value)
        left, right = self.node.left, self.node.right
        if right is self.job:
            return Binary(self.node.operator, left, constant)
        return Binary(self.node.operator, constant, right)


def comparisons(
    evaluator: Evaluator, clause: Expr, side: Side, attribute: str
) -> Iterator[Comparison]:
    """The comparisons in a clause, which stands in an attribute of the ad on its side.

    Comparisons of the truth of another comparison are left out. Raise OverworkError if they take
    too much.
    """
    if evaluator.reaches.of(clause, side).opaque:
        return
    for node in postorder(clause):
        if isinstance(node, Binary) and node.operator in _COMPARING:
            if isinstance(node.left, Binary) and node.left.operator in _COMPARING:
                continue
            evaluator.work.count(_TO_COMPARE * weight(node))
            found = _comparison(evaluator, node, side, attribute, node is clause)
            if found is not None:
                yield found


def _comparison(
    evaluator: Evaluator, node: Binary, side: Side, attribute: str, whole: bool
) -> Comparison | None:
    left, right = _on_slots(evaluator, node.left, side), _on_slots(evaluator, node.right, side)
    mixed = [
        part
        for part, slot in ((node.left, left), (node.right, right))
        if slot and job_attributes(evaluator, part, side)
    ]
    if mixed:
        found = _parted(evaluator, node, side, attribute, whole)
        if found is not None:
            return found
    if left and right:
        return None
    if not left and not right:
        # A constant of the slot, such as the name of a team, and what the job says.
        left = not job_attributes(evaluator, node.left, side)
        if left == (not job_attributes(evaluator, node.right, side)):
            return None
    if left:
        return Comparison(node, side, attribute, node.operator, node.left, node.right, whole)
    turned = MIRRORED[node.operator]
    return Comparison(node, side, attribute, turned, node.right, node.left, whole)


def _parted(
    evaluator: Evaluator, node: Binary, side: Side, attribute: str, whole: bool
) -> Comparison | None:
    """A comparison of sums with the terms that rest on the slot brought to its left.

    Return None if no term rests on the job alone.
    """
    terms = _terms(node.left, False) + _terms(node.right, True)
    slot = [(term, minus) for term, minus in terms if _on_slots(evaluator, term, side)]
    job = [(term, not minus) for term, minus in terms if not _on_slots(evaluator, term, side)]
    if not slot or not any(job_attributes(evaluator, term, side) for term, _ in job):
        return None
    return Comparison(node, side, attribute, node.operator, _sum(slot), _sum(job), whole)


def _terms(root: Expr, minus: bool) -> list[tuple[Expr, bool]]:
    """Return the terms of a sum, and whether each is subtracted; itself if they are too many.

    A number before a sum in parentheses is multiplied into it.
    """
    found: list[tuple[Expr, bool]] = []
    pending: list[tuple[Expr, bool, list[Expr]]] = [(root, minus, [])]
    while pending:
        node, minus, factors = pending.pop()
        if isinstance(node, Binary) and node.operator in "+-":
            pending.append((node.right, minus ^ (node.operator == "-"), factors))
            pending.append((node.left, minus, factors))
        elif isinstance(node, Unary) and node.operator in "+-":
            pending.append((node.operand, minus ^ (node.operator == "-"), factors))
        elif isinstance(node, Binary) and node.operator == "*" and isinstance(node.left, Literal):
            pending.append((node.right, minus, [*factors, node.left]))
        elif isinstance(node, Binary) and node.operator == "*" and isinstance(node.right, Literal):
            pending.append((node.left, minus, [*factors, node.right]))
        else:
            for factor in reversed(factors):
                node = Binary("*", factor, node)
            found.append((node, minus))
        if len(found) + len(pending) > LIMITS.terms:
            return [(root, minus)]
    return found


def _sum(terms: list[tuple[Expr, bool]]) -> Expr:
    joined: Expr | None = None
    for term, minus in terms:
        if joined is None:
            joined = Unary("-", term) if minus else term
        else:
            joined = Binary("-" if minus else "+", joined, term)
    return joined if joined is not None else literal(0)


def _on_slots(evaluator: Evaluator, node: Expr, side: Side) -> bool:
    columns = evaluator.reaches.of(node, side).columns
    return any(map(evaluator.view.has, columns))


def job_attributes(evaluator: Evaluator, node: Expr, side: Side) -> dict[str, str]:
    """The attributes of the job that an expression names, as spelled there, by folded name."""
    found: dict[str, str] = {}
    scopes = MY_SCOPES if side is Side.JOB else TARGET_SCOPES
    content = evaluator.job._held
    for path in names_of(node).paths:
        *before, folded = path.folded
        bare = path.base is None and not path.absolute and folded in content
        scoped = before == [path.scope] and path.scope in scopes
        if scoped or (bare and (side is Side.JOB or not evaluator.view.has(folded))):
            found.setdefault(folded, path.names[-1])
    return found


# --- for which values a comparison holds ----------------------------------------------------------


@attrs.frozen(slots=True)
class LinearMap:
    """The job's side of a comparison as a function of a value: ``slope * x + offset``."""

    slope: float = 1.0
    offset: float = 0.0


def line(
    comparison: Comparison,
    job: ClassAd,
    folded: str,
    now: Value,
    value: Callable[[Expr, ClassAd, ClassAd], Value],
) -> LinearMap | None:
    """Fit the job's side of a comparison as a linear function of an attribute.

    Return None if it does not depend on it, or is not a number. A step function such as ``x /
    1024`` counts as linear: values found by it have to be checked. `value` evaluates an
    expression of two ads.
    """
    if isinstance(comparison.job, Attr) and comparison.job.folded == folded:
        return LinearMap()
    start = float(now) if is_number(now) else 1.0
    step = abs(start) or 1.0
    one, two = (_job_side(comparison, job, folded, x, value) for x in (start, start + step))
    if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in (one, two)):
        return None
    slope = (float(two) - float(one)) / step  # type: ignore[arg-type]
    return LinearMap(slope, float(one) - slope * start) if slope else None  # type: ignore[arg-type]


def _job_side(
    comparison: Comparison,
    job: ClassAd,
    folded: str,
    number: float,
    value: Callable[[Expr, ClassAd, ClassAd], Value],
) -> Value:
    changed = job.copy()
    changed[folded] = int(number) if number.is_integer() and abs(number) < 1 << 62 else number
    if comparison.side is Side.JOB:
        return value(comparison.job, changed, ClassAd())
    return value(comparison.job, ClassAd(), changed)


def limits(
    operator: str, slots: npt.NDArray[np.float64], linear: LinearMap, integer: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The least and the greatest value for which ``slot operator line(value)`` holds, slot by slot.

    `integer` asks for whole numbers. If no value will do, the least is above the greatest.

    >>> limits(">", np.array([6.0, 7.5]), LinearMap(slope=2.0), integer=True)
    (array([-inf, -inf]), array([2., 3.]))
    """
    with np.errstate(all="ignore"):
        bound = (slots - linear.offset) / linear.slope
    low = np.full(len(slots), -np.inf)
    high = np.full(len(slots), np.inf)
    if operator in EQUALITIES:
        whole = np.round(bound)
        if integer:
            with np.errstate(all="ignore"):
                none = np.abs(bound - whole) > 1e-9 * np.maximum(1, np.abs(bound))
            none |= ~np.isfinite(bound)
            return np.where(none, np.inf, whole), np.where(none, -np.inf, whole)
        return bound, bound
    strict = operator in ("<", ">")
    if (operator in (">", ">=")) == (linear.slope > 0):
        if integer:
            return low, np.ceil(bound) - 1 if strict else np.floor(bound)
        return low, np.nextafter(bound, -np.inf) if strict else bound
    if integer:
        return np.floor(bound) + 1 if strict else np.ceil(bound), high
    return np.nextafter(bound, np.inf) if strict else bound, high


def rounded(value: float, will_do: Callable[[float], object]) -> float:
    """A value rounded to few digits, if it gains as much."""
    for digits in range(DIGITS, 17):
        step = 10.0 ** (math.floor(math.log10(abs(value) or 1)) + 1 - digits)
        for near in (value, value - step, value + step):
            short = float(f"{near:.{digits}g}")
            if will_do(short):
                return short
    return value


_N = TypeVar("_N", int, float)

_NEEDED: Final = frozenset({">=", ">", "==", "is"})
_NAMES: Final = ("Id", "Name", "DeviceName")


@attrs.frozen(slots=True)
class ListQuestion:
    """A call that asks the ads of a list for conditions.

    ``holder`` is the attribute that holds the conditions, as spelled, or empty if they stand in the
    call itself. ``outer`` is the comparison or the call that the call stands in, ``needed`` the
    part of it that says how many elements must satisfy the conditions, one more if ``beyond``; None
    for one element. ``compared`` if ``outer`` compares each value.
    """

    call: Call
    listed: Expr
    conditions: tuple[Expr, ...]
    holder: str = ""
    outer: Expr | None = None
    needed: Expr | None = None
    beyond: bool = False
    compared: bool = False


def listings(clause: Expr, ad: ClassAd) -> Iterator[ListQuestion]:
    """The lists of ads that a clause of an ad asks for conditions."""
    calls = each_calls(clause)
    if not calls:
        return
    above = {child: node for node in postorder(clause) for child in children(node)}
    for call in calls:
        asked, listed = call.arguments
        holder = ""
        if isinstance(asked, Attr) and (asked.base is None or scope_of(asked) in MY_SCOPES):
            name = asked.name
            held = ad._held.get(asked.folded)
            if isinstance(held, Expr):
                asked, holder = held, ad.spelling(name)
        outer = above.get(call)
        found = ListQuestion(call, listed, tuple(conjuncts(asked)), holder, outer)
        if isinstance(outer, Binary) and call.function.lower() == "countmatches":
            other = outer.right if outer.left is call else outer.left
            operator = outer.operator if outer.left is call else MIRRORED.get(outer.operator, "")
            if operator in _NEEDED:
                yield attrs.evolve(found, needed=other, beyond=operator == ">")
        elif isinstance(outer, Call):
            compared = _compared(outer, call, asked)
            if compared is not None:
                yield attrs.evolve(found, conditions=(compared,), compared=True)
            elif outer.function.lower() == "member" and outer.arguments[0] == TRUE:
                yield found
        elif call.function.lower() == "countmatches":
            yield found


def _compared(outer: Call, call: Call, asked: Expr) -> Expr | None:
    """The condition of ``anyCompare(">", evalInEachContext(x, L), v)``, ``member(v, …)``."""
    name, arguments = outer.function.lower(), outer.arguments
    if name == "anycompare" and len(arguments) == 3 and arguments[1] is call:
        operator = arguments[0]
        if isinstance(operator, Literal) and operator.value in MIRRORED:
            return Binary(str(operator.value), asked, arguments[2])
    elif name == "member" and len(arguments) == 2 and arguments[1] is call:
        return None if arguments[0] == TRUE else Binary("==", asked, arguments[0])
    return None


@attrs.frozen(slots=True)
class ElementAnswer:
    """The truth of each condition for an element, and the values of a comparison's sides."""

    element: Value
    truths: tuple[Value, ...]
    sides: tuple[tuple[Value, Value] | None, ...]

    @property
    def failing(self) -> list[int]:
        """The places of the conditions that are not true of it."""
        return [place for place, value in enumerate(self.truths) if value is not True]

    def name(self, place: int) -> str:
        """Return its id, or its place in the list."""
        if isinstance(self.element, ClassAd):
            for name in _NAMES:
                held = self.element._held.get(name.lower())
                if isinstance(held, str):
                    return shorten(held)
        return f"element {place + 1}"


def question(listing: ListQuestion) -> Expr:
    """The expression of all that is asked about a list; ``answered`` reads its value.

    It is evaluated as a whole, in place of the list, so that each name keeps its meaning.
    """
    asked: list[Expr] = [listing.listed, literal(1) if listing.needed is None else listing.needed]
    for condition in listing.conditions:
        asked.append(_each(condition, listing.listed))
        if _sided(condition):
            assert isinstance(condition, Binary)  # noqa: S101 - only these have sides
            asked += (_each(side, listing.listed) for side in (condition.left, condition.right))
    return ListExpr(tuple(asked))


def _sided(condition: Expr) -> bool:
    return isinstance(condition, Binary) and condition.operator in ORDER | EQUALITIES


def _each(node: Expr, listed: Expr) -> Expr:
    # A name alone would stand for what the ad around the list holds under it.
    return Call("evalInEachContext", (Ternary(TRUE, node, literal(UNDEFINED)), listed))


def answered(listing: ListQuestion, value: Value) -> tuple[list[ElementAnswer], int]:
    """Return the answers of each element, and how many must satisfy all conditions."""
    if not isinstance(value, list) or not isinstance(value[0], list):
        return [], 1
    listed, needed, *columns = value
    if not all(isinstance(c, list) and len(c) == len(listed) for c in columns):
        return [], 1
    of_conditions: list[tuple[list[Value], list[tuple[Value, Value]] | None]] = []
    left = iter(columns)
    for condition in listing.conditions:
        truths = [truth(one) for one in next(left)]
        sides = None
        if _sided(condition):
            sides = list(zip(next(left), next(left), strict=True))
        of_conditions.append((truths, sides))
    found = [
        ElementAnswer(
            element,
            tuple(truths[place] for truths, _ in of_conditions),
            tuple(None if sides is None else sides[place] for _, sides in of_conditions),
        )
        for place, element in enumerate(listed)
    ]
    # A million GPUs are wanted by nobody; more than there are is all the same.
    least = min(int(needed), len(found) + 1) if is_number(needed) and abs(needed) < 1e9 else 1
    return found, least + listing.beyond


def shortfall(condition: Expr, sides: tuple[Value, Value] | None) -> str:
    """By how much a comparison of numbers misses, in words; nothing for another condition."""
    if sides is None or not isinstance(condition, Binary) or condition.operator not in ORDER:
        return ""
    left, right = sides
    if not is_number(left) or not is_number(right):
        return ""
    # What is compared with a constant is what is too low or too high.
    if isinstance(condition.left, Literal):
        left, right = right, left
    missing = right - left
    if not missing:
        return "it must be more" if _wants_more(condition) else "it must be less"
    return f"{abs(missing):g} too {'low' if missing > 0 else 'high'}"


def _wants_more(condition: Binary) -> bool:
    more = condition.operator in (">", ">=")
    return more != isinstance(condition.left, Literal)


def facts(condition: Expr, sides: tuple[Value, Value] | None) -> tuple[tuple[str, Value], ...]:
    """Return the sides of a comparison other than constants, with their values for an element."""
    if sides is None or not isinstance(condition, Binary):
        return ()
    parts = zip((condition.left, condition.right), sides, strict=True)
    return tuple((brief(part), value) for part, value in parts if not isinstance(part, Literal))


# --- one slot -------------------------------------------------------------------------------------


def of_pair(
    clause: Expr, ad: ClassAd, other: ClassAd, allowance: Allowance
) -> Iterator[tuple[ListQuestion, list[ElementAnswer]]]:
    """Ask the elements of each list in a clause, for one ad and another."""
    for listing in listings(clause, ad):
        found, _ = answered(listing, allowance.value(question(listing), ad, other))
        if found:
            yield listing, found


# --- a pool ---------------------------------------------------------------------------------------


@attrs.frozen(slots=True, eq=False)
class PromisedChange:
    """A change of the job that may gain slots, in the words of a ``Suggestion``."""

    gain: int
    what: str
    before: str
    after: str | None
    job: Callable[[], ClassAd]


@attrs.frozen(slots=True, eq=False)
class _Lists:
    """The answers of the lists of some slots to a clause of the job."""

    clause: JobClause
    number: int
    listing: ListQuestion
    rows: Rows
    asked: list[tuple[list[ElementAnswer], int]]


class Elements:
    """The lists that clauses of a job ask about, for the slots that fail them.

    If that takes too much, ``counts.stopped`` is set, and the others are left out.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._found: list[_Lists] = []
        try:
            for number, clause in enumerate(counts.wanted):
                for listing in listings(clause.node, counts.job):
                    self._found.append(self._lists(clause, number, listing))
        except OverworkError:
            counts.stopped = True

    def _lists(self, clause: JobClause, number: int, listing: ListQuestion) -> _Lists:
        counts = self._counts
        rows = np.flatnonzero(counts.fails(clause.node))[: LIMITS.listed]
        node = question(listing)
        said = values(counts.evaluator.attempt(node, Side.JOB, rows), len(rows))
        return _Lists(clause, number, listing, rows, [answered(listing, one) for one in said])

    def counts(self) -> tuple[ElementCount, ...]:
        """How many elements satisfy each condition, and how near the others come."""
        return tuple(_counted(one) for one in self._found if any(a for a, _ in one.asked))

    def notes(self) -> Iterator[str]:
        """Report faults of conditions: a name that no element has, an error of every element."""
        for one in self._found:
            elements = [asked for found, _ in one.asked for asked in found]
            known: dict[str, str] = {}
            where = one.listing.holder or f"clause {one.number + 1}"
            for place, condition in enumerate(one.listing.conditions):
                truths = [asked.truths[place] for asked in elements]
                if truths and all(value is UNDEFINED for value in truths):
                    known = known or _names(elements)
                    for name in _lacking(condition, known, self._counts.job):
                        like = closest(name, known) if len(known) <= LIMITS.names else ""
                        hint = f"; did you mean {shorten(like)}?" if like else ""
                        listed = brief(one.listing.listed)
                        yield f"no element of {listed} has {shorten(name)} ({where}){hint}"
                elif truths and all(map(is_error, truths)):
                    reason = truths[0].reason  # type: ignore[union-attr]
                    yield f"{where}: {brief(condition)} is an error: {reason}"

    def promises(self) -> Iterator[PromisedChange]:
        """Yield changes of the conditions, or of how many elements must meet them, to try."""
        for one in self._found:
            open_ = self._counts.open_but_for([one.clause.node], ())
            at = np.flatnonzero(np.isin(one.rows, open_, assume_unique=True)).tolist()
            asked = [one.asked[place] for place in at]
            if not asked:
                continue
            for place, condition in enumerate(one.listing.conditions):
                yield from self._of_condition(one, place, condition, asked)
            yield from self._fewer(one, asked)

    # --- what may be changed ----------------------------------------------------------------------

    def _of_condition(
        self, one: _Lists, place: int, condition: Expr, asked: list[tuple[list[ElementAnswer], int]]
    ) -> Iterator[PromisedChange]:
        """Another constant in a condition, or the others without it."""
        listing = one.listing
        others = [
            ([a for a in found if not set(a.failing) - {place}], needed) for found, needed in asked
        ]
        where = listing.holder or f"clause {one.number + 1}"
        gain = sum(len(found) >= needed for found, needed in others)
        if gain and _sided(condition):
            yield from self._of_constant(one, place, others, where)
        if gain and len(listing.conditions) > 1:
            what = f"condition {place + 1} of {where}"
            rest = [c for n, c in enumerate(listing.conditions) if n != place]
            changed = partial(self._conditioned, one, conjunction(rest))
            yield PromisedChange(gain, what, unparse(condition), None, changed)

    def _of_constant(
        self, one: _Lists, place: int, others: list[tuple[list[ElementAnswer], int]], where: str
    ) -> Iterator[PromisedChange]:
        listing, condition = one.listing, one.listing.conditions[place]
        assert isinstance(condition, Binary)  # noqa: S101 - only these have sides
        turned = isinstance(condition.left, Literal)
        constant, slot = condition.left, condition.right
        if not turned:
            constant, slot = slot, constant
        if not isinstance(constant, Literal):
            return
        operator = MIRRORED[condition.operator] if turned else condition.operator
        sides = [
            ([a.sides[place][turned] for a in found], needed)  # type: ignore[index]
            for found, needed in others
        ]
        for promised, value in _worth(operator, sides, constant.value):
            fresh = Binary(
                condition.operator,
                *((literal(value), slot) if turned else (slot, literal(value))),
            )
            if listing.compared:
                changed = partial(self._compared, one, value)
            else:
                every = (fresh if n == place else c for n, c in enumerate(listing.conditions))
                changed = partial(self._conditioned, one, conjunction(list(every)))
            what = f"{where}: {unparse(slot)} {symbol_of(operator)}"
            yield PromisedChange(promised, what, unparse(constant), unparse_value(value), changed)

    def _fewer(
        self, one: _Lists, asked: list[tuple[list[ElementAnswer], int]]
    ) -> Iterator[PromisedChange]:
        """Fewer elements that satisfy all conditions."""
        needed, job = one.listing.needed, self._counts.job
        have = [sum(not a.failing for a in found) - one.listing.beyond for found, _ in asked]
        ends = sorted((number for number in have if number > 0), reverse=True)
        if not ends or needed is None:
            return
        for enough, value in _ends(ends):
            if isinstance(needed, Attr) and needed.folded in job._held:
                name = job.spelling(needed.name)
                before = value_text(self._counts.value(needed, job, ClassAd()))
                yield PromisedChange(
                    enough, name, before, str(value), partial(_with, job, name, value)
                )
            elif isinstance(needed, Literal) and one.listing.outer is not None:
                fresh = replaced(one.listing.outer, needed, literal(value))
                changed = partial(self._replaced, one, one.listing.outer, fresh)
                what = f"clause {one.number + 1}: {unparse(one.listing.call)}"
                yield PromisedChange(enough, what, unparse(needed), str(value), changed)

    def _conditioned(self, one: _Lists, condition: Expr) -> ClassAd:
        """The job with another condition of the elements."""
        if one.listing.holder:
            return _with(self._counts.job, one.listing.holder, condition)
        call = one.listing.call
        return self._replaced(one, call, Call(call.function, (condition, one.listing.listed)))

    def _compared(self, one: _Lists, value: Value) -> ClassAd:
        """The job with another value that the values of all elements are compared with."""
        outer = one.listing.outer
        assert isinstance(outer, Call)  # noqa: S101 - only calls compare
        place = 0 if outer.function.lower() == "member" else 2
        fresh = [*outer.arguments]
        fresh[place] = literal(value)
        return self._replaced(one, outer, Call(outer.function, tuple(fresh)))

    def _replaced(self, one: _Lists, old: Expr, new: Expr) -> ClassAd:
        attribute, job = one.clause.attribute, self._counts.job
        held = job._held[attribute]
        assert isinstance(held, Expr)  # noqa: S101 - a clause stands in it
        return _with(job, attribute, replaced(held, old, new))


def _with(job: ClassAd, name: str, value: Value | Expr) -> ClassAd:
    changed = job.copy()
    changed[name] = value
    return changed


def _worth(
    operator: str, sides: list[tuple[list[Value], int]], now: Value
) -> Iterator[tuple[int, Value]]:
    """Other constants, each with how many slots have enough elements that satisfy it.

    `sides` are for each slot the values of its elements and how many must satisfy. Of numbers, the
    one that gains most and the nearest that gains half; of others, see ``other_choices``.
    """
    if is_number(now) and operator in ORDER:
        more, integer = operator in (">", ">="), not isinstance(now, float)
        bounds = []
        for found, needed in sides:
            reals = sorted((float(v) for v in found if is_number(v)), reverse=more)
            if len(reals) >= needed:
                bounds.append(reals[max(needed, 1) - 1])
        low, high = limits(operator, np.array(bounds), LinearMap(), integer)
        ends = sorted((high if more else low).tolist(), reverse=more)
        ends = [end for end in ends if abs(end) < MAX_INT]
        for enough, end in _ends(ends):
            # What is beyond the end gains as much.
            will_do = partial(ge if more else le, end)
            yield enough, int(end) if integer else rounded(end, will_do)
    elif operator in EQUALITIES:
        choices: Counter[tuple[type, Value]] = Counter()
        for found, needed in sides:
            plain = Counter((type(v), v) for v in found if isinstance(v, (str, int, float)))
            choices.update(key for key, count in plain.items() if count >= needed)
        for value, count in other_choices(choices, now):
            yield count, value


def _ends(ends: list[_N]) -> Iterator[tuple[int, _N]]:
    """Yield two of the ends, each with the number of slots it satisfies.

    A slot is satisfied by its own end and by all later ones. The last end satisfies all; the first
    end that satisfies half of them is the smaller change.
    """
    if ends:
        yield len(ends), ends[-1]
        half = ends[-(-len(ends) // 2) - 1]
        if half != ends[-1]:
            yield ends.count(half) + sum(1 for _ in takewhile(lambda end: end != half, ends)), half


def _counted(one: _Lists) -> ElementCount:
    conditions = one.listing.conditions
    elements = [asked for found, _ in one.asked for asked in found]
    so_far = [True] * len(elements)
    clauses = []
    for place, condition in enumerate(conditions):
        holds = [place not in asked.failing for asked in elements]
        so_far = [was and holds_ for was, holds_ in zip(so_far, holds, strict=True)]
        near = [asked for asked in elements if asked.failing == [place]]
        clauses.append(
            ElementClause(
                unparse(condition), sum(holds), sum(so_far), len(near),
                _nearest(condition, place, near or elements),
            )
        )  # fmt: skip
    return ElementCount(
        one.number + 1,
        brief(one.listing.listed),
        one.listing.holder,
        sum(bool(found) for found, _ in one.asked),
        len(elements),
        sum(so_far),
        tuple(clauses),
    )


def _names(elements: list[ElementAnswer]) -> dict[str, str]:
    """The names that elements have, as spelled, by their folded forms."""
    ads = (asked.element for asked in elements)
    return {ascii_fold(name): name for ad in ads if isinstance(ad, ClassAd) for name in ad}


def _lacking(condition: Expr, known: Container[str], job: ClassAd) -> Iterator[str]:
    """The names in a condition that neither an element nor the job has."""
    for node in dict.fromkeys(postorder(condition)):
        if not isinstance(node, Attr) or node.base is not None or node.folded in SPECIAL:
            continue
        if node.folded not in known and node.folded not in job._held:
            yield node.name


def _nearest(condition: Expr, place: int, elements: list[ElementAnswer]) -> str:
    """Name the element's value that comes nearest to a comparison.

    Of numbers, the nearest; of other constants, the one that most elements have.
    """
    best: tuple[float, str] | None = None
    choices: Counter[tuple[type, Value]] = Counter()
    for asked in elements:
        sides = asked.sides[place]
        missing = shortfall(condition, sides)
        if place in asked.failing and missing and sides is not None:
            left, right = sides
            distance = abs(float(left) - float(right))  # type: ignore[arg-type]
            if best is None or distance < best[0]:
                found = ", ".join(f"{n} = {value_text(v)}" for n, v in facts(condition, sides))
                best = distance, f"{found}, {missing}"
        elif place in asked.failing and isinstance(condition, Binary) and sides is not None:
            choices.update((type(v), v) for _, v in facts(condition, sides) if isinstance(v, str))
    if best is not None or not isinstance(condition, Binary):
        return best[1] if best is not None else ""
    constant, other = condition.right, condition.left
    if isinstance(other, Literal):
        constant, other = other, constant
    now = constant.value if isinstance(constant, Literal) else UNDEFINED
    equal = condition.operator in EQUALITIES and isinstance(now, str)
    likely = other_choices(choices, now)[:1] if equal else []
    return "".join(f"{brief(other)} = {value_text(value)}" for value, _ in likely)
