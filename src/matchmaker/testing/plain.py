"""Strategies for values of the language, and for names of attributes.

The simplest value of each comes first, and what is at the edge of a type comes often.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from hypothesis import strategies as st

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED, ErrorType, Value

NAMES: Final = ("a", "b", "c", "Cpus", "Memory", "x y")
"""A few names of attributes, so few that expressions meet the attributes of ads."""

_EDGES: Final = (0, 1, -1, 63, 64, 2**53 + 1, MAX_INT, MIN_INT + 1, MIN_INT)

# What a string or a name can hold: no NUL, and no half of a surrogate pair.
_CHARACTERS: Final = st.characters(codec="utf-8", exclude_characters="\0")


def names() -> st.SearchStrategy[str]:
    """Names of attributes: a few that come again and again, plain words, and odd ones to be quoted.

    >>> from hypothesis import find
    >>> find(names(), lambda name: " " in name and "x" in name)
    'x y'
    """
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
    words = st.builds(
        str.__add__, st.sampled_from(letters), st.text(letters + "0123456789", max_size=8)
    )
    return st.sampled_from(NAMES) | words | st.text(_CHARACTERS, min_size=1, max_size=5)


def integers() -> st.SearchStrategy[int]:
    """Integers of 64 bits, often small or at the edge.

    >>> from hypothesis import find
    >>> find(integers(), lambda n: n > 100)
    101
    """
    return _integers()


@st.composite
def _integers(draw: st.DrawFn) -> int:
    # Always two draws: an edge that is not needed shrinks to any number, and that to the smallest.
    kind, number = draw(st.integers(0, 7)), draw(st.integers(MIN_INT, MAX_INT))
    if kind < 4:
        return number
    return number % 21 - 10 if kind < 6 else _EDGES[number % len(_EDGES)]


def reals() -> st.SearchStrategy[float]:
    """Reals of every kind: infinite ones, NaN and ``-0.0`` among them.

    >>> from hypothesis import find
    >>> find(reals(), lambda x: x != x), find(reals(), lambda x: x > 2.5)
    (nan, 3.0)
    """
    return st.sampled_from((0.0, 0.5, 2.5, -1.5, -0.0)) | st.floats()


def texts() -> st.SearchStrategy[str]:
    """Strings: words, numbers in quotes, lists in strings, and any characters a string can hold.

    >>> from hypothesis import find
    >>> find(texts(), lambda text: "a" in text and ", " in text)
    'a, b'
    """
    return _texts()


_WORDS: Final = ("a", "A", "abc", "10", "9", "true", "a, b", 'say "hi"', "x\ty\\")
_ANY_TEXT: Final = st.text(_CHARACTERS, max_size=8)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    # As with integers: a word that is not needed shrinks to any text.
    kind, text = draw(st.integers(0, 7)), draw(_ANY_TEXT)
    return text if kind < 4 else draw(st.sampled_from(_WORDS))


def times() -> st.SearchStrategy[datetime | timedelta]:
    """Absolute times with offsets of whole seconds, and relative ones.

    >>> from hypothesis import find
    >>> find(times(), lambda time: isinstance(time, timedelta))
    datetime.timedelta(0)
    """
    offsets = st.integers(-86399, 86399).map(lambda s: timezone(timedelta(seconds=s)))
    absolute = st.datetimes(timezones=st.just(UTC) | offsets)
    return st.timedeltas() | absolute


def exceptional() -> st.SearchStrategy[Value]:
    """UNDEFINED, ERROR, and errors with a reason. An ad keeps of all errors only that they are.

    >>> from hypothesis import find
    >>> find(exceptional(), lambda value: value is not UNDEFINED) == ERROR
    True
    """
    found: tuple[Value, ...] = (UNDEFINED, ERROR, ErrorType("integer division by zero"))
    return st.sampled_from(found)


def plain_values() -> st.SearchStrategy[Value]:
    """Values without parts: booleans, numbers, strings, times, UNDEFINED and ERROR.

    >>> from hypothesis import find
    >>> find(plain_values(), lambda value: type(value) is int and value > 5)
    6
    """
    return st.booleans() | integers() | reals() | texts() | times() | exceptional()


def values(max_depth: int = 2) -> st.SearchStrategy[Value]:
    """Values of every type, lists and ads of them too.

    Args:
        max_depth: how many lists and ads stand within each other at most.

    >>> from hypothesis import find
    >>> len(find(values(), lambda value: isinstance(value, list) and len(value) > 1))
    2
    """
    plain = plain_values()
    found = plain
    for _ in range(max_depth):
        found = _values(plain, found)
    return found


_SHAPES: Final = st.sampled_from(("plain", "plain", "list", "ad"))


@st.composite
def _values(
    draw: st.DrawFn, plain: st.SearchStrategy[Value], inner: st.SearchStrategy[Value]
) -> Value:
    shape = draw(_SHAPES)
    if shape == "list":
        return draw(st.lists(inner, max_size=3))
    if shape == "ad":
        return ClassAd(draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)))
    return draw(plain)
