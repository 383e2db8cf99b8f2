"""The strategies of ``matchmaker.testing``, and those of them that HTCondor's library can be asked.

It reads no times that are written as constants, counts bytes where we count characters, and some of
its functions are listed as different.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from matchmaker import ClassAd, Expr, Value, testing
from matchmaker.classad.operators import MIRRORED
from matchmaker.classad.values import ERROR, UNDEFINED
from matchmaker.testing import (
    NAMES,
    boolean_expressions,
    integers,
    number_expressions,
    plain_values,
    reals,
    text_expressions,
    texts,
    times,
    values,
)
from matchmaker.testing import references as attributes

__all__ = [
    "NAMES",
    "RELATIONS",
    "ads",
    "attributes",
    "boolean_expressions",
    "constants",
    "expressions",
    "number_expressions",
    "plain_values",
    "text_expressions",
    "texts",
    "times",
    "values",
]

RELATIONS: Final = tuple(MIRRORED)

# Functions on which both agree whatever they are given, an unknown one among them.
CALLS: Final = (
    ("size", 1), ("isUndefined", 1), ("isError", 1), ("isString", 1), ("int", 1), ("real", 1),
    ("bool", 1), ("floor", 1), ("member", 2), ("identicalMember", 2), ("ifThenElse", 3),
    ("strcmp", 2), ("substr", 2), ("sum", 1), ("max", 1), ("min", 1), ("regexp", 2),
    ("stringListMember", 2), ("versioncmp", 2), ("nothing", 1),
)  # fmt: skip


def constants() -> st.SearchStrategy[Value]:
    """Constants that HTCondor reads as we do."""
    exceptional: st.SearchStrategy[Value] = st.sampled_from((UNDEFINED, ERROR))
    ascii_texts = st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=5)
    words = st.sampled_from(("a", "A", "10", "true"))
    return exceptional | st.booleans() | integers() | reals() | ascii_texts | words


def expressions(max_leaves: int = 12) -> st.SearchStrategy[Expr]:
    """Trees of any kind."""
    depth = 1 if max_leaves < 6 else 3
    return testing.expressions(constants=constants(), calls=CALLS, max_depth=depth)


def ads(max_size: int = 5) -> st.SearchStrategy[ClassAd]:
    """Ads of small expressions, which may refer to each other, in circles too."""
    return st.dictionaries(
        st.sampled_from(NAMES), expressions(max_leaves=4), max_size=max_size
    ).map(ClassAd)
