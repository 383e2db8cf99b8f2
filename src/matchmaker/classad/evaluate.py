"""The value of an expression: how an evaluation begins, and how it ends within its bounds.

Depth and work are bounded (``limits``); past a bound the value is ERROR with its reason. If the
caller's stack is too short for what the bounds allow, the evaluation is done once more with room
for it (``_stack``). The value of each kind of node is in ``reference``.

Every evaluation of the library begins here, so none escapes its bounds: those of one evaluation,
those that its caller gives, or those of its question (``charged``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker._stack import room
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.classad.reference import REFERENCE, admit, run
from matchmaker.classad.state import Budget, OutOfBoundsError, State, exhausted, too_many_steps
from matchmaker.classad.values import UNDEFINED, ErrorType, Value

TOO_DEEP: Final = "evaluation nested too deep for Python's stack"

_T = TypeVar("_T")
_P = ParamSpec("_P")
_question: Final[ContextVar[Allowance | None]] = ContextVar("question", default=None)


class Allowance:
    """Steps and seconds that evaluations share; by default those of one evaluation.

    >>> from matchmaker import parse_expr
    >>> allowance = Allowance(4)
    >>> allowance.value(parse_expr("1 + 2"), None, None)
    3
    >>> allowance.value(parse_expr("1 + 2"), None, None)
    ERROR(evaluation took more than 4 steps)
    """

    __slots__ = ("each", "least", "left", "most", "seconds")

    def __init__(
        self,
        most: int | None = None,
        seconds: float | None = None,
        *,
        each: int = 0,
        least: float = 0.0,
    ) -> None:
        """`each` and `least` are steps and seconds that an evaluation has even when all is gone."""
        self.most = self.left = most if most is not None else Budget.limit
        self.seconds = seconds if seconds is not None else Budget.seconds
        self.each = each
        self.least = least

    @classmethod
    def of_question(cls) -> Allowance:
        """The allowance of a question about one job and any number of ads."""
        return cls(
            LIMITS.question,
            LIMITS.question_seconds,
            each=LIMITS.question_each,
            least=LIMITS.question_least,
        )

    def value(
        self, node: Expr, my: ClassAd | None, target: ClassAd | None, inside: str = ""
    ) -> Value:
        """The value of an expression; ERROR if it takes more than is left."""
        question = _question.get()
        within = Budget()
        self.bound(within)
        if question is not None:
            question.bound(within)
        value, used = evaluate_counted(node, my, target, inside, within)
        self.note(used)
        if question is not None:
            question.note(used)
        return ErrorType(too_many_steps(self.most)) if exhausted(value) else value

    def bound(self, budget: Budget) -> None:
        """Lower the bounds of the next evaluation to the rest of the allowance."""
        budget.limit = min(budget.limit, max(self.each, self.left))
        # Patterns that take all they may are rarely alone: the next ones shall have some as well.
        seconds = self.seconds / 4 if self.least else self.seconds
        budget.seconds = min(budget.seconds, max(seconds, self.least))

    def note(self, used: Budget) -> None:
        """Subtract the steps and seconds of an evaluation."""
        self.left = max(0, self.left - used.steps)
        self.seconds = max(0.0, self.seconds - used.searched)


def charged(function: Callable[_P, _T], allowance: Allowance | None = None) -> Callable[_P, _T]:
    """Makes all evaluations of a call share one allowance, that of its caller if that has one.

    An evaluation is charged wherever it begins, so whoever answers a question about many ads need
    not hand the allowance on. Calls share `allowance` if one is given. Not for generators, whose
    work is done after the call.

    >>> from matchmaker import parse_expr
    >>> slow = parse_expr('regexp("(x+x+)+y", s)')
    >>> charged(lambda ads: {slow.eval(ad) is True for ad in ads})([ClassAd(s="xxy")] * 9)
    {True}
    """

    @wraps(function)
    def within_allowance(*args: _P.args, **more: _P.kwargs) -> _T:
        if _question.get() is not None:
            return function(*args, **more)
        token = _question.set(Allowance.of_question() if allowance is None else allowance)
        try:
            return function(*args, **more)
        finally:
            _question.reset(token)

    return within_allowance


def evaluate(
    node: Expr, my: ClassAd | None = None, target: ClassAd | None = None, inside: str = ""
) -> Value:
    """The value of `node` as an expression of the ad `my` matched with `target`. Never raises.

    ``inside`` is the folded name of the attribute of `my` that the expression is a part of, if any:
    a reference to that one leads in a circle.

    >>> from matchmaker import parse_expr
    >>> evaluate(parse_expr("[a = 1; b = [c = a]].b.c"))
    1
    """
    compiled = node.run
    # Functions of expressions are not for ads that stand in others.
    if (
        compiled is None
        or _question.get() is not None
        or my is None
        or my.parent is not None
        or (target is not None and target.parent is not None)
    ):
        return evaluate_counted(node, my, target, inside)[0]
    try:
        return compiled(my, target, None, inside)
    except OutOfBoundsError as end:
        return ErrorType(str(end))
    except RecursionError:
        return _with_room(compiled, my, target, None, inside)


def evaluate_attribute(
    ad: ClassAd, folded: str, target: ClassAd | None = None, missing: Value = UNDEFINED
) -> Value:
    """The value of an attribute of `ad` matched with `target`; `missing` if there is none."""
    held: Any = ad._held.get(folded, missing)
    if type(held) not in REFERENCE:
        return held  # type: ignore[no-any-return]
    compiled = held.run
    # As evaluate() does, whose call is saved here: this is most of what a match does.
    if (
        compiled is None
        or _question.get() is not None
        or ad.parent is not None
        or (target is not None and target.parent is not None)
    ):
        return evaluate_counted(held, ad, target, folded)[0]
    try:
        return compiled(ad, target, None, folded)  # type: ignore[no-any-return]
    except OutOfBoundsError as end:
        return ErrorType(str(end))
    except RecursionError:
        return _with_room(compiled, ad, target, None, folded)


def _with_room(work: Callable[..., Value], *arguments: Any) -> Value:
    """Repeat an evaluation with room on the stack."""
    with room():
        try:
            return work(*arguments)
        except OutOfBoundsError as end:
            return ErrorType(str(end))
        except RecursionError:
            return ErrorType(TOO_DEEP)


def evaluate_counted(
    node: Expr,
    my: ClassAd | None,
    target: ClassAd | None,
    inside: str = "",
    within: Budget | None = None,
) -> tuple[Value, Budget]:
    """Evaluate an expression, and return the steps and seconds used; `within` sets bounds.

    >>> from matchmaker import parse_expr
    >>> value, used = evaluate_counted(parse_expr("1 + 2"), None, None)
    >>> value, used.steps
    (3, 3)
    """
    question = _question.get() if within is None else None
    state = _state(node, my, target, inside, within)
    if question is not None:
        question.bound(state)
    value: Value
    try:
        value = _begun(node, my, target, state)
    except OutOfBoundsError as end:
        value = ErrorType(str(end))
    except RecursionError:
        state = _state(node, my, target, inside, state)
        value = _with_room(_begun, node, my, target, state)
    if question is not None:
        question.note(state)
    return value, state


def _state(
    node: Expr, my: ClassAd | None, target: ClassAd | None, inside: str, within: Budget | None
) -> State:
    state = State(my.root if my is not None else None, target, my, inside)
    if within is not None:
        state.limit, state.seconds = within.limit, within.seconds
    if inside:
        state.depth = node.depth
    return state


def _begun(node: Expr, my: ClassAd | None, target: ClassAd | None, state: State) -> Value:
    admit(node, state)
    return run(node, my, target, state)
