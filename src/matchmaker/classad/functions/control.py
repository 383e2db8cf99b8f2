"""Functions that decide what is evaluated: ifThenElse, eval and debug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matchmaker.classad.functions.registry import lazy_function
from matchmaker.classad.operators import truth
from matchmaker.classad.values import Value

if TYPE_CHECKING:
    from matchmaker.classad.evaluate import Scope
    from matchmaker.classad.nodes import Expr


@lazy_function("ifThenElse", 3)
def if_then_else(arguments: tuple[Expr, ...], scope: Scope) -> Value:
    """ifThenElse(c, a, b): a where c is true (or a number other than 0), b where it is false.

    Undefined and error pass through c; a string as c is an error. Only the branch taken is evaluated.

    >>> from matchmaker import parse_expr
    >>> parse_expr('ifThenElse(2 > 1, "yes", 1 / 0)').eval()
    'yes'
    """
    condition = truth(scope.eval(arguments[0]))
    if not isinstance(condition, bool):
        return condition
    return scope.eval(arguments[1] if condition else arguments[2])
