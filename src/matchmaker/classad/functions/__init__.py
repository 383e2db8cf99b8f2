"""The built-in functions, by subject. ``FUNCTIONS`` holds them all under their folded names."""

from __future__ import annotations

from typing import Final

from matchmaker.classad.cache import remembered
from matchmaker.classad.functions import (  # noqa: F401 - each enters its functions
    control,
    conversions,
    environments,
    lists,
    numbers,
    patterns,
    stringlists,
    strings,
    times,
)
from matchmaker.classad.quoting import closest
from matchmaker.classad.registry import FUNCTIONS, UNFOLDABLE, Function, Trait, traits_of

__all__ = ["FUNCTIONS", "UNFOLDABLE", "Function", "Trait", "traits_of"]


# Functions of other languages, and what serves here.
_ELSEWHERE: Final = {
    "strlen": "size", "length": "size", "len": "size", "contains": "member", "in": "member",
    "upper": "toUpper", "lower": "toLower", "concat": "strcat", "if": "ifThenElse",
    "iff": "ifThenElse", "coalesce": "", "match": "regexp", "substring": "substr",
}  # fmt: skip

STEPS: Final = 500
"""The steps that the search for a similar name costs an evaluation."""


@remembered("functions that may be meant", 1 << 16)
def instead(name: str) -> str:
    """The name of the function that was probably meant, or empty.

    >>> instead("siez"), instead("strlen"), instead("foo")
    ('size', 'size', '')
    """
    known = {folded: function.name for folded, function in FUNCTIONS.items()}
    # Two letters in the wrong order make a name of four as unlike as this, foo() as unlike floor().
    likeness = 0.75 if len(name) > 3 else 0.8
    return _ELSEWHERE.get(name.lower()) or closest(name, known, likeness)


def unknown(name: str) -> str:
    """The error message for an unknown function.

    >>> unknown("memebr"), unknown("frobnicate")
    ('there is no function memebr(); did you mean member()?', 'there is no function frobnicate()')
    """
    like = instead(name[:60])
    return f"there is no function {name[:60]}()" + (f"; did you mean {like}()?" if like else "")
