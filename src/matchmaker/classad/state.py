"""The state of one evaluation: its two ads, and the steps and seconds that it has used.

A step is about the work of one node of an expression. An attribute costs the nodes of its
expression, a call eight steps, and text a step for every four characters that go into a function or
come out; a function counts further work itself. So the bound holds for time and memory together,
and does not depend on the machine. The time in regular expressions, which no count of characters
foretells, is measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeGuard

import attrs

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.classad.values import ErrorType, Value

FOUR: Final = 2
"""The shift that divides a length by the characters of a step."""

LONG: Final = 1024
"""From this length on, text costs steps in operators too."""

CALL: Final = 8
"""The steps of a call: about what most functions take beside the operators of an expression."""


class OutOfBoundsError(Exception):
    """Ends an evaluation that went past a bound. Evaluation gives ERROR with its text."""


TOO_MANY_SECONDS: Final = f"patterns took the evaluation more than {LIMITS.seconds} seconds"
_EXHAUSTED: Final = re.compile(r"(?:evaluation took more than \d+ steps|" + TOO_MANY_SECONDS + ")$")


def too_many_steps(limit: int | None = None) -> str:
    """The reason of an evaluation that is ERROR because it takes more than `limit` steps."""
    return f"evaluation took more than {limit if limit is not None else Budget.limit} steps"


def exhausted(value: Value) -> TypeGuard[ErrorType]:
    """Whether a value is the ERROR of an evaluation that used up its steps or its seconds.

    >>> exhausted(ErrorType(too_many_steps(200))), exhausted(ErrorType("division by zero"))
    (True, False)
    """
    return isinstance(value, ErrorType) and _EXHAUSTED.search(value.reason) is not None


class Budget:
    """The bounds of one evaluation, and the steps and seconds used so far.

    A pool gives an evaluation less than ``match`` does, by setting ``limit`` and ``seconds``.
    """

    limit = LIMITS.steps
    seconds = LIMITS.seconds
    steps = 0
    searched = 0.0
    """Seconds spent in regular expressions."""

    def spend(self, steps: int) -> None:
        """Counts work. Raises OutOfBoundsError once it is too much."""
        self.steps += steps
        if self.steps > self.limit:
            raise OutOfBoundsError(too_many_steps(self.limit))


def bulk(value: Value) -> int:
    """The steps that a string or a list costs when it is made; nested lists count once.

    >>> bulk("x" * 40), bulk([1, 2, "x" * 40]), bulk(1.5)
    (10, 13, 0)
    """
    if isinstance(value, str):
        return len(value) >> FOUR
    if isinstance(value, list):
        return len(value) + sum(len(item) >> FOUR for item in value if isinstance(item, str))
    return 0


def cost(values: list[Value]) -> int:
    """The steps that a call costs for its arguments' sake: their text once for each list element.

    >>> cost(["x" * 40]), cost(["x" * 40, [1, 2, 3]]), cost([1, 2])
    (18, 51, 8)
    """
    text, items = 1, 0
    for value in values:
        if isinstance(value, str):
            text += len(value) >> FOUR
        elif isinstance(value, list):
            items += len(value)
    return CALL - 1 + text * (1 + items)


Table: TypeAlias = "Mapping[type, Callable[[Any, EvaluationState, ClassAd | None], Value]]"


class EvaluationState(Budget):
    """One evaluation: the two ads of the match, and the steps used."""

    # What few evaluations need stays with the class until it is set: a state is made for each one.
    active: set[tuple[int, str]] | None = None
    depth = 0
    nested: dict[tuple[int, Expr], ClassAd] | None = None
    context: ClassAd | None = None
    """The nested ad in which a function evaluates an expression of the match, if one does."""
    table: Table
    """A function for each kind of node: ``REFERENCE``, or one that watches it."""
    watched = False

    def __init__(
        self,
        left: ClassAd | None,
        right: ClassAd | None,
        ad: ClassAd | None = None,
        folded: str = "",
    ) -> None:
        self.left = left
        self.right = right
        # The attribute with which the evaluation began.
        self.ad = ad
        self.folded = folded

    def circular(self) -> None:
        """Called when the attribute being evaluated leads back to itself."""

    def opposite(self, ad: ClassAd | None) -> ClassAd | None:
        """The ad that is TARGET for an expression in `ad`."""
        if ad is None:
            return self.right
        root = ad.root
        if root is self.left:
            return self.right
        return self.left if root is self.right else None


@attrs.frozen(slots=True, eq=False)
class CallScope:
    """The place of an expression, for functions that evaluate their own arguments."""

    budget: EvaluationState
    ad: ClassAd | None

    def eval(self, node: Expr) -> Value:
        """The value of an expression here."""
        return self.budget.table[type(node)](node, self.budget, self.ad)

    def within(self, ad: ClassAd) -> CallScope:
        """The scope of an expression that stands in another ad of the same evaluation."""
        return CallScope(self.budget, ad)

    def in_context(self, ad: ClassAd, node: Expr) -> Value:
        """The value of an expression in a nested ad; bare names that it lacks may be in TARGET."""
        before, self.budget.context = self.budget.context, ad
        value = self.within(ad).eval(node)
        self.budget.context = before
        return value

    def against(self, other: ClassAd, node: Expr) -> Value:
        """The value of an expression here with another ad as TARGET."""
        state = self.budget
        before = state.left, state.right
        state.left, state.right = (None if self.ad is None else self.ad.root), other
        value = self.eval(node)
        state.left, state.right = before
        return value

    def spend(self, steps: int) -> None:
        """Counts work against the bound of the evaluation."""
        self.budget.spend(steps)
