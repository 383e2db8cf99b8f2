"""What callers of matching give, checked: expressions, and jobs whose names hide nothing.

Ads are checked in ``classad.given``.
"""

from __future__ import annotations

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.references import WORDS


def with_scopes(job: ClassAd) -> ClassAd:
    """The job without attributes named like scopes, for expressions that are not its own.

    In the job's own expressions such a name hides the scope. It must hide no queue from the broker,
    and from the policy of a cycle neither the job's requests nor its owner.

    >>> print(with_scopes(ClassAd(Owner="ada", other=1, My=2)))
    [ Owner = "ada" ]
    """
    if WORDS.isdisjoint(job.content):
        return job
    return ClassAd((name, held) for name, held in job.items() if ascii_fold(name) not in WORDS)


def an_expression(given: Expr | str) -> Expr:
    """The expression that was given, perhaps as text. Raises ParseError, and TypeError for others.

    >>> an_expression(3)
    Traceback (most recent call last):
    ...
    TypeError: an expression was expected, as an Expr or as text, not int
    """
    if isinstance(given, str):
        return parse_expr(given)
    if isinstance(given, Expr):
        return given
    raise TypeError(
        f"an expression was expected, as an Expr or as text, not {type(given).__name__}"
    )
