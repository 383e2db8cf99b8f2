"""Hypothesis strategies for values, expressions and ads of the language.

``expressions`` makes trees of any kind, most of which have an exceptional value somewhere;
``number_expressions``, ``text_expressions`` and ``boolean_expressions`` make sensible ones.
Every tree is one that the parser could have made: it reads back as itself.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from hypothesis import strategies as st

from matchmaker import ClassAd
from matchmaker.classad.nodes import (
    FALSE,
    TRUE,
    AdExpr,
    Attr,
    Binary,
    Call,
    Expr,
    ListExpr,
    Literal,
    Subscript,
    Ternary,
    Unary,
)
from matchmaker.classad.operators import BINARY
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED, Value

NAMES: Final = ("a", "b", "c", "Cpus", "Memory", "x y")

ARITHMETIC: Final = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>")
RELATIONS: Final = ("==", "!=", "<", "<=", ">", ">=", "is", "isnt")

# Functions that are total on anything, by how many arguments they are given here.
CALLS: Final = (
    ("size", 1), ("isUndefined", 1), ("isError", 1), ("isString", 1), ("int", 1), ("real", 1),
    ("bool", 1), ("floor", 1), ("member", 2), ("identicalMember", 2), ("ifThenElse", 3),
    ("strcmp", 2), ("substr", 2), ("sum", 1), ("max", 1), ("min", 1), ("regexp", 2),
    ("stringListMember", 2), ("versioncmp", 2), ("nothing", 1),
)  # fmt: skip


def integers() -> st.SearchStrategy[int]:
    """64-bit integers, often small or at the edge."""
    edges = st.sampled_from((MIN_INT, MIN_INT + 1, -1, 0, 1, 63, 64, 2**53 + 1, MAX_INT))
    return st.integers(-10, 10) | edges | st.integers(MIN_INT, MAX_INT)


def reals() -> st.SearchStrategy[float]:
    """Reals of every kind."""
    return st.sampled_from((0.0, -0.0, 0.5, 2.5, -1.5)) | st.floats()


def texts() -> st.SearchStrategy[str]:
    """Strings: words, numbers, and any characters that a string can hold."""
    words = st.sampled_from(("", "a", "A", "abc", "10", "9", "true", "a, b", 'say "hi"', "x\ty\\"))
    characters = st.characters(codec="utf-8", exclude_characters="\0")
    return words | st.text(characters, max_size=8)


def times() -> st.SearchStrategy[datetime | timedelta]:
    """Absolute times with offsets of whole seconds, and relative ones."""
    offsets = st.integers(-86399, 86399).map(lambda s: timezone(timedelta(seconds=s)))
    absolute = st.datetimes(timezones=st.just(UTC) | offsets)
    return absolute | st.timedeltas()


def plain_values() -> st.SearchStrategy[Value]:
    """Values without parts."""
    exceptional: st.SearchStrategy[Value] = st.sampled_from((UNDEFINED, ERROR))
    return exceptional | st.booleans() | integers() | reals() | texts() | times()


def values() -> st.SearchStrategy[Value]:
    """Values of every type, lists and ads among them."""
    return st.recursive(
        plain_values(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3).map(ClassAd)
        ),
        max_leaves=8,
    )


def literals() -> st.SearchStrategy[Expr]:
    """Constants that HTCondor reads as we do: no times."""
    constants: st.SearchStrategy[Value] = st.sampled_from((UNDEFINED, ERROR))
    ascii_texts = st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=5)
    return (
        constants | st.booleans() | integers() | reals() | ascii_texts
        | st.sampled_from(("a", "A", "10", "true"))
    ).map(Literal)  # fmt: skip


def attributes() -> st.SearchStrategy[Expr]:
    """Names, bare and after MY and TARGET."""
    scopes = st.sampled_from((None, None, Attr(None, "MY", False), Attr(None, "TARGET", False)))
    return st.builds(Attr, scopes, st.sampled_from(NAMES), st.just(False))


def _larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    items = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Unary, st.sampled_from("-+!~"), inner),
        st.builds(Binary, st.sampled_from(sorted(BINARY)), inner, inner),
        st.builds(Binary, st.sampled_from(("&&", "||")), inner, inner),
        st.builds(Ternary, inner, inner, inner),
        st.builds(Subscript, inner, inner),
        st.builds(Attr, inner, st.sampled_from(NAMES), st.just(False)),
        st.builds(ListExpr, items),
        st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=3).map(_ad),
        st.sampled_from(CALLS).flatmap(
            lambda call: st.lists(inner, min_size=call[1], max_size=call[1]).map(
                lambda arguments: Call(call[0], tuple(arguments))
            )
        ),
    )


def _ad(entries: list[tuple[str, Expr]]) -> Expr:
    unique = dict(entries)
    return AdExpr(tuple(unique), tuple(unique.values()))


def expressions(max_leaves: int = 12) -> st.SearchStrategy[Expr]:
    """Trees of any kind."""
    return st.recursive(literals() | attributes(), _larger, max_leaves=max_leaves)


def number_expressions() -> st.SearchStrategy[Expr]:
    """Trees whose value is a number, or whose arithmetic goes wrong."""
    leaves = (integers() | reals()).map(Literal)
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Binary, st.sampled_from(ARITHMETIC), inner, inner)
            | st.builds(Unary, st.just("-"), inner)
            | st.builds(Ternary, st.builds(Binary, st.sampled_from(RELATIONS), inner, inner),
                        inner, inner)
        ),
        max_leaves=10,
    )  # fmt: skip


def text_expressions() -> st.SearchStrategy[Expr]:
    """Trees whose value is a string."""
    return st.recursive(
        texts().map(Literal),
        lambda inner: st.lists(inner, max_size=3).map(lambda parts: Call("strcat", tuple(parts))),
        max_leaves=6,
    )


def boolean_expressions() -> st.SearchStrategy[Expr]:
    """Conditions: comparisons joined with ``&&``, ``||`` and ``!``, undefined ones among them."""
    small = st.integers(-3, 3).map(Literal) | st.sampled_from((0.5, 2.0)).map(Literal)
    sides = small | attributes()
    comparisons = st.builds(Binary, st.sampled_from(RELATIONS), sides, sides)
    constants = st.sampled_from(
        (TRUE, FALSE, Literal(UNDEFINED), Literal(ERROR), Literal(0), Literal(1))
    )
    return st.recursive(
        comparisons | constants,
        lambda inner: (
            st.builds(Binary, st.sampled_from(("&&", "||")), inner, inner)
            | st.builds(Unary, st.just("!"), inner)
            | st.builds(Ternary, inner, inner, inner)
        ),
        max_leaves=10,
    )


def ads(max_size: int = 5) -> st.SearchStrategy[ClassAd]:
    """Ads of small expressions, which may refer to each other, in circles too."""
    return st.dictionaries(
        st.sampled_from(NAMES), expressions(max_leaves=4), max_size=max_size
    ).map(ClassAd)
