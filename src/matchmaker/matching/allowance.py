"""What several evaluations for one question may take together. Ads come from strangers."""

from __future__ import annotations

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.limits import Budget, exhausted, too_many_steps
from matchmaker.classad.nodes import Expr
from matchmaker.classad.values import ErrorType, Value


class Allowance:
    """Steps and seconds that evaluations share; by default those of one evaluation.

    >>> from matchmaker import parse_expr
    >>> allowance = Allowance(4)
    >>> allowance.value(parse_expr("1 + 2"), None, None)
    3
    >>> allowance.value(parse_expr("1 + 2"), None, None)
    ERROR(evaluation took more than 4 steps)
    """

    __slots__ = ("left", "most", "seconds")

    def __init__(self, most: int | None = None) -> None:
        self.most = self.left = most if most is not None else Budget.limit
        self.seconds = Budget.seconds

    def value(
        self, node: Expr, my: ClassAd | None, target: ClassAd | None, inside: str = ""
    ) -> Value:
        """The value of an expression; ERROR where it takes more than is left."""
        within = Budget()
        within.limit, within.seconds = min(self.left, Budget.limit), self.seconds
        value, used = evaluate_counted(node, my, target, inside, within)
        self.left = max(0, self.left - used.steps)
        self.seconds = max(0.0, self.seconds - used.searched)
        return ErrorType(too_many_steps(self.most)) if exhausted(value) else value
