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
from matchmaker.classad import nodes
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.functions import (
    BOOLEAN,
    INSIDE,
    UNFOLDABLE,
    Trait,
    Traits,
    result_of,
    traits_of,
)
from matchmaker.classad.nodes import AdExpr, Attr, Binary, Call, Expr, Literal
from matchmaker.classad.operators import CONNECTIVES, IDENTITY, RELATIONS
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import unparse
from matchmaker.classad.reference import REFERENCE, admit, run
from matchmaker.classad.state import (
    Budget,
    EvaluationState,
    OutOfBoundsError,
    exhausted,
    too_many_steps,
)
from matchmaker.classad.values import UNDEFINED, ErrorType, Value
from matchmaker.classad.walks import children, fold, names_of, rebuild, references

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
) -> EvaluationState:
    state = EvaluationState(my.root if my is not None else None, target, my, inside)
    if within is not None:
        state.limit, state.seconds = within.limit, within.seconds
    if inside:
        state.depth = node.depth
    return state


def _begun(node: Expr, my: ClassAd | None, target: ClassAd | None, state: EvaluationState) -> Value:
    admit(node, state)
    return run(node, my, target, state)


_UNDECIDED: Final = UNFOLDABLE | {Trait.CHANCE}


def simplify(node: Expr, my: ClassAd | None = None, target: ClassAd | None = None) -> Expr:
    """See :meth:`Expr.simplify`."""
    return literal(evaluate(node, my, target))


def flatten(node: Expr, my: ClassAd | None = None) -> Value | Expr:
    """See :meth:`Expr.flatten`."""
    return _Flattening(ClassAd() if my is None else my).of(node)


class _Flattening:
    """Replace the parts of an expression that one ad decides by their values."""

    def __init__(self, ad: ClassAd) -> None:
        self._ad = ad
        self._known: dict[str, bool] = {}

    def of(self, root: Expr) -> Value | Expr:
        node = fold(root, self._step)
        if node is None:
            return evaluate(root, self._ad)
        return node.value if isinstance(node, Literal) else node

    def _step(self, node: Expr, parts: tuple[Expr | None, ...]) -> Expr | None:
        """Rewrite a node by its rewritten parts; None if the ad decides its value.

        So only the largest parts that the ad decides are evaluated, each once.
        """
        if isinstance(node, Attr):
            scope = nodes.scope_of(node)
            own = scope in nodes.MY_SCOPES and scope not in self._ad
            if own or node.base is None:
                return None if not node.absolute and self._decides(node.folded) else node
        traits: Traits = frozenset()
        if isinstance(node, Call):
            traits = traits_of(node.function, len(node.arguments))
        if isinstance(node, AdExpr) or traits & INSIDE:
            # In there names mean something else.
            return node
        if all(part is None for part in parts) and not traits & _UNDECIDED:
            return None
        old = children(node)
        new = [self._valued(old[at]) if part is None else part for at, part in enumerate(parts)]
        return _shorter(rebuild(node, tuple(new)))

    def _valued(self, node: Expr) -> Expr:
        value = evaluate(node, self._ad)
        return node if isinstance(value, (list, ClassAd)) else literal(value)

    def _decides(self, name: str) -> bool:
        """Whether the value of an attribute depends on no other ad and on no moment."""
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            folded = waiting.pop()
            if folded in seen or self._known.get(folded):
                continue
            seen.add(folded)
            if folded not in self._ad:
                # The other ad may have it.
                return self._known.setdefault(name, False)
            held: Any = self._ad[folded]
            names = names_of(held if isinstance(held, Expr) else nodes.TRUE)
            if names.opaque or names.volatile or names.target or names.traits & _UNDECIDED:
                return self._known.setdefault(name, False)
            waiting += names.bare | {each for each in names.my if each in self._ad}
        self._known |= dict.fromkeys(seen, True)
        return True


def _shorter(node: Expr) -> Expr:
    """Drop an operand that a constant makes idle, if that changes no value."""
    if isinstance(node, nodes.Ternary) and isinstance(node.condition, Literal):
        chosen = {True: node.then, False: node.otherwise}
        value = node.condition.value
        return chosen[value] if isinstance(value, bool) else node
    if not isinstance(node, Binary):
        return node
    left, right = node.left, node.right
    if node.operator == "?:" and isinstance(left, Literal):
        return right if left.value is UNDEFINED else left
    if node.operator in CONNECTIVES:
        idle = node.operator == "&&"
        if isinstance(left, Literal) and isinstance(left.value, bool):
            if left.value is not idle:
                return left
            return right if _is_condition(right) else node
        if isinstance(right, Literal) and right.value is idle and _is_condition(left):
            return left
    return node


def _is_condition(node: Expr) -> bool:
    """Whether a value can only be true or false, undefined or an error."""
    if isinstance(node, Binary):
        return node.operator in RELATIONS | IDENTITY | CONNECTIVES
    if isinstance(node, nodes.Unary):
        return node.operator == "!"
    return isinstance(node, Call) and result_of(node.function) == BOOLEAN


# Nodes and ads are imported by every module that does something with them. Their methods call these
# functions through the table, so that no import goes in a circle.
nodes.METHODS.update(
    evaluate=evaluate,
    evaluate_attribute=evaluate_attribute,
    flatten=flatten,
    parse_expr=parse_expr,
    references=references,
    simplify=simplify,
    unparse=unparse,
)
