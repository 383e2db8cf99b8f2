"""What callers give, checked: an ad, several, an expression. Anything else is a TypeError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.bindings import is_ad
from matchmaker.classad.nodes import Expr, no_ad
from matchmaker.classad.parser import parse_expr


def an_ad(given: object) -> ClassAd:
    """What was given as an ad: ours, or one of HTCondor's Python bindings.

    Raises TypeError for anything else, such as an ad's text.

    >>> an_ad("[ a = 1 ]")
    Traceback (most recent call last):
    ...
    TypeError: an ad was expected, not str; parse_ad() makes one of a text
    """
    if isinstance(given, ClassAd):
        return given
    if is_ad(given):
        return ClassAd(given)
    raise no_ad(given)


def some_ads(given: object) -> Iterator[ClassAd]:
    """The ads that were given. Raises TypeError at once where they are not several things.

    >>> some_ads("[ a = 1 ]")
    Traceback (most recent call last):
    ...
    TypeError: several ads were expected, not str; parse_ads() makes them of a text
    """
    if is_ad(given) or isinstance(given, (str, bytes, ClassAd)) or not isinstance(given, Iterable):
        text = isinstance(given, (str, bytes))
        advice = "; parse_ads() makes them of a text" if text else ", such as a list of them"
        raise TypeError(f"several ads were expected, not {type(given).__name__}{advice}")
    return map(an_ad, given)


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
