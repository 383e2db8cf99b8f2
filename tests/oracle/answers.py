"""Our own answers to the cases, in the form in which the reference implementation's are given.

Each case is answered twice: by the reference evaluation (``evaluate``), and by functions made of
the expression and of all that its ads hold (``compile``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

import attrs

from matchmaker import ClassAd, Expr, ParseError, parse_ad, parse_expr
from matchmaker.classad import reference as evaluation
from matchmaker.classad.compile import compile_expression
from matchmaker.classad.evaluate import TOO_DEEP
from matchmaker.classad.functions.conversions import to_text
from matchmaker.classad.state import EvaluationState, OutOfBoundsError
from matchmaker.classad.values import UNDEFINED, ErrorType, Value, is_error
from tests.oracle.oracle import Answer, Case, Oracle

UNREADABLE: Final[Answer] = ["unreadable"]
REFUSED: Final[Answer] = ["exception", "ClassAdException"]

DEPTH: Final = 3
"""How deep the parts of a value are looked at, here and by the worker: it may hold itself."""

Run = Callable[[ClassAd | None, ClassAd | None, EvaluationState], Value]


@attrs.frozen(slots=True)
class Compared:
    """The three answers to a case: ours, ours by compiled expressions, and the reference's."""

    case: Case
    ours: Answer
    compiled: Answer
    theirs: Answer

    def __str__(self) -> str:
        compiled = f", compiled {self.compiled}" if self.compiled != self.ours else ""
        return f"{self.case}: ours {self.ours}{compiled}, HTCondor's {self.theirs}"


def compared(oracle: Oracle, cases: list[Case]) -> list[Compared]:
    """All answers to each of the cases."""
    theirs = oracle.answers(cases)
    return [Compared(case, *ours(case), answer) for case, answer in zip(cases, theirs, strict=True)]


def ours(case: Case) -> tuple[Answer, Answer]:
    """Our own two answers to a case. An exception is an answer that agrees with nothing."""
    try:
        expression = parse_expr(case.text)
        my, target = ad_of(case.my), ad_of(case.target)
    except ParseError:
        return UNREADABLE, UNREADABLE
    except Exception as error:  # noqa: BLE001 - anything else is a defect to report
        return _raised(error), _raised(error)
    plain = _any_answer(_reference(expression), my, target, watched=True)
    if my is None:
        # Without an ad nothing is compiled: there is no function to ask.
        return plain, plain
    return plain, _any_answer(_function(expression), my, target, watched=False)


def _any_answer(run: Run, my: ClassAd | None, target: ClassAd | None, *, watched: bool) -> Answer:
    try:
        return answer(run, my, target, watched=watched)
    except Exception as error:  # noqa: BLE001 - anything but a value is a defect to report
        return _raised(error)


def _raised(error: Exception) -> Answer:
    return ["raises", f"{type(error).__name__}: {error}"]


@lru_cache(maxsize=64)
def ad_of(text: str) -> ClassAd | None:
    """An ad in which everything has its function; None for no text."""
    if not text:
        return None
    ad = parse_ad(text)
    for held in ad._held.values():
        if isinstance(held, Expr):
            _function(held)
    return ad


def _reference(node: Expr) -> Run:
    return lambda ad, other, state: state.table[type(node)](node, state, ad)


def _function(node: Expr) -> Run:
    """The function of an expression, kept where evaluation looks for it."""
    if node.run is None:
        object.__setattr__(node, "run", compile_expression(node, evaluation._AROUND))
    return node.run or _reference(node)


def answer(
    run: Run,
    my: ClassAd | None,
    target: ClassAd | None,
    *,
    watched: bool = True,
    kind: type[EvaluationState] = EvaluationState,
) -> Answer:
    """The encoded value that `run` gives between two ads. What is watched is never compiled."""

    def state() -> EvaluationState:
        made = kind(my, target)
        made.watched = watched
        return made

    def guarded(work: Callable[[EvaluationState], Value]) -> Value:
        try:
            return work(state())
        except OutOfBoundsError as bound:
            return ErrorType(str(bound))
        except RecursionError:
            return ErrorType(TOO_DEEP)

    def attribute(ad: ClassAd, folded: str) -> Value:
        return guarded(lambda state: evaluation._attribute_of(ad, folded, state))

    return encoded(guarded(lambda state: run(my, target, state)), attribute)


def encoded(value: Value, attribute: Callable[[ClassAd, str], Value], depth: int = DEPTH) -> Answer:
    """A value in the form in which the worker gives its own; `attribute` evaluates those of ads."""
    if isinstance(value, list):
        if not depth:
            return ["list", len(value)]
        # By their places, as the worker asks for them.
        items = (value[place] for place in range(len(value)))
        return ["list", [encoded(item, attribute, depth - 1) for item in items]]
    if isinstance(value, ClassAd):
        names = sorted(name.lower() for name in value)
        if not depth:
            return ["classad", names]
        return [
            "classad",
            [[name, encoded(attribute(value, name), attribute, depth - 1)] for name in names],
        ]
    # What stands in for a value in an emulation says itself what it is.
    return value.encoded() if hasattr(value, "encoded") else _plain(value)


def _plain(value: Value) -> Answer:
    if is_error(value):
        return ["error"]
    if value is UNDEFINED:
        return ["undefined"]
    if isinstance(value, bool):
        return ["boolean", value]
    if isinstance(value, int):
        return ["integer", str(value)]
    if isinstance(value, float):
        return ["real", repr(value)]
    if isinstance(value, str):
        return ["string", value]
    if isinstance(value, datetime):
        return ["absolute time", to_text(value)]
    if isinstance(value, timedelta):
        return ["relative time", repr(value.total_seconds())]
    raise TypeError(f"{type(value).__name__} is no value")


def same(left: Answer, right: Answer) -> bool:
    """Whether two answers are the same. Relative times have microseconds with us."""
    if left == right:
        return True
    if left[0] != right[0] or len(left) != len(right):
        return False
    if left[0] == "relative time":
        return math.isclose(float(left[1]), float(right[1]), rel_tol=1e-12, abs_tol=1e-6)
    if not (isinstance(left[1], list) and isinstance(right[1], list)):
        return False
    parts = list(zip(left[1], right[1], strict=False))
    if len(left[1]) != len(right[1]) or not all(isinstance(part[0], list) for part in parts):
        return False
    if left[0] == "list":
        return all(same(one, other) for one, other in parts)
    return all(one[0] == other[0] and same(one[1], other[1]) for one, other in parts)


def agree(one: Compared) -> bool:
    """Whether all three answers are the same. What HTCondor refuses to evaluate is an error."""
    theirs = ["error"] if one.theirs == REFUSED else one.theirs
    return same(one.ours, theirs) and same(one.compiled, theirs)
