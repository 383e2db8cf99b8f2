"""What callers give as ads, checked: one, or several. Anything else is a TypeError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.bindings import is_ad


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
    raise TypeError(
        f"an ad was expected, not {type(given).__name__}; parse_ad() makes one of a text"
    )


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
