"""Comparisons of a slot with a job inside of clauses, and for which values of a job they hold.

``TARGET.Memory >= 2 * MY.RequestMemory`` is one: its one side rests on the slot, the other on the
job alone. What to make of them is in ``suggestions``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.nodes import (
    MY_SCOPES,
    TARGET_SCOPES,
    Attr,
    Binary,
    Expr,
    Literal,
    Unary,
)
from matchmaker.classad.operators import MIRRORED, ORDER, ascii_fold
from matchmaker.classad.values import UNDEFINED, Value, is_number
from matchmaker.classad.walks import names_of, postorder, weight
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import Evaluator

if TYPE_CHECKING:
    import numpy.typing as npt

DIGITS: Final = 3

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

    What differs only in the case of letters comes first: where the case counts, it was meant.
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
    """A comparison with what rests on the slot on its left, wherever that was written.

    Of sums whose terms rest on both, those that rest on the slot are brought to the left, the
    others to the right. ``side`` is the ad that it stands in and ``attribute`` the attribute of
    that ad, folded. ``whole`` says that its clause is true exactly where it is.
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

    Comparisons of the truth of another comparison are left out. Raises OverworkError if they take
    too much.
    """
    if evaluator.reaches.of(clause, side).opaque:
        return
    for node in postorder(clause):
        if isinstance(node, Binary) and node.operator in _COMPARING:
            if isinstance(node.left, Binary) and node.left.operator in _COMPARING:
                continue
            evaluator.work.count(_TO_COMPARE * weight(node))
            found = _compared(evaluator, node, side, attribute, node is clause)
            if found is not None:
                yield found


def _compared(
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

    None where no term rests on the job alone.
    """
    terms = _terms(node.left, False) + _terms(node.right, True)
    slot = [(term, minus) for term, minus in terms if _on_slots(evaluator, term, side)]
    job = [(term, not minus) for term, minus in terms if not _on_slots(evaluator, term, side)]
    if not slot or not any(job_attributes(evaluator, term, side) for term, _ in job):
        return None
    return Comparison(node, side, attribute, node.operator, _sum(slot), _sum(job), whole)


def _terms(root: Expr, minus: bool) -> list[tuple[Expr, bool]]:
    """The terms of a sum, each with whether it is subtracted; itself, where it has too many.

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
class Line:
    """How what is compared follows from what may be changed: ``slope * x + offset``."""

    slope: float = 1.0
    offset: float = 0.0


def line(
    comparison: Comparison,
    job: ClassAd,
    folded: str,
    now: Value,
    value: Callable[[Expr, ClassAd, ClassAd], Value],
) -> Line | None:
    """How the job's side of a comparison follows from an attribute, where it is like a line.

    None where it does not follow, or is no number. A step function such as ``x / 1024`` counts as
    a line: what is found along it has to be checked. `value` evaluates an expression of two ads.
    """
    if isinstance(comparison.job, Attr) and comparison.job.folded == folded:
        return Line()
    start = float(now) if is_number(now) else 1.0
    step = abs(start) or 1.0
    one, two = (_with(comparison, job, folded, x, value) for x in (start, start + step))
    if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in (one, two)):
        return None
    slope = (float(two) - float(one)) / step  # type: ignore[arg-type]
    return Line(slope, float(one) - slope * start) if slope else None  # type: ignore[arg-type]


def _with(
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
    operator: str, slots: npt.NDArray[np.float64], along: Line, integer: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The least and the greatest value for which ``slot operator line(value)`` holds, slot by slot.

    `integer` asks for whole numbers. Where no value will do, the least is above the greatest.

    >>> limits(">", np.array([6.0, 7.5]), Line(slope=2.0), integer=True)
    (array([-inf, -inf]), array([2., 3.]))
    """
    with np.errstate(all="ignore"):
        bound = (slots - along.offset) / along.slope
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
    if (operator in (">", ">=")) == (along.slope > 0):
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
